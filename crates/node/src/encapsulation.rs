//! Bundles that leave in other bundles (draft-ietf-dtn-bibect-03): each becomes the payload of an administrative record for the node at the other
//! end of a tunnel, which takes its own way there.
//!
//! The encapsulated bundle has left once the encapsulating one is durable here. Where the link asks for custody, it stays until the peer signals that
//! it has it, and leaves again where no signal comes in time.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::BytesMut;
use dhow_bundle::storage::{BundleKey, Piece, StoreCommand};
use dhow_bundle::v7::admin::bibe::BpduHead;
use dhow_bundle::{BundleBuilder, BundleFlags, CrcType, DtnTime, EndpointId, Header, Now, Reading};
use dhow_link::stream::{RefuseReason, TransferId};

use crate::adjacencies::session_id::SessionId;
use crate::adjacencies::tunnel::Leaving;
use crate::config::BibePolicy;
use crate::crossing::HOP_LIMIT_EXCEEDED;
use crate::held::arrivals::Origin;
use crate::node::Node;
use crate::reservation::Comes;
use crate::transmission::HOP_LIMIT;

/// Bundles up to this size are written to the store as one piece.
const JOIN_OCTETS: u64 = 4 * 1024;

impl Node {
    /// What tunnels have to do: bundles to encapsulate, and encapsulating bundles to read.
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
        // What waits for the disk is bounded as that of neighbours is, whose octets are not read.
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
        let Some((peer, policy)) = self.adjacencies.tunnel_policy(session) else {
            return Err(RefuseReason::Unknown);
        };
        let peer = peer.endpoint().clone();
        let Some(hop_limit) = hop_limit(leaving) else {
            // RFC 9171 4.4.3: it is deleted as soon as it is back.
            if let Some(key) = key {
                self.delete_or_mark(now, key, HOP_LIMIT_EXCEEDED);
            }
            return Err(RefuseReason::NotAcceptable);
        };
        let (wait, head) = self.bpdu_head(now, (session, key), policy, leaving.length);
        let crc_type = match leaving
            .pieces
            .iter()
            .any(|it| matches!(it, Piece::Extent(_)))
        {
            // The payload is not in memory; the encapsulated bundle has its own checksum.
            true => CrcType::None,
            false => self.payload_checksum(),
        };
        let source = self.held.endpoints().local().node_id().endpoint().clone();
        let creation = self.held.next_creation(&mut self.outbox, now, &source);
        let builder = BundleBuilder::new(source, peer.clone(), creation, self.left_ms(now, key))
            .with_report_to(EndpointId::Null)
            .with_flags(BundleFlags::ADMINISTRATIVE_RECORD)
            .with_payload_crc_type(crc_type)
            .with_hop_limit(hop_limit);
        // The number of a transmission may make its head longer, by so much at most.
        let longest = leaving.length.saturating_add(HEAD_OCTETS);
        let room = builder
            .header(longest)
            .map_err(|_| RefuseReason::NotAcceptable)?;
        self.check_room(room.total_octets(), Comes::Answer)
            .map_err(|_| RefuseReason::NoResources)?;
        let head = self.number(now, (&peer, key), wait, head)?;
        let header = builder
            .header(leaving.length.saturating_add(length(&head)))
            .map_err(|_| RefuseReason::NotAcceptable)?;
        let mut crc = header.payload_crc();
        crc.update(&head);
        let mut pieces = Vec::with_capacity(leaving.pieces.len().saturating_add(2));
        let begin = [&*header.octets, &head].concat();
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

    /// The head of a transmission without its number, and the time that its signal may take, where one is asked for.
    fn bpdu_head(
        &self,
        now: Now,
        (session, key): (SessionId, Option<BundleKey>),
        policy: BibePolicy,
        octets: u64,
    ) -> (Option<Duration>, BpduHead) {
        let types = policy.dialect.types();
        let is_asked = key.is_some_and(|key| self.asks_peer_for_custody(session, key));
        if !is_asked {
            return (None, BpduHead::plain(types, octets));
        }
        let wait_ms =
            (policy.latency_ms.saturating_mul(2)).saturating_add(self.config.custody.retry_ms);
        let expected_by = match now.dtn.is_known() {
            true => now.dtn.saturating_add_millis(wait_ms),
            false => DtnTime::UNKNOWN,
        };
        let head = BpduHead::custodial(types, 0, expected_by, octets);
        (Some(Duration::from_millis(wait_ms)), head)
    }

    /// The octets of the head of a transmission, with a number where a signal is waited for.
    fn number(
        &mut self,
        now: Now,
        (peer, key): (&EndpointId, Option<BundleKey>),
        wait: Option<Duration>,
        mut head: BpduHead,
    ) -> Result<Vec<u8>, RefuseReason> {
        if let Some((wait, key)) = wait.zip(key) {
            let custody = self.held.custody_mut().value_mut();
            let given = custody.handle_encapsulated(now.monotonic, peer, key, wait);
            let given = given.ok_or(RefuseReason::NoResources)?;
            head.transmission_id = given.id;
            if let Some(mark) = given.reserve {
                let reservation = self.held.creation_mut().reserve_mark(mark);
                self.outbox.store(StoreCommand::Reserve {
                    time: reservation.time,
                    sequence: reservation.sequence,
                });
            }
        }
        let mut octets = Vec::new();
        head.encode(&mut octets);
        Ok(octets)
    }
}

/// Octets of the head of a BIBE protocol data unit, at most.
const HEAD_OCTETS: u64 = 38;

/// The hop limit of what carries a bundle. What carries another in turn has fewer hops each time, so that tunnels through each other end; none where
/// there are none left.
fn hop_limit(leaving: &Leaving) -> Option<u8> {
    let Some(Piece::Octets(head)) = leaving.pieces.first() else {
        return None;
    };
    let header = Header::decode(head, Reading::Lenient).ok()??;
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

fn length(octets: &[u8]) -> u64 {
    u64::try_from(octets.len()).unwrap_or(u64::MAX)
}
