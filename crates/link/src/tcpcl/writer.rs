//! The gather list under construction.

use bytes::BytesMut;
use dhow_bundle::SmallBuffer;
use dhow_bundle::storage::Piece;

use crate::stream::Gather;

/// Pieces of at most this many octets are copied beside the message heads around them: an entry of
/// its own in a gather-write costs more than copying so few octets does.
const COPIED_OCTETS: usize = 256;

/// Room for heads that is taken at once, octets.
pub(crate) const HEAD_ROOM: usize = 16 * 1024;

/// A message of one version of the protocol, as octets.
pub(crate) trait Encode {
    /// Write the message; of one that carries data all but these.
    fn encode(&self, out: &mut BytesMut);
}

/// Writes messages and data to a gather list, up to a limit, with as few entries as possible.
pub(crate) struct Writer<'a> {
    heads: &'a mut SmallBuffer,
    out: &'a mut Gather,
    limit: u64,
    written: u64,
}

impl<'a> Writer<'a> {
    /// Write to `out`, about `limit` octets; `heads` is empty and keeps room between calls.
    pub(crate) fn new(heads: &'a mut SmallBuffer, out: &'a mut Gather, limit: usize) -> Self {
        Self {
            heads,
            out,
            limit: u64::try_from(limit).unwrap_or(u64::MAX),
            written: 0,
        }
    }

    /// Octets that the limit still allows.
    pub(crate) const fn room(&self) -> u64 {
        self.limit.saturating_sub(self.written)
    }

    /// Nothing has been written yet.
    pub(crate) const fn is_untouched(&self) -> bool {
        self.written == 0
    }

    /// Add a message (of one that carries data all but these).
    pub(crate) fn message(&mut self, message: &impl Encode) {
        self.reserve(64);
        let before = self.heads.len();
        message.encode(self.heads.open());
        self.count(self.heads.len().saturating_sub(before));
    }

    /// Add all of some octets that hold whole messages.
    pub(crate) fn take(&mut self, messages: &mut BytesMut) {
        if !messages.is_empty() {
            self.copy(messages);
            messages.clear();
        }
    }

    /// Add data.
    pub(crate) fn piece(&mut self, piece: Piece) {
        match piece {
            Piece::Octets(octets) if octets.len() <= COPIED_OCTETS => self.copy(&octets),
            piece => {
                self.written = self.written.saturating_add(piece.length());
                self.flush();
                self.out.push(piece);
            }
        }
    }

    /// Move everything written so far to the gather list.
    pub(crate) fn flush(&mut self) {
        if !self.heads.is_empty() {
            self.out.push(Piece::Octets(self.heads.give()));
        }
    }

    fn copy(&mut self, octets: &[u8]) {
        self.reserve(octets.len());
        self.heads.put(octets);
        self.count(octets.len());
    }

    fn reserve(&mut self, octets: usize) {
        if !self.heads.has(octets) {
            // Written octets go out as they are: more room behind it would mean copying it.
            self.flush();
            self.heads.reserve(octets);
        }
    }

    fn count(&mut self, octets: usize) {
        self.written = self
            .written
            .saturating_add(u64::try_from(octets).unwrap_or(u64::MAX));
    }
}
