//! A session in which this engine sends: RFC 5326 6.7, 6.12 and 6.13.

use alloc::collections::{BTreeMap, VecDeque};

use dhow_bundle::Instant;

use super::block::Block;
use super::config::Config;
use super::fault::Fault;
use super::reporting::MAX_SERIAL_RANGES;
use super::rounds::Rounds;
use super::segment::{DataHead, DataKind, Reason, Report, Serials, SessionId};
use super::state::{Sender, SenderTrigger};
use super::timer::{Again, Awaited};
use super::wire::data_head_octets;
use crate::datagram::span::Spans;
use crate::stream::TransferId;

/// Discretionary checkpoints of a session that wait for their reports.
pub(super) const MAX_DISCRETIONARY: usize = 256;

/// Ranges of octets that wait to be sent again.
pub(super) const MAX_MISSING_RANGES: usize = 16_384;

/// An outgoing session, until it is over for both sides.
#[derive(Debug)]
pub(super) struct SessionOut {
    pub(super) id: SessionId,
    pub(super) transfer: TransferId,
    pub(super) length: u64,
    /// Octets of the red part.
    red: u64,
    pub(super) state: Sender,
    pub(super) block: Block,
    /// Octets sent for the first time.
    pub(super) sent: u64,
    /// Octets of the red part that the peer claims to have.
    claimed: Spans,
    rounds: Rounds,
    /// Checkpoints that wait for their reports.
    checkpoints: BTreeMap<u64, Checkpoint>,
    /// Of those, the ones to be sent again.
    again: VecDeque<u64>,
    first_serial: u64,
    next_serial: u64,
    /// The end of the last checkpoint that no report asked for.
    checkpointed: u64,
    /// Serial numbers of reports that came.
    reports: Spans,
    /// Checkpoints sent because of reports.
    problems: u32,
    /// Octets sent twice when they were sent again.
    copied: u64,
    /// The last datagram with octets of it.
    pub(super) last_given: u64,
    pub(super) cancellation: Option<(Reason, Awaited)>,
    /// When the peer last said something.
    pub(super) heard: Instant,
    /// It waits in the queue of sessions that send for the first time.
    pub(super) is_ready: bool,
    /// It waits in the queue of sessions that send again.
    pub(super) is_repeating: bool,
}

#[derive(Debug)]
struct Checkpoint {
    head: DataHead,
    cycle: u32,
    awaited: Awaited,
}

/// The next segment of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) head: DataHead,
    cause: Cause,
}

#[derive(Clone, Copy, Debug)]
enum Cause {
    First,
    Report { cycle: u32 },
    Timer,
}

/// The reason for which a report changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwanted {
    /// It breaks a rule: it is not acknowledged either.
    Fault(Fault),
    /// It came before.
    Redundant,
}

impl SessionOut {
    pub(super) fn new(
        id: SessionId,
        transfer: TransferId,
        (length, red): (u64, u64),
        first_serial: u64,
        now: Instant,
    ) -> Self {
        Self {
            id,
            transfer,
            length,
            red,
            state: Sender::Ready,
            block: Block::default(),
            sent: 0,
            claimed: Spans::default(),
            rounds: Rounds::default(),
            checkpoints: BTreeMap::new(),
            again: VecDeque::new(),
            first_serial,
            next_serial: first_serial,
            checkpointed: 0,
            reports: Spans::default(),
            problems: 0,
            copied: 0,
            last_given: 0,
            cancellation: None,
            heard: now,
            is_ready: false,
            is_repeating: false,
        }
    }

    /// Octets from the block's start that the peer claims.
    pub(super) fn acknowledged(&self) -> u64 {
        self.claimed.prefix()
    }

    /// Something is to be sent again.
    pub(super) fn has_repeats(&self) -> bool {
        self.state.is_sending() && (!self.rounds.is_empty() || !self.again.is_empty())
    }

    /// RFC 5326 6.12: all was sent, and the red part is claimed.
    pub(super) fn is_complete(&self) -> bool {
        self.sent == self.length && self.claimed.has_all(0, self.red)
    }

    /// The next segment with octets that were not sent yet, if they are there.
    pub(super) fn plan_first(&self, config: &Config, size: u64) -> Option<Plan> {
        let offset = self.sent;
        if !self.state.is_sending() || offset >= self.length {
            return None;
        }
        // RFC 5326 4.1: a segment must hold only red octets or only green ones.
        let head = match self.red.checked_sub(offset) {
            None | Some(0) => self.plan_green(config, size),
            Some(left) => self.plan_red(config, size, left),
        };
        (head.end() <= self.block.octets()).then_some(Plan {
            head,
            cause: Cause::First,
        })
    }

    fn plan_green(&self, config: &Config, size: u64) -> DataHead {
        let left = self.length.saturating_sub(self.sent);
        let length = left.min(self.segment_room(config, size, self.sent, None));
        let kind = if length == left {
            DataKind::BlockGreenEnd
        } else {
            DataKind::Green
        };
        self.head(config, kind, self.sent, length, None)
    }

    fn plan_red(&self, config: &Config, size: u64, left: u64) -> DataHead {
        let offset = self.sent;
        // RFC 5326 3.2.1: a checkpoint that no report asked for must have a report serial number of zero.
        let serials = Serials {
            checkpoint: self.next_serial,
            report: 0,
        };
        let (length, is_last) = self.cut(config, size, (offset, left), serials);
        if is_last {
            // RFC 5326 4.1: the last segment with red octets must be the end of the red part; 3.1.2: and a checkpoint.
            let kind = if self.red == self.length {
                DataKind::BlockRedEnd
            } else {
                DataKind::RedEnd
            };
            return self.head(config, kind, offset, length, Some(serials));
        }
        let every = config.checkpoint_octets;
        let since = offset
            .saturating_add(length)
            .saturating_sub(self.checkpointed);
        if every > 0 && since >= every && self.checkpoints.len() < MAX_DISCRETIONARY {
            let room = self.segment_room(config, size, offset, Some(serials));
            let length = room.min(left.saturating_sub(1)).max(1);
            return self.head(
                config,
                DataKind::RedCheckpoint,
                offset,
                length,
                Some(serials),
            );
        }
        self.head(config, DataKind::Red, offset, length, None)
    }

    /// The next segment with octets that were sent before: a checkpoint that nobody answered, or octets that a report
    /// said are missing.
    pub(super) fn plan_again(&self, config: &Config, size: u64) -> Option<Plan> {
        if !self.state.is_sending() {
            return None;
        }
        if let Some(checkpoint) = self.again.front().and_then(|at| self.checkpoints.get(at)) {
            let mut head = checkpoint.head;
            // A path that takes less than it did takes the end of the segment: the report tells of the rest.
            let room = self.segment_room(config, size, head.offset, head.serials);
            let beyond = head.length.saturating_sub(room);
            head.offset = head.offset.saturating_add(beyond);
            head.length = head.length.saturating_sub(beyond);
            return Some(Plan {
                head,
                cause: Cause::Timer,
            });
        }
        let missing = self.rounds.next()?;
        let (offset, left) = (missing.start, missing.end.saturating_sub(missing.start));
        // RFC 5326 3.2.1: the serial number must be that of the report which asked for the octets.
        let serials = Serials {
            checkpoint: self.next_serial,
            report: missing.report,
        };
        // RFC 5326 6.13: the last segment of the retransmission, and only that, must be a checkpoint.
        let (length, is_last) = if missing.is_last {
            self.cut(config, size, (offset, left), serials)
        } else {
            (
                left.min(self.segment_room(config, size, offset, None)),
                false,
            )
        };
        let (kind, serials) = if is_last {
            (DataKind::RedCheckpoint, Some(serials))
        } else {
            (DataKind::Red, None)
        };
        let cause = Cause::Report {
            cycle: missing.cycle,
        };
        let head = self.head(config, kind, offset, length, serials);
        Some(Plan { head, cause })
    }

    /// The planned segment was given to the driver as datagram number `datagram` of all.
    pub(super) fn given(&mut self, config: &Config, plan: &Plan, datagram: u64) {
        self.last_given = datagram;
        let head = plan.head;
        match plan.cause {
            Cause::First => self.given_first(config, &head),
            Cause::Report { cycle } => {
                self.rounds.sent(head.length);
                self.add_checkpoint(config, &head, cycle);
            }
            Cause::Timer => {
                let serial = self.again.pop_front();
                let found = serial.and_then(|serial| self.checkpoints.get_mut(&serial));
                if let Some(checkpoint) = found {
                    checkpoint.awaited.given();
                }
            }
        }
    }

    fn given_first(&mut self, config: &Config, head: &DataHead) {
        if self.state == Sender::Ready {
            self.state.step(if self.red == 0 {
                SenderTrigger::BegunGreen
            } else {
                SenderTrigger::BegunRed
            });
        }
        self.sent = head.end();
        self.add_checkpoint(config, head, 0);
        if head.serials.is_some() {
            self.checkpointed = head.end();
        }
        if head.kind.is_block_end() {
            self.state.step(SenderTrigger::BlockEndSent);
            // A report that nobody asked for may have claimed all before.
            if self.state == Sender::WaitRedAck && self.is_complete() {
                self.state.step(SenderTrigger::RedClaimed);
            }
        } else if head.kind.is_red_end() {
            self.state.step(SenderTrigger::RedEndSent);
        }
    }

    fn add_checkpoint(&mut self, config: &Config, head: &DataHead, cycle: u32) {
        if let Some(serials) = head.serials {
            let mut awaited = Awaited::new();
            awaited.given();
            // Where something was lost, a checkpoint is worth a copy.
            if self.problems > 0 && config.doubling > 0 {
                awaited.copy();
                self.again.push_back(serials.checkpoint);
            }
            let checkpoint = Checkpoint {
                head: *head,
                cycle,
                awaited,
            };
            self.checkpoints.insert(serials.checkpoint, checkpoint);
            // RFC 5326 3.2.1: the next must be greater by one.
            self.next_serial = serials.checkpoint.saturating_add(1);
        }
    }

    /// The part of a checkpoint's wait that begins when it has left.
    pub(super) fn awaited(&mut self, serial: u64) -> Option<&mut Awaited> {
        self.checkpoints
            .get_mut(&serial)
            .map(|checkpoint| &mut checkpoint.awaited)
    }

    /// Whether a report is one that this session can have.
    pub(super) fn look_at(&self, report: &Report) -> Result<(), Unwanted> {
        let sent = self.sent.min(self.red);
        if report.upper > sent {
            return Err(Unwanted::Fault(Fault::ReportBeyondSent));
        }
        let was_sent = (self.first_serial..self.next_serial).contains(&report.checkpoint);
        if report.checkpoint != 0 && !was_sent {
            return Err(Unwanted::Fault(Fault::UnknownCheckpoint));
        }
        let behind = report.serial.saturating_add(1);
        if self.reports.has_all(report.serial, behind) {
            return Err(Unwanted::Redundant);
        }
        let known =
            self.reports.len() < MAX_SERIAL_RANGES || self.reports.touches(report.serial, behind);
        let has_room =
            self.rounds.ranges().saturating_add(report.claims.len()) < MAX_MISSING_RANGES;
        if !known || !has_room {
            return Err(Unwanted::Fault(Fault::Serials));
        }
        Ok(())
    }

    /// A report came that is none of those (RFC 5326 6.13).
    ///
    /// # Errors
    /// A limit is exceeded.
    pub(super) fn handle_report(&mut self, config: &Config, report: &Report) -> Result<(), Reason> {
        self.reports
            .insert(report.serial, report.serial.saturating_add(1));
        // RFC 5326 6.13: the countdown of the checkpoint is deleted.
        let answered = self.checkpoints.remove(&report.checkpoint);
        self.again.retain(|serial| *serial != report.checkpoint);
        let cycle = answered.map_or(0, |checkpoint| checkpoint.cycle);
        for (start, end) in &report.claims {
            self.claimed.add(*start, *end);
        }
        self.rounds.prune(&self.claimed);
        if self.is_complete() {
            if self.state == Sender::WaitRedAck {
                self.state.step(SenderTrigger::RedClaimed);
            }
            return Ok(());
        }
        let cycle = cycle.saturating_add(1);
        let scope = (report.lower, report.upper);
        let missing = self.rounds.push(&self.claimed, scope, report.serial, cycle);
        if missing > 0 {
            self.problems = self.problems.saturating_add(1);
            if self.problems > config.reports {
                return Err(Reason::RetransmissionLimit);
            }
            // RFC 5326 6.22.
            if cycle > config.cycles {
                return Err(Reason::CycleLimit);
            }
            if self.doubles(config, missing, cycle) {
                self.copied = self.copied.saturating_add(missing);
                self.rounds.double();
            }
        }
        Ok(())
    }

    /// Whether octets that are missing are sent twice: those that were lost again, and all while they are few.
    fn doubles(&self, config: &Config, missing: u64, cycle: u32) -> bool {
        let copied = self.copied.saturating_add(missing);
        let is_few = copied.saturating_mul(config.doubling) <= self.red;
        config.doubling > 0 && (is_few || cycle > 1) && missing <= config.quarter_octets()
    }

    /// Time has passed (RFC 5326 6.7).
    ///
    /// # Errors
    /// A limit is exceeded.
    pub(super) fn handle_timeout(&mut self, config: &Config, now: Instant) -> Result<(), Reason> {
        for (serial, checkpoint) in &mut self.checkpoints {
            if !checkpoint.awaited.is_over(now) {
                continue;
            }
            match checkpoint.awaited.again(config.transmissions) {
                Again::Queue => self.again.push_back(*serial),
                Again::OnItsWay => {}
                Again::Exceeded => return Err(Reason::RetransmissionLimit),
            }
        }
        match self.idle_deadline(config) {
            Some(end) if end <= now => Err(Reason::SystemCancelled),
            _ => Ok(()),
        }
    }

    /// When something is to be done, while nothing else happens.
    pub(super) fn deadline(&self, config: &Config, is_deaf: bool) -> Option<Instant> {
        if let Some((_, awaited)) = &self.cancellation {
            return awaited.deadline();
        }
        let checkpoints = self.checkpoints.values();
        let next = checkpoints.filter_map(|checkpoint| checkpoint.awaited.deadline());
        let idle = self.idle_deadline(config).filter(|_| !is_deaf);
        next.chain(idle).min()
    }

    /// When the session is given up because the peer is silent and nothing else would end the wait.
    fn idle_deadline(&self, config: &Config) -> Option<Instant> {
        let waits = self.state == Sender::WaitRedAck
            && self.checkpoints.is_empty()
            && self.rounds.is_empty();
        waits.then(|| self.heard + config.idle_timeout)
    }

    /// The peer ceases transmission.
    pub(super) fn suspend(&mut self, now: Instant) {
        let checkpoints = self.checkpoints.values_mut();
        checkpoints.for_each(|checkpoint| checkpoint.awaited.suspend(now));
        if let Some((_, awaited)) = &mut self.cancellation {
            awaited.suspend(now);
        }
    }

    /// The peer transmits again, for the first time since `since`.
    pub(super) fn resume(&mut self, since: Instant, now: Instant) {
        self.heard = self.heard + now.since(self.heard.max(since));
        let checkpoints = self.checkpoints.values_mut();
        checkpoints.for_each(|checkpoint| checkpoint.awaited.resume(now));
        if let Some((_, awaited)) = &mut self.cancellation {
            awaited.resume(now);
        }
    }

    /// RFC 5326 6.19: nothing of the session is sent or waited for any more.
    pub(super) fn clear(&mut self) {
        self.block.clear();
        self.rounds.clear();
        self.checkpoints.clear();
        self.again.clear();
    }

    /// The length of the next segment of `left` octets whose last segment is a checkpoint, and whether it is that.
    fn cut(
        &self,
        config: &Config,
        size: u64,
        (offset, left): (u64, u64),
        serials: Serials,
    ) -> (u64, bool) {
        if left <= self.segment_room(config, size, offset, Some(serials)) {
            return (left, true);
        }
        let room = self.segment_room(config, size, offset, None);
        // Something is left for the checkpoint, whose head is longer.
        (room.min(left.saturating_sub(1)).max(1), false)
    }

    /// Octets of the block in a segment of up to `size` octets.
    fn segment_room(
        &self,
        config: &Config,
        size: u64,
        offset: u64,
        serials: Option<Serials>,
    ) -> u64 {
        let head = data_head_octets(self.id, config.service, offset, size, serials);
        size.saturating_sub(head).max(1)
    }

    fn head(
        &self,
        config: &Config,
        kind: DataKind,
        offset: u64,
        length: u64,
        serials: Option<Serials>,
    ) -> DataHead {
        DataHead {
            session: self.id,
            kind,
            service: config.service,
            offset,
            length,
            serials,
        }
    }
}
