//! [`HeaderReader`]: headers that are read one after the other.

use bytes::Bytes;

use crate::cbor::CborError;
use crate::header::{Header, MAX_HEADER_OCTETS};
use crate::reading::Reading;
use crate::short::ShortOctets;
use crate::v6;
use crate::v7::header::decode_header;
use crate::v7::refusal::Refusal;
use crate::v7::usual_form;
use crate::version::Version;

/// Reads headers into one place. Those that come one after the other differ in little, most often: what has the same
/// octets as in the header before is not read again.
///
/// ```
/// use dhow_bundle::{BundleBuilder, CreationTimestamp, DtnTime, HeaderReader, Reading};
/// let mut reader = HeaderReader::default();
/// for sequence in 0..3 {
///     let creation = CreationTimestamp { time: DtnTime::from_millis(1000), sequence };
///     let octets = BundleBuilder::new("ipn:1.1".parse()?, "ipn:2.1".parse()?, creation, 1_000).bundle(b"hello")?;
///     assert!(reader.read(&octets, Reading::Strict)?);
///     assert_eq!(reader.header().id().creation.sequence, sequence);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct HeaderReader {
    pub(crate) header: Header,
    pub(crate) known: Known,
}

/// Octets of the header that was read last, and what they were read as stands there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) reading: Reading,
    /// Of the primary block from its first octet up to the creation timestamp; none when nothing is known.
    pub(crate) start: ShortOctets<64>,
    /// Offset of the destination endpoint in `start`.
    pub(crate) addresses: usize,
    /// All extension blocks; none when nothing is known of them.
    pub(crate) blocks: ShortOctets<96>,
    /// Offset of these blocks in the header.
    pub(crate) blocks_start: usize,
    /// Whether they were not allowed to request reports.
    pub(crate) forbids_reports: bool,
}

impl HeaderReader {
    /// Reads the header of the bundle that `octets` begin with, as [`Header::decode`] does; false when more octets
    /// are needed. After that and after an error the header is nothing to go by.
    ///
    /// # Errors
    /// The rule of RFC 9171 that the octets break.
    pub fn read(&mut self, octets: &Bytes, reading: Reading) -> Result<bool, Refusal> {
        match octets.first().map(|octet| Version::of_first_octet(*octet)) {
            Some(Version::V6) => self.read_v6(octets, reading),
            _ => self.read_v7(octets, reading),
        }
    }

    fn read_v6(&mut self, octets: &Bytes, reading: Reading) -> Result<bool, Refusal> {
        self.forget(reading);
        let Some(header) = v6::Header::decode(octets)? else {
            return Ok(false);
        };
        self.header = header.carried()?;
        Ok(true)
    }

    fn read_v7(&mut self, octets: &Bytes, reading: Reading) -> Result<bool, Refusal> {
        let decoded = match self.read_usual(octets, reading) {
            true => Ok(()),
            false => decode_header(octets, reading).map(|header| self.header = header),
        };
        match decoded {
            Ok(()) if self.header.octets.len() > MAX_HEADER_OCTETS => Err(Refusal::HeaderTooLong),
            Ok(()) => Ok(true),
            Err(Refusal::Cbor(CborError::Incomplete { needed })) => {
                if usize::try_from(needed).is_ok_and(|needed| needed <= MAX_HEADER_OCTETS) {
                    Ok(false)
                } else {
                    Err(Refusal::HeaderTooLong)
                }
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Reads a header in its usual form; false where it is in another, and then nothing is known.
    pub(crate) fn read_usual(&mut self, octets: &Bytes, reading: Reading) -> bool {
        if self.known.reading != reading {
            self.forget(reading);
        }
        self.header.v6 = None;
        self.header.trailer = None;
        let is_usual = usual_form::read(&mut self.header, &mut self.known, octets).is_some();
        if !is_usual {
            self.forget(reading);
        }
        is_usual
    }

    fn forget(&mut self, reading: Reading) {
        self.known = Known {
            reading,
            ..Known::default()
        };
    }

    /// Reads the blocks behind the payload of the bundle whose header was read last, where its header says that there are some: of octets that are
    /// the whole bundle, or else all of it but the payload.
    ///
    /// # Errors
    /// The rule that they break.
    pub fn read_trailer(&mut self, octets: &Bytes, are_whole: bool) -> Result<(), Refusal> {
        if !self.header.has_open_end() {
            return Ok(());
        }
        let payload = match are_whole {
            true => usize::try_from(self.header.payload_octets()).unwrap_or(usize::MAX),
            false => 0,
        };
        let start = self.header.octets.len().saturating_add(payload);
        let trailer = octets.slice(start.min(octets.len())..);
        self.header.read_trailer(&trailer)
    }

    /// The header that was read last.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Lets go of the octets that were read: the header is nothing to go by any more.
    pub fn release(&mut self) {
        self.header.octets = Bytes::new();
    }
}
