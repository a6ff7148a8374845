//! Octets of which long runs of zeros are only counted: the form of bundles where payloads are lengths.

use bytes::{Bytes, BytesMut};

/// Zeros are looked for in blocks of so many octets; a few at the ends of a run are kept as octets.
const BLOCK_OCTETS: usize = 64;

/// Up to so many octets are given out in one piece.
const JOINED_OCTETS: u64 = 1024;

/// All zeros that are ever given out are slices of these.
static ZEROS: [u8; 256 * 1024] = [0; 256 * 1024];

/// Octets, with their long runs of zeros as numbers.
#[derive(Clone, Debug, Default)]
pub struct Sparse {
    runs: Vec<Run>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Run {
    Octets(Box<[u8]>),
    Zeros(u64),
}

impl Run {
    fn octets(&self) -> u64 {
        match self {
            Self::Octets(octets) => count(octets.len()),
            Self::Zeros(octets) => *octets,
        }
    }

    /// Whether no octet differs from zero; of many octets nothing is said.
    fn is_zero(&self) -> bool {
        match self {
            Self::Octets(octets) => {
                octets.len() < 2 * BLOCK_OCTETS && octets.iter().all(|octet| *octet == 0)
            }
            Self::Zeros(_) => true,
        }
    }

    /// Its part from one place to another.
    fn part(&self, from: u64, to: u64) -> Self {
        match self {
            Self::Zeros(_) => Self::Zeros(to - from),
            Self::Octets(octets) => {
                let part = octets.get(place(from)..place(to));
                Self::Octets(part.unwrap_or_default().into())
            }
        }
    }
}

/// So many zeros, in pieces.
pub fn zeros(octets: u64) -> impl Iterator<Item = Bytes> {
    let mut left = octets;
    std::iter::from_fn(move || {
        let piece = ZEROS.get(..place(left).min(ZEROS.len()))?;
        left -= count(piece.len());
        (!piece.is_empty()).then(|| Bytes::from_static(piece))
    })
}

impl Sparse {
    /// Octets in all.
    #[must_use]
    pub fn octets(&self) -> u64 {
        self.runs.iter().map(Run::octets).sum()
    }

    /// Octets that come behind; nothing of the buffer that they are in is kept.
    pub fn push(&mut self, octets: &[u8]) {
        // Payloads that were given out as zeros come back so: their place says what they are.
        if ZEROS.as_ptr_range().contains(&octets.as_ptr()) {
            self.add(Run::Zeros(count(octets.len())));
            return;
        }
        let mut kept = Vec::new();
        for block in octets.chunks(BLOCK_OCTETS) {
            if block == [0; BLOCK_OCTETS] {
                self.add(Run::Octets(std::mem::take(&mut kept).into()));
                self.add(Run::Zeros(count(block.len())));
            } else {
                kept.extend_from_slice(block);
            }
        }
        self.add(Run::Octets(kept.into()));
    }

    /// Adds octets that have been made already at the end.
    pub fn append(&mut self, other: Self) {
        other.runs.into_iter().for_each(|run| self.add(run));
    }

    fn add(&mut self, run: Run) {
        match (self.runs.last_mut(), run) {
            (_, run) if run.octets() == 0 => {}
            (Some(Run::Zeros(before)), Run::Zeros(more)) => *before += more,
            (_, run) => self.runs.push(run),
        }
    }

    /// The octets from `start` on, `length` at most.
    #[must_use]
    pub fn part(&self, start: u64, length: u64) -> Self {
        let end = start.saturating_add(length);
        let mut part = Self::default();
        let mut position = 0;
        for run in &self.runs {
            let next = position + run.octets();
            let (from, to) = (start.max(position), end.min(next));
            if from < to {
                part.add(run.part(from - position, to - position));
            }
            position = next;
        }
        part
    }

    /// All octets, in one piece; zeros alone take no memory.
    #[must_use]
    pub fn join(&self) -> Bytes {
        if self.runs.iter().all(Run::is_zero)
            && let Some(zeros) = ZEROS.get(..place(self.octets()))
        {
            return Bytes::from_static(zeros);
        }
        let mut all = BytesMut::with_capacity(place(self.octets()));
        for run in &self.runs {
            match run {
                Run::Octets(octets) => all.extend_from_slice(octets),
                Run::Zeros(octets) => all.resize(all.len() + place(*octets), 0),
            }
        }
        all.freeze()
    }

    /// All octets: few of them in one piece, and of many the zeros without memory.
    #[must_use]
    pub fn pieces(&self) -> Vec<Bytes> {
        if self.octets() <= JOINED_OCTETS {
            return vec![self.join()];
        }
        let pieces = self.runs.iter().flat_map(|run| {
            let (octets, none) = match run {
                Run::Octets(octets) => (Some(Bytes::copy_from_slice(octets)), 0),
                Run::Zeros(octets) => (None, *octets),
            };
            octets.into_iter().chain(zeros(none))
        });
        pieces.collect()
    }
}

fn count(octets: usize) -> u64 {
    u64::try_from(octets).unwrap_or(u64::MAX)
}

fn place(octets: u64) -> usize {
    usize::try_from(octets).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_come_back_as_they_were_and_zeros_take_no_memory() {
        let mut whole = vec![7; 100];
        whole.resize(300_000, 0);
        whole.extend([9; 30]);
        let mut sparse = Sparse::default();
        for piece in whole.chunks(70_001) {
            sparse.push(piece);
        }
        assert_eq!(sparse.octets(), 300_030);
        assert_eq!(&sparse.join()[..], whole);
        let zeros = sparse.part(90, 250_000).join();
        let other = sparse.part(200, 250_000).join();
        assert_eq!(zeros.len(), 250_000);
        assert_ne!(zeros.as_ptr(), other.as_ptr(), "the first ten are none");
        assert!(
            ZEROS.as_ptr_range().contains(&other.as_ptr()),
            "they take no memory"
        );
        let mut again = Sparse::default();
        again.push(&other);
        assert_eq!(again.runs, [Run::Zeros(250_000)]);
        assert_eq!(sparse.pieces().concat(), whole);
        let kept = sparse.runs.iter().map(|run| match run {
            Run::Octets(octets) => octets.len(),
            Run::Zeros(_) => 0,
        });
        assert!(kept.sum::<usize>() < 100 + 30 + 12 * BLOCK_OCTETS);
        for (start, length) in [
            (0, 5),
            (90, 20),
            (100, 1),
            (299_990, 50),
            (300_029, 9),
            (5, 0),
        ] {
            let end = whole.len().min(start + length);
            let part = sparse.part(count(start), count(length));
            assert_eq!(
                &part.join()[..],
                &whole[start..end],
                "{length} from {start}"
            );
        }
    }
}
