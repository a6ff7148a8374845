//! The account of rows by domain, sender and stream: stored, refused by reason, and missing by their numbers.

use std::collections::BTreeMap;

use super::numbers::{Beginning, Change, Difference, Numbers, RunName, Width};
use super::spans::Spans;
use crate::omsp::{Reason, Tally};

/// Streams of which an account is kept; later ones are counted together.
const STREAMS_MAX: usize = 10_000;

/// The name that stands for streams that cannot be told apart.
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

/// Counts of one stream's rows, by their fate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamReport {
    /// Rows that are stored.
    pub received: u64,
    /// Gaps in the numbers that came since the collector began.
    pub gaps: u64,
    /// Rows in those gaps, up to the last one that the client made.
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

    /// The counts of rows that came, with their names in `_dhow_loss`.
    pub fn lines(&self) -> Vec<(String, u64)> {
        let mut lines = vec![
            ("received".to_owned(), self.received),
            ("repeated".to_owned(), self.repeated),
        ];
        for (reason, count) in &self.rejected {
            lines.push((format!("rejected: {}", reason.word()), *count));
        }
        lines.retain(|(_, count)| *count > 0);
        lines
    }

    fn add(&mut self, other: &Self) {
        add(&mut self.received, other.received);
        add(&mut self.repeated, other.repeated);
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
    /// The counts that the databases have.
    told: Report,
    /// The counts that the databases do not have yet.
    fresh: Report,
    /// The numbers of the rows that came.
    numbers: Numbers,
    /// Rows that the databases have been told to be missing.
    missing: BTreeMap<StreamName, Difference>,
}

/// The first or repeated arrival of a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The parcel is the first of its run.
    First,
    /// Others of its run were there, it was not.
    New,
    /// The row was there.
    Again,
}

impl Arrival {
    /// The arrival of a parcel that was noted, or was there, and whether others of its run were.
    pub const fn of(is_noted: bool, has_others: bool) -> Self {
        match (is_noted, has_others) {
            (false, _) => Self::Again,
            (true, false) => Self::First,
            (true, true) => Self::New,
        }
    }
}

impl Account {
    /// Rows of a stream came with those numbers.
    pub fn rows(
        &mut self,
        run: &RunName,
        stream: &str,
        beginning: Beginning,
        width: Width,
        numbers: impl ExactSizeIterator<Item = i64>,
    ) {
        let name = run.stream(stream);
        let rows = u64::try_from(numbers.len()).unwrap_or(u64::MAX);
        add(&mut self.fresh(&name).received, rows);
        self.number(run, &name, beginning, width, numbers);
    }

    /// Notes numbers of rows that are counted.
    pub fn number(
        &mut self,
        run: &RunName,
        name: &StreamName,
        beginning: Beginning,
        width: Width,
        numbers: impl Iterator<Item = i64>,
    ) {
        // Numbers of streams that are counted together say nothing.
        if self.bounded(name) != *name {
            return;
        }
        let numbers = self
            .numbers
            .add(run, &name.stream, beginning, width, numbers);
        add(&mut self.fresh(name).repeated, numbers);
    }

    /// The client of a run gave numbers up to this one to rows of a stream.
    pub fn made(&mut self, run: &RunName, stream: &str, last: i64) {
        let name = run.stream(stream);
        if self.bounded(&name) == name {
            self.numbers.made(run, stream, last);
        }
    }

    /// The numbers of the rows that came.
    pub const fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The numbers that a database has of a run; `is_here` says which runs are connected.
    pub fn load(
        &mut self,
        run: RunName,
        streams: Vec<(String, Spans)>,
        is_here: impl Fn(&RunName) -> bool,
    ) {
        self.numbers.load(run, streams, is_here);
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

    /// Rows that came and that a domain's database does not know yet.
    pub fn untold(
        &self,
        is_of: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&StreamName, &StreamReport)> {
        self.fresh
            .iter()
            .filter(move |(name, _)| is_of(&name.domain))
    }

    /// Missing rows that it does not know yet.
    pub fn changes(&self, is_of: impl Fn(&str) -> bool) -> impl Iterator<Item = Change<'_>> {
        self.numbers.changes(is_of)
    }

    /// The database knows the present numbers.
    pub fn told(&mut self, is_of: impl Fn(&str) -> bool) {
        for change in self.numbers.changes(&is_of) {
            let known = self.missing.entry(change.name()).or_default();
            *known = known.and(change.difference);
        }
        self.numbers.told(&is_of);
        for (name, report) in std::mem::take(&mut self.fresh) {
            if is_of(&name.domain) {
                self.told.entry(name).or_default().add(&report);
            } else {
                self.fresh.insert(name, report);
            }
        }
    }

    /// The report on all streams.
    pub fn report(mut self) -> Report {
        self.told(|_| true);
        for (name, missing) in self.missing {
            // Rows that came late may make up for rows that an earlier collector missed.
            let count = |number: i64| u64::try_from(number).unwrap_or_default();
            if missing != Difference::default() || self.told.contains_key(&name) {
                let report = self.told.entry(name).or_default();
                report.gaps = count(missing.gaps);
                report.missing = count(missing.rows);
            }
        }
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: usize) -> RunName {
        RunName {
            domain: format!("d{number}"),
            sender: "s".into(),
            run: "1 a".into(),
        }
    }

    fn rows(account: &mut Account, number: usize, numbers: &[i64]) {
        if !account.numbers().knows(&run(number)) {
            account.load(run(number), Vec::new(), |_| false);
        }
        let numbers = numbers.iter().copied();
        let beginning = Beginning::Anywhere;
        account.rows(&run(number), "t", beginning, Width::Whole, numbers);
    }

    #[test]
    fn numbers_tell_what_is_missing_and_what_came_twice() {
        let mut account = Account::default();
        rows(&mut account, 0, &[1, 2, 5]);
        account.told(|domain| domain == "d0");
        assert_eq!(account.untold(|_| true).count(), 0);
        assert_eq!(account.changes(|_| true).count(), 0);
        // Numbers in another order are no gaps, and what was late is not missing.
        rows(&mut account, 0, &[6, 12, 11, 10, 10, 1, 4]);
        account.made(&run(0), "t", 14);
        let report = account.report().remove(&run(0).stream("t")).unwrap();
        assert_eq!((report.received, report.repeated), (10, 2));
        assert_eq!((report.gaps, report.missing), (3, 1 + 3 + 2));
    }

    #[test]
    fn numbers_far_apart_and_more_streams_than_are_told_apart_are_counted_within_bounds() {
        let mut account = Account::default();
        rows(&mut account, 0, &[i64::MIN, i64::MAX, i64::MIN]);
        for number in 1..STREAMS_MAX + 10 {
            account.unnumbered(&run(number).stream("t"), 1);
        }
        rows(&mut account, STREAMS_MAX + 20, &[1, 3]);
        let report = account.report();
        let first = &report[&run(0).stream("t")];
        assert_eq!((first.missing, first.repeated), (u64::MAX >> 1, 1));
        assert_eq!(report.len(), STREAMS_MAX + 1);
        assert_eq!(report.values().map(|it| it.gaps).sum::<u64>(), 1);
    }
}
