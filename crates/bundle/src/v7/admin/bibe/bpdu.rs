//! [`BpduHead`]: a BIBE protocol data unit up to the first octet of its bundle.

use alloc::vec::Vec;

use super::record_type::{BibeRecord, BibeTypes, read_array, read_type};
use super::refusal::BibeRefusal;
use crate::cbor::{CborError, Reader, write_array, write_byte_string_head, write_unsigned};
use crate::time::DtnTime;

/// Octets of the longest head: so long a prefix of a payload has it whole, or is refused.
pub const MAX_BPDU_HEAD_OCTETS: usize = 6 * 9;

/// The payload of an encapsulating bundle before the first octet of the encapsulated one, whose last octet is also the payload's last
/// (draft-ietf-dtn-bibect-03 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BpduHead {
    /// The record type code: one that [`BibeTypes::find`] knows as that of a BIBE protocol data unit.
    pub record_type: u64,
    /// The number that the sender gave to this transmission, counted for each peer from 1; 0 where it asks for no custody.
    pub transmission_id: u64,
    /// The time by which the sender expects a signal, as it is written; 0 for none. [`Self::expected_by`] reads it.
    pub retransmission_time: u64,
    /// Octets of the encapsulated bundle.
    pub bundle_octets: u64,
}

impl BpduHead {
    /// The head of a transmission with custody, whose signal is expected by a time (unknown for none).
    #[must_use]
    pub fn custodial(
        types: BibeTypes,
        transmission_id: u64,
        expected_by: DtnTime,
        bundle_octets: u64,
    ) -> Self {
        Self {
            record_type: types.code(BibeRecord::Bpdu),
            transmission_id,
            retransmission_time: types.written_time(expected_by),
            bundle_octets,
        }
    }

    /// The head of a transmission without custody.
    #[must_use]
    pub fn plain(types: BibeTypes, bundle_octets: u64) -> Self {
        Self::custodial(types, 0, DtnTime::UNKNOWN, bundle_octets)
    }

    /// Reads the head from the beginning of a payload: it, and its octets. None where more octets are needed, at most
    /// [`MAX_BPDU_HEAD_OCTETS`].
    ///
    /// # Errors
    /// The rule of draft-ietf-dtn-bibect-03 3.2 that the octets break.
    pub fn decode(prefix: &[u8]) -> Result<Option<(Self, usize)>, BibeRefusal> {
        match Self::read(prefix) {
            Ok(head) => Ok(Some(head)),
            Err(BibeRefusal::Cbor(CborError::Incomplete { .. })) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    fn read(prefix: &[u8]) -> Result<(Self, usize), BibeRefusal> {
        let mut reader = Reader::new(prefix).with_any_width();
        let (record_type, _) = read_type(&mut reader)?;
        if !matches!(BibeTypes::find(record_type), Some((BibeRecord::Bpdu, _))) {
            return Err(BibeRefusal::Type(record_type));
        }
        read_array(&mut reader, 3)?;
        let head = Self {
            record_type,
            transmission_id: reader.unsigned()?,
            retransmission_time: reader.unsigned()?,
            bundle_octets: reader.byte_string_head()?,
        };
        Ok((head, reader.position()))
    }

    /// Appends the head; the octets of the bundle are the caller's.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_array(out, 2);
        write_unsigned(out, self.record_type);
        write_array(out, 3);
        write_unsigned(out, self.transmission_id);
        write_unsigned(out, self.retransmission_time);
        write_byte_string_head(out, self.bundle_octets);
    }

    /// Whether a payload of so many octets, of which the head took `head_octets`, holds the bundle and nothing behind it.
    ///
    /// # Errors
    /// [`BibeRefusal::BundleCut`] or [`BibeRefusal::OctetsAfterEnd`].
    pub fn check_payload(
        &self,
        head_octets: usize,
        payload_octets: u64,
    ) -> Result<(), BibeRefusal> {
        let head_octets = u64::try_from(head_octets).unwrap_or(u64::MAX);
        let behind = payload_octets.checked_sub(head_octets);
        match behind.map(|octets| octets.cmp(&self.bundle_octets)) {
            Some(core::cmp::Ordering::Equal) => Ok(()),
            Some(core::cmp::Ordering::Greater) => Err(BibeRefusal::OctetsAfterEnd),
            Some(core::cmp::Ordering::Less) | None => Err(BibeRefusal::BundleCut),
        }
    }

    /// True where the sender asks for custody.
    #[must_use]
    pub const fn asks_for_custody(&self) -> bool {
        self.transmission_id != 0
    }

    /// The time by which the sender expects a signal; none where it does not say. A peer's mistake here, as seconds of Unix time with the draft's
    /// record type, may only make the signal leave sooner.
    #[must_use]
    pub fn expected_by(&self) -> Option<DtnTime> {
        if self.retransmission_time == 0 {
            return None;
        }
        let (_, types) = BibeTypes::find(self.record_type)?;
        Some(types.read_time(self.retransmission_time))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    /// DTNME writes a retransmission time of 0 in more octets than one, and nothing forbids it.
    #[test]
    fn heads_of_any_width_are_read() {
        let octets =
            b"\x98\x02\x18\x03\x83\x19\x00\x05\x1b\0\0\0\0\0\0\0\x00\x5a\0\0\0\x04\x9f\x80\x00\xff";
        let (head, length) = BpduHead::decode(octets).unwrap().unwrap();
        assert_eq!((head.transmission_id, head.bundle_octets), (5, 4));
        assert_eq!(head.expected_by(), None);
        assert_eq!(octets[length..], [0x9f, 0x80, 0, 0xff]);
        assert_eq!(BibeTypes::peek(octets), Some(BibeRecord::Bpdu));
    }

    /// Records of type 3, 7 and 64443 around the same four octets.
    const VECTORS: [(BibeTypes, &[u8]); 3] = [
        (
            BibeTypes::Draft,
            b"\x82\x03\x83\x00\x00\x44\x9f\x80\x00\xff",
        ),
        (BibeTypes::Ion, b"\x82\x07\x83\x00\x00\x44\x9f\x80\x00\xff"),
        (
            BibeTypes::Ud3tn,
            b"\x82\x19\xfb\xbb\x83\x00\x00\x44\x9f\x80\x00\xff",
        ),
    ];

    #[test]
    fn heads_without_custody_are_read_and_written() {
        for (types, octets) in VECTORS {
            let (head, length) = BpduHead::decode(octets).unwrap().unwrap();
            assert_eq!(head, BpduHead::plain(types, 4));
            assert!(!head.asks_for_custody());
            assert_eq!(head.expected_by(), None);
            assert_eq!(octets[length..], [0x9f, 0x80, 0, 0xff]);
            let mut out = Vec::new();
            head.encode(&mut out);
            assert_eq!(out, octets[..length]);
            assert_eq!(BibeTypes::peek(octets), Some(BibeRecord::Bpdu));
        }
    }

    #[test]
    fn the_bundle_ends_with_the_payload() {
        let (_, octets) = VECTORS[0];
        let (head, length) = BpduHead::decode(octets).unwrap().unwrap();
        assert_eq!(head.check_payload(length, 10), Ok(()));
        assert_eq!(head.check_payload(length, 9), Err(BibeRefusal::BundleCut));
        assert_eq!(head.check_payload(length, 2), Err(BibeRefusal::BundleCut));
        assert_eq!(
            head.check_payload(length, 11),
            Err(BibeRefusal::OctetsAfterEnd)
        );
        assert_eq!(
            head.check_payload(length, u64::MAX),
            Err(BibeRefusal::OctetsAfterEnd)
        );
    }

    #[test]
    fn other_records_and_shapes_are_refused() {
        let refused: [(&[u8], BibeRefusal); 8] = [
            (&[0x82, 0x01, 0x83], BibeRefusal::Type(1)),
            (&[0x82, 0x04, 0x83], BibeRefusal::Type(4)),
            (&[0x82, 0x08, 0x83], BibeRefusal::Type(8)),
            (&[0x9f, 0x03], BibeRefusal::IndefiniteArray(1)),
            (&[0x82, 0x03, 0x9f], BibeRefusal::IndefiniteArray(3)),
            (&[0x83, 0x03], CborError::ArrayLength { at: 1 }.into()),
            (&[0x82, 0x03, 0x84], CborError::ArrayLength { at: 3 }.into()),
            (
                &[0x82, 0x03, 0x83, 0, 0, 0x5f],
                CborError::Indefinite { at: 5 }.into(),
            ),
        ];
        for (octets, refusal) in refused {
            assert_eq!(BpduHead::decode(octets), Err(refusal), "{octets:02x?}");
        }
    }

    /// ION writes seconds of Unix time, the draft milliseconds since the year 2000.
    #[test]
    fn the_retransmission_time_is_read_as_its_sender_counts() {
        let time = DtnTime::from_millis(812_345_678_901);
        let draft = BpduHead::custodial(BibeTypes::Draft, 1, time, 0);
        assert_eq!(draft.retransmission_time, 812_345_678_901);
        assert_eq!(draft.expected_by(), Some(time));
        let ion = BpduHead::custodial(BibeTypes::Ion, 1, time, 0);
        assert_eq!(ion.retransmission_time, 812_345_679 + 946_684_800);
        let rounded = DtnTime::from_millis(812_345_679_000);
        assert_eq!(ion.expected_by(), Some(rounded));
        let beyond = BpduHead {
            retransmission_time: u64::MAX,
            ..ion
        };
        assert!(beyond.expected_by().is_some_and(|it| it > time));
    }

    proptest! {
        #[test]
        fn a_head_comes_back_from_any_prefix_that_holds_it(
            place in 0_usize..3,
            transmission_id: u64,
            retransmission_time: u64,
            bundle_octets: u64,
            behind in 0_usize..50,
        ) {
            let head = BpduHead {
                record_type: BibeTypes::ALL[place].code(BibeRecord::Bpdu),
                transmission_id,
                retransmission_time,
                bundle_octets,
            };
            let mut octets = Vec::new();
            head.encode(&mut octets);
            let length = octets.len();
            prop_assert!(length <= MAX_BPDU_HEAD_OCTETS);
            for cut in 0..length {
                prop_assert_eq!(BpduHead::decode(&octets[..cut]), Ok(None));
            }
            octets.extend(vec![7; behind]);
            prop_assert_eq!(BpduHead::decode(&octets), Ok(Some((head, length))));
        }

        #[test]
        fn any_octets_are_a_head_or_none(octets in proptest::collection::vec(any::<u8>(), 0..60), place in 0_usize..3) {
            let _ = super::super::oracle::check_bpdu(&octets);
            let code = BibeTypes::ALL[place].code(BibeRecord::Bpdu);
            let mut framed = vec![0x82];
            write_unsigned(&mut framed, code);
            framed.push(0x83);
            framed.extend(octets);
            let _ = super::super::oracle::check_bpdu(&framed);
        }
    }
}
