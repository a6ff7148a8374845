//! Blocks of a capture file (draft-ietf-opsawg-pcapng), little-endian.

use std::net::Ipv6Addr;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const NAMES: u32 = 4;
const PACKET: u32 = 6;

/// Says in which order octets of numbers stand.
const ORDER: u32 = 0x1a2b_3c4d;

/// Packets begin with their IP header.
const RAW_IP: u16 = 101;

/// Options; what a number means depends on the block, but for the comment.
const COMMENT: u16 = 1;
const SECTION_PROGRAM: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION: u16 = 3;
const INTERFACE_SPEED: u16 = 8;
const INTERFACE_RESOLUTION: u16 = 9;

/// Times are in 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// A name of an IPv6 address.
const NAME_IPV6: u16 = 2;

/// The file begins.
pub fn section(out: &mut Vec<u8>, comment: &str) {
    let mut body = Vec::new();
    body.extend_from_slice(&ORDER.to_le_bytes());
    body.extend_from_slice(&1_u16.to_le_bytes());
    body.extend_from_slice(&0_u16.to_le_bytes());
    // The section's length is not known.
    body.extend_from_slice(&u64::MAX.to_le_bytes());
    field(&mut body, COMMENT, comment.as_bytes());
    let program = concat!("dhow ", env!("CARGO_PKG_VERSION"));
    field(&mut body, SECTION_PROGRAM, program.as_bytes());
    field(&mut body, 0, &[]);
    block(out, SECTION, &body);
}

/// A link; packets name it by its position. The speed is in bits a second.
pub fn interface(out: &mut Vec<u8>, name: &str, description: &str, speed: u64) {
    let mut body = Vec::new();
    body.extend_from_slice(&RAW_IP.to_le_bytes());
    body.extend_from_slice(&[0; 2]);
    // Packets are whole, however long.
    body.extend_from_slice(&0_u32.to_le_bytes());
    field(&mut body, INTERFACE_NAME, name.as_bytes());
    field(&mut body, INTERFACE_DESCRIPTION, description.as_bytes());
    field(&mut body, INTERFACE_SPEED, &speed.to_le_bytes());
    field(&mut body, INTERFACE_RESOLUTION, &[NANOSECONDS]);
    field(&mut body, 0, &[]);
    block(out, INTERFACE, &body);
}

/// Names of addresses.
pub fn names<'a>(out: &mut Vec<u8>, names: impl Iterator<Item = (&'a Ipv6Addr, &'a str)>) {
    let mut body = Vec::new();
    for (address, name) in names {
        let mut record = address.octets().to_vec();
        record.extend_from_slice(name.as_bytes());
        record.push(0);
        field(&mut body, NAME_IPV6, &record);
    }
    field(&mut body, 0, &[]);
    block(out, NAMES, &body);
}

/// A packet of an interface, at so many nanoseconds since 1970, with remarks about it.
pub fn packet(out: &mut Vec<u8>, interface: u32, nanos: u64, packet: &[u8], remarks: &[String]) {
    let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
    let [low, high] = [nanos & 0xffff_ffff, nanos >> 32];
    let mut body = Vec::with_capacity(24 + packet.len());
    body.extend_from_slice(&interface.to_le_bytes());
    for part in [high, low] {
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        body.extend_from_slice(&part.to_le_bytes());
    }
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(packet);
    pad(&mut body);
    for remark in remarks {
        field(&mut body, COMMENT, remark.as_bytes());
    }
    if !remarks.is_empty() {
        field(&mut body, 0, &[]);
    }
    block(out, PACKET, &body);
}

/// An option or a record: its kind, its length, and its value.
fn field(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let most = value.len().min(usize::from(u16::MAX));
    let length = u16::try_from(most).unwrap_or(u16::MAX);
    body.extend_from_slice(&kind.to_le_bytes());
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(value.get(..most).unwrap_or_default());
    pad(body);
}

/// Fills the body up to a multiple of four octets.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

fn block(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = u32::try_from(body.len() + 12).unwrap_or(u32::MAX);
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(body);
    out.extend_from_slice(&length.to_le_bytes());
}
