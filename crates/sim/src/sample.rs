//! The network at one instant, for plots.

use dhow_bundle::Instant;

/// The network at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The time.
    pub at: Instant,
    /// Machines that are up.
    pub up: u64,
    /// Payloads given to nodes so far.
    pub sent: u64,
    /// Payloads delivered so far.
    pub delivered: u64,
    /// Bundles in all stores.
    pub bundles: u64,
    /// Octets of them.
    pub octets: u64,
}
