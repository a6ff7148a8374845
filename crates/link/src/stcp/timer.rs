//! The events that a session waits for, and until when.

use core::time::Duration;

use dhow_bundle::Instant;

/// A session's clocks. Deadlines follow from when things happened last, so that octets arm and cancel nothing.
#[derive(Debug)]
pub(super) struct Timers {
    /// Octets were given out last.
    sent: Instant,
    /// Octets of a bundle came or went last.
    moved: Instant,
    /// Whether a keep-alive waits for its turn.
    keepalive_due: bool,
}

/// A deadline that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// This side has been silent for the keep-alive interval.
    Keepalive,
    /// No bundle has moved for the configured time.
    Idle,
    /// A bundle that has begun to come has come no further for the configured time.
    Stalled,
    /// The ending session has not moved for the configured time.
    Termination,
}

/// The times after which something is due; `None` for never.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    pub(super) keepalive: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) stalled: Option<Duration>,
    pub(super) termination: Option<Duration>,
}

impl Timers {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            sent: now,
            moved: now,
            keepalive_due: false,
        }
    }

    pub(super) const fn octets_sent(&mut self, now: Instant) {
        self.sent = now;
        self.keepalive_due = false;
    }

    pub(super) const fn bundle_moved(&mut self, now: Instant) {
        self.moved = now;
    }

    pub(super) const fn keepalive_due(&self) -> bool {
        self.keepalive_due
    }

    pub(super) const fn set_keepalive_due(&mut self) {
        self.keepalive_due = true;
    }

    /// The next deadline and its purpose.
    pub(super) fn next(&self, waits: Waits) -> Option<(Instant, Expiry)> {
        let keepalive = waits.keepalive.filter(|_| !self.keepalive_due);
        [
            (waits.termination, self.moved, Expiry::Termination),
            (waits.stalled, self.moved, Expiry::Stalled),
            (waits.idle, self.moved, Expiry::Idle),
            (keepalive, self.sent, Expiry::Keepalive),
        ]
        .into_iter()
        .filter_map(|(wait, since, expiry)| Some((since + wait?, expiry)))
        .min_by_key(|(at, _)| *at)
    }
}
