//! The choice of a connection that gives way when more neighbours connect than there is room for.
//!
//! The origin with the most connections loses one, so that no origin with few is kept out by one that opens
//! thousands. Of its connections, the oldest goes that has not become a session.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use dhow_node::driver::StreamId;

/// Bits of an IPv6 address that tell networks apart: one host may have all addresses of the rest.
const NETWORK_BITS: u32 = 64;

/// The origin of a connection, as far as its address tells who makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(u128);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u128::from(u32::from(address))),
            IpAddr::V6(address) => {
                let host = u128::MAX >> NETWORK_BITS;
                // No network has a number as small as those of IPv4 addresses, but for reserved ones.
                Self(u128::from(address) | host)
            }
        }
    }
}

/// Accepted connections of neighbours, by where they come from.
#[derive(Debug, Default)]
pub struct Origins {
    streams: BTreeMap<Origin, BTreeSet<StreamId>>,
    origins: BTreeMap<StreamId, Origin>,
}

impl Origins {
    /// A connection was accepted.
    pub fn enter(&mut self, stream: StreamId, origin: Origin) {
        self.streams.entry(origin).or_default().insert(stream);
        self.origins.insert(stream, origin);
    }

    /// A connection is gone, or going.
    pub fn leave(&mut self, stream: StreamId) {
        let Some(origin) = self.origins.remove(&stream) else {
            return;
        };
        if let Some(streams) = self.streams.get_mut(&origin) {
            streams.remove(&stream);
            if streams.is_empty() {
                self.streams.remove(&origin);
            }
        }
    }

    /// Connections from there.
    #[must_use]
    pub fn count(&self, origin: Origin) -> usize {
        self.streams.get(&origin).map_or(0, BTreeSet::len)
    }

    /// The connection that is to go where an origin has as many as it may; `None` where a new one of it is to.
    #[must_use]
    pub fn give_way_within<R: Ord>(
        &self,
        origin: Origin,
        rank: impl Fn(StreamId) -> Option<R>,
    ) -> Option<StreamId> {
        least(self.streams.get(&origin)?, rank)
    }

    /// The connection that is to go for a new one from `origin`; `None` where the new one is to.
    #[must_use]
    pub fn give_way<R: Ord>(
        &self,
        origin: Origin,
        rank: impl Fn(StreamId) -> Option<R>,
    ) -> Option<StreamId> {
        let own = self.count(origin);
        let (&largest, streams) = self
            .streams
            .iter()
            .max_by_key(|(_, streams)| streams.len())?;
        let (crowded, streams) = match self.streams.get(&origin) {
            // An origin that has as many as any other gives way to itself.
            Some(streams) if own >= self.streams.get(&largest).map_or(0, BTreeSet::len) => {
                (origin, streams)
            }
            _ => (largest, streams),
        };
        match least(streams, rank) {
            // A session is not cut for one more of the same origin, nor where that has nearly as many.
            None if crowded == origin || own + 1 >= streams.len() => None,
            None => streams.last().copied(),
            least => least,
        }
    }
}

/// The stream of the lowest rank, of several the oldest; those without a rank are sessions.
fn least<R: Ord>(
    streams: &BTreeSet<StreamId>,
    rank: impl Fn(StreamId) -> Option<R>,
) -> Option<StreamId> {
    let ranked = streams.iter().filter_map(|it| Some((rank(*it)?, *it)));
    ranked.min().map(|(_, stream)| stream)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dhow_bundle::Instant;
    use dhow_node::view::Activity;

    use super::*;

    fn origin(address: &str) -> Origin {
        Origin::from(address.parse::<IpAddr>().unwrap())
    }

    fn origins(of: &[(u64, &str)]) -> Origins {
        let mut origins = Origins::default();
        for (stream, address) in of {
            origins.enter(StreamId(*stream), origin(address));
        }
        origins
    }

    #[test]
    fn the_oldest_idle_connection_of_whoever_has_the_most_goes() {
        let mut origins = origins(&[
            (1, "10.0.0.1"),
            (2, "10.0.0.2"),
            (3, "10.0.0.2"),
            (4, "10.0.0.2"),
        ]);
        let rank = |stream| (stream != StreamId(2)).then_some(());
        let new = origin("10.0.0.3");
        assert_eq!(origins.give_way(new, rank), Some(StreamId(3)));
        origins.leave(StreamId(3));
        assert_eq!(origins.give_way(new, rank), Some(StreamId(4)));
    }

    #[test]
    fn sessions_of_whoever_has_many_give_way_to_those_who_have_none_only() {
        let origins = origins(&[(1, "10.0.0.1"), (2, "10.0.0.2"), (3, "10.0.0.2")]);
        let all = |_| None::<()>;
        assert_eq!(
            origins.give_way(origin("10.0.0.3"), all),
            Some(StreamId(3)),
            "the newest session"
        );
        assert_eq!(origins.give_way(origin("10.0.0.2"), all), None);
        assert_eq!(origins.give_way(origin("10.0.0.1"), all), None);
    }

    #[test]
    fn an_ipv6_network_counts_as_one_and_a_mapped_address_as_its_own() {
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::2"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
    }

    #[test]
    fn of_one_origin_the_oldest_gives_way_that_is_no_session() {
        let origins = origins(&[(1, "10.0.0.1"), (2, "10.0.0.2"), (3, "10.0.0.2")]);
        let own = origin("10.0.0.2");
        assert_eq!(
            (origins.count(own), origins.count(origin("10.0.0.3"))),
            (2, 0)
        );
        let rank = |stream| (stream != StreamId(2)).then_some(());
        assert_eq!(origins.give_way_within(own, rank), Some(StreamId(3)));
        assert_eq!(origins.give_way_within(own, |_| None::<()>), None);
        assert_eq!(origins.give_way_within(origin("10.0.0.3"), rank), None);
    }

    #[test]
    fn the_connection_of_the_least_use_gives_way_first_and_of_several_the_oldest() {
        let origins = origins(&[
            (1, "10.0.0.2"),
            (2, "10.0.0.2"),
            (3, "10.0.0.2"),
            (4, "10.0.0.2"),
        ]);
        let own = origin("10.0.0.2");
        let at = |seconds| Instant::START + Duration::from_secs(seconds);
        let (idle, arriving) = (Activity::Idle, Activity::Arriving);
        for (uses, goes) in [
            // A connection within a bundle stays while another is idle, also one that was heard later.
            (
                [arriving(at(1)), arriving(at(2)), idle(at(9)), idle(at(8))],
                4,
            ),
            (
                [
                    arriving(at(1)),
                    idle(at(1)),
                    Activity::Nothing,
                    Activity::Nothing,
                ],
                3,
            ),
            (
                [
                    arriving(at(4)),
                    arriving(at(2)),
                    arriving(at(3)),
                    arriving(at(2)),
                ],
                2,
            ),
        ] {
            let rank = |stream: StreamId| uses.get(usize::try_from(stream.0).unwrap() - 1).copied();
            let goes = Some(StreamId(goes));
            assert_eq!(origins.give_way_within(own, rank), goes, "{uses:?}");
            assert_eq!(origins.give_way(own, rank), goes, "{uses:?}");
            assert_eq!(origins.give_way(origin("10.0.0.3"), rank), goes, "{uses:?}");
        }
    }

    #[test]
    fn nobody_gives_way_in_an_empty_crowd() {
        assert_eq!(
            origins(&[]).give_way(origin("10.0.0.1"), |_| Some(())),
            None
        );
    }
}
