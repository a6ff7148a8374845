//! The octets that a node file cannot mean: values that are each of their kind and contradict one another.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use dhow_bundle::eid::EidPattern;
use dhow_bundle::{NodeId, RouterKind};

use super::address::{split_address, split_address_or};
use dhow_document::{Document, Entries, FileError};

use super::contacts::check_contacts;
use super::measure::REPORTS_SERVICE;
use super::protocol::{transport_of, usual_port};
use dhow_bundle::protocol::Transport;

/// Octets of the operators' token, at least: shorter ones are guessed within hours by an attacker who may try as fast as the node answers.
const TOKEN_OCTETS_MIN: usize = 6;

/// Refuse what no node could do.
///
/// # Errors
/// When the file says something of that kind; the first such thing is named.
pub(super) fn check_sense(document: &Document<'_>, own: &[NodeId]) -> Result<(), FileError> {
    check_own_ids(document, own)?;
    check_store(document)?;
    check_segment(document)?;
    check_lifetime(document)?;
    check_services(document)?;
    check_peers(document, own)?;
    check_tunnels(document)?;
    check_routes(document, own)?;
    check_routing(document)?;
    check_contacts(document)?;
    check_admin(document)?;
    check_listening(document)?;
    check_dialling(document)
}

fn check_own_ids(document: &Document<'_>, own: &[NodeId]) -> Result<(), FileError> {
    let node = document.one("node")?;
    let twice = own
        .iter()
        .enumerate()
        .find(|(at, id)| own.iter().take(*at).any(|before| before == *id));
    match twice {
        Some((_, id)) => Err(document
            .fault(node.line_of("id"), format!("'id' names {id} twice"))
            .with_hint("write each node ID once")),
        None => Ok(()),
    }
}

fn check_store(document: &Document<'_>) -> Result<(), FileError> {
    let store = document.one("store")?;
    for (key, example) in [("quota", "10GiB"), ("queue", "32MiB")] {
        if store.size(key) == Some(0) {
            return Err(document
                .fault(
                    store.line_of(key),
                    format!("'{key}' is 0: the node could store nothing"),
                )
                .with_hint(format!("for example: {key} = \"{example}\"")));
        }
    }
    Ok(())
}

/// The log's segments fit into the quota.
fn check_segment(document: &Document<'_>) -> Result<(), FileError> {
    let store = document.one("store")?;
    let Some(quota) = store.size("quota") else {
        return Ok(());
    };
    if let Some(octets) = store.size("segment").filter(|octets| *octets > quota) {
        let what = format!("'segment' has {octets} octets, more than the 'quota' of {quota}");
        let hint =
            "a store works in several segments: leave 'segment' out, and it follows from the quota";
        return Err(document
            .fault(store.line_of("segment"), what)
            .with_hint(hint));
    }
    if let Some(octets) = store.size("prepare").filter(|octets| *octets > quota) {
        let what = format!("'prepare' has {octets} octets, more than the 'quota' of {quota}");
        return Err(document
            .fault(store.line_of("prepare"), what)
            .with_hint("leave 'prepare' out, and it follows from the quota"));
    }
    Ok(())
}

/// No two services of the node are at one endpoint.
fn check_services(document: &Document<'_>) -> Result<(), FileError> {
    let (echo, perf) = (document.one("echo")?, document.one("perf")?);
    let mut taken: Vec<(&str, i64)> = Vec::new();
    let measure = document.one("measure")?;
    if measure
        .text("collect")
        .is_some_and(|to| to.starts_with("bundles:"))
    {
        taken.push(("measure", REPORTS_SERVICE));
    }
    for (name, entries) in [("echo", &echo), ("perf", &perf)] {
        let Some(number) = entries.integer("service") else {
            continue;
        };
        if !entries.is_true("enabled") {
            continue;
        }
        if let Some((other, _)) = taken.iter().find(|(_, taken)| *taken == number) {
            // The section that says the number is the one to be told; the other has it by default.
            let line = match entries.line_of("service") {
                0 => echo.line_of("service"),
                line => line,
            };
            return Err(document
                .fault(
                    line,
                    format!("[{other}] and [{name}] both have the service number {number}"),
                )
                .with_hint("each service of a node needs a number of its own; applications have the others"));
        }
        taken.push((name, number));
    }
    Ok(())
}

fn check_lifetime(document: &Document<'_>) -> Result<(), FileError> {
    let api = document.one("api")?;
    if api.duration("default_lifetime").as_millis() == 0 {
        return Err(document
            .fault(
                api.line_of("default_lifetime"),
                "'default_lifetime' is 0: every such bundle would expire at once",
            )
            .with_hint("for example: default_lifetime = \"1d\""));
    }
    Ok(())
}

/// No neighbour is this node itself.
fn check_peers(document: &Document<'_>, own: &[NodeId]) -> Result<(), FileError> {
    for entries in document.all("link").chain(document.all("listen")) {
        let peer = entries.text("peer").unwrap_or_default();
        if is_own(own, peer) {
            return Err(document
                .fault(
                    entries.line_of("peer"),
                    format!("'peer' is {peer}, which is this node"),
                )
                .with_hint("'peer' is the node ID of the other side"));
        }
    }
    Ok(())
}

/// Custody is between two nodes: a peer has one set of codes, and one link that leads to it in bundles.
fn check_tunnels(document: &Document<'_>) -> Result<(), FileError> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let links = document.all("link");
    for entries in links.filter(|it| transport_of(it) == Transport::Bundles) {
        let (peer, line) = (
            entries.text("peer").unwrap_or_default(),
            entries.line_of("peer"),
        );
        if let Some(before) = seen.insert(peer, line) {
            return Err(document
                .fault(
                    line,
                    format!(
                        "the link with protocol = \"bibe\" in line {before} leads to {peer} too"
                    ),
                )
                .with_hint("a peer needs one link of this kind, over which any routes may lead"));
        }
    }
    Ok(())
}

fn check_routes(document: &Document<'_>, own: &[NodeId]) -> Result<(), FileError> {
    let mut seen: BTreeMap<(EidPattern, &str), usize> = BTreeMap::new();
    for entries in document.all("route") {
        let (to, via) = (
            entries.text("to").unwrap_or_default(),
            entries.text("via").unwrap_or_default(),
        );
        if is_own(own, via) {
            return Err(document
                .fault(
                    entries.line_of("via"),
                    format!("the route leads via {via}, which is this node"),
                )
                .with_hint("'via' is the name of a [[link]] or the node ID of a neighbour; bundles to this node need no route"));
        }
        // A text that is no pattern was refused before.
        let Ok(pattern) = to.parse::<EidPattern>() else {
            continue;
        };
        if let Some(line) = seen.insert((pattern, via), entries.line()) {
            return Err(document
                .fault(
                    entries.line(),
                    format!("the route to '{to}' via '{via}' stands in line {line} already"),
                )
                .with_hint("keep one of the two, with the priority that it is to have"));
        }
    }
    Ok(())
}

fn check_routing(document: &Document<'_>) -> Result<(), FileError> {
    let mut seen: BTreeMap<EidPattern, usize> = BTreeMap::new();
    let sprayed = document.all("routing");
    let sprayed = sprayed.filter(|it| it.text("router") == Some(RouterKind::SprayAndWait.name()));
    let copies: BTreeSet<Option<i64>> = sprayed.map(|it| it.integer("copies")).collect();
    if copies.len() > 1 {
        let last = document.all("routing").last();
        return Err(document
            .fault(
                last.map_or(0, Entries::line),
                "two [[routing]]s have different 'copies'",
            )
            .with_hint(
                "one router decides about all destinations of spray-and-wait: give each the same",
            ));
    }
    for entries in document.all("routing") {
        let to = entries.text("to").unwrap_or_default();
        // A text that is no pattern was refused before.
        let Ok(pattern) = to.parse::<EidPattern>() else {
            continue;
        };
        if let Some(line) = seen.insert(pattern, entries.line()) {
            return Err(document
                .fault(
                    entries.line(),
                    format!("the router of '{to}' stands in line {line} already"),
                )
                .with_hint("keep one of the two"));
        }
    }
    Ok(())
}

fn is_own(own: &[NodeId], text: &str) -> bool {
    text.parse::<NodeId>().is_ok_and(|id| own.contains(&id))
}

fn check_admin(document: &Document<'_>) -> Result<(), FileError> {
    let admin = document.one("admin")?;
    if let Some(token) = admin.text("token").filter(|token| !token.is_empty()) {
        let wrong = match token.len() < TOKEN_OCTETS_MIN {
            true => Some(format!(
                "'token' has {} octets: anybody would guess it",
                token.len()
            )),
            false if !token.chars().all(|letter| letter.is_ascii_graphic()) => Some(
                "'token' cannot stand in a request: it has letters that are not ASCII, or spaces"
                    .to_owned(),
            ),
            false => None,
        };
        if let Some(what) = wrong {
            let hint = "for example what `openssl rand -hex 16` prints";
            return Err(document.fault(admin.line_of("token"), what).with_hint(hint));
        }
    }
    if admin.text("token").is_some() && admin.text("tcp").is_none() {
        return Err(document
            .fault(admin.line_of("token"), "'token' guards nothing without 'tcp'")
            .with_hint("for example: tcp = \"127.0.0.1:4243\"; the admin socket is guarded by its file's permissions"));
    }
    Ok(())
}

/// No link leads to a listener of this node.
fn check_dialling(document: &Document<'_>) -> Result<(), FileError> {
    let split = |entries: &Entries| {
        let (host, port) = split_address_or(entries.text("address")?, usual_port(entries))?;
        Some((transport_of(entries), host, port))
    };
    let listeners: Vec<_> = document.all("listen").filter_map(split).collect();
    let mut over_udp: BTreeMap<(String, u16), usize> = BTreeMap::new();
    for entries in document.all("link") {
        let Some((transport, host, port)) = split(entries) else {
            continue;
        };
        let is_own = |(by, own, own_port): &(Transport, String, u16)| {
            (*by, *own_port) == (transport, port) && own.parse::<IpAddr>().is_ok() && *own == host
        };
        if listeners.iter().any(is_own) {
            return Err(document
                .fault(
                    entries.line_of("address"),
                    format!("the link leads to {host} port {port}, where this node itself listens"),
                )
                .with_hint("'address' is where the neighbour listens"));
        }
        // Peers are told apart by their addresses.
        let place = (host, port);
        if transport == Transport::Udp
            && let Some(line) = over_udp.insert(place, entries.line_of("address"))
        {
            return Err(document
                .fault(
                    entries.line_of("address"),
                    format!("the link over UDP in line {line} has this address too"),
                )
                .with_hint("a neighbour needs one link over UDP"));
        }
    }
    Ok(())
}

/// An address that the node is to listen on, and where the file says so.
struct Place {
    transport: Transport,
    host: String,
    port: u16,
    line: usize,
}

/// Addresses have a port where they need one, and none is wanted twice.
fn check_listening(document: &Document<'_>) -> Result<(), FileError> {
    let mut places: Vec<Place> = Vec::new();
    let listeners = document.all("listen").filter_map(|entries| {
        let (host, port) = split_address_or(entries.text("address")?, usual_port(entries))?;
        Some((
            transport_of(entries),
            host,
            port,
            entries.line_of("address"),
        ))
    });
    let (api, admin) = (document.one("api")?, document.one("admin")?);
    let services = [
        service_address(document, &api, "tcp")?,
        service_address(document, &admin, "tcp")?,
        service_address(document, &document.one("http")?, "listen")?,
    ];
    let services = services.into_iter().flatten();
    let services = services.map(|(host, port, line)| (Transport::Tcp, host, port, line));
    for (transport, host, port, line) in listeners.chain(services) {
        let clash = places.iter().find(|other| {
            (other.transport, other.port) == (transport, port)
                && port != 0
                && is_same_host(&other.host, &host)
        });
        if let Some(other) = clash {
            return Err(document
                .fault(
                    line,
                    format!("port {port} of {host} is wanted in line {} already", other.line),
                )
                .with_hint("each [[listen]], [api] tcp, [admin] tcp and [http] listen needs an address or a port of its own"));
        }
        places.push(Place {
            transport,
            host,
            port,
            line,
        });
    }
    Ok(())
}

/// Host, port and line of a section's address, which must name its port: there is no usual one.
fn service_address(
    document: &Document<'_>,
    entries: &Entries,
    key: &str,
) -> Result<Option<(String, u16, usize)>, FileError> {
    let Some(text) = entries.text(key) else {
        return Ok(None);
    };
    let line = entries.line_of(key);
    let port_named = text
        .rsplit_once(':')
        .is_some_and(|(host, port)| port.parse::<u16>().is_ok() && has_whole_host(host));
    match split_address(text).filter(|_| port_named) {
        Some((host, port)) => Ok(Some((host, port, line))),
        None => Err(document
            .fault(line, format!("'{text}' is not an address with a port"))
            .with_hint(format!("for example: {key} = \"127.0.0.1:4242\""))),
    }
}

/// False for the front part of an IPv6 address without brackets.
fn has_whole_host(host: &str) -> bool {
    !host.contains(':') || (host.starts_with('[') && host.ends_with(']'))
}

/// Whether two hosts are one, or one of them is every address of the other's family.
fn is_same_host(a: &str, b: &str) -> bool {
    match (a.parse::<IpAddr>(), b.parse::<IpAddr>()) {
        (Ok(a), Ok(b)) => {
            a == b || (a.is_ipv4() == b.is_ipv4() && (a.is_unspecified() || b.is_unspecified()))
        }
        _ => a.eq_ignore_ascii_case(b),
    }
}
