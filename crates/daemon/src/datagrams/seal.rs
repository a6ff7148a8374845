//! Keys of LTP's authentication (RFC 5327 2.1), and the values that datagrams leave with.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::hmac::{Context, HMAC_SHA1_FOR_LEGACY_USE_ONLY, Key, sign};
use bytes::{Bytes, BytesMut};
use dhow_bundle::storage::Piece;
use dhow_link::Batch;
use dhow_link::ltp::{Authentication, Ciphersuite, Seal, VALUE_OCTETS};

/// Octets of a key, at least: as many as a value of the ciphersuite has, below which guessing the key is easier.
pub const KEY_OCTETS_MIN: usize = 10;

/// Octets of a key, at most: longer ones are hashed, and no better.
pub const KEY_OCTETS_MAX: usize = 64;

/// A key that both engines have, for HMAC-SHA1-80. Key IDs that segments name are not looked at: there is one key, and a value is
/// right or not.
pub struct SharedKey {
    key: Key,
}

/// The reason for which a file is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
    /// It is not hexadecimal.
    #[error("it has something else than hexadecimal digits")]
    NotHexadecimal,
    /// It is too short or too long.
    #[error("it has {0} octets, and a key has from {KEY_OCTETS_MIN} to {KEY_OCTETS_MAX}")]
    Length(usize),
}

impl SharedKey {
    /// The key in a file: hexadecimal digits, between which white space means nothing.
    ///
    /// # Errors
    /// The file cannot be read, or is no key.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        Self::parse(&fs::read_to_string(path)?)
    }

    fn parse(text: &str) -> Result<Self, KeyError> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .filter(|it| !it.is_whitespace())
            .map(|it| it.to_digit(16).and_then(|it| u8::try_from(it).ok()))
            .collect();
        let digits = digits.ok_or(KeyError::NotHexadecimal)?;
        let pairs = digits.chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return Err(KeyError::NotHexadecimal);
        }
        let octets: Vec<u8> = pairs
            .map(|pair| pair.iter().fold(0, |octet, digit| octet << 4 | digit))
            .collect();
        match octets.len() {
            KEY_OCTETS_MIN..=KEY_OCTETS_MAX => Ok(Self::new(&octets)),
            length => Err(KeyError::Length(length)),
        }
    }

    /// A key of these octets.
    #[must_use]
    pub fn new(octets: &[u8]) -> Self {
        Self {
            key: Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, octets),
        }
    }

    /// The authentication by this key of all segments, both ways.
    #[must_use]
    pub fn authentication(self: &Arc<Self>) -> Authentication {
        let seal: Arc<dyn Seal> = Arc::<Self>::clone(self);
        Authentication {
            suite: Ciphersuite::HmacSha1,
            key_id: Vec::new(),
            seal: Some(seal),
        }
    }

    /// Append its value to each datagram of a batch, of which `octets` are the octets.
    pub fn seal(&self, batch: &mut Batch, octets: &mut Vec<Bytes>) {
        let mut sealed = Batch::new();
        let mut out = Vec::with_capacity(octets.len() + batch.len());
        // The values of all datagrams share their room.
        let mut values = BytesMut::with_capacity(batch.len() * VALUE_OCTETS);
        let mut octets_in = octets.drain(..);
        for datagram in batch.datagrams() {
            let mut context = Context::with_key(&self.key);
            for piece in octets_in.by_ref().take(datagram.len()) {
                context.update(&piece);
                sealed.push(Piece::Octets(piece.clone()));
                out.push(piece);
            }
            let tag = context.sign();
            let value = tag.as_ref().get(..VALUE_OCTETS).unwrap_or_default();
            values.extend_from_slice(value);
            let value = values.split().freeze();
            sealed.push(Piece::Octets(value.clone()));
            out.push(value);
            sealed.end_datagram();
        }
        drop(octets_in);
        *batch = sealed;
        *octets = out;
    }
}

impl Seal for SharedKey {
    fn value(&self, suite: Ciphersuite, _: &[u8], octets: &[u8]) -> Option<[u8; VALUE_OCTETS]> {
        match suite {
            Ciphersuite::HmacSha1 => {
                let tag = sign(&self.key, octets);
                tag.as_ref().get(..VALUE_OCTETS)?.try_into().ok()
            }
            // Everybody has its key.
            Ciphersuite::Null => None,
        }
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hexadecimal_digits() {
        assert!(SharedKey::parse("00112233 44556677\n8899AAbb\n").is_ok());
        let error = |text| SharedKey::parse(text).unwrap_err().to_string();
        assert!(error("secret").contains("hexadecimal"));
        assert!(error("012").contains("hexadecimal"));
        assert!(error("0011").contains("it has 2 octets"));
        assert!(error(&"00".repeat(65)).contains("it has 65 octets"));
    }

    #[test]
    fn each_datagram_has_the_value_of_all_its_octets() {
        let key = SharedKey::new(b"secret");
        let (mut batch, mut octets) = (Batch::new(), Vec::new());
        let datagrams: [&[&[u8]]; 2] = [&[b"head", b"body"], &[b"other"]];
        for datagram in datagrams {
            for piece in datagram {
                let piece = Bytes::from_static(piece);
                batch.push(Piece::Octets(piece.clone()));
                octets.push(piece);
            }
            batch.end_datagram();
        }
        key.seal(&mut batch, &mut octets);
        let value = |octets| key.value(Ciphersuite::HmacSha1, &[], octets).unwrap();
        let expected = [
            b"headbody".as_slice(),
            &value(b"headbody"),
            b"other",
            &value(b"other"),
        ];
        assert_eq!(octets.concat(), expected.concat());
        assert_eq!((batch.len(), batch.octets()), (2, 18 + 15));
    }
}
