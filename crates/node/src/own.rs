//! Whole bundles that the node itself makes: administrative records, summaries of measurements.

use bytes::{BufMut, Bytes, BytesMut};
use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::{BundleBuilder, Now};

use crate::arrivals::Origin;
use crate::node::Node;
use crate::reservation::Comes;

impl Node {
    /// Send a bundle of the node's own; `None` without room for it.
    pub(crate) fn send_own(
        &mut self,
        now: Now,
        builder: &BundleBuilder,
        payload: &[u8],
    ) -> Option<BundleKey> {
        Some(self.store_own(now, builder, payload)?.0)
    }

    /// The same; its octets come back, too.
    pub(crate) fn store_own(
        &mut self,
        now: Now,
        builder: &BundleBuilder,
        payload: &[u8],
    ) -> Option<(BundleKey, Bytes)> {
        let header = builder
            .header(u64::try_from(payload.len()).unwrap_or(u64::MAX))
            .ok()?;
        self.check_room(header.total_octets(), Comes::FromHere)
            .ok()?;
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
        self.commit(key);
        Some((key, octets))
    }
}
