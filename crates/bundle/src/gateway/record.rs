//! Administrative records: status reports cross, all others are of one version alone.

use super::identity::MS_PER_SECOND;
use super::untranslatable::Untranslatable;
use super::{endpoint, identity};
use crate::id::BundleId;
use crate::time::DtnTime;
use crate::v6::admin as old;
use crate::v7::admin as new;

/// Nanoseconds of a millisecond.
const NS_PER_MS: u64 = 1_000_000;

/// The record of version 7 (RFC 9171 6.1) of one of version 6.
///
/// # Errors
/// Custody is told of, or a number has no place.
pub fn record_to_v7(
    record: &old::AdministrativeRecord,
) -> Result<new::AdministrativeRecord, Untranslatable> {
    use old::AdministrativeRecord as Record;
    let report = match record {
        Record::StatusReport(report) => report,
        Record::CustodySignal(_) => return Err(Untranslatable::CustodySignal),
        Record::AggregateSignal(_) => return Err(Untranslatable::AggregateSignal),
    };
    let [received, custody, forwarded, delivered, deleted] = report.times;
    if custody.is_some() {
        return Err(Untranslatable::CustodyAccepted);
    }
    if report.times.iter().all(Option::is_none) {
        return Err(Untranslatable::EmptyReport);
    }
    let subject = &report.subject;
    Ok(new::AdministrativeRecord::StatusReport(new::StatusReport {
        received: assertion(received)?,
        forwarded: assertion(forwarded)?,
        delivered: assertion(delivered)?,
        deleted: assertion(deleted)?,
        reason: match report.reason {
            code @ 0..=8 => new::ReasonCode::from_code(code.into()),
            _ => new::ReasonCode::NoAdditionalInformation,
        },
        bundle: BundleId {
            source: endpoint::in_v7("source of the bundle", &subject.source)?,
            creation: identity::to_v7(subject.creation)?,
            fragment: subject.fragment,
        },
    }))
}

/// The record of version 6 (RFC 5050 6.1) of one of version 7.
///
/// # Errors
/// It is no status report, or one of nothing, or a number has no place.
pub fn record_to_v6(
    record: &new::AdministrativeRecord,
) -> Result<old::AdministrativeRecord, Untranslatable> {
    use new::AdministrativeRecord as Record;
    let report = match record {
        Record::StatusReport(report) => report,
        Record::AggregatedReport(_) => return Err(Untranslatable::AggregatedReport),
        Record::Other { record_type, .. } => return Err(Untranslatable::RecordType(*record_type)),
    };
    let times = [
        report_time(report.received),
        None,
        report_time(report.forwarded),
        report_time(report.delivered),
        report_time(report.deleted),
    ];
    if times.iter().all(Option::is_none) {
        return Err(Untranslatable::EmptyReport);
    }
    let bundle = &report.bundle;
    Ok(old::AdministrativeRecord::StatusReport(old::StatusReport {
        subject: old::Subject {
            source: endpoint::in_v6("source of the bundle", &bundle.source)?,
            creation: identity::to_v6(bundle.creation)?,
            fragment: bundle.fragment,
        },
        reason: reason_to_v6(report.reason),
        times,
    }))
}

fn assertion(time: Option<old::ReportTime>) -> Result<Option<new::Assertion>, Untranslatable> {
    let Some(old::ReportTime {
        seconds,
        nanoseconds,
    }) = time
    else {
        return Ok(None);
    };
    let time_ms = seconds
        .checked_mul(MS_PER_SECOND)
        .and_then(|ms| ms.checked_add(nanoseconds / NS_PER_MS))
        .ok_or(Untranslatable::ReportTime { seconds })?;
    let time = Some(DtnTime::from_millis(time_ms));
    Ok(Some(new::Assertion { time }))
}

/// Version 6 always tells a time: 0 where it is not known, or was not asked for.
fn report_time(assertion: Option<new::Assertion>) -> Option<old::ReportTime> {
    let time_ms = assertion?.time.map_or(0, DtnTime::as_millis);
    Some(old::ReportTime {
        seconds: time_ms / MS_PER_SECOND,
        nanoseconds: time_ms % MS_PER_SECOND * NS_PER_MS,
    })
}

/// RFC 5050 6.1.1 has the codes 0 to 8.
fn reason_to_v6(reason: new::ReasonCode) -> u8 {
    match reason {
        new::ReasonCode::BlockUnsupported => 8,
        reason => {
            let code = u8::try_from(reason.code()).ok();
            code.filter(|code| *code <= 8).unwrap_or(0)
        }
    }
}
