//! The contact header and the messages of RFC 7242, and how they are written.

use alloc::string::String;

use bytes::{BufMut, BytesMut};

use super::sdnv;
use crate::tcpcl::writer::Encode;

/// Octets that every contact header begins with (RFC 7242 4.1).
pub(super) const MAGIC: [u8; 4] = *b"dtn!";

/// The protocol version of RFC 7242.
pub(super) const VERSION: u8 = 3;

/// Flags of the contact header (RFC 7242 table 1).
pub(super) mod offer {
    /// Segments are acknowledged.
    pub(in super::super) const ACKNOWLEDGMENTS: u8 = 0x01;
    /// The acknowledged octets of a bundle that fails are kept as a fragment.
    pub(in super::super) const FRAGMENTATION: u8 = 0x02;
    /// Bundles may be refused.
    pub(in super::super) const REFUSALS: u8 = 0x04;
    /// The other side is to announce the lengths of bundles.
    pub(in super::super) const LENGTHS: u8 = 0x08;
}

/// E: the last segment of a bundle (RFC 7242 5.2).
pub(super) const END: u8 = 0x1;

/// S: the first segment of a bundle (RFC 7242 5.2).
pub(super) const START: u8 = 0x2;

/// R: a SHUTDOWN with a reason (RFC 7242 6.1).
pub(super) const REASON: u8 = 0x2;

/// D: a SHUTDOWN with a reconnection delay (RFC 7242 6.1).
pub(super) const DELAY: u8 = 0x1;

/// Message types in the upper half of a message's first octet (RFC 7242 table 2).
pub(super) mod kind {
    pub(in super::super) const DATA_SEGMENT: u8 = 0x1;
    pub(in super::super) const ACK_SEGMENT: u8 = 0x2;
    pub(in super::super) const REFUSE_BUNDLE: u8 = 0x3;
    pub(in super::super) const KEEPALIVE: u8 = 0x4;
    pub(in super::super) const SHUTDOWN: u8 = 0x5;
    pub(in super::super) const LENGTH: u8 = 0x6;
}

/// The contact header (RFC 7242 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContactHeader {
    /// The offers and wishes of the sender.
    pub(super) offer: u8,
    pub(super) keepalive_s: u16,
    /// An endpoint of the sender's node, as received.
    pub(super) endpoint: String,
}

impl ContactHeader {
    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&MAGIC);
        out.put_u8(VERSION);
        out.put_u8(self.offer);
        out.put_u16(self.keepalive_s);
        sdnv::encode(octets(self.endpoint.len()), out);
        out.put_slice(self.endpoint.as_bytes());
    }
}

/// A message; of `DATA_SEGMENT` all but its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    DataSegment(DataSegment),
    AckSegment {
        /// Octets of the current bundle received so far.
        octets: u64,
    },
    RefuseBundle {
        /// Four bits.
        reason: u8,
    },
    Keepalive,
    Shutdown(Shutdown),
    Length {
        /// Octets of the next bundle.
        octets: u64,
    },
}

/// The head of a segment, before its octets (RFC 7242 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataSegment {
    /// START and END.
    pub(super) flags: u8,
    /// Octets of data that follow.
    pub(super) length: u64,
}

/// The end of a connection (RFC 7242 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shutdown {
    pub(super) reason: Option<u8>,
    /// Seconds; 0 for ever.
    pub(super) delay_s: Option<u64>,
}

impl Encode for Message {
    fn encode(&self, out: &mut BytesMut) {
        let mut begin = |kind: u8, flags: u8| out.put_u8(kind << 4 | flags & 0x0f);
        match *self {
            Self::DataSegment(DataSegment { flags, length }) => {
                begin(kind::DATA_SEGMENT, flags);
                sdnv::encode(length, out);
            }
            Self::AckSegment { octets } => {
                begin(kind::ACK_SEGMENT, 0);
                sdnv::encode(octets, out);
            }
            Self::RefuseBundle { reason } => begin(kind::REFUSE_BUNDLE, reason),
            Self::Keepalive => begin(kind::KEEPALIVE, 0),
            Self::Shutdown(Shutdown { reason, delay_s }) => {
                let has_reason = reason.map_or(0, |_| REASON);
                begin(kind::SHUTDOWN, has_reason | delay_s.map_or(0, |_| DELAY));
                if let Some(reason) = reason {
                    out.put_u8(reason);
                }
                if let Some(delay_s) = delay_s {
                    sdnv::encode(delay_s, out);
                }
            }
            Self::Length { octets } => {
                begin(kind::LENGTH, 0);
                sdnv::encode(octets, out);
            }
        }
    }
}

fn octets(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
