//! [`ShortOctets`]: a few octets that need no memory of their own.

use core::fmt;
use core::ops::Deref;

/// Up to `MOST` octets, at most 255, in place.
#[derive(Clone, Copy)]
pub struct ShortOctets<const MOST: usize> {
    octets: [u8; MOST],
    length: u8,
}

impl<const MOST: usize> ShortOctets<MOST> {
    /// A value of these octets; `None` where they are too many.
    pub(crate) fn new(octets: &[u8]) -> Option<Self> {
        let mut kept = Self::default();
        kept.octets.get_mut(..octets.len())?.copy_from_slice(octets);
        kept.length = u8::try_from(octets.len()).ok()?;
        Some(kept)
    }
}

impl<const MOST: usize> Default for ShortOctets<MOST> {
    fn default() -> Self {
        Self {
            octets: [0; MOST],
            length: 0,
        }
    }
}

impl<const MOST: usize> Deref for ShortOctets<MOST> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let length = usize::from(self.length);
        self.octets.get(..length).unwrap_or_default()
    }
}

impl<const MOST: usize> PartialEq for ShortOctets<MOST> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<const MOST: usize> Eq for ShortOctets<MOST> {}

impl<const MOST: usize> fmt::Debug for ShortOctets<MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", &**self)
    }
}
