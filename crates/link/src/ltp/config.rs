//! The configuration of an engine's relation to one remote engine.

use core::time::Duration;

use dhow_bundle::NodeId;

use super::cookies::cookie_octets_max;
use super::seal::{Authentication, MAX_KEY_ID_OCTETS, MAX_VALUE_OCTETS};
use crate::datagram::Rate;

/// Largest UDP payload over IPv4, octets.
pub const MAX_MTU: u64 = 65_507;

/// Smallest datagram that is worth its heads and has room for a claim, octets.
pub const LEAST_MTU: u64 = 128;

/// The client service of the Bundle Protocol (RFC 7116 3.1.3).
pub const BUNDLE_PROTOCOL: u64 = 1;

/// A session may have one report more for each so many octets of its red part: a path that loses one segment in six has a gap in about as many.
const REPORT_OCTETS: u64 = 8 << 10;

/// Largest block, octets (1 TiB): far from the numbers that arithmetic ends at.
pub const MAX_BLOCK_OCTETS: u64 = 1 << 40;

/// The part of a block that is sent again until it is there (RFC 5326 2: red part).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Red {
    /// The whole block.
    #[default]
    All,
    /// Nothing of it: the block is green.
    None,
    /// So many octets from its start; shorter blocks are all red.
    Octets(u64),
}

impl Red {
    /// Octets of the red part of a block with so many.
    #[must_use]
    pub const fn of(self, length: u64) -> u64 {
        match self {
            Self::All => length,
            Self::None => 0,
            Self::Octets(octets) if octets < length => octets,
            Self::Octets(_) => length,
        }
    }
}

/// The offers and limits of an engine towards one remote engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// The peer's node ID; `None` (the default) when bundles cannot be routed to it.
    pub peer: Option<NodeId>,
    /// The engine ID here. Default 0, which is nobody's: it must be set.
    pub engine: u64,
    /// The engine ID of the peer. Default 0.
    pub remote_engine: u64,
    /// The client service that blocks are for. Default [`BUNDLE_PROTOCOL`].
    pub service: u64,
    /// Default `All`.
    pub red: Red,
    /// Transfers that wait are one block together, of at most so many octets, where blocks are all red; never when 0 (the
    /// default). The peer takes the block apart. One that has more octets is a block of its own.
    pub aggregate: u64,
    /// Largest datagram that we send, octets of UDP payload, from [`LEAST_MTU`] and the octets of an authentication value to [`MAX_MTU`]. Default 1,400. Each
    /// holds one segment.
    pub mtu: u64,
    /// A discretionary checkpoint whenever so many octets of red part were sent since the last; never when 0. Default
    /// 262,144. It costs a report and an acknowledgment, and tells of losses early where the peer does not by itself.
    pub checkpoint_octets: u64,
    /// Default 1,250,000 octets a second (10 Mbit/s) and 65,507 at once. Nothing slows the sender down but this
    /// (RFC 5326 1): the path must take it.
    pub rate: Rate,
    /// One-way light time to the peer (RFC 5326 5). Default 50 ms: nowhere on Earth is farther by much.
    pub light_time: Duration,
    /// Time that the peer may need to answer, beyond the light time (RFC 5326 6.5: additional anticipated latency): its
    /// queues and its disk. Default 1 s.
    pub margin: Duration,
    /// A gap is reported unasked when it is not filled for so long. Default 20 ms.
    pub reordering: Duration,
    /// Largest block in either direction, octets, at most [`MAX_BLOCK_OCTETS`]. Default 64 MiB.
    pub transfer_mru: u64,
    /// Octets behind gaps of incoming blocks that the node may have to keep, of which half are for red ones alone. Default 16 MiB.
    pub reassembly_octets: u64,
    /// Sessions that may be open at a time in each direction. Default 1,024. Further transfers wait.
    pub sessions: usize,
    /// Gaps of an incoming block. Default 4,096.
    pub gaps: usize,
    /// Ranges of an outgoing block that are claimed, or that wait to be sent again. Reports beyond that are taken when some of
    /// those have come. Default 16,384: twice as many as a loss of one in five leaves of the longest block in segments of the
    /// default size.
    pub ranges: usize,
    /// Reports of one session that wait for their acknowledgment. Default 64.
    pub reports_under_way: usize,
    /// Times that a checkpoint, report or cancellation is sent at most (RFC 5326 6.7, 6.8, 6.16). Default 16.
    pub transmissions: u32,
    /// Reports in one session at most (RFC 5326 6.11), and checkpoints sent because of reports (6.13), beside one for each 8 KiB of the
    /// red part: a long block may last for thousands of round trips. Default 4,096.
    pub reports: u32,
    /// Retransmission cycles that follow each other (RFC 5326 6.22). Default 64.
    pub cycles: u32,
    /// Lost octets are sent again with copies where losing them once more would cost a round trip: near the end of a block, and when
    /// they were lost again. Copies are up to one part in so many of the red part, or take next to nothing of a round trip, and take less
    /// than a quarter of one at `rate`; there are none when 0. The checkpoints and reports of a session that lost something are sent twice. Default 16.
    pub doubling: u64,
    /// Whether the extensions for several hops are read; else they are skipped, as others are (the default).
    pub end_to_end: bool,
    /// Segments are authenticated (RFC 5327 2.1); not when `None` (the default).
    pub authentication: Option<Authentication>,
    /// Octets of the cookie that this engine begins in each session, up to [`MAX_COOKIE_OCTETS`] (RFC 5327 2.2). Default 0: it
    /// begins none. Those of the peer are sent back in any case.
    pub cookie_octets: u64,
    /// A session is cancelled in which the peer says nothing for so long. Default 600 s; at least four round trips.
    pub idle_timeout: Duration,
    /// The green part of a block is given up when nothing came for so long. Default 10 s.
    pub green_timeout: Duration,
    /// Incoming sessions that are over and still known. Default 16,384: those of sixteen round trips with `sessions` each.
    pub remembered: usize,
    /// An ending link waits so long until the sessions that have begun are over. Default 10 s.
    pub termination_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            peer: None,
            engine: 0,
            remote_engine: 0,
            service: BUNDLE_PROTOCOL,
            red: Red::All,
            aggregate: 0,
            mtu: 1_400,
            checkpoint_octets: 256 << 10,
            rate: Rate {
                octets_per_s: 1_250_000,
                burst_octets: MAX_MTU,
            },
            light_time: Duration::from_millis(50),
            margin: Duration::from_secs(1),
            reordering: Duration::from_millis(20),
            transfer_mru: 64 << 20,
            reassembly_octets: 16 << 20,
            sessions: 1_024,
            gaps: 4_096,
            ranges: 16_384,
            reports_under_way: 64,
            transmissions: 16,
            reports: 4_096,
            cycles: 64,
            doubling: 16,
            end_to_end: false,
            authentication: None,
            cookie_octets: 0,
            idle_timeout: Duration::from_secs(600),
            green_timeout: Duration::from_secs(10),
            remembered: 16_384,
            termination_timeout: Duration::from_secs(10),
        }
    }
}

impl Config {
    /// The same configuration with every value inside its bounds.
    pub(super) fn bounded(mut self) -> Self {
        self.transfer_mru = self.transfer_mru.min(MAX_BLOCK_OCTETS);
        self.sessions = self.sessions.max(1);
        self.gaps = self.gaps.max(1);
        self.reports_under_way = self.reports_under_way.max(1);
        self.transmissions = self.transmissions.max(1);
        self.remembered = self.remembered.max(1);
        if let Some(authentication) = &mut self.authentication {
            authentication.key_id.truncate(MAX_KEY_ID_OCTETS);
            authentication.value_octets = authentication.value_octets.min(MAX_VALUE_OCTETS);
        }
        self.mtu = self.mtu.clamp(self.least_mtu(), MAX_MTU);
        self.cookie_octets = self.cookie_octets.min(cookie_octets_max(self.mtu));
        self.idle_timeout = self.idle_timeout.max(self.least_idle_timeout());
        self
    }

    /// The smallest datagram that has room for its authentication value and for what [`LEAST_MTU`] has room for.
    pub(super) fn least_mtu(&self) -> u64 {
        let authentication = self.authentication.as_ref();
        let value_octets = authentication.map_or(0, |it| it.value_octets);
        LEAST_MTU.saturating_add(value_octets)
    }

    /// Four round trips, each with the margin.
    pub(super) fn least_idle_timeout(&self) -> Duration {
        let round_trip = self.round_trip().saturating_add(self.margin);
        round_trip.saturating_mul(4)
    }

    /// Reports of a session of whose red part there are so many octets, at most.
    pub(super) fn reports_of(&self, octets: u64) -> u32 {
        let more = u32::try_from(octets / REPORT_OCTETS).unwrap_or(u32::MAX);
        self.reports.saturating_add(more)
    }

    /// There and back.
    pub(super) const fn round_trip(&self) -> Duration {
        self.light_time.saturating_mul(2)
    }

    /// Octets that leave in a round trip.
    pub(super) fn round_trip_octets(&self) -> u64 {
        let round_trip = u64::try_from(self.round_trip().as_millis()).unwrap_or(u64::MAX);
        round_trip.saturating_mul(self.rate.octets_per_s) / 1_000
    }
}
