//! The end of a bundle that breaks a rule and is a series of blocks all the same: what follows it can be read.

use crate::cbor::{CborError, Kind, Reader};
use crate::crc::CrcType;
use crate::header::MAX_HEADER_OCTETS;
use crate::v7::block::{BlockHead, BlockType};
use crate::v7::refusal::Refusal;

/// The knowledge of a bundle's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The bundle has so many octets.
    Octets(u64),
    /// More octets are needed.
    Incomplete,
    /// The octets do not tell where the bundle ends.
    Unknown,
}

impl Framing {
    /// The end of the bundle of version 7 that `octets` begin with, by the forms of its blocks alone (RFC 9171 4.1): a wrong checksum
    /// or field does not hide it. Blocks before the payload have the octets that a node keeps in memory for them, at most.
    ///
    /// ```
    /// use dhow_bundle::v7::framing::Framing;
    /// use dhow_bundle::{BundleBuilder, CreationTimestamp, DtnTime};
    /// let creation = CreationTimestamp { time: DtnTime::from_millis(1000), sequence: 0 };
    /// let builder = BundleBuilder::new("ipn:1.1".parse()?, "ipn:2.1".parse()?, creation, 1_000);
    /// let mut octets = builder.bundle(b"hello")?.to_vec();
    /// let length = u64::try_from(octets.len())?;
    /// octets[2] = 8; // Another version of the Bundle Protocol.
    /// assert_eq!(Framing::of(&octets), Framing::Octets(length));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of(octets: &[u8]) -> Self {
        match measure(octets) {
            Ok(u64::MAX) => Self::Unknown,
            Ok(octets) => Self::Octets(octets),
            Err(Refusal::Cbor(CborError::Incomplete { needed }))
                if usize::try_from(needed).is_ok_and(|needed| needed <= MAX_HEADER_OCTETS) =>
            {
                Self::Incomplete
            }
            Err(_) => Self::Unknown,
        }
    }
}

fn measure(octets: &[u8]) -> Result<u64, Refusal> {
    let mut reader = Reader::new(octets);
    let first = octets.first().copied();
    if first.is_some_and(|octet| octet != 0x9f) {
        return Err(Refusal::NotBundle(first.unwrap_or_default()));
    }
    reader.array()?;
    // The primary block, and then all others up to the payload's content.
    reader.skip()?;
    let length = |octets: usize| u64::try_from(octets).unwrap_or(u64::MAX);
    loop {
        if reader.kind()? == Kind::Break {
            return Ok(length(reader.position()).saturating_add(1));
        }
        let mut block = reader.clone();
        let (head, _) = BlockHead::decode(&mut block)?;
        let content = block.byte_string_head()?;
        if head.block_type == BlockType::PAYLOAD {
            let crc = match head.crc_type {
                CrcType::None => 0,
                crc => length(crc.octets()).saturating_add(1),
            };
            let breaks = 1 + u64::from(head.is_indefinite);
            let after = crc.saturating_add(breaks);
            return Ok(length(block.position())
                .saturating_add(content)
                .saturating_add(after));
        }
        reader.skip()?;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::{BundleBuilder, CreationTimestamp, DtnTime};

    fn bundle() -> Vec<u8> {
        let [source, destination] = ["ipn:1.1", "ipn:2.1"].map(|it| it.parse().unwrap());
        let creation = CreationTimestamp {
            time: DtnTime::from_millis(1_000),
            sequence: 7,
        };
        let builder = BundleBuilder::new(source, destination, creation, 1_000);
        builder.bundle(&[0xff; 300]).unwrap().to_vec()
    }

    #[test]
    fn the_end_is_known_once_the_head_of_the_payload_is_there() {
        let whole = bundle();
        let length = u64::try_from(whole.len()).unwrap();
        let heads = whole.len() - 300;
        for end in 0..whole.len() {
            match Framing::of(&whole[..end]) {
                Framing::Incomplete => assert!(end < heads),
                other => assert_eq!(other, Framing::Octets(length)),
            }
        }
        let more = [&whole[..], &[0x9f, 0]].concat();
        assert_eq!(Framing::of(&more), Framing::Octets(length));
    }

    #[test]
    fn what_is_no_series_of_blocks_has_no_known_end() {
        assert_eq!(Framing::of(&[0; 30]), Framing::Unknown);
        let mut whole = bundle();
        whole[1] = 0xff;
        assert_eq!(Framing::of(&whole), Framing::Unknown);
        assert_eq!(Framing::of(&[0x9f, 0x80, 0xff, 0]), Framing::Octets(3));
    }
}
