//! Deliveries to a subscriber: waiting, leaving, and gone but not confirmed.

use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use bytes::BytesMut;
use dhow_bundle::storage::{Extent, Piece};
use dhow_bundle::{EndpointId, SmallBuffer, Version};
use dhow_link::Gather;

use super::encoding::{DeliveryEncoding, level_beyond_normal, put_delivery};
use super::seam::{DeliveryHead, DeliveryId};
use super::wire::{ADU_STATUS_REPORT, AapMessage, Body, BundleAdu, put_message};

/// Most deliveries that may be unconfirmed on one connection, and most that may wait for it, whatever
/// window the client asks for: each holds a head and a list of pieces in memory.
pub const DELIVERY_WINDOW_MAX: usize = 1024;

/// A delivery up to this many octets leaves in one gather, whatever the limit asked for: the stock
/// synchronous client takes a payload with a single `recv` and would be given a part of it.
pub const DELIVERY_WHOLE_OCTETS_MAX: u64 = 64 * 1024;

/// The flag of bundles that carry an administrative record (RFC 9171 4.2.3).
const FLAG_ADMINISTRATIVE: u64 = 0x2;

/// Why a subscriber's answer fits no delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Nothing is unconfirmed, or not the one that it names.
    #[error("a response answers no delivery")]
    NoDelivery,
    /// Its payload has not left in full.
    #[error("a response answers a delivery that is still being sent")]
    Early,
}

#[derive(Debug)]
struct Delivery {
    id: DeliveryId,
    head: DeliveryHead,
    payload: Vec<Piece>,
}

/// The deliveries of one subscriber.
#[derive(Debug)]
pub(super) struct Deliveries {
    /// Deliveries that may be unconfirmed at a time.
    window: usize,
    waiting: VecDeque<Delivery>,
    /// The part of the newest unconfirmed delivery that is not sent yet; empty between deliveries.
    leaving: VecDeque<Piece>,
    /// Deliveries in the order in which they left.
    unconfirmed: VecDeque<DeliveryId>,
    encoding: DeliveryEncoding,
    /// The buffer in which heads are written, one behind the other.
    heads: SmallBuffer,
}

impl Deliveries {
    pub(super) fn new(window: usize) -> Self {
        Self {
            window: window.clamp(1, DELIVERY_WINDOW_MAX),
            waiting: VecDeque::new(),
            leaving: VecDeque::new(),
            unconfirmed: VecDeque::new(),
            encoding: DeliveryEncoding::default(),
            heads: SmallBuffer::new(HEADS_OCTETS),
        }
    }

    /// Deliveries that would find room in the window now.
    pub(super) fn room(&self) -> usize {
        self.window
            .saturating_sub(self.unconfirmed.len() + self.waiting.len())
    }

    /// Queue a delivery; false when too many wait already.
    #[must_use]
    pub(super) fn push(&mut self, id: DeliveryId, head: DeliveryHead, payload: Vec<Piece>) -> bool {
        let length = payload
            .iter()
            .fold(0_u64, |sum, piece| sum.saturating_add(piece.length()));
        assert_eq!(
            length, head.payload_octets,
            "a delivery's pieces are its payload"
        );
        let taken = self.waiting.len() < DELIVERY_WINDOW_MAX;
        if taken {
            self.waiting.push_back(Delivery { id, head, payload });
        }
        taken
    }

    /// A subscriber has answered the delivery that it names, or its oldest.
    pub(super) fn answer(&mut self, named: Option<u64>) -> Result<DeliveryId, AnswerError> {
        let position = match named {
            None => 0,
            Some(id) => self
                .unconfirmed
                .iter()
                .position(|delivery| delivery.0 == id)
                .ok_or(AnswerError::NoDelivery)?,
        };
        if !self.leaving.is_empty() && position + 1 == self.unconfirmed.len() {
            return Err(AnswerError::Early);
        }
        self.unconfirmed
            .remove(position)
            .ok_or(AnswerError::NoDelivery)
    }

    /// True while a payload is partly sent: nothing else may go into the stream.
    pub(super) fn is_within_payload(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// True when octets of deliveries could leave now.
    pub(super) fn has_octets(&self) -> bool {
        self.is_within_payload()
            || (!self.waiting.is_empty() && self.unconfirmed.len() < self.window)
    }

    /// Add octets of the delivery that is leaving to `out`, until it holds `limit`.
    pub(super) fn poll_leaving(&mut self, limit: u64, out: &mut Gather) {
        while out.octets() < limit
            && let Some(piece) = take_front(&mut self.leaving, limit - out.octets())
        {
            out.push(piece);
        }
    }

    /// Begin the next delivery if the window has room for it, and add what fits of it to `out`; false
    /// when none was begun.
    #[must_use]
    pub(super) fn poll_next(&mut self, limit: u64, out: &mut Gather) -> bool {
        if self.unconfirmed.len() >= self.window {
            return false;
        }
        let Some(next) = self.waiting.front() else {
            return false;
        };
        let whole = next.head.payload_octets <= DELIVERY_WHOLE_OCTETS_MAX;
        let fits = out.octets().saturating_add(next.head.payload_octets) <= limit;
        if !out.is_empty() && whole && !fits {
            return false;
        }
        let Some(delivery) = self.waiting.pop_front() else {
            return false;
        };
        self.unconfirmed.push_back(delivery.id);
        let head = self.head(delivery.id, &delivery.head);
        out.push(head);
        self.leaving.extend(
            delivery
                .payload
                .into_iter()
                .filter(|piece| piece.length() > 0),
        );
        self.poll_leaving(if whole { u64::MAX } else { limit }, out);
        true
    }

    /// The message that goes before a delivery's payload.
    fn head(&mut self, id: DeliveryId, head: &DeliveryHead) -> Piece {
        self.heads.reserve(HEAD_OCTETS);
        if head.flags & FLAG_ADMINISTRATIVE == 0 {
            put_delivery(id, head, &mut self.encoding, self.heads.open());
        } else {
            put_record(id, head, self.heads.open());
        }
        Piece::Octets(self.heads.give())
    }

    /// Forget everything: the connection is over.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.leaving.clear();
        self.unconfirmed.clear();
    }
}

/// Octets of the room for heads, at most; one with long endpoint IDs makes it larger.
const HEADS_OCTETS: usize = 16 * 1024;

/// Octets that most heads do not have.
const HEAD_OCTETS: usize = 256;

/// The message before the payload of a bundle that carries an administrative record.
fn put_record(id: DeliveryId, head: &DeliveryHead, out: &mut BytesMut) {
    let report_to = match &head.report_to {
        EndpointId::Null => Default::default(),
        endpoint => endpoint.to_string(),
    };
    let message = AapMessage::new(Body::Adu(BundleAdu {
        src_eid: head.id.source.to_string(),
        dst_eid: head.destination.to_string(),
        creation_timestamp_ms: head.id.creation.time.as_millis(),
        sequence_number: head.id.creation.sequence,
        payload_length: head.payload_octets,
        adu_flags: vec![ADU_STATUS_REPORT],
        report_to_eid: report_to,
        lifetime_ms: Some(head.lifetime_ms),
        bundle_flags: Some(head.flags),
        request_id: None,
        delivery_id: Some(id.0),
        aggregated_reports: false,
        bundle_version: (head.version == Version::V6).then(|| head.version.number().into()),
        priority: level_beyond_normal(head.priority),
    }));
    put_message(&message, out);
}

/// Take up to `most` octets (at least 1) of the first piece.
fn take_front(pieces: &mut VecDeque<Piece>, most: u64) -> Option<Piece> {
    let first = pieces.front_mut()?;
    if first.length() <= most {
        return pieces.pop_front();
    }
    match first {
        Piece::Octets(octets) => {
            let length = usize::try_from(most)
                .unwrap_or(usize::MAX)
                .min(octets.len());
            Some(Piece::Octets(octets.split_to(length)))
        }
        Piece::Extent(extent) => {
            let front = Extent {
                offset: extent.offset,
                length: most,
            };
            extent.offset = extent.offset.saturating_add(most);
            extent.length -= most;
            Some(Piece::Extent(front))
        }
    }
}
