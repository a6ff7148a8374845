//! Bundles that leave in other bundles (draft-ietf-dtn-bibect-03): each becomes the payload of an administrative record for the node at the other
//! end of a tunnel, which takes its own way there.
//!
//! The encapsulated bundle has left once the encapsulating one is durable here. If the link asks for custody, it stays until the peer signals that
//! it has it, and leaves again if no signal comes in time.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::BytesMut;
use dhow_bundle::storage::{BundleKey, Piece, StoreCommand};
use dhow_bundle::v7::admin::bibe::BpduHead;
use dhow_bundle::{BundleBuilder, BundleFlags, CrcType, DtnTime, EndpointId, Header, Now, Reading};
use dhow_link::stream::{RefuseReason, TransferId};

use crate::adjacencies::session_id::SessionId;
use crate::adjacencies::tunnel::Leaving;
use crate::crossing::HOP_LIMIT_EXCEEDED;
use crate::held::arrivals::Origin;
use crate::memory::length;
use crate::node::Node;
use crate::reservation::Comes;
use crate::transmission::HOP_LIMIT;

/// Bundles up to this size are written to the store as one piece.
const JOIN_OCTETS: u64 = 4 * 1024;

impl Node {
    /// The work of tunnels: bundles to encapsulate, and encapsulating bundles to read.
    pub(crate) fn attend_tunnels(&mut self, now: Now) {
        let mut next = self.adjacencies.tunnel_from(SessionId::of_tunnel(0));
        while let Some(session) = next {
            self.encapsulate_all(now, session);
            self.settle_encapsulating(now, session);
            self.read_encapsulating(session);
            next = self.adjacencies.tunnel_from(session.following());
        }
    }

    fn encapsulate_all(&mut self, now: Now, session: SessionId) {
        // The octets that wait for the disk are bounded, as those of neighbours are, which are not read meanwhile.
        while self.outbox.has_turn_left()
            && self.held.backlog().octets() < self.config.store_queue_octets
            && let Some(tunnel) = self.adjacencies.tunnel_mut(session)
            && let Some((transfer, leaving)) = tunnel.take_whole()
        {
            if let Err(reason) = self.encapsulate(now, (session, transfer), &leaving) {
                self.adjacencies.encapsulated(
                    &mut self.attention,
                    (session, transfer),
                    Some(reason),
                );
            }
        }
    }

    /// Make the bundle that carries another to the peer of a tunnel.
    fn encapsulate(
        &mut self,
        now: Now,
        (session, transfer): (SessionId, TransferId),
        leaving: &Leaving,
    ) -> Result<(), RefuseReason> {
        let outgoing = self.adjacencies.neighbour(session);
        let outgoing = outgoing.and_then(|it| it.outgoing().get(transfer.0));
        let key = outgoing.filter(|it| !it.fragment).map(|it| it.key);
        let inner = header_of(leaving).ok_or(RefuseReason::NotAcceptable)?;
        let Some(hop_limit) = hop_limit(&inner) else {
            // RFC 9171 4.4.3: it is deleted as soon as it is back.
            if let Some(key) = key {
                self.delete_or_mark(now, key, HOP_LIMIT_EXCEEDED);
            }
            return Err(RefuseReason::NotAcceptable);
        };
        let head = self.bpdu_head(now, (session, key), leaving.length)?;
        let made = self.make_carrier(now, (session, transfer, key), leaving, (&head, hop_limit));
        if let (Err(_), Some(key)) = (&made, key) {
            self.held
                .custody_mut()
                .value_mut()
                .handle_not_encapsulated(key);
        }
        made
    }

    fn make_carrier(
        &mut self,
        now: Now,
        (session, transfer, key): (SessionId, TransferId, Option<BundleKey>),
        leaving: &Leaving,
        (head, hop_limit): (&[u8], u8),
    ) -> Result<(), RefuseReason> {
        let peer = self.adjacencies.peer_of(session);
        let peer = peer.ok_or(RefuseReason::Unknown)?;
        let mut pieces = leaving.pieces.iter();
        let crc_type = match pieces.any(|it| matches!(it, Piece::Extent(_))) {
            // The payload is not in memory; the encapsulated bundle has its own checksum.
            true => CrcType::None,
            false => self.payload_checksum(),
        };
        let source = self.held.endpoints().local().node_id().endpoint().clone();
        let creation = self.held.next_creation(&mut self.outbox, now, &source);
        let destination = peer.endpoint().clone();
        let builder = BundleBuilder::new(source, destination, creation, self.left_ms(now, key))
            .with_report_to(EndpointId::Null)
            .with_flags(BundleFlags::ADMINISTRATIVE_RECORD)
            .with_payload_crc_type(crc_type)
            .with_hop_limit(hop_limit);
        let header = builder
            .header(leaving.length.saturating_add(length(head.len())))
            .map_err(|_| RefuseReason::NotAcceptable)?;
        self.check_room(header.total_octets(), Comes::Answer)
            .map_err(|_| RefuseReason::NoResources)?;
        let mut crc = header.payload_crc();
        crc.update(head);
        let mut pieces = Vec::with_capacity(leaving.pieces.len().saturating_add(2));
        let begin = [&*header.octets, head].concat();
        pieces.push(Piece::Octets(begin.into()));
        for piece in &leaving.pieces {
            if let Piece::Octets(octets) = piece {
                crc.update(octets);
            }
            pieces.push(piece.clone());
        }
        pieces.push(Piece::Octets(crc.trailer()));
        let outer = self.held.hold_new(now, &builder, &header);
        self.held
            .begin_arrival(outer, Origin::Encapsulating { session, transfer });
        if let Some(key) = key {
            let custody = self.held.custody_mut().value_mut();
            custody.handle_carried(key, outer);
        }
        for piece in joined(pieces) {
            self.held.append(&mut self.outbox, outer, piece);
        }
        self.held
            .commit(&mut self.adjacencies, &mut self.outbox, outer);
        Ok(())
    }

    /// Milliseconds until a bundle expires; what carries it lives as long.
    fn left_ms(&self, now: Now, key: Option<BundleKey>) -> u64 {
        let entry = key.and_then(|key| self.held.entry(key));
        let left = entry.map(|entry| entry.expires() - now.monotonic);
        let left = left.and_then(|left| u64::try_from(left.as_millis()).ok());
        left.unwrap_or(self.config.default_lifetime_ms).max(1)
    }

    /// The octets of the head of a transmission, with a number where a signal is waited for.
    fn bpdu_head(
        &mut self,
        now: Now,
        (session, key): (SessionId, Option<BundleKey>),
        octets: u64,
    ) -> Result<Vec<u8>, RefuseReason> {
        let asking = key.filter(|key| self.asks_peer_for_custody(session, *key));
        let (peer, policy) =
            (self.adjacencies.tunnel_policy(session)).ok_or(RefuseReason::Unknown)?;
        let types = policy.dialect.types();
        let head = match asking {
            None => BpduHead::plain(types, octets),
            Some(key) => {
                let wait_ms = (policy.latency_ms.saturating_mul(2))
                    .saturating_add(self.config.custody.retry_ms);
                let wait = Duration::from_millis(wait_ms);
                let custody = self.held.custody_mut().value_mut();
                let given = custody.handle_encapsulated(now.monotonic, peer.endpoint(), key, wait);
                let given = given.ok_or(RefuseReason::NoResources)?;
                if let Some(mark) = given.reserve {
                    let reservation = self.held.creation_mut().reserve_mark(mark);
                    self.outbox.store(StoreCommand::Reserve {
                        time: reservation.time,
                        sequence: reservation.sequence,
                    });
                }
                let expected_by = match now.dtn.is_known() {
                    true => now.dtn.saturating_add_millis(wait_ms),
                    false => DtnTime::UNKNOWN,
                };
                BpduHead::custodial(types, given.id, expected_by, octets)
            }
        };
        let mut out = Vec::new();
        head.encode(&mut out);
        Ok(out)
    }
}

/// The header of a bundle that leaves, which is its first piece.
fn header_of(leaving: &Leaving) -> Option<Header> {
    match leaving.pieces.first()? {
        Piece::Octets(head) => Header::decode(head, Reading::Lenient).ok()?,
        Piece::Extent(_) => None,
    }
}

/// The hop limit of a carrier. One that carries another carrier has fewer hops each time, so that tunnels through each other end; none where
/// there are none left.
fn hop_limit(header: &Header) -> Option<u8> {
    let hops = header.hop_count().filter(|_| header.is_administrative());
    match hops {
        Some(hops) => {
            let left = u64::from(hops.limit).saturating_sub(hops.count);
            let left = left.saturating_sub(1).min(HOP_LIMIT.into());
            u8::try_from(left).ok().filter(|left| *left > 0)
        }
        None => Some(HOP_LIMIT),
    }
}

/// The same octets in one piece, where they are few.
fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let octets = pieces.iter().map(Piece::length);
    let is_small = octets.fold(0, u64::saturating_add) <= JOIN_OCTETS;
    let mut all = BytesMut::new();
    for piece in &pieces {
        match piece {
            Piece::Octets(octets) if is_small => all.extend_from_slice(octets),
            _ => return pieces,
        }
    }
    alloc::vec![Piece::Octets(all.freeze())]
}
