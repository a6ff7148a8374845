//! Asking a neighbour that had no room whether it has some: a bundle's header goes first, and its payload once nothing was said
//! against it.
//!
//! A neighbour refuses a bundle as soon as it knows how long it is. Until then all that was sent of it was sent in vain, which of
//! large bundles would be as much as the link carries, twice a second.

use crate::adjacencies::Adjacencies;
use crate::held::Held;
use crate::held::bundles::Entry;
use crate::outbox::Outbox;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, Piece, StoreRefusal};
use dhow_bundle::{Instant, Now};
use dhow_link::stream::{LinkCommand, RefuseReason, TransferId};

use crate::adjacencies::neighbour::{FULL_PAUSE, Neighbour, Trial};
use crate::adjacencies::session_id::SessionId;
use crate::driver::Occurrence;
use crate::sending::Outgoing;

/// Time for which a payload waits for a refusal before the peer's own time for one is known.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The shortest and the longest wait: twice what the last refusal took, which is more than once there and back.
const WAITS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];

/// A bundle whose header is on its way.
#[derive(Debug)]
pub(crate) struct Probe {
    transfer: TransferId,
    /// The octets after its header.
    body: Vec<Piece>,
    since: Instant,
    until: Instant,
}

impl Neighbour {
    /// True when the next bundle is to be asked for with its header alone.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        self.trial.is_some_and(|trial| trial.bundles == 1)
    }

    /// A transfer is over; whether it was refused says how long that takes.
    pub(crate) fn probe_over(&mut self, now: Instant, transfer: TransferId, refused: bool) {
        let Some(probe) = self.probe.take_if(|probe| probe.transfer == transfer) else {
            return;
        };
        if refused {
            self.refusal_takes = Some(now - probe.since);
        }
    }
}

impl Adjacencies {
    /// Send a bundle's header, and what follows it later.
    pub(crate) fn probe(
        &mut self,
        out: &mut Outbox,
        now: Now,
        session: SessionId,
        (outgoing, total): (Outgoing, u64),
        head: Piece,
        body: Vec<Piece>,
    ) {
        // Others may have been on their way here from the store when the peer said that it is full. They go out in order, so that the
        // one before does not wait for its refusal any more.
        let before = self.neighbours.get_mut(&session);
        if let Some(before) = before.and_then(|it| it.probe.take()) {
            self.supply_rest(out, now, session, before);
        }
        let Some(transfer) = self.transmit(out, now, session, outgoing, total, [head]) else {
            return;
        };
        let Some(neighbour) = self.neighbours.get_mut(&session) else {
            return;
        };
        let [shortest, longest] = WAITS;
        let wait = neighbour
            .refusal_takes
            .map_or(FIRST_WAIT, |took| (took * 2).clamp(shortest, longest));
        let until = now.monotonic + wait;
        neighbour.probe = Some(Probe {
            transfer,
            body,
            since: now.monotonic,
            until,
        });
        self.pauses.insert((until, session));
    }

    /// Nothing was said against a bundle whose header was sent: what follows it goes, too.
    pub(crate) fn finish_probe(&mut self, out: &mut Outbox, now: Now, session: SessionId) {
        let Some(neighbour) = self.neighbours.get_mut(&session) else {
            return;
        };
        let Some(probe) = neighbour
            .probe
            .take_if(|probe| probe.until <= now.monotonic)
        else {
            return;
        };
        self.supply_rest(out, now, session, probe);
    }

    pub(crate) fn supply_rest(
        &mut self,
        out: &mut Outbox,
        now: Now,
        session: SessionId,
        probe: Probe,
    ) {
        let Some(neighbour) = self.neighbours.get_mut(&session) else {
            return;
        };
        let transfer = probe.transfer;
        for octets in probe.body {
            neighbour.command(now, LinkCommand::Supply { transfer, octets });
        }
        self.flush(out, session);
    }

    /// Other sessions to the peer of this one.
    pub(crate) fn others(&self, session: SessionId) -> Vec<SessionId> {
        let peer = self.neighbours.get(&session).and_then(|it| it.peer_id());
        let sessions = peer.and_then(|peer| self.peers.get(peer));
        let all = sessions.into_iter().flatten().copied();
        all.filter(|&other| other != session).collect()
    }

    /// A peer has no resources: one session tries whether that is so, the others wait for what comes of it, until then at most.
    pub(crate) fn hold_others(&mut self, session: SessionId, until: Instant) {
        for other in self.others(session) {
            if let Some(neighbour) = self.neighbours.get_mut(&other)
                && neighbour.paused_until.is_none_or(|paused| paused < until)
            {
                neighbour.paused_until = Some(until);
                neighbour.trial = Some(Trial::ONE);
                self.pauses.insert((until, other));
            }
        }
    }

    /// A peer that had no resources has taken a bundle: all sessions try.
    pub(crate) fn try_others(&mut self, session: SessionId) {
        for other in self.others(session) {
            if let Some(neighbour) = self.neighbours.get_mut(&other)
                && neighbour.trial == Some(Trial::ONE)
            {
                neighbour.paused_until = None;
                self.to_serve.insert(other);
            }
        }
    }

    /// A peer has no room for bundles of a source: on no session to it is one tried until they have rested.
    fn note_shortage(&mut self, now: Now, session: SessionId, entry: &Entry) {
        let (source, octets) = (entry.source(), entry.octets());
        let mut all = self.others(session);
        all.push(session);
        for session in all {
            if let Some(neighbour) = self.neighbours.get_mut(&session) {
                let until = (neighbour.shortages).note(now.monotonic, source, octets);
                self.pauses.insert((until, session));
            }
        }
    }

    /// A bundle goes to a peer that may have no room for its source's.
    pub(crate) fn note_attempt(
        &mut self,
        held: &Held,
        now: Instant,
        session: SessionId,
        key: BundleKey,
    ) {
        let neighbour = self.neighbours.get_mut(&session);
        if let Some(neighbour) = neighbour.filter(|it| !it.shortages.is_empty())
            && let Some(entry) = held.entry(key)
            && let Some(at) = (neighbour.shortages).went(now, entry.source(), entry.octets())
        {
            self.pauses.insert((at, session));
        }
    }

    /// A neighbour refused a bundle: it is paused if it has no room, and octets that it found not acceptable are doubted here.
    pub(crate) fn refused_by_peer(
        &mut self,
        held: &mut Held,
        out: &mut Outbox,
        now: Now,
        session: SessionId,
        key: BundleKey,
        reason: RefuseReason,
    ) {
        let is_tunnel = session.is_tunnel();
        out.counters.refused_by_peers += u64::from(!is_tunnel);
        if let (RefuseReason::NotAcceptable | RefuseReason::Retransmit, Some(entry)) =
            (reason, held.entry_mut(key))
        {
            // Perhaps it is what lies on the disk here that is not acceptable.
            entry.set_sound_until(Instant::START);
        }
        let entry = held.entry(key);
        let octets = entry.map_or(0, |entry| entry.octets());
        if let (RefuseReason::SourceFull, Some(entry)) = (reason, entry) {
            self.note_shortage(now, session, entry);
        }
        let id = entry.map(|entry| held.bundle_id(entry));
        let Some(neighbour) = self.neighbours.get_mut(&session) else {
            return;
        };
        // A peer that ends its session and never does must not be asked in a loop either.
        if matches!(
            reason,
            RefuseReason::NoResources | RefuseReason::SessionTerminating
        ) && neighbour
            .paused_until
            .is_none_or(|until| until <= now.monotonic)
        {
            let until = neighbour.pause(now.monotonic, reason, octets);
            if !planted(Mutant::PauseForEver) {
                self.pauses.insert((until, session));
            }
            // A tunnel has no room where this node has none for what is to carry the bundle: nobody else has refused anything.
            if reason == RefuseReason::NoResources && !is_tunnel {
                self.hold_others(session, until + FULL_PAUSE);
            }
        }
        if is_tunnel {
            if reason == RefuseReason::NoResources {
                let refusal = StoreRefusal::Full;
                out.occurred(Occurrence::StoreRefused { refusal });
            }
            return;
        }
        if let Some((id, to)) = id.zip(
            self.neighbours
                .get(&session)
                .and_then(|it| it.peer_id().cloned()),
        ) {
            out.occurred(Occurrence::RefusedOutgoing { id, to, reason });
        }
    }
}
