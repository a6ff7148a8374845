//! The contact header and the messages of RFC 9174, and how they are written.

use alloc::string::String;

use bytes::{BufMut, Bytes, BytesMut};

use super::extension::TransferExtensions;
use crate::tcpcl::writer::Encode;

/// Octets that every contact header begins with (RFC 9174 4.2).
pub(super) const MAGIC: [u8; 4] = *b"dtn!";

/// The protocol version of RFC 9174.
pub(super) const VERSION: u8 = 4;

/// `CAN_TLS` (RFC 9174 table 1).
pub(super) const CAN_TLS: u8 = 0x01;

/// END: the last segment of a transfer (RFC 9174 table 5).
pub(super) const END: u8 = 0x01;

/// START: the first segment of a transfer (RFC 9174 table 5).
pub(super) const START: u8 = 0x02;

/// REPLY: a `SESS_TERM` that answers one (RFC 9174 table 8).
pub(super) const REPLY: u8 = 0x01;

/// Octets of an `XFER_SEGMENT` with START and no extension items, before its data: type, flags, transfer, length of the
/// items, length of the data (RFC 9174 5.2.2).
pub(super) const WHOLE_HEAD_OCTETS: usize = 1 + 1 + 8 + 4 + 8;

/// Octets of an `XFER_ACK`: type, flags, transfer, length (RFC 9174 5.2.3).
pub(super) const ACK_OCTETS: usize = 1 + 1 + 8 + 8;

/// Message type codes (RFC 9174 table 2).
pub(super) mod kind {
    pub(in super::super) const XFER_SEGMENT: u8 = 0x01;
    pub(in super::super) const XFER_ACK: u8 = 0x02;
    pub(in super::super) const XFER_REFUSE: u8 = 0x03;
    pub(in super::super) const KEEPALIVE: u8 = 0x04;
    pub(in super::super) const SESS_TERM: u8 = 0x05;
    pub(in super::super) const MSG_REJECT: u8 = 0x06;
    pub(in super::super) const SESS_INIT: u8 = 0x07;
}

/// The contact header (RFC 9174 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContactHeader {
    pub(super) version: u8,
    pub(super) flags: u8,
}

impl ContactHeader {
    pub(super) fn encode(self, out: &mut BytesMut) {
        out.put_slice(&MAGIC);
        out.put_u8(self.version);
        out.put_u8(self.flags);
    }
}

/// A session's parameters as one side offers them (RFC 9174 4.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessInit {
    pub(super) keepalive_s: u16,
    pub(super) segment_mru: u64,
    pub(super) transfer_mru: u64,
    /// Empty when the peer does not say who it is.
    pub(super) node_id: String,
    /// Session extension items, as received.
    pub(super) extensions: Bytes,
}

/// The head of a segment (RFC 9174 5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct XferSegment {
    /// START, END and whatever else the peer set.
    pub(super) flags: u8,
    pub(super) transfer: u64,
    /// Present with START.
    pub(super) extensions: TransferExtensions,
    /// Octets of data that follow.
    pub(super) data_length: u64,
}

/// A message; of `XFER_SEGMENT` all but its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    XferSegment(XferSegment),
    XferAck {
        flags: u8,
        transfer: u64,
        acknowledged_length: u64,
    },
    XferRefuse {
        reason: u8,
        transfer: u64,
    },
    Keepalive,
    SessTerm {
        flags: u8,
        reason: u8,
    },
    MsgReject {
        reason: u8,
        rejected: u8,
    },
    SessInit(SessInit),
}

impl Message {
    /// The message type code.
    pub(super) const fn kind(&self) -> u8 {
        match self {
            Self::XferSegment(_) => kind::XFER_SEGMENT,
            Self::XferAck { .. } => kind::XFER_ACK,
            Self::XferRefuse { .. } => kind::XFER_REFUSE,
            Self::Keepalive => kind::KEEPALIVE,
            Self::SessTerm { .. } => kind::SESS_TERM,
            Self::MsgReject { .. } => kind::MSG_REJECT,
            Self::SessInit(_) => kind::SESS_INIT,
        }
    }
}

impl Encode for Message {
    fn encode(&self, out: &mut BytesMut) {
        // One of these two goes with nearly every bundle: its fields are put there at once.
        match self {
            Self::XferAck {
                flags,
                transfer,
                acknowledged_length,
            } => {
                let mut message = [0; ACK_OCTETS];
                let mut fields: &mut [u8] = &mut message;
                fields.put_u8(kind::XFER_ACK);
                fields.put_u8(*flags);
                fields.put_u64(*transfer);
                fields.put_u64(*acknowledged_length);
                out.put_slice(&message);
                return;
            }
            Self::XferSegment(segment)
                if segment.flags & START != 0
                    && segment.extensions == TransferExtensions::default() =>
            {
                let mut message = [0; WHOLE_HEAD_OCTETS];
                let mut fields: &mut [u8] = &mut message;
                fields.put_u8(kind::XFER_SEGMENT);
                fields.put_u8(segment.flags);
                fields.put_u64(segment.transfer);
                fields.put_u32(0);
                fields.put_u64(segment.data_length);
                out.put_slice(&message);
                return;
            }
            _ => {}
        }
        out.put_u8(self.kind());
        match self {
            Self::XferSegment(segment) => segment.encode_fields(out),
            // Written above.
            Self::XferAck { .. } => {}
            Self::XferRefuse { reason, transfer } => {
                out.put_u8(*reason);
                out.put_u64(*transfer);
            }
            Self::Keepalive => {}
            Self::SessTerm { flags, reason } => {
                out.put_u8(*flags);
                out.put_u8(*reason);
            }
            Self::MsgReject { reason, rejected } => {
                out.put_u8(*reason);
                out.put_u8(*rejected);
            }
            Self::SessInit(init) => init.encode_fields(out),
        }
    }
}

impl XferSegment {
    fn encode_fields(&self, out: &mut BytesMut) {
        out.put_u8(self.flags);
        out.put_u64(self.transfer);
        if self.flags & START != 0 {
            self.extensions.encode(out);
        }
        out.put_u64(self.data_length);
    }
}

impl SessInit {
    #[expect(
        clippy::expect_used,
        reason = "a node ID is at most 1,024 octets, an extension list at most MAX_EXTENSION_OCTETS"
    )]
    fn encode_fields(&self, out: &mut BytesMut) {
        out.put_u16(self.keepalive_s);
        out.put_u64(self.segment_mru);
        out.put_u64(self.transfer_mru);
        out.put_u16(u16::try_from(self.node_id.len()).expect("a node ID fits its length field"));
        out.put_slice(self.node_id.as_bytes());
        out.put_u32(
            u32::try_from(self.extensions.len()).expect("extension items fit their length field"),
        );
        out.put_slice(&self.extensions);
    }
}
