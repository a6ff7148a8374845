//! Mistakes that a person could make, planted on purpose.
//!
//! A simulation that finds nothing means something only if it finds what is there. With the feature `mutants`, which tests
//! alone turn on, one of these can be chosen; without it [`planted`] is `false` where the compiler sees it, and nothing is left of the places that ask.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutant {
    /// The store says that bundles are durable before the sync that makes them so.
    DurableBeforeSync = 1,
    /// A bundle that was delivered is not known again when it comes once more.
    DuplicatesForgotten,
    /// A restart does not look behind the last mark in the log.
    TailDropped,
    /// A segment may be one octet longer than the peer takes.
    SegmentTooLong,
    /// A bundle from a node without a clock ages by this node's.
    ExpiryByWrongClock,
    /// Of fragments that overlap, each is taken from its first octet.
    OverlapTakenTwice,
    /// Octets are read however many wait for the disk.
    QueueWithoutBound,
    /// A link that could not be dialled is not dialled again.
    TimerNotRearmed,
    /// An acknowledgment names its segment's length, not the sum of all.
    LengthsNotSummed,
    /// After a restart creation timestamps begin anew.
    TimestampsReused,
    /// A session in which nothing is to be said stays silent.
    KeepaliveForgotten,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::DurableBeforeSync,
        Self::DuplicatesForgotten,
        Self::TailDropped,
        Self::SegmentTooLong,
        Self::ExpiryByWrongClock,
        Self::OverlapTakenTwice,
        Self::QueueWithoutBound,
        Self::TimerNotRearmed,
        Self::LengthsNotSummed,
        Self::TimestampsReused,
        Self::KeepaliveForgotten,
    ];
}

/// Whether a mistake is to be made: never.
#[cfg(not(feature = "mutants"))]
#[must_use]
#[inline]
pub const fn planted(_: Mutant) -> bool {
    false
}

#[cfg(feature = "mutants")]
pub use chosen::{plant, planted};

#[cfg(feature = "mutants")]
mod chosen {
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Mutant;

    /// The mistake that all nodes of the process make; 0 for none.
    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Chooses the mistake that all nodes of this process make from now on.
    pub fn plant(mutant: Option<Mutant>) {
        #[expect(clippy::as_conversions, reason = "the number that the enum gives")]
        let number = mutant.map_or(0, |mutant| mutant as u8);
        PLANTED.store(number, Ordering::Relaxed);
    }

    /// Whether a mistake is to be made.
    #[must_use]
    pub fn planted(mutant: Mutant) -> bool {
        #[expect(clippy::as_conversions, reason = "the number that the enum gives")]
        let number = mutant as u8;
        PLANTED.load(Ordering::Relaxed) == number
    }
}
