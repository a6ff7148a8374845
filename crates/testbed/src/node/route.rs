//! The next neighbour of a bundle: over the fewest links, for the ways that traffic takes, and for those by which answers to it and
//! reports of it come back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dhow_scenario::Scenario;
use dhow_scenario::scenario::{HostKind, NodeIndex};

use crate::failure::LabError;

/// Links that a bundle crosses, at most: nodes give theirs the greatest hop limit that there is (RFC 9171 4.4.3).
const LINKS_MAX: usize = 255;

/// The neighbours of each node by the destinations to which they are next.
pub(super) type Routes = Vec<BTreeMap<usize, usize>>;

/// The routes of all nodes.
///
/// # Errors
/// When no links lead from where something is sent to where it is to go.
pub(super) fn routes(scenario: &Scenario) -> Result<Routes, LabError> {
    let mut neighbours = vec![Vec::new(); scenario.nodes.len()];
    let forwards = |node: usize| {
        let node = scenario.nodes.get(node);
        node.is_some_and(|node| node.host.kind == HostKind::Dhow)
    };
    for link in &scenario.links {
        let (first, second) = (link.between.0.0, link.between.1.0);
        // A host without a node passes no bundle on.
        if !forwards(first) || !forwards(second) {
            continue;
        }
        for (here, there) in [(first, second), (second, first)] {
            if let Some(list) = neighbours.get_mut(here) {
                list.push(there);
            }
        }
    }
    let mut routes = vec![BTreeMap::new(); scenario.nodes.len()];
    // Every node on the way to a destination may be asked to report to the source.
    let mut reporters: BTreeSet<(usize, usize)> = BTreeSet::new();
    for traffic in &scenario.traffic {
        let ends = (traffic.from, traffic.to);
        let way = add_way(scenario, &neighbours, &mut routes, ends)?;
        // Links are the same in both directions.
        add_way(
            scenario,
            &neighbours,
            &mut routes,
            (traffic.to, traffic.from),
        )?;
        if traffic.has_custody() {
            // A custodian sends signals to custodians before it on the way.
            let custodians = (0..).zip(&way);
            let pairs = custodians.flat_map(|(place, custodian)| {
                way.iter().skip(place).map(|later| (*later, *custodian))
            });
            reporters.extend(pairs);
        }
        if traffic.reports > 0 {
            reporters.extend(way.into_iter().map(|node| (node, traffic.from.0)));
        }
    }
    for (from, to) in reporters.into_iter().filter(|(from, to)| from != to) {
        let ends = (NodeIndex(from), NodeIndex(to));
        add_way(scenario, &neighbours, &mut routes, ends)?;
    }
    Ok(routes)
}

/// Routes from one node to another; all nodes on the way come back.
fn add_way(
    scenario: &Scenario,
    neighbours: &[Vec<usize>],
    routes: &mut Routes,
    (from, to): (NodeIndex, NodeIndex),
) -> Result<Vec<usize>, LabError> {
    let name = |node: NodeIndex| {
        let found = scenario.nodes.get(node.0);
        found.map_or("", |node| node.name.as_str())
    };
    let next = towards(neighbours, to.0);
    let mut way = vec![from.0];
    let mut here = from.0;
    while here != to.0 {
        let Some(there) = next.get(here).copied().flatten() else {
            // Bundles of such a node wait for whom it meets.
            if scenario.copying_nodes().contains(&from) {
                break;
            }
            let what = format!("no links lead from '{}' to '{}'", name(from), name(to));
            return Err(LabError::new(what));
        };
        if let Some(routes) = routes.get_mut(here) {
            routes.insert(to.0, there);
        }
        way.push(there);
        here = there;
    }
    if way.len() > LINKS_MAX + 1 {
        let what = format!(
            "the way from '{}' to '{}' has {} links, and no bundle is forwarded more than {LINKS_MAX} times",
            name(from),
            name(to),
            way.len() - 1
        );
        return Err(LabError::new(what).with_hint("RFC 9171 4.4.3 has no greater hop limit"));
    }
    Ok(way)
}

/// The neighbour of each node that is nearest to one.
fn towards(neighbours: &[Vec<usize>], to: usize) -> Vec<Option<usize>> {
    let mut next = vec![None; neighbours.len()];
    let mut reached = VecDeque::from([to]);
    while let Some(here) = reached.pop_front() {
        for &there in neighbours.get(here).into_iter().flatten() {
            if there != to
                && let Some(hop @ None) = next.get_mut(there)
            {
                *hop = Some(here);
                reached.push_back(there);
            }
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn no_way_is_longer_than_a_bundle_may_go() {
        for (nodes, is_possible) in [(256, true), (257, false)] {
            let text = format!(
                "[[line]]\nname = \"n\"\ncount = {nodes}\nrate = \"1Mbit\"\n[[traffic]]\nfrom = \"n1\"\nto = \"n{nodes}\"\nsize = 16\ncount = 1\n[stop]\nat = \"1s\"\n"
            );
            let scenario = Scenario::parse(Path::new("s.toml"), &text).expect("a scenario");
            assert_eq!(routes(&scenario).is_ok(), is_possible, "{nodes}");
        }
    }

    #[test]
    fn ways_lead_around_hosts_without_a_node() {
        let mut text = String::new();
        for (name, kind) in [
            ("a", "dhow"),
            ("host", "command"),
            ("b", "dhow"),
            ("c", "dhow"),
            ("z", "dhow"),
        ] {
            text += &format!("[[node]]\nname = \"{name}\"\nkind = \"{kind}\"\n");
        }
        for (one, other) in [
            ("a", "host"),
            ("host", "z"),
            ("a", "b"),
            ("b", "c"),
            ("c", "z"),
        ] {
            text += &format!("[[link]]\nbetween = [\"{one}\", \"{other}\"]\nrate = \"8Mbit\"\n");
        }
        text +=
            "[[traffic]]\nfrom = \"a\"\nto = \"z\"\nsize = 100\ncount = 1\n[stop]\nat = \"1s\"\n";
        let scenario = Scenario::parse(Path::new("s.toml"), &text).expect("a scenario");
        let routes = routes(&scenario).expect("a way");
        let next =
            |to| -> Vec<Option<&usize>> { routes.iter().map(|routes| routes.get(&to)).collect() };
        assert_eq!(next(4), [Some(&2), None, Some(&3), Some(&4), None]);
        // An answer, of the echo service for one, comes back.
        assert_eq!(next(0), [None, None, Some(&0), Some(&2), Some(&3)]);
    }
}
