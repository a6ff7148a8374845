//! SHA-256 in hexadecimal digits.

use std::fmt::Write as _;

/// Octets as lower-case hexadecimal digits.
pub fn hexadecimal(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len() * 2);
    for octet in octets {
        // Writing to a String cannot fail.
        let _ = write!(text, "{octet:02x}");
    }
    text
}
