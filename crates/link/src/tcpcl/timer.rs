//! The events that a session waits for, and until when.

use core::time::Duration;

use dhow_bundle::Instant;

use super::config::Config;

/// A session's clocks. Nothing here is armed or cancelled: deadlines follow from when what happened
/// last, so handling octets costs a few stores and no timer wheel.
#[derive(Debug)]
pub(super) struct Timers {
    /// The connection was there.
    opened: Instant,
    /// Octets came last.
    received: Instant,
    /// Octets were given out last.
    sent: Instant,
    /// Anything but a KEEPALIVE came or went last.
    moved: Instant,
    /// Octets of a transfer came last.
    arrived: Instant,
    /// The negotiated interval; `None` before negotiation and when keepalives are disabled.
    keepalive: Option<Duration>,
    /// Whether a KEEPALIVE waits for its turn.
    keepalive_due: bool,
}

/// The phase of a session, as far as its clocks are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The session is being set up.
    SettingUp,
    /// The session is established, and no transfer is under way.
    Idle,
    /// Transfers are under way.
    Live,
    /// The session is ending.
    Ending,
    /// The session is over.
    Over,
}

/// A deadline that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// The session was not set up in time.
    Negotiation,
    /// The peer has been silent for twice the keepalive interval.
    Silence,
    /// No transfer has moved for the configured time.
    Idle,
    /// A transfer that has begun to come has come no further for the configured time.
    Stalled,
    /// The ending session has not moved for the configured time.
    Termination,
    /// We have been silent for the keepalive interval.
    Keepalive,
}

impl Timers {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            opened: now,
            received: now,
            sent: now,
            moved: now,
            arrived: now,
            keepalive: None,
            keepalive_due: false,
        }
    }

    /// The session is established with this keepalive interval; 0 for none (RFC 9174 4.7).
    pub(super) fn negotiated(&mut self, now: Instant, keepalive_s: u16) {
        if keepalive_s > 0 {
            self.keepalive = Some(Duration::from_secs(u64::from(keepalive_s)));
        }
        self.received = now;
        self.sent = now;
        self.moved = now;
    }

    pub(super) const fn octets_received(&mut self, now: Instant) {
        self.received = now;
    }

    pub(super) const fn octets_sent(&mut self, now: Instant) {
        self.sent = now;
        self.keepalive_due = false;
    }

    pub(super) const fn transfer_moved(&mut self, now: Instant) {
        self.moved = now;
    }

    pub(super) const fn transfer_arrived(&mut self, now: Instant) {
        self.moved = now;
        self.arrived = now;
    }

    pub(super) const fn keepalive_due(&self) -> bool {
        self.keepalive_due
    }

    pub(super) const fn set_keepalive_due(&mut self) {
        self.keepalive_due = true;
    }

    /// The next deadline and its purpose; `transfer_timeout` of a transfer that has begun to come, if one has.
    pub(super) fn next(
        &self,
        stage: Stage,
        config: &Config,
        transfer_timeout: Option<Duration>,
    ) -> Option<(Instant, Expiry)> {
        let mut next: Option<(Instant, Expiry)> = None;
        let mut consider = |at: Instant, expiry: Expiry| {
            if next.is_none_or(|(earliest, _)| at < earliest) {
                next = Some((at, expiry));
            }
        };
        match stage {
            Stage::Over => return None,
            // RFC 9174 4.1, 3.3: waiting for the contact header and for SESS_INIT is bounded.
            Stage::SettingUp => {
                consider(
                    self.opened + config.negotiation_timeout,
                    Expiry::Negotiation,
                );
                return next;
            }
            // RFC 9174 6.2: only an idle session ends by idleness.
            Stage::Idle => {
                if let Some(timeout) = config.idle_timeout {
                    consider(self.moved + timeout, Expiry::Idle);
                }
            }
            Stage::Live => {}
            Stage::Ending => {
                consider(self.moved + config.termination_timeout, Expiry::Termination);
            }
        }
        // RFC 9174 6.1: a session may be ended for any reason; one that holds room and does not fill it is.
        if let Some(timeout) = transfer_timeout {
            consider(self.arrived + timeout, Expiry::Stalled);
        }
        if let Some(interval) = self.keepalive {
            // RFC 9174 5.1.1: silence ends the session after twice the interval.
            consider(self.received + interval.saturating_mul(2), Expiry::Silence);
            if !self.keepalive_due {
                consider(self.sent + interval, Expiry::Keepalive);
            }
        }
        next
    }
}
