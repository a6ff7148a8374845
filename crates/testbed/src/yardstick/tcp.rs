//! One TCP connection, octets in blocks, and at both ends either memory or a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::Figure;
use crate::number::float;

/// Octets of a block, at most.
pub const BLOCK_MAX: usize = 64 << 20;

/// Pause between two attempts to connect.
const RETRY: Duration = Duration::from_millis(100);

/// The longest silence of the other side.
const PATIENCE: Duration = Duration::from_secs(120);

/// The side that sends.
#[derive(Clone, Debug)]
pub struct Send {
    /// The side that receives.
    pub to: SocketAddr,
    /// Octets that are sent, at most.
    pub octets: u64,
    /// Octets that are written at once.
    pub block: usize,
    /// A file that they are read from, made before, out of the page cache, and removed at the end; else they are zeros in memory.
    pub file: Option<PathBuf>,
    /// The longest time to send.
    pub time: Duration,
    /// The longest time to wait for the other side to be there.
    pub wait: Duration,
}

/// The side that receives.
#[derive(Clone, Debug)]
pub struct Receive {
    /// The address at which it listens.
    pub at: SocketAddr,
    /// Octets that are read at once, at most.
    pub block: usize,
    /// A file that they are written to, which is on the disk before the last octet counts, and removed at the end.
    pub file: Option<PathBuf>,
}

impl Send {
    /// Sends, waits until the other side has all, and says how fast that was.
    ///
    /// # Errors
    /// When the file or the connection fails.
    pub fn run(&self) -> io::Result<Vec<Figure>> {
        let mut block = vec![0; self.block.clamp(1, BLOCK_MAX)];
        let mut source = self
            .file
            .as_ref()
            .map(|path| Scratch::filled(path, self.octets))
            .transpose()?;
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let begin = Instant::now();
        let mut sent = 0;
        while sent < self.octets && begin.elapsed() < self.time {
            let left = usize::try_from(self.octets - sent).unwrap_or(usize::MAX);
            let piece = block.get_mut(..left.min(self.block)).unwrap_or_default();
            if let Some(scratch) = &mut source {
                scratch.file.read_exact(piece)?;
            }
            stream.write_all(piece)?;
            sent += u64::try_from(piece.len()).unwrap_or(0);
        }
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut kept = [0; 8];
        stream.read_exact(&mut kept)?;
        let kept = u64::from_be_bytes(kept);
        let seconds = begin.elapsed().as_secs_f64();
        if kept != sent {
            let what = format!("{sent} octets were sent and {kept} are there");
            return Err(io::Error::other(what));
        }
        Ok(vec![
            Figure::rate("goodput", sent, seconds),
            Figure {
                figure: "octets".to_owned(),
                value: float(sent),
                unit: "octets".to_owned(),
            },
        ])
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let begin = Instant::now();
        loop {
            let left = self.wait.saturating_sub(begin.elapsed());
            match TcpStream::connect_timeout(&self.to, left.clamp(RETRY, PATIENCE)) {
                Ok(stream) => return Ok(stream),
                Err(error) if begin.elapsed() >= self.wait => return Err(error),
                Err(_) => thread::sleep(RETRY),
            }
        }
    }
}

/// A file that is removed when it is of no more use, also where something failed.
struct Scratch {
    file: File,
    path: PathBuf,
}

impl Scratch {
    fn empty(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        let path = path.to_path_buf();
        Ok(Self { file, path })
    }

    /// A file of zeros that have to be read from the disk.
    fn filled(path: &Path, octets: u64) -> io::Result<Self> {
        const PIECE: usize = 1 << 20;
        let mut scratch = Self::empty(path)?;
        let zeros = vec![0; PIECE];
        let mut left = octets;
        while left > 0 {
            let piece = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            let zeros = zeros.get(..piece).unwrap_or_default();
            scratch.file.write_all(zeros)?;
            left -= u64::try_from(piece).unwrap_or(left);
        }
        scratch.file.sync_all()?;
        forget(&scratch.file)?;
        scratch.file.seek(SeekFrom::Start(0))?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If even that fails, the measured figures still count.
        let _ = fs::remove_file(&self.path);
    }
}

/// Has the page cache forget a file that is on the disk.
pub(super) fn forget(file: &File) -> io::Result<()> {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

impl Receive {
    /// Takes one connection, keeps what comes, and says how fast that was.
    ///
    /// # Errors
    /// When the file or the connection fails.
    pub fn run(&self) -> io::Result<Vec<Figure>> {
        let listener = TcpListener::bind(self.at)?;
        let sink = self.file.as_deref().map(Scratch::empty);
        let mut sink = sink.transpose()?;
        let mut block = vec![0; self.block.clamp(1, BLOCK_MAX)];
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let begin = Instant::now();
        let mut kept = 0_u64;
        loop {
            let here = stream.read(&mut block)?;
            if here == 0 {
                break;
            }
            if let Some(scratch) = &mut sink {
                scratch
                    .file
                    .write_all(block.get(..here).unwrap_or_default())?;
            }
            kept += u64::try_from(here).unwrap_or(0);
        }
        if let Some(scratch) = &sink {
            scratch.file.sync_data()?;
        }
        let seconds = begin.elapsed().as_secs_f64();
        // The sender may be all that is waited for.
        drop(sink);
        stream.write_all(&kept.to_be_bytes())?;
        Ok(vec![Figure::rate("goodput", kept, seconds)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_also_where_nobody_is_there() {
        let place = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = free.local_addr().unwrap();
        drop(free);
        let send = Send {
            to: at,
            octets: 1_000,
            block: 1_000,
            file: Some(place.path().join("sent")),
            time: Duration::from_secs(60),
            wait: Duration::ZERO,
        };
        send.run().unwrap_err();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn octets_go_from_a_file_into_a_file() {
        let place = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = free.local_addr().unwrap();
        drop(free);
        let file = place.path().join("received");
        let receive = Receive {
            at,
            block: 1_000,
            file: Some(file),
        };
        let receiver = thread::spawn(move || receive.run());
        let send = Send {
            to: at,
            octets: 123_456,
            block: 10_000,
            file: Some(place.path().join("sent")),
            time: Duration::from_secs(60),
            wait: Duration::from_secs(10),
        };
        let sent = send.run().unwrap();
        let received = receiver.join().unwrap().unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        assert_eq!(
            (sent[1].value, received[0].unit.as_str()),
            (123_456.0, "bit/s")
        );
        assert!(sent[0].value > 0.0);
    }
}
