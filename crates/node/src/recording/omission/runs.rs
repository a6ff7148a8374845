//! Octets of which some are left out, as an item.

use alloc::vec::Vec;

use dhow_bundle::cbor::{BREAK, write_byte_string, write_indefinite_array, write_unsigned};

/// Runs of octets that are kept, and of such that are left out, in turn.
#[derive(Debug, Default)]
pub(in super::super) struct Runs {
    runs: Vec<u8>,
    kept: Vec<u8>,
    omitted: usize,
}

impl Runs {
    /// Keeps these octets, which come next.
    pub(super) fn keep(&mut self, octets: &[u8]) {
        if !octets.is_empty() {
            self.end_omitted();
            self.kept.extend_from_slice(octets);
        }
    }

    /// So many octets come next, for which zeros are to stand.
    pub(super) fn omit(&mut self, octets: usize) {
        if octets > 0 {
            self.end_kept();
            self.omitted = self.omitted.saturating_add(octets);
        }
    }

    /// Appends all of them to `out`, as an array of byte strings and of numbers of zeros, and begins anew.
    pub(in super::super) fn write(&mut self, out: &mut Vec<u8>) {
        self.end_omitted();
        self.end_kept();
        write_indefinite_array(out);
        out.append(&mut self.runs);
        out.push(BREAK);
    }

    fn end_kept(&mut self) {
        if !self.kept.is_empty() {
            write_byte_string(&mut self.runs, &self.kept);
            self.kept.clear();
        }
    }

    fn end_omitted(&mut self) {
        let omitted = core::mem::take(&mut self.omitted);
        if omitted > 0 {
            write_unsigned(&mut self.runs, u64::try_from(omitted).unwrap_or(u64::MAX));
        }
    }
}
