//! Octets of a stream to bundles, in any chunking, and the heads before them.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use thiserror::Error;

use super::Framing;
use crate::encapsulation::{self, BUNDLES, Header, PacketFault, header};
use crate::tcpcl::head::{self, Heads, Reader};
use crate::tcpcl::writer::Encode;

/// Major types of CBOR (RFC 8949 3.1).
const UNSIGNED: u8 = 0;
const BYTES: u8 = 2;
const ARRAY: u8 = 4;

/// A breach of the framing by a peer: nothing after it in the stream can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum WireFault {
    /// MTCP: no bundle begins so.
    #[error(
        "a bundle begins with {0:#04x}, which begins no CBOR byte string of definite length (draft-ietf-dtn-mtcpcl-01)"
    )]
    NoByteString(u8),
    /// STCP by the draft: no bundle begins so.
    #[error(
        "a bundle begins with {0:#04x}, which begins no CBOR array of two items (draft-burleigh-dtn-stcp-00 3.2)"
    )]
    NoArray(u8),
    /// The array has another number of items.
    #[error("a CBOR array of {0} items instead of two (draft-burleigh-dtn-stcp-00 3.2)")]
    Items(u64),
    /// The array's first item is no length.
    #[error("{0:#04x} begins no length of a bundle (draft-burleigh-dtn-stcp-00 3.2)")]
    NoLength(u8),
    /// The array's second item is no byte string.
    #[error("{0:#04x} begins no byte string of definite length (draft-burleigh-dtn-stcp-00 3.2)")]
    NoBundle(u8),
    /// The two lengths are not the same.
    #[error(
        "a bundle of {said} octets is in a byte string of {octets} (draft-burleigh-dtn-stcp-00 3.2)"
    )]
    Lengths { said: u64, octets: u64 },
    /// Encapsulation: the packet is broken, or has no bundle.
    #[error(transparent)]
    Packet(#[from] PacketFault),
    /// A longer bundle than is taken.
    #[error("a bundle of {octets} octets is announced, and {longest} is the most that is taken")]
    TooLong { octets: u64, longest: u64 },
    /// The stream ended within a bundle.
    #[error("the stream ended after {octets} of a bundle's {length} octets")]
    Truncated { octets: u64, length: u64 },
    /// The stream ended within the head of a bundle.
    #[error("the stream ended within the length of a bundle")]
    TruncatedHead,
}

type Stop = head::Stop<WireFault>;

/// The head of a bundle of so many octets, in its shortest form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) framing: Framing,
    /// No more than [`Framing::longest_octets`].
    pub(super) octets: u64,
}

impl Encode for Head {
    fn encode(&self, out: &mut BytesMut) {
        match self.framing {
            Framing::Stcp => out.put_u32(u32::try_from(self.octets).unwrap_or(u32::MAX)),
            Framing::StcpDraft => {
                item(out, ARRAY, 2);
                item(out, UNSIGNED, self.octets);
                item(out, BYTES, self.octets);
            }
            Framing::Mtcp => item(out, BYTES, self.octets),
            Framing::Encapsulation => encapsulation::write_header(out, BUNDLES, self.octets),
        }
    }
}

/// Write the head of a CBOR item, as short as it can be (RFC 8949 4.2.1).
fn item(out: &mut BytesMut, major: u8, argument: u64) {
    let major = major << 5;
    if let Ok(small) = u8::try_from(argument) {
        match small {
            0..=23 => out.put_u8(major | small),
            _ => out.put_slice(&[major | 24, small]),
        }
    } else if let Ok(argument) = u16::try_from(argument) {
        out.put_u8(major | 25);
        out.put_u16(argument);
    } else if let Ok(argument) = u32::try_from(argument) {
        out.put_u8(major | 26);
        out.put_u32(argument);
    } else {
        out.put_u8(major | 27);
        out.put_u64(argument);
    }
}

/// The next item of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// The head of a bundle of so many octets, whose `Octets` items follow; 0 is a keep-alive, which has none.
    Head(u64),
    /// Octets of a bundle, never empty; `last` when they complete it.
    Octets { octets: Bytes, last: bool },
}

/// Reads a stream of bundles. Their octets are sliced out of the chunks; only an incomplete head is copied and kept.
#[derive(Debug)]
pub(super) struct Decoder {
    framing: Framing,
    /// The longest bundle that is taken.
    longest: u64,
    heads: Heads,
    /// Octets of the current bundle, and those of them still to come.
    length: u64,
    remaining: u64,
    /// Octets without a meaning that are still to come.
    idle: u64,
}

impl Decoder {
    pub(super) fn new(framing: Framing, longest: u64) -> Self {
        Self {
            framing,
            longest,
            heads: Heads::default(),
            length: 0,
            remaining: 0,
            idle: 0,
        }
    }

    /// The next item of the stream; `None` when `chunk` is used up.
    pub(super) fn next(&mut self, chunk: &mut Bytes) -> Result<Option<Item>, WireFault> {
        if self.remaining > 0 {
            return Ok(self.octets(chunk));
        }
        if self.idle > 0 {
            let passed = chunk
                .len()
                .min(usize::try_from(self.idle).unwrap_or(usize::MAX));
            chunk.advance(passed);
            self.idle -= u64::try_from(passed).unwrap_or(u64::MAX);
        }
        let head = match self.framing {
            Framing::Stcp => self.heads.next(chunk, stcp)?.map(Header::Unit),
            Framing::StcpDraft => self.heads.next(chunk, stcp_draft)?.map(Header::Unit),
            Framing::Mtcp => self.heads.next(chunk, mtcp)?.map(Header::Unit),
            Framing::Encapsulation => self.heads.next(chunk, |reader| header(reader, BUNDLES))?,
        };
        let octets = match head {
            None => return Ok(None),
            Some(Header::Unit(octets)) => octets,
            Some(Header::Idle(octets)) => {
                self.idle = octets;
                return Ok(Some(Item::Head(0)));
            }
        };
        let longest = self.longest;
        if octets > longest {
            return Err(WireFault::TooLong { octets, longest });
        }
        self.length = octets;
        self.remaining = octets;
        Ok(Some(Item::Head(octets)))
    }

    fn octets(&mut self, chunk: &mut Bytes) -> Option<Item> {
        if chunk.is_empty() {
            return None;
        }
        let wanted = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        let octets = chunk.split_to(wanted.min(chunk.len()));
        let taken = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        self.remaining = self.remaining.saturating_sub(taken);
        let last = self.remaining == 0;
        Some(Item::Octets { octets, last })
    }

    /// The stream is over: the rule that this breaks where it is not between two bundles.
    pub(super) const fn end(&self) -> Option<WireFault> {
        if self.remaining > 0 {
            return Some(WireFault::Truncated {
                octets: self.length - self.remaining,
                length: self.length,
            });
        }
        match self.heads.is_empty() {
            true => None,
            false => Some(WireFault::TruncatedHead),
        }
    }
}

/// The deployed form: 32 bits of length.
fn stcp(reader: &mut Reader<'_>) -> Result<u64, Stop> {
    reader
        .array()
        .map(|octets| u32::from_be_bytes(octets).into())
}

/// draft-burleigh-dtn-stcp-00 3.2: an array of the length and the bundle.
fn stcp_draft(reader: &mut Reader<'_>) -> Result<u64, Stop> {
    let items = argument(reader, ARRAY, WireFault::NoArray)?;
    if items != 2 {
        return Err(Stop::Fault(WireFault::Items(items)));
    }
    let said = argument(reader, UNSIGNED, WireFault::NoLength)?;
    let octets = argument(reader, BYTES, WireFault::NoBundle)?;
    if said != octets {
        return Err(Stop::Fault(WireFault::Lengths { said, octets }));
    }
    Ok(octets)
}

/// draft-ietf-dtn-mtcpcl-01: a byte string of definite length.
fn mtcp(reader: &mut Reader<'_>) -> Result<u64, Stop> {
    argument(reader, BYTES, WireFault::NoByteString)
}

/// The argument of a CBOR item of a major type and definite length, in whatever width it is written (RFC 8949 3).
fn argument(reader: &mut Reader<'_>, major: u8, fault: fn(u8) -> WireFault) -> Result<u64, Stop> {
    let first = reader.u8()?;
    if first >> 5 != major {
        return Err(Stop::Fault(fault(first)));
    }
    match first & 0x1f {
        short @ 0..=23 => Ok(short.into()),
        24 => reader.u8().map(u64::from),
        25 => reader.u16().map(u64::from),
        26 => reader.array().map(|it| u32::from_be_bytes(it).into()),
        27 => reader.u64(),
        _ => Err(Stop::Fault(fault(first))),
    }
}
