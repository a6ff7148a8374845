//! The vocabulary that all crates share, as items: times, names of bundles, commands to a store and its events.

use alloc::vec::Vec;

use dhow_bundle::cbor::Reader;
use dhow_bundle::storage::{
    BundleKey, Extent, Extents, Medium, StoreEvent, StoreRefusal, StoredBundle,
};
use dhow_bundle::{
    BundleId, CreationTimestamp, DtnTime, EndpointId, FragmentRange, Instant, NodeId, Now,
    Priority, Reading,
};
use dhow_link::stream::PeerIdentities;

use super::item::{Item, ItemError, choice, structure};

impl Item for Instant {
    fn write(&self, out: &mut Vec<u8>) {
        self.as_nanos().write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        Ok(Self::from_nanos(u64::read(reader)?))
    }
}

impl Item for DtnTime {
    fn write(&self, out: &mut Vec<u8>) {
        self.as_millis().write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        Ok(Self::from_millis(u64::read(reader)?))
    }
}

structure!(Now { monotonic, dtn });

/// As in bundles (RFC 9171 4.2.5.1).
impl Item for EndpointId {
    fn write(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        Ok(Self::decode(reader, Reading::Lenient)?)
    }
}

impl Item for NodeId {
    fn write(&self, out: &mut Vec<u8>) {
        self.endpoint().encode(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        Ok(Self::new(EndpointId::read(reader)?)?)
    }
}

impl Item for BundleKey {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        Ok(Self(u32::read(reader)?))
    }
}

structure!(CreationTimestamp { time, sequence });
structure!(FragmentRange { offset, length });
structure!(BundleId {
    source,
    creation,
    fragment,
});
structure!(Extent { offset, length });

/// An array of places, also where there is one.
impl Item for Extents {
    fn write(&self, out: &mut Vec<u8>) {
        self.as_slice().to_vec().write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        let extents = Vec::<Extent>::read(reader)?;
        Ok(match extents.as_slice() {
            [one] => Self::One(*one),
            _ => Self::Many(extents.into()),
        })
    }
}

/// Its place among all.
impl Item for Priority {
    fn write(&self, out: &mut Vec<u8>) {
        self.rank().write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ItemError> {
        Ok(Self::of_rank(u16::read(reader)?))
    }
}

structure!(StoredBundle {
    id,
    destination,
    report_to,
    version,
    flags,
    lifetime_ms,
    age_at_reception_ms,
    received,
    header_octets,
    payload_octets,
    total_adu_octets,
    previous;
    reads_aggregated_reports,
    note,
    priority
});

choice!(StoreRefusal {
    0 => Full {},
    1 => Disk {},
    2 => Gaps {},
});

choice!(Medium {
    0 => Disk {},
    1 => Memory {},
});

choice!(StoreEvent {
    0 => Durable { key: key, octets: octets },
    1 => Written { key: key, extents: extents },
    2 => Stored { key: key, extents: extents },
    3 => Deleted { key: key },
    4 => Reserved { time: time, sequence: sequence },
    5 => Relocated { key: key, extents: extents },
    6 => Refused { key: key, refusal: refusal },
    7 => Verified { key: key },
    8 => Corrupt { key: key },
    9 => Capacity { octets: octets, medium: medium },
    10 => Noted { key: key, refusal: refusal },
    11 => DurableParts { key: key, octets: octets, behind: behind },
});

structure!(PeerIdentities {
    node_ids,
    dns_matches,
    address_matches,
});
