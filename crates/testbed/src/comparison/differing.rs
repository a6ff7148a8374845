//! Differences in the making of two results: scenario, settings, version, machine.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::side::Side;

/// Lines of scenarios that are told, at most, of each.
const LINES_MAX: usize = 6;

/// Letters of a value that are told.
const LETTERS_MAX: usize = 60;

/// One thing that is not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing {
    /// Its name.
    pub what: String,
    /// The value of the first.
    pub a: String,
    /// The value of the second.
    pub b: String,
}

/// Entries of a manifest that are told, with their names.
const ENTRIES: [(&str, &str); 8] = [
    ("file", "scenario file"),
    ("version", "version"),
    ("commit", "commit"),
    ("backends", "backends"),
    ("settings", "--set"),
    ("full", "--full"),
    ("files", "files of the scenario"),
    ("left_out", "variants left out"),
];

/// Parts of a machine that are told: its load at the start is not one.
const PARTS: [&str; 7] = [
    "host",
    "system",
    "kernel",
    "machine",
    "processor",
    "cores",
    "memory_octets",
];

/// Everything that is not the same.
#[must_use]
pub fn differing(a: &Side, b: &Side) -> Vec<Differing> {
    let mut all = Vec::new();
    let (one, other) = (&a.manifest, &b.manifest);
    if one.is_null() || other.is_null() {
        let said = |manifest: &Value| match manifest.is_null() {
            true => "not known: `dhow sim run` keeps no manifest".to_owned(),
            false => "in manifest.json".to_owned(),
        };
        let (a, b) = (said(one), said(other));
        let what = "scenario and machine".to_owned();
        return vec![Differing { what, a, b }];
    }
    let (text_a, text_b) = (text(one, "scenario"), text(other, "scenario"));
    if text_a != text_b {
        all.push(Differing {
            what: "scenario".to_owned(),
            a: lines_only_in(text_a, text_b),
            b: lines_only_in(text_b, text_a),
        });
    }
    let mut compare = |what: String, a: Option<&Value>, b: Option<&Value>| {
        if a != b {
            let (a, b) = (said(a), said(b));
            all.push(Differing { what, a, b });
        }
    };
    for (key, name) in ENTRIES {
        compare(name.to_owned(), one.get(key), other.get(key));
    }
    let part = |manifest: &Value, key: &str| Some(manifest.get("machine")?.get(key)?.clone());
    for key in PARTS {
        let (a, b) = (part(one, key), part(other, key));
        compare(
            format!("machine: {}", key.replace('_', " ")),
            a.as_ref(),
            b.as_ref(),
        );
    }
    let empty = Map::new();
    let programs = |manifest: &'_ Value| {
        let programs = manifest.get("programs").and_then(Value::as_object);
        programs.cloned().unwrap_or_else(|| empty.clone())
    };
    let (one, other) = (programs(one), programs(other));
    // Virtual time has no programs, which its backend says already.
    if !one.is_empty() && !other.is_empty() {
        let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        for name in names {
            let version =
                |programs: &Map<String, Value>| programs.get(name)?.get("version").cloned();
            let (a, b) = (version(&one), version(&other));
            compare(format!("program {name}"), a.as_ref(), b.as_ref());
        }
    }
    all
}

fn text<'a>(manifest: &'a Value, key: &str) -> &'a str {
    manifest
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The first lines that one text has and the other has not, but for comments.
fn lines_only_in(text: &str, other: &str) -> String {
    let known: BTreeSet<&str> = other.lines().map(str::trim).collect();
    let own = text.lines().map(str::trim);
    let is_told = |line: &&str| {
        let is_comment = line.is_empty() || line.starts_with('#');
        !is_comment && !known.contains(line)
    };
    let own: Vec<&str> = own.filter(is_told).collect();
    let shown: Vec<String> = own.iter().take(LINES_MAX).map(|line| cut(line)).collect();
    match (own.len(), own.len().saturating_sub(LINES_MAX)) {
        (0, _) => "no line of its own".to_owned(),
        (_, 0) => shown.join(" | "),
        (_, more) => format!("{} | and {more} more lines", shown.join(" | ")),
    }
}

fn said(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "–".to_owned(),
        Some(Value::String(text)) => cut(text),
        Some(Value::Array(all)) if all.is_empty() => "–".to_owned(),
        Some(Value::Array(all)) => {
            let all: Vec<String> = all.iter().map(|it| said(Some(it))).collect();
            cut(&all.join(", "))
        }
        Some(other) => cut(&other.to_string()),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LETTERS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_scenario_alone_are_told() {
        let told = lines_only_in("# one\na = 1\nb = 2\n", "# two\na = 1\nb = 3\n");
        assert_eq!(told, "b = 2");
        assert_eq!(lines_only_in("a = 1", "a = 1\nb = 2"), "no line of its own");
        let many: String = (0..9).map(|line| format!("k{line} = 1\n")).collect();
        assert!(lines_only_in(&many, "").ends_with("k5 = 1 | and 3 more lines"));
    }
}
