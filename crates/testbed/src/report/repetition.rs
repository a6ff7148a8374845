//! The parts that a repetition needs: the manifest, single values as a table, the rest folded away.

use dhow_page::{List, escaped, text};
use serde_json::{Map, Value};

use super::curves::capital;

/// Parts that are folded away of one list, at most.
const FOLDED_MAX: usize = 200;

/// Letters of what `[full]` sets that are shown.
const SET_MAX: usize = 60;

/// A manifest for people.
pub(crate) fn manifest(manifest: &Value) -> String {
    let Value::Object(entries) = manifest else {
        return "<p class=\"note\">There is no manifest.</p>".to_owned();
    };
    let mut list = List::new(&["", ""]);
    let mut folded = String::new();
    for (key, value) in entries {
        match (key.as_str(), value) {
            ("machine", Value::Object(parts)) => {
                for (part, value) in parts {
                    line(&mut list, part, &short(value).unwrap_or_default());
                }
            }
            ("programs", Value::Object(programs)) => {
                for (name, summary) in programs {
                    line(&mut list, name, &program(summary));
                }
            }
            ("nodes", Value::Array(nodes)) => folded += &settings(nodes),
            _ => match short(value) {
                Some(words) => line(&mut list, key, &words),
                None => folded += &fold(key, &whole(value)),
            },
        }
    }
    list.whole() + &folded
}

/// Variants that were not run, and why; nothing where all were.
pub(crate) fn left_out(manifest: &Value) -> String {
    let summary = manifest.get("left_out").and_then(Value::as_array);
    let summary = summary.into_iter().flatten().filter_map(Value::as_str);
    let summary: Vec<String> = summary
        .map(|it| format!("{}.", capital(&escaped(it))))
        .collect();
    summary.join(" ")
}

/// A sentence that says if these are all runs of the full study, and names its settings; empty if the scenario has no
/// `[full]`.
pub(crate) fn extent(manifest: &Value) -> String {
    let scenario = manifest.get("scenario").and_then(Value::as_str);
    let mut lines = scenario.unwrap_or_default().lines().map(str::trim);
    if !lines.any(|line| line == "[full]") {
        return String::new();
    }
    let sets = lines.take_while(|line| !line.starts_with('['));
    let sets = sets.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let sets: Vec<String> = sets
        .map(|line| match line.char_indices().nth(SET_MAX) {
            Some((end, _)) => format!("<code>{}…</code>", escaped(line.get(..end).unwrap_or(line))),
            None => format!("<code>{}</code>", escaped(line)),
        })
        .collect();
    let sets = sets.join(", ");
    match manifest.get("full").and_then(Value::as_bool) {
        Some(true) => format!("This is the full study: <code>--full</code> set {sets}."),
        _ => format!(
            "This is the short study, for a first look; <code>--full</code> would set {sets}."
        ),
    }
}

fn line(list: &mut List, name: &str, words: &str) {
    let words = format!("<span class=\"prose\">{}</span>", escaped(words));
    list.line(&[text(escaped(name)), text(words)]);
}

/// A value that has its place in a line.
fn short(value: &Value) -> Option<String> {
    match value {
        Value::String(words) if !words.contains('\n') => Some(words.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null => Some("–".to_owned()),
        Value::Array(all) if all.len() <= 3 && all.iter().all(|it| !it.is_object()) => {
            let all: Option<Vec<String>> = all.iter().map(short).collect();
            Some(all?.join(", "))
        }
        _ => None,
    }
}

/// A program's version, or else where it is.
fn program(summary: &Value) -> String {
    let text = |key: &str| summary.get(key).and_then(Value::as_str);
    match (text("version"), text("path")) {
        (Some(version), _) => version.to_owned(),
        (None, Some(path)) => format!("{path}, of a version that it was not asked for"),
        (None, None) => "not found".to_owned(),
    }
}

/// Settings of nodes, each folded away; those that a node had in some runs alone have the first of them in their title.
fn settings(nodes: &[Value]) -> String {
    let name = |summary: &Value| {
        summary
            .get("node")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let empty = Map::new();
    let folded = nodes.iter().take(FOLDED_MAX).map(|summary| {
        let node = name(summary);
        let is_one = nodes.iter().filter(|it| name(it) == node).count() == 1;
        let runs = summary.get("runs").and_then(Value::as_array);
        let runs: Vec<&str> = runs
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let of = match (is_one, runs.split_first()) {
            (false, Some((first, []))) => format!(" in run {first}"),
            (false, Some((first, others))) => {
                format!(" in run {first} and {} others", others.len())
            }
            _ => String::new(),
        };
        let settings = summary.get("settings").and_then(Value::as_object);
        let settings = Value::Object(settings.unwrap_or(&empty).clone());
        fold(&format!("settings of node {node}{of}"), &whole(&settings))
    });
    let mut folded: String = folded.collect();
    if nodes.len() > FOLDED_MAX {
        folded += &format!(
            "<p class=\"note\">Settings of {FOLDED_MAX} of {} nodes; all are in manifest.json.</p>",
            nodes.len()
        );
    }
    folded
}

/// A value in as many lines as it takes.
fn whole(value: &Value) -> String {
    match value {
        Value::String(words) => words.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

/// Words that are folded away under a title.
pub(crate) fn fold(title: &str, words: &str) -> String {
    format!(
        "<details><summary>{}</summary><pre>{}</pre></details>",
        escaped(title),
        escaped(words)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_says_whether_it_is_of_the_full_study() {
        let scenario = "[runs]\nrepeats = 2\n[full]\n# as the paper\n\"runs.repeats\" = 10\n\n[stop]\nat = \"1s\"\n";
        let short = extent(&json!({"scenario": scenario, "full": false}));
        assert_eq!(
            short,
            "This is the short study, for a first look; <code>--full</code> would set <code>&quot;runs.repeats&quot; = 10</code>."
        );
        assert!(
            extent(&json!({"scenario": scenario, "full": true}))
                .starts_with("This is the full study")
        );
        assert_eq!(extent(&json!({"scenario": "[runs]\n"})), "");
    }

    #[test]
    fn settings_are_folded_and_say_in_which_runs_they_were() {
        let node = |runs: &[&str], memory| json!({"node": "a<b", "runs": runs, "settings": {"memory": memory}});
        let summary = json!({
            "machine": {"kernel": "Linux 6", "system": null},
            "programs": {"ip": {"path": "/sbin/ip", "version": "ip 6"}, "mine": {"path": "/mine", "version": null}},
            "nodes": [node(&["0001", "0003"], 1), node(&["0002"], 2)],
        });
        let page = manifest(&summary);
        for words in [
            ">Linux 6<",
            ">ip 6<",
            ">/mine, of a version that it was not asked for<",
            "<summary>settings of node a&lt;b in run 0001 and 1 others</summary>",
            "<summary>settings of node a&lt;b in run 0002</summary><pre>{\n  &quot;memory&quot;: 2\n}</pre>",
        ] {
            assert!(page.contains(words), "{words} in {page}");
        }
        let one = manifest(&json!({"nodes": [node(&["0001"], 1)]}));
        assert!(
            one.contains("<summary>settings of node a&lt;b</summary>"),
            "{one}"
        );
    }
}
