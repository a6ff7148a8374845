//! The echo service: bundles for it go back to their source.

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Extents, Piece};
use dhow_bundle::{CrcType, Header, Now, Reading};

use crate::answers::KNOWN_OCTETS;
use crate::forwarding::cut_through::CutThrough;
use crate::held::arrivals::Origin;
use crate::held::bundles::Removal;
use crate::held::retention::Trigger;
use crate::node::Node;
use crate::reservation::Comes;
use crate::sending::PendingRead;

impl Node {
    /// A bundle for the echo service is whole: read its header blocks.
    pub(crate) fn echo(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        if !self.held.wants_answer(entry) {
            self.outbox.counters.answers_withheld += 1;
            self.delivered(now, key);
            return;
        }
        let mut extents = entry.extents().slice(0, u64::from(entry.header_octets()));
        extents.extend(self.held.payload_start(key, KNOWN_OCTETS));
        if self.held.is_stale(now, key) {
            self.verify(now, key);
            return;
        }
        self.held.advance(&mut self.outbox, key, Trigger::Taken);
        self.held.read(
            &mut self.outbox,
            PendingRead::Echo { key },
            Extents::Many(extents.into()),
        );
    }

    /// A question is whole in memory and on its way into the store: its answer goes there with it, and may leave
    /// at once.
    pub(crate) fn reply_before_sync(
        &mut self,
        now: Now,
        key: BundleKey,
        header: &Header,
        payload: &[u8],
    ) {
        if !self
            .held
            .entry(key)
            .is_some_and(|it| self.held.wants_answer(it))
            || !self
                .services
                .may_send_back(&self.held, now, key, header.payload_octets(), payload)
        {
            return;
        }
        let builder = self.held.answer_to(
            &mut self.outbox,
            &self.config,
            now,
            (key, header),
            header.payload.crc_type,
        );
        // Without room it is tried again, once the question is stored.
        if let Some((answer, octets)) =
            self.store_originated(now, &builder, payload, Comes::FromHere)
        {
            self.forwarding
                .pass_before_sync(&mut self.held, key, CutThrough::Answered);
            self.forwarding.leave_before_sync(
                &mut self.held,
                &mut self.adjacencies,
                &mut self.outbox,
                now,
                answer,
                &octets,
            );
        }
    }

    /// The header blocks are here: make the answer, whose payload the store copies. False where they cannot be read.
    pub(crate) fn reply(&mut self, now: Now, key: BundleKey, octets: Bytes) -> bool {
        let Ok(Some(header)) = Header::decode(&octets, Reading::Lenient) else {
            return false;
        };
        self.reply_to(now, key, &header, &octets);
        true
    }

    fn reply_to(&mut self, now: Now, key: BundleKey, header: &Header, octets: &Bytes) {
        let whole = self.held.reassembly().parts(key).is_some();
        let payload_octets = header.total_adu_octets();
        let beginning = octets.get(header.octets.len()..).unwrap_or_default();
        if !self
            .services
            .may_send_back(&self.held, now, key, payload_octets, beginning)
        {
            self.outbox.counters.answers_withheld += 1;
            self.delivered(now, key);
            return;
        }
        // The checksum of a payload block covers its head and its payload: with the same head, the
        // trailer of the question is that of the answer.
        let crc_type = if whole {
            CrcType::None
        } else {
            header.payload.crc_type
        };
        let mut builder =
            self.held
                .answer_to(&mut self.outbox, &self.config, now, (key, header), crc_type);
        let mut answer = builder.header(payload_octets).ok();
        let has_same_head = answer
            .as_ref()
            .is_some_and(|answer| answer.payload.octets == header.payload.octets);
        if !has_same_head {
            // Another head would want another checksum, for which the payload would have to be read.
            builder = builder.with_payload_crc_type(CrcType::None);
            answer = builder.header(payload_octets).ok();
        }
        let Some(answer) = answer.filter(|answer| {
            self.check_room(answer.total_octets(), Comes::Answer)
                .is_ok()
        }) else {
            // An echo that finds no room is lost like any datagram's; the question was delivered.
            self.delete(now, key, Removal::Delivered, None);
            return;
        };
        let answer_key = self.held.hold_new(now, &builder, &answer);
        self.held.begin_arrival(answer_key, Origin::Own);
        self.held.append(
            &mut self.outbox,
            answer_key,
            Piece::Octets(answer.octets.clone()),
        );
        for piece in self.held.payload_pieces(key) {
            self.held.append(&mut self.outbox, answer_key, piece);
        }
        if has_same_head && answer.payload.crc_type != CrcType::None {
            let from = u64::from(header.header_octets()).saturating_add(header.payload_octets());
            let trailer = self
                .held
                .entry(key)
                .map(|entry| entry.extents().slice(from, u64::MAX));
            for extent in trailer.into_iter().flatten() {
                self.held
                    .append(&mut self.outbox, answer_key, Piece::Extent(extent));
            }
        } else {
            self.held.append(
                &mut self.outbox,
                answer_key,
                Piece::Octets(answer.payload_crc().trailer()),
            );
        }
        self.held
            .commit(&mut self.adjacencies, &mut self.outbox, answer_key);
        self.delivered(now, key);
    }
}
