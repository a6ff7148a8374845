//! The parameters of a link: rate, delay, queue, loss, jitter, duplicates and reordering.

use core::num::NonZeroU64;
use core::time::Duration;

/// The smallest queue that follows from a rate when none is named: some packets of any usual size.
const QUEUE_MIN_OCTETS: u64 = 256 << 10;

/// The largest queue that follows so: what waits is in memory, also where a delay is minutes long.
const QUEUE_MAX_OCTETS: u64 = 256 << 20;

/// Parts of a whole in which probabilities are given.
pub const BILLION: u32 = 1_000_000_000;

/// Why something is no profile of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// A link that moves nothing.
    #[error("a rate of nothing moves nothing")]
    NoRate,
    /// More than certain.
    #[error("{0} of a billion packets are more than all")]
    MoreThanAll(u32),
    /// Bursts that leave nothing between them.
    #[error(
        "a loss of {per_billion} in a billion packets needs bursts of more than {mean_packets} packets"
    )]
    TooOften {
        /// Packets lost, of a billion.
        per_billion: u32,
        /// Mean length of a burst, packets.
        mean_packets: u32,
    },
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
    /// An octet a second.
    pub(crate) const LEAST: Self = Self(NonZeroU64::MIN);

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

/// A part of all packets, each by itself with the same probability: in billionths, 0 to [`BILLION`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part(u32);

impl Part {
    /// No packet.
    pub const NONE: Self = Self(0);

    /// So many of a billion packets.
    ///
    /// # Errors
    /// When that is more than all.
    pub const fn of_billion(packets: u32) -> Result<Self, ProfileError> {
        match packets {
            0..=BILLION => Ok(Self(packets)),
            more => Err(ProfileError::MoreThanAll(more)),
        }
    }

    /// Packets of this part, of a billion.
    #[must_use]
    pub const fn per_billion(self) -> u32 {
        self.0
    }
}

/// The model of losses on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each by itself with the same probability.
    Independent {
        /// Lost packets of a billion, 1 to [`BILLION`].
        per_billion: u32,
    },
    /// In bursts (the model of Gilbert and Elliott): a link is good and loses nothing, or bad and loses all.
    Bursts {
        /// Of a billion packets in good times, after how many times are bad, 1 to [`BILLION`].
        worsens_per_billion: u32,
        /// Of a billion packets in bad times, after how many times are good again, 1 to [`BILLION`].
        mends_per_billion: u32,
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

    /// So many of a billion packets, in bursts of so many in the mean; in bursts of one each by itself.
    ///
    /// # Errors
    /// When that is more than all, or when bursts of this length would have to follow each other sooner than the next packet.
    pub fn bursts(per_billion: u32, mean_packets: u32) -> Result<Self, ProfileError> {
        if mean_packets <= 1 || per_billion == 0 || per_billion >= BILLION {
            return Self::independent(per_billion);
        }
        let mends_per_billion = (BILLION / mean_packets).max(1);
        // Lost and not lost are as the ways out of bad times and into them.
        let lost = u64::from(mends_per_billion) * u64::from(per_billion);
        let worsens = (lost / u64::from(BILLION - per_billion)).max(1);
        match u32::try_from(worsens) {
            Ok(worsens_per_billion @ 0..=BILLION) => Ok(Self::Bursts {
                worsens_per_billion,
                mends_per_billion,
            }),
            _ => Err(ProfileError::TooOften {
                per_billion,
                mean_packets,
            }),
        }
    }
}

/// The parameters of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The rate at which packets leave.
    pub rate: Rate,
    /// The time from the last octet's leaving to its arrival.
    pub delay: Duration,
    /// Octets that may wait for their turn, the packet that is leaving included.
    pub queue_octets: u64,
    /// Losses on the way, after a packet has left.
    pub loss: Loss,
    /// Jitter: the largest extra delay of a packet, drawn uniformly from 0. Packets keep their order.
    pub jitter: Duration,
    /// The part of the packets that arrive twice; the second copy draws its own jitter and reordering.
    pub duplicates: Part,
    /// The packets that are held up, so that later ones overtake them.
    pub reordering: Reordering,
}

/// Packets that are held up on their way. This alone lets packets overtake each other: with jitter they keep their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reordering {
    /// The part of the packets that are held up.
    pub part: Part,
    /// The time that these packets take beside delay and jitter. They keep their order among themselves.
    pub by: Duration,
}

impl Profile {
    /// A link that only takes time, with a queue of what it moves in two of its delays (one round trip over two such
    /// links), so that one sender that grows and halves its window can keep it busy.
    #[must_use]
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate,
            delay,
            queue_octets: rate
                .octets_in(delay * 2)
                .clamp(QUEUE_MIN_OCTETS, QUEUE_MAX_OCTETS),
            loss: Loss::None,
            jitter: Duration::ZERO,
            duplicates: Part::NONE,
            reordering: Reordering::default(),
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

    /// With packets that are late, each by itself, by up to so much; they keep their order.
    #[must_use]
    pub const fn with_jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// With losses.
    #[must_use]
    pub const fn with_loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }

    /// With packets that arrive twice.
    #[must_use]
    pub const fn with_duplicates(self, duplicates: Part) -> Self {
        Self { duplicates, ..self }
    }

    /// With packets that are held up by so much, so that later ones overtake them.
    #[must_use]
    pub const fn with_reordering(self, part: Part, by: Duration) -> Self {
        let reordering = Reordering { part, by };
        Self { reordering, ..self }
    }
}
