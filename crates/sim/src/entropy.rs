//! All chance in a simulated world, by its purpose.

pub use dhow_scenario::Entropy;

/// A purpose of random numbers: each has streams of its own, so that more of one do not change another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The seeds of nodes.
    Node,
    /// The octets that a disk keeps when the power fails.
    Disk,
    /// When nodes crash and for how long.
    Crash,
    /// When disks stall and for how long.
    Stall,
    /// When connections are reset.
    Reset,
    /// Octets of payloads.
    Payload,
    /// When octets of disks rot, and which.
    Rot,
    /// When disks are full and for how long.
    Full,
    /// The packets that are lost or late on a link.
    Link,
    /// The reads and flushes of a disk that fail.
    Failure,
    /// When applications crash, and what they decline.
    Client,
}

impl From<Purpose> for u64 {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Node => 1,
            Purpose::Disk => 2,
            Purpose::Crash => 3,
            Purpose::Stall => 4,
            Purpose::Reset => 5,
            // 6 is Entropy::TRAFFIC.
            Purpose::Payload => 7,
            Purpose::Rot => 8,
            Purpose::Full => 9,
            Purpose::Link => 10,
            Purpose::Failure => 11,
            Purpose::Client => 12,
        }
    }
}
