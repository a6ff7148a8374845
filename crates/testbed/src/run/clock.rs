//! The time of a run, by the clock that nobody sets; and whether the run is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread sleeps at most before it looks whether the run is over.
const LOOK: Duration = Duration::from_millis(50);

/// The time of a run.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    over: AtomicBool,
}

impl Clock {
    /// A run that begins now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
            over: AtomicBool::new(false),
        }
    }

    /// The time since its beginning.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// The run is over.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether it is over.
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
