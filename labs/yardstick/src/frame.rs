//! Frames on the connection and in the logs: a header of 20 octets, then the payload; acknowledgments the other way.
//!
//! A header, numbers big-endian: `DHYF`, sequence number (8 octets), payload octets (4), CRC-32C of the payload (4).
//! An acknowledgment: octets of the stream that are kept (8), frames that are (8); both count from the start.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// Octets before each payload.
pub const HEADER_OCTETS: usize = 20;

/// Octets of an acknowledgment.
pub const ACKNOWLEDGMENT_OCTETS: usize = 16;

const MAGIC: [u8; 4] = *b"DHYF";

/// The place of the sequence number in a header.
const SEQUENCE: std::ops::Range<usize> = 4..12;

/// An error in a stream of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A header does not begin as headers do.
    #[error("frame {expected} does not begin like one")]
    NoFrame {
        /// The frame that was due.
        expected: u64,
    },
    /// A frame came out of order.
    #[error("frame {found} came where {expected} was due")]
    OutOfOrder {
        /// The frame that was due.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// A payload is not what its header's CRC says.
    #[error("the payload of frame {sequence} is damaged")]
    Damaged {
        /// The frame.
        sequence: u64,
    },
}

/// The first octets of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Counts from 0.
    pub sequence: u64,
    /// Payload octets.
    pub length: u32,
    /// CRC-32C of the payload.
    pub checksum: u32,
}

impl Header {
    /// Of a payload.
    #[must_use]
    pub fn of(sequence: u64, payload: &[u8]) -> Self {
        Self {
            sequence,
            length: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            checksum: crc32_iscsi(payload),
        }
    }

    /// As octets.
    #[must_use]
    pub fn octets(self) -> [u8; HEADER_OCTETS] {
        let mut octets = [0; HEADER_OCTETS];
        let fields = MAGIC
            .into_iter()
            .chain(self.sequence.to_be_bytes())
            .chain(self.length.to_be_bytes())
            .chain(self.checksum.to_be_bytes());
        for (octet, value) in octets.iter_mut().zip(fields) {
            *octet = value;
        }
        octets
    }

    /// From octets; `None` when they do not begin as a header does.
    #[must_use]
    pub fn read(octets: &[u8; HEADER_OCTETS]) -> Option<Self> {
        let (magic, rest) = octets.split_first_chunk::<4>()?;
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let checksum = rest.first_chunk::<4>()?;
        (*magic == MAGIC).then(|| Self {
            sequence: u64::from_be_bytes(*sequence),
            length: u32::from_be_bytes(*length),
            checksum: u32::from_be_bytes(*checksum),
        })
    }

    /// Gives the frame at the start of `frame` another sequence number.
    pub fn renumber(frame: &mut [u8], sequence: u64) {
        if let Some(place) = frame.get_mut(SEQUENCE) {
            place.copy_from_slice(&sequence.to_be_bytes());
        }
    }
}

/// The frames of the stream that a receiver keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgment {
    /// Octets of the stream, headers included.
    pub octets: u64,
    /// Whole frames.
    pub frames: u64,
}

impl Acknowledgment {
    /// As octets.
    #[must_use]
    pub fn octets(self) -> [u8; ACKNOWLEDGMENT_OCTETS] {
        (u128::from(self.octets) << 64 | u128::from(self.frames)).to_be_bytes()
    }

    /// From octets.
    #[must_use]
    pub fn read(octets: &[u8; ACKNOWLEDGMENT_OCTETS]) -> Self {
        let (first, second) = octets.split_at(8);
        let number = |half: &[u8]| {
            half.first_chunk()
                .map_or(0, |half| u64::from_be_bytes(*half))
        };
        Self {
            octets: number(first),
            frames: number(second),
        }
    }
}

/// Reads a stream of frames in whatever pieces it comes, checks each checksum, and counts.
#[derive(Debug, Default)]
pub struct FrameReader {
    frames: u64,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// Between frames.
    #[default]
    Between,
    /// In a header, of which these octets have come.
    Header {
        octets: [u8; HEADER_OCTETS],
        filled: usize,
    },
    /// In a payload, of which so many octets are still to come.
    Payload {
        header: Header,
        missing: usize,
        digest: Box<Digest>,
    },
}

impl FrameReader {
    /// Whole frames so far.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether the stream may end here.
    #[must_use]
    pub fn between_frames(&self) -> bool {
        matches!(self.state, State::Between)
    }

    /// Takes the next octets of the stream.
    ///
    /// # Errors
    /// They are not the frames that were due.
    pub fn take(&mut self, mut octets: &[u8]) -> Result<(), FrameError> {
        while !octets.is_empty() {
            octets = match std::mem::take(&mut self.state) {
                State::Between => match octets.split_first_chunk() {
                    Some((header, rest)) => self.start(header, rest)?,
                    None => self.gather([0; HEADER_OCTETS], 0, octets)?,
                },
                State::Header {
                    octets: begun,
                    filled,
                } => self.gather(begun, filled, octets)?,
                State::Payload {
                    header,
                    missing,
                    digest,
                } => self.go_on(header, missing, digest, octets)?,
            };
        }
        Ok(())
    }

    /// A header is there: its whole payload at once, or what has come of it.
    fn start<'a>(
        &mut self,
        octets: &[u8; HEADER_OCTETS],
        rest: &'a [u8],
    ) -> Result<&'a [u8], FrameError> {
        let expected = self.frames;
        let header = Header::read(octets).ok_or(FrameError::NoFrame { expected })?;
        if header.sequence != expected {
            return Err(FrameError::OutOfOrder {
                expected,
                found: header.sequence,
            });
        }
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        if let Some((payload, rest)) = rest.split_at_checked(length) {
            self.finish(header, crc32_iscsi(payload))?;
            return Ok(rest);
        }
        self.go_on(
            header,
            length,
            Box::new(Digest::new(CrcAlgorithm::Crc32Iscsi)),
            rest,
        )
    }

    /// A header that comes in pieces.
    fn gather<'a>(
        &mut self,
        mut begun: [u8; HEADER_OCTETS],
        filled: usize,
        octets: &'a [u8],
    ) -> Result<&'a [u8], FrameError> {
        let wanted = HEADER_OCTETS.saturating_sub(filled).min(octets.len());
        let (piece, rest) = octets.split_at(wanted);
        for (octet, value) in begun.iter_mut().skip(filled).zip(piece) {
            *octet = *value;
        }
        if filled + wanted == HEADER_OCTETS {
            return self.start(&begun, rest);
        }
        self.state = State::Header {
            octets: begun,
            filled: filled + wanted,
        };
        Ok(rest)
    }

    /// A payload that comes in pieces.
    fn go_on<'a>(
        &mut self,
        header: Header,
        missing: usize,
        mut digest: Box<Digest>,
        octets: &'a [u8],
    ) -> Result<&'a [u8], FrameError> {
        let (piece, rest) = octets.split_at(missing.min(octets.len()));
        digest.update(piece);
        if piece.len() == missing {
            self.finish(header, u32::try_from(digest.finalize()).unwrap_or(u32::MAX))?;
        } else {
            self.state = State::Payload {
                header,
                missing: missing - piece.len(),
                digest,
            };
        }
        Ok(rest)
    }

    fn finish(&mut self, header: Header, checksum: u32) -> Result<(), FrameError> {
        if header.checksum != checksum {
            return Err(FrameError::Damaged {
                sequence: header.sequence,
            });
        }
        self.frames += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(sequence: u64, payload: &[u8]) -> Vec<u8> {
        [Header::of(sequence, payload).octets().as_slice(), payload].concat()
    }

    fn stream() -> Vec<u8> {
        [frame(0, b"dhow"), frame(1, b""), frame(2, &[7; 300])].concat()
    }

    #[test]
    fn header_survives_its_octets() {
        let header = Header::of(0x0102_0304_0506_0708, b"123456789");
        // The check value of CRC-32C.
        assert_eq!(header.checksum, 0xe306_9283);
        assert_eq!(Header::read(&header.octets()), Some(header));
    }

    #[test]
    fn acknowledgment_survives_its_octets() {
        let acknowledgment = Acknowledgment {
            octets: u64::MAX - 1,
            frames: 3,
        };
        assert_eq!(
            Acknowledgment::read(&acknowledgment.octets()),
            acknowledgment
        );
    }

    #[test]
    fn frames_are_read_whole_and_in_pieces_of_every_size() {
        let stream = stream();
        for size in 1..=stream.len() {
            let mut reader = FrameReader::default();
            for piece in stream.chunks(size) {
                assert_eq!(reader.take(piece), Ok(()));
            }
            assert_eq!(reader.frames(), 3, "pieces of {size}");
            assert!(reader.between_frames());
        }
    }

    #[test]
    fn a_stream_that_stops_inside_a_frame_is_known_for_one() {
        let stream = stream();
        for end in (1..stream.len()).filter(|end| ![24, 44].contains(end)) {
            let mut reader = FrameReader::default();
            assert_eq!(reader.take(&stream[..end]), Ok(()));
            assert!(!reader.between_frames(), "{end} octets");
        }
    }

    #[test]
    fn any_changed_octet_is_noticed() {
        let stream = [frame(0, b"dhow"), frame(1, &[9; 60])].concat();
        for place in 0..stream.len() {
            let mut damaged = stream.clone();
            damaged[place] ^= 0x01;
            for size in [7, stream.len()] {
                let mut reader = FrameReader::default();
                let verdict = damaged
                    .chunks(size)
                    .try_for_each(|piece| reader.take(piece));
                assert!(
                    verdict.is_err() || !reader.between_frames(),
                    "octet {place}"
                );
            }
        }
    }

    #[test]
    fn a_frame_out_of_order_is_refused() {
        let mut reader = FrameReader::default();
        assert_eq!(
            reader.take(&frame(1, b"x")),
            Err(FrameError::OutOfOrder {
                expected: 0,
                found: 1
            })
        );
    }

    #[test]
    fn a_frame_can_be_renumbered_in_place() {
        let mut octets = frame(0, b"again");
        Header::renumber(&mut octets, 41);
        assert_eq!(octets, frame(41, b"again"));
    }
}
