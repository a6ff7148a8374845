//! Random sequences of what may happen, against a model that keeps lists and looks at all of them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;

use bytes::Bytes;
use dhow_bundle::v7::admin::bibe::Disposition;
use proptest::prelude::*;

use super::super::{AggregationLimits, CUSTODY_NOTE_OCTETS, CustodyState, Outcome, Retransmission};
use super::*;

const LIMITS: AggregationLimits = AggregationLimits {
    delay: Duration::from_secs(15),
    octets: 9,
    runs: 4,
};

const RETRANSMISSION: Retransmission = Retransmission {
    floor: Duration::from_secs(20),
    cap: Duration::from_secs(100),
};

/// Bundles at a time, and custodians.
const KEYS: u32 = 8;
const CUSTODIANS: u32 = 3;

/// One event; what it names that is not there makes it nothing.
#[derive(Clone, Debug)]
enum Step {
    /// A bundle comes, from a custodian unless it is 0, which has given it an ID or not.
    Request {
        key: u32,
        from: u32,
        has_id: bool,
    },
    Accept(u32),
    Decline(u32),
    Duplicate {
        key: u32,
        from: u32,
    },
    Refuse {
        from: u32,
        has_id: bool,
    },
    Sent {
        key: u32,
        round_trip_s: u64,
    },
    Remove(u32),
    Signal {
        key: u32,
        releases: bool,
    },
    /// Runs of any place and length, counted from the last IDs that were given.
    Aggregate {
        releases: bool,
        runs: Vec<(u64, u64)>,
    },
    Pass {
        seconds: u64,
    },
    /// All signals that are to leave do; each second one is durable.
    Tell,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS;
    let from = 1..=CUSTODIANS;
    let run = (0_u64..12, prop_oneof![0_u64..6, Just(u64::MAX)]);
    prop_oneof![
        4 => (key.clone(), 0..=CUSTODIANS, any::<bool>())
            .prop_map(|(key, from, has_id)| Step::Request { key, from, has_id }),
        4 => key.clone().prop_map(Step::Accept),
        1 => key.clone().prop_map(Step::Decline),
        1 => (key.clone(), from.clone()).prop_map(|(key, from)| Step::Duplicate { key, from }),
        1 => (from, any::<bool>()).prop_map(|(from, has_id)| Step::Refuse { from, has_id }),
        5 => (key.clone(), 0_u64..60)
            .prop_map(|(key, round_trip_s)| Step::Sent { key, round_trip_s }),
        1 => key.clone().prop_map(Step::Remove),
        1 => (key, any::<bool>()).prop_map(|(key, releases)| Step::Signal { key, releases }),
        2 => (any::<bool>(), proptest::collection::vec(run, 1..4))
            .prop_map(|(releases, runs)| Step::Aggregate { releases, runs }),
        3 => (0_u64..40).prop_map(|seconds| Step::Pass { seconds }),
        2 => Just(Step::Tell),
        1 => Just(Step::Restart),
    ]
}

/// A bundle in custody, or about to be.
#[derive(Clone, Debug)]
struct Parcel {
    id: u64,
    state: CustodyState,
    deadline: Option<u64>,
    timeouts: u32,
    before: Option<Custodian>,
    /// The note that the store has, durable once the bundle is.
    note: Bytes,
}

/// A debt: the custodian, what it is to hear, and of which bundle, by its ID or its sequence number.
type Debt = (EndpointId, Disposition, Result<u64, u64>);

struct Model {
    custody: Custody,
    seconds: u64,
    /// The store's.
    mark: u64,
    parcels: BTreeMap<u32, Parcel>,
    given: BTreeSet<u64>,
    /// Debts, and when they are to be paid at the latest.
    debts: BTreeMap<Debt, u64>,
    /// The last ID of each custodian, and the last sequence number of a bundle.
    last_theirs: BTreeMap<u32, u64>,
}

fn fresh() -> Custody {
    Custody::default()
        .with_retransmission(RETRANSMISSION)
        .with_aggregation(None, LIMITS)
}

impl Model {
    fn new() -> Self {
        Self {
            custody: fresh(),
            seconds: 0,
            mark: 0,
            parcels: BTreeMap::new(),
            given: BTreeSet::new(),
            debts: BTreeMap::new(),
            last_theirs: BTreeMap::new(),
        }
    }

    fn now(&self) -> Instant {
        at(self.seconds)
    }

    fn custodian(&mut self, number: u32, has_id: bool) -> Custodian {
        let last = self.last_theirs.entry(number).or_default();
        // Some IDs follow each other, and some do not.
        *last += 1 + u64::from(last.is_multiple_of(3));
        let mut custodian = custodian(number, Some(*last));
        custodian.subject = subject(*last + 1_000 * u64::from(number));
        custodian.id = custodian.id.filter(|_| has_id);
        custodian
    }

    fn owe(&mut self, custodian: &Custodian, disposition: Disposition) {
        let name = custodian.id.ok_or(custodian.subject.creation.sequence);
        let due = match name {
            Ok(_) => self.seconds + LIMITS.delay.as_secs(),
            Err(_) => self.seconds,
        };
        let debt = (custodian.endpoint.clone(), disposition, name);
        self.debts.entry(debt).or_insert(due);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Request { key, from, has_id } => self.request(key, from, has_id),
            Step::Accept(key) => self.accept(key),
            Step::Decline(key) => {
                if let Some(parcel) = self.parcel(key, &[CustodyState::Requested]) {
                    let before = parcel.before.clone();
                    (self.custody).handle_declined(self.now(), BundleKey(key), REFUSED);
                    self.parcels.remove(&key);
                    if let Some(before) = before {
                        self.owe(&before, REFUSED);
                    }
                }
            }
            Step::Duplicate { key, from } => {
                let custodian = self.custodian(from, true);
                let is_there = self.parcel(key, &DURABLE).is_some();
                let now = self.now();
                let owed = (self.custody).handle_duplicate(now, BundleKey(key), custodian.clone());
                assert_eq!(owed, is_there, "redundant is what is durable here");
                if owed {
                    self.owe(&custodian, Disposition::Redundant);
                }
            }
            Step::Refuse { from, has_id } => {
                let custodian = self.custodian(from, has_id);
                (self.custody).handle_refused(self.now(), custodian.clone(), REFUSED);
                self.owe(&custodian, REFUSED);
            }
            Step::Sent { key, round_trip_s } => self.send(key, round_trip_s),
            Step::Remove(key) => {
                let now = self.now();
                self.custody.handle_removed(now, BundleKey(key));
                self.parcels.remove(&key);
            }
            Step::Signal { key, releases } => {
                let disposition = disposition(releases);
                let id = self.parcels.get(&key).map(|parcel| parcel.id);
                self.custody.handle_signal(BundleKey(key), disposition);
                let runs: Vec<_> = id.into_iter().map(|id| (id, id)).collect();
                self.check_signal(disposition, &runs);
            }
            Step::Aggregate { releases, runs } => {
                let last = self.given.last().copied().unwrap_or_default();
                let run = |(back, length): (u64, u64)| {
                    let first = last.saturating_sub(back);
                    (first, first.saturating_add(length))
                };
                let runs: Vec<_> = runs.into_iter().map(run).collect();
                let disposition = disposition(releases);
                self.custody.handle_aggregate(disposition, &runs);
                self.check_signal(disposition, &runs);
            }
            Step::Pass { seconds } => self.pass(seconds),
            Step::Tell => self.tell(),
            Step::Restart => self.restart(),
        }
    }

    fn parcel(&mut self, key: u32, states: &[CustodyState]) -> Option<&mut Parcel> {
        let parcel = self.parcels.get_mut(&key);
        parcel.filter(|parcel| states.contains(&parcel.state))
    }

    fn request(&mut self, key: u32, from: u32, has_id: bool) {
        if self.parcels.contains_key(&key) {
            return;
        }
        let before = (from > 0).then(|| self.custodian(from, has_id));
        let acceptance = self.custody.handle_request(BundleKey(key), before.clone());
        let acceptance = acceptance.unwrap();
        let id = acceptance.given.id;
        self.mark = acceptance.given.reserve.unwrap_or(self.mark);
        assert!(id >= 1 && id <= self.mark, "{id} is not reserved");
        assert!(self.given.insert(id), "{id} was given twice");
        assert!(acceptance.note.len() <= CUSTODY_NOTE_OCTETS);
        let parcel = Parcel {
            id,
            state: CustodyState::Requested,
            deadline: None,
            timeouts: 0,
            before,
            note: acceptance.note,
        };
        self.parcels.insert(key, parcel);
    }

    fn accept(&mut self, key: u32) {
        let Some(parcel) = self.parcel(key, &[CustodyState::Requested]) else {
            return;
        };
        parcel.state = CustodyState::Accepted;
        let before = parcel.before.clone();
        self.custody.handle_accepted(self.now(), BundleKey(key));
        if let Some(before) = before {
            self.owe(&before, Disposition::Accepted);
        }
    }

    fn send(&mut self, key: u32, round_trip_s: u64) {
        let seconds = self.seconds;
        let Some(parcel) = self.parcel(key, &DURABLE) else {
            return;
        };
        let wait = round_trip_s.max(RETRANSMISSION.floor.as_secs()) << parcel.timeouts.min(20);
        parcel.state = CustodyState::AwaitingSignal;
        parcel.deadline = Some(seconds + wait.min(RETRANSMISSION.cap.as_secs()));
        let round_trip = Duration::from_secs(round_trip_s);
        (self.custody).handle_sent(self.now(), BundleKey(key), round_trip);
    }

    /// The outcome of a signal is the outcome for each ID, one by one.
    fn check_signal(&mut self, disposition: Disposition, runs: &[(u64, u64)]) {
        let mut expected = Vec::new();
        for &(first, last) in runs {
            let sent = |parcel: &Parcel| {
                let state = parcel.state;
                state == CustodyState::AwaitingSignal || state == CustodyState::AwaitingForward
            };
            let named = self.parcels.iter();
            let named = named.filter(|(_, it)| sent(it) && first <= it.id && it.id <= last);
            let mut named: Vec<(u64, u32)> = named.map(|(key, it)| (it.id, *key)).collect();
            named.sort_unstable();
            for (_, key) in named {
                if disposition.releases() {
                    self.parcels.remove(&key);
                    expected.push((key, Outcome::Released));
                } else if let Some(parcel) = self.parcels.get_mut(&key) {
                    parcel.state = CustodyState::AwaitingForward;
                    parcel.deadline = None;
                    expected.push((key, Outcome::ForwardElsewhere(disposition)));
                }
            }
        }
        assert_eq!(self.outcomes(), expected);
    }

    fn outcomes(&mut self) -> Vec<(u32, Outcome)> {
        let now = self.now();
        let outcomes = core::iter::from_fn(|| self.custody.poll_outcome(now));
        outcomes.map(|(key, outcome)| (key.0, outcome)).collect()
    }

    fn pass(&mut self, seconds: u64) {
        self.seconds += seconds;
        let mut due = Vec::new();
        for (key, parcel) in &mut self.parcels {
            if let Some(deadline) = parcel.deadline.filter(|it| *it <= self.seconds) {
                parcel.state = CustodyState::AwaitingForward;
                parcel.deadline = None;
                parcel.timeouts += 1;
                due.push((deadline, *key));
            }
        }
        due.sort_unstable();
        let due: Vec<_> = due
            .iter()
            .map(|(_, key)| (*key, Outcome::SendAgain))
            .collect();
        assert_eq!(
            self.outcomes(),
            due,
            "what had no signal in time is sent again"
        );
    }

    /// Signals that leave tell of debts, each of them once, and none that is due is left.
    fn tell(&mut self) {
        for (place, signal) in signals(&mut self.custody, self.seconds)
            .into_iter()
            .enumerate()
        {
            self.check_debts(&signal);
            if place % 2 == 0 {
                self.settle(&signal);
            }
        }
        let late = self.debts.iter().find(|(_, due)| **due <= self.seconds);
        assert_eq!(late, None, "it is not told in time");
        while let Some((key, note)) = self.custody.poll_note() {
            assert!(note.len() <= CUSTODY_NOTE_OCTETS);
            self.parcels.get_mut(&key.0).unwrap().note = note;
        }
    }

    fn check_debts(&mut self, signal: &OwedSignal) {
        let (disposition, names) = match &signal.record {
            AdministrativeRecord::AggregateSignal(record) => {
                let ids = record.runs.iter();
                let ids = ids.flat_map(|(first, last)| *first..=*last).map(Ok);
                let ids: Vec<Result<u64, u64>> = ids.collect();
                let octets = signal.record.encode().len();
                assert!(octets <= LIMITS.octets || ids.len() == 1, "{signal:?}");
                assert!(record.runs.len() <= LIMITS.runs);
                let disposition = Disposition::from_signal(record.is_success, record.reason);
                (disposition, ids)
            }
            AdministrativeRecord::CustodySignal(record) => (
                Disposition::from_signal(record.is_success, record.reason),
                [Err(record.subject.creation.sequence)].to_vec(),
            ),
            AdministrativeRecord::StatusReport(_) => panic!("{signal:?}"),
        };
        for name in names {
            let debt = (signal.custodian.clone(), disposition, name);
            assert!(self.debts.remove(&debt).is_some(), "{debt:?} is not owed");
        }
    }

    fn settle(&mut self, signal: &OwedSignal) {
        self.custody.handle_signalled(&signal.settles);
        for parcel in self.parcels.values_mut() {
            if signal.settles.contains(parcel.id) {
                let before = parcel
                    .before
                    .take()
                    .expect("a debt that is settled was one");
                assert_eq!(before.endpoint, signal.custodian);
            }
        }
    }

    /// The store knows what is durable, and nothing else is left.
    fn restart(&mut self) {
        self.custody = fresh();
        self.custody.resume(self.mark);
        self.debts.clear();
        self.parcels
            .retain(|_, parcel| parcel.state != CustodyState::Requested);
        for (key, mut parcel) in core::mem::take(&mut self.parcels) {
            let sequence = parcel.before.as_ref();
            let sequence = sequence.map_or(0, |before| before.subject.creation.sequence);
            let note = parcel.note.clone();
            let now = self.now();
            assert!(
                (self.custody).recover(now, BundleKey(key), &note, subject(sequence)),
                "a note that was written is read"
            );
            parcel.state = CustodyState::AwaitingForward;
            parcel.deadline = None;
            parcel.timeouts = 0;
            if let Some(before) = parcel.before.clone() {
                self.owe(&before, Disposition::Accepted);
            }
            self.parcels.insert(key, parcel);
        }
    }

    /// Custody says of each bundle what the model does, and its tables agree.
    fn check(&self) {
        self.custody.bundles.check();
        self.custody.owed.counts();
        for key in 0..KEYS {
            let parcel = self.parcels.get(&key);
            let state = parcel.map_or(CustodyState::None, |parcel| parcel.state);
            assert_eq!(self.custody.state(BundleKey(key)), state);
            let id = parcel.map(|parcel| parcel.id);
            assert_eq!(self.custody.custody_id(BundleKey(key)), id);
        }
        assert_eq!(self.custody.count(), self.parcels.len());
        let deadlines = self.parcels.values().filter_map(|parcel| parcel.deadline);
        let times = deadlines.chain(self.debts.values().copied()).min();
        let timeout = self.custody.poll_timeout();
        assert_eq!(timeout.is_some(), times.is_some());
        assert!(timeout <= times.map(at), "a timer runs for what is next");
        assert_eq!(self.custody.counters().transitions_refused, 0);
        assert_eq!(self.custody.counters().signals_dropped, 0);
    }
}

const REFUSED: Disposition = Disposition::DepletedStorage;

const DURABLE: [CustodyState; 3] = [
    CustodyState::Accepted,
    CustodyState::AwaitingSignal,
    CustodyState::AwaitingForward,
];

fn disposition(releases: bool) -> Disposition {
    match releases {
        true => Disposition::Accepted,
        false => Disposition::NoTimelyContact,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// RFC 5050 5.10 to 5.12: whatever happens, a bundle in custody is released by a signal or sent again by its deadline; no ID is given
    /// twice; what gathers is what is owed; and a restart knows what was durable.
    #[test]
    fn custody_is_what_its_model_says(steps in proptest::collection::vec(step(), 1..120)) {
        let mut model = Model::new();
        for step in steps {
            model.take(step);
            model.check();
        }
        // In the end all that was waited for has come out, and all debts were paid.
        model.pass(RETRANSMISSION.cap.as_secs() + 1);
        model.tell();
        model.check();
        prop_assert!(model.debts.is_empty());
        prop_assert!(model.parcels.values().all(|it| it.deadline.is_none()));
    }
}
