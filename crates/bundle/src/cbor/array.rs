//! Arrays of definite and indefinite length, read item by item.

use super::error::{CborError, Kind};
use super::reader::Reader;

/// An array that is being read: counts the items left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// Items left; `None` for an indefinite length.
    left: Option<u64>,
}

impl Array {
    /// An array of so many items.
    pub(super) const fn definite(items: u64) -> Self {
        Self { left: Some(items) }
    }

    /// An array that a break ends.
    pub(super) const fn indefinite() -> Self {
        Self { left: None }
    }

    /// The number of items left, where the length is definite.
    #[must_use]
    pub const fn left(&self) -> Option<u64> {
        self.left
    }

    /// True when the array ends with a break.
    #[must_use]
    pub const fn is_indefinite(&self) -> bool {
        self.left.is_none()
    }

    /// Takes up the next item: true when there is one, false at the end (whose break is then read).
    ///
    /// # Errors
    /// [`CborError::Incomplete`] when the octets end here.
    pub fn next(&mut self, reader: &mut Reader<'_>) -> Result<bool, CborError> {
        match &mut self.left {
            Some(0) => Ok(false),
            Some(left) => {
                *left -= 1;
                Ok(true)
            }
            None if reader.kind()? == Kind::Break => {
                reader.octet()?;
                self.left = Some(0);
                Ok(false)
            }
            None => Ok(true),
        }
    }

    /// Requires another item.
    ///
    /// # Errors
    /// [`CborError::ArrayLength`] at the array's end.
    pub fn item(&mut self, reader: &mut Reader<'_>) -> Result<(), CborError> {
        if self.next(reader)? {
            Ok(())
        } else {
            Err(CborError::ArrayLength {
                at: reader.offset(),
            })
        }
    }

    /// Requires the array's end.
    ///
    /// # Errors
    /// [`CborError::ArrayLength`] when there is another item.
    pub fn end(&mut self, reader: &mut Reader<'_>) -> Result<(), CborError> {
        if self.next(reader)? {
            Err(CborError::ArrayLength {
                at: reader.offset(),
            })
        } else {
            Ok(())
        }
    }
}
