//! The JSON Schema of a file, for editors that check TOML.

use serde_json::{Map, Value, json};

use crate::schema::{Absent, Key, Kind, Occurs, Section};

/// A time, and a size, as regular expressions.
const DURATION: &str = "(0|[0-9][0-9_]*(\\.[0-9]+)? *(ns|us|ms|s|m|min|h|d|w))";
const SIZE: &str = "[0-9][0-9_]*(\\.[0-9]+)? *(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)?";

/// The JSON Schema (draft 2020-12) of a file that must have some of its sections.
#[must_use]
pub fn json_schema(title: &str, sections: &[Section], required: &[&str]) -> Value {
    let mut properties = Map::new();
    for section in sections {
        match section.occurs {
            Occurs::Top => properties.extend(
                section
                    .keys()
                    .map(|key| (key.name.to_owned(), key_schema(key))),
            ),
            Occurs::Once => {
                properties.insert(section.name.to_owned(), section_schema(section));
            }
            Occurs::Loose => {
                properties.insert(
                    section.name.to_owned(),
                    json!({ "type": "object", "description": section.meaning }),
                );
            }
            Occurs::Many => {
                properties.insert(
                    section.name.to_owned(),
                    json!({ "type": "array", "items": section_schema(section) }),
                );
            }
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn section_schema(section: &Section) -> Value {
    let properties: Map<String, Value> = section
        .keys()
        .map(|key| (key.name.to_owned(), key_schema(key)))
        .collect();
    let required: Vec<_> = section
        .keys()
        .filter(|key| key.absent == Absent::Refused)
        .map(|key| key.name)
        .collect();
    json!({
        "type": "object",
        "description": section.meaning,
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn size(pattern: &str) -> Value {
    json!({ "oneOf": [
        { "type": "integer", "minimum": 0 },
        { "type": "string", "pattern": pattern },
    ] })
}

fn key_schema(key: &Key) -> Value {
    let text = json!({ "type": "string" });
    let mut schema = match key.kind {
        Kind::Text | Kind::Path => text,
        Kind::TextOrList => {
            json!({ "oneOf": [text, { "type": "array", "items": { "type": "string" }, "minItems": 1 }] })
        }
        Kind::TextList | Kind::PathList => json!({ "type": "array", "items": text }),
        Kind::Integer(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Kind::Size => size(&format!("^{SIZE}$")),
        Kind::Sizes => size(&format!("^{SIZE}(\\.\\.{SIZE})?$")),
        Kind::Duration => {
            json!({ "type": ["string", "integer"], "pattern": format!("^{DURATION}$"), "maximum": 0 })
        }
        Kind::Durations => {
            json!({ "type": ["string", "integer"], "pattern": format!("^{DURATION}(\\.\\.{DURATION})?$"), "maximum": 0 })
        }
        Kind::Speeds => {
            let speed = "[0-9][0-9_]*(\\.[0-9]+)? *(m/s|km/h)";
            json!({ "type": "string", "pattern": format!("^{speed}(\\.\\.{speed})?$") })
        }
        Kind::Offset => json!({ "type": "string", "pattern": format!("^[-+]?{DURATION}$") }),
        Kind::Rate => {
            json!({ "type": "string", "pattern": "^[0-9][0-9_]*(\\.[0-9]+)? *(bit|kbit|Mbit|Gbit)(/s)?$" })
        }
        Kind::Part => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Choice(choices) => json!({ "enum": choices }),
        Kind::ChoiceList(choices) => json!({ "type": "array", "items": { "enum": choices } }),
        Kind::NumberList(choices) => {
            json!({ "type": "array", "items": { "enum": choices }, "minItems": 1 })
        }
    };
    if let Value::Object(fields) = &mut schema {
        fields.insert("description".to_owned(), json!(key.meaning));
        match key.absent {
            Absent::Default(default) => {
                // Defaults are written as TOML; texts, numbers, Booleans and lists of them look the same in JSON.
                let default = serde_json::from_str(default).unwrap_or_else(|_| json!(default));
                fields.insert("default".to_owned(), default);
            }
            Absent::Means(meaning) => {
                fields.insert("$comment".to_owned(), json!(format!("default: {meaning}")));
            }
            Absent::Refused | Absent::Always => {}
        }
    }
    schema
}
