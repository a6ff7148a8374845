//! Configured links: when to dial, and how long to wait before dialling again.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::{Instant, NodeId};

use crate::config::{Enabled, LinkConfig};
use crate::door::StreamId;

/// A session that has lasted this long was a good one: the next delay starts from the smallest again.
const GOOD_SESSION: Duration = Duration::from_secs(5);

/// One configured link.
pub(crate) struct Link {
    pub(crate) config: LinkConfig,
    pub(crate) enabled: Enabled,
    /// Dials and connections under way, established or not.
    pub(crate) streams: Vec<StreamId>,
    /// Those of them that have fallen silent with bundles under way: others are dialled in their place.
    pub(crate) doubted: Vec<StreamId>,
    pub(crate) dialling: u8,
    /// Sessions wanted beyond the configured number, because one has no time for others.
    pub(crate) relief: u8,
    pub(crate) failures: u32,
    pub(crate) next_attempt: Option<Instant>,
    pub(crate) peer: Option<NodeId>,
    /// Why the last attempt failed or the last session ended.
    pub(crate) last_error: Option<String>,
}

impl Link {
    pub(crate) fn new(config: LinkConfig) -> Self {
        let enabled = config.enabled;
        Self {
            config,
            enabled,
            streams: Vec::new(),
            doubted: Vec::new(),
            dialling: 0,
            relief: 0,
            failures: 0,
            next_attempt: (enabled == Enabled::Yes).then_some(Instant::START),
            peer: None,
            last_error: None,
        }
    }

    /// How many connections should be dialled now.
    pub(crate) fn dials_wanted(&mut self, now: Instant) -> u8 {
        let due = self.next_attempt.is_some_and(|at| at <= now);
        if self.enabled == Enabled::No || !due {
            return 0;
        }
        self.next_attempt = None;
        let sound = self.streams.len().saturating_sub(self.doubted.len());
        let under_way = u8::try_from(sound)
            .unwrap_or(u8::MAX)
            .saturating_add(self.dialling);
        let wanted = (self.config.sessions.max(1))
            .saturating_add(self.relief)
            .saturating_sub(under_way);
        self.dialling = self.dialling.saturating_add(wanted);
        wanted
    }

    /// A dial led to a connection.
    pub(crate) fn connected(&mut self, stream: StreamId) {
        self.dialling = self.dialling.saturating_sub(1);
        self.relief = 0;
        self.streams.push(stream);
    }

    /// A dial failed.
    pub(crate) fn dial_failed(&mut self, now: Instant, jitter: u64) {
        self.dialling = self.dialling.saturating_sub(1);
        self.relief = 0;
        self.back_off(now, jitter);
    }

    /// A session has no time for others: dial one more, at once.
    pub(crate) fn relieve(&mut self, now: Instant) {
        if self.enabled == Enabled::Yes {
            self.relief = 1;
            self.next_attempt = Some(now);
        }
    }

    /// A connection of this link is gone; `since` says when its session was established, if it was.
    pub(crate) fn disconnected(
        &mut self,
        now: Instant,
        stream: StreamId,
        since: Option<Instant>,
        jitter: u64,
    ) {
        self.streams.retain(|&other| other != stream);
        self.doubted.retain(|&other| other != stream);
        if since.is_some_and(|since| now - since >= GOOD_SESSION) {
            self.failures = 0;
        }
        self.back_off(now, jitter);
    }

    /// A peer has taken a bundle: whatever happens next, this link works.
    pub(crate) fn works(&mut self) {
        self.failures = 0;
    }

    /// Dial at once if the link waits: something about the network changed.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if self.next_attempt.is_some() {
            self.failures = 0;
            self.next_attempt = Some(now);
        }
    }

    /// These streams may never say anything again: dial others beside them.
    pub(crate) fn doubt(&mut self, now: Instant, streams: Vec<StreamId>) {
        let before = self.doubted.len();
        for stream in streams {
            if !self.doubted.contains(&stream) {
                self.doubted.push(stream);
            }
        }
        if self.enabled == Enabled::Yes && self.doubted.len() > before {
            self.failures = 0;
            self.next_attempt = Some(now);
        }
    }

    /// A stream is alive after all.
    pub(crate) fn trust(&mut self, stream: StreamId) {
        self.doubted.retain(|&other| other != stream);
    }

    /// The operator wants the link up.
    pub(crate) fn bring_up(&mut self, now: Instant) {
        if self.enabled == Enabled::No {
            self.enabled = Enabled::Yes;
            self.failures = 0;
            self.next_attempt = Some(now);
        }
    }

    /// The operator wants the link down: no more dials.
    pub(crate) fn take_down(&mut self) {
        self.enabled = Enabled::No;
        self.next_attempt = None;
    }

    fn back_off(&mut self, now: Instant, jitter: u64) {
        if self.enabled == Enabled::No {
            return;
        }
        let smallest = self.config.backoff_min_ms.max(1);
        let delay_ms = smallest
            .saturating_mul(1_u64.checked_shl(self.failures.min(32)).unwrap_or(u64::MAX))
            .min(self.config.backoff_max_ms.max(smallest));
        self.failures = self.failures.saturating_add(1);
        // Neighbours that lost the same link must not dial in step: up to a quarter sooner.
        let sooner = delay_ms / 4;
        let delay_ms = delay_ms - if sooner == 0 { 0 } else { jitter % sooner };
        self.next_attempt = Some(now + Duration::from_millis(delay_ms));
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::config::SessionPolicy;

    fn link() -> Link {
        Link::new(LinkConfig {
            name: "beta".to_string(),
            policy: SessionPolicy::default(),
            enabled: Enabled::Yes,
            sessions: 1,
            backoff_min_ms: 50,
            backoff_max_ms: 1_000,
        })
    }

    #[test]
    fn delays_grow_from_50_ms_to_the_cap() {
        let mut link = link();
        let mut now = Instant::START;
        let mut delays = Vec::new();
        for _ in 0..8 {
            assert_eq!(link.dials_wanted(now), 1);
            link.dial_failed(now, 0);
            let next = link.next_attempt.expect("it waits");
            delays.push((next - now).as_millis());
            now = next;
        }
        assert_eq!(delays, [50, 100, 200, 400, 800, 1_000, 1_000, 1_000]);
    }

    #[test]
    fn a_changed_network_ends_the_waiting() {
        let mut link = link();
        link.dials_wanted(Instant::START);
        link.dial_failed(Instant::START, 0);
        let now = Instant::from_nanos(1);
        assert_eq!(link.dials_wanted(now), 0);
        link.hurry(now);
        assert_eq!(link.dials_wanted(now), 1);
    }

    #[test]
    fn a_peer_that_hangs_up_at_once_is_not_dialled_in_a_loop() {
        let mut link = link();
        let mut now = Instant::START;
        for number in 0..6 {
            link.dials_wanted(now);
            link.connected(StreamId(number));
            link.disconnected(now, StreamId(number), Some(now), 0);
            now = link.next_attempt.expect("it waits");
        }
        assert!(now - Instant::START >= Duration::from_millis(1_550));
    }

    #[test]
    fn a_link_taken_down_stays_down_until_brought_up() {
        let mut link = link();
        link.take_down();
        assert_eq!(link.dials_wanted(Instant::START), 0);
        link.bring_up(Instant::START);
        assert_eq!(link.dials_wanted(Instant::START), 1);
    }
}
