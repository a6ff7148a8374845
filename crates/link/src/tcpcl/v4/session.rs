//! The session: the machine that all other files of this room are parts of.

use bytes::{Bytes, BytesMut};
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::{Instant, Now, SmallBuffer};

use super::message::Message;
use super::state::{self, State, Trigger};
use super::termination::Termination;
use super::transfer_in::{Limits, TransfersIn};
use super::transfer_out::TransfersOut;
use super::wire::Decoder;
use crate::stream::{
    DownReason, Gather, LinkCommand, LinkEvent, PeerIdentities, SessionParameters, StreamSession,
    TerminateReason,
};
use crate::tcpcl::config::{Config, Role};
use crate::tcpcl::event::Events;
use crate::tcpcl::outgoing::Cancelled;
use crate::tcpcl::timer::{Expiry, Timers};

use crate::tcpcl::writer::{Encode, HEAD_ROOM, Writer};

/// Events that may wait before the session asks for no more octets.
const MAX_EVENTS_WAITING: usize = 16_384;

/// One TCPCLv4 session over one TCP connection.
///
/// The driver tells it of octets and commands, takes events after each call until there are none, and
/// sends what `poll_octets` gives. See [`StreamSession`].
#[derive(Debug)]
pub struct Session {
    pub(super) role: Role,
    pub(super) config: Config,
    pub(super) state: State,
    pub(super) decoder: Decoder,
    /// Our contact header and `SESS_INIT`, which everything else comes after.
    pub(super) opening: BytesMut,
    /// Whole messages other than those about transfers, to be sent next.
    pub(super) control: BytesMut,
    pub(super) incoming: TransfersIn,
    pub(super) outgoing: TransfersOut,
    pub(super) events: Events,
    pub(super) timers: Timers,
    pub(super) termination: Termination,
    /// The identities that the peer's certificate proves; `None` without TLS.
    pub(super) identities: Option<PeerIdentities>,
    pub(super) parameters: Option<SessionParameters>,
    /// Messages rejected so far, by either side.
    pub(super) rejections: u32,
    /// Room for message heads under construction.
    heads: SmallBuffer,
}

impl Session {
    /// A session on a connection that is there now.
    #[must_use]
    pub fn new(role: Role, config: Config, now: Now) -> Self {
        let limits = Limits {
            segment_mru: config.segment_mru,
            transfer_mru: config.transfer_mru,
            awaiting: config.awaiting_acknowledgment,
        };
        let mut session = Self {
            role,
            state: State::Contact,
            decoder: Decoder::default(),
            opening: BytesMut::new(),
            control: BytesMut::new(),
            incoming: TransfersIn::new(limits),
            outgoing: TransfersOut::new(config.segment_length.max(1), config.reading),
            events: Events::default(),
            timers: Timers::new(now.monotonic),
            termination: Termination::default(),
            identities: None,
            parameters: None,
            rejections: 0,
            heads: SmallBuffer::new(HEAD_ROOM),
            config,
        };
        // RFC 9174 4.1: the active entity sends its contact header at once, the passive one waits.
        if role == Role::Active {
            session.queue_contact_header();
        }
        session
    }

    /// The state of the session.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// The parameters that both sides agreed on; `None` before that.
    #[must_use]
    pub const fn parameters(&self) -> Option<&SessionParameters> {
        self.parameters.as_ref()
    }

    /// False while `poll_octets` has nothing to give: no transfer is under way in either direction, and no other message waits.
    #[must_use]
    pub fn may_have_octets(&self) -> bool {
        !self.is_idle()
            || self.outgoing.is_inside_segment()
            || !self.opening.is_empty()
            || !self.control.is_empty()
            || self.timers.keepalive_due()
    }

    /// Octets of the transfer that has begun to leave which have not been given out, without the heads of its segments.
    #[must_use]
    pub fn leaving_octets(&self) -> u64 {
        self.outgoing.leaving_octets()
    }

    /// Octets of transfers of which nothing has been given out yet.
    #[must_use]
    pub const fn queued_octets(&self) -> u64 {
        self.outgoing.queued_octets()
    }

    /// The next deadline and its purpose.
    fn deadline(&self) -> Option<(Instant, Expiry)> {
        let timeout = self.config.transfer_timeout;
        let timeout = timeout.filter(|_| self.incoming.is_arriving());
        self.timers.next(self.state.stage(), &self.config, timeout)
    }

    fn is_idle(&self) -> bool {
        self.outgoing.is_idle() && self.incoming.is_idle()
    }

    pub(super) fn apply(&mut self, trigger: Trigger) {
        let next = state::next(self.state, trigger);
        assert!(
            next.is_some(),
            "a trigger occurs only in states that know it"
        );
        self.state = next.unwrap_or(State::Closed);
    }

    pub(super) fn queue(&mut self, message: &Message) {
        message.encode(&mut self.control);
    }

    fn handle_transfer_command(&mut self, command: LinkCommand) {
        match command {
            LinkCommand::Transmit { transfer, length } => match self.state {
                // RFC 9174 6.1: no transfer begins while the session is ending.
                State::Ending | State::Closed => {
                    self.events.push(LinkEvent::Failed {
                        transfer,
                        refused: None,
                        acknowledged: 0,
                    });
                }
                _ => self.outgoing.transmit(transfer, length, &mut self.events),
            },
            LinkCommand::Unverified { transfer } => self.outgoing.unverified(transfer),
            LinkCommand::Cancel { transfer } => {
                match self.outgoing.cancel(transfer, &mut self.events) {
                    Cancelled::Quietly => {}
                    // A transfer that has wholly left cannot be taken back.
                    Cancelled::NeedsEnd => {
                        self.fail(
                            Some(TerminateReason::Unknown),
                            DownReason::Terminated(TerminateReason::Unknown),
                        );
                    }
                }
            }
            LinkCommand::Acknowledge { transfer, octets } => {
                self.incoming
                    .acknowledge(transfer, octets, self.events.taken());
            }
            LinkCommand::Refuse { transfer, reason } => {
                let knows_ours = (self.parameters.as_ref())
                    .is_some_and(|parameters| parameters.keeps_reactive_fragments);
                let reason = if knows_ours {
                    reason
                } else {
                    reason.standard()
                };
                self.incoming.refuse(transfer, reason);
            }
            LinkCommand::Supply { .. }
            | LinkCommand::Secured { .. }
            | LinkCommand::Insecure
            | LinkCommand::Terminate { .. }
            | LinkCommand::Disconnected => {}
        }
    }

    /// Take the state from idle to live and back, and from ending to closed.
    fn settle(&mut self, now: Now) {
        let idle = self.is_idle();
        match self.state {
            State::Idle if !idle => self.apply(Trigger::TransferBegun),
            State::Live if idle => {
                self.apply(Trigger::TransfersDone);
                self.timers.transfer_moved(now.monotonic);
            }
            State::Ending if idle => self.finish_termination(),
            _ => {}
        }
    }
}

impl StreamSession for Session {
    fn handle_octets(&mut self, now: Now, octets: Bytes) {
        if self.state == State::Closed || octets.is_empty() {
            return;
        }
        self.timers.octets_received(now.monotonic);
        let mut chunk = octets;
        if self.state == State::Contact {
            self.handle_contact(&mut chunk);
        } else if self.state == State::Securing {
            self.handle_early_octets();
        }
        while matches!(
            self.state,
            State::Initiation | State::Idle | State::Live | State::Ending
        ) {
            if self.state.is_established() && self.handle_usual(now, &mut chunk) {
                continue;
            }
            match self.decoder.next(&mut chunk) {
                Ok(None) => break,
                Ok(Some(item)) => self.handle_item(now, item),
                Err(fault) => self.handle_wire_fault(fault),
            }
        }
        self.settle(now);
    }

    fn handle_command(&mut self, now: Now, command: LinkCommand) {
        match command {
            // More octets of a transfer neither begin nor end anything.
            LinkCommand::Supply { transfer, octets } => {
                return self.outgoing.supply(transfer, octets);
            }
            LinkCommand::Secured { identities } => self.handle_secured(identities),
            LinkCommand::Insecure => self.handle_insecure(),
            LinkCommand::Terminate { reason } => {
                self.timers.transfer_moved(now.monotonic);
                self.terminate(reason);
            }
            LinkCommand::Disconnected => self.handle_disconnected(),
            command => self.handle_transfer_command(command),
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Now) {
        let Some((at, expiry)) = self.deadline() else {
            return;
        };
        if now.monotonic < at {
            return;
        }
        match expiry {
            Expiry::Keepalive if planted(Mutant::KeepaliveForgotten) => {
                self.timers.octets_sent(now.monotonic);
            }
            // RFC 9174 5.1.1: a KEEPALIVE after an interval without any message; it waits for the end
            // of a segment that is under way.
            Expiry::Keepalive => self.timers.set_keepalive_due(),
            // Octets of the peer may lie in the socket because we want no more.
            Expiry::Silence if !self.wants_octets() => self.timers.octets_received(now.monotonic),
            Expiry::Stalled if !self.wants_octets() => self.timers.transfer_arrived(now.monotonic),
            Expiry::Stalled => self.fail(
                Some(TerminateReason::ResourceExhaustion),
                DownReason::TransferTimeout,
            ),
            // RFC 9174 5.1.1: "Idle timeout" when nothing has come for twice the interval.
            Expiry::Silence => self.fail(
                Some(TerminateReason::IdleTimeout),
                DownReason::KeepaliveTimeout,
            ),
            // RFC 9174 6.2: an idle session may be ended.
            Expiry::Idle => {
                self.timers.transfer_moved(now.monotonic);
                self.terminate(TerminateReason::IdleTimeout);
            }
            // RFC 9174 4.1, 3.3: without a contact header the connection closes; without SESS_INIT the
            // session is terminated.
            Expiry::Negotiation => {
                let farewell = if self.state == State::Initiation {
                    Some(TerminateReason::ContactFailure)
                } else {
                    None
                };
                self.fail(farewell, DownReason::NegotiationTimeout);
            }
            Expiry::Termination => self.fail(None, DownReason::NegotiationTimeout),
        }
        self.settle(now);
    }

    fn poll_octets(&mut self, now: Now, limit: usize, out: &mut Gather) {
        let mut writer = Writer::new(&mut self.heads, out, limit);
        // RFC 9174 6.1: a message is contiguous; the segment begun comes first.
        self.outgoing
            .write_segment_rest(&mut writer, &mut self.events);
        if !self.outgoing.is_inside_segment() {
            writer.take(&mut self.opening);
            // RFC 9174 6.1: received segments are acknowledged before a connection closes.
            if !self.termination.is_silent() {
                self.incoming.write(&mut writer);
            }
            writer.take(&mut self.control);
            self.termination.left();
            if self.state.is_established() {
                while writer.room() > 0
                    && self.outgoing.write_segment_head(now.monotonic, &mut writer)
                {
                    self.outgoing
                        .write_segment_rest(&mut writer, &mut self.events);
                }
            }
        }
        if !writer.is_untouched() {
            self.timers.transfer_moved(now.monotonic);
            self.timers.octets_sent(now.monotonic);
        } else if self.timers.keepalive_due()
            && self.state.is_established()
            && !self.outgoing.is_inside_segment()
        {
            writer.message(&Message::Keepalive);
            self.timers.octets_sent(now.monotonic);
        }
        writer.flush();
        self.settle(now);
    }

    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.take()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline().map(|(at, _)| at)
    }

    fn wants_octets(&self) -> bool {
        self.incoming.awaiting() < self.config.awaiting_acknowledgment / 2
            && self.events.len() < MAX_EVENTS_WAITING
    }
}

/// A peer's fault, as the node is told of it.
pub(super) fn peer_fault(fault: impl alloc::string::ToString) -> DownReason {
    DownReason::PeerFault(fault.to_string())
}
