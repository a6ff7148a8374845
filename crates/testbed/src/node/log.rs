//! The output of a process, kept in two files; the older one is dropped when both are full, so that the end is kept.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Set once the text that is looked for is in what was copied.
    said: Arc<AtomicBool>,
}

impl Log {
    /// Begins; the newer octets are at `path`, older ones beside it with `.1` behind its name.
    ///
    /// # Errors
    /// When the file cannot be opened; it is continued where it is there.
    pub fn begin(source: PipeReader, path: &Path) -> io::Result<Self> {
        Self::begin_looking(source, path, None)
    }

    /// The same, and looks for a text.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn begin_looking(
        mut source: PipeReader,
        path: &Path,
        text: Option<&str>,
    ) -> io::Result<Self> {
        let mut writer = Writer::open(path)?;
        let (copying, copied) = mpsc::channel();
        let said = Arc::new(AtomicBool::new(false));
        let mut search = text.map(|text| (Search::new(text), Arc::clone(&said)));
        thread::spawn(move || {
            let _copying = copying;
            let mut buffer = [0; 8192];
            loop {
                match source.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(octets) => {
                        let octets = buffer.get(..octets).unwrap_or_default();
                        writer.write(octets);
                        let found = search.as_mut().is_some_and(|(it, _)| it.finds(octets));
                        if let Some((_, said)) = search.take_if(|_| found) {
                            said.store(true, Ordering::Release);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
        Ok(Self { copied, said })
    }

    /// True once the text that is looked for was said.
    #[must_use]
    pub fn has_said_it(&self) -> bool {
        self.said.load(Ordering::Acquire)
    }

    /// Waits until all is written that was said, but not for ever: a process that took to a session of its own may hold the
    /// pipe open, and is copied for as long as it does.
    pub fn finish(&mut self) {
        let _ = self.copied.recv_timeout(REST);
    }
}

/// Looks for a text in octets that come piece by piece.
#[derive(Debug)]
struct Search {
    text: Vec<u8>,
    /// The end of what came, in which the text may have begun.
    end: Vec<u8>,
}

impl Search {
    fn new(text: &str) -> Self {
        Self {
            text: text.as_bytes().to_vec(),
            end: Vec::new(),
        }
    }

    /// True if the text is in what has come with these octets.
    fn finds(&mut self, octets: &[u8]) -> bool {
        self.end.extend_from_slice(octets);
        let length = self.text.len().max(1);
        let found = self.end.windows(length).any(|part| part == self.text);
        let old = self.end.len().saturating_sub(length - 1);
        self.end.drain(..old);
        found
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
    fn a_text_is_found_wherever_the_pieces_end() {
        for cut in 0..=18 {
            let mut search = Search::new("Server listening");
            let (first, second) = b"\nServer listening\n".split_at(cut);
            let found = [search.finds(first), search.finds(second)];
            assert!(found.contains(&true), "{cut}");
        }
        let mut search = Search::new("ab");
        assert!(!search.finds(b"a") && !search.finds(b"a") && search.finds(b"b"));
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
