//! A session in which this engine receives: RFC 5326 6.8 to 6.11, 6.14 and 6.21.
//!
//! Claims are binding (6.22), and a crash takes all that is not durable. So the report that makes the claims of a red block
//! complete waits until the node said that the block is durable; until then the sender keeps it. Reports before that claim
//! all that has come: the octets between gaps are worth nothing to a node yet, and need not be sent again.

use alloc::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use dhow_bundle::Instant;

use super::config::Config;
use super::fault::Fault;
use super::local::Local;
use super::operations::Operation;
use super::parts::Parts;
use super::report::{Answer, reports};
use super::segment::{Data, DataHead, Reason, Report, Serials, SessionId};
use super::session_out::MAX_SERIAL_RANGES;
use super::state::{Receiver, ReceiverTrigger};
use super::timer::{Again, Awaited};
use crate::datagram::DatagramEvent;
use crate::datagram::span::{Overlap, Spans};
use crate::stream::TransferId;

/// Reports whose lower bounds are known, for those that follow them. Of others the scope begins at zero.
const MAX_SCOPES: usize = 1_024;

/// An incoming session, until it is over for both sides.
#[derive(Debug)]
pub(super) struct SessionIn {
    pub(super) id: SessionId,
    pub(super) service: u64,
    /// Numbered when its first octets come.
    pub(super) transfer: Option<TransferId>,
    pub(super) state: Receiver,
    pub(super) parts: Parts,
    /// All octets that came.
    received: Spans,
    /// Octets from the start that are durable.
    durable: u64,
    /// All octets have come.
    pub(super) is_complete: bool,
    /// The node has the bundle already: nothing more of it is told.
    pub(super) is_unwanted: bool,
    /// Reports that wait for their acknowledgment.
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
    /// The upper bound of the last primary report.
    primary_upper: u64,
    /// A report told of a gap: the path loses segments.
    has_lost: bool,
    /// When a gap is to be reported unasked.
    gap_at: Option<Instant>,
    pub(super) cancellation: Option<(Reason, Awaited)>,
    /// When the peer last said something.
    heard: Instant,
}

#[derive(Debug)]
struct Issued {
    report: Report,
    awaited: Awaited,
}

/// The end that time brings to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// Not yet.
    No,
    /// It is cancelled.
    Cancel(Reason),
    /// It is over, without a word.
    Over,
}

impl SessionIn {
    pub(super) fn new(id: SessionId, service: u64, first_serial: u64, now: Instant) -> Self {
        Self {
            id,
            service,
            transfer: None,
            state: Receiver::Receiving,
            parts: Parts::default(),
            received: Spans::default(),
            durable: 0,
            is_complete: false,
            is_unwanted: false,
            reports: BTreeMap::new(),
            held: VecDeque::new(),
            told: Spans::default(),
            answered: Spans::default(),
            scopes: VecDeque::new(),
            first_scope: first_serial,
            next_serial: first_serial,
            issued: 0,
            primary_upper: 0,
            has_lost: false,
            gap_at: None,
            cancellation: None,
            heard: now,
        }
    }

    /// Octets behind the first gap.
    pub(super) fn octets_beyond(&self) -> u64 {
        self.received
            .octets()
            .saturating_sub(self.received.prefix())
    }

    /// RFC 5326 6.14, 6.20: all is there, and the sender knows.
    pub(super) fn is_over(&self) -> bool {
        let red = self.parts.red_end.unwrap_or(0);
        self.is_complete
            && self.reports.is_empty()
            && self.held.is_empty()
            && self.told.has_all(0, red)
    }

    /// A data segment came. Octets that were not there before are told of in pieces, for which `room` octets may lie behind
    /// gaps.
    ///
    /// # Errors
    /// The session is to be cancelled.
    pub(super) fn handle_data(
        &mut self,
        now: Instant,
        local: &mut Local,
        room: u64,
        data: &Data,
    ) -> Result<(), Reason> {
        let head = &data.head;
        self.heard = now;
        if head.service != self.service {
            local.faults.count(Fault::ServiceContradicted);
            return Ok(());
        }
        if let Err(fault) = self.parts.check(head) {
            // RFC 5326 6.21: the segment is discarded, and the session cancelled.
            local.faults.count(fault);
            return match fault {
                Fault::Miscolored => Err(Reason::Miscolored),
                _ => Ok(()),
            };
        }
        if head.end() > local.config.transfer_mru {
            local.faults.count(Fault::BlockTooLong);
            return Err(Reason::SystemCancelled);
        }
        self.parts.note(head);
        if head.kind.is_block_end() && self.state == Receiver::Receiving {
            self.state.step(ReceiverTrigger::BlockEndReceived);
        }
        match self.may_take(&local.config, room, head) {
            Ok(()) => self.take(local, head, &data.octets),
            Err(fault) => local.faults.count(fault),
        }
        if let Some(serials) = head.serials {
            self.handle_checkpoint(now, local, head, serials)?;
        }
        self.look_for_gap(now, &local.config);
        Ok(())
    }

    /// Whether there is room for the octets of a segment. Without it they count as lost, while its flags do not.
    fn may_take(&self, config: &Config, room: u64, head: &DataHead) -> Result<(), Fault> {
        let (start, end) = (head.offset, head.end());
        if start <= self.received.prefix() || start == end {
            return Ok(());
        }
        if head.length > room {
            return Err(Fault::BeyondGaps);
        }
        let is_apart = self.received.overlap(start, end) == Overlap::Nothing
            && !self.received.touches(start, end);
        // Half of the gaps are for red octets, which the sender waits for.
        let most = if head.kind.is_red() {
            config.gaps
        } else {
            config.gaps / 2
        };
        if is_apart && self.received.len() >= most {
            return Err(Fault::TooManyGaps);
        }
        Ok(())
    }

    fn take(&mut self, local: &mut Local, head: &DataHead, octets: &Bytes) {
        if head.length == 0 {
            return;
        }
        // A transfer begins with the first octets that are told of.
        let transfer = *self.transfer.get_or_insert_with(|| local.transfer());
        while let Some((from, to)) = { self.received.gaps(head.offset, head.end()).next() } {
            self.received.insert(from, to);
            if self.is_unwanted {
                continue;
            }
            let index = |at: u64| {
                let at = at.saturating_sub(head.offset);
                usize::try_from(at).unwrap_or(usize::MAX).min(octets.len())
            };
            local.events.push_back(DatagramEvent::Piece {
                transfer,
                offset: from,
                octets: octets.slice(index(from)..index(to)),
                length: self.parts.length,
            });
        }
        let whole = (self.parts.length).filter(|length| self.received.octets() == *length);
        if let Some(length) = whole
            && !self.is_complete
        {
            self.is_complete = true;
            if self.is_unwanted {
                self.durable = length;
            } else {
                local
                    .events
                    .push_back(DatagramEvent::Complete { transfer, length });
            }
        }
    }

    /// The report that would make the claims complete waits: all is there, and not durable yet.
    fn withholds(&self) -> bool {
        self.is_complete
            && self.parts.is_all_red()
            && self
                .parts
                .length
                .is_some_and(|length| self.durable < length)
    }

    /// RFC 5326 6.11, or 6.8 where the checkpoint was answered before.
    fn handle_checkpoint(
        &mut self,
        now: Instant,
        local: &mut Local,
        head: &DataHead,
        serials: Serials,
    ) -> Result<(), Reason> {
        let checkpoint = serials.checkpoint;
        let behind = checkpoint.saturating_add(1);
        if self.answered.has_all(checkpoint, behind) {
            return self.repeat_reports(now, local, checkpoint);
        }
        if self.answered.len() >= MAX_SERIAL_RANGES && !self.answered.touches(checkpoint, behind) {
            local.faults.count(Fault::Serials);
            return Ok(());
        }
        let upper = head.end();
        let is_primary = serials.report == 0;
        let lower = if is_primary {
            self.primary_upper
        } else {
            // The lower bound of the report that the checkpoint answers.
            let at = serials.report.checked_sub(self.first_scope);
            let at = at.and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| self.scopes.get(at)).copied().unwrap_or(0)
        };
        // A checkpoint that came late lies below what was reported: a scope that would be empty begins at zero, as it may.
        // So does one in which nothing has come: a report must have a claim.
        let has_claims = self.received.within(lower, upper).next().is_some();
        let lower = if has_claims { lower } else { 0 };
        let answer = Answer {
            checkpoint,
            lower,
            upper,
        };
        if self.withholds() {
            if self.held.len() >= local.config.reports_under_way {
                local.faults.count(Fault::TooManyReports);
                return Ok(());
            }
            self.held.push_back(answer);
        } else if !self.issue(local, answer)? {
            return Ok(());
        }
        self.answered.insert(checkpoint, behind);
        if is_primary {
            self.primary_upper = self.primary_upper.max(upper);
        }
        Ok(())
    }

    /// Report; false when nothing can be reported now.
    fn issue(&mut self, local: &mut Local, mut answer: Answer) -> Result<bool, Reason> {
        if self.issued >= local.config.reports {
            return Err(Reason::RetransmissionLimit);
        }
        // RFC 5326 6.11: a report may tell of more than it is asked for. A red part that is there is one claim, by which a
        // sender knows that nothing is missing without any other report.
        let red = self.parts.red_end;
        if let Some(red) = red.filter(|red| self.received.has_all(0, *red)) {
            (answer.lower, answer.upper) = (0, red);
        }
        let serial = self.next_serial;
        let segments = reports(self.id, &self.received, answer, serial, local.room());
        if segments.is_empty() {
            return Ok(false);
        }
        let under_way = self.reports.len().saturating_add(segments.len());
        if under_way > local.config.reports_under_way && !self.reports.is_empty() {
            local.faults.count(Fault::TooManyReports);
            return Ok(false);
        }
        let red = self.parts.red_upper.min(answer.upper);
        self.has_lost |= !self.received.has_all(answer.lower, red);
        let copies = if self.has_lost && local.config.doubling > 0 {
            2
        } else {
            1
        };
        for report in segments {
            // RFC 5326 3.2.2: the next serial number must be greater by one.
            self.next_serial = report.serial.saturating_add(1);
            self.issued = self.issued.saturating_add(1);
            self.scopes.push_back(report.lower);
            if self.scopes.len() > MAX_SCOPES {
                self.scopes.pop_front();
                self.first_scope = self.first_scope.saturating_add(1);
            }
            for _ in 0..copies {
                local.operate(Operation::Report(self.id.number, report.serial));
            }
            let awaited = Awaited::new();
            self.reports
                .insert(report.serial, Issued { report, awaited });
        }
        Ok(true)
    }

    /// A checkpoint came again: its reports leave again, but for those that are on their way, and those that were
    /// acknowledged, which the sender has (RFC 5326 6.8).
    fn repeat_reports(
        &mut self,
        now: Instant,
        local: &mut Local,
        checkpoint: u64,
    ) -> Result<(), Reason> {
        let number = self.id.number;
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
    fn look_for_gap(&mut self, now: Instant, config: &Config) {
        if !self.has_news() {
            self.gap_at = None;
        } else if self.gap_at.is_none() {
            self.gap_at = Some(now + config.reordering);
        }
    }

    fn has_news(&self) -> bool {
        self.parts.red_end.is_none()
            && self.primary_upper < self.parts.red_upper
            && !self
                .received
                .has_all(self.primary_upper, self.parts.red_upper)
    }

    /// Report a gap unasked, unless many reports were made: those that are asked for come first.
    fn report_gap(&mut self, local: &mut Local) -> Result<(), Reason> {
        let answer = Answer {
            checkpoint: 0,
            lower: self.primary_upper,
            // RFC 5326 6.11: the upper bound must be the greatest of all red segments.
            upper: self.parts.red_upper,
        };
        let has_room = self.reports.len() < local.config.reports_under_way
            && self.issued < local.config.reports / 2;
        if has_room && self.issue(local, answer)? {
            self.primary_upper = answer.upper;
        }
        Ok(())
    }

    /// The node says that octets from the start are durable.
    ///
    /// # Errors
    /// The session is to be cancelled.
    pub(super) fn handle_durable(&mut self, local: &mut Local, octets: u64) -> Result<(), Reason> {
        self.durable = self.durable.max(octets);
        while !self.withholds()
            && let Some(answer) = self.held.pop_front()
        {
            if !self.issue(local, answer)? {
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
    pub(super) fn handle_report_ack(
        &mut self,
        now: Instant,
        local: &mut Local,
        serial: u64,
    ) -> Result<(), Reason> {
        self.heard = now;
        if let Some(issued) = self.reports.remove(&serial) {
            for (start, end) in issued.report.claims {
                self.told.add(start, end);
            }
            // There is room for another report.
            self.look_for_gap(now, &local.config);
        }
        self.handle_durable(local, 0)
    }

    /// Time has passed (RFC 5326 6.8).
    pub(super) fn handle_timeout(&mut self, now: Instant, local: &mut Local) -> Expiry {
        if let Some((_, awaited)) = &mut self.cancellation {
            // RFC 5326 6.16.
            if awaited.is_over(now) {
                match awaited.again(local.config.transmissions) {
                    Again::Queue => {
                        let party = super::segment::Party::Receiver;
                        local.operate(Operation::Cancel(party, self.id.number));
                    }
                    Again::OnItsWay => {}
                    Again::Exceeded => return Expiry::Over,
                }
            }
            return Expiry::No;
        }
        for (serial, issued) in &mut self.reports {
            if !issued.awaited.is_over(now) {
                continue;
            }
            match issued.awaited.again(local.config.transmissions) {
                Again::Queue => local.operate(Operation::Report(self.id.number, *serial)),
                Again::OnItsWay => {}
                Again::Exceeded => return Expiry::Cancel(Reason::RetransmissionLimit),
            }
        }
        if self.gap_at.is_some_and(|at| at <= now) {
            self.gap_at = None;
            if self.has_news()
                && let Err(reason) = self.report_gap(local)
            {
                return Expiry::Cancel(reason);
            }
        }
        let is_deaf = local.distance.deaf_since.is_some();
        match self.silence_deadline(&local.config).filter(|_| !is_deaf) {
            Some(end) if end <= now && (self.is_complete || self.waits_for_green()) => Expiry::Over,
            Some(end) if end <= now => {
                local.faults.count(Fault::Idle);
                Expiry::Cancel(Reason::SystemCancelled)
            }
            _ => Expiry::No,
        }
    }

    /// When something is to be done, while nothing else happens.
    pub(super) fn deadline(&self, config: &Config, is_deaf: bool) -> Option<Instant> {
        if let Some((_, awaited)) = &self.cancellation {
            return awaited.deadline();
        }
        let reports = self.reports.values();
        let reports = reports.filter_map(|issued| issued.awaited.deadline());
        let silence = self.silence_deadline(config).filter(|_| !is_deaf);
        reports.chain(silence).chain(self.gap_at).min()
    }

    /// Nothing is missing but green octets, which nobody sends again.
    fn waits_for_green(&self) -> bool {
        let red = self.parts.red_end;
        self.parts.is_green() || red.is_some_and(|red| self.told.has_all(0, red))
    }

    /// When the peer's silence ends the session.
    fn silence_deadline(&self, config: &Config) -> Option<Instant> {
        if self.withholds() {
            // The node's turn.
            return None;
        }
        let time = if !self.is_complete && self.waits_for_green() {
            config.green_timeout
        } else {
            config.idle_timeout
        };
        Some(self.heard + time)
    }

    /// The peer ceases transmission.
    pub(super) fn suspend(&mut self, now: Instant) {
        let reports = self.reports.values_mut();
        reports.for_each(|issued| issued.awaited.suspend(now));
        if let Some((_, awaited)) = &mut self.cancellation {
            awaited.suspend(now);
        }
    }

    /// The peer transmits again, for the first time since `since`.
    pub(super) fn resume(&mut self, since: Instant, now: Instant) {
        self.heard = self.heard + now.since(self.heard.max(since));
        let reports = self.reports.values_mut();
        reports.for_each(|issued| issued.awaited.resume(now));
        if let Some((_, awaited)) = &mut self.cancellation {
            awaited.resume(now);
        }
    }

    /// A report that is to be sent.
    pub(super) fn report(&self, serial: u64) -> Option<&Report> {
        self.reports.get(&serial).map(|issued| &issued.report)
    }

    /// The wait for a report's acknowledgment.
    pub(super) fn awaited(&mut self, serial: u64) -> Option<&mut Awaited> {
        self.reports
            .get_mut(&serial)
            .map(|issued| &mut issued.awaited)
    }

    /// RFC 5326 6.19: nothing of the session is sent or waited for any more.
    pub(super) fn clear(&mut self) {
        self.reports.clear();
        self.held.clear();
        self.received = Spans::default();
        self.gap_at = None;
    }
}
