//! The payload: its checksum as it passes by, in any pieces, and whole bundles in memory.

use alloc::vec::Vec;

use bytes::Bytes;

use crate::cbor::BREAK;
use crate::crc::{CrcDigest, CrcType, block_crc, write_crc_field};
use crate::header::{Closing, Header, PayloadHead};
use crate::reading::Reading;
use crate::v6;
use crate::v7::refusal::Refusal;

/// The checksum of a payload block over its head and the payload that passes by (RFC 9171 4.3.2), to write
/// the octets that follow the payload.
#[derive(Clone, Debug)]
pub struct PayloadCrc {
    digest: CrcDigest,
    closing: Closing,
    left: u64,
}

impl PayloadCrc {
    /// Begins with the head of a payload block.
    #[must_use]
    pub fn new(head: &PayloadHead) -> Self {
        let mut digest = CrcDigest::new(head.crc_type);
        digest.update(&head.octets);
        Self {
            digest,
            closing: head.closing,
            left: head.length,
        }
    }

    /// Adds the payload octets that come next.
    pub fn update(&mut self, octets: &[u8]) {
        self.pass(length(octets));
        self.digest.update(octets);
    }

    fn pass(&mut self, added: u64) {
        assert!(
            added <= self.left,
            "no more octets are given than the payload block's head announces"
        );
        self.left -= added;
    }

    /// Adds the payload octets that come next, and gives their own CRC-32C where it comes with the block's.
    pub fn update_with_own(&mut self, octets: &[u8]) -> Option<u32> {
        self.pass(length(octets));
        self.digest.update_with_own(octets)
    }

    /// Adds so many payload octets by their CRC-32C.
    fn join(&mut self, crc32c: u32, octets: u64) {
        self.pass(octets);
        if self.digest.crc_type() == CrcType::Crc32C {
            self.digest.join(crc32c, octets);
        }
    }

    /// Octets of payload that have not passed by yet.
    #[must_use]
    pub const fn left_octets(&self) -> u64 {
        self.left
    }

    /// The octets that follow the payload: the CRC field and the breaks. All payload octets must have passed by, unless
    /// the block has no CRC.
    #[must_use]
    pub fn trailer(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.digest.crc_type().field_octets() + 2);
        self.write_trailer(&mut out);
        out.into()
    }

    /// Appends what follows the payload, as [`trailer`](Self::trailer) gives it.
    pub fn write_trailer(&self, out: &mut Vec<u8>) {
        let crc_type = self.digest.crc_type();
        assert!(
            self.left == 0 || crc_type == CrcType::None,
            "the checksum covers the whole payload"
        );
        write_crc_field(out, crc_type, self.finished().value());
        out.resize(out.len().saturating_add(self.closing.octets()), BREAK);
    }

    /// The digest of the whole block: with the zeroed field and, where it has one, its break.
    fn finished(&self) -> CrcDigest {
        let mut digest = self.digest;
        digest.update(digest.crc_type().zeroed_field());
        if self.closing == Closing::TwoBreaks {
            digest.update(&[BREAK]);
        }
        digest
    }
}

/// Checks a payload that passes by, and what follows it.
#[derive(Clone, Debug)]
pub struct PayloadVerifier {
    crc: PayloadCrc,
    /// Blocks before the payload of a bundle of version 6 that has others behind it: there is a bound of all.
    blocks_before: usize,
}

impl PayloadVerifier {
    /// Begins the payload of the bundle with this header.
    #[must_use]
    pub fn new(header: &Header) -> Self {
        Self {
            crc: PayloadCrc::new(&header.payload),
            blocks_before: header.as_v6().map_or(0, |header| header.blocks.len()),
        }
    }

    /// Takes the payload octets that come next; no more than the header announces.
    pub fn update(&mut self, octets: &[u8]) {
        self.crc.update(octets);
    }

    /// As [`update`](Self::update), and gives these octets' own CRC-32C where it comes with the block's.
    pub fn update_with_own(&mut self, octets: &[u8]) -> Option<u32> {
        self.crc.update_with_own(octets)
    }

    /// Whether [`join`](Self::join) may be called: the payload has a CRC-32C, or no CRC.
    #[must_use]
    pub const fn joins(&self) -> bool {
        !matches!(self.crc.digest.crc_type(), CrcType::Crc16)
    }

    /// Takes the payload octets that come next by their CRC-32C: `octets` of them, no more than the header announces.
    ///
    /// # Panics
    /// When the payload has another checksum.
    pub fn join(&mut self, crc32c: u32, octets: u64) {
        assert!(self.joins(), "octets with a CRC-16 are read");
        self.crc.join(crc32c, octets);
    }

    /// Octets of payload that have not passed by yet.
    #[must_use]
    pub const fn left_octets(&self) -> u64 {
        self.crc.left
    }

    /// The octets that follow the payload of a fragment that has the payload octets which have passed by so far: `whole`
    /// is the head of the payload block that they came in, `fragment` that of the fragment's.
    ///
    /// # Panics
    /// When the fragment's head does not announce just these octets.
    #[must_use]
    pub fn fragment_trailer(&self, whole: &PayloadHead, fragment: &PayloadHead) -> Bytes {
        let octets = whole.length.saturating_sub(self.crc.left);
        assert!(
            octets == fragment.length
                && matches!(fragment.closing, Closing::Break | Closing::Nothing),
            "a fragment's head announces what it has"
        );
        let crc_type = self.crc.digest.crc_type();
        let value = (self.crc.digest).behind(&whole.octets, &fragment.octets, octets);
        let mut out = Vec::with_capacity(crc_type.field_octets() + 1);
        write_crc_field(&mut out, crc_type, value);
        out.resize(out.len().saturating_add(fragment.closing.octets()), BREAK);
        out.into()
    }

    /// Checks all that follows the payload: its CRC and the end of the bundle, and nothing after it.
    ///
    /// # Errors
    /// The rule that the bundle breaks.
    pub fn finish(self, trailer: &[u8]) -> Result<(), Refusal> {
        if self.crc.left > 0 {
            return Err(Refusal::Truncated);
        }
        let crc_type = self.crc.digest.crc_type();
        let mut rest = trailer;
        if let Some(head) = crc_type.zeroed_field().first() {
            // RFC 9171 4.2.2: a byte string of two or four octets.
            match rest.split_first() {
                None => return Err(Refusal::Truncated),
                Some((&BREAK, _)) => return Err(Refusal::BlockLength { number: 1 }),
                Some((first, _)) if first != head => return Err(Refusal::CrcLength { number: 1 }),
                Some((_, after)) => rest = after,
            }
            let (field, after) = rest
                .split_at_checked(crc_type.octets())
                .ok_or(Refusal::Truncated)?;
            if !self.crc.finished().matches(field) {
                return Err(Refusal::CrcMismatch { number: 1 });
            }
            rest = after;
        }
        match self.crc.closing {
            Closing::Break | Closing::TwoBreaks => {}
            Closing::Nothing if rest.is_empty() => return Ok(()),
            Closing::Nothing => return Err(v6::Refusal::OctetsAfterEnd.into()),
            Closing::Blocks => return self.finish_blocks(rest),
        }
        if self.crc.closing == Closing::TwoBreaks {
            rest = after_break(rest, Refusal::BlockLength { number: 1 })?;
        }
        // RFC 9171 4.1: the payload block is the last, and a break ends the bundle.
        rest = after_break(rest, Refusal::PayloadBlockNotLast)?;
        if rest.is_empty() {
            Ok(())
        } else {
            Err(Refusal::OctetsAfterEnd)
        }
    }

    /// RFC 5050 4: blocks follow the payload, up to one that says that it is the last.
    fn finish_blocks(&self, octets: &[u8]) -> Result<(), Refusal> {
        let octets = Bytes::copy_from_slice(octets);
        match v6::Trailer::decode_behind(self.blocks_before, &octets)? {
            None => Err(v6::Refusal::Truncated.into()),
            Some(trailer) if trailer.octets < octets.len() => {
                Err(v6::Refusal::OctetsAfterEnd.into())
            }
            Some(_) => Ok(()),
        }
    }
}

impl Header {
    /// Checks all that follows the header in `octets`, which are the whole bundle from its first octet to its
    /// last: as [`PayloadVerifier`] does, at once.
    ///
    /// # Errors
    /// The rule that the bundle breaks.
    pub fn check_body(&self, octets: &[u8]) -> Result<(), Refusal> {
        if self.is_usual_body(octets) == Some(true) {
            return Ok(());
        }
        let body = octets.get(self.octets.len()..).unwrap_or_default();
        let length = usize::try_from(self.payload.length).map_err(|_| Refusal::Truncated)?;
        let (payload, trailer) = body.split_at_checked(length).ok_or(Refusal::Truncated)?;
        let mut verifier = PayloadVerifier::new(self);
        verifier.update(payload);
        verifier.finish(trailer)
    }

    /// True where a payload block of definite length with a CRC-32C, as nearly all are, is what its CRC says.
    fn is_usual_body(&self, octets: &[u8]) -> Option<bool> {
        if self.payload.closing != Closing::Break || self.payload.crc_type != CrcType::Crc32C {
            return None;
        }
        let start = self.octets.len().checked_sub(self.payload.octets.len())?;
        let length = usize::try_from(self.payload.length).ok()?;
        let end = self.octets.len().checked_add(length)?;
        let found = match *octets.get(end..)? {
            [0x44, first, second, third, fourth, BREAK] => [first, second, third, fourth],
            _ => return None,
        };
        let block = octets.get(start..end)?;
        Some(block_crc(CrcType::Crc32C, block) == u32::from_be_bytes(found))
    }
}

fn length(octets: &[u8]) -> u64 {
    u64::try_from(octets.len()).unwrap_or(u64::MAX)
}

fn after_break(octets: &[u8], otherwise: Refusal) -> Result<&[u8], Refusal> {
    match octets.split_first() {
        Some((&BREAK, rest)) => Ok(rest),
        Some(_) => Err(otherwise),
        None => Err(Refusal::Truncated),
    }
}

/// A whole bundle in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// All before the payload.
    pub header: Header,
    /// The payload.
    pub payload: Bytes,
}

impl Bundle {
    /// Reads a whole bundle: its header, its payload's CRC, its end.
    ///
    /// # Errors
    /// The rule of RFC 9171 that the octets break.
    pub fn decode(octets: &Bytes, reading: Reading) -> Result<Self, Refusal> {
        let header = Header::decode(octets, reading)?.ok_or(Refusal::Truncated)?;
        let start = header.octets.len();
        let length = usize::try_from(header.payload.length).map_err(|_| Refusal::Truncated)?;
        let end = start
            .checked_add(length)
            .filter(|end| *end <= octets.len())
            .ok_or(Refusal::Truncated)?;
        let payload = octets.slice(start..end);
        let mut verifier = PayloadVerifier::new(&header);
        verifier.update(&payload);
        verifier.finish(octets.get(end..).unwrap_or_default())?;
        Ok(Self { header, payload })
    }
}
