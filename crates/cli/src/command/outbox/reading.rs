//! One file of a folder, read for its digest and for its bundle: the same octets both times, or nothing is sent.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};

use dhow_client::folder::RelativePath;

use super::ledger::Sent;
use crate::digest::Sha256;
use crate::interrupt;
use crate::tree::{self, Obstacle, Stamp, Tree};

/// Files up to this size are read once, and sent from memory.
const MEMORY_OCTETS: u64 = 1 << 20;

/// Octets read at a time.
const PIECE_OCTETS: usize = 256 * 1024;

/// A file as it will be sent.
#[derive(Debug)]
pub struct Reading {
    /// Its state and its digest, for the ledger.
    pub sent: Sent,
    /// Its octets.
    pub content: Content,
}

/// The octets of a file.
#[derive(Debug)]
pub enum Content {
    /// Octets in memory.
    Memory(Vec<u8>),
    /// A file to be read again.
    File(Checked),
}

/// Why a file cannot be sent now.
#[derive(Debug)]
pub enum Unread {
    /// The file is another one, or none, since it was looked at.
    Changed,
    /// The command is to end.
    Interrupted,
    /// The system refuses.
    System(io::Error),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// A file that is read again: its end is read only if all octets were the same as before.
#[derive(Debug)]
pub struct Checked {
    file: File,
    left: u64,
    expected: [u8; 32],
    digest: Option<Sha256>,
}

impl Reading {
    /// Reads a file that had this stamp when it was looked at.
    pub fn of(tree: &Tree, path: &RelativePath, stamp: Stamp) -> Result<Self, Unread> {
        let (mut file, found) = match tree.file(path) {
            Ok(Some(found)) => found,
            Ok(None) | Err(Obstacle::At(..) | Obstacle::Named(..)) => return Err(Unread::Changed),
            Err(Obstacle::System(error)) => return Err(error.into()),
        };
        if found != stamp {
            return Err(Unread::Changed);
        }
        let (content, sha256) = if stamp.octets <= MEMORY_OCTETS {
            let mut octets = Vec::new();
            // One octet more would show that there is more.
            (&mut file)
                .take(MEMORY_OCTETS + 1)
                .read_to_end(&mut octets)?;
            if u64::try_from(octets.len()) != Ok(stamp.octets) {
                return Err(Unread::Changed);
            }
            let sha256 = Sha256::of_octets(&octets);
            (Content::Memory(octets), sha256)
        } else {
            let sha256 = digest(&mut file, stamp.octets)?;
            file.seek(SeekFrom::Start(0))?;
            let checked = Checked {
                file: file.try_clone()?,
                left: stamp.octets,
                expected: sha256,
                digest: Some(Sha256::default()),
            };
            (Content::File(checked), sha256)
        };
        match tree::stamp(&file).map_err(io::Error::from)? {
            Some(after) if after == stamp => Ok(Self {
                sent: Sent { stamp, sha256 },
                content,
            }),
            _ => Err(Unread::Changed),
        }
    }
}

fn digest(file: &mut File, octets: u64) -> Result<[u8; 32], Unread> {
    let mut digest = Sha256::default();
    let mut piece = vec![0_u8; PIECE_OCTETS];
    let mut left = octets;
    while left > 0 {
        if interrupt::is_requested() {
            return Err(Unread::Interrupted);
        }
        let length = match file.read(&mut piece) {
            Ok(0) => return Err(Unread::Changed),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        digest.update(piece.get(..length).unwrap_or_default());
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        left = left.checked_sub(length).ok_or(Unread::Changed)?;
    }
    Ok(digest.octets())
}

impl Read for Checked {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if interrupt::is_requested() {
            return Err(io::Error::other("the command was interrupted"));
        }
        let length = (&mut self.file).take(self.left).read(out)?;
        if let Some(digest) = &mut self.digest {
            digest.update(out.get(..length).unwrap_or_default());
        }
        let read = u64::try_from(length).unwrap_or(u64::MAX);
        self.left = self.left.saturating_sub(read);
        if self.left == 0
            && let Some(digest) = self.digest.take()
            && digest.octets() != self.expected
        {
            return Err(io::Error::other("the file changed while it was read"));
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    fn look(tree: &Tree, path: &RelativePath) -> Stamp {
        tree.file(path).unwrap().unwrap().1
    }

    #[test]
    fn a_file_is_read_as_it_was_looked_at_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let tree = Tree::open(directory.path()).unwrap();
        let path = RelativePath::new("a").unwrap();
        for octets in [0, 3, MEMORY_OCTETS, MEMORY_OCTETS + 1, 3 * MEMORY_OCTETS] {
            let content: Vec<u8> = (0..octets)
                .map(|at| u8::try_from(at % 251).unwrap())
                .collect();
            fs::write(directory.path().join("a"), &content).unwrap();
            let stamp = look(&tree, &path);
            let reading = Reading::of(&tree, &path, stamp).unwrap();
            assert_eq!(reading.sent.sha256, Sha256::of_octets(&content));
            let mut read = Vec::new();
            match reading.content {
                Content::Memory(octets) => read = octets,
                Content::File(mut file) => {
                    file.read_to_end(&mut read).unwrap();
                }
            }
            assert!(read == content, "{octets} octets");
            let before = Stamp {
                octets: octets + 1,
                ..stamp
            };
            assert!(matches!(
                Reading::of(&tree, &path, before),
                Err(Unread::Changed)
            ));
        }
        fs::remove_file(directory.path().join("a")).unwrap();
        let stamp = Stamp {
            octets: 0,
            modified: dhow_client::folder::FileTime::EPOCH,
            mode: 0,
            changed: (0, 0),
            inode: 0,
        };
        assert!(matches!(
            Reading::of(&tree, &path, stamp),
            Err(Unread::Changed)
        ));
    }

    #[test]
    fn the_end_of_a_file_that_changes_while_it_is_sent_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("a");
        let mut file = File::create(&name).unwrap();
        let content = vec![7; usize::try_from(MEMORY_OCTETS).unwrap() + 9];
        file.write_all(&content).unwrap();
        let tree = Tree::open(directory.path()).unwrap();
        let path = RelativePath::new("a").unwrap();
        let reading = Reading::of(&tree, &path, look(&tree, &path)).unwrap();
        let Content::File(mut checked) = reading.content else {
            panic!("it is too large for memory");
        };
        file.write_all_at(b"8", MEMORY_OCTETS).unwrap();
        let mut read = Vec::new();
        assert!(checked.read_to_end(&mut read).is_err());
        assert!(read.len() < content.len());
    }
}
