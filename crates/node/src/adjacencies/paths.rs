//! The paths that sessions go over: the state of each, and the time of the next look.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::neighbour::{IfLost, Neighbour};
use crate::adjacencies::session_id::SessionId;
use crate::attention::Attention;
use crate::config::LinkId;
use crate::driver::{Action, Carrier};
use crate::outbox::Outbox;
use crate::paths::CHECK_INTERVAL;
use crate::paths::SETTLING;
use alloc::vec::Vec;
use dhow_bundle::Now;
use dhow_link::stream::LinkCommand;

/// The rules for the paths of sessions that have nothing under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdlePaths {
    /// The node asks.
    Asked,
    /// The driver tells: nothing is left for the node's timer but the octets under way.
    Reported,
}

impl Adjacencies {
    /// The driver tells of lost paths by itself.
    pub(crate) fn tells_paths(&mut self) {
        self.idle_paths = IdlePaths::Reported;
    }

    /// Look at the network, which changed a moment ago, and at the paths of sessions, where it is time.
    pub(crate) fn look_at_paths(&mut self, out: &mut Outbox, now: Now) {
        if self.settles.is_some_and(|at| at <= now.monotonic) {
            self.settles = None;
            self.network_changed(out, now);
        }
        if self.path_check.is_some_and(|at| at <= now.monotonic) {
            self.path_timeout(out, now);
        }
    }

    /// Wait for what has changed to be usable.
    pub(crate) fn let_settle(&mut self, now: Now) {
        self.settles.get_or_insert(now.monotonic + SETTLING);
    }

    /// Addresses, interfaces or routes of the machine changed: dial at once what waits, and look at the paths
    /// of sessions that have fallen silent.
    pub(crate) fn network_changed(&mut self, out: &mut Outbox, now: Now) {
        for link in &mut self.links {
            link.hurry(now.monotonic);
        }
        self.check_paths(out, now, IfLost::Cut);
    }

    /// Look after the paths of sessions from now on, if that is not done already.
    pub(crate) fn watch_paths(&mut self, now: Now) {
        self.path_check
            .get_or_insert(now.monotonic + CHECK_INTERVAL);
    }

    /// The time has come to check paths again.
    pub(crate) fn path_timeout(&mut self, out: &mut Outbox, now: Now) {
        self.path_check = None;
        self.check_paths(out, now, IfLost::Keep);
        let mut neighbours = self.neighbours.values();
        if neighbours.any(|it| it.needs_path() && self.is_asked_about(it)) {
            self.watch_paths(now);
        }
    }

    pub(crate) fn is_asked_about(&self, neighbour: &Neighbour) -> bool {
        self.idle_paths == IdlePaths::Asked || neighbour.in_flight > 0
    }

    pub(crate) fn check_paths(&mut self, out: &mut Outbox, now: Now, if_lost: IfLost) {
        let quiet = self
            .neighbours
            .iter()
            .filter(|(_, it)| it.needs_path() && it.is_quiet(now.monotonic))
            .filter(|(_, it)| if_lost == IfLost::Cut || self.is_asked_about(it));
        let sessions: Vec<SessionId> = quiet.map(|(&session, _)| session).collect();
        for session in sessions {
            self.check_path(out, session, if_lost);
        }
    }

    pub(crate) fn check_path(&mut self, out: &mut Outbox, session: SessionId, if_lost: IfLost) {
        if let Some(neighbour) = self.neighbours.get_mut(&session) {
            neighbour.if_lost = if_lost;
            out.act(Action::CheckPath {
                stream: session.stream(),
            });
        }
    }

    /// A session stands: look at those that it may have replaced.
    pub(crate) fn supersede(
        &mut self,
        attention: &mut Attention,
        out: &mut Outbox,
        now: Now,
        session: SessionId,
    ) {
        let Some(neighbour) = self.neighbours.get(&session) else {
            return;
        };
        if let Some(link) = neighbour.link {
            let doubted = self.link(link).map(|it| it.doubted.clone());
            for session in doubted.unwrap_or_default() {
                self.check_path(out, session, IfLost::Cut);
            }
            self.retire(attention, now, link);
            return;
        }
        let siblings: Vec<SessionId> = self.siblings(session).collect();
        for sibling in siblings {
            self.check_path(out, sibling, IfLost::Cut);
        }
    }

    /// Other established sessions with the same peer that it dialled, as this one.
    pub(crate) fn siblings(&self, session: SessionId) -> impl Iterator<Item = SessionId> {
        let peer = self
            .neighbours
            .get(&session)
            .and_then(|neighbour| neighbour.peer_id());
        let sessions = peer.and_then(|peer| self.peers.get(peer));
        sessions
            .into_iter()
            .flatten()
            .copied()
            .filter(move |&other| {
                other != session
                    && self
                        .neighbours
                        .get(&other)
                        .is_some_and(|it| it.link.is_none())
            })
    }

    /// True when a session that has said something more recently can take what this one has under way.
    pub(crate) fn has_sibling(&self, session: SessionId) -> bool {
        let heard = self.neighbours.get(&session).map(|it| it.heard);
        self.siblings(session).any(|other| {
            self.neighbours
                .get(&other)
                .is_some_and(|it| !it.ending && Some(it.heard) > heard)
        })
    }

    /// Established sessions of a link that nothing speaks against, the oldest first.
    pub(crate) fn sound_sessions(&self, id: LinkId) -> Vec<SessionId> {
        let Some(link) = self.link(id) else {
            return Vec::new();
        };
        let is_sound = |session: &&SessionId| {
            !link.doubted.contains(session)
                && self
                    .neighbours
                    .get(session)
                    .is_some_and(|it| it.parameters.is_some() && !it.ending)
        };
        link.sessions.iter().filter(is_sound).copied().collect()
    }

    pub(crate) fn has_all_sessions(&self, id: LinkId) -> bool {
        let sessions = self
            .link(id)
            .map_or(1, |link| usize::from(link.config.sessions.max(1)));
        self.sound_sessions(id).len() >= sessions
    }

    /// The oldest sessions of a link above its number have had their time.
    pub(crate) fn retire(&mut self, attention: &mut Attention, now: Now, id: LinkId) {
        let Some(link) = self.link(id) else { return };
        let sessions = usize::from(link.config.sessions.max(1));
        let sound = self.sound_sessions(id);
        let surplus = sound.len().saturating_sub(sessions);
        // First those for whose bundle, which still comes in, others would have to wait.
        let is_busy = |session: &SessionId| {
            let neighbour = self.neighbours.get(session);
            neighbour.is_some_and(|neighbour| neighbour.queueing.is_some())
        };
        let (busy, free): (Vec<_>, Vec<_>) = sound.into_iter().partition(is_busy);
        for session in busy.into_iter().chain(free).take(surplus) {
            self.terminate(attention, now, session);
        }
    }

    /// Let go of attempts to connect that are not needed any more.
    pub(crate) fn stop_dialling(&mut self, out: &mut Outbox, id: LinkId) {
        if self.link_mut(id).is_some_and(|link| link.is_sated()) {
            out.act(Action::StopDialling { link: id });
        }
    }

    /// The driver knows that nothing leads to a link's neighbour, or that something does again.
    pub(crate) fn carrier_changed(
        &mut self,
        attention: &mut Attention,
        out: &mut Outbox,
        now: Now,
        id: LinkId,
        carrier: Carrier,
    ) {
        let Some(link) = self.link_mut(id) else {
            return;
        };
        link.carrier = carrier;
        match carrier {
            Carrier::Present => self.let_settle(now),
            Carrier::Absent => self.lose_way(attention, out, now, id),
        }
    }

    /// A link's contact has begun or ended.
    pub(crate) fn contact_turned(
        &mut self,
        attention: &mut Attention,
        out: &mut Outbox,
        now: Now,
        id: LinkId,
        contact: Carrier,
    ) {
        let Some(link) = self.link_mut(id).filter(|it| it.contact != contact) else {
            return;
        };
        link.contact = contact;
        match contact {
            Carrier::Present => link.hurry(now.monotonic),
            // It goes on hearing the peer.
            Carrier::Absent if link.config.protocol.keeps_transfers() => {}
            Carrier::Absent => self.lose_way(attention, out, now, id),
        }
    }

    /// Nothing leads to a link's neighbour.
    fn lose_way(&mut self, attention: &mut Attention, out: &mut Outbox, now: Now, id: LinkId) {
        let sessions = self.link(id).map(|link| link.sessions.clone());
        self.stop_dialling(out, id);
        for session in sessions.into_iter().flatten() {
            let Some(neighbour) = self.neighbours.get(&session) else {
                continue;
            };
            if neighbour.session.keeps_transfers() {
                // It is told of its path, and goes on.
                continue;
            }
            if neighbour.session.is_datagrams() {
                // Datagrams would leave for nowhere, and their bundles with them.
                self.command(attention, now, session, LinkCommand::Disconnected);
            } else if !neighbour.session.acknowledges() {
                // So would octets that a socket takes from now on; those that it has may still arrive.
                self.terminate(attention, now, session);
            }
        }
    }
}
