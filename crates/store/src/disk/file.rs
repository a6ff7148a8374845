//! A log in a file of a directory that one node has for itself.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Read};
use std::os::unix::fs::{DirBuilderExt as _, FileExt, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use bytes::Bytes;

use super::buffers::Buffers;
use super::direct::{Direct, Written};
use super::{CachingDisk, Chunk, Disk, DiskError, slices};

/// Slices handed to the system in one call (`IOV_MAX` of Linux).
const SLICES_PER_CALL: usize = 1024;

/// Octets of zeros written at a time where the file system has no other way to see to room.
const ZERO_OCTETS: u64 = 256 * 1024;

static ZEROS: [u8; 256 * 1024] = [0; 256 * 1024];

/// Longest process ID read from a lock file, octets.
const PROCESS_ID_OCTETS: u64 = 20;

/// Digits of the one that is written there.
const PROCESS_ID_DIGITS: usize = 10;

/// Times that a lock which somebody has is tried, and the time between two.
const LOCK_TRIES: u32 = 25;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Permissions of a store's directory and files: other people's bundles are nobody else's to read.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Why a directory cannot be a store's.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the directory.
    #[error("the store in {} is in use by {}", path.display(), process.as_ref().map_or_else(|| "another process".to_owned(), |id| format!("process {id}")))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The holder, when its lock file says so.
        process: Option<u32>,
    },
    /// The system refused.
    #[error("the store directory {} is not usable: {error}", path.display())]
    System {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// The state of a directory before it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// No node has had it.
    Unused,
    /// A node has had it: a log was there.
    Used,
}

/// The log file `log` of a directory, locked against other processes for as long as the value lives.
#[derive(Debug)]
pub struct FileDisk {
    file: File,
    path: PathBuf,
    /// The way past the page cache, where it is taken.
    direct: Option<Direct>,
    /// Whether the file system turned out not to have that way.
    is_indirect: AtomicBool,
    history: History,
    _lock: File,
}

/// Takes a lock. A process that somebody else is starting shares all locks until it runs its program, and a node that ends has it a moment
/// longer than its sockets: half a second is waited for both.
fn try_lock(lock: &File) -> Result<(), TryLockError> {
    for _ in 1..LOCK_TRIES {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            done => return done,
        }
    }
    lock.try_lock()
}

impl FileDisk {
    /// Takes the directory, and creates it and the log when they are missing.
    ///
    /// # Errors
    /// Another process holds the directory, or the system refused.
    pub fn open(directory: &Path) -> Result<Self, LockError> {
        let system = |path: &Path| {
            let path = path.to_owned();
            move |error| LockError::System { path, error }
        };
        Self::make(directory).map_err(system(directory))?;
        let (lock, history) = Self::lock(directory)?;
        let path = directory.join("log");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(&path)
            .map_err(system(&path))?;
        // The name must outlive a power failure as well as the octets.
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(system(directory))?;
        Ok(Self {
            file,
            path,
            direct: None,
            is_indirect: AtomicBool::new(false),
            history,
            _lock: lock,
        })
    }

    /// The same log, written and read past the system's page cache where the file system has a way; so many octets of it, those
    /// written last and those read ahead, are kept in memory, in buffers of a pool.
    #[must_use]
    pub fn with_memory(mut self, octets: u64, buffers: Buffers) -> Self {
        self.direct = Direct::open(&self.path, octets, buffers);
        self
    }

    /// Whether it is written and read past the system's page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct().is_some()
    }

    fn direct(&self) -> Option<&Direct> {
        let is_indirect = self.is_indirect.load(Ordering::Relaxed);
        self.direct.as_ref().filter(|_| !is_indirect)
    }

    /// Whether a node has had the directory before, as its lock file tells: a new log there means that the old one is gone.
    #[must_use]
    pub fn history(&self) -> History {
        self.history
    }

    /// Makes the directory for its owner alone; directories above it, and one that is there, stay as they are.
    fn make(directory: &Path) -> io::Result<()> {
        if directory.is_dir() {
            return Ok(());
        }
        if let Some(above) = directory.parent() {
            std::fs::create_dir_all(above)?;
        }
        std::fs::DirBuilder::new()
            .mode(DIRECTORY_MODE)
            .create(directory)
    }

    fn lock(directory: &Path) -> Result<(File, History), LockError> {
        let path = directory.join("lock");
        let system = |error| LockError::System {
            path: path.clone(),
            error,
        };
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(&path)
            .map_err(system)?;
        match try_lock(&lock) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = lock.take(PROCESS_ID_OCTETS).read_to_string(&mut text);
                return Err(LockError::InUse {
                    path: directory.to_owned(),
                    process: text.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(system(error)),
        }
        let history = match lock.metadata().map_err(system)?.len() {
            0 => History::Unused,
            _ => History::Used,
        };
        // The number is for people, and always as long: it takes no room that was not there, and a disk that refuses it all the
        // same does not keep a store from being opened.
        let process = format!("{:1$}\n", std::process::id(), PROCESS_ID_DIGITS);
        let written = lock
            .write_all_at(process.as_bytes(), 0)
            .and_then(|()| lock.sync_data());
        match (written, history) {
            (Err(error), History::Unused) => Err(system(error)),
            _ => Ok((lock, history)),
        }
    }
}

impl FileDisk {
    /// Writes through the page cache.
    fn write_cached(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError> {
        if let [only] = octets {
            return Ok(self.file.write_all_at(only, offset)?);
        }
        let slices = octets.iter().filter(|slice| !slice.is_empty());
        let mut slices: Vec<IoSlice<'_>> = slices.copied().collect();
        Ok(write_slices(&self.file, offset, &mut slices)?)
    }
}

/// Writes slices, none of them empty, one after the other from `offset`.
pub(super) fn write_slices(
    file: &File,
    offset: u64,
    mut rest: &mut [IoSlice<'_>],
) -> io::Result<()> {
    let mut offset = offset;
    while !rest.is_empty() {
        let slices = rest.get(..SLICES_PER_CALL).unwrap_or(rest);
        let written = match rustix::io::pwritev(file, slices, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        offset = offset.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

impl Disk for FileDisk {
    fn size(&self) -> Result<u64, DiskError> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        let end = offset.saturating_add(u64::try_from(out.len()).unwrap_or(u64::MAX));
        if let Some(direct) = self.direct() {
            direct.wait_until_written(offset, out.len())?;
        }
        self.file
            .read_exact_at(out, offset)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => DiskError::PastEnd { end },
                _ => error.into(),
            })
    }

    fn write_at(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError> {
        let Some(direct) = self.direct() else {
            return self.write_cached(offset, octets);
        };
        let count: usize = octets.iter().map(|slice| slice.len()).sum();
        let end = offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        direct.change(offset, end)?;
        let written = self.write_cached(offset, octets);
        // Octets that were read ahead meanwhile may be older.
        direct.outdate(offset, end);
        written
    }

    fn resize(&self, octets: u64) -> Result<(), DiskError> {
        if let Some(direct) = self.direct() {
            direct.change(0, u64::MAX)?;
        }
        Ok(self.file.set_len(octets)?)
    }

    fn reserve(&self, from: u64, until: u64) -> Result<(), DiskError> {
        let mut at = from;
        while at < until {
            match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), at, until - at) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    let step = (until - at).min(ZERO_OCTETS);
                    let zeros = usize::try_from(step)
                        .ok()
                        .and_then(|step| ZEROS.get(..step));
                    self.file.write_all_at(zeros.unwrap_or_default(), at)?;
                    at += step;
                }
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    fn available(&self) -> Option<u64> {
        let system = rustix::fs::fstatvfs(&self.file).ok()?;
        Some(system.f_bavail.saturating_mul(system.f_frsize))
    }

    fn sync(&self) -> Result<(), DiskError> {
        if self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::other("the log was removed while it was in use").into());
        }
        if let Some(direct) = self.direct() {
            direct.settle()?;
        }
        Ok(self.file.sync_data()?)
    }

    fn caching(&self) -> Option<&dyn CachingDisk> {
        Some(self)
    }
}

impl CachingDisk for FileDisk {
    fn append_at(&self, offset: u64, octets: &[Chunk<'_>]) -> Result<(), DiskError> {
        if let Some(direct) = self.direct() {
            match direct.write(offset, octets, &self.file)? {
                Written::Yes => return Ok(()),
                Written::Unsupported => self.is_indirect.store(true, Ordering::Relaxed),
            }
        }
        self.write_at(offset, &slices(octets))
    }

    fn grain(&self) -> Option<usize> {
        self.direct()?.grain()
    }

    fn share(&self, offset: u64, most: u64) -> Option<Bytes> {
        self.direct()?.share(offset, most)
    }

    fn give_back(&self) {
        if let Some(direct) = self.direct() {
            direct.give_back();
        }
    }

    fn forget(&self, offset: u64, octets: u64) {
        if let Some(direct) = self.direct() {
            direct.forget(offset, offset.saturating_add(octets));
        }
    }
}
