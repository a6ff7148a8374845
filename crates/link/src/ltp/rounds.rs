//! Octets that reports asked for again: RFC 5326 6.13.

use alloc::collections::VecDeque;

use dhow_bundle::mutant::{Mutant, planted};

use crate::datagram::span::Spans;

/// The missing octets that one report told of.
#[derive(Debug)]
pub(super) struct Round {
    /// The report's serial number.
    pub(super) report: u64,
    /// Retransmission cycles (RFC 5326 6.22) that this one follows, with itself.
    pub(super) cycle: u32,
    /// Octets left to send, in order; not empty.
    ranges: VecDeque<(u64, u64)>,
}

/// The next octets of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Whether nothing of the round is behind them: they end in a checkpoint.
    pub(super) is_last: bool,
    pub(super) report: u64,
    pub(super) cycle: u32,
}

/// The rounds that have not been sent, in order. No octet is in two of them; in one it may be several times.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    rounds: VecDeque<Round>,
}

impl Rounds {
    pub(super) fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// Ranges of all rounds.
    pub(super) fn ranges(&self) -> usize {
        self.rounds.iter().map(|round| round.ranges.len()).sum()
    }

    /// Add what `claimed` says is missing from `lower` to `upper` and waits in no other round; how many octets that is.
    pub(super) fn push(
        &mut self,
        claimed: &Spans,
        (lower, upper): (u64, u64),
        report: u64,
        cycle: u32,
    ) -> u64 {
        let mut queued = Spans::default();
        for (start, end) in self.rounds.iter().flat_map(|round| &round.ranges) {
            queued.add(*start, *end);
        }
        let missing = claimed.gaps(lower, upper);
        let ranges: VecDeque<_> = missing
            .flat_map(|(start, end)| queued.gaps(start, end))
            .map(|(start, end)| match planted(Mutant::WrongOctetsAgain) {
                true => (start.saturating_sub(1), end),
                false => (start, end),
            })
            .collect();
        let lengths = ranges.iter().map(|(start, end)| end.saturating_sub(*start));
        let octets = lengths.fold(0, u64::saturating_add);
        if octets > 0 {
            self.rounds.push_back(Round {
                report,
                cycle,
                ranges,
            });
        }
        octets
    }

    /// Send the octets of the newest round so many times more.
    pub(super) fn copy(&mut self, times: u64) {
        if let Some(round) = self.rounds.back_mut() {
            let ranges = round.ranges.clone();
            for _ in 0..times {
                round.ranges.extend(&ranges);
            }
        }
    }

    /// Drop what is claimed meanwhile.
    pub(super) fn prune(&mut self, claimed: &Spans) {
        for round in &mut self.rounds {
            let ranges = round.ranges.iter();
            round.ranges = ranges
                .flat_map(|(start, end)| claimed.gaps(*start, *end))
                .collect();
        }
        self.rounds.retain(|round| !round.ranges.is_empty());
    }

    /// The octets that are to be sent next.
    pub(super) fn next(&self) -> Option<Missing> {
        let round = self.rounds.front()?;
        let (start, end) = *round.ranges.front()?;
        Some(Missing {
            start,
            end,
            is_last: round.ranges.len() == 1,
            report: round.report,
            cycle: round.cycle,
        })
    }

    /// So many octets of that were sent.
    pub(super) fn sent(&mut self, octets: u64) {
        let Some(round) = self.rounds.front_mut() else {
            return;
        };
        if let Some((start, end)) = round.ranges.front_mut() {
            *start = start.saturating_add(octets);
            if *start >= *end {
                round.ranges.pop_front();
            }
        }
        if round.ranges.is_empty() {
            self.rounds.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.rounds.clear();
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn spans(ranges: &[(u64, u64)]) -> Spans {
        let mut spans = Spans::default();
        ranges
            .iter()
            .for_each(|(start, end)| spans.add(*start, *end));
        spans
    }

    #[test]
    fn octets_wait_once_and_not_when_they_are_claimed() {
        let mut rounds = Rounds::default();
        let claimed = spans(&[(0, 10), (20, 30)]);
        assert_eq!(rounds.push(&claimed, (0, 40), 1, 1), 20);
        assert_eq!(rounds.push(&claimed, (0, 40), 2, 1), 0);
        assert_eq!(rounds.push(&claimed, (5, 50), 3, 2), 10);
        rounds.copy(1);
        rounds.sent(4);
        rounds.prune(&spans(&[(0, 32), (35, 42)]));
        let mut all = Vec::new();
        while let Some(Missing {
            start,
            end,
            is_last,
            report,
            cycle,
        }) = rounds.next()
        {
            all.push((start, end, is_last, report, cycle));
            rounds.sent(end - start);
        }
        assert_eq!(
            all,
            [
                (32, 35, true, 1, 1),
                (42, 50, false, 3, 2),
                (42, 50, true, 3, 2)
            ]
        );
        assert!(rounds.is_empty());
    }
}
