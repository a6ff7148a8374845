//! The strictness of decoding: exactly the standards, or also known oddities of peers.

use core::fmt;

/// The strictness with which octets from a peer are read; a policy of each link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reading {
    /// Exactly what the standards allow.
    #[default]
    Strict,
    /// All that the standards allow and, beyond it, each [`Deviation`] and nothing else.
    Lenient,
}

impl Reading {
    /// Whether octets with this oddity are accepted.
    #[must_use]
    pub const fn accepts(self, deviation: Deviation) -> bool {
        match (self, deviation) {
            (Self::Strict, _) => false,
            (
                Self::Lenient,
                Deviation::PrimaryBlockWithoutCrc
                | Deviation::IntegerForBoolean
                | Deviation::NodeNameWithoutSlash
                | Deviation::AcknowledgmentFlagsDiffer
                | Deviation::BundleAgeMissing
                | Deviation::BlockNumberZero,
            ) => true,
        }
    }
}

/// A departure from the standards that a deployed program or a standard's own example makes and lenient reading puts up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deviation {
    /// dtn7-rs 0.21 writes primary blocks with CRC type 0 and no Block Integrity Block (RFC 9171 4.3.1).
    PrimaryBlockWithoutCrc,
    /// DTNME 1.3 writes the status indicators of status reports as 0 and 1 (RFC 9171 6.1.1).
    IntegerForBoolean,
    /// DTNME 1.3 writes its node ID as `dtn://name`, without the final slash (RFC 9171 4.2.5.1.1).
    NodeNameWithoutSlash,
    /// dtn7-rs 0.21 acknowledges segments with flags 0, whatever the segment's were (RFC 9174 5.2.3).
    AcknowledgmentFlagsDiffer,
    /// The examples of RFC 9173 appendix A have creation time 0 and, but for one, no bundle age block
    /// (RFC 9171 4.4.2); such a bundle counts as created when it is received.
    BundleAgeMissing,
    /// ION 4.1.3 gives extension blocks of fragments that it makes the number of the primary block, 0 (RFC 9171 4.1), more than one
    /// of a bundle; they count as having numbers that no other block has, and leave with those.
    BlockNumberZero,
}

impl Deviation {
    /// All that lenient reading accepts: the published list.
    pub const ALL: [Self; 6] = [
        Self::PrimaryBlockWithoutCrc,
        Self::IntegerForBoolean,
        Self::NodeNameWithoutSlash,
        Self::AcknowledgmentFlagsDiffer,
        Self::BundleAgeMissing,
        Self::BlockNumberZero,
    ];

    /// The program or document that needs it.
    #[must_use]
    pub const fn peer(self) -> &'static str {
        match self {
            Self::PrimaryBlockWithoutCrc | Self::AcknowledgmentFlagsDiffer => "dtn7-rs 0.21",
            Self::IntegerForBoolean | Self::NodeNameWithoutSlash => "DTNME 1.3",
            Self::BundleAgeMissing => "the examples of RFC 9173 appendix A",
            Self::BlockNumberZero => "ION 4.1.3",
        }
    }

    /// The rule that it breaks.
    #[must_use]
    pub const fn section(self) -> &'static str {
        match self {
            Self::PrimaryBlockWithoutCrc => "RFC 9171 4.3.1",
            Self::IntegerForBoolean => "RFC 9171 6.1.1",
            Self::NodeNameWithoutSlash => "RFC 9171 4.2.5.1.1",
            Self::AcknowledgmentFlagsDiffer => "RFC 9174 5.2.3",
            Self::BundleAgeMissing => "RFC 9171 4.4.2",
            Self::BlockNumberZero => "RFC 9171 4.1",
        }
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PrimaryBlockWithoutCrc => "a primary block without CRC or Block Integrity Block",
            Self::IntegerForBoolean => "integers for Booleans in status reports",
            Self::NodeNameWithoutSlash => "a dtn node ID without its final slash",
            Self::AcknowledgmentFlagsDiffer => {
                "acknowledgment flags that do not repeat the segment's"
            }
            Self::BundleAgeMissing => "no bundle age block although the creation time is 0",
            Self::BlockNumberZero => "extension blocks with the number of the primary block, 0",
        })
    }
}
