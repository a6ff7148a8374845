//! The index of bundles by identity: lists that run through their entries.
//!
//! Linear hashing (Litwin 1980): where there are more than two bundles a list, one list is divided into two, in a fixed order, so that the index grows
//! a little with each bundle and never as a whole. A list costs four octets, and four in each entry.

use alloc::vec::Vec;

use crate::held::bundles::Digest;
use crate::held::chain::END;

/// Lists that are allocated at once.
const SHEET: usize = 1024;

/// The first bundle of each list.
#[derive(Default)]
pub(super) struct Index {
    sheets: Vec<Vec<u32>>,
    lists: u32,
    /// The bits of a digest that tell lists apart: of those with this bit set that are not there yet, one bit less.
    mask: u32,
}

impl Index {
    /// Lists that there are.
    pub(super) fn lists(&self) -> u64 {
        u64::from(self.lists)
    }

    /// The list of a digest.
    fn list(&self, digest: Digest) -> u32 {
        match digest.bits() & self.mask {
            list if list < self.lists => list,
            list => list & (self.mask >> 1),
        }
    }

    /// The first bundle of a digest's list.
    pub(super) fn first(&self, digest: Digest) -> u32 {
        let (sheet, row) = split(self.list(digest));
        let first = self.sheets.get(sheet).and_then(|sheet| sheet.get(row));
        first.copied().unwrap_or(END)
    }

    /// The first one as by [`Self::first`], to change it.
    pub(super) fn first_mut(&mut self, digest: Digest) -> Option<&mut u32> {
        let (sheet, row) = split(self.list(digest));
        self.sheets.get_mut(sheet)?.get_mut(row)
    }

    /// Add a list: the first bundle of the list that is to be divided, that list, and the new one.
    pub(super) fn split(&mut self) -> (u32, [u32; 2]) {
        let new = self.lists;
        let (sheet, _) = split(new);
        if sheet == self.sheets.len() {
            let room = if sheet == 0 { 0 } else { SHEET };
            self.sheets.push(Vec::with_capacity(room));
        }
        if let Some(sheet) = self.sheets.last_mut() {
            sheet.push(END);
        }
        self.lists += 1;
        if new > self.mask {
            self.mask = self.mask << 1 | 1;
        }
        // The new list's number without its highest bit.
        let old = new.checked_ilog2().map_or(0, |bit| new & !(1 << bit));
        if new == 0 {
            return (END, [0; 2]);
        }
        let (sheet, row) = split(old);
        let first = self.sheets.get(sheet).and_then(|sheet| sheet.get(row));
        (first.copied().unwrap_or(END), [old, new])
    }

    pub(super) fn set_first(&mut self, list: u32, first: u32) {
        let (sheet, row) = split(list);
        if let Some(place) = self.sheets.get_mut(sheet).and_then(|it| it.get_mut(row)) {
            *place = first;
        }
    }
}

fn split(list: u32) -> (usize, usize) {
    let list = usize::try_from(list).unwrap_or(usize::MAX);
    (list / SHEET, list % SHEET)
}
