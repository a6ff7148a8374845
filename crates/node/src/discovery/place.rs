//! The machine of one `[[discover]]` entry: a table of neighbours that beacons told of.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use dhow_bundle::{EidPattern, Instant, NodeId};
use dhow_link::discovery::{Beacon, Format, Heard, Hearing, ServiceProtocol};

use super::announcing::Announcing;
use super::config::{DiscoverConfig, service_of};
use super::neighbour::{Neighbour, Reach};
use super::refused::{BeaconCounts, Refused};
use crate::config::Enabled;
use crate::driver::Announcement;

/// Neighbours that one address may tell of in a second, and at a time, at most: a node that others are behind tells of itself alone.
const NEW_OF_SOURCE_PER_SECOND: u32 = 4;

/// Neighbours that one address has told of first, at most.
const NEIGHBOURS_OF_SOURCE: usize = 16;

/// The time for which an address is not tried again at which somebody else was.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// Such addresses that are remembered, at most; the one whose time is over first goes for another.
const IMPOSTORS_BOUND: usize = 256;

/// The time that a neighbour which may dial this node by itself is waited for, but for two periods at most. It was answered as soon as it was heard, so that one
/// that dials has done so by then; IBR-DTN and dtn7-rs dial only once they have a bundle.
const PATIENCE: Duration = Duration::from_millis(500);
const PATIENCE_PERIODS: u32 = 2;

/// The period of a neighbour that does not say its own, where this node's is not longer: IBR-DTN's, which says 1 s in the announcement of DTN2
/// whatever its period is.
const UNSAID_PERIOD: Duration = Duration::from_secs(5);

/// Destinations, neighbours and limits of one entry.
pub(crate) struct Place {
    own: Vec<NodeId>,
    accept: Vec<EidPattern>,
    protocol: Option<ServiceProtocol>,
    hearing: Hearing,
    listens: bool,
    announcing: Option<Announcing>,
    period: Duration,
    neighbours: BTreeMap<NodeId, Neighbour>,
    neighbours_bound: usize,
    /// Whether only one of two nodes has to dial.
    one_dials: bool,
    impostors: BTreeMap<(NodeId, Reach), Instant>,
    fresh: Fresh,
    counts: BeaconCounts,
}

/// Neighbours that have become known in a second.
struct Fresh {
    bound: u32,
    until: Instant,
    count: u32,
    /// Counts by the addresses that told of them; no more than the bound.
    by_source: BTreeMap<IpAddr, u32>,
}

impl Fresh {
    fn admit(&mut self, now: Instant, source: IpAddr) -> bool {
        if now >= self.until {
            self.until = now + Duration::from_secs(1);
            self.count = 0;
            self.by_source.clear();
        }
        if self.count >= self.bound {
            return false;
        }
        let of_source = self.by_source.entry(source).or_default();
        if *of_source >= NEW_OF_SOURCE_PER_SECOND {
            return false;
        }
        *of_source += 1;
        self.count += 1;
        true
    }
}

/// The news of a beacon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// A neighbour that was not known, or one that is to be looked at.
    Some,
    /// None.
    None,
}

impl Place {
    pub(crate) fn new(config: &DiscoverConfig, own: &[NodeId]) -> Self {
        let period = Duration::from_millis(config.period_ms.max(DiscoverConfig::PERIOD_MS_MIN));
        let protocol = config.link.protocol;
        let announces = config.announce == Enabled::Yes;
        Self {
            own: own.to_vec(),
            // Patterns were checked when the configuration was read; one that is none matches nobody.
            accept: (config.accept.iter())
                .filter_map(|it| it.parse().ok())
                .collect(),
            protocol: service_of(protocol),
            hearing: config.hearing(),
            listens: config.listen == Enabled::Yes,
            announcing: announces.then(|| Announcing::new(config.destinations, period)),
            period,
            neighbours: BTreeMap::new(),
            neighbours_bound: usize::try_from(config.neighbours).unwrap_or(usize::MAX),
            one_dials: announces && protocol.tells_peer(),
            impostors: BTreeMap::new(),
            fresh: Fresh {
                bound: config.new_per_second,
                until: Instant::START,
                count: 0,
                by_source: BTreeMap::new(),
            },
            counts: BeaconCounts::default(),
        }
    }

    /// A datagram came; an answer to it goes into `out`.
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        out: &mut Vec<Announcement>,
    ) -> News {
        if !self.listens {
            return News::None;
        }
        self.counts.heard += 1;
        match self.take(now, from, datagram, out) {
            Ok(news) => news,
            Err(refused) => {
                self.counts.refuse(refused);
                News::None
            }
        }
    }

    fn take(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        out: &mut Vec<Announcement>,
    ) -> Result<News, Refused> {
        let Heard { format, beacon, .. } =
            Beacon::decode(datagram, self.hearing).map_err(|_| Refused::Malformed)?;
        if self.own.contains(&beacon.node) {
            return Err(Refused::Own);
        }
        let endpoint = beacon.node.endpoint();
        let is_accepted =
            self.accept.is_empty() || self.accept.iter().any(|it| it.matches(endpoint));
        if !is_accepted {
            return Err(Refused::NotAccepted);
        }
        // Draft 2.1: nothing more is to be expected.
        if beacon.period == Some(Duration::ZERO) {
            let Some(neighbour) = self.neighbours.get_mut(&beacon.node) else {
                return Ok(News::None);
            };
            neighbour.departs(now, from.ip());
            return Ok(News::Some);
        }
        let ways = self.ways(now, from, &beacon)?;
        let period = self.period_of(format, beacon.period);
        let how = (from, format);
        if let Some(known) = self.neighbours.get_mut(&beacon.node) {
            let before = known.look_at;
            known.heard(now, how, period, ways);
            return Ok(match known.look_at == before {
                true => News::None,
                false => News::Some,
            });
        }
        self.admit(now, from.ip())?;
        let dial_at = now + self.patience(&beacon.node);
        let mut neighbour = Neighbour::new(now, from, format, dial_at);
        neighbour.heard(now, how, period, ways);
        self.neighbours.insert(beacon.node, neighbour);
        self.counts.found += 1;
        let answer = (self.announcing.as_mut()).and_then(|it| it.answer(now, from));
        self.counts.sent += u64::from(answer.is_some());
        out.extend(answer);
        Ok(News::Some)
    }

    /// The time until a neighbour's next beacon.
    fn period_of(&self, format: Format, said: Option<Duration>) -> Duration {
        match (format, said) {
            (Format::Dtn2, Some(said)) => said.max(UNSAID_PERIOD),
            (_, Some(said)) => said,
            (_, None) => self.period.max(UNSAID_PERIOD),
        }
    }

    /// The ways to a beacon's node that are worth trying.
    fn ways(&self, now: Instant, from: SocketAddr, beacon: &Beacon) -> Result<Vec<Reach>, Refused> {
        let fitting = beacon.services.iter();
        let mut fitting = fitting
            .filter(|service| Some(service.protocol) == self.protocol)
            .peekable();
        if fitting.peek().is_none() {
            return Err(Refused::NoService);
        }
        let mut ways: Vec<_> = fitting
            .filter_map(|service| Reach::of(service, from).ok())
            .collect();
        if ways.is_empty() {
            return Err(Refused::Address);
        }
        if !self.impostors.is_empty() {
            ways.retain(|reach| {
                let until = self.impostors.get(&(beacon.node.clone(), reach.clone()));
                until.is_none_or(|until| *until <= now)
            });
        }
        match ways.is_empty() {
            true => Err(Refused::Identity),
            false => Ok(ways),
        }
    }

    /// Whether there is room for one more neighbour, of which this address tells.
    fn admit(&mut self, now: Instant, source: IpAddr) -> Result<(), Refused> {
        let known = self.neighbours.values();
        let of_source = known.filter(|it| it.source == source).count();
        if self.neighbours.len() >= self.neighbours_bound || of_source >= NEIGHBOURS_OF_SOURCE {
            return Err(Refused::TooMany);
        }
        match self.fresh.admit(now, source) {
            true => Ok(()),
            false => Err(Refused::TooFast),
        }
    }

    /// The time that a neighbour is waited for which may dial by itself: of two nodes that hear each other the one of the smaller node ID dials.
    pub(crate) fn patience(&self, node: &NodeId) -> Duration {
        let is_first = self.own.first().is_none_or(|own| own < node);
        match self.one_dials && !is_first {
            true => PATIENCE.min(self.period.saturating_mul(PATIENCE_PERIODS)),
            false => Duration::ZERO,
        }
    }

    /// Beacons that are due.
    pub(crate) fn announce(&mut self, now: Instant) -> Vec<Announcement> {
        let announcing = self.announcing.as_mut();
        let due = announcing.map_or_else(Vec::new, |it| it.take_due(now));
        self.counts.sent += u64::try_from(due.len()).unwrap_or(0);
        due
    }

    /// Last beacons.
    pub(crate) fn depart(&mut self) -> Vec<Announcement> {
        let announcing = self.announcing.take();
        let last = announcing.map_or_else(Vec::new, |mut it| it.depart());
        self.counts.sent += u64::try_from(last.len()).unwrap_or(0);
        last
    }

    /// When beacons are due, or a neighbour is to be looked at.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let announce = self.announcing.as_ref().and_then(Announcing::poll_timeout);
        let look = self.neighbours.values().map(|it| it.look_at).min();
        [announce, look].into_iter().flatten().min()
    }

    /// Neighbours that are to be looked at now.
    pub(crate) fn due(&self, now: Instant) -> Vec<NodeId> {
        let due = self.neighbours.iter().filter(|(_, it)| it.look_at <= now);
        due.map(|(node, _)| node.clone()).collect()
    }

    pub(crate) fn neighbours(&self) -> impl Iterator<Item = (&NodeId, &Neighbour)> {
        self.neighbours.iter()
    }

    pub(crate) fn neighbour_mut(&mut self, node: &NodeId) -> Option<&mut Neighbour> {
        self.neighbours.get_mut(node)
    }

    /// A neighbour has gone.
    pub(crate) fn lose(&mut self, node: &NodeId) {
        self.counts.lost += u64::from(self.neighbours.remove(node).is_some());
    }

    /// A session over a neighbour's link was with somebody else, or was not what policy asks for: it is not tried there for a while.
    pub(crate) fn expose(&mut self, now: Instant, node: &NodeId) {
        let Some(neighbour) = self.neighbours.get_mut(node) else {
            return;
        };
        let Some(reach) = neighbour.current.take() else {
            return;
        };
        neighbour.forget(&reach);
        neighbour.look_at = now;
        self.impostors.retain(|_, until| *until > now);
        if self.impostors.len() >= IMPOSTORS_BOUND {
            let first = self.impostors.iter().min_by_key(|(_, until)| **until);
            if let Some(first) = first.map(|(key, _)| key.clone()) {
                self.impostors.remove(&first);
            }
        }
        self.impostors
            .insert((node.clone(), reach), now + REFUSED_FOR);
    }

    /// The convergence layer of its neighbours.
    pub(crate) const fn protocol(&self) -> Option<ServiceProtocol> {
        self.protocol
    }

    pub(crate) const fn period(&self) -> Duration {
        self.period
    }

    pub(crate) const fn counts(&self) -> &BeaconCounts {
        &self.counts
    }
}
