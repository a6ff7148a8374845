//! The reaction of a session to each message that it receives.

use dhow_bundle::Now;

use super::fault::{AnswerFault, SegmentFault};
use super::message::{DataSegment, Message, START};
use super::reason;
use super::session::{Session, peer_fault};
use super::state::State;
use super::wire::Item;
use crate::stream::TerminateReason;

impl Session {
    pub(super) fn handle_item(&mut self, now: Now, item: Item) {
        match item {
            Item::Data { octets, last } => {
                self.timers.transfer_arrived(now.monotonic);
                self.incoming.handle_data(octets, last, &mut self.events);
            }
            Item::Message(Message::Keepalive) => {}
            Item::Message(message) => {
                self.timers.transfer_moved(now.monotonic);
                self.handle_message(now, message);
            }
        }
    }

    fn handle_message(&mut self, now: Now, message: Message) {
        match message {
            Message::DataSegment(segment) => {
                self.timers.transfer_arrived(now.monotonic);
                let taken = self.handle_segment(now, &segment);
                self.hold_to(taken);
            }
            Message::Length { octets } => {
                let taken = self.incoming.handle_length(octets);
                self.hold_to(taken);
            }
            Message::AckSegment { octets } => {
                let events = &mut self.events;
                let answer = (self.outgoing).handle_acknowledgment(now.monotonic, octets, events);
                self.handle_answer(answer);
            }
            Message::RefuseBundle { reason } => {
                let reason = reason::refusal(reason);
                let answer = self.outgoing.handle_refusal(reason, &mut self.events);
                self.handle_answer(answer);
            }
            Message::Shutdown(shutdown) => self.handle_shutdown(shutdown),
            Message::Keepalive => {}
        }
    }

    fn handle_segment(&mut self, now: Now, segment: &DataSegment) -> Result<(), SegmentFault> {
        // Bundles that begin before the peer has our SHUTDOWN cross it; none does for ever.
        let is_late = self.state == State::Ending
            && segment.flags & START != 0
            && self
                .shutdown_at
                .is_some_and(|at| now.monotonic.since(at) >= self.config.termination_timeout);
        if self.termination.is_received() || is_late {
            return Err(SegmentFault::AfterShutdown);
        }
        self.incoming.handle_segment(segment, &mut self.events)
    }

    fn hold_to(&mut self, taken: Result<(), SegmentFault>) {
        let Err(fault) = taken else { return };
        let farewell = match fault {
            SegmentFault::Exhausted | SegmentFault::Unrefusable(_) => {
                TerminateReason::ResourceExhaustion
            }
            _ => TerminateReason::Unknown,
        };
        self.fail(Some(farewell), peer_fault(fault));
    }

    fn handle_answer(&mut self, answer: Result<(), AnswerFault>) {
        if let Err(fault) = answer {
            self.fail(Some(TerminateReason::Unknown), peer_fault(fault));
        }
    }
}
