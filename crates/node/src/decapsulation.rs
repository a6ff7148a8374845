//! Bundles that come in other bundles (draft-ietf-dtn-bibect-03): what a peer at the other end of a tunnel encapsulated comes in as a transfer of the
//! tunnel's, read from the encapsulating bundle, which stays until the other is durable here.
//!
//! Records of nodes that are no peers are not looked at: a link says whose bundles are taken, and how.

use bytes::Bytes;
use dhow_bundle::Now;
use dhow_bundle::storage::{BundleKey, Extents};
use dhow_bundle::v7::admin::bibe::{BibeRecord, BibeRefusal, BibeTypes, BpduHead, Disposition};
use dhow_link::stream::{RefuseReason, TransferId};

use crate::adjacencies::session_id::SessionId;
use crate::adjacencies::tunnel::{Coming, Reading, Settled};
use crate::detours::OBSTACLE_RETRY;
use crate::driver::Occurrence;
use crate::held::retention::Trigger;
use crate::node::Node;
use crate::reception::Ends;
use crate::sending::{NOT_ACCEPTABLE_RETRY, PendingRead, RETRANSMIT_RETRY};

/// Octets of a payload that are read first: a custody signal has no more.
const FIRST_OCTETS: u64 = 64 * 1024;

/// Octets that are read at once behind them.
const NEXT_OCTETS: u64 = 256 * 1024;

impl Node {
    /// An administrative record of a tunnel's peer is here. It waits while the link of the tunnel is down.
    pub(crate) fn take_encapsulating(
        &mut self,
        now: Now,
        key: BundleKey,
        session: Option<SessionId>,
    ) {
        if self.held.is_stale(now, key) {
            return self.verify(now, key);
        }
        let tunnel = session.and_then(|session| self.adjacencies.tunnel_mut(session));
        let Some(tunnel) = tunnel else {
            self.retry_after(now, key, NOT_ACCEPTABLE_RETRY);
            return;
        };
        if self.held.advance(&mut self.outbox, key, Trigger::Taken) {
            tunnel.came(key);
        }
    }

    /// Read what came through a tunnel, as far as the store has room for what is in it.
    pub(crate) fn read_encapsulating(&mut self, session: SessionId) {
        while self.outbox.has_turn_left()
            && (self.held.backlog()).has_room(session.stream(), self.config.store_queue_octets)
            && let Some(tunnel) = self.adjacencies.tunnel_mut(session)
            && let Some(reading) = tunnel.next_reading()
        {
            let (key, transfer, from, octets) = match reading {
                Reading::First(key) => (key, None, 0, FIRST_OCTETS),
                Reading::Next(transfer, it) => (it.outer, Some(transfer), it.read, NEXT_OCTETS),
            };
            let extents = self.held.payload_part(key, from, octets);
            self.held.read(
                &mut self.outbox,
                PendingRead::Encapsulating {
                    session,
                    key,
                    transfer,
                },
                Extents::Many(extents.into()),
            );
        }
    }

    /// Octets of an encapsulating bundle are here, or the disk has not given them.
    pub(crate) fn hear_encapsulating(
        &mut self,
        now: Now,
        (session, key): (SessionId, BundleKey),
        transfer: Option<TransferId>,
        octets: Option<Bytes>,
    ) {
        // A tunnel that was closed has given all back.
        let Some(tunnel) = self.adjacencies.tunnel_mut(session) else {
            return;
        };
        tunnel.end_reading(key);
        match (transfer, octets) {
            (None, Some(octets)) => self.open_record(now, session, key, octets),
            (None, None) => drop(self.retry_after(now, key, RETRANSMIT_RETRY)),
            (Some(transfer), octets) => {
                let Some(coming) = tunnel.coming(transfer) else {
                    return;
                };
                match octets {
                    Some(octets) => self.read_on(now, (session, transfer), coming, octets, false),
                    None => {
                        tunnel.give_up(transfer);
                        let refused = Some(RefuseReason::Retransmit);
                        self.abandon_reception(now, session, transfer, refused);
                        self.retry_after(now, key, RETRANSMIT_RETRY);
                    }
                }
            }
        }
    }

    /// The beginning of a peer's administrative record is here.
    fn open_record(&mut self, now: Now, session: SessionId, key: BundleKey, octets: Bytes) {
        let outcome = match BibeTypes::peek(&octets) {
            Some(BibeRecord::Bpdu) => self.open_bpdu(now, session, key, &octets),
            Some(BibeRecord::Signal) => {
                let source = self.held.entry(key).map(|entry| entry.source());
                let peer = source.map(|source| self.held.endpoints().id(source).clone());
                let custody = self.held.custody_mut().value_mut();
                let heard = peer.map(|peer| custody.handle_bibe_signal(&peer, &octets));
                self.delivered(now, key);
                heard.unwrap_or(Ok(()))
            }
            // Another record says nothing to the node.
            None => {
                self.delivered(now, key);
                Ok(())
            }
        };
        if let Err(refusal) = outcome {
            self.outbox.counters.refused += 1;
            if let Some(from) = self.adjacencies.peer_of(session) {
                let why = alloc::format!("{refusal} (draft-ietf-dtn-bibect-03)");
                let reason = RefuseReason::NotAcceptable;
                self.outbox
                    .occurred(Occurrence::RefusedIncoming { from, reason, why });
            }
        }
    }

    fn open_bpdu(
        &mut self,
        now: Now,
        session: SessionId,
        key: BundleKey,
        octets: &Bytes,
    ) -> Result<(), BibeRefusal> {
        let length = self.held.payload_length(key);
        let head = BpduHead::decode(octets).and_then(|head| {
            let (head, head_octets) = head.ok_or(BibeRefusal::BundleCut)?;
            head.check_payload(head_octets, length)?;
            Ok((head, head_octets))
        });
        let (head, head_octets) = match head {
            Ok(head) => head,
            Err(refusal) => {
                self.delivered(now, key);
                return Err(refusal);
            }
        };
        let Some(tunnel) = self.adjacencies.tunnel_mut(session) else {
            return Ok(());
        };
        let coming = Coming {
            outer: key,
            head,
            read: u64::try_from(head_octets).unwrap_or(u64::MAX),
        };
        let transfer = tunnel.begin(coming);
        let rest = octets.slice(head_octets.min(octets.len())..);
        self.read_on(now, (session, transfer), coming, rest, true);
        Ok(())
    }

    /// The next octets of a bundle in another.
    fn read_on(
        &mut self,
        now: Now,
        (session, transfer): (SessionId, TransferId),
        coming: Coming,
        octets: Bytes,
        start: bool,
    ) {
        let read = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        let read = coming.read.saturating_add(read);
        let end = read >= self.held.payload_length(coming.outer);
        if !end && let Some(tunnel) = self.adjacencies.tunnel_mut(session) {
            tunnel.pause(transfer, read);
        }
        let ends = Ends {
            start,
            end,
            length: start.then_some(coming.head.bundle_octets),
        };
        self.receive(now, session, transfer, octets, ends);
        self.attention.attend(session.stream());
    }

    /// Let go of encapsulating bundles whose bundle is durable here, or will not be, and note what their senders are to hear.
    pub(crate) fn settle_encapsulating(&mut self, now: Now, session: SessionId) {
        let peer = self.adjacencies.peer_of(session);
        while let Some(tunnel) = self.adjacencies.tunnel_mut(session)
            && let Some((coming, settled)) = tunnel.next_settled()
        {
            let disposition = match settled {
                Settled::Taken => Disposition::Accepted,
                Settled::Refused(RefuseReason::Completed) => Disposition::Redundant,
                Settled::Refused(RefuseReason::NoResources) if coming.head.asks_for_custody() => {
                    Disposition::DepletedStorage
                }
                Settled::Refused(
                    RefuseReason::NoResources
                    | RefuseReason::Retransmit
                    | RefuseReason::SessionTerminating,
                ) => {
                    self.retry_after(now, coming.outer, OBSTACLE_RETRY);
                    continue;
                }
                Settled::Refused(_) => Disposition::NoInformation,
            };
            if let Some(peer) = &peer {
                let custody = self.held.custody_mut().value_mut();
                custody.handle_bpdu(now, peer.endpoint(), &coming.head, disposition);
            }
            self.delivered(now, coming.outer);
        }
    }

    /// A tunnel is closed: what it has not settled is read again when it is open.
    pub(crate) fn close_tunnel(&mut self, now: Now, session: SessionId) {
        self.settle_encapsulating(now, session);
        let tunnel = self.adjacencies.tunnel_mut(session);
        for key in tunnel.map(|it| it.close()).into_iter().flatten() {
            self.retry_after(now, key, OBSTACLE_RETRY);
        }
    }
}
