//! Status reports that wait for each other, to travel in one bundle (`docs/aggregated-reports.md`).
//!
//! The reports of one turn of the node are written into a bundle at its end, a *part*, ahead of the
//! deletions of the bundles that it tells of: a crash loses no more than it would of plain reports. Parts
//! rest in the store until their collection is due; then one bundle that tells all takes their place.

use crate::driver::Occurrence;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, StoreCommand};
use dhow_bundle::v7::admin::{
    AdministrativeRecord, AggregatedReport, GroupHead, ReasonCode, ReportGroup, Timing,
};
use dhow_bundle::{CreationTimestamp, DtnTime, EndpointId, FragmentRange, Instant, Now, Version};

use crate::held::endpoints::{EndpointIndex, Endpoints};
use crate::held::retention::State;
use crate::node::Node;
use crate::reports::{Parcel, ReportKind, Subject};

/// Octets of a collection's record, about: what a slow link carries in some seconds.
const RECORD_OCTETS: usize = 32 << 10;

/// Reports in all collections, at most: some 70 octets each. Above it none waits.
const COLLECTED_MAX: usize = 65_536;

/// Octets that a report takes in its record when it continues no run, about.
const REPORT_OCTETS: usize = 8;

/// The time by which a part may wait longer than its collection, so that nothing waits for ever.
pub(crate) const GRACE: Duration = Duration::from_secs(60);

/// An event in one bundle's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Report {
    source: EndpointIndex,
    kind: ReportKind,
    reason: u64,
    fragment: Option<FragmentRange>,
    creation: CreationTimestamp,
    /// The time, where the bundle asked for it.
    time: Option<DtnTime>,
}

/// Reports for one endpoint.
struct Collection {
    reports: Vec<Report>,
    /// The number of them, from the first, that are in parts.
    written: usize,
    parts: Vec<BundleKey>,
    due: Instant,
    /// The longest lifetime of the bundles told of.
    lifetime_ms: u64,
    /// Octets of the record, about.
    octets: usize,
}

/// The state of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The part has the reports with which a collection still waits.
    Current,
    /// Another bundle has taken its place: it is deleted.
    Replaced,
    /// There was no room for that: it goes by itself.
    Alone,
}

/// All collections, by the endpoint that is told.
#[derive(Default)]
pub(crate) struct Collections {
    by_report_to: BTreeMap<EndpointIndex, Collection>,
    due: BTreeSet<(Instant, EndpointIndex)>,
    /// Endpoints with reports that are in no part.
    unwritten: BTreeSet<EndpointIndex>,
    parts: BTreeMap<BundleKey, Part>,
    /// Deletions that wait for the reports of this turn.
    behind: Vec<StoreCommand>,
    /// Parts of collections that were sent, which rest until this turn ends.
    outworn: Vec<BundleKey>,
    reports: usize,
}

impl Collections {
    /// When the first collection is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.first().map(|&(at, _)| at)
    }

    /// True when there are reports that are in no part.
    pub(crate) fn is_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    pub(crate) fn is_part(&self, key: BundleKey) -> bool {
        self.parts.contains_key(&key)
    }

    /// A collection that is due, the first first.
    pub(crate) fn due_at(&self, now: Instant) -> Option<EndpointIndex> {
        let (at, report_to) = self.due.first()?;
        (*at <= now).then_some(*report_to)
    }

    /// A collection with reports that are in no part; it is none of these from now on.
    pub(crate) fn next_unwritten(&mut self) -> Option<EndpointIndex> {
        self.unwritten.pop_first()
    }

    /// The deletions that wait for the reports of this turn, which are written.
    /// Give the store a command after these.
    pub(crate) fn put_behind(&mut self, command: StoreCommand) {
        self.behind.push(command);
    }

    pub(crate) fn take_behind(&mut self) -> Vec<StoreCommand> {
        core::mem::take(&mut self.behind)
    }

    /// The parts of collections that were sent, which rest no longer.
    pub(crate) fn take_outworn(&mut self) -> Vec<BundleKey> {
        core::mem::take(&mut self.outworn)
    }

    /// The fate of a part that is durable: one that its collection still needs stays a part.
    pub(crate) fn fate(&mut self, key: BundleKey) -> Option<Part> {
        match self.parts.get(&key) {
            Some(Part::Current) => Some(Part::Current),
            _ => self.parts.remove(&key),
        }
    }

    /// A bundle is gone, whatever it was.
    pub(crate) fn forget(&mut self, key: BundleKey) {
        self.parts.remove(&key);
    }

    /// The endpoints in use here, once for each use.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = EndpointIndex> {
        self.by_report_to
            .iter()
            .flat_map(|(&report_to, collection)| {
                let sources = collection.reports.iter().map(|report| report.source);
                sources.chain(core::iter::once(report_to))
            })
    }

    fn take(&mut self, report_to: EndpointIndex) -> Option<Collection> {
        let collection = self.by_report_to.remove(&report_to)?;
        self.due.remove(&(collection.due, report_to));
        self.unwritten.remove(&report_to);
        self.reports -= collection.reports.len();
        Some(collection)
    }
}

impl Node {
    /// Keep what is to be reported on a bundle until its collection is sent; false where there is no
    /// collection and none may be begun.
    pub(crate) fn collect(
        &mut self,
        now: Now,
        subject: &Subject,
        kind: ReportKind,
        reason: u64,
        time: Option<DtnTime>,
    ) -> bool {
        let known = self.held.endpoints().find(&subject.report_to);
        let is_open =
            known.is_some_and(|it| self.reporting.collections.by_report_to.contains_key(&it));
        if !is_open && !self.reporting.report_rate.take(now.monotonic) {
            return false;
        }
        let report_to = self.held.endpoints_mut().acquire(&subject.report_to);
        if is_open {
            // The collection has counted it.
            self.held.endpoints_mut().release(report_to);
        }
        let report = Report {
            source: self.held.endpoints_mut().acquire(&subject.id.source),
            kind,
            reason,
            fragment: subject.id.fragment,
            creation: subject.id.creation,
            time,
        };
        let patience = Duration::from_millis(self.config.reports.collect_ms);
        // A report never waits for longer than its bundle would live.
        let due = (now.monotonic + patience).min(subject.expires.max(now.monotonic));
        let collections = &mut self.reporting.collections;
        let collection = collections
            .by_report_to
            .entry(report_to)
            .or_insert_with(|| Collection {
                reports: Vec::new(),
                written: 0,
                parts: Vec::new(),
                due,
                lifetime_ms: 0,
                octets: 0,
            });
        collection.octets += match collection.reports.last() {
            Some(last) if report.continues(last) => 0,
            Some(last) if report.has_group_of(last) => REPORT_OCTETS,
            _ => group_octets(&subject.id.source),
        };
        collection.reports.push(report);
        collection.lifetime_ms = collection.lifetime_ms.max(subject.lifetime_ms);
        collections.due.remove(&(collection.due, report_to));
        collection.due = collection.due.min(due);
        collections.due.insert((collection.due, report_to));
        collections.unwritten.insert(report_to);
        collections.reports += 1;
        if collection.octets >= RECORD_OCTETS
            || collection.reports.len() >= self.config.reports.collect_most
            || collections.reports >= COLLECTED_MAX
        {
            self.send_collection(now, report_to);
        }
        true
    }

    pub(crate) fn write_part(&mut self, now: Now, report_to: EndpointIndex) {
        let Some(collection) = self.reporting.collections.by_report_to.get(&report_to) else {
            return;
        };
        let (count, lifetime_ms) = (collection.reports.len(), collection.lifetime_ms);
        let news = collection.reports.get(collection.written..).unwrap_or(&[]);
        let record = encode(self.held.endpoints(), news);
        // Without room, the reports are still tried when the collection is sent.
        let Some(key) = self.write_record(now, report_to, lifetime_ms, record) else {
            return;
        };
        self.reporting.collections.parts.insert(key, Part::Current);
        if let Some(collection) = self.reporting.collections.by_report_to.get_mut(&report_to) {
            collection.written = count;
            collection.parts.push(key);
        }
    }

    fn write_record(
        &mut self,
        now: Now,
        report_to: EndpointIndex,
        lifetime_ms: u64,
        record: Bytes,
    ) -> Option<BundleKey> {
        let parcel = Parcel {
            version: Version::V7,
            report_to: self.held.endpoints().id(report_to).clone(),
            lifetime_ms,
            record,
        };
        self.send_record(now, parcel)
    }

    /// Send what a collection has: the one part that tells all of it, or a bundle in the place of its parts.
    pub(crate) fn send_collection(&mut self, now: Now, report_to: EndpointIndex) {
        let Some(collection) = self.reporting.collections.take(report_to) else {
            return;
        };
        let parts: Vec<(BundleKey, State)> = collection
            .parts
            .iter()
            .filter(|&&key| self.reporting.collections.is_part(key))
            .filter_map(|&key| Some((key, self.held.state(key)?)))
            .filter(|(_, state)| matches!(state, State::Arriving | State::AwaitingRetry { .. }))
            .collect();
        let is_told = parts.len() == 1
            && collection.parts.len() == 1
            && collection.written == collection.reports.len();
        let whole = (!is_told).then(|| {
            let record = encode(self.held.endpoints(), &collection.reports);
            self.write_record(now, report_to, collection.lifetime_ms, record)
        });
        let fate = match whole {
            Some(Some(_)) => {
                self.count_collected(length(&collection.reports));
                Part::Replaced
            }
            // Without room for the whole, the parts go as they are.
            Some(None) | None => {
                if whole.is_some() {
                    let lost = collection.reports.get(collection.written..).unwrap_or(&[]);
                    self.suppress(length(lost));
                }
                self.count_collected(u64::try_from(collection.written).unwrap_or(0));
                Part::Alone
            }
        };
        let collections = &mut self.reporting.collections;
        for (key, state) in parts {
            match (state, fate) {
                (State::Arriving, Part::Alone) => drop(collections.parts.remove(&key)),
                _ => drop(collections.parts.insert(key, fate)),
            }
            if state != State::Arriving {
                collections.outworn.push(key);
            }
        }
        for report in &collection.reports {
            self.held.endpoints_mut().release(report.source);
        }
        self.held.endpoints_mut().release(report_to);
    }

    fn count_collected(&mut self, reports: u64) {
        self.outbox.counters.reports += reports;
        self.outbox.counters.reports_collected += reports;
    }

    /// Reports were not made, or have no room.
    pub(crate) fn suppress(&mut self, reports: u64) {
        self.outbox.counters.reports_suppressed += reports;
        if reports > 0 {
            self.outbox.occurred(Occurrence::ReportSuppressed);
        }
    }
}

impl Report {
    /// The fields that the bundles of a group of a record have in common.
    fn group(&self) -> (EndpointIndex, ReportKind, u64, Option<FragmentRange>, bool) {
        (
            self.source,
            self.kind,
            self.reason,
            self.fragment,
            self.time.is_some(),
        )
    }

    fn has_group_of(&self, other: &Self) -> bool {
        self.group() == other.group()
    }

    fn continues(&self, other: &Self) -> bool {
        let next = CreationTimestamp {
            sequence: other.creation.sequence.saturating_add(1),
            ..other.creation
        };
        self.has_group_of(other) && self.time == other.time && self.creation == next
    }
}

/// Octets of a group with one bundle of this source; a `dtn:` one may have a long name.
fn group_octets(source: &EndpointId) -> usize {
    let mut octets = Vec::new();
    source.encode(&mut octets);
    octets.len() + 2 * REPORT_OCTETS
}

fn length(reports: &[Report]) -> u64 {
    u64::try_from(reports.len()).unwrap_or(u64::MAX)
}

/// The record that tells of these bundles, with runs as long as they can be.
fn encode(endpoints: &Endpoints, reports: &[Report]) -> Bytes {
    let mut sorted: Vec<&Report> = reports.iter().collect();
    sorted.sort_unstable_by_key(|report| (report.group(), report.creation, report.time));
    let groups = sorted
        .chunk_by(|one, next| one.has_group_of(next))
        .filter_map(|reports| {
            let first = reports.first()?;
            let mut group = ReportGroup::new(GroupHead {
                source: endpoints.id(first.source).clone(),
                status: first.kind.status(),
                reason: ReasonCode::from_code(first.reason),
                fragment: first.fragment,
                timing: match first.time {
                    None => Timing::Absent,
                    Some(_) => Timing::Present,
                },
            });
            for report in reports {
                group.push(report.creation, report.time.unwrap_or(DtnTime::UNKNOWN));
            }
            Some(group)
        });
    AdministrativeRecord::AggregatedReport(AggregatedReport::new(groups.collect())).encode()
}
