//! The entries of a recording, from any source of octets.

use std::io::{self, Read};

use dhow_bundle::cbor::Reader;
use dhow_node::recording::frame::{FileHeadError, check_file_head};
use dhow_node::recording::{Entry, FILE_HEAD_OCTETS, FRAME_HEAD_OCTETS, FrameHead, ItemError};

/// Why a recording cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("{0}")]
    System(#[from] io::Error),
    /// No recording, or one of another version.
    #[error(transparent)]
    Head(#[from] FileHeadError),
    /// Octets are not what was written.
    #[error(
        "the octets from {at} on are not what was written: {entries} entries before them are whole"
    )]
    Rotten {
        /// Offset of the frame.
        at: u64,
        /// Entries that are whole.
        entries: u64,
    },
    /// Octets are what was written, and no entry.
    #[error("entry {entry} says what this program does not know: {error}")]
    Unknown {
        /// The entry's number, from 1.
        entry: u64,
        /// Its fault.
        error: ItemError,
    },
}

/// Reads a recording frame by frame.
#[derive(Debug)]
pub struct RecordingFile<R> {
    source: R,
    /// Octets of all frames that were read, with the file's head.
    octets: u64,
    frame: Vec<u8>,
    position: usize,
    entries: u64,
}

impl<R: Read> RecordingFile<R> {
    /// Reads the file's head.
    ///
    /// # Errors
    /// It is not that of a recording which this program can read.
    pub fn open(mut source: R) -> Result<Self, FileError> {
        let mut head = [0; FILE_HEAD_OCTETS];
        if read_whole(&mut source, &mut head)? != Filled::Whole {
            return Err(FileHeadError::NoRecording.into());
        }
        check_file_head(&head)?;
        Ok(Self {
            source,
            octets: amount(FILE_HEAD_OCTETS),
            frame: Vec::new(),
            position: 0,
            entries: 0,
        })
    }

    /// The next entry; `None` where the file ends, also within a frame: then all before is whole.
    ///
    /// # Errors
    /// Octets are not what was written.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator of results would go on after an error"
    )]
    pub fn next(&mut self) -> Result<Option<Entry>, FileError> {
        loop {
            let mut reader = Reader::new(self.frame.get(self.position..).unwrap_or_default());
            let entry = self.entries + 1;
            let next = Entry::next(&mut reader);
            self.position += reader.position();
            match next {
                Ok(None) => {}
                Ok(Some(next)) => {
                    self.entries = entry;
                    return Ok(Some(next));
                }
                Err(error) => return Err(FileError::Unknown { entry, error }),
            }
            if !self.next_frame()? {
                return Ok(None);
            }
        }
    }

    /// Octets from the file's beginning that were read and are whole.
    #[must_use]
    pub const fn whole_octets(&self) -> u64 {
        self.octets
    }

    /// Reads a frame; false where the file ends before the frame does.
    fn next_frame(&mut self) -> Result<bool, FileError> {
        self.frame.clear();
        self.position = 0;
        let mut head = [0; FRAME_HEAD_OCTETS];
        if read_whole(&mut self.source, &mut head)? != Filled::Whole {
            return Ok(false);
        }
        let rotten = FileError::Rotten {
            at: self.octets,
            entries: self.entries,
        };
        let Some(head) = FrameHead::decode(&head) else {
            return Err(rotten);
        };
        let length = u64::from(head.length);
        // Grows with the octets that are there, whatever is announced.
        let mut source = (&mut self.source).take(length);
        let read = source.read_to_end(&mut self.frame)?;
        if amount(read) < length {
            self.frame.clear();
            return Ok(false);
        }
        if !head.fits(&self.frame) {
            self.frame.clear();
            return Err(rotten);
        }
        self.octets += amount(FRAME_HEAD_OCTETS) + length;
        Ok(true)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    Whole,
    Short,
}

/// Fills `out`, unless the source ends before.
fn read_whole(source: &mut impl Read, out: &mut [u8]) -> io::Result<Filled> {
    match source.read_exact(out) {
        Ok(()) => Ok(Filled::Whole),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Filled::Short),
        Err(error) => Err(error),
    }
}

fn amount(octets: usize) -> u64 {
    u64::try_from(octets).unwrap_or(u64::MAX)
}
