//! What became of rows, by domain, sender and stream: stored, refused and why, missing by their numbers.

use std::collections::BTreeMap;

use crate::omsp::{Reason, Tally};

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
        self.rejected.values().sum()
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
        self.received += other.received;
        self.gaps += other.gaps;
        self.missing += other.missing;
        self.repeated += other.repeated;
        for (reason, count) in &other.rejected {
            *self.rejected.entry(*reason).or_default() += count;
        }
    }
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
    last: BTreeMap<StreamName, i64>,
}

impl Account {
    /// Rows of a stream came with those numbers.
    pub fn rows(&mut self, name: &StreamName, numbers: impl Iterator<Item = i64>) {
        let mut report = StreamReport::default();
        let mut last = self.last.get(name).copied();
        for number in numbers {
            report.received += 1;
            match last {
                Some(last) if number <= last => report.repeated += 1,
                Some(last) if number > last.saturating_add(1) => {
                    report.gaps += 1;
                    let missing = number.saturating_sub(last).saturating_sub(1);
                    report.missing += u64::try_from(missing).unwrap_or_default();
                }
                _ => {}
            }
            last = Some(number);
        }
        if let Some(last) = last {
            self.last.insert(self.bounded(name), last);
        }
        self.fresh(name).add(&report);
    }

    /// Rows came whose numbers say nothing: those of metadata are counted in different ways by clients, and some of it is not stored.
    pub fn unnumbered(&mut self, name: &StreamName, rows: u64) {
        self.fresh(name).received += rows;
    }

    /// Rows were refused; `stream` names the stream of an index.
    pub fn refused(&mut self, tally: &Tally, mut name: impl FnMut(Option<u8>) -> StreamName) {
        for (index, reason, count) in tally.iter() {
            let name = name(index);
            *self.fresh(&name).rejected.entry(reason).or_default() += count;
        }
    }

    /// What came of a stream cannot be stored.
    pub fn unstored(&mut self, name: &StreamName, rows: u64) {
        let report = self.fresh(name);
        report.received = report.received.saturating_sub(rows);
        *report.rejected.entry(Reason::NoTable).or_default() += rows;
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
                domain: name.domain.clone(),
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
        account.rows(&name, [1, 2, 5].into_iter());
        account.told(|domain| domain == "d");
        assert_eq!(account.untold(|_| true).count(), 0);
        account.rows(&name, [6, 10, 10, 1, 2].into_iter());
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
}
