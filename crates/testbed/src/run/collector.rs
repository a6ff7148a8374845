//! The collector of a lab: measurements of programs and nodes come to it over the control network.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::failure::LabError;
use crate::namespace;
use crate::place::{COLLECTOR_PORT, Layout};

/// The longest time until it listens.
const READY: Duration = Duration::from_secs(60);

/// The longest time to store all rows that have come: its database may be on a slow disk.
const END: Duration = Duration::from_secs(120);

/// Reasons for which rows are refused whose numbers have come: they are not missing.
const KNOWN: [&str; 2] = ["no-table", "lost"];

/// The name under which a collector counts rows of which it cannot tell the stream.
const UNKNOWN_STREAM: &str = "?";

/// The database, in the directory of a run.
const DATABASE: &str = "measurements.sq3";

/// A collector that runs.
#[derive(Debug)]
pub(super) struct Collector {
    child: Child,
    /// Its lines, until it ends.
    said: Receiver<io::Result<String>>,
}

/// The database of a run.
pub(super) fn database(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
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
                .arg(format!("0.0.0.0:{COLLECTOR_PORT}"))
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
        let collector = Self {
            child,
            said: lines(said),
        };
        match collector.said.recv_timeout(READY) {
            Ok(line) => line.map(|_| collector).map_err(failed),
            Err(RecvTimeoutError::Disconnected) => Err(LabError::new(format!(
                "the collector cannot store in {}",
                database.display()
            ))),
            Err(RecvTimeoutError::Timeout) => Err(LabError::new(format!(
                "the collector does not listen after {} s",
                READY.as_secs()
            ))),
        }
    }

    /// Ends it in order: how many measurements it stored, and how many are known to be missing.
    ///
    /// # Errors
    /// When it ended before, so that nobody knows what it stored, or does not come to an end.
    pub(super) fn finish(self) -> Result<(u64, u64), LabError> {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = process.map(|process| kill_process(process, Signal::TERM));
        last_words(&self.said, END).and_then(|text| {
            let what = "the collector ended by itself: nobody knows what it stored";
            let hint = format!("look whether {DATABASE} of the run can be written and read");
            summary(&text).ok_or_else(|| LabError::new(what).with_hint(hint))
        })
    }
}

/// The output of a process, line by line as it comes: a caller that waits for the next line can give up.
fn lines(said: ChildStdout) -> Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(said).lines();
        // Nobody listens any more: the collector was given up.
        lines.try_for_each(|line| sender.send(line).map_err(drop))
    });
    receiver
}

/// All that is still said, once it is at its end.
fn last_words(said: &Receiver<io::Result<String>>, patience: Duration) -> Result<String, LabError> {
    let end = Instant::now() + patience;
    let mut text = String::new();
    loop {
        match said.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Ok(line)) => text += &line,
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Ok(text),
            Err(RecvTimeoutError::Timeout) => {
                let what = format!(
                    "the collector has not stored all after {} s: nobody knows what it stored",
                    patience.as_secs()
                );
                return Err(LabError::new(what));
            }
        }
    }
}

/// Measurements that are stored and that are not, as a collector says at its end; none where it came to no end.
fn summary(text: &str) -> Option<(u64, u64)> {
    let told: Value = serde_json::from_str(text.trim()).ok()?;
    let streams = told.get("streams")?.as_array()?;
    let of_measurements = streams.iter().filter(|it| is_of_measurements(it));
    let stored = of_measurements.map(|it| counted(it, "rows")).sum();
    let mut losses: BTreeMap<(String, String), Loss> = BTreeMap::new();
    for stream in streams {
        let word = |key| stream.get(key).and_then(Value::as_str).unwrap_or_default();
        let sender = (word("domain").to_owned(), word("sender").to_owned());
        losses.entry(sender).or_default().add(stream);
    }
    Some((stored, losses.values().map(Loss::rows).sum()))
}

/// A count of a stream's rows.
fn counted(stream: &Value, key: &str) -> u64 {
    stream.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// Rows of a sender that are not stored. The number of a row that was refused as it came is missing as well, so it is counted once.
#[derive(Debug, Default)]
struct Loss {
    /// Rows of streams that are known.
    of_streams: u64,
    /// Rows of them that are missing beyond the refused ones of their stream.
    not_come: u64,
    /// Refused rows of which the stream cannot be told; their numbers are missing in one.
    of_none: u64,
}

impl Loss {
    fn add(&mut self, stream: &Value) {
        let (missing, refused) = (counted(stream, "missing"), counted(stream, "rejected"));
        let of_reason = |reason| {
            let reasons = stream.get("reasons");
            reasons.map_or(0, |reasons| counted(reasons, reason))
        };
        let known: u64 = KNOWN.into_iter().map(of_reason).sum();
        let refused = refused.saturating_sub(known);
        if stream.get("stream").and_then(Value::as_str) == Some(UNKNOWN_STREAM) {
            self.of_none += refused;
        } else {
            self.of_streams += missing.max(refused) + known;
            self.not_come += missing.saturating_sub(refused);
        }
    }

    const fn rows(&self) -> u64 {
        self.of_streams + self.of_none.saturating_sub(self.not_come)
    }
}

/// True if a stream has measurements, and not a client's account of itself or metadata.
fn is_of_measurements(stream: &Value) -> bool {
    let name = stream.get("stream").and_then(Value::as_str);
    name.is_none_or(|name| !name.starts_with('_'))
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
    fn who_says_nothing_and_does_not_end_is_given_up() {
        let (sender, said) = mpsc::channel();
        sender.send(Ok("a".to_owned())).expect("it is open");
        let error = last_words(&said, Duration::from_millis(20)).expect_err("it is not at its end");
        assert!(error.what.contains("has not stored all"), "{}", error.what);
        sender.send(Ok("b".to_owned())).expect("it is open");
        drop(sender);
        assert_eq!(last_words(&said, Duration::ZERO).expect("its end"), "b");
    }

    #[test]
    fn a_row_that_was_refused_is_counted_once() {
        let lost = |streams: &str| summary(&format!("{{\"streams\":[{streams}]}}"));
        // Two of ten were refused, and their numbers are missing.
        let refused = r#"{"stream":"t","rows":8,"missing":2,"rejected":2,"reasons":{"value":2}}"#;
        assert_eq!(lost(refused), Some((8, 2)));
        // The last was refused, so its number is in no gap; and one more did not come.
        let last = r#"{"stream":"t","rows":8,"missing":0,"rejected":1,"reasons":{"value":1}}"#;
        assert_eq!(lost(last), Some((8, 1)));
        let others = r#"{"stream":"t","rows":8,"missing":3,"rejected":2,"reasons":{"value":2}}"#;
        assert_eq!(lost(others), Some((8, 3)));
        // Numbers of rows that no table took are there.
        let whole =
            r#"{"stream":"t","rows":5,"missing":1,"rejected":4,"reasons":{"no-table":3,"nul":1}}"#;
        assert_eq!(lost(whole), Some((5, 4)));
        // A row that nobody knows the stream of is one that is missing in another of its sender.
        let unknown = r#"{"stream":"?","rows":0,"missing":0,"rejected":2,"reasons":{"head":2}}"#;
        assert_eq!(lost(&format!("{others},{unknown}")), Some((8, 4)));
        let other = unknown.replace("\"stream\"", "\"sender\":\"other\",\"stream\"");
        assert_eq!(lost(&format!("{others},{other}")), Some((8, 5)));
    }

    #[test]
    fn a_collector_that_came_to_no_end_has_no_summary() {
        let told = r#"{"streams":[{"rows":3,"missing":1,"rejected":2},{"rows":4}]}"#;
        assert_eq!(summary(told), Some((7, 2)));
        assert_eq!(summary(r#"{"streams":[]}"#), Some((0, 0)));
        let own = r#"{"streams":[{"stream":"_dhow_client","rows":2,"missing":1},{"stream":"udp_in","rows":5}]}"#;
        assert_eq!(summary(own), Some((5, 1)));
        for cut in ["", "{\"streams\":[{\"rows\"", "{}"] {
            assert_eq!(summary(cut), None, "{cut}");
        }
    }
}
