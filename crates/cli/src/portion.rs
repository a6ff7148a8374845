//! Payloads, bundle by bundle: whole files, or portions of them.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::quantity;

/// Files up to this size are read once and sent from memory: sending one a million times must not read
/// it a million times.
const MEMORY_OCTETS: u64 = 1 << 20;

/// Octets copied between two looks at how many there are.
const PIECE_OCTETS: u64 = 1 << 20;

/// A file that can be read from any place, with the length that it has now.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    octets: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Memory(Bytes),
    File(File),
}

/// A part of a source that becomes the payload of one bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// First octet.
    pub offset: u64,
    /// Octets.
    pub octets: u64,
}

/// The octets of a portion.
#[derive(Debug)]
pub enum PortionOctets<'a> {
    /// Octets in memory.
    Memory(&'a [u8]),
    /// Octets to be read from a file.
    File(io::Take<&'a File>),
}

impl Source {
    /// Opens a file. A source that cannot be read twice (`-`, a pipe, a terminal) is copied first, because a
    /// bundle's length stands before its payload.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        Self::open_within(path, None)
    }

    /// Whether a file would be copied first.
    pub fn is_copied(path: &Path) -> bool {
        let metadata = path.metadata();
        path == Path::new("-") || metadata.is_ok_and(|it| !it.is_dir() && !has_octets(&it))
    }

    /// Opens a file; more than `room` octets are not copied.
    pub fn open_within(path: &Path, room: Option<u64>) -> Result<Self, Failure> {
        let fail =
            |error: io::Error| Failure::refused(format!("cannot read {}: {error}", path.display()));
        if path == Path::new("-") {
            return Self::spool(path, &mut io::stdin(), room);
        }
        let mut file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(fail(io::ErrorKind::IsADirectory.into()));
        }
        match has_octets(&metadata) {
            true => Self::new(path, file, metadata.len()).map_err(fail),
            false => Self::spool(path, &mut file, room),
        }
    }

    fn spool(path: &Path, input: &mut impl io::Read, room: Option<u64>) -> Result<Self, Failure> {
        let uncopied =
            |error: io::Error| Failure::refused(format!("cannot copy {}: {error}", path.display()));
        let progress = Progress::octets(None, "copying");
        // The copy has no name: it is gone when this process is.
        let mut file = tempfile::tempfile().map_err(uncopied)?;
        let mut octets = 0_u64;
        loop {
            let piece = io::copy(&mut input.take(PIECE_OCTETS), &mut file).map_err(uncopied)?;
            if piece == 0 {
                break;
            }
            octets += piece;
            progress.advance(piece);
            if let Some(room) = room
                && octets > room
            {
                return Err(Failure::refused(format!(
                    "cannot send {}: it has more than the {} that the node has room for",
                    path.display(),
                    quantity::size(room)
                ))
                .with_hint("--split cuts it into bundles that may leave one by one"));
            }
        }
        file.seek(SeekFrom::Start(0)).map_err(uncopied)?;
        Self::new(path, file, octets).map_err(uncopied)
    }

    fn new(path: &Path, file: File, octets: u64) -> io::Result<Self> {
        if octets > MEMORY_OCTETS {
            return Ok(Self {
                path: path.to_owned(),
                octets,
                content: Content::File(file),
            });
        }
        let mut memory = Vec::new();
        file.take(octets).read_to_end(&mut memory)?;
        let memory = Bytes::from(memory);
        Ok(Self {
            path: path.to_owned(),
            octets: u64::try_from(memory.len()).unwrap_or(0),
            content: Content::Memory(memory),
        })
    }

    /// The path as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Octets in all.
    pub const fn octets(&self) -> u64 {
        self.octets
    }

    /// The portions of at most `limit` octets, in order; one, maybe empty, without a limit.
    pub fn portions(&self, limit: Option<u64>) -> impl Iterator<Item = Portion> + use<> {
        portions(self.octets, limit)
    }

    /// The octets of a portion. Reads of two portions must not be mixed.
    pub fn read(&self, portion: Portion) -> io::Result<PortionOctets<'_>> {
        match &self.content {
            Content::Memory(octets) => {
                let range = usize::try_from(portion.offset)
                    .ok()
                    .zip(usize::try_from(portion.offset.saturating_add(portion.octets)).ok());
                Ok(PortionOctets::Memory(
                    range
                        .and_then(|(start, end)| octets.get(start..end))
                        .unwrap_or_default(),
                ))
            }
            Content::File(file) => {
                let mut file = file;
                file.seek(SeekFrom::Start(portion.offset))?;
                Ok(PortionOctets::File(file.take(portion.octets)))
            }
        }
    }

    /// All octets.
    pub fn read_whole(&self) -> io::Result<PortionOctets<'_>> {
        self.read(Portion {
            offset: 0,
            octets: self.octets,
        })
    }
}

impl io::Read for PortionOctets<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Memory(octets) => octets.read(out),
            Self::File(file) => file.read(out),
        }
    }
}

/// Whether a file is on a disk, with octets. The system makes up some files as they are read, and says
/// that they are empty.
fn has_octets(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.len() > 0
}

fn portions(total: u64, limit: Option<u64>) -> impl Iterator<Item = Portion> {
    let limit = limit.unwrap_or(u64::MAX).max(1);
    let count = total.div_ceil(limit).max(1);
    (0..count).map(move |number| {
        let offset = number * limit;
        Portion {
            offset,
            octets: limit.min(total - offset),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(total: u64, limit: Option<u64>) -> Vec<(u64, u64)> {
        portions(total, limit)
            .map(|portion| (portion.offset, portion.octets))
            .collect()
    }

    #[test]
    fn portions_cover_the_whole_once_and_an_empty_file_is_one_empty_bundle() {
        assert_eq!(cut(120, Some(50)), [(0, 50), (50, 50), (100, 20)]);
        assert_eq!(cut(100, Some(50)), [(0, 50), (50, 50)]);
        assert_eq!(cut(7, None), [(0, 7)]);
        assert_eq!(cut(0, Some(50)), [(0, 0)]);
        assert_eq!(cut(0, None), [(0, 0)]);
        assert_eq!(cut(u64::MAX, None), [(0, u64::MAX)]);
    }

    #[test]
    fn small_and_large_files_give_the_octets_of_each_portion() {
        for octets in [1000_u64, MEMORY_OCTETS + 1000] {
            let content: Vec<u8> = (0..octets)
                .map(|place| u8::try_from(place % 251).unwrap())
                .collect();
            let source = Source::spool(Path::new("-"), &mut content.as_slice(), None).unwrap();
            let mut joined = Vec::new();
            for portion in source.portions(Some(octets / 3)) {
                source
                    .read(portion)
                    .unwrap()
                    .read_to_end(&mut joined)
                    .unwrap();
            }
            assert!(joined == content, "{octets} octets");
        }
    }
}
