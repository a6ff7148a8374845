//! A bundle that passes by: its payload is left out, and its checksum changed along with it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};
use dhow_bundle::{Header, PayloadCrc, Reading};

use super::runs::Runs;
use crate::local::{Local, Locality};

/// Octets of header blocks, at most: a bundle with more is recorded whole.
const HEADER_OCTETS_MAX: usize = 64 << 10;

/// Zeros that are added to a checksum at a time.
const ZEROS: [u8; 4096] = [0; 4096];

/// The place in its bundle that the stream has reached.
#[derive(Debug)]
pub(super) enum BundleOmission {
    /// The header blocks, of which these octets have come.
    Header(BytesMut),
    /// The payload.
    Payload(Box<Checksums>),
    /// Behind the payload; the changes of what comes now, octet by octet, the last one first.
    Trailer(Vec<u8>),
    /// A bundle of which nothing is left out.
    Whole,
    /// Octets that are no bundle.
    Refused,
}

/// Checksums of a payload block: as it came, and with zeros for its payload.
#[derive(Debug)]
pub(super) struct Checksums {
    came: PayloadCrc,
    zeros: PayloadCrc,
}

impl Default for BundleOmission {
    fn default() -> Self {
        Self::Header(BytesMut::new())
    }
}

impl BundleOmission {
    /// The next octets of the bundle.
    pub(super) fn pass(&mut self, octets: &Bytes, local: &Local, runs: &mut Runs) {
        let mut octets = &octets[..];
        if let Self::Header(header) = self {
            let before = header.len();
            header.extend_from_slice(octets);
            let next = match Header::decode(&header.clone().freeze(), Reading::Lenient) {
                Ok(Some(header)) => {
                    let own = header.octets.len().saturating_sub(before);
                    let (kept, rest) = octets.split_at(own.min(octets.len()));
                    runs.keep(kept);
                    octets = rest;
                    Self::behind(&header, local)
                }
                Ok(None) if header.len() < HEADER_OCTETS_MAX => return runs.keep(octets),
                Ok(None) => Self::Whole,
                Err(_) => Self::Refused,
            };
            *self = next;
        }
        if let Self::Payload(checksums) = self {
            octets = checksums.pass(octets, runs);
            if checksums.came.left_octets() == 0 {
                *self = Self::Trailer(checksums.changes());
            }
        }
        match self {
            Self::Header(_) | Self::Payload(_) => {}
            Self::Trailer(changes) => {
                for octet in octets {
                    match changes.pop() {
                        Some(change) => runs.keep(&[octet ^ change]),
                        None => runs.omit(1),
                    }
                }
            }
            Self::Whole => runs.keep(octets),
            Self::Refused => runs.omit(octets.len()),
        }
    }

    /// The item that follows a header.
    fn behind(header: &Header, local: &Local) -> Self {
        match local.locality(&header.primary.destination) {
            Locality::Administrative | Locality::Echo | Locality::Perf | Locality::Routing => {
                Self::Whole
            }
            Locality::Remote | Locality::Application => {
                let crc = PayloadCrc::new(&header.payload);
                Self::Payload(Box::new(Checksums {
                    came: crc.clone(),
                    zeros: crc,
                }))
            }
        }
    }
}

impl Checksums {
    /// Leaves out what belongs to the payload; the rest comes back.
    fn pass<'a>(&mut self, octets: &'a [u8], runs: &mut Runs) -> &'a [u8] {
        let left = usize::try_from(self.came.left_octets()).unwrap_or(usize::MAX);
        let (payload, rest) = octets.split_at(left.min(octets.len()));
        self.came.update(payload);
        for part in payload.chunks(ZEROS.len()) {
            self.zeros
                .update(ZEROS.get(..part.len()).unwrap_or_default());
        }
        runs.omit(payload.len());
        rest
    }

    /// The change that makes of the trailer with zeros the one that belongs to the payload as it came, the last octet first. So
    /// a checksum that is right stays right, and one that is wrong wrong.
    fn changes(&self) -> Vec<u8> {
        let (came, zeros) = (self.came.trailer(), self.zeros.trailer());
        let changes = came.iter().zip(&zeros).rev();
        changes.map(|(came, zero)| came ^ zero).collect()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use dhow_bundle::cbor::Reader;
    use dhow_bundle::{Bundle, BundleBuilder, CrcType, CreationTimestamp, DtnTime, EndpointId};

    use super::super::super::item::Item as _;
    use super::super::super::tests::config;
    use super::*;

    const PAYLOAD: &[u8] = b"nobody else is to read this";

    fn bundle(destination: &str, crc_type: CrcType) -> Vec<u8> {
        let creation = CreationTimestamp {
            time: DtnTime::from_millis(800_000_000_000),
            sequence: 0,
        };
        let endpoint = |text: &str| text.parse::<EndpointId>().unwrap();
        BundleBuilder::new(endpoint("ipn:2.1"), endpoint(destination), creation, 1000)
            .with_payload_crc_type(crc_type)
            .bundle(PAYLOAD)
            .unwrap()
            .to_vec()
    }

    /// A bundle that came in chunks of some size, as it is recorded.
    fn recorded(came: &[u8], cut: usize) -> Bytes {
        let local = Local::new(&config());
        let mut omission = BundleOmission::default();
        let mut out = Vec::new();
        for piece in came.chunks(cut) {
            let mut runs = Runs::default();
            omission.pass(&Bytes::copy_from_slice(piece), &local, &mut runs);
            let mut item = Vec::new();
            runs.write(&mut item);
            out.extend_from_slice(&Bytes::read(&mut Reader::new(&item)).unwrap());
        }
        assert_eq!(out.len(), came.len());
        out.into()
    }

    #[test]
    fn a_bundle_without_its_payload_is_as_right_as_it_was() {
        for crc_type in [CrcType::None, CrcType::Crc16, CrcType::Crc32C] {
            let came = bundle("ipn:4.1", crc_type);
            for cut in 1..=came.len() {
                let without = recorded(&came, cut);
                let read = Bundle::decode(&without, Reading::Strict).unwrap();
                assert!(read.payload.iter().all(|octet| *octet == 0), "{crc_type}");
                assert_eq!(read.payload.len(), PAYLOAD.len());
            }
        }
    }

    #[test]
    fn a_bundle_without_its_payload_is_as_wrong_as_it_was() {
        for crc_type in [CrcType::Crc16, CrcType::Crc32C] {
            let mut came = bundle("ipn:4.1", crc_type);
            // The last octet of the payload, and the first one of the checksum.
            for back in [crc_type.octets() + 3, crc_type.octets() + 1] {
                let at = came.len() - back;
                came[at] ^= 0x10;
                let without = recorded(&came, 7);
                let refused = Bundle::decode(&came.clone().into(), Reading::Strict).unwrap_err();
                let still = Bundle::decode(&without, Reading::Strict).unwrap_err();
                assert_eq!(still.section(), refused.section());
                came[at] ^= 0x10;
            }
        }
    }

    #[test]
    fn what_the_node_itself_reads_is_kept() {
        let came = bundle("ipn:1.0", CrcType::Crc32C);
        assert_eq!(recorded(&came, 5), came);
    }

    #[test]
    fn what_is_no_bundle_is_left_out() {
        let without = recorded(b"\x9f\x01nobody else is to read this", 100);
        assert!(without.iter().all(|octet| *octet == 0));
    }
}
