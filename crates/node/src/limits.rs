//! Limits of the bundles that a neighbour brings, and of a source's share here: a rate, and a share of the store. A neighbour or source that has used
//! its part up is refused for lack of resources and tries again, and nobody else has less for it.

use alloc::collections::BTreeMap;
use alloc::format;
use core::time::Duration;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::{Header, Instant, Now};

use crate::adjacencies::session_id::SessionId;
use crate::config::Limits;
use crate::held::endpoints::EndpointIndex;
use crate::held::shares::Share;
use crate::memory::tree_octets;
use crate::node::Node;
use crate::reception::Refused;
use dhow_link::stream::RefuseReason;

/// Neighbours whose rates are remembered, at most; above it those that have brought nothing for a second are forgotten.
const RATES_KEPT: usize = 1_024;

/// The time in which a neighbour may bring at once what its rate allows: after a pause it has so much ahead.
const AHEAD: Duration = Duration::from_secs(1);

/// The excess of a neighbour over its rate, in nanoseconds of that rate.
#[derive(Clone, Copy, Debug)]
struct Debt {
    at: Instant,
    octets_ns: u64,
    bundles_ns: u64,
}

impl Debt {
    /// The debt that is left at a later time.
    fn after(self, now: Instant) -> Self {
        let passed = u64::try_from((now - self.at).as_nanos()).unwrap_or(u64::MAX);
        Self {
            at: now,
            octets_ns: self.octets_ns.saturating_sub(passed),
            bundles_ns: self.bundles_ns.saturating_sub(passed),
        }
    }

    const fn is_none(self) -> bool {
        self.octets_ns == 0 && self.bundles_ns == 0
    }
}

/// The time that so many take at a rate, nanoseconds.
fn time_ns(count: u64, per_second: u64) -> u64 {
    let ns = u128::from(count) * 1_000_000_000 / u128::from(per_second.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The rates of neighbours that have one.
#[derive(Debug, Default)]
pub(crate) struct Rates(BTreeMap<EndpointIndex, Debt>);

impl Rates {
    /// A neighbour brings a bundle: takes it into account, or says which limit it meets. One may be longer than a second's octets.
    fn take(
        &mut self,
        now: Instant,
        neighbour: EndpointIndex,
        limits: &Limits,
        octets: u64,
    ) -> Result<(), &'static str> {
        if self.0.len() >= RATES_KEPT {
            self.0.retain(|_, debt| !debt.after(now).is_none());
        }
        let known = self.0.get(&neighbour).map(|debt| debt.after(now));
        let mut debt = known.unwrap_or(Debt {
            at: now,
            octets_ns: 0,
            bundles_ns: 0,
        });
        let ahead = u64::try_from(AHEAD.as_nanos()).unwrap_or(u64::MAX);
        if limits.octets_per_s.is_some() && debt.octets_ns >= ahead {
            return Err("octets");
        }
        if limits.bundles_per_s.is_some() && debt.bundles_ns >= ahead {
            return Err("bundles");
        }
        let more = |count, rate: Option<u64>| rate.map_or(0, |rate| time_ns(count, rate));
        debt.octets_ns = (debt.octets_ns).saturating_add(more(octets, limits.octets_per_s));
        debt.bundles_ns = (debt.bundles_ns).saturating_add(more(1, limits.bundles_per_s));
        self.0.insert(neighbour, debt);
        Ok(())
    }

    /// Octets of memory.
    pub(crate) fn memory_octets(&self) -> usize {
        tree_octets::<(EndpointIndex, Debt)>(self.0.len())
    }
}

impl Node {
    /// Refuses a bundle of a neighbour that brings more than its rate.
    pub(crate) fn check_rate(
        &mut self,
        now: Now,
        session: SessionId,
        from: EndpointIndex,
        header: &Header,
    ) -> Result<(), Refused> {
        let Some(neighbour) = self.adjacencies.neighbour_mut(session) else {
            return Ok(());
        };
        let limits = neighbour.policy.limits;
        if limits.octets_per_s.is_none() && limits.bundles_per_s.is_none() {
            return Ok(());
        }
        let taken = self
            .rates
            .take(now.monotonic, from, &limits, header.total_octets());
        let Err(unit) = taken else {
            return Ok(());
        };
        neighbour.limited += 1;
        self.outbox.counters.limited_rate += 1;
        let most = match unit {
            "octets" => limits.octets_per_s,
            _ => limits.bundles_per_s,
        };
        Err(no_resources(format!(
            "this neighbour brings more than its {} {unit} a second",
            most.unwrap_or(0)
        )))
    }

    /// Refuses a bundle for which its neighbour's share of the store, or its source's, has no room.
    pub(crate) fn check_shares(
        &mut self,
        session: SessionId,
        from: EndpointIndex,
        header: &Header,
    ) -> Result<(), Refused> {
        let Some(neighbour) = self.adjacencies.neighbour(session) else {
            return Ok(());
        };
        let (limits, sources) = (neighbour.policy.limits, self.config.source_limits);
        let of_neighbour = (limits.held_octets, limits.held_bundles);
        let of_source = (sources.octets, sources.bundles);
        if (of_neighbour, of_source) == ((None, None), (None, None)) {
            return Ok(());
        }
        let octets = header.total_octets();
        let source = self.held.endpoints().find(&header.primary.source);
        let shares = self.held.bundles_mut().shares();
        let share = shares.of_neighbour(from);
        let of = source.map_or(Share::default(), |source| shares.of_source(source));
        let counters = &mut self.outbox.counters;
        let refused = if let Some(has) = exceeded(share, octets, of_neighbour) {
            counters.limited_share += 1;
            no_resources(format!("this neighbour has {has}"))
        } else if let Some(has) = exceeded(of, octets, of_source)
            && !planted(Mutant::ShareOfSourceIgnored)
        {
            counters.limited_source += 1;
            Refused::new(RefuseReason::SourceFull, format!("the source has {has}"))
        } else {
            return Ok(());
        };
        if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
            neighbour.limited += 1;
        }
        Err(refused)
    }
}

/// The limit that a bundle more would exceed, as a sentence's part.
fn exceeded(
    share: Share,
    octets: u64,
    (most_octets, most_bundles): (Option<u64>, Option<u64>),
) -> Option<alloc::string::String> {
    let (has_octets, has) = (share.octets, share.bundles);
    if let Some(most) = most_octets.filter(|most| has_octets.saturating_add(octets) > *most) {
        return Some(format!("{has_octets} of its {most} octets in the store"));
    }
    let most = most_bundles.filter(|most| has >= *most)?;
    Some(format!("its {most} bundles in the store"))
}

fn no_resources(why: alloc::string::String) -> Refused {
    Refused::new(RefuseReason::NoResources, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        octets_per_s: Some(1_000),
        bundles_per_s: Some(10),
        held_octets: None,
        held_bundles: None,
    };

    fn taken(rates: &mut Rates, ms: u64, octets: u64) -> bool {
        let now = Instant::START + Duration::from_millis(ms);
        let neighbour = EndpointIndex::FIRST;
        rates.take(now, neighbour, &LIMITS, octets).is_ok()
    }

    #[test]
    fn a_neighbour_has_a_second_ahead_and_its_rate_after_that() {
        let mut rates = Rates::default();
        assert!(taken(&mut rates, 0, 999) && taken(&mut rates, 0, 1));
        assert!(!taken(&mut rates, 0, 1));
        assert!(taken(&mut rates, 1, 1) && !taken(&mut rates, 1, 1));
        let of = |rates: &mut Rates, from_s: u64| {
            let times = (0..10_000).map(|at| from_s * 1_000 + at);
            times.filter(|at| taken(rates, *at, 500)).count()
        };
        let ten_seconds = of(&mut rates, 10);
        assert!(
            (21..=23).contains(&ten_seconds),
            "two a second, and a second's ahead: {ten_seconds}"
        );
    }

    #[test]
    fn bundles_are_counted_too_and_one_may_be_longer_than_a_second() {
        let mut rates = Rates::default();
        assert_eq!((0..100).filter(|_| taken(&mut rates, 0, 0)).count(), 10);
        assert!(taken(&mut rates, 5_000, 30_000));
        assert!(
            !taken(&mut rates, 33_999, 1),
            "its octets take 30 s, one of them ahead"
        );
        assert!(taken(&mut rates, 34_001, 1));
    }
}
