//! The session: the machine that all other files of this room are parts of.

use bytes::{Bytes, BytesMut};
use dhow_bundle::{Instant, Now, SmallBuffer};

use super::message::Message;
use super::negotiation::offered;
use super::state::{self, State, Trigger};
use super::termination::Termination;
use super::transfer_in::{Limits, Refusal, TransfersIn};
use super::transfer_out::TransfersOut;
use super::wire::Decoder;
use crate::stream::{
    DownReason, Gather, LinkCommand, LinkEvent, SessionParameters, StreamSession, TerminateReason,
};
use crate::tcpcl::config::Config;
use crate::tcpcl::event::Events;
use crate::tcpcl::outgoing::Cancelled;
use crate::tcpcl::timer::{Expiry, Timers};
use crate::tcpcl::writer::{Encode, HEAD_ROOM, Writer};

/// Events that may wait before the session asks for no more octets.
const MAX_EVENTS_WAITING: usize = 16_384;

/// One TCPCLv3 session over one TCP connection.
///
/// The driver tells it of octets and commands, takes events after each call until there are none, and
/// sends what `poll_octets` gives. See [`StreamSession`]. The two sides do the same, so nothing depends on who dialled.
#[derive(Debug)]
pub struct Session {
    pub(super) config: Config,
    /// Flags of our contact header.
    pub(super) offer: u8,
    pub(super) state: State,
    pub(super) decoder: Decoder,
    /// Our contact header, which everything else comes after.
    pub(super) opening: BytesMut,
    /// Whole messages other than those about bundles, to be sent next.
    pub(super) control: BytesMut,
    pub(super) incoming: TransfersIn,
    pub(super) outgoing: TransfersOut,
    pub(super) events: Events,
    pub(super) timers: Timers,
    pub(super) termination: Termination,
    /// When our SHUTDOWN was queued.
    pub(super) shutdown_at: Option<Instant>,
    pub(super) parameters: Option<SessionParameters>,
    /// Room for message heads under construction.
    heads: SmallBuffer,
}

impl Session {
    /// A session on a connection that is there now.
    #[must_use]
    pub fn new(config: Config, now: Now) -> Self {
        let offer = offered(&config);
        Self::offering(offer, config, now)
    }

    /// A session that offers these flags (RFC 7242 table 1).
    pub(super) fn offering(offer: u8, config: Config, now: Now) -> Self {
        let limits = Limits {
            transfer_mru: config.transfer_mru,
            awaiting: config.awaiting_acknowledgment,
        };
        let mut session = Self {
            offer,
            state: State::Contact,
            decoder: Decoder::default(),
            opening: BytesMut::new(),
            control: BytesMut::new(),
            incoming: TransfersIn::new(limits),
            outgoing: TransfersOut::new(config.segment_length.max(1)),
            events: Events::default(),
            timers: Timers::new(now.monotonic),
            termination: Termination::default(),
            shutdown_at: None,
            parameters: None,
            heads: SmallBuffer::new(HEAD_ROOM),
            config,
        };
        session.queue_contact_header();
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
                // RFC 7242 3: no bundle begins while the session is ending.
                State::Finishing | State::Ending | State::Closed => {
                    self.events.push(LinkEvent::Failed {
                        transfer,
                        refused: None,
                        acknowledged: 0,
                    });
                }
                State::Contact | State::Idle | State::Live => {
                    self.outgoing.transmit(transfer, length);
                }
            },
            LinkCommand::Unverified { transfer } => self.outgoing.unverified(transfer),
            LinkCommand::Cancel { transfer } => {
                if self.outgoing.cancel(transfer, &mut self.events) == Cancelled::NeedsEnd {
                    self.fail(
                        Some(TerminateReason::Unknown),
                        DownReason::Terminated(TerminateReason::Unknown),
                    );
                }
            }
            LinkCommand::Acknowledge { transfer, octets } => {
                self.incoming
                    .acknowledge(transfer, octets, self.events.taken());
            }
            LinkCommand::Refuse { transfer, reason } => {
                if self.incoming.refuse(transfer, reason) == Refusal::NeedsEnd {
                    // The peer knows no refusals: without an acknowledgment it keeps its bundle.
                    self.fail(
                        Some(TerminateReason::Busy),
                        DownReason::Terminated(TerminateReason::Busy),
                    );
                }
            }
            LinkCommand::Supply { .. }
            | LinkCommand::Secured { .. }
            | LinkCommand::Insecure
            | LinkCommand::Terminate { .. }
            | LinkCommand::Disconnected => {}
        }
    }

    /// Take the state from idle to live and back, and on its way to the end.
    fn settle(&mut self, now: Now) {
        let idle = self.is_idle();
        match self.state {
            State::Idle if !idle => self.apply(Trigger::TransferBegun),
            State::Live if idle => {
                self.apply(Trigger::TransfersDone);
                self.timers.transfer_moved(now.monotonic);
            }
            State::Finishing => self.finish_own(now),
            State::Ending => self.finish_termination(),
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
            self.handle_contact(now, &mut chunk);
        }
        while self.state.is_established() {
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
            // No session of this version asked for TLS.
            LinkCommand::Secured { .. } | LinkCommand::Insecure => {}
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
            // RFC 7242 5.6: a KEEPALIVE after an interval without any message; it waits for the end
            // of a segment that is under way.
            Expiry::Keepalive => self.timers.set_keepalive_due(),
            // Octets of the peer may lie in the socket because we want no more.
            Expiry::Silence if !self.wants_octets() => self.timers.octets_received(now.monotonic),
            Expiry::Stalled if !self.wants_octets() => self.timers.transfer_arrived(now.monotonic),
            Expiry::Stalled => self.fail(
                Some(TerminateReason::ResourceExhaustion),
                DownReason::TransferTimeout,
            ),
            // RFC 7242 5.6: a SHUTDOWN of one octet when nothing has come for twice the interval.
            Expiry::Silence => {
                self.fail(Some(TerminateReason::Unknown), DownReason::KeepaliveTimeout);
            }
            // RFC 7242 6.2: an idle session may be ended.
            Expiry::Idle => {
                self.timers.transfer_moved(now.monotonic);
                self.terminate(TerminateReason::IdleTimeout);
            }
            Expiry::Negotiation => self.fail(
                Some(TerminateReason::ContactFailure),
                DownReason::NegotiationTimeout,
            ),
            Expiry::Termination => self.fail(
                Some(TerminateReason::Unknown),
                DownReason::NegotiationTimeout,
            ),
        }
        self.settle(now);
    }

    fn poll_octets(&mut self, now: Now, limit: usize, out: &mut Gather) {
        let mut writer = Writer::new(&mut self.heads, out, limit);
        // RFC 7242 6.1: a message is contiguous; the segment begun comes first.
        self.outgoing
            .write_segment_rest(&mut writer, &mut self.events);
        if !self.outgoing.is_inside_segment() {
            writer.take(&mut self.opening);
            // RFC 7242 6.1: received segments are acknowledged before a connection closes.
            if !self.termination.is_silent() {
                self.incoming.write(&mut writer);
            }
            writer.take(&mut self.control);
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
        // SHUTDOWN may have waited for the octets that left.
        if !self.outgoing.is_inside_segment() && !self.control.is_empty() {
            let mut writer = Writer::new(&mut self.heads, out, limit);
            writer.take(&mut self.control);
            writer.flush();
        }
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
