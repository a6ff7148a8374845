//! A session in which this engine sends: RFC 5326 6.7, 6.12 and 6.13.

use alloc::vec;
use alloc::vec::Vec;

use dhow_bundle::Instant;
use dhow_bundle::storage::Piece;

use super::block::Block;
use super::capsule::Capsule;
use super::checkpoints::{Checkpoints, Copies};
use super::config::{Config, Red};
use super::fault::Fault;
use super::plan::{Cause, Plan};
use super::reporting::MAX_SERIAL_RANGES;
use super::rounds::Rounds;
use super::segment::{DataHead, Reason, Report, SessionId};
use super::state::{Sender, SenderTrigger};
use super::timer::{Awaited, Change};
use crate::datagram::span::Spans;
use crate::stream::TransferId;

/// Serial numbers of reports of one session are no farther apart than this, or than the reports that it may have.
const LEAST_SERIALS_APART: u64 = 4_096;

/// Copies of octets that are sent again, at most.
const MOST_COPIES: u64 = 4;

/// Copies that take less than one part in so many of a round trip are few in any case.
const BRIEF_PART: u64 = 64;

/// Segments of a round that are lost again, as one expects from what was lost before: copies are to make them fewer than this, millionths.
const LOST_AGAIN: u64 = MILLIONTHS / 50;
const MILLIONTHS: u64 = 1_000_000;

/// An outgoing session, until it is over for both sides.
#[derive(Debug)]
pub(super) struct SessionOut {
    pub(super) id: SessionId,
    /// The transfers in the block, of which there is one at least until it is over for the node.
    pub(super) capsules: Vec<Capsule>,
    pub(super) length: u64,
    /// Octets of the red part.
    pub(super) red: u64,
    /// The extensions for several hops; empty in blocks for one.
    pub(super) end_to_end: Vec<u8>,
    pub(super) state: Sender,
    pub(super) block: Block,
    /// Octets sent for the first time.
    pub(super) sent: u64,
    /// Octets of the red part that the peer claims to have.
    claimed: Spans,
    pub(super) rounds: Rounds,
    pub(super) checkpoints: Checkpoints,
    /// The end of the last checkpoint that no report asked for.
    pub(super) checkpointed: u64,
    /// Serial numbers of reports that came.
    reports: Spans,
    /// Checkpoints sent because of reports.
    problems: u32,
    /// The peer answers a checkpoint whose octets it has with reports of all that follows, as ION does: a copy of one costs more than
    /// a checkpoint that is lost.
    shuns_copies: bool,
    /// Octets of copies, with which lost octets were sent again.
    copied: u64,
    /// Octets that were lost when they were sent for the first time.
    lost: u64,
    /// The last datagram with octets of the block.
    pub(super) last_given: u64,
    pub(super) cancellation: Option<(Reason, Awaited)>,
    /// When the peer last said something.
    pub(super) heard: Instant,
    /// Whether the session waits in the queue of sessions that send for the first time.
    pub(super) is_ready: bool,
    /// Whether the session waits in the queue of sessions that send again.
    pub(super) is_repeating: bool,
}

/// The reason for which a report changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwanted {
    /// The report breaks a rule: it is not acknowledged either.
    Fault(Fault),
    /// The report came before.
    Redundant,
    /// The receiver has lost the session, and with it the octets that it claimed.
    Reneged,
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
            capsules: vec![Capsule::new(transfer, length)],
            length,
            red,
            end_to_end: Vec::new(),
            state: Sender::Ready,
            block: Block::default(),
            sent: 0,
            claimed: Spans::default(),
            rounds: Rounds::default(),
            checkpoints: Checkpoints::new(first_serial),
            checkpointed: 0,
            reports: Spans::default(),
            problems: 0,
            shuns_copies: false,
            copied: 0,
            lost: 0,
            last_given: 0,
            cancellation: None,
            heard: now,
            is_ready: false,
            is_repeating: false,
        }
    }

    /// Whether the peer's claims tell that it has all of the block: `red` is what links to it promise. A block for several hops has a
    /// red part of its own.
    pub(super) fn is_whole_red(&self, red: Red) -> bool {
        match self.end_to_end.is_empty() {
            true => red == Red::All,
            false => self.red == self.length,
        }
    }

    /// The next octets of a transfer. Before its block has begun, it is the only one in that.
    pub(super) fn supply(&mut self, octets: Piece) {
        match self.capsules.last_mut() {
            Some(capsule) if self.state == Sender::Ready => capsule.octets.push(octets),
            _ => self.block.push(octets),
        }
    }

    /// Octets of the block that are there.
    pub(super) fn supplied(&self) -> u64 {
        let capsules = self.capsules.iter().map(|capsule| capsule.octets.octets());
        capsules.fold(self.block.octets(), u64::saturating_add)
    }

    /// The octets of all transfers are one block from now on.
    pub(super) fn join(&mut self) {
        for capsule in &mut self.capsules {
            self.block.append(core::mem::take(&mut capsule.octets));
        }
    }

    /// Octets from the block's start that the peer claims.
    pub(super) fn acknowledged(&self) -> u64 {
        self.claimed.prefix()
    }

    /// Octets of the red part that the peer claims, wherever they lie.
    pub(super) const fn claimed_octets(&self) -> u64 {
        self.claimed.octets()
    }

    /// Something is to be sent again.
    pub(super) fn has_repeats(&self) -> bool {
        self.state.is_sending() && (!self.rounds.is_empty() || self.checkpoints.has_repeats())
    }

    /// RFC 5326 6.12: all was sent, and the red part is claimed.
    pub(super) fn is_complete(&self) -> bool {
        self.sent == self.length && self.claimed.has_all(0, self.red)
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
            // RFC 5326 3.2.1: its serial number must be the one that it had.
            Cause::Timer => self.checkpoints.given_again(),
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
        // A checkpoint is worth a copy on a path that has lost something of the session.
        let copies = if self.problems > 0 && config.doubling > 0 && !self.shuns_copies {
            Copies::Two
        } else {
            Copies::One
        };
        self.checkpoints.push(head, cycle, copies);
    }

    /// Whether a report is one that this session can have.
    pub(super) fn look_at(&self, config: &Config, report: &Report) -> Result<(), Unwanted> {
        let sent = self.sent.min(self.red);
        if report.upper > sent {
            return Err(Unwanted::Fault(Fault::ReportBeyondSent));
        }
        if report.checkpoint != 0 && !self.checkpoints.was_sent(report.checkpoint) {
            return Err(Unwanted::Fault(Fault::UnknownCheckpoint));
        }
        let behind = report.serial.saturating_add(1);
        if self.reports.has_all(report.serial, behind) {
            return Err(Unwanted::Redundant);
        }
        let known =
            self.reports.len() < MAX_SERIAL_RANGES || self.reports.touches(report.serial, behind);
        if self.is_reneged(config, report) {
            return Err(Unwanted::Reneged);
        }
        if !known {
            return Err(Unwanted::Fault(Fault::Serials));
        }
        let ranges = self.rounds.ranges().max(self.claimed.len());
        if ranges.saturating_add(report.claims.len()) >= config.ranges {
            return Err(Unwanted::Fault(Fault::TooManyGaps));
        }
        Ok(())
    }

    /// RFC 5326 6.22: claims are binding, so a newer report claims all that older ones did within its scope, and its serial
    /// number follows theirs (3.2.2). A receiver that lost the session, in a crash, opens it anew, and does otherwise.
    fn is_reneged(&self, config: &Config, report: &Report) -> bool {
        let Some((first, behind)) = self.reports.bounds() else {
            return false;
        };
        let most = u64::from(config.reports).max(LEAST_SERIALS_APART);
        let is_far = report.serial < first.saturating_sub(most)
            || report.serial > behind.saturating_add(most);
        if is_far || report.serial < behind {
            return is_far;
        }
        let mut claims = report.claims.iter().peekable();
        let mut claimed = self.claimed.within(report.lower, report.upper);
        claimed.any(|(start, end)| {
            while claims.next_if(|claim| claim.1 < end).is_some() {}
            claims.peek().is_none_or(|claim| claim.0 > start)
        })
    }

    /// A report came that is none of those (RFC 5326 6.13).
    ///
    /// # Errors
    /// A limit is exceeded.
    pub(super) fn handle_report(&mut self, config: &Config, report: &Report) -> Result<(), Reason> {
        self.reports
            .insert(report.serial, report.serial.saturating_add(1));
        let cycle = self.checkpoints.answered(report.checkpoint);
        self.shuns_copies |= self
            .checkpoints
            .is_exceeded(report.checkpoint, report.upper)
            && report.claims != [(0, self.red)];
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
            if self.problems > config.reports_of(self.sent.min(self.red)) {
                return Err(Reason::RetransmissionLimit);
            }
            // RFC 5326 6.22.
            if cycle > config.cycles {
                return Err(Reason::CycleLimit);
            }
            if cycle == 1 {
                self.lost = self.lost.saturating_add(missing);
            }
            let more = self.copies(config, missing, cycle);
            self.copied = self.copied.saturating_add(missing.saturating_mul(more));
            self.rounds.copy(more);
        }
        Ok(())
    }

    /// Copies with which octets that are missing are sent beside themselves. As long as octets leave for the first time for a round trip
    /// and more, losing one again costs no time, and there are none.
    fn copies(&self, config: &Config, missing: u64, cycle: u32) -> u64 {
        let left = self.red.saturating_sub(self.sent);
        if cycle == 1 && left > config.round_trip_octets() {
            return 0;
        }
        let mut copies = 0;
        let mut again = missing.div_ceil(config.mtu).saturating_mul(MILLIONTHS);
        while copies < MOST_COPIES {
            again = again.saturating_mul(self.lost.max(1)) / self.sent.max(1);
            let octets = missing.saturating_mul(copies.saturating_add(1));
            let copied = self.copied.saturating_add(octets);
            let is_few = copied.saturating_mul(config.doubling) <= self.red
                || octets <= config.round_trip_octets() / BRIEF_PART;
            let may_copy = config.doubling > 0
                && !self.shuns_copies
                && (is_few || cycle > 1)
                && octets <= config.round_trip_octets() / 4;
            if !may_copy || (copies > 0 && again < LOST_AGAIN) {
                break;
            }
            copies = copies.saturating_add(1);
        }
        copies
    }

    /// Time has passed (RFC 5326 6.7).
    ///
    /// # Errors
    /// A limit is exceeded.
    pub(super) fn handle_timeout(&mut self, config: &Config, now: Instant) -> Result<(), Reason> {
        self.checkpoints.handle_timeout(now, config.transmissions)?;
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
        let idle = self.idle_deadline(config).filter(|_| !is_deaf);
        self.checkpoints.deadline().into_iter().chain(idle).min()
    }

    /// When the session is given up because the peer is silent and nothing else would end the wait.
    fn idle_deadline(&self, config: &Config) -> Option<Instant> {
        let waits = self.state == Sender::WaitRedAck
            && self.checkpoints.is_empty()
            && self.rounds.is_empty();
        waits.then(|| self.heard + config.idle_timeout)
    }

    /// The way to the peer is another.
    pub(super) fn follow(&mut self, change: Change) {
        if let Change::Resumed(since, now) = change {
            self.heard = self.heard + now.since(self.heard.max(since));
        }
        self.checkpoints.follow(change);
        if let Some((_, awaited)) = &mut self.cancellation {
            awaited.follow(change);
        }
    }

    /// RFC 5326 6.19: nothing of the session is sent or waited for any more.
    pub(super) fn clear(&mut self) {
        self.block.clear();
        self.rounds.clear();
        self.checkpoints.clear();
    }
}
