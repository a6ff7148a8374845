//! The content of a gateway block (docs/gateway.md), as JSON and as people read it.

use std::fmt::Write as _;

use dhow_bundle::gateway::remembered::{Properties, Remembered};
use serde_json::{Value, json};

use super::description::crc_name;
use crate::quantity;

/// Both.
pub fn content(known: &Remembered) -> (Value, String) {
    (value(known), text(known))
}

fn value(known: &Remembered) -> Value {
    let blocks = known.blocks.iter().map(
        |block| json!({"type": block.block_type, "flags": block.flags, "octets": block.octets}),
    );
    let mut value = json!({
        "flags": known.flags,
        "place": known.place.map(|(first, end)| [first, end]),
        "blocks": blocks.collect::<Vec<_>>(),
    });
    let properties = match known.properties {
        Properties::V6 { lifetime_s } => json!({"version": 6, "lifetime_s": lifetime_s}),
        Properties::V7 {
            lifetime_ms,
            hops,
            crc_type,
            payload_crc_type,
        } => json!({
            "version": 7,
            "lifetime_ms": lifetime_ms,
            "hops": {"limit": hops.limit, "count": hops.count},
            "crc": crc_name(crc_type),
            "payload_crc": crc_name(payload_crc_type),
        }),
    };
    if let (Value::Object(value), Value::Object(properties)) = (&mut value, properties) {
        value.extend(properties);
    }
    value
}

fn text(known: &Remembered) -> String {
    let mut text = match known.properties {
        Properties::V6 { lifetime_s } => {
            let lifetime = quantity::span(lifetime_s.saturating_mul(1_000));
            format!("version 6, lifetime {lifetime}")
        }
        Properties::V7 {
            lifetime_ms,
            hops,
            crc_type,
            payload_crc_type,
        } => format!(
            "version 7, lifetime {}, {} of {} hops, crc {}, of payload {}",
            quantity::span(lifetime_ms),
            hops.count,
            hops.limit,
            crc_name(crc_type),
            crc_name(payload_crc_type)
        ),
    };
    if known.flags != 0 {
        let _ = write!(text, ", flags {:#x}", known.flags);
    }
    for block in &known.blocks {
        let _ = write!(text, ", block of type {}", block.block_type);
    }
    text
}
