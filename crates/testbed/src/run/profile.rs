//! Profiles of the nodes' processor time, by perf, in short.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::LabError;
use crate::node::Daemon;
use crate::place::{Layout, needs};
use crate::results::PROFILE;

/// The file of perf's record.
const RECORDED: &str = "perf.data";

/// Samples a second: a prime number, so that samples do not fall in step with regular work.
const RATE: &str = "199";

/// The largest record of a node.
const RECORDED_MAX: &str = "64M";

/// Functions that are kept of a node.
const SYMBOLS_MAX: usize = 40;

/// Octets of perf's words that are looked at.
const WORDS_OCTETS_MAX: u64 = 1 << 20;

/// The longest time for perf to begin or to end its record.
const RECORD: Duration = Duration::from_secs(10);

/// The longest time for perf to report on its record of a node.
const TELL: Duration = Duration::from_secs(20);

/// The time from one look to the next.
const LOOK: Duration = Duration::from_millis(5);

/// The profiling of nodes, beside their use of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profiling {
    /// Nothing.
    Nothing,
    /// The processor time of nodes, by function.
    Nodes,
}

impl Profiling {
    /// Says what this machine lacks for it.
    ///
    /// # Errors
    /// When there is no perf.
    pub(super) fn check(self) -> Result<(), LabError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Nodes => needs::need("perf", "linux-perf"),
        }
    }

    /// Begins profiles of the nodes that run; those that crash are profiled until then.
    ///
    /// # Errors
    /// When perf does not begin.
    pub(super) fn begin(
        self,
        layout: &Layout,
        daemons: &[Option<Daemon>],
        directory: &Path,
    ) -> Result<Profiles, LabError> {
        let mut profiles = Profiles(Vec::new());
        if self == Self::Nothing {
            return Ok(profiles);
        }
        for (host, daemon) in layout.hosts.iter().zip(daemons) {
            if let Some(process) = daemon.as_ref().and_then(Daemon::process) {
                let place = directory.join("nodes").join(&host.name);
                let profile = Profile::begin(process, place).map_err(|error| {
                    let what = format!("perf cannot profile node '{}'", host.name);
                    LabError::io(what, &error).with_hint(
                        "it needs rights: root, or kernel.perf_event_paranoid of 1 and less",
                    )
                })?;
                profiles.0.push(profile);
            }
        }
        Ok(profiles)
    }
}

/// Profiles of all nodes, under way.
#[derive(Debug)]
pub(super) struct Profiles(Vec<Profile>);

/// A profile of one node, under way.
#[derive(Debug)]
struct Profile {
    perf: Child,
    place: PathBuf,
}

impl Profiles {
    /// Ends them, and keeps what they tell.
    pub(super) fn finish(mut self) {
        for profile in &self.0 {
            profile.interrupt();
        }
        for profile in &mut self.0 {
            let words = match profile.told() {
                Ok(words) => words,
                Err(error) => format!("perf made no profile: {error}\n"),
            };
            // A profile is not worth a run.
            let _ = fs::write(profile.place.join(PROFILE), words);
            let _ = fs::remove_file(profile.place.join(RECORDED));
        }
    }
}

impl Profile {
    fn begin(process: u32, place: PathBuf) -> io::Result<Self> {
        let recorded = place.join(RECORDED);
        let perf = Command::new("perf")
            .args(["record", "--quiet", "--event", "cpu-clock"])
            .args(["--freq", RATE, "--max-size", RECORDED_MAX])
            .arg("--pid")
            .arg(process.to_string())
            .arg("--output")
            .arg(&recorded)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut profile = Self { perf, place };
        let end = Instant::now() + RECORD;
        while !fs::metadata(&recorded).is_ok_and(|file| file.len() > 0) {
            if profile.perf.try_wait()?.is_some() {
                let mut words = String::new();
                let said = profile.perf.stderr.take();
                let _ = said.map(|said| said.take(WORDS_OCTETS_MAX).read_to_string(&mut words));
                let first = words.lines().find(|line| !line.trim().is_empty());
                return Err(io::Error::other(first.unwrap_or("it ended").to_owned()));
            }
            if Instant::now() > end {
                return Err(io::Error::other("it does not begin"));
            }
            thread::sleep(LOOK);
        }
        Ok(profile)
    }

    fn interrupt(&self) {
        let process = i32::try_from(self.perf.id()).ok().and_then(Pid::from_raw);
        // It ended with its node where that crashed.
        let _ = process.map(|process| kill_process(process, Signal::INT));
    }

    /// The report on its record, in short.
    fn told(&mut self) -> io::Result<String> {
        wait(&mut self.perf, RECORD)?;
        let said = self.place.join(PROFILE);
        let mut perf = Command::new("perf")
            .args(["report", "--stdio", "--no-children", "--no-inline"])
            .args(["--fields", "overhead,dso,sym", "--input"])
            .arg(self.place.join(RECORDED))
            .stdin(Stdio::null())
            .stdout(File::create(&said)?)
            .stderr(Stdio::null())
            .spawn()?;
        let status = wait(&mut perf, TELL)?;
        if !status.success() {
            return Err(io::Error::other(format!("perf report: {status}")));
        }
        let mut words = String::new();
        File::open(&said)?
            .take(WORDS_OCTETS_MAX)
            .read_to_string(&mut words)?;
        Ok(shortened(&words))
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.perf.kill();
        let _ = self.perf.wait();
    }
}

/// Waits for a process, and kills it where it takes too long.
fn wait(process: &mut Child, patience: Duration) -> io::Result<ExitStatus> {
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if let Some(status) = process.try_wait()? {
            return Ok(status);
        }
        thread::sleep(LOOK);
    }
    process.kill()?;
    process.wait()?;
    Err(io::Error::other(format!(
        "it takes longer than {} s",
        patience.as_secs()
    )))
}

/// The first functions of a report, which take the most, with how many samples there are.
fn shortened(report: &str) -> String {
    let samples = report.lines().find(|line| line.starts_with("# Samples:"));
    let functions = report.lines().map(str::trim_end);
    let functions = functions.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut short = String::new();
    for line in samples.into_iter().chain(functions.take(SYMBOLS_MAX)) {
        short += line;
        short.push('\n');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_keeps_the_functions_that_take_the_most() {
        let mut report =
            "# To display the perf.data header info\n#\n# Samples: 1K of event 'cpu-clock'\n\n"
                .to_owned();
        for number in 0..100 {
            report += &format!(
                "    {}.00%  [.] function_{number}   dhow   \n",
                100 - number
            );
        }
        let short = shortened(&report);
        let lines: Vec<&str> = short.lines().collect();
        assert_eq!(lines.len(), 1 + SYMBOLS_MAX);
        assert_eq!(lines[0], "# Samples: 1K of event 'cpu-clock'");
        assert_eq!(lines[1], "    100.00%  [.] function_0   dhow");
        assert!(lines[SYMBOLS_MAX].contains("function_39"));
    }
}
