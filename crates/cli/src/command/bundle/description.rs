//! The description of a decoded bundle, as JSON and as people read it.

use std::fmt::Write as _;

use dhow_bundle::gateway::GATEWAY_BLOCK_V7;
use dhow_bundle::gateway::remembered::Remembered;
use dhow_bundle::v7::admin::AdministrativeRecord;
use dhow_bundle::v7::block::{BlockType, ExtensionBlock};
use dhow_bundle::{ClassOfService, CrcType, CreationTimestamp, Deviation, Header};
use serde::Serialize;
use serde_json::{Value, json};

use super::gateway;
use super::record::{record_text, record_value};

use crate::table::{Align, Table};
use crate::{calendar, names, quantity};

/// A bundle as `--json` shows it; the names are a contract.
#[derive(Debug, Serialize)]
pub struct Description {
    /// Always true: of a bundle that is refused there is no description.
    accepted: bool,
    version: u64,
    source: String,
    destination: String,
    report_to: String,
    /// Creation time in DTN milliseconds and sequence number.
    creation: [u64; 2],
    lifetime_ms: u64,
    flags: u64,
    /// CRC of the primary block: `none`, `16` or `32c`.
    crc: &'static str,
    /// Null unless it is a fragment.
    fragment: Option<Fragment>,
    /// The blocks after the primary block, in their order.
    blocks: Vec<Block>,
    payload_octets: u64,
    payload_sha256: String,
    /// The administrative record, if the payload is one.
    record: Option<Value>,
    /// Departures from the standards that nodes take, each with the section that says otherwise.
    nonconforming: Vec<Nonconforming>,
    #[serde(skip)]
    said: Said,
}

/// Values that only people are told.
#[derive(Debug)]
struct Said {
    id: String,
    total_octets: u64,
    created: CreationTimestamp,
    record: String,
}

#[derive(Debug, Serialize)]
struct Nonconforming {
    what: String,
    section: &'static str,
}

#[derive(Debug, Serialize)]
struct Fragment {
    offset: u64,
    total_adu_octets: u64,
}

#[derive(Debug, Serialize)]
struct Block {
    #[serde(rename = "type")]
    block_type: u64,
    number: u64,
    flags: u64,
    crc: &'static str,
    /// Octets of block-type-specific data.
    octets: u64,
    /// The block's content, where this program knows the type; null otherwise.
    content: Value,
    #[serde(skip)]
    said: String,
}

/// The name of a CRC type, as `bundle make --crc` takes it.
pub const fn crc_name(crc_type: CrcType) -> &'static str {
    match crc_type {
        CrcType::None => "none",
        CrcType::Crc16 => "16",
        CrcType::Crc32C => "32c",
    }
}

impl Description {
    /// Describes a bundle that was accepted.
    pub fn new(
        header: &Header,
        payload_sha256: String,
        record: Option<&AdministrativeRecord>,
        deviation: Option<Deviation>,
    ) -> Self {
        let primary = &header.primary;
        let mut blocks: Vec<Block> = header
            .extensions
            .iter()
            .map(|block| Block::extension(header, block))
            .collect();
        blocks.push(Block {
            block_type: BlockType::PAYLOAD.0,
            number: 1,
            flags: header.payload.flags.bits(),
            crc: crc_name(header.payload.crc_type),
            octets: header.payload_octets(),
            content: Value::Null,
            said: quantity::size(header.payload_octets()),
        });
        Self {
            accepted: true,
            version: 7,
            source: primary.source.to_string(),
            destination: primary.destination.to_string(),
            report_to: primary.report_to.to_string(),
            creation: [primary.creation.time.as_millis(), primary.creation.sequence],
            lifetime_ms: primary.lifetime_ms,
            flags: primary.flags.bits(),
            crc: crc_name(primary.crc_type),
            fragment: primary.fragment.map(|place| Fragment {
                offset: place.offset,
                total_adu_octets: place.total_adu_octets,
            }),
            blocks,
            payload_octets: header.payload_octets(),
            payload_sha256,
            record: record.map(record_value),
            nonconforming: deviation
                .map(|deviation| Nonconforming {
                    what: deviation.to_string(),
                    section: deviation.section(),
                })
                .into_iter()
                .collect(),
            said: Said {
                id: header.id().to_string(),
                total_octets: header.total_octets(),
                created: primary.creation,
                record: record.map(record_text).unwrap_or_default(),
            },
        }
    }

    /// The bundle as people read it.
    pub fn text(&self) -> String {
        let mut text = format!(
            "bundle {}, version {}, {} octets\n",
            self.said.id,
            self.version,
            quantity::thousands(self.said.total_octets)
        );
        for (name, value) in self.primary_lines() {
            let _ = writeln!(text, "  {name:12} {value}");
        }
        let columns = [
            ("BLOCK", Align::Right),
            ("TYPE", Align::Right),
            ("", Align::Left),
            ("CRC", Align::Left),
            ("CONTENT", Align::Left),
            ("FLAGS", Align::Left),
        ];
        let mut table = Table::new(&columns);
        for block in &self.blocks {
            table.push(vec![
                block.number.to_string(),
                block.block_type.to_string(),
                BlockType(block.block_type).to_string(),
                block.crc.to_owned(),
                block.said.clone(),
                names::flags(block.flags, &names::BLOCK_FLAGS),
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
        text.push_str(&self.said.record);
        for Nonconforming { what, section } in &self.nonconforming {
            let _ = writeln!(text, "not as the standard says: {what} ({section})");
        }
        text
    }

    fn primary_lines(&self) -> Vec<(&'static str, String)> {
        let CreationTimestamp { time, sequence } = self.said.created;
        let mut lines = vec![
            ("source", self.source.clone()),
            ("destination", self.destination.clone()),
            ("report to", self.report_to.clone()),
            (
                "created",
                format!("{}, sequence {sequence}", calendar::utc(time)),
            ),
        ];
        let mut lifetime = quantity::span(self.lifetime_ms);
        if time.is_known() {
            let _ = write!(
                lifetime,
                ", until {}",
                calendar::utc(time.saturating_add_millis(self.lifetime_ms))
            );
        }
        lines.push(("lifetime", lifetime));
        let flags = names::flags(self.flags, &names::BUNDLE_FLAGS);
        lines.push((
            "flags",
            if flags.is_empty() {
                "none".to_owned()
            } else {
                format!("{flags} ({:#x})", self.flags)
            },
        ));
        if let Some(fragment) = &self.fragment {
            let end = fragment.offset.saturating_add(self.payload_octets);
            lines.push((
                "fragment",
                format!(
                    "octets {} to {end} of {}",
                    fragment.offset, fragment.total_adu_octets
                ),
            ));
        }
        lines.push(("crc", self.crc.to_owned()));
        lines
    }
}

impl Block {
    fn extension(header: &Header, block: &ExtensionBlock) -> Self {
        let (content, said) = match block.block_type {
            BlockType::PREVIOUS_NODE => header
                .previous_node()
                .map(|node| (json!(node.to_string()), node.to_string())),
            BlockType::BUNDLE_AGE => header
                .age_ms()
                .map(|age_ms| (json!(age_ms), quantity::span(age_ms))),
            BlockType::HOP_COUNT => header.hop_count().map(|hops| {
                (
                    json!({"limit": hops.limit, "count": hops.count}),
                    format!("{} of {} hops", hops.count, hops.limit),
                )
            }),
            BlockType::AGGREGATED_REPORTS if header.reads_aggregated_reports() => {
                Some((json!(true), "read by the report-to endpoint".to_owned()))
            }
            BlockType::QUALITY_OF_SERVICE | BlockType::HDTN_PRIORITY => {
                header.class_in(block).map(class_content)
            }
            GATEWAY_BLOCK_V7 => {
                Remembered::in_v7(header.content(block)).map(|known| gateway::content(&known))
            }
            _ => None,
        }
        .unwrap_or_else(|| (Value::Null, quantity::size(length(header.content(block)))));
        Self {
            block_type: block.block_type.0,
            number: block.number,
            flags: block.flags.bits(),
            crc: crc_name(block.crc_type),
            octets: length(header.content(block)),
            content,
            said,
        }
    }
}

/// A class of service, as JSON and as text.
pub(super) fn class_content(class: ClassOfService) -> (Value, String) {
    let ClassOfService {
        priority,
        flags,
        label,
    } = class;
    let mut said = priority.to_string();
    if flags != 0 {
        said.push_str(&format!(", flags {flags:#x}"));
    }
    if label != 0 {
        said.push_str(&format!(", label {label}"));
    }
    let priority = priority.to_string();
    (
        json!({"priority": priority, "flags": flags, "label": label}),
        said,
    )
}

fn length(octets: &[u8]) -> u64 {
    u64::try_from(octets.len()).unwrap_or(u64::MAX)
}
