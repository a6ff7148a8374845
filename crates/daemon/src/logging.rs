//! Logs on stderr, and how a node's occurrences read there.

use std::io::IsTerminal as _;

use dhow_link::stream::DownReason;
use dhow_node::door::Occurrence;
use dhow_store::{Count, Loss};
use tracing_subscriber::EnvFilter;

/// Why logging could not be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoggingError {
    /// The filter is not one.
    #[error("'{filter}' is no log filter: {why}")]
    BadFilter {
        /// As given.
        filter: String,
        /// What is wrong with it.
        why: String,
    },
    /// Something else logs already.
    #[error("logging is set up already")]
    AlreadySet,
}

/// Log to stderr what `filter` lets through (`info`, `debug`, `dhow_daemon=trace,info`, …). Colours are
/// used on a terminal only, and never with `NO_COLOR`.
///
/// # Errors
/// When the filter is malformed or logging is set up already.
pub fn init(filter: &str) -> Result<(), LoggingError> {
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|error| LoggingError::BadFilter {
            filter: filter.to_owned(),
            why: error.to_string(),
        })?;
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && !no_color)
        .try_init()
        .map_err(|_| LoggingError::AlreadySet)
}

/// Log what happened in a node: what an operator must know at `info` and above, what happens to single
/// bundles at `debug`.
pub fn log(occurrence: &Occurrence) {
    match occurrence {
        Occurrence::SessionUp {
            stream,
            link,
            parameters,
        } => {
            let direction = if link.is_some() {
                "dialled"
            } else {
                "accepted"
            };
            tracing::info!(stream = stream.0, peer = %parameters.peer, secured = parameters.secured, "session up, {direction}");
        }
        Occurrence::SessionDown { stream, reason, .. } => match reason {
            DownReason::Terminated(_) | DownReason::Disconnected => {
                tracing::info!(stream = stream.0, "session down: {}", reason);
            }
            _ => tracing::warn!(stream = stream.0, "session down: {}", reason),
        },
        Occurrence::Received { id, from, octets } => {
            tracing::debug!(%id, %from, octets, "bundle received")
        }
        Occurrence::Created { id, octets } => tracing::debug!(%id, octets, "bundle created"),
        Occurrence::Duplicate { id } => tracing::debug!(%id, "bundle came again"),
        Occurrence::Forwarded { id, to, octets } => {
            tracing::debug!(%id, %to, octets, "bundle forwarded")
        }
        Occurrence::Delivered {
            id,
            endpoint,
            octets,
        } => tracing::debug!(%id, %endpoint, octets, "bundle delivered"),
        Occurrence::Deleted { id, reason } => tracing::info!(%id, reason, "bundle deleted"),
        Occurrence::RefusedIncoming { from, reason, why } => {
            tracing::warn!(%from, ?reason, "bundle refused: {why}")
        }
        Occurrence::RefusedOutgoing { id, to, reason } => {
            tracing::warn!(%id, %to, ?reason, "the neighbour refused a bundle")
        }
        Occurrence::ReportSuppressed => tracing::debug!("status report not made: too many"),
        Occurrence::StoreRefused { refusal } => {
            tracing::warn!(?refusal, "the store refused octets")
        }
        Occurrence::Quarantined { id } => {
            tracing::error!(%id, "bundle is damaged on disk and in quarantine")
        }
        Occurrence::ClockJumped { milliseconds } => {
            tracing::warn!(milliseconds, "the wall clock jumped")
        }
        Occurrence::ClientClosed { stream, reason } => tracing::debug!(
            stream = stream.0,
            "application's connection ended: {reason}"
        ),
        #[allow(unreachable_patterns, reason = "a node may learn to tell more")]
        other => tracing::debug!("{other:?}"),
    }
}

/// Tells of what was durable and is not in the store any more.
pub fn lost(loss: &Loss) {
    if loss.is_empty() {
        return;
    }
    for place in &loss.places {
        let (position, cause) = (place.position, place.cause.text());
        match &place.id {
            Some(id) => tracing::error!(%id, position, cause, "stored bundle is lost"),
            None => tracing::error!(position, cause, "the store's log is damaged"),
        }
    }
    if loss.places_unlisted > 0 {
        tracing::error!(
            places = loss.places_unlisted,
            "the store's log is damaged in more places"
        );
    }
    if let Some(end) = loss.early_end {
        tracing::error!(
            found = end.found,
            expected = end.expected,
            "the store's log ends before it is known to have reached"
        );
    }
    let bundles = loss.bundles;
    match loss.count {
        Count::Exact => tracing::error!(bundles, "stored bundles are lost to damage on disk"),
        Count::AtLeast => {
            tracing::error!(
                at_least = bundles,
                "stored bundles are lost to damage on disk"
            );
        }
    }
}
