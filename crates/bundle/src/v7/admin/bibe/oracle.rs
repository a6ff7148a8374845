//! Assertions that hold for any octets that the decoders of Bundle-in-Bundle Encapsulation are given: the fuzz targets and the replay of
//! their corpora call these.

use alloc::vec::Vec;

use super::{BibeRefusal, BibeSignal, BibeTypes, BpduHead, MAX_BPDU_HEAD_OCTETS, MAX_RUNS};
use super::{Numbering, record_type::BibeRecord};

/// Reads octets as the beginning of a BIBE protocol data unit; true where they have its head.
///
/// # Panics
/// The decoder does what it must not.
#[must_use]
pub fn check_bpdu(octets: &[u8]) -> bool {
    let read = BpduHead::decode(octets);
    let prefix = |length: usize| octets.get(..length).unwrap_or(octets);
    match read {
        Ok(Some((head, length))) => {
            let mut again = Vec::new();
            head.encode(&mut again);
            let written = BpduHead::decode(&again).map(|read| read.map(|(head, _)| head));
            assert_eq!(written, Ok(Some(head)), "a head that is written is read");
            assert!(again.len() <= length, "what is written is the shortest");
            let payload = u64::try_from(length).unwrap_or(u64::MAX);
            let payload = payload.checked_add(head.bundle_octets);
            let checked = payload.map(|payload| head.check_payload(length, payload));
            assert!(
                matches!(checked, None | Some(Ok(()))),
                "head and bundle are the payload"
            );
            for cut in 0..length {
                let cut = BpduHead::decode(prefix(cut));
                assert_eq!(cut, Ok(None), "a prefix of a head needs more octets");
            }
            assert_eq!(BibeTypes::peek(octets), Some(BibeRecord::Bpdu));
            let _ = head.expected_by();
        }
        Ok(None) => assert!(
            octets.len() < MAX_BPDU_HEAD_OCTETS,
            "the longest head is in so many octets"
        ),
        Err(refusal) => {
            let cut = BpduHead::decode(prefix(MAX_BPDU_HEAD_OCTETS));
            assert_eq!(cut, Err(refusal), "no octet behind the longest head counts");
        }
    }
    matches!(read, Ok(Some(_)))
}

/// Reads octets as a custody signal; true where they are one.
///
/// # Panics
/// The decoder does what it must not.
#[must_use]
pub fn check_signal(octets: &[u8]) -> bool {
    let [draft, dtnme] = [Numbering::Draft, Numbering::Dtnme].map(|numbering| {
        let read = BibeSignal::decode(octets, numbering);
        if let Ok(signal) = &read {
            check_accepted(octets, signal, numbering);
        }
        read
    });
    let runs = |read: Result<BibeSignal, BibeRefusal>| read.map(|signal| signal.runs);
    let (draft, dtnme) = (runs(draft), runs(dtnme));
    assert_eq!(draft, dtnme, "the numbering changes the disposition alone");
    draft.is_ok()
}

fn check_accepted(octets: &[u8], signal: &BibeSignal, numbering: Numbering) {
    let again = BibeTypes::ALL.map(|types| signal.encode(types, numbering));
    for again in again {
        let written = BibeSignal::decode(&again, numbering);
        assert_eq!(
            written.as_ref(),
            Ok(signal),
            "a signal that is written is read"
        );
    }
    assert!((1..=MAX_RUNS).contains(&signal.runs.len()));
    let mut before = 0;
    for &(first, last) in &signal.runs {
        assert!(
            before < first && first <= last,
            "runs ascend and have nothing in common"
        );
        before = last;
    }
    assert_eq!(BibeTypes::peek(octets), Some(BibeRecord::Signal));
}
