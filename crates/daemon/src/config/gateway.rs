//! Peers that take one version of the Bundle Protocol alone, in a node file.

use dhow_document::Entries;
use dhow_document::schema::{Key, Kind, with_default};
use dhow_node::config::{AgeDialect, BundleVersions};

/// The versions that a peer takes.
pub(super) const BUNDLE_VERSIONS: Key = with_default(
    "bundle_versions",
    Kind::NumberList(&[6, 7]),
    "[6, 7]",
    "Versions of the Bundle Protocol that the peer takes: bundles of another leave translated (docs/gateway.md). With both they leave as they are.",
);

/// The age of bundles in version 6.
pub(super) const AGE_DIALECT: Key = with_default(
    "age_dialect",
    Kind::Choice(&["type20", "type10"]),
    "\"type20\"",
    "The type of the block that tells the age of bundles which leave translated into version 6: 20 for ION, HDTN and DTNME, 10 for IBR-DTN and DTN2. With type 10 bundles of version 6 leave without custody ID, which is of that type too.",
);

/// The versions and the dialect of a listener or link.
pub(super) fn read_gateway(entries: &Entries) -> (BundleVersions, AgeDialect) {
    let versions = BundleVersions::of_numbers(entries.numbers(BUNDLE_VERSIONS.name));
    let dialect = match entries.text(AGE_DIALECT.name) {
        Some("type10") => AgeDialect::Type10,
        _ => AgeDialect::Type20,
    };
    (versions.unwrap_or_default(), dialect)
}
