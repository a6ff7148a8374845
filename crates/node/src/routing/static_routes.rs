//! Static routes: endpoint-ID patterns with priorities, and the implicit route to a session's peer.
//!
//! A pattern may be a union of sets, some of which are more specific than others. So the table has a row for each set, in the order
//! in which rows are used, and asking it sorts nothing.

use alloc::string::ToString;
use alloc::vec::Vec;

use dhow_bundle::EndpointId;
use dhow_bundle::eid::EidPattern;

use super::Hop;
use crate::config::{LinkId, Route};
use crate::driver::OperatorRefusal;

/// Hops for which there is room at once: few destinations have more.
const USUAL_HOPS: usize = 4;

/// The table of static routes.
#[derive(Default)]
pub(crate) struct StaticRoutes {
    /// The most specific first, then by falling priority; among equals in the order in which they were given.
    routes: Vec<(EidPattern, Hop, Route)>,
    /// The rows in the same order.
    rows: Vec<Row>,
    /// Links that lead through bundles for an endpoint, which no route over them leads to.
    tunnels: Vec<(LinkId, EndpointId)>,
}

/// The order of routes: they are used by falling rank.
type Rank = (u64, i32);

/// One of the sets of a route's pattern.
struct Row {
    rank: Rank,
    set: EidPattern,
    hop: Hop,
    /// The route's pattern as a whole.
    pattern: EidPattern,
}

impl StaticRoutes {
    /// Add a route over a hop that its `via` names.
    pub(crate) fn add(&mut self, route: Route, hop: Hop) -> Result<(), OperatorRefusal> {
        let pattern: EidPattern = route
            .to
            .parse()
            .map_err(|why| OperatorRefusal::BadPattern(route.to.to_string(), why))?;
        if self
            .routes
            .iter()
            .any(|(other, via, _)| *other == pattern && *via == hop)
        {
            return Err(OperatorRefusal::RouteExists(route.to, route.via));
        }
        for (specificity, set) in pattern.sets() {
            let rank = (specificity, route.priority);
            let place = self.rows.partition_point(|other| other.rank >= rank);
            let row = Row {
                rank,
                set,
                hop: hop.clone(),
                pattern: pattern.clone(),
            };
            self.rows.insert(place, row);
        }
        let rank = rank(&pattern, &route);
        let place = self
            .routes
            .partition_point(|(pattern, _, other)| self::rank(pattern, other) >= rank);
        self.routes.insert(place, (pattern, hop, route));
        Ok(())
    }

    /// Remove the route to a pattern via a link.
    pub(crate) fn delete(&mut self, to: &str, via: &str) -> Result<(), OperatorRefusal> {
        let pattern: EidPattern = to
            .parse()
            .map_err(|why| OperatorRefusal::BadPattern(to.to_string(), why))?;
        let mut routes = self.routes.iter();
        let place = routes
            .position(|(other, _, route)| *other == pattern && route.via == via)
            .ok_or_else(|| OperatorRefusal::UnknownRoute(to.to_string(), via.to_string()))?;
        let (_, hop, _) = self.routes.remove(place);
        self.rows
            .retain(|row| row.pattern != pattern || row.hop != hop);
        Ok(())
    }

    /// A link whose bundles go in others for this endpoint: those take another way.
    pub(crate) fn add_tunnel(&mut self, link: LinkId, peer: EndpointId) {
        self.tunnels.push((link, peer));
    }

    /// The next hops for a destination, best first: the destination's own node, should a session to it be up, then those of routes,
    /// the most specific pattern first, and of equally specific ones the highest priority.
    pub(crate) fn hops(&self, destination: &EndpointId) -> Vec<Hop> {
        let mut hops = Vec::with_capacity(USUAL_HOPS);
        hops.extend(destination.node_id().map(Hop::Peer));
        for row in self.rows.iter().filter(|row| row.set.matches(destination)) {
            if !hops.contains(&row.hop) && !self.leads_inside(&row.hop, destination) {
                hops.push(row.hop.clone());
            }
        }
        hops
    }

    /// Whether a hop is the tunnel that bundles for this destination carry others through.
    fn leads_inside(&self, hop: &Hop, destination: &EndpointId) -> bool {
        let mut tunnels = self.tunnels.iter();
        tunnels.any(|(link, peer)| *hop == Hop::Link(*link) && peer == destination)
    }

    /// The routes, best first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Route, &Hop)> {
        self.routes.iter().map(|(_, hop, route)| (route, hop))
    }
}

/// The rank of the most specific set of a route.
fn rank(pattern: &EidPattern, route: &Route) -> Rank {
    let sets = pattern.sets().map(|(specificity, _)| specificity);
    (sets.max().unwrap_or(0), route.priority)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use alloc::format;
    use alloc::vec;

    use super::*;
    use crate::config::LinkId;

    fn table(routes: &[(&str, i32)]) -> StaticRoutes {
        let mut table = StaticRoutes::default();
        for (link, &(to, priority)) in (0..).zip(routes) {
            let route = Route {
                to: to.into(),
                via: format!("link{link}"),
                priority,
            };
            table.add(route, Hop::Link(LinkId(link))).unwrap();
        }
        table
    }

    /// The links that a destination has as hops; first comes its node.
    fn links(table: &StaticRoutes, destination: &str) -> Vec<u32> {
        let destination: EndpointId = destination.parse().unwrap();
        let hops = table.hops(&destination);
        let itself = destination.node_id().map(Hop::Peer);
        assert_eq!(hops.first(), itself.as_ref());
        let links = hops.iter().filter_map(|hop| match hop {
            Hop::Link(link) => Some(link.0),
            Hop::Peer(_) => None,
        });
        links.collect()
    }

    #[test]
    fn the_most_specific_pattern_comes_first_and_then_the_highest_priority() {
        let table = table(&[
            ("*:**", 9),
            ("ipn:4.*", 0),
            ("ipn:[1-9].*", 7),
            ("ipn:4.*", 1),
            ("ipn:4.7", -5),
            ("ipn:4.*", 1),
        ]);
        assert_eq!(links(&table, "ipn:4.7"), [4, 3, 5, 1, 2, 0]);
        assert_eq!(links(&table, "ipn:4.8"), [3, 5, 1, 2, 0]);
        assert_eq!(links(&table, "ipn:5.8"), [2, 0]);
        assert_eq!(links(&table, "dtn://a/b"), [0]);
        let shown: Vec<&str> = table.iter().map(|(route, _)| route.via.as_str()).collect();
        assert_eq!(
            shown,
            ["link4", "link3", "link5", "link1", "link2", "link0"]
        );
    }

    #[test]
    fn each_set_of_a_union_is_as_specific_as_it_is_by_itself() {
        let mut table = table(&[("ipn:4.7|ipn:**", 0), ("ipn:4.*|ipn:5.*", 0)]);
        assert_eq!(links(&table, "ipn:4.7"), [0, 1]);
        assert_eq!(links(&table, "ipn:4.8"), [1, 0]);
        assert_eq!(links(&table, "ipn:6.8"), [0]);
        table.delete("ipn:4.7|ipn:**", "link0").unwrap();
        assert_eq!(links(&table, "ipn:4.7"), [1]);
        assert_eq!(links(&table, "ipn:6.8"), vec![0; 0]);
        assert!(table.delete("ipn:4.7|ipn:**", "link0").is_err());
    }
}
