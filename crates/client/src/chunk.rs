//! Chunks of ordered octets as payloads: docs/stream.md.
//!
//! This room knows headers alone; order is the receiver's.

use dhow_bundle::cbor::{
    CborError, Reader, write_array, write_boolean, write_byte_string, write_text, write_unsigned,
};
use thiserror::Error;

/// The first item.
const MAGIC: &str = "dhow-stream";

/// Version of the format.
const VERSION: u64 = 1;

/// Items of a header.
const ITEMS: u64 = 5;

/// Largest number of a chunk.
pub const CHUNK_NUMBER_MAX: u64 = (1 << 63) - 1;

/// Octets of a chunk without its header, at most.
pub const CHUNK_OCTETS_MAX: u64 = 16 << 20;

/// Octets of a header, at most.
pub const CHUNK_HEADER_OCTETS_MAX: usize = 41;

/// The identity of a stream: 16 octets that its sender drew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub [u8; 16]);

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The stream.
    pub stream: StreamId,
    /// Counts the chunks of the stream from 0, at most [`CHUNK_NUMBER_MAX`].
    pub number: u64,
    /// Whether other chunks follow.
    pub place: ChunkPlace,
}

/// Whether others follow a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkPlace {
    /// Others follow.
    Within,
    /// The stream ends, and the chunk has no octets.
    End,
}

/// Why octets are no chunk.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChunkRefusal {
    /// The payload begins otherwise.
    #[error("the payload is not a chunk of a stream")]
    NoHeader,
    /// Another version of the format.
    #[error("the header has version {0}, and {VERSION} is known")]
    Version(u64),
    /// A stream with an identity of another length.
    #[error("the stream's identity has {0} octets")]
    Stream(usize),
    /// A number above [`CHUNK_NUMBER_MAX`].
    #[error("the chunk has the number {0}, and {CHUNK_NUMBER_MAX} is the most")]
    Number(u64),
    /// Octets behind the end, or more than [`CHUNK_OCTETS_MAX`].
    #[error("the chunk has {0} octets")]
    Octets(u64),
    /// An item that is not as required.
    #[error("the header is malformed: {0}")]
    Cbor(#[from] CborError),
}

impl ChunkHeader {
    /// Appends its octets.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_array(out, ITEMS);
        write_text(out, MAGIC);
        write_unsigned(out, VERSION);
        write_byte_string(out, &self.stream.0);
        write_unsigned(out, self.number);
        write_boolean(out, self.place == ChunkPlace::End);
    }

    /// Reads a whole payload: the header, and the octets of the chunk.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn decode(payload: &[u8]) -> Result<(Self, &[u8]), ChunkRefusal> {
        let mut reader = Reader::new(payload);
        let no_header = |_| ChunkRefusal::NoHeader;
        let items = reader.array().map_err(no_header)?.left();
        let most = u64::try_from(MAGIC.len()).unwrap_or(u64::MAX);
        let head = reader.clone();
        if reader.text(most).map_err(no_header)? != MAGIC
            || !matches!(head.rest().first(), Some(0x60..=0x77))
        {
            return Err(ChunkRefusal::NoHeader);
        }
        match reader.unsigned()? {
            VERSION => {}
            version => return Err(ChunkRefusal::Version(version)),
        }
        if items != Some(ITEMS) {
            return Err(CborError::ArrayLength { at: 0 }.into());
        }
        let stream = reader.byte_string()?;
        let stream = stream
            .try_into()
            .map_err(|_| ChunkRefusal::Stream(stream.len()))?;
        let number = reader.unsigned()?;
        if number > CHUNK_NUMBER_MAX {
            return Err(ChunkRefusal::Number(number));
        }
        let place = match reader.boolean()? {
            true => ChunkPlace::End,
            false => ChunkPlace::Within,
        };
        let octets = u64::try_from(reader.rest().len()).unwrap_or(u64::MAX);
        if octets > CHUNK_OCTETS_MAX || (octets > 0 && place == ChunkPlace::End) {
            return Err(ChunkRefusal::Octets(octets));
        }
        let header = Self {
            stream: StreamId(stream),
            number,
            place,
        };
        Ok((header, reader.rest()))
    }
}

/// Reads octets as a payload, and what was read again from what is written of it; true where they are a chunk. It panics when the decoder
/// breaks its word, and is no part of the interface.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub fn check_chunk(payload: &[u8]) -> bool {
    let Ok((header, octets)) = ChunkHeader::decode(payload) else {
        return false;
    };
    let mut written = Vec::new();
    header.encode(&mut written);
    assert!(
        written.len() <= CHUNK_HEADER_OCTETS_MAX,
        "a header is bounded"
    );
    written.extend_from_slice(octets);
    assert_eq!(written, payload, "there is one way to write a chunk");
    assert!(header.place == ChunkPlace::Within || octets.is_empty());
    true
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    const HEADER: ChunkHeader = ChunkHeader {
        stream: StreamId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
        number: 3,
        place: ChunkPlace::Within,
    };

    /// The example of docs/stream.md.
    const GOLDEN: &[u8] =
        b"\x85\x6bdhow-stream\x01\x50\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x03\xf4abc";

    fn written(header: ChunkHeader) -> Vec<u8> {
        let mut out = Vec::new();
        header.encode(&mut out);
        out
    }

    #[test]
    fn the_example_of_the_document_is_what_is_written_and_read() {
        assert_eq!([&written(HEADER)[..], b"abc"].concat(), GOLDEN);
        assert_eq!(ChunkHeader::decode(GOLDEN), Ok((HEADER, &b"abc"[..])));
        let longest = ChunkHeader {
            number: CHUNK_NUMBER_MAX,
            ..HEADER
        };
        assert_eq!(written(longest).len(), CHUNK_HEADER_OCTETS_MAX);
    }

    #[test]
    fn what_breaks_a_rule_is_refused() {
        for length in 0..GOLDEN.len() - 3 {
            assert!(ChunkHeader::decode(&GOLDEN[..length]).is_err(), "{length}");
        }
        let with = |at: usize, octet: u8| {
            let mut octets = GOLDEN.to_vec();
            octets[at] = octet;
            ChunkHeader::decode(&octets).unwrap_err()
        };
        assert_eq!(with(2, b'x'), ChunkRefusal::NoHeader);
        assert_eq!(with(13, 2), ChunkRefusal::Version(2));
        assert!(matches!(with(0, 0x86), ChunkRefusal::Cbor(_)));
        assert!(matches!(with(0, 0x9f), ChunkRefusal::Cbor(_)));
        assert!(matches!(with(14, 0x4f), ChunkRefusal::Stream(15)));
        assert_eq!(with(32, 0xf5), ChunkRefusal::Octets(3));
        assert!(matches!(with(32, 0xf6), ChunkRefusal::Cbor(_)));
        let past = ChunkHeader {
            number: CHUNK_NUMBER_MAX + 1,
            ..HEADER
        };
        assert_eq!(
            ChunkHeader::decode(&written(past)),
            Err(ChunkRefusal::Number(1 << 63))
        );
    }

    proptest! {
        #[test]
        fn a_chunk_is_read_as_it_was_written(stream: [u8; 16], number in 0..=CHUNK_NUMBER_MAX, content: Option<Vec<u8>>) {
            let place = if content.is_some() { ChunkPlace::Within } else { ChunkPlace::End };
            let header = ChunkHeader { stream: StreamId(stream), number, place };
            let content = content.unwrap_or_default();
            let payload = [&written(header)[..], &content].concat();
            prop_assert_eq!(ChunkHeader::decode(&payload), Ok((header, &content[..])));
        }

        #[test]
        fn any_octets_behind_a_good_beginning_are_read_or_refused(rest: Vec<u8>, cut in 0..GOLDEN.len()) {
            let _ = check_chunk(&[&GOLDEN[..cut], &rest].concat());
        }
    }

    /// `fuzz/corpus/chunk_header` has what is read here; it is written with `UPDATE_SNAPSHOTS` set.
    #[test]
    fn every_file_of_the_corpus_is_read_or_refused() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/chunk_header");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            let end = ChunkHeader {
                number: 70_000,
                place: ChunkPlace::End,
                ..HEADER
            };
            fs::create_dir_all(&folder).unwrap();
            for (name, octets) in [
                ("chunk", GOLDEN.to_vec()),
                ("end", written(end)),
                ("empty-chunk", written(HEADER)),
                ("octets-behind-the-end", [&written(end)[..], b"x"].concat()),
                ("cut", GOLDEN[..20].to_vec()),
                ("text", b"no chunk at all".to_vec()),
                ("nothing", Vec::new()),
            ] {
                fs::write(folder.join(name), octets).unwrap();
            }
        }
        let mut read: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(Result::unwrap)
            .filter(|it| check_chunk(&fs::read(it.path()).unwrap()))
            .map(|it| it.file_name().into_string().unwrap())
            .collect();
        read.sort();
        assert_eq!(read, ["chunk", "empty-chunk", "end"]);
    }
}
