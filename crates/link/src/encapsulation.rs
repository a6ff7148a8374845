//! Encapsulation packets (CCSDS 133.1-B-3 4.1.2): one protocol's units in a stream, each with a header that has its length.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use thiserror::Error;

use crate::tcpcl::head::{Heads, Reader, Stop};

/// The version of the packets.
const PACKET: u8 = 7;

/// The protocol of packets without a meaning (SANA's registry).
const IDLE: u8 = 0;

/// The protocol of packets with LTP.
pub const LTP: u8 = 1;

/// The protocol of packets with bundles.
pub const BUNDLES: u8 = 4;

/// Octets of the longest header.
const HEADER_MAX: u64 = 8;

/// A breach of the packets' rules: nothing after it in the stream can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PacketFault {
    /// No packet of this version begins so (4.1.2.2).
    #[error("{0:#04x} begins no encapsulation packet (CCSDS 133.1-B-3 4.1.2)")]
    NoPacket(u8),
    /// The packet has another protocol.
    #[error("an encapsulation packet of protocol {found}, which is not {wanted}")]
    Protocol {
        /// Its protocol.
        found: u8,
        /// The one that is spoken here.
        wanted: u8,
    },
    /// The length does not even hold the header.
    #[error("an encapsulation packet of {octets} octets with a header of {header}")]
    Short {
        /// The length that it says.
        octets: u64,
        /// Octets of its header.
        header: u64,
    },
    /// A longer unit than is taken.
    #[error(
        "an encapsulation packet with {octets} octets, and {longest} is the most that is taken"
    )]
    Long {
        /// Octets of the unit.
        octets: u64,
        /// Octets that are taken.
        longest: u64,
    },
}

/// Writes the header of a packet with so many octets of a protocol, at most 2³² − 9, as short as it can be; without octets that of an idle packet.
pub fn write_header(out: &mut BytesMut, protocol: u8, octets: u64) {
    let first = |length_of_length: u8| PACKET << 5 | (protocol & 7) << 2 | length_of_length;
    if octets == 0 {
        out.put_u8(PACKET << 5 | IDLE << 2);
    } else if let Ok(total) = u8::try_from(octets + 2) {
        out.put_slice(&[first(1), total]);
    } else if let Ok(total) = u16::try_from(octets + 4) {
        out.put_slice(&[first(2), 0]);
        out.put_u16(total);
    } else {
        out.put_slice(&[first(3), 0, 0, 0]);
        let total = octets.saturating_add(HEADER_MAX);
        out.put_u32(u32::try_from(total).unwrap_or(u32::MAX));
    }
}

/// A header, as it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Header {
    /// So many octets of the protocol follow.
    Unit(u64),
    /// So many octets without a meaning follow.
    Idle(u64),
}

/// Reads the header of a packet with a protocol, or of an idle one.
pub(crate) fn header(reader: &mut Reader<'_>, wanted: u8) -> Result<Header, Stop<PacketFault>> {
    let fault = |fault| Err(Stop::Fault(fault));
    let first = reader.u8()?;
    let (found, length_of_length) = (first >> 2 & 7, first & 3);
    if first >> 5 != PACKET || length_of_length == 0 && found != IDLE {
        return fault(PacketFault::NoPacket(first));
    }
    if found != IDLE && found != wanted {
        return fault(PacketFault::Protocol { found, wanted });
    }
    // The fields for users, and those that have to be zero, have no meaning here.
    let (header, octets) = match length_of_length {
        0 => (1, 1),
        1 => (2, reader.u8()?.into()),
        2 => {
            reader.u8()?;
            (4, reader.u16()?.into())
        }
        _ => {
            let [_, _, _] = reader.array()?;
            (HEADER_MAX, u32::from_be_bytes(reader.array()?).into())
        }
    };
    match u64::checked_sub(octets, header) {
        None => fault(PacketFault::Short { octets, header }),
        Some(content) if found == IDLE => Ok(Header::Idle(content)),
        Some(content) => Ok(Header::Unit(content)),
    }
}

/// Units of a protocol out of a stream in any chunks, as far as each fits into memory.
#[derive(Debug)]
pub struct Units {
    protocol: u8,
    longest: u64,
    heads: Heads,
    /// The unit that is coming, and octets of it that are still to come.
    unit: BytesMut,
    missing: u64,
    /// Octets without a meaning that are still to come.
    idle: u64,
}

impl Units {
    /// The beginning of a stream, of which no unit may be longer than so many octets.
    #[must_use]
    pub fn new(protocol: u8, longest: u64) -> Self {
        Self {
            protocol,
            longest,
            heads: Heads::default(),
            unit: BytesMut::new(),
            missing: 0,
            idle: 0,
        }
    }

    /// The next unit, which has an octet at least; nothing when `chunk` is used up.
    ///
    /// # Errors
    /// When a packet is broken, or is longer than is taken: the rest of the stream is lost.
    pub fn next(&mut self, chunk: &mut Bytes) -> Result<Option<Bytes>, PacketFault> {
        loop {
            let idle = at_most(self.idle, chunk);
            chunk.advance(idle);
            self.idle = left(self.idle, idle);
            let taken = chunk.split_to(at_most(self.missing, chunk));
            self.missing = left(self.missing, taken.len());
            self.unit.extend_from_slice(&taken);
            if self.missing == 0 && !self.unit.is_empty() {
                return Ok(Some(self.unit.split().freeze()));
            }
            if chunk.is_empty() {
                return Ok(None);
            }
            let read = match self.protocol {
                LTP => self.heads.next(chunk, |reader| header(reader, LTP))?,
                _ => self.heads.next(chunk, |reader| header(reader, BUNDLES))?,
            };
            match read {
                None => return Ok(None),
                Some(Header::Idle(octets)) => self.idle = octets,
                Some(Header::Unit(octets)) if octets > self.longest => {
                    let longest = self.longest;
                    return Err(PacketFault::Long { octets, longest });
                }
                Some(Header::Unit(octets)) => self.missing = octets,
            }
        }
    }
}

/// Octets of a chunk, but no more than are wanted.
fn at_most(wanted: u64, chunk: &Bytes) -> usize {
    chunk
        .len()
        .min(usize::try_from(wanted).unwrap_or(usize::MAX))
}

fn left(of: u64, taken: usize) -> u64 {
    of.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    fn packet(octets: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        write_header(&mut out, LTP, u64::try_from(octets.len()).unwrap());
        out.extend_from_slice(octets);
        out.to_vec()
    }

    fn units(stream: &[u8], chunk: usize) -> Result<Vec<Vec<u8>>, PacketFault> {
        let mut units = Units::new(LTP, 70_000);
        let mut found = Vec::new();
        for chunk in stream.chunks(chunk) {
            let mut chunk = Bytes::copy_from_slice(chunk);
            while let Some(unit) = units.next(&mut chunk)? {
                found.push(unit.to_vec());
            }
        }
        Ok(found)
    }

    #[test]
    fn units_are_found_in_any_chunks() {
        let sent: Vec<Vec<u8>> = [1, 253, 254, 1_400, 65_531, 65_532, 70_000]
            .map(|octets| (0..=248).cycle().take(octets).collect())
            .to_vec();
        let mut stream = Vec::new();
        for unit in &sent {
            stream.extend(packet(unit));
            // Idle packets of one octet, and with a header and content.
            stream.extend([0xe0, 0xe1, 5, 7, 7, 7]);
        }
        for chunk in [1, 2, 7, 1_000, stream.len()] {
            assert_eq!(units(&stream, chunk).unwrap(), sent, "{chunk}");
        }
        // Headers of 2, 4 and 8 octets: version 7, protocol 1.
        assert_eq!(packet(&[9; 253])[..2], [0xe5, 255]);
        assert_eq!(packet(&[9; 254])[..4], [0xe6, 0, 1, 2]);
        assert_eq!(packet(&vec![9; 65_532])[..8], [0xe7, 0, 0, 0, 0, 1, 0, 4]);
    }

    #[test]
    fn other_octets_are_told() {
        assert_eq!(units(&[0x65], 1), Err(PacketFault::NoPacket(0x65)));
        assert_eq!(units(&[0xe4], 1), Err(PacketFault::NoPacket(0xe4)));
        let (found, wanted) = (BUNDLES, LTP);
        let other = Err(PacketFault::Protocol { found, wanted });
        assert_eq!(units(&[0xf1, 3, 0], 1), other);
        let (octets, header) = (1, 2);
        assert_eq!(
            units(&[0xe5, 1], 2),
            Err(PacketFault::Short { octets, header })
        );
        let (octets, longest) = (70_001, 70_000);
        let long = Err(PacketFault::Long { octets, longest });
        assert_eq!(units(&packet(&vec![0; 70_001]), 9), long);
        assert_eq!(units(&[0xe5, 2, 0xe5, 3, 1], 1).unwrap(), [[1]]);
    }
}
