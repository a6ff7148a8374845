//! Logs on stderr, and how a store's losses read there.

use std::io::{self, IsTerminal as _, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use dhow_store::{Count, Loss};
use tracing_subscriber::EnvFilter;

/// Why logging could not be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoggingError {
    /// The filter is not one.
    #[error("'{filter}' is not a log filter: {why}")]
    BadFilter {
        /// The filter as given.
        filter: String,
        /// The fault of the filter.
        why: String,
    },
    /// Something else logs already.
    #[error("logging is set up already")]
    AlreadySet,
}

/// Lines that stderr did not take since it last took one.
static UNTAKEN: AtomicU64 = AtomicU64::new(0);

/// A sink of lines: a disk that is full or a reader that is gone costs the line, and nothing else.
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Taken before it is told: two threads never tell the same lines.
        let untaken = UNTAKEN.swap(0, Ordering::Relaxed);
        if untaken > 0 {
            let notice = format!("{untaken} lines of the log could not be written\n");
            if self.0.write_all(notice.as_bytes()).is_err() {
                UNTAKEN.fetch_add(untaken, Ordering::Relaxed);
            }
        }
        if self.0.write_all(line).is_err() {
            UNTAKEN.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether another filter may take the place of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filtering {
    /// The node file's holds, and another may follow.
    ByFile,
    /// The filter stays, whatever the node file says.
    Fixed,
}

/// Changes the filter of what logs, where it may be changed.
static CHANGE: OnceLock<Box<dyn Fn(EnvFilter) -> bool + Send + Sync>> = OnceLock::new();

fn read_filter(filter: &str) -> Result<EnvFilter, LoggingError> {
    EnvFilter::builder()
        .parse(filter)
        .map_err(|error| LoggingError::BadFilter {
            filter: filter.to_owned(),
            why: error.to_string(),
        })
}

/// Refuse a filter that is none.
///
/// # Errors
/// When it is malformed.
pub fn check(filter: &str) -> Result<(), LoggingError> {
    read_filter(filter).map(drop)
}

/// Log to stderr what `filter` lets through (`info`, `debug`, `dhow_daemon=trace,info`, …). Colours are
/// used on a terminal only, and never with `NO_COLOR`.
///
/// # Errors
/// When the filter is malformed or logging is set up already.
pub fn init(filter: &str, filtering: Filtering) -> Result<(), LoggingError> {
    let filter = read_filter(filter)?;
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Lines(io::stderr()))
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal() && !no_color);
    let set = match filtering {
        Filtering::Fixed => subscriber.try_init(),
        Filtering::ByFile => {
            let subscriber = subscriber.with_filter_reloading();
            let handle = subscriber.reload_handle();
            let change = move |filter| handle.reload(filter).is_ok();
            // A second attempt to set up logging is refused below.
            let _ = CHANGE.set(Box::new(change));
            subscriber.try_init()
        }
    };
    set.map_err(|_| LoggingError::AlreadySet)
}

/// Another filter holds from now on, where the first is not fixed and this one is a filter.
pub fn change(filter: &str) {
    let Some(change) = CHANGE.get() else {
        return;
    };
    if !read_filter(filter).is_ok_and(change) {
        tracing::warn!(filter, "the filter of the log stays as it was");
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
            "the store's log is shorter than it is known to have been"
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many writes, and then none.
    struct Full(usize, Vec<u8>);

    impl Write for &mut Full {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
            self.1.extend_from_slice(octets);
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_nobody_takes_are_counted_and_told() {
        let mut full = Full(1, Vec::new());
        for line in ["one\n", "two\n", "three\n"] {
            Lines(&mut full).write_all(line.as_bytes()).unwrap();
        }
        full.0 = 100;
        for line in ["four\n", "five\n"] {
            Lines(&mut full).write_all(line.as_bytes()).unwrap();
        }
        let text = String::from_utf8(full.1).unwrap();
        assert_eq!(
            text,
            "one\n2 lines of the log could not be written\nfour\nfive\n"
        );
    }
}
