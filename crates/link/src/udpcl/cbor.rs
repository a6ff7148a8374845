//! CBOR as extension maps may use it (RFC 8949): heads of any length and order, definite or not. The reader of
//! bundles is stricter, since bundles must be in deterministic encoding and extension maps need not.

/// Items that may lie inside each other in a value that is skipped.
const MAX_DEPTH: usize = 8;

/// The octets are not well-formed CBOR, or not what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// A head: major type and argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Unsigned(u64),
    /// The value is -1 less this.
    Negative(u64),
    Bytes(Length),
    Text(Length),
    Array(Length),
    Map(Length),
    Tag,
    Simple,
    Break,
}

/// The number of octets, items or pairs; `None` where a break ends them.
pub(super) type Length = Option<u64>;

/// Reads items from a slice, front to back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    /// Octets not read yet.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn head(&mut self) -> Result<Head, Malformed> {
        let first = self.octet()?;
        let argument = match first & 0x1f {
            short @ 0..=23 => Some(u64::from(short)),
            24 => Some(u64::from(self.octet()?)),
            25 => Some(u64::from(u16::from_be_bytes(self.octets()?))),
            26 => Some(u64::from(u32::from_be_bytes(self.octets()?))),
            27 => Some(u64::from_be_bytes(self.octets()?)),
            31 => None,
            _ => return Err(Malformed),
        };
        match (first >> 5, argument) {
            (0, Some(value)) => Ok(Head::Unsigned(value)),
            (1, Some(value)) => Ok(Head::Negative(value)),
            (2, length) => Ok(Head::Bytes(length)),
            (3, length) => Ok(Head::Text(length)),
            (4, length) => Ok(Head::Array(length)),
            (5, length) => Ok(Head::Map(length)),
            (6, Some(_)) => Ok(Head::Tag),
            // RFC 8949 3.3: simple values below 32 have one octet.
            (7, Some(value)) if first & 0x1f != 24 || value >= 32 => Ok(Head::Simple),
            (7, None) => Ok(Head::Break),
            _ => Err(Malformed),
        }
    }

    pub(super) fn unsigned(&mut self) -> Result<u64, Malformed> {
        match self.head()? {
            Head::Unsigned(value) => Ok(value),
            _ => Err(Malformed),
        }
    }

    /// An integer of either sign; one that `i64` cannot hold is malformed.
    pub(super) fn integer(&mut self) -> Result<i64, Malformed> {
        match self.head()? {
            Head::Unsigned(value) => i64::try_from(value).map_err(|_| Malformed),
            Head::Negative(value) => i64::try_from(value)
                .map(|value| !value)
                .map_err(|_| Malformed),
            _ => Err(Malformed),
        }
    }

    /// A byte string of definite length.
    pub(super) fn byte_string(&mut self) -> Result<&'a [u8], Malformed> {
        match self.head()? {
            Head::Bytes(Some(length)) => self.take(length),
            _ => Err(Malformed),
        }
    }

    /// A text string of definite length, of at most `most` octets.
    pub(super) fn text(&mut self, most: u64) -> Result<&'a str, Malformed> {
        match self.head()? {
            Head::Text(Some(length)) if length <= most => {
                core::str::from_utf8(self.take(length)?).map_err(|_| Malformed)
            }
            _ => Err(Malformed),
        }
    }

    /// The items of an array, each as its octets.
    pub(super) fn array(&mut self) -> Result<Items<'a, '_>, Malformed> {
        match self.head()? {
            Head::Array(left) => Ok(Items { reader: self, left }),
            _ => Err(Malformed),
        }
    }

    /// The items of a map: keys and values by turns.
    pub(super) fn map(&mut self) -> Result<Items<'a, '_>, Malformed> {
        match self.head()? {
            Head::Map(pairs) => {
                let left = match pairs {
                    Some(pairs) => Some(pairs.checked_mul(2).ok_or(Malformed)?),
                    None => None,
                };
                Ok(Items { reader: self, left })
            }
            _ => Err(Malformed),
        }
    }

    /// One item of any kind with all that it contains: its octets.
    fn item(&mut self) -> Result<&'a [u8], Malformed> {
        let whole = self.rest;
        self.skip(MAX_DEPTH)?;
        let length = whole.len().saturating_sub(self.rest.len());
        whole.get(..length).ok_or(Malformed)
    }

    /// True when a break comes next, which is then read.
    fn take_break(&mut self) -> bool {
        match self.rest.split_first() {
            Some((0xff, rest)) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn skip(&mut self, depth: usize) -> Result<(), Malformed> {
        let inner = depth.checked_sub(1).ok_or(Malformed)?;
        match self.head()? {
            Head::Unsigned(_) | Head::Negative(_) | Head::Simple => Ok(()),
            Head::Break => Err(Malformed),
            Head::Tag => self.skip(inner),
            Head::Bytes(Some(length)) | Head::Text(Some(length)) => self.take(length).map(drop),
            Head::Array(Some(items)) => self.skip_items(items, inner),
            Head::Map(Some(pairs)) => {
                self.skip_items(pairs, inner)?;
                self.skip_items(pairs, inner)
            }
            Head::Bytes(None) => self.skip_chunks(|head| matches!(head, Head::Bytes(Some(_)))),
            Head::Text(None) => self.skip_chunks(|head| matches!(head, Head::Text(Some(_)))),
            Head::Array(None) => {
                while !self.take_break() {
                    self.skip(inner)?;
                }
                Ok(())
            }
            Head::Map(None) => {
                while !self.take_break() {
                    self.skip(inner)?;
                    self.skip(inner)?;
                }
                Ok(())
            }
        }
    }

    /// Each item has an octet at least, so the octets that are there bound the loop.
    fn skip_items(&mut self, items: u64, depth: usize) -> Result<(), Malformed> {
        for _ in 0..items {
            self.skip(depth)?;
        }
        Ok(())
    }

    /// RFC 8949 3.2.3: chunks are definite strings of the same major type.
    fn skip_chunks(&mut self, is_chunk: fn(&Head) -> bool) -> Result<(), Malformed> {
        while !self.take_break() {
            match self.head()? {
                head if !is_chunk(&head) => return Err(Malformed),
                Head::Bytes(Some(length)) | Head::Text(Some(length)) => drop(self.take(length)?),
                _ => return Err(Malformed),
            }
        }
        Ok(())
    }

    fn octet(&mut self) -> Result<u8, Malformed> {
        let [octet] = self.octets()?;
        Ok(octet)
    }

    fn octets<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (octets, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*octets)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let (octets, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(octets)
    }
}

/// The items of an array or map, one after another. To be read to their end.
pub(super) struct Items<'a, 'r> {
    reader: &'r mut Reader<'a>,
    left: Length,
}

impl<'a> Items<'a, '_> {
    /// A reader of the next item alone; `None` behind the last.
    pub(super) fn next(&mut self) -> Result<Option<Reader<'a>>, Malformed> {
        match &mut self.left {
            Some(0) => return Ok(None),
            Some(left) => *left = left.saturating_sub(1),
            None if self.reader.take_break() => {
                self.left = Some(0);
                return Ok(None);
            }
            None => {}
        }
        self.reader.item().map(|octets| Some(Reader::new(octets)))
    }

    /// A reader of the next item, which must be there.
    pub(super) fn required(&mut self) -> Result<Reader<'a>, Malformed> {
        self.next()?.ok_or(Malformed)
    }

    /// No item may follow.
    pub(super) fn end(mut self) -> Result<(), Malformed> {
        match self.next()? {
            None => Ok(()),
            Some(_) => Err(Malformed),
        }
    }
}
