//! A node's process: started in its namespace, waited for until it serves, ended in order or at once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dhow_client::{Address, Client};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::log::{Log, last_words};
use crate::failure::LabError;
use crate::namespace;
use crate::place::Group;

/// The longest time until a node serves: one that finds a large store takes longest.
const READY: Duration = Duration::from_secs(60);

/// The longest time of an orderly end: a node finishes transfers for five seconds at most.
const END: Duration = Duration::from_secs(10);

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// The file to which it writes what it is set to.
const SETTINGS: &str = "settings.json";

/// A node's process.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    namespace: String,
    /// The program, which is also the one that this runs in.
    program: PathBuf,
    /// Its directory by a short name, for sockets.
    shortcut: PathBuf,
    log: PathBuf,
    group: Option<Group>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    log: Log,
}

impl Daemon {
    /// A node whose file and directory are there, not yet started.
    #[must_use]
    pub fn new(
        name: &str,
        namespace: &str,
        program: &Path,
        (directory, shortcut): (&Path, &Path),
        group: Option<Group>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            program: program.to_path_buf(),
            shortcut: shortcut.to_path_buf(),
            log: directory.join("node.log"),
            group,
            running: None,
        }
    }

    /// Its process, while it runs.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// The address at which it serves applications.
    #[must_use]
    pub fn api(&self) -> Address {
        Address::Unix(self.shortcut.join("api.sock"))
    }

    /// Every setting that it has, as it says itself: some follow from the memory that its group has.
    #[must_use]
    pub fn settings(&self) -> Option<Value> {
        let text = fs::read_to_string(self.shortcut.join(SETTINGS)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Starts it; it is ready later.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self) -> Result<(), LabError> {
        let name = &self.name;
        let failed = |error| LabError::io(format!("cannot start node '{name}'"), &error);
        let (reader, writer) = io::pipe().map_err(failed)?;
        // One that was killed left its socket.
        let _ = fs::remove_file(self.shortcut.join("api.sock"));
        let (program, shortcut) = (&self.program, &self.shortcut);
        let group = self.group.as_ref();
        let spawn = move || {
            let both = writer.try_clone()?;
            Group::command(group, program)
                .args(["node", "run", "--config"])
                .arg(shortcut.join("node.toml"))
                .arg("--settings")
                .arg(shortcut.join(SETTINGS))
                .env_remove("DHOW_NODE")
                .stdin(Stdio::null())
                .stdout(both)
                .stderr(writer)
                .spawn()
        };
        let child = namespace::within(&self.namespace, spawn).map_err(failed)?;
        let log = Log::begin(reader, &self.log).map_err(failed)?;
        self.running = Some(Running { child, log });
        Ok(())
    }

    /// Waits until it serves applications, for as long as `goes_on`.
    ///
    /// # Errors
    /// When it ends instead, or takes too long.
    pub fn wait_ready(&mut self, goes_on: &dyn Fn() -> bool) -> Result<(), LabError> {
        let end = Instant::now() + READY;
        while goes_on() {
            if Client::connect(&self.api()).is_ok() {
                return Ok(());
            }
            if let Some(ended) = self.ended() {
                return Err(ended);
            }
            if Instant::now() > end {
                let words = last_words(&self.log);
                let what = format!(
                    "node '{}' is not ready after {} s: {words}",
                    self.name,
                    READY.as_secs()
                );
                return Err(LabError::new(what));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The status and last words of a node that ended by itself; `None` while it runs.
    pub fn ended(&mut self) -> Option<LabError> {
        let status = self.running.as_mut()?.child.try_wait().ok().flatten()?;
        if let Some(mut running) = self.running.take() {
            running.log.finish();
        }
        let memory = self.group.as_ref().map_or(0, Group::out_of_memory);
        let why = match memory {
            0 => "",
            _ => ", its memory was used up",
        };
        let words = last_words(&self.log);
        let name = &self.name;
        let what = format!("node '{name}' ended by itself ({status}{why}): {words}");
        Some(LabError::new(what))
    }

    /// Kills it at once, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            // It may have ended just now.
            let _ = running.child.kill();
            let _ = running.child.wait();
            running.log.finish();
        }
    }

    /// Asks it to end, and does not wait.
    pub fn ask_to_end(&self) {
        let process = self.process().and_then(|it| i32::try_from(it).ok());
        let process = process.and_then(Pid::from_raw);
        // It may have ended just now.
        let _ = process.map(|process| kill_process(process, Signal::TERM));
    }

    /// Waits for its end after it was asked, and kills it where that takes too long.
    pub fn wait_end(&mut self) {
        let end = Instant::now() + END;
        while let Some(running) = &mut self.running {
            match running.child.try_wait() {
                Ok(None) if Instant::now() < end => thread::sleep(LOOK),
                _ => self.kill(),
            }
        }
    }
}
