//! [`Place`]: the part of its application data unit that a bundle had when it crossed.

use alloc::vec::Vec;

use crate::cbor::{CborError, Reader, write_array, write_unsigned};

/// Octets of the application data unit, from `first` up to but not including `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) first: u64,
    pub(super) end: u64,
}

impl Place {
    /// The place of a payload of `octets` at `offset`.
    pub(super) const fn new(offset: u64, octets: u64) -> Self {
        Self {
            first: offset,
            end: offset.saturating_add(octets),
        }
    }

    /// The first octet, and the one behind the last.
    pub(super) const fn bounds(self) -> (u64, u64) {
        (self.first, self.end)
    }

    /// Appends `[first, end]`, or `[]` for none.
    pub(super) fn encode(place: Option<Self>, out: &mut Vec<u8>) {
        match place {
            None => write_array(out, 0),
            Some(place) => {
                write_array(out, 2);
                write_unsigned(out, place.first);
                write_unsigned(out, place.end);
            }
        }
    }

    /// Reads what [`Self::encode`] writes.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Self>, CborError> {
        let mut array = reader.array()?;
        if !array.next(reader)? {
            return Ok(None);
        }
        let first = reader.unsigned()?;
        array.item(reader)?;
        let end = reader.unsigned()?;
        array.end(reader)?;
        Ok(Some(Self { first, end }))
    }
}
