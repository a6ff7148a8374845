//! The echo service: what comes for it goes back to its source.

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::{BundleBuilder, BundleFlags, CrcType, Header, Now, Reading};

use crate::bundles::Removal;
use crate::dispatch::{Arrival, Origin};
use crate::node::Node;
use crate::sending::{PendingRead, RETRANSMIT_REST};
use crate::transmission::HOP_LIMIT;

impl Node {
    /// A bundle for the echo service is whole: read its header blocks.
    pub(crate) fn echo(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.bundles.entry(key) else {
            return;
        };
        let flags = BundleFlags::from_bits(entry.flags);
        let source = self.endpoints.id(entry.source);
        // An answer to nobody, or to an echo service that would answer again, is no answer.
        if source.is_null()
            || source == self.endpoints.id(entry.destination)
            || flags.contains(BundleFlags::ADMINISTRATIVE_RECORD)
        {
            self.delivered(now, key);
            return;
        }
        let extents = entry.extents.part(0, u64::from(entry.header_octets));
        if self.is_stale(now, key) {
            self.verify(now, key);
            return;
        }
        if let Some(entry) = self.bundles.entry_mut(key) {
            entry.state = crate::bundles::State::InFlight;
        }
        self.read(PendingRead::Echo { key }, extents);
    }

    /// The header blocks are here: make the answer, whose payload the store copies.
    pub(crate) fn reply(&mut self, now: Now, key: BundleKey, octets: Bytes) {
        let Ok(Some(header)) = Header::decode(&octets, Reading::Lenient) else {
            self.rest(now, key, RETRANSMIT_REST);
            self.corrupt(now, key);
            return;
        };
        let whole = self.reassembly.parts(key).is_some();
        let payload_octets = header.total_adu_octets();
        let creation = self.next_creation(now, &header.primary.destination);
        // The checksum of a payload block covers its head and its payload: with the same head, the
        // trailer of the question is that of the answer.
        let crc_type = if whole {
            CrcType::None
        } else {
            header.payload.crc_type
        };
        let source = header.primary.destination.clone();
        let mut builder = BundleBuilder::new(
            source,
            header.primary.source.clone(),
            creation,
            header.primary.lifetime_ms,
        )
        .with_payload_crc_type(crc_type)
        .with_hop_limit(HOP_LIMIT);
        let mut answer = builder.header(payload_octets).ok();
        let has_same_head = answer
            .as_ref()
            .is_some_and(|answer| answer.payload.octets == header.payload.octets);
        if !has_same_head {
            // Another head would want another checksum, for which the payload would have to be read.
            builder = builder.with_payload_crc_type(CrcType::None);
            answer = builder.header(payload_octets).ok();
        }
        let Some(answer) = answer.filter(|answer| self.check_room(answer.total_octets()).is_ok())
        else {
            // An echo that finds no room is lost like any datagram's; the question was delivered.
            self.delete(now, key, Removal::Delivered, None);
            return;
        };
        let answer_key = self.hold_new(now, &builder, &answer);
        self.arrivals.insert(answer_key, Arrival::new(Origin::Own));
        self.append(answer_key, Piece::Octets(answer.octets.clone()));
        for piece in self.payload_pieces(key) {
            self.append(answer_key, piece);
        }
        if has_same_head && crc_type != CrcType::None {
            let from = u64::from(header.header_octets()).saturating_add(header.payload_octets());
            let trailer = self
                .bundles
                .entry(key)
                .map(|entry| entry.extents.slice(from, u64::MAX));
            for extent in trailer.into_iter().flatten() {
                self.append(answer_key, Piece::Extent(extent));
            }
        } else {
            self.append(answer_key, Piece::Octets(answer.payload_crc().trailer()));
        }
        self.commit(answer_key);
        self.delivered(now, key);
    }
}
