//! The JSON Schema of the node file, for editors that check TOML.

use serde_json::{Map, Value, json};

use super::schema::{Absent, Key, Kind, Occurs, SECTIONS, Section};

/// The JSON Schema (draft 2020-12) of the node file.
#[must_use]
pub fn json_schema() -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for section in SECTIONS {
        match section.occurs {
            Occurs::Top => properties.extend(
                section
                    .keys()
                    .map(|key| (key.name.to_owned(), key_schema(key))),
            ),
            Occurs::Once => {
                properties.insert(section.name.to_owned(), section_schema(section));
            }
            Occurs::Many => {
                properties.insert(
                    section.name.to_owned(),
                    json!({ "type": "array", "items": section_schema(section) }),
                );
            }
        }
        if section.name == "node" {
            required.push(section.name);
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Dhow node file",
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
        Kind::Size => json!({ "oneOf": [
            { "type": "integer", "minimum": 0 },
            { "type": "string", "pattern": "^[0-9][0-9_]*(\\.[0-9]+)? *(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)?$" },
        ] }),
        Kind::Duration => {
            json!({ "type": ["string", "integer"], "pattern": "^(0|[0-9][0-9_]*(\\.[0-9]+)? *(ns|us|ms|s|m|min|h|d|w))$", "maximum": 0 })
        }
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Choice(choices) => json!({ "enum": choices }),
        Kind::ChoiceList(choices) => json!({ "type": "array", "items": { "enum": choices } }),
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
            Absent::Refused => {}
        }
    }
    schema
}
