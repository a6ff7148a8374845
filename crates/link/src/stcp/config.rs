//! The configuration of a session.

use core::time::Duration;

use super::Framing;

/// The form of bundles, and the limits of a session.
#[derive(Clone, Debug)]
pub struct Config {
    /// The form of bundles, the same at both sides.
    pub framing: Framing,
    /// The time without an octet after which the side that dialled sends a keep-alive, where the framing has any; `None` for none.
    /// Default 15 s, as ION and DTNME have it.
    pub keepalive: Option<Duration>,
    /// Longest bundle that is taken, octets. Default 1 TiB: the store refuses long before.
    pub transfer_mru: u64,
    /// End the session when no bundle has moved for so long; `None` (the default) for never.
    pub idle_timeout: Option<Duration>,
    /// End the session when a bundle that has begun to come has come no further for so long, though octets of it were
    /// wanted; `None` (the default) for never.
    pub transfer_timeout: Option<Duration>,
    /// The time that an ending session waits without any octet moving. Default 10 s.
    pub termination_timeout: Duration,
}

impl Config {
    /// The defaults for this form of bundles.
    #[must_use]
    pub const fn new(framing: Framing) -> Self {
        Self {
            framing,
            keepalive: Some(Duration::from_secs(15)),
            transfer_mru: 1 << 40,
            idle_timeout: None,
            transfer_timeout: None,
            termination_timeout: Duration::from_secs(10),
        }
    }
}
