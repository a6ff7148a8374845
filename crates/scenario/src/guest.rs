//! Nodes on the host of another, and links over the wire of another.

use dhow_document::schema::Section;
use dhow_document::{Document, Entries, FileError};

use crate::network::Network;
use crate::scenario::NodeIndex;
use crate::schema::SECTIONS;

/// Keys of a node that are its host's.
const HOST_ONLY: [&str; 6] = [
    "cpu",
    "cpu_from",
    "cpu_until",
    "memory",
    "disk_rate",
    "disk_operations",
];

/// Keys that a link over the wire of another has; all others are of the wire.
const OVER_ONLY: [&str; 4] = ["between", "name", "over", "retry"];

/// Puts nodes onto the hosts that they name.
///
/// # Errors
/// When there is no such host, or a node says of its host what that one says itself.
pub(crate) fn read_hosts(document: &Document<'_>, network: &mut Network) -> Result<(), FileError> {
    for entries in document.all("node") {
        let Some(host) = entries.text("host") else {
            continue;
        };
        let wrong = |what: String, hint: String| {
            let error = document.fault(entries.line_of("host"), what);
            Err(error.with_hint(hint))
        };
        let name = entries.text("name").unwrap_or_default();
        let guest = network.node(document, entries, "name", name)?;
        let owner = network.node(document, entries, "host", host)?;
        if guest == owner {
            let hint = "without 'host' a node has one of its own".to_owned();
            return wrong(format!("'{name}' is its own host"), hint);
        }
        let others = document.all("node");
        let mut guests = others.filter(|it| it.text("name") == Some(host) && it.has("host"));
        if let Some(first) = guests.next().and_then(|it| it.text("host")) {
            let hint = format!("host = \"{first}\"");
            return wrong(format!("'{host}' is itself on the host of '{first}'"), hint);
        }
        // Keys of all nodes may be set at once, to the same.
        let said = document
            .all("node")
            .find(|it| it.text("name") == Some(host));
        let differs = |key: &&&str| {
            let as_host = said.is_some_and(|said| is_same(said, entries, key));
            entries.has(key) && !as_host
        };
        if let Some(key) = HOST_ONLY.iter().find(differs) {
            let what = format!("'{key}' is of a host, and '{name}' is on that of '{host}'");
            let error = document.fault(entries.line_of(key), what);
            return Err(error.with_hint(format!("say it of '{host}', whose limits hold for both")));
        }
        network.put_on_host(guest, owner);
    }
    Ok(())
}

/// Whether a key says the same in two sections.
fn is_same(one: &Entries, other: &Entries, key: &str) -> bool {
    one.text(key) == other.text(key)
        && one.size(key) == other.size(key)
        && one.count(key) == other.count(key)
        && one.duration_if_set(key) == other.duration_if_set(key)
}

/// Adds a link that shares the wire of another, which is there already.
///
/// # Errors
/// When there is no such wire between the two hosts, or the link says of it what the other says itself.
pub(crate) fn read_link_over(
    document: &Document<'_>,
    entries: &Entries,
    between: (NodeIndex, NodeIndex),
    network: &mut Network,
) -> Result<(), FileError> {
    let over = network.link(document, entries, "over")?;
    let section = SECTIONS.iter().find(|section| section.name == "link");
    let mut keys = section
        .into_iter()
        .flat_map(Section::keys)
        .map(|key| key.name);
    if let Some(key) = keys.find(|key| entries.has(key) && !OVER_ONLY.contains(key)) {
        let what = format!("'{key}' is of a wire, and this link has none of its own ('over')");
        let hint = "say it of the link whose wire it is; its contacts are that one's too";
        return Err(document.fault(entries.line_of(key), what).with_hint(hint));
    }
    let retry = entries.has("retry").then(|| entries.duration("retry"));
    let name = entries.text("name");
    let added = network.add_link_over(between, name, over, retry);
    added.map(drop).map_err(|what| {
        let hint = "'over' is a link with a wire of its own, between the same two hosts";
        let error = document.fault(entries.line_of("over"), what);
        error.with_hint(hint)
    })
}
