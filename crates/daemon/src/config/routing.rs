//! `[[route]]` and `[[routing]]`: the ways that bundles leave by.

use dhow_bundle::NodeId;
use dhow_bundle::eid::EidPattern;
use dhow_document::{Document, Entries, FileError, nearest};
use dhow_node::config::{LinkConfig, Route, RouterKind, Routing};

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

/// Reads a `[[routing]]`.
pub(super) fn read_routing(
    document: &Document<'_>,
    entries: &Entries,
) -> Result<Routing, FileError> {
    Ok(Routing {
        to: read_pattern(document, entries)?,
        router: (entries.text("router"))
            .and_then(RouterKind::named)
            .unwrap_or_default(),
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
                format!("'{to}' is no endpoint-ID pattern: {error}"),
            )
            .with_hint("patterns look like \"ipn:4.*\" or \"dtn://delta/**\" (docs/patterns.md)")
    })?;
    Ok(to.to_owned())
}
