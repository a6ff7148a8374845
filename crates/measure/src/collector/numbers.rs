//! The numbers of the rows that came, by run and stream. They tell which rows are missing also where rows come in another order, over
//! several sessions, or to a collector that began anew: the database keeps them.

use std::collections::BTreeMap;

use super::account::StreamName;
use super::spans::{Missing, Spans};

/// Runs whose numbers are in memory, beside those that are connected; those of the others are read from the database when they come back.
const RUNS_MAX: usize = 1024;

/// Streams of all those runs together; rows of more are not numbered.
const SERIES_MAX: usize = 10_000;

/// Stretches of numbers that are told apart in a stream; where there are more, the first gap counts as one for good.
const STRETCHES_MAX: usize = 1024;

/// The same bound where all streams together have very many.
const STRETCHES_SCARCE: usize = 16;

/// Stretches of all streams, beyond which each has few.
const STRETCHES_TOTAL: usize = 100_000;

/// One run of a client: all sessions of it count together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunName {
    /// The domain.
    pub domain: String,
    /// The sender.
    pub sender: String,
    /// The name that tells it from other runs of that sender.
    pub run: String,
}

impl RunName {
    /// One of its streams, as an account names it.
    pub fn stream(&self, stream: &str) -> StreamName {
        StreamName {
            domain: self.domain.clone(),
            sender: self.sender.clone(),
            stream: stream.to_owned(),
        }
    }
}

/// The numbers of all runs.
#[derive(Debug, Default)]
pub struct Numbers {
    runs: BTreeMap<RunName, Run>,
    series: usize,
    stretches: usize,
    /// The number of times that rows came.
    came: u64,
}

#[derive(Debug, Default)]
struct Run {
    /// When rows of it came last, by the count of all.
    came: u64,
    streams: BTreeMap<String, Series>,
}

/// The numbers of one stream.
#[derive(Debug, Default)]
struct Series {
    spans: Spans,
    /// The gaps that the database knows.
    told: Missing,
    /// Whether the database has other numbers.
    is_new: bool,
}

/// Numbers of a stream that a database does not know yet.
#[derive(Debug)]
pub struct Change<'a> {
    /// The run.
    pub run: &'a RunName,
    /// The stream.
    pub stream: &'a str,
    /// All of its numbers.
    pub spans: &'a Spans,
    /// The rows that are missing now and were not then, or the other way round.
    pub difference: Difference,
}

/// Gaps and rows that are missing beyond those of before; below zero, fewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Gaps.
    pub gaps: i64,
    /// Rows.
    pub rows: i64,
}

impl Difference {
    fn between(before: Missing, after: Missing) -> Self {
        let less = |after: u64, before: u64| {
            let more = i128::from(after) - i128::from(before);
            i64::try_from(more).unwrap_or(if more > 0 { i64::MAX } else { i64::MIN })
        };
        Self {
            gaps: less(after.gaps, before.gaps),
            rows: less(after.rows, before.rows),
        }
    }

    /// The sum of both.
    pub const fn and(self, other: Self) -> Self {
        Self {
            gaps: self.gaps.saturating_add(other.gaps),
            rows: self.rows.saturating_add(other.rows),
        }
    }
}

impl Change<'_> {
    /// The stream, as an account names it.
    pub fn name(&self) -> StreamName {
        self.run.stream(self.stream)
    }
}

/// The knowledge of a stream before its first number comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Its client counts from 1.
    One,
    /// The first number that comes is the first.
    Anywhere,
}

impl Numbers {
    /// The numbers of that run are in memory.
    pub fn knows(&self, run: &RunName) -> bool {
        self.runs.contains_key(run)
    }

    /// When rows of a run came last, by the count of all; none where it is not in memory.
    pub fn last_came(&self, run: &RunName) -> Option<u64> {
        self.runs.get(run).map(|run| run.came)
    }

    /// A run is in memory from now on, with what the database has of it. Others make room, unless they are `here`.
    pub fn load(
        &mut self,
        run: RunName,
        streams: Vec<(String, Spans)>,
        is_here: impl Fn(&RunName) -> bool,
    ) {
        self.make_room(is_here);
        let mut loaded = Run::default();
        for (stream, spans) in streams {
            self.series += 1;
            self.stretches += spans.stretches();
            let told = spans.missing();
            let series = Series {
                spans,
                told,
                is_new: false,
            };
            loaded.streams.insert(stream, series);
        }
        self.forget(&run);
        self.runs.insert(run, loaded);
    }

    /// The runs that nothing came of for longest go, where the database knows all of them.
    fn make_room(&mut self, is_here: impl Fn(&RunName) -> bool) {
        while self.runs.len() >= RUNS_MAX || self.series >= SERIES_MAX / 2 {
            let is_idle = |(name, run): &(&RunName, &Run)| {
                run.streams.values().all(|series| !series.is_new) && !is_here(name)
            };
            let idle = self.runs.iter().filter(is_idle);
            let Some((oldest, _)) = idle.min_by_key(|(_, run)| run.came) else {
                return;
            };
            let oldest = oldest.clone();
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, run: &RunName) {
        for series in self
            .runs
            .remove(run)
            .into_iter()
            .flat_map(|run| run.streams)
        {
            self.series -= 1;
            self.stretches -= series.1.spans.stretches();
        }
    }

    /// Rows with those numbers came; says how many had come before.
    pub fn add(
        &mut self,
        run: &RunName,
        stream: &str,
        beginning: Beginning,
        width: Width,
        numbers: impl Iterator<Item = i64>,
    ) -> u64 {
        self.came += 1;
        let came = self.came;
        let limit = match self.stretches > STRETCHES_TOTAL {
            true => STRETCHES_SCARCE,
            false => STRETCHES_MAX,
        };
        let Some(series) = self.series(run, stream, beginning) else {
            return 0;
        };
        series.is_new = true;
        let before = series.spans.stretches();
        let mut repeated = 0;
        for number in numbers {
            let number = width.whole(number, series.spans.last());
            repeated += u64::from(!series.spans.add(number));
            series.spans.close(limit);
        }
        let after = series.spans.stretches();
        self.stretches = self.stretches + after - before;
        if let Some(run) = self.runs.get_mut(run) {
            run.came = came;
        }
        repeated
    }

    /// The client gave numbers up to this one, whether they came or not.
    pub fn made(&mut self, run: &RunName, stream: &str, last: i64) {
        if let Some(series) = self.series(run, stream, Beginning::One) {
            series.spans.made(last);
            series.is_new = true;
        }
    }

    fn series(&mut self, run: &RunName, stream: &str, beginning: Beginning) -> Option<&mut Series> {
        let streams = &mut self.runs.get_mut(run)?.streams;
        if !streams.contains_key(stream) {
            if self.series >= SERIES_MAX {
                return None;
            }
            self.series += 1;
            let spans = match beginning {
                Beginning::One => Spans::from_one(),
                Beginning::Anywhere => Spans::default(),
            };
            self.stretches += spans.stretches();
            let series = Series {
                spans,
                ..Series::default()
            };
            streams.insert(stream.to_owned(), series);
        }
        streams.get_mut(stream)
    }

    /// Changes that a database does not know yet.
    pub fn changes(&self, is_of: impl Fn(&str) -> bool) -> impl Iterator<Item = Change<'_>> {
        let runs = self.runs.iter().filter(move |(run, _)| is_of(&run.domain));
        runs.flat_map(|(run, known)| {
            let streams = known.streams.iter().filter(|(_, series)| series.is_new);
            streams.map(move |(stream, series)| Change {
                run,
                stream,
                spans: &series.spans,
                difference: Difference::between(series.told, series.spans.missing()),
            })
        })
    }

    /// The database knows the present numbers.
    pub fn told(&mut self, is_of: impl Fn(&str) -> bool) {
        let runs = self.runs.iter_mut().filter(|(run, _)| is_of(&run.domain));
        for series in runs.flat_map(|(_, run)| run.streams.values_mut()) {
            if std::mem::take(&mut series.is_new) {
                series.told = series.spans.missing();
            }
        }
    }
}

/// The bits of a number on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// As many bits as the numbers need.
    Whole,
    /// The last 32.
    Bits32,
}

impl Width {
    /// The number that is meant: the nearest to the highest one so far.
    fn whole(self, number: i64, last: Option<i64>) -> i64 {
        match (self, last) {
            (Self::Bits32, Some(last)) => {
                let low = number.wrapping_sub(last) & i64::from(u32::MAX);
                let difference = u32::try_from(low).unwrap_or_default().cast_signed();
                last.saturating_add(difference.into())
            }
            _ => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: usize) -> RunName {
        RunName {
            domain: "d".into(),
            sender: "s".into(),
            run: number.to_string(),
        }
    }

    fn with(runs: usize) -> Numbers {
        let mut numbers = Numbers::default();
        (0..runs).for_each(|number| numbers.load(run(number), Vec::new(), |_| false));
        numbers
    }

    fn differences(numbers: &Numbers) -> Vec<(i64, i64)> {
        let changes = numbers.changes(|_| true);
        changes
            .map(|change| (change.difference.gaps, change.difference.rows))
            .collect()
    }

    fn add(numbers: &mut Numbers, number: usize, came: impl IntoIterator<Item = i64>) -> u64 {
        let came = came.into_iter();
        numbers.add(&run(number), "t", Beginning::One, Width::Whole, came)
    }

    #[test]
    fn a_database_is_told_what_has_changed_since_it_was_told_last() {
        let mut numbers = with(1);
        assert_eq!(add(&mut numbers, 0, [2, 5, 5]), 1);
        assert_eq!(differences(&numbers), [(2, 3)]);
        assert_eq!(numbers.changes(|_| false).count(), 0);
        numbers.told(|_| true);
        assert_eq!(differences(&numbers), []);
        // Late rows make up for it, and the client tells how many it made.
        add(&mut numbers, 0, [4, 1, 3]);
        assert_eq!(differences(&numbers), [(-2, -3)]);
        numbers.made(&run(0), "t", 10);
        assert_eq!(differences(&numbers), [(-1, 2)]);
        let change = numbers.changes(|_| true).next().unwrap();
        let stored = change.spans.to_string();
        // Another collector goes on from there.
        let mut later = Numbers::default();
        let known = vec![("t".to_owned(), stored.parse().unwrap())];
        later.load(run(0), known, |_| false);
        assert_eq!(add(&mut later, 0, 6..=9), 0);
        assert_eq!(differences(&later), [(0, -4)]);
    }

    #[test]
    fn a_run_that_nothing_came_of_for_longest_makes_room_once_the_database_knows_it() {
        let mut numbers = with(RUNS_MAX);
        add(&mut numbers, 0, [1]);
        numbers.load(run(RUNS_MAX), Vec::new(), |name| *name == run(1));
        // The first has something to tell, the second is here.
        assert!(numbers.knows(&run(0)) && numbers.knows(&run(1)));
        assert_eq!(numbers.runs.len(), RUNS_MAX);
        assert_eq!(numbers.last_came(&run(0)), Some(1));
        for number in 0..SERIES_MAX + 5 {
            let came = std::iter::once(1);
            let stream = number.to_string();
            numbers.add(&run(0), &stream, Beginning::One, Width::Whole, came);
        }
        assert_eq!(numbers.series, SERIES_MAX);
        numbers.told(|_| true);
        numbers.load(run(0), Vec::new(), |_| false);
        assert!(numbers.series < SERIES_MAX && numbers.stretches < SERIES_MAX);
    }

    #[test]
    fn numbers_that_are_far_apart_and_many_gaps_take_little_memory() {
        let mut numbers = with(200);
        for number in 0..200 {
            add(&mut numbers, number, (0..2000).map(|each| each * 2));
        }
        assert!(numbers.stretches < STRETCHES_TOTAL + 200 * STRETCHES_SCARCE + 2 * STRETCHES_MAX);
        assert!(differences(&numbers).iter().all(|it| *it == (1999, 1999)));
        add(&mut numbers, 0, [i64::MIN, i64::MAX]);
        assert_eq!(differences(&numbers)[0].1, i64::MAX);
    }

    #[test]
    fn numbers_of_32_bits_go_on_where_they_begin_anew() {
        for (number, last, meant) in [
            (5, None, 5),
            (6, Some(5), 6),
            (3, Some(5), 3),
            (i32::MIN.into(), Some(i32::MAX.into()), 1 << 31),
            (0, Some(u32::MAX.into()), 1 << 32),
            (-1, Some(1 << 32), u32::MAX.into()),
        ] {
            assert_eq!(
                Width::Bits32.whole(number, last),
                meant,
                "{number} {last:?}"
            );
        }
        assert_eq!(Width::Whole.whole(-1, Some(1 << 40)), -1);
    }
}
