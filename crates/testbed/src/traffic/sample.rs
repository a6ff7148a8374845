//! The measurement of each packet.

use std::net::SocketAddr;
use std::time::SystemTime;

/// A packet that left or arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The time, nanoseconds since 1970.
    pub at_ns: u64,
    /// The number of the flow.
    pub flow: u64,
    /// Its number in the flow.
    pub number: u32,
    /// Octets of its payload.
    pub octets: u32,
    /// The address that it goes to, or came from.
    pub peer: SocketAddr,
}

impl Sample {
    /// When, in seconds since 1970: exact to a microsecond until far beyond this century.
    #[must_use]
    pub fn at_s(&self) -> f64 {
        std::time::Duration::from_nanos(self.at_ns).as_secs_f64()
    }
}

/// A receiver of samples. Its method is to return as soon as it can: a wait for a disk or a network belongs in another thread.
pub trait Meter {
    /// A packet left, or arrived.
    fn packet(&mut self, sample: &Sample);
}

/// Nobody measures.
impl Meter for () {
    fn packet(&mut self, _: &Sample) {}
}

/// The wall clock, nanoseconds since 1970.
#[must_use]
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
