//! What must hold between any two events, for tests: every bundle is where its state says, every window
//! and count is what is really there, and nothing is waited for that cannot come.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use dhow_bundle::storage::BundleKey;

use crate::bundles::Entry;
use crate::dispatch::{place, queue};
use crate::endpoints::EndpointIndex;
use crate::expiries::Timed;
use crate::node::{Node, Stage};
use crate::passing::Pass;
use crate::retention::State;
use crate::sending::PendingRead;

impl Node {
    /// The first thing in the node that is not as it must be. Looks at everything: for tests.
    ///
    /// # Errors
    /// What is wrong.
    #[doc(hidden)]
    pub fn check_invariants(&self) -> Result<(), String> {
        if self.stage == Stage::Recovering {
            return Ok(());
        }
        expect(self.counters.transitions_refused == 0, || {
            "a bundle's state did not allow an event".into()
        })?;
        self.check_windows()?;
        self.check_timers()?;
        self.check_endpoints()?;
        let held = self.holders();
        for (key, entry) in self.bundles.iter() {
            self.check_bundle(key, entry, held.get(&key).copied().unwrap_or(0))
                .map_err(|what| format!("{key:?} in {:?} {what}", entry.state()))?;
        }
        let under_way = self.arrivals.iter().map(|(_, it)| it);
        let arriving = under_way.fold(0, |sum, it| sum + it.waiting());
        let backlog = arriving + self.backlog.abandoned_octets();
        expect(self.backlog.is_consistent(), || {
            format!("the parts of {:?} are more than the whole", self.backlog)
        })?;
        expect(self.backlog.octets() == backlog, || {
            format!("backlog {} is {backlog}", self.backlog.octets())
        })?;
        let unreserved = self
            .arrivals
            .iter()
            .map(|(_, it)| it.unreserved)
            .sum::<u64>();
        expect(self.unreserved_octets == unreserved, || {
            format!("unreserved {} is {unreserved}", self.unreserved_octets)
        })?;
        let arriving = self.arrivals.iter().map(|(key, _)| key);
        for key in self.moved.iter().copied().chain(arriving) {
            expect(self.bundles.entry(key).is_some(), || {
                format!("{key:?} moves or arrives and is not held")
            })?;
        }
        self.check_passes()?;
        for key in self.copies.keys() {
            expect(self.bundles.entry(key).is_some(), || {
                format!("{key:?} is given away and is not held")
            })?;
        }
        for (key, _) in self.splits.keys() {
            let state = self.state(*key);
            expect(state == Some(State::InFlight), || {
                format!("{key:?} is cut and {state:?}")
            })?;
        }
        Ok(())
    }

    /// True when nothing but what waits for a time, a hop or a subscriber is here.
    #[doc(hidden)]
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.arrivals.is_empty()
            && self.reads.is_empty()
            && self.splits.is_empty()
            && self.passes.is_empty()
            && self.owed.is_empty()
            && self.keepings.is_empty()
            && self.prefixes.is_empty()
            && self.handed.is_empty()
            && self.moved.is_empty()
            && self.verifying.is_empty()
            && self.parting.is_empty()
            && self.backlog.octets() == 0
    }

    fn check_bundle(&self, key: BundleKey, entry: &Entry, holders: u32) -> Result<(), String> {
        let passes = matches!(
            self.passes.get(&key),
            Some(Pass::UnderWay(_) | Pass::Left(..) | Pass::Handed | Pass::Orphaned(_))
        );
        let wanted = match self.copies.router(key) {
            Some(_) => u32::try_from(self.copies.sessions(key)).unwrap_or(u32::MAX),
            None => u32::from(entry.state() == State::InFlight || passes),
        };
        expect(holders == wanted, || format!("has {holders} holders"))?;
        let timed = self.expiries.contains(entry, key);
        let part = self.reassembly.stand_in(key).is_some();
        match entry.state() {
            State::Kept => {
                expect(!timed, || "has an expiry".into())?;
                let keepings = self.keepings.values().filter_map(|it| it.kept);
                let replaced = self.prefixes.values().filter_map(|it| it.replaces);
                return expect(keepings.chain(replaced).any(|kept| kept == key), || {
                    "is kept for nothing".into()
                });
            }
            State::Arriving => {
                expect(!timed, || "has an expiry".into())?;
                return expect(self.arrivals.contains(key), || "does not arrive".into());
            }
            State::Deleting => return expect(!timed, || "has an expiry".into()),
            State::DispatchPending => return Err("goes nowhere".into()),
            State::InFlight => {
                expect(holders > 0, || "is with nobody".into())?;
                return expect(timed || entry.doomed.is_some(), || "never expires".into());
            }
            State::Waiting if self.copies.router(key).is_some() => {
                expect(holders == 0, || "waits and is on its way".into())?;
            }
            State::Waiting => {
                expect(self.queues.holds(queue(entry), place(entry), key), || {
                    "is in no queue".into()
                })?;
            }
            State::Resting { until } => {
                expect(self.rests.contains(&(until, key)), || "never wakes".into())?;
            }
            State::Sent => expect(self.is_sent(key), || "has not left".into())?,
            State::Reassembling | State::Quarantined => {}
        }
        expect(!self.moved.contains(&key) || part, || {
            "keeps old places".into()
        })?;
        expect(timed || part, || "never expires".into())?;
        expect(entry.doomed.is_none(), || "escapes its doom".into())
    }

    fn check_passes(&self) -> Result<(), String> {
        let mut sessions = 0;
        for (key, pass) in &self.passes {
            let orphaned = matches!(pass, Pass::Orphaned(_));
            expect(self.arrivals.contains(*key) != orphaned, || {
                format!("{key:?} is passed on and does not arrive")
            })?;
            if let Pass::Left(stream, transfer) = pass {
                let neighbour = self.neighbours.get(stream);
                let knows = neighbour.is_some_and(|it| it.outgoing().contains(transfer.0));
                expect(knows, || format!("{key:?} has left with nobody"))?;
            }
            if let Pass::UnderWay(passing) = pass {
                sessions += 1;
                let neighbour = self.neighbours.get(&passing.stream);
                let knows = neighbour.is_some_and(|it| {
                    it.passing == Some(*key) && it.outgoing().contains(passing.transfer.0)
                });
                expect(knows, || format!("{key:?} is passed on by nobody"))?;
            }
        }
        let busy = self.neighbours.values().filter(|it| it.passing.is_some());
        expect(busy.count() == sessions, || {
            "a session passes nothing on".into()
        })?;
        for key in self.keepings.keys().chain(self.prefixes.keys()) {
            expect(self.arrivals.contains(*key), || {
                format!("{key:?} is kept in parts and does not arrive")
            })?;
        }
        for key in self.handed.keys() {
            expect(self.bundles.entry(*key).is_some(), || {
                format!("{key:?} was handed over and is not held")
            })?;
        }
        for key in self.owed.keys() {
            let state = self.state(*key);
            expect(state == Some(State::InFlight), || {
                format!("{key:?} is owed for and {state:?}")
            })?;
        }
        Ok(())
    }

    /// How many reads, sessions and applications hold each bundle.
    fn holders(&self) -> BTreeMap<BundleKey, u32> {
        let mut held = BTreeMap::new();
        let reads = self.reads.values().filter_map(|read| match read {
            PendingRead::Send { key, .. }
            | PendingRead::Echo { key }
            | PendingRead::Perf { key, .. } => Some(*key),
            PendingRead::Fragment { .. } => None,
        });
        let sessions = self
            .neighbours
            .values()
            .flat_map(|it| it.outgoing().values());
        let sent = sessions.filter(|it| !it.fragment).map(|it| it.key);
        let delivered = self.clients.values().flat_map(|it| it.deliveries.values());
        let all = reads
            .chain(sent)
            .chain(delivered.copied())
            .chain(self.perf.held());
        for key in all.chain(self.splits.keys().map(|(key, _)| *key)) {
            *held.entry(key).or_insert(0) += 1;
        }
        held
    }

    fn check_windows(&self) -> Result<(), String> {
        for (stream, neighbour) in &self.neighbours {
            let mut sent = neighbour.outgoing().values().map(|it| it.key);
            expect(sent.all(|key| self.bundles.entry(key).is_some()), || {
                format!("{stream:?} sends what is not held")
            })?;
            let (mut bundles, mut octets) = (0_u32, 0_u64);
            let read = self.reads.values().filter_map(|read| match read {
                PendingRead::Send { stream: of, key } if of == stream => {
                    self.bundles.entry(*key).map(|entry| entry.octets)
                }
                PendingRead::Fragment {
                    stream: of, range, ..
                } if of == stream => Some(range.length),
                _ => None,
            });
            for charged in read.chain(neighbour.outgoing().values().map(|it| it.octets)) {
                bundles += 1;
                octets += charged;
            }
            let counted = (neighbour.in_flight, neighbour.in_flight_octets);
            expect(counted == (bundles, octets), || {
                format!("window {counted:?} of {stream:?} is {bundles}, {octets}")
            })?;
        }
        Ok(())
    }

    fn check_timers(&self) -> Result<(), String> {
        let sessions = self
            .neighbours
            .iter()
            .map(|(it, session)| (it, session.timeout));
        let clients = self.clients.iter().map(|(it, client)| (it, client.timeout));
        let mut armed = 0;
        for (stream, timeout) in sessions.chain(clients) {
            if let Some(at) = timeout {
                armed += 1;
                expect(self.timeouts.contains(&(at, *stream)), || {
                    format!("the timer of {stream:?} is not set")
                })?;
            }
        }
        expect(self.timeouts.len() == armed, || {
            "timers of nobody are set".into()
        })?;
        let timed = self.bundles.iter().filter(|(_, it)| it.timed != Timed::No);
        expect(self.expiries.len() == timed.count(), || {
            "expiries of nobody are noted".into()
        })?;
        let resting = |key| self.state(key);
        for &(until, key) in &self.rests {
            expect(resting(key) == Some(State::Resting { until }), || {
                format!("{key:?} is woken and does not rest")
            })?;
        }
        Ok(())
    }

    fn check_endpoints(&self) -> Result<(), String> {
        let bundles = self.bundles.iter().flat_map(|(_, it)| {
            [it.source, it.destination, it.report_to]
                .into_iter()
                .chain(it.previous)
        });
        let peers = self.neighbours.values().filter_map(|it| it.peer);
        let registered = self.registrations.iter().map(|(index, _)| index);
        let all = bundles.chain(peers).chain(registered);
        let told = self.collections.endpoints();
        let mut users: Vec<EndpointIndex> =
            all.chain(self.removed.endpoints()).chain(told).collect();
        users.sort_unstable();
        let users = users.chunk_by(|one, other| one == other);
        let users = users.filter_map(|them| Some((*them.first()?, them.len())));
        let counted = self.endpoints.users();
        expect(counted.clone().eq(users.clone()), || {
            let (counted, users): (Vec<_>, Vec<_>) = (counted.collect(), users.collect());
            format!("endpoints are counted {counted:?} and used {users:?}")
        })
    }
}

fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
