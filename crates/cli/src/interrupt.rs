//! Ctrl-C, and the end of its terminal: a command is asked to end, cleans up, and exits with 130.
//!
//! Loops ask [`is_requested`]. A command that does not come to its next question within
//! [`GRACE`] (a read that hangs, say), or that is interrupted twice, is ended here: its unfinished files
//! are removed first, and it says what it asked to [say](say_at_end).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{EXIT_INTERRUPTED, Failure};

/// The time that a command may take to end by itself: longer than any of its waits between two questions.
const GRACE: Duration = Duration::from_secs(2);

/// The same for a command that writes down its results when it is interrupted.
const LONG_GRACE: Duration = Duration::from_secs(60);

/// The time between two looks of a loop at [`is_requested`], at most.
pub const LOOK: Duration = Duration::from_millis(100);

static REQUESTED: AtomicBool = AtomicBool::new(false);
static NEEDS_LONGER: AtomicBool = AtomicBool::new(false);
/// Words about a command that is ended here.
type Words = Box<dyn Fn() -> String + Send>;

static LAST_WORDS: Mutex<Option<Words>> = Mutex::new(None);
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// True once the user has asked the command to end.
pub fn is_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Listens for Ctrl-C, SIGTERM and SIGHUP from now on. `node run` does not call this: a daemon drains instead.
pub fn watch() -> Result<(), Failure> {
    let mut wanted = vec![SIGINT, SIGTERM];
    wanted.extend((!ignores_hangup()).then_some(SIGHUP));
    let mut signals = Signals::new(wanted)
        .map_err(|error| Failure::refused(format!("cannot watch for signals: {error}")))?;
    thread::spawn(move || {
        let mut signals = signals.forever();
        if signals.next().is_none() {
            return;
        }
        REQUESTED.store(true, Ordering::Relaxed);
        thread::spawn(|| {
            thread::sleep(GRACE);
            if NEEDS_LONGER.load(Ordering::Relaxed) {
                thread::sleep(LONG_GRACE - GRACE);
            }
            end();
        });
        if signals.next().is_some() {
            end();
        }
    });
    Ok(())
}

/// Whether it was started so that it outlasts its terminal, as by nohup(1); field `SigIgn` of proc_pid_status(5).
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
    ignored.is_some_and(|it| it & 1 << (SIGHUP - 1) != 0)
}

/// From now on, ending by itself may take longer: the command writes down its results. A second Ctrl-C still ends it at once.
pub fn allow_longer() {
    NEEDS_LONGER.store(true, Ordering::Relaxed);
}

/// Has a command that must be ended here say how far it came.
pub fn say_at_end(words: impl Fn() -> String + Send + 'static) {
    *last_words() = Some(Box::new(words));
}

fn last_words() -> MutexGuard<'static, Option<Words>> {
    LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end() -> ! {
    if let Some(words) = last_words().as_ref() {
        crate::output::talk(&words());
    }
    for path in unfinished().iter() {
        // The process ends in any case, and a file that is gone already is what was wanted.
        let _ = std::fs::remove_file(path);
    }
    std::process::exit(EXIT_INTERRUPTED.into());
}

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is removed if the command ends before [`UnfinishedFile::keep`].
#[derive(Debug)]
pub struct UnfinishedFile {
    path: PathBuf,
}

impl UnfinishedFile {
    /// Removes the file at `path` when the command ends, from now on.
    pub fn new(path: PathBuf) -> Self {
        unfinished().insert(path.clone());
        Self { path }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file is finished (or has got its final name): it stays.
    pub fn keep(self) {
        unfinished().remove(&self.path);
        std::mem::forget(self);
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        unfinished().remove(&self.path);
    }
}
