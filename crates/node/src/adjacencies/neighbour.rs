//! A neighbour: the convergence layer that speaks with it, and the transfers under way on it.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::eid::EidPattern;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::{Instant, NodeId, Now, Reading};
use dhow_link::stream::{LinkCommand, RefuseReason, SessionParameters, TransferId};
use dhow_link::{stcp, tcpcl};

use crate::adjacencies::layer::{Layer, OneWay};
use crate::adjacencies::probing::Probe;
use crate::adjacencies::reads::Reads;
use crate::adjacencies::shortages::Shortages;
use crate::adjacencies::traffic::Traffic;
use crate::adjacencies::window::Window;
use crate::config::{
    Enabled, LinkId, ListenerId, Protocol, ReadingPolicy, SessionPolicy, StcpPolicy, Tls,
};
use crate::forwarding::choice::Split;
use crate::forwarding::cut_through::Queueing;
use crate::held::endpoints::EndpointIndex;
use crate::reception::Reception;
use crate::routing::Hop;
use crate::sending::Outgoing;
use crate::series::Series;

/// One neighbour's stream, or its link over datagrams.
pub(crate) struct Neighbour {
    pub(crate) session: Layer,
    pub(crate) link: Option<LinkId>,
    /// The place at which the peer began it, if it did.
    pub(crate) listener: Option<ListenerId>,
    pub(crate) policy: Box<SessionPolicy>,
    pub(crate) accept_sources: Vec<EidPattern>,
    /// Once established.
    pub(crate) parameters: Option<SessionParameters>,
    pub(crate) since: Option<Instant>,
    /// When octets last came.
    pub(crate) heard: Instant,
    /// The part of its early octets that the node has counted.
    pub(crate) early_octets: u64,
    /// The consequence if its path turns out to be lost.
    pub(crate) if_lost: IfLost,
    /// The peer's node ID among the endpoints, once established. For one whose session never is, that which policy names, or the null
    /// endpoint.
    pub(crate) peer: Option<EndpointIndex>,
    /// The hops that this session is.
    pub(crate) hops: Vec<Hop>,
    pub(crate) receptions: BTreeMap<TransferId, Reception>,
    /// The transfer that began last whose octets are not verified by the peer.
    pub(crate) unverified: Option<TransferId>,
    /// The bundles that are being sent, by transfer.
    outgoing: Series<Outgoing>,
    /// Octets by which the window is charged for these.
    outgoing_octets: u64,
    /// Octets of those that leave from where they are stored.
    stored_octets: u64,
    /// Bundles that the peer keeps for another node, which has not taken them; the window is not charged for these.
    kept: BTreeMap<TransferId, Outgoing>,
    pub(crate) next_transfer: u64,
    /// Whether a bundle waits for the socket to take octets.
    waits_for_socket: bool,
    /// Octets of bundles given to this session, read for it or sent and not acknowledged.
    pub(crate) in_flight_octets: u64,
    /// Bundles and fragments likewise.
    pub(crate) in_flight: u32,
    /// The part of the window that may be in use, by what the peer acknowledges in which time.
    pub(crate) window: Window,
    /// Bundles that are cut into fragments, one after the other; no more than the window has room for.
    pub(crate) splits: VecDeque<Split>,
    /// Bundles whose header blocks are read for it.
    pub(crate) reads: Reads,
    /// A bundle that goes out over this session while it still comes in.
    pub(crate) cut_through: Option<dhow_bundle::storage::BundleKey>,
    /// Other bundles that wait for the transfer.
    pub(crate) queueing: Option<Queueing>,
    /// When bundles that may not go here are taken out of the way of others next.
    pub(crate) clear_at: Instant,
    /// The transfer MRU that the peer was told, octets: less than the policy's where the disk had no room for that.
    pub(crate) announced_mru: u64,
    /// The peer is out of resources: send nothing before this.
    pub(crate) paused_until: Option<Instant>,
    pub(crate) pause: Duration,
    /// The peer was, and it is tried how much it takes.
    pub(crate) trial: Option<Trial>,
    /// Sources for whose bundles it has no room.
    pub(crate) shortages: Shortages,
    /// The bundle of that trial whose payload waits for an answer.
    pub(crate) probe: Option<Probe>,
    /// The time from a bundle's header to its refusal.
    pub(crate) refusal_takes: Option<Duration>,
    pub(crate) ending: bool,
    /// Whether nothing can leave now: no transfer begins.
    pub(crate) is_shut: bool,
    pub(crate) flush_pending: bool,
    pub(crate) timeout: Option<Instant>,
    pub(crate) bundles_sent: u64,
    pub(crate) octets_sent: u64,
    pub(crate) bundles_received: u64,
    pub(crate) octets_received: u64,
    /// Bundles refused since the neighbour had used up what it may bring.
    pub(crate) limited: u64,
}

/// The consequence for an accepted session whose path is lost and that nothing has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfLost {
    /// The path may come back by itself.
    Keep,
    /// The connection is cut, so that the peer dials anew.
    Cut,
}

/// A session that has bundles under way and says nothing for this long may have lost its path.
const SILENCE: Duration = Duration::from_millis(250);
/// First pause after a peer said that it has no resources, or that it ends the session; the latter doubles up to
/// [`LONGEST_PAUSE`].
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Pause between attempts to give a bundle to a peer that has no resources: room that appears there is used within a second, and
/// one bundle in this time begins to be sent in vain.
pub(crate) const FULL_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause between attempts to give bundles to a peer that ends the session and does not.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Octets of bundles that may wait for a socket: as many as one write takes. Further ones stay in their queues, where the one that comes
/// first is chosen later, and where they take no memory.
const QUEUED_OCTETS: u64 = 1 << 20;

/// The same of a session before it is known how fast its peer acknowledges: on a slow link all of it stands before what comes next.
const QUEUED_OCTETS_FIRST: u64 = 128 << 10;

/// Octets of small bundles that may be in flight beyond the window, so that they need not wait for the next acknowledgment.
const AHEAD_OCTETS: u64 = 64 << 10;

/// The trial of a peer that had no resources: one bundle, not a window full, since it refuses each when it has begun
/// to come; with twice as many as before once it takes what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    /// Bundles under way at a time, at most.
    pub(crate) bundles: u32,
    /// The size that was refused.
    pub(crate) refused: Option<RefusedSize>,
}

/// Bundles of a size that was refused let smaller ones pass for a while, and not more octets than they have themselves: the room
/// that appears is theirs, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusedSize {
    octets: u64,
    until: Instant,
    /// Octets that may pass yet.
    cut_through_octets: u64,
}

impl Trial {
    /// One bundle, of any source.
    pub(crate) const ONE: Self = Self {
        bundles: 1,
        refused: None,
    };

    /// One bundle was taken: the part of the trial that is left.
    fn more(self, octets: u64, most: u32) -> Option<Self> {
        let bundles = self.bundles.saturating_mul(2);
        let refused = self.refused.and_then(|refused| {
            let cut_through_octets = refused.cut_through_octets.checked_sub(octets)?;
            Some(RefusedSize {
                cut_through_octets,
                ..refused
            })
        });
        (bundles < most || refused.is_some()).then_some(Self { bundles, refused })
    }
}

impl Neighbour {
    /// The bundles that its session carried so far.
    pub(crate) const fn traffic(&self) -> Traffic {
        Traffic {
            bundles_sent: self.bundles_sent,
            octets_sent: self.octets_sent,
            bundles_received: self.bundles_received,
            octets_received: self.octets_received,
        }
    }

    /// A neighbour with which nothing has been spoken.
    pub(crate) fn new(
        session: Layer,
        (policy, announced_mru): (&SessionPolicy, u64),
        link: Option<LinkId>,
        now: Now,
    ) -> Self {
        Self {
            session,
            announced_mru,
            link,
            listener: None,
            policy: Box::new(policy.clone()),
            accept_sources: policy
                .accept_sources
                .iter()
                .filter_map(|text| text.parse().ok())
                .collect(),
            parameters: None,
            since: None,
            heard: now.monotonic,
            early_octets: 0,
            if_lost: IfLost::Keep,
            peer: None,
            hops: Vec::new(),
            receptions: BTreeMap::new(),
            unverified: None,
            outgoing: Series::default(),
            outgoing_octets: 0,
            stored_octets: 0,
            kept: BTreeMap::new(),
            next_transfer: 0,
            waits_for_socket: false,
            in_flight_octets: 0,
            in_flight: 0,
            window: Window::default(),
            splits: VecDeque::new(),
            reads: Reads::default(),
            cut_through: None,
            queueing: None,
            clear_at: now.monotonic,
            paused_until: None,
            pause: FIRST_PAUSE,
            trial: None,
            shortages: Shortages::default(),
            probe: None,
            refusal_takes: None,
            ending: false,
            is_shut: false,
            flush_pending: false,
            timeout: None,
            bundles_sent: 0,
            octets_sent: 0,
            bundles_received: 0,
            octets_received: 0,
            limited: 0,
        }
    }

    /// The strictness with which this neighbour's bundles are read.
    pub(crate) fn reading(&self) -> Reading {
        reading(self.policy.reading)
    }

    pub(crate) fn command(&mut self, now: Now, command: LinkCommand) {
        self.session.handle_command(now, command);
    }

    /// The node ID of the peer that brings bundles: once established, and of a connection that only brings them where the listener's policy
    /// names it.
    pub(crate) fn sender_id(&self) -> Option<&NodeId> {
        let is_named = self.session.counts_written() && self.link.is_none();
        let named = self.policy.peer.as_ref().filter(|_| is_named);
        self.peer_id().or(named)
    }

    /// The peer's node ID, once established.
    pub(crate) fn peer_id(&self) -> Option<&NodeId> {
        self.parameters.as_ref().map(|parameters| &parameters.peer)
    }

    /// True while another bundle may be given to this session.
    pub(crate) fn has_room(&self, now: Instant) -> bool {
        self.has_place(now)
            && (self.in_flight == 0 || self.window_use() < self.policy.window_octets)
            && !self.is_filled(now)
    }

    /// True while a small bundle may be given to this session though others wait for it: those have left it a little room.
    pub(crate) fn has_room_before_sync(&self, now: Instant) -> bool {
        !self.session.is_datagrams()
            && self.splits.is_empty()
            && (self.in_flight <= 1 || !self.socket_is_behind())
            && self.has_room_ahead(now)
    }

    /// True while a small bundle may be given to this session though there is no room for others: those have left it a little.
    pub(crate) fn has_room_ahead(&self, now: Instant) -> bool {
        let octets = self.window_use().saturating_sub(AHEAD_OCTETS);
        self.has_place(now)
            && self.cut_through.is_none()
            && (self.in_flight == 0 || octets < self.policy.window_octets)
            && (self.in_flight <= 1 || self.is_wide(now, octets))
    }

    /// Octets of the configured window that are in use. If the layer's own rate says how much is under way, the window bounds memory alone: of what
    /// leaves from the store only a peer that is an hour away would say for how long it is under way.
    fn window_use(&self) -> u64 {
        match self.session.is_paced() {
            true => self.in_flight_octets.saturating_sub(self.stored_octets),
            false => self.in_flight_octets,
        }
    }

    /// True when it can take bundles, now or soon.
    pub(crate) const fn is_up(&self) -> bool {
        self.parameters.is_some() && !self.ending && !self.is_shut
    }

    /// True while the session may have one bundle more in flight, whatever its size.
    fn has_place(&self, now: Instant) -> bool {
        let most = self.policy.window_bundles;
        let window_bundles = self
            .trial
            .as_ref()
            .map_or(most, |trial| trial.bundles.min(most));
        self.is_up()
            && self.paused_until.is_none_or(|until| until <= now)
            && self.in_flight < window_bundles
    }

    /// True when what is in flight keeps the peer busy as long as it should, or its socket. A bundle that follows another one is
    /// in flight beside it, however large the two are.
    fn is_filled(&self, now: Instant) -> bool {
        self.in_flight > 1 && (self.socket_is_behind() || !self.is_wide(now, self.in_flight_octets))
    }

    /// True while more than so many octets may be under way.
    fn is_wide(&self, now: Instant, octets: u64) -> bool {
        self.session.is_paced() || self.window.has_room(now, octets)
    }

    /// True when so much waits for the socket that what comes later would only wait behind it.
    fn socket_is_behind(&self) -> bool {
        let read = self.in_flight_octets.saturating_sub(self.outgoing_octets);
        let is_acknowledged = self.session.acknowledges() && !self.session.is_datagrams();
        let is_first = is_acknowledged && !self.window.is_measured();
        let most = match is_first {
            true => QUEUED_OCTETS_FIRST,
            false => QUEUED_OCTETS,
        };
        read.saturating_add(self.session.queued_octets()) >= most
    }

    /// The driver has taken octets: true when there is room again for which a bundle waited.
    pub(crate) fn has_moved_on(&mut self) -> bool {
        let has_room = self.waits_for_socket && !self.socket_is_behind();
        self.waits_for_socket &= !has_room;
        has_room
    }

    /// Bundles and fragments that are being sent, by transfer.
    pub(crate) const fn outgoing(&self) -> &Series<Outgoing> {
        &self.outgoing
    }

    /// A transfer is opened.
    pub(crate) fn opened(&mut self, transfer: TransferId, outgoing: Outgoing) {
        self.outgoing_octets = self.outgoing_octets.saturating_add(outgoing.octets);
        self.stored_octets = self.stored_octets.saturating_add(outgoing.stored_octets);
        self.outgoing.push(transfer.0, outgoing);
    }

    /// A transfer is with a peer that keeps it for another node.
    pub(crate) fn keep(&mut self, transfer: TransferId, outgoing: Outgoing) {
        self.kept.insert(transfer, outgoing);
    }

    /// The peer says no more of a transfer that it kept.
    pub(crate) fn take_kept(&mut self, transfer: TransferId) -> Option<Outgoing> {
        self.kept.remove(&transfer)
    }

    /// Bundles and fragments that the peer keeps for another node.
    pub(crate) const fn kept(&self) -> &BTreeMap<TransferId, Outgoing> {
        &self.kept
    }

    /// A transfer is over.
    pub(crate) fn closed(&mut self, transfer: TransferId) -> Option<Outgoing> {
        let outgoing = self.outgoing.remove(transfer.0)?;
        self.outgoing_octets = self.outgoing_octets.saturating_sub(outgoing.octets);
        self.stored_octets = self.stored_octets.saturating_sub(outgoing.stored_octets);
        Some(outgoing)
    }

    /// All transfers are over: those that the peer kept, which are the oldest, and the others in the order in which they began.
    pub(crate) fn all_closed(&mut self) -> impl DoubleEndedIterator<Item = Outgoing> + use<> {
        self.outgoing_octets = 0;
        self.stored_octets = 0;
        let kept = core::mem::take(&mut self.kept).into_values();
        kept.chain(core::mem::take(&mut self.outgoing).into_values())
    }

    /// There was no room for a bundle: when there may be although nothing happens.
    pub(crate) fn note_full(&mut self, now: Instant) -> Option<Instant> {
        let is_full = self.in_flight > 0
            && (self.is_filled(now) || self.window_use() >= self.policy.window_octets);
        if !is_full {
            return None;
        }
        self.window.is_full();
        self.waits_for_socket = self.socket_is_behind();
        if self.waits_for_socket {
            return None;
        }
        let is_most = self.window_use() >= self.policy.window_octets;
        self.window.grows_at(now).filter(|_| !is_most)
    }

    /// The peer took a bundle.
    pub(crate) fn has_taken(&mut self, octets: u64) {
        let most = self.policy.window_bundles;
        self.pause = FIRST_PAUSE;
        self.trial = self.trial.and_then(|trial| trial.more(octets, most));
    }

    /// The peer refused a bundle of so many octets: it is asked again then.
    pub(crate) fn pause(&mut self, now: Instant, reason: RefuseReason, octets: u64) -> Instant {
        let is_full = reason == RefuseReason::NoResources;
        let pause = match self.trial {
            Some(trial) if is_full && trial.bundles == 1 => FULL_PAUSE,
            // It has taken some since, so that it is about to have room again.
            _ if is_full => FIRST_PAUSE,
            _ => self.pause,
        };
        if !is_full {
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        let until = now + pause;
        self.paused_until = (!planted(Mutant::PauseForgotten)).then_some(until);
        self.trial = Some(Trial {
            refused: is_full.then_some(RefusedSize {
                octets,
                until: until + FULL_PAUSE,
                cut_through_octets: octets,
            }),
            ..Trial::ONE
        });
        until
    }

    /// A size that was refused is tried again once it has let smaller bundles pass for long enough.
    pub(crate) fn try_again(&mut self, now: Instant) {
        self.shortages.end(now);
        if let Some(trial) = &mut self.trial
            && trial.refused.is_some_and(|refused| refused.until <= now)
        {
            trial.refused = None;
        }
    }

    /// Bundles of so many octets and more let smaller ones pass.
    pub(crate) fn ceiling_octets(&self) -> Option<u64> {
        let refused = self.trial.as_ref()?.refused?;
        Some(refused.octets)
    }

    /// True when bundles are under way and nothing has come back for a while.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        self.parameters.is_some() && self.in_flight > 0 && self.is_quiet(now)
    }

    /// When octets last came. A session over datagrams is there before any did.
    pub(crate) fn last_heard(&self) -> Option<Instant> {
        let counts = self.session.datagram_counts();
        let is_heard = counts.is_none_or(|it| it.received > 0);
        is_heard.then_some(self.heard)
    }

    /// True when nothing has come for a while.
    pub(crate) fn is_quiet(&self, now: Instant) -> bool {
        now - self.heard >= SILENCE
    }

    /// True when another session is wanted should this one's path be lost: this node dialled it, or has bundles
    /// under way on it. A link over datagrams and a tunnel have no connection that could be replaced.
    pub(crate) fn needs_path(&self) -> bool {
        !self.session.is_datagrams()
            && !self.session.is_tunnel()
            && (self.link.is_some() || self.in_flight > 0)
    }

    /// Encapsulating bundles that came and are not settled.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn outers(&self) -> impl Iterator<Item = dhow_bundle::storage::BundleKey> {
        let tunnel = match &self.session {
            Layer::Bundles(tunnel) => Some(tunnel.outers()),
            _ => None,
        };
        tunnel.into_iter().flatten()
    }

    /// The octets of a failed transfer that were acknowledged stay at the receiver, in both directions.
    pub(crate) fn keeps_reactive_fragments(&self) -> bool {
        self.parameters
            .as_ref()
            .is_some_and(|it| it.keeps_reactive_fragments)
    }

    /// Whether bundles are blocks of LTP.
    pub(crate) fn is_ltp(&self) -> bool {
        matches!(self.session.protocol(), Protocol::Ltp(_))
    }

    /// Octets of the largest block that comes; no bound where there are no blocks.
    pub(crate) fn block_octets(&self) -> u64 {
        match self.session.protocol() {
            Protocol::Ltp(policy) => policy.block_octets,
            _ => u64::MAX,
        }
    }

    /// Largest bundle that may go out in one transfer, octets.
    pub(crate) fn transfer_mru(&self) -> u64 {
        self.parameters
            .as_ref()
            .map_or(0, |parameters| parameters.transfer_mru)
    }
}

fn reading(policy: ReadingPolicy) -> Reading {
    match policy {
        ReadingPolicy::Strict => Reading::Strict,
        ReadingPolicy::Lenient => Reading::Lenient,
    }
}

/// The configuration of a session of TCPCL.
pub(crate) fn session_config(node_id: NodeId, policy: &SessionPolicy) -> tcpcl::Config {
    let mut config = tcpcl::Config::new(node_id);
    config.keepalive_s = policy.keepalive_s;
    config.segment_mru = policy.segment_mru;
    config.segment_length = policy.segment_octets;
    config.tls = match policy.tls {
        Tls::Required => tcpcl::TlsPolicy::Required,
        Tls::Preferred => tcpcl::TlsPolicy::Preferred,
        Tls::Never => tcpcl::TlsPolicy::Never,
    };
    config.identity = match policy.require_node_id {
        Enabled::Yes => tcpcl::IdentityPolicy::NodeId,
        Enabled::No => tcpcl::IdentityPolicy::NodeIdElseNetwork,
    };
    config.expected_peer.clone_from(&policy.peer);
    config.idle_timeout = unless_zero(policy.idle_timeout_s);
    config.transfer_timeout = unless_zero(policy.transfer_timeout_s);
    let answer_timeout = Duration::from_secs(u64::from(policy.answer_timeout_s));
    config.negotiation_timeout = answer_timeout;
    config.termination_timeout = answer_timeout;
    config.keeps_reactive_fragments = policy.resume == Enabled::Yes;
    config.reading = reading(policy.reading);
    config
}

fn unless_zero(seconds: u32) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

/// A connection that carries bundles to the peer that `policy` names, where this node `dialled` it, and from the peer otherwise.
pub(crate) fn one_way(
    StcpPolicy { framing, on_sent }: StcpPolicy,
    policy: &SessionPolicy,
    dialled: Option<NodeId>,
    now: Now,
) -> OneWay {
    let config = stcp::Config {
        keepalive: unless_zero(policy.keepalive_s.into()),
        transfer_mru: policy.transfer_mru,
        idle_timeout: unless_zero(policy.idle_timeout_s),
        transfer_timeout: unless_zero(policy.transfer_timeout_s),
        termination_timeout: Duration::from_secs(u64::from(policy.answer_timeout_s)),
        ..stcp::Config::new(framing)
    };
    OneWay {
        session: match dialled {
            Some(peer) => stcp::Session::dial(peer, config, now),
            None => stcp::Session::accept(config, now),
        },
        on_sent,
    }
}
