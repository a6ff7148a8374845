//! The sessions in which this engine receives.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};

use super::closed::{Closed, Lateness, Over};
use super::displacement::Silent;
use super::end_to_end::EndToEnd;
use super::fault::Fault;
use super::local::{Local, reason_of, refusal_of};
use super::onward::{Ends, IncomingBlock};
use super::operations::Operation;
use super::segment::{Data, Party, Reason, Report, SessionId};
use super::session_in::{Expiry, SessionIn};
use super::state::ReceiverTrigger;
use super::timer::{Alarms, Awaited, Change};
use crate::datagram::DatagramEvent;
use crate::stream::{RefuseReason, TransferId};

/// Incoming sessions by the peer's numbers, from their first segment until nobody remembers them.
#[derive(Debug)]
pub(super) struct SessionsIn {
    pub(super) sessions: BTreeMap<u64, SessionIn>,
    by_transfer: BTreeMap<TransferId, u64>,
    /// Octets behind gaps, of all sessions.
    beyond: u64,
    closed: Closed,
    pub(super) alarms: Alarms,
    /// Sessions that are cancelled here, of which the sender has not acknowledged that.
    pub(super) cancelled: usize,
    /// Sessions of which octets are missing.
    pub(super) partial: usize,
    pub(super) silent: Silent,
}

impl SessionsIn {
    /// None yet; so many that are over will be known.
    pub(super) fn new(remembered: usize) -> Self {
        Self {
            sessions: BTreeMap::new(),
            by_transfer: BTreeMap::new(),
            beyond: 0,
            closed: Closed::new(remembered),
            alarms: Alarms::default(),
            cancelled: 0,
            partial: 0,
            silent: Silent::default(),
        }
    }

    /// Sessions, octets behind gaps, and sessions that are over and known.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn held(&self) -> (usize, u64, usize) {
        (self.sessions.len(), self.beyond, self.closed.len())
    }

    /// Claims that were put together for reports of all sessions.
    #[cfg(test)]
    pub(super) fn claims_put_together(&self) -> usize {
        let sessions = self.sessions.values();
        sessions.map(|it| it.reporting.put_together).sum()
    }

    /// Octets behind gaps, of all sessions.
    pub(super) const fn octets_beyond(&self) -> u64 {
        self.beyond
    }

    /// Whether a session is open.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.sessions.contains_key(&number)
    }

    /// Sessions that are open.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether a session is open that is not cancelled.
    pub(super) fn receives(&self) -> bool {
        self.sessions.values().any(|it| it.state.is_receiving())
    }

    /// The session of a transfer, as the peer numbers it, for as long as it is known.
    pub(super) fn session_of(&self, transfer: TransferId) -> Option<u64> {
        let open = self.by_transfer.get(&transfer).copied();
        open.or_else(|| self.closed.session_of(transfer))
    }

    /// The block of a transfer, for as long as its session is known.
    pub(super) fn block_of(&self, transfer: TransferId) -> Option<IncomingBlock> {
        let session = self.session_of(transfer)?;
        let (end_to_end, red, length, green) = match self.sessions.get(&session) {
            Some(open) => {
                let reception = &open.reception;
                let parts = &reception.parts;
                let green = parts.green();
                (&reception.end_to_end, parts.red(), parts.length, green)
            }
            None => {
                let over = self.closed.over(session)?;
                (&over.end_to_end, over.red, over.length, None)
            }
        };
        Some(IncomingBlock {
            session,
            end_to_end: end_to_end.as_deref().copied(),
            ends: Ends { red, length },
            green,
        })
    }

    /// A data segment came.
    pub(super) fn handle_data(
        &mut self,
        now: Instant,
        local: &mut Local,
        data: &Data,
        end_to_end: Option<EndToEnd>,
    ) {
        let head = &data.head;
        let number = head.session.number;
        match self.closed.look(head) {
            Lateness::No => {}
            Lateness::Late if planted(Mutant::LateSegmentOpens) => {}
            // RFC 5326 6.20: the session is over, and what comes late of it is dropped.
            Lateness::Late => return,
            Lateness::Reused => return local.faults.count(Fault::Closed),
        }
        if !self.sessions.contains_key(&number) && !self.open(now, local, data) {
            return;
        }
        let room = local.config.reassembly_octets.saturating_sub(self.beyond);
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        if !session.state.is_receiving() {
            return;
        }
        if head.offset == 0 && !session.reception.address(end_to_end) {
            return local.faults.count(Fault::EndToEnd);
        }
        let before = session.reception.octets_beyond();
        let handled = session.handle_data(now, local, room, data);
        let after = session.reception.octets_beyond();
        if let Some(transfer) = session.reception.transfer {
            self.by_transfer.insert(transfer, number);
        }
        self.beyond = self.beyond.saturating_sub(before).saturating_add(after);
        match handled {
            Ok(()) => self.settle(now, local, number),
            Err(reason) => self.cancel(now, local, number, reason, Some(refusal_of(reason))),
        }
    }

    /// Open the session of a segment; false when it is discarded.
    fn open(&mut self, now: Instant, local: &mut Local, data: &Data) -> bool {
        let head = &data.head;
        if head.kind.is_block_end() && head.end() == 0 {
            local.faults.count(Fault::BlockEmpty);
            return false;
        }
        if !self.make_place(now, local) {
            return false;
        }
        let serial = local.numbers.serial();
        let session = SessionIn::new(head.session, head.service, serial, now);
        let number = head.session.number;
        self.sessions.insert(number, session);
        // RFC 5326 6: a segment for a client service that does not exist must be answered by a cancellation.
        let exists = head.service == local.config.service;
        if !exists {
            local.faults.count(Fault::UnknownService);
            self.cancel(now, local, number, Reason::Unreachable, None);
        }
        exists
    }

    /// RFC 5326 6.19: cancel a session here.
    pub(super) fn cancel(
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
        if !session.state.is_receiving() {
            return;
        }
        // RFC 5326 4.2: a CR segment must be queued.
        session.state.step(ReceiverTrigger::Cancelled);
        session.cancellation = Some((reason, Awaited::new()));
        self.cancelled = self.cancelled.saturating_add(1);
        local.operate(Operation::Cancel(Party::Receiver, number));
        self.abandon(local, number, refused);
        self.settle(now, local, number);
    }

    /// The transfer of a session will not be completed.
    fn abandon(&mut self, local: &mut Local, number: u64, refused: Option<RefuseReason>) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        self.beyond = self
            .beyond
            .saturating_sub(session.reception.octets_beyond());
        session.clear();
        let Some(transfer) = session.reception.transfer.take() else {
            return;
        };
        let is_known = self.by_transfer.remove(&transfer).is_some();
        if is_known && !session.reception.is_complete && !session.reception.is_unwanted {
            local
                .events
                .push_back(DatagramEvent::Abandoned { transfer, refused });
        }
    }

    /// After anything has happened to a session: its alarm, or its end.
    fn settle(&mut self, now: Instant, local: &mut Local, number: u64) {
        self.count(number);
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        if session.state.is_receiving() && session.is_over() {
            session.state.step(ReceiverTrigger::RedReported);
            self.remove(local, number, None);
            return;
        }
        let is_deaf = local.distance.deaf_since.is_some();
        let deadline = session.deadline(&local.config, is_deaf);
        self.alarms.set(number, deadline.map(|at| at.max(now)));
    }

    /// RFC 5326 6.20: a session is over, and remembered.
    fn remove(&mut self, local: &mut Local, number: u64, refused: Option<RefuseReason>) {
        let session = self.sessions.get(&number);
        let transfer = session.and_then(|session| session.reception.transfer);
        self.abandon(local, number, refused);
        self.alarms.set(number, None);
        if let Some(session) = self.sessions.remove(&number) {
            let cancelled = usize::from(session.cancellation.is_some());
            self.cancelled = self.cancelled.saturating_sub(cancelled);
            let partial = usize::from(session.is_partial);
            self.partial = self.partial.saturating_sub(partial);
            let parts = &session.reception.parts;
            let over = Over {
                length: parts.length,
                takes_red: parts.is_green()
                    && !session.reception.is_complete
                    && session.cancellation.is_none(),
                transfer,
                red: parts.red().or(parts.green()),
                end_to_end: session.reception.end_to_end,
            };
            self.closed.push(number, over);
        }
    }

    pub(super) fn over(&mut self, local: &mut Local, number: u64, refused: Option<RefuseReason>) {
        if let Some(session) = self.sessions.get_mut(&number) {
            session.state.step(ReceiverTrigger::Over);
            self.remove(local, number, refused);
        }
    }

    /// The peer has a report (RFC 5326 6.14). One of a session that is over is nothing new.
    pub(super) fn handle_report_ack(
        &mut self,
        now: Instant,
        local: &mut Local,
        id: SessionId,
        serial: u64,
    ) {
        if planted(Mutant::ReportAcknowledgmentIgnored) {
            return;
        }
        let session = self.sessions.get_mut(&id.number);
        let Some(session) = session.filter(|session| session.state.is_receiving()) else {
            return;
        };
        match session.handle_report_ack(now, local, serial) {
            Ok(()) => self.settle(now, local, id.number),
            Err(reason) => self.cancel(now, local, id.number, reason, Some(refusal_of(reason))),
        }
    }

    /// The peer cancels a session, which is acknowledged in any case (RFC 5326 6.17).
    pub(super) fn handle_cancel(&mut self, local: &mut Local, id: SessionId, reason: Reason) {
        if planted(Mutant::BlockCancellationIgnored) {
            return;
        }
        local.operate(Operation::CancelAck(id, Party::Sender));
        self.over(local, id.number, Some(refusal_of(reason)));
        // A segment that the cancellation overtook opens no session.
        self.closed.push(id.number, Over::default());
    }

    /// The peer has acknowledged our cancellation (RFC 5326 6.18).
    pub(super) fn handle_cancel_ack(&mut self, local: &mut Local, id: SessionId) {
        let session = self.sessions.get(&id.number);
        if session.is_some_and(|session| session.cancellation.is_some()) {
            self.over(local, id.number, None);
        }
    }

    /// The node says that octets of a transfer are durable.
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        local: &mut Local,
        transfer: TransferId,
        octets: u64,
    ) {
        let Some(number) = self.by_transfer.get(&transfer).copied() else {
            return;
        };
        let session = self.sessions.get_mut(&number);
        match session.map(|session| session.handle_durable(local, octets)) {
            Some(Err(reason)) => self.cancel(now, local, number, reason, None),
            _ => self.settle(now, local, number),
        }
    }

    /// The node does not want a transfer. If it has the bundle already, the session goes on without it, so that the sender
    /// is told what it wants to know; all others are cancelled (RFC 5326 4.2).
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        local: &mut Local,
        transfer: TransferId,
        reason: RefuseReason,
    ) {
        let Some(number) = self.by_transfer.get(&transfer).copied() else {
            return;
        };
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        session.reception.is_unwanted = true;
        if reason == RefuseReason::Completed {
            self.acknowledge(now, local, transfer, u64::MAX);
        } else {
            self.cancel(now, local, number, reason_of(reason), None);
        }
    }

    /// The time of sessions has come.
    pub(super) fn handle_timeout(&mut self, now: Instant, local: &mut Local) {
        while let Some(number) = self.alarms.pop(now) {
            let Some(session) = self.sessions.get_mut(&number) else {
                continue;
            };
            match session.handle_timeout(now, local) {
                Expiry::No => self.settle(now, local, number),
                Expiry::Over => self.over(local, number, None),
                Expiry::Cancel(reason) => self.cancel(now, local, number, reason, None),
            }
        }
    }

    /// The way to the peer is another.
    pub(super) fn follow(&mut self, now: Instant, local: &mut Local, change: Change) {
        let numbers: Vec<_> = self.sessions.keys().copied().collect();
        for number in numbers {
            if let Some(session) = self.sessions.get_mut(&number) {
                session.follow(change);
            }
            self.settle(now, local, number);
        }
    }

    /// The link is over.
    pub(super) fn close(&mut self, events: &mut VecDeque<DatagramEvent>) {
        for session in core::mem::take(&mut self.sessions).into_values() {
            if let Some(transfer) = session.reception.transfer
                && !session.reception.is_complete
                && !session.reception.is_unwanted
            {
                let refused = None;
                events.push_back(DatagramEvent::Abandoned { transfer, refused });
            }
        }
        self.by_transfer.clear();
        self.alarms.clear();
        self.beyond = 0;
        self.cancelled = 0;
        self.partial = 0;
    }

    /// A report or cancellation has left: the wait for its answer begins (RFC 5326 6.3, 6.15).
    pub(super) fn has_left(
        &mut self,
        now: Instant,
        local: &mut Local,
        backlog: Duration,
        (number, report): (u64, Option<u64>),
    ) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let awaited = match report {
            Some(serial) => session.reporting.awaited(serial),
            None => session.cancellation.as_mut().map(|(_, awaited)| awaited),
        };
        if let Some(awaited) = awaited {
            awaited.has_left(now, &local.distance, backlog);
        }
        self.settle(now, local, number);
    }

    /// A report, when it is to be sent.
    pub(super) fn report(&self, number: u64, serial: u64) -> Option<(SessionId, &Report)> {
        let session = self.sessions.get(&number)?;
        Some((session.id, session.reporting.report(serial)?))
    }

    /// A report was given to the driver.
    pub(super) fn report_given(&mut self, number: u64, serial: u64) {
        let session = self.sessions.get_mut(&number);
        if let Some(awaited) = session.and_then(|session| session.reporting.awaited(serial)) {
            awaited.given();
        }
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
