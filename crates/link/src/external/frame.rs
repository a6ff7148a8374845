//! The frames of the external socket: four octets of length, most significant first, and so many octets.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;

/// Octets of a frame behind its length, at most.
pub const FRAME_OCTETS_MAX: usize = 128 << 10;

/// Octets of the length.
pub const LENGTH_OCTETS: usize = 4;

/// Why a stream cannot be cut into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame without octets.
    #[error("a frame is empty")]
    Empty,
    /// A frame longer than any may be.
    #[error("a frame of {0} octets is longer than {FRAME_OCTETS_MAX}")]
    TooLong(u32),
}

/// Cuts received octets into frames, in any chunking. A frame that lies in one chunk is a slice of it; one that spans chunks is gathered,
/// and holds no more octets than have come.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// The beginning of a frame whose end has not come, with its length.
    partial: Vec<u8>,
    /// Pieces that were given and not yet taken; none is empty.
    chunks: VecDeque<Bytes>,
}

impl FrameReader {
    /// Add received octets.
    pub fn push(&mut self, octets: Bytes) {
        if !octets.is_empty() {
            self.chunks.push_back(octets);
        }
    }

    /// True when nothing lies here but perhaps the beginning of a frame.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The next frame without its length; `None` when more octets are needed.
    ///
    /// # Errors
    /// The length is one that no frame has: the stream is of no more use.
    pub fn take(&mut self) -> Result<Option<Bytes>, FrameError> {
        loop {
            let head = match self.partial.is_empty() {
                true => self.chunks.front().map_or(&[][..], |chunk| chunk),
                false => &self.partial,
            };
            let length = length(head)?;
            let wanted = LENGTH_OCTETS + length.unwrap_or(0);
            if length.is_some() && self.partial.len() == wanted {
                let frame = Bytes::from(core::mem::take(&mut self.partial));
                return Ok(Some(frame.slice(LENGTH_OCTETS..)));
            }
            if length.is_some() && self.partial.is_empty() && head.len() >= wanted {
                let frame = self.split(wanted);
                return Ok(Some(frame.slice(LENGTH_OCTETS..)));
            }
            let Some(chunk) = self.chunks.front() else {
                return Ok(None);
            };
            let missing = wanted.saturating_sub(self.partial.len());
            let octets = self.split(missing.min(chunk.len()));
            self.partial.extend_from_slice(&octets);
        }
    }

    /// Take `octets` octets, which the first chunk has.
    fn split(&mut self, octets: usize) -> Bytes {
        match self.chunks.front_mut() {
            Some(chunk) if chunk.len() > octets => chunk.split_to(octets),
            _ => self.chunks.pop_front().unwrap_or_default(),
        }
    }
}

/// The length that a frame begins with; `None` where it is not whole.
fn length(head: &[u8]) -> Result<Option<usize>, FrameError> {
    let Some(octets) = head.first_chunk::<LENGTH_OCTETS>() else {
        return Ok(None);
    };
    let said = u32::from_be_bytes(*octets);
    match usize::try_from(said) {
        Ok(0) => Err(FrameError::Empty),
        Ok(length) if length <= FRAME_OCTETS_MAX => Ok(Some(length)),
        _ => Err(FrameError::TooLong(said)),
    }
}

/// Append a frame to `out`: its length, and the octets that `write` appends. They must be one to [`FRAME_OCTETS_MAX`].
pub fn put_frame(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_OCTETS]);
    write(out);
    let length = out.len() - start - LENGTH_OCTETS;
    debug_assert!((1..=FRAME_OCTETS_MAX).contains(&length), "{length}");
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    if let Some(head) = out.get_mut(start..start + LENGTH_OCTETS) {
        head.copy_from_slice(&length);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_whatever_the_chunks(
            frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..60), 0..8),
            chunk in 1_usize..40,
        ) {
            let mut stream = Vec::new();
            for frame in &frames {
                put_frame(&mut stream, |out| out.extend_from_slice(frame));
            }
            let mut reader = FrameReader::default();
            let mut read = Vec::new();
            for piece in stream.chunks(chunk) {
                reader.push(Bytes::copy_from_slice(piece));
                while let Some(frame) = reader.take().unwrap() {
                    read.push(frame.to_vec());
                }
            }
            prop_assert_eq!(read, frames);
            prop_assert!(reader.is_drained());
        }
    }

    #[test]
    fn a_length_of_nothing_or_too_much_is_refused() {
        for (length, error) in [
            (0_u32, FrameError::Empty),
            (131_073, FrameError::TooLong(131_073)),
            (u32::MAX, FrameError::TooLong(u32::MAX)),
        ] {
            let mut reader = FrameReader::default();
            for octet in length.to_be_bytes() {
                reader.push(Bytes::copy_from_slice(&[octet]));
            }
            assert_eq!(reader.take(), Err(error));
        }
        let mut reader = FrameReader::default();
        reader.push(Bytes::copy_from_slice(&131_072_u32.to_be_bytes()));
        assert_eq!(reader.take(), Ok(None));
    }
}
