//! A bound on the lines that strangers can provoke in the log.

use std::time::Duration;

use dhow_bundle::Instant;

/// Time between two lines of one kind, at least.
const INTERVAL: Duration = Duration::from_secs(1);

/// A bound of one line a second of one kind, with a count of those left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    last: Option<Instant>,
    unsaid: u64,
}

impl Pace {
    /// Whether a line may be logged now: how many were left out before it, or `None` when it is to be left
    /// out itself.
    pub fn say(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.since(last) < INTERVAL) {
            self.unsaid = self.unsaid.saturating_add(1);
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }

    /// The line that was to be left out is said after all.
    pub fn is_said(&mut self) {
        self.unsaid = self.unsaid.saturating_sub(1);
    }

    /// The number of lines that were left out, once nothing has been logged for the interval; `None` for none.
    pub fn flush(&mut self, now: Instant) -> Option<u64> {
        if self.unsaid == 0 {
            return None;
        }
        let more = self.say(now);
        if more.is_none() {
            // Asking is no line of its own.
            self.is_said();
        }
        more
    }

    /// When `flush` will have something to say.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let last = self.last.filter(|_| self.unsaid > 0)?;
        Some(last + INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(milliseconds: u64) -> Instant {
        Instant::from_nanos(milliseconds * 1_000_000)
    }

    #[test]
    fn one_line_a_second_is_said_and_the_others_are_counted() {
        let mut pace = Pace::default();
        assert_eq!(pace.say(at(5_000)), Some(0));
        assert_eq!(pace.say(at(5_001)), None);
        assert_eq!(pace.say(at(5_999)), None);
        assert_eq!(pace.say(at(6_000)), Some(2));
        assert_eq!(pace.say(at(7_000)), Some(0));
    }

    #[test]
    fn what_was_left_out_is_told_even_if_nothing_follows() {
        let mut pace = Pace::default();
        assert_eq!((pace.flush(at(0)), pace.due()), (None, None));
        assert_eq!(pace.say(at(0)), Some(0));
        assert_eq!((pace.flush(at(100)), pace.due()), (None, None));
        assert_eq!(pace.say(at(200)), None);
        assert_eq!(pace.due(), Some(at(1_000)));
        assert_eq!(pace.flush(at(300)), None);
        assert_eq!(pace.flush(at(1_000)), Some(1));
        assert_eq!(pace.flush(at(5_000)), None);
    }
}
