//! Octets of a connection that are data of transfers, for observers of a session from outside.

use bytes::Bytes;

use super::greeting::{Greeting, Version};
use super::{v3, v4};

/// Follows what a peer sends, as the session does that it is sent to.
#[derive(Debug, Default)]
pub struct DataReader {
    stage: Stage,
    /// Whether the data that come next begin a transfer.
    begins: bool,
}

#[derive(Debug)]
enum Stage {
    /// The version is not known.
    Greeting(Greeting),
    V3(Heads<v3::Decoder>),
    V4(Heads<v4::Decoder>),
    /// The peer broke the protocol: its session reads no further.
    Lost,
}

impl Default for Stage {
    fn default() -> Self {
        Self::Greeting(Greeting::default())
    }
}

/// The meaning of octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Heads and messages, so many octets.
    Messages(usize),
    /// Octets of a transfer, the first ones of it where it `begins`.
    Data {
        /// The octets.
        octets: Bytes,
        /// Whether these octets are the first of the transfer.
        begins: bool,
    },
    /// So many octets that no session reads.
    Lost(usize),
}

/// The item that the decoder of a version found at the front of some octets.
#[derive(Debug)]
pub(super) enum Found {
    /// A message, or a part of one.
    Message,
    /// The head of a transfer's first segment.
    Start,
    /// Data.
    Data(Bytes),
    /// The protocol is broken.
    Fault,
}

/// The decoder of one version, as far as the place of data goes.
pub(super) trait Framing: Default {
    /// Read the contact header: true once it is there, `None` where it is none.
    fn greet(&mut self, chunk: &mut Bytes) -> Option<bool>;

    /// The meaning of the first octets of `chunk` behind the contact header, which it loses.
    fn find(&mut self, chunk: &mut Bytes) -> Found;
}

/// Follows the heads of one side.
#[derive(Debug, Default)]
struct Heads<F> {
    framing: F,
    /// Whether the contact header is over.
    is_greeted: bool,
}

impl<F: Framing> Heads<F> {
    /// The heads of a connection that begins with these octets, less than a contact header.
    fn new(held: &mut Bytes) -> Self {
        let mut heads = Self::default();
        // A fault in them shows again with the next octets.
        let _ = heads.framing.greet(held);
        heads
    }

    /// The meaning of the first octets of `chunk`, which it loses.
    fn next(&mut self, chunk: &mut Bytes) -> Found {
        if self.is_greeted {
            return self.framing.find(chunk);
        }
        match self.framing.greet(chunk) {
            Some(is_greeted) => {
                self.is_greeted = is_greeted;
                Found::Message
            }
            None => Found::Fault,
        }
    }
}

impl DataReader {
    /// The meaning of the first octets of `chunk`, which it loses; `None` when it is empty.
    pub fn next(&mut self, chunk: &mut Bytes) -> Option<Part> {
        if chunk.is_empty() {
            return None;
        }
        let before = chunk.len();
        let found = match &mut self.stage {
            Stage::Greeting(greeting) => {
                let Some((version, mut held)) = greeting.add(chunk) else {
                    chunk.clear();
                    return Some(Part::Messages(before));
                };
                self.stage = match version {
                    Version::V3 => Stage::V3(Heads::new(&mut held)),
                    Version::V4 => Stage::V4(Heads::new(&mut held)),
                };
                return self.next(chunk);
            }
            Stage::V3(heads) => heads.next(chunk),
            Stage::V4(heads) => heads.next(chunk),
            Stage::Lost => Found::Fault,
        };
        let part = match found {
            Found::Data(octets) => {
                let begins = core::mem::take(&mut self.begins);
                return Some(Part::Data { octets, begins });
            }
            Found::Message => Part::Messages(before - chunk.len()),
            Found::Start => {
                self.begins = true;
                Part::Messages(before - chunk.len())
            }
            Found::Fault => {
                self.stage = Stage::Lost;
                chunk.clear();
                Part::Lost(before)
            }
        };
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of version 4 a contact header, a keepalive, and a transfer in two segments (RFC 9174 4.2, 5.1.1, 5.2.2); of version
    /// 3 the same, with lengths (RFC 7242 4.1, 5).
    const SAID: [&[u8]; 2] = [
        b"dtn!\x04\x00\x04\x01\x02\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\x03one\x01\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x03two\xff",
        b"dtn!\x03\x01\x00\x0f\x07ipn:7.0\x40\x60\x06\x12\x03one\x11\x03two\xff",
    ];

    #[test]
    fn data_are_found_in_any_chunks() {
        for said in SAID {
            for cut in 1..said.len() {
                let mut reader = DataReader::default();
                let (mut data, mut rest, mut begun) = (alloc::vec::Vec::new(), 0, 0);
                for piece in said.chunks(cut) {
                    let mut chunk = Bytes::from_static(piece);
                    while let Some(part) = reader.next(&mut chunk) {
                        match part {
                            Part::Data { octets, begins } => {
                                data.extend_from_slice(&octets);
                                begun += usize::from(begins);
                            }
                            Part::Messages(octets) => rest += octets,
                            Part::Lost(octets) => assert_eq!(octets, 1, "no message"),
                        }
                    }
                }
                assert_eq!(
                    (data.as_slice(), begun),
                    (&b"onetwo"[..], 1),
                    "cut at {cut}"
                );
                assert_eq!(rest, said.len() - 7);
            }
        }
    }
}
