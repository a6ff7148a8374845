//! Signals that gather: IDs of one custodian and disposition, until the signal about them is due or as large as it may be.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use dhow_bundle::v7::admin::bibe::Disposition;
use dhow_bundle::{EndpointId, Instant};

use super::runs::IdRuns;
use crate::memory::{text_octets, tree_octets};

/// Signals that gather at a time, at most.
pub(super) const AGGREGATES_BOUND: usize = 1_024;

/// Signals that are as large as they may be and were not polled yet, at most.
pub(super) const READY_BOUND: usize = 1_024;

/// IDs that one signal tells of, at most: its reader, and the node that learns that it is kept, do something for each.
pub(super) const IDS_BOUND: usize = 4_096;

/// The custodian that is told, and the disposition.
pub(super) type Scope = (EndpointId, Disposition);

/// Octets of a payload with these runs.
pub(super) type Measure = fn(&mut dyn Iterator<Item = (u64, u64)>) -> usize;

/// The limits of a signal, as they are for one more ID.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The signal leaves then at the latest.
    pub(super) due: Instant,
    /// Octets of its payload.
    pub(super) octets: usize,
    /// Its runs.
    pub(super) runs: usize,
}

/// A signal that gathers, or is ready.
#[derive(Debug, Default)]
pub(super) struct Aggregate {
    /// The custodian's IDs.
    pub(super) ids: IdRuns,
    /// This node's custody IDs of the same bundles, of those that it has.
    pub(super) settles: IdRuns,
    /// IDs that were added.
    count: usize,
    due: Instant,
}

impl Aggregate {
    /// Whether the signal is still within its limits with another ID.
    fn has_room(&self, id: u64, settles: Option<u64>, limits: Limits, measure: Measure) -> bool {
        let fits = |runs: &IdRuns, id| runs.iter_with(id).count() <= limits.runs;
        self.count < IDS_BOUND
            && fits(&self.ids, id)
            && settles.is_none_or(|own| fits(&self.settles, own))
            && measure(&mut self.ids.iter_with(id)) <= limits.octets
    }
}

/// There is no room for an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// No other signal may gather.
    Aggregates,
    /// Too many are ready.
    Ready,
}

/// All signals that gather or are ready.
#[derive(Debug)]
pub(super) struct Aggregates {
    measure: Measure,
    gathering: BTreeMap<Scope, Aggregate>,
    due: BTreeSet<(Instant, Scope)>,
    ready: VecDeque<(Scope, Aggregate)>,
}

impl Aggregates {
    pub(super) const fn new(measure: Measure) -> Self {
        Self {
            measure,
            gathering: BTreeMap::new(),
            due: BTreeSet::new(),
            ready: VecDeque::new(),
        }
    }

    /// A custodian is to be told of an ID; one that is gathered already is told once.
    pub(super) fn add(
        &mut self,
        scope: &Scope,
        id: u64,
        settles: Option<u64>,
        limits: Limits,
    ) -> Result<(), NoRoom> {
        if let Some(gathered) = self.gathering.get(scope)
            && !gathered.has_room(id, settles, limits, self.measure)
        {
            if self.ready.len() >= READY_BOUND {
                return Err(NoRoom::Ready);
            }
            if let Some(full) = self.take(scope) {
                self.ready.push_back((scope.clone(), full));
            }
        }
        let is_new = !self.gathering.contains_key(scope);
        if is_new && self.gathering.len() >= AGGREGATES_BOUND {
            return Err(NoRoom::Aggregates);
        }
        let gathered = self.gathering.entry(scope.clone()).or_default();
        let before = (!is_new).then_some(gathered.due);
        gathered.ids.insert(id);
        if let Some(own) = settles {
            gathered.settles.insert(own);
        }
        gathered.count += 1;
        // One ID alone may be more than the octets allow: it leaves at once.
        let is_full = (self.measure)(&mut gathered.ids.iter()) > limits.octets;
        let due = if is_full { Instant::START } else { limits.due };
        gathered.due = before.map_or(due, |before| before.min(due));
        let due = gathered.due;
        if before != Some(due) {
            if let Some(before) = before {
                self.due.remove(&(before, scope.clone()));
            }
            self.due.insert((due, scope.clone()));
        }
        Ok(())
    }

    fn take(&mut self, scope: &Scope) -> Option<Aggregate> {
        let gathered = self.gathering.remove(scope)?;
        self.due.remove(&(gathered.due, scope.clone()));
        Some(gathered)
    }

    /// The next signal that is ready or due.
    pub(super) fn poll(&mut self, now: Instant) -> Option<(Scope, Aggregate)> {
        if let Some(ready) = self.ready.pop_front() {
            return Some(ready);
        }
        let (at, scope) = self.due.first()?;
        if *at > now {
            return None;
        }
        let scope = scope.clone();
        let gathered = self.take(&scope)?;
        Some((scope, gathered))
    }

    /// When the next signal is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.ready.is_empty() {
            true => self.due.first().map(|(at, _)| *at),
            false => Some(Instant::START),
        }
    }

    /// A custodian is told nothing of what has gathered.
    pub(super) fn forget(&mut self, custodian: &EndpointId) {
        let first = (custodian.clone(), Disposition::Accepted);
        let scopes = self.gathering.range(first..);
        let scopes = scopes.map(|(scope, _)| scope.clone());
        let own: alloc::vec::Vec<Scope> = scopes.take_while(|(it, _)| it == custodian).collect();
        for scope in own {
            self.take(&scope);
        }
        self.ready.retain(|((it, _), _)| it != custodian);
    }

    /// Signals that gather, and those that are ready.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        assert_eq!(self.due.len(), self.gathering.len(), "each is due once");
        (self.gathering.len(), self.ready.len())
    }

    /// Octets of memory that they take.
    pub(super) fn memory_octets(&self) -> usize {
        let ready = self.ready.iter().map(|(scope, it)| (scope, it));
        let all = self.gathering.iter().chain(ready);
        let of_one = |((custodian, _), it): (&Scope, &Aggregate)| {
            text_octets(custodian) + it.ids.memory_octets() + it.settles.memory_octets()
        };
        let kept = all.map(of_one).fold(0, usize::saturating_add);
        tree_octets::<(Scope, Aggregate)>(self.gathering.len())
            .saturating_add(tree_octets::<(Instant, Scope)>(self.due.len()))
            .saturating_add(self.ready.capacity() * size_of::<(Scope, Aggregate)>())
            .saturating_add(kept)
    }
}
