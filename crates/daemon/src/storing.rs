//! The store's thread: it drains what has been asked, writes it all, flushes once, and answers. A store in memory has nothing to
//! wait for, and works where it is asked.
//!
//! While a flush runs, the next batch collects by itself: that is the whole of group commit, and no
//! timer takes part in it. A batch that takes long to write is flushed in steps.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::vec::Drain;

use dhow_bundle::Instant;
use dhow_bundle::storage::{StoreCommand, StoreEvent};
use dhow_store::{DiskError, Store};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::contact::{Contact, Debt, Flushing};
use crate::disk_pace::DiskPace;
use crate::measuring::{Commit, CommitMeter};
use crate::pace::Pace;

/// The interval at which remembered identifiers are looked through for expired ones.
const FORGET_EVERY_NANOS: u64 = 60_000_000_000;

/// The time for which a store that refuses everything waits before it tries again, when nothing is asked of it: commands that it has not
/// done yet may be all that the node waits for.
const RETRY: Duration = Duration::from_secs(1);

/// The time without a command after which the store prepares for commands to come: the pauses of a stream of bundles
/// are shorter.
const IDLE: Duration = Duration::from_secs(2);

/// Time between two looks of the store at the room of its disk, which other programs take and give back.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Octets after which it is asked whether a flush is due.
const PORTION_OCTETS: u64 = 4 << 20;

/// A flush is due when writing has taken so many times as long as the flush before it, and so long at least: the first commands
/// must not wait for a disk that writes on and on, and flushes must not take most of the time.
const FLUSH_SHARE: u32 = 4;
const WRITING_TIME_MIN: Duration = Duration::from_millis(4);

/// State that both sides of the store's thread share.
#[derive(Debug, Default)]
struct Shared {
    commands: Mutex<Inbox>,
    arrived: Condvar,
    events: Mutex<Vec<StoreEvent>>,
    answered: Notify,
    ended: AtomicBool,
    counts: StoreCounts,
    /// The meter that is told of flushes.
    meter: OnceLock<CommitMeter>,
    /// Octets that may wait, as the disk's pace has it; 0 while that is not known.
    queue_octets: AtomicU64,
}

#[derive(Debug, Default)]
struct Inbox {
    commands: Vec<StoreCommand>,
    contact: Contact,
    closed: bool,
}

/// Counts of the store's thread, for metrics.
#[derive(Debug, Default)]
pub struct StoreCounts {
    /// Batches written.
    pub batches: AtomicU64,
    /// Commands in the batches.
    pub commands: AtomicU64,
    /// Nanoseconds spent writing and flushing.
    pub busy_nanos: AtomicU64,
    /// Longest time that one batch took, nanoseconds.
    pub longest_nanos: AtomicU64,
    /// Octets of the log.
    pub log_octets: AtomicU64,
    /// Octets of segments that are free.
    pub free_octets: AtomicU64,
    /// Flushes.
    pub syncs: AtomicU64,
    /// Times that a write or a flush failed.
    pub failures: AtomicU64,
    /// Bundles moved to free their segment.
    pub moved: AtomicU64,
}

/// The store at work: on a thread of its own, or where it is asked.
#[derive(Debug)]
pub struct StoreThread {
    shared: Arc<Shared>,
    worker: Worker,
}

/// The thread in which a store works.
#[derive(Debug)]
enum Worker {
    /// On its thread; `None` once that has ended.
    Apart(Option<JoinHandle<()>>),
    /// The server in the thread that asks; `None` once it is closed.
    Here(Mutex<Option<Box<Server>>>),
}

impl StoreThread {
    /// Give `store` a thread.
    ///
    /// # Errors
    /// When the system makes no thread.
    pub fn start(store: Store, clock: Clock, flushing: Flushing) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let _end = EndOfThread(Arc::clone(&shared));
                    Server::new(store, clock, flushing).serve(&shared);
                }
            })?;
        let worker = Worker::Apart(Some(thread));
        Ok(Self { shared, worker })
    }

    /// Have a `store` that waits for no disk work in the thread that asks it.
    #[must_use]
    pub fn here(store: Store, clock: Clock, flushing: Flushing) -> Self {
        let server = Box::new(Server::new(store, clock, flushing));
        Self {
            shared: Arc::default(),
            worker: Worker::Here(Mutex::new(Some(server))),
        }
    }

    /// Hand over a batch; it is empty afterwards and keeps its room.
    pub fn send(&self, batch: &mut Vec<StoreCommand>) {
        if batch.is_empty() {
            return;
        }
        if let Worker::Here(server) = &self.worker {
            let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(server) = server.as_mut() {
                server.turn(&self.shared, batch, Contact::default());
                server.look(&self.shared);
            }
            return;
        }
        let mut inbox = self
            .shared
            .commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if inbox.commands.is_empty() {
            std::mem::swap(&mut inbox.commands, batch);
            drop(inbox);
            self.shared.arrived.notify_one();
        } else {
            // The thread has been woken already and has not come yet.
            inbox.commands.append(batch);
        }
    }

    /// Octets of applications that may wait for the disk, at most.
    #[must_use]
    pub fn queue_octets(&self) -> u64 {
        match self.shared.queue_octets.load(Ordering::Relaxed) {
            0 => u64::MAX,
            octets => octets,
        }
    }

    /// A contact has begun, or is over: then what is owed to the disk is flushed.
    pub fn tell_contact(&self, contact: Contact) {
        let mut inbox = self
            .shared
            .commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        inbox.contact = contact;
        drop(inbox);
        self.shared.arrived.notify_one();
    }

    /// The answers of the store.
    #[must_use]
    pub fn answers(&self) -> Answers {
        Answers {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Write what has been handed over, close the store and end the thread. Blocks until that is done.
    pub fn close(&mut self) {
        let thread = match &mut self.worker {
            Worker::Apart(thread) => thread,
            Worker::Here(server) => {
                let server = server.get_mut().unwrap_or_else(PoisonError::into_inner);
                if let Some(server) = server.take() {
                    let _end = EndOfThread(Arc::clone(&self.shared));
                    server.close(&self.shared);
                }
                return;
            }
        };
        self.shared
            .commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closed = true;
        self.shared.arrived.notify_one();
        if let Some(thread) = thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's thread failed");
        }
    }
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        self.close();
    }
}

/// The queue of the store's answers.
#[derive(Clone, Debug)]
pub struct Answers {
    shared: Arc<Shared>,
}

impl Answers {
    /// Wait for answers and move them to `events`; false when the thread has ended and nothing is left.
    pub async fn next(&self, events: &mut Vec<StoreEvent>) -> bool {
        loop {
            self.take(events);
            if !events.is_empty() {
                return true;
            }
            if self.shared.ended.load(Ordering::Acquire) {
                self.take(events);
                return !events.is_empty();
            }
            self.shared.answered.notified().await;
        }
    }

    /// Tells of each flush from now on; the first one to ask is told.
    pub fn measure_commits(&self, meter: CommitMeter) {
        let _ = self.shared.meter.set(meter);
    }

    /// Counts of the thread.
    #[must_use]
    pub fn counts(&self) -> &StoreCounts {
        &self.shared.counts
    }

    fn take(&self, events: &mut Vec<StoreEvent>) {
        let mut queue = self
            .shared
            .events
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if events.is_empty() {
            std::mem::swap(&mut *queue, events);
        } else {
            events.append(&mut queue);
        }
    }
}

/// Says that the thread is gone, also when it failed.
struct EndOfThread(Arc<Shared>);

impl Drop for EndOfThread {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        self.0.answered.notify_one();
    }
}

/// A store, and what its work takes from turn to turn.
struct Server {
    store: Store,
    clock: Clock,
    debt: Debt,
    events: Vec<StoreEvent>,
    was_failing: bool,
    trouble: Trouble,
    /// The bundles and octets that the next flush makes durable.
    unflushed: Commit,
    /// The time that the last flush took.
    flushed_in: Duration,
    pace: DiskPace,
    /// When remembered identifiers are looked through next, monotonic nanoseconds.
    forget_at: u64,
    /// When the room of the disk is looked at next.
    look_at: Instant,
    /// The time since which nothing has been asked of the store.
    idle_since: Instant,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    fn new(store: Store, clock: Clock, flushing: Flushing) -> Self {
        let now = clock.now().monotonic;
        Self {
            store,
            clock,
            debt: Debt::new(flushing),
            events: Vec::new(),
            was_failing: false,
            trouble: Trouble::default(),
            unflushed: Commit::default(),
            flushed_in: Duration::ZERO,
            pace: DiskPace::default(),
            forget_at: 0,
            look_at: now,
            idle_since: now,
        }
    }

    /// Carries out commands, and prepares in the pauses, until there will be no more.
    fn serve(mut self, shared: &Shared) {
        let mut batch = Vec::new();
        while let Some(contact) = wait(shared, &mut batch, || self.patience()) {
            self.look(shared);
            let is_idle = batch.is_empty() && self.owed().is_none() && !self.was_failing;
            if is_idle && !self.store.is_unsettled() {
                // A pause is waited out once; then one step of preparation follows the other until something comes.
                if self.pause().is_zero() {
                    self.store.prepare();
                }
                continue;
            }
            self.turn(shared, &mut batch, contact);
            self.idle_since = self.clock.now().monotonic;
        }
        self.close(shared);
    }

    /// Tells what the disk has room for, where that has changed.
    fn look(&mut self, shared: &Shared) {
        let now = self.clock.now().monotonic;
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        self.store.tell_capacity(&mut self.events);
        answer(shared, &mut self.events);
    }

    /// Time for which nothing may yet be asked of the store before it prepares for what comes.
    fn pause(&self) -> Duration {
        let idle = self.clock.now().monotonic.since(self.idle_since);
        IDLE.saturating_sub(idle)
    }

    /// The time for which a flush may still be owed.
    fn owed(&self) -> Option<Duration> {
        self.debt.patience(self.clock.now().monotonic)
    }

    fn patience(&self) -> Patience {
        let look = self.look_at.since(self.clock.now().monotonic);
        match self.owed() {
            Some(left) => Patience::Debt(left),
            None if self.was_failing => Patience::Pause(RETRY),
            // Room that was made is to be given before it is asked for again.
            None if self.store.is_unsettled() => Patience::Pause(Duration::ZERO),
            None if self.store.is_preparable() => Patience::Pause(self.pause().min(look)),
            None => Patience::Pause(look),
        }
    }

    /// Writes a batch, makes it durable, and answers: all at once, or in steps where the disk takes long to write it.
    fn turn(&mut self, shared: &Shared, batch: &mut Vec<StoreCommand>, contact: Contact) {
        count(&shared.counts.commands, batch.len());
        self.debt.add(self.clock.now().monotonic, batch);
        let mut commands = batch.drain(..);
        loop {
            self.step(shared, &mut commands, contact);
            if commands.len() == 0 {
                break;
            }
        }
    }

    /// Writes commands until a flush is due, flushes, and answers.
    fn step(&mut self, shared: &Shared, commands: &mut Drain<'_, StoreCommand>, contact: Contact) {
        let begun = self.clock.now();
        let patience = (self.flushed_in * FLUSH_SHARE).max(WRITING_TIME_MIN);
        let mut octets = 0_u64;
        let written = loop {
            let mut portion = Portion::of(commands, shared.meter.get());
            self.store.handle(&mut portion);
            self.unflushed.octets += portion.octets;
            octets = octets.saturating_add(portion.octets);
            self.unflushed.of_others += portion.of_others;
            self.store.written(&mut self.events);
            answer(shared, &mut self.events);
            let now = self.clock.now().monotonic;
            if commands.len() == 0 || now.since(begun.monotonic) > patience {
                break now;
            }
        };
        let (store, events) = (&mut self.store, &mut self.events);
        let flushes = store.statistics().syncs;
        if !(self.debt.may_grow(begun.monotonic, contact) && store.defer_sync(events)) {
            store.commit(events);
            self.debt.settle();
        }
        if shared.meter.get().is_some() {
            let stored = events
                .iter()
                .filter(|event| matches!(event, StoreEvent::Stored { .. }));
            self.unflushed.bundles += u64::try_from(stored.count()).unwrap_or(u64::MAX);
        }
        answer(shared, events);
        let end = self.clock.now().monotonic;
        self.flushed_in = end.since(written);
        self.unflushed.busy += end.since(begun.monotonic);
        if store.statistics().syncs > flushes {
            let took = end.since(begun.monotonic);
            self.pace.turn(octets, took, self.flushed_in);
            shared
                .queue_octets
                .store(self.pace.octets(), Ordering::Relaxed);
            self.unflushed.flush = self.flushed_in;
            let flushed = std::mem::take(&mut self.unflushed);
            if let Some(meter) = shared.meter.get() {
                meter.tell(&flushed);
            }
        }
        note(&shared.counts, store, end.since(begun.monotonic));
        self.trouble.tell(store.failure(), end);
        self.was_failing = store.failure().is_some();
        if begun.monotonic.as_nanos() >= self.forget_at {
            store.forget_expired(begun.dtn);
            self.forget_at = begun
                .monotonic
                .as_nanos()
                .saturating_add(FORGET_EVERY_NANOS);
        }
    }

    fn close(mut self, shared: &Shared) {
        self.store.close(&mut self.events);
        answer(shared, &mut self.events);
    }
}

/// Log lines about a store that refuses everything, and works again: a disk may do so with every batch.
#[derive(Debug, Default)]
struct Trouble {
    pace: Pace,
    is_told: bool,
}

impl Trouble {
    fn tell(&mut self, failure: Option<&DiskError>, now: Instant) {
        match (failure, self.is_told) {
            (Some(error), false) => {
                if let Some(more) = self.pace.say(now) {
                    let more = (more > 0).then_some(more);
                    tracing::error!(more, "the store refuses everything: {error}");
                    self.is_told = true;
                }
            }
            (None, true) => {
                tracing::info!("the store works again");
                self.is_told = false;
            }
            _ => {}
        }
    }
}

/// The next commands of a batch, up to [`PORTION_OCTETS`] or a little more.
struct Portion<'a, 'b> {
    commands: &'a mut Drain<'b, StoreCommand>,
    meter: Option<&'a CommitMeter>,
    octets: u64,
    /// Bundles that are committed and are no reports of this node.
    of_others: u64,
}

impl<'a, 'b> Portion<'a, 'b> {
    fn of(commands: &'a mut Drain<'b, StoreCommand>, meter: Option<&'a CommitMeter>) -> Self {
        Self {
            commands,
            meter,
            octets: 0,
            of_others: 0,
        }
    }
}

impl Iterator for Portion<'_, '_> {
    type Item = StoreCommand;

    fn next(&mut self) -> Option<StoreCommand> {
        if self.octets >= PORTION_OCTETS {
            return None;
        }
        let command = self.commands.next()?;
        self.octets = self.octets.saturating_add(command.octets());
        if let StoreCommand::Commit { bundle, .. } = &command {
            let meter = self.meter;
            let is_of_others = meter.is_some_and(|it| it.is_of_others(&bundle.id.source));
            self.of_others += u64::from(is_of_others);
        }
        Some(command)
    }
}

/// The time for which commands are waited for.
#[derive(Clone, Copy, Debug)]
enum Patience {
    /// The wait until a flush is due, or the contact is over.
    Debt(Duration),
    /// The wait until a pause is over.
    Pause(Duration),
}

/// Waits for commands and moves them to `batch`, as long as the patience lasts; tells whether a contact is on, `None` when
/// there will be no more commands.
fn wait(
    shared: &Shared,
    batch: &mut Vec<StoreCommand>,
    patience: impl Fn() -> Patience,
) -> Option<Contact> {
    let mut inbox = shared
        .commands
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    while inbox.commands.is_empty() {
        if inbox.closed {
            return None;
        }
        inbox = match patience() {
            Patience::Debt(left) if left.is_zero() || inbox.contact == Contact::Over => break,
            Patience::Debt(left) => {
                let waited = shared.arrived.wait_timeout(inbox, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            Patience::Pause(left) => {
                let waited = shared.arrived.wait_timeout(inbox, left);
                let (after, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                inbox = after;
                if waited.timed_out() {
                    break;
                }
                continue;
            }
        };
    }
    std::mem::swap(&mut inbox.commands, batch);
    Some(inbox.contact)
}

fn answer(shared: &Shared, events: &mut Vec<StoreEvent>) {
    if events.is_empty() {
        return;
    }
    let mut queue = shared.events.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.is_empty() {
        std::mem::swap(&mut *queue, events);
    } else {
        queue.append(events);
    }
    drop(queue);
    shared.answered.notify_one();
}

fn note(counts: &StoreCounts, store: &Store, taken: Duration) {
    let nanos = u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX);
    count(&counts.batches, 1);
    counts.busy_nanos.fetch_add(nanos, Ordering::Relaxed);
    counts.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
    let statistics = store.statistics();
    counts
        .log_octets
        .store(statistics.log_octets, Ordering::Relaxed);
    counts
        .free_octets
        .store(statistics.free_octets, Ordering::Relaxed);
    counts.syncs.store(statistics.syncs, Ordering::Relaxed);
    counts
        .failures
        .store(statistics.failures, Ordering::Relaxed);
    counts.moved.store(statistics.moved, Ordering::Relaxed);
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(u64::try_from(by).unwrap_or(u64::MAX), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_fails_with_every_batch_is_told_once_a_second() {
        let mut trouble = Trouble::default();
        let (mut told, mut was_told) = (0, false);
        for batch in 0..10_000_u64 {
            let failure = (batch % 2 == 0).then_some(DiskError::Full);
            trouble.tell(failure.as_ref(), Instant::from_nanos(batch * 1_000_000));
            told += u32::from(trouble.is_told && !was_told);
            was_told = trouble.is_told;
        }
        assert_eq!(told, 10);
    }
}
