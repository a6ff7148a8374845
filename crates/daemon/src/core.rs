//! The node and everything on its thread: events in, actions carried out, one store batch per turn.
//!
//! All tasks of the thread share one [`Core`]. A task calls it with what happened; the node's machines
//! run in line, and what they ask for is done or handed on before the call returns. Nothing in here
//! waits.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::task::Waker;

use bytes::Bytes;
use dhow_bundle::storage::{StoreCommand, StoreEvent};
use dhow_bundle::{Instant, Now};
use dhow_link::datagram::Limit;
use dhow_link::{Batch, Gather};
use dhow_node::Node;
use dhow_node::config::DiscoverId;
use dhow_node::driver::{
    Action, Announcement, Event, Occurrence, OperatorCommand, OperatorRefusal, Path, Purpose,
    StreamId, Ticket,
};
use dhow_node::view::Activity;
use tokio::sync::{Notify, oneshot};

use crate::audience::Audience;
use crate::buffers::{Buffers, ReceivePool};
use crate::clock::Clock;
use crate::contact::Contact;
use crate::counts::DriverCounts;
use crate::export::source::Cursor;
use crate::extents::ExtentReader;
use crate::journal::Journal;
use crate::reading::{Answer, Answered, Reads};
use crate::recording::{Going, Recording};
use crate::storing::{StoreCounts, StoreThread};
use crate::streams::dial::DialOrder;
use crate::streams::origins::{Origin, Origins};
use crate::streams::outgoing::Unwritten;
use crate::streams::path::{Ends, Inspector};
use crate::streams::wishes::{Streams, Wishes};
use crate::streams::worker::{Assignment, Workers};

/// Actions carried out in one turn before other tasks of the thread get theirs.
const ACTIONS_PER_TURN: usize = 65_536;

/// Bundles that are read for sending in one turn: the first of thousands that waited for a contact leave while the others are
/// prepared, which takes a slow processor seconds.
const READS_PER_TURN: usize = 256;

/// Beacons that wait to be sent, at most: where none can be, others follow.
const BEACONS_WAITING_MAX: usize = 1024;

/// Answers of the store that one turn takes: the next turn knows how late it has become.
const ANSWERS_PER_TURN: usize = 1024;

/// The answer to an operator.
pub type Outcome = Result<(), OperatorRefusal>;

struct State {
    node: Node,
    clock: Clock,
    store: StoreThread,
    batch: Vec<StoreCommand>,
    reader: ExtentReader,
    reads: Reads,
    pool: ReceivePool,
    streams: Streams,
    /// Neighbours' connections that were accepted.
    origins: Origins,
    /// Neighbours' sessions that are up.
    established: BTreeSet<StreamId>,
    next_stream: u64,
    next_ticket: u64,
    operators: BTreeMap<Ticket, oneshot::Sender<Outcome>>,
    dials: Vec<DialOrder>,
    beacons: Vec<(DiscoverId, Announcement)>,
    inspector: Inspector,
    armed: Option<Instant>,
    counts: DriverCounts,
    journal: Journal,
    workers: Option<Workers>,
    recording: Option<Recording>,
    audience: Audience,
}

/// The node, its store and its streams, shared by the tasks of one thread.
#[derive(Clone)]
pub struct Core {
    state: Rc<RefCell<State>>,
    signals: Rc<Signals>,
    /// Octets that connections hold and have not written.
    pub unwritten: Unwritten,
}

/// Signals to the thread's standing tasks.
#[derive(Default)]
struct Signals {
    /// The timer must be armed again, or actions are left over.
    timer: Notify,
    /// Links are to be dialled.
    dials: Notify,
    /// Beacons are to be sent.
    beacons: Notify,
    /// A turn was done while the node ends.
    ending: Notify,
    shutting_down: Cell<bool>,
}

impl Core {
    /// A core around a node that has recovered its store; what arrives is read into `buffers`.
    #[must_use]
    pub fn new(
        node: Node,
        clock: Clock,
        store: StoreThread,
        (reader, reads): (ExtentReader, Reads),
        journal: Journal,
        buffers: Buffers,
    ) -> Self {
        let state = State {
            node,
            clock,
            store,
            batch: Vec::new(),
            reader,
            reads,
            pool: ReceivePool::of(buffers),
            streams: Streams::default(),
            origins: Origins::default(),
            established: BTreeSet::new(),
            next_stream: 0,
            next_ticket: 0,
            operators: BTreeMap::new(),
            dials: Vec::new(),
            beacons: Vec::new(),
            inspector: Inspector::default(),
            armed: None,
            counts: DriverCounts::default(),
            journal,
            workers: None,
            recording: None,
            audience: Audience::default(),
        };
        Self {
            state: Rc::new(RefCell::new(state)),
            signals: Rc::default(),
            unwritten: Unwritten::default(),
        }
    }

    /// Tell the node what happened and carry out what follows.
    pub fn handle(&self, event: Event) {
        self.turn(|state, now| state.node.handle(now, event));
    }

    /// Tell the node what its store answered; `events` is empty afterwards.
    pub fn handle_answers(&self, events: &mut Vec<StoreEvent>) {
        let mut events = events.drain(..);
        while events.len() > 0 {
            self.turn(|state, now| {
                for event in events.by_ref().take(ANSWERS_PER_TURN) {
                    state.node.handle(now, Event::Store(event));
                }
            });
        }
    }

    /// Tell the node what was read for it.
    pub fn handle_reads(&self, answered: Answered) {
        self.turn(|state, now| {
            state.reads.end(&answered);
            state.take_reads(now, answered.answers);
        });
    }

    /// Number a new stream between `ends`, and tell the node of it.
    pub fn open_stream(&self, purpose: Purpose, ends: Option<Ends>) -> StreamId {
        let stream = {
            let mut state = self.state.borrow_mut();
            let stream = StreamId(state.next_stream);
            state.next_stream += 1;
            match purpose {
                Purpose::Dialled { .. } => state.counts.dialled += 1,
                Purpose::Accepted { .. } => {
                    state.counts.accepted += 1;
                    if let Some(ends) = ends {
                        state.origins.enter(stream, Origin::from(ends.peer.ip()));
                    }
                }
                Purpose::Client => state.counts.clients += 1,
                Purpose::Program => {}
                Purpose::Heard { .. } => state.counts.strangers += 1,
            }
            state.streams.open(stream, ends);
            state
                .journal
                .connected(stream, &purpose, ends.map(|ends| ends.peer));
            stream
        };
        self.handle(Event::Connected { stream, purpose });
        stream
    }

    /// A stream is gone.
    pub fn close_stream(&self, stream: StreamId) {
        self.turn(|state, now| {
            state.streams.close(stream);
            state.origins.leave(stream);
            state.node.handle(now, Event::Disconnected { stream });
        });
        self.state.borrow_mut().journal.forget(stream);
    }

    /// Octets arrived on a stream.
    pub fn handle_octets(&self, stream: StreamId, octets: Bytes) {
        self.turn(|state, now| {
            state.counts.octets_in += u64::try_from(octets.len()).unwrap_or(0);
            state.node.handle(now, Event::Octets { stream, octets });
        });
    }

    /// Datagrams came from the peer of a conversation.
    pub fn handle_datagrams(&self, stream: StreamId, datagrams: Vec<Bytes>) {
        self.turn(|state, now| {
            let octets = datagrams.iter().map(Bytes::len).sum::<usize>();
            state.counts.octets_in += u64::try_from(octets).unwrap_or(0);
            state.counts.datagrams_in += u64::try_from(datagrams.len()).unwrap_or(0);
            let event = Event::Datagrams { stream, datagrams };
            state.node.handle(now, event);
        });
    }

    /// Datagrams that a conversation is to send, within `limit`, and the octets of all of them in order, put into `out`; false when
    /// the disk did not give those that are stored.
    pub fn poll_datagrams(
        &self,
        stream: StreamId,
        limit: Limit,
        batch: &mut Batch,
        out: &mut Vec<Bytes>,
    ) -> bool {
        let mut readable = true;
        self.turn(|state, now| {
            state.node.poll_datagrams(now, stream, limit, batch);
            if let Err(error) = state.reader.resolve(batch.pieces(), out) {
                state.journal.unread(&error, now.monotonic);
                state.counts.read_failures += 1;
                readable = false;
            }
        });
        readable
    }

    /// Asks the node.
    pub fn ask<T>(&self, question: impl FnOnce(&Node) -> T) -> T {
        question(&self.state.borrow().node)
    }

    /// Wake this task when the node wants something of the stream; what it wants by now comes back, and
    /// `flush` is taken as heard.
    pub fn wishes(&self, stream: StreamId, waker: &Waker) -> Wishes {
        self.state.borrow_mut().streams.hear(stream, waker)
    }

    /// The wish for TLS is being granted.
    pub fn tls_started(&self, stream: StreamId) {
        self.state.borrow_mut().streams.tls_started(stream);
    }

    /// TLS did not come about on a stream.
    pub fn insecure(&self, stream: StreamId, why: &str) {
        self.turn(|state, now| {
            state.counts.insecure += 1;
            state.journal.insecure(stream, why, now.monotonic);
            state.node.handle(now, Event::Insecure { stream });
        });
    }

    /// Tells the journal something, or asks it.
    pub fn journal<T>(&self, tell: impl FnOnce(&mut Journal) -> T) -> T {
        tell(&mut self.state.borrow_mut().journal)
    }

    /// Octets that the stream is to write, at most about `limit`, put into `out`; false when the disk
    /// did not give those that are stored.
    pub fn poll_octets(
        &self,
        stream: StreamId,
        limit: usize,
        gather: &mut Gather,
        out: &mut Vec<Bytes>,
    ) -> bool {
        let mut readable = true;
        self.turn(|state, now| {
            gather.clear();
            state.node.poll_octets(now, stream, limit, gather);
            state.counts.octets_out += gather.octets();
            if let Err(error) = state.reader.resolve(gather.pieces(), out) {
                state.journal.unread(&error, now.monotonic);
                state.counts.read_failures += 1;
                readable = false;
            }
            gather.clear();
        });
        readable
    }

    /// The octets as by [`Core::poll_octets`], for a stream whose stored octets are brought in elsewhere.
    pub fn poll_pieces(&self, stream: StreamId, limit: usize, gather: &mut Gather) {
        self.turn(|state, now| {
            state.node.poll_octets(now, stream, limit, gather);
            state.counts.octets_out += gather.octets();
        });
    }

    /// Let connections be on threads of their own from now on.
    pub fn employ(&self, workers: Workers) {
        self.state.borrow_mut().workers = Some(workers);
    }

    /// Write down from now on what the node's recorder has.
    pub fn record(&self, recording: Recording) {
        self.state.borrow_mut().recording = Some(recording);
    }

    /// Change who is told of what happens from now on.
    pub(crate) fn audience<T>(&self, change: impl FnOnce(&mut Audience) -> T) -> T {
        change(&mut self.state.borrow_mut().audience)
    }

    /// Measures what the node holds and has done so far.
    pub fn measure_counters(&self, store: &StoreCounts) {
        let state = self.state.borrow();
        (state.audience).measure_counters(&state.node, state.counts, store);
    }

    /// Ends the recording, if there is one. Blocks until it is written.
    pub fn finish_recording(&self) {
        let mut state = self.state.borrow_mut();
        if let Some(recording) = state.recording.take() {
            recording.finish(&mut state.node);
        }
    }

    /// Whether connections are on threads of their own.
    #[must_use]
    pub fn has_workers(&self) -> bool {
        self.state.borrow().workers.is_some()
    }

    /// Give a connection to one of the threads; false where there is none.
    pub fn assign(&self, assignment: Assignment) -> bool {
        let mut state = self.state.borrow_mut();
        let workers = state.workers.as_mut();
        workers.is_some_and(|workers| workers.assign(assignment).is_ok())
    }

    /// Whether the stream may be read now; when not, its task is woken once it may.
    pub fn takes_octets(&self, stream: StreamId) -> bool {
        let mut state = self.state.borrow_mut();
        let most = state.store.queue_octets();
        let takes = state.node.takes_octets_within(stream, most);
        if !takes {
            state.streams.pause(stream);
        }
        takes
    }

    /// Use the pool of buffers for what arrives.
    pub fn with_pool<T>(&self, work: impl FnOnce(&mut ReceivePool) -> T) -> T {
        work(&mut self.state.borrow_mut().pool)
    }

    /// Carry out an operator's command; the answer comes through the channel.
    pub fn operate(&self, command: OperatorCommand, answer: oneshot::Sender<Outcome>) {
        self.turn(|state, now| {
            let ticket = Ticket(state.next_ticket);
            state.next_ticket += 1;
            state.operators.insert(ticket, answer);
            state.node.handle(now, Event::Operator { ticket, command });
        });
    }

    /// Look at the node.
    pub fn look<T>(&self, look: impl FnOnce(&Node, Now, DriverCounts) -> T) -> T {
        let state = self.state.borrow();
        let counts = state.audience.counted(state.counts);
        look(&state.node, state.clock.now(), counts)
    }

    /// The next piece of the store's content.
    pub fn export(&self, cursor: Cursor, out: &mut Vec<u8>) -> Option<Cursor> {
        let state = self.state.borrow();
        cursor.write(&state.node, state.clock.now(), &state.reader, out)
    }

    /// Count something.
    pub fn count(&self, count: impl FnOnce(&mut DriverCounts)) {
        count(&mut self.state.borrow_mut().counts);
    }

    /// Cut the oldest application's connection that has not said what it is for; false where there is none.
    pub fn cut_unconfigured_client(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let stays = |stream: &StreamId| state.streams.stays(*stream);
        let oldest = state.node.unconfigured_clients().find(stays);
        let is_cut = oldest.is_some_and(|stream| state.streams.cut(stream));
        state.counts.clients_cut += u64::from(is_cut);
        is_cut
    }

    /// Cut the neighbour's connection that is to go for a new one, chosen of all by the use of those that are no sessions; false where none is.
    pub fn cut_neighbour(
        &self,
        choose: impl FnOnce(&Origins, &dyn Fn(StreamId) -> Option<Activity>) -> Option<StreamId>,
    ) -> bool {
        let mut state = self.state.borrow_mut();
        let activity = |stream: StreamId| {
            let is_session = state.established.contains(&stream);
            (!is_session).then(|| state.node.activity(stream))
        };
        let Some(stream) = choose(&state.origins, &activity) else {
            return false;
        };
        state.origins.leave(stream);
        state.streams.cut(stream)
    }

    /// End a stream at its next turn.
    pub fn cut(&self, stream: StreamId) {
        self.state.borrow_mut().streams.cut(stream);
    }

    /// Neighbours' connections that were accepted.
    pub fn neighbours_of(&self, origin: Origin) -> usize {
        self.state.borrow().origins.count(origin)
    }

    /// The node's clock.
    #[cfg(feature = "otlp")]
    pub(crate) fn clock(&self) -> Clock {
        self.state.borrow().clock
    }

    /// Both kinds of time.
    #[must_use]
    pub fn now(&self) -> Now {
        self.state.borrow().clock.now()
    }

    /// Streams that are open.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.state.borrow().streams.count()
    }

    /// Keeps the node's timers; runs for as long as the node does.
    pub async fn keep_time(&self) {
        /// A machine that slept wakes late: look at the clock at least this often.
        const LONGEST_SLEEP: std::time::Duration = std::time::Duration::from_secs(30);
        loop {
            let wait = {
                let mut state = self.state.borrow_mut();
                state.armed = state.due();
                state
                    .armed
                    .map_or(LONGEST_SLEEP, |at| state.clock.until(at).min(LONGEST_SLEEP))
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.signals.timer.notified() => {}
            }
            self.turn(|state, now| {
                if state
                    .node
                    .poll_timeout()
                    .is_some_and(|at| at <= now.monotonic)
                {
                    state.node.handle_timeout(now);
                }
                state.journal.flush(now.monotonic);
            });
            // Actions that are left over of a turn wait for the other tasks.
            tokio::task::yield_now().await;
        }
    }

    /// Waits for orders about dials and moves them to `dials`.
    pub async fn next_dials(&self, dials: &mut Vec<DialOrder>) {
        loop {
            std::mem::swap(&mut self.state.borrow_mut().dials, dials);
            if !dials.is_empty() {
                return;
            }
            self.signals.dials.notified().await;
        }
    }

    /// Waits for beacons that are to be sent and moves them to `beacons`.
    pub async fn next_beacons(&self, beacons: &mut Vec<(DiscoverId, Announcement)>) {
        loop {
            std::mem::swap(&mut self.state.borrow_mut().beacons, beacons);
            if !beacons.is_empty() {
                return;
            }
            self.signals.beacons.notified().await;
        }
    }

    /// Begins the end: the node finishes transfers under way. Called again, it gives them up.
    pub fn shut_down(&self) {
        self.signals.shutting_down.set(true);
        self.handle(Event::Shutdown);
    }

    /// Waits until the node has nothing under way, after `shut_down`.
    pub async fn idle(&self) {
        while !self.state.borrow().node.is_idle() {
            self.signals.ending.notified().await;
        }
    }

    /// Waits until no stream is left, after `shut_down`.
    pub async fn alone(&self) {
        while self.streams() > 0 {
            self.signals.ending.notified().await;
        }
    }

    /// Ends every stream at its next turn.
    pub fn close_all(&self) {
        self.state.borrow_mut().streams.close_all();
    }

    /// Closes the store. Blocks until everything that was handed over is written.
    pub fn close_store(&self) {
        let mut state = self.state.borrow_mut();
        state.hand_over();
        state.store.close();
    }

    /// One turn: something for the node, then everything that it asks for.
    fn turn(&self, work: impl FnOnce(&mut State, Now)) {
        let mut state = self.state.borrow_mut();
        let now = state.clock.now();
        work(&mut state, now);
        let left_over = state.pump(now);
        state.hand_over();
        state.keep_recording();
        state.resume_reading();
        let timeout = state.due();
        let earlier = timeout.is_some_and(|at| state.armed.is_none_or(|armed| at < armed));
        if earlier || left_over {
            state.armed = timeout;
            self.signals.timer.notify_one();
        }
        if !state.dials.is_empty() {
            self.signals.dials.notify_one();
        }
        if !state.beacons.is_empty() {
            self.signals.beacons.notify_one();
        }
        drop(state);
        if self.signals.shutting_down.get() {
            self.signals.ending.notify_one();
        }
    }
}

impl State {
    /// When time alone makes something happen next.
    fn due(&self) -> Option<Instant> {
        [self.node.poll_timeout(), self.journal.due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Carries out what the node asks for; true when there was too much for one turn.
    fn pump(&mut self, now: Now) -> bool {
        for _ in 0..ACTIONS_PER_TURN {
            match self.node.poll(now) {
                Some(action) => self.carry_out(now, action),
                None if self.reads.due() == 0 => return false,
                None => self.read(now),
            }
            if self.reads.due() >= READS_PER_TURN {
                self.read(now);
                return true;
            }
        }
        true
    }

    fn carry_out(&mut self, now: Now, action: Action) {
        match action {
            Action::Store(command) => self.batch.push(command),
            Action::Read { ticket, extents } => self.reads.ask(ticket, extents),
            Action::Dial { link } => self.dials.push(DialOrder::Dial(link)),
            Action::StopDialling { link } => self.dials.push(DialOrder::Stop(link)),
            Action::CheckPath { stream } => {
                let ends = self.streams.ends(stream);
                let path = ends.map_or(Path::Unknown, |ends| self.inspector.inspect(ends));
                self.node.handle(now, Event::PathChecked { stream, path });
            }
            Action::Flush { stream } => self.streams.wish(stream, |wishes| wishes.flush = true),
            Action::StartTls { stream } => {
                self.streams.wish(stream, |wishes| wishes.start_tls = true)
            }
            Action::Abort { stream } => self.streams.wish(stream, |wishes| wishes.cut = true),
            Action::Close { stream } => self.streams.wish(stream, |wishes| wishes.close = true),
            Action::Answer { ticket, outcome } => {
                if let Some(operator) = self.operators.remove(&ticket) {
                    // An operator who has gone wants no answer.
                    let _ = operator.send(outcome);
                }
            }
            Action::Announce(place, announcement) => {
                if self.beacons.len() < BEACONS_WAITING_MAX {
                    self.beacons.push((place, announcement));
                }
            }
            Action::LinkFound(found) => {
                (self.journal).set_found_link(found.link, found.name.clone());
                self.dials.push(DialOrder::Found(found));
            }
            Action::Occurred(occurrence) => {
                let name = |link| self.journal.link_name(link);
                (self.audience).occurred(&occurrence, now, &self.node, name);
                self.watch_contact(&occurrence);
                self.journal.log(&occurrence, now.monotonic);
            }
        }
    }

    /// Tells the store when the first session is up and when the last one is down. A tunnel is no contact: it is always up.
    fn watch_contact(&mut self, occurrence: &Occurrence) {
        let was_on = !self.established.is_empty();
        match occurrence {
            Occurrence::SessionUp { stream, .. } | Occurrence::SessionDown { stream, .. }
                if stream.is_tunnel() =>
            {
                return;
            }
            Occurrence::SessionUp { stream, .. } => drop(self.established.insert(*stream)),
            Occurrence::SessionDown { stream, .. } => drop(self.established.remove(stream)),
            _ => return,
        }
        let contact = match (was_on, self.established.is_empty()) {
            (false, false) => Contact::On,
            (true, true) => Contact::Over,
            _ => return,
        };
        self.store.tell_contact(contact);
        self.audience.contact(contact);
    }

    /// Gives the node the octets that it asked for in this turn, as far as they can be had in it.
    fn read(&mut self, now: Now) {
        let answers = self.reads.answer();
        self.take_reads(now, answers);
    }

    fn take_reads(&mut self, now: Now, answers: Vec<Answer>) {
        for (ticket, octets) in answers {
            if octets.is_none() {
                self.journal.unread(&"the disk failed", now.monotonic);
                self.counts.read_failures += 1;
            }
            self.node.handle(now, Event::Read { ticket, octets });
        }
    }

    fn keep_recording(&mut self) {
        if let Some(recording) = &mut self.recording
            && recording.keep(&mut self.node) == Going::No
        {
            self.recording = None;
        }
    }

    fn hand_over(&mut self) {
        self.store.send(&mut self.batch);
    }

    /// Wakes the streams that stopped reading and may go on.
    fn resume_reading(&mut self) {
        let most = self.store.queue_octets();
        let node = &self.node;
        self.streams
            .resume(|stream| node.takes_octets_within(stream, most));
    }
}
