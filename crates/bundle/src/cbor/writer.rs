//! The writer: shortest heads, appended to a `Vec<u8>`.

use alloc::vec::Vec;

/// The "break" stop code (RFC 8949 3.2.1).
pub const BREAK: u8 = 0xff;

/// Appends an unsigned integer.
pub fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    write_head(out, 0x00, value);
}

/// Appends `true` or `false`, as `value` says.
pub fn write_boolean(out: &mut Vec<u8>, value: bool) {
    out.push(if value { 0xf5 } else { 0xf4 });
}

/// Appends the head of a byte string of `length` octets; the octets themselves are the caller's.
pub fn write_byte_string_head(out: &mut Vec<u8>, length: u64) {
    write_head(out, 0x40, length);
}

/// Appends a byte string.
pub fn write_byte_string(out: &mut Vec<u8>, octets: &[u8]) {
    write_head(out, 0x40, u64::try_from(octets.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(octets);
}

/// Appends a text string.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    write_head(out, 0x60, u64::try_from(text.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(text.as_bytes());
}

/// Appends the head of an array of `items` items.
pub fn write_array(out: &mut Vec<u8>, items: u64) {
    write_head(out, 0x80, items);
}

/// Appends the head of an array that a [`BREAK`] will end.
pub fn write_indefinite_array(out: &mut Vec<u8>) {
    out.push(0x9f);
}

/// RFC 8949 4.2.1: the shortest argument that holds the value.
#[inline]
fn write_head(out: &mut Vec<u8>, major: u8, value: u64) {
    match u8::try_from(value) {
        // Most heads are one octet.
        Ok(octet @ 0..=23) => out.push(major | octet),
        _ => write_long_head(out, major, value),
    }
}

fn write_long_head(out: &mut Vec<u8>, major: u8, value: u64) {
    if let Ok(octet) = u8::try_from(value) {
        out.extend_from_slice(&[major | 24, octet]);
    } else if let Ok(short) = u16::try_from(value) {
        out.push(major | 25);
        out.extend_from_slice(&short.to_be_bytes());
    } else if let Ok(long) = u32::try_from(value) {
        out.push(major | 26);
        out.extend_from_slice(&long.to_be_bytes());
    } else {
        out.push(major | 27);
        out.extend_from_slice(&value.to_be_bytes());
    }
}
