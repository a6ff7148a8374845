//! Octets of a stream to messages, in any chunking.

use alloc::string::String;

use bytes::Bytes;
use thiserror::Error;

use super::message::{
    ContactHeader, DELAY, DataSegment, END, MAGIC, Message, REASON, START, Shutdown, VERSION, kind,
};
use super::sdnv::{self, TooLong};
use crate::tcpcl::head::{self, Heads, Reader};

/// Octets of an endpoint ID that a peer may have: the bound for endpoint IDs everywhere in Dhow. It is the only part of a
/// head with a free length, so this bounds what is kept of an incomplete one.
pub(super) const MAX_ENDPOINT_OCTETS: u64 = 1024;

/// A breach of the framing by a peer: nothing after it in the stream can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum WireFault {
    /// The stream does not begin with "dtn!".
    #[error("no TCPCL contact header (RFC 7242 4.2)")]
    NoMagic,
    /// Another version of the protocol.
    #[error("version {0} of the protocol (RFC 7242 4.2)")]
    Version(u8),
    /// A longer endpoint ID than we are ready to keep.
    #[error("an endpoint ID of {0} octets is longer than 1,024")]
    EndpointTooLong(u64),
    /// The endpoint ID is not text.
    #[error("the endpoint ID is not text (RFC 7242 4.1)")]
    EndpointNotText,
    /// A message type that RFC 7242 does not define.
    #[error("message type {0:#03x} is unknown (RFC 7242 5.1)")]
    UnknownType(u8),
    /// A number that has no end, or none that means anything.
    #[error(transparent)]
    Number(#[from] TooLong),
}

type Stop = head::Stop<WireFault>;

/// The next item of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A message; after a `DATA_SEGMENT` with data its `Data` items follow.
    Message(Message),
    /// Octets of a segment's data, never empty; `last` when they complete it.
    Data { octets: Bytes, last: bool },
}

/// Reads a stream of octets as a contact header and messages. Data are sliced out of the chunks; only
/// an incomplete head is copied and kept.
#[derive(Debug, Default)]
pub(in crate::tcpcl) struct Decoder {
    heads: Heads,
    /// Octets of the current segment's data still to come.
    data_remaining: u64,
}

impl Decoder {
    /// The contact header, once it is there (RFC 7242 4.1).
    pub(super) fn contact(
        &mut self,
        chunk: &mut Bytes,
    ) -> Result<Option<ContactHeader>, WireFault> {
        self.heads.next(chunk, contact_header)
    }

    /// The next item of the stream; `None` when `chunk` is used up.
    pub(super) fn next(&mut self, chunk: &mut Bytes) -> Result<Option<Item>, WireFault> {
        if self.data_remaining > 0 {
            return Ok(self.data(chunk));
        }
        let Some(message) = self.heads.next(chunk, message)? else {
            return Ok(None);
        };
        if let Message::DataSegment(segment) = &message {
            self.data_remaining = segment.length;
        }
        Ok(Some(Item::Message(message)))
    }

    fn data(&mut self, chunk: &mut Bytes) -> Option<Item> {
        if chunk.is_empty() {
            return None;
        }
        let length = usize::try_from(self.data_remaining)
            .unwrap_or(usize::MAX)
            .min(chunk.len());
        let octets = chunk.split_to(length);
        self.data_remaining = self
            .data_remaining
            .saturating_sub(u64::try_from(length).unwrap_or(u64::MAX));
        Some(Item::Data {
            octets,
            last: self.data_remaining == 0,
        })
    }
}

fn contact_header(reader: &mut Reader<'_>) -> Result<ContactHeader, Stop> {
    // RFC 7242 4.2: without the magic the connection ends; a first wrong octet is enough to know.
    for expected in MAGIC {
        if reader.u8()? != expected {
            return Err(Stop::Fault(WireFault::NoMagic));
        }
    }
    // The octets behind it are known of this version only.
    let version = reader.u8()?;
    if version != VERSION {
        return Err(Stop::Fault(WireFault::Version(version)));
    }
    let offer = reader.u8()?;
    let keepalive_s = reader.u16()?;
    let length = sdnv::decode(reader)?;
    if length > MAX_ENDPOINT_OCTETS {
        return Err(Stop::Fault(WireFault::EndpointTooLong(length)));
    }
    let endpoint = reader.octets(usize::try_from(length).unwrap_or(usize::MAX))?;
    let Ok(endpoint) = core::str::from_utf8(endpoint) else {
        return Err(Stop::Fault(WireFault::EndpointNotText));
    };
    Ok(ContactHeader {
        offer,
        keepalive_s,
        endpoint: String::from(endpoint),
    })
}

fn message(reader: &mut Reader<'_>) -> Result<Message, Stop> {
    let first = reader.u8()?;
    let flags = first & 0x0f;
    match first >> 4 {
        kind::DATA_SEGMENT => Ok(Message::DataSegment(DataSegment {
            flags: flags & (START | END),
            length: sdnv::decode(reader)?,
        })),
        kind::ACK_SEGMENT => {
            let octets = sdnv::decode(reader)?;
            Ok(Message::AckSegment { octets })
        }
        kind::REFUSE_BUNDLE => Ok(Message::RefuseBundle { reason: flags }),
        kind::KEEPALIVE => Ok(Message::Keepalive),
        kind::SHUTDOWN => {
            let reason = match flags & REASON {
                0 => None,
                _ => Some(reader.u8()?),
            };
            let delay_s = match flags & DELAY {
                0 => None,
                _ => Some(sdnv::decode(reader)?),
            };
            Ok(Message::Shutdown(Shutdown { reason, delay_s }))
        }
        kind::LENGTH => {
            let octets = sdnv::decode(reader)?;
            Ok(Message::Length { octets })
        }
        unknown => Err(Stop::Fault(WireFault::UnknownType(unknown))),
    }
}
