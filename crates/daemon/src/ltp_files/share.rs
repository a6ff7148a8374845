//! The places of a receiver, shared among the hosts that send: no host keeps all others out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use dhow_bundle::Instant;

/// Bits of an address of IPv6 that its network gives; a host has the others for itself.
const NETWORK_BITS_V6: u32 = 64;

/// A place that is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<T> {
    /// The one that has it.
    pub(super) of: T,
    /// The address that it sends from.
    pub(super) host: IpAddr,
    /// Octets that came of what is under way; `None` where nothing is.
    pub(super) octets: Option<u64>,
    /// When something came last.
    pub(super) heard: Instant,
}

/// Octets that came of what is under way with an engine: of its files or blocks, or more than any where all of them are here and `receives` is still true,
/// since their sender does not know it yet: without the session they would come again. `None` where nothing is under way.
pub(super) fn under_way(coming: impl Iterator<Item = u64>, receives: bool) -> Option<u64> {
    coming
        .reduce(u64::saturating_add)
        .or(receives.then_some(u64::MAX))
}

/// The one that makes room for a newcomer of a host: of those with nothing under way the one that was silent for longest. If all have something under way, it
/// is of the host with most places, if that would still have as many as the newcomer's host then: the one of which the fewest octets came.
pub(super) fn making_room<T: Copy>(places: &[Place<T>], newcomer: IpAddr) -> Option<T> {
    let idle = places.iter().filter(|it| it.octets.is_none());
    if let Some(idle) = idle.min_by_key(|it| it.heard) {
        return Some(idle.of);
    }
    let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for place in places {
        *counts.entry(network(place.host)).or_default() += 1;
    }
    let own = counts.get(&network(newcomer)).copied().unwrap_or(0);
    let (most, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    if count < own.saturating_add(2) {
        return None;
    }
    let theirs = places.iter().filter(|it| network(it.host) == most);
    let least = theirs.min_by_key(|it| (it.octets, it.heard));
    least.map(|it| it.of)
}

/// The part of an address that a host does not choose.
fn network(host: IpAddr) -> IpAddr {
    match host.to_canonical() {
        IpAddr::V4(host) => host.into(),
        IpAddr::V6(host) => {
            let mask = !(u128::MAX >> NETWORK_BITS_V6);
            Ipv6Addr::from_bits(host.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn place(of: u64, host: &str, octets: Option<u64>, heard_s: u64) -> Place<u64> {
        Place {
            of,
            host: host.parse().unwrap(),
            octets,
            heard: Instant::START + Duration::from_secs(heard_s),
        }
    }

    fn room(places: &[Place<u64>], host: &str) -> Option<u64> {
        making_room(places, host.parse().unwrap())
    }

    #[test]
    fn the_idle_one_that_was_silent_for_longest_goes_first() {
        let places = [
            place(1, "192.0.2.1", None, 9),
            place(2, "192.0.2.2", None, 3),
            place(3, "192.0.2.3", Some(1), 1),
        ];
        assert_eq!(room(&places, "192.0.2.1"), Some(2));
        assert_eq!(room(&[], "192.0.2.1"), None);
    }

    #[test]
    fn a_host_with_many_places_makes_room_and_one_with_as_many_as_others_does_not() {
        let mut places = vec![
            place(1, "192.0.2.1", Some(700), 1),
            place(2, "192.0.2.1", Some(5), 8),
            place(3, "192.0.2.1", Some(5), 7),
        ];
        assert_eq!(room(&places, "192.0.2.9"), Some(3));
        assert_eq!(room(&places, "192.0.2.1"), None, "its own share");
        places.push(place(4, "192.0.2.9", Some(1), 9));
        assert_eq!(room(&places, "192.0.2.9"), Some(3));
        places.push(place(5, "192.0.2.9", Some(1), 9));
        assert_eq!(
            room(&places, "192.0.2.9"),
            None,
            "it would go back and forth"
        );
        assert_eq!(room(&places, "192.0.2.8"), Some(3));
    }

    #[test]
    fn all_addresses_of_a_network_of_ipv6_are_one_host() {
        let places = [
            place(1, "2001:db8::1", Some(2), 1),
            place(2, "2001:db8::ffff:1", Some(1), 1),
        ];
        assert_eq!(room(&places, "2001:db8::7"), None);
        assert_eq!(room(&places, "2001:db8:0:1::7"), Some(2));
        assert_eq!(room(&places, "192.0.2.1"), Some(2));
    }
}
