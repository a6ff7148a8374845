//! The two kinds of time: a monotonic instant that a node counts by, and DTN time that bundles carry.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// Monotonic nanoseconds since the node started: constructible and recordable, so that a simulator or
/// a recording can supply it. It says nothing about the time of day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The moment the node started.
    pub const START: Self = Self(0);

    /// The instant `nanoseconds` after the node's start.
    #[must_use]
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the node's start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this instant; zero if this instant is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at the end of time (584 years after the start).
    fn add(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// Milliseconds since 2000-01-01T00:00:00Z (RFC 9171 4.2.6). Zero means that the node that wrote it
/// had no accurate clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DtnTime(u64);

impl DtnTime {
    /// "No accurate clock" (RFC 9171 4.2.6).
    pub const UNKNOWN: Self = Self(0);

    /// Milliseconds between the Unix epoch and the DTN epoch.
    pub const UNIX_OFFSET_MS: u64 = 946_684_800_000;

    /// The DTN time `milliseconds` after the year 2000 began.
    #[must_use]
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds)
    }

    /// Milliseconds since the year 2000 began; 0 when unknown.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The DTN time of a Unix time in milliseconds; unknown when it lies before the year 2000.
    #[must_use]
    pub const fn from_unix_millis(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_sub(Self::UNIX_OFFSET_MS))
    }

    /// Milliseconds since the Unix epoch; `None` when unknown.
    #[must_use]
    pub const fn as_unix_millis(self) -> Option<u64> {
        if self.0 == 0 {
            None
        } else {
            self.0.checked_add(Self::UNIX_OFFSET_MS)
        }
    }

    /// False for the reserved value 0.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.0 != 0
    }

    /// This time plus a number of milliseconds, saturating.
    #[must_use]
    pub const fn saturating_add_millis(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }
}

impl fmt::Display for DtnTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The present time by both clocks: passed to every machine with every call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Never goes back within one run of a node.
    pub monotonic: Instant,
    /// The wall clock; [`DtnTime::UNKNOWN`] when the node has no accurate one. It may jump.
    pub dtn: DtnTime,
}
