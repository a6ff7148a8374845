//! The description of a decoded bundle of version 6, as JSON and as people read it.

use std::fmt::Write as _;

use dhow_bundle::gateway::GATEWAY_BLOCK_V6;
use dhow_bundle::gateway::remembered::Remembered;
use dhow_bundle::v6::admin::{
    AdministrativeRecord, ReportTime, STATUSES, Subject, report_reason, signal_reason,
};
use dhow_bundle::v6::{Block, BlockType, Header, Priority, Trailer};
use dhow_bundle::{ClassOfService, DtnTime};
use serde::Serialize;
use serde_json::{Value, json};

use super::description::class_content;
use super::gateway;
use crate::table::{Align, Table};
use crate::{calendar, names, quantity};

/// A bundle as `--json` shows it; the names are a contract.
#[derive(Debug, Serialize)]
pub struct Version6 {
    /// Always true: of a bundle that is refused there is no description.
    accepted: bool,
    version: u8,
    source: String,
    destination: String,
    report_to: String,
    custodian: String,
    /// Creation time in seconds since 2000 and sequence number.
    creation: [u64; 2],
    lifetime_s: u64,
    priority: &'static str,
    flags: u64,
    /// Null unless it is a fragment.
    fragment: Option<Fragment>,
    /// The blocks after the primary block, in their order.
    blocks: Vec<Described>,
    payload_octets: u64,
    payload_sha256: String,
    /// The administrative record, if the payload is one.
    record: Option<Value>,
    #[serde(skip)]
    total_octets: u64,
    #[serde(skip)]
    said: String,
}

#[derive(Debug, Serialize)]
struct Fragment {
    offset: u64,
    total_adu_octets: u64,
}

#[derive(Debug, Serialize)]
struct Described {
    #[serde(rename = "type")]
    block_type: u8,
    flags: u64,
    /// Octets of data.
    octets: u64,
    /// Endpoint IDs that it refers to.
    references: Vec<String>,
    /// The block's content, where this program knows the type; null otherwise.
    content: Value,
    #[serde(skip)]
    said: String,
}

impl Version6 {
    /// Describes a bundle that was accepted.
    pub fn new(
        header: &Header,
        trailer: &Trailer,
        payload_sha256: String,
        record: Option<&AdministrativeRecord>,
    ) -> Self {
        let primary = &header.primary;
        let described = |block| Described::new(header, block);
        let mut blocks: Vec<Described> = header.blocks.iter().map(described).collect();
        blocks.push(Described {
            block_type: BlockType::PAYLOAD.0,
            flags: header.payload_flags.bits(),
            octets: header.payload_octets,
            references: Vec::new(),
            content: Value::Null,
            said: quantity::size(header.payload_octets),
        });
        blocks.extend(trailer.blocks.iter().map(described));
        let beside = header.octets.len().saturating_add(trailer.octets);
        Self {
            accepted: true,
            version: 6,
            source: primary.source.to_string(),
            destination: primary.destination.to_string(),
            report_to: primary.report_to.to_string(),
            custodian: primary.custodian.to_string(),
            creation: [primary.creation.seconds, primary.creation.sequence],
            lifetime_s: primary.lifetime_s,
            priority: match primary.flags.priority() {
                Priority::Bulk => "bulk",
                Priority::Normal => "normal",
                Priority::Expedited => "expedited",
                Priority::Reserved => "reserved",
            },
            flags: primary.flags.bits(),
            fragment: primary.fragment.map(|place| Fragment {
                offset: place.offset,
                total_adu_octets: place.total_adu_octets,
            }),
            blocks,
            payload_octets: header.payload_octets,
            payload_sha256,
            record: record.map(record_value),
            total_octets: header
                .payload_octets
                .saturating_add(u64::try_from(beside).unwrap_or(u64::MAX)),
            said: record.map(record_text).unwrap_or_default(),
        }
    }

    /// The bundle as people read it.
    pub fn text(&self) -> String {
        let [seconds, sequence] = self.creation;
        let created = time_of(seconds, 0);
        let mut text = format!(
            "bundle {}/{seconds}/{sequence}, version 6, {} octets\n",
            self.source,
            quantity::thousands(self.total_octets)
        );
        let mut lifetime = quantity::span(self.lifetime_s.saturating_mul(1_000));
        if created.is_known() {
            let end = created.saturating_add_millis(self.lifetime_s.saturating_mul(1_000));
            let _ = write!(lifetime, ", until {}", calendar::utc(end));
        }
        let flags = names::flags(self.flags & !PRIORITY_BITS, &names::VERSION_6_BUNDLE_FLAGS);
        let mut lines = vec![
            ("source", self.source.clone()),
            ("destination", self.destination.clone()),
            ("report to", self.report_to.clone()),
            ("custodian", self.custodian.clone()),
            (
                "created",
                format!("{}, sequence {sequence}", calendar::utc(created)),
            ),
            ("lifetime", lifetime),
            ("priority", self.priority.to_owned()),
            (
                "flags",
                match flags.is_empty() {
                    true => "none".to_owned(),
                    false => format!("{flags} ({:#x})", self.flags),
                },
            ),
        ];
        if let Some(Fragment {
            offset,
            total_adu_octets,
        }) = &self.fragment
        {
            let end = offset.saturating_add(self.payload_octets);
            lines.push((
                "fragment",
                format!("octets {offset} to {end} of {total_adu_octets}"),
            ));
        }
        for (name, value) in lines {
            let _ = writeln!(text, "  {name:12} {value}");
        }
        let columns = [
            ("TYPE", Align::Right),
            ("", Align::Left),
            ("CONTENT", Align::Left),
            ("FLAGS", Align::Left),
        ];
        let mut table = Table::new(&columns);
        for block in &self.blocks {
            table.push(vec![
                block.block_type.to_string(),
                BlockType(block.block_type).to_string(),
                block.said.clone(),
                names::flags(block.flags, &names::VERSION_6_BLOCK_FLAGS),
            ]);
        }
        text.push_str(&table.render(2));
        let _ = writeln!(
            text,
            "  {:12} {} octets, SHA-256 {}",
            "payload",
            quantity::thousands(self.payload_octets),
            self.payload_sha256
        );
        text.push_str(&self.said);
        text
    }
}

/// Bits of the class of service, which is shown by itself (RFC 5050 4.2).
const PRIORITY_BITS: u64 = 3 << 7;

impl Described {
    fn new(header: &Header, block: &Block) -> Self {
        let octets = u64::try_from(block.content.len()).unwrap_or(u64::MAX);
        let known = match block.block_type {
            BlockType::PREVIOUS_HOP => block.previous_hop(&header.dictionary).map(|node| {
                let node = node.to_string();
                (json!(node), node)
            }),
            BlockType::CUSTODY_OR_AGE => block
                .age_us()
                .map(|age| (json!({"age_us": age}), quantity::span(age / 1_000)))
                .or_else(|| {
                    let (id, custodian) = block.custody_id()?;
                    let custodian = custodian.to_string();
                    let said = format!("custody {id} of {custodian}");
                    Some((json!({"custody_id": id, "custodian": custodian}), said))
                }),
            BlockType::AGE => block
                .age_us()
                .map(|age| (json!({"age_us": age}), quantity::span(age / 1_000))),
            BlockType::EXTENDED_CLASS => {
                let class =
                    ClassOfService::of_v6(header.primary.flags, core::slice::from_ref(block));
                Some(class_content(class))
            }
            GATEWAY_BLOCK_V6 => {
                Remembered::in_v6(&block.content).map(|known| gateway::content(&known))
            }
            _ => None,
        };
        let (content, said) = known.unwrap_or_else(|| (Value::Null, quantity::size(octets)));
        let references = block.references.iter().map(|reference| {
            let endpoint = header.dictionary.endpoint("reference", *reference);
            endpoint.map_or_else(
                |refusal| refusal.to_string(),
                |endpoint| endpoint.to_string(),
            )
        });
        Self {
            block_type: block.block_type.0,
            flags: block.flags.bits(),
            octets,
            references: references.collect(),
            content,
            said,
        }
    }
}

/// A moment of version 6.
fn time_of(seconds: u64, nanoseconds: u64) -> DtnTime {
    let milliseconds = seconds.saturating_mul(1_000);
    DtnTime::from_millis(milliseconds.saturating_add(nanoseconds / 1_000_000))
}

fn time_value(time: ReportTime) -> Value {
    json!([time.seconds, time.nanoseconds])
}

fn subject_value(subject: &Subject) -> Value {
    json!({
        "source": subject.source.to_string(),
        "creation": [subject.creation.seconds, subject.creation.sequence],
        "fragment": subject.fragment.map(|range| json!({"offset": range.offset, "octets": range.length})),
    })
}

fn record_value(record: &AdministrativeRecord) -> Value {
    match record {
        AdministrativeRecord::StatusReport(report) => {
            let mut value = json!({
                "type": 1,
                "reason": report.reason,
                "bundle": subject_value(&report.subject),
            });
            if let Some(object) = value.as_object_mut() {
                for (name, time) in STATUSES.into_iter().zip(report.times) {
                    object.insert(name.to_owned(), time.map_or(Value::Null, time_value));
                }
            }
            value
        }
        AdministrativeRecord::CustodySignal(signal) => json!({
            "type": 2,
            "succeeded": signal.is_success,
            "reason": signal.reason,
            "time": time_value(signal.time),
            "bundle": subject_value(&signal.subject),
        }),
        AdministrativeRecord::AggregateSignal(signal) => json!({
            "type": 4,
            "succeeded": signal.is_success,
            "reason": signal.reason,
            "custody_ids": signal.runs,
        }),
    }
}

fn subject_text(subject: &Subject) -> String {
    let creation = subject.creation;
    let fragment = subject.fragment.map_or_else(String::new, |range| {
        format!("@{}+{}", range.offset, range.length)
    });
    format!(
        "{}/{}/{}{fragment}",
        subject.source, creation.seconds, creation.sequence
    )
}

/// The name of a reason, or its code.
fn reason_text(code: u8, name: fn(u8) -> Option<&'static str>) -> String {
    name(code).map_or_else(|| format!("reason {code}"), str::to_owned)
}

fn record_text(record: &AdministrativeRecord) -> String {
    let outcome = |is_success| match is_success {
        true => "custody taken",
        false => "custody refused",
    };
    match record {
        AdministrativeRecord::StatusReport(report) => {
            let subject = subject_text(&report.subject);
            let mut text = format!("status report on bundle {subject}\n");
            for (name, time) in STATUSES.into_iter().zip(report.times) {
                let Some(time) = time else { continue };
                let when = calendar::utc(time_of(time.seconds, time.nanoseconds));
                let _ = writeln!(text, "  {name:12} {when}");
            }
            let reason = reason_text(report.reason, report_reason);
            let _ = writeln!(text, "  {:12} {reason}", "reason");
            text
        }
        AdministrativeRecord::CustodySignal(signal) => format!(
            "custody signal on bundle {}\n  {:12} {}\n  {:12} {}\n",
            subject_text(&signal.subject),
            "outcome",
            outcome(signal.is_success),
            "reason",
            reason_text(signal.reason, signal_reason)
        ),
        AdministrativeRecord::AggregateSignal(signal) => {
            let runs: Vec<String> = signal
                .runs
                .iter()
                .map(|(first, last)| format!("{first} to {last}"))
                .collect();
            format!(
                "aggregate custody signal\n  {:12} {}\n  {:12} {}\n  {:12} {}\n",
                "outcome",
                outcome(signal.is_success),
                "reason",
                reason_text(signal.reason, signal_reason),
                "custody IDs",
                runs.join(", ")
            )
        }
    }
}
