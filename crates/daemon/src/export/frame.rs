//! The frames of an export: a kind, a length, octets, and a checksum over all three.

use std::io::{self, Read};

use dhow_bundle::crc::crc32c;

/// The first octets of an export.
pub const MAGIC: &[u8; 16] = b"dhow export 1\r\n\0";

/// Octets of a bundle in one frame, at most.
pub const OCTETS_MAX: usize = 1 << 20;

/// Octets in any frame, at most: a record has a few texts of a kibioctet and a note.
const FRAME_MAX: u32 = 1 << 20;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON: the node, and the time.
    Head,
    /// The record of a bundle, whose octets follow.
    Bundle,
    /// Octets of the bundle.
    Octets,
    /// The bundle is whole.
    Whole,
    /// The bundle left the node, or could not be read, while it was written: its octets do not count.
    Gone,
    /// JSON: what the whole must have. Nothing follows.
    End,
}

impl Kind {
    pub(super) const ALL: [(u8, Self); 6] = [
        (1, Self::Head),
        (2, Self::Bundle),
        (3, Self::Octets),
        (4, Self::Whole),
        (5, Self::Gone),
        (9, Self::End),
    ];

    fn of_code(code: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find_map(|(known, kind)| (known == code).then_some(kind))
    }

    fn code(self) -> u8 {
        let mut all = Self::ALL.into_iter();
        all.find_map(|(code, kind)| (kind == self).then_some(code))
            .unwrap_or(0)
    }
}

/// Appends a frame; `octets` are at most a mebioctet.
pub fn write(out: &mut Vec<u8>, kind: Kind, octets: &[u8]) {
    let start = out.len();
    out.push(kind.code());
    out.extend(
        u32::try_from(octets.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    out.extend_from_slice(octets);
    let sum = crc32c(out.get(start..).unwrap_or_default());
    out.extend(sum.to_be_bytes());
}

/// Why octets are no export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    /// The file does not begin as an export.
    #[error("it is no export of a store, or one of a newer version")]
    NoExport,
    /// The file ends too early.
    #[error("it ends in the middle, at octet {0}: it was cut, or never finished")]
    Cut(u64),
    /// A checksum does not fit.
    #[error("it is damaged at octet {0}")]
    Damaged(u64),
    /// The frames make no sense.
    #[error("it is none that a node writes: {what}, at octet {at}")]
    Nonsense {
        /// The place.
        at: u64,
        /// The fault.
        what: String,
    },
}

/// Reads frames one after the other.
pub struct Frames<R> {
    from: R,
    at: u64,
    octets: Vec<u8>,
}

impl<R: Read> Frames<R> {
    /// The frames of an export.
    ///
    /// # Errors
    /// When it does not begin as one.
    pub fn begin(mut from: R) -> Result<Self, ExportError> {
        let mut magic = [0; MAGIC.len()];
        match from.read_exact(&mut magic) {
            Ok(()) if magic == *MAGIC => {}
            Ok(()) => return Err(ExportError::NoExport),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(ExportError::NoExport);
            }
            Err(error) => return Err(ExportError::Unreadable(error)),
        }
        let at = u64::try_from(MAGIC.len()).unwrap_or(0);
        Ok(Self {
            from,
            at,
            octets: Vec::new(),
        })
    }

    /// Octets read so far.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// The next frame.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn take_next(&mut self) -> Result<(Kind, &[u8]), ExportError> {
        let at = self.at;
        let mut head = [0; 5];
        self.read(&mut head)?;
        let [code, length @ ..] = head;
        let length = u32::from_be_bytes(length);
        if length > FRAME_MAX {
            return Err(ExportError::Damaged(at));
        }
        let mut octets = std::mem::take(&mut self.octets);
        octets.resize(usize::try_from(length).unwrap_or(0), 0);
        self.read(&mut octets)?;
        let mut sum = [0; 4];
        self.read(&mut sum)?;
        let own =
            dhow_bundle::crc::joined_crc32c(crc32c(&head), crc32c(&octets), u64::from(length));
        self.octets = octets;
        if own != u32::from_be_bytes(sum) {
            return Err(ExportError::Damaged(at));
        }
        let kind = Kind::of_code(code).ok_or_else(|| ExportError::Nonsense {
            at,
            what: format!("a frame of the kind {code}"),
        })?;
        Ok((kind, &self.octets))
    }

    /// Whether anything follows.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn has_more(&mut self) -> Result<bool, ExportError> {
        match self.from.read_exact(&mut [0]) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(ExportError::Unreadable(error)),
        }
    }

    fn read(&mut self, octets: &mut [u8]) -> Result<(), ExportError> {
        match self.from.read_exact(octets) {
            Ok(()) => {
                self.at += u64::try_from(octets.len()).unwrap_or(0);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(ExportError::Cut(self.at))
            }
            Err(error) => Err(ExportError::Unreadable(error)),
        }
    }
}
