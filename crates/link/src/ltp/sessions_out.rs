//! The sessions in which this engine sends.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use dhow_bundle::storage::Piece;
use dhow_bundle::{Instant, SmallBuffer};

use super::capsule::{Alone, Capsule, share_of};
use super::fault::Fault;
use super::leaving::{Leaving, failed};
use super::local::{Local, refusal_of};
use super::onward::Ends;
use super::operations::Operation;
use super::queues::{Queue, Queues};
use super::segment::{Party, Reason, Report, SessionId};
use super::session_out::{SessionOut, Unwanted};
use super::state::{Sender, SenderTrigger};
use super::timer::{Again, Alarms, Awaited, Change};
use crate::datagram::DatagramEvent;
use crate::stream::{RefuseReason, TransferId};

/// Room for heads that is taken at once, octets.
const HEAD_ROOM: usize = 4 * 1024;

/// Outgoing sessions by number, from `Transmit` until they are over for both engines.
///
/// A session that has begun goes on before another begins, and octets that were lost go before all others.
#[derive(Debug)]
pub(super) struct SessionsOut {
    pub(super) sessions: BTreeMap<u64, SessionOut>,
    pub(super) by_transfer: BTreeMap<TransferId, u64>,
    /// Sessions that the other engine knows or may know.
    pub(super) begun: usize,
    pub(super) queues: Queues,
    pub(super) alone: Alone,
    pub(super) leaving: Leaving,
    pub(super) alarms: Alarms,
    pub(super) queued_octets: u64,
    pub(super) heads: SmallBuffer,
    pub(super) scratch: Vec<u8>,
}

impl SessionsOut {
    pub(super) fn new() -> Self {
        Self {
            sessions: BTreeMap::new(),
            by_transfer: BTreeMap::new(),
            begun: 0,
            queues: Queues::default(),
            alone: Alone::default(),
            leaving: Leaving::default(),
            alarms: Alarms::default(),
            queued_octets: 0,
            heads: SmallBuffer::new(HEAD_ROOM),
            scratch: Vec::new(),
        }
    }

    /// Octets that are there of transfers of which nothing has been given out.
    pub(super) const fn queued_octets(&self) -> u64 {
        self.queued_octets
    }

    /// Every transfer and session is over.
    pub(super) fn is_idle(&self) -> bool {
        self.sessions.is_empty() && self.leaving.is_empty()
    }

    /// Sessions that the other engine may know.
    #[cfg(any(test, feature = "testing"))]
    pub(super) const fn begun(&self) -> usize {
        self.begun
    }

    /// The session of a transfer that is not over.
    pub(super) fn session_of(&self, transfer: TransferId) -> Option<&SessionOut> {
        self.sessions.get(self.by_transfer.get(&transfer)?)
    }

    /// The same, to be changed before anything of it is supplied.
    pub(super) fn session_of_mut(&mut self, transfer: TransferId) -> Option<&mut SessionOut> {
        self.sessions.get_mut(self.by_transfer.get(&transfer)?)
    }

    /// The ends of a block that was passed on without them.
    pub(super) fn end_onward(
        &mut self,
        now: Instant,
        local: &Local,
        transfer: TransferId,
        ends: Ends,
    ) {
        let Some(number) = self.by_transfer.get(&transfer).copied() else {
            return;
        };
        if let Some(session) = self.sessions.get_mut(&number) {
            session.end_onward(ends);
        }
        self.settle(now, local, number);
    }

    /// Queue a transfer.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        local: &mut Local,
        transfer: TransferId,
        length: u64,
    ) {
        let refused = match length {
            // No bundle is empty.
            0 => Some(RefuseReason::NotAcceptable),
            length if length > local.config.transfer_mru => Some(RefuseReason::NoResources),
            _ => None,
        };
        if refused.is_some() {
            local.events.push_back(failed(transfer, refused, 0));
            return;
        }
        let number = self.free_number(local);
        let id = SessionId {
            originator: local.config.engine,
            number,
        };
        let red = local.config.red.of(length);
        let session = SessionOut::new(id, transfer, (length, red), local.numbers.serial(), now);
        self.sessions.insert(number, session);
        let before = self.by_transfer.insert(transfer, number);
        assert!(
            before.is_none(),
            "a node numbers each transfer of a link once"
        );
    }

    /// RFC 5326 3.1: every session must have a number of its own.
    fn free_number(&self, local: &mut Local) -> u64 {
        let mut number = local.numbers.session();
        while self.sessions.contains_key(&number) {
            number = local.numbers.session();
        }
        number
    }

    /// The next octets of a transfer. If the transfer is over, they are dropped.
    pub(super) fn supply(&mut self, local: &Local, transfer: TransferId, octets: Piece) {
        let Some(number) = self.by_transfer.get(&transfer).copied() else {
            return;
        };
        if let Some(session) = self.sessions.get_mut(&number) {
            if session.state == Sender::Ready {
                self.queued_octets = self.queued_octets.saturating_add(octets.length());
            }
            session.supply(octets);
            assert!(
                session.supplied() <= session.length,
                "a node supplies no more octets than it said the transfer has"
            );
        }
        self.enqueue(local, number);
    }

    /// Put a session into the queues that it belongs into and is not in.
    fn enqueue(&mut self, local: &Local, number: u64) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        if !session.is_ready
            && session
                .plan_first(&local.config, local.room(session.id))
                .is_some()
        {
            session.is_ready = true;
            if session.state == Sender::Ready {
                self.queues.push_back(Queue::Waiting, number);
            } else {
                // It goes on before another begins, so that the peer has few incomplete ones.
                self.queues.push_front(Queue::Going, number);
            }
        }
        if !session.is_repeating && session.has_repeats() {
            session.is_repeating = true;
            self.queues.push_back(Queue::Repeating, number);
        }
    }

    /// Segments have another size: ready sessions are looked at again.
    pub(super) fn resize(&mut self, local: &Local) {
        for number in self.by_transfer.values().copied().collect::<Vec<_>>() {
            self.enqueue(local, number);
        }
    }

    /// The node gives up a transfer (RFC 5326 4.2).
    pub(super) fn cancel(
        &mut self,
        now: Instant,
        local: &mut Local,
        transfer: TransferId,
        reason: Reason,
    ) {
        let Some(number) = self.by_transfer.get(&transfer).copied() else {
            return;
        };
        if self.take_out(number, transfer) {
            return self.leaving.end(0, transfer, failed(transfer, None, 0));
        }
        // A transfer goes on with the others in its block.
        let session = self.sessions.get(&number);
        if session.is_some_and(|session| session.capsules.len() == 1) {
            self.cancel_session(now, local, number, reason, None);
        }
    }

    /// RFC 5326 6.19: cancel a session here. One that has not begun is closed without a word.
    fn cancel_session(
        &mut self,
        now: Instant,
        local: &mut Local,
        number: u64,
        reason: Reason,
        refused: Option<RefuseReason>,
    ) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        if session.state == Sender::Ready {
            session.state.step(SenderTrigger::Over);
        } else {
            // RFC 5326 4.2: a CS segment must be queued.
            session.state.step(SenderTrigger::Cancelled);
            session.cancellation = Some((reason, Awaited::new()));
            local.operate(Operation::Cancel(Party::Sender, number));
        }
        self.fail(number, refused);
        self.settle(now, local, number);
    }

    /// The transfer of a session fails, once the datagrams with its octets have left.
    fn fail(&mut self, number: u64, refused: Option<RefuseReason>) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        if session.sent == 0 && !session.capsules.is_empty() {
            self.queued_octets = self.queued_octets.saturating_sub(session.supplied());
        }
        session.clear();
        let capsules = core::mem::take(&mut session.capsules);
        let acknowledged = match capsules.len() {
            1 => session.acknowledged(),
            _ => 0,
        };
        for Capsule { transfer, .. } in capsules {
            self.by_transfer.remove(&transfer);
            let event = failed(transfer, refused, acknowledged);
            self.leaving.end(session.last_given, transfer, event);
        }
    }

    /// After anything has happened to a session: its queues, its alarm, its end.
    pub(super) fn settle(&mut self, now: Instant, local: &Local, number: u64) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        if session.state == Sender::Closed {
            self.close_session(local, number);
            return;
        }
        let is_deaf = local.distance.deaf_since.is_some();
        let deadline = session.deadline(&local.config, is_deaf);
        self.alarms.set(number, deadline.map(|at| at.max(now)));
        self.enqueue(local, number);
    }

    /// RFC 5326 6.20: a session is over.
    fn close_session(&mut self, local: &Local, number: u64) {
        let Some(session) = self.sessions.remove(&number) else {
            return;
        };
        self.alarms.set(number, None);
        let has_begun = session.sent > 0;
        self.begun = self.begun.saturating_sub(usize::from(has_begun));
        let is_whole_red = session.is_whole_red(local.config.red);
        if session.capsules.len() > 1 {
            self.alone.taken();
        }
        for Capsule { transfer, .. } in session.capsules {
            self.by_transfer.remove(&transfer);
            let event = match is_whole_red {
                true => DatagramEvent::Transmitted { transfer },
                false => DatagramEvent::Sent { transfer },
            };
            self.leaving.end(session.last_given, transfer, event);
        }
    }

    /// A report came: acknowledge it (RFC 5326 6.13), also of a session that is over or that nobody knows here, unless it cannot be one.
    pub(super) fn handle_report(
        &mut self,
        now: Instant,
        local: &mut Local,
        id: SessionId,
        report: &Report,
    ) {
        let session = self.sessions.get_mut(&id.number);
        let Some(session) = session.filter(|session| session.state.is_sending()) else {
            local.note_unknown(id);
            return local.operate(Operation::ReportAck(id, report.serial));
        };
        match session.look_at(&local.config, report) {
            Err(Unwanted::Fault(fault)) => return local.faults.count(fault),
            Err(Unwanted::Reneged) => {
                // RFC 5326 6.22: a system error, at the other end. The node sends the whole again.
                local.faults.count(Fault::Reneged);
                let reason = Reason::SystemCancelled;
                return self.cancel_session(now, local, id.number, reason, None);
            }
            Err(Unwanted::Redundant) => {
                return local.operate(Operation::ReportAck(id, report.serial));
            }
            Ok(()) => local.operate(Operation::ReportAck(id, report.serial)),
        }
        session.heard = now;
        match session.handle_report(&local.config, report) {
            Ok(()) => self.settle(now, local, id.number),
            Err(reason) => {
                let refused = Some(refusal_of(reason));
                self.cancel_session(now, local, id.number, reason, refused);
            }
        }
    }

    /// The peer cancels a session, which is acknowledged in any case (RFC 5326 6.17).
    pub(super) fn handle_cancel(
        &mut self,
        now: Instant,
        local: &mut Local,
        id: SessionId,
        reason: Reason,
    ) {
        local.note_unknown(id);
        local.operate(Operation::CancelAck(id, Party::Receiver));
        let session = self.sessions.get(&id.number);
        let capsules = session.map_or(0, |session| session.capsules.len());
        if capsules > 1 {
            self.alone.refused(capsules);
        }
        let refused = share_of(refusal_of(reason), reason, capsules);
        self.over(now, local, id.number, refused);
    }

    /// The peer has acknowledged our cancellation (RFC 5326 6.18).
    pub(super) fn handle_cancel_ack(&mut self, now: Instant, local: &mut Local, id: SessionId) {
        let session = self.sessions.get(&id.number);
        if session.is_some_and(|session| session.state == Sender::CancelSent) {
            self.over(now, local, id.number, None);
        }
    }

    fn over(&mut self, now: Instant, local: &Local, number: u64, refused: Option<RefuseReason>) {
        self.fail(number, refused);
        if let Some(session) = self.sessions.get_mut(&number) {
            session.state.step(SenderTrigger::Over);
            self.settle(now, local, number);
        }
    }

    /// The time of sessions has come.
    pub(super) fn handle_timeout(&mut self, now: Instant, local: &mut Local) {
        while let Some(number) = self.alarms.pop(now) {
            let Some(session) = self.sessions.get_mut(&number) else {
                continue;
            };
            if let Some((_, awaited)) = &mut session.cancellation {
                if awaited.is_over(now) {
                    // RFC 5326 6.16.
                    match awaited.again(local.config.transmissions) {
                        Again::Queue => local.operate(Operation::Cancel(Party::Sender, number)),
                        Again::OnItsWay => {}
                        Again::Exceeded => {
                            self.over(now, local, number, None);
                            continue;
                        }
                    }
                }
            } else if let Err(reason) = session.handle_timeout(&local.config, now) {
                let refused = (reason != Reason::SystemCancelled).then(|| refusal_of(reason));
                self.cancel_session(now, local, number, reason, refused);
                continue;
            }
            self.settle(now, local, number);
        }
    }

    /// The way to the peer is another.
    pub(super) fn follow(&mut self, now: Instant, local: &Local, change: Change) {
        let numbers: Vec<_> = self.sessions.keys().copied().collect();
        for number in numbers {
            if let Some(session) = self.sessions.get_mut(&number) {
                session.follow(change);
            }
            self.settle(now, local, number);
        }
    }

    /// The link is ending: nothing that has not begun will.
    pub(super) fn end(&mut self, now: Instant, local: &mut Local) {
        let ready = self.sessions.values();
        let ready = ready.filter(|session| session.state == Sender::Ready);
        let capsules = ready.flat_map(|session| &session.capsules);
        for transfer in capsules.map(|it| it.transfer).collect::<Vec<_>>() {
            self.cancel(now, local, transfer, Reason::UserCancelled);
        }
    }

    /// The link ends at once: the peer is told that no block which has begun goes on.
    pub(super) fn break_off(&mut self, now: Instant, local: &mut Local) {
        let sending = self.sessions.values().filter(|it| it.state.is_sending());
        for number in sending.map(|it| it.id.number).collect::<Vec<_>>() {
            self.cancel_session(now, local, number, Reason::SystemCancelled, None);
        }
    }

    /// The link is over: every transfer has failed.
    pub(super) fn close(&mut self, events: &mut VecDeque<DatagramEvent>) {
        let leaving = self.leaving.transfers();
        let all: BTreeSet<_> = leaving.chain(self.by_transfer.keys().copied()).collect();
        events.extend(all.into_iter().map(|transfer| failed(transfer, None, 0)));
        *self = Self::new();
    }

    /// So many datagrams have left in all.
    pub(super) fn left(&mut self, datagrams: u64, events: &mut VecDeque<DatagramEvent>) {
        self.leaving.left(datagrams, events);
    }

    /// A checkpoint or cancellation has left: the wait for its answer begins (RFC 5326 6.2, 6.15).
    pub(super) fn has_left(
        &mut self,
        now: Instant,
        local: &Local,
        backlog: core::time::Duration,
        (number, checkpoint): (u64, Option<u64>),
    ) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let awaited = match checkpoint {
            Some(serial) => session.checkpoints.awaited(serial),
            None => session.cancellation.as_mut().map(|(_, awaited)| awaited),
        };
        if let Some(awaited) = awaited {
            awaited.has_left(now, &local.distance, backlog);
        }
        self.settle(now, local, number);
    }

    /// The cancellation of a session, when it is to be sent.
    pub(super) fn cancellation(&self, number: u64) -> Option<(SessionId, Reason)> {
        let session = self.sessions.get(&number)?;
        let (reason, _) = session.cancellation.as_ref()?;
        Some((session.id, *reason))
    }

    /// The cancellation was given to the driver.
    pub(super) fn cancellation_given(&mut self, number: u64) {
        let session = self.sessions.get_mut(&number);
        if let Some((_, awaited)) = session.and_then(|session| session.cancellation.as_mut()) {
            awaited.given();
        }
    }
}
