//! [`crossed`]: a bundle as it leaves a gateway, out of the header as it is held there.

use alloc::vec::Vec;

use bytes::Bytes;

use super::edit::Edit;
use super::record::{record_to_v6, record_to_v7};
use super::to_v6::{OutgoingV6, v6_of};
use super::to_v7::v7_of;
use super::untranslatable::Untranslatable;
use crate::builder::OutgoingHeader;
use crate::header::Header;
use crate::reading::Reading;
use crate::v6;
use crate::v7;
use crate::v7::forward::{ForwardedPayloadCrc, HopEdit};
use crate::v7::refusal::Refusal;
use crate::version::Version;

/// A bundle in the version that it did not come in, to send: first [`Self::octets`], then its payload, then [`Self::end`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crossed {
    /// A bundle that came in version 7.
    V6(OutgoingV6),
    /// A bundle that came in version 6.
    V7(OutgoingHeader),
}

impl Crossed {
    /// All octets before the payload.
    #[must_use]
    pub const fn octets(&self) -> &Bytes {
        match self {
            Self::V6(outgoing) => &outgoing.octets,
            Self::V7(outgoing) => &outgoing.octets,
        }
    }

    /// Octets of the whole bundle.
    #[must_use]
    pub fn total_octets(&self) -> u64 {
        match self {
            Self::V6(outgoing) => outgoing.total_octets(),
            Self::V7(outgoing) => outgoing.total_octets(),
        }
    }

    /// All octets behind the payload, which a checksum covers if the bundle has one.
    ///
    /// # Panics
    /// When the payload has another length than the header says, and a checksum covers it.
    #[must_use]
    pub fn end(&self, payload: &[u8]) -> Bytes {
        match self {
            Self::V6(outgoing) => outgoing.trailer.clone(),
            Self::V7(outgoing) => {
                let mut crc = outgoing.payload_crc();
                crc.update(payload);
                crc.trailer()
            }
        }
    }
}

/// A bundle, or the fragment of it that a hop's edit names, in the other version: the blocks that would leave in its own version
/// ([`Header::forwarded`]), translated. Of the gateway's edit, previous node, age and hop count are those of the hop's.
///
/// The crossing counts as a hop, and is counted where others are not: a bundle that was made at the gateway has hop count 1 behind it.
///
/// # Errors
/// The bundle has no form in the other version.
///
/// # Panics
/// Where [`Header::forwarded`] does.
pub fn crossed(header: &Header, hop: &HopEdit, edit: Edit) -> Result<Crossed, Untranslatable> {
    let own = HopEdit {
        previous_node: None,
        age_increase_ms: 0,
        hop_increment: 0,
        payload_crc: ForwardedPayloadCrc::SameType,
        custodian: None,
        ..hop.clone()
    };
    let leaving = read(&header.forwarded(&own), &header.forwarded_trailer(&own))?;
    let count = header.hop_count().map_or(0, |hops| hops.count);
    let edit = Edit {
        previous_node: hop.previous_node.clone(),
        age_increase_ms: hop.age_increase_ms,
        least_hops: count.saturating_add(hop.hop_increment.saturating_sub(1)),
        ..edit
    };
    match leaving.as_v6() {
        Some(old) => {
            let trailer = leaving.trailer.clone().unwrap_or_default();
            Ok(Crossed::V7(v7_of(old, &trailer, &edit)?))
        }
        None => Ok(Crossed::V6(v6_of(&leaving, &edit)?)),
    }
}

/// Reads blocks that were written a moment ago, as leniently as they may have come.
fn read(outgoing: &OutgoingHeader, trailer: &Bytes) -> Result<Header, Untranslatable> {
    let read = Header::decode(&outgoing.octets, Reading::Lenient).and_then(|header| {
        let mut header = header.ok_or(Refusal::Truncated)?;
        if header.has_open_end() {
            header.read_trailer(trailer)?;
        }
        Ok(header)
    });
    read.map_err(Untranslatable::Version7)
}

/// The administrative record that a payload of one version is, in the other.
///
/// # Errors
/// It is no record of that version, or has no form in the other.
pub fn record_crossed(version: Version, payload: &Bytes) -> Result<Bytes, Untranslatable> {
    match version {
        Version::V6 => {
            let record = v6::admin::AdministrativeRecord::decode(payload);
            let record = record.map_err(|_| Untranslatable::Record)?;
            Ok(record_to_v7(&record)?.encode())
        }
        Version::V7 => {
            let record = v7::admin::AdministrativeRecord::decode(payload, Reading::Lenient);
            let record = record.map_err(|_| Untranslatable::Record)?;
            let octets: Vec<u8> = record_to_v6(&record)?.encode();
            Ok(octets.into())
        }
    }
}
