//! What became of rows, by domain, sender and stream: stored, refused and why, missing by their numbers.

use std::collections::BTreeMap;

use super::spans::Spans;
use crate::omsp::header::Parcel;
use crate::omsp::{Reason, Tally};

/// Runs of clients that send parcels, of which it is known what came; one more, and what is missing of the one that nothing came of for the
/// longest time counts as lost for good.
const RUNS_MAX: usize = 1024;

/// Streams of all those runs together; one run alone may have as many as an account is kept of.
const RUN_STREAMS_MAX: usize = STREAMS_MAX;

/// Streams of which an account is kept; what comes after is counted together.
const STREAMS_MAX: usize = 10_000;

/// What stands for streams that cannot be told.
pub const UNKNOWN_STREAM: &str = "?";

/// One stream of one sender.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamName {
    /// The domain.
    pub domain: String,
    /// The sender.
    pub sender: String,
    /// The stream, or [`UNKNOWN_STREAM`].
    pub stream: String,
}

/// What became of its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamReport {
    /// Rows that are stored.
    pub received: u64,
    /// How often numbers were left out.
    pub gaps: u64,
    /// How many were.
    pub missing: u64,
    /// Rows whose number had been there: a client that began anew, or sent twice.
    pub repeated: u64,
    /// Rows that were refused, by reason.
    pub rejected: BTreeMap<Reason, u64>,
}

impl StreamReport {
    /// Rows that were refused.
    pub fn rejected_total(&self) -> u64 {
        let each = self.rejected.values();
        each.fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The figures with their names, as `_dhow_loss` has them.
    pub fn lines(&self) -> Vec<(String, u64)> {
        let mut lines = vec![
            ("received".to_owned(), self.received),
            ("gaps".to_owned(), self.gaps),
            ("missing".to_owned(), self.missing),
            ("repeated".to_owned(), self.repeated),
        ];
        for (reason, count) in &self.rejected {
            lines.push((format!("rejected: {}", reason.word()), *count));
        }
        lines.retain(|(_, count)| *count > 0);
        lines
    }

    fn add(&mut self, other: &Self) {
        // A hostile client's numbers may leave out 2^63 of them again and again.
        self.received = self.received.saturating_add(other.received);
        self.gaps = self.gaps.saturating_add(other.gaps);
        self.missing = self.missing.saturating_add(other.missing);
        self.repeated = self.repeated.saturating_add(other.repeated);
        for (reason, count) in &other.rejected {
            add(self.rejected.entry(*reason).or_default(), *count);
        }
    }
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// All streams.
pub type Report = BTreeMap<StreamName, StreamReport>;

/// The account of a collector.
#[derive(Debug, Default)]
pub struct Account {
    /// What the databases know.
    told: Report,
    /// What they do not know yet.
    fresh: Report,
    /// What came of parcels, by their run.
    runs: BTreeMap<u64, Run>,
    /// Streams of those.
    run_streams: usize,
    /// How often rows of parcels came.
    came: u64,
}

impl Arrival {
    /// Of a parcel that was noted, or was there, and whether others of its run were.
    pub const fn of(is_noted: bool, has_others: bool) -> Self {
        match (is_noted, has_others) {
            (false, _) => Self::Again,
            (true, false) => Self::First,
            (true, true) => Self::New,
        }
    }
}

/// What came of a client's parcels.
#[derive(Debug)]
struct Run {
    /// Nothing of it had come before this collector began.
    is_whole: bool,
    /// When something came of it last, by the account's own count.
    came: u64,
    streams: BTreeMap<StreamName, Spans>,
}

/// Whether a parcel came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the first of its run.
    First,
    /// Others of its run were there, it was not.
    New,
    /// It was there.
    Again,
}

impl Account {
    /// Rows of a stream came with those numbers; `last` is that of the client's last row of it, if there was one.
    pub fn rows(
        &mut self,
        name: &StreamName,
        last: &mut Option<i64>,
        numbers: impl Iterator<Item = i64>,
    ) {
        let mut report = StreamReport::default();
        for number in numbers {
            report.received += 1;
            match *last {
                Some(last) if number <= last => report.repeated += 1,
                Some(last) if number > last.saturating_add(1) => {
                    report.gaps += 1;
                    add(&mut report.missing, number.abs_diff(last) - 1);
                }
                _ => {}
            }
            *last = Some(number);
        }
        self.fresh(name).add(&report);
    }

    /// Rows came whose numbers say nothing: those of metadata are counted in different ways by clients, and some of it is not stored.
    pub fn unnumbered(&mut self, name: &StreamName, rows: u64) {
        add(&mut self.fresh(name).received, rows);
    }

    /// Rows were refused; `stream` names the stream of an index.
    pub fn refused(&mut self, tally: &Tally, mut name: impl FnMut(Option<u8>) -> StreamName) {
        for (index, reason, count) in tally.iter() {
            let name = name(index);
            let report = self.fresh(&name);
            add(report.rejected.entry(reason).or_default(), count);
        }
    }

    /// Rows that came of a stream and are not committed cannot be stored.
    pub fn unstored(&mut self, name: &StreamName, reason: Reason, rows: u64) {
        let report = self.fresh(name);
        report.received = report.received.saturating_sub(rows);
        add(report.rejected.entry(reason).or_default(), rows);
    }

    /// Rows of a parcel are stored, with those numbers: later parcels may bring earlier ones.
    pub fn parcel(
        &mut self,
        parcel: Parcel,
        arrival: Arrival,
        name: &StreamName,
        numbers: impl Iterator<Item = i64>,
    ) {
        // Numbers of streams that are counted together say nothing.
        if self.bounded(name) != *name {
            return;
        }
        self.make_room(parcel.run);
        self.came += 1;
        let run = self.runs.entry(parcel.run).or_insert_with(|| Run {
            is_whole: arrival == Arrival::First,
            came: 0,
            streams: BTreeMap::new(),
        });
        run.came = self.came;
        let is_whole = run.is_whole;
        let known = run.streams.len();
        let spans = run.streams.entry(name.clone());
        let spans = spans.or_insert_with(|| match is_whole {
            true => Spans::from_one(),
            false => Spans::default(),
        });
        let mut repeated = 0;
        for number in numbers {
            repeated += u64::from(!spans.add(number));
        }
        self.run_streams += run.streams.len() - known;
        add(&mut self.fresh(name).repeated, repeated);
    }

    /// Settles other runs, the oldest first, until there is room for one more stream of this one.
    fn make_room(&mut self, run: u64) {
        while self.run_streams >= RUN_STREAMS_MAX
            || (self.runs.len() >= RUNS_MAX && !self.runs.contains_key(&run))
        {
            let others = self.runs.iter().filter(|(key, _)| **key != run);
            let oldest = others.min_by_key(|(_, other)| other.came);
            let Some(oldest) = oldest.map(|(key, _)| *key) else {
                return;
            };
            let oldest = self.runs.remove(&oldest);
            self.settle_run(oldest);
        }
    }

    /// Rows that came are those of a parcel that is stored already.
    pub fn again(&mut self, name: &StreamName, rows: u64) {
        let report = self.fresh(name);
        report.received = report.received.saturating_sub(rows);
        add(&mut report.repeated, rows);
    }

    /// Rows that came and are not committed will come again.
    pub fn withdrawn(&mut self, name: &StreamName, rows: u64) {
        let report = self.fresh(name);
        report.received = report.received.saturating_sub(rows);
    }

    /// No more parcels will come: what is missing of them is lost.
    pub fn settle(&mut self) {
        for run in std::mem::take(&mut self.runs).into_values() {
            self.settle_run(Some(run));
        }
    }

    fn settle_run(&mut self, run: Option<Run>) {
        for (name, spans) in run.into_iter().flat_map(|run| run.streams) {
            self.run_streams = self.run_streams.saturating_sub(1);
            let missing = spans.missing();
            if missing.gaps > 0 {
                let report = self.fresh(&name);
                add(&mut report.gaps, missing.gaps);
                add(&mut report.missing, missing.rows);
            }
        }
    }

    fn fresh(&mut self, name: &StreamName) -> &mut StreamReport {
        let name = self.bounded(name);
        self.fresh.entry(name).or_default()
    }

    fn bounded(&self, name: &StreamName) -> StreamName {
        let is_known = self.fresh.contains_key(name) || self.told.contains_key(name);
        match is_known || self.told.len() + self.fresh.len() < STREAMS_MAX {
            true => name.clone(),
            false => StreamName {
                domain: UNKNOWN_STREAM.to_owned(),
                sender: UNKNOWN_STREAM.to_owned(),
                stream: UNKNOWN_STREAM.to_owned(),
            },
        }
    }

    /// What a domain's database does not know yet.
    pub fn untold(
        &self,
        is_of: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&StreamName, &StreamReport)> {
        self.fresh
            .iter()
            .filter(move |(name, _)| is_of(&name.domain))
    }

    /// It knows now.
    pub fn told(&mut self, is_of: impl Fn(&str) -> bool) {
        for (name, report) in std::mem::take(&mut self.fresh) {
            if is_of(&name.domain) {
                self.told.entry(name).or_default().add(&report);
            } else {
                self.fresh.insert(name, report);
            }
        }
    }

    /// All of it.
    pub fn report(mut self) -> Report {
        self.told(|_| true);
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_tell_what_is_missing_and_what_came_twice() {
        let name = StreamName {
            domain: "d".into(),
            sender: "s".into(),
            stream: "t".into(),
        };
        let mut account = Account::default();
        let mut last = None;
        account.rows(&name, &mut last, [1, 2, 5].into_iter());
        account.told(|domain| domain == "d");
        assert_eq!(account.untold(|_| true).count(), 0);
        account.rows(&name, &mut last, [6, 10, 10, 1, 2].into_iter());
        let report = account.report().remove(&name).unwrap();
        assert_eq!(
            (
                report.received,
                report.gaps,
                report.missing,
                report.repeated
            ),
            (8, 2, 5, 2)
        );
    }

    #[test]
    fn numbers_far_apart_and_more_streams_than_are_told_apart_are_counted_within_bounds() {
        let mut account = Account::default();
        let name = |number: usize| StreamName {
            domain: format!("d{number}"),
            sender: "s".into(),
            stream: "t".into(),
        };
        let ends = [i64::MIN, i64::MAX].into_iter().cycle().take(8);
        account.rows(&name(0), &mut None, ends);
        for number in 1..STREAMS_MAX + 10 {
            account.unnumbered(&name(number), 1);
        }
        let report = account.report();
        assert_eq!(report[&name(0)].missing, u64::MAX);
        assert_eq!(report.len(), STREAMS_MAX + 1);
    }

    #[test]
    fn the_run_that_nothing_came_of_for_longest_makes_room() {
        let mut account = Account::default();
        let name = |stream: String| StreamName {
            domain: "d".into(),
            sender: "s".into(),
            stream,
        };
        let mut came = |run: u64, stream: &str, number: i64| {
            let (name, parcel) = (name(stream.to_owned()), Parcel { run, number: 1 });
            account.parcel(parcel, Arrival::First, &name, std::iter::once(number));
        };
        let last = u64::try_from(RUNS_MAX).unwrap();
        for run in 0..last {
            came(run, "t", 2);
        }
        // Row 1 of the first run was late, and that of the second is later still.
        came(0, "t", 1);
        came(last, "t", 1);
        came(1, "t", 1);
        // A run of many streams has room for all of them.
        let many = STREAMS_MAX - 1;
        for stream in 0..many {
            came(last + 1, &format!("t{stream}"), 1);
        }
        assert_eq!(account.runs[&(last + 1)].streams.len(), many);
        assert!(account.run_streams <= RUN_STREAMS_MAX);
        account.settle();
        assert_eq!(account.run_streams, 0);
        // Run 1 made room, and came back as another one.
        let missing = account.report()[&name("t".into())].missing;
        assert_eq!(missing, last - 1);
    }
}
