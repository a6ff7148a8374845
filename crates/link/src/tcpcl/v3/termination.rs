//! The end of a session: RFC 7242 6.

use core::time::Duration;

use dhow_bundle::Now;

use super::message::{Message, Shutdown};
use super::reason;
use super::session::{Session, peer_fault};
use super::state::{State, Trigger};
use super::wire::WireFault;
use crate::stream::{DownReason, LinkEvent, TerminateReason};

/// The words about the end that each side has said.
#[derive(Debug, Default)]
pub(super) struct Termination {
    /// The reason that was said first, by either side.
    reason: Option<TerminateReason>,
    /// Whether the peer has sent SHUTDOWN.
    received: bool,
    /// The number of the first incoming bundle that our SHUTDOWN does not wait for.
    unawaited: u64,
    /// Whether nothing may be sent any more.
    silent: bool,
}

impl Termination {
    /// Nothing may be sent any more.
    pub(super) const fn is_silent(&self) -> bool {
        self.silent
    }

    /// The peer has sent SHUTDOWN.
    pub(super) const fn is_received(&self) -> bool {
        self.received
    }

    fn reason(&self) -> TerminateReason {
        self.reason.unwrap_or(TerminateReason::Unknown)
    }
}

impl Session {
    /// End the session in order.
    pub(super) fn terminate(&mut self, reason: TerminateReason) {
        match self.state {
            State::Idle | State::Live => {
                self.termination.reason.get_or_insert(reason);
                self.termination.unawaited = self.incoming.next();
                self.apply(Trigger::EndWanted);
                self.events.push(LinkEvent::Ending);
                self.outgoing.end(&mut self.events);
            }
            // RFC 7242 6.1: the contact header comes before a SHUTDOWN; where there is nothing to drain, no answer is
            // waited for.
            State::Contact => self.fail(Some(reason), DownReason::Terminated(reason)),
            State::Finishing | State::Ending | State::Closed => {}
        }
    }

    /// RFC 7242 3: no data follow a SHUTDOWN, so it comes after our last segment; 6.1: received segments should be
    /// acknowledged first. Bundles that began later need not be: a busy peer would put the end off for ever.
    pub(super) fn finish_own(&mut self, now: Now) {
        let unawaited = self.termination.unawaited;
        if !self.outgoing.is_idle() || !self.incoming.are_over_before(unawaited) {
            return;
        }
        self.queue_shutdown(self.termination.reason());
        self.timers.transfer_moved(now.monotonic);
        self.shutdown_at = Some(now.monotonic);
        self.apply(Trigger::ShutdownSent);
        self.finish_termination();
    }

    /// Our SHUTDOWN has been sent: the session is over when the peer's came and all is answered.
    pub(super) fn finish_termination(&mut self) {
        if self.termination.received && self.incoming.is_idle() {
            self.apply(Trigger::Drained);
            self.close(DownReason::Terminated(self.termination.reason()));
        }
    }

    pub(super) fn handle_shutdown(&mut self, shutdown: Shutdown) {
        if let Some(delay_s) = shutdown.delay_s {
            let delay = (delay_s > 0).then(|| Duration::from_secs(delay_s));
            self.events.push(LinkEvent::ReconnectionDelay { delay });
        }
        self.termination.received = true;
        // RFC 7242 3: no data follow it.
        self.incoming.close(&mut self.events);
        self.terminate(reason::termination(shutdown.reason));
    }

    /// The peer's octets can no longer be understood.
    pub(super) fn handle_wire_fault(&mut self, fault: WireFault) {
        let farewell = match fault {
            // RFC 7242 6.1: without the magic there is no SHUTDOWN, and no use for a contact header.
            WireFault::NoMagic => {
                self.opening.clear();
                None
            }
            _ if self.state == State::Contact => Some(TerminateReason::ContactFailure),
            _ => Some(TerminateReason::Unknown),
        };
        self.fail(farewell, peer_fault(fault));
    }

    /// The stream is gone.
    pub(super) fn handle_disconnected(&mut self) {
        if self.state == State::Closed {
            return;
        }
        // A peer may close as soon as it has our SHUTDOWN and no bundle is under way; many do so having sent theirs.
        let drained = matches!(self.state, State::Finishing | State::Ending)
            && self.outgoing.is_idle()
            && self.incoming.is_idle();
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

    /// End the session at once, with a last SHUTDOWN if one is due and possible.
    pub(super) fn fail(&mut self, farewell: Option<TerminateReason>, reason: DownReason) {
        if self.state == State::Closed {
            return;
        }
        // RFC 7242 6.1: within a message that is not complete, no SHUTDOWN is sent.
        if self.outgoing.is_inside_segment() {
            self.control.clear();
            self.termination.silent = true;
        }
        if let Some(farewell) = farewell
            && !self.termination.silent
            && self.state != State::Ending
        {
            self.queue_shutdown(farewell);
        }
        self.apply(Trigger::Broken);
        self.close(reason);
    }

    fn queue_shutdown(&mut self, reason: TerminateReason) {
        let reason = reason::termination_code(reason);
        self.queue(&Message::Shutdown(Shutdown {
            reason,
            delay_s: None,
        }));
    }

    fn close(&mut self, reason: DownReason) {
        // Bundles under way have failed.
        self.outgoing.close(&mut self.events);
        self.incoming.close(&mut self.events);
        self.events.push(LinkEvent::Down(reason));
    }
}
