//! The place of the sender's frames before they leave: a log like the receiver's, filled with frames beforehand.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

use crate::failure::Failure;
use crate::frame::{FrameError, HEADER_OCTETS, Header};
use crate::log::Mode;
use crate::queue::PIECE_OCTETS;
use crate::sender::Terms;

/// Frames in a log that is read from its start again when its end is reached.
pub struct Origin {
    place: Place,
    /// Octets of a frame, header included.
    frame_octets: usize,
    /// Octets of all frames in the log.
    log_octets: usize,
    /// The place in the log at which the next piece begins.
    at: usize,
    /// Sequence number of the next frame that begins.
    next: u64,
    /// Frames that have not begun yet.
    left: u64,
    buffer: Vec<u8>,
    /// The frame of which not all pieces have left.
    begun: Option<Begun>,
}

enum Place {
    Memory(Vec<u8>),
    File(File),
}

struct Begun {
    header: Header,
    missing: usize,
    digest: Box<Digest>,
}

impl Origin {
    /// Fills a log with frames: as many as are sent, or as fit.
    ///
    /// # Errors
    /// The log's file cannot be written.
    pub fn new(terms: &Terms) -> Result<Self, Failure> {
        let frame_octets = terms.size.saturating_add(HEADER_OCTETS);
        let fitting = usize::try_from(terms.log_octets).unwrap_or(usize::MAX) / frame_octets;
        let frames = fitting
            .max(1)
            .min(usize::try_from(terms.count).unwrap_or(usize::MAX));
        let wrong = |error| Failure::Log(terms.log.clone(), error);
        let place = if terms.mode == Mode::Memory {
            let mut memory = Vec::with_capacity(frames * frame_octets);
            write_frames(&mut memory, frames, terms.size).map_err(wrong)?;
            Place::Memory(memory)
        } else {
            let mut options = OpenOptions::new();
            let file = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&terms.log)
                .map_err(wrong)?;
            let mut writer = BufWriter::with_capacity(PIECE_OCTETS, &file);
            write_frames(&mut writer, frames, terms.size)
                .and_then(|()| writer.flush())
                .map_err(wrong)?;
            drop(writer);
            file.sync_all().map_err(wrong)?;
            Place::File(file)
        };
        let pieces = (PIECE_OCTETS / frame_octets).max(1) * frame_octets;
        Ok(Self {
            place,
            frame_octets,
            log_octets: frames * frame_octets,
            at: 0,
            next: 0,
            left: terms.count,
            buffer: vec![u8::MAX; pieces.min(PIECE_OCTETS)],
            begun: None,
        })
    }

    /// The next octets of the stream, read from the log, numbered and their checksums computed; `None` after the last.
    ///
    /// # Errors
    /// The log cannot be read, or is not what was written.
    pub fn piece(&mut self) -> Result<Option<&[u8]>, Failure> {
        let wanted = match &self.begun {
            Some(begun) => begun.missing.min(PIECE_OCTETS),
            None if self.left == 0 => return Ok(None),
            None if self.frame_octets > PIECE_OCTETS => PIECE_OCTETS,
            None => {
                let fitting = self.buffer.len().min(self.log_octets - self.at) / self.frame_octets;
                fitting.min(usize::try_from(self.left).unwrap_or(usize::MAX)) * self.frame_octets
            }
        };
        let piece = match &mut self.place {
            Place::Memory(memory) => memory
                .get_mut(self.at..self.at + wanted)
                .unwrap_or_default(),
            Place::File(file) => {
                let piece = self.buffer.get_mut(..wanted).unwrap_or_default();
                file.read_exact_at(piece, u64::try_from(self.at).unwrap_or(u64::MAX))
                    .map_err(Failure::Read)?;
                piece
            }
        };
        if let Some(begun) = self.begun.take() {
            self.begun = go_on(begun, piece)?;
        } else if self.frame_octets > PIECE_OCTETS {
            self.begun = Some(begin(self.next, piece)?);
            self.next += 1;
            self.left -= 1;
        } else {
            for frame in piece.chunks_exact_mut(self.frame_octets) {
                whole(self.next, frame)?;
                self.next += 1;
                self.left -= 1;
            }
        }
        self.at = (self.at + wanted) % self.log_octets;
        Ok(Some(piece))
    }
}

/// Numbers a frame that is there as a whole.
fn whole(sequence: u64, frame: &mut [u8]) -> Result<(), FrameError> {
    Header::renumber(frame, sequence);
    let (header, payload) = split(sequence, frame)?;
    if header.checksum == crc32_iscsi(payload) {
        Ok(())
    } else {
        Err(FrameError::Damaged { sequence })
    }
}

/// Numbers a frame of which the first piece is there.
fn begin(sequence: u64, piece: &mut [u8]) -> Result<Begun, FrameError> {
    Header::renumber(piece, sequence);
    let (header, payload) = split(sequence, piece)?;
    let mut digest = Box::new(Digest::new(CrcAlgorithm::Crc32Iscsi));
    digest.update(payload);
    let missing = usize::try_from(header.length)
        .unwrap_or(usize::MAX)
        .saturating_sub(payload.len());
    Ok(Begun {
        header,
        missing,
        digest,
    })
}

/// A further piece of a frame.
fn go_on(mut begun: Begun, piece: &[u8]) -> Result<Option<Begun>, FrameError> {
    begun.digest.update(piece);
    begun.missing -= piece.len();
    if begun.missing > 0 {
        return Ok(Some(begun));
    }
    if u64::from(begun.header.checksum) == begun.digest.finalize() {
        Ok(None)
    } else {
        Err(FrameError::Damaged {
            sequence: begun.header.sequence,
        })
    }
}

fn split(sequence: u64, frame: &[u8]) -> Result<(Header, &[u8]), FrameError> {
    let no_frame = FrameError::NoFrame { expected: sequence };
    let (header, payload) = frame.split_first_chunk().ok_or(no_frame)?;
    Ok((Header::read(header).ok_or(no_frame)?, payload))
}

/// Frames one after the other; no two payloads are alike.
fn write_frames(out: &mut impl io::Write, frames: usize, size: usize) -> io::Result<()> {
    let mut payload: Vec<u8> = (0..=u8::MAX).cycle().take(size).collect();
    for number in 0..frames {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        for (octet, value) in payload.iter_mut().zip(number.to_be_bytes()) {
            *octet = value;
        }
        out.write_all(&Header::of(number, &payload).octets())?;
        out.write_all(&payload)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameReader;

    fn terms(room: &std::path::Path, mode: Mode, size: usize, count: u64) -> Terms {
        Terms {
            mode,
            log: room.join("sent"),
            log_octets: 100_000,
            size,
            count,
            window_octets: 1 << 20,
        }
    }

    fn frames_of(mut origin: Origin) -> u64 {
        let mut reader = FrameReader::default();
        while let Some(piece) = origin.piece().unwrap() {
            assert!(!piece.is_empty());
            reader.take(piece).unwrap();
        }
        assert!(reader.between_frames());
        reader.frames()
    }

    #[test]
    fn every_frame_leaves_once_however_small_the_log_is() {
        let room = tempfile::tempdir().unwrap();
        for mode in [Mode::Memory, Mode::Os] {
            for (size, count) in [
                (0, 20_000),
                (100, 3_000),
                (9_999, 47),
                (600_000, 3),
                (1 << 20, 2),
            ] {
                let origin = Origin::new(&terms(room.path(), mode, size, count)).unwrap();
                assert_eq!(frames_of(origin), count, "{mode:?}, {size} octets");
            }
        }
    }

    #[test]
    fn a_damaged_log_does_not_leave() {
        let room = tempfile::tempdir().unwrap();
        for size in [1000, 600_000] {
            let terms = terms(room.path(), Mode::Sync, size, 5);
            let mut origin = Origin::new(&terms).unwrap();
            let file = OpenOptions::new().write(true).open(&terms.log).unwrap();
            file.write_all_at(b"!", 700).unwrap();
            let failed =
                std::iter::from_fn(|| origin.piece().map(|piece| piece.map(|_| ())).transpose())
                    .any(|piece| piece.is_err());
            assert!(failed, "{size} octets");
        }
    }
}
