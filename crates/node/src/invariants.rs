//! Invariants, which hold between any two events, for tests: every bundle is where its state says, every window
//! and count is what is really there, and nothing is waited for that cannot come.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use dhow_bundle::storage::BundleKey;

use crate::forwarding::cut_through::CutThrough;
use crate::forwarding::waiting::queue;
use crate::held::bundles::Entry;
use crate::held::endpoints::EndpointIndex;
use crate::held::retention::State;
use crate::node::{Node, Stage};
use crate::sending::PendingRead;

impl Node {
    /// The first thing in the node that is not as it must be. Looks at everything: for tests.
    ///
    /// # Errors
    /// The invariant that does not hold.
    #[doc(hidden)]
    pub fn check_invariants(&self) -> Result<(), String> {
        if self.stage == Stage::Recovering {
            return Ok(());
        }
        expect(self.outbox.counters.transitions_refused == 0, || {
            "a bundle's state did not allow an event".into()
        })?;
        self.check_windows()?;
        self.check_timers()?;
        self.check_endpoints()?;
        let held = self.holders();
        for (key, entry) in self.held.bundles().iter() {
            self.check_bundle(key, entry, held.get(&key).copied().unwrap_or(0))
                .map_err(|what| format!("{key:?} in {:?} {what}", entry.state()))?;
        }
        self.held.check()?;
        self.check_cut_throughs()?;
        for key in self.forwarding.copies().keys() {
            expect(self.held.entry(key).is_some(), || {
                format!("{key:?} is given away and is not held")
            })?;
        }
        for key in self.forwarding.cut_bundles() {
            let state = self.held.state(key);
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
        self.held.is_at_rest() && self.forwarding.is_at_rest() && !self.adjacencies.has_parting()
    }

    fn check_bundle(&self, key: BundleKey, entry: &Entry, holders: u32) -> Result<(), String> {
        let cut_throughs = matches!(
            self.forwarding.cut_through(key),
            Some(
                CutThrough::UnderWay(_)
                    | CutThrough::Left(..)
                    | CutThrough::Given
                    | CutThrough::Orphaned(_)
            )
        );
        let wanted = match self.forwarding.copies().router(key) {
            Some(_) => u32::try_from(self.forwarding.copies().sessions(key)).unwrap_or(u32::MAX),
            None => u32::from(entry.state() == State::InFlight || cut_throughs),
        };
        expect(holders == wanted, || format!("has {holders} holders"))?;
        let timed = self.held.expiries().contains(entry, key);
        let part = self.held.reassembly().stand_in(key).is_some();
        match entry.state() {
            State::Kept => {
                expect(!timed, || "has an expiry".into())?;
                let reactive = self.held.reactive().values().filter_map(|it| it.kept);
                let replaced = self
                    .held
                    .reactive_fragments()
                    .values()
                    .filter_map(|it| it.replaces);
                return expect(reactive.chain(replaced).any(|kept| kept == key), || {
                    "is kept for nothing".into()
                });
            }
            State::Arriving => {
                expect(!timed, || "has an expiry".into())?;
                return expect(self.held.arrivals().contains(key), || {
                    "does not arrive".into()
                });
            }
            State::Deleting => return expect(!timed, || "has an expiry".into()),
            State::DispatchPending => return Err("goes nowhere".into()),
            State::InFlight => {
                expect(holders > 0, || "is with nobody".into())?;
                return expect(timed || entry.pending_deletion().is_some(), || {
                    "never expires".into()
                });
            }
            State::Waiting if self.forwarding.copies().router(key).is_some() => {
                expect(holders == 0, || "waits and is on its way".into())?;
            }
            State::Waiting => {
                expect(
                    self.forwarding.queues().holds(queue(entry), entry, key),
                    || "is in no queue".into(),
                )?;
            }
            State::AwaitingRetry { until } => {
                expect(self.held.retries().contains(&(until, key)), || {
                    "never wakes".into()
                })?;
            }
            State::Sent if self.held.custody().awaits_signal(key) => {}
            State::Sent => expect(self.forwarding.is_sent(&self.held, key), || {
                "has not left".into()
            })?,
            State::Reassembling | State::Quarantined => {}
        }
        expect(!self.held.keeps_old_places(key) || part, || {
            "keeps old places".into()
        })?;
        expect(timed || part, || "never expires".into())?;
        expect(entry.pending_deletion().is_none(), || {
            "escapes its doom".into()
        })
    }

    fn check_cut_throughs(&self) -> Result<(), String> {
        self.forwarding.check(&self.held, &self.adjacencies)?;
        for key in self
            .held
            .reactive()
            .keys()
            .chain(self.held.reactive_fragments().keys())
        {
            expect(self.held.arrivals().contains(*key), || {
                format!("{key:?} is kept in parts and does not arrive")
            })?;
        }
        Ok(())
    }

    /// The number of reads, sessions and applications that hold each bundle.
    fn holders(&self) -> BTreeMap<BundleKey, u32> {
        let mut held = BTreeMap::new();
        let reads = self.held.reads().values().filter_map(|read| match read {
            PendingRead::Send { key, .. }
            | PendingRead::Echo { key }
            | PendingRead::Perf { key, .. }
            | PendingRead::Advert { key }
            | PendingRead::Record { key } => Some(*key),
            PendingRead::Fragment { .. } | PendingRead::Encapsulating { .. } => None,
        });
        let sessions = self
            .adjacencies
            .neighbours()
            .map(|(_, it)| it)
            .flat_map(|it| it.outgoing().values().chain(it.kept().values()));
        let sent = sessions.filter(|it| !it.fragment).map(|it| it.key);
        let delivered = self
            .delivery
            .clients()
            .map(|(_, it)| it)
            .flat_map(|it| it.deliveries.values());
        let all = reads
            .chain(sent)
            .chain(delivered.copied())
            .chain(self.services.perf.held());
        let tunnels = self
            .adjacencies
            .neighbours()
            .flat_map(|(_, it)| it.outers());
        for key in all.chain(self.forwarding.cut_bundles()).chain(tunnels) {
            *held.entry(key).or_insert(0) += 1;
        }
        held
    }

    fn check_windows(&self) -> Result<(), String> {
        for (ref session, neighbour) in self.adjacencies.neighbours() {
            let mut sent = neighbour.outgoing().values().map(|it| it.key);
            expect(sent.all(|key| self.held.entry(key).is_some()), || {
                format!("{session:?} sends what is not held")
            })?;
            let (mut bundles, mut octets) = (0_u32, 0_u64);
            let read = self.held.reads().values().filter_map(|read| match read {
                PendingRead::Send {
                    session: of, key, ..
                } if of == session => self.held.entry(*key).map(|entry| entry.octets()),
                PendingRead::Fragment {
                    session: of, range, ..
                } if of == session => Some(range.length),
                _ => None,
            });
            for charged in read.chain(neighbour.outgoing().values().map(|it| it.octets)) {
                bundles += 1;
                octets += charged;
            }
            let counted = (neighbour.in_flight, neighbour.in_flight_octets);
            expect(counted == (bundles, octets), || {
                format!("window {counted:?} of {session:?} is {bundles}, {octets}")
            })?;
        }
        Ok(())
    }

    fn check_timers(&self) -> Result<(), String> {
        let sessions = self
            .adjacencies
            .neighbours()
            .map(|(it, session)| (it.stream(), session.timeout));
        let clients = self
            .delivery
            .clients()
            .map(|(it, client)| (it, client.timeout));
        let mut armed = 0;
        let programs = self.programs.timers();
        for (stream, timeout) in sessions.chain(clients).chain(programs) {
            if let Some(at) = timeout {
                armed += 1;
                expect(
                    self.attention.timeouts().any(|it| it == (at, stream)),
                    || format!("the timer of {stream:?} is not set"),
                )?;
            }
        }
        expect(self.attention.timeouts().count() == armed, || {
            "timers of nobody are set".into()
        })?;
        let timed = self
            .held
            .bundles()
            .iter()
            .filter(|(key, it)| self.held.expiries().contains(it, *key));
        expect(
            self.held.expiries().are_whole(self.held.bundles())
                && self.forwarding.queues().are_whole(self.held.bundles()),
            || "a chain of bundles is broken".into(),
        )?;
        expect(self.held.expiries().len() == timed.count(), || {
            "expiries of nobody are noted".into()
        })?;
        Ok(())
    }

    fn check_endpoints(&self) -> Result<(), String> {
        let bundles = self.held.bundles().iter().flat_map(|(_, it)| {
            [it.source(), it.destination(), it.report_to()]
                .into_iter()
                .chain(it.previous())
        });
        let peers = self
            .adjacencies
            .neighbours()
            .map(|(_, it)| it)
            .filter_map(|it| it.peer);
        let registered = self.delivery.registrations().iter().map(|(index, _)| index);
        let all = bundles.chain(peers).chain(registered);
        let told = self.reporting.collections.endpoints();
        let mut users: Vec<EndpointIndex> = all
            .chain(self.held.removed().endpoints())
            .chain(told)
            .collect();
        users.sort_unstable();
        let users = users.chunk_by(|one, other| one == other);
        let users = users.filter_map(|them| Some((*them.first()?, them.len())));
        let counted = self.held.endpoints().users();
        expect(counted.clone().eq(users.clone()), || {
            let (counted, users): (Vec<_>, Vec<_>) = (counted.collect(), users.collect());
            format!("endpoints are counted {counted:?} and used {users:?}")
        })
    }
}

pub(crate) fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
