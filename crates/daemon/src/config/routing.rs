//! `[[route]]` and `[[routing]]`: the ways that bundles leave by.

use dhow_bundle::NodeId;
use dhow_bundle::eid::EidPattern;
use dhow_document::schema::{Absent, Key, Kind, Occurs, Section, key, required, with_default};
use dhow_document::{Document, Entries, FileError, nearest};
use dhow_node::config::{
    Acknowledgments, COPIES as USUAL_COPIES, DropPolicy, LinkConfig, Route, RouterKind, Routing,
};

use super::external::{NAME as PROGRAM_NAME, ROUTERS};

/// The section `[[route]]`.
pub(super) const ROUTE: Section = Section {
    name: "route",
    occurs: Occurs::Many,
    meaning: "The link over which bundles for certain destinations leave. A session that is up is the best route to its own peer. Of routes, the one with the most specific pattern is used first, and of those the one of the highest priority.",
    groups: &[&[
        required(
            "to",
            Kind::Text,
            "\"ipn:4.*\"",
            "Endpoint-ID pattern of destinations (docs/patterns.md).",
        ),
        required(
            "via",
            Kind::Text,
            "\"gamma\"",
            "Name of a link, or the node ID of a peer: then any session with it will do.",
        ),
        with_default(
            "priority",
            Kind::Integer(-0x8000_0000, 0x7fff_ffff),
            "0",
            "Of equally specific patterns, the route of the highest priority is used first, and of equal ones the first in the file. A bundle that may not go there, since it came from there or does not fit, takes the next one.",
        ),
    ]],
};

/// Reads a `[[route]]`.
pub(super) fn read_route(
    document: &Document<'_>,
    entries: &Entries,
    links: &[LinkConfig],
) -> Result<Route, FileError> {
    let to = read_pattern(document, entries)?;
    let via = entries.text("via").unwrap_or_default();
    if !links.iter().any(|link| link.name == via) && via.parse::<NodeId>().is_err() {
        let error = document.fault(
            entries.line_of("via"),
            format!("no [[link]] is named '{via}'"),
        );
        return Err(
            match nearest(via, links.iter().map(|link| link.name.as_str())) {
                Some(name) => error.with_hint(format!("did you mean '{name}'?")),
                None => error.with_hint("a route leads over a [[link]] of this file, by its name"),
            },
        );
    }
    let priority = entries
        .integer("priority")
        .and_then(|priority| i32::try_from(priority).ok())
        .unwrap_or(0);
    Ok(Route {
        to,
        via: via.to_owned(),
        priority,
    })
}

/// The copies of a `[[routing]]`.
const COPIES: Key = key(
    "copies",
    Kind::Integer(1, 65_536),
    Absent::Means("8"),
    "8",
    "With router = \"spray-and-wait\", the copies of a bundle that is made here; the same wherever the node file says it.",
);

/// The nodes whose acknowledgments end copies.
const ACKNOWLEDGMENTS: Key = key(
    "acknowledgments",
    Kind::Choice(Acknowledgments::NAMES),
    Absent::Means("none with flood and programs, else verified"),
    "\"verified\"",
    "The nodes that are believed when they say that a bundle has reached its destination, so that copies of it are deleted and no more are made: the destination's node alone when it takes the bundle itself (none), also neighbours whose node ID TLS has proven and those whose own bundle it is (verified), or all nodes (anyone; docs/adverts.md).",
);

/// The copies that make room for others.
const DROP: Key = with_default(
    "drop",
    Kind::Choice(DropPolicy::NAMES),
    "\"none\"",
    "The copies that a full store deletes to make room for incoming bundles; none: it refuses them. Bundles that were made here stay, except with first-of-all and last-of-all: then no other node may have them (docs/routing.md).",
);

/// The section `[[routing]]`.
pub(super) const ROUTING: Section = Section {
    name: "routing",
    occurs: Occurs::Many,
    meaning: "Router, which decides which neighbours get bundles. The section with the most specific pattern that matches a destination decides; if none matches, [[route]] does.",
    groups: &[&[
        required(
            "to",
            Kind::Text,
            "\"ipn:*.*\"",
            "Endpoint-ID pattern of destinations (docs/patterns.md).",
        ),
        required(
            "router",
            Kind::Choice(ROUTERS),
            "\"flood\"",
            "Routes, one neighbour at a time; flood: each neighbour gets a copy, once, and one stays here until the bundle expires or its destination's node has it; spray-and-wait: so many copies, and no more; prophet: neighbours that have met the destination's node more often; epidemic: flood, and copies end once the bundle is where it was to go; maxprop: the same, bundles of few hops and likely paths first (docs/routing.md); or a program of its own. Bundles without a source go by routes.",
        ),
        COPIES,
        ACKNOWLEDGMENTS,
        DROP,
        PROGRAM_NAME,
    ]],
};

/// Reads a `[[routing]]`.
pub(super) fn read_routing(
    document: &Document<'_>,
    entries: &Entries,
) -> Result<Routing, FileError> {
    let router = entries.text("router").and_then(RouterKind::named);
    let router = router.unwrap_or_default();
    let copies = entries.integer("copies");
    if copies.is_some() && router != RouterKind::SprayAndWait {
        let what = format!("'{}' does not count copies", router.name());
        return Err(document
            .fault(entries.line_of("copies"), what)
            .with_hint("'copies' is a key of router = \"spray-and-wait\""));
    }
    let copies = copies.and_then(|it| u32::try_from(it).ok());
    let acknowledgments = entries.text("acknowledgments");
    if acknowledgments.is_some() && router == RouterKind::Static {
        return Err(document
            .fault(
                entries.line_of("acknowledgments"),
                "routes make no copies that could end",
            )
            .with_hint("leave it out, or take another router"));
    }
    let acknowledgments = acknowledgments.and_then(Acknowledgments::named);
    let drop = entries.text("drop").and_then(DropPolicy::named);
    let drop = drop.unwrap_or_default();
    if drop != DropPolicy::None && router == RouterKind::Static {
        return Err(document
            .fault(entries.line_of("drop"), "routes make no copies")
            .with_hint("leave it out, or take another router"));
    }
    Ok(Routing {
        drop,
        to: read_pattern(document, entries)?,
        router,
        acknowledgments: acknowledgments.unwrap_or_else(|| router.acknowledgments()),
        copies: copies.unwrap_or(USUAL_COPIES),
    })
}

/// The pattern of destinations.
pub(super) fn read_pattern(
    document: &Document<'_>,
    entries: &Entries,
) -> Result<String, FileError> {
    let to = entries.text("to").unwrap_or_default();
    to.parse::<EidPattern>().map_err(|error| {
        document
            .fault(
                entries.line_of("to"),
                format!("'{to}' is not an endpoint-ID pattern: {error}"),
            )
            .with_hint("patterns look like \"ipn:4.*\" or \"dtn://delta/**\" (docs/patterns.md)")
    })?;
    Ok(to.to_owned())
}
