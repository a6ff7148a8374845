//! The bundles that one side of a session says and has heard, and how far each is acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::message::{END, Message, START};
use crate::oracle::voyage::Parcel;

/// Transfers that are remembered until they are answered.
const UNDER_WAY_MAX: usize = 65_536;

/// Something about a bundle that passes over a link.
#[derive(Clone, Debug)]
pub enum Seen {
    /// One side has said its blocks.
    Said(Arc<Parcel>),
    /// One side has said all of it, which is this.
    SaidWhole(Arc<Parcel>, Vec<u8>),
    /// One side sends octets that are no bundle.
    Nonsense(String),
    /// One side has heard its blocks.
    Heard(Arc<Parcel>),
    /// One side has heard all of it.
    HeardWhole(Arc<Parcel>),
    /// One side says that it has so many octets of it, or all.
    Acknowledges(Arc<Parcel>, u64),
    /// One side has heard that the other has so many octets of it, or all.
    Acknowledged(Arc<Parcel>, u64),
}

/// One direction of a session: the transfers in it.
#[derive(Debug, Default)]
pub struct Passage {
    current: Option<(u64, u8)>,
    octets: Vec<u8>,
    parcel: Option<Arc<Parcel>>,
    /// Whether the octets of the transfer under way were found to be no bundle.
    is_nonsense: bool,
    under_way: BTreeMap<u64, Arc<Parcel>>,
}

/// The part of a transfer's octets that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The blocks before the payload.
    Blocks,
    /// All.
    All,
}

impl Passage {
    /// A segment's head passes.
    pub fn begin(&mut self, message: &Message) {
        let Message::Segment(segment) = message else {
            return;
        };
        if segment.flags & START != 0 {
            self.octets.clear();
            self.parcel = None;
            self.is_nonsense = false;
        }
        self.current = Some((segment.transfer, segment.flags));
    }

    /// Octets of a segment pass; the bundle once its blocks are read.
    pub fn take(&mut self, octets: &[u8], keep: Keep) -> Option<Result<Arc<Parcel>, String>> {
        if keep == Keep::All || self.parcel.is_none() {
            self.octets.extend_from_slice(octets);
        }
        if self.parcel.is_some() || self.is_nonsense {
            return None;
        }
        let read = Parcel::read(&self.octets).transpose()?;
        self.is_nonsense = read.is_err();
        let parcel = read.map(Arc::new);
        if let Ok(parcel) = &parcel {
            self.parcel = Some(Arc::clone(parcel));
            if let Some((transfer, _)) = self.current {
                self.under_way.insert(transfer, Arc::clone(parcel));
                if self.under_way.len() > UNDER_WAY_MAX {
                    self.under_way.pop_first();
                }
            }
        }
        Some(parcel)
    }

    /// A segment has passed; the bundle where it was the last of it, with what was kept.
    pub fn end(&mut self) -> Option<(Arc<Parcel>, Vec<u8>)> {
        let (_, flags) = self.current?;
        if flags & END == 0 {
            return None;
        }
        let parcel = self.parcel.take()?;
        Some((parcel, std::mem::take(&mut self.octets)))
    }

    /// A transfer is acknowledged so far, or to its end.
    pub fn acknowledged(&mut self, flags: u8, transfer: u64) -> Option<Arc<Parcel>> {
        match flags & END {
            0 => self.under_way.get(&transfer).cloned(),
            _ => self.under_way.remove(&transfer),
        }
    }

    /// A transfer is refused.
    pub fn refused(&mut self, transfer: u64) -> Option<Arc<Parcel>> {
        self.under_way.remove(&transfer)
    }

    /// Whether transfers wait for an answer.
    pub fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }
}
