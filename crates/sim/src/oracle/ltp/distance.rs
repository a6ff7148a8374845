//! The time in which an answer can come (RFC 5326 6.5): there and back, and not while the peer cannot transmit.

use std::collections::VecDeque;
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_channel::Delay;

/// Times without a contact that are known, at most; before them the link counts as open.
const SILENCES: usize = 256;

/// A node's clock may be wrong by one part of so many.
const DRIFT_PART: u32 = 50;

/// A node counts with an answer that leaves so late, which may have a shorter way.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// Copies of a segment leave within this time of it: no countdown brings them.
const COPIES_WITHIN: Duration = Duration::from_secs(1);

/// The way to the peer.
#[derive(Debug)]
pub(super) struct Distance {
    /// One-way light time.
    delay: Delay,
    /// Times in which the node knows that nothing can leave at either end; the last may not be over.
    silences: VecDeque<(Instant, Option<Instant>)>,
}

impl Distance {
    pub(super) fn new(delay: Delay) -> Self {
        Self {
            delay,
            silences: VecDeque::new(),
        }
    }

    /// The light time of what leaves then, or a little less.
    fn light_time(&self, at: Instant) -> Duration {
        let delay = self.delay.at(at.since(Instant::START));
        delay.saturating_sub(delay / DRIFT_PART)
    }

    /// Nothing can leave any more.
    pub(super) fn close(&mut self, now: Instant) {
        if self.silences.len() >= SILENCES {
            self.silences.pop_front();
        }
        self.silences.push_back((now, None));
    }

    /// Something can leave again.
    pub(super) fn open(&mut self, now: Instant) {
        if let Some((_, end @ None)) = self.silences.back_mut() {
            *end = Some(now);
        }
    }

    /// Whether a segment that left may leave again because no answer came: the answer could be here.
    pub(super) fn may_repeat(&self, left: Instant, again: Instant) -> bool {
        if again <= left + COPIES_WITHIN || self.delay.longest().is_zero() {
            return true;
        }
        // The answer leaves when the segment arrives, or when the peer may transmit again.
        let from = left + self.light_time(left);
        let late = from + self.delay.at(left.since(Instant::START)) / DRIFT_PART + ANSWERED_WITHIN;
        let back = self.light_time(from).min(self.light_time(late));
        let now = again.since(Instant::START);
        let Some(until) = now.checked_sub(back) else {
            return false;
        };
        let until = Instant::START + until;
        let is_within = |(start, end): &(Instant, Option<Instant>)| {
            *start <= from && end.is_none_or(|end| end >= until)
        };
        from < until && !self.silences.iter().any(is_within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_takes_a_round_trip_and_a_peer_that_transmits() {
        let at = |s| Instant::START + Duration::from_secs(s);
        let mut distance = Distance::new(Delay::constant(Duration::from_secs(10)));
        assert!(distance.may_repeat(at(0), at(1)), "a copy");
        assert!(!distance.may_repeat(at(0), at(19)));
        assert!(distance.may_repeat(at(0), at(21)));
        distance.close(at(5));
        assert!(!distance.may_repeat(at(0), at(500)), "nobody can answer");
        distance.open(at(500));
        assert!(!distance.may_repeat(at(0), at(505)));
        assert!(distance.may_repeat(at(0), at(511)));
        assert!(distance.may_repeat(at(500), at(521)));
    }
}
