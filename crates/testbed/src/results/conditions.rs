//! The conditions of a run: the needs of a repetition beside the scenario, and facts that may explain another outcome.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::run::Measured;

/// Octets of conditions that a manifest takes; those of further runs are in their directories alone.
const MANIFEST_OCTETS_MAX: usize = 8 << 20;

/// Conditions of one run. Hosts are named as in the scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The program's version and commit.
    pub build: String,
    /// The kernel's name and release.
    pub kernel: String,
    /// The congestion control that the TCP of each host begins with, or in virtual time that which its connections resemble.
    #[serde(default)]
    pub congestion_control: BTreeMap<String, String>,
    /// The machine's load average over 1, 5 and 15 minutes, before anything was made.
    pub load_before: String,
    /// The same when all was gone again.
    pub load_after: String,
    /// When the time of the run stood still.
    #[serde(default)]
    pub still: Option<Still>,
    /// When programs of the scenario ran.
    #[serde(default)]
    pub programs: Vec<Ran>,
    /// Processors that are set by the rate of TCP, as they were measured before the run.
    #[serde(default)]
    pub processors: Vec<Measured>,
    /// The kernel's own word for the limits of each host that has some, by the names of its files.
    pub limits: BTreeMap<String, BTreeMap<String, String>>,
    /// Queues of each host's interfaces at the end, with what passed through them, as `tc` tells.
    pub queues: BTreeMap<String, Value>,
    /// Every setting of each node, defaults included.
    pub nodes: BTreeMap<String, Value>,
}

/// When a program of the scenario ran: seconds from the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Its name.
    pub program: String,
    /// The node on which it ran.
    pub node: String,
    /// When it began.
    pub from_s: f64,
    /// When it ended, or was told to.
    pub until_s: f64,
    /// True if it did not end when it was told to, and was killed.
    #[serde(default)]
    pub killed: bool,
    /// Its failure, where that is what was measured (`may_fail`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// When the time of a run stood still, and for how long: seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Still {
    /// The time of the run.
    pub at_s: f64,
    /// The duration, by a clock that went on.
    pub for_s: f64,
}

impl Still {
    /// Seconds that it adds to a time of the run, from one moment to another.
    pub(crate) fn within(still: Option<Self>, start_s: f64, end_s: f64) -> f64 {
        let still = still.filter(|it| (start_s..=end_s).contains(&it.at_s));
        still.map_or(0.0, |it| it.for_s)
    }
}

/// Conditions of many runs, as a manifest has them: those of each run under its name, and settings of nodes once for all runs in which they
/// were the same.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    conditions: Map<String, Value>,
    /// Settings by the name of a node and their text, and the runs that had them.
    nodes: BTreeMap<(String, String), (Value, BTreeSet<String>)>,
    octets: usize,
    elsewhere: Vec<String>,
}

impl Gathered {
    /// Takes a run; its conditions are read only while there is room for them.
    pub(super) fn add<E>(
        &mut self,
        run: &str,
        read: impl FnOnce() -> Result<Conditions, E>,
    ) -> Result<(), E> {
        if self.octets > MANIFEST_OCTETS_MAX {
            self.elsewhere.push(run.to_owned());
            return Ok(());
        }
        let mut own = read()?;
        for (node, settings) in std::mem::take(&mut own.nodes) {
            let text = settings.to_string();
            let octets = text.len();
            let known = self.nodes.entry((node, text)).or_insert_with(|| {
                self.octets += octets;
                (settings, BTreeSet::new())
            });
            known.1.insert(run.to_owned());
        }
        let mut own = json!(own);
        if let Some(own) = own.as_object_mut() {
            own.shift_remove("nodes");
        }
        self.octets += own.to_string().len();
        self.conditions.insert(run.to_owned(), own);
        Ok(())
    }

    /// Puts all into a manifest.
    pub(super) fn put_into(self, manifest: &mut Map<String, Value>) {
        let nodes = self.nodes.into_iter();
        let mut nodes: Vec<_> = nodes
            .map(|((node, _), (settings, runs))| (node, runs, settings))
            .collect();
        nodes.sort_by(|one, other| (&one.0, one.1.first()).cmp(&(&other.0, other.1.first())));
        let nodes = nodes.into_iter().map(
            |(node, runs, settings)| json!({"node": node, "runs": runs, "settings": settings}),
        );
        manifest.insert("conditions".to_owned(), Value::Object(self.conditions));
        manifest.insert("nodes".to_owned(), nodes.collect());
        if self.elsewhere.is_empty() {
            manifest.shift_remove("conditions_elsewhere");
        } else {
            manifest.insert("conditions_elsewhere".to_owned(), json!(self.elsewhere));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn conditions(load: &str, quota: u64) -> Conditions {
        Conditions {
            load_before: load.to_owned(),
            nodes: BTreeMap::from([("beta".to_owned(), json!({"store": {"quota": quota}}))]),
            ..Conditions::default()
        }
    }

    fn manifest(runs: &[(&str, Conditions)]) -> Map<String, Value> {
        let mut gathered = Gathered::default();
        for (run, conditions) in runs {
            let read = || Ok::<_, Infallible>(conditions.clone());
            gathered.add(run, read).unwrap();
        }
        let mut manifest = Map::from_iter([("conditions_elsewhere".to_owned(), json!(["0009"]))]);
        gathered.put_into(&mut manifest);
        manifest
    }

    #[test]
    fn settings_that_are_the_same_in_many_runs_are_told_once() {
        let runs = [("0001", 2), ("0002", 1), ("0003", 2)];
        let manifest = manifest(&runs.map(|(run, quota)| (run, conditions("0.5", quota))));
        let expected = json!([
            {"node": "beta", "runs": ["0001", "0003"], "settings": {"store": {"quota": 2}}},
            {"node": "beta", "runs": ["0002"], "settings": {"store": {"quota": 1}}},
        ]);
        assert_eq!(manifest["nodes"], expected);
        let first = &manifest["conditions"]["0001"];
        assert_eq!(
            (&first["load_before"], first.get("nodes")),
            (&json!("0.5"), None)
        );
        assert!(!manifest.contains_key("conditions_elsewhere"));
    }

    #[test]
    fn a_manifest_takes_so_much_and_the_rest_is_not_even_read() {
        let mut gathered = Gathered::default();
        let load = "x".repeat(MANIFEST_OCTETS_MAX);
        gathered
            .add("0001", || Ok::<_, &str>(conditions(&load, 1)))
            .unwrap();
        for run in ["0002", "0003"] {
            gathered.add(run, || Err("it was read")).unwrap();
        }
        let mut manifest = Map::new();
        gathered.put_into(&mut manifest);
        assert_eq!(manifest["conditions"].as_object().map(Map::len), Some(1));
        assert_eq!(manifest["conditions_elsewhere"], json!(["0002", "0003"]));
    }
}
