//! The store's small encodings: varints, endpoint IDs, bundle IDs (docs/store-format.md 3 and 4).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use dhow_bundle::storage::{NOTE_OCTETS, StoredBundle};
use dhow_bundle::{
    BundleId, CreationTimestamp, DtnTime, EndpointId, FragmentRange, Priority, Version,
};

/// Distinct `dtn` endpoint IDs that one recovery keeps to share between bundles, and octets of their texts; more are not shared.
const SHARED_ENDPOINTS: usize = 4096;
const SHARED_OCTETS: usize = 256 << 10;

/// The mark of a bundle whose report-to endpoint reads aggregated reports.
const AGGREGATED: u64 = 1;

/// The bit of the flags that said so in format 1.
const AGGREGATED_IN_FLAGS: u64 = 1 << 63;

/// A length in memory as one in the log.
pub(crate) fn length(octets: usize) -> u64 {
    u64::try_from(octets).unwrap_or(u64::MAX)
}

/// A length in the log as one in memory; a length that memory cannot have becomes one that nothing has.
pub(crate) fn index<T: TryInto<usize>>(octets: T) -> usize {
    octets.try_into().unwrap_or(usize::MAX)
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

pub(crate) fn put_endpoint(out: &mut Vec<u8>, endpoint: &EndpointId) {
    match endpoint {
        EndpointId::Null => out.push(0),
        EndpointId::Ipn {
            allocator,
            node,
            service,
        } => {
            out.push(1);
            put_varint(out, u64::from(*allocator));
            put_varint(out, u64::from(*node));
            put_varint(out, u64::from(*service));
        }
        EndpointId::Dtn(text) => {
            out.push(2);
            put_varint(out, length(text.len()));
            out.extend_from_slice(text.as_bytes());
        }
    }
}

pub(crate) fn put_id(out: &mut Vec<u8>, id: &BundleId) {
    put_endpoint(out, &id.source);
    put_instance(out, id);
}

/// The part of a bundle's identity that differs among bundles of a source.
fn put_instance(out: &mut Vec<u8>, id: &BundleId) {
    put_varint(out, id.creation.time.as_millis());
    put_varint(out, id.creation.sequence);
    match id.fragment {
        None => out.push(0),
        Some(range) => {
            out.push(1);
            put_varint(out, range.offset);
            put_varint(out, range.length);
        }
    }
}

/// Writes what is kept about bundles. The fields that bundles of one flow have in common are put together once, and copied from then on:
/// they are most of the fields.
#[derive(Debug, Default)]
pub(crate) struct Envelope {
    common: Option<Common>,
    /// The fields before the creation timestamp.
    before: Vec<u8>,
    /// The fields between the fragment's place and the age.
    between: Vec<u8>,
    /// The fields behind the payload's length.
    behind: Vec<u8>,
    /// The fields behind the note.
    last: Vec<u8>,
}

/// The fields that are the same in all bundles of a flow.
#[derive(Debug)]
struct Common {
    version: u8,
    flags: u64,
    lifetime_ms: u64,
    total_adu_octets: u64,
    reads_aggregated_reports: bool,
    priority: Priority,
    source: EndpointId,
    destination: EndpointId,
    report_to: EndpointId,
    previous: Option<EndpointId>,
}

impl Common {
    fn of(bundle: &StoredBundle) -> Self {
        Self {
            version: bundle.version,
            flags: bundle.flags,
            lifetime_ms: bundle.lifetime_ms,
            total_adu_octets: bundle.total_adu_octets,
            reads_aggregated_reports: bundle.reads_aggregated_reports,
            priority: bundle.priority,
            source: bundle.id.source.clone(),
            destination: bundle.destination.clone(),
            report_to: bundle.report_to.clone(),
            previous: bundle.previous.clone(),
        }
    }

    fn is_of(&self, bundle: &StoredBundle) -> bool {
        self.version == bundle.version
            && self.flags == bundle.flags
            && self.lifetime_ms == bundle.lifetime_ms
            && self.total_adu_octets == bundle.total_adu_octets
            && self.reads_aggregated_reports == bundle.reads_aggregated_reports
            && self.priority == bundle.priority
            && self.source == bundle.id.source
            && self.destination == bundle.destination
            && self.report_to == bundle.report_to
            && self.previous == bundle.previous
    }
}

impl Envelope {
    /// Writes what is kept about a bundle.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, bundle: &StoredBundle) {
        if !self
            .common
            .as_ref()
            .is_some_and(|common| common.is_of(bundle))
        {
            self.learn(bundle);
        }
        out.extend_from_slice(&self.before);
        put_instance(out, &bundle.id);
        out.extend_from_slice(&self.between);
        put_varint(out, bundle.age_at_reception_ms);
        put_varint(out, bundle.received.as_millis());
        put_varint(out, u64::from(bundle.header_octets));
        put_varint(out, bundle.payload_octets);
        out.extend_from_slice(&self.behind);
        let note = bundle.note.get(..NOTE_OCTETS).unwrap_or(&bundle.note);
        put_varint(out, length(note.len()));
        out.extend_from_slice(note);
        out.extend_from_slice(&self.last);
    }

    fn learn(&mut self, bundle: &StoredBundle) {
        self.common = Some(Common::of(bundle));
        self.before.clear();
        self.before.push(bundle.version);
        put_endpoint(&mut self.before, &bundle.id.source);
        self.between.clear();
        put_endpoint(&mut self.between, &bundle.destination);
        put_endpoint(&mut self.between, &bundle.report_to);
        put_varint(&mut self.between, bundle.flags);
        put_varint(&mut self.between, bundle.lifetime_ms);
        self.behind.clear();
        put_varint(&mut self.behind, bundle.total_adu_octets);
        match &bundle.previous {
            None => self.behind.push(0),
            Some(previous) => {
                self.behind.push(1);
                put_endpoint(&mut self.behind, previous);
            }
        }
        let marks = u64::from(bundle.reads_aggregated_reports) * AGGREGATED;
        put_varint(&mut self.behind, marks);
        self.last.clear();
        if let Some(priority) = bundle.priority_beyond_flags() {
            put_varint(&mut self.last, priority.rank().into());
        }
    }
}

/// Takes a body apart from its front. `None` means that the body is not what its record kind says.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn octet(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn octets(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let octet = self.octet()?;
            let part = u64::from(octet & 0x7f);
            value |= part
                .checked_shl(shift)
                .filter(|shifted| shifted >> shift == part)?;
            if octet & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn varint_u32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    pub(crate) fn endpoint(&mut self, shared: &mut SharedEndpoints) -> Option<EndpointId> {
        match self.octet()? {
            0 => Some(EndpointId::Null),
            1 => {
                let allocator = self.varint_u32()?;
                let node = self.varint_u32()?;
                let service = self.varint_u32()?;
                Some(EndpointId::Ipn {
                    allocator,
                    node,
                    service,
                })
            }
            2 => {
                let octets = self.varint()?;
                let text = std::str::from_utf8(self.octets(octets)?).ok()?;
                Some(EndpointId::Dtn(shared.share(text)))
            }
            _ => None,
        }
    }

    pub(crate) fn id(&mut self, shared: &mut SharedEndpoints) -> Option<BundleId> {
        let source = self.endpoint(shared)?;
        let time = DtnTime::from_millis(self.varint()?);
        let sequence = self.varint()?;
        let fragment = match self.octet()? {
            0 => None,
            1 => Some(FragmentRange {
                offset: self.varint()?,
                length: self.varint()?,
            }),
            _ => return None,
        };
        Some(BundleId {
            source,
            creation: CreationTimestamp { time, sequence },
            fragment,
        })
    }

    pub(crate) fn bundle(&mut self, shared: &mut SharedEndpoints) -> Option<StoredBundle> {
        let mut bundle = StoredBundle {
            version: self.octet()?,
            id: self.id(shared)?,
            destination: self.endpoint(shared)?,
            report_to: self.endpoint(shared)?,
            flags: self.varint()?,
            lifetime_ms: self.varint()?,
            age_at_reception_ms: self.varint()?,
            received: DtnTime::from_millis(self.varint()?),
            header_octets: self.varint_u32()?,
            payload_octets: self.varint()?,
            total_adu_octets: self.varint()?,
            previous: match self.octet()? {
                0 => None,
                1 => Some(self.endpoint(shared)?),
                _ => return None,
            },
            reads_aggregated_reports: false,
            priority: Priority::Normal,
            note: Bytes::new(),
        };
        bundle.priority = said_by_flags(&bundle);
        if self.0.is_empty() {
            // As format 1 has it.
            bundle.reads_aggregated_reports = bundle.flags & AGGREGATED_IN_FLAGS != 0;
            bundle.flags &= !AGGREGATED_IN_FLAGS;
            return Some(bundle);
        }
        bundle.reads_aggregated_reports = match self.varint()? {
            0 => false,
            AGGREGATED => true,
            _ => return None,
        };
        let octets = self.varint()?;
        bundle.note = Bytes::copy_from_slice(self.octets(octets)?);
        if !self.0.is_empty() {
            let rank = u16::try_from(self.varint()?).ok()?;
            bundle.priority = Priority::of_rank(rank);
        }
        Some(bundle)
    }
}

/// The priority of a bundle of which nothing else is said.
fn said_by_flags(bundle: &StoredBundle) -> Priority {
    let version = Version::of_number(bundle.version).unwrap_or_default();
    Priority::of_flags(version, bundle.flags)
}

/// The `dtn` endpoint IDs seen by one recovery, so that a million bundles of one source share its text.
#[derive(Debug, Default)]
pub(crate) struct SharedEndpoints {
    texts: BTreeSet<Arc<str>>,
    octets: usize,
}

impl SharedEndpoints {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let shared: Arc<str> = Arc::from(text);
        let octets = self.octets.saturating_add(text.len());
        if self.texts.len() < SHARED_ENDPOINTS && octets <= SHARED_OCTETS {
            self.texts.insert(Arc::clone(&shared));
            self.octets = octets;
        }
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(number: u64) -> StoredBundle {
        let ipn = |node| EndpointId::Ipn {
            allocator: u32::MAX,
            node,
            service: 1,
        };
        StoredBundle {
            id: BundleId {
                source: ipn(1),
                creation: CreationTimestamp {
                    time: DtnTime::from_millis(u64::MAX),
                    sequence: number,
                },
                fragment: None,
            },
            destination: EndpointId::Dtn(Arc::from("//destination/")),
            report_to: EndpointId::Null,
            version: 7,
            flags: 1 << 20,
            lifetime_ms: 1000,
            age_at_reception_ms: number,
            received: DtnTime::from_millis(number << 30),
            header_octets: u32::MAX,
            payload_octets: number,
            total_adu_octets: 9,
            previous: Some(ipn(3)),
            reads_aggregated_reports: false,
            priority: Priority::Normal,
            note: Bytes::new(),
        }
    }

    #[test]
    fn bundles_of_any_mix_of_flows_are_read_back() {
        let mut others = vec![bundle(0)];
        for change in 0..14_usize {
            let mut other = bundle(300);
            match change {
                0 => other.version = 8,
                1 => other.flags = 0,
                2 => other.lifetime_ms += 1,
                3 => other.total_adu_octets = 0,
                4 => other.id.source = EndpointId::Null,
                5 => other.destination = EndpointId::Null,
                6 => other.report_to = EndpointId::Dtn(Arc::from("//report/")),
                7 => other.previous = None,
                8 => other.reads_aggregated_reports = true,
                10 => other.priority = Priority::Expedited(7),
                11 => other.priority = Priority::Bulk,
                // The flags of version 6 say bulk.
                12 => (other.version, other.flags) = (6, 0),
                9 => other.note = Bytes::from_static(&[1; NOTE_OCTETS]),
                _ => {
                    other.id.fragment = Some(FragmentRange {
                        offset: 128,
                        length: u64::MAX,
                    });
                }
            }
            others.extend([other, bundle(u64::from(u32::MAX) << 20)]);
        }
        let mut envelope = Envelope::default();
        for bundle in others {
            let mut out = Vec::new();
            envelope.put(&mut out, &bundle);
            let mut reader = Reader(&out);
            let mut shared = SharedEndpoints::default();
            assert_eq!(reader.bundle(&mut shared), Some(bundle));
            assert!(reader.0.is_empty());
        }
    }
}
