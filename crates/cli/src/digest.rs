//! SHA-256 in hexadecimal digits, by the library that is here for TLS: it uses what the processor has, and is several times
//! as fast as a portable one where that is nothing.

use std::fmt::{self, Write as _};
use std::io;

use aws_lc_rs::digest::{Context, SHA256};

/// A SHA-256 of octets that come in pieces.
#[derive(Clone)]
pub struct Sha256(Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sha256").finish_non_exhaustive()
    }
}

impl Sha256 {
    /// Adds the octets that come next.
    pub fn update(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }

    /// The digest of all of them, in hexadecimal digits.
    pub fn hexadecimal(self) -> String {
        hexadecimal(self.0.finish().as_ref())
    }

    /// The digest of all octets.
    pub fn octets(self) -> [u8; 32] {
        let mut octets = [0; 32];
        let digest = self.0.finish();
        for (octet, of_digest) in octets.iter_mut().zip(digest.as_ref()) {
            *octet = *of_digest;
        }
        octets
    }

    /// The digest of these octets.
    pub fn of_octets(octets: &[u8]) -> [u8; 32] {
        let mut digest = Self::default();
        digest.update(octets);
        digest.octets()
    }

    /// The digest of these octets, in hexadecimal digits.
    pub fn of(octets: &[u8]) -> String {
        let mut digest = Self::default();
        digest.update(octets);
        digest.hexadecimal()
    }
}

impl io::Write for Sha256 {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.update(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Octets as lower-case hexadecimal digits.
pub fn hexadecimal(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len() * 2);
    for octet in octets {
        // Writing to a String cannot fail.
        let _ = write!(text, "{octet:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4, the examples of one block and of two.
    #[test]
    fn the_examples_of_the_standard_come_out() {
        let one = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Sha256::of(b"abc"), one);
        let mut pieces = Sha256::default();
        pieces.update(b"abcdbcdecdefdefgefghfghighij");
        pieces.update(b"hijkijkljklmklmnlmnomnopnopq");
        let two = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        assert_eq!(pieces.hexadecimal(), two);
    }
}
