//! The section `[telemetry]`: metrics and traces for an OpenTelemetry collector (docs/telemetry.md).

use std::time::Duration;

use dhow_document::schema::{Absent, Key, Kind, Occurs, Section, key, with_default};
use dhow_document::{Document, Entries, FileError};

use crate::telemetry::{Endpoint, TelemetrySettings};

/// The section.
pub(super) const SECTION: Section = Section {
    name: "telemetry",
    occurs: Occurs::Once,
    meaning: "Traces of bundles and metrics for an OpenTelemetry collector, in a program with the feature \"otlp\" (docs/telemetry.md).",
    groups: &[KEYS],
};

const KEYS: &[Key] = &[
    key(
        "endpoint",
        Kind::Text,
        Absent::Means("nothing is told"),
        "\"http://127.0.0.1:4318\"",
        "The collector, by OTLP over HTTP; \"/v1/traces\" and \"/v1/metrics\" are appended. Nothing there is encrypted: a collector on this machine sends on.",
    ),
    with_default(
        "sample",
        Kind::Part,
        "0.01",
        "The part of all bundles that is traced, 0 to 1. All nodes with the same value trace the same bundles.",
    ),
    with_default(
        "metrics",
        Kind::Boolean,
        "true",
        "Whether the metrics of the admin interface are told, too.",
    ),
    with_default(
        "interval",
        Kind::Duration,
        "\"15s\"",
        "Time between two tellings of metrics, from 100ms.",
    ),
];

/// The shortest interval at which metrics are told.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Reads it; nothing is told where it names no collector.
///
/// # Errors
/// An endpoint that cannot be one, an interval that is too short, or a program without the feature.
pub(super) fn read_telemetry(
    document: &Document<'_>,
) -> Result<Option<TelemetrySettings>, FileError> {
    let entries = &document.one("telemetry")?;
    let Some(text) = entries.text("endpoint") else {
        return Ok(None);
    };
    if !cfg!(feature = "otlp") {
        return Err(lacking(document, entries));
    }
    let endpoint = Endpoint::parse(text).map_err(|error| {
        document
            .fault_of(
                entries,
                "endpoint",
                format!("'{text}' is not an endpoint: {error}"),
            )
            .with_hint(error.hint())
    })?;
    let interval = entries.duration("interval");
    if interval < INTERVAL_MIN {
        let what = "'interval' must be at least 100ms";
        return Err(document.fault_of(entries, "interval", what));
    }
    Ok(Some(TelemetrySettings {
        endpoint,
        sample_billionths: entries.part("sample").unwrap_or(0),
        metrics: entries.is_true("metrics"),
        interval,
    }))
}

/// The program cannot do what the section asks for.
fn lacking(document: &Document<'_>, entries: &Entries) -> FileError {
    let what = "[telemetry] needs the feature 'otlp', which this program was built without";
    document
        .fault_of(entries, "endpoint", what)
        .with_hint("the Debian package and the wheel have it; `cargo build -p dhow --features otlp` builds a program with it")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::NodeFile;

    fn read(section: &str) -> Result<Option<TelemetrySettings>, String> {
        let text = format!("[node]\nid = \"ipn:1.0\"\n{section}");
        let file = NodeFile::parse(&text, Path::new("node.toml"));
        file.map(|it| it.telemetry)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn without_an_endpoint_nothing_is_told() {
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("[telemetry]\nsample = 1\n"), Ok(None));
    }

    #[cfg(not(feature = "otlp"))]
    #[test]
    fn a_program_without_the_feature_refuses_the_section_and_names_the_feature() {
        let refused = read("[telemetry]\nendpoint = \"http://c\"\n").unwrap_err();
        assert!(refused.contains("needs the feature 'otlp'"), "{refused}");
        assert!(refused.contains("node.toml:4"), "{refused}");
    }

    #[cfg(feature = "otlp")]
    #[test]
    fn an_endpoint_alone_is_enough() {
        let settings = read("[telemetry]\nendpoint = \"http://127.0.0.1:4318\"\n");
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.sample_billionths, 10_000_000);
        assert!(settings.metrics);
        assert_eq!(settings.interval, Duration::from_secs(15));
    }

    #[cfg(feature = "otlp")]
    #[test]
    fn what_cannot_be_is_refused() {
        for (section, said) in [
            ("endpoint = \"https://c.example:4318\"", "no TLS"),
            ("endpoint = \"127.0.0.1:4318\"", "http://"),
            (
                "endpoint = \"http://c/\"\ninterval = \"99ms\"",
                "at least 100ms",
            ),
            ("endpoint = \"http://c\"\nsample = 1.5", "0 to 1"),
        ] {
            let refused = read(&format!("[telemetry]\n{section}\n")).unwrap_err();
            assert!(refused.contains(said), "{section}: {refused}");
        }
    }
}
