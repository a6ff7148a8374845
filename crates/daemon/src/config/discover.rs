//! `[[discover]]`: neighbours that are found by their beacons (docs/discovery.md).

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use dhow_bundle::eid::EidPattern;
use dhow_bundle::protocol::Protocol;
use dhow_document::schema::{Absent, Kind, Occurs, Section, key, with_default};
use dhow_document::{Document, Entries, FileError, nearest};
use dhow_link::discovery::Format;
use dhow_node::config::{DiscoverConfig, LinkConfig};
use dhow_node::discovery::config::service_of;

use super::file::{DialSettings, enabled, millis, small};
use super::policy::read_patterns;

/// The port of beacons of an address that names none.
const DEFAULT_PORT: u16 = 4551;

/// Destinations of one entry, at most.
const DESTINATIONS_MAX: usize = 32;

/// A link as it is where nothing is said of it: of its protocol beacons do not tell the version.
pub(super) const USUAL_LINK: &str =
    "[[link]]\nname = \"found\"\naddress = \"[::]:4556\"\nprotocol = \"auto\"\n";

/// The section `[[discover]]`.
pub(super) const SECTION: Section = Section {
    name: "discover",
    occurs: Occurs::Many,
    meaning: "Neighbours that are found by their beacons and dialled, and beacons by which they find this node (docs/discovery.md). A neighbour that is heard no more, and has no session, is forgotten.",
    groups: &[&[
        with_default(
            "address",
            Kind::TextList,
            "[\"224.0.0.142:4551\", \"[ff02::142]:4551\"]",
            "Addresses to which beacons are sent, and at whose ports they are heard: multicast groups, which are joined, broadcast (\"255.255.255.255:4551\" is that of each interface) or one host's. Without a port 4551.",
        ),
        key(
            "interfaces",
            Kind::TextList,
            Absent::Means("all that are up, but the loopback interface"),
            "[\"eth0\"]",
            "Names of the interfaces on which multicast and broadcast beacons are sent, and groups joined.",
        ),
        with_default(
            "format",
            Kind::ChoiceList(Format::NAMES),
            "[\"ipnd-0x04\"]",
            "Formats of the beacons that are sent, one datagram each. All are heard, but \"dtn2\" only where it is sent too.",
        ),
        with_default(
            "period",
            Kind::Duration,
            "\"1s\"",
            "Time between two beacons to one address, from 100ms to 1h; beacons say it in whole seconds, rounded up. Neighbours forget this node after two of them, and a quarter.",
        ),
        with_default(
            "announce",
            Kind::Boolean,
            "true",
            "Whether beacons are sent.",
        ),
        with_default(
            "listen",
            Kind::Boolean,
            "true",
            "Whether beacons are heard.",
        ),
        key(
            "accept",
            Kind::TextList,
            Absent::Means("every node is"),
            "[\"ipn:[1-99].*\"]",
            "Endpoint-ID patterns of the node IDs that may be found.",
        ),
        with_default(
            "neighbours",
            Kind::Integer(1, 1024),
            "256",
            "Neighbours known at a time, at most. One address may announce 16 of them, and 4 new ones a second; all addresses together, 32 new ones a second.",
        ),
        key(
            "like",
            Kind::Text,
            Absent::Means("a link with the defaults, and protocol \"auto\""),
            "\"gamma\"",
            "Name of the [[link]] whose settings links to found neighbours have, except name, address and 'peer' (the announced node). That link may have enabled = false.",
        ),
    ]],
};

/// Destinations of beacons, and the rest that the drivers need of an entry.
#[derive(Clone, Debug)]
pub struct DiscoverSettings {
    /// Addresses to which beacons are sent.
    pub destinations: Vec<SocketAddr>,
    /// Interfaces of multicast and broadcast; empty for all that are up, but loopback ones.
    pub interfaces: Vec<String>,
    /// Formats of beacons that are sent.
    pub formats: Vec<Format>,
    /// The way in which links that are found are dialled; host and port are those of the beacon.
    pub dial: DialSettings,
}

/// Reads all `[[discover]]`; `usual` is the link of those that name none.
pub(super) fn read_discover(
    document: &Document<'_>,
    links: &[(LinkConfig, DialSettings)],
    usual: impl Fn(&Document<'_>) -> Result<(LinkConfig, DialSettings), FileError>,
) -> Result<Vec<(DiscoverConfig, DiscoverSettings)>, FileError> {
    let entries = document.all("discover");
    entries
        .map(|entries| {
            let link = match entries.text("like") {
                Some(name) => template(document, entries, links, name)?,
                None => usual(&Document::read(
                    Path::new("found"),
                    USUAL_LINK,
                    super::schema::SECTIONS,
                )?)?,
            };
            read_entry(document, entries, link)
        })
        .collect()
}

fn template(
    document: &Document<'_>,
    entries: &Entries,
    links: &[(LinkConfig, DialSettings)],
    name: &str,
) -> Result<(LinkConfig, DialSettings), FileError> {
    let line = entries.line_of("like");
    let Some(found) = links.iter().find(|(link, _)| link.name == name) else {
        let error = document.fault(line, format!("no [[link]] is named '{name}'"));
        let names = links.iter().map(|(link, _)| link.name.as_str());
        return Err(match nearest(name, names) {
            Some(name) => error.with_hint(format!("did you mean '{name}'?")),
            None => error.with_hint("it is a [[link]] of this file, by its name"),
        });
    };
    let protocol = found.0.protocol;
    if service_of(protocol).is_none() {
        let what = format!("beacons have no name for protocol \"{}\"", protocol.name());
        return Err(document.fault(line, what).with_hint(format!(
            "links like one of \"{}\", \"udp\" or \"mtcp\" can be found",
            Protocol::Auto.name()
        )));
    }
    Ok(found.clone())
}

fn read_entry(
    document: &Document<'_>,
    entries: &Entries,
    (link, dial): (LinkConfig, DialSettings),
) -> Result<(DiscoverConfig, DiscoverSettings), FileError> {
    let destinations = read_destinations(document, entries)?;
    let formats: Vec<_> = (entries.list("format").iter())
        .filter_map(|name| Format::named(name))
        .collect();
    let announces = entries.is_true("announce");
    if announces && formats.is_empty() {
        let what = "'format' is empty: no beacon could be sent";
        return Err(document
            .fault(entries.line_of("format"), what)
            .with_hint("write announce = false to send none"));
    }
    if !announces && !entries.is_true("listen") {
        let what = "neither 'announce' nor 'listen' is true: nobody would find anybody";
        return Err(document.fault(entries.line_of("listen"), what));
    }
    let period_ms = millis(entries.duration("period"));
    if !(DiscoverConfig::PERIOD_MS_MIN..=3_600_000).contains(&period_ms) {
        return Err(document.fault(
            entries.line_of("period"),
            "'period' must be from 100ms to 1h",
        ));
    }
    let usual = DiscoverConfig::usual(link);
    let config = DiscoverConfig {
        accept: read_accept(document, entries)?,
        announce: enabled(announces),
        listen: enabled(entries.is_true("listen")),
        dtn2: enabled(formats.contains(&Format::Dtn2)),
        period_ms,
        destinations: u32::try_from(destinations.len()).unwrap_or(u32::MAX),
        neighbours: small(entries, "neighbours").unwrap_or(usual.neighbours),
        ..usual
    };
    let settings = DiscoverSettings {
        destinations,
        interfaces: entries.list("interfaces").to_vec(),
        formats,
        dial,
    };
    Ok((config, settings))
}

/// The patterns of the node IDs that may be found.
fn read_accept(document: &Document<'_>, entries: &Entries) -> Result<Vec<String>, FileError> {
    const KEY: &str = "accept";
    let line = entries.line_of(KEY);
    if entries.has(KEY) && entries.list(KEY).is_empty() {
        return Err(document
            .fault(line, format!("'{KEY}' names nobody"))
            .with_hint(
                "without the key every node may be found; for example: accept = [\"ipn:[1-99].*\"]",
            ));
    }
    let patterns = read_patterns(document, entries, KEY)?;
    for pattern in patterns.iter().filter_map(|it| it.parse().ok()) {
        let mut sets = EidPattern::sets(&pattern).map(|(_, set)| set);
        if let Some(set) = sets.find(|set| !set.has_node_ids()) {
            return Err(document
                .fault(line, format!("'{set}' matches no node ID"))
                .with_hint("a node ID is ipn:5.0 or dtn://beta/; patterns look like \"ipn:5.*\" or \"dtn://beta/*\""));
        }
    }
    Ok(patterns)
}

fn read_destinations(
    document: &Document<'_>,
    entries: &Entries,
) -> Result<Vec<SocketAddr>, FileError> {
    let line = entries.line_of("address");
    let texts = entries.list("address");
    if texts.is_empty() || texts.len() > DESTINATIONS_MAX {
        let what = format!("'address' must name 1 to {DESTINATIONS_MAX} addresses");
        return Err(document.fault(line, what));
    }
    let read = |text: &String| {
        let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let address = bare.unwrap_or(text).parse::<IpAddr>();
        let address = address.map(|it| SocketAddr::new(it, DEFAULT_PORT));
        let parsed = address.or_else(|_| text.parse::<SocketAddr>()).ok();
        let parsed = parsed.filter(|it| it.port() != 0 && !it.ip().is_unspecified());
        parsed.ok_or_else(|| {
            document
                .fault(line, format!("'{text}' is not an address of beacons"))
                .with_hint("addresses look like \"224.0.0.142:4551\" or \"[ff02::142]:4551\"")
        })
    };
    texts.iter().map(read).collect()
}
