//! The output of a process, kept in two files; the older one is dropped when both are full, so that the end is kept.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// Octets of one of the two files.
const FILE_OCTETS_MAX: u64 = 4 << 20;

/// Lines that are shown of a log.
const LAST_LINES: usize = 8;

/// Octets at the end of a log that are looked at for them.
const LAST_OCTETS: usize = 4096;

/// The longest time to wait for the rest of the output.
const REST: Duration = Duration::from_secs(1);

/// Copies the output of a pipe into files, until the pipe ends.
#[derive(Debug)]
pub struct Log {
    /// Hung up when all is written.
    copied: Receiver<()>,
}

impl Log {
    /// Begins; the newer octets are at `path`, older ones beside it with `.1` behind its name.
    ///
    /// # Errors
    /// When the file cannot be opened; it is continued where it is there.
    pub fn begin(mut source: PipeReader, path: &Path) -> io::Result<Self> {
        let mut writer = Writer::open(path)?;
        let (copying, copied) = mpsc::channel();
        thread::spawn(move || {
            let _copying = copying;
            let mut buffer = [0; 8192];
            loop {
                match source.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(octets) => writer.write(buffer.get(..octets).unwrap_or_default()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
        Ok(Self { copied })
    }

    /// Waits until all is written that was said, but not for ever: a process that took to a session of its own may hold the
    /// pipe open, and is copied for as long as it does.
    pub fn finish(&mut self) {
        let _ = self.copied.recv_timeout(REST);
    }
}

struct Writer {
    path: PathBuf,
    file: File,
    octets: u64,
}

impl Writer {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        let octets = file.metadata()?.len();
        let path = path.to_path_buf();
        Ok(Self { path, file, octets })
    }

    /// A log that cannot be written (a full disk, say) is no reason to end what it is of.
    fn write(&mut self, octets: &[u8]) {
        if self.octets >= FILE_OCTETS_MAX
            && fs::rename(&self.path, older(&self.path)).is_ok()
            && let Ok(next) = Self::open(&self.path)
        {
            *self = next;
        }
        if self.file.write_all(octets).is_ok() {
            let written = u64::try_from(octets.len()).unwrap_or(0);
            self.octets = self.octets.saturating_add(written);
        }
    }
}

/// The name of the older file.
fn older(path: &Path) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(".1");
    PathBuf::from(name)
}

/// The last lines of a log.
#[must_use]
pub fn last_words(path: &Path) -> String {
    let octets = fs::read(path).unwrap_or_default();
    let from = octets.len().saturating_sub(LAST_OCTETS);
    let end = String::from_utf8_lossy(octets.get(from..).unwrap_or_default());
    let lines: Vec<&str> = end.lines().collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    lines.get(from..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_stays_open_keeps_nobody() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("node.log");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let mut log = Log::begin(reader, &path).expect("a log");
        writer.write_all(b"last words\n").expect("it is taken");
        log.finish();
        assert_eq!(last_words(&path), "last words");
        drop(writer);
    }

    #[test]
    fn a_log_is_bounded_and_its_end_is_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("node.log");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let mut log = Log::begin(reader, &path).expect("a log");
        let line = vec![b'x'; 1 << 20];
        for _ in 0..20 {
            writer.write_all(&line).expect("it is taken");
        }
        writer.write_all(b"\nlast words\n").expect("it is taken");
        drop(writer);
        log.finish();
        let octets: u64 = fs::read_dir(directory.path())
            .expect("files")
            .map(|file| file.and_then(|file| file.metadata()).expect("a file").len())
            .sum();
        let bound = 2 * FILE_OCTETS_MAX + (1 << 20);
        assert!((FILE_OCTETS_MAX..bound).contains(&octets), "{octets}");
        assert!(last_words(&path).ends_with("last words"));
    }
}
