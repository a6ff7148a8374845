//! The time at which a failed task is tried again: soon at first, then less and less often.

use std::time::{Duration, Instant};

/// The first wait after a failure; each next is twice as long.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Something that is tried again and again.
#[derive(Debug)]
pub struct Retry {
    due: Instant,
    wait: Duration,
}

impl Retry {
    /// A task that is to be tried at once.
    pub fn new() -> Self {
        Self {
            due: Instant::now(),
            wait: WAIT_MIN,
        }
    }

    pub fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    /// Notes a failed attempt.
    pub fn failed(&mut self) {
        self.due = Instant::now() + self.wait;
        self.wait = (self.wait * 2).min(WAIT_MAX);
    }

    /// The task did not fail: the next failure is a first one.
    pub const fn succeeded(&mut self) {
        self.wait = WAIT_MIN;
    }

    /// Ends the wait.
    pub fn hasten(&mut self) {
        self.due = Instant::now();
    }
}
