//! Numbers of rows that may come in any order, and the missing ones between them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Numbers that came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// The first and last number of each stretch.
    spans: BTreeMap<i64, i64>,
    /// Gaps that are told no more apart, and numbers in them.
    closed: Missing,
    /// The last number that the client gave, where it said so.
    made: Option<i64>,
}

/// The numbers missing from a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Gaps in the numbers.
    pub gaps: u64,
    /// Numbers in those gaps.
    pub rows: u64,
}

impl Spans {
    /// The spans of a stream whose first number, 1, is known to belong to it.
    pub fn from_one() -> Self {
        Self {
            spans: BTreeMap::from([(0, 0)]),
            ..Self::default()
        }
    }

    /// A number came; false where it had come before, or belongs to a gap that was closed.
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
        // The number may have closed the gap before the next span.
        if let Some(last) = number
            .checked_add(1)
            .and_then(|next| self.spans.remove(&next))
        {
            self.spans.insert(first, last);
        }
        true
    }

    /// The client gave numbers up to this one.
    pub fn made(&mut self, last: i64) {
        self.made = self.made.max(Some(last));
    }

    /// The highest number that came.
    pub fn last(&self) -> Option<i64> {
        self.spans.last_key_value().map(|(_, last)| *last)
    }

    /// Stretches that are told apart.
    pub fn stretches(&self) -> usize {
        self.spans.len()
    }

    /// The first gaps count as they are for good, until no more stretches than so many are told apart.
    pub fn close(&mut self, stretches_max: usize) {
        while self.spans.len() > stretches_max.max(1) {
            let (Some((first, last)), Some((next, end))) =
                (self.spans.pop_first(), self.spans.pop_first())
            else {
                return;
            };
            self.closed.count(last, next);
            self.spans.insert(first, end);
        }
    }

    /// The numbers missing between the first and the last, gaps that were closed included.
    pub fn missing(&self) -> Missing {
        let mut missing = self.closed;
        for ((_, last), (next, _)) in self.spans.iter().zip(self.spans.iter().skip(1)) {
            missing.count(*last, *next);
        }
        if let (Some(made), Some(last)) = (self.made, self.last())
            && made > last
        {
            missing.count(last, made.saturating_add(1));
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

/// `FIRST..LAST …`, then `lost GAPS/ROWS` for the gaps that are closed and `made LAST`, where there is something to say.
impl fmt::Display for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut apart = "";
        for (first, last) in &self.spans {
            write!(f, "{apart}{first}..{last}")?;
            apart = " ";
        }
        let Missing { gaps, rows } = self.closed;
        if gaps > 0 {
            write!(f, "{apart}lost {gaps}/{rows}")?;
            apart = " ";
        }
        match self.made {
            Some(made) => write!(f, "{apart}made {made}"),
            None => Ok(()),
        }
    }
}

/// A text that tells of no numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpans;

impl FromStr for Spans {
    type Err = NoSpans;

    fn from_str(text: &str) -> Result<Self, NoSpans> {
        let mut spans = Self::default();
        let mut words = text.split_ascii_whitespace();
        let number = |text: &str| text.parse().map_err(|_| NoSpans);
        while let Some(word) = words.next() {
            match word {
                "made" => spans.made = Some(number(words.next().ok_or(NoSpans)?)?),
                "lost" => {
                    let pair = words.next().and_then(|pair| pair.split_once('/'));
                    let (gaps, rows) = pair.ok_or(NoSpans)?;
                    let count = |text: &str| text.parse().map_err(|_| NoSpans);
                    spans.closed = Missing {
                        gaps: count(gaps)?,
                        rows: count(rows)?,
                    };
                }
                stretch => {
                    let (first, last) = stretch.split_once("..").ok_or(NoSpans)?;
                    let (first, last) = (number(first)?, number(last)?);
                    if last < first || spans.last().is_some_and(|before| before >= first) {
                        return Err(NoSpans);
                    }
                    spans.spans.insert(first, last);
                }
            }
        }
        Ok(spans)
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
    fn rows_that_were_made_after_the_last_that_came_are_missing() {
        let mut spans = Spans::from_one();
        spans.made(10);
        assert_eq!(missing(&spans), (1, 10));
        (1..=7).for_each(|number| assert!(spans.add(number)));
        assert_eq!(missing(&spans), (1, 3));
        spans.made(9);
        (8..=10).for_each(|number| assert!(spans.add(number)));
        assert_eq!(missing(&spans), (0, 0));
        spans.made(i64::MAX);
        assert_eq!(spans.missing().gaps, 1);
    }

    #[test]
    fn more_gaps_than_are_told_apart_are_counted_for_good() {
        let mut spans = Spans::default();
        for number in 0..3000 {
            spans.add(number * 2);
            spans.close(100);
        }
        assert_eq!(spans.stretches(), 100);
        assert_eq!(missing(&spans), (2999, 2999));
        assert!(!spans.add(1) && spans.add(5997));
        assert_eq!(missing(&spans), (2998, 2998));
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let mut spans = Spans::from_one();
        assert_eq!(spans.to_string(), "0..0");
        for number in [1, 2, -5, 9, 20, 30] {
            spans.add(number);
        }
        spans.close(4);
        spans.made(40);
        let text = "-5..2 9..9 20..20 30..30 lost 1/4 made 40";
        assert_eq!(spans.to_string(), text);
        assert_eq!(text.parse(), Ok(spans));
        assert_eq!("".parse(), Ok(Spans::default()));
        for text in ["1", "2..1", "1..5 5..6", "made", "lost 1", "lost x/1"] {
            assert_eq!(text.parse::<Spans>(), Err(NoSpans), "{text}");
        }
    }
}
