//! The collector of a lab: measurements of programs come to it over the control network.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::failure::LabError;
use crate::namespace;
use crate::place::Layout;

/// Where it listens (OML's port).
const PORT: u16 = 3003;

/// The database, in the directory of a run.
const DATABASE: &str = "measurements.sq3";

/// A collector that runs.
#[derive(Debug)]
pub(super) struct Collector {
    child: Child,
    said: BufReader<ChildStdout>,
}

/// The database of a run.
pub(super) fn database(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
}

/// Where programs of a lab send measurements.
pub(super) fn address(layout: &Layout) -> String {
    format!("tcp:{}:{PORT}", layout.control_address())
}

impl Collector {
    /// Starts it and waits until it listens; what it stores goes to a database in `directory`.
    ///
    /// # Errors
    /// When it does not start.
    pub(super) fn begin(
        program: &Path,
        layout: &Layout,
        directory: &Path,
    ) -> Result<Self, LabError> {
        let failed = |error: io::Error| LabError::io("cannot start the collector", &error);
        let database = database(directory);
        let spawn = || {
            Command::new(program)
                .args(["--json", "collect", "--open", "--listen"])
                .arg(format!("0.0.0.0:{PORT}"))
                .arg("--db")
                .arg(&database)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
        };
        let mut child = namespace::within(&layout.control_namespace(), spawn).map_err(failed)?;
        let Some(said) = child.stdout.take() else {
            return Err(LabError::new("the collector says nothing"));
        };
        let mut said = BufReader::new(said);
        let mut line = String::new();
        let read = said.read_line(&mut line);
        let collector = Self { child, said };
        match read {
            Ok(octets) if octets > 0 => Ok(collector),
            Ok(_) => Err(LabError::new(format!(
                "the collector cannot store in {}",
                database.display()
            ))),
            Err(error) => Err(failed(error)),
        }
    }

    /// Ends it in order: how many measurements it stored, and how many are known to be missing.
    pub(super) fn finish(mut self) -> (u64, u64) {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = process.map(|process| kill_process(process, Signal::TERM));
        let mut text = String::new();
        // One that died says nothing, and then nothing is known of what it stored.
        let _ = self.said.read_to_string(&mut text);
        let told: Value = serde_json::from_str(text.trim()).unwrap_or_default();
        let streams = told.get("streams").and_then(Value::as_array);
        let sum = |key: &str| -> u64 {
            let counts = streams
                .into_iter()
                .flatten()
                .filter_map(|it| it.get(key)?.as_u64());
            counts.sum()
        };
        (sum("rows"), sum("missing") + sum("rejected"))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
