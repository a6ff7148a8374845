//! One direction of a link: the time at which octets put on it have left, and the part that has.

use std::collections::VecDeque;

use dhow_bundle::Instant;
use dhow_channel::Line;

/// A line, and what leaves over it.
#[derive(Debug)]
pub(crate) struct Transmitter {
    line: Line,
    /// Octets that were ever put on it, but for those that were cut off.
    octets: u64,
    /// Octets that had not left when it was last looked at, in order.
    leaving: VecDeque<Leaving>,
}

/// When octets leave that were put on a line together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    /// When the first of them begins to.
    pub(crate) begins: Instant,
    /// When the last of them has left.
    pub(crate) ends: Instant,
    /// Their number, with the headers of their packets.
    octets: u64,
}

impl Transmitter {
    pub(crate) const fn new(line: Line) -> Self {
        Self {
            line,
            octets: 0,
            leaving: VecDeque::new(),
        }
    }

    /// Octets are to leave behind all that was put on the line.
    pub(crate) fn transmit(&mut self, now: Instant, octets: u64) -> Leaving {
        self.leaving.retain(|it| it.ends > now);
        let leaving = Leaving {
            begins: self.leaving.back().map_or(now, |it| it.ends),
            ends: self.line.transmit(now, octets),
            octets,
        };
        self.octets = self.octets.saturating_add(octets);
        self.leaving.push_back(leaving);
        leaving
    }

    /// Octets that have left by now.
    pub(crate) fn carried(&self, now: Instant) -> u64 {
        let whole = |it: &Leaving| it.octets - it.left_of(it.octets, now);
        self.octets
            .saturating_sub(self.leaving.iter().map(whole).sum())
    }

    /// Octets that have not left are cut off.
    pub(crate) fn cut(&mut self, now: Instant) {
        self.octets = self.carried(now);
        self.leaving.clear();
        self.line.reset(now);
    }
}

impl Leaving {
    /// The part of so many octets that has left by now, if they leave evenly.
    pub(crate) fn left_of(&self, octets: u64, now: Instant) -> u64 {
        if now >= self.ends {
            return octets;
        }
        let (whole, part) = (self.ends.since(self.begins), now.since(self.begins));
        let left = u128::from(octets) * part.as_nanos() / whole.as_nanos().max(1);
        u64::try_from(left).unwrap_or(octets)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dhow_channel::Rate;

    use super::*;

    #[test]
    fn what_is_cut_off_has_not_left() {
        let at = |ms| Instant::START + Duration::from_millis(ms);
        let rate = Rate::from_octets_per_s(1_000_000).expect("a rate");
        let mut transmitter = Transmitter::new(Line::new(rate));
        transmitter.transmit(at(0), 20_000);
        let second = transmitter.transmit(at(5), 10_000);
        assert_eq!((second.begins, second.ends), (at(20), at(30)));
        for (ms, carried) in [(0, 0), (5, 5_000), (20, 20_000), (25, 25_000), (30, 30_000)] {
            assert_eq!(transmitter.carried(at(ms)), carried, "{ms}");
        }
        transmitter.cut(at(25));
        assert_eq!(transmitter.carried(at(99)), 25_000);
        transmitter.transmit(at(100), 1_000);
        assert_eq!(transmitter.carried(at(200)), 26_000);
    }
}
