//! The framing of messages and payloads in a stream: varint length, message, and payload octets after an `adu`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::{Buf, Bytes};

/// Most octets of one message: four endpoint IDs of 1 KiB fit many times over, and what a peer can
/// make us hold of an unfinished message stays small.
pub const MESSAGE_OCTETS_MAX: u64 = 64 * 1024;

/// Octets of the longest varint (64 bits in groups of seven).
const VARINT_OCTETS_MAX: usize = 10;

/// Why a stream cannot be cut into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is longer than a varint may be.
    #[error("a message's length is not a varint of at most 64 bits")]
    Length,
    /// The message is too long.
    #[error("a message of {0} octets is longer than {MESSAGE_OCTETS_MAX}")]
    TooLong(u64),
}

/// Cuts received octets into messages and payload slices, in any chunking.
///
/// Octets are kept as given and sliced; only a message that spans chunks is gathered into a buffer of
/// its own, so that a chunk which ends within a message does not stay alive for it.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// The beginning of a message whose end has not come, with its length.
    partial: Vec<u8>,
    /// Pieces that were given and not yet taken; none is empty.
    chunks: VecDeque<Bytes>,
    /// Octets in `chunks`.
    octets: usize,
}

impl FrameReader {
    /// A reader at the start of a message.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            partial: Vec::new(),
            chunks: VecDeque::new(),
            octets: 0,
        }
    }

    /// Add received octets.
    pub fn push(&mut self, octets: Bytes) {
        if !octets.is_empty() {
            self.octets = self.octets.saturating_add(octets.len());
            self.chunks.push_back(octets);
        }
    }

    /// True when nothing lies here that could be taken (but perhaps the beginning of a message).
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Octets given and not yet taken.
    #[must_use]
    pub const fn octets(&self) -> usize {
        self.octets
    }

    /// True when a message has begun and not ended.
    #[must_use]
    pub fn is_within_message(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Forget everything.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// The next message without its length; `None` when more octets are needed.
    ///
    /// # Errors
    /// When the length is malformed or too large; the stream is of no more use then.
    pub fn take_message(&mut self) -> Result<Option<Bytes>, FrameError> {
        if self.partial.is_empty() {
            let Some(chunk) = self.chunks.front() else {
                return Ok(None);
            };
            if let Some((length, prefix)) = parse_length(chunk)?
                && chunk.len() - prefix >= length
            {
                self.advance(prefix);
                return Ok(Some(self.split(length)));
            }
        }
        self.gather()
    }

    /// Up to `most` octets of payload, as one slice of what was given; `None` when nothing is there.
    pub fn take_payload(&mut self, most: u64) -> Option<Bytes> {
        debug_assert!(
            self.partial.is_empty(),
            "a payload begins where a message ended"
        );
        let length = usize::try_from(most)
            .unwrap_or(usize::MAX)
            .min(self.chunks.front()?.len());
        Some(self.split(length))
    }

    /// Move octets into `partial` until it holds a whole message.
    fn gather(&mut self) -> Result<Option<Bytes>, FrameError> {
        loop {
            let missing = match parse_length(&self.partial)? {
                Some((length, prefix)) => {
                    let missing = (prefix + length).saturating_sub(self.partial.len());
                    if missing == 0 {
                        let mut message = Bytes::from(core::mem::take(&mut self.partial));
                        message.advance(prefix);
                        return Ok(Some(message));
                    }
                    missing
                }
                None => 1,
            };
            let Some(chunk) = self.chunks.front() else {
                return Ok(None);
            };
            let octets = self.split(missing.min(chunk.len()));
            self.partial.extend_from_slice(&octets);
        }
    }

    /// Take `length` octets, which the first chunk has.
    fn split(&mut self, length: usize) -> Bytes {
        self.octets = self.octets.saturating_sub(length);
        match self.chunks.front_mut() {
            Some(chunk) if chunk.len() > length => chunk.split_to(length),
            _ => self.chunks.pop_front().unwrap_or_default(),
        }
    }

    /// Drop `length` octets; the first chunk has them.
    fn advance(&mut self, length: usize) {
        if let Some(chunk) = self.chunks.front_mut() {
            chunk.advance(length);
            self.octets = self.octets.saturating_sub(length);
        }
    }
}

/// The length that `octets` begin with, and how many octets it takes; `None` when it is not complete.
fn parse_length(octets: &[u8]) -> Result<Option<(usize, usize)>, FrameError> {
    let mut value = 0_u64;
    for (position, &octet) in octets.iter().take(VARINT_OCTETS_MAX).enumerate() {
        let group = u64::from(octet & 0x7f);
        let shift = position * 7;
        // The tenth octet holds the one bit that is left of 64.
        if position + 1 == VARINT_OCTETS_MAX && octet > 1 {
            return Err(FrameError::Length);
        }
        value |= group << shift;
        if octet & 0x80 == 0 {
            return match usize::try_from(value) {
                Ok(length) if value <= MESSAGE_OCTETS_MAX => Ok(Some((length, position + 1))),
                _ => Err(FrameError::TooLong(value)),
            };
        }
    }
    Ok(None)
}
