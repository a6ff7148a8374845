//! A session in which this engine receives: RFC 5326 6.9, 6.16 and 6.21.

use dhow_bundle::Instant;

use super::config::Config;
use super::fault::Fault;
use super::local::Local;
use super::operations::Operation;
use super::reception::Reception;
use super::reporting::Reporting;
use super::segment::{Data, Party, Reason, SessionId};
use super::state::{Receiver, ReceiverTrigger};
use super::timer::{Again, Awaited, Change};

/// An incoming session, until it is over for both sides.
#[derive(Debug)]
pub(super) struct SessionIn {
    pub(super) id: SessionId,
    service: u64,
    pub(super) state: Receiver,
    pub(super) reception: Reception,
    pub(super) reporting: Reporting,
    pub(super) cancellation: Option<(Reason, Awaited)>,
    /// When the peer last said something.
    heard: Instant,
    /// Whether it is counted among those of which octets are missing.
    pub(super) is_partial: bool,
}

/// The end that time brings to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// Not yet.
    No,
    /// The session is cancelled.
    Cancel(Reason),
    /// The session is over, without a message.
    Over,
}

impl SessionIn {
    pub(super) fn new(id: SessionId, service: u64, first_serial: u64, now: Instant) -> Self {
        Self {
            id,
            service,
            state: Receiver::Receiving,
            reception: Reception::new(id),
            reporting: Reporting::new(first_serial),
            cancellation: None,
            heard: now,
            is_partial: false,
        }
    }

    /// RFC 5326 6.14, 6.20: all is there, and the sender knows.
    pub(super) fn is_over(&self) -> bool {
        let red = self.reception.parts.red_end.unwrap_or(0);
        self.reception.is_complete && self.reporting.is_idle() && self.reporting.has_told(red)
    }

    /// When the peer last said something, of a session that may give way to another one: of which octets are missing. One that is whole is
    /// durable here or soon will be, and its report is never given up for another block.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        let gives_way = self.state.is_receiving() && !self.reception.is_complete;
        gives_way.then_some(self.heard)
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
        if let Err(fault) = self.reception.parts.check(head) {
            // RFC 5326 6.21: the segment is discarded, and the session cancelled.
            local.faults.count(fault);
            return match fault {
                Fault::Miscolored => Err(Reason::Miscolored),
                _ => Ok(()),
            };
        }
        if head.end() > local.config.transfer_mru {
            local.faults.count(Fault::BlockTooLong);
            // RFC 5326 3.2.4: the client service wants no such block, ever. `SYS_CNCLD` would ask for it again.
            return Err(Reason::UserCancelled);
        }
        self.reception.parts.note(head);
        if head.kind.is_block_end() && self.state == Receiver::Receiving {
            self.state.step(ReceiverTrigger::BlockEndReceived);
        }
        match self.reception.may_take(&local.config, room, head) {
            Ok(()) => self.reception.take(local, head, &data.octets),
            Err(fault) => local.faults.count(fault),
        }
        let of = &self.reception;
        if let Some(serials) = head.serials {
            self.reporting
                .handle_checkpoint(now, local, of, head, serials)?;
        }
        self.reporting.look_for_gap(now, &local.config, of);
        Ok(())
    }

    /// The node says that octets from the start are durable.
    ///
    /// # Errors
    /// The session is to be cancelled.
    pub(super) fn handle_durable(&mut self, local: &mut Local, octets: u64) -> Result<(), Reason> {
        self.reception.durable = self.reception.durable.max(octets);
        self.reporting.release(local, &self.reception)
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
        self.reporting
            .handle_ack(now, local, &self.reception, serial)
    }

    /// Time has passed.
    pub(super) fn handle_timeout(&mut self, now: Instant, local: &mut Local) -> Expiry {
        if let Some((_, awaited)) = &mut self.cancellation {
            // RFC 5326 6.16.
            if awaited.is_over(now) {
                match awaited.again(local.config.transmissions) {
                    Again::Queue => {
                        local.operate(Operation::Cancel(Party::Receiver, self.id.number));
                    }
                    Again::OnItsWay => {}
                    Again::Exceeded => return Expiry::Over,
                }
            }
            return Expiry::No;
        }
        let reporting = &mut self.reporting;
        if let Err(reason) = reporting.handle_timeout(now, local, &self.reception) {
            return Expiry::Cancel(reason);
        }
        let is_deaf = local.distance.deaf_since.is_some();
        let end = self.silence_deadline(&local.config);
        if end.is_none_or(|end| is_deaf || now < end) {
            Expiry::No
        } else if self.reception.is_complete || self.waits_for_green() {
            Expiry::Over
        } else {
            local.faults.count(Fault::Idle);
            Expiry::Cancel(Reason::SystemCancelled)
        }
    }

    /// When something is to be done, while nothing else happens.
    pub(super) fn deadline(&self, config: &Config, is_deaf: bool) -> Option<Instant> {
        if let Some((_, awaited)) = &self.cancellation {
            return awaited.deadline();
        }
        let silence = self.silence_deadline(config).filter(|_| !is_deaf);
        self.reporting.deadline().into_iter().chain(silence).min()
    }

    /// Nothing is missing but green octets, which nobody sends again.
    fn waits_for_green(&self) -> bool {
        let parts = &self.reception.parts;
        let has_told = |red| self.reporting.has_told(red);
        parts.is_green() || parts.red_end.is_some_and(has_told)
    }

    /// When the peer's silence ends the session.
    fn silence_deadline(&self, config: &Config) -> Option<Instant> {
        if self.reception.withholds() {
            // The node's turn.
            return None;
        }
        let time = if !self.reception.is_complete && self.waits_for_green() {
            config.green_timeout
        } else {
            config.idle_timeout
        };
        Some(self.heard + time)
    }

    /// The way to the peer is another.
    pub(super) fn follow(&mut self, change: Change) {
        if let Change::Resumed(since, now) = change {
            self.heard = self.heard + now.since(self.heard.max(since));
        }
        self.reporting.follow(change);
        if let Some((_, awaited)) = &mut self.cancellation {
            awaited.follow(change);
        }
    }

    /// RFC 5326 6.19: nothing of the session is sent or waited for any more.
    pub(super) fn clear(&mut self) {
        self.reporting.clear();
        self.reception.received = Default::default();
    }
}
