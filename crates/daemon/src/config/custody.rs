//! Custody of bundles of version 6, in a node file.

use std::time::Duration;

use dhow_document::schema::{Kind, Occurs, Section, with_default};
use dhow_document::{Document, FileError};
use dhow_node::config::{CustodyPolicy, Enabled};

use super::file::millis;

/// The section `[custody]`.
pub(super) const SECTION: Section = Section {
    name: "custody",
    occurs: Occurs::Once,
    meaning: "Custody of bundles of version 6 that ask for it (RFC 5050 5.10): a custodian keeps a bundle until the next one says that it has it.",
    groups: &[&[
        with_default(
            "accept",
            Kind::Boolean,
            "true",
            "Whether this node becomes custodian. If not, such bundles are forwarded as they are.",
        ),
        with_default(
            "aggregate",
            Kind::Boolean,
            "true",
            "Whether bundles leave with a number of this custodian (custody transfer enhancement block), so that one signal may tell of many.",
        ),
        with_default(
            "delay",
            Kind::Duration,
            "\"15s\"",
            "Time for which an aggregate signal waits for others, to travel with them.",
        ),
        with_default(
            "retry",
            Kind::Duration,
            "\"30s\"",
            "A bundle for which no signal came is sent again after this time, at least 1s, twice as long each time up to a day.",
        ),
    ]],
};

/// Below this a bundle would be sent again before any signal can have come, and fill the links.
const RETRY_MIN: Duration = Duration::from_secs(1);

/// Its policy.
///
/// # Errors
/// Bundles would be sent again at once.
pub(super) fn read_custody(document: &Document<'_>) -> Result<CustodyPolicy, FileError> {
    let entries = document.one("custody")?;
    let retry = entries.duration("retry");
    if retry < RETRY_MIN {
        let what = "'retry' must be at least 1s: no signal comes at once";
        return Err(document.fault_of(&entries, "retry", what));
    }
    let enabled = |key: &str| match entries.is_true(key) {
        true => Enabled::Yes,
        false => Enabled::No,
    };
    Ok(CustodyPolicy {
        accept: enabled("accept"),
        aggregate: enabled("aggregate"),
        delay_ms: millis(entries.duration("delay")),
        retry_ms: millis(retry),
    })
}
