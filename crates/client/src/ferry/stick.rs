//! The directories of a medium, and how they change: a file is there whole or not at all, and others' files are never touched.
//!
//! Every name is opened within the directory before, without following a symbolic link, and only where it is a regular file. A medium may
//! be taken away at any moment: each call fails then, and [`Stick::is_here`] says whether it is still in its place.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use dhow_bundle::NodeId;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::name::{
    Digest, FileKind, FileName, Key, WriterKey, acknowledgment_name, bundle_name, part_name,
};
use super::note::{Acknowledgment, NOTE_OCTETS_MAX};
use super::room::{self, NoRoom, Writable};

/// The directory of a medium that belongs to ferries.
pub const DIRECTORY: &str = "dhow-ferry";

/// The file that says which format the directory has.
const FORMAT: &str = "format";

/// The first line of that file; the second is `stick` and the ID of the medium.
const MAGIC: &str = "dhow-ferry 1";

/// The file with the ID of the node that writes into a directory.
const NODE: &str = "node";

/// Directories of writers on a medium, at most; further ones are not read.
pub const WRITERS_MAX: usize = 1_024;

/// Most octets of a file on a FAT file system.
const FAT_OCTETS_MAX: u64 = 4_294_967_295;

/// `f_type` of a FAT file system (Linux).
const FAT_MAGIC: i64 = 0x4d44;

/// A medium that is in its place.
#[derive(Debug)]
pub struct Stick {
    path: PathBuf,
    directory: OwnedFd,
    identity: (u64, u64),
    id: NodeId,
    own: WriterKey,
    writable: Writable,
    /// The directory of this node, where there is one: locked as long as the medium is open.
    home: Option<OwnedFd>,
    /// Whether files were removed that a killed program of this node left.
    is_tidy: bool,
}

/// The outcome of an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The acknowledgment is durable, and its bundle removed.
    Durable,
    /// The bundle is removed, and there is no room for the acknowledgment yet: it is to be written later.
    Owed,
}

/// A file that was found in a writer's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The directory.
    pub writer: WriterKey,
    /// The file.
    pub name: FileName,
    /// Its name as text.
    pub text: String,
}

/// A look at all files of a medium, one at a time: it takes the same memory however many there are.
#[derive(Debug)]
pub struct Look {
    writers: Vec<WriterKey>,
    current: Option<(WriterKey, Dir)>,
    /// Files that no ferry made.
    pub foreign: u64,
}

/// A file that is being written; it is removed unless it is [finished](Part::finish).
#[derive(Debug)]
pub struct Part {
    directory: OwnedFd,
    name: Option<String>,
    file: File,
    digest: Digest,
    octets: u64,
}

/// The device and the number of a file.
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

const LOOK_FLAGS: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Stick {
    /// Opens the medium at `path` for a node. Its directory is made where it is missing; `random` is the ID of a new medium.
    ///
    /// # Errors
    /// There is no directory, or another format, or (`WouldBlock`) another program of the same node has it open. A medium that has
    /// nothing and cannot be written is an error that [`Writable::refusing_with`] knows.
    pub fn open(path: &Path, node: &NodeId, random: [u8; 16]) -> io::Result<Self> {
        let root = rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Self::open_in(&root, path, node, random)
    }

    /// The same in a directory that is open; it was found at `path`.
    pub(super) fn open_in(
        root: &OwnedFd,
        path: &Path,
        node: &NodeId,
        random: [u8; 16],
    ) -> io::Result<Self> {
        let made = match rustix::fs::mkdirat(root, DIRECTORY, Mode::from_raw_mode(0o777)) {
            Ok(()) => rustix::fs::fsync(root).map_or_else(Err, Ok),
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error),
        };
        let directory = match rustix::fs::openat(root, DIRECTORY, LOOK_FLAGS, Mode::empty()) {
            Ok(directory) => directory,
            Err(error) => return Err(made.err().unwrap_or(error).into()),
        };
        let mut stick = Self {
            path: path.to_owned(),
            identity: identity(&rustix::fs::fstat(&directory)?),
            id: id_of(directory.as_fd(), random)?,
            directory,
            own: WriterKey::of(node),
            writable: Writable::No,
            home: None,
            is_tidy: false,
        };
        stick.look_again(node)?;
        Ok(stick)
    }

    /// Opens the medium at `path` to look at it.
    ///
    /// # Errors
    /// It is none, or cannot be read.
    pub fn look_at(path: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let missing = |name: &str, error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::new(error.kind(), format!("there is no {name} in it"))
            }
            _ => error,
        };
        let directory = rustix::fs::openat(&root, DIRECTORY, LOOK_FLAGS, Mode::empty())
            .map_err(|error| missing(&format!("directory {DIRECTORY}"), error.into()))?;
        let format = format!("file {DIRECTORY}/{FORMAT}");
        let id = read_id(directory.as_fd()).map_err(|error| missing(&format, error))?;
        Ok(Self {
            path: path.to_owned(),
            identity: identity(&rustix::fs::fstat(&directory)?),
            directory,
            own: WriterKey::of(&id),
            id,
            writable: Writable::No,
            home: None,
            is_tidy: false,
        })
    }

    /// The ID by which nodes know the medium as a neighbour: `dtn://ferry-` and 32 digits.
    #[must_use]
    pub const fn id(&self) -> &NodeId {
        &self.id
    }

    /// The directory of this node.
    #[must_use]
    pub const fn own(&self) -> WriterKey {
        self.own
    }

    /// Whether it may be written, as it was at the last look.
    #[must_use]
    pub const fn writable(&self) -> Writable {
        self.writable
    }

    /// Looks whether it may be written by this node, whose directory is made where it is missing and can be.
    ///
    /// # Errors
    /// The medium is gone; `WouldBlock` where another program of the same node has it open.
    pub fn look_again(&mut self, node: &NodeId) -> io::Result<()> {
        let settled = self.settle(node);
        self.writable = match settled {
            Ok(()) => Writable::Yes,
            Err(error) => match Writable::refusing_with(&error) {
                Some(refusing) => refusing,
                None => return Err(error),
            },
        };
        if self.writable == Writable::Yes && !self.is_tidy {
            self.remove_parts()?;
            self.is_tidy = true;
        }
        Ok(())
    }

    /// Makes sure of this node's directory, its lock, and the name in it.
    fn settle(&mut self, node: &NodeId) -> io::Result<()> {
        if self.home.is_none() {
            let name = self.own.to_string();
            match rustix::fs::mkdirat(&self.directory, &name, Mode::from_raw_mode(0o777)) {
                Ok(()) => rustix::fs::fsync(&self.directory)?,
                Err(Errno::EXIST) => {}
                // A medium that is read-only may say so although the directory is there.
                Err(error) if self.directory_of(self.own).is_err() => return Err(error.into()),
                Err(_) => {}
            }
            let home = self.directory_of(self.own)?;
            rustix::fs::flock(&home, FlockOperation::NonBlockingLockExclusive)?;
            self.home = Some(home);
        }
        let Some(home) = &self.home else {
            return Ok(());
        };
        match read_small(home.as_fd(), NODE).is_ok_and(|it| !it.is_empty()) {
            true => {
                let write = rustix::fs::Access::WRITE_OK;
                Ok(rustix::fs::accessat(home, ".", write, AtFlags::empty())?)
            }
            false => write_small(home.as_fd(), NODE, format!("{node}\n").as_bytes()),
        }
    }

    /// Whether there is room for a bundle of so many octets, and for acknowledgments beside it.
    ///
    /// # Errors
    /// There is none.
    pub fn fits(&self, octets: u64) -> Result<(), NoRoom> {
        // A medium that does not say how much room it has refuses what it does not take.
        let found = rustix::fs::fstatvfs(&self.directory);
        found.map_or(Ok(()), |found| room::fits(&found, octets))
    }

    /// Octets of the largest file that the file system takes; 0 for any.
    #[must_use]
    pub fn octets_max(&self) -> u64 {
        match rustix::fs::fstatfs(&self.directory) {
            Ok(found) if found.f_type == FAT_MAGIC => FAT_OCTETS_MAX,
            _ => 0,
        }
    }

    /// Whether the same medium is in its place.
    #[must_use]
    pub fn is_here(&self) -> bool {
        let found = rustix::fs::stat(self.path.join(DIRECTORY));
        found.is_ok_and(|found| identity(&found) == self.identity)
    }

    /// Begins a look at all files.
    ///
    /// # Errors
    /// The medium cannot be read.
    pub fn look(&self) -> io::Result<Look> {
        let mut writers = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            if writers.len() < WRITERS_MAX {
                writers.extend(WriterKey::read(entry?.file_name().to_bytes()));
            }
        }
        Ok(Look {
            writers,
            current: None,
            foreign: 0,
        })
    }

    /// The node that writes into a directory, as the directory says.
    #[must_use]
    pub fn writer(&self, writer: WriterKey) -> Option<NodeId> {
        let directory = self.directory_of(writer).ok()?;
        let octets = read_small(directory.as_fd(), NODE).ok()?;
        let node: NodeId = std::str::from_utf8(&octets).ok()?.trim_end().parse().ok()?;
        (WriterKey::of(&node) == writer).then_some(node)
    }

    /// Opens a file that was found, where it is a regular one: also its octets and the time of its last change.
    ///
    /// # Errors
    /// It is gone, or no regular file, or cannot be read.
    pub fn read(&self, found: &Found) -> io::Result<(File, u64, SystemTime)> {
        let directory = self.directory_of(found.writer)?;
        let (file, stat) = open_regular(directory.as_fd(), &found.text)?;
        let octets = u64::try_from(stat.st_size).unwrap_or(0);
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
        let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        Ok((file, octets, modified.unwrap_or(SystemTime::UNIX_EPOCH)))
    }

    /// Reads an acknowledgment that was found.
    ///
    /// # Errors
    /// It is gone, or none.
    pub fn read_acknowledgment(&self, found: &Found) -> io::Result<Acknowledgment> {
        let directory = self.directory_of(found.writer)?;
        let octets = read_small(directory.as_fd(), &found.text)?;
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        Acknowledgment::decode(&octets).map_err(invalid)
    }

    /// Whether there is an acknowledgment of a bundle in this node's directory.
    #[must_use]
    pub fn is_acknowledged(&self, key: Key) -> bool {
        let directory = self.directory_of(self.own);
        directory.is_ok_and(|it| {
            rustix::fs::statat(it, acknowledgment_name(key), AtFlags::SYMLINK_NOFOLLOW).is_ok()
        })
    }

    /// Whether a file is there.
    #[must_use]
    pub fn has(&self, found: &Found) -> bool {
        let directory = self.directory_of(found.writer);
        directory.is_ok_and(|it| {
            rustix::fs::statat(it, found.text.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
        })
    }

    /// Begins a file for a bundle in this node's directory.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn begin(&self, key: Key) -> io::Result<Part> {
        self.part(self.own, key)
    }

    /// Makes what was renamed and removed in a directory durable.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn sync(&self, writer: WriterKey) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.directory_of(writer)?)?)
    }

    /// Acknowledges a bundle of a writer that is durable in this node, and removes it then. On a medium that is full its room is the
    /// acknowledgment's: it is removed first, and if the acknowledgment is lost then, a writer that has the bundle still writes it again.
    ///
    /// # Errors
    /// The medium refuses; the bundle is there unless its acknowledgment is durable.
    pub fn acknowledge(&self, found: &Found, note: &Acknowledgment) -> io::Result<Answered> {
        answer(
            || self.write_acknowledgment(found, note),
            || {
                self.remove(found)?;
                self.sync(found.writer)
            },
        )
    }

    fn write_acknowledgment(&self, found: &Found, note: &Acknowledgment) -> io::Result<()> {
        let mut part = self.part(found.writer, found.name.key)?;
        part.write(note.encode().as_bytes())?;
        part.rename(&acknowledgment_name(found.name.key))?;
        self.sync(found.writer)
    }

    /// Removes a file; one that is gone was to be.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn remove(&self, found: &Found) -> io::Result<()> {
        let directory = self.directory_of(found.writer)?;
        match rustix::fs::unlinkat(&directory, found.text.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the acknowledgment of a bundle from this node's directory.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn remove_acknowledgment(&self, key: Key) -> io::Result<()> {
        self.remove(&Found {
            writer: self.own,
            name: FileName {
                key,
                kind: FileKind::Acknowledgment,
            },
            text: acknowledgment_name(key),
        })
    }

    fn part(&self, writer: WriterKey, key: Key) -> io::Result<Part> {
        let directory = self.directory_of(writer)?;
        let name = part_name(key, self.own);
        let flags = OFlags::CREATE
            | OFlags::TRUNC
            | OFlags::WRONLY
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, &name, flags, Mode::from_raw_mode(0o666))?;
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Part {
            directory,
            name: Some(name),
            file: File::from(file),
            digest: Digest::default(),
            octets: 0,
        })
    }

    fn directory_of(&self, writer: WriterKey) -> io::Result<OwnedFd> {
        let name = writer.to_string();
        Ok(rustix::fs::openat(
            &self.directory,
            name,
            LOOK_FLAGS,
            Mode::empty(),
        )?)
    }

    /// Removes what a program of this node left that was killed.
    fn remove_parts(&self) -> io::Result<()> {
        let directory = self.directory_of(self.own)?;
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if FileName::read(name.to_bytes()).map(|it| it.kind) == Some(FileKind::Part) {
                rustix::fs::unlinkat(&directory, name, AtFlags::empty())?;
            }
        }
        Ok(())
    }
}

impl Look {
    /// The next file; `None` at the end.
    ///
    /// # Errors
    /// A directory cannot be read. The look may go on with the next one.
    pub fn next(&mut self, stick: &Stick) -> io::Result<Option<Found>> {
        loop {
            let Some((writer, names)) = &mut self.current else {
                let Some(writer) = self.writers.pop() else {
                    return Ok(None);
                };
                match stick.directory_of(writer) {
                    Ok(directory) => self.current = Some((writer, Dir::read_from(directory)?)),
                    // It is no directory, or gone.
                    Err(_) => self.foreign = self.foreign.saturating_add(1),
                }
                continue;
            };
            let writer = *writer;
            let Some(entry) = names.next() else {
                self.current = None;
                continue;
            };
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.current = None;
                    return Err(error.into());
                }
            };
            let name = entry.file_name().to_bytes();
            match (FileName::read(name), std::str::from_utf8(name)) {
                (Some(name), Ok(text)) => {
                    let text = text.to_owned();
                    return Ok(Some(Found { writer, name, text }));
                }
                _ if [b".", b"..".as_slice(), NODE.as_bytes()].contains(&name) => {}
                _ => self.foreign = self.foreign.saturating_add(1),
            }
        }
    }
}

impl Part {
    /// Writes the octets that come next.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn write(&mut self, octets: &[u8]) -> io::Result<()> {
        self.file.write_all(octets)?;
        self.digest.update(octets);
        let count = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        self.octets = self.octets.saturating_add(count);
        Ok(())
    }

    /// Octets that were written.
    #[must_use]
    pub const fn octets(&self) -> u64 {
        self.octets
    }

    /// The file is whole: its octets are durable, and it has its name, which is durable once [`Stick::sync`] has returned.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn finish(self, writer: WriterKey, key: Key) -> io::Result<Found> {
        let digest = self.digest.clone().finish();
        let text = bundle_name(key, digest);
        self.rename(&text)?;
        let kind = FileKind::Bundle(digest);
        let name = FileName { key, kind };
        Ok(Found { writer, name, text })
    }

    fn rename(mut self, to: &str) -> io::Result<()> {
        self.file.sync_all()?;
        if let Some(name) = &self.name {
            rustix::fs::renameat(&self.directory, name.as_str(), &self.directory, to)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // A medium that is gone has it until the next time.
            let _ = rustix::fs::unlinkat(&self.directory, name.as_str(), AtFlags::empty());
        }
    }
}

/// Opens a regular file, and nothing else: what opening does to a pipe or a device nobody knows.
fn open_regular(directory: BorrowedFd<'_>, name: &str) -> io::Result<(File, Stat)> {
    let is_regular = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let refusal = || io::Error::new(io::ErrorKind::InvalidInput, "no regular file");
    if !is_regular(&stat) {
        return Err(refusal());
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    match is_regular(&stat) {
        true => Ok((File::from(file), stat)),
        false => Err(refusal()),
    }
}

fn read_small(directory: BorrowedFd<'_>, name: &str) -> io::Result<Vec<u8>> {
    let (file, _) = open_regular(directory, name)?;
    let mut octets = Vec::new();
    let limit = u64::try_from(NOTE_OCTETS_MAX).unwrap_or(0);
    file.take(limit.saturating_add(1))
        .read_to_end(&mut octets)?;
    Ok(octets)
}

/// Writes a small file that has its name once it is whole.
fn write_small(directory: BorrowedFd<'_>, name: &str, octets: &[u8]) -> io::Result<()> {
    let part = format!("{name}.{}.part", std::process::id());
    let flags =
        OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | LOOK_FLAGS.difference(OFlags::DIRECTORY);
    let file = rustix::fs::openat(directory, &part, flags, Mode::from_raw_mode(0o666))?;
    let mut file = File::from(file);
    let written = file.write_all(octets).and_then(|()| file.sync_all());
    let named = written.and_then(|()| {
        rustix::fs::renameat(directory, &part, directory, name)?;
        Ok(rustix::fs::fsync(directory)?)
    });
    if named.is_err() {
        let _ = rustix::fs::unlinkat(directory, &part, AtFlags::empty());
    }
    named
}

/// The ID of the medium, which is made where there is none.
fn id_of(directory: BorrowedFd<'_>, random: [u8; 16]) -> io::Result<NodeId> {
    match read_id(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let digits: String = random.iter().map(|it| format!("{it:02x}")).collect();
            let text = format!("{MAGIC}\nstick {digits}\n");
            write_small(directory, FORMAT, text.as_bytes())?;
            read_id(directory)
        }
        found => found,
    }
}

fn read_id(directory: BorrowedFd<'_>) -> io::Result<NodeId> {
    let octets = read_small(directory, FORMAT)?;
    let text = std::str::from_utf8(&octets).unwrap_or_default();
    let mut lines = text.lines();
    let is_ours = lines.next() == Some(MAGIC);
    let digits = lines.next().and_then(|line| line.strip_prefix("stick "));
    let digits = digits.filter(|it| {
        it.len() == 32 && it.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    });
    let id = digits.filter(|_| is_ours);
    let id = id.and_then(|digits| format!("dtn://ferry-{digits}/").parse().ok());
    id.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the format is not 'dhow-ferry 1'",
        )
    })
}

/// Writes an acknowledgment before its bundle is removed, or after that where there is no room for both.
fn answer(
    mut write: impl FnMut() -> io::Result<()>,
    remove: impl FnOnce() -> io::Result<()>,
) -> io::Result<Answered> {
    let is_full = |error: &io::Error| Writable::refusing_with(error) == Some(Writable::Full);
    match write() {
        Ok(()) => remove().map(|()| Answered::Durable),
        Err(error) if is_full(&error) => {
            remove()?;
            match write() {
                Ok(()) => Ok(Answered::Durable),
                Err(_) => Ok(Answered::Owed),
            }
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn node(text: &str) -> NodeId {
        text.parse().unwrap()
    }

    fn key(number: u64) -> Key {
        Key::of(&dhow_bundle::BundleId {
            source: "ipn:1.1".parse().unwrap(),
            creation: dhow_bundle::CreationTimestamp {
                time: dhow_bundle::DtnTime::from_millis(number),
                sequence: 0,
            },
            fragment: None,
        })
    }

    fn all(stick: &Stick) -> (Vec<Found>, u64) {
        let mut look = stick.look().unwrap();
        let mut found = Vec::new();
        while let Some(file) = look.next(stick).unwrap() {
            found.push(file);
        }
        (found, look.foreign)
    }

    fn written(stick: &Stick, number: u64, octets: &[u8]) -> Found {
        let mut part = stick.begin(key(number)).unwrap();
        part.write(octets).unwrap();
        let found = part.finish(stick.own(), key(number)).unwrap();
        stick.sync(stick.own()).unwrap();
        found
    }

    #[test]
    fn a_bundle_is_found_by_another_node_and_gone_once_it_is_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let one = Stick::open(folder.path(), &node("ipn:1.0"), [1; 16]).unwrap();
        let two = Stick::open(folder.path(), &node("ipn:2.0"), [2; 16]).unwrap();
        assert_eq!(one.id(), two.id(), "the medium has one ID");
        assert_eq!(
            one.id().to_string(),
            format!("dtn://ferry-{}/", "01".repeat(16))
        );
        let bundle = written(&one, 1, b"octets");
        assert_eq!(all(&two), (vec![bundle.clone()], 0));
        let (mut file, octets, _) = two.read(&bundle).unwrap();
        let mut read = Vec::new();
        file.read_to_end(&mut read).unwrap();
        assert_eq!((read.as_slice(), octets), (b"octets".as_slice(), 6));
        assert_eq!(two.writer(bundle.writer), Some(node("ipn:1.0")));
        let note = Acknowledgment {
            bundle: "ipn:1.1/1/0".into(),
            by: node("ipn:2.0"),
            expires: None,
        };
        let answered = two.acknowledge(&bundle, &note).unwrap();
        assert_eq!(answered, Answered::Durable);
        assert!(one.is_acknowledged(key(1)) && !one.has(&bundle));
        let (found, foreign) = all(&one);
        assert_eq!((found.len(), foreign), (1, 0));
        assert_eq!(one.read_acknowledgment(&found[0]).unwrap(), note);
        one.remove(&found[0]).unwrap();
        one.remove(&found[0]).unwrap();
        assert_eq!(all(&one).0, []);
    }

    #[test]
    fn a_second_program_of_a_node_is_refused_and_parts_go() {
        let folder = tempfile::tempdir().unwrap();
        let one = Stick::open(folder.path(), &node("ipn:1.0"), [1; 16]).unwrap();
        let again = Stick::open(folder.path(), &node("ipn:1.0"), [1; 16]);
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let mut part = one.begin(key(1)).unwrap();
        part.write(b"half").unwrap();
        assert_eq!(all(&one).0.len(), 1);
        drop(part);
        assert_eq!(all(&one).0, []);
        // A killed program leaves its part.
        let mut part = one.begin(key(2)).unwrap();
        part.write(b"half").unwrap();
        std::mem::forget(part);
        drop(one);
        let one = Stick::open(folder.path(), &node("ipn:1.0"), [1; 16]).unwrap();
        assert_eq!(all(&one), (vec![], 0));
        assert!(one.is_here());
        std::fs::rename(folder.path().join(DIRECTORY), folder.path().join("away")).unwrap();
        assert!(!one.is_here());
    }

    #[test]
    fn files_of_others_and_links_and_pipes_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let one = Stick::open(folder.path(), &node("ipn:1.0"), [1; 16]).unwrap();
        let bundle = written(&one, 1, b"octets");
        let place = folder.path().join(DIRECTORY).join(one.own().to_string());
        std::fs::write(place.join("letter.txt"), "mine").unwrap();
        std::fs::create_dir(place.join("photos")).unwrap();
        symlink("/etc/passwd", place.join(acknowledgment_name(key(5)))).unwrap();
        symlink("/dev/zero", place.join(bundle_name(key(6), [0; 16]))).unwrap();
        let pipe = place.join(bundle_name(key(7), [0; 16]));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        symlink("/tmp", folder.path().join(DIRECTORY).join("00".repeat(8))).unwrap();
        let (found, foreign) = all(&one);
        assert_eq!(foreign, 3, "two files and a directory that is a link");
        for file in found {
            let is_read = one.read(&file).is_ok() || one.read_acknowledgment(&file).is_ok();
            assert_eq!(is_read, file == bundle, "{}", file.text);
        }
        assert_eq!(std::fs::read(place.join("letter.txt")).unwrap(), b"mine");
    }

    /// A bundle is removed before its acknowledgment is durable only where there is no room for both.
    #[test]
    fn a_full_medium_gives_the_room_of_a_bundle_to_its_acknowledgment() {
        let full = || io::Error::from(Errno::NOSPC);
        let broken = || io::Error::from(Errno::IO);
        // The errors of the first and the second writing; the order of steps, and the outcome.
        let cases: [(Vec<io::Error>, &str, Option<Answered>); 5] = [
            (vec![], "wr", Some(Answered::Durable)),
            (vec![full()], "wrw", Some(Answered::Durable)),
            (vec![full(), full()], "wrw", Some(Answered::Owed)),
            (vec![full(), broken()], "wrw", Some(Answered::Owed)),
            (vec![broken()], "w", None),
        ];
        for (errors, steps, outcome) in cases {
            let done = std::cell::RefCell::new(String::new());
            let mut errors = errors.into_iter();
            let answered = answer(
                || {
                    done.borrow_mut().push('w');
                    errors.next().map_or(Ok(()), Err)
                },
                || {
                    done.borrow_mut().push('r');
                    Ok(())
                },
            );
            assert_eq!(
                (done.into_inner().as_str(), answered.ok()),
                (steps, outcome)
            );
        }
    }

    #[test]
    fn a_look_at_no_medium_says_which_name_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let said = || Stick::look_at(folder.path()).unwrap_err().to_string();
        assert_eq!(said(), "there is no directory dhow-ferry in it");
        std::fs::create_dir(folder.path().join(DIRECTORY)).unwrap();
        assert_eq!(said(), "there is no file dhow-ferry/format in it");
    }

    /// The directory of a node may be made once there is room, and its lock is kept meanwhile.
    #[test]
    fn a_medium_is_looked_at_again_for_the_same_node() {
        let folder = tempfile::tempdir().unwrap();
        let node = node("ipn:1.0");
        let mut one = Stick::open(folder.path(), &node, [1; 16]).unwrap();
        assert_eq!((one.writable(), one.fits(1)), (Writable::Yes, Ok(())));
        let home = folder.path().join(DIRECTORY).join(one.own().to_string());
        std::fs::remove_file(home.join(NODE)).unwrap();
        let part = one.begin(key(1)).unwrap();
        one.look_again(&node).unwrap();
        assert!(home.join(NODE).is_file(), "its name is there again");
        assert!(
            part.finish(one.own(), key(1)).is_ok(),
            "what is under way stays"
        );
        let again = Stick::open(folder.path(), &node, [1; 16]);
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn another_format_is_refused_and_no_directory_is_no_medium() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Stick::open(&folder.path().join("x"), &node("ipn:1.0"), [1; 16]);
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::create_dir(folder.path().join(DIRECTORY)).unwrap();
        std::fs::write(folder.path().join(DIRECTORY).join(FORMAT), "dhow-ferry 2\n").unwrap();
        let other = Stick::open(folder.path(), &node("ipn:1.0"), [1; 16]);
        assert_eq!(other.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
