//! Bundles that this node is custodian of, or is about to be: their custody IDs, timers and states.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::Instant;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::v7::admin::bibe::Disposition;

use super::note::{Note, NotedDebt};
use super::numbers::{Counter, GivenId, Reservation};
use super::owed::Custodian;
use super::runs::IdRuns;
use super::state::{CustodyState, Trigger};
use super::{Outcome, Retransmission};
use crate::memory::{text_octets, tree_octets};

/// Bundles that this node has custody of, at most.
pub(super) const BUNDLES_BOUND: usize = 1 << 20;

/// Custody of one bundle.
#[derive(Debug)]
struct Entry {
    id: u64,
    state: CustodyState,
    /// Times that its timer has run out, up to 255.
    timeouts: u8,
    /// The time until which a signal is waited for.
    deadline: Option<Instant>,
    /// The custodian before, while it is owed a signal about the bundle.
    owed: Option<Box<Custodian>>,
}

/// All bundles in custody.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    counter: Counter,
    entries: BTreeMap<BundleKey, Entry>,
    /// The bundle of each custody ID.
    keys: BTreeMap<u64, BundleKey>,
    /// IDs under which a bundle was sent, or is being sent, as far as is known: signals may name them.
    sent: BTreeSet<u64>,
    deadlines: BTreeSet<(Instant, BundleKey)>,
    /// Bundles whose note has changed.
    renoted: BTreeSet<BundleKey>,
    /// Octets of memory of the custodians that are owed a signal.
    owed_octets: usize,
}

/// A trigger that the table does not have for the state that custody is in: a mistake in this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Impossible;

impl Bundles {
    /// This node is to take custody of a bundle; none where it has custody of too many, or has given all IDs.
    pub(super) fn request(
        &mut self,
        reservation: &mut Reservation,
        key: BundleKey,
        custodian: Option<Custodian>,
    ) -> Result<Option<GivenId>, Impossible> {
        let state = self.state(key).next(Trigger::Asked).ok_or(Impossible)?;
        if self.entries.len() >= BUNDLES_BOUND {
            return Ok(None);
        }
        let Some(given) = self.counter.next(reservation) else {
            return Ok(None);
        };
        self.keep(key, given.id, state);
        if let Some(custodian) = custodian {
            self.set_owed(key, custodian);
        }
        Ok(Some(given))
    }

    /// A restart finds custody of a bundle in its note. None where the note is none, or names an ID that another bundle has.
    pub(super) fn recover(
        &mut self,
        key: BundleKey,
        note: &[u8],
    ) -> Option<(u64, Option<NotedDebt>)> {
        let note = Note::decode(note)?;
        let state = self.state(key).next(Trigger::Recovered)?;
        if self.entries.len() >= BUNDLES_BOUND || self.keys.contains_key(&note.id) {
            return None;
        }
        self.keep(key, note.id, state);
        self.sent.insert(note.id);
        Some((note.id, note.owed))
    }

    fn keep(&mut self, key: BundleKey, id: u64, state: CustodyState) {
        let entry = Entry {
            id,
            state,
            timeouts: 0,
            deadline: None,
            owed: None,
        };
        self.entries.insert(key, entry);
        self.keys.insert(id, key);
    }

    /// A custodian is owed a signal about a bundle that owes none yet.
    pub(super) fn set_owed(&mut self, key: BundleKey, custodian: Custodian) {
        if let Some(entry) = self.entries.get_mut(&key) {
            self.owed_octets = self.owed_octets.saturating_add(octets_of(&custodian));
            entry.owed = Some(Box::new(custodian));
        }
    }

    fn take_owed(&mut self, key: BundleKey) -> Option<Custodian> {
        let custodian = *self.entries.get_mut(&key)?.owed.take()?;
        self.owed_octets = self.owed_octets.saturating_sub(octets_of(&custodian));
        Some(custodian)
    }

    /// A bundle is durable: its custody ID, and the custodian before, which is owed a signal from now on.
    pub(super) fn accept(
        &mut self,
        key: BundleKey,
    ) -> Result<(u64, Option<Custodian>), Impossible> {
        self.advance(key, Trigger::Stored)?;
        let entry = self.entries.get(&key).ok_or(Impossible)?;
        Ok((entry.id, entry.owed.as_deref().cloned()))
    }

    /// Custody of a bundle is not taken after all: the custodian before, which is told so.
    pub(super) fn decline(&mut self, key: BundleKey) -> Result<Option<Custodian>, Impossible> {
        self.state(key).next(Trigger::Declined).ok_or(Impossible)?;
        let owed = self.take_owed(key);
        self.forget(key);
        Ok(owed)
    }

    /// A bundle is being sent: a signal may name it from now on, also before the transfer is over.
    pub(super) fn leaves(&mut self, key: BundleKey) {
        if let Some(entry) = self.entries.get(&key)
            && entry.state != CustodyState::Requested
        {
            self.sent.insert(entry.id);
        }
    }

    /// A bundle was sent, and a signal may take so long.
    pub(super) fn sent(
        &mut self,
        now: Instant,
        key: BundleKey,
        round_trip: Duration,
        retransmission: Retransmission,
    ) -> Result<(), Impossible> {
        self.advance(key, Trigger::Sent)?;
        self.stop_timer(key);
        let entry = self.entries.get_mut(&key).ok_or(Impossible)?;
        let deadline = now + retransmission.wait(round_trip, entry.timeouts);
        entry.deadline = Some(deadline);
        self.sent.insert(entry.id);
        self.deadlines.insert((deadline, key));
        Ok(())
    }

    /// Nothing retains a bundle here any more.
    pub(super) fn remove(&mut self, key: BundleKey) {
        if self.state(key).next(Trigger::Removed).is_some() {
            self.forget(key);
        }
    }

    /// The first bundle of a run of custody IDs that a signal may name, and its ID: its custody is released, or it is to be forwarded elsewhere. Custody
    /// of a bundle that was sent has a next state for either.
    pub(super) fn resolve(
        &mut self,
        (first, last): (u64, u64),
        disposition: Disposition,
    ) -> Option<(u64, BundleKey, Outcome)> {
        let id = *self.sent.range(first..=last).next()?;
        let key = *self.keys.get(&id)?;
        let outcome = if disposition.releases() {
            self.state(key).next(Trigger::TakenThere)?;
            self.forget(key);
            Outcome::Released
        } else {
            self.advance(key, Trigger::RefusedThere).ok()?;
            self.stop_timer(key);
            Outcome::ForwardElsewhere(disposition)
        };
        Some((id, key, outcome))
    }

    /// True where a signal may name an ID of a run.
    pub(super) fn is_sent(&self, (first, last): (u64, u64)) -> bool {
        self.sent.range(first..=last).next().is_some()
    }

    /// The next bundle for which no signal came in time: it is to be sent again.
    pub(super) fn poll_timed_out(&mut self, now: Instant) -> Option<BundleKey> {
        let &(deadline, key) = self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        self.stop_timer(key);
        self.advance(key, Trigger::TimedOut).ok()?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.timeouts = entry.timeouts.saturating_add(1);
        }
        Some(key)
    }

    /// When the next timer runs out.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Signals about these bundles, by their custody IDs, are durable: nothing is owed for them. At most as many as one signal tells of.
    pub(super) fn settle(&mut self, settled: &IdRuns) {
        for (first, last) in settled.iter() {
            let keys: Vec<BundleKey> = self.keys.range(first..=last).map(|(_, key)| *key).collect();
            for key in keys {
                if self.take_owed(key).is_some() {
                    self.renoted.insert(key);
                }
            }
        }
    }

    /// The next bundle whose note has changed, and its note.
    pub(super) fn poll_note(&mut self) -> Option<(BundleKey, Bytes)> {
        let key = self.renoted.pop_first()?;
        Some((key, self.note(key)?))
    }

    /// The note of a bundle; none where this node has no custody of it.
    pub(super) fn note(&self, key: BundleKey) -> Option<Bytes> {
        let entry = self.entries.get(&key)?;
        let owed = entry.owed.as_ref().map(|custodian| NotedDebt {
            custodian: custodian.endpoint.clone(),
            id: custodian.id,
        });
        let note = Note {
            state: entry.state,
            id: entry.id,
            owed,
        };
        note.encode()
    }

    pub(super) fn state(&self, key: BundleKey) -> CustodyState {
        let entry = self.entries.get(&key);
        entry.map_or(CustodyState::None, |entry| entry.state)
    }

    pub(super) fn id(&self, key: BundleKey) -> Option<u64> {
        self.entries.get(&key).map(|entry| entry.id)
    }

    pub(super) fn key(&self, id: u64) -> Option<BundleKey> {
        self.keys.get(&id).copied()
    }

    pub(super) const fn counter(&self) -> &Counter {
        &self.counter
    }

    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    fn advance(&mut self, key: BundleKey, trigger: Trigger) -> Result<(), Impossible> {
        let entry = self.entries.get_mut(&key).ok_or(Impossible)?;
        entry.state = entry.state.next(trigger).ok_or(Impossible)?;
        assert!(!entry.state.is_over(), "custody that is over is forgotten");
        Ok(())
    }

    fn stop_timer(&mut self, key: BundleKey) {
        if let Some(entry) = self.entries.get_mut(&key)
            && let Some(deadline) = entry.deadline.take()
        {
            self.deadlines.remove(&(deadline, key));
        }
    }

    /// RFC 5050 5.10.2: with custody its timer is gone.
    fn forget(&mut self, key: BundleKey) {
        self.stop_timer(key);
        self.take_owed(key);
        self.renoted.remove(&key);
        if let Some(entry) = self.entries.remove(&key) {
            self.keys.remove(&entry.id);
            self.sent.remove(&entry.id);
        }
    }

    /// Octets of memory that they take.
    pub(super) fn memory_octets(&self) -> usize {
        tree_octets::<(BundleKey, Entry)>(self.entries.len())
            .saturating_add(tree_octets::<(u64, BundleKey)>(self.keys.len()))
            .saturating_add(tree_octets::<u64>(self.sent.len()))
            .saturating_add(tree_octets::<(Instant, BundleKey)>(self.deadlines.len()))
            .saturating_add(tree_octets::<BundleKey>(self.renoted.len()))
            .saturating_add(self.owed_octets)
    }

    /// Panics where the tables contradict each other.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.keys.len(), self.entries.len());
        let mut owed_octets = 0;
        let mut deadlines = 0;
        for (key, entry) in &self.entries {
            assert_eq!(self.keys.get(&entry.id), Some(key));
            let awaits = entry.state == CustodyState::AwaitingSignal;
            assert_eq!(entry.deadline.is_some(), awaits, "a timer runs for {key:?}");
            let was_sent = awaits || entry.state == CustodyState::AwaitingForward;
            let may_be_named = self.sent.contains(&entry.id);
            assert!(may_be_named || !was_sent);
            assert!(!may_be_named || entry.state != CustodyState::Requested);
            if let Some(deadline) = entry.deadline {
                assert!(self.deadlines.contains(&(deadline, *key)));
                deadlines += 1;
            }
            owed_octets += entry.owed.as_deref().map_or(0, octets_of);
        }
        assert_eq!(self.deadlines.len(), deadlines);
        assert_eq!(self.owed_octets, owed_octets);
        assert!(
            self.renoted
                .iter()
                .all(|key| self.entries.contains_key(key))
        );
    }
}

/// Octets of memory of a custodian that is owed a signal.
fn octets_of(custodian: &Custodian) -> usize {
    size_of::<Custodian>()
        + text_octets(&custodian.endpoint)
        + text_octets(&custodian.subject.source)
}
