//! Flags of bundles and of blocks (RFC 5050 4.2, 4.3).

use core::ops::BitOr;

/// Bundle processing control flags (RFC 5050 4.2); those that are not named here are kept and ignored.
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
    /// Custody transfer is requested.
    pub const CUSTODY_REQUESTED: Self = Self(0x00_0008);
    /// The destination is a singleton endpoint.
    pub const SINGLETON_DESTINATION: Self = Self(0x00_0010);
    /// The application is asked to acknowledge.
    pub const ACKNOWLEDGMENT_REQUESTED: Self = Self(0x00_0020);
    /// A report of reception is requested.
    pub const REPORT_RECEPTION: Self = Self(0x00_4000);
    /// A report of custody acceptance is requested.
    pub const REPORT_CUSTODY: Self = Self(0x00_8000);
    /// A report of forwarding is requested.
    pub const REPORT_FORWARDING: Self = Self(0x01_0000);
    /// A report of delivery is requested.
    pub const REPORT_DELIVERY: Self = Self(0x02_0000);
    /// A report of deletion is requested.
    pub const REPORT_DELETION: Self = Self(0x04_0000);

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

    /// These flags with some of them set or not.
    #[must_use]
    pub const fn with(self, flags: Self, are_set: bool) -> Self {
        match are_set {
            true => Self(self.0 | flags.0),
            false => Self(self.0 & !flags.0),
        }
    }

    /// The class of service (bits 7 and 8).
    #[must_use]
    pub const fn priority(self) -> Priority {
        match self.0 >> 7 & 3 {
            0 => Priority::Bulk,
            1 => Priority::Normal,
            2 => Priority::Expedited,
            _ => Priority::Reserved,
        }
    }

    /// These flags with another class of service.
    #[must_use]
    pub const fn with_priority(self, priority: Priority) -> Self {
        Self(self.0 & !(3 << 7) | priority.code() << 7)
    }
}

impl BitOr for BundleFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The class of service of a bundle (RFC 5050 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// 0: leaves after all others of its source and destination.
    Bulk,
    /// 1.
    Normal,
    /// 2: leaves before all others.
    Expedited,
    /// 3, which means nothing yet.
    Reserved,
}

impl Priority {
    /// Its number on the wire.
    #[must_use]
    pub const fn code(self) -> u64 {
        match self {
            Self::Bulk => 0,
            Self::Normal => 1,
            Self::Expedited => 2,
            Self::Reserved => 3,
        }
    }
}

/// Block processing control flags (RFC 5050 4.3); those that are not named here are kept and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockFlags(u64);

impl BlockFlags {
    /// None at all.
    pub const NONE: Self = Self(0);
    /// The block is in every fragment.
    pub const REPLICATE: Self = Self(0x01);
    /// A report is requested where it cannot be processed.
    pub const REPORT_IF_UNPROCESSED: Self = Self(0x02);
    /// The bundle is deleted where it cannot be processed.
    pub const DELETE_BUNDLE_IF_UNPROCESSED: Self = Self(0x04);
    /// The block is the last one.
    pub const LAST: Self = Self(0x08);
    /// The block is discarded where it cannot be processed.
    pub const DISCARD_IF_UNPROCESSED: Self = Self(0x10);
    /// The block was forwarded without being processed.
    pub const FORWARDED_UNPROCESSED: Self = Self(0x20);
    /// The block refers to endpoint IDs of the dictionary.
    pub const REFERENCES: Self = Self(0x40);

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

    /// These flags with some of them set or not.
    #[must_use]
    pub const fn with(self, flags: Self, are_set: bool) -> Self {
        match are_set {
            true => Self(self.0 | flags.0),
            false => Self(self.0 & !flags.0),
        }
    }
}

impl BitOr for BlockFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_service_is_two_bits() {
        let all = [
            Priority::Bulk,
            Priority::Normal,
            Priority::Expedited,
            Priority::Reserved,
        ];
        for priority in all {
            let flags = BundleFlags::SINGLETON_DESTINATION.with_priority(priority);
            assert_eq!(flags.priority(), priority);
            assert!(flags.contains(BundleFlags::SINGLETON_DESTINATION));
            assert_eq!(
                flags.with_priority(Priority::Bulk),
                BundleFlags::SINGLETON_DESTINATION
            );
        }
    }
}
