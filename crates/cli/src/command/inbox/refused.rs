//! Payloads that an inbox refused, kept for a person to look at.

use std::os::fd::{AsFd as _, OwnedFd};

use dhow_bundle::BundleId;
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use serde::Serialize;

use super::incoming::Arrived;
use crate::command::recv::filing::file_name;

/// Payloads that are kept, the newest ones.
const KEPT: usize = 100;

/// Octets of all kept payloads.
pub const KEPT_OCTETS: u64 = 64_000_000;

/// Why a payload is refused; the names are a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Its source may not write.
    Source,
    /// The payload has no header that can be read.
    Format,
    /// The payload has a path that breaks a rule.
    Path,
    /// The payload has more or fewer octets than its header says.
    Size,
    /// The payload has another SHA-256 than its header says.
    Digest,
    /// Something is in its way.
    Place,
}

/// The directory of payloads that were refused.
#[derive(Debug)]
pub struct Refused {
    directory: OwnedFd,
}

impl Refused {
    /// Payloads are kept in this directory.
    pub const fn new(directory: OwnedFd) -> Self {
        Self { directory }
    }

    /// Keeps the payload of a bundle; returns the name that it has.
    pub fn keep(&self, arrived: &mut Arrived, id: &BundleId) -> Result<String, Errno> {
        let name = file_name(id);
        arrived.place(&self.directory, &name)?;
        self.forget(&name)?;
        rustix::fs::fsync(&self.directory)?;
        Ok(name)
    }

    /// Removes the oldest payloads where there are too many, or too large ones, beside the newest.
    fn forget(&self, newest: &str) -> Result<(), Errno> {
        let mut kept = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_owned();
            let Ok(stat) = rustix::fs::statat(
                self.directory.as_fd(),
                name.as_c_str(),
                AtFlags::SYMLINK_NOFOLLOW,
            ) else {
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                let is_older = name.to_bytes() != newest.as_bytes();
                let octets = u64::try_from(stat.st_size).unwrap_or_default();
                kept.push((is_older, (stat.st_ctime, stat.st_ctime_nsec), name, octets));
            }
        }
        // Newest first: the one that came now, whatever the clock says, then by the time of its last change.
        kept.sort_by(|one, other| (one.0, &other.1, &one.2).cmp(&(other.0, &one.1, &other.2)));
        let mut octets = 0_u64;
        for (number, (_, _, name, length)) in kept.iter().enumerate() {
            octets = octets.saturating_add(*length);
            if number >= KEPT || octets > KEPT_OCTETS {
                rustix::fs::unlinkat(&self.directory, name.as_c_str(), AtFlags::empty())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use dhow_bundle::{CreationTimestamp, DtnTime};

    use super::super::incoming::Incoming;
    use super::*;

    #[test]
    fn the_newest_payloads_are_kept_and_no_more_of_them_than_are_allowed() {
        let [from, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut incoming = Incoming::new(File::open(from.path()).unwrap().into()).unwrap();
        let refused = Refused::new(File::open(to.path()).unwrap().into());
        let mut keep = |sequence, octets: usize| {
            let id = BundleId {
                source: "ipn:1.5".parse().unwrap(),
                creation: CreationTimestamp {
                    time: DtnTime::from_millis(812_345_678_901),
                    sequence,
                },
                fragment: None,
            };
            let payload = vec![7_u8; octets];
            let (mut arrived, ..) = incoming.write(&mut payload.as_slice()).unwrap();
            refused.keep(&mut arrived, &id).unwrap()
        };
        let count = || fs::read_dir(to.path()).unwrap().count();
        for sequence in 0..u64::try_from(KEPT).unwrap() + 2 {
            assert!(to.path().join(keep(sequence, 9)).exists());
        }
        assert_eq!(count(), KEPT);
        assert!(to.path().join(keep(500, 40_000_000)).exists());
        assert!(to.path().join(keep(501, 40_000_000)).exists());
        assert_eq!(count(), 1, "the older ones had to go for it");
    }
}
