//! Removes all parts of a lab, whether the process that made it is there or not.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::accounting::Accounting;
use super::batch;
use super::state::State;
use crate::failure::LabError;
use crate::namespace;

/// The longest time for the process that keeps a lab to remove it.
const KEEPER: Duration = Duration::from_secs(30);

/// The longest time for killed processes to be gone, and for groups to be empty.
const GONE: Duration = Duration::from_secs(10);

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Ends a lab: asks the process that keeps it, and removes the parts that are then left.
///
/// # Errors
/// When something stays.
pub fn end(state: &State) -> Result<(), LabError> {
    if state.is_kept() && state.process != std::process::id() {
        signal(state.process, Signal::TERM);
        wait(KEEPER, || !state.is_kept());
        if state.is_kept() {
            signal(state.process, Signal::KILL);
            wait(GONE, || !state.is_kept());
        }
    }
    clear(state)
}

/// Removes a lab's processes, namespaces, control groups and files; results stay.
///
/// # Errors
/// When something stays.
pub fn clear(state: &State) -> Result<(), LabError> {
    let there = |name: &String| namespace::path_of(name).exists();
    let namespaces: Vec<&String> = state.namespaces.iter().filter(|name| there(name)).collect();
    let mut left = 0;
    wait(GONE, || {
        left = 0;
        for name in &namespaces {
            for process in namespace::processes(name) {
                left += 1;
                signal(process.unsigned_abs(), Signal::KILL);
            }
        }
        left == 0
    });
    if left > 0 {
        let what = format!("{left} processes of lab {} do not end", state.lab);
        return Err(LabError::new(what));
    }
    let lines: String = namespaces
        .iter()
        .map(|name| format!("netns delete {name}\n"))
        .collect();
    batch::tell("ip", &["-force", "-batch", "-"], &lines, None)?;
    for directory in &state.groups {
        remove_group(directory);
    }
    if let Some(stays) = state.groups.iter().find(|it| it.exists()) {
        let what = format!("the control group {} stays", stays.display());
        return Err(LabError::new(what).with_hint("programs in it did not end"));
    }
    Accounting::of_machine()
        .release(&state.lab)
        .map_err(|error| LabError::io("cannot switch kernel.task_delayacct off", &error))?;
    let _ = fs::remove_file(&state.shortcut);
    state.remove();
    Ok(())
}

/// A group goes once those in it have gone, and its programs are no more.
fn remove_group(directory: &Path) {
    if !directory.exists() {
        return;
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove_group(&entry.path());
        }
    }
    wait(GONE, || {
        fs::remove_dir(directory).is_ok() || !directory.exists()
    });
}

fn wait(most: Duration, mut is_over: impl FnMut() -> bool) {
    let end = Instant::now() + most;
    while !is_over() && Instant::now() < end {
        thread::sleep(LOOK);
    }
}

fn signal(process: u32, signal: Signal) {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    // One that has ended by itself is as well.
    let _ = id.map(|id| kill_process(id, signal));
}
