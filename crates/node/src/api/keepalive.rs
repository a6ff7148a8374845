//! Finding out that a client is gone although its stream does not say so.
//!
//! ```text
//! client that sends:      anything received -> quiet since now; 2 intervals quiet -> Gone
//! client that subscribes: anything received or sent -> quiet since now
//!                         1 interval quiet -> Ask (or, octets still waiting to leave, Watch) -> probing
//!                         probing: anything received -> quiet since now; 2 intervals -> Gone
//!                         watching: octets leave -> quiet since now
//! ```

use core::time::Duration;

use dhow_bundle::Instant;

use super::seam::Subscribes;

/// The action when the time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing yet.
    Nothing,
    /// Send a keepalive.
    Ask,
    /// Close: nothing came for too long.
    Gone,
}

/// Whether octets wait to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// All have left.
    Drained,
    /// Some wait.
    Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// Not waiting for anything.
    None,
    /// A keepalive was queued then; an answer must come.
    Asked(Instant),
    /// The time since which octets wait that the client does not take.
    Watching(Instant),
}

/// The keepalive timer of one connection.
#[derive(Debug)]
pub(super) struct Keepalive {
    /// `None` for no keepalives.
    interval: Option<Duration>,
    subscribes: Subscribes,
    quiet_since: Instant,
    probe: Probe,
}

impl Keepalive {
    /// No keepalives: before a connection is configured, and after its end.
    pub(super) const fn off() -> Self {
        Self {
            interval: None,
            subscribes: Subscribes::No,
            quiet_since: Instant::START,
            probe: Probe::None,
        }
    }

    /// Keepalives every `seconds`; 0 for none.
    pub(super) fn new(now: Instant, seconds: u32, subscribes: Subscribes) -> Self {
        let interval = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
        Self {
            interval,
            subscribes,
            quiet_since: now,
            probe: Probe::None,
        }
    }

    /// Octets came from the client.
    pub(super) fn received(&mut self, now: Instant) {
        self.quiet_since = now;
        self.probe = Probe::None;
    }

    /// Octets left for the client.
    pub(super) fn sent(&mut self, now: Instant) {
        if self.subscribes == Subscribes::Yes {
            self.quiet_since = now;
            if let Probe::Watching(_) = self.probe {
                self.probe = Probe::None;
            }
        }
    }

    /// The node keeps the client waiting: count from now.
    pub(super) fn excuse(&mut self, now: Instant) {
        self.received(now);
    }

    /// The action at `now`.
    pub(super) fn due(&mut self, now: Instant, output: Output) -> Due {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Due::Nothing;
        }
        match (self.subscribes, self.probe) {
            (Subscribes::No, _) | (Subscribes::Yes, Probe::Asked(_) | Probe::Watching(_)) => {
                Due::Gone
            }
            (Subscribes::Yes, Probe::None) => match output {
                Output::Drained => {
                    self.probe = Probe::Asked(now);
                    Due::Ask
                }
                Output::Waiting => {
                    self.probe = Probe::Watching(now);
                    Due::Nothing
                }
            },
        }
    }

    /// When to ask `due` again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let interval = self.interval?;
        let twice = interval.saturating_mul(2);
        Some(match (self.subscribes, self.probe) {
            (Subscribes::No, _) => self.quiet_since + twice,
            (Subscribes::Yes, Probe::None) => self.quiet_since + interval,
            (Subscribes::Yes, Probe::Asked(since) | Probe::Watching(since)) => since + twice,
        })
    }
}
