//! The first octets of a connection, which say what version of the protocol the other side speaks.

use bytes::Bytes;

/// A version of TCPCL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// RFC 7242.
    V3,
    /// RFC 9174.
    #[default]
    V4,
}

/// The first octets of a connection of version 3 (RFC 7242 4.1); version 4 judges all others.
const OF_VERSION_3: [u8; 5] = *b"dtn!\x03";

/// The first octets from a peer, until its version is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Greeting {
    /// Octets of `OF_VERSION_3` that have come.
    matching: usize,
    version: Option<Version>,
}

impl Greeting {
    /// The version that the peer speaks; `None` while it has not said so.
    pub(super) const fn version(self) -> Option<Version> {
        self.version
    }

    /// The next octets of the connection: which version they are of with those before them, which come before them in the
    /// answer's octets; `None` while neither is known.
    pub(super) fn add(&mut self, chunk: &[u8]) -> Option<(Version, Bytes)> {
        let before = self.matching;
        for octet in chunk {
            if self.version.is_some() {
                break;
            }
            if OF_VERSION_3.get(self.matching) != Some(octet) {
                self.version = Some(Version::V4);
            } else {
                self.matching += 1;
                self.version = (self.matching == OF_VERSION_3.len()).then_some(Version::V3);
            }
        }
        let held = OF_VERSION_3.get(..before).unwrap_or_default();
        Some((self.version?, Bytes::copy_from_slice(held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_known_as_soon_as_it_can_be() {
        for (said, version, known_after) in [
            (&b"dtn!\x03\x07"[..], Version::V3, 5),
            (b"dtn!\x04\x00", Version::V4, 5),
            (b"dtx!\x03", Version::V4, 3),
        ] {
            for cut in 0..said.len() {
                let mut greeting = Greeting::default();
                let first = greeting.add(&said[..cut]);
                assert_eq!(first.is_some(), cut >= known_after);
                if first.is_none() {
                    let (found, held) = greeting.add(&said[cut..]).unwrap();
                    assert_eq!((found, &held[..]), (version, &said[..cut]));
                }
                assert_eq!(greeting.version(), Some(version));
            }
        }
    }
}
