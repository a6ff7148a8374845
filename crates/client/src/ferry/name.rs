//! Names of files on a medium: lower-case hexadecimal digits, a dash and a suffix, as every file system takes them (docs/ferry.md).

use std::fmt::{self, Write as _};

use aws_lc_rs::digest::{Context, SHA256};
use dhow_bundle::{BundleId, NodeId};

/// Octets of a key or a digest in a name.
pub const KEY_OCTETS: usize = 16;

/// Octets of the name of a writer's directory, before they are digits.
pub const WRITER_OCTETS: usize = 8;

/// A bundle's identity in a file's name: the first octets of the SHA-256 of the identity's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; KEY_OCTETS]);

/// The name of a writer's directory: the first octets of the SHA-256 of the writer's node ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriterKey([u8; WRITER_OCTETS]);

/// The SHA-256 of a file's octets, as far as its name has it.
#[derive(Clone)]
pub struct Digest(Context);

/// The kind of a file, by the suffix of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A whole bundle, with its digest.
    Bundle([u8; KEY_OCTETS]),
    /// An acknowledgment of a bundle.
    Acknowledgment,
    /// A file that is being written.
    Part,
}

/// The name of a file in a writer's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileName {
    /// The bundle that the file is about.
    pub key: Key,
    /// Its kind.
    pub kind: FileKind,
}

impl Key {
    /// The key of a bundle.
    #[must_use]
    pub fn of(id: &BundleId) -> Self {
        Self(first_octets(id.to_string().as_bytes()))
    }
}

impl WriterKey {
    /// The key of a node.
    #[must_use]
    pub fn of(node: &NodeId) -> Self {
        Self(first_octets(node.to_string().as_bytes()))
    }

    /// Reads the name of a directory; `None` for one that no ferry made.
    #[must_use]
    pub fn read(name: &[u8]) -> Option<Self> {
        digits(name).map(Self)
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digest").finish_non_exhaustive()
    }
}

impl Digest {
    /// Adds the octets that come next.
    pub fn update(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }

    /// The part of the digest that a name has.
    #[must_use]
    pub fn finish(self) -> [u8; KEY_OCTETS] {
        prefix(self.0.finish().as_ref())
    }
}

impl FileName {
    /// Reads a name; `None` for one that no ferry gives, whatever its case.
    #[must_use]
    pub fn read(name: &[u8]) -> Option<Self> {
        let dot = name.iter().position(|octet| *octet == b'.')?;
        let (stem, suffix) = name.split_at_checked(dot)?;
        let (key, rest) = stem.split_at_checked(2 * KEY_OCTETS)?;
        let key = Key(digits(key)?);
        let kind = match (suffix, rest) {
            (b".ack", []) => FileKind::Acknowledgment,
            (b".bundle", [b'-', digest @ ..]) => FileKind::Bundle(digits(digest)?),
            (b".part", [b'-', writer @ ..]) if digits::<WRITER_OCTETS>(writer).is_some() => {
                FileKind::Part
            }
            _ => return None,
        };
        Some(Self { key, kind })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_digits(f, &self.0)
    }
}

impl fmt::Display for WriterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_digits(f, &self.0)
    }
}

/// The name of a file that has a whole bundle.
#[must_use]
pub fn bundle_name(key: Key, digest: [u8; KEY_OCTETS]) -> String {
    let mut name = format!("{key}-");
    // Writing to a String cannot fail.
    let _ = digest
        .iter()
        .try_for_each(|octet| write!(name, "{octet:02x}"));
    name + ".bundle"
}

/// The name of an acknowledgment.
#[must_use]
pub fn acknowledgment_name(key: Key) -> String {
    format!("{key}.ack")
}

/// The name of a file that a node is writing.
#[must_use]
pub fn part_name(key: Key, writer: WriterKey) -> String {
    format!("{key}-{writer}.part")
}

fn write_digits(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
}

fn prefix<const N: usize>(octets: &[u8]) -> [u8; N] {
    let mut first = [0; N];
    for (to, from) in first.iter_mut().zip(octets) {
        *to = *from;
    }
    first
}

fn first_octets<const N: usize>(octets: &[u8]) -> [u8; N] {
    prefix(aws_lc_rs::digest::digest(&SHA256, octets).as_ref())
}

/// Reads lower-case hexadecimal digits, two for each octet and no others.
fn digits<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != 2 * N {
        return None;
    }
    let mut octets = [0; N];
    for (octet, pair) in octets.iter_mut().zip(text.chunks(2)) {
        for digit in pair {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            *octet = *octet << 4 | value;
        }
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> Key {
        let octets = dhow_bundle::CreationTimestamp {
            time: dhow_bundle::DtnTime::from_millis(1000),
            sequence: 7,
        };
        Key::of(&BundleId {
            source: "ipn:1.1".parse().unwrap(),
            creation: octets,
            fragment: None,
        })
    }

    /// The example of docs/ferry.md.
    #[test]
    fn names_are_those_of_the_document() {
        assert_eq!(
            WriterKey::of(&"ipn:1.0".parse().unwrap()).to_string(),
            &sha256("ipn:1.0")[..16]
        );
        assert_eq!(key().to_string(), &sha256("ipn:1.1/1000/7")[..32]);
        let name = bundle_name(key(), [0xab; 16]);
        assert_eq!(name.len(), 72);
        let kind = FileKind::Bundle([0xab; 16]);
        assert_eq!(
            FileName::read(name.as_bytes()),
            Some(FileName { key: key(), kind })
        );
    }

    fn sha256(text: &str) -> String {
        let digest = aws_lc_rs::digest::digest(&SHA256, text.as_bytes());
        digest
            .as_ref()
            .iter()
            .map(|it| format!("{it:02x}"))
            .collect()
    }

    #[test]
    fn names_that_no_ferry_gives_are_not_read() {
        let whole = bundle_name(key(), [1; 16]);
        let upper = whole.to_uppercase();
        for name in [
            &upper,
            "",
            ".bundle",
            "..",
            "a.ack",
            "README.TXT",
            &whole[1..],
            &format!("{whole}.part"),
            &format!(".{whole}"),
            &whole.replace('-', "_"),
            &whole.replace(".bundle", ".BUNDLE"),
        ] {
            assert_eq!(FileName::read(name.as_bytes()), None, "{name}");
        }
        let own = WriterKey::of(&"ipn:1.0".parse().unwrap());
        let part = FileName::read(part_name(key(), own).as_bytes());
        assert_eq!(part.map(|it| it.kind), Some(FileKind::Part));
    }

    proptest! {
        #[test]
        fn any_name_is_read_without_a_panic(name in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(read) = FileName::read(&name) {
                prop_assert!(name.starts_with(read.key.to_string().as_bytes()));
            }
        }
    }
}
