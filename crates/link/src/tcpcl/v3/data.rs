//! The heads of a peer's messages, for observers that look for data between them.

use bytes::Bytes;

use super::message::{Message, START};
use super::wire::{Decoder, Item};
use crate::tcpcl::data::{Found, Framing};

impl Framing for Decoder {
    fn greet(&mut self, chunk: &mut Bytes) -> Option<bool> {
        self.contact(chunk).ok().map(|header| header.is_some())
    }

    fn find(&mut self, chunk: &mut Bytes) -> Found {
        match self.next(chunk) {
            Ok(Some(Item::Data { octets, .. })) => Found::Data(octets),
            Ok(Some(Item::Message(Message::DataSegment(segment))))
                if segment.flags & START != 0 =>
            {
                Found::Start
            }
            Ok(_) => Found::Message,
            Err(_) => Found::Fault,
        }
    }
}
