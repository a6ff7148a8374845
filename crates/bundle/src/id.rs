//! The identity of a bundle in the network (RFC 9171 4.2.7, 4.3.1).

use core::fmt;

use crate::eid::EndpointId;
use crate::time::DtnTime;

/// When, by its source's clock, and as which one of that time a bundle was created (RFC 9171 4.2.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CreationTimestamp {
    /// Creation time; [`DtnTime::UNKNOWN`] when the source had no accurate clock.
    pub time: DtnTime,
    /// Tells bundles of one source and time apart.
    pub sequence: u64,
}

/// The part of the original payload that a fragment carries (RFC 9171 5.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FragmentRange {
    /// First octet of the original payload that this fragment carries.
    pub offset: u64,
    /// Octets of payload in this fragment.
    pub length: u64,
}

/// The identity of a bundle or of one fragment of it: source, creation timestamp and, for a fragment,
/// its range (RFC 9171 4.3.1: "the combination of source node ID, bundle creation timestamp, and, if
/// and only if a fragment, offset and payload length").
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleId {
    /// The source node ID field.
    pub source: EndpointId,
    /// The creation timestamp.
    pub creation: CreationTimestamp,
    /// Present for fragments only.
    pub fragment: Option<FragmentRange>,
}

impl fmt::Display for BundleId {
    /// `ipn:1.5/812345678901/3`, with `@offset+length` for a fragment: the form that commands take.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}",
            self.source, self.creation.time, self.creation.sequence
        )?;
        if let Some(range) = self.fragment {
            write!(f, "@{}+{}", range.offset, range.length)?;
        }
        Ok(())
    }
}
