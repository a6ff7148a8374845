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
    ///
    /// # Errors
    /// When it ended before, so that nobody knows what it stored.
    pub(super) fn finish(mut self) -> Result<(u64, u64), LabError> {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = process.map(|process| kill_process(process, Signal::TERM));
        let mut text = String::new();
        let _ = self.said.read_to_string(&mut text);
        summary(&text).ok_or_else(|| {
            let what = "the collector ended by itself: nobody knows what it stored";
            let hint = format!("look whether {DATABASE} of the run can be written and read");
            LabError::new(what).with_hint(hint)
        })
    }
}

/// Measurements that are stored and that are missing, as a collector says at its end; none where it came to no end.
fn summary(text: &str) -> Option<(u64, u64)> {
    let told: Value = serde_json::from_str(text.trim()).ok()?;
    let streams = told.get("streams")?.as_array()?;
    let sum = |key: &str| -> u64 {
        let counts = streams.iter().filter_map(|it| it.get(key)?.as_u64());
        counts.sum()
    };
    Some((sum("rows"), sum("missing") + sum("rejected")))
}

impl Drop for Collector {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_that_came_to_no_end_has_no_summary() {
        let told = r#"{"streams":[{"rows":3,"missing":1,"rejected":2},{"rows":4}]}"#;
        assert_eq!(summary(told), Some((7, 3)));
        assert_eq!(summary(r#"{"streams":[]}"#), Some((0, 0)));
        for cut in ["", "{\"streams\":[{\"rows\"", "{}"] {
            assert_eq!(summary(cut), None, "{cut}");
        }
    }
}
