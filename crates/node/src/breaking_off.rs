//! Bundles that do not come in whole: refused, given up by their session, or interrupted for another copy.

use crate::adjacencies::neighbour::Neighbour;
use crate::adjacencies::session_id::SessionId;
use crate::held::arrivals::Origin;
use crate::held::bundles::Removal;
use crate::held::endpoints::EndpointIndex;
use crate::held::retention::Trigger;
use crate::node::Node;
use crate::reception::Reception;
use crate::reception::Refused;
use dhow_bundle::BundleId;
use dhow_bundle::Now;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::storage::StoreCommand;
use dhow_link::stream::LinkCommand;
use dhow_link::stream::RefuseReason;
use dhow_link::stream::TransferId;

impl Node {
    /// Tell the peer that a transfer is refused, and remember to drop the rest of it.
    pub(crate) fn refuse(
        &mut self,
        now: Now,
        session: SessionId,
        transfer: TransferId,
        refused: Refused,
    ) {
        let reason = refused.reason;
        if reason != RefuseReason::Completed {
            self.outbox.counters.refused += 1;
            if let Some(from) = self
                .adjacencies
                .neighbour(session)
                .and_then(|it| it.sender_id().cloned())
            {
                self.outbox.occurred(refused.occurrence(from));
            }
        }
        self.adjacencies.command(
            &mut self.attention,
            now,
            session,
            LinkCommand::Refuse { transfer, reason },
        );
    }

    /// A bundle that is arriving will not be completed, or is not wanted any more.
    pub(crate) fn abandon(&mut self, now: Now, key: BundleKey) {
        // First of all nobody reads its octets any more.
        self.forwarding
            .drop_cut_through(&mut self.adjacencies, &mut self.attention, now, key);
        self.drop_reactive(now, key);
        self.held.let_go(now, key);
        self.held.end_arrival(key);
        self.held.advance(&mut self.outbox, key, Trigger::Deleted);
        if let Some(entry) = self.held.entry_mut(key) {
            entry.set_removal(Removal::Deleted);
        }
        self.outbox.store(StoreCommand::Abandon { key });
        self.held.end_rivalry(key);
    }

    /// A bundle is whole: the other copies of it that come in are not wanted.
    pub(crate) fn end_rivals(&mut self, now: Now, key: BundleKey) {
        for rival in self.held.rivals(key) {
            self.interrupt(now, rival);
        }
    }

    /// The neighbour from which more octets of a bundle come.
    fn bringer(&self, key: BundleKey) -> Option<&Neighbour> {
        let origin = self.held.arrivals().get(key).map(|arrival| arrival.origin);
        let Some(Origin::Neighbour { session, transfer }) = origin else {
            return None;
        };
        let neighbour = self.adjacencies.neighbour(session);
        neighbour.filter(|it| it.receptions.contains_key(&transfer))
    }

    /// Whether more octets of a bundle come from a neighbour.
    pub(crate) fn comes_on(&self, key: BundleKey) -> bool {
        self.bringer(key).is_some()
    }

    /// Whether a bundle that is coming in would not come again if it were given up.
    pub(crate) fn comes_once(&self, key: BundleKey) -> bool {
        self.bringer(key)
            .is_some_and(|it| !it.session.acknowledges())
    }

    /// Give up a reception that is not complete for another copy of the bundle, since its session may have died
    /// without a word, or since the other is whole. False when it is complete.
    pub(crate) fn interrupt(&mut self, now: Now, key: BundleKey) -> bool {
        let origin = self.held.arrivals().get(key).map(|arrival| arrival.origin);
        let Some(Origin::Neighbour { session, transfer }) = origin else {
            return false;
        };
        let Some(neighbour) = self.adjacencies.neighbour_mut(session) else {
            return false;
        };
        let Some(mut reception) = neighbour.receptions.remove(&transfer) else {
            return false;
        };
        let acknowledges = neighbour.session.acknowledges();
        let refused = match acknowledges {
            false => Refused::new(RefuseReason::Completed, ""),
            true => {
                let why = "another copy of the bundle is coming";
                Refused::for_copy(
                    (&self.held, key),
                    &self.forwarding,
                    RefuseReason::Retransmit,
                    why,
                )
            }
        };
        if let Reception::Payload(incoming) = &mut reception {
            self.held.append_gathered(&mut self.outbox, incoming);
        }
        self.end_reactive(now, key, reception.incoming());
        self.abandon(now, key);
        self.held.bundles_mut().disown(key);
        self.refuse(now, session, transfer, refused);
        true
    }

    /// A fragment comes from a neighbour: an older transfer of its whole died without a word.
    pub(crate) fn end_older(
        &mut self,
        now: Now,
        from: EndpointIndex,
        session: SessionId,
        id: &BundleId,
    ) {
        if self.held.reactive().is_empty() || id.fragment.is_none() {
            return;
        }
        let Some(source) = self.held.endpoints().find(&id.source) else {
            return;
        };
        let older = self.held.reactive().keys().copied().find(|key| {
            let is_same = self.held.entry(*key).is_some_and(|entry| {
                (entry.source(), entry.creation(), entry.previous()) == (source, id.creation, Some(from))
            });
            let origin = self.held.arrivals().get(*key).map(|arrival| arrival.origin);
            is_same && matches!(origin, Some(Origin::Neighbour { session: other, .. }) if other != session)
        });
        if let Some(key) = older {
            self.interrupt(now, key);
        }
    }

    /// The rest of a transfer will not come.
    pub(crate) fn abandon_reception(
        &mut self,
        now: Now,
        session: SessionId,
        transfer: TransferId,
        refused: Option<RefuseReason>,
    ) {
        let Some(neighbour) = self.adjacencies.neighbour_mut(session) else {
            return;
        };
        let is_sent_once = neighbour.session.is_datagrams() || !neighbour.session.acknowledges();
        if let Some(Reception::Payload(mut incoming)) = neighbour.receptions.remove(&transfer) {
            self.held.append_gathered(&mut self.outbox, &mut incoming);
            match refused {
                None => self.end_reactive(now, incoming.key, Some(&incoming)),
                Some(_) => self.held.retract(incoming.key),
            }
            self.abandon(now, incoming.key);
            if is_sent_once {
                // A copy that came while this is removed would be refused, and nobody would send it again.
                self.held.bundles_mut().disown(incoming.key);
            }
        }
    }

    /// Refuse a bundle that is coming in, and all other copies of it, as an operator wants; false where it is not.
    pub(crate) fn drop_arrival(&mut self, now: Now, key: BundleKey) -> bool {
        let rivals = self.held.rivals(key);
        let is_dropped = self.drop_copy(now, key);
        for rival in rivals {
            self.drop_copy(now, rival);
        }
        is_dropped
    }

    fn drop_copy(&mut self, now: Now, key: BundleKey) -> bool {
        let origin = self.held.arrivals().get(key).map(|arrival| arrival.origin);
        let Some(Origin::Neighbour { session, transfer }) = origin else {
            return false;
        };
        let neighbour = self.adjacencies.neighbour(session);
        let reception = neighbour.and_then(|it| it.receptions.get(&transfer));
        let incoming = reception.and_then(Reception::incoming);
        if incoming.is_none_or(|incoming| incoming.key != key) {
            return false;
        }
        let refused = Refused::not_acceptable("an operator has dropped it");
        self.abandon_reception(now, session, transfer, Some(refused.reason));
        self.refuse(now, session, transfer, refused);
        true
    }
}
