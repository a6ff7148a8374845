//! The node: one value, driven by events and actions.
//!
//! It has seven values, which know each its own part: [`Outbox`], [`Held`], [`Adjacencies`], [`Forwarding`], [`Delivery`], [`Services`] and
//! [`Reporting`]. A method that needs most of them is in an `impl Node` in a file about one noun. From the events to what they lead to:
//! `streams` and `conversations` (connections, datagrams), `dialling`, `finding` (neighbours of which beacons tell), `paths` (whether they still carry anything), `reception`, `admission` and `breaking_off`
//! (bundles coming in), `reactive` (the part that is kept of one that broke off), `stored` (answers of the store), `transmission` (bundles made here), `recovery` (what a restart
//! found), `sending` (bundles going out), `outcomes` (how their transfers end), `fragmentation`, `cut_through` (those that still come in), `before_sync` (those that
//! are not durable yet), `returning`, `copies` (those of which several neighbours get one), `custody_transfer` (those that a custodian keeps), `encapsulation`, `tunnels` and `decapsulation` (those in other bundles), `forwarded`, `dispatch` (where a stored bundle goes), `delivery`,
//! `echo`, `perf`, `retries`, `deletion` (how a bundle ends), `reports`, `collection` and `collected` (status reports), `adverts` (of routers to each other), `programs` (routers that are programs of their own), `originated` (bundles that the node
//! makes for itself), `reservation` (room), `operator`.

use alloc::boxed::Box;

use dhow_bundle::storage::StoreEvent;
use dhow_bundle::{Instant, Now};

use crate::adjacencies::Adjacencies;
use crate::adjacencies::session_id::SessionId;
use crate::attention::Attention;
use crate::config::Config;
use crate::delivery::Delivery;
use crate::discovery::Discovery;
use crate::driver::{Action, Event, Occurrence, Purpose, Telling};
use crate::external::connections::Connections;
use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::limits::Rates;
use crate::outbox::Outbox;
use crate::random::Random;
use crate::recording::{Recorder, Stored};
use crate::reporting::Reporting;
use crate::sending::PendingRead;
use crate::services::Services;

/// The wall clock moved by more than this against the monotonic one: a jump, not drift.
const CLOCK_JUMP_MS: u64 = 1_000;

/// Bundles that expire in one turn, at most: hundreds of thousands may at the same instant, and each makes work for the node, its
/// store and its log.
const EXPIRIES_PER_TURN: usize = 512;

/// Whether the node works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The store is telling its bundles.
    Recovering,
    /// The node is at work.
    Working,
    /// Finishing transfers under way.
    ShuttingDown,
}

/// One DTN node: forwarder, links, registrations and application sessions in one value.
pub struct Node {
    pub(crate) config: Config,
    pub(crate) stage: Stage,
    pub(crate) held: Held,
    pub(crate) forwarding: Forwarding,
    pub(crate) adjacencies: Adjacencies,
    pub(crate) delivery: Delivery,
    pub(crate) services: Services,
    pub(crate) rates: Rates,
    pub(crate) programs: Connections,
    pub(crate) discovery: Discovery,
    pub(crate) reporting: Reporting,
    pub(crate) attention: Attention,
    pub(crate) outbox: Outbox,
    pub(crate) recorder: Option<Box<Recorder>>,
    pub(crate) random: Random,
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
        let mut node = Self {
            stage: Stage::Recovering,
            held: Held::new(&config),
            forwarding: Forwarding::new(&config),
            adjacencies: Adjacencies::new(&config),
            delivery: Delivery::default(),
            services: Services::new(&config),
            rates: Rates::default(),
            programs: Connections::default(),
            discovery: Discovery::new(&config),
            reporting: Reporting::new(&config),
            attention: Attention::default(),
            outbox: Outbox::default(),
            recorder: None,
            random: Random::new(config.seed),
            clock_offset_ms: None,
            config,
        };
        node.add_configured_routes();
        node
    }

    /// Tell of these occurrences; of all of them otherwise.
    #[must_use]
    pub const fn with_telling(mut self, telling: Telling) -> Self {
        self.outbox.telling = telling;
        self
    }

    /// Record all events and actions; there have been none yet. The recorder is one of the same configuration and telling.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(Box::new(recorder));
        self
    }

    /// The recorder of this node.
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
        // Answers of the store come together: sessions are attended to once for all of them.
        let waits = matches!(event, Event::Store(_) | Event::Read { .. });
        match event {
            Event::Recovered { bundle, extents } => {
                let key = self.held.recover(now, &bundle, extents);
                if !self.held.recall_custody(key, &bundle) {
                    self.forwarding.recall(key, bundle.note);
                }
            }
            Event::Opened {
                reserved_time,
                reserved_sequence,
                removed,
            } => {
                self.held
                    .creation_mut()
                    .resume(reserved_time, reserved_sequence);
                self.held.recover_custody(now.monotonic, reserved_sequence);
                self.finish_recovery(now, removed);
            }
            Event::Store(event) => self.handle_store(now, event),
            Event::Read { ticket, octets } => self.handle_read(now, ticket, octets),
            Event::Connected { stream, purpose } => match purpose {
                Purpose::Client => self.welcome(stream),
                Purpose::Program => self.welcome_program(now, stream),
                neighbours => self.meet(now, stream, &neighbours),
            },
            Event::Octets { stream, octets } => self.handle_octets(now, stream, octets),
            Event::Datagrams { stream, datagrams } => {
                self.handle_datagrams(now, SessionId::over(stream), &datagrams)
            }
            Event::Left { stream, datagrams } => self.adjacencies.handle_left(
                &mut self.attention,
                now,
                SessionId::over(stream),
                datagrams,
            ),
            Event::Narrowed { stream, octets } => {
                self.adjacencies
                    .narrowed(&mut self.attention, now, SessionId::over(stream), octets)
            }
            Event::Secured { stream, identities } => {
                self.secured(now, SessionId::over(stream), identities)
            }
            Event::Insecure { stream } => self.insecure(now, SessionId::over(stream)),
            Event::Disconnected { stream } => self.disconnected(now, stream),
            Event::DialFailed { link, reason } => {
                let jitter = self.random.next();
                if let Some(link) = self.adjacencies.link_mut(link) {
                    link.dial_failed(now.monotonic, jitter);
                    link.last_error = Some(reason);
                }
            }
            Event::PathChecked { stream, path } => {
                self.path_checked(now, SessionId::over(stream), path)
            }
            Event::TellsPaths => self.adjacencies.tells_paths(),
            Event::CarrierChanged { link, carrier } => {
                self.adjacencies.carrier_changed(
                    &mut self.attention,
                    &mut self.outbox,
                    now,
                    link,
                    carrier,
                );
                self.follow_link(now, link);
            }
            Event::NetworkChanged => self.adjacencies.let_settle(now),
            Event::Operator { ticket, command } => {
                let outcome = self.obey(now, command);
                self.outbox.act(Action::Answer { ticket, outcome });
            }
            Event::Shutdown => self.shut_down(now),
            Event::Beacon {
                place,
                from,
                octets,
            } => self.hear_beacon(now, place, from, &octets),
        }
        if !waits {
            self.attend_all(now);
        }
    }

    /// The next action; `None` when there is none. Work that one event made possible for many bundles
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
            Event::Read { ticket, .. } => stored(self.held.reads().get(ticket.0)),
            _ => Stored::Own,
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.handle(now, event, stored);
        }
    }

    fn next_action(&mut self, now: Now) -> Option<Action> {
        if self.outbox.actions.is_empty() && self.stage != Stage::Recovering {
            self.attend_all(now);
            if self.discovery.is_due(now.monotonic) {
                self.attend_discovery(now);
            }
            self.dial(now);
            if self.adjacencies.take_opened() {
                for key in self.held.resting_records() {
                    self.wake(now, key);
                }
            }
            if self.forwarding.has_externals() {
                self.attend_programs(now);
            }
            if self.forwarding.has_adverts() {
                self.send_adverts(now);
            }
            self.attend_custody(now);
            self.write_reports(now);
            while self.outbox.has_turn_left()
                && let Some(endpoint) = self.delivery.next_endpoint()
            {
                self.deliver(now, endpoint);
            }
            self.attend_all(now);
            while self.outbox.has_turn_left()
                && let Some(session) = self.adjacencies.next_to_serve()
            {
                self.serve(now, session);
            }
            self.attend_all(now);
            if self.adjacencies.has_tunnels() {
                self.attend_tunnels(now);
                self.attend_all(now);
            }
            if self.reporting.collections.is_unwritten() {
                self.write_reports(now);
            }
        }
        self.outbox.actions.pop_front()
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
            let Some(key) = self.held.next_expired(now.monotonic) else {
                break;
            };
            self.expire(now, key);
        }
        while let Some(key) = self.held.next_retry(now.monotonic) {
            self.wake(now, key);
        }
        self.adjacencies.end_pauses(now);
        while let Some(stream) = self.attention.due(now.monotonic) {
            self.stream_timeout(now, stream);
            self.attend_all(now);
        }
        self.follow_contacts(now);
        self.ask_owed(now);
        self.forwarding.handle_routers_timeout(now);
        self.adjacencies.look_at_paths(&mut self.outbox, now);
        if self
            .services
            .perf
            .due()
            .is_some_and(|at| at <= now.monotonic)
        {
            self.summarize_due(now);
        }
        self.attend_all(now);
        self.held.prune_removed(now.monotonic);
    }

    /// When `handle_timeout` or `poll` wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let held = self.held.poll_timeout();
        let timeout = self.attention.timeout();
        let reports = self.reporting.collections.due();
        let adjacencies = self.adjacencies.poll_timeout();
        let perf = self.services.perf.due();
        let handshakes = self.services.handshakes.due();
        let custody = self.held.custody().value().poll_timeout();
        let programs = self.forwarding.externals_due();
        let routers = self.forwarding.routers_due();
        let discovery = self.discovery.poll_timeout();
        let mut first = held;
        for at in [
            timeout,
            adjacencies,
            reports,
            perf,
            handshakes,
            custody,
            programs,
            routers,
            discovery,
        ] {
            first = match (first, at) {
                (Some(first), Some(at)) => Some(first.min(at)),
                (first, at) => first.or(at),
            };
        }
        first
    }

    fn handle_store(&mut self, now: Now, event: StoreEvent) {
        match event {
            StoreEvent::Durable { key, octets } => self.appended(now, key, octets),
            StoreEvent::DurableParts {
                key,
                octets,
                behind,
            } => self.appended(now, key, octets.saturating_add(behind)),
            StoreEvent::Written { key, extents } => self.forwarding.written(
                &self.held,
                &mut self.adjacencies,
                &mut self.outbox,
                now,
                key,
                &extents,
            ),
            StoreEvent::Stored { key, extents } => self.committed(now, key, extents),
            StoreEvent::Deleted { key } => self.deleted(now, key),
            // A copy more after a restart does no harm: the neighbour knows it for one.
            StoreEvent::Noted { .. } => {}
            StoreEvent::Reserved { time, sequence } => {
                self.held.creation_mut().confirm(time, sequence);
                let custody = self.held.custody_mut().value_mut();
                custody.confirm_reservation(sequence);
            }
            StoreEvent::Relocated { key, extents } => {
                self.held.relocated(&mut self.outbox, key, extents)
            }
            StoreEvent::Refused { key, refusal } => self.store_refused(now, key, refusal),
            StoreEvent::Verified { key } => self.intact(now, key),
            StoreEvent::Corrupt { key } => self.corrupt(now, key),
            StoreEvent::Capacity { octets, medium } => {
                self.capacity_changed(now, octets, medium);
            }
        }
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
                self.outbox
                    .occurred(Occurrence::ClockJumped { milliseconds });
            } else {
                return;
            }
        }
        self.clock_offset_ms = Some(offset);
    }
}

/// The kind of octets that were asked of the store; nobody reads those that nobody waits for.
fn stored(read: Option<&PendingRead>) -> Stored {
    match read {
        Some(PendingRead::Send { .. }) => Stored::Bundle,
        Some(
            PendingRead::Echo { .. }
            | PendingRead::Perf { .. }
            | PendingRead::Advert { .. }
            | PendingRead::Record { .. }
            | PendingRead::Encapsulating { .. },
        ) => Stored::Own,
        Some(PendingRead::Fragment { .. }) | None => Stored::Payload,
    }
}
