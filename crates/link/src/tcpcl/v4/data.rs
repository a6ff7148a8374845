//! The heads of a peer's messages, for whoever looks for data between them.

use bytes::Bytes;

use super::message::{Message, START};
use super::wire::{Decoder, Item};
use crate::tcpcl::data::Found;

/// Follows the heads of one side.
#[derive(Debug, Default)]
pub(in crate::tcpcl) struct Heads {
    decoder: Decoder,
    /// The contact header is over.
    is_greeted: bool,
}

impl Heads {
    /// Of a connection that begins with these octets, less than a contact header.
    pub(in crate::tcpcl) fn new(held: &mut Bytes) -> Self {
        let mut heads = Self::default();
        // A fault in them shows again with the next octets.
        let _ = heads.decoder.contact(held);
        heads
    }

    /// The meaning of the first octets of `chunk`, which it loses.
    pub(in crate::tcpcl) fn next(&mut self, chunk: &mut Bytes) -> Found {
        if !self.is_greeted {
            return match self.decoder.contact(chunk) {
                Ok(header) => {
                    self.is_greeted = header.is_some();
                    Found::Message
                }
                Err(_) => Found::Fault,
            };
        }
        match self.decoder.next(chunk) {
            Ok(Some(Item::Data { octets, .. })) => Found::Data(octets),
            Ok(Some(Item::Message(Message::XferSegment(segment))))
                if segment.flags & START != 0 =>
            {
                Found::Start
            }
            Ok(_) => Found::Message,
            Err(_) => Found::Fault,
        }
    }
}
