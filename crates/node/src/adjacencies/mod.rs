//! The neighbours: links, sessions and conversations by datagrams, and the paths that they go over.

pub(crate) mod blocks;
pub(crate) mod checksums;
pub(crate) mod conversations;
pub(crate) mod cut_through;
pub(crate) mod datagrams;
pub(crate) mod detours;
pub(crate) mod early;
pub(crate) mod layer;
pub(crate) mod links;
pub(crate) mod neighbour;
pub(crate) mod paths;
pub(crate) mod probing;
pub(crate) mod reads;
pub(crate) mod session_id;
pub(crate) mod shortages;
pub(crate) mod traffic;
pub(crate) mod transfer_mru;
pub(crate) mod tunnel;
pub(crate) mod tunnels;
pub(crate) mod window;

use crate::adjacencies::layer::Layer;
use crate::attention::Attention;
use crate::config::{DialTime, Enabled, LinkConfig, LinkId, ListenerId};
use crate::driver::OperatorRefusal;
use crate::routing::Hop;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use dhow_bundle::Now;
use dhow_bundle::mutant::Mutant;
use dhow_bundle::mutant::planted;
use dhow_bundle::storage::Piece;
use dhow_link::stream::LinkCommand;
use dhow_link::stream::TerminateReason;
use dhow_link::stream::TransferId;

use dhow_bundle::{Instant, NodeId};
use dhow_link::tcpcl::Session;

use crate::adjacencies::links::Link;
use crate::adjacencies::neighbour::Neighbour;
use crate::adjacencies::paths::IdlePaths;
use crate::adjacencies::session_id::SessionId;
use crate::adjacencies::traffic::PastTraffic;
use crate::config::Config;
use crate::driver::Action;
use crate::outbox::Outbox;
use crate::planned;
use crate::sending::Outgoing;
use crate::view::LinkOrigin;
use alloc::string::ToString;

/// Links that are made in one run, at most, those that are configured counted and those that were deleted, too, but for the numbers of found links
/// that are used again.
const LINKS_BOUND: usize = 4_096;

/// All neighbours.
pub(crate) struct Adjacencies {
    links: Vec<Link>,
    neighbours: BTreeMap<SessionId, Box<Neighbour>>,
    /// Established sessions by their peer.
    peers: BTreeMap<NodeId, BTreeSet<SessionId>>,
    /// Sessions that are over and may still have last octets to write.
    parting: BTreeMap<SessionId, Box<Session>>,
    /// Sessions that may have room for a bundle.
    to_serve: BTreeSet<SessionId>,
    /// When sessions whose peer is out of resources are tried again.
    pauses: BTreeSet<(Instant, SessionId)>,
    /// When the network, which has just changed, is looked at.
    settles: Option<Instant>,
    /// When the paths of sessions are looked at.
    path_check: Option<Instant>,
    idle_paths: IdlePaths,
    /// When contacts of links are looked at.
    contacts_due: Option<Instant>,
    /// Octets of datagrams that came before others and wait for them.
    early_octets: u64,
    has_tunnels: bool,
    /// Whether records that came while it was closed are to be looked at.
    tunnel_opened: bool,
    tunnels_begun: u64,
    /// The traffic of sessions that are over.
    past: PastTraffic,
}

impl Adjacencies {
    /// Neighbours by their connections and conversations, in order.
    #[inline]
    pub(crate) fn neighbours(&self) -> impl Iterator<Item = (SessionId, &Neighbour)> {
        (self.neighbours.iter()).map(|(&session, neighbour)| (session, neighbour.as_ref()))
    }

    /// Connections and conversations with neighbours.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.neighbours.len()
    }

    /// A connection or conversation has begun.
    #[inline]
    pub(crate) fn welcome(&mut self, session: SessionId, neighbour: Neighbour) {
        self.neighbours.insert(session, Box::new(neighbour));
    }

    /// A session is established; true when it is the first with its peer.
    pub(crate) fn establish(&mut self, peer: &NodeId, session: SessionId) -> bool {
        self.past.admit(peer);
        let sessions = self.peers.entry(peer.clone()).or_default();
        let is_first = sessions.is_empty();
        sessions.insert(session);
        is_first
    }

    /// An established session is over; true when it was the last with its peer.
    pub(crate) fn separate(&mut self, peer: &NodeId, session: SessionId) -> bool {
        let Some(sessions) = self.peers.get_mut(peer) else {
            return false;
        };
        sessions.remove(&session);
        let is_last = sessions.is_empty();
        if is_last {
            self.peers.remove(peer);
        }
        is_last
    }

    /// A neighbour is gone. Its session may still have last octets to write: it stays until the driver reports the end.
    pub(crate) fn bid_farewell(&mut self, session: SessionId) {
        self.to_serve.remove(&session);
        let Some(neighbour) = self.neighbours.remove(&session) else {
            return;
        };
        self.early_octets = self.early_octets.saturating_sub(neighbour.early_octets);
        if let Some(parameters) = &neighbour.parameters {
            self.past.add(&parameters.peer, neighbour.traffic());
        }
        if let Layer::Stream(it) = neighbour.session {
            self.parting.insert(session, it);
        }
    }

    /// The traffic of each neighbour since the start, over all its sessions.
    pub(crate) fn traffic(&self) -> PastTraffic {
        let mut all = self.past.clone();
        for neighbour in self.neighbours.values() {
            if let Some(parameters) = &neighbour.parameters {
                all.add(&parameters.peer, neighbour.traffic());
            }
        }
        all
    }

    /// The session of a connection, which is over and may still have last octets to write.
    #[inline]
    pub(crate) fn parting_mut(&mut self, session: SessionId) -> Option<&mut Session> {
        self.parting.get_mut(&session).map(Box::as_mut)
    }

    /// A connection has nothing left to write, or has ended.
    #[inline]
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.parting.remove(&session);
    }

    /// Whether a session that is over may still have last octets to write.
    #[inline]
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn has_parting(&self) -> bool {
        !self.parting.is_empty()
    }

    /// Count what a neighbour keeps of datagrams that came early; then its session's timer: as it wants it, and as it was set.
    pub(crate) fn rearm(&mut self, session: SessionId) -> Option<[Option<Instant>; 2]> {
        let neighbour = self.neighbours.get_mut(&session)?;
        let early_octets = neighbour.session.early_octets();
        let before = core::mem::replace(&mut neighbour.early_octets, early_octets);
        self.early_octets = self.early_octets.saturating_add(early_octets) - before;
        let wanted = neighbour.session.poll_timeout();
        Some([wanted, core::mem::replace(&mut neighbour.timeout, wanted)])
    }

    /// Octets of datagrams that came before others and wait for them.
    #[inline]
    pub(crate) const fn early_octets(&self) -> u64 {
        self.early_octets
    }

    /// Links in the order of their IDs.
    #[inline]
    pub(crate) fn links(&self) -> &[Link] {
        &self.links
    }

    #[inline]
    pub(crate) fn link_ids(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..u32::try_from(self.links.len()).unwrap_or(u32::MAX)).map(LinkId)
    }

    /// Peers with an established session, in order.
    #[inline]
    pub(crate) fn peers(&self) -> impl Iterator<Item = &NodeId> {
        self.peers.keys()
    }

    /// Whether the node ID of a peer is proven by TLS, in each of its sessions.
    pub(crate) fn is_verified(&self, peer: &NodeId) -> bool {
        let sessions = self.peers.get(peer).into_iter().flatten();
        let mut proven = sessions.map(|it| {
            let parameters = self.neighbour(*it).and_then(|it| it.parameters.as_ref());
            parameters.is_some_and(|it| it.proven)
        });
        let first = proven.next();
        first == Some(true) && proven.all(|it| it)
    }

    /// The sessions over a hop, also those that end.
    pub(crate) fn session_ids_over<'a>(
        &'a self,
        hop: &Hop,
    ) -> impl Iterator<Item = SessionId> + use<'a> {
        let (link, peer) = match hop {
            Hop::Link(link) => (self.link(*link), None),
            Hop::Peer(peer) => (None, self.peers.get(peer)),
        };
        let sessions = link.into_iter().flat_map(|link| &link.sessions);
        sessions.chain(peer.into_iter().flatten()).copied()
    }

    /// A bundle waits for a hop: its sessions may have room.
    pub(crate) fn serve_hop(&mut self, hop: &Hop) {
        let sessions = match hop {
            Hop::Link(LinkId(link)) => {
                let link = usize::try_from(*link).ok();
                let link = link.and_then(|link| self.links.get(link));
                return (self.to_serve).extend(link.into_iter().flat_map(|link| &link.sessions));
            }
            Hop::Peer(peer) => self.peers.get(peer),
        };
        self.to_serve.extend(sessions.into_iter().flatten());
    }

    /// A bundle waits that any peer may get.
    #[inline]
    pub(crate) fn serve_peers(&mut self) {
        self.to_serve.extend(self.peers.values().flatten());
    }

    /// A session that may have room for a bundle; it is looked at.
    #[inline]
    pub(crate) fn next_to_serve(&mut self) -> Option<SessionId> {
        self.to_serve.pop_first()
    }

    /// Serve a session again at this instant.
    #[inline]
    pub(crate) fn pause(&mut self, session: SessionId, until: Instant) {
        self.pauses.insert((until, session));
    }

    /// Serve the sessions whose pause is over.
    pub(crate) fn end_pauses(&mut self, now: Now) {
        while let Some(&(at, session)) = self.pauses.first()
            && at <= now.monotonic
        {
            self.pauses.remove(&(at, session));
            self.serve(session);
        }
    }

    /// When links, paths or sessions want to be looked at.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let pause = self.pauses.first().map(|&(at, _)| at);
        let dial = self.links.iter().filter_map(|link| link.next_attempt).min();
        [
            pause,
            dial,
            self.contacts_due,
            self.settles,
            self.path_check,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Contacts were planned or given up: links that are dialled in them look again.
    pub(crate) fn contacts_changed(&mut self) {
        if self.contacts_due.is_some() {
            self.contacts_due = Some(Instant::START);
        }
    }

    /// Sessions that began at a listener.
    pub(crate) fn sessions_at(&self, listener: ListenerId) -> impl Iterator<Item = SessionId> {
        let sessions = self.neighbours.iter();
        sessions
            .filter(move |(_, it)| it.listener == Some(listener))
            .map(|(&session, _)| session)
    }

    /// Whether it is time to look at contacts of links.
    #[inline]
    pub(crate) fn contacts_are_due(&self, now: Now) -> bool {
        self.contacts_due.is_some_and(|at| at <= now.monotonic)
    }

    /// Look at contacts of links again at this instant.
    #[inline]
    pub(crate) fn look_at_contacts(&mut self, at: Instant) {
        self.contacts_due = Some(at);
    }

    /// Look at contacts of links again at this instant at the latest.
    pub(crate) fn look_at_contacts_by(&mut self, at: Instant) {
        let due = self.contacts_due.map_or(at, |due| due.min(at));
        self.contacts_due = Some(due);
    }

    /// The neighbour of a connection or conversation.
    #[inline]
    pub(crate) fn neighbour(&self, session: SessionId) -> Option<&Neighbour> {
        self.neighbours.get(&session).map(Box::as_ref)
    }

    /// The neighbour as by [`Self::neighbour`], to change it.
    #[inline]
    pub(crate) fn neighbour_mut(&mut self, session: SessionId) -> Option<&mut Neighbour> {
        self.neighbours.get_mut(&session).map(Box::as_mut)
    }

    /// Whether a connection or conversation is with a neighbour.
    #[inline]
    pub(crate) fn has_neighbour(&self, session: SessionId) -> bool {
        self.neighbours.contains_key(&session)
    }

    /// A session may have room for a bundle: look for one at the end of the turn.
    #[inline]
    pub(crate) fn serve(&mut self, session: SessionId) {
        self.to_serve.insert(session);
    }

    pub(crate) fn new(config: &Config) -> Self {
        Self {
            links: config.links.iter().cloned().map(Link::new).collect(),
            neighbours: BTreeMap::new(),
            peers: BTreeMap::new(),
            parting: BTreeMap::new(),
            to_serve: BTreeSet::new(),
            pauses: BTreeSet::new(),
            settles: None,
            path_check: None,
            idle_paths: IdlePaths::Asked,
            contacts_due: planned::first_look(&config.links),
            early_octets: 0,
            has_tunnels: config.links.iter().any(links::is_tunnel),
            tunnel_opened: false,
            tunnels_begun: 0,
            past: PastTraffic::default(),
        }
    }

    /// Ask for a neighbour's octets to be written, once until they are, if there may be any: most of what comes over a session that
    /// carries no bundle asks for no answer. False where the session is no neighbour's.
    pub(crate) fn flush(&mut self, out: &mut Outbox, session: SessionId) -> bool {
        let Some(neighbour) = self.neighbours.get_mut(&session) else {
            return false;
        };
        if neighbour.session.may_have_octets()
            && !core::mem::replace(&mut neighbour.flush_pending, true)
        {
            out.act(Action::Flush {
                stream: session.stream(),
            });
        }
        true
    }
    /// The link of a hop; of a node that which is to lead to it.
    pub(crate) fn link_to(&self, hop: &Hop) -> Option<&Link> {
        let peer = match hop {
            Hop::Link(id) => return self.link(*id),
            Hop::Peer(peer) => Some(peer),
        };
        let leads = |link: &&Link| {
            let named = link.config.policy.peer.as_ref();
            !link.is_deleted && (named == peer || link.peer.as_ref() == peer)
        };
        self.links.iter().find(leads)
    }

    pub(crate) fn hop_name(&self, hop: &Hop) -> String {
        match hop {
            Hop::Link(link) => self
                .link(*link)
                .map_or_else(Default::default, |it| it.config.name.clone()),
            Hop::Peer(peer) => peer.to_string(),
        }
    }

    #[inline]
    pub(crate) fn session_keeps_sent(&self, session: SessionId) -> bool {
        let neighbour = self.neighbours.get(&session);
        neighbour.is_some_and(|it| it.session.keeps_sent()) && !planted(Mutant::KeptIsForgotten)
    }

    /// Whether the neighbour of a session says that it has a bundle.
    pub(crate) fn session_acknowledges(&self, session: SessionId) -> bool {
        let neighbour = self.neighbours.get(&session);
        neighbour.is_some_and(|it| it.session.acknowledges())
    }

    /// The fate of a transfer matters no more.
    pub(crate) fn disown_transfer(&mut self, session: SessionId, transfer: TransferId) {
        let mut neighbour = self.neighbours.get_mut(&session);
        let outgoing = neighbour.as_mut().and_then(|it| it.closed(transfer));
        let octets = outgoing.map_or(0, |outgoing| outgoing.octets);
        if let Some(neighbour) = neighbour {
            neighbour.window.lost(octets);
        }
        self.discharge(session, octets);
    }

    /// A hop by the name of a link, or by the ID of a node to which any session will do.
    pub(crate) fn hop_named(&self, via: &str) -> Result<Hop, OperatorRefusal> {
        match (self.link_named(via), via.parse::<NodeId>()) {
            (Ok(link), _) => Ok(Hop::Link(link)),
            (Err(_), Ok(peer)) => Ok(Hop::Peer(peer)),
            (Err(unknown), Err(_)) => Err(unknown),
        }
    }

    /// A session has no room for another bundle.
    pub(crate) fn note_full(&mut self, now: Now, session: SessionId) {
        let neighbour = self.neighbours.get_mut(&session);
        if let Some(at) = neighbour.and_then(|it| it.note_full(now.monotonic)) {
            self.pauses.insert((at, session));
        }
    }

    /// True when a session over this hop can take bundles, now or soon.
    #[inline]
    pub(crate) fn is_up(&self, hop: &Hop) -> bool {
        self.sessions_over(hop).next().is_some()
    }

    /// The sessions over a hop that can take bundles, now or soon.
    pub(crate) fn sessions_over<'a>(
        &'a self,
        hop: &Hop,
    ) -> impl Iterator<Item = &'a Neighbour> + use<'a> {
        let (link, peer) = match hop {
            Hop::Link(link) => (self.link(*link), None),
            Hop::Peer(peer) => (None, self.peers.get(peer)),
        };
        let sessions = link.into_iter().flat_map(|link| &link.sessions);
        let sessions = sessions.chain(peer.into_iter().flatten());
        let sessions = sessions.filter_map(|session| self.neighbours.get(session).map(Box::as_ref));
        sessions.filter(|it| it.is_up())
    }

    /// Whether the transfers of a session outlast the times in which nothing can pass.
    pub(crate) fn keeps_transfers(&self, session: SessionId) -> bool {
        let neighbour = self.neighbours.get(&session);
        neighbour.is_some_and(|it| it.session.keeps_transfers())
    }

    /// Open a transfer and supply all of it.
    pub(crate) fn transmit(
        &mut self,
        out: &mut Outbox,
        now: Now,
        session: SessionId,
        outgoing: Outgoing,
        length: u64,
        pieces: impl IntoIterator<Item = Piece>,
    ) -> Option<TransferId> {
        let transfer = self.open_transfer(now, session, outgoing, length)?;
        let neighbour = self.neighbours.get_mut(&session)?;
        for octets in pieces {
            neighbour.command(now, LinkCommand::Supply { transfer, octets });
        }
        self.flush(out, session);
        Some(transfer)
    }

    /// Open a transfer of so many octets, which are to follow.
    pub(crate) fn open_transfer(
        &mut self,
        now: Now,
        session: SessionId,
        outgoing: Outgoing,
        length: u64,
    ) -> Option<TransferId> {
        let neighbour = self.neighbours.get_mut(&session)?;
        let transfer = TransferId(neighbour.next_transfer);
        neighbour.next_transfer += if planted(Mutant::TransferNumbersSkip) {
            2
        } else {
            1
        };
        neighbour.window.sent(now.monotonic, outgoing.octets);
        if neighbour.session.is_paced() && outgoing.stored_octets > 0 {
            // Octets that were read for it take no part of the window any more.
            self.to_serve.insert(session);
        }
        neighbour.opened(transfer, outgoing);
        neighbour.command(now, LinkCommand::Transmit { transfer, length });
        Some(transfer)
    }

    #[inline]
    pub(crate) fn peer_of(&self, session: SessionId) -> Option<NodeId> {
        self.neighbours.get(&session)?.peer_id().cloned()
    }

    /// Give a session a command; what follows from it is carried out once the event that led to it has been handled.
    pub(crate) fn command(
        &mut self,
        attention: &mut Attention,
        now: Now,
        session: SessionId,
        command: LinkCommand,
    ) {
        if let Some(neighbour) = self.neighbours.get_mut(&session) {
            neighbour.command(now, command);
            attention.attend(session.stream());
        }
    }

    /// Sessions over which something could go that could not before are looked at again.
    pub(crate) fn serve_everybody(&mut self) {
        let established = self
            .neighbours
            .iter()
            .filter(|(_, neighbour)| neighbour.parameters.is_some());
        self.to_serve
            .extend(established.map(|(&session, _)| session));
    }

    /// End a neighbour's session in order.
    pub(crate) fn terminate(&mut self, attention: &mut Attention, now: Now, session: SessionId) {
        if let Some(neighbour) = self.neighbours.get_mut(&session) {
            neighbour.ending = true;
        }
        self.command(
            attention,
            now,
            session,
            LinkCommand::Terminate {
                reason: TerminateReason::Unknown,
            },
        );
    }

    #[inline]
    pub(crate) fn link_mut(&mut self, LinkId(id): LinkId) -> Option<&mut Link> {
        usize::try_from(id)
            .ok()
            .and_then(|id| self.links.get_mut(id))
    }

    #[inline]
    pub(crate) fn link(&self, LinkId(id): LinkId) -> Option<&Link> {
        usize::try_from(id).ok().and_then(|id| self.links.get(id))
    }

    /// The link of this name.
    pub(crate) fn link_named(&self, name: &str) -> Result<LinkId, crate::driver::OperatorRefusal> {
        self.links
            .iter()
            .zip(0_u32..)
            .find(|(link, _)| link.config.name == name && !link.is_deleted)
            .map(|(_, id)| LinkId(id))
            .ok_or_else(|| crate::driver::OperatorRefusal::UnknownLink(name.to_string()))
    }

    /// A link is made, with the policy of another.
    pub(crate) fn add_link(
        &mut self,
        name: String,
        like: &str,
        peer: Option<NodeId>,
    ) -> Result<LinkId, OperatorRefusal> {
        let template = self.link_named(like)?;
        if self.link_named(&name).is_ok() {
            return Err(OperatorRefusal::LinkExists(name));
        }
        if self.links.len() >= LINKS_BOUND {
            return Err(OperatorRefusal::TooManyLinks(LINKS_BOUND));
        }
        let Some(template) = self.link(template) else {
            return Err(OperatorRefusal::UnknownLink(like.to_string()));
        };
        let mut config = template.config.clone();
        if !config.protocol.tells_peer() && peer.is_none() {
            return Err(OperatorRefusal::NoPeer(like.to_string()));
        }
        if let Some(peer) = peer.as_ref().filter(|_| links::is_tunnel(&config))
            && self.tunnel_with(peer.endpoint()).is_some()
        {
            return Err(OperatorRefusal::TunnelExists(peer.clone()));
        }
        config.name = name;
        config.policy.peer = peer;
        config.enabled = Enabled::Yes;
        if let crate::config::Protocol::Ltp(policy) = &mut config.protocol {
            // It is another engine.
            policy.remote_engine = None;
        }
        let id = u32::try_from(self.links.len()).unwrap_or(u32::MAX);
        if config.dial == DialTime::Contacts || config.protocol.keeps_transfers() {
            self.contacts_due = Some(Instant::START);
        }
        self.has_tunnels |= links::is_tunnel(&config);
        let mut link = Link::new(config);
        link.origin = LinkOrigin::Added;
        self.links.push(link);
        Ok(LinkId(id))
    }

    /// A link to a neighbour that was found is made, with this configuration, and with the number of one that has gone where there is one.
    pub(crate) fn add_found_link(
        &mut self,
        now: Instant,
        mut config: LinkConfig,
        peer: NodeId,
    ) -> Result<LinkId, OperatorRefusal> {
        if self.link_named(&config.name).is_ok() {
            return Err(OperatorRefusal::LinkExists(config.name));
        }
        config.policy.peer = Some(peer);
        config.enabled = Enabled::Yes;
        config.dial = DialTime::Always;
        let mut link = Link::new(config);
        link.origin = LinkOrigin::Found;
        self.place_link(now, link)
    }

    /// A link gets the number of one that has gone, or the next.
    pub(crate) fn place_link(
        &mut self,
        now: Instant,
        link: Link,
    ) -> Result<LinkId, OperatorRefusal> {
        let config = &link.config;
        let free = self.links.iter().position(|it| it.is_free(now, config));
        if config.dial == DialTime::Contacts || config.protocol.keeps_transfers() {
            self.contacts_due = Some(Instant::START);
        }
        self.has_tunnels |= links::is_tunnel(config);
        let at = match free {
            Some(at) => {
                if let Some(place) = self.links.get_mut(at) {
                    *place = link;
                }
                at
            }
            None if self.links.len() >= LINKS_BOUND => {
                return Err(OperatorRefusal::TooManyLinks(LINKS_BOUND));
            }
            None => {
                self.links.push(link);
                self.links.len() - 1
            }
        };
        Ok(LinkId(u32::try_from(at).unwrap_or(u32::MAX)))
    }

    /// A link leads to another address from now on.
    pub(crate) fn redial(&mut self, out: &mut Outbox, now: Instant, id: LinkId) {
        if self.link_mut(id).is_some_and(|link| link.redial(now)) {
            out.act(Action::StopDialling { link: id });
        }
    }

    /// A link that was added or found is shown no more. The peer of a tunnel that has none any more.
    pub(crate) fn forget_link(&mut self, now: Instant, id: LinkId) -> Option<NodeId> {
        let link = self.link_mut(id)?;
        link.delete(now);
        let is_tunnel = links::is_tunnel(&link.config);
        let peer = link.config.policy.peer.clone().filter(|_| is_tunnel)?;
        (self.tunnel_with(peer.endpoint()).is_none()).then_some(peer)
    }
}
