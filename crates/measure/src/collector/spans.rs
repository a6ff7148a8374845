//! Numbers of rows that may come in any order, and what is missing between them.

use std::collections::BTreeMap;

/// Stretches of numbers that are told apart; where there are more, the first gap counts as one for good.
const SPANS_MAX: usize = 1024;

/// Numbers that came.
#[derive(Debug, Default)]
pub struct Spans {
    /// The first and last number of each stretch.
    spans: BTreeMap<i64, i64>,
    /// Gaps that are told no more apart, and numbers in them.
    closed: Missing,
}

/// What is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// How often numbers were left out.
    pub gaps: u64,
    /// How many were.
    pub rows: u64,
}

impl Spans {
    /// Of a stream whose first number, 1, is known to belong to it.
    pub fn from_one() -> Self {
        Self {
            spans: BTreeMap::from([(0, 0)]),
            closed: Missing::default(),
        }
    }

    /// A number came; false where it had come before.
    pub fn add(&mut self, number: i64) -> bool {
        let before = self.spans.range_mut(..=number).next_back();
        let first = match before {
            Some((_, last)) if number <= *last => return false,
            Some((first, last)) if *last + 1 == number => {
                *last = number;
                *first
            }
            _ => {
                self.spans.insert(number, number);
                number
            }
        };
        // What was a gap may be none any more.
        if let Some(last) = number
            .checked_add(1)
            .and_then(|next| self.spans.remove(&next))
        {
            self.spans.insert(first, last);
        }
        if self.spans.len() > SPANS_MAX {
            self.close_first();
        }
        true
    }

    fn close_first(&mut self) {
        let (Some((first, last)), Some((next, end))) =
            (self.spans.pop_first(), self.spans.pop_first())
        else {
            return;
        };
        self.closed.count(last, next);
        self.spans.insert(first, end);
    }

    /// What is missing between the first number and the last.
    pub fn missing(&self) -> Missing {
        let mut missing = self.closed;
        for ((_, last), (next, _)) in self.spans.iter().zip(self.spans.iter().skip(1)) {
            missing.count(*last, *next);
        }
        missing
    }
}

impl Missing {
    fn count(&mut self, last: i64, next: i64) {
        self.gaps += 1;
        self.rows = self.rows.saturating_add(next.abs_diff(last) - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(spans: &Spans) -> (u64, u64) {
        let missing = spans.missing();
        (missing.gaps, missing.rows)
    }

    #[test]
    fn numbers_in_any_order_tell_what_is_missing_until_it_comes() {
        let mut spans = Spans::from_one();
        assert!([3, 4, 8].into_iter().all(|number| spans.add(number)));
        assert_eq!(missing(&spans), (2, 5));
        assert!(!spans.add(4) && !spans.add(8) && !spans.add(0));
        assert!([2, 1, 6].into_iter().all(|number| spans.add(number)));
        assert_eq!(missing(&spans), (2, 2));
        assert!([5, 7].into_iter().all(|number| spans.add(number)));
        assert_eq!(missing(&spans), (0, 0));
        assert!(spans.add(i64::MAX) && spans.add(i64::MIN) && !spans.add(i64::MAX));
    }

    #[test]
    fn more_gaps_than_are_told_apart_are_counted_for_good() {
        let mut spans = Spans::default();
        for number in 0..3000 {
            spans.add(number * 2);
        }
        assert!(spans.spans.len() <= SPANS_MAX);
        assert_eq!(missing(&spans), (2999, 2999));
    }
}
