//! The packets that pass over a host's links, as a file that Wireshark opens.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::LabError;
use crate::namespace;
use crate::place::{Layout, needs};

/// The networks of links, and not that of control.
const LINKS: &str = "net 198.18.0.0/15";

/// KiB of one host's file, at most.
const FILE_KIB: u64 = 1 << 20;

/// The longest time for a capture to begin and to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The use of packets that pass over links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {
    /// Nobody looks at them.
    Passed,
    /// They are in a file for each host.
    Captured,
}

impl Packets {
    /// Says what this machine lacks for it.
    ///
    /// # Errors
    /// When there is no program that captures.
    pub(super) fn check(self) -> Result<(), LabError> {
        match self {
            Self::Passed => Ok(()),
            Self::Captured => needs::need("dumpcap", "wireshark-common"),
        }
    }
}

/// Captures of all hosts, one for each.
#[derive(Debug, Default)]
pub(super) struct Captures(Vec<Child>);

impl Captures {
    /// Begins those of all hosts, into files of their names.
    ///
    /// # Errors
    /// When it does not begin.
    pub(super) fn begin(layout: &Layout, directory: &Path) -> Result<Self, LabError> {
        let mut captures = Self::default();
        for host in layout.own_hosts() {
            let failed = |error: io::Error| {
                LabError::io(format!("cannot capture at '{}'", host.name), &error)
            };
            let file = directory.join(format!("{}.pcapng", host.name));
            let spawn = || {
                Command::new("dumpcap")
                    .args(["-q", "-n", "-i", "any", "-f", LINKS, "-a"])
                    .arg(format!("filesize:{FILE_KIB}"))
                    .arg("-w")
                    .arg(&file)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
            };
            let child = namespace::within(&host.namespace, spawn).map_err(failed)?;
            captures.0.push(child);
        }
        let begun = |name: &String| {
            let file = directory.join(format!("{name}.pcapng"));
            fs::metadata(file).is_ok_and(|file| file.len() > 0)
        };
        let end = Instant::now() + PATIENCE;
        while !layout.own_hosts().all(|host| begun(&host.name)) {
            if Instant::now() > end {
                return Err(LabError::new("dumpcap does not begin to capture"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(captures)
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        for child in &self.0 {
            let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            // It may have ended by itself: its file is full.
            let _ = process.map(|process| kill_process(process, Signal::INT));
        }
        let end = Instant::now() + PATIENCE;
        for child in &mut self.0 {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
                thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
