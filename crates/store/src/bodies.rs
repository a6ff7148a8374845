//! Bodies of records while a log is opened: the first of them in memory, all others are read again where they lie, many at once.

use dhow_bundle::crc::crc32c;

use crate::walk::Window;
use crate::wire::index;

/// Times that a body is read again which does not come as it was.
const ATTEMPTS: u32 = 2;

/// A place among the bodies in memory that none has.
const NOWHERE: u32 = u32::MAX;

/// The place of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    /// The position in the log.
    position: u64,
    octets: u32,
    crc: u32,
    /// The position in memory.
    kept: u32,
}

impl Body {
    pub(crate) const fn octets(&self) -> u32 {
        self.octets
    }
}

/// The bodies that are in memory, of so many octets at most.
#[derive(Debug)]
pub(crate) struct Bodies {
    kept: Vec<u8>,
    bound: usize,
}

impl Bodies {
    pub(crate) fn with_bound(octets: u64) -> Self {
        Self {
            kept: Vec::new(),
            bound: index(octets.min(u64::from(NOWHERE))),
        }
    }

    /// Notes a body that was found at a position of the log.
    pub(crate) fn add(&mut self, position: u64, body: &[u8]) -> Body {
        let kept = self.kept.len();
        let fits = kept.saturating_add(body.len()) < self.bound;
        if fits {
            self.kept.extend_from_slice(body);
        }
        Body {
            position,
            octets: u32::try_from(body.len()).unwrap_or(u32::MAX),
            crc: if fits { 0 } else { crc32c(body) },
            kept: match fits {
                true => u32::try_from(kept).unwrap_or(NOWHERE),
                false => NOWHERE,
            },
        }
    }

    /// A body as it was found; `None` where the disk does not give it back.
    pub(crate) fn read<'a>(&'a self, body: &Body, window: &'a mut Window) -> Option<&'a [u8]> {
        if body.kept != NOWHERE {
            let start = index(body.kept);
            return self
                .kept
                .get(start..start.saturating_add(index(body.octets)));
        }
        let octets = u64::from(body.octets);
        for _ in 0..ATTEMPTS {
            match window.octets(body.position, octets) {
                Ok(Some(found)) if crc32c(found) == body.crc => break,
                _ => window.forget(),
            }
        }
        window.held(body.position, octets)
    }
}
