//! A session in which the node at this end receives (RFC 5326 6.8, 6.11, 6.14).

use std::collections::BTreeMap;

use dhow_bundle::Instant;

use super::cargo::{Cargo, Step};
use super::distance::Distance;
use super::segment::{Data, Report};
use super::spans::Spans;
use super::{LEFT_OVER, Session, Verdict};
use crate::oracle::Seen;

/// The session, as its segments show it.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    cargo: Cargo,
    /// The end of the last red octet that came.
    red_heard: u64,
    red_end: Option<u64>,
    length: Option<u64>,
    /// Checkpoints that came: the end of each, and the report that it answers.
    checkpoints: BTreeMap<u64, (u64, u64)>,
    /// Checkpoints that came, each time.
    asked: u64,
    reports: BTreeMap<u64, Told>,
    claimed: Spans,
    is_acknowledged: bool,
    /// The time at which the peer cancelled the session.
    cancelled: Option<Instant>,
    pub(super) session: Session,
}

/// A report that has left.
#[derive(Debug)]
struct Told {
    report: Report,
    left: Instant,
    /// Checkpoints that had come by then.
    asked: u64,
    /// When its acknowledgment came.
    acknowledged: Option<Instant>,
}

impl Receiving {
    /// Octets came.
    pub(super) fn handle_data(&mut self, data: &Data<'_>) -> Vec<Seen> {
        let end = data.end();
        if data.is_red {
            self.red_heard = self.red_heard.max(end);
        }
        self.red_end = self.red_end.or(data.is_red_end.then_some(end));
        self.length = self.length.or(data.is_block_end.then_some(end));
        if let Some((serial, report)) = data.checkpoint {
            self.checkpoints.insert(serial, (end, report));
            self.asked += 1;
        }
        let (steps, _) = self.cargo.add(data.offset, data.octets);
        let seen = steps.into_iter().filter_map(|step| match step {
            Step::Read(read) => read.ok().map(Seen::Heard),
            Step::Whole(parcel, _) => Some(Seen::HeardWhole(parcel)),
        });
        seen.collect()
    }

    /// Something of it came, and more may.
    pub(super) fn is_receiving(&self) -> bool {
        !self.is_acknowledged && self.cancelled.is_none() && !self.session.has_cancelled()
    }

    /// A report leaves.
    pub(super) fn handle_report(
        &mut self,
        report: &Report,
        now: Instant,
        distance: &Distance,
    ) -> Verdict {
        if self.session.has_cancelled() {
            return Err("reports of a session that it cancelled (6.19)".to_owned());
        }
        if self.cancelled.is_some_and(|at| at + LEFT_OVER < now) {
            return Err("reports of a session that the peer cancelled (6.17)".to_owned());
        }
        if let Some(known) = self.reports.get_mut(&report.serial) {
            if known.report != *report {
                return Err("gives one number to two reports (3.2.2)".to_owned());
            }
            if known.acknowledged.is_some_and(|at| at + LEFT_OVER < now) {
                return Err("sends a report again that was acknowledged (6.14)".to_owned());
            }
            let was_asked = self.asked > known.asked;
            if !was_asked && !distance.may_repeat(known.left, now) {
                return Err(
                    "sends a report again before it can have been acknowledged (6.5)".to_owned(),
                );
            }
            (known.left, known.asked) = (now, self.asked);
            return Ok(Vec::new());
        }
        self.check_report(report)?;
        for (start, end) in &report.claims {
            self.claimed.add(*start, *end);
        }
        let told = Told {
            report: report.clone(),
            left: now,
            asked: self.asked,
            acknowledged: None,
        };
        self.reports.insert(report.serial, told);
        let red_end = self.red_end.filter(|end| self.claimed.covers(0, *end));
        if red_end.is_none() || self.is_acknowledged {
            return Ok(Vec::new());
        }
        self.is_acknowledged = true;
        if red_end != self.length {
            return Ok(Vec::new());
        }
        let whole = self.cargo.whole.drain(..);
        let seen = whole.map(|parcel| {
            let octets = parcel.octets();
            Seen::Acknowledges(parcel, octets)
        });
        let seen = seen.collect();
        self.cargo.forget();
        Ok(seen)
    }

    /// RFC 5326 3.2.2, 6.11, 6.22.
    fn check_report(&self, report: &Report) -> Result<(), String> {
        let is_next = |(last, _): (&u64, _)| last.checked_add(1) == Some(report.serial);
        if report.serial == 0 || !self.reports.last_key_value().is_none_or(is_next) {
            return Err("gives a report another number than the next (3.2.2)".to_owned());
        }
        if report.lower >= report.upper || report.claims.is_empty() {
            return Err("sends a report without scope or claims (6.11)".to_owned());
        }
        let mut at = report.lower;
        for (start, end) in &report.claims {
            if *start < at || start >= end || *end > report.upper {
                return Err(
                    "claims octets outside of a report's scope, or out of order (3.2.2)".to_owned(),
                );
            }
            if !self.cargo.known.covers(*start, *end) {
                return Err("claims octets that did not come (6.11)".to_owned());
            }
            at = *end;
        }
        // Reports of one checkpoint may follow each other, and the first of all begins at the start of the block.
        if self.reports.is_empty() && report.lower != 0 {
            return Err("begins its first report behind the start of the block (6.11)".to_owned());
        }
        let is_all = report.lower == 0 && self.red_end == Some(report.upper);
        let is_right = match report.checkpoint {
            0 => report.upper <= self.red_heard,
            serial => match self.checkpoints.get(&serial) {
                Some((end, _)) => report.upper <= *end || is_all,
                None => return Err("answers a checkpoint that did not come (3.2.2)".to_owned()),
            },
        };
        match is_right {
            true => Ok(()),
            false => Err("reports of more than it was asked for or has (6.11)".to_owned()),
        }
    }

    /// The peer acknowledges a report.
    pub(super) fn handle_acknowledged(&mut self, serial: u64, now: Instant) {
        if let Some(known) = self.reports.get_mut(&serial) {
            known.acknowledged.get_or_insert(now);
        }
    }

    /// The peer cancelled the session.
    pub(super) fn handle_cancelled(&mut self, now: Instant) {
        self.cancelled.get_or_insert(now);
        self.cargo.forget();
    }
}
