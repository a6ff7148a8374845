//! The invariants of a collector's decoder for octets of any kind: the fuzz target and the replay of its corpus share them.

use crate::omsp::{Decoder, ROW_OCTETS_MAX, Reason};

/// The result of a decoded session.
#[derive(Debug, PartialEq)]
struct Outcome {
    rows: Vec<String>,
    definitions: usize,
    refused: Vec<(Option<u8>, Reason, u64)>,
    is_refused: bool,
}

/// Reads octets as one session, at once and in pieces.
///
/// # Panics
/// The two differ, or more memory is held than a row may have.
pub fn check_session(octets: &[u8]) {
    let whole = read(octets, octets.len().max(1));
    // The network decides on the number of octets in a read.
    for piece in [1, 7, 4096] {
        let pieces = read(octets, piece);
        assert_eq!(whole, pieces, "pieces of {piece} octets make a difference");
    }
}

fn read(octets: &[u8], piece: usize) -> Outcome {
    let mut decoder = Decoder::default();
    let is_refused = octets.chunks(piece).any(|piece| {
        let outcome = decoder.feed(piece);
        assert!(
            decoder.pending_octets() <= ROW_OCTETS_MAX + 16,
            "more is held than a row"
        );
        outcome.is_err()
    });
    decoder.finish();
    let batch = decoder.take();
    let rows = batch.rows.iter().map(|row| {
        let cells: Vec<_> = row.cells().collect();
        format!("{} {} {:?} {cells:?}", row.stream, row.sequence, row.time_s)
    });
    Outcome {
        rows: rows.collect(),
        definitions: batch.definitions.len(),
        refused: batch.refused.iter().collect(),
        is_refused,
    }
}
