//! `[[route]]`: the next neighbour, beside those over the fewest links; `[[routing]]`: the routers that decide about bundles.

use std::collections::BTreeSet;

use dhow_bundle::RouterKind;
use dhow_bundle::router::{Acknowledgments, DropPolicy};

use dhow_document::{Document, Entries, FileError};

use crate::network::Network;
use crate::scenario::{Route, Routing};

/// The copies of a bundle where a scenario says nothing of them: a node's own default.
const USUAL_COPIES: u32 = 8;

/// Reads all routes of a file.
pub(crate) fn read(document: &Document<'_>, network: &Network) -> Result<Vec<Route>, FileError> {
    let mut routes: Vec<Route> = Vec::new();
    for entries in document.all("route") {
        let named = |key| network.node(document, entries, key, entries.text(key).unwrap_or(""));
        let (to, via) = (named("to")?, named("via")?);
        let priority = entries.integer("priority");
        for node in network.nodes(document, entries, "node")? {
            let route = Route {
                node,
                to,
                via,
                priority: priority.and_then(|it| it.try_into().ok()).unwrap_or(0),
            };
            check(document, entries, network, (&routes, route))?;
            routes.push(route);
        }
    }
    Ok(routes)
}

/// Reads who decides about bundles.
pub(crate) fn read_routing(
    document: &Document<'_>,
    network: &Network,
) -> Result<Vec<Routing>, FileError> {
    let mut all = Vec::new();
    let mut known = BTreeSet::new();
    for entries in document.all("routing") {
        let destinations = match entries.text("to") {
            Some(_) => {
                let nodes = network.nodes(document, entries, "to")?;
                nodes.into_iter().map(Some).collect()
            }
            None => vec![None],
        };
        let router = entries.text("router").and_then(RouterKind::named);
        let router = router.unwrap_or_default();
        let copies = entries.integer("copies");
        if copies.is_some() && router != RouterKind::SprayAndWait {
            let what = format!("'{}' does not count copies", router.name());
            let error = document.fault(entries.line_of("copies"), what);
            return Err(error.with_hint("it is a key of router = \"spray-and-wait\""));
        }
        let copies = copies.and_then(|it| u32::try_from(it).ok());
        let copies = copies.unwrap_or(USUAL_COPIES);
        let acknowledgments = entries.text("acknowledgments");
        if acknowledgments.is_some() && router == RouterKind::Static {
            let what = "routes make no copies that could end";
            let error = document.fault(entries.line_of("acknowledgments"), what);
            return Err(error.with_hint("leave it out, or take another router"));
        }
        let acknowledgments = acknowledgments.and_then(Acknowledgments::named);
        let acknowledgments = acknowledgments.unwrap_or_else(|| router.acknowledgments());
        let drop = entries.text("drop").and_then(DropPolicy::named);
        if drop.is_some() && router == RouterKind::Static {
            let error = document.fault(entries.line_of("drop"), "routes make no copies");
            return Err(error.with_hint("leave it out, or take another router"));
        }
        for node in network.nodes(document, entries, "node")? {
            for &to in &destinations {
                if !known.insert((node, to)) {
                    let name = network.nodes.get(node.0).map_or("", |node| &node.name);
                    let what = format!("'{name}' has two routers for one destination");
                    let error = document.fault(entries.line_of("router"), what);
                    return Err(error.with_hint("leave one out"));
                }
                all.push(Routing {
                    node,
                    to,
                    router,
                    copies,
                    acknowledgments,
                    drop: drop.unwrap_or_default(),
                });
            }
        }
    }
    Ok(all)
}

/// A route leads to another node over a link, and is there once.
fn check(
    document: &Document<'_>,
    entries: &Entries,
    network: &Network,
    (others, route): (&[Route], Route),
) -> Result<(), FileError> {
    let Route { node, to, via, .. } = route;
    let names = [node, to, via].map(|it| network.nodes.get(it.0).map_or("", |node| &node.name));
    let [name, to_name, via_name] = names;
    let is_same = |it: &Route| (it.node, it.to, it.via) == (node, to, via);
    let (key, what, hint) = if node == to {
        let what = format!("a route of '{name}' leads to '{name}'");
        ("to", what, "a node needs no route to itself")
    } else if network.link_between((node, via)).is_none() {
        let what = format!("no link joins '{name}' and '{via_name}'");
        ("via", what, "'via' is a neighbour of whose route it is")
    } else if others.iter().any(is_same) {
        let what = format!("'{name}' has two routes to '{to_name}' via '{via_name}'");
        ("via", what, "leave one out: it has one priority")
    } else {
        return Ok(());
    };
    Err(document.fault(entries.line_of(key), what).with_hint(hint))
}
