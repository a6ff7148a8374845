//! One sending connection of a measurement.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dhow_client::{Address, Client, Error, SendHead, Sender};
use dhow_node::perf::wire::{Probe, RunId};

use super::plan::{Limit, Plan};
use crate::failure::Failure;
use crate::interrupt::{self, LOOK};
use crate::steady_sender::SteadySender;

/// Pauses shorter than this are not made: the system's would be longer.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The time that the node may take for its last answers after somebody has asked the command to end.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// State that the connections of a measurement share with its caller.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Bundles given to the node here.
    pub(super) begun: AtomicU64,
    /// Bundles that it has.
    pub(super) accepted: AtomicU64,
    /// Bundles that the service told of, repeated ones too.
    told: AtomicU64,
    /// Bundles sent again after the node here was away.
    pub(super) resent: AtomicU64,
    /// Connections that are at work.
    pub(super) active: AtomicUsize,
    /// Whether as many bundles as may be are outstanding, and streams wait.
    pub(super) is_full: AtomicBool,
    /// Whether nothing more is to be sent.
    pub(super) stop: AtomicBool,
    /// Whether a connection could not send its bundles.
    pub(super) has_failed: AtomicBool,
    waiting: Mutex<()>,
    room: Condvar,
}

impl Shared {
    /// The service told of more.
    pub(super) fn tell(&self, bundles: u64) {
        self.told.store(bundles, Ordering::Relaxed);
        self.room.notify_all();
    }

    fn has_room(&self, most: u64) -> bool {
        let begun = self.begun.load(Ordering::Relaxed);
        begun.saturating_sub(self.told.load(Ordering::Relaxed)) < most
    }

    /// Wait a moment for the service to tell of more.
    fn wait(&self, most: Duration) {
        let guard = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that is woken for nothing looks again.
        drop(self.room.wait_timeout(guard, most));
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || interrupt::is_requested()
    }
}

/// One sending connection.
pub(super) struct Stream<'a> {
    pub(super) plan: &'a Plan,
    pub(super) shared: &'a Shared,
    pub(super) run: RunId,
    /// The stream's number, from 0.
    pub(super) number: u16,
}

/// A probe: its sequence number and, once it is known, how many there are.
type Item = (u64, u64);

impl Stream<'_> {
    /// Sends all that this stream is to send, and waits for the node's answers.
    pub(super) fn send(&self, address: &Address, client: Client) -> Result<(), Failure> {
        let registration = self.plan.registration.clone();
        let mut sender = SteadySender::begin(client, address, registration)?;
        let head = SendHead::to(self.plan.service.clone()).with_lifetime(self.plan.lifetime);
        let mut payload = vec![0; usize::try_from(self.plan.size).unwrap_or(usize::MAX)];
        let mut write = |sender: &mut Sender, item: &Item| -> Result<(), Error> {
            self.fill(*item, &mut payload);
            sender.send_octets(&head, &payload).map(|_| ())
        };
        let outcome = self.send_all(&mut sender, &mut write);
        let drained = self.drain(&mut sender, &mut write);
        self.shared
            .resent
            .fetch_add(sender.repeated(), Ordering::Relaxed);
        outcome.and(drained)
    }

    fn fill(&self, (sequence, total): Item, payload: &mut [u8]) {
        let probe = Probe {
            run: self.run,
            streams: self.plan.streams,
            interval_ms: u32::try_from(self.plan.interval.as_millis()).unwrap_or(u32::MAX),
            stream: u32::from(self.number),
            sequence,
            total,
        };
        for (place, octet) in payload.iter_mut().zip(probe.encode()) {
            *place = octet;
        }
    }

    /// Bundles of this stream, where their number is known.
    fn share(&self) -> u64 {
        let streams = u64::from(self.plan.streams.max(1));
        match self.plan.limit {
            Limit::Count(count) => {
                count / streams + u64::from(u64::from(self.number) < count % streams)
            }
            Limit::Time(_) => 0,
        }
    }

    fn send_all(
        &self,
        sender: &mut SteadySender<Item>,
        write: &mut impl FnMut(&mut Sender, &Item) -> Result<(), Error>,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let total = self.share();
        // Each stream takes its part of the rate.
        let gap = self
            .plan
            .rate
            .map(|rate| rate.gap(self.plan.size) * u32::from(self.plan.streams));
        let mut next = begun;
        let mut sequence = 0;
        loop {
            let is_last = match self.plan.limit {
                Limit::Count(_) if sequence == total => return Ok(()),
                Limit::Count(_) => false,
                Limit::Time(time) => begun.elapsed() >= time,
            };
            if self.shared.is_over() {
                return Ok(());
            }
            while !self.shared.has_room(self.plan.outstanding_max()) {
                if self.shared.is_over() {
                    return Ok(());
                }
                sender.flush(write)?;
                self.take_answers(sender, write)?;
                self.shared.is_full.store(true, Ordering::Relaxed);
                self.shared.wait(LOOK);
            }
            if self.shared.is_full.load(Ordering::Relaxed) {
                self.shared.is_full.store(false, Ordering::Relaxed);
            }
            if let Some(gap) = gap {
                let pause = next.saturating_duration_since(Instant::now());
                if pause >= PAUSE_MIN && !is_last {
                    sender.flush(write)?;
                    self.take_answers(sender, write)?;
                    std::thread::sleep(pause.min(LOOK));
                    continue;
                }
                next += gap;
            }
            self.shared.begun.fetch_add(1, Ordering::Relaxed);
            let total = if is_last { sequence + 1 } else { total };
            sender.send((sequence, total), write)?;
            self.take_answers(sender, write)?;
            if is_last {
                return Ok(());
            }
            sequence += 1;
        }
    }

    fn take_answers(
        &self,
        sender: &mut SteadySender<Item>,
        write: &mut impl FnMut(&mut Sender, &Item) -> Result<(), Error>,
    ) -> Result<(), Failure> {
        while let Some((_, outcome)) = sender.poll_answer(write)? {
            self.judge(outcome)?;
        }
        Ok(())
    }

    fn drain(
        &self,
        sender: &mut SteadySender<Item>,
        write: &mut impl FnMut(&mut Sender, &Item) -> Result<(), Error>,
    ) -> Result<(), Failure> {
        let mut asked: Option<Instant> = None;
        while sender.unanswered() > 0 {
            if interrupt::is_requested()
                && asked.get_or_insert_with(Instant::now).elapsed() >= LAST_ANSWERS
            {
                break;
            }
            if let Some((_, outcome)) = sender.next_answer(LOOK, write)? {
                self.judge(outcome)?;
            }
        }
        Ok(())
    }

    fn judge<T>(&self, outcome: Result<T, dhow_client::Refusal>) -> Result<(), Failure> {
        match outcome {
            Ok(_) => {
                self.shared.accepted.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(refusal) => Err(Failure::refused(format!("cannot send: {refusal}"))
                .with_hint("--window bounds what is on its way; nodes must have room for it")),
        }
    }
}
