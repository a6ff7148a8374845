//! Invariants of forwarding, which hold between any two events, for tests.

use alloc::format;
use alloc::string::String;

use dhow_bundle::storage::BundleKey;

use crate::adjacencies::Adjacencies;
use crate::forwarding::Forwarding;
use crate::forwarding::cut_through::CutThrough;
use crate::held::Held;
use crate::held::retention::State;
use crate::invariants::expect;

impl Forwarding {
    /// True when nothing is on its way.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.splits.is_empty()
            && self.cut_throughs.is_empty()
            && self.owed.is_empty()
            && self.acknowledged.is_empty()
    }

    /// The bundles that sessions are cutting into fragments.
    pub(crate) fn cut_bundles(&self) -> impl Iterator<Item = BundleKey> {
        self.splits.keys().map(|(key, _)| *key)
    }

    /// The first thing that is not as it must be.
    pub(crate) fn check(&self, held: &Held, adjacencies: &Adjacencies) -> Result<(), String> {
        let mut sessions = 0;
        for (key, pass) in &self.cut_throughs {
            let orphaned = matches!(pass, CutThrough::Orphaned(_));
            expect(held.arrivals().contains(*key) != orphaned, || {
                format!("{key:?} is passed on and does not arrive")
            })?;
            if let CutThrough::Left(session, transfer) = pass {
                let neighbour = adjacencies.neighbour(*session);
                let knows = neighbour.is_some_and(|it| it.outgoing().contains(transfer.0));
                expect(knows, || format!("{key:?} has left with nobody"))?;
            }
            if let CutThrough::UnderWay(under_way) = pass {
                sessions += 1;
                let neighbour = adjacencies.neighbour(under_way.session);
                let knows = neighbour.is_some_and(|it| {
                    it.cut_through == Some(*key) && it.outgoing().contains(under_way.transfer.0)
                });
                expect(knows, || format!("{key:?} is passed on by nobody"))?;
            }
        }
        let busy = adjacencies
            .neighbours()
            .map(|(_, it)| it)
            .filter(|it| it.cut_through.is_some());
        expect(busy.count() == sessions, || {
            "a session passes nothing on".into()
        })?;
        for key in self.acknowledged.keys() {
            expect(held.entry(*key).is_some(), || {
                format!("{key:?} was handed over and is not held")
            })?;
        }
        for key in self.owed.keys() {
            let state = held.state(*key);
            expect(state == Some(State::InFlight), || {
                format!("{key:?} is owed for and {state:?}")
            })?;
        }
        Ok(())
    }
}
