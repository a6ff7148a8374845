//! The node: one value with one door.
//!
//! What the node does is spread over the files beside this one, each an `impl Node` about one noun:
//! `streams` (connections), `paths` (whether they still carry anything), `reception` and `admission` (bundles
//! coming in), `transmission` (bundles made here), `dispatch` (where a stored bundle goes), `deletion` (how it
//! ends), `recovery` (what a restart found), `sending` and `fragmentation` (bundles going out), `copies` (those of which several neighbours get one), `probing` (those that a neighbour may have no room for), `passing`
//! (those that still come in), `ahead` (those that are not durable yet), `prefix` (what is kept of those that may not), `delivery` (registrations, and
//! bundles for applications), `reports` and `collection` (status reports), `echo`, `perf`,
//! `answers` (whom these two answer), `own` (bundles that the node makes for itself), `operator`.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use dhow_bundle::storage::{BundleKey, StoreCommand, StoreEvent};
use dhow_bundle::{HeaderReader, Instant, NodeId, Now};
use dhow_link::tcpcl::Session;

use crate::answers::Answers;
use crate::arrivals::Arrivals;
use crate::backlog::Backlog;
use crate::bundles::Bundles;
use crate::client::Client;
use crate::collection::Collections;
use crate::config::{Config, LinkId, SendOrder};
use crate::copies::Copies;
use crate::creation::Creation;
use crate::delivery::Registrations;
use crate::disk_room::DiskRoom;
use crate::door::{Action, Event, Occurrence, Purpose, StreamId, Telling, Ticket};
use crate::endpoints::{EndpointIndex, Endpoints};
use crate::expiries::Expiries;
use crate::heads::Heads;
use crate::links::Link;
use crate::local::Local;
use crate::neighbour::Neighbour;
use crate::passing::{Owed, Pass};
use crate::paths::IdlePaths;
use crate::perf::Perf;
use crate::planned;
use crate::prefix::{Keeping, Prefix, Retracted};
use crate::queues::Queues;
use crate::reassembly::Reassembly;
use crate::recording::{Recorder, Stored};
use crate::removed::Removed;
use crate::reports::ReportRate;
use crate::routing::Routers;
use crate::routing::static_routes::StaticRoutes;
use crate::sending::{PendingRead, SplitBundle};
use crate::sent::Sent;
use crate::series::Series;
use crate::sharing::Sharing;
use crate::turns::Turns;
use crate::view::Counters;

/// The wall clock moved by more than this against the monotonic one: a jump, not drift.
const CLOCK_JUMP_MS: u64 = 1_000;

/// Actions that wait for the driver when no more bundles are chosen for sessions: what waits in a long line has left
/// the processor's caches when its turn comes.
const TURN_ACTIONS: usize = 128;

/// Bundles that expire in one turn, at most: hundreds of thousands may at the same instant, and each makes work for the node, its
/// store and its log.
const EXPIRIES_PER_TURN: usize = 512;

/// Whether the node works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The store is telling what it holds.
    Recovering,
    /// At work.
    Working,
    /// Finishing what is under way.
    ShuttingDown,
}

/// Whether what sessions say is being carried out further up on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attending {
    Yes,
    No,
}

/// One DTN node: forwarder, links, registrations and application sessions behind one door.
pub struct Node {
    pub(crate) config: Config,
    pub(crate) stage: Stage,
    pub(crate) telling: Telling,
    pub(crate) local: Local,
    pub(crate) endpoints: Endpoints,
    pub(crate) bundles: Bundles,
    pub(crate) queues: Queues,
    pub(crate) removed: Removed,
    /// Bundles that applications have and have not confirmed.
    pub(crate) delivering: usize,
    /// Octets of responses that applications have not taken.
    pub(crate) response_octets: usize,
    /// Octets of datagrams that came before others and wait for them.
    pub(crate) early_octets: u64,
    /// So many bundles find memory before it is counted again.
    pub(crate) memory_credit: u64,
    /// Octets of memory that the queues of recovered bundles will take.
    pub(crate) expected_octets: usize,
    pub(crate) creation: Creation,
    pub(crate) routes: StaticRoutes,
    pub(crate) routers: Routers,
    pub(crate) links: alloc::vec::Vec<Link>,
    /// When contacts of links are looked at.
    pub(crate) contacts_due: Option<Instant>,
    /// When the network, which has just changed, is looked at.
    pub(crate) settles: Option<Instant>,
    /// When the paths of sessions are looked at.
    pub(crate) path_check: Option<Instant>,
    pub(crate) idle_paths: IdlePaths,
    pub(crate) neighbours: BTreeMap<StreamId, Box<Neighbour>>,
    pub(crate) clients: BTreeMap<StreamId, Box<Client>>,
    /// Established sessions by their peer.
    pub(crate) peers: BTreeMap<NodeId, BTreeSet<StreamId>>,
    pub(crate) registrations: Registrations,
    pub(crate) reassembly: Reassembly,
    pub(crate) arrivals: Arrivals,
    /// Bundles that go out while they come in, or did.
    pub(crate) passes: BTreeMap<BundleKey, Pass>,
    /// What is kept of bundles that are coming in.
    pub(crate) keepings: BTreeMap<BundleKey, Keeping>,
    /// Parts of them on their way into the store.
    pub(crate) prefixes: BTreeMap<BundleKey, Prefix>,
    pub(crate) retracted: Retracted,
    /// What they and the bundles have in common.
    pub(crate) sharing: Sharing,
    /// Payload octets of bundles here that next hops have already, from the first.
    pub(crate) handed: BTreeMap<BundleKey, u64>,
    /// Bundles of which several neighbours get a copy.
    pub(crate) copies: Copies,
    /// Acknowledgments that wait for the next hop's.
    pub(crate) owed: BTreeMap<BundleKey, Owed>,
    /// Bundles that sessions are cutting into fragments.
    pub(crate) splits: BTreeMap<(BundleKey, StreamId), SplitBundle>,
    /// Reads that the driver has not answered, by ticket.
    pub(crate) reads: Series<PendingRead>,
    pub(crate) heads: Heads,
    /// Reads the headers of bundles that come in.
    pub(crate) headers_in: Option<Box<HeaderReader>>,
    /// Reads those of bundles that go out.
    pub(crate) headers_out: Option<Box<HeaderReader>>,
    pub(crate) expiries: Expiries,
    /// When bundles that a neighbour refused are tried again.
    pub(crate) rests: BTreeSet<(Instant, BundleKey)>,
    /// Bundles that have left over links that promise nothing, and are kept.
    pub(crate) sent: Sent,
    /// When sessions want their `handle_timeout`.
    pub(crate) timeouts: BTreeSet<(Instant, StreamId)>,
    pub(crate) report_rate: ReportRate,
    /// Reports that wait for each other.
    pub(crate) collections: Collections,
    /// When sessions whose peer is out of resources are tried again.
    pub(crate) pauses: BTreeSet<(Instant, StreamId)>,
    /// Sessions that are over and may still have last octets to write.
    pub(crate) parting: BTreeMap<StreamId, Box<Session>>,
    /// Bundles whose octets moved in the store while somebody may still read the old places.
    pub(crate) moved: BTreeSet<BundleKey>,
    /// Bundles that the store is comparing with their checksums.
    pub(crate) verifying: BTreeSet<BundleKey>,
    /// Octets of bundles that are coming in, for which no room is reserved yet.
    pub(crate) unreserved_octets: u64,
    pub(crate) disk_room: DiskRoom,
    pub(crate) backlog: Backlog,
    pub(crate) counters: Counters,
    pub(crate) answers: Answers,
    pub(crate) perf: Perf,
    pub(crate) to_serve: BTreeSet<StreamId>,
    pub(crate) to_deliver: BTreeSet<EndpointIndex>,
    pub(crate) to_attend: BTreeSet<StreamId>,
    pub(crate) attending: Attending,
    pub(crate) recorder: Option<Box<Recorder>>,
    actions: VecDeque<Action>,
    pub(crate) turns: Turns,
    next_ticket: u64,
    random: u64,
    /// Wall clock minus monotonic clock at the last event, milliseconds.
    clock_offset_ms: Option<u64>,
}

impl Node {
    /// A node that has not yet recovered its store: give it `Recovered` events and one `Opened` first.
    ///
    /// # Panics
    /// When the configuration names no node ID.
    #[must_use]
    pub fn new(config: Config) -> Self {
        assert!(!config.node_ids.is_empty(), "a node needs a node ID");
        let by_expiry = |(link, id): (&crate::config::LinkConfig, u32)| {
            (link.policy.order == SendOrder::Expiry).then_some(LinkId(id))
        };
        let expiry_links = config
            .links
            .iter()
            .zip(0_u32..)
            .filter_map(by_expiry)
            .collect();
        let mut node = Self {
            stage: Stage::Recovering,
            telling: Telling::default(),
            local: Local::new(&config),
            endpoints: Endpoints::new(Local::new(&config), config.seed),
            bundles: Bundles::new(config.seed),
            queues: Queues::new(expiry_links),
            removed: Removed::new(
                config.removed_bound,
                remembered_octets(&config),
                config.seed,
            ),
            delivering: 0,
            response_octets: 0,
            early_octets: 0,
            expected_octets: 0,
            memory_credit: 0,
            creation: Creation::default(),
            routes: StaticRoutes::default(),
            routers: Routers::new(&config.routing, &config.contacts),
            links: config.links.iter().cloned().map(Link::new).collect(),
            contacts_due: planned::first_look(&config.links),
            settles: None,
            path_check: None,
            idle_paths: IdlePaths::Asked,
            neighbours: BTreeMap::new(),
            clients: BTreeMap::new(),
            peers: BTreeMap::new(),
            registrations: Registrations::default(),
            reassembly: Reassembly::default(),
            arrivals: Arrivals::default(),
            passes: BTreeMap::new(),
            keepings: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            retracted: Retracted::new(),
            sharing: Sharing::default(),
            handed: BTreeMap::new(),
            copies: Copies::default(),
            owed: BTreeMap::new(),
            splits: BTreeMap::new(),
            reads: Series::default(),
            heads: Heads::default(),
            headers_in: None,
            headers_out: None,
            expiries: Expiries::default(),
            rests: BTreeSet::new(),
            sent: Sent::new(&config.links),
            timeouts: BTreeSet::new(),
            report_rate: ReportRate::new(config.reports.per_second),
            collections: Collections::default(),
            pauses: BTreeSet::new(),
            parting: BTreeMap::new(),
            moved: BTreeSet::new(),
            verifying: BTreeSet::new(),
            unreserved_octets: 0,
            disk_room: DiskRoom::default(),
            backlog: Backlog::default(),
            counters: Counters::default(),
            answers: Answers::new(config.answers_per_second, config.seed),
            perf: Perf::new(&config),
            to_serve: BTreeSet::new(),
            to_deliver: BTreeSet::new(),
            to_attend: BTreeSet::new(),
            attending: Attending::No,
            recorder: None,
            actions: VecDeque::new(),
            turns: Turns::default(),
            next_ticket: 0,
            random: config.seed | 1,
            clock_offset_ms: None,
            config,
        };
        node.add_configured_routes();
        node
    }

    /// Tell of these occurrences; of all of them otherwise.
    #[must_use]
    pub const fn with_telling(mut self, telling: Telling) -> Self {
        self.telling = telling;
        self
    }

    /// Record all that passes the door; nothing has yet. The recorder is one of the same configuration and telling.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(Box::new(recorder));
        self
    }

    /// What records this node.
    pub fn recorder(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_deref_mut()
    }

    /// Record no more.
    pub fn take_recorder(&mut self) -> Option<Box<Recorder>> {
        self.recorder.take()
    }

    /// Something happened.
    pub fn handle(&mut self, now: Now, event: Event) {
        if self.recorder.is_some() {
            self.record(now, &event);
        }
        self.watch_clock(now);
        match event {
            Event::Recovered { bundle, extents } => self.recover(now, &bundle, extents),
            Event::Opened {
                reserved_time,
                reserved_sequence,
                removed,
            } => {
                self.creation.resume(reserved_time, reserved_sequence);
                self.finish_recovery(now, removed);
            }
            Event::Store(event) => self.handle_store(now, event),
            Event::Read { ticket, octets } => self.handle_read(now, ticket, octets),
            Event::Connected { stream, purpose } => match purpose {
                Purpose::Client => self.welcome(now, stream),
                neighbours => self.meet(now, stream, &neighbours),
            },
            Event::Octets { stream, octets } => self.handle_octets(now, stream, octets),
            Event::Datagrams { stream, datagrams } => {
                self.handle_datagrams(now, stream, &datagrams);
            }
            Event::Left { stream, datagrams } => self.handle_left(now, stream, datagrams),
            Event::Narrowed { stream, octets } => self.narrowed(now, stream, octets),
            Event::Secured { stream, identities } => self.secured(now, stream, identities),
            Event::Insecure { stream } => self.insecure(now, stream),
            Event::Disconnected { stream } => self.disconnected(now, stream),
            Event::DialFailed { link, reason } => {
                let jitter = self.random();
                if let Some(link) = self.link_mut(link) {
                    link.dial_failed(now.monotonic, jitter);
                    link.last_error = Some(reason);
                }
            }
            Event::PathChecked { stream, path } => self.path_checked(now, stream, path),
            Event::TellsPaths => self.idle_paths = IdlePaths::Told,
            Event::CarrierChanged { link, carrier } => self.carrier_changed(now, link, carrier),
            Event::NetworkChanged => self.let_settle(now),
            Event::Operator { ticket, command } => {
                let outcome = self.obey(now, command);
                self.act(Action::Answer { ticket, outcome });
            }
            Event::Shutdown => self.shut_down(now),
        }
    }

    /// What to do now; `None` when there is nothing. Work that one event made possible for many bundles
    /// is done here, once for all events handled before.
    pub fn poll(&mut self, now: Now) -> Option<Action> {
        if self.recorder.is_some() {
            return self.poll_recorded(now);
        }
        self.next_action(now)
    }

    #[cold]
    fn poll_recorded(&mut self, now: Now) -> Option<Action> {
        let action = self.next_action(now);
        if let Some(recorder) = &mut self.recorder {
            recorder.polled(now, action.as_ref());
        }
        action
    }

    #[cold]
    fn record(&mut self, now: Now, event: &Event) {
        let stored = match event {
            Event::Read { ticket, .. } => stored(self.reads.get(ticket.0)),
            _ => Stored::Own,
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.handle(now, event, stored);
        }
    }

    fn next_action(&mut self, now: Now) -> Option<Action> {
        if self.actions.is_empty() && self.stage != Stage::Recovering {
            self.attend_all(now);
            self.dial(now);
            self.write_reports(now);
            while self.has_turn_left()
                && let Some(endpoint) = self.to_deliver.pop_first()
            {
                self.deliver(now, endpoint);
            }
            while self.has_turn_left()
                && let Some(stream) = self.to_serve.pop_first()
            {
                self.serve(now, stream);
            }
            if self.collections.is_unwritten() {
                self.write_reports(now);
            }
        }
        self.actions.pop_front()
    }

    /// The instant of `poll_timeout` has come (or another: then nothing happens).
    pub fn handle_timeout(&mut self, now: Now) {
        if let Some(recorder) = &mut self.recorder {
            recorder.handle_timeout(now);
        }
        self.watch_clock(now);
        if self.stage == Stage::Recovering {
            return;
        }
        // The remaining ones are due at once: other events have their turn between.
        for _ in 0..EXPIRIES_PER_TURN {
            let Some(key) = self.expiries.pop(&mut self.bundles, now.monotonic) else {
                break;
            };
            self.expire(now, key);
        }
        while let Some(&(at, key)) = self.rests.first()
            && at <= now.monotonic
        {
            self.rests.remove(&(at, key));
            self.wake(now, key);
        }
        while let Some(&(at, stream)) = self.pauses.first()
            && at <= now.monotonic
        {
            self.pauses.remove(&(at, stream));
            self.to_serve.insert(stream);
        }
        while let Some(&(at, stream)) = self.timeouts.first()
            && at <= now.monotonic
        {
            self.timeouts.remove(&(at, stream));
            self.stream_timeout(now, stream);
        }
        self.follow_contacts(now);
        if self.settles.is_some_and(|at| at <= now.monotonic) {
            self.settles = None;
            self.network_changed(now);
        }
        if self.path_check.is_some_and(|at| at <= now.monotonic) {
            self.path_timeout(now);
        }
        if self.perf.due().is_some_and(|at| at <= now.monotonic) {
            self.summarize_due(now);
        }
        self.removed.prune(&mut self.endpoints, now.monotonic);
    }

    /// When `handle_timeout` or `poll` wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let expiry = self.expiries.next();
        let rest = self.rests.first().map(|&(at, _)| at);
        let timeout = self.timeouts.first().map(|&(at, _)| at);
        let pause = self.pauses.first().map(|&(at, _)| at);
        let reports = self.collections.due();
        let dial = self.links.iter().filter_map(|link| link.next_attempt).min();
        let perf = self.perf.due();
        [
            expiry,
            rest,
            timeout,
            pause,
            reports,
            dial,
            perf,
            self.contacts_due,
            self.settles,
            self.path_check,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn handle_store(&mut self, now: Now, event: StoreEvent) {
        match event {
            StoreEvent::Durable { key, octets } => self.appended(now, key, octets),
            StoreEvent::Written { key, extents } => self.written(now, key, &extents),
            StoreEvent::Stored { key, extents } => self.committed(now, key, extents),
            StoreEvent::Deleted { key } => self.deleted(now, key),
            StoreEvent::Reserved { time, sequence } => self.creation.confirm(time, sequence),
            StoreEvent::Relocated { key, extents } => self.relocated(key, extents),
            StoreEvent::Refused { key, refusal } => self.store_refused(now, key, refusal),
            StoreEvent::Verified { key } => self.intact(now, key),
            StoreEvent::Corrupt { key } => self.corrupt(now, key),
            StoreEvent::Capacity { octets, medium } => {
                self.capacity_changed(now, octets, medium);
            }
        }
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(crate) fn store(&mut self, command: StoreCommand) {
        self.act(Action::Store(command));
    }

    pub(crate) fn occurred(&mut self, occurrence: Occurrence) {
        self.act(Action::Occurred(occurrence));
    }

    /// False once so much is to be done that sessions had better be served when it is.
    pub(crate) fn has_turn_left(&self) -> bool {
        self.actions.len() < TURN_ACTIONS
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    /// A pseudo-random number from the node's seed (xorshift64*).
    pub(crate) fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Expiry goes by the monotonic clock, so a jump of the wall clock harms nothing that is stored; it
    /// is told so that somebody looks after the clock.
    fn watch_clock(&mut self, now: Now) {
        if !now.dtn.is_known() {
            self.clock_offset_ms = None;
            return;
        }
        let monotonic_ms = now.monotonic.as_nanos() / 1_000_000;
        let offset = now.dtn.as_millis().wrapping_sub(monotonic_ms);
        if let Some(before) = self.clock_offset_ms {
            let ahead = offset.wrapping_sub(before);
            let behind = before.wrapping_sub(offset);
            if ahead.min(behind) > CLOCK_JUMP_MS {
                let size = i64::try_from(ahead.min(behind)).unwrap_or(i64::MAX);
                let milliseconds = if ahead < behind { size } else { -size };
                self.occurred(Occurrence::ClockJumped { milliseconds });
            } else {
                return;
            }
        }
        self.clock_offset_ms = Some(offset);
    }
}

/// The part of the memory that identities of removed bundles may take is one of so many.
const REMEMBERED_SHARE: u64 = 8;

/// Octets of memory that identities of removed bundles may take.
fn remembered_octets(config: &Config) -> usize {
    usize::try_from(config.memory_octets / REMEMBERED_SHARE).unwrap_or(usize::MAX)
}

/// What octets from the store are that were asked for; nobody reads those that nobody waits for.
fn stored(read: Option<&PendingRead>) -> Stored {
    match read {
        Some(PendingRead::Send { .. }) => Stored::Bundle,
        Some(PendingRead::Echo { .. } | PendingRead::Perf { .. }) => Stored::Own,
        Some(PendingRead::Fragment { .. }) | None => Stored::Payload,
    }
}
