//! The primary block (RFC 5050 4.5.1), with or without a dictionary (RFC 6260).

use alloc::vec::Vec;

use super::dictionary::{Dictionary, compressed, read_reference, write_reference};
use super::flags::BundleFlags;
use super::refusal::Refusal;
use super::sdnv::{self, Reader};
use crate::eid::EndpointId;

/// The version.
pub const VERSION: u8 = 6;

/// When, by its source's clock, and as which one of that second a bundle was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CreationTime {
    /// Seconds since the year 2000 began; 0 when the source had no clock (AEB of IBR-DTN and DTN2).
    pub seconds: u64,
    /// Tells bundles of one source and second apart.
    pub sequence: u64,
}

/// The place of a fragment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentPlace {
    /// First octet of the application data unit that it carries.
    pub offset: u64,
    /// Octets of the application data unit.
    pub total_adu_octets: u64,
}

/// The primary block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PrimaryBlock {
    /// Bundle processing control flags.
    pub flags: BundleFlags,
    /// Destination endpoint.
    pub destination: EndpointId,
    /// Source endpoint.
    pub source: EndpointId,
    /// The endpoint that status reports go to.
    pub report_to: EndpointId,
    /// The current custodian; the null endpoint without one.
    pub custodian: EndpointId,
    /// Creation timestamp.
    pub creation: CreationTime,
    /// Lifetime, seconds.
    pub lifetime_s: u64,
    /// Present in fragments.
    pub fragment: Option<FragmentPlace>,
}

impl PrimaryBlock {
    /// Reads a primary block and the dictionary in it.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<(Self, Dictionary), Refusal> {
        let version = reader.octet()?;
        if version != VERSION {
            return Err(Refusal::Version(version));
        }
        let flags = BundleFlags::from_bits(reader.number()?);
        let said = reader.number()?;
        let start = reader.position();
        let mut references = [[0; 2]; 4];
        for reference in &mut references {
            *reference = read_reference(reader)?;
        }
        let creation = CreationTime {
            seconds: reader.number()?,
            sequence: reader.number()?,
        };
        let lifetime_s = reader.number()?;
        let dictionary_octets = reader.number()?;
        let dictionary = Dictionary::new(reader.octets(dictionary_octets)?);
        let fragment = match flags.contains(BundleFlags::FRAGMENT) {
            true => Some(FragmentPlace {
                offset: reader.number()?,
                total_adu_octets: reader.number()?,
            }),
            false => None,
        };
        let has = u64::try_from(reader.position() - start).unwrap_or(u64::MAX);
        if has != said {
            return Err(Refusal::PrimaryBlockLength { said, has });
        }
        let [destination, source, report_to, custodian] = references;
        let primary = Self {
            flags,
            destination: dictionary.endpoint("destination", destination)?,
            source: dictionary.endpoint("source", source)?,
            report_to: dictionary.endpoint("report-to endpoint", report_to)?,
            custodian: dictionary.endpoint("custodian", custodian)?,
            creation,
            lifetime_s,
            fragment,
        };
        primary.check()?;
        Ok((primary, dictionary))
    }

    fn check(&self) -> Result<(), Refusal> {
        let requests = BundleFlags::CUSTODY_REQUESTED
            | BundleFlags::REPORT_RECEPTION
            | BundleFlags::REPORT_CUSTODY
            | BundleFlags::REPORT_FORWARDING
            | BundleFlags::REPORT_DELIVERY
            | BundleFlags::REPORT_DELETION;
        let requests = self.flags.bits() & requests.bits() != 0;
        let is_fixed = self.flags.contains(BundleFlags::MUST_NOT_FRAGMENT);
        if self.fragment.is_some() && is_fixed {
            return Err(Refusal::FragmentNotAllowed);
        }
        if self.flags.contains(BundleFlags::ADMINISTRATIVE_RECORD) && requests {
            return Err(Refusal::RecordRequestsReports);
        }
        if self.source.is_null() && (requests || !is_fixed) {
            return Err(Refusal::Anonymous);
        }
        Ok(())
    }

    /// Writes the block: without a dictionary where none is needed, and else with one of no more strings than there are.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let endpoints = [
            &self.destination,
            &self.source,
            &self.report_to,
            &self.custodian,
        ];
        let mut dictionary = Dictionary::default();
        let needs_none = endpoints.iter().all(|it| compressed(it).is_some());
        let mut fields = Vec::new();
        for endpoint in endpoints {
            let numbers = compressed(endpoint).filter(|_| needs_none);
            let reference = numbers.unwrap_or_else(|| dictionary.refer(endpoint));
            write_reference(&mut fields, reference);
        }
        sdnv::write(&mut fields, self.creation.seconds);
        sdnv::write(&mut fields, self.creation.sequence);
        sdnv::write(&mut fields, self.lifetime_s);
        sdnv::write(&mut fields, length(dictionary.octets().len()));
        fields.extend_from_slice(dictionary.octets());
        if let Some(place) = self.fragment {
            sdnv::write(&mut fields, place.offset);
            sdnv::write(&mut fields, place.total_adu_octets);
        }
        out.push(VERSION);
        sdnv::write(out, self.flags.bits());
        sdnv::write(out, length(fields.len()));
        out.extend_from_slice(&fields);
    }
}

fn length(octets: usize) -> u64 {
    u64::try_from(octets).unwrap_or(u64::MAX)
}
