//! [`Note`]: custody of one bundle as it outlasts a restart, in the store's note beside the bundle.
//!
//! One array of CBOR: the state's code, this node's custody ID, and, where the custodian before is still owed a signal, its endpoint ID and then
//! the custody ID that it gave, if it gave one.

use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::cbor::{Reader, write_array, write_unsigned};
use dhow_bundle::{EndpointId, Reading};

use super::state::CustodyState;

/// Octets of a note of custody, at most. Routers have the rest of what the store keeps beside a bundle.
pub const CUSTODY_NOTE_OCTETS: usize = 64;

/// Custody of one bundle, as far as it outlasts a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) state: CustodyState,
    pub(super) id: u64,
    pub(super) owed: Option<NotedDebt>,
}

/// A custodian that is owed a signal about the bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotedDebt {
    pub(super) custodian: EndpointId,
    /// The custody ID that it gave.
    pub(super) id: Option<u64>,
}

/// The code of a state in which this node has custody. A bundle that is to be durable is durable once its note can be read.
const fn code(state: CustodyState) -> Option<u64> {
    match state {
        CustodyState::Requested | CustodyState::Accepted => Some(1),
        CustodyState::AwaitingSignal => Some(2),
        CustodyState::AwaitingForward => Some(3),
        CustodyState::None | CustodyState::Released | CustodyState::Refused => None,
    }
}

const fn state(code: u64) -> Option<CustodyState> {
    match code {
        1 => Some(CustodyState::Accepted),
        2 => Some(CustodyState::AwaitingSignal),
        3 => Some(CustodyState::AwaitingForward),
        _ => None,
    }
}

impl Note {
    /// At most [`CUSTODY_NOTE_OCTETS`]; none of a bundle that this node has no custody of. A custodian whose endpoint ID is longer than that is
    /// left out: after a restart it is told nothing before it sends the bundle again.
    pub(super) fn encode(&self) -> Option<Bytes> {
        let code = code(self.state)?;
        let mut debt = Vec::new();
        let mut items = 2;
        if let Some(owed) = &self.owed {
            owed.custodian.encode(&mut debt);
            items += 1;
            if let Some(id) = owed.id {
                write_unsigned(&mut debt, id);
                items += 1;
            }
        }
        let head = |items| {
            let mut out = Vec::with_capacity(CUSTODY_NOTE_OCTETS);
            write_array(&mut out, items);
            write_unsigned(&mut out, code);
            write_unsigned(&mut out, self.id);
            out
        };
        let mut out = head(items);
        out.append(&mut debt);
        match out.len() <= CUSTODY_NOTE_OCTETS {
            true => Some(out.into()),
            false => Some(head(2).into()),
        }
    }

    /// None where the octets are no note of custody.
    pub(super) fn decode(octets: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(octets);
        let mut array = reader.array().ok()?;
        array.item(&mut reader).ok()?;
        let state = state(reader.unsigned().ok()?)?;
        array.item(&mut reader).ok()?;
        let id = reader.unsigned().ok().filter(|id| *id != 0)?;
        let mut owed = None;
        if array.next(&mut reader).ok()? {
            let custodian = EndpointId::decode(&mut reader, Reading::Strict).ok()?;
            let has_id = array.next(&mut reader).ok()?;
            let id = if has_id {
                Some(reader.unsigned().ok()?)
            } else {
                None
            };
            owed = Some(NotedDebt { custodian, id });
        }
        array.end(&mut reader).ok()?;
        let is_whole = reader.is_empty() && octets.len() <= CUSTODY_NOTE_OCTETS;
        is_whole.then_some(Self { state, id, owed })
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::prelude::*;

    use super::*;

    fn note(custodian: &str, id: Option<u64>) -> Note {
        Note {
            state: CustodyState::Accepted,
            id: u64::MAX,
            owed: Some(NotedDebt {
                custodian: custodian.parse().unwrap(),
                id,
            }),
        }
    }

    #[test]
    fn a_custodian_that_does_not_fit_is_left_out() {
        let longest = note("ipn:4294967295.4294967295.4294967295", Some(u64::MAX));
        assert!(longest.encode().unwrap().len() <= CUSTODY_NOTE_OCTETS);
        assert_eq!(Note::decode(&longest.encode().unwrap()), Some(longest));
        for (name, is_kept) in [(30, true), (37, true), (38, false), (900, false)] {
            let named = note(&format!("dtn://{}/", "n".repeat(name)), Some(u64::MAX));
            let octets = named.encode().unwrap();
            assert!(octets.len() <= CUSTODY_NOTE_OCTETS);
            let owed = named.owed.clone().filter(|_| is_kept);
            assert_eq!(
                Note::decode(&octets),
                Some(Note { owed, ..named }),
                "{name}"
            );
        }
    }

    #[test]
    fn a_bundle_without_custody_has_no_note() {
        for state in [
            CustodyState::None,
            CustodyState::Released,
            CustodyState::Refused,
        ] {
            let note = Note {
                state,
                id: 1,
                owed: None,
            };
            assert_eq!(note.encode(), None);
        }
    }

    proptest! {
        #[test]
        fn a_note_comes_back(code in 1_u64..4, id in 1_u64.., owed: bool, node: u32, theirs: Option<u64>) {
            let owed = owed.then(|| NotedDebt {
                custodian: EndpointId::from_ipn_numbers(0, node, 0).unwrap(),
                id: theirs,
            });
            let note = Note { state: state(code).unwrap(), id, owed };
            let octets = note.encode().unwrap();
            prop_assert!(octets.len() <= CUSTODY_NOTE_OCTETS);
            prop_assert_eq!(Note::decode(&octets), Some(note));
            for length in 0..octets.len() {
                prop_assert_eq!(Note::decode(&octets[..length]), None);
            }
        }

        #[test]
        fn any_octets_are_a_note_or_none(octets in proptest::collection::vec(any::<u8>(), 0..70)) {
            let framed = [&[0x84, 1][..], &octets].concat();
            for octets in [&octets, &framed] {
                if let Some(note) = Note::decode(octets) {
                    let again = note.encode().unwrap();
                    prop_assert_eq!(Note::decode(&again), Some(note));
                }
            }
        }
    }
}
