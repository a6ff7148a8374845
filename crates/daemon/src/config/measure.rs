//! The section `[measure]`: the measurements of a node, and their collector.

use std::time::Duration;

use dhow_bundle::{EndpointId, NodeId};
use dhow_document::{Document, FileError};
use dhow_measure::Target;
use dhow_measure::omsp::header::{HeaderError, check_domain, check_sender};

use crate::measuring::{MeasureSettings, Reports, points};

/// The services of a node that its reports are from, of `ipn` (the number after OML's port, where collectors are) and of `dtn` nodes.
const SERVICES: [&str; 2] = ["3004", "measure"];

/// The service of reports, by the number of the port.
pub(super) const REPORTS_SERVICE: i64 = 3004;

/// The shortest interval in which counters are told.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Reads it; nothing is measured where it names no collector. `node_id` measures where nobody else is named.
pub(super) fn read_measure(
    document: &Document<'_>,
    node_id: &str,
) -> Result<Option<MeasureSettings>, FileError> {
    let entries = document.one("measure")?;
    let Some(collect) = entries.text("collect") else {
        return Ok(None);
    };
    let wrong = |key: &str, what: String| document.fault(entries.line_of(key), what);
    let target: Target = collect.parse().map_err(|error| {
        wrong("collect", format!("'collect' cannot be used: {error}"))
            .with_hint("for example: collect = \"tcp:127.0.0.1:3003\"")
    })?;
    let reports = match &target {
        Target::Bundles(endpoint) => {
            if entries.text("token").is_some() {
                let what = "'token' is for a collector at a socket, not for bundles".to_owned();
                return Err(wrong("token", what).with_hint(
                    "leave it out: who may send bundles to the collector's endpoint is for its node to say",
                ));
            }
            let source = reporter(node_id)
                .ok_or_else(|| wrong("collect", format!("'{node_id}' cannot report")))?;
            let destination: EndpointId = endpoint.parse().map_err(|error| {
                wrong(
                    "collect",
                    format!("'{endpoint}' is not an endpoint: {error}"),
                )
                .with_hint("for example: collect = \"bundles:ipn:9.3003\"")
            })?;
            Some(Reports {
                source,
                destination,
                lifetime: entries.duration("lifetime"),
            })
        }
        _ => None,
    };
    let domain = entries.text("domain").unwrap_or_default().to_owned();
    let named = |key: &str, error: &HeaderError| {
        let fault = wrong(key, error.to_string());
        match error.hint() {
            Some(hint) => fault.with_hint(hint),
            None => fault,
        }
    };
    check_domain(&domain).map_err(|error| named("domain", &error))?;
    let sender = entries.text("sender").unwrap_or(node_id).to_owned();
    check_sender(&sender).map_err(|error| named("sender", &error))?;
    let interval = entries.duration("interval");
    if interval < INTERVAL_MIN {
        return Err(wrong(
            "interval",
            "'interval' must be at least 10ms".to_owned(),
        ));
    }
    let mut chosen: Vec<String> = entries
        .list("points")
        .iter()
        .map(ToString::to_string)
        .collect();
    if chosen.is_empty() {
        chosen = points::ALL
            .iter()
            .map(|point| point.name.to_owned())
            .collect();
    }
    Ok(Some(MeasureSettings {
        target,
        domain,
        sender,
        token: entries.text("token").map(str::to_owned),
        points: chosen,
        interval,
        spool_octets: entries
            .size("spool")
            .unwrap_or(dhow_measure::client::SPOOL_OCTETS),
        reports,
    }))
}

/// The endpoint of a node that its reports are from.
fn reporter(node_id: &str) -> Option<EndpointId> {
    let node: NodeId = node_id.parse().ok()?;
    let [number, name] = SERVICES;
    let service = match node.endpoint() {
        EndpointId::Ipn { .. } => number,
        _ => name,
    };
    node.service(service).ok()
}
