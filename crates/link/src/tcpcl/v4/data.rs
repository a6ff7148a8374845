//! Which octets of a connection are data of transfers: for whoever looks at a session from outside.

use bytes::Bytes;

use super::message::{Message, START};
use super::wire::{Decoder, Item};

/// Follows what a peer sends, as the session does that it is sent to.
#[derive(Debug, Default)]
pub struct DataReader {
    decoder: Decoder,
    stage: Stage,
    /// The data that come next begin a transfer.
    begins: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The contact header comes first (RFC 9174 4.2).
    #[default]
    Contact,
    Messages,
    /// The peer broke the protocol: its session reads no further.
    Lost,
}

/// What octets are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Heads and messages, so many octets.
    Messages(usize),
    /// Octets of a transfer, the first ones of it where it `begins`.
    Data {
        /// The octets.
        octets: Bytes,
        /// These are the first.
        begins: bool,
    },
    /// What no session reads, so many octets.
    Lost(usize),
}

impl DataReader {
    /// What the first octets of `chunk` are, which it loses; `None` when it is empty.
    pub fn next(&mut self, chunk: &mut Bytes) -> Option<Part> {
        if chunk.is_empty() {
            return None;
        }
        let before = chunk.len();
        let taken = |chunk: &Bytes| before - chunk.len();
        let read = match self.stage {
            Stage::Contact => self.decoder.contact(chunk).map(|header| {
                if header.is_some() {
                    self.stage = Stage::Messages;
                }
                Part::Messages(taken(chunk))
            }),
            Stage::Messages => self.decoder.next(chunk).map(|item| match item {
                Some(Item::Data { octets, .. }) => Part::Data {
                    octets,
                    begins: core::mem::take(&mut self.begins),
                },
                Some(Item::Message(Message::XferSegment(segment))) => {
                    self.begins = segment.flags & START != 0;
                    Part::Messages(taken(chunk))
                }
                _ => Part::Messages(taken(chunk)),
            }),
            Stage::Lost => return Some(self.lose(chunk)),
        };
        Some(read.unwrap_or_else(|_| self.lose(chunk)))
    }

    fn lose(&mut self, chunk: &mut Bytes) -> Part {
        self.stage = Stage::Lost;
        let octets = chunk.len();
        chunk.clear();
        Part::Lost(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A contact header, a keepalive, and a transfer in two segments (RFC 9174 4.2, 5.1.1, 5.2.2).
    const SAID: &[u8] = b"dtn!\x04\x00\x04\x01\x02\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\x03one\x01\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x03twoX";

    #[test]
    fn data_are_found_in_any_chunks() {
        for cut in 1..SAID.len() {
            let mut reader = DataReader::default();
            let (mut data, mut rest, mut begun) = (alloc::vec::Vec::new(), 0, 0);
            for piece in SAID.chunks(cut) {
                let mut chunk = Bytes::from_static(piece);
                while let Some(part) = reader.next(&mut chunk) {
                    match part {
                        Part::Data { octets, begins } => {
                            data.extend_from_slice(&octets);
                            begun += usize::from(begins);
                        }
                        Part::Messages(octets) => rest += octets,
                        Part::Lost(octets) => assert_eq!(octets, 1, "X is no message"),
                    }
                }
            }
            assert_eq!(
                (data.as_slice(), begun),
                (&b"onetwo"[..], 1),
                "cut at {cut}"
            );
            assert_eq!(rest, SAID.len() - 7);
        }
    }
}
