//! A session in which the node at this end sends (RFC 5326 6.1, 6.7, 6.12, 6.13, 6.16).

use std::collections::{BTreeMap, BTreeSet};

use dhow_bundle::Instant;

use super::cargo::{Cargo, Step};
use super::distance::Distance;
use super::segment::{Data, Report};
use super::spans::Spans;
use super::{LEFT_OVER, Session, Verdict};
use crate::oracle::Seen;

/// The session, as its segments show it.
#[derive(Debug, Default)]
pub(super) struct Sending {
    cargo: Cargo,
    red_end: Option<u64>,
    length: Option<u64>,
    first_green: Option<u64>,
    /// The end of the last red octet that left.
    red_sent: u64,
    checkpoints: BTreeMap<u64, Checkpoint>,
    /// Serial numbers of reports that came.
    reports: BTreeSet<u64>,
    claimed: Spans,
    /// Octets that a report told to be missing.
    missing: Spans,
    is_acknowledged: bool,
    /// The time since which no segment of it should leave.
    over: Option<Instant>,
    pub(super) session: Session,
}

#[derive(Debug)]
struct Checkpoint {
    end: u64,
    is_red_end: bool,
    is_block_end: bool,
    report: u64,
    left: Instant,
}

impl Sending {
    /// Octets leave.
    pub(super) fn handle_data(
        &mut self,
        data: &Data<'_>,
        now: Instant,
        distance: &Distance,
    ) -> Verdict {
        if self.session.has_cancelled() {
            return Err("sends data of a session that it cancelled (6.19)".to_owned());
        }
        if self.over.is_some_and(|over| over + LEFT_OVER < now) {
            return Err("sends data of a session that is over (6.12, 6.20)".to_owned());
        }
        self.check_parts(data)?;
        self.check_repeat(data)?;
        self.check_checkpoint(data, now, distance)?;
        let (steps, is_same) = self.cargo.add(data.offset, data.octets);
        let mut seen = Vec::new();
        for step in steps {
            seen.push(match step {
                Step::Read(Ok(parcel)) => Seen::Said(parcel),
                Step::Read(Err(what)) => Seen::Nonsense(what),
                Step::Whole(parcel, octets) => Seen::SaidWhole(parcel, octets),
            });
        }
        if !is_same {
            let what = "sends other octets of a block than before".to_owned();
            seen.push(Seen::Nonsense(what));
        }
        if let Some(length) = self.length
            && self.cargo.known.covers(0, length)
            && !self.cargo.is_whole(length)
            && !seen.iter().any(|it| matches!(it, Seen::Nonsense(_)))
            && !self.is_acknowledged
        {
            let what = "sends a block that is not bundles alone".to_owned();
            seen.push(Seen::Nonsense(what));
        }
        Ok(seen)
    }

    /// RFC 5326 4.1: red octets are a prefix, whose end and that of the block do not change.
    fn check_parts(&mut self, data: &Data<'_>) -> Result<(), String> {
        let (start, end) = (data.offset, data.end());
        if data.is_red {
            self.red_sent = self.red_sent.max(end);
        } else {
            self.first_green = Some(self.first_green.map_or(start, |first| first.min(start)));
        }
        if data.is_red_end && *self.red_end.get_or_insert(end) != end {
            return Err("says two ends of a red part (3.1.2)".to_owned());
        }
        if data.is_block_end && *self.length.get_or_insert(end) != end {
            return Err("says two ends of a block (3.1.2)".to_owned());
        }
        let is_beyond = |end_of: Option<u64>, end: u64| end_of.is_some_and(|it| end > it);
        if is_beyond(self.first_green, self.red_sent) || is_beyond(self.red_end, self.red_sent) {
            return Err("sends red octets behind green ones (4.1)".to_owned());
        }
        match is_beyond(self.length, end) {
            true => Err("sends octets behind the end of a block (3.1.2)".to_owned()),
            false => Ok(()),
        }
    }

    /// Octets leave again where a report lacks them, or with a checkpoint that was not answered; green ones never (RFC 5326 2, 6.7, 6.13).
    fn check_repeat(&self, data: &Data<'_>) -> Result<(), String> {
        let (start, end) = (data.offset, data.end());
        if !self.cargo.known.meets(start, end) {
            return Ok(());
        }
        if !data.is_red {
            return Err("sends green octets again (2)".to_owned());
        }
        let is_known = |(serial, _): (u64, u64)| self.checkpoints.contains_key(&serial);
        if data.checkpoint.is_some_and(is_known) || self.missing.covers(start, end) {
            return Ok(());
        }
        Err("sends octets again that no report lacks (6.13)".to_owned())
    }

    /// RFC 5326 3.2.1, 6.5, 6.7.
    fn check_checkpoint(
        &mut self,
        data: &Data<'_>,
        now: Instant,
        distance: &Distance,
    ) -> Result<(), String> {
        let Some((serial, report)) = data.checkpoint else {
            return Ok(());
        };
        if serial == 0 {
            return Err("sends a checkpoint without a number (3.2.1)".to_owned());
        }
        if report != 0 && !self.reports.contains(&report) {
            return Err("answers a report that did not come (3.2.1)".to_owned());
        }
        if let Some(known) = self.checkpoints.get_mut(&serial) {
            let is_same = (known.end, known.report) == (data.end(), report)
                && (known.is_red_end, known.is_block_end) == (data.is_red_end, data.is_block_end);
            if !is_same {
                return Err("gives one number to two checkpoints (3.2.1)".to_owned());
            }
            if !distance.may_repeat(known.left, now) {
                return Err(
                    "sends a checkpoint again before it can have been answered (6.5)".to_owned(),
                );
            }
            known.left = now;
            return Ok(());
        }
        if let Some((last, _)) = self.checkpoints.last_key_value()
            && last.checked_add(1) != Some(serial)
        {
            return Err("gives a checkpoint another number than the next (3.2.1)".to_owned());
        }
        let checkpoint = Checkpoint {
            end: data.end(),
            is_red_end: data.is_red_end,
            is_block_end: data.is_block_end,
            report,
            left: now,
        };
        self.checkpoints.insert(serial, checkpoint);
        Ok(())
    }

    /// A report came: whether it is one that must be acknowledged (RFC 5326 6.13).
    pub(super) fn handle_report(&mut self, report: &Report, now: Instant) -> (bool, Vec<Seen>) {
        let is_asked = report.checkpoint == 0 || self.checkpoints.contains_key(&report.checkpoint);
        if !is_asked || report.upper > self.red_sent {
            return (false, Vec::new());
        }
        self.reports.insert(report.serial);
        for (start, end) in &report.claims {
            self.claimed.add(*start, *end);
        }
        let mut told = Spans::default();
        for (start, end) in &report.claims {
            told.add(*start, *end);
        }
        for (start, end) in told.gaps(report.lower, report.upper) {
            self.missing.add(start, end);
        }
        let is_red = self.red_end.is_some() && self.red_end == self.length;
        let red_end = self.red_end.filter(|end| self.claimed.covers(0, *end));
        if red_end.is_none() || self.is_acknowledged {
            return (true, Vec::new());
        }
        self.is_acknowledged = true;
        let mut seen = Vec::new();
        if is_red {
            self.over.get_or_insert(now);
            let whole = self.cargo.whole.drain(..);
            seen.extend(whole.map(|parcel| {
                let octets = parcel.octets();
                Seen::Acknowledged(parcel, octets)
            }));
            self.cargo.forget();
        }
        (true, seen)
    }

    /// The peer cancelled the session.
    pub(super) fn handle_cancelled(&mut self, now: Instant) {
        self.over.get_or_insert(now);
        self.cargo.forget();
    }
}
