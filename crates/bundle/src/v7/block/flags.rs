//! Flags of bundles and of blocks (RFC 9171 4.2.3, 4.2.4).

use core::ops::BitOr;

/// Bundle processing control flags (RFC 9171 4.2.3); those that are not named here are kept and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleFlags(u64);

impl BundleFlags {
    /// None at all.
    pub const NONE: Self = Self(0);
    /// The bundle is a fragment.
    pub const FRAGMENT: Self = Self(0x00_0001);
    /// The payload is an administrative record.
    pub const ADMINISTRATIVE_RECORD: Self = Self(0x00_0002);
    /// The bundle must not be fragmented.
    pub const MUST_NOT_FRAGMENT: Self = Self(0x00_0004);
    /// The application is asked to acknowledge.
    pub const ACKNOWLEDGMENT_REQUESTED: Self = Self(0x00_0020);
    /// Status reports are to carry times.
    pub const STATUS_TIME_REQUESTED: Self = Self(0x00_0040);
    /// A report of reception is requested.
    pub const REPORT_RECEPTION: Self = Self(0x00_4000);
    /// A report of forwarding is requested.
    pub const REPORT_FORWARDING: Self = Self(0x01_0000);
    /// A report of delivery is requested.
    pub const REPORT_DELIVERY: Self = Self(0x02_0000);
    /// A report of deletion is requested.
    pub const REPORT_DELETION: Self = Self(0x04_0000);
    /// All four report requests.
    pub const ALL_REPORTS: Self = Self(0x07_4000);

    /// Flags from their bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits as on the wire.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether all of `flags` are set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[must_use]
    pub const fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// These flags without `flags`.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

impl BitOr for BundleFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Block processing control flags (RFC 9171 4.2.4); those that are not named here are kept and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockFlags(u64);

impl BlockFlags {
    /// None at all.
    pub const NONE: Self = Self(0);
    /// The block must be replicated in every fragment.
    pub const REPLICATE: Self = Self(0x01);
    /// A status report is requested if the block cannot be processed.
    pub const REPORT_IF_UNPROCESSABLE: Self = Self(0x02);
    /// The bundle is to be deleted if the block cannot be processed.
    pub const DELETE_IF_UNPROCESSABLE: Self = Self(0x04);
    /// The block is to be discarded if it cannot be processed.
    pub const DISCARD_IF_UNPROCESSABLE: Self = Self(0x10);

    /// Flags from their bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits as on the wire.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether all of `flags` are set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for BlockFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
