//! The bounded queue of samples for the thread that writes; its lock is held only for a copy of some octets.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::record::{self, Sample};
use crate::value::Value;

/// Octets of samples that wait. The thread that writes has as many in its hands.
const WAITING_OCTETS_MAX: usize = 4 << 20;

/// The thread that writes is woken when so much waits; it looks by itself before, so that a sample costs no wake-up.
const WAKE_OCTETS: usize = WAITING_OCTETS_MAX / 4;

/// The content of the queue.
#[derive(Debug)]
pub struct Waiting<C> {
    /// Samples, as [`record`] writes them.
    pub samples: Vec<u8>,
    /// Orders to the thread beside the samples; those of one look are obeyed before its samples are written.
    pub orders: Vec<C>,
    /// Whether no more will come.
    pub closed: bool,
}

/// The one queue between measured threads and the thread that writes.
#[derive(Debug)]
pub struct Ring<C> {
    waiting: Mutex<Waiting<C>>,
    wake: Condvar,
}

impl<C> Default for Ring<C> {
    fn default() -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                samples: Vec::new(),
                orders: Vec::new(),
                closed: false,
            }),
            wake: Condvar::new(),
        }
    }
}

impl<C> Ring<C> {
    fn lock(&self) -> MutexGuard<'_, Waiting<C>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sample, which is made under the lock so that numbers and places have one order; false where there is no room.
    pub fn add(&self, sample: impl FnOnce() -> Sample, values: &[Value<'_>]) -> bool {
        let mut waiting = self.lock();
        let sample = sample();
        let before = waiting.samples.len();
        let is_kept = !waiting.closed
            && before < WAITING_OCTETS_MAX
            && record::write(&mut waiting.samples, sample, values).is_ok();
        if is_kept && waiting.samples.len() > WAITING_OCTETS_MAX {
            waiting.samples.truncate(before);
            return false;
        }
        let passes = before < WAKE_OCTETS && waiting.samples.len() >= WAKE_OCTETS;
        drop(waiting);
        if passes {
            self.wake.notify_one();
        }
        is_kept
    }

    /// Asks something of the thread that writes.
    pub fn order(&self, order: C) {
        self.lock().orders.push(order);
        self.wake.notify_one();
    }

    /// No more will come: the thread ends once it has written what waits.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// Waits until much waits, something is asked, or the time is over; then takes all, and leaves `spare` in its place.
    pub fn take(&self, spare: Vec<u8>, patience: Duration) -> Waiting<C> {
        let is_calm = |waiting: &mut Waiting<C>| {
            waiting.samples.len() < WAKE_OCTETS && waiting.orders.is_empty() && !waiting.closed
        };
        let (mut waiting, _) = self
            .wake
            .wait_timeout_while(self.lock(), patience, is_calm)
            .unwrap_or_else(PoisonError::into_inner);
        Waiting {
            samples: std::mem::replace(&mut waiting.samples, spare),
            orders: std::mem::take(&mut waiting.orders),
            closed: waiting.closed,
        }
    }
}
