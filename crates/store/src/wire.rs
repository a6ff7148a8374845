//! The store's small encodings: varints, endpoint IDs, bundle IDs (docs/store-format.md 3 and 4).

use std::collections::BTreeSet;
use std::sync::Arc;

use dhow_bundle::storage::StoredBundle;
use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId, FragmentRange};

/// Distinct `dtn` endpoint IDs that one recovery keeps to share between bundles; more are not shared.
const SHARED_ENDPOINTS: usize = 4096;

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

pub(crate) fn put_bundle(out: &mut Vec<u8>, bundle: &StoredBundle) {
    out.push(bundle.version);
    put_id(out, &bundle.id);
    put_endpoint(out, &bundle.destination);
    put_endpoint(out, &bundle.report_to);
    for value in [
        bundle.flags,
        bundle.lifetime_ms,
        bundle.age_at_reception_ms,
        bundle.received.as_millis(),
        u64::from(bundle.header_octets),
        bundle.payload_octets,
        bundle.total_adu_octets,
    ] {
        put_varint(out, value);
    }
    match &bundle.previous {
        None => out.push(0),
        Some(previous) => {
            out.push(1);
            put_endpoint(out, previous);
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
        Some(StoredBundle {
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
        })
    }
}

/// The `dtn` endpoint IDs seen by one recovery, so that a million bundles of one source share its text.
#[derive(Debug, Default)]
pub(crate) struct SharedEndpoints(BTreeSet<Arc<str>>);

impl SharedEndpoints {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let shared: Arc<str> = Arc::from(text);
        if self.0.len() < SHARED_ENDPOINTS {
            self.0.insert(Arc::clone(&shared));
        }
        shared
    }
}
