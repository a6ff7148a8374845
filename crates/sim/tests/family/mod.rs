//! The family of mixed scenarios: `labs/mixed.toml` and `labs/mixed/*.toml`, each small and of one kind of trouble.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dhow_scenario::Scenario;
use dhow_scenario::scenario::Fidelity;

/// One scenario of the family.
pub struct Member {
    pub name: String,
    pub scenario: Scenario,
}

/// All members, or the one that `DHOW_MEMBER` names.
pub fn family() -> Vec<Member> {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
    let entries = std::fs::read_dir(labs.join("mixed")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.insert(0, labs.join("mixed.toml"));
    let mut members = Vec::new();
    let only = std::env::var("DHOW_MEMBER").ok();
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let mut scenario = Scenario::open(&path).expect("the scenario is one");
        members.push(Member {
            name: name.clone(),
            scenario: scenario.clone(),
        });
        if ["mixed", "udp"].contains(&name.as_str()) {
            scenario.fidelity = Fidelity::Bundle;
            members.push(Member {
                name: format!("{name}, bundle fidelity"),
                scenario,
            });
        }
    }
    members
}

/// Does jobs on all cores; their results come back in their order.
pub fn on_all_cores<J: Sync, T: Send>(jobs: &[J], work: impl Fn(&J) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { return };
                    let came = work(job);
                    done.lock().unwrap().insert(at, came);
                }
            });
        }
    });
    done.into_inner().unwrap().into_values().collect()
}
