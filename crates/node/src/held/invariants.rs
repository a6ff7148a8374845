//! Invariants of held bundles, which hold between any two events, for tests.

use alloc::format;
use alloc::string::String;

use dhow_bundle::storage::BundleKey;

use crate::held::Held;
use crate::held::retention::State;
use crate::invariants::expect;

impl Held {
    /// True when nothing but bundles that wait is here.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.arrivals.is_empty()
            && self.reads.is_empty()
            && self.reactive.is_empty()
            && self.reactive_fragments.is_empty()
            && self.moved.is_empty()
            && self.verifying.is_empty()
            && self.backlog.octets() == 0
    }

    /// Whether the store still keeps octets of a bundle at places that they had before.
    pub(crate) fn keeps_old_places(&self, key: BundleKey) -> bool {
        self.moved.contains(&key)
    }

    /// The first thing that is not as it must be.
    pub(crate) fn check(&self) -> Result<(), String> {
        let under_way = self.arrivals.iter().map(|(_, it)| it);
        let arriving = under_way.fold(0, |sum, it| sum + it.waiting());
        let backlog = arriving + self.backlog.abandoned_octets();
        expect(self.backlog.is_consistent(), || {
            format!("the parts of {:?} are more than the whole", self.backlog)
        })?;
        expect(self.backlog.octets() == backlog, || {
            format!("backlog {} is {backlog}", self.backlog.octets())
        })?;
        let unreserved = self.arrivals.iter().map(|(_, it)| it.unreserved);
        let unreserved = unreserved.sum::<u64>();
        expect(self.unreserved_octets == unreserved, || {
            format!("unreserved {} is {unreserved}", self.unreserved_octets)
        })?;
        let leaving = self.leaving.iter().map(|(_, octets)| octets).sum::<u64>();
        expect(self.leaving.octets() == leaving, || {
            format!("leaving {} is {leaving}", self.leaving.octets())
        })?;
        for (key, _) in self.leaving.iter() {
            let entry = self.bundles.entry(key);
            expect(
                entry.is_some_and(|it| it.state() == State::Deleting),
                || format!("{key:?} leaves and stays"),
            )?;
        }
        self.check_rivals()?;
        let arriving = self.arrivals.iter().map(|(key, _)| key);
        for key in self.moved.iter().copied().chain(arriving) {
            expect(self.bundles.entry(key).is_some(), || {
                format!("{key:?} moves or arrives and is not held")
            })?;
        }
        for &(until, key) in &self.retries {
            let state = self.state(key);
            expect(state == Some(State::AwaitingRetry { until }), || {
                format!("{key:?} is to be tried again and {state:?}")
            })?;
        }
        Ok(())
    }
}
