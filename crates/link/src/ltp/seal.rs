//! LTP authentication: RFC 5327 2.1. The mathematics is a driver's.
//!
//! A segment's octets may lie in the store when an engine gives it out, so a driver writes the last of them, the
//! authentication value: it computes the value of the datagram, which is one segment, and appends it. Values that come are
//! verified by the same trait, of segments as a whole.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;

use bytes::Bytes;
use dhow_bundle::v6::sdnv;

use super::wire::{AUTHENTICATION, Envelope, Extension, Packet, Received};

/// Octets of an authentication value of HMAC-SHA1-80.
pub const VALUE_OCTETS: usize = 10;

/// Octets of an authentication value, at most: a signature by a key of 8,192 bits.
pub const MAX_VALUE_OCTETS: u64 = 1_024;

/// Keys and values of one segment that are tried, at most: each takes all of its octets, and strangers may name as many as they like.
const TRIED: usize = 2;

/// Octets of a key ID that is sent, at most: every segment has it.
pub const MAX_KEY_ID_OCTETS: usize = 16;

/// A ciphersuite (RFC 5327 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ciphersuite {
    /// 0: HMAC-SHA1-80 with a key that both engines have.
    HmacSha1,
    /// 1: a signature by RSASSA-PKCS1-v1_5 with SHA-256, by the private key of the segment's sender. It is as long as the key's modulus.
    RsaSha256,
    /// 255: HMAC-SHA1-80 with the key that the standard prints: a strong checksum, and no proof of anything.
    Null,
}

impl Ciphersuite {
    const fn code(self) -> u8 {
        match self {
            Self::HmacSha1 => 0,
            Self::RsaSha256 => 1,
            Self::Null => 255,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::HmacSha1),
            1 => Some(Self::RsaSha256),
            255 => Some(Self::Null),
            _ => None,
        }
    }
}

/// The keys of a driver.
pub trait Seal: Debug + Send + Sync {
    /// Whether the authentication value of a segment is right: `octets` are all of it but the value. False when there is no such key.
    fn accepts(&self, suite: Ciphersuite, key_id: &[u8], octets: &[u8], value: &[u8]) -> bool;
}

/// The authentication of an engine's segments, both ways: segments of the peer without a good value are dropped.
#[derive(Clone, Debug)]
pub struct Authentication {
    /// The ciphersuite of segments sent, and of those received that do not name one.
    pub suite: Ciphersuite,
    /// The key ID, raw octets, of which [`MAX_KEY_ID_OCTETS`] count; empty for none.
    pub key_id: Vec<u8>,
    /// Octets of the values of segments sent, of which [`MAX_VALUE_OCTETS`] count.
    pub value_octets: u64,
    /// The keys; `None` where the driver drops datagrams of which [`Authentication::accepts_all`] is false with its own, before the
    /// engine has them.
    pub seal: Option<Arc<dyn Seal>>,
}

impl Authentication {
    /// The extensions of a segment, but for the value. RFC 5327 2.1: the header extension must be in the first segment of a
    /// session, and where that is sent again; here all have it.
    pub(super) fn envelope(&self) -> Envelope {
        let mut header = alloc::vec![AUTHENTICATION];
        let length = self.key_id.len().saturating_add(1);
        sdnv::write(&mut header, u64::try_from(length).unwrap_or(u64::MAX));
        header.push(self.suite.code());
        header.extend_from_slice(&self.key_id);
        let octets = self.value_octets;
        let mut trailer = alloc::vec![AUTHENTICATION];
        sdnv::write(&mut trailer, octets);
        Envelope {
            counts: 0x11,
            header,
            trailer: trailer.into(),
            pending: octets,
        }
    }

    /// Whether a datagram has segments, and each is authentic.
    #[must_use]
    pub fn accepts_all(&self, datagram: &Bytes) -> bool {
        let (mut packet, mut is_any) = (Packet::new(datagram), false);
        while let Some(read) = packet.next() {
            is_any = true;
            if !read.is_ok_and(|received| self.accepts(datagram, &received)) {
                return false;
            }
        }
        is_any
    }

    /// RFC 5327 2.1: a segment must be taken when one of its values is right.
    pub(super) fn accepts(&self, datagram: &Bytes, received: &Received) -> bool {
        let Some(seal) = &self.seal else {
            return true;
        };
        let named = (received.header.iter()).filter(|extension| extension.tag == AUTHENTICATION);
        let named = named.take(TRIED);
        let mut keys: Vec<(Option<Ciphersuite>, &[u8])> = named
            .filter_map(|extension| extension.value.split_first())
            .map(|(code, key_id)| (Ciphersuite::of(*code), key_id))
            .collect();
        if keys.is_empty() {
            keys.push((Some(self.suite), &self.key_id));
        }
        let values = received.trailer.iter();
        let values = values.filter(|it| it.tag == AUTHENTICATION);
        let is_one = values.clone().count() == 1;
        let mut tried = values.clone().take(TRIED);
        tried.any(|extension| {
            let is_right = |octets: &[u8]| {
                keys.iter().any(|(suite, key_id)| {
                    suite.is_some_and(|suite| seal.accepts(suite, key_id, octets, &extension.value))
                })
            };
            // RFC 5327 2.1: a value is of the entire segment but itself. Of several, each may be of the segment with the others or without.
            is_right(&without(datagram, received, core::iter::once(extension)))
                || !is_one && is_right(&without(datagram, received, values.clone()))
        })
    }
}

/// The octets of a segment without those of some values, which are in order.
fn without<'a>(
    datagram: &'a Bytes,
    received: &Received,
    values: impl Iterator<Item = &'a Extension>,
) -> Cow<'a, [u8]> {
    let mut from = received.octets.start;
    let mut parts = Vec::new();
    for value in values {
        parts.push(datagram.get(from..value.at).unwrap_or_default());
        from = value.at.saturating_add(value.value.len());
    }
    let rest = datagram.get(from..received.octets.end);
    match (parts.as_slice(), rest.unwrap_or_default()) {
        // The usual case: there is one value, at the end.
        (&[part], []) => Cow::Borrowed(part),
        (parts, rest) => Cow::Owned([&parts.concat(), rest].concat()),
    }
}
