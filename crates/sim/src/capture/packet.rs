//! Octets of a conversation as an IPv6 packet (RFC 8200) with a TCP segment (RFC 9293), or a datagram of UDP (RFC 768).

use std::net::Ipv6Addr;

/// Flags of a segment (RFC 9293 3.1).
pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RESET: u8 = 0x04;
pub const PUSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

/// The protocol numbers of TCP and UDP.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Octets of UDP's header.
const UDP_HEADER_OCTETS: u32 = 8;

/// Octets of TCP's header without options.
const TCP_HEADER_OCTETS: usize = 20;

/// Options of the first segments: the largest segments, and windows that are scaled by 2¹⁴ (RFC 7323 2.2), so that none is
/// ever full.
const SYN_OPTIONS: [u8; 8] = [2, 4, 0xff, 0xff, 1, 3, 3, 14];

/// A packet.
#[derive(Debug)]
pub struct Packet<'a> {
    pub from: Ipv6Addr,
    pub to: Ipv6Addr,
    /// The ports of the sender and the receiver.
    pub ports: (u16, u16),
    /// The sequence number of the first of the octets.
    pub sequence: u32,
    /// The number of the octet that the sender expects next.
    pub acknowledged: u32,
    pub flags: u8,
    /// The payload, at most 65,507 octets.
    pub octets: &'a [u8],
}

impl Packet<'_> {
    /// The whole packet.
    pub fn encode(&self) -> Vec<u8> {
        internet((self.from, self.to), TCP, &self.segment())
    }

    /// The TCP segment, its checksum included.
    fn segment(&self) -> Vec<u8> {
        let mut header = self.header(0);
        let length = u32::try_from(header.len() + self.octets.len()).unwrap_or(u32::MAX);
        let beside = sum_beside((self.from, self.to), length, TCP);
        let sum = beside + sum(&header) + sum(self.octets);
        header = self.header(!folded(sum));
        header.extend_from_slice(self.octets);
        header
    }

    fn header(&self, checksum: u16) -> Vec<u8> {
        let options: &[u8] = if self.flags & SYN == 0 {
            &[]
        } else {
            &SYN_OPTIONS
        };
        let words = u8::try_from((TCP_HEADER_OCTETS + options.len()) / 4).unwrap_or(u8::MAX);
        let mut header = Vec::with_capacity(TCP_HEADER_OCTETS + options.len() + self.octets.len());
        header.extend_from_slice(&self.ports.0.to_be_bytes());
        header.extend_from_slice(&self.ports.1.to_be_bytes());
        header.extend_from_slice(&self.sequence.to_be_bytes());
        header.extend_from_slice(&self.acknowledged.to_be_bytes());
        header.extend_from_slice(&[words << 4, self.flags, 0xff, 0xff]);
        header.extend_from_slice(&checksum.to_be_bytes());
        header.extend_from_slice(&[0, 0]);
        header.extend_from_slice(options);
        header
    }
}

/// A datagram of UDP as a packet, from a port to the same.
pub fn datagram(ends: (Ipv6Addr, Ipv6Addr), port: u16, octets: &[u8]) -> Vec<u8> {
    let length = UDP_HEADER_OCTETS + u32::try_from(octets.len()).unwrap_or(u32::MAX);
    let header = |checksum: u16| {
        let length = u16::try_from(length).unwrap_or(u16::MAX);
        [port, port, length, checksum].map(u16::to_be_bytes)
    };
    let sum = sum_beside(ends, length, UDP) + sum(header(0).as_flattened()) + sum(octets);
    // RFC 768: a checksum of zeros would be none.
    let checksum = match !folded(sum) {
        0 => u16::MAX,
        checksum => checksum,
    };
    let mut datagram = header(checksum).as_flattened().to_vec();
    datagram.extend_from_slice(octets);
    internet(ends, UDP, &datagram)
}

/// A packet of IPv6 with what a protocol puts into it.
fn internet((from, to): (Ipv6Addr, Ipv6Addr), protocol: u8, octets: &[u8]) -> Vec<u8> {
    let length = u16::try_from(octets.len()).unwrap_or(u16::MAX);
    let mut out = Vec::with_capacity(40 + octets.len());
    out.extend_from_slice(&[0x60, 0, 0, 0]);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[protocol, 64]);
    out.extend_from_slice(&from.octets());
    out.extend_from_slice(&to.octets());
    out.extend_from_slice(octets);
    out
}

/// RFC 8200 8.1: the sum of what a checksum covers beside header and octets.
fn sum_beside((from, to): (Ipv6Addr, Ipv6Addr), length: u32, protocol: u8) -> u64 {
    let ends = sum(&from.octets()) + sum(&to.octets());
    ends + sum(&length.to_be_bytes()) + u64::from(protocol)
}

/// Octets as numbers of 16 bits, added; the last may be half of one.
fn sum(octets: &[u8]) -> u64 {
    let (pairs, rest) = octets.as_chunks::<2>();
    let pairs = pairs
        .iter()
        .map(|pair| u64::from(u16::from_be_bytes(*pair)));
    let last = rest.first().map_or(0, |octet| u64::from(*octet) << 8);
    pairs.sum::<u64>() + last
}

/// A sum in ones' complement (RFC 1071).
fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_with_its_checksum_sums_up_to_all_ones() {
        for octets in [&b""[..], b"odd", b"even", &[0xff; 60_000]] {
            for flags in [SYN, PUSH | ACK] {
                let packet = Packet {
                    from: Ipv6Addr::LOCALHOST,
                    to: "fd64:746e::7".parse().expect("an address"),
                    ports: (10_001, 4556),
                    sequence: 0xffff_fff0,
                    acknowledged: 17,
                    flags,
                    octets,
                };
                let encoded = packet.encode();
                let (header, segment) = encoded.split_at(40);
                let length = u64::try_from(segment.len()).expect("it is short");
                let pseudo = sum(&header[8..]) + length + u64::from(TCP);
                assert_eq!(folded(pseudo + sum(segment)), 0xffff);
                assert_eq!(u64::from(header[4]) << 8 | u64::from(header[5]), length);
                assert!(segment.ends_with(octets));
            }
        }
    }

    #[test]
    fn a_datagram_with_its_checksum_sums_up_to_all_ones() {
        for octets in [&b"odd"[..], b"even", &[0xff; 60_000]] {
            let ends = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
            let encoded = datagram(ends, 4556, octets);
            let (header, datagram) = encoded.split_at(40);
            let length = u64::try_from(datagram.len()).expect("it is short");
            let pseudo = sum(&header[8..]) + length + u64::from(UDP);
            assert_eq!(folded(pseudo + sum(datagram)), 0xffff);
            assert!(datagram.ends_with(octets));
        }
    }
}
