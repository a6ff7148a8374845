//! Status reports (RFC 9171 6.1.1): made only where the configuration says so, and not more than it says.

use dhow_bundle::admin::{AdministrativeRecord, Assertion, ReasonCode, StatusReport};
use dhow_bundle::storage::Piece;
use dhow_bundle::{BundleBuilder, BundleFlags, BundleId, EndpointId, Header, Instant, Now};

use bytes::{BufMut, Bytes, BytesMut};
use core::time::Duration;

use crate::dispatch::{Arrival, Origin};
use crate::door::Occurrence;
use crate::node::Node;
use crate::transmission::HOP_LIMIT;

/// What a status report says about a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportKind {
    Received,
    Forwarded,
    Delivered,
    Deleted,
}

impl ReportKind {
    /// The flag by which a bundle asks for it (RFC 9171 4.2.3).
    fn flag(self) -> BundleFlags {
        match self {
            Self::Received => BundleFlags::REPORT_RECEPTION,
            Self::Forwarded => BundleFlags::REPORT_FORWARDING,
            Self::Delivered => BundleFlags::REPORT_DELIVERY,
            Self::Deleted => BundleFlags::REPORT_DELETION,
        }
    }
}

/// What a report needs to know of the bundle that it is about.
pub(crate) struct Subject {
    pub(crate) id: BundleId,
    pub(crate) flags: u64,
    pub(crate) report_to: EndpointId,
    pub(crate) lifetime_ms: u64,
}

impl Subject {
    pub(crate) fn of_header(header: &Header) -> Self {
        Self {
            id: header.id(),
            flags: header.primary.flags.bits(),
            report_to: header.primary.report_to.clone(),
            lifetime_ms: header.primary.lifetime_ms,
        }
    }
}

/// How many reports may still be made in this second.
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

    fn take(&mut self, now: Instant) -> bool {
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
        let flags = BundleFlags::from_bits(subject.flags);
        let generated = BundleFlags::from_bits(self.config.reports.generate).contains(kind.flag());
        // RFC 9171 5.1: off by default. 4.2.3: never about administrative records.
        if !generated
            || !flags.contains(kind.flag())
            || flags.contains(BundleFlags::ADMINISTRATIVE_RECORD)
            || subject.report_to.is_null()
        {
            return;
        }
        if !self.report_rate.take(now.monotonic) {
            self.counters.reports_suppressed += 1;
            self.occurred(Occurrence::ReportSuppressed);
            return;
        }
        let timed = flags.contains(BundleFlags::STATUS_TIME_REQUESTED);
        let assertion = |asked: ReportKind| {
            (asked == kind).then_some(Assertion {
                time: timed.then_some(now.dtn),
            })
        };
        let record = AdministrativeRecord::StatusReport(StatusReport {
            received: assertion(ReportKind::Received),
            forwarded: assertion(ReportKind::Forwarded),
            delivered: assertion(ReportKind::Delivered),
            deleted: assertion(ReportKind::Deleted),
            reason: ReasonCode::from_code(reason),
            bundle: subject.id.clone(),
        });
        self.send_record(now, subject, &record.encode());
    }

    /// Send an administrative record to where a bundle's reports go (RFC 9171 6.2).
    fn send_record(&mut self, now: Now, subject: &Subject, payload: &Bytes) {
        let source = self.local.node_id().endpoint().clone();
        let creation = self.next_creation(now, &source);
        let builder = BundleBuilder::new(
            source,
            subject.report_to.clone(),
            creation,
            subject.lifetime_ms,
        )
        .with_report_to(EndpointId::Null)
        .with_flags(BundleFlags::ADMINISTRATIVE_RECORD)
        .with_hop_limit(HOP_LIMIT);
        let header = builder
            .header(u64::try_from(payload.len()).unwrap_or(u64::MAX))
            .ok();
        let Some(header) = header.filter(|header| self.check_room(header.total_octets()).is_ok())
        else {
            self.counters.reports_suppressed += 1;
            self.occurred(Occurrence::ReportSuppressed);
            return;
        };
        let mut crc = header.payload_crc();
        crc.update(payload);
        let trailer = crc.trailer();
        let mut octets =
            BytesMut::with_capacity(header.octets.len() + payload.len() + trailer.len());
        octets.put(header.octets.clone());
        octets.put(payload.clone());
        octets.put(trailer);
        let key = self.hold_new(now, &builder, &header);
        self.arrivals.insert(key, Arrival::new(Origin::Own));
        self.append(key, Piece::Octets(octets.freeze()));
        self.commit(key);
        self.counters.reports += 1;
    }
}
