//! Configured links: the time to dial, and the wait before dialling again.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::protocol::Transport;
use dhow_bundle::{Instant, NodeId};
use dhow_link::stream::{DownReason, TerminateReason};
use dhow_link::tcpcl::Version;

use crate::adjacencies::session_id::SessionId;
use crate::config::{DialTime, Enabled, LinkConfig, OnSent, Protocol, Tls};
use crate::driver::Carrier;
use crate::view::LinkOrigin;

/// Attempts to connect that nothing has answered, beyond the sessions that are missing, at most: an attempt
/// begun while the path was away may be answered late or never, and must not be waited for.
const ATTEMPTS_BESIDE: u8 = 31;

/// The time for which events may come about attempts that were given up.
const LATE_EVENTS: Duration = Duration::from_secs(10);

/// The time after which an attempt that nothing has answered is followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// After the longest delay.
    Steady,
    /// After delays that grow from the smallest: the network has just changed, and what is sent in its first
    /// moments may be lost.
    Hurried,
}

/// The version that a peer was found to speak, of a link whose protocol is found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// Version 4, as far as is known.
    Unknown,
    /// The peer said nothing to version 4: version 3 is tried, once.
    Perhaps3,
    /// The peer answered version 4 with version 3.
    Only3,
}

/// The convergence layer that a link speaks with its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tongue {
    Tcpcl(Version),
    /// A link of the protocol that its configuration names, with any peer.
    Other(Protocol),
}

/// One link.
pub(crate) struct Link {
    pub(crate) config: LinkConfig,
    pub(crate) origin: LinkOrigin,
    /// Whether the link has been deleted: it is shown no more, and its number is nobody else's, unless its neighbour was found.
    pub(crate) is_deleted: bool,
    /// The instant from which its number may be another's, once it has been deleted.
    free_from: Option<Instant>,
    pub(crate) enabled: Enabled,
    /// Whether the driver knows of a way to the neighbour.
    pub(crate) carrier: Carrier,
    /// Whether a contact with it is on; of links that are dialled at any time it always is.
    pub(crate) contact: Carrier,
    /// Dials and connections under way, established or not.
    pub(crate) sessions: Vec<SessionId>,
    /// Sessions of them that have fallen silent with bundles under way: others are dialled in their place.
    pub(crate) doubted: Vec<SessionId>,
    /// Attempts to connect that nothing has answered.
    pub(crate) dialling: u8,
    /// Sessions wanted beyond the configured number, because one has no time for others.
    pub(crate) relief: u8,
    pace: Pace,
    pub(crate) failures: u32,
    pub(crate) next_attempt: Option<Instant>,
    /// The time before which the peer asked not to be dialled.
    not_before: Option<Instant>,
    dialect: Dialect,
    pub(crate) peer: Option<NodeId>,
    /// When octets last came over a session that is over.
    pub(crate) heard: Option<Instant>,
    /// Why the last attempt failed or the last session ended.
    pub(crate) last_error: Option<String>,
}

impl Link {
    pub(crate) fn new(mut config: LinkConfig) -> Self {
        let enabled = config.enabled;
        if config.protocol.transport() != Transport::Tcp {
            config.sessions = 1;
        }
        let contact = match config.dial {
            DialTime::Always => Carrier::Present,
            DialTime::Contacts => Carrier::Absent,
        };
        Self {
            config,
            origin: LinkOrigin::Configured,
            is_deleted: false,
            free_from: None,
            enabled,
            carrier: Carrier::Present,
            contact,
            sessions: Vec::new(),
            doubted: Vec::new(),
            dialling: 0,
            relief: 0,
            pace: Pace::Steady,
            failures: 0,
            next_attempt: (enabled == Enabled::Yes).then_some(Instant::START),
            not_before: None,
            dialect: Dialect::Unknown,
            peer: None,
            heard: None,
            last_error: None,
        }
    }

    /// The link is deleted. Events of drivers about attempts that were under way come within a while.
    pub(crate) fn delete(&mut self, now: Instant) {
        self.is_deleted = true;
        self.free_from = Some(now + LATE_EVENTS);
    }

    /// The link has other settings, none of which its sessions know.
    pub(crate) fn adapt(&mut self, config: LinkConfig, origin: LinkOrigin) {
        // Whether it is up is for the operator, who takes it up or down.
        self.config = config;
        self.origin = origin;
    }

    /// Whether its number may be that of another link with this configuration: nothing refers to it any more. Bundles that were kept when
    /// they left over it remember its number, so those links keep theirs, as do tunnels.
    pub(crate) fn is_free(&self, now: Instant, config: &LinkConfig) -> bool {
        self.is_deleted
            && !is_tunnel(&self.config)
            && !is_tunnel(config)
            && self.free_from.is_some_and(|at| at <= now)
            && self.sessions.is_empty()
            && self.config.protocol.on_sent() != Some(OnSent::Keep)
            && self.config.policy.order == config.policy.order
    }

    /// The link leads to another address now: dialled at once.
    pub(crate) fn redial(&mut self, now: Instant) -> bool {
        self.failures = 0;
        if self.enabled == Enabled::Yes {
            self.next_attempt = Some(now);
        }
        self.carrier = Carrier::Present;
        core::mem::take(&mut self.dialling) > 0
    }

    /// True when `dials_wanted` is to be asked.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next_attempt.is_some_and(|at| at <= now)
    }

    /// The number of connections that should be dialled now, also beside attempts that nothing has answered.
    pub(crate) fn dials_wanted(&mut self, now: Instant, jitter: u64) -> u8 {
        if !self.is_due(now) {
            return 0;
        }
        self.next_attempt = None;
        let missing = self.missing();
        if missing == 0 {
            return 0;
        }
        let room = missing
            .saturating_add(ATTEMPTS_BESIDE)
            .saturating_sub(self.dialling);
        let dials = missing.min(room);
        self.dialling = self.dialling.saturating_add(dials);
        let delay = match self.pace {
            Pace::Steady => self.longest_delay(),
            Pace::Hurried => self.delay(jitter),
        };
        self.next_attempt = Some(now + delay);
        dials
    }

    /// True when nothing can leave.
    pub(crate) fn is_absent(&self) -> bool {
        self.carrier == Carrier::Absent || self.contact == Carrier::Absent
    }

    /// Sessions that are to be dialled. If transfers outlast the times in which nothing can pass, the peer is heard outside of the contacts of
    /// this node, too: its own are others (RFC 5326 6.5, 6.6).
    fn missing(&self) -> u8 {
        let is_pointless = match self.config.protocol.keeps_transfers() {
            true => self.carrier == Carrier::Absent,
            false => self.is_absent(),
        };
        match is_pointless {
            false => self.lacking(),
            true => 0,
        }
    }

    /// Sessions that are wanted and have no sound connection.
    fn lacking(&self) -> u8 {
        if self.enabled == Enabled::No {
            return 0;
        }
        let sound = self.sessions.len().saturating_sub(self.doubted.len());
        let sound = u8::try_from(sound).unwrap_or(u8::MAX);
        (self.config.sessions.max(1))
            .saturating_add(self.relief)
            .saturating_sub(sound)
    }

    /// A dial led to a connection; its fate comes back.
    pub(crate) fn connected(&mut self, session: SessionId) -> Welcome {
        self.dialling = self.dialling.saturating_sub(1);
        if self.enabled == Enabled::Yes && self.lacking() == 0 {
            return Welcome::Surplus;
        }
        self.relief = 0;
        self.sessions.push(session);
        Welcome::Wanted
    }

    /// Nothing more is to be dialled while nothing is missing; true when attempts are under way that can be
    /// given up.
    pub(crate) fn is_sated(&mut self) -> bool {
        if self.missing() > 0 {
            return false;
        }
        self.next_attempt = None;
        self.pace = Pace::Steady;
        core::mem::take(&mut self.dialling) > 0
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
        session: SessionId,
        since: Option<Instant>,
        jitter: u64,
    ) {
        self.sessions.retain(|&other| other != session);
        self.doubted.retain(|&other| other != session);
        // Attempts after sessions that lasted are no more frequent for being made at once.
        if since.is_some_and(|since| now - since >= self.longest_delay()) {
            self.failures = 0;
            if self.missing() > 0 {
                self.next_attempt = Some(now);
            }
        } else {
            self.back_off(now, jitter);
        }
        if let (Some(at), Some(least)) = (&mut self.next_attempt, self.not_before.take()) {
            *at = least.max(*at);
        }
    }

    /// The convergence layer that is spoken now.
    pub(crate) fn tongue(&self) -> Tongue {
        let is_3 = match self.config.protocol {
            Protocol::Tcpcl4 | Protocol::Program => false,
            Protocol::Tcpcl3 => true,
            // Version 3 has no TLS.
            Protocol::Auto => {
                self.dialect != Dialect::Unknown && self.config.policy.tls != Tls::Required
            }
            other => return Tongue::Other(other),
        };
        Tongue::Tcpcl(if is_3 { Version::V3 } else { Version::V4 })
    }

    /// A connection on which this node spoke a version is over; the peer answered with this one, if it said anything.
    ///
    /// A program of version 3 answers version 4 with its own contact header, and never speaks another. One that says
    /// nothing may have been cut off, so version 4 has its turn again after the next connection.
    pub(crate) fn spoke(&mut self, version: Version, answered: Option<Version>) {
        self.dialect = match (version, answered) {
            (Version::V4, Some(Version::V3)) => Dialect::Only3,
            (Version::V4, None) => Dialect::Perhaps3,
            (Version::V3, Some(Version::V3)) if self.dialect == Dialect::Only3 => Dialect::Only3,
            _ => Dialect::Unknown,
        };
    }

    /// The peer asks not to be dialled for so long (RFC 7242 6.1), which it is for the longest pause at most: `None`, for
    /// ever, is also what programs say that mean nothing by it (HDTN, IBR-DTN), and a link is there to come back.
    pub(crate) fn postpone(&mut self, now: Instant, delay: Option<Duration>) {
        let longest = self.longest_delay();
        self.not_before = Some(now + delay.map_or(longest, |delay| delay.min(longest)));
    }

    /// A peer has taken a bundle: whatever happens next, this link works.
    pub(crate) fn works(&mut self) {
        self.failures = 0;
    }

    /// Dial at once if a session is missing, whatever is under way: something about the network changed.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if self.missing() > 0 {
            self.failures = 0;
            self.pace = Pace::Hurried;
            self.next_attempt = Some(now);
        }
    }

    /// This session may never say anything again: dial another beside it.
    pub(crate) fn doubt(&mut self, now: Instant, session: SessionId) {
        if !self.sessions.contains(&session) || self.doubted.contains(&session) {
            return;
        }
        self.doubted.push(session);
        if self.missing() > 0 {
            self.failures = 0;
            self.next_attempt = Some(now);
        }
    }

    /// A session is alive after all; true when it was doubted.
    pub(crate) fn trust(&mut self, session: SessionId) -> bool {
        let before = self.doubted.len();
        self.doubted.retain(|&other| other != session);
        self.doubted.len() < before
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
        if self.missing() == 0 || planted(Mutant::TimerNotRearmed) {
            return;
        }
        let at = now + self.delay(jitter);
        // An attempt that is due earlier, because nothing answered those before, stays due.
        self.next_attempt = Some(self.next_attempt.map_or(at, |earlier| earlier.min(at)));
    }

    /// The next delay; each is twice the one before.
    fn delay(&mut self, jitter: u64) -> Duration {
        let smallest = self.config.backoff_min_ms.max(1);
        let delay_ms = smallest
            .saturating_mul(1_u64.checked_shl(self.failures.min(32)).unwrap_or(u64::MAX))
            .min(self.config.backoff_max_ms.max(smallest));
        self.failures = self.failures.saturating_add(1);
        // Neighbours that lost the same link must not dial in step: up to a quarter sooner.
        let sooner = delay_ms / 4;
        Duration::from_millis(delay_ms - if sooner == 0 { 0 } else { jitter % sooner })
    }

    fn longest_delay(&self) -> Duration {
        let smallest = self.config.backoff_min_ms.max(1);
        Duration::from_millis(self.config.backoff_max_ms.max(smallest))
    }
}

/// Whether a link carries bundles in others.
pub(crate) fn is_tunnel(config: &LinkConfig) -> bool {
    config.protocol.transport() == Transport::Bundles
}

/// Why a connection ended on which this node spoke a version, as the operator of its link is told.
pub(crate) fn told(version: Version, answered: Option<Version>, reason: &DownReason) -> String {
    let mismatch = *reason == DownReason::Terminated(TerminateReason::VersionMismatch);
    match (version, answered) {
        (Version::V4, Some(Version::V3)) if mismatch => {
            "the neighbour speaks TCPCLv3: protocol = \"tcpcl3\" or \"auto\"".into()
        }
        (Version::V3, Some(Version::V4)) if mismatch => {
            "the neighbour speaks TCPCLv4: protocol = \"tcpcl\" or \"auto\"".into()
        }
        _ => reason.to_string(),
    }
}

/// The fate of a connection that a dial led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Welcome {
    /// The connection is a session of the link.
    Wanted,
    /// The link has all its sessions by now.
    Surplus,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SessionPolicy;
    use crate::driver::StreamId;

    fn link() -> Link {
        Link::new(LinkConfig {
            name: "beta".to_string(),
            policy: SessionPolicy::default(),
            enabled: Enabled::Yes,
            sessions: 1,
            backoff_min_ms: 50,
            backoff_max_ms: 1_000,
            protocol: Protocol::default(),
            dial: DialTime::default(),
        })
    }

    #[test]
    fn delays_grow_from_50_ms_to_the_cap() {
        let mut link = link();
        let mut now = Instant::START;
        let mut delays = Vec::new();
        for _ in 0..8 {
            assert_eq!(link.dials_wanted(now, 0), 1);
            link.dial_failed(now, 0);
            let next = link.next_attempt.expect("it waits");
            delays.push((next - now).as_millis());
            now = next;
        }
        assert_eq!(delays, [50, 100, 200, 400, 800, 1_000, 1_000, 1_000]);
    }

    #[test]
    fn an_attempt_that_nothing_answers_is_followed_by_others_at_the_cap() {
        let mut link = link();
        let mut now = Instant::START;
        let mut dials = 0;
        for _ in 0..100 {
            dials += u32::from(link.dials_wanted(now, 0));
            assert!(link.dialling <= 1 + ATTEMPTS_BESIDE);
            now = link.next_attempt.expect("it goes on");
        }
        assert_eq!(now - Instant::START, Duration::from_secs(100));
        assert_eq!(dials, 32, "a bound, since none of them ever ends");
        link.dial_failed(now, 0);
        assert_eq!(link.dials_wanted(now, 0), 1);
    }

    #[test]
    fn the_first_connection_ends_the_other_attempts_and_later_ones_are_surplus() {
        let mut link = link();
        link.dials_wanted(Instant::START, 0);
        let now = Instant::START + Duration::from_secs(1);
        assert_eq!(link.dials_wanted(now, 0), 1);
        assert_eq!(
            link.connected(SessionId::over(StreamId(1))),
            Welcome::Wanted
        );
        assert!(link.is_sated(), "the other attempt is given up");
        assert_eq!(link.next_attempt, None);
        assert_eq!(
            link.connected(SessionId::over(StreamId(2))),
            Welcome::Surplus
        );
        assert_eq!(link.sessions, [SessionId::over(StreamId(1))]);
    }

    #[test]
    fn a_session_that_lasted_is_followed_by_an_attempt_at_once() {
        let mut link = link();
        link.dials_wanted(Instant::START, 0);
        link.connected(SessionId::over(StreamId(1)));
        link.is_sated();
        let now = Instant::START + Duration::from_secs(1);
        link.disconnected(now, SessionId::over(StreamId(1)), Some(Instant::START), 0);
        assert_eq!(link.dials_wanted(now, 0), 1);
    }

    #[test]
    fn a_doubted_session_is_dialled_beside_until_it_speaks() {
        let mut link = link();
        link.dials_wanted(Instant::START, 0);
        link.connected(SessionId::over(StreamId(1)));
        link.is_sated();
        let now = Instant::START + Duration::from_secs(9);
        link.doubt(now, SessionId::over(StreamId(1)));
        assert_eq!(link.dials_wanted(now, 0), 1);
        assert!(link.trust(SessionId::over(StreamId(1))));
        assert!(link.is_sated());
        assert_eq!(link.next_attempt, None);
    }

    #[test]
    fn a_changed_network_ends_the_waiting_also_for_an_answer() {
        let mut link = link();
        link.dials_wanted(Instant::START, 0);
        link.dial_failed(Instant::START, 0);
        let now = Instant::from_nanos(1);
        assert_eq!(link.dials_wanted(now, 0), 0);
        link.hurry(now);
        assert_eq!(link.dials_wanted(now, 0), 1);
        // Datagrams of the first moments may be lost: the next follow soon, not after a second.
        let soon = now + Duration::from_millis(50);
        assert_eq!(link.dials_wanted(soon, 0), 1);
    }

    #[test]
    fn a_peer_that_hangs_up_at_once_is_not_dialled_in_a_loop() {
        let mut link = link();
        let mut now = Instant::START;
        for number in 0..6 {
            link.dials_wanted(now, 0);
            link.connected(SessionId::over(StreamId(number)));
            link.is_sated();
            link.disconnected(now, SessionId::over(StreamId(number)), Some(now), 0);
            now = link.next_attempt.expect("it waits");
        }
        assert!(now - Instant::START >= Duration::from_millis(1_550));
    }

    #[test]
    fn a_link_taken_down_stays_down_until_brought_up() {
        let mut link = link();
        link.take_down();
        assert_eq!(link.dials_wanted(Instant::START, 0), 0);
        link.bring_up(Instant::START);
        assert_eq!(link.dials_wanted(Instant::START, 0), 1);
    }

    #[test]
    fn a_peer_of_version_3_is_found_and_stays_found() {
        let mut link = link();
        link.config.protocol = Protocol::Auto;
        assert_eq!(link.tongue(), Tongue::Tcpcl(Version::V4));
        link.spoke(Version::V4, Some(Version::V3));
        for _ in 0..3 {
            assert_eq!(link.tongue(), Tongue::Tcpcl(Version::V3));
            link.spoke(Version::V3, Some(Version::V3));
        }
        link.spoke(Version::V3, Some(Version::V4));
        assert_eq!(link.tongue(), Tongue::Tcpcl(Version::V4));
    }

    #[test]
    fn a_connection_that_was_cut_before_the_peer_spoke_costs_one_session_of_version_3() {
        let mut link = link();
        link.config.protocol = Protocol::Auto;
        link.spoke(Version::V4, None);
        assert_eq!(link.tongue(), Tongue::Tcpcl(Version::V3));
        // The peer speaks both.
        link.spoke(Version::V3, Some(Version::V3));
        assert_eq!(link.tongue(), Tongue::Tcpcl(Version::V4));
        link.spoke(Version::V4, None);
        link.config.policy.tls = Tls::Required;
        assert_eq!(
            link.tongue(),
            Tongue::Tcpcl(Version::V4),
            "version 3 has no TLS"
        );
    }

    #[test]
    fn a_version_that_is_configured_is_not_found_out() {
        for (protocol, version) in [
            (Protocol::Tcpcl4, Version::V4),
            (Protocol::Tcpcl3, Version::V3),
        ] {
            let mut link = link();
            link.config.protocol = protocol;
            link.spoke(Version::V4, Some(Version::V3));
            assert_eq!(link.tongue(), Tongue::Tcpcl(version));
            link.spoke(Version::V3, Some(Version::V4));
            assert_eq!(link.tongue(), Tongue::Tcpcl(version));
        }
    }

    #[test]
    fn a_peer_that_asks_for_a_delay_is_not_dialled_before_unless_it_is_longer_than_any() {
        for (asked, waited_ms) in [
            (Some(Duration::from_millis(700)), 700),
            (Some(Duration::from_secs(90)), 1_000),
            (None, 1_000),
        ] {
            let mut link = link();
            link.dials_wanted(Instant::START, 0);
            link.connected(SessionId::over(StreamId(1)));
            link.is_sated();
            link.postpone(Instant::START, asked);
            link.disconnected(Instant::START, SessionId::over(StreamId(1)), None, 0);
            let waited = link.next_attempt.expect("it waits") - Instant::START;
            assert_eq!(waited.as_millis(), waited_ms);
            link.dials_wanted(Instant::START + waited, 0);
            link.connected(SessionId::over(StreamId(2)));
            link.disconnected(
                Instant::START + waited,
                SessionId::over(StreamId(2)),
                None,
                0,
            );
            let at = Instant::START + waited + Duration::from_millis(100);
            assert!(link.is_due(at), "it is asked once");
        }
    }

    #[test]
    fn an_operator_is_told_the_version_that_a_neighbour_speaks() {
        let mismatch = DownReason::Terminated(TerminateReason::VersionMismatch);
        let (v3, v4) = (Version::V3, Version::V4);
        assert!(told(v4, Some(v3), &mismatch).contains("\"tcpcl3\""));
        assert!(told(v3, Some(v4), &mismatch).contains("\"tcpcl\""));
        // The neighbour said it of itself, or ended for another reason.
        for (spoken, answered, reason) in [
            (v4, Some(v4), &mismatch),
            (v3, Some(v3), &mismatch),
            (v4, Some(v3), &DownReason::Disconnected),
        ] {
            assert_eq!(told(spoken, answered, reason), reason.to_string());
        }
    }
}
