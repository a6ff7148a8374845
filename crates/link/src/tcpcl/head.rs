//! Heads of messages out of a stream in any chunking: incomplete ones are kept, all others are read where they lie.

use alloc::vec::Vec;

use bytes::{Buf, Bytes};

/// The beginning of a head whose rest has not arrived. No more is kept than one head has, which its decoder bounds.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    partial: Vec<u8>,
}

impl Heads {
    /// Nothing is kept: the next head begins with the next chunk.
    pub(crate) const fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// Decode a head from what is kept of it and the chunk; `None` when the chunk is used up.
    pub(crate) fn next<T, F>(
        &mut self,
        chunk: &mut Bytes,
        decode: fn(&mut Reader<'_>) -> Result<T, Stop<F>>,
    ) -> Result<Option<T>, F> {
        if self.partial.is_empty() {
            let mut reader = Reader::new(chunk);
            return match decode(&mut reader) {
                Ok(head) => {
                    let used = reader.used();
                    chunk.advance(used);
                    Ok(Some(head))
                }
                Err(Stop::Short(_)) => {
                    self.partial.extend_from_slice(chunk);
                    chunk.clear();
                    Ok(None)
                }
                Err(Stop::Fault(fault)) => Err(fault),
            };
        }
        // Each turn takes as many octets as the head is known to need, so none beyond it is copied,
        // and the loop ends with the chunk.
        loop {
            match decode(&mut Reader::new(&self.partial)) {
                Ok(head) => {
                    self.partial.clear();
                    return Ok(Some(head));
                }
                Err(Stop::Fault(fault)) => return Err(fault),
                Err(Stop::Short(missing)) => {
                    let taken = missing.min(chunk.len());
                    if taken == 0 {
                        return Ok(None);
                    }
                    self.partial.extend_from_slice(&chunk.split_to(taken));
                }
            }
        }
    }
}

/// Why decoding stopped.
pub(crate) enum Stop<F> {
    /// At least this many octets more are needed.
    Short(usize),
    /// The octets break a rule.
    Fault(F),
}

/// Reads fields from the front of some octets.
pub(crate) struct Reader<'a> {
    all: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    const fn new(octets: &'a [u8]) -> Self {
        Self {
            all: octets.len(),
            rest: octets,
        }
    }

    const fn used(&self) -> usize {
        self.all - self.rest.len()
    }

    pub(crate) fn array<const N: usize, F>(&mut self) -> Result<[u8; N], Stop<F>> {
        let Some((field, rest)) = self.rest.split_first_chunk() else {
            return Err(Stop::Short(N - self.rest.len()));
        };
        self.rest = rest;
        Ok(*field)
    }

    pub(crate) fn octets<F>(&mut self, length: usize) -> Result<&'a [u8], Stop<F>> {
        let Some((field, rest)) = self.rest.split_at_checked(length) else {
            return Err(Stop::Short(length - self.rest.len()));
        };
        self.rest = rest;
        Ok(field)
    }

    pub(crate) fn u8<F>(&mut self) -> Result<u8, Stop<F>> {
        self.array().map(|[octet]| octet)
    }

    pub(crate) fn u16<F>(&mut self) -> Result<u16, Stop<F>> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u64<F>(&mut self) -> Result<u64, Stop<F>> {
        self.array().map(u64::from_be_bytes)
    }
}
