//! Sets of octets of a block.

/// Ranges in order, none of which touches another.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans(Vec<(u64, u64)>);

impl Spans {
    pub(super) fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let from = self.0.partition_point(|range| range.1 < start);
        let behind = self.0.partition_point(|range| range.0 <= end);
        let touched = self.0.get(from..behind).unwrap_or_default();
        let first = touched.first().map_or(start, |range| range.0.min(start));
        let last = touched.last().map_or(end, |range| range.1.max(end));
        self.0.splice(from..behind, [(first, last)]);
    }

    /// Whether all of a range is in it.
    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        let at = self.0.partition_point(|range| range.1 < end);
        start >= end || self.0.get(at).is_some_and(|range| range.0 <= start)
    }

    /// Whether anything of a range is in it.
    pub(super) fn meets(&self, start: u64, end: u64) -> bool {
        let at = self.0.partition_point(|range| range.1 <= start);
        start < end && self.0.get(at).is_some_and(|range| range.0 < end)
    }

    /// The end of what begins at 0.
    pub(super) fn prefix(&self) -> u64 {
        let first = self.0.first();
        first
            .filter(|range| range.0 == 0)
            .map_or(0, |range| range.1)
    }

    /// The parts of a range that are not in it.
    pub(super) fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let (mut at, mut gaps) = (start, Vec::new());
        for (from, to) in &self.0 {
            if *from >= end {
                break;
            }
            if *from > at {
                gaps.push((at, *from));
            }
            at = at.max(*to);
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }
}
