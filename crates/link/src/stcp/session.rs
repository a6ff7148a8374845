//! The session: the machine that all other files of this room are parts of.

use alloc::string::ToString;

use bytes::Bytes;
use dhow_bundle::{Instant, NodeId, Now};

use super::Framing;
use super::config::Config;
use super::receiver::{Progress, Receiver};
use super::sender::{Given, Sender};
use super::timer::{Expiry, Timers, Waits};
use super::wire::WireFault;
use crate::stream::{
    DownReason, Gather, LinkCommand, LinkEvent, SessionParameters, StreamSession, TerminateReason,
    TransferId,
};
use crate::tcpcl::event::Events;
use crate::tcpcl::outgoing::Cancelled;

/// Events that may wait before the session asks for no more octets.
const MAX_EVENTS_WAITING: usize = 16_384;

/// Told of a peer that says something where it has nothing to say.
const TALKS: &str = "the accepting side of STCP and MTCP sends nothing, and this one does: \
                     it may speak another convergence layer";

/// The state of a session. There is no diagram in the drafts:
///
/// ```text
///            Terminate, bundle under way           last octet written or read, or no octet for too long
///   Open ───────────────────────────────▶ Ending ──────────────────────────────────────────────────────▶ Closed
///    │   Terminate with nothing under way, end of the stream, broken framing, timeout                       ▲
///    └──────────────────────────────────────────────────────────────────────────────────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Bundles pass.
    Open,
    /// The bundle under way is the last.
    Ending(TerminateReason),
    /// The session is over.
    Closed,
}

/// One connection that carries bundles in one direction.
///
/// The driver tells it of octets and commands, takes events after each call until there are none, and sends what
/// `poll_octets` gives; it asks again once all of that is written, which is how the session knows. See [`StreamSession`].
#[derive(Debug)]
pub struct Session {
    config: Config,
    way: Way,
    state: State,
    events: Events,
    timers: Timers,
}

/// The direction of the bundles.
#[derive(Debug)]
enum Way {
    Out(Sender),
    In(Receiver),
}

impl Session {
    /// A session on a connection that this node dialled now, to the node with this ID. It is up at once.
    #[must_use]
    pub fn dial(peer: NodeId, config: Config, now: Now) -> Self {
        let framing = config.framing;
        let mut session = Self::new(Way::Out(Sender::new(framing)), config, now);
        let keepalive = session.keepalive();
        session.events.push(LinkEvent::Up(SessionParameters {
            peer,
            secured: false,
            proven: false,
            keepalive_s: keepalive.map_or(0, |it| u16::try_from(it.as_secs()).unwrap_or(u16::MAX)),
            segment_mru: framing.longest_octets(),
            transfer_mru: framing.longest_octets(),
            keeps_reactive_fragments: false,
        }));
        session
    }

    /// A session on a connection that the peer dialled. The peer does not say who it is, so the session is never up, and
    /// takes no bundles; those that come are told.
    #[must_use]
    pub fn accept(config: Config, now: Now) -> Self {
        let receiver = Receiver::new(config.framing, config.transfer_mru);
        Self::new(Way::In(receiver), config, now)
    }

    fn new(way: Way, config: Config, now: Now) -> Self {
        Self {
            config,
            way,
            state: State::Open,
            events: Events::default(),
            timers: Timers::new(now.monotonic),
        }
    }

    /// The form of its bundles.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.config.framing
    }

    /// The state of the session.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// False while `poll_octets` has nothing to give or to tell: no bundle is under way to the peer, and no keep-alive waits.
    #[must_use]
    pub fn may_have_octets(&self) -> bool {
        match &self.way {
            Way::Out(sender) => !sender.is_idle() || self.timers.keepalive_due(),
            Way::In(_) => false,
        }
    }

    /// Octets of the bundle that has begun to leave which have not been given out.
    #[must_use]
    pub fn leaving_octets(&self) -> u64 {
        match &self.way {
            Way::Out(sender) => sender.leaving_octets(),
            Way::In(_) => 0,
        }
    }

    /// Octets of bundles of which nothing has been given out yet.
    #[must_use]
    pub const fn queued_octets(&self) -> u64 {
        match &self.way {
            Way::Out(sender) => sender.queued_octets(),
            Way::In(_) => 0,
        }
    }

    /// True while a bundle has begun to come in, and not ended.
    #[must_use]
    pub const fn is_arriving(&self) -> bool {
        match &self.way {
            Way::Out(_) => false,
            Way::In(receiver) => receiver.is_arriving(),
        }
    }

    fn keepalive(&self) -> Option<core::time::Duration> {
        let is_wanted = self.config.framing.has_keepalive() && matches!(self.way, Way::Out(_));
        self.config.keepalive.filter(|_| is_wanted)
    }

    fn is_idle(&self) -> bool {
        match &self.way {
            Way::Out(sender) => sender.is_idle(),
            Way::In(receiver) => !receiver.is_arriving(),
        }
    }

    fn deadline(&self) -> Option<(Instant, Expiry)> {
        let mut waits = Waits::default();
        match self.state {
            State::Closed => return None,
            State::Ending(_) => waits.termination = Some(self.config.termination_timeout),
            State::Open if self.is_idle() => waits.idle = self.config.idle_timeout,
            State::Open => {}
        }
        match &self.way {
            Way::Out(_) => waits.keepalive = self.keepalive(),
            Way::In(receiver) if receiver.is_arriving() => {
                waits.stalled = self.config.transfer_timeout;
            }
            Way::In(_) => {}
        }
        self.timers.next(waits)
    }

    fn read(&mut self, now: Now, mut chunk: Bytes) {
        let Way::In(receiver) = &mut self.way else {
            return self.close(DownReason::PeerFault(TALKS.into()));
        };
        loop {
            match receiver.read(&mut chunk, &mut self.events) {
                Ok(Progress::Done) => return,
                Ok(Progress::Keepalive) => {}
                Ok(Progress::Bundle) => self.timers.bundle_moved(now.monotonic),
                Ok(Progress::Complete) => {
                    self.timers.bundle_moved(now.monotonic);
                    // Nothing that follows is waited for, nor read.
                    if matches!(self.state, State::Ending(_)) {
                        return;
                    }
                }
                Err(fault) => return self.close(broken(fault)),
            }
        }
    }

    fn transmit(&mut self, transfer: TransferId, length: u64) {
        match (&mut self.way, self.state) {
            (Way::Out(sender), State::Open) => sender.transmit(transfer, length, &mut self.events),
            _ => self.events.push(LinkEvent::Failed {
                transfer,
                refused: None,
                acknowledged: 0,
            }),
        }
    }

    fn cancel(&mut self, transfer: TransferId) {
        if let Way::Out(sender) = &mut self.way
            && sender.cancel(transfer, &mut self.events) == Cancelled::NeedsEnd
        {
            self.close(DownReason::Terminated(TerminateReason::Unknown));
        }
    }

    fn terminate(&mut self, now: Now, reason: TerminateReason) {
        if self.state != State::Open {
            return;
        }
        self.state = State::Ending(reason);
        self.timers.bundle_moved(now.monotonic);
        self.events.push(LinkEvent::Ending);
        if let Way::Out(sender) = &mut self.way {
            sender.end(&mut self.events);
        }
        self.settle();
    }

    fn disconnected(&mut self) {
        let truncated = match &self.way {
            Way::Out(_) => None,
            Way::In(receiver) => receiver.end(),
        };
        self.close(truncated.map_or(DownReason::Disconnected, broken));
    }

    /// An ending session is over once nothing is under way.
    fn settle(&mut self) {
        if let State::Ending(reason) = self.state
            && self.is_idle()
        {
            self.close(DownReason::Terminated(reason));
        }
    }

    fn close(&mut self, reason: DownReason) {
        if self.state == State::Closed {
            return;
        }
        self.state = State::Closed;
        match &mut self.way {
            Way::Out(sender) => sender.close(&mut self.events),
            Way::In(receiver) => receiver.close(&mut self.events),
        }
        self.events.push(LinkEvent::Down(reason));
    }
}

impl StreamSession for Session {
    fn handle_octets(&mut self, now: Now, octets: Bytes) {
        if self.state == State::Closed || octets.is_empty() {
            return;
        }
        self.read(now, octets);
        self.settle();
    }

    fn handle_command(&mut self, now: Now, command: LinkCommand) {
        match command {
            LinkCommand::Transmit { transfer, length } => self.transmit(transfer, length),
            LinkCommand::Supply { transfer, octets } => {
                if let Way::Out(sender) = &mut self.way {
                    sender.supply(transfer, octets);
                }
            }
            LinkCommand::Cancel { transfer } => self.cancel(transfer),
            LinkCommand::Refuse { transfer, .. } => {
                if let Way::In(receiver) = &mut self.way {
                    receiver.refuse(transfer);
                }
            }
            LinkCommand::Terminate { reason } => self.terminate(now, reason),
            LinkCommand::Disconnected => self.disconnected(),
            // The wire has neither acknowledgments nor TLS, and its receivers keep no parts.
            LinkCommand::Acknowledge { .. }
            | LinkCommand::Unverified { .. }
            | LinkCommand::Secured { .. }
            | LinkCommand::Insecure => {}
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        let due = self.deadline().filter(|(at, _)| *at <= now.monotonic);
        match due.map(|(_, expiry)| expiry) {
            None => {}
            Some(Expiry::Keepalive) => self.timers.set_keepalive_due(),
            Some(Expiry::Idle) => self.terminate(now, TerminateReason::IdleTimeout),
            // Octets of the peer may lie in the socket because no more are wanted.
            Some(Expiry::Stalled) if !self.wants_octets() => {
                self.timers.bundle_moved(now.monotonic);
            }
            Some(Expiry::Stalled) => self.close(DownReason::TransferTimeout),
            Some(Expiry::Termination) => self.close(DownReason::NegotiationTimeout),
        }
    }

    fn poll_octets(&mut self, now: Now, limit: usize, out: &mut Gather) {
        let Way::Out(sender) = &mut self.way else {
            return;
        };
        if self.state == State::Closed {
            return;
        }
        sender.written(&mut self.events);
        let keepalive_due = self.timers.keepalive_due();
        match sender.write(now.monotonic, keepalive_due, (limit, out), &mut self.events) {
            Given::Nothing => {}
            Given::Keepalive => self.timers.octets_sent(now.monotonic),
            Given::Bundles => {
                self.timers.octets_sent(now.monotonic);
                self.timers.bundle_moved(now.monotonic);
            }
        }
        self.settle();
    }

    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.take()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline().map(|(at, _)| at)
    }

    fn wants_octets(&self) -> bool {
        self.events.len() < MAX_EVENTS_WAITING
    }
}

/// A breach of the framing, as the node is told of it.
fn broken(fault: WireFault) -> DownReason {
    DownReason::PeerFault(fault.to_string())
}
