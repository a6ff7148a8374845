//! The packets that pass over each link, as files that Wireshark opens: one for each of its ends, since the ends differ by what is lost on the way.
//!
//! A link is known by its network, and not by its interface, which goes down at the end of a contact, and a capture with it.

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::LabError;
use crate::namespace;
use crate::place::{Layout, LinkPlace, needs};

/// The directory of a run's captures.
const PLACE: &str = "packets";

/// KiB of one file, at most.
const FILE_KIB: u64 = 1 << 20;

/// The longest time for a capture to begin and to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The use of packets that pass over links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {
    /// Packets at which nobody looks.
    Passed,
    /// The packets are in a file for each end of a link.
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

/// Captures of all links, one for each end.
#[derive(Debug, Default)]
pub(super) struct Captures(Vec<Child>);

impl Captures {
    /// Begins those of all links, into files of the names of link and host. Links over the wire of another are in its files.
    ///
    /// # Errors
    /// When one does not begin.
    pub(super) fn begin(layout: &Layout, directory: &Path) -> Result<Self, LabError> {
        let directory = directory.join(PLACE);
        fs::create_dir_all(&directory).map_err(|error| {
            LabError::io(format!("cannot make {}", directory.display()), &error)
        })?;
        let mut captures = Self::default();
        let mut files = Vec::new();
        for link in layout.links.iter().filter(|link| link.over.is_none()) {
            let ends = link.ends.iter();
            for host in ends.filter_map(|end| layout.hosts.get(end.host)) {
                let failed = |error: io::Error| {
                    let what = format!("cannot capture '{}' at '{}'", link.name, host.name);
                    LabError::io(what, &error)
                };
                let file = directory.join(file_name(&link.name, &host.name));
                let spawn = || {
                    Command::new("dumpcap")
                        .args(["-q", "-n", "-i", "any", "-f", &network(link), "-a"])
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
                files.push(file);
            }
        }
        let begun = |file: &PathBuf| fs::metadata(file).is_ok_and(|file| file.len() > 0);
        let end = Instant::now() + PATIENCE;
        while !files.iter().all(begun) {
            if Instant::now() > end {
                return Err(LabError::new("dumpcap does not begin to capture"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(captures)
    }
}

/// The packets of a link's network of four addresses.
fn network(link: &LinkPlace) -> String {
    let [first, _] = &link.ends;
    let base = Ipv4Addr::from_bits(first.address.to_bits() & !3);
    format!("net {base}/30")
}

/// A link's file as one of its hosts sees it.
fn file_name(link: &str, host: &str) -> String {
    format!("{link}-{host}.pcapng").replace(['/', '\0'], "_")
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
