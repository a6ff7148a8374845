//! The ends of the bundles that were sent, as status reports tell them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use dhow_bundle::v7::admin::StatusReport;
use dhow_bundle::{CreationTimestamp, DtnTime, EndpointId};
use serde::Serialize;

use crate::failure::Failure;

/// Reports kept that came before the node's answer to their bundle; more than can be unanswered.
const EARLY_MAX: usize = 65_536;

/// Bundles that are named one by one: those without a report, and those deleted.
const NAMED_MAX: usize = 10;

/// The end of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// The bundle was delivered.
    Delivered,
    /// A node deleted the bundle.
    Deleted,
    /// No report said either before it expired.
    Unreported,
}

/// The end of one bundle, as `--json` shows it; the names are a contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The kind of end.
    pub event: Fate,
    source: String,
    creation: [u64; 2],
    /// The node that reported it.
    at: Option<String>,
    /// DTN milliseconds by that node's clock, where it tells.
    time_dtn_ms: Option<u64>,
    /// RFC 9171 9.5.
    reason: Option<u64>,
    reason_text: Option<String>,
}

impl Outcome {
    fn unreported(source: &str, creation: CreationTimestamp) -> Self {
        Self {
            event: Fate::Unreported,
            source: source.to_owned(),
            creation: [creation.time.as_millis(), creation.sequence],
            at: None,
            time_dtn_ms: None,
            reason: None,
            reason_text: None,
        }
    }

    /// The end of its bundle that a report tells of; `None` when it tells of no end.
    pub fn told(report: &StatusReport, reporter: &EndpointId) -> Option<Self> {
        let (event, assertion) = match (report.delivered, report.deleted) {
            (Some(delivered), _) => (Fate::Delivered, delivered),
            (None, Some(deleted)) => (Fate::Deleted, deleted),
            (None, None) => return None,
        };
        let creation = report.bundle.creation;
        Some(Self {
            event,
            source: report.bundle.source.to_string(),
            creation: [creation.time.as_millis(), creation.sequence],
            at: Some(reporter.to_string()),
            time_dtn_ms: assertion
                .time
                .filter(|time| time.is_known())
                .map(DtnTime::as_millis),
            reason: Some(report.reason.code()),
            reason_text: Some(report.reason.to_string()),
        })
    }

    /// The outcome as people read it: `ipn:1.5/812/3 was deleted at ipn:13.0: lifetime expired`.
    pub fn text(&self) -> String {
        let [time, sequence] = self.creation;
        let at = self.at.as_deref().unwrap_or("an unknown node");
        let id = format!("{}/{time}/{sequence}", self.source);
        match self.event {
            Fate::Delivered => format!("{id} was delivered at {at}"),
            Fate::Deleted => format!(
                "{id} was deleted at {at}: {}",
                self.reason_text.as_deref().unwrap_or_default()
            ),
            Fate::Unreported => format!("no report came on {id}"),
        }
    }
}

/// The ends of all bundles that are known so far.
#[derive(Debug, Default)]
pub struct Fates {
    source: String,
    /// Sent and not reported on.
    open: HashSet<CreationTimestamp>,
    /// Reported on before the node's answer to their sending came.
    early: HashMap<CreationTimestamp, Outcome>,
    /// Reported deleted, and not delivered by another way.
    deleted: BTreeMap<CreationTimestamp, Outcome>,
    /// Ends that nobody was told of yet.
    news: VecDeque<Outcome>,
    sent: u64,
    delivered: u64,
    /// Whether any report at all came on a bundle of this source.
    is_heard_of: bool,
    /// Why no more reports can come.
    pub failure: Option<Failure>,
}

impl Fates {
    /// The node has this bundle: a report on it is expected.
    pub fn expect(&mut self, source: &EndpointId, creation: CreationTimestamp) {
        if self.sent == 0 {
            self.source = source.to_string();
        }
        self.sent += 1;
        self.open.insert(creation);
        if let Some(outcome) = self.early.remove(&creation) {
            self.settle(creation, outcome);
        }
    }

    /// A report came at the endpoint `here`.
    pub fn reported(&mut self, report: &StatusReport, reporter: &EndpointId, here: &EndpointId) {
        // The endpoint may have sent others before, or somebody may send reports on foreign bundles.
        if report.bundle.source != *here {
            return;
        }
        self.is_heard_of = true;
        // A fragment is not the bundle: another copy of it may arrive.
        if report.bundle.fragment.is_some() {
            return;
        }
        let Some(outcome) = Outcome::told(report, reporter) else {
            return;
        };
        let creation = report.bundle.creation;
        if self.open.contains(&creation) || self.deleted.contains_key(&creation) {
            self.settle(creation, outcome);
        } else if self.early.len() < EARLY_MAX {
            let known = self.early.get(&creation).map(|known| known.event);
            if known != Some(Fate::Delivered) {
                self.early.insert(creation, outcome);
            }
        }
    }

    fn settle(&mut self, creation: CreationTimestamp, outcome: Outcome) {
        let was_open = self.open.remove(&creation);
        match outcome.event {
            Fate::Delivered => {
                self.deleted.remove(&creation);
                self.delivered += 1;
            }
            _ if was_open => {
                self.deleted.insert(creation, outcome.clone());
            }
            // Known already.
            _ => return,
        }
        self.news.push_back(outcome);
    }

    /// The next outcome that nobody was told.
    pub fn poll_news(&mut self) -> Option<Outcome> {
        self.news.pop_front()
    }

    /// The bundles that nothing was heard of, in their order.
    pub fn unreported(&self) -> impl Iterator<Item = Outcome> {
        let mut creations: Vec<CreationTimestamp> = self.open.iter().copied().collect();
        creations.sort();
        let source = self.source.clone();
        creations
            .into_iter()
            .map(move |creation| Outcome::unreported(&source, creation))
    }

    /// Bundles that the node took.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Bundles reported delivered.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Bundles reported delivered or deleted.
    pub fn settled(&self) -> u64 {
        self.sent
            .saturating_sub(u64::try_from(self.open.len()).unwrap_or(u64::MAX))
    }

    /// True when every bundle is delivered or deleted.
    pub fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// True once any report came on a bundle of this source.
    pub const fn is_heard_of(&self) -> bool {
        self.is_heard_of
    }

    /// The number of bundles with each end, for people: `3 of 10 bundles are reported delivered, 1 deleted, 6 open`.
    pub fn standing(&self) -> String {
        let deleted = if self.deleted.is_empty() {
            String::new()
        } else {
            format!(", {} deleted", self.deleted.len())
        };
        format!(
            "{} of {} bundles are reported delivered{deleted}, {} open",
            self.delivered,
            self.sent,
            self.open.len()
        )
    }

    /// The bundles that were not delivered, each with its end, for people.
    pub fn complaint(&self) -> String {
        let mut text = String::new();
        for outcome in self.deleted.values().take(NAMED_MAX) {
            text.push_str("; ");
            text.push_str(&outcome.text());
        }
        if let Some(more @ 1..) = self.deleted.len().checked_sub(NAMED_MAX) {
            text.push_str(&format!("; {more} more were deleted"));
        }
        let open: Vec<String> = self
            .unreported()
            .take(NAMED_MAX)
            .map(
                |Outcome {
                     creation: [time, sequence],
                     ..
                 }| format!("{time}/{sequence}"),
            )
            .collect();
        if !open.is_empty() {
            let more = if self.open.len() > NAMED_MAX {
                ", ..."
            } else {
                ""
            };
            text.push_str(&format!("; no report on: {}{more}", open.join(", ")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::BundleId;
    use dhow_bundle::v7::admin::{Assertion, ReasonCode};

    use super::*;

    fn creation(sequence: u64) -> CreationTimestamp {
        CreationTimestamp {
            time: DtnTime::from_millis(1000),
            sequence,
        }
    }

    fn endpoint(text: &str) -> EndpointId {
        text.parse().unwrap()
    }

    fn report(fate: Fate, source: &EndpointId, sequence: u64) -> StatusReport {
        let assertion = |when: Fate| {
            (fate == when).then_some(Assertion {
                time: Some(DtnTime::from_millis(5000)),
            })
        };
        StatusReport {
            received: None,
            forwarded: None,
            delivered: assertion(Fate::Delivered),
            deleted: assertion(Fate::Deleted),
            reason: if fate == Fate::Deleted {
                ReasonCode::LifetimeExpired
            } else {
                ReasonCode::NoAdditionalInformation
            },
            bundle: BundleId {
                source: source.clone(),
                creation: creation(sequence),
                fragment: None,
            },
        }
    }

    #[test]
    fn a_report_counts_once_whether_it_comes_before_or_after_the_answer() {
        let (here, there) = (endpoint("ipn:1.5"), endpoint("ipn:13.0"));
        let mut fates = Fates::default();
        fates.expect(&here, creation(1));
        for (fate, sequence) in [
            (Fate::Delivered, 1),
            (Fate::Delivered, 2),
            (Fate::Delivered, 1),
            (Fate::Delivered, 2),
            (Fate::Deleted, 4),
            (Fate::Deleted, 4),
        ] {
            fates.reported(&report(fate, &here, sequence), &there, &here);
        }
        for sequence in 2..=4 {
            fates.expect(&here, creation(sequence));
        }
        assert_eq!(
            fates.standing(),
            "2 of 4 bundles are reported delivered, 1 deleted, 1 open"
        );
        let told: Vec<Fate> = std::iter::from_fn(|| fates.poll_news())
            .map(|outcome| outcome.event)
            .collect();
        assert_eq!(told, [Fate::Delivered, Fate::Delivered, Fate::Deleted]);
    }

    #[test]
    fn a_deletion_settles_its_bundle_with_place_and_reason() {
        let (here, there) = (endpoint("ipn:1.5"), endpoint("ipn:13.0"));
        let mut fates = Fates::default();
        fates.expect(&here, creation(1));
        fates.reported(&report(Fate::Deleted, &here, 1), &there, &here);
        assert!(fates.is_settled());
        assert_eq!(
            fates.complaint(),
            "; ipn:1.5/1000/1 was deleted at ipn:13.0: lifetime expired"
        );
        let outcome = fates.poll_news().unwrap();
        assert_eq!(
            serde_json::to_value(&outcome).unwrap(),
            serde_json::json!({
                "event": "deleted", "source": "ipn:1.5", "creation": [1000, 1], "at": "ipn:13.0",
                "time_dtn_ms": 5000, "reason": 1, "reason_text": "lifetime expired"
            })
        );
    }

    #[test]
    fn a_bundle_deleted_in_one_place_and_delivered_in_another_is_delivered() {
        let (here, there) = (endpoint("ipn:1.5"), endpoint("ipn:13.0"));
        let mut fates = Fates::default();
        fates.expect(&here, creation(1));
        for fate in [Fate::Deleted, Fate::Delivered, Fate::Deleted] {
            fates.reported(&report(fate, &here, 1), &there, &here);
        }
        assert_eq!((fates.delivered(), fates.complaint().as_str()), (1, ""));
    }

    #[test]
    fn reports_on_bundles_of_another_source_do_not_count() {
        let (here, elsewhere) = (endpoint("ipn:1.5"), endpoint("ipn:9.5"));
        let mut fates = Fates::default();
        fates.expect(&here, creation(1));
        fates.reported(&report(Fate::Delivered, &elsewhere, 1), &elsewhere, &here);
        assert_eq!(
            (fates.delivered(), fates.complaint().as_str()),
            (0, "; no report on: 1000/1")
        );
        assert!(!fates.is_heard_of());
    }
}
