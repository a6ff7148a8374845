//! The layout of a recording in a file: a head, then frames of entries, each with its length and checksums.

use dhow_bundle::CrcType;
use dhow_bundle::crc::CrcDigest;

/// Version of the format; any change of what an entry holds is another.
pub const VERSION: u32 = 3;

/// The first octets of a recording.
pub const MAGIC: [u8; 8] = *b"dhow-rec";

/// Octets of a file's head: magic, version, and a checksum of both.
pub const FILE_HEAD_OCTETS: usize = 16;

/// Octets of a frame's head.
pub const FRAME_HEAD_OCTETS: usize = 12;

/// Why octets are not the head of a recording that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileHeadError {
    /// Another file.
    #[error("it does not begin as a recording does")]
    NoRecording,
    /// Another format.
    #[error("its format has version {0}, and this program reads version {VERSION}")]
    Version(u32),
    /// Octets of the head are not what was written.
    #[error("its head does not match its checksum")]
    Checksum,
}

/// The head of a file.
#[must_use]
pub fn file_head() -> [u8; FILE_HEAD_OCTETS] {
    let mut head = [0; FILE_HEAD_OCTETS];
    let (told, check) = head.split_at_mut(12);
    let (magic, version) = told.split_at_mut(8);
    magic.copy_from_slice(&MAGIC);
    version.copy_from_slice(&VERSION.to_le_bytes());
    check.copy_from_slice(&checksum(told).to_le_bytes());
    head
}

/// Whether a file with this head can be read.
///
/// # Errors
/// Why not.
pub fn check_file_head(head: &[u8; FILE_HEAD_OCTETS]) -> Result<(), FileHeadError> {
    let (told, check) = head.split_at(12);
    let (magic, version) = told.split_at(8);
    if magic != MAGIC {
        return Err(FileHeadError::NoRecording);
    }
    if check != checksum(told).to_le_bytes() {
        return Err(FileHeadError::Checksum);
    }
    match version.first_chunk().map(|it| u32::from_le_bytes(*it)) {
        Some(VERSION) => Ok(()),
        other => Err(FileHeadError::Version(other.unwrap_or(0))),
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Octets of content.
    pub length: u32,
    /// CRC-32C of the content.
    pub checksum: u32,
}

impl FrameHead {
    /// The head of a frame with this content; `None` where that is too long for one.
    #[must_use]
    pub fn of(content: &[u8]) -> Option<Self> {
        Some(Self {
            length: u32::try_from(content.len()).ok()?,
            checksum: checksum(content),
        })
    }

    /// The head as octets: length, checksum of the content, checksum of the eight octets before; little-endian.
    #[must_use]
    pub fn encode(self) -> [u8; FRAME_HEAD_OCTETS] {
        let mut head = [0; FRAME_HEAD_OCTETS];
        let (told, check) = head.split_at_mut(8);
        let (length, content) = told.split_at_mut(4);
        length.copy_from_slice(&self.length.to_le_bytes());
        content.copy_from_slice(&self.checksum.to_le_bytes());
        check.copy_from_slice(&checksum(told).to_le_bytes());
        head
    }

    /// The content of a frame; `None` when it does not match its checksum.
    #[must_use]
    pub fn decode(head: &[u8; FRAME_HEAD_OCTETS]) -> Option<Self> {
        let (told, check) = head.split_at(8);
        if check != checksum(told).to_le_bytes() {
            return None;
        }
        let (length, content) = told.split_at(4);
        Some(Self {
            length: u32::from_le_bytes(*length.first_chunk()?),
            checksum: u32::from_le_bytes(*content.first_chunk()?),
        })
    }

    /// Whether this is the head of `content`.
    #[must_use]
    pub fn fits(self, content: &[u8]) -> bool {
        Self::of(content) == Some(self)
    }
}

/// CRC-32C, as in bundles.
fn checksum(octets: &[u8]) -> u32 {
    let mut crc = CrcDigest::new(CrcType::Crc32C);
    crc.update(octets);
    crc.value()
}
