//! The neighbours: configured links, sessions and conversations by datagrams, and the paths that they go over.

use crate::attention::Attention;
use crate::config::LinkId;
use crate::door::OperatorRefusal;
use crate::held::Held;
use crate::routing::Hop;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use dhow_bundle::Now;
use dhow_bundle::mutant::Mutant;
use dhow_bundle::mutant::planted;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::storage::Piece;
use dhow_link::stream::LinkCommand;
use dhow_link::stream::TerminateReason;
use dhow_link::stream::TransferId;

use dhow_bundle::{Instant, NodeId};
use dhow_link::tcpcl::Session;

use crate::config::Config;
use crate::door::{Action, StreamId};
use crate::links::Link;
use crate::neighbour::Neighbour;
use crate::outbox::Outbox;
use crate::paths::IdlePaths;
use crate::planned;
use crate::sending::Outgoing;
use alloc::string::ToString;

/// All neighbours.
pub(crate) struct Adjacencies {
    pub(crate) links: Vec<Link>,
    pub(crate) neighbours: BTreeMap<StreamId, Box<Neighbour>>,
    /// Established sessions by their peer.
    pub(crate) peers: BTreeMap<NodeId, BTreeSet<StreamId>>,
    /// Sessions that are over and may still have last octets to write.
    pub(crate) parting: BTreeMap<StreamId, Box<Session>>,
    /// Sessions that may have room for a bundle.
    pub(crate) to_serve: BTreeSet<StreamId>,
    /// When sessions whose peer is out of resources are tried again.
    pub(crate) pauses: BTreeSet<(Instant, StreamId)>,
    /// When the network, which has just changed, is looked at.
    pub(crate) settles: Option<Instant>,
    /// When the paths of sessions are looked at.
    pub(crate) path_check: Option<Instant>,
    pub(crate) idle_paths: IdlePaths,
    /// When contacts of links are looked at.
    pub(crate) contacts_due: Option<Instant>,
    /// Octets of datagrams that came before others and wait for them.
    pub(crate) early_octets: u64,
}

impl Adjacencies {
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
        }
    }

    /// Ask for a neighbour's octets to be written, once until they are, if there may be any: most of what comes over a session that
    /// carries no bundle asks for no answer. False where the stream is no neighbour's.
    pub(crate) fn flush(&mut self, out: &mut Outbox, stream: StreamId) -> bool {
        let Some(neighbour) = self.neighbours.get_mut(&stream) else {
            return false;
        };
        if neighbour.session.may_have_octets()
            && !core::mem::replace(&mut neighbour.flush_pending, true)
        {
            out.act(Action::Flush { stream });
        }
        true
    }
    pub(crate) fn hop_name(&self, hop: &Hop) -> String {
        match hop {
            Hop::Link(link) => self
                .link(*link)
                .map_or_else(Default::default, |it| it.config.name.clone()),
            Hop::Peer(peer) => peer.to_string(),
        }
    }

    pub(crate) fn session_keeps_sent(&self, stream: StreamId) -> bool {
        let neighbour = self.neighbours.get(&stream);
        neighbour.is_some_and(|it| it.session.keeps_sent()) && !planted(Mutant::KeptIsForgotten)
    }

    /// What becomes of a transfer matters no more.
    pub(crate) fn disown_transfer(&mut self, stream: StreamId, transfer: TransferId) {
        let mut neighbour = self.neighbours.get_mut(&stream);
        let outgoing = neighbour.as_mut().and_then(|it| it.closed(transfer));
        let octets = outgoing.map_or(0, |outgoing| outgoing.octets);
        if let Some(neighbour) = neighbour {
            neighbour.window.lost(octets);
        }
        self.discharge(stream, octets);
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
    pub(crate) fn note_full(&mut self, now: Now, stream: StreamId) {
        let neighbour = self.neighbours.get_mut(&stream);
        if let Some(at) = neighbour.and_then(|it| it.note_full(now.monotonic)) {
            self.pauses.insert((at, stream));
        }
    }

    /// True when a session over this hop can take bundles, now or soon.
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
        let streams = link.into_iter().flat_map(|link| &link.streams);
        let streams = streams.chain(peer.into_iter().flatten());
        let sessions = streams.filter_map(|stream| self.neighbours.get(stream).map(Box::as_ref));
        sessions.filter(|it| it.parameters.is_some() && !it.ending)
    }

    pub(crate) fn charge(&mut self, held: &Held, stream: StreamId, key: BundleKey) {
        let octets = held.bundles.entry(key).map_or(0, |entry| entry.octets);
        if let Some(neighbour) = self.neighbours.get_mut(&stream) {
            neighbour.in_flight += 1;
            neighbour.in_flight_octets = neighbour.in_flight_octets.saturating_add(octets);
        }
    }

    pub(crate) fn discharge(&mut self, stream: StreamId, octets: u64) {
        if let Some(neighbour) = self.neighbours.get_mut(&stream) {
            if !planted(Mutant::WindowLeaks) {
                neighbour.in_flight = neighbour.in_flight.saturating_sub(1);
            }
            neighbour.in_flight_octets = neighbour.in_flight_octets.saturating_sub(octets);
            self.to_serve.insert(stream);
        }
    }

    /// Open a transfer and supply all of it.
    pub(crate) fn transmit(
        &mut self,
        out: &mut Outbox,
        now: Now,
        stream: StreamId,
        outgoing: Outgoing,
        length: u64,
        pieces: impl IntoIterator<Item = Piece>,
    ) -> Option<TransferId> {
        let transfer = self.open_transfer(now, stream, outgoing, length)?;
        let neighbour = self.neighbours.get_mut(&stream)?;
        for octets in pieces {
            neighbour.command(now, LinkCommand::Supply { transfer, octets });
        }
        self.flush(out, stream);
        Some(transfer)
    }

    /// Open a transfer of so many octets, which are to follow.
    pub(crate) fn open_transfer(
        &mut self,
        now: Now,
        stream: StreamId,
        outgoing: Outgoing,
        length: u64,
    ) -> Option<TransferId> {
        let neighbour = self.neighbours.get_mut(&stream)?;
        let transfer = TransferId(neighbour.next_transfer);
        neighbour.next_transfer += if planted(Mutant::TransferNumbersSkip) {
            2
        } else {
            1
        };
        neighbour.window.sent(now.monotonic, outgoing.octets);
        neighbour.opened(transfer, outgoing);
        neighbour.command(now, LinkCommand::Transmit { transfer, length });
        Some(transfer)
    }

    pub(crate) fn peer_of(&self, stream: StreamId) -> Option<NodeId> {
        self.neighbours.get(&stream)?.peer_id().cloned()
    }

    /// Give a session a command; what follows from it is carried out once the event that led to it has been handled.
    pub(crate) fn command(
        &mut self,
        attention: &mut Attention,
        now: Now,
        stream: StreamId,
        command: LinkCommand,
    ) {
        if let Some(neighbour) = self.neighbours.get_mut(&stream) {
            neighbour.command(now, command);
            attention.attend(stream);
        }
    }

    /// Sessions over which something could go that could not before are looked at again.
    pub(crate) fn serve_everybody(&mut self) {
        let established = self
            .neighbours
            .iter()
            .filter(|(_, neighbour)| neighbour.parameters.is_some());
        self.to_serve.extend(established.map(|(&stream, _)| stream));
    }

    /// End a neighbour's session in order.
    pub(crate) fn terminate(&mut self, attention: &mut Attention, now: Now, stream: StreamId) {
        if let Some(neighbour) = self.neighbours.get_mut(&stream) {
            neighbour.ending = true;
        }
        self.command(
            attention,
            now,
            stream,
            LinkCommand::Terminate {
                reason: TerminateReason::Unknown,
            },
        );
    }

    pub(crate) fn link_mut(&mut self, LinkId(id): LinkId) -> Option<&mut Link> {
        usize::try_from(id)
            .ok()
            .and_then(|id| self.links.get_mut(id))
    }

    pub(crate) fn link(&self, LinkId(id): LinkId) -> Option<&Link> {
        usize::try_from(id).ok().and_then(|id| self.links.get(id))
    }

    /// The link of this name.
    pub(crate) fn link_named(&self, name: &str) -> Result<LinkId, crate::door::OperatorRefusal> {
        self.links
            .iter()
            .zip(0_u32..)
            .find(|(link, _)| link.config.name == name)
            .map(|(_, id)| LinkId(id))
            .ok_or_else(|| crate::door::OperatorRefusal::UnknownLink(name.to_string()))
    }
}
