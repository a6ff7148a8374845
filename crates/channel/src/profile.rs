//! What a link is like.

use core::num::NonZeroU64;
use core::time::Duration;

/// The smallest queue that follows from a rate when none is named: some packets of any usual size.
const QUEUE_MIN_OCTETS: u64 = 256 << 10;

/// Parts of a whole in which probabilities are given.
pub const BILLION: u32 = 1_000_000_000;

/// Why something is no profile of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// A link that moves nothing.
    #[error("a rate of nothing moves nothing")]
    NoRate,
    /// More than certain.
    #[error("a loss of {0} of a billion packets is more than all")]
    MoreThanAll(u32),
    /// A function of time without a value.
    #[error("there is no delay at any time")]
    NoDelay,
    /// A function of time that goes back.
    #[error("a time of the delay is not after the one before it")]
    OutOfOrder,
}

/// Octets that a link moves in a second, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// So many octets a second.
    ///
    /// # Errors
    /// When there are none.
    pub const fn from_octets_per_s(octets: u64) -> Result<Self, ProfileError> {
        match NonZeroU64::new(octets) {
            Some(octets) => Ok(Self(octets)),
            None => Err(ProfileError::NoRate),
        }
    }

    /// Octets a second.
    #[must_use]
    pub const fn octets_per_s(self) -> u64 {
        self.0.get()
    }

    /// Octets that the link moves in this time, rounded down.
    #[must_use]
    pub fn octets_in(self, time: Duration) -> u64 {
        let octets = u128::from(self.0.get()) * time.as_nanos() / 1_000_000_000;
        u64::try_from(octets).unwrap_or(u64::MAX)
    }
}

/// Which packets are lost on their way. (Losses in bursts would be another variant.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each by itself with the same probability.
    Independent {
        /// Of a billion packets, 1 to [`BILLION`].
        per_billion: u32,
    },
}

impl Loss {
    /// So many of a billion packets, each by itself.
    ///
    /// # Errors
    /// When that is more than all.
    pub const fn independent(per_billion: u32) -> Result<Self, ProfileError> {
        match per_billion {
            0 => Ok(Self::None),
            1..=BILLION => Ok(Self::Independent { per_billion }),
            more => Err(ProfileError::MoreThanAll(more)),
        }
    }
}

/// What one direction of a link is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// How fast packets leave.
    pub rate: Rate,
    /// From the last octet's leaving to its arrival.
    pub delay: Duration,
    /// Octets that may wait for their turn, the packet that is leaving included.
    pub queue_octets: u64,
    /// What is lost on the way, after it left.
    pub loss: Loss,
}

impl Profile {
    /// A link without loss, with a queue of what it moves in two of its delays (one round trip over two such
    /// links), so that one sender that grows and halves its window can keep it busy.
    #[must_use]
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate,
            delay,
            queue_octets: rate.octets_in(delay * 2).max(QUEUE_MIN_OCTETS),
            loss: Loss::None,
        }
    }

    /// With a queue of so many octets.
    #[must_use]
    pub const fn with_queue_octets(self, queue_octets: u64) -> Self {
        Self {
            queue_octets,
            ..self
        }
    }

    /// With losses.
    #[must_use]
    pub const fn with_loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }
}
