//! The ends of transfers: a neighbour has taken a bundle, or has not, or keeps it for another node, or its session is gone.
//!
//! A bundle that is kept stays in flight here, and its session sends others meanwhile: neither the window nor the pace of the session counts it.

use crate::adjacencies::session_id::SessionId;
use crate::driver::Occurrence;
use crate::forwarding::cut_through::CutThrough;
use crate::node::Node;
use crate::sending::Outgoing;
use dhow_bundle::Now;
use dhow_link::stream::RefuseReason;
use dhow_link::stream::TransferId;

impl Node {
    /// A transfer failed: the bundle waits, is tried again later or takes another way, and never in a hot loop.
    pub(crate) fn failed(
        &mut self,
        now: Now,
        session: SessionId,
        transfer: TransferId,
        (refused, acknowledged): (Option<RefuseReason>, u64),
    ) {
        if self.settle_kept(now, session, transfer, Some(refused)) {
            return;
        }
        let Some(neighbour) = self.adjacencies.neighbour_mut(session) else {
            return;
        };
        let keeps = neighbour.keeps_reactive_fragments();
        neighbour.probe_over(now.monotonic, transfer, refused.is_some());
        let Some(outgoing) = neighbour.closed(transfer) else {
            return;
        };
        neighbour.window.lost(outgoing.octets);
        self.tell_transfer_step(session, &outgoing, Some(refused));
        let key = outgoing.key;
        match refused {
            None if keeps && acknowledged > outgoing.header_octets => {
                let octets = acknowledged - outgoing.header_octets;
                self.forwarding.handed_over(
                    &self.held,
                    &self.adjacencies,
                    session,
                    key,
                    outgoing.start,
                    octets,
                );
            }
            // RFC 9174 table 6: the whole is wanted again.
            Some(RefuseReason::Retransmit) => {
                self.forwarding
                    .set_acknowledged(&self.adjacencies, session, key, None)
            }
            _ => {}
        }
        if let Some(reason) = refused {
            self.adjacencies.refused_by_peer(
                &mut self.held,
                &mut self.outbox,
                now,
                session,
                key,
                reason,
            );
        }
        self.adjacencies.discharge(session, outgoing.octets);
        if outgoing.fragment {
            self.settle_fragment(now, session, key, Some(refused));
        } else if !self.end_cut_through(now, session, key, CutThrough::Failed(refused)) {
            self.come_back(now, session, key, refused);
            self.forwarding
                .pay(&mut self.adjacencies, &mut self.attention, now, key);
        }
    }

    /// The peer keeps a bundle, and says later whether anybody took it. A bundle that is not durable here yet comes back: nothing that is kept
    /// stands in the way of its arrival.
    pub(crate) fn kept_by_peer(&mut self, now: Now, session: SessionId, transfer: TransferId) {
        let Some(neighbour) = self.adjacencies.neighbour_mut(session) else {
            return;
        };
        let Some(outgoing) = neighbour.outgoing().get(transfer.0) else {
            return;
        };
        if self.forwarding.cut_through(outgoing.key).is_some() {
            return self.failed(now, session, transfer, (None, 0));
        }
        let Some(mut outgoing) = neighbour.closed(transfer) else {
            return;
        };
        neighbour.probe_over(now.monotonic, transfer, false);
        let octets = core::mem::take(&mut outgoing.octets);
        neighbour
            .window
            .answered(now.monotonic, outgoing.begun, octets);
        neighbour.bundles_sent += 1;
        neighbour.octets_sent += octets;
        let was_tried = neighbour.trial.is_some_and(|trial| trial.bundles == 1);
        neighbour.has_taken(octets);
        neighbour.keep(transfer, outgoing);
        if was_tried {
            self.adjacencies.try_others(session);
        }
        self.adjacencies.discharge(session, octets);
    }

    /// The peer tells the fate of a bundle that it kept: `None` if a node has taken it. False where it kept none of this number.
    pub(crate) fn settle_kept(
        &mut self,
        now: Now,
        session: SessionId,
        transfer: TransferId,
        outcome: Option<Option<RefuseReason>>,
    ) -> bool {
        let neighbour = self.adjacencies.neighbour_mut(session);
        let Some(outgoing) = neighbour.and_then(|it| it.take_kept(transfer)) else {
            return false;
        };
        let key = outgoing.key;
        if outcome.is_none() {
            self.tell_transfer(now, session, &outgoing);
        }
        self.tell_transfer_step(session, &outgoing, outcome);
        if outgoing.fragment {
            self.settle_fragment(now, session, key, outcome);
            return true;
        }
        let ending = outcome.map_or(CutThrough::Taken(session), CutThrough::Failed);
        if !self.end_cut_through(now, session, key, ending) {
            match outcome {
                None => self.forwarded(now, session, key),
                Some(refused) => self.come_back(now, session, key, refused),
            }
            self.forwarding
                .pay(&mut self.adjacencies, &mut self.attention, now, key);
        }
        true
    }

    /// A session is gone: everything that it was sending comes back.
    pub(crate) fn return_outgoing(&mut self, now: Now, session: SessionId) {
        let Some(neighbour) = self.adjacencies.neighbour_mut(session) else {
            return;
        };
        neighbour.probe = None;
        let outgoing = neighbour.all_closed();
        let splits = core::mem::take(&mut neighbour.splits);
        // The oldest last: it is the first of its queue again.
        for outgoing in outgoing.rev() {
            self.tell_transfer_step(session, &outgoing, Some(None));
            if outgoing.fragment {
                self.settle_fragment(now, session, outgoing.key, Some(None));
            } else if !self.end_cut_through(now, session, outgoing.key, CutThrough::Failed(None)) {
                self.come_back(now, session, outgoing.key, None);
                self.forwarding.pay(
                    &mut self.adjacencies,
                    &mut self.attention,
                    now,
                    outgoing.key,
                );
            }
        }
        for split in splits {
            self.stop_split(now, session, split.key, None);
        }
    }

    /// A neighbour has taken a transfer, or it has left over a link on which nobody says more.
    pub(crate) fn transmitted(&mut self, now: Now, session: SessionId, transfer: TransferId) {
        if self.settle_kept(now, session, transfer, None) {
            return;
        }
        let Some(neighbour) = self.adjacencies.neighbour_mut(session) else {
            return;
        };
        let Some(outgoing) = neighbour.closed(transfer) else {
            return;
        };
        neighbour.probe_over(now.monotonic, transfer, false);
        let (begun, octets) = (outgoing.begun, outgoing.octets);
        neighbour.window.answered(now.monotonic, begun, octets);
        neighbour.bundles_sent += 1;
        neighbour.octets_sent += outgoing.octets;
        let was_tried = neighbour.trial.is_some_and(|trial| trial.bundles == 1);
        neighbour.has_taken(outgoing.octets);
        if !neighbour.shortages.is_empty()
            && let Some(entry) = self.held.entry(outgoing.key)
        {
            neighbour.shortages.took(entry.source());
        }
        if was_tried {
            self.adjacencies.try_others(session);
        }
        if let Some(link) = self.adjacencies.neighbour(session).and_then(|it| it.link)
            && let Some(link) = self.adjacencies.link_mut(link)
        {
            link.works();
        }
        self.adjacencies.discharge(session, outgoing.octets);
        self.tell_transfer(now, session, &outgoing);
        self.tell_transfer_step(session, &outgoing, None);
        if outgoing.fragment {
            if !self.forwarding.keeps_sent(&self.adjacencies, session) {
                self.forwarding.handed_over(
                    &self.held,
                    &self.adjacencies,
                    session,
                    outgoing.key,
                    outgoing.start,
                    outgoing.octets,
                );
            }
            self.settle_fragment(now, session, outgoing.key, None);
        } else if !self.end_cut_through(now, session, outgoing.key, CutThrough::Taken(session)) {
            self.forwarded(now, session, outgoing.key);
            self.forwarding.pay(
                &mut self.adjacencies,
                &mut self.attention,
                now,
                outgoing.key,
            );
        }
    }

    pub(crate) fn tell_transfer(&mut self, now: Now, session: SessionId, outgoing: &Outgoing) {
        if !self.outbox.telling.is_of_bundles() {
            return;
        }
        let entry = self.held.entry(outgoing.key);
        let id = entry.and_then(|entry| self.held.told(&mut self.outbox, entry));
        let peer = self
            .adjacencies
            .neighbour(session)
            .and_then(|it| it.peer_id());
        let took = now.monotonic.since(outgoing.begun);
        if let Some((id, to)) = id.zip(peer.cloned()) {
            self.outbox.occurred(Occurrence::Transferred {
                id,
                to,
                octets: outgoing.octets,
                took_ns: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
            });
        }
    }
}
