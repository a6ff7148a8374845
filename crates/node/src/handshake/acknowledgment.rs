//! The set of acknowledgments of IBR-DTN's PRoPHET: identities of bundles that their destinations have.

use alloc::vec::Vec;

use dhow_bundle::v6::CreationTime;
use dhow_bundle::v6::sdnv::{self, Reader};
use dhow_bundle::{EndpointId, FragmentRange};

use super::filter::{endpoint_of, text_of};
use super::refusal::Refusal;
use super::table::{read_text, write_text};

/// Acknowledgments in a set that is read, at most.
pub(crate) const MAX_ACKNOWLEDGMENTS: u64 = 4_096;

/// A bundle that its destination has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgment {
    /// Source endpoint.
    pub(crate) source: EndpointId,
    /// Creation timestamp of version 6.
    pub(crate) creation: CreationTime,
    /// The part of the application data unit that a fragment carries.
    pub(crate) fragment: Option<FragmentRange>,
    /// When the acknowledgment may be forgotten: seconds since the year 2000 began.
    pub(crate) expires_s: u64,
    /// Lifetime of the bundle, seconds.
    pub(crate) lifetime_s: u64,
}

/// Reads a set. Bundles of sources that are no endpoint IDs here are passed by.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<Acknowledgment>, Refusal> {
    let count = reader.number()?;
    if count > MAX_ACKNOWLEDGMENTS {
        return Err(Refusal::TooMany(count));
    }
    let mut set = Vec::new();
    for _ in 0..count {
        let creation = CreationTime {
            seconds: reader.number()?,
            sequence: reader.number()?,
        };
        let fragment = match reader.octet()? {
            0 => None,
            1 => Some(FragmentRange {
                offset: reader.number()?,
                length: reader.number()?,
            }),
            mark => return Err(Refusal::FragmentMark(mark)),
        };
        let source = endpoint_of(read_text(reader)?);
        let (expires_s, lifetime_s) = (reader.number()?, reader.number()?);
        if let Ok(source) = source {
            set.push(Acknowledgment {
                source,
                creation,
                fragment,
                expires_s,
                lifetime_s,
            });
        }
    }
    Ok(set)
}

/// Writes a set.
pub(super) fn write(out: &mut Vec<u8>, set: &[Acknowledgment]) {
    sdnv::write(out, u64::try_from(set.len()).unwrap_or(0));
    for it in set {
        sdnv::write(out, it.creation.seconds);
        sdnv::write(out, it.creation.sequence);
        out.push(u8::from(it.fragment.is_some()));
        if let Some(range) = it.fragment {
            sdnv::write(out, range.offset);
            sdnv::write(out, range.length);
        }
        write_text(out, &text_of(&it.source));
        sdnv::write(out, it.expires_s);
        sdnv::write(out, it.lifetime_s);
    }
}
