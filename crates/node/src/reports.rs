//! Status reports (RFC 9171 6.1.1): made only where the configuration says so, and not more than it says.

use dhow_bundle::gateway::identity;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::v7::admin::{AdministrativeRecord, Assertion, ReasonCode, Status, StatusReport};
use dhow_bundle::{BundleFlags, BundleId, DtnTime, EndpointId, Header, Instant, Now, Version, v6};

use bytes::Bytes;
use core::time::Duration;

use crate::node::Node;

/// The event in a bundle's life that a status report tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReportKind {
    Received,
    /// This node became its custodian (RFC 5050 5.10): of bundles of version 6 alone.
    Accepted,
    Forwarded,
    Delivered,
    Deleted,
}

impl ReportKind {
    /// The flag by which a bundle asks for it (RFC 9171 4.2.3).
    pub(crate) fn flag(self) -> BundleFlags {
        match self {
            Self::Received => BundleFlags::REPORT_RECEPTION,
            Self::Accepted => BundleFlags::from_bits(v6::BundleFlags::REPORT_CUSTODY.bits()),
            Self::Forwarded => BundleFlags::REPORT_FORWARDING,
            Self::Delivered => BundleFlags::REPORT_DELIVERY,
            Self::Deleted => BundleFlags::REPORT_DELETION,
        }
    }

    pub(crate) fn status(self) -> Status {
        match self {
            // Version 7 has no word for custody: a report of it is of version 6.
            Self::Received | Self::Accepted => Status::Received,
            Self::Forwarded => Status::Forwarded,
            Self::Delivered => Status::Delivered,
            Self::Deleted => Status::Deleted,
        }
    }
}

/// The properties of a bundle that a report on it needs.
pub(crate) struct Subject {
    pub(crate) id: BundleId,
    /// Its version, which the report is of as well.
    pub(crate) version: Version,
    /// Bundle processing control flags (RFC 9171 4.2.3, RFC 5050 4.2).
    pub(crate) flags: u64,
    pub(crate) reads_aggregated_reports: bool,
    pub(crate) report_to: EndpointId,
    pub(crate) lifetime_ms: u64,
    /// When it expires; a report on it does not wait for longer.
    pub(crate) expires: Instant,
}

/// Whether a bundle asks for reports, and says that its report-to endpoint reads aggregated ones.
pub(crate) fn aggregates(header: &Header) -> bool {
    let flags = header.primary.flags;
    flags.intersects(BundleFlags::ALL_REPORTS) && header.reads_aggregated_reports()
}

/// Reasons of version 6 are those of version 7 up to this one, "block unintelligible" (RFC 5050 6.1.1); a block that is not supported is
/// one of those.
const BLOCK_UNINTELLIGIBLE: u8 = 8;

/// "Hop limit exceeded" (RFC 9171 9.5), of which version 6 knows nothing.
const HOP_LIMIT_EXCEEDED: u64 = 9;

/// "Traffic pared" (RFC 9171 9.5), likewise.
const TRAFFIC_PARED: u64 = 10;

/// A reason of version 7 as one of version 6.
fn reason_v6(reason: u64) -> u8 {
    match reason {
        HOP_LIMIT_EXCEEDED | TRAFFIC_PARED => 0,
        reason => u8::try_from(reason).map_or(0, |reason| reason.min(BLOCK_UNINTELLIGIBLE)),
    }
}

/// A moment as reports of version 6 tell it.
pub(crate) fn report_time(at: DtnTime) -> v6::admin::ReportTime {
    let ms = at.as_millis();
    v6::admin::ReportTime {
        seconds: ms / 1_000,
        nanoseconds: ms % 1_000 * 1_000_000,
    }
}

/// An administrative record on its way into a bundle.
pub(crate) struct Parcel {
    /// The version of both.
    pub(crate) version: Version,
    pub(crate) report_to: EndpointId,
    pub(crate) lifetime_ms: u64,
    pub(crate) record: Bytes,
}

impl Subject {
    pub(crate) fn of_header(header: &Header) -> Self {
        Self {
            id: header.id(),
            version: header.version(),
            flags: header.primary.flags.bits(),
            reads_aggregated_reports: aggregates(header),
            report_to: header.primary.report_to.clone(),
            lifetime_ms: header.primary.lifetime_ms,
            // It may go no further than here.
            expires: Instant::START,
        }
    }
}

/// The number of reports that may still be made in this second.
pub(crate) struct ReportRate {
    per_second: u32,
    left: u32,
    since: Instant,
}

impl ReportRate {
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            per_second,
            left: per_second,
            since: Instant::START,
        }
    }

    pub(crate) fn take(&mut self, now: Instant) -> bool {
        if now - self.since >= Duration::from_secs(1) {
            self.since = now;
            self.left = self.per_second;
        }
        let granted = self.left > 0;
        self.left = self.left.saturating_sub(1);
        granted
    }
}

impl Node {
    /// Report on a bundle where it asks for it and this node may.
    pub(crate) fn report(&mut self, now: Now, subject: &Subject, kind: ReportKind, reason: u64) {
        if self.held.reports_on(&self.config, subject.flags, kind) {
            self.report_asked(now, subject, kind, reason);
        }
    }

    /// Report on a bundle of which something asks for it, if this node may.
    pub(crate) fn report_asked(
        &mut self,
        now: Now,
        subject: &Subject,
        kind: ReportKind,
        reason: u64,
    ) {
        let flags = BundleFlags::from_bits(subject.flags);
        let generated = BundleFlags::from_bits(self.config.reports.generate).contains(kind.flag());
        // RFC 9171 5.1: off by default. 4.2.3: never about administrative records.
        if !generated
            || flags.contains(BundleFlags::ADMINISTRATIVE_RECORD)
            || subject.report_to.is_null()
        {
            return;
        }
        // RFC 5050 6.1.1: each assertion has its time.
        let has_time =
            subject.version == Version::V6 || flags.contains(BundleFlags::STATUS_TIME_REQUESTED);
        let time = has_time.then_some(now.dtn);
        let is_taken = if subject.reads_aggregated_reports && self.config.reports.collect_ms > 0 {
            self.collect(now, subject, kind, reason, time)
        } else {
            self.send_report(now, subject, kind, reason, time)
        };
        if !is_taken {
            self.suppress(1);
        }
    }

    /// Send a status report in a bundle of its own; false when it may not be, or has no room.
    fn send_report(
        &mut self,
        now: Now,
        subject: &Subject,
        kind: ReportKind,
        reason: u64,
        time: Option<DtnTime>,
    ) -> bool {
        if !self.reporting.report_rate.take(now.monotonic) {
            return false;
        }
        let kind = match kind {
            ReportKind::Received if planted(Mutant::StatusOfReport) => ReportKind::Forwarded,
            kind => kind,
        };
        if subject.version == Version::V6 {
            return self.send_report_v6(now, subject, kind, reason);
        }
        let assertion = |asked: ReportKind| (asked == kind).then_some(Assertion { time });
        let record = AdministrativeRecord::StatusReport(StatusReport {
            received: assertion(ReportKind::Received),
            forwarded: assertion(ReportKind::Forwarded),
            delivered: assertion(ReportKind::Delivered),
            deleted: assertion(ReportKind::Deleted),
            reason: ReasonCode::from_code(if planted(Mutant::ReasonOfReport) {
                0
            } else {
                reason
            }),
            bundle: match planted(Mutant::SubjectOfReport) {
                true => BundleId {
                    fragment: None,
                    ..subject.id.clone()
                },
                false => subject.id.clone(),
            },
        });
        let parcel = Parcel {
            version: Version::V7,
            report_to: match planted(Mutant::ReportToSource) {
                true => subject.id.source.clone(),
                false => subject.report_to.clone(),
            },
            lifetime_ms: subject.lifetime_ms,
            record: record.encode(),
        };
        let is_sent = self.send_record(now, parcel).is_some();
        self.outbox.counters.reports += u64::from(is_sent);
        is_sent
    }

    /// The same of a bundle of version 6 (RFC 5050 6.1.1).
    fn send_report_v6(
        &mut self,
        now: Now,
        subject: &Subject,
        kind: ReportKind,
        reason: u64,
    ) -> bool {
        let Ok(creation) = identity::to_v6(subject.id.creation) else {
            return false;
        };
        let time = |asked: ReportKind| (asked == kind).then(|| report_time(now.dtn));
        let report = v6::admin::StatusReport {
            subject: v6::admin::Subject {
                source: subject.id.source.clone(),
                creation,
                fragment: subject.id.fragment,
            },
            reason: reason_v6(reason),
            times: [
                time(ReportKind::Received),
                time(ReportKind::Accepted),
                time(ReportKind::Forwarded),
                time(ReportKind::Delivered),
                time(ReportKind::Deleted),
            ],
        };
        let parcel = Parcel {
            version: Version::V6,
            report_to: subject.report_to.clone(),
            lifetime_ms: subject.lifetime_ms,
            record: v6::admin::AdministrativeRecord::StatusReport(report)
                .encode()
                .into(),
        };
        let is_sent = self.send_record(now, parcel).is_some();
        self.outbox.counters.reports += u64::from(is_sent);
        is_sent
    }
}
