//! Logs on stderr, and how a store's losses read there.

use std::io::IsTerminal as _;

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
        Count::Exact if bundles == 0 => {}
        Count::Exact => tracing::error!(bundles, "stored bundles are lost to damage on disk"),
        Count::AtLeast => {
            tracing::error!(
                at_least = bundles,
                "stored bundles are lost to damage on disk"
            );
        }
    }
}
