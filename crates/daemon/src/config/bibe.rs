//! Links that carry bundles in others, in a node file.

use dhow_bundle::protocol::{BibeDialect, BibePolicy};
use dhow_document::Entries;
use dhow_document::schema::{Absent, Key, Kind, key};

use super::file::millis;

/// Keys that a link has where it carries bundles in others.
pub(super) const KEYS: &[Key] = &[DIALECT, CUSTODY, LATENCY, SIGNAL_DELAY];

/// The codes of the peer's program.
const DIALECT: Key = key(
    "dialect",
    Kind::Choice(BibeDialect::NAMES),
    Absent::Means("\"draft\" with protocol = \"bibe\""),
    "\"draft\"",
    "With BIBE, the codes that the peer's program uses: those of draft-ietf-dtn-bibect-03, or of ION, DTNME or uD3TN (docs/bibe.md).",
);

/// Whether bundles stay until the peer has them.
const CUSTODY: Key = key(
    "custody",
    Kind::Boolean,
    Absent::Means("false with protocol = \"bibe\""),
    "true",
    "With BIBE, whether each bundle stays here until a custody signal of the peer covers it, and is sent again if none comes in time ([custody] retry).",
);

/// The time to the peer.
const LATENCY: Key = key(
    "latency",
    Kind::Duration,
    Absent::Means("0s with protocol = \"bibe\""),
    "\"4s\"",
    "With BIBE, the time that a bundle takes to the peer: custody signals are awaited for twice that longer, and sent earlier.",
);

/// The time that signals wait.
const SIGNAL_DELAY: Key = key(
    "signal_delay",
    Kind::Duration,
    Absent::Means("15s with protocol = \"bibe\""),
    "\"15s\"",
    "With BIBE, the time for which a custody signal to the peer waits to cover more bundles, unless the peer wants it sooner.",
);

/// The policy of a link.
pub(super) fn read_bibe(entries: &Entries) -> BibePolicy {
    let usual = BibePolicy::default();
    let dialect = entries.text(DIALECT.name).and_then(BibeDialect::named);
    let duration = |key: &Key, usual: u64| match entries.has(key.name) {
        true => millis(entries.duration(key.name)),
        false => usual,
    };
    BibePolicy {
        dialect: dialect.unwrap_or(usual.dialect),
        custody: entries.is_true(CUSTODY.name),
        latency_ms: duration(&LATENCY, usual.latency_ms),
        delay_ms: duration(&SIGNAL_DELAY, usual.delay_ms),
    }
}
