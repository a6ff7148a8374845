//! Datagrams on their way out of an engine, and the link state cues of those that left: RFC 5326 5.

use bytes::Bytes;
use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::Piece;

use super::engine::Engine;
use super::operations::Operation;
use super::segment::{Party, SessionId};
use super::sending::Next;
use super::wire::{write_cancel, write_cancel_ack, write_report, write_report_ack};
use crate::datagram::Batch;

/// A segment whose countdown begins when it leaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cue {
    /// A checkpoint: session and serial number.
    Checkpoint(u64, u64),
    /// A report: session and serial number.
    Report(u64, u64),
    /// A cancellation of a session, in which this engine is that party.
    Cancel(Party, u64),
}

/// A datagram to be sent.
pub(super) enum Outgoing {
    Operation(Operation),
    Data(Next),
}

impl Engine {
    /// The next datagram and its octets. Internal operations traffic goes first.
    pub(super) fn next_datagram(&mut self) -> Option<(Outgoing, u64)> {
        while let Some(operation) = self.local.operations.first() {
            if self.write(operation) {
                let octets = u64::try_from(self.scratch.len()).unwrap_or(u64::MAX);
                let octets = octets.saturating_add(self.local.envelope.pending);
                return Some((Outgoing::Operation(operation), octets));
            }
            // Its session is over, or its report was acknowledged.
            self.local.operations.pop();
        }
        let next = self.outgoing.next(&self.local)?;
        Some((Outgoing::Data(next), next.size))
    }

    /// Write a segment of the internal operations traffic; false when nobody needs it any more.
    fn write(&mut self, operation: Operation) -> bool {
        let (out, local) = (&mut self.scratch, &self.local);
        out.clear();
        match operation {
            Operation::ReportAck(id, serial) => {
                let next = u64::from(planted(Mutant::NextReportAcknowledged));
                let serial = serial.saturating_add(next);
                write_report_ack(out, id, serial, local.around(id))
            }
            Operation::CancelAck(id, by) => write_cancel_ack(out, id, by, local.around(id)),
            Operation::Report(number, serial) => match self.incoming.report(number, serial) {
                Some((id, report)) => write_report(out, id, report, local.around(id)),
                None => return false,
            },
            Operation::Cancel(by, number) => {
                let cancellation = match by {
                    Party::Sender => self.outgoing.cancellation(number),
                    Party::Receiver => self.incoming.cancellation(number),
                };
                match cancellation {
                    Some((id, reason)) => write_cancel(out, id, by, reason, local.around(id)),
                    None => return false,
                }
            }
        }
        true
    }

    pub(super) fn give(&mut self, now: Instant, next: &Outgoing, out: &mut Batch) {
        self.given = self.given.saturating_add(1);
        if let Some(id) = self.session_of(next) {
            let delay = self.local.cookie_delay();
            self.local.cookies.given(now, id, delay);
        }
        let cue = match next {
            Outgoing::Operation(operation) => {
                self.local.operations.pop();
                out.push(Piece::Octets(Bytes::copy_from_slice(&self.scratch)));
                out.end_datagram();
                self.operation_given(*operation)
            }
            Outgoing::Data(next) => self
                .outgoing
                .give(now, &self.local, next, self.given, out)
                .map(|(number, serial)| Cue::Checkpoint(number, serial)),
        };
        if let Some(cue) = cue {
            self.cues.push_back((self.given, cue));
        }
    }

    /// The session of a datagram.
    fn session_of(&self, next: &Outgoing) -> Option<SessionId> {
        match next {
            Outgoing::Data(next) => Some(next.session()),
            Outgoing::Operation(Operation::ReportAck(id, _) | Operation::CancelAck(id, _)) => {
                Some(*id)
            }
            Outgoing::Operation(Operation::Report(number, serial)) => {
                self.incoming.report(*number, *serial).map(|(id, _)| id)
            }
            Outgoing::Operation(Operation::Cancel(by, number)) => match by {
                Party::Sender => self.outgoing.cancellation(*number),
                Party::Receiver => self.incoming.cancellation(*number),
            }
            .map(|(id, _)| id),
        }
    }

    fn operation_given(&mut self, operation: Operation) -> Option<Cue> {
        match operation {
            Operation::ReportAck(..) | Operation::CancelAck(..) => None,
            Operation::Report(number, serial) => {
                self.incoming.report_given(number, serial);
                Some(Cue::Report(number, serial))
            }
            Operation::Cancel(by, number) => {
                match by {
                    Party::Sender => self.outgoing.cancellation_given(number),
                    Party::Receiver => self.incoming.cancellation_given(number),
                }
                Some(Cue::Cancel(by, number))
            }
        }
    }

    /// A segment that is waited for has left (RFC 5326 6.2, 6.3, 6.15).
    pub(super) fn handle_cue(&mut self, now: Instant, cue: Cue) {
        let backlog = self.bucket.backlog(now);
        let local = &mut self.local;
        match cue {
            Cue::Checkpoint(number, serial) => {
                let of = (number, Some(serial));
                self.outgoing.has_left(now, local, backlog, of);
            }
            Cue::Report(number, serial) => {
                let of = (number, Some(serial));
                self.incoming.has_left(now, local, backlog, of);
            }
            Cue::Cancel(Party::Sender, number) => {
                self.outgoing.has_left(now, local, backlog, (number, None));
            }
            Cue::Cancel(Party::Receiver, number) => {
                self.incoming.has_left(now, local, backlog, (number, None));
            }
        }
    }
}
