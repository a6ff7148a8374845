//! Octets of a TCP connection that wait to be sent: few, so that an acknowledgment or a small bundle does not stand behind seconds of
//! other data, and enough, so that a link never waits for its node.
//!
//! The kernel is told how much may wait there (`TCP_NOTSENT_LOWAT`). It wakes the node when half of that is gone: what it takes then
//! tells whether the node came in time.

use super::outgoing::{GATHER_OCTETS, GATHER_OCTETS_MIN};

/// Octets that may wait in the kernel at first.
pub const BOUND_START: u32 = 64 << 10;

/// The least bound: less than the kernel puts into one piece saves nothing.
const BOUND_MIN: u32 = 16 << 10;

/// The greatest bound.
const BOUND_MAX: u32 = 4 << 20;

/// The node comes in time so often until less may wait.
const CALM_STOPS: u8 = 4;

/// The amount of a connection's data that may wait, by what the kernel took so far.
#[derive(Debug)]
pub struct Backlog {
    /// Octets that may wait in the kernel.
    bound: u32,
    /// Octets that are polled at a time, at most.
    gather: usize,
    /// Octets that the kernel took since it took no more.
    taken: usize,
    /// The times in succession that the node came in time.
    calm: u8,
}

impl Default for Backlog {
    fn default() -> Self {
        Self {
            bound: BOUND_START,
            gather: octets(BOUND_START),
            taken: 0,
            calm: 0,
        }
    }
}

impl Backlog {
    /// The octets that are to be polled at a time, at most.
    #[must_use]
    pub const fn gather_octets(&self) -> usize {
        self.gather
    }

    /// The kernel took octets; with `is_all` all that had been polled, at once.
    pub fn take(&mut self, octets: usize, is_all: bool) {
        self.taken = self.taken.saturating_add(octets);
        if is_all && octets >= self.gather / 2 {
            self.gather = (self.gather * 2).min(GATHER_OCTETS);
        }
    }

    /// The kernel takes no more at present: how much may wait there from now on, where that has changed.
    pub fn stop(&mut self) -> Option<u32> {
        let before = self.bound;
        let is_late = self.taken >= octets(before) - octets(before) / 8;
        self.taken = 0;
        self.calm = if is_late { 0 } else { self.calm + 1 };
        if is_late {
            self.bound = before.saturating_mul(2).min(BOUND_MAX);
        } else if self.calm >= CALM_STOPS {
            self.bound = (before - before / 4).max(BOUND_MIN);
            self.calm = 0;
        }
        self.gather = octets(self.bound).clamp(GATHER_OCTETS_MIN, GATHER_OCTETS);
        (self.bound != before).then_some(self.bound)
    }
}

fn octets(bound: u32) -> usize {
    usize::try_from(bound).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that sends `rate` octets a second, asked by a node that comes `late_s` after it is woken: what may wait in the end, and
    /// the part of the time in which nothing did.
    fn settle(rate: f64, late_s: f64) -> (u32, f64) {
        let (mut backlog, mut idle_s, mut all_s) = (Backlog::default(), 0.0, 0.0);
        for round in 0..400 {
            let bound = f64::from(backlog.bound);
            let woken_s = bound / 2.0 / rate + late_s;
            let taken = (rate * woken_s).min(bound);
            if round >= 200 {
                idle_s += woken_s - taken / rate;
                all_s += woken_s;
            }
            #[allow(
                clippy::as_conversions,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "positive and small"
            )]
            backlog.take(taken as usize, false);
            backlog.stop();
        }
        (backlog.bound, idle_s / all_s)
    }

    #[test]
    fn little_waits_for_a_slow_link_and_a_fast_one_never_waits() {
        // 2 Mbit/s, and a node that comes within a millisecond: 65 ms of the link wait.
        let (bound, idle) = settle(250e3, 0.001);
        assert_eq!((bound, idle), (BOUND_MIN, 0.0));
        // 1 Gbit/s.
        let (bound, idle) = settle(125e6, 0.001);
        assert!(bound < 1 << 20 && idle < 0.01, "{bound} {idle}");
        // A node that has its turn three times a second.
        let (bound, idle) = settle(3e6, 0.3);
        assert!(bound >= 1 << 20 && idle < 0.02, "{bound} {idle}");
    }

    #[test]
    fn more_is_polled_at_a_time_while_all_is_taken() {
        let mut backlog = Backlog::default();
        for _ in 0..10 {
            backlog.take(backlog.gather_octets(), true);
        }
        assert_eq!(backlog.gather_octets(), GATHER_OCTETS);
        backlog.stop();
        assert_eq!(backlog.gather_octets(), octets(2 * BOUND_START));
        // Little that is taken tells nothing.
        let before = backlog.gather_octets();
        backlog.take(100, true);
        assert_eq!(backlog.gather_octets(), before);
    }
}
