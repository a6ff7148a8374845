//! [`CustodyCounters`]: events of custody, counted.

/// Events that were counted since the value was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CustodyCounters {
    /// Bundles of which this node took custody.
    pub accepted: u64,
    /// Bundles of which the node refused custody, and said so.
    pub refused: u64,
    /// Bundles of which another node has custody by its signal.
    pub released: u64,
    /// Bundles of which another node refused custody by its signal.
    pub refused_there: u64,
    /// Bundles for which no signal came in time.
    pub timed_out: u64,
    /// Signals, and runs of IDs in them, that name no bundle whose custody is asked for.
    pub unknown: u64,
    /// Signals that came and were left, since too many others had not been polled.
    pub signals_left: u64,
    /// Signals that this node owed and could not keep, since too many others had not been polled.
    pub signals_dropped: u64,
    /// Bundles of which custody was not taken, since there is no room for more or all IDs were given.
    pub without_room: u64,
    /// Notes of bundles from an earlier run that cannot be read, or name an ID that another bundle has.
    pub notes_refused: u64,
    /// Events that the state of a bundle does not have: mistakes of the caller.
    pub transitions_refused: u64,
}
