//! Under which conditions a run took place: what a repetition needs beside the scenario, and what may explain that it comes out otherwise.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Octets of conditions that a manifest takes; those of further runs are in their directories alone.
const MANIFEST_OCTETS_MAX: usize = 8 << 20;

/// Conditions of one run. Hosts are named as in the scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The program's version and commit.
    pub build: String,
    /// The kernel's name and release.
    pub kernel: String,
    /// The machine's load average over 1, 5 and 15 minutes, before anything was made.
    pub load_before: String,
    /// The same when all was gone again.
    pub load_after: String,
    /// Of each host that has limits the kernel's own word for them, by the names of its files.
    pub limits: BTreeMap<String, BTreeMap<String, String>>,
    /// Queues of each host's interfaces at the end, with what passed through them, as `tc` tells.
    pub queues: BTreeMap<String, Value>,
    /// Every setting of each node, defaults included.
    pub nodes: BTreeMap<String, Value>,
}

/// Puts conditions of runs into a manifest: those of each run under its name, and settings of nodes once for all runs in which they were the same.
pub(super) fn add_to(manifest: &mut Map<String, Value>, runs: &[(String, Conditions)]) {
    let mut conditions = Map::new();
    let mut nodes: Vec<(String, Value, BTreeSet<&str>)> = Vec::new();
    let (mut octets, mut left) = (0, Vec::new());
    for (run, of_run) in runs {
        if octets > MANIFEST_OCTETS_MAX {
            left.push(run.as_str());
            continue;
        }
        let own = Conditions {
            nodes: BTreeMap::new(),
            ..of_run.clone()
        };
        let mut own = json!(own);
        if let Some(own) = own.as_object_mut() {
            own.shift_remove("nodes");
        }
        octets += own.to_string().len();
        conditions.insert(run.clone(), own);
        for (node, settings) in &of_run.nodes {
            let same = |it: &&mut (String, Value, _)| it.0 == *node && it.1 == *settings;
            match nodes.iter_mut().find(same) {
                Some((_, _, runs)) => {
                    runs.insert(run);
                }
                None => {
                    octets += settings.to_string().len();
                    nodes.push((
                        node.clone(),
                        settings.clone(),
                        BTreeSet::from([run.as_str()]),
                    ));
                }
            }
        }
    }
    nodes.sort_by(|one, other| (&one.0, one.2.first()).cmp(&(&other.0, other.2.first())));
    let nodes = nodes
        .into_iter()
        .map(|(node, settings, runs)| json!({"node": node, "runs": runs, "settings": settings}));
    manifest.insert("conditions".to_owned(), Value::Object(conditions));
    manifest.insert("nodes".to_owned(), nodes.collect());
    if left.is_empty() {
        manifest.shift_remove("conditions_elsewhere");
    } else {
        manifest.insert("conditions_elsewhere".to_owned(), json!(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(load: &str, quota: u64) -> Conditions {
        Conditions {
            load_before: load.to_owned(),
            nodes: BTreeMap::from([("beta".to_owned(), json!({"store": {"quota": quota}}))]),
            ..Conditions::default()
        }
    }

    #[test]
    fn settings_that_are_the_same_in_many_runs_are_told_once() {
        let runs = [("0001", 1), ("0002", 2), ("0003", 1)];
        let runs = runs.map(|(run, quota)| (run.to_owned(), conditions("0.5", quota)));
        let mut manifest = Map::new();
        add_to(&mut manifest, &runs);
        let expected = json!([
            {"node": "beta", "runs": ["0001", "0003"], "settings": {"store": {"quota": 1}}},
            {"node": "beta", "runs": ["0002"], "settings": {"store": {"quota": 2}}},
        ]);
        assert_eq!(manifest["nodes"], expected);
        let first = &manifest["conditions"]["0001"];
        assert_eq!(
            (&first["load_before"], first.get("nodes")),
            (&json!("0.5"), None)
        );
    }

    #[test]
    fn a_manifest_takes_so_much_and_says_what_it_left_out() {
        let load = "x".repeat(MANIFEST_OCTETS_MAX);
        let runs = ["0001", "0002", "0003"].map(|run| (run.to_owned(), conditions(&load, 1)));
        let mut manifest = Map::new();
        add_to(&mut manifest, &runs);
        assert_eq!(manifest["conditions"].as_object().map(Map::len), Some(1));
        assert_eq!(manifest["conditions_elsewhere"], json!(["0002", "0003"]));
        add_to(&mut manifest, &[]);
        assert!(!manifest.contains_key("conditions_elsewhere"));
    }
}
