//! Static routes: endpoint-ID patterns with priorities, and the implicit route to a session's peer.

use alloc::string::ToString;
use alloc::vec::Vec;

use dhow_bundle::EndpointId;
use dhow_bundle::eid::EidPattern;

use super::Hop;
use crate::config::Route;
use crate::door::OperatorRefusal;

/// The table of static routes.
#[derive(Default)]
pub(crate) struct StaticRoutes {
    /// By falling priority; among equals in the order in which they were given.
    routes: Vec<(EidPattern, Hop, Route)>,
}

impl StaticRoutes {
    /// Add a route over a hop that its `via` names.
    pub(crate) fn add(&mut self, route: Route, hop: Hop) -> Result<(), OperatorRefusal> {
        let pattern: EidPattern = route
            .to
            .parse()
            .map_err(|_| OperatorRefusal::BadPattern(route.to.to_string()))?;
        if self
            .routes
            .iter()
            .any(|(other, via, _)| *other == pattern && *via == hop)
        {
            return Err(OperatorRefusal::RouteExists(route.to, route.via));
        }
        let place = self
            .routes
            .partition_point(|(_, _, other)| other.priority >= route.priority);
        self.routes.insert(place, (pattern, hop, route));
        Ok(())
    }

    /// Remove the route to a pattern via a link.
    pub(crate) fn delete(&mut self, to: &str, via: &str) -> Result<(), OperatorRefusal> {
        let pattern: EidPattern = to
            .parse()
            .map_err(|_| OperatorRefusal::BadPattern(to.to_string()))?;
        let before = self.routes.len();
        self.routes
            .retain(|(other, _, route)| !(*other == pattern && route.via == via));
        if self.routes.len() == before {
            return Err(OperatorRefusal::UnknownRoute(
                to.to_string(),
                via.to_string(),
            ));
        }
        Ok(())
    }

    /// The next hops for a destination, best first: static routes by priority, last the destination's
    /// own node, should a session to it be up.
    pub(crate) fn hops(&self, destination: &EndpointId) -> Vec<Hop> {
        let mut hops: Vec<Hop> = self
            .routes
            .iter()
            .filter(|(pattern, _, _)| pattern.matches(destination))
            .map(|(_, hop, _)| hop.clone())
            .collect();
        hops.extend(destination.node_id().map(Hop::Peer));
        hops
    }

    /// The routes, best first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Route, &Hop)> {
        self.routes.iter().map(|(_, hop, route)| (route, hop))
    }
}
