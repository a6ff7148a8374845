//! The reports of an incoming session: RFC 5326 6.8, 6.11 and 6.14.
//!
//! Claims are binding (6.22), and a crash takes all that is not durable. So the report that makes the claims of a red block
//! complete waits until the node said that the block is durable; until then the sender keeps it. Reports before that claim
//! all that has come: the octets between gaps are worth nothing to a node yet, and need not be sent again.

use alloc::collections::{BTreeMap, VecDeque};

use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};

use super::config::Config;
use super::fault::Fault;
use super::local::Local;
use super::operations::Operation;
use super::reception::Reception;
use super::report::{Answer, reports};
use super::segment::{DataHead, Reason, Report, Serials};
use super::timer::{Again, Awaited, Change};
use crate::datagram::span::Spans;

/// Ranges of serial numbers that are known of a session: reports and checkpoints are lost, but not hundreds of runs of them.
pub(super) const MAX_SERIAL_RANGES: usize = 256;

/// Reports whose lower bounds are known, for those that follow them. Of others the scope begins at zero.
const MAX_SCOPES: usize = 1_024;

/// Gaps are reported unasked so many times in a round trip, at most: each report may bring a checkpoint, whose report has to have room.
const GAP_REPORTS: u32 = 16;

/// Unasked reports of a session whose sender repairs late, beside one for [`GAPS_PER_REPORT`] gaps. It may answer each with a checkpoint, and
/// cancel a session that takes more of them than loss explains: ION, which repairs a block once it has sent all of it, expects one
/// for 19 gaps. A sender that has filled half of the gaps of which it was told gets more.
const FREE_REPORTS: u32 = 4;

const GAPS_PER_REPORT: u32 = 32;

/// The reports of a session: asked for, unasked, held back, and acknowledged.
#[derive(Debug)]
pub(super) struct Reporting {
    /// Reports that wait for their acknowledgment. RFC 5326 3.2.2: the serial number of one that is sent again must be the
    /// one that it had.
    reports: BTreeMap<u64, Issued>,
    /// Answers that wait until all is durable.
    held: VecDeque<Answer>,
    /// Claims that were acknowledged.
    told: Spans,
    /// Checkpoints that were answered.
    answered: Spans,
    /// Lower bounds of reports, the first of which has the number `first_scope`.
    scopes: VecDeque<u64>,
    first_scope: u64,
    next_serial: u64,
    /// Reports in all.
    issued: u32,
    /// So many claims and more had no room in the reports that may wait; nothing was acknowledged since. Else a peer that sends checkpoints and
    /// acknowledges nothing would have all claims put together for each of them.
    unfit: Option<usize>,
    /// Claims that were put together, whether they had room or not.
    #[cfg(test)]
    pub(super) put_together: usize,
    /// Unasked reports, and the gaps of which they told.
    unasked: u32,
    gaps_told: u32,
    /// The upper bound of the last primary report. RFC 5326 6.11: the first must begin at zero.
    primary_upper: u64,
    /// Whether a report told of a gap: the path loses segments.
    has_lost: bool,
    /// When a gap is to be reported unasked.
    gap_at: Option<Instant>,
    /// The time from which on the next report may be made.
    next_gap: Instant,
}

#[derive(Debug)]
struct Issued {
    report: Report,
    awaited: Awaited,
}

impl Reporting {
    pub(super) fn new(first_serial: u64) -> Self {
        Self {
            reports: BTreeMap::new(),
            held: VecDeque::new(),
            told: Spans::default(),
            answered: Spans::default(),
            scopes: VecDeque::new(),
            first_scope: first_serial,
            next_serial: first_serial,
            issued: 0,
            unfit: None,
            #[cfg(test)]
            put_together: 0,
            unasked: 0,
            gaps_told: 0,
            primary_upper: 0,
            has_lost: false,
            gap_at: None,
            next_gap: Instant::START,
        }
    }

    /// The sender knows that so many octets from the start are here.
    pub(super) fn has_told(&self, octets: u64) -> bool {
        self.told.has_all(0, octets)
    }

    /// No report waits for anything.
    pub(super) fn is_idle(&self) -> bool {
        self.reports.is_empty() && self.held.is_empty()
    }

    /// RFC 5326 6.11, or 6.8 where the checkpoint was answered before.
    ///
    /// # Errors
    /// The session is to be cancelled.
    pub(super) fn handle_checkpoint(
        &mut self,
        now: Instant,
        local: &mut Local,
        of: &Reception,
        head: &DataHead,
        serials: Serials,
    ) -> Result<(), Reason> {
        let checkpoint = serials.checkpoint;
        let behind = checkpoint.saturating_add(1);
        if self.answered.has_all(checkpoint, behind) {
            return self.repeat(now, local, of.id.number, checkpoint);
        }
        if self.answered.len() >= MAX_SERIAL_RANGES && !self.answered.touches(checkpoint, behind) {
            local.faults.count(Fault::Serials);
            return Ok(());
        }
        let upper = head.end();
        let is_primary = serials.report == 0;
        if !is_primary && self.issued == 0 {
            // RFC 5326 6.22: this engine has claimed octets that it no longer has.
            local.faults.count(Fault::StateLost);
            return Err(Reason::SystemCancelled);
        }
        let lower = if is_primary {
            self.primary_upper
        } else {
            // The lower bound of the report that the checkpoint answers.
            let at = serials.report.checked_sub(self.first_scope);
            let at = at.and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| self.scopes.get(at)).copied().unwrap_or(0)
        };
        // RFC 5326 6.11: a report must not be issued whose scope is empty. A checkpoint that came late lies below what was
        // reported; its scope begins at zero, as any may.
        // So does one in which nothing has come: a report must have a claim.
        let has_claims = of.received.within(lower, upper).next().is_some();
        let lower = if has_claims { lower } else { 0 };
        let answer = Answer {
            checkpoint,
            lower,
            upper,
        };
        if of.withholds() {
            if self.held.len() >= local.config.reports_under_way {
                local.faults.count(Fault::TooManyReports);
                return Ok(());
            }
            self.held.push_back(answer);
        } else if !self.issue(local, of, answer)? {
            return Ok(());
        }
        self.answered.insert(checkpoint, behind);
        if is_primary {
            self.primary_upper = self.primary_upper.max(upper);
        }
        Ok(())
    }

    /// Report; false when nothing can be reported now.
    fn issue(
        &mut self,
        local: &mut Local,
        of: &Reception,
        mut answer: Answer,
    ) -> Result<bool, Reason> {
        if self.issued >= local.config.reports_of(of.received.octets()) {
            return Err(Reason::RetransmissionLimit);
        }
        // RFC 5326 6.11: a report may tell of more than it is asked for. A red part that is there is one claim, by which a
        // sender knows that nothing is missing without any other report.
        if let Some(red) = of.whole_red() {
            (answer.lower, answer.upper) = (0, red);
        }
        let claims = of.received.count_within(answer.lower, answer.upper);
        if self.unfit.is_some_and(|unfit| claims >= unfit) {
            local.faults.count(Fault::TooManyReports);
            return Ok(false);
        }
        #[cfg(test)]
        {
            self.put_together += claims;
        }
        let serial = self.next_serial;
        let segments = reports(of.id, &of.received, answer, serial, local.room(of.id));
        if segments.is_empty() {
            return Ok(false);
        }
        let under_way = self.reports.len().saturating_add(segments.len());
        if under_way > local.config.reports_under_way && !self.reports.is_empty() {
            self.unfit = Some(claims);
            local.faults.count(Fault::TooManyReports);
            return Ok(false);
        }
        let red = of.parts.red_upper.min(answer.upper);
        self.has_lost |= !of.received.has_all(answer.lower, red);
        let copies = if self.has_lost && local.config.doubling > 0 {
            2
        } else {
            1
        };
        for mut report in segments {
            if planted(Mutant::ClaimOutsideScope) {
                report.upper = report.upper.saturating_sub(1);
            }
            // RFC 5326 3.2.2: the next serial number must be greater by one.
            self.next_serial = report.serial.saturating_add(1);
            self.issued = self.issued.saturating_add(1);
            self.scopes.push_back(report.lower);
            if self.scopes.len() > MAX_SCOPES {
                self.scopes.pop_front();
                self.first_scope = self.first_scope.saturating_add(1);
            }
            for _ in 0..copies {
                local.operate(Operation::Report(of.id.number, report.serial));
            }
            let awaited = Awaited::new();
            self.reports
                .insert(report.serial, Issued { report, awaited });
        }
        Ok(true)
    }

    /// A checkpoint came again: its reports leave again, but for those that are on their way, and those that were
    /// acknowledged, which the sender has (RFC 5326 6.8).
    fn repeat(
        &mut self,
        now: Instant,
        local: &mut Local,
        number: u64,
        checkpoint: u64,
    ) -> Result<(), Reason> {
        for (serial, issued) in &mut self.reports {
            let is_young = issued.awaited.is_young(now, local.config.reordering);
            if issued.report.checkpoint != checkpoint || is_young {
                continue;
            }
            match issued.awaited.again(local.config.transmissions) {
                Again::Queue => local.operate(Operation::Report(number, *serial)),
                Again::OnItsWay => {}
                Again::Exceeded => return Err(Reason::RetransmissionLimit),
            }
        }
        Ok(())
    }

    /// Octets below the end of the red part are missing of which no report has told, and the end of the red part has not
    /// come, which would bring a report by itself: tell soon (RFC 5326 6.11).
    pub(super) fn look_for_gap(&mut self, now: Instant, config: &Config, of: &Reception) {
        if !self.has_news(of) {
            self.gap_at = None;
        } else if self.gap_at.is_none() {
            self.gap_at = Some((now + config.reordering).max(self.next_gap));
        }
    }

    fn has_news(&self, of: &Reception) -> bool {
        of.parts.red_end.is_none()
            && self.primary_upper < of.parts.red_upper
            && !of.received.has_all(self.primary_upper, of.parts.red_upper)
    }

    /// Report a gap unasked, unless many reports were made: those that are asked for come first.
    fn report_gap(&mut self, local: &mut Local, of: &Reception) -> Result<(), Reason> {
        let answer = Answer {
            // RFC 5326 3.2.2: it must be zero where no checkpoint asked.
            checkpoint: 0,
            lower: self.primary_upper,
            // RFC 5326 6.11: the upper bound must be the greatest of all red segments.
            upper: of.parts.red_upper,
        };
        let gaps = |from, to| u32::try_from(of.received.gaps(from, to).count()).unwrap_or(u32::MAX);
        let gaps_told = (self.gaps_told).saturating_add(gaps(answer.lower, answer.upper));
        let few = FREE_REPORTS.saturating_add(gaps_told / GAPS_PER_REPORT);
        let repairs_soon = gaps(0, answer.lower) < self.gaps_told.div_ceil(2);
        // A repair that is lost again is asked about again, so on a path that loses much more answers than unasked reports wait.
        let waiting = self.reports.values();
        let waiting = waiting.filter(|it| it.report.checkpoint == 0).count();
        let has_room = waiting < local.config.reports_under_way.div_ceil(2)
            && self.reports.len() < local.config.reports_under_way
            && self.issued < local.config.reports_of(of.received.octets()) / 2
            && (self.unasked < few || repairs_soon);
        if has_room && self.issue(local, of, answer)? {
            self.primary_upper = answer.upper;
            self.unasked = self.unasked.saturating_add(1);
            self.gaps_told = gaps_told;
        }
        Ok(())
    }

    /// Octets have become durable, or there is room for another report: answers that were held back may leave.
    ///
    /// # Errors
    /// The session is to be cancelled.
    pub(super) fn release(&mut self, local: &mut Local, of: &Reception) -> Result<(), Reason> {
        while !of.withholds()
            && let Some(answer) = self.held.pop_front()
        {
            if !self.issue(local, of, answer)? {
                self.held.push_front(answer);
                break;
            }
        }
        Ok(())
    }

    /// A report was acknowledged (RFC 5326 6.14).
    ///
    /// # Errors
    /// The session is to be cancelled.
    pub(super) fn handle_ack(
        &mut self,
        now: Instant,
        local: &mut Local,
        of: &Reception,
        serial: u64,
    ) -> Result<(), Reason> {
        if let Some(issued) = self.reports.remove(&serial) {
            self.unfit = None;
            for (start, end) in issued.report.claims {
                self.told.add(start, end);
            }
            // There is room for another report.
            self.look_for_gap(now, &local.config, of);
        }
        self.release(local, of)
    }

    /// Time has passed (RFC 5326 6.8).
    ///
    /// # Errors
    /// The session is to be cancelled.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        local: &mut Local,
        of: &Reception,
    ) -> Result<(), Reason> {
        for (serial, issued) in &mut self.reports {
            if !issued.awaited.is_over(now) {
                continue;
            }
            match issued.awaited.again(local.config.transmissions) {
                Again::Queue => local.operate(Operation::Report(of.id.number, *serial)),
                Again::OnItsWay => {}
                Again::Exceeded => return Err(Reason::RetransmissionLimit),
            }
        }
        if self.gap_at.is_some_and(|at| at <= now) {
            self.gap_at = None;
            if self.has_news(of) {
                self.next_gap = now + local.config.round_trip() / GAP_REPORTS;
                return self.report_gap(local, of);
            }
        }
        Ok(())
    }

    /// When something is to be done, while nothing else happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let reports = self.reports.values();
        let reports = reports.filter_map(|issued| issued.awaited.deadline());
        reports.chain(self.gap_at).min()
    }

    /// The way to the peer is another.
    pub(super) fn follow(&mut self, change: Change) {
        let reports = self.reports.values_mut();
        reports.for_each(|issued| issued.awaited.follow(change));
    }

    /// A report that is to be sent.
    pub(super) fn report(&self, serial: u64) -> Option<&Report> {
        self.reports.get(&serial).map(|issued| &issued.report)
    }

    /// The wait for a report's acknowledgment.
    pub(super) fn awaited(&mut self, serial: u64) -> Option<&mut Awaited> {
        let issued = self.reports.get_mut(&serial);
        issued.map(|issued| &mut issued.awaited)
    }

    /// RFC 5326 6.19: nothing is sent or waited for any more.
    pub(super) fn clear(&mut self) {
        self.reports.clear();
        self.unfit = None;
        self.held.clear();
        self.gap_at = None;
    }
}
