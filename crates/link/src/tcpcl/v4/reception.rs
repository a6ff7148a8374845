//! The reaction of a session to each message that it receives.

use bytes::Bytes;
use dhow_bundle::Now;

use super::fault::{AnswerFault, SegmentFault};
use super::message::{Message, XferSegment, kind};
use super::reason::RejectReason;
use super::session::{Session, peer_fault};
use super::state::State;
use super::transfer_in::Admission;
use super::wire::Item;
use crate::stream::{DownReason, LinkEvent, RefuseReason, TerminateReason};

/// Messages rejected, by either side, with which a session goes on; at the next one it ends. A
/// well-functioning session has none (RFC 9174 5.1.2).
const MAX_REJECTIONS: u32 = 16;

impl Session {
    /// RFC 9174 5.1.2: say which message was not acceptable, and go on.
    pub(super) fn reject(
        &mut self,
        reason: RejectReason,
        rejected: u8,
        fault: impl FnOnce() -> DownReason,
    ) {
        self.queue(&Message::MsgReject {
            reason: reason.code(),
            rejected,
        });
        self.count_rejection(fault);
    }

    fn count_rejection(&mut self, fault: impl FnOnce() -> DownReason) {
        self.rejections = self.rejections.saturating_add(1);
        if self.rejections > MAX_REJECTIONS {
            self.fail(Some(TerminateReason::Unknown), fault());
        }
    }

    /// Segments and their acknowledgments, which nearly all messages are; false when the next is neither.
    pub(super) fn handle_usual(&mut self, now: Now, chunk: &mut Bytes) -> bool {
        if let Some((segment, octets)) = self.decoder.whole_transfer(chunk) {
            self.timers.transfer_arrived(now.monotonic);
            self.handle_segment(&segment);
            if self.state != State::Closed {
                self.incoming.handle_data(octets, true, &mut self.events);
            }
        } else if let Some((flags, transfer, length)) = self.decoder.acknowledgment(chunk) {
            self.timers.transfer_moved(now.monotonic);
            self.handle_acknowledgment(now, flags, transfer, length);
        } else {
            return false;
        }
        true
    }

    fn handle_acknowledgment(&mut self, now: Now, flags: u8, transfer: u64, length: u64) {
        let (now, events) = (now.monotonic, &mut self.events);
        let answer = (self.outgoing).handle_acknowledgment(now, flags, transfer, length, events);
        self.handle_answer(kind::XFER_ACK, answer);
    }

    pub(super) fn handle_item(&mut self, now: Now, item: Item) {
        match item {
            Item::Data { octets, last } => {
                self.timers.transfer_arrived(now.monotonic);
                self.incoming.handle_data(octets, last, &mut self.events);
            }
            Item::Message(Message::Keepalive) if self.state.is_established() => {}
            Item::Message(message) => {
                self.timers.transfer_moved(now.monotonic);
                self.handle_message(now, message);
            }
        }
    }

    fn handle_message(&mut self, now: Now, message: Message) {
        let established = self.state.is_established();
        match message {
            Message::SessInit(init) if self.state == State::Initiation => {
                self.handle_sess_init(now, &init)
            }
            Message::SessTerm { flags: _, reason } => self.handle_sess_term(reason),
            Message::MsgReject { reason, rejected } => self.handle_rejection(reason, rejected),
            Message::XferSegment(segment) if established => {
                self.timers.transfer_arrived(now.monotonic);
                self.handle_segment(&segment);
            }
            Message::XferAck {
                flags,
                transfer,
                acknowledged_length,
            } if established => {
                self.handle_acknowledgment(now, flags, transfer, acknowledged_length)
            }
            Message::XferRefuse { reason, transfer } if established => {
                let answer = self.outgoing.handle_refusal(
                    RefuseReason::from_code(reason),
                    transfer,
                    &mut self.events,
                );
                self.handle_answer(kind::XFER_REFUSE, answer);
            }
            // RFC 9174 5.1.2: SESS_INIT after the session is established.
            message @ Message::SessInit(_) if established => {
                self.reject(RejectReason::Unexpected, message.kind(), || {
                    peer_fault("SESS_INIT again and again (RFC 9174 5.1.2)")
                });
            }
            // RFC 9174 3.3: nothing comes before SESS_INIT.
            message => {
                self.queue(&Message::MsgReject {
                    reason: RejectReason::Unexpected.code(),
                    rejected: message.kind(),
                });
                self.fail(
                    Some(TerminateReason::ContactFailure),
                    peer_fault("a message before SESS_INIT (RFC 9174 4.6)"),
                );
            }
        }
    }

    fn handle_segment(&mut self, segment: &XferSegment) {
        // RFC 9174 5.1.2: a segment beyond the negotiated Segment MRU.
        if segment.data_length > self.config.segment_mru {
            self.reject(RejectReason::Unsupported, kind::XFER_SEGMENT, || {
                peer_fault("segments longer than the Segment MRU (RFC 9174 4.6)")
            });
            if self.state == State::Closed {
                return;
            }
        }
        let admission = if self.state == State::Ending {
            Admission::Ending
        } else {
            Admission::Open
        };
        match self
            .incoming
            .handle_segment(segment, admission, &mut self.events)
        {
            Ok(()) => {}
            Err(fault @ SegmentFault::Exhausted) => {
                self.fail(Some(TerminateReason::ResourceExhaustion), peer_fault(fault));
            }
            Err(fault) => {
                self.queue(&Message::MsgReject {
                    reason: RejectReason::Unexpected.code(),
                    rejected: kind::XFER_SEGMENT,
                });
                self.fail(Some(TerminateReason::Unknown), peer_fault(fault));
            }
        }
    }

    fn handle_answer(&mut self, rejected: u8, answer: Result<(), AnswerFault>) {
        let Err(fault) = answer else { return };
        // RFC 9174 5.1.2: an answer that does not fit the transfer is rejected as unexpected.
        if fault.is_harmless() {
            self.reject(RejectReason::Unexpected, rejected, || peer_fault(fault));
        } else {
            self.queue(&Message::MsgReject {
                reason: RejectReason::Unexpected.code(),
                rejected,
            });
            self.fail(Some(TerminateReason::Unknown), peer_fault(fault));
        }
    }

    fn handle_rejection(&mut self, reason: u8, rejected: u8) {
        self.events.push(LinkEvent::Rejected {
            reason,
            message: rejected,
        });
        self.count_rejection(|| {
            peer_fault("the peer rejects message after message (RFC 9174 5.1.2)")
        });
        // The peer does not say which segment it rejected, so its transfer may wait for ever
        // for an answer: end in order, that what is unanswered then goes by another session.
        if rejected == kind::XFER_SEGMENT && self.state.is_established() {
            self.terminate(TerminateReason::Unknown);
        }
    }
}
