//! A bundle has left: the next hop has it, or nobody says more (RFC 9171 5.4 step 5).

use crate::adjacencies::session_id::SessionId;
use crate::driver::Occurrence;
use crate::held::bundles::Removal;
use crate::node::Node;
use crate::reports::ReportKind;
use dhow_bundle::Now;
use dhow_bundle::mutant::Mutant;
use dhow_bundle::mutant::planted;
use dhow_bundle::storage::BundleKey;

impl Node {
    /// All of a bundle has left over a link that promises nothing: it stays.
    pub(crate) fn stay(&mut self, now: Now, session: SessionId, key: BundleKey) {
        let link = self.adjacencies.neighbour(session).and_then(|it| it.link);
        let destination = self.held.entry(key).map(|it| it.destination());
        if let Some((link, destination)) = link.zip(destination) {
            self.forwarding.note_sent(destination, link, key);
            self.stay_sent(now, key);
        }
    }

    /// RFC 9171 5.4 step 5: the next hop has the bundle, or it has left for there.
    pub(crate) fn forwarded(&mut self, now: Now, session: SessionId, key: BundleKey) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let subject = self
            .held
            .reported(&self.config, entry, ReportKind::Forwarded);
        let (id, octets) = (self.held.told(&mut self.outbox, entry), entry.octets());
        let version = entry.version();
        self.outbox.counters.forwarded += 1;
        self.outbox.counters.forwarded_octets += octets;
        if let Some(subject) = subject.filter(|_| !planted(Mutant::ForwardingNotReported)) {
            self.report(now, &subject, ReportKind::Forwarded, 0);
        }
        let peer = self
            .adjacencies
            .neighbour(session)
            .and_then(|it| it.peer_id());
        if let Some((id, to)) = id.zip(peer.cloned()) {
            self.outbox
                .occurred(Occurrence::Forwarded { id, to, octets });
        }
        let has_custody = self.held.custody().has(key);
        let crosses = self.adjacencies.translates(session, version);
        match self.forwarding.copies().router(key) {
            Some(_) => self.copy_given(now, session, key),
            None if self.held.custody().is_released(key) => {
                self.delete(now, key, Removal::Forwarded, None)
            }
            None if has_custody && !crosses && !planted(Mutant::CustodyDroppedAtNextHop) => {
                self.await_signal(now, key)
            }
            None if session.is_tunnel() && self.asks_peer_for_custody(session, key) => {
                self.await_peer(now, key)
            }
            // Its carrier is durable here.
            None if session.is_tunnel() => self.delete(now, key, Removal::Forwarded, None),
            // In version 7 nobody sends a signal: custody ends with the crossing where the next hop has said that it has the bundle.
            None if has_custody && !self.adjacencies.session_acknowledges(session) => {
                self.stay(now, session, key)
            }
            None if self.forwarding.keeps_sent(&self.adjacencies, session) => {
                self.stay(now, session, key)
            }
            None => self.delete(now, key, Removal::Forwarded, None),
        }
    }
}
