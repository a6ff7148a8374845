//! The red and the green part of an incoming block, as far as their segments tell: RFC 5326 3.1.3 and 6.21.

use super::fault::Fault;
use super::segment::DataHead;

/// Bounds of the parts.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The greatest upper bound of red segments.
    pub(super) red_upper: u64,
    /// The greatest offset of a red segment.
    last_red: Option<u64>,
    /// The smallest offset of a green segment.
    first_green: Option<u64>,
    /// Octets of the red part, once its end came.
    pub(super) red_end: Option<u64>,
    /// Octets of the block, once its end came.
    pub(super) length: Option<u64>,
    /// The greatest upper bound of all segments.
    upper: u64,
}

impl Parts {
    /// Whether a segment can be of this block.
    ///
    /// # Errors
    /// `Miscolored` or `EndContradicted`.
    pub(super) fn check(&self, head: &DataHead) -> Result<(), Fault> {
        let (offset, end) = (head.offset, head.end());
        // RFC 5326 6.21: red behind green, or green before red.
        let is_miscolored = if head.kind.is_red() {
            self.first_green.is_some_and(|green| offset > green)
        } else {
            self.last_red.is_some_and(|red| offset < red)
                || self.red_end.is_some_and(|red_end| offset < red_end)
        };
        if is_miscolored {
            return Err(Fault::Miscolored);
        }
        // RFC 5326 9.3: ranges must be consistent.
        let is_beyond = self.length.is_some_and(|length| end > length)
            || (head.kind.is_red() && self.red_end.is_some_and(|red_end| end > red_end));
        let is_other_end = head.kind.is_block_end()
            && (end < self.upper || self.length.is_some_and(|length| end != length));
        let is_other_red_end = head.kind.is_red_end()
            && (end < self.red_upper || self.red_end.is_some_and(|red_end| end != red_end));
        if is_beyond || is_other_end || is_other_red_end {
            return Err(Fault::EndContradicted);
        }
        Ok(())
    }

    /// Note what a segment tells that was checked.
    pub(super) fn note(&mut self, head: &DataHead) {
        let (offset, end) = (head.offset, head.end());
        self.upper = self.upper.max(end);
        if head.kind.is_red() {
            self.red_upper = self.red_upper.max(end);
            self.last_red = self.last_red.max(Some(offset));
        } else {
            let first = self.first_green.unwrap_or(offset);
            self.first_green = Some(first.min(offset));
        }
        if head.kind.is_red_end() {
            self.red_end = Some(end);
        }
        if head.kind.is_block_end() {
            self.length = Some(end);
        }
    }

    /// Octets of the red part, once they are known: none where the block begins with green ones.
    pub(super) fn red(&self) -> Option<u64> {
        let is_green = self.first_green == Some(0);
        self.red_end.or(is_green.then_some(0))
    }

    /// The smallest offset of a green segment that came.
    pub(super) const fn green(&self) -> Option<u64> {
        self.first_green
    }

    /// Every octet of the block is red, as its end says.
    pub(super) fn is_all_red(&self) -> bool {
        self.length.is_some() && self.length == self.red_end
    }

    /// No red octet has come.
    pub(super) const fn is_green(&self) -> bool {
        self.last_red.is_none()
    }
}
