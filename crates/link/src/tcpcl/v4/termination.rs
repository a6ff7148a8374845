//! The end of a session: RFC 9174 6.

use super::message::{Message, REPLY};
use super::reason::RejectReason;
use super::session::{Session, peer_fault};
use super::state::{State, Trigger};
use super::wire::WireFault;
use crate::stream::{DownReason, LinkEvent, TerminateReason};
use crate::tcpcl::config::Role;

/// Octets of a `SESS_TERM` (RFC 9174 6.1): type, flags, reason.
const SESS_TERM_OCTETS: usize = 3;

/// The messages of both sides about the end.
#[derive(Debug, Default)]
pub(super) struct Termination {
    /// The reason that was said first, by either side.
    reason: Option<TerminateReason>,
    /// Whether the peer has sent `SESS_TERM`.
    received: bool,
    /// The place of the beginning of our `SESS_TERM` among the messages that have not left.
    unsent: Option<usize>,
    /// Whether nothing may be sent any more.
    silent: bool,
}

impl Termination {
    /// Nothing may be sent any more.
    pub(super) const fn is_silent(&self) -> bool {
        self.silent
    }

    /// Every message has left.
    pub(super) const fn left(&mut self) {
        self.unsent = None;
    }

    fn reason(&self) -> TerminateReason {
        self.reason.unwrap_or(TerminateReason::Unknown)
    }
}

impl Session {
    /// End the session in order.
    pub(super) fn terminate(&mut self, reason: TerminateReason) {
        match self.state {
            State::Idle | State::Live => self.begin_termination(0, reason),
            // RFC 9174 6.1: SESS_TERM comes after the contact header and outside of TLS's handshake;
            // where there is nothing to drain, no answer is waited for.
            State::Contact | State::Securing | State::Initiation => {
                let farewell = if self.may_say_farewell() {
                    Some(reason)
                } else {
                    None
                };
                self.fail(farewell, DownReason::Terminated(reason));
            }
            State::Ending | State::Closed => {}
        }
    }

    fn may_say_farewell(&self) -> bool {
        match self.state {
            State::Contact => self.role == Role::Active,
            State::Securing => false,
            _ => true,
        }
    }

    fn begin_termination(&mut self, flags: u8, reason: TerminateReason) {
        self.termination.reason.get_or_insert(reason);
        self.termination.unsent = Some(self.control.len());
        self.queue(&Message::SessTerm {
            flags,
            reason: reason.code(),
        });
        self.apply(Trigger::TermSent);
        self.events.push(LinkEvent::Ending);
        self.outgoing.end(&mut self.events);
    }

    pub(super) fn handle_sess_term(&mut self, reason: u8) {
        let reason = TerminateReason::from_code(reason);
        self.termination.received = true;
        match self.state {
            // RFC 9174 6.1: a SESS_TERM is answered by the same with REPLY, if none was sent before.
            State::Idle | State::Live => {
                self.begin_termination(REPLY, reason);
            }
            // RFC 9174 6.1: a session may be refused before it is established.
            State::Initiation => {
                self.queue(&Message::SessTerm {
                    flags: REPLY,
                    reason: reason.code(),
                });
                self.fail(None, DownReason::Terminated(reason));
            }
            // The answer to ours; or both sides ended the session at once, and REPLY is not set.
            // Either way it is the second of the two that there are.
            State::Ending => self.answer_with_unsent(reason),
            State::Contact | State::Securing | State::Closed => {}
        }
    }

    /// RFC 9174 6.1: a `SESS_TERM` of ours that leaves after the peer's came is its answer.
    fn answer_with_unsent(&mut self, reason: TerminateReason) {
        let Some(own) = self.termination.unsent.take() else {
            return;
        };
        self.termination.reason = Some(reason);
        let behind = self.control.split_off(own);
        self.queue(&Message::SessTerm {
            flags: REPLY,
            reason: reason.code(),
        });
        let behind = behind.get(SESS_TERM_OCTETS..).unwrap_or_default();
        self.control.extend_from_slice(behind);
    }

    /// All transfers are over while the session is ending.
    pub(super) fn finish_termination(&mut self) {
        if self.termination.received {
            self.apply(Trigger::Drained);
            self.close(DownReason::Terminated(self.termination.reason()));
        }
    }

    /// The peer's octets can no longer be understood.
    pub(super) fn handle_wire_fault(&mut self, fault: WireFault) {
        let farewell = match fault {
            // RFC 9174 5.1.2: reject the unknown message and close the connection.
            WireFault::UnknownType(kind) => {
                self.queue(&Message::MsgReject {
                    reason: RejectReason::TypeUnknown.code(),
                    rejected: kind,
                });
                None
            }
            WireFault::ExtensionsTooLong(_) => Some(TerminateReason::ResourceExhaustion),
            WireFault::NodeIdTooLong(_) | WireFault::NodeIdNotText => {
                Some(TerminateReason::ContactFailure)
            }
            // RFC 9174 6.1: without a contact header the connection closes without SESS_TERM.
            WireFault::NoMagic => None,
        };
        self.fail(farewell, peer_fault(fault));
    }

    /// The stream is gone.
    pub(super) fn handle_disconnected(&mut self) {
        if self.state == State::Closed {
            return;
        }
        // A peer may close as soon as it has our SESS_TERM and no transfer is under way.
        let drained =
            self.state == State::Ending && self.outgoing.is_idle() && self.incoming.is_idle();
        let reason = if drained {
            DownReason::Terminated(self.termination.reason())
        } else {
            DownReason::Disconnected
        };
        self.opening.clear();
        self.control.clear();
        self.termination.silent = true;
        self.fail(None, reason);
    }

    /// End the session at once, with a last `SESS_TERM` if one is due and possible.
    pub(super) fn fail(&mut self, farewell: Option<TerminateReason>, reason: DownReason) {
        if self.state == State::Closed {
            return;
        }
        // RFC 9174 6.1: within a message that is not complete, no SESS_TERM is sent.
        if self.outgoing.is_inside_segment() {
            self.control.clear();
            self.termination.silent = true;
        }
        if let Some(farewell) = farewell
            && !self.termination.silent
            && self.state != State::Ending
        {
            self.queue(&Message::SessTerm {
                flags: 0,
                reason: farewell.code(),
            });
        }
        self.apply(Trigger::Broken);
        self.close(reason);
    }

    fn close(&mut self, reason: DownReason) {
        // RFC 9174 6.1: transfers under way have failed.
        self.outgoing.close(&mut self.events);
        self.incoming.close(&mut self.events);
        self.events.push(LinkEvent::Down(reason));
    }
}
