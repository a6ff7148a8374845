//! Counts of the drivers.

use crate::telemetry::TelemetryTotals;

/// Counts that the drivers keep, for metrics; all since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCounts {
    /// Neighbours' connections accepted.
    pub accepted: u64,
    /// Applications' connections accepted.
    pub clients: u64,
    /// Applications' connections that had not said what they are for, cut to make place for others.
    pub clients_cut: u64,
    /// Applications' connections closed at once because there was no place.
    pub clients_refused: u64,
    /// Neighbours' connections that came when there were too many: closed, or given another's place.
    pub held_back: u64,
    /// Neighbours' connections that came when their address had as many as it may: closed, or given another's place.
    pub held_back_by_address: u64,
    /// Connections dialled.
    pub dialled: u64,
    /// Attempts to dial that failed.
    pub dial_failures: u64,
    /// Octets read from sockets.
    pub octets_in: u64,
    /// Octets written to sockets.
    pub octets_out: u64,
    /// Addresses heard that are no link's.
    pub strangers: u64,
    /// Addresses of those that gave way to others.
    pub strangers_cut: u64,
    /// Datagrams that came.
    pub datagrams_in: u64,
    /// Datagrams that left.
    pub datagrams_out: u64,
    /// Datagrams that came and were not taken: from an address that is no link's where nobody listens, or while the node took none.
    pub datagrams_ignored: u64,
    /// Datagrams that the system dropped before they were read.
    pub datagrams_overflowed: u64,
    /// Datagrams that the system refused to send.
    pub datagrams_refused: u64,
    /// Beacons that left, one for each interface and format.
    pub beacons_sent: u64,
    /// Beacons that the system refused to send.
    pub beacons_unsent: u64,
    /// TLS handshakes that failed.
    pub insecure: u64,
    /// Reads of stored octets that the disk refused.
    pub read_failures: u64,
    /// Totals of telemetry, where the node file asks for it.
    pub telemetry: Option<TelemetryTotals>,
}
