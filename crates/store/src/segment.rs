//! The log's segments: their content, and those that may be written over (docs/store-format.md 7).

/// The use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Nothing in it is needed.
    Free,
    /// Records are being written to it.
    Head,
    /// The segment is finished.
    Sealed,
}

/// One segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) usage: Usage,
    pub(crate) generation: u64,
    /// Octets used by records.
    pub(crate) end: u32,
    /// Octets that have their room on the disk: records go no further. Without any, the segment is a place in the log alone.
    pub(crate) filled: u32,
    /// Offset of the seal record; 0 without one.
    pub(crate) seal: u32,
    /// Offsets of commit records, rising.
    commits: Vec<u32>,
    /// One bit for each of `commits`: it is a live bundle's.
    live: Vec<u64>,
    live_commits: u32,
    /// The place in `commits` where the search for the next that goes begins: they mostly go in order.
    next: usize,
    /// Commit records and extents of bundles that are not durably gone.
    references: u64,
    /// Octets of these records and extents.
    pub(crate) live_octets: u64,
    /// The log's newest generation when something here was last let go of.
    pub(crate) touched: u64,
    /// Of the references, those of bundles that are still arriving or that readers may use at a former place.
    pub(crate) pinned: u64,
}

impl Segment {
    /// A segment that holds nothing.
    pub(crate) fn empty(filled: u32) -> Self {
        Self {
            usage: Usage::Free,
            generation: 0,
            end: 0,
            filled,
            seal: 0,
            commits: Vec::new(),
            live: Vec::new(),
            live_commits: 0,
            next: 0,
            references: 0,
            live_octets: 0,
            touched: 0,
            pinned: 0,
        }
    }

    /// Begins a new use.
    fn begin(&mut self, generation: u64) {
        assert!(
            self.usage == Usage::Free && self.references == 0,
            "only a segment that nothing refers to is begun"
        );
        *self = Self {
            usage: Usage::Head,
            generation,
            touched: generation,
            ..Self::empty(self.filled)
        };
    }

    /// Notes a live commit record; offsets rise.
    pub(crate) fn add_commit(&mut self, offset: u32) {
        let bit = self.commits.len();
        self.commits.push(offset);
        if self.live.len() <= bit / 64 {
            self.live.push(0);
        }
        self.mark(bit, true);
    }

    /// Notes that a commit record no longer counts, or that it does again.
    pub(crate) fn turn_commit(&mut self, offset: u32, turn: Turn) {
        let expected = self.commits.get(self.next) == Some(&offset);
        let found = if expected {
            Ok(self.next)
        } else {
            self.commits.binary_search(&offset)
        };
        if let Ok(bit) = found {
            self.mark(bit, turn == Turn::Live);
            self.next = bit + 1;
        }
    }

    fn mark(&mut self, bit: usize, live: bool) {
        let mask = 1_u64 << (bit % 64);
        let Some(word) = self.live.get_mut(bit / 64) else {
            return;
        };
        match (live, *word & mask != 0) {
            (true, false) => {
                *word |= mask;
                self.live_commits += 1;
            }
            (false, true) => {
                *word &= !mask;
                self.live_commits -= 1;
            }
            _ => {}
        }
    }

    /// The number of commit records of live bundles.
    pub(crate) fn live_commits(&self) -> u32 {
        self.live_commits
    }

    /// Offsets of the commit records of live bundles, rising.
    pub(crate) fn live_offsets(&self) -> impl Iterator<Item = u32> + '_ {
        let live = |bit: usize| {
            self.live
                .get(bit / 64)
                .is_some_and(|word| *word & (1 << (bit % 64)) != 0)
        };
        self.commits
            .iter()
            .enumerate()
            .filter(move |(bit, _)| live(*bit))
            .map(|(_, offset)| *offset)
    }

    /// Forgets commit records from `end` on, which never became durable.
    pub(crate) fn cut(&mut self, end: u32) {
        while self.commits.last().is_some_and(|offset| *offset >= end) {
            let bit = self.commits.len() - 1;
            self.mark(bit, false);
            self.commits.pop();
        }
        self.end = self.end.min(end);
        self.seal = 0;
        self.usage = Usage::Sealed;
    }

    /// The part of it that is live: 1024 for all.
    pub(crate) fn share(&self) -> u64 {
        self.live_octets.saturating_mul(1024) / u64::from(self.filled.max(1))
    }

    fn is_dead(&self) -> bool {
        self.usage == Usage::Sealed && self.references == 0
    }

    /// Octets of memory that the tables take.
    pub(crate) fn memory_octets(&self) -> usize {
        self.commits.capacity() * size_of::<u32>() + self.live.capacity() * size_of::<u64>()
    }
}

/// The fate of a commit record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Live,
    Dead,
}

/// Octets of one segment that something refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) segment: u32,
    pub(crate) octets: u64,
}

/// All segments of a log.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    list: Vec<Segment>,
    /// Free segments; the one freed last, which is most likely still in the page cache, is used first.
    free: Vec<u32>,
    /// Segments without room on the disk.
    vacant: Vec<u32>,
    /// The smallest that is used has so many octets.
    unit: u32,
    /// Octets of all that have their room on the disk.
    allocated: u64,
    /// Octets that something refers to.
    live_octets: u64,
    /// Most of these at once.
    most_octets: u64,
    dead: usize,
    /// Segments in which nothing is live any more, since that was last asked for.
    emptied: Vec<u32>,
    /// The highest generation of any.
    newest: u64,
}

impl Segments {
    /// None yet, the smallest of which is to have so many octets.
    pub(crate) fn new(unit: u32) -> Self {
        Self {
            unit,
            ..Self::default()
        }
    }

    /// Octets of the smallest that is used.
    pub(crate) fn unit_octets(&self) -> u32 {
        self.unit
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Finished segments with nothing live that wait for a checkpoint.
    pub(crate) fn dead(&self) -> usize {
        self.dead
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        (0_u32..).zip(self.list.iter())
    }

    pub(crate) fn at(&self, segment: u32) -> Option<&Segment> {
        self.list.get(crate::wire::index(segment))
    }

    pub(crate) fn at_mut(&mut self, segment: u32) -> Option<&mut Segment> {
        self.list.get_mut(crate::wire::index(segment))
    }

    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// Begins a new use of a segment.
    pub(crate) fn begin(&mut self, segment: u32, generation: u64) {
        self.newest = self.newest.max(generation);
        // Octets that are written there from now on are wanted.
        self.emptied.retain(|emptied| *emptied != segment);
        if let Some(segment) = self.at_mut(segment) {
            segment.begin(generation);
        }
    }

    /// Adds a segment behind the others.
    pub(crate) fn add(&mut self, mut segment: Segment) {
        if segment.usage == Usage::Free && segment.filled < self.unit {
            segment.filled = 0;
        }
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.dead += usize::from(segment.is_dead());
        self.allocated += u64::from(segment.filled);
        match (segment.usage, segment.filled) {
            (Usage::Free, 0) => self.vacant.push(number),
            (Usage::Free, _) => self.free.push(number),
            _ => {}
        }
        self.list.push(segment);
    }

    /// The place in the log where a segment can get room: one that has none, or the one behind all others.
    pub(crate) fn next_place(&self) -> Option<u32> {
        let behind = || u32::try_from(self.list.len()).ok();
        self.vacant.last().copied().or_else(behind)
    }

    /// A segment at [`Segments::next_place`] has its room, and is free. It is used after all others.
    pub(crate) fn settle(&mut self, number: u32, filled: u32) {
        self.vacant.retain(|vacant| *vacant != number);
        self.free.insert(0, number);
        self.allocated += u64::from(filled);
        match self.at_mut(number) {
            Some(segment) => *segment = Segment::empty(filled),
            None => self.list.push(Segment::empty(filled)),
        }
    }

    /// Free segments of which the disk has no room after all are places alone.
    pub(crate) fn vacate(&mut self, mut has_room: impl FnMut(u32, &Segment) -> bool) {
        for number in std::mem::take(&mut self.free) {
            let Some(segment) = self.list.get_mut(crate::wire::index(number)) else {
                continue;
            };
            if has_room(number, segment) {
                self.free.push(number);
            } else {
                self.allocated -= u64::from(segment.filled);
                *segment = Segment::empty(0);
                self.vacant.push(number);
            }
        }
    }

    /// Octets of the log that have their room.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Most octets of records of bundles that there were at once.
    pub(crate) fn most_octets(&self) -> u64 {
        self.most_octets
    }

    /// Octets of free segments.
    pub(crate) fn free_octets(&self) -> u64 {
        let filled = |number: &u32| self.at(*number).map_or(0, |at| u64::from(at.filled));
        self.free.iter().map(filled).sum()
    }

    /// Octets of each segment to which nothing refers, the smallest first: free ones, and those that the next checkpoint frees.
    pub(crate) fn unreferenced(&self) -> Vec<u32> {
        let unreferenced = self
            .list
            .iter()
            .filter(|segment| segment.references == 0 && segment.filled >= self.unit);
        let mut filled: Vec<u32> = unreferenced.map(|segment| segment.filled).collect();
        filled.sort_unstable();
        filled
    }

    /// Whether nothing refers to a segment.
    pub(crate) fn is_unreferenced(&self, segment: u32) -> bool {
        self.at(segment).is_some_and(|at| at.references == 0)
    }

    /// The free segment to use next for records of bundles, of `least` to `most` octets: of those with at least `wanted` the one
    /// freed last, else the largest.
    pub(crate) fn large(&self, wanted: u32, least: u32, most: u64) -> Option<u32> {
        let filled = |number: &u32| self.at(*number).map_or(0, |at| at.filled);
        let fits = |number: &&u32| filled(number) >= least && u64::from(filled(number)) <= most;
        let candidates = || self.free.iter().filter(fits);
        let fitting = candidates().rev().find(|number| filled(number) >= wanted);
        fitting
            .or_else(|| candidates().max_by_key(|number| filled(number)))
            .copied()
    }

    /// The smallest free segment with at least `least` octets.
    pub(crate) fn small(&self, least: u32) -> Option<u32> {
        let filled = |number: &u32| self.at(*number).map_or(0, |at| at.filled);
        let candidates = self.free.iter().filter(|number| filled(number) >= least);
        candidates.min_by_key(|number| filled(number)).copied()
    }

    /// A free segment is free no longer.
    pub(crate) fn take(&mut self, number: u32) {
        self.free.retain(|free| *free != number);
    }

    /// Finishes a segment.
    pub(crate) fn seal(&mut self, segment: u32) {
        if let Some(segment) = self.list.get_mut(crate::wire::index(segment)) {
            segment.usage = Usage::Sealed;
            if segment.is_dead() {
                self.dead += 1;
            }
        }
    }

    pub(crate) fn hold(&mut self, reference: Reference) {
        let Some(segment) = self.list.get_mut(crate::wire::index(reference.segment)) else {
            return;
        };
        if segment.is_dead() {
            self.dead = self.dead.saturating_sub(1);
        }
        segment.references += 1;
        segment.live_octets += reference.octets;
        self.live_octets += reference.octets;
        self.most_octets = self.most_octets.max(self.live_octets);
    }

    /// Lets go of octets. A finished segment of a generation before `checkpoint` becomes free with the last of them.
    pub(crate) fn release(&mut self, reference: Reference, checkpoint: u64) {
        let Some(segment) = self.list.get_mut(crate::wire::index(reference.segment)) else {
            return;
        };
        assert!(segment.references > 0, "what is released was held");
        segment.references -= 1;
        segment.live_octets -= reference.octets;
        self.live_octets -= reference.octets;
        segment.touched = self.newest;
        if segment.is_dead() {
            self.emptied.push(reference.segment);
            if segment.generation < checkpoint {
                self.free_up(reference.segment);
            } else {
                self.dead += 1;
            }
        }
    }

    /// Segments in which nothing is live any more, told once.
    pub(crate) fn take_emptied(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.emptied)
    }

    /// Notes that something in a segment is about to go.
    pub(crate) fn touch(&mut self, segment: u32) {
        let newest = self.newest;
        if let Some(segment) = self.at_mut(segment) {
            segment.touched = newest;
        }
    }

    pub(crate) fn pin(&mut self, reference: Reference) {
        if let Some(segment) = self.at_mut(reference.segment) {
            segment.pinned += 1;
        }
    }

    pub(crate) fn unpin(&mut self, reference: Reference) {
        if let Some(segment) = self.at_mut(reference.segment) {
            segment.pinned = segment.pinned.saturating_sub(1);
        }
    }

    /// A segment that nothing refers to is free. One whose room a crash has cut short is a place alone.
    fn free_up(&mut self, number: u32) {
        let unit = self.unit;
        let Some(segment) = self.at_mut(number) else {
            return;
        };
        segment.usage = Usage::Free;
        segment.commits = Vec::new();
        segment.live = Vec::new();
        let filled = segment.filled;
        if filled >= unit {
            self.free.push(number);
        } else {
            segment.filled = 0;
            self.allocated -= u64::from(filled);
            self.vacant.push(number);
        }
    }

    /// Frees the finished segments without anything live whose generation is before `checkpoint`, and counts anew.
    pub(crate) fn reclaim(&mut self, checkpoint: u64) {
        let dead = |(number, segment): (u32, &Segment)| {
            segment.is_dead().then_some((number, segment.generation))
        };
        let dead: Vec<(u32, u64)> = self.iter().filter_map(dead).collect();
        let (freed, kept): (Vec<_>, Vec<_>) = dead
            .into_iter()
            .partition(|(_, generation)| *generation < checkpoint);
        self.dead = kept.len();
        for (number, _) in freed {
            self.free_up(number);
        }
    }
}

impl Segments {
    /// Finishes every segment where the durable log ends, and forgets what comes after.
    pub(crate) fn cut(&mut self, durable: crate::record::Place) {
        let mut freed = Vec::new();
        for (number, segment) in (0_u32..).zip(self.list.iter_mut()) {
            if segment.usage == Usage::Free || segment.generation < durable.generation {
                continue;
            }
            if segment.generation == durable.generation {
                segment.cut(durable.offset);
                continue;
            }
            segment.cut(0);
            if segment.references == 0 {
                freed.push(number);
            }
        }
        for number in freed {
            self.free_up(number);
        }
    }
}
