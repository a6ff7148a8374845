//! Header blocks on their way out, written one after the other into room that is taken at once.

use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::v7::forward::LastHop;
use dhow_bundle::{Header, HopEdit, SmallBuffer};

/// Room for header blocks that is taken at once, octets: of some hundred small bundles.
const HEADS_OCTETS: usize = 16 * 1024;

/// Room for header blocks on their way out: written here one after the other, and shared, not copied.
pub(crate) struct Heads {
    room: SmallBuffer,
    /// The header under construction.
    draft: Vec<u8>,
    last: LastHop,
}

impl Default for Heads {
    fn default() -> Self {
        Self {
            room: SmallBuffer::new(HEADS_OCTETS),
            draft: Vec::new(),
            last: LastHop::default(),
        }
    }
}

impl Heads {
    /// The header for the next hop, and octets of the bundle with it.
    pub(crate) fn forwarded(&mut self, header: &Header, edit: &HopEdit) -> (Bytes, u64) {
        self.draft.clear();
        let total = header.append_forwarded_as(edit, &mut self.last, &mut self.draft);
        self.room.reserve(self.draft.len());
        self.room.put(&self.draft);
        (self.room.give(), total)
    }
}
