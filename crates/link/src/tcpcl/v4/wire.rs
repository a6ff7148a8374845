//! Octets of a stream to messages, in any chunking.

use alloc::string::String;

use bytes::{Buf, Bytes};
use thiserror::Error;

use super::extension::TransferExtensions;
use super::message::{
    ACK_OCTETS, ContactHeader, END, MAGIC, Message, START, SessInit, WHOLE_HEAD_OCTETS,
    XferSegment, kind,
};
use crate::tcpcl::head::{self, Heads, Reader};

/// Octets of extension items that one message may carry: the only message parts of free length are
/// these and the node ID, so this bounds what is kept of an incomplete message. The extensions known
/// so far have 13 octets.
pub(super) const MAX_EXTENSION_OCTETS: u32 = 16 * 1024;

/// Octets of a node ID that a peer may have: the bound for endpoint IDs everywhere in Dhow.
pub(super) const MAX_NODE_ID_OCTETS: u16 = 1024;

/// A breach of the framing by a peer: nothing after it in the stream can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum WireFault {
    /// The stream does not begin with "dtn!".
    #[error("no TCPCL contact header (RFC 9174 4.3)")]
    NoMagic,
    /// A message type code that RFC 9174 does not define.
    #[error("message type {0:#04x} is unknown (RFC 9174 5.1.2)")]
    UnknownType(u8),
    /// More extension items than we are ready to keep.
    #[error("{0} octets of extension items are more than 16,384")]
    ExtensionsTooLong(u32),
    /// A longer node ID than we are ready to keep.
    #[error("a node ID of {0} octets is longer than 1,024")]
    NodeIdTooLong(u16),
    /// The node ID is not UTF-8.
    #[error("the node ID is not UTF-8 (RFC 9174 4.6)")]
    NodeIdNotText,
}

type Stop = head::Stop<WireFault>;

/// The flags of a transfer's only segment.
const WHOLE: u8 = START | END;

/// The next item of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A message; after an `XFER_SEGMENT` with data its `Data` items follow.
    Message(Message),
    /// Octets of a segment's data, never empty; `last` when they complete it.
    Data { octets: Bytes, last: bool },
}

/// Reads a stream of octets as a contact header and messages. Data are sliced out of the chunks; only
/// an incomplete message head is copied and kept.
#[derive(Debug, Default)]
pub(in crate::tcpcl) struct Decoder {
    heads: Heads,
    /// Octets of the current segment's data still to come.
    data_remaining: u64,
}

impl Decoder {
    /// The contact header, once it is there (RFC 9174 4.2).
    pub(super) fn contact(
        &mut self,
        chunk: &mut Bytes,
    ) -> Result<Option<ContactHeader>, WireFault> {
        let head = self.heads.next(chunk, contact_header)?;
        Ok(head)
    }

    /// The next item of the stream; `None` when `chunk` is used up.
    pub(super) fn next(&mut self, chunk: &mut Bytes) -> Result<Option<Item>, WireFault> {
        if self.data_remaining > 0 {
            return Ok(self.data(chunk));
        }
        let Some(message) = self.heads.next(chunk, message)? else {
            return Ok(None);
        };
        if let Message::XferSegment(segment) = &message {
            self.data_remaining = segment.data_length;
        }
        Ok(Some(Item::Message(message)))
    }

    /// A transfer of one segment without extension items that lies whole at the front of the chunk, as most small
    /// ones do; `None`, and nothing is taken, where something else does.
    pub(super) fn whole_transfer(&self, chunk: &mut Bytes) -> Option<(XferSegment, Bytes)> {
        if self.data_remaining > 0 || !self.heads.is_empty() {
            return None;
        }
        let (head, data) = chunk.split_first_chunk::<WHOLE_HEAD_OCTETS>()?;
        let ([kind::XFER_SEGMENT, WHOLE], rest) = head.split_first_chunk::<2>()? else {
            return None;
        };
        let (transfer, rest) = rest.split_first_chunk()?;
        let ([0, 0, 0, 0], data_length) = rest.split_first_chunk::<4>()? else {
            return None;
        };
        let segment = XferSegment {
            flags: WHOLE,
            transfer: u64::from_be_bytes(*transfer),
            extensions: TransferExtensions::default(),
            data_length: u64::from_be_bytes(*data_length.first_chunk()?),
        };
        let length = usize::try_from(segment.data_length).ok()?;
        if length == 0 || length > data.len() {
            return None;
        }
        chunk.advance(WHOLE_HEAD_OCTETS);
        Some((segment, chunk.split_to(length)))
    }

    /// An acknowledgment at the front of the chunk: its flags, transfer and length; `None`, and nothing is taken,
    /// where something else lies there.
    pub(super) fn acknowledgment(&self, chunk: &mut Bytes) -> Option<(u8, u64, u64)> {
        if self.data_remaining > 0 || !self.heads.is_empty() {
            return None;
        }
        let head = chunk.first_chunk::<ACK_OCTETS>()?;
        let ([kind::XFER_ACK, flags], rest) = head.split_first_chunk::<2>()? else {
            return None;
        };
        let (transfer, length) = rest.split_first_chunk()?;
        let (flags, transfer) = (*flags, u64::from_be_bytes(*transfer));
        let length = u64::from_be_bytes(*length.first_chunk()?);
        chunk.advance(ACK_OCTETS);
        Some((flags, transfer, length))
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
    // RFC 9174 4.3: without the magic the connection ends; a first wrong octet is enough to know.
    for expected in MAGIC {
        if reader.u8()? != expected {
            return Err(Stop::Fault(WireFault::NoMagic));
        }
    }
    let [version, flags] = reader.array()?;
    Ok(ContactHeader { version, flags })
}

fn message(reader: &mut Reader<'_>) -> Result<Message, Stop> {
    match reader.u8()? {
        kind::XFER_SEGMENT => {
            let flags = reader.u8()?;
            let transfer = reader.u64()?;
            // RFC 9174 5.2.2: extension items are there with START only.
            let items = if flags & START == 0 {
                &[]
            } else {
                extension_items(reader)?
            };
            let data_length = reader.u64()?;
            let extensions = TransferExtensions::decode(items);
            Ok(Message::XferSegment(XferSegment {
                flags,
                transfer,
                extensions,
                data_length,
            }))
        }
        kind::XFER_ACK => {
            let flags = reader.u8()?;
            let transfer = reader.u64()?;
            Ok(Message::XferAck {
                flags,
                transfer,
                acknowledged_length: reader.u64()?,
            })
        }
        kind::XFER_REFUSE => {
            let reason = reader.u8()?;
            Ok(Message::XferRefuse {
                reason,
                transfer: reader.u64()?,
            })
        }
        kind::KEEPALIVE => Ok(Message::Keepalive),
        kind::SESS_TERM => {
            let [flags, reason] = reader.array()?;
            Ok(Message::SessTerm { flags, reason })
        }
        kind::MSG_REJECT => {
            let [reason, rejected] = reader.array()?;
            Ok(Message::MsgReject { reason, rejected })
        }
        kind::SESS_INIT => sess_init(reader).map(Message::SessInit),
        unknown => Err(Stop::Fault(WireFault::UnknownType(unknown))),
    }
}

fn sess_init(reader: &mut Reader<'_>) -> Result<SessInit, Stop> {
    let keepalive_s = reader.u16()?;
    let segment_mru = reader.u64()?;
    let transfer_mru = reader.u64()?;
    let node_id_length = reader.u16()?;
    if node_id_length > MAX_NODE_ID_OCTETS {
        return Err(Stop::Fault(WireFault::NodeIdTooLong(node_id_length)));
    }
    let node_id = reader.octets(usize::from(node_id_length))?;
    let extensions = extension_items(reader)?;
    let Ok(node_id) = core::str::from_utf8(node_id) else {
        return Err(Stop::Fault(WireFault::NodeIdNotText));
    };
    Ok(SessInit {
        keepalive_s,
        segment_mru,
        transfer_mru,
        node_id: String::from(node_id),
        extensions: Bytes::copy_from_slice(extensions),
    })
}

/// A list of extension items behind its length.
fn extension_items<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Stop> {
    let length = reader.array().map(u32::from_be_bytes)?;
    if length > MAX_EXTENSION_OCTETS {
        return Err(Stop::Fault(WireFault::ExtensionsTooLong(length)));
    }
    reader.octets(usize::try_from(length).unwrap_or(usize::MAX))
}
