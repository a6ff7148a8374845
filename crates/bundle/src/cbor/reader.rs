//! The reader: items out of a slice, strictly.

use alloc::borrow::Cow;
use alloc::string::String;

use super::array::Array;
use super::error::{CborError, Kind, MAX_DEPTH, kind_of};

/// Argument of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument {
    Value(u64),
    Indefinite,
}

/// Reads items from a slice, front to back.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    position: usize,
    takes_any_width: bool,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `octets`.
    #[must_use]
    pub const fn new(octets: &'a [u8]) -> Self {
        Self {
            rest: octets,
            position: 0,
            takes_any_width: false,
        }
    }

    /// One that takes heads that are longer than they need be: for formats whose standard does not ask for the shortest.
    #[must_use]
    pub const fn with_any_width(mut self) -> Self {
        self.takes_any_width = true;
        self
    }

    /// Octets read so far.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Octets not yet read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// True when everything was read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The kind of the next item; reads nothing.
    ///
    /// # Errors
    /// [`CborError::Incomplete`] when nothing comes.
    pub fn kind(&self) -> Result<Kind, CborError> {
        let octet = *self.rest.first().ok_or_else(|| self.incomplete(1))?;
        Ok(kind_of(octet))
    }

    /// An unsigned integer.
    ///
    /// # Errors
    /// Any other item, or octets missing.
    pub fn unsigned(&mut self) -> Result<u64, CborError> {
        self.definite(Kind::Unsigned)
    }

    /// True or false.
    ///
    /// # Errors
    /// Any other item, or octets missing.
    pub fn boolean(&mut self) -> Result<bool, CborError> {
        let at = self.offset();
        let value = match self.rest.first() {
            Some(0xf4) => false,
            Some(0xf5) => true,
            Some(_) => return Err(CborError::NotBoolean { at }),
            None => return Err(self.incomplete(1)),
        };
        self.octet()?;
        Ok(value)
    }

    /// The head of an array of either length.
    ///
    /// # Errors
    /// Any other item, or octets missing.
    pub fn array(&mut self) -> Result<Array, CborError> {
        Ok(match self.head_of(Kind::Array)? {
            Argument::Value(items) => Array::definite(items),
            Argument::Indefinite => Array::indefinite(),
        })
    }

    /// The head of a byte string of definite length: its length in octets, not yet read.
    ///
    /// # Errors
    /// Any other item, or octets missing.
    pub fn byte_string_head(&mut self) -> Result<u64, CborError> {
        self.definite(Kind::Bytes)
    }

    /// A byte string of definite length.
    ///
    /// # Errors
    /// Any other item, or octets missing.
    pub fn byte_string(&mut self) -> Result<&'a [u8], CborError> {
        let length = self.byte_string_head()?;
        self.take(length)
    }

    /// The next `length` octets, as they are.
    ///
    /// # Errors
    /// [`CborError::Incomplete`] when there are fewer.
    pub fn take_octets(&mut self, length: u64) -> Result<&'a [u8], CborError> {
        self.take(length)
    }

    /// A text string; borrowed when its length is definite, of at most `limit` octets.
    ///
    /// # Errors
    /// Any other item, octets missing, not UTF-8, or a longer string.
    pub fn text(&mut self, limit: u64) -> Result<Cow<'a, str>, CborError> {
        let at = self.offset();
        match self.head_of(Kind::Text)? {
            Argument::Value(length) => Ok(Cow::Borrowed(self.chunk(at, length, limit)?)),
            Argument::Indefinite => {
                let mut text = String::new();
                while self.kind()? != Kind::Break {
                    let at = self.offset();
                    let length = self.definite(Kind::Text)?;
                    let used = u64::try_from(text.len()).unwrap_or(u64::MAX);
                    // An empty chunk adds nothing: hostile strings of them are bounded by the octets seen.
                    text.push_str(self.chunk(at, length, limit.saturating_sub(used))?);
                }
                self.octet()?;
                Ok(Cow::Owned(text))
            }
        }
    }

    /// Reads over one item of any kind and what it contains, checking that it is well-formed and its
    /// heads are shortest. Order of map keys and width of floating-point numbers are not looked at: no
    /// field of the Bundle Protocol has either.
    ///
    /// # Errors
    /// Octets missing, an item not well-formed, or nesting deeper than [`MAX_DEPTH`].
    pub fn skip(&mut self) -> Result<(), CborError> {
        self.skip_within(MAX_DEPTH)
    }

    fn skip_within(&mut self, depth: usize) -> Result<(), CborError> {
        let at = self.offset();
        let Some(inner) = depth.checked_sub(1) else {
            return Err(CborError::TooDeep { at });
        };
        let kind = self.kind()?;
        if matches!(kind, Kind::Break) {
            return Err(CborError::NotWellFormed { at });
        }
        let argument = self.head_of(kind)?;
        match (kind, argument) {
            (Kind::Bytes | Kind::Text, Argument::Value(length)) => self.string(kind, at, length)?,
            (Kind::Bytes | Kind::Text, Argument::Indefinite) => {
                // RFC 8949 3.2.3: chunks are definite strings of the same major type.
                while self.kind()? != Kind::Break {
                    let at = self.offset();
                    let length = self.definite(kind)?;
                    self.string(kind, at, length)?;
                }
                self.octet()?;
            }
            (Kind::Array, Argument::Value(items)) => self.skip_items(items, inner)?,
            (Kind::Map, Argument::Value(pairs)) => {
                self.skip_items(pairs, inner)?;
                self.skip_items(pairs, inner)?;
            }
            (Kind::Array, Argument::Indefinite) => {
                while self.kind()? != Kind::Break {
                    self.skip_within(inner)?;
                }
                self.octet()?;
            }
            (Kind::Map, Argument::Indefinite) => {
                while self.kind()? != Kind::Break {
                    self.skip_within(inner)?;
                    self.skip_within(inner)?;
                }
                self.octet()?;
            }
            (Kind::Tag, _) => self.skip_within(inner)?,
            (Kind::Unsigned | Kind::Negative | Kind::Simple | Kind::Break, _) => {}
        }
        Ok(())
    }

    /// Each item takes an octet at least, so the octets seen bound the loop.
    fn skip_items(&mut self, items: u64, depth: usize) -> Result<(), CborError> {
        for _ in 0..items {
            self.skip_within(depth)?;
        }
        Ok(())
    }

    fn string(&mut self, kind: Kind, at: u64, length: u64) -> Result<(), CborError> {
        let octets = self.take(length)?;
        if kind == Kind::Text && core::str::from_utf8(octets).is_err() {
            return Err(CborError::NotUtf8 { at });
        }
        Ok(())
    }

    fn chunk(&mut self, at: u64, length: u64, limit: u64) -> Result<&'a str, CborError> {
        if length > limit {
            return Err(CborError::TooLong { at });
        }
        core::str::from_utf8(self.take(length)?).map_err(|_| CborError::NotUtf8 { at })
    }

    fn definite(&mut self, kind: Kind) -> Result<u64, CborError> {
        let at = self.offset();
        match self.head_of(kind)? {
            Argument::Value(value) => Ok(value),
            Argument::Indefinite => Err(CborError::Indefinite { at }),
        }
    }

    #[inline]
    fn head_of(&mut self, expected: Kind) -> Result<Argument, CborError> {
        let at = self.offset();
        let (first, rest) = self.rest.split_first().ok_or_else(|| self.incomplete(1))?;
        let found = kind_of(*first);
        if found != expected {
            return Err(CborError::Unexpected {
                expected,
                found,
                at,
            });
        }
        self.rest = rest;
        self.position += 1;
        // Most heads are one octet.
        match first & 0x1f {
            additional @ 0..=23 => Ok(Argument::Value(u64::from(additional))),
            additional => self.long_head(found, additional, at),
        }
    }

    fn long_head(&mut self, kind: Kind, additional: u8, at: u64) -> Result<Argument, CborError> {
        let (value, smallest) = match additional {
            24 => (u64::from(self.octet()?), 24),
            25 => (u64::from(u16::from_be_bytes(self.octets()?)), 0x100),
            26 => (u64::from(u32::from_be_bytes(self.octets()?)), 0x1_0000),
            27 => (u64::from_be_bytes(self.octets()?), 0x1_0000_0000),
            31 if matches!(kind, Kind::Bytes | Kind::Text | Kind::Array | Kind::Map) => {
                return Ok(Argument::Indefinite);
            }
            _ => return Err(CborError::NotWellFormed { at }),
        };
        if kind == Kind::Simple {
            // RFC 8949 3.3: two-octet simple values below 32 are not well-formed; longer arguments are
            // floating-point numbers, whose value says nothing about their width.
            if additional == 24 && value < 32 {
                return Err(CborError::NotWellFormed { at });
            }
        } else if value < smallest && !self.takes_any_width {
            // RFC 8949 4.2.1: the shortest argument.
            return Err(CborError::NotShortest { at });
        }
        Ok(Argument::Value(value))
    }

    pub(super) fn offset(&self) -> u64 {
        u64::try_from(self.position).unwrap_or(u64::MAX)
    }

    fn incomplete(&self, octets: u64) -> CborError {
        CborError::Incomplete {
            needed: self.offset().saturating_add(octets),
        }
    }

    pub(super) fn octet(&mut self) -> Result<u8, CborError> {
        let [octet] = self.octets::<1>()?;
        Ok(octet)
    }

    fn octets<const N: usize>(&mut self) -> Result<[u8; N], CborError> {
        let wanted = u64::try_from(N).unwrap_or(u64::MAX);
        let (octets, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or_else(|| self.incomplete(wanted))?;
        self.rest = rest;
        self.position += N;
        Ok(*octets)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], CborError> {
        let missing = self.incomplete(length);
        let length = usize::try_from(length).map_err(|_| missing)?;
        let (octets, rest) = self.rest.split_at_checked(length).ok_or(missing)?;
        self.rest = rest;
        self.position += length;
        Ok(octets)
    }
}
