//! Sources for whose bundles a peer has no room while it has some for those of others (docs/tcpcl-extensions.md 3).

use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};

use crate::adjacencies::neighbour::FULL_PAUSE;
use crate::held::endpoints::EndpointIndex;

/// Longest rest of a source's bundles; it doubles while the peer takes none of them. An answer to one that was tried is awaited as long.
const LONGEST_REST: Duration = Duration::from_secs(8);

/// Sources that a peer is remembered to have no room for.
const SOURCES_BOUND: usize = 32;

/// Bundles of a source under way at a time from which on the peer is taken to have room for all.
const TRIED_BOUND: u32 = 1_024;

/// The sources that rest, and those whose bundles are tried again.
#[derive(Debug, Default)]
pub(crate) struct Shortages(Vec<Shortage>);

#[derive(Clone, Copy, Debug)]
struct Shortage {
    source: EndpointIndex,
    /// Smaller bundles go.
    octets: u64,
    /// The end of the rest, or of the wait for an answer.
    until: Instant,
    rest: Duration,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Rests,
    /// One bundle is tried, then twice as many as before with each that is taken.
    Tried {
        most: u32,
        left: u32,
    },
}

impl Stage {
    const ONE: Self = Self::Tried { most: 1, left: 1 };
}

impl Shortages {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The peer has no room for a bundle of so many octets: when the source's are tried again.
    pub(crate) fn note(&mut self, now: Instant, source: EndpointIndex, octets: u64) -> Instant {
        let known = self.0.iter_mut().find(|it| it.source == source);
        if let Some(known) = known {
            match known.stage {
                Stage::Rests => known.octets = known.octets.min(octets),
                Stage::Tried { most, .. } => {
                    // If the peer took some, it is about to have room again.
                    let rest = if most > 1 { FULL_PAUSE } else { known.rest * 2 };
                    *known = Shortage::new(now, source, octets, rest.min(LONGEST_REST));
                }
            }
            return known.until;
        }
        if self.0.len() >= SOURCES_BOUND {
            let first = self.0.iter().enumerate().min_by_key(|(_, it)| it.until);
            if let Some(at) = first.map(|(at, _)| at) {
                self.0.swap_remove(at);
            }
        }
        let shortage = Shortage::new(now, source, octets, FULL_PAUSE);
        self.0.push(shortage);
        shortage.until
    }

    /// A bundle of a source goes to the peer: when the next one does if nothing is said about it, where it is one that was to be tried.
    pub(crate) fn went(
        &mut self,
        now: Instant,
        source: EndpointIndex,
        octets: u64,
    ) -> Option<Instant> {
        let shortage = self.0.iter_mut().find(|it| it.source == source)?;
        match &mut shortage.stage {
            Stage::Tried { left, .. } if octets >= shortage.octets => {
                *left = left.saturating_sub(1);
                shortage.until = now + LONGEST_REST;
                Some(shortage.until)
            }
            _ => None,
        }
    }

    /// The peer has taken a bundle of a source.
    pub(crate) fn took(&mut self, source: EndpointIndex) {
        self.0.retain_mut(|it| match &mut it.stage {
            Stage::Tried { most, left } if it.source == source => {
                *most *= 2;
                *left = *most;
                *most < TRIED_BOUND
            }
            _ => true,
        });
    }

    /// Bundles of sources whose rest is over are tried again.
    pub(crate) fn end(&mut self, now: Instant) {
        for it in &mut self.0 {
            let waits = matches!(it.stage, Stage::Rests | Stage::Tried { left: 0, .. });
            if waits && it.until <= now {
                match planted(Mutant::ShortageForEver) {
                    true => it.until = now + LONGEST_REST * 86_400,
                    false => it.stage = Stage::ONE,
                }
            }
        }
    }

    /// The rest of a bundle of so many octets of a source, if it may not go.
    pub(crate) fn rest(&self, source: EndpointIndex, octets: u64) -> Option<Rest> {
        let bars = |it: &&Shortage| {
            let waits = matches!(it.stage, Stage::Rests | Stage::Tried { left: 0, .. });
            waits && it.source == source && octets >= it.octets
        };
        let shortage = self.0.iter().find(bars);
        let shortage = shortage.filter(|_| !planted(Mutant::ShortageForgotten))?;
        Some(match shortage.stage {
            Stage::Rests => Rest::Until(shortage.until),
            Stage::Tried { .. } => Rest::UntilAnswered,
        })
    }
}

/// The time for which a bundle may not go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    Until(Instant),
    /// Until the fate of another bundle of its source is known.
    UntilAnswered,
}

impl Rest {
    /// The length of the rest, as far as is known.
    pub(crate) fn from(self, now: Instant) -> Duration {
        match self {
            Self::Until(until) => until - now,
            Self::UntilAnswered => FULL_PAUSE,
        }
    }
}

impl Shortage {
    fn new(now: Instant, source: EndpointIndex, octets: u64, rest: Duration) -> Self {
        Self {
            source,
            octets,
            until: now + rest,
            rest,
            stage: Stage::Rests,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: EndpointIndex = EndpointIndex::FIRST;

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_millis(ms)
    }

    #[test]
    fn rests_double_until_something_is_taken() {
        let mut shortages = Shortages::default();
        let mut now = Instant::START;
        for rest_ms in [500, 1_000, 2_000, 4_000, 8_000, 8_000] {
            let until = shortages.note(now, SOURCE, 10);
            assert_eq!(until, now + Duration::from_millis(rest_ms));
            // Others that were under way change nothing.
            assert_eq!(shortages.note(now, SOURCE, 20), until);
            shortages.end(until);
            assert_eq!(shortages.rest(SOURCE, 10), None);
            shortages.went(until, SOURCE, 10);
            assert_eq!(shortages.rest(SOURCE, 10), Some(Rest::UntilAnswered));
            now = until;
        }
        shortages.took(SOURCE);
        assert_eq!(shortages.rest(SOURCE, 10), None);
        assert_eq!(shortages.note(now, SOURCE, 10), now + FULL_PAUSE);
    }

    #[test]
    fn what_is_not_answered_bars_nothing_for_good() {
        let mut shortages = Shortages::default();
        shortages.note(at(0), SOURCE, 10);
        shortages.end(at(500));
        assert_eq!(shortages.went(at(600), SOURCE, 10), Some(at(8_600)));
        shortages.end(at(8_599));
        assert_eq!(shortages.rest(SOURCE, 10), Some(Rest::UntilAnswered));
        shortages.end(at(8_600));
        assert_eq!(shortages.rest(SOURCE, 10), None);
    }

    #[test]
    fn smaller_bundles_go() {
        let mut shortages = Shortages::default();
        shortages.note(at(0), SOURCE, 10);
        assert_eq!(shortages.rest(SOURCE, 9), None);
        assert_eq!(shortages.rest(SOURCE, 10), Some(Rest::Until(at(500))));
        shortages.note(at(1), SOURCE, 5);
        assert_eq!(shortages.rest(SOURCE, 5), Some(Rest::Until(at(500))));
    }

    #[test]
    fn what_is_taken_opens_the_way_for_all() {
        let mut shortages = Shortages::default();
        shortages.note(at(0), SOURCE, 10);
        shortages.end(at(500));
        let mut sent = 0;
        while !shortages.0.is_empty() {
            while shortages.went(at(500), SOURCE, 10).is_some()
                && shortages.rest(SOURCE, 10).is_none()
            {
                sent += 1;
            }
            shortages.took(SOURCE);
        }
        assert!(sent < 2 * TRIED_BOUND);
    }
}
