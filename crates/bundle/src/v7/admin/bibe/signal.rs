//! [`BibeSignal`]: the outcome of transmissions that asked for custody.

use alloc::vec::Vec;

use bytes::Bytes;

use super::disposition::{Disposition, Numbering};
use super::record_type::{BibeRecord, BibeTypes, read_array, read_type};
use super::refusal::BibeRefusal;
use crate::cbor::{Reader, write_array, write_unsigned};

/// Runs of transmission IDs in one signal, at most.
pub const MAX_RUNS: usize = 4_096;

/// A custody signal of Bundle-in-Bundle Encapsulation (draft-ietf-dtn-bibect-03 3.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BibeSignal {
    /// The outcome of custody of all bundles in `runs`.
    pub disposition: Disposition,
    /// First and last transmission ID of each run: from 1 on, ascending, each behind the one before, at least one and at most [`MAX_RUNS`].
    pub runs: Vec<(u64, u64)>,
}

impl BibeSignal {
    /// Reads the payload of an administrative bundle from a peer whose dispositions are numbered so.
    ///
    /// # Errors
    /// The rule of draft-ietf-dtn-bibect-03 3.3 that the payload breaks, or runs out of order, which the draft does not
    /// forbid; the signal is then ignored.
    pub fn decode(payload: &[u8], numbering: Numbering) -> Result<Self, BibeRefusal> {
        let mut reader = Reader::new(payload).with_any_width();
        let (record_type, mut record) = read_type(&mut reader)?;
        if !matches!(BibeTypes::find(record_type), Some((BibeRecord::Signal, _))) {
            return Err(BibeRefusal::Type(record_type));
        }
        record.item(&mut reader)?;
        read_array(&mut reader, 2)?;
        let disposition = Disposition::from_code(reader.unsigned()?, numbering);
        let runs = decode_runs(&mut reader)?;
        match reader.is_empty() {
            true => Ok(Self { disposition, runs }),
            false => Err(BibeRefusal::OctetsAfterEnd),
        }
    }

    /// The payload that carries this signal to a peer.
    #[must_use]
    pub fn encode(&self, types: BibeTypes, numbering: Numbering) -> Bytes {
        let mut out = Vec::with_capacity(16_usize.saturating_add(8 * self.runs.len()));
        write_array(&mut out, 2);
        write_unsigned(&mut out, types.code(BibeRecord::Signal));
        write_array(&mut out, 2);
        write_unsigned(&mut out, self.disposition.code(numbering));
        write_array(&mut out, u64::try_from(self.runs.len()).unwrap_or(u64::MAX));
        for &(first, last) in &self.runs {
            write_array(&mut out, 2);
            write_unsigned(&mut out, first);
            write_unsigned(&mut out, last.saturating_sub(first).saturating_add(1));
        }
        out.into()
    }
}

fn decode_runs(reader: &mut Reader<'_>) -> Result<Vec<(u64, u64)>, BibeRefusal> {
    let mut array = reader.array()?;
    let at = u64::try_from(reader.position()).unwrap_or(u64::MAX);
    // The scope report has a definite length (draft-ietf-dtn-bibect-03 3.3).
    let count = array.left().ok_or(BibeRefusal::IndefiniteArray(at))?;
    if count == 0 {
        return Err(BibeRefusal::EmptySignal);
    }
    if usize::try_from(count).is_ok_and(|count| count <= MAX_RUNS) {
        // Each run takes three octets at least, so the octets seen bound what is kept.
        let mut runs = Vec::new();
        let mut before = 0;
        while array.next(reader)? {
            let run = decode_run(reader, before)?;
            (_, before) = run;
            runs.push(run);
        }
        Ok(runs)
    } else {
        Err(BibeRefusal::TooManyRuns)
    }
}

/// A run behind the transmission ID that ended the one before, 0 for none.
fn decode_run(reader: &mut Reader<'_>, before: u64) -> Result<(u64, u64), BibeRefusal> {
    let mut array = read_array(reader, 2)?;
    array.item(reader)?;
    let first = reader.unsigned()?;
    array.item(reader)?;
    let count = reader.unsigned()?;
    let more = count.checked_sub(1).ok_or(BibeRefusal::Run)?;
    let last = first.checked_add(more).ok_or(BibeRefusal::Run)?;
    match first > before {
        true => Ok((first, last)),
        false => Err(BibeRefusal::Run),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cbor::CborError;

    const NUMBERINGS: [Numbering; 2] = [Numbering::Draft, Numbering::Dtnme];

    #[test]
    fn signals_of_the_draft_and_of_ion_are_read_and_written() {
        let vectors = [
            (
                BibeTypes::Draft,
                b"\x82\x04\x82\x00\x82\x82\x01\x0a\x82\x0d\x07",
            ),
            (
                BibeTypes::Ion,
                b"\x82\x08\x82\x00\x82\x82\x01\x0a\x82\x0d\x07",
            ),
        ];
        for (types, octets) in vectors {
            let signal = BibeSignal::decode(octets, Numbering::Draft).unwrap();
            assert_eq!(signal.disposition, Disposition::Accepted);
            assert_eq!(signal.runs, [(1, 10), (13, 19)]);
            assert_eq!(signal.encode(types, Numbering::Draft), octets[..]);
            assert_eq!(BibeTypes::peek(octets), Some(BibeRecord::Signal));
        }
    }

    #[test]
    fn the_peer_says_what_a_code_means() {
        let octets = [0x82, 0x04, 0x82, 0x03, 0x81, 0x82, 1, 1];
        let read = |numbering| BibeSignal::decode(&octets, numbering).unwrap().disposition;
        assert_eq!(read(Numbering::Draft), Disposition::Redundant);
        assert_eq!(read(Numbering::Dtnme), Disposition::DepletedStorage);
    }

    /// A signal, accepted, of these octets behind the disposition.
    fn decode(scope: &[u8]) -> Result<BibeSignal, BibeRefusal> {
        let octets = [&[0x82, 0x04, 0x82, 0x00], scope].concat();
        BibeSignal::decode(&octets, Numbering::Draft)
    }

    #[test]
    fn runs_that_are_none_are_refused() {
        let max = [0x1b, 255, 255, 255, 255, 255, 255, 255, 255];
        let beyond = [&[0x81, 0x82], &max[..], &[2]].concat();
        let refused: [(&[u8], BibeRefusal); 9] = [
            (&[0x80], BibeRefusal::EmptySignal),
            (&[0x81, 0x82, 0, 1], BibeRefusal::Run),
            (&[0x81, 0x82, 1, 0], BibeRefusal::Run),
            (&[0x82, 0x82, 1, 2, 0x82, 2, 1], BibeRefusal::Run),
            (&[0x82, 0x82, 5, 1, 0x82, 1, 1], BibeRefusal::Run),
            (&beyond, BibeRefusal::Run),
            (&[0x9f, 0x82, 1, 1, 0xff], BibeRefusal::IndefiniteArray(5)),
            (&[0x81, 0x82, 1, 1, 0], BibeRefusal::OctetsAfterEnd),
            (
                &[0x81, 0x83, 1, 1, 1],
                CborError::ArrayLength { at: 6 }.into(),
            ),
        ];
        for (scope, refusal) in refused {
            assert_eq!(decode(scope), Err(refusal), "{scope:02x?}");
        }
        let last = [&[0x81, 0x82], &max[..], &[1]].concat();
        assert_eq!(decode(&last).unwrap().runs, [(u64::MAX, u64::MAX)]);
        let all = [&[0x81, 0x82, 1], &max[..]].concat();
        assert_eq!(decode(&all).unwrap().runs, [(1, u64::MAX)]);
        let neighbours = decode(&[0x82, 0x82, 1, 2, 0x82, 3, 1]).unwrap();
        assert_eq!(neighbours.runs, [(1, 2), (3, 3)]);
    }

    #[test]
    fn a_signal_has_as_many_runs_as_allowed() {
        let of_runs = |count: usize| BibeSignal {
            disposition: Disposition::Accepted,
            runs: (1..).step_by(2).map(|id| (id, id)).take(count).collect(),
        };
        for (count, is_read) in [(1, true), (MAX_RUNS, true), (MAX_RUNS + 1, false)] {
            let octets = of_runs(count).encode(BibeTypes::Draft, Numbering::Draft);
            let read = BibeSignal::decode(&octets, Numbering::Draft);
            assert_eq!(read.is_ok(), is_read, "{count} runs");
        }
        // Many runs that are announced and do not come.
        let announced = decode(&[0x9b, 255, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(announced, Err(BibeRefusal::TooManyRuns));
        let cut = decode(&[0x99, 0x10, 0x00, 0x82]);
        assert!(matches!(
            cut,
            Err(BibeRefusal::Cbor(CborError::Incomplete { .. }))
        ));
    }

    #[test]
    fn a_signal_of_another_type_is_refused() {
        for (code, is_read) in [(3, false), (4, true), (7, false), (8, true), (9, false)] {
            let octets = [0x82, code, 0x82, 0, 0x81, 0x82, 1, 1];
            let read = BibeSignal::decode(&octets, Numbering::Draft);
            assert_eq!(read.is_ok(), is_read, "type {code}");
        }
    }

    proptest! {
        #[test]
        fn a_signal_comes_back(code in 0_u64..12, steps in proptest::collection::vec((1_u64..5, 0_u64..1000), 1..40)) {
            for numbering in NUMBERINGS {
                let mut before = 0;
                let mut runs = Vec::new();
                for &(gap, more) in &steps {
                    let first = before + gap;
                    before = first + more;
                    runs.push((first, before));
                }
                let signal = BibeSignal { disposition: Disposition::from_code(code, numbering), runs };
                for types in BibeTypes::ALL {
                    let octets = signal.encode(types, numbering);
                    prop_assert_eq!(BibeSignal::decode(&octets, numbering), Ok(signal.clone()));
                }
            }
        }

        #[test]
        fn any_octets_are_a_signal_or_none(octets in proptest::collection::vec(any::<u8>(), 0..60), ion: bool) {
            let _ = super::super::oracle::check_signal(&octets);
            let framed = [&[0x82, if ion { 8 } else { 4 }, 0x82][..], &octets].concat();
            let _ = super::super::oracle::check_signal(&framed);
            let runs: Vec<u8> = octets.chunks(2).flat_map(|run| [&[0x82][..], run].concat()).collect();
            let scope = [&[0x82, 4, 0x82, 0, 0x98, 30][..], &runs].concat();
            let _ = super::super::oracle::check_signal(&scope);
        }
    }
}
