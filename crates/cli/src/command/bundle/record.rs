//! The content of an administrative record, as JSON and as people read it.

use std::fmt::Write as _;

use dhow_bundle::v7::admin::{
    AdministrativeRecord, Assertion, ReportGroup, Run, Status, StatusReport, Timing,
};
use serde_json::{Value, json};

use crate::digest::hexadecimal;
use crate::{calendar, quantity};

fn assertions(report: &StatusReport) -> [(&'static str, Option<Assertion>); 4] {
    [
        ("received", report.received),
        ("forwarded", report.forwarded),
        ("delivered", report.delivered),
        ("deleted", report.deleted),
    ]
}

pub fn record_value(record: &AdministrativeRecord) -> Value {
    match record {
        AdministrativeRecord::StatusReport(report) => {
            let mut value = json!({
                "type": 1,
                "reason": report.reason.code(),
                "source": report.bundle.source.to_string(),
                "creation": [report.bundle.creation.time.as_millis(), report.bundle.creation.sequence],
                "fragment": report.bundle.fragment.map(|range| json!({"offset": range.offset, "octets": range.length})),
            });
            for (name, assertion) in assertions(report) {
                let told = assertion.map_or(
                    Value::Null,
                    |assertion| json!({"time": assertion.time.map(|time| time.as_millis())}),
                );
                if let Some(object) = value.as_object_mut() {
                    object.insert(name.to_owned(), told);
                }
            }
            value
        }
        AdministrativeRecord::AggregatedReport(report) => json!({
            "type": 64836,
            "groups": report.groups().iter().map(group_value).collect::<Vec<_>>(),
        }),
        AdministrativeRecord::Other {
            record_type,
            content,
        } => json!({"type": record_type, "content": hexadecimal(content)}),
    }
}

pub fn record_text(record: &AdministrativeRecord) -> String {
    match record {
        AdministrativeRecord::StatusReport(report) => {
            let mut text = format!("status report on bundle {}\n", report.bundle);
            for (name, assertion) in assertions(report) {
                let Some(assertion) = assertion else { continue };
                let when = assertion
                    .time
                    .map_or_else(|| "time not reported".to_owned(), calendar::utc);
                let _ = writeln!(text, "  {name:12} {when}");
            }
            let _ = writeln!(text, "  {:12} {}", "reason", report.reason);
            text
        }
        AdministrativeRecord::AggregatedReport(report) => {
            let bundles = report.groups().iter().map(bundles).sum();
            let mut text = format!("reports on {} bundles\n", quantity::thousands(bundles));
            for group in report.groups() {
                write_group(&mut text, group);
            }
            text
        }
        AdministrativeRecord::Other {
            record_type,
            content,
        } => {
            format!(
                "administrative record of type {record_type}, {} octets\n",
                quantity::thousands(u64::try_from(content.len()).unwrap_or(u64::MAX))
            )
        }
    }
}

fn bundles(group: &ReportGroup) -> u64 {
    group.runs().iter().map(|run| run.count).sum()
}

const fn status_name(status: Status) -> &'static str {
    match status {
        Status::Received => "received",
        Status::Forwarded => "forwarded",
        Status::Delivered => "delivered",
        Status::Deleted => "deleted",
    }
}

/// When the status of a run's bundles came to be, where the group tells.
fn told(group: &ReportGroup, run: &Run) -> Option<dhow_bundle::DtnTime> {
    (group.head().timing == Timing::Present).then_some(run.time)
}

fn group_value(group: &ReportGroup) -> Value {
    let head = group.head();
    let runs = group.runs().iter().map(|run| {
        json!({
            "creation": [run.first.time.as_millis(), run.first.sequence],
            "count": run.count,
            "time": told(group, run).map(|time| time.as_millis()),
        })
    });
    json!({
        "status": status_name(head.status),
        "reason": head.reason.code(),
        "source": head.source.to_string(),
        "fragment": head.fragment.map(|range| json!({"offset": range.offset, "octets": range.length})),
        "runs": runs.collect::<Vec<_>>(),
    })
}

fn write_group(text: &mut String, group: &ReportGroup) {
    let head = group.head();
    let _ = write!(
        text,
        "  {:12} {} of {}, {}",
        status_name(head.status),
        quantity::thousands(bundles(group)),
        head.source,
        head.reason
    );
    if let Some(range) = head.fragment {
        let _ = write!(
            text,
            ", fragments at {} of {} octets",
            quantity::thousands(range.offset),
            quantity::thousands(range.length)
        );
    }
    text.push('\n');
    for run in group.runs() {
        let first = run.first;
        let _ = write!(
            text,
            "  {:12} {}/{}",
            "",
            first.time.as_millis(),
            first.sequence
        );
        if run.count > 1 {
            let last = first.sequence.saturating_add(run.count - 1);
            let _ = write!(text, " to {last}");
        }
        if let Some(time) = told(group, run) {
            let _ = write!(text, ", {}", calendar::utc(time));
        }
        text.push('\n');
    }
}
