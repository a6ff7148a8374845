//! Whole bundles that the node itself makes: administrative records, summaries of measurements.

use crate::reports::Parcel;
use crate::transmission::HOP_LIMIT;
use bytes::{BufMut, Bytes, BytesMut};
use dhow_bundle::BundleFlags;
use dhow_bundle::EndpointId;
use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::{BundleBuilder, Now, Priority};

use crate::held::Held;
use crate::held::arrivals::Origin;
use crate::held::retention::State;
use crate::node::Node;
use crate::reservation::Comes;

impl Held {
    /// True for a bundle of this node for that destination that nobody has taken.
    pub(crate) fn waits_for(&self, key: BundleKey, destination: &EndpointId) -> bool {
        self.entry(key).is_some_and(|entry| {
            entry.state() == State::Waiting
                && entry.previous().is_none()
                && self.endpoints().id(entry.destination()) == destination
        })
    }
}

impl Node {
    /// Send a bundle of the node's own; `None` without room for it.
    pub(crate) fn originate(
        &mut self,
        now: Now,
        builder: &BundleBuilder,
        payload: &[u8],
    ) -> Option<BundleKey> {
        let stored = self.store_originated(now, builder, payload, Comes::FromHere);
        Some(stored?.0)
    }

    /// Makes a bundle likewise; its octets come back, too.
    pub(crate) fn store_originated(
        &mut self,
        now: Now,
        builder: &BundleBuilder,
        payload: &[u8],
        comes: Comes<'_>,
    ) -> Option<(BundleKey, Bytes)> {
        let header = builder
            .header(u64::try_from(payload.len()).unwrap_or(u64::MAX))
            .ok()?;
        self.check_room(header.total_octets(), comes).ok()?;
        let mut crc = header.payload_crc();
        crc.update(payload);
        let trailer = crc.trailer();
        let mut octets =
            BytesMut::with_capacity(header.octets.len() + payload.len() + trailer.len());
        octets.put_slice(&header.octets);
        octets.put_slice(payload);
        octets.put_slice(&trailer);
        let key = self.held.hold_new(now, builder, &header);
        self.held.begin_arrival(key, Origin::Own);
        let octets = octets.freeze();
        self.held
            .append(&mut self.outbox, key, Piece::Octets(octets.clone()));
        self.held
            .commit(&mut self.adjacencies, &mut self.outbox, key);
        Some((key, octets))
    }

    /// Send a bundle of the node's own to a router of a neighbour, ahead of its sync where it may; `None` without room for it.
    pub(crate) fn tell_router(
        &mut self,
        now: Now,
        builder: &BundleBuilder,
        payload: &[u8],
    ) -> Option<BundleKey> {
        let stored = self.store_originated(now, builder, payload, Comes::ForRouter);
        let (key, octets) = stored?;
        self.forwarding.leave_before_sync(
            &mut self.held,
            &mut self.adjacencies,
            &mut self.outbox,
            now,
            key,
            &octets,
        );
        Some(key)
    }

    /// Send an administrative record to where a bundle's reports go (RFC 9171 6.2); `None` without room for it.
    pub(crate) fn send_record(&mut self, now: Now, parcel: Parcel) -> Option<BundleKey> {
        let Parcel {
            version,
            report_to,
            lifetime_ms,
            record,
        } = parcel;
        let source = self.held.endpoints().local().node_id().endpoint().clone();
        let creation = self.held.next_creation(&mut self.outbox, now, &source);
        let builder = BundleBuilder::new(source, report_to, creation, lifetime_ms)
            .with_version(version)
            .with_report_to(EndpointId::Null)
            .with_flags(BundleFlags::ADMINISTRATIVE_RECORD)
            .with_priority(Priority::Normal)
            .with_payload_crc_type(self.payload_checksum())
            .with_hop_limit(HOP_LIMIT);
        self.originate(now, &builder, &record)
    }
}
