//! The checkpoints of an outgoing session that wait for their reports: RFC 5326 6.2 and 6.7.

use alloc::collections::{BTreeMap, VecDeque};

use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};

use super::segment::{DataHead, Reason};
use super::timer::{Again, Awaited, Change};

/// The checkpoints of a session.
#[derive(Debug)]
pub(super) struct Checkpoints {
    waiting: BTreeMap<u64, Checkpoint>,
    /// The checkpoints to be sent again.
    again: VecDeque<u64>,
    first_serial: u64,
    next_serial: u64,
    /// The last that was answered and cites a report, and the end of what it asked for.
    answered: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Checkpoint {
    head: DataHead,
    /// Retransmission cycles (RFC 5326 6.22) up to this checkpoint.
    cycle: u32,
    awaited: Awaited,
}

/// The number of times that a checkpoint leaves without being waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copies {
    One,
    Two,
}

impl Checkpoints {
    pub(super) const fn new(first_serial: u64) -> Self {
        Self {
            waiting: BTreeMap::new(),
            again: VecDeque::new(),
            first_serial,
            next_serial: first_serial,
            answered: None,
        }
    }

    /// The serial number of the next checkpoint.
    pub(super) const fn next_serial(&self) -> u64 {
        self.next_serial
    }

    /// A checkpoint with this serial number was sent.
    pub(super) fn was_sent(&self, serial: u64) -> bool {
        (self.first_serial..self.next_serial).contains(&serial)
    }

    /// Checkpoints that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// None waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a checkpoint is to be sent again.
    pub(super) fn has_repeats(&self) -> bool {
        !self.again.is_empty()
    }

    /// A segment was given to the driver; if it is a checkpoint, its wait begins when it leaves.
    pub(super) fn push(&mut self, head: &DataHead, cycle: u32, copies: Copies) {
        let Some(serials) = head.serials else {
            return;
        };
        let mut awaited = Awaited::new();
        awaited.given();
        if copies == Copies::Two {
            awaited.copy();
            self.again.push_back(serials.checkpoint);
        }
        let checkpoint = Checkpoint {
            head: *head,
            cycle,
            awaited,
        };
        self.waiting.insert(serials.checkpoint, checkpoint);
        // RFC 5326 3.2.1: the next must be greater by one.
        let step = u64::from(!planted(Mutant::CheckpointNumberStandsStill));
        self.next_serial = serials.checkpoint.saturating_add(step);
    }

    /// The checkpoint that is to be sent again.
    pub(super) fn next_again(&self) -> Option<DataHead> {
        let serial = self.again.front()?;
        Some(self.waiting.get(serial)?.head)
    }

    /// The checkpoint was given to the driver.
    pub(super) fn given_again(&mut self) {
        let serial = self.again.pop_front();
        if let Some(awaited) = serial.and_then(|serial| self.awaited(serial)) {
            awaited.given();
        }
    }

    /// A report answers a checkpoint, whose countdown is deleted (RFC 5326 6.13); the cycles up to it, or none.
    pub(super) fn answered(&mut self, serial: u64) -> u32 {
        self.again.retain(|again| *again != serial);
        let Some(checkpoint) = self.waiting.remove(&serial) else {
            return 0;
        };
        if checkpoint.head.serials.is_some_and(|it| it.report != 0) {
            self.answered = Some((serial, checkpoint.head.end()));
        }
        checkpoint.cycle
    }

    /// A report up to this octet tells of more than its checkpoint asked for, which cites a report and was answered last.
    pub(super) fn is_exceeded(&self, serial: u64, upper: u64) -> bool {
        self.answered
            .is_some_and(|(answered, end)| answered == serial && upper > end)
    }

    /// The wait for a checkpoint's report.
    pub(super) fn awaited(&mut self, serial: u64) -> Option<&mut Awaited> {
        let checkpoint = self.waiting.get_mut(&serial);
        checkpoint.map(|checkpoint| &mut checkpoint.awaited)
    }

    /// Time has passed (RFC 5326 6.7): checkpoints are sent again that were queued fewer than `most` times.
    ///
    /// # Errors
    /// One was queued as often.
    pub(super) fn handle_timeout(&mut self, now: Instant, most: u32) -> Result<(), Reason> {
        for (serial, checkpoint) in &mut self.waiting {
            if !checkpoint.awaited.is_over(now) {
                continue;
            }
            match checkpoint.awaited.again(most) {
                Again::Queue => self.again.push_back(*serial),
                Again::OnItsWay => {}
                Again::Exceeded => return Err(Reason::RetransmissionLimit),
            }
        }
        Ok(())
    }

    /// When the next report is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let all = self.waiting.values();
        all.filter_map(|checkpoint| checkpoint.awaited.deadline())
            .min()
    }

    /// The way to the peer is another.
    pub(super) fn follow(&mut self, change: Change) {
        let all = self.waiting.values_mut();
        all.for_each(|checkpoint| checkpoint.awaited.follow(change));
    }

    /// RFC 5326 6.19: none is sent or waited for any more.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.again.clear();
    }
}
