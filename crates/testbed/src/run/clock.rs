//! The time of a run, by the clock that nobody sets; and whether the run is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::results::Still;

/// The longest sleep of a thread between two looks at whether the run is over.
const LOOK: Duration = Duration::from_millis(50);

/// The time of a run.
#[derive(Debug)]
pub struct Clock {
    stands: Mutex<Stands>,
    over: AtomicBool,
}

/// The time for which it stood still, and since when it does again.
#[derive(Clone, Copy, Debug)]
struct Stands {
    start: Instant,
    still: Duration,
    since: Option<Instant>,
    /// The time at which it stands.
    at: Option<Duration>,
}

impl Clock {
    /// A run that begins now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            stands: Mutex::new(Stands {
                start: Instant::now(),
                still: Duration::ZERO,
                since: None,
                at: None,
            }),
            over: AtomicBool::new(false),
        }
    }

    /// The time since its beginning, without that in which it stood still.
    #[must_use]
    pub fn now(&self) -> Duration {
        let stands = *self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stands.since.unwrap_or_else(Instant::now);
        (now - stands.start).saturating_sub(stands.still)
    }

    /// Has it stand still, until it goes on.
    pub fn pause(&self) {
        let mut stands = self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        let now = *stands.since.get_or_insert_with(Instant::now);
        stands.at = Some((now - stands.start).saturating_sub(stands.still));
    }

    /// Has it go on.
    pub fn go_on(&self) {
        let mut stands = self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = stands.since.take() {
            stands.still += since.elapsed();
        }
    }

    /// When it stood still, and for how long; nothing where it never did.
    #[must_use]
    pub fn still(&self) -> Option<Still> {
        let stands = *self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Still {
            at_s: stands.at?.as_secs_f64(),
            for_s: stands.still.as_secs_f64(),
        })
    }

    /// The run is over.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// True if the run is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Sleeps for so long, or less where the run ends.
    pub fn sleep(&self, time: Duration) {
        let until = self.now().saturating_add(time);
        self.sleep_until(until);
    }

    /// Sleeps until a time of the run, or its end.
    pub fn sleep_until(&self, until: Duration) {
        loop {
            let left = until.saturating_sub(self.now());
            if left.is_zero() || self.is_over() {
                return;
            }
            thread::sleep(left.min(LOOK));
        }
    }
}
