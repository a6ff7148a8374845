//! The convergence layers of links and listeners: the keys that mean something with each, and their meaning where it is not TCPCL.

use dhow_bundle::protocol::{Framing, OnSent, Protocol, StcpPolicy, Transport, UdpPolicy};
use dhow_document::schema::Section;
use dhow_document::{Document, Entries, FileError};
use dhow_node::config::SessionPolicy;

use super::address::{LTP_PORT, TCPCL_PORT};
use super::bibe::read_bibe;
use super::ltp::{LTP_KEYS, LTP_LINK_KEYS, LTP_LISTENER_KEYS, read_ltp};
use super::schema::SECTIONS;

/// The interval of keep-alives where the file says nothing, seconds: that of ION and DTNME.
const STCP_KEEPALIVE_S: u16 = 15;

/// Keys that a link over UDP may have.
const UDP_LINK_KEYS: &[&str] = &[
    "name",
    "protocol",
    "address",
    "peer",
    "mtu",
    "rate",
    "on_sent",
    "enabled",
    "dial",
    "reading",
    "fragment",
    "strip_checksum",
    "bundle_versions",
    "age_dialect",
    "order",
    "accept_relayed",
    "relay",
    "accept_sources",
    "highest_priority",
    "accept_rate",
    "accept_bundles",
    "held",
    "held_bundles",
];

/// Keys that a listener over UDP may have: nobody is known there.
const UDP_LISTENER_KEYS: &[&str] = &[
    "protocol",
    "address",
    "reading",
    "relay",
    "accept_sources",
    "highest_priority",
    "accept_rate",
    "accept_bundles",
    "held",
    "held_bundles",
];

/// Keys that a link of STCP or MTCP may have: it only sends.
const STCP_LINK_KEYS: &[&str] = &[
    "name",
    "protocol",
    "address",
    "peer",
    "on_sent",
    "keepalive",
    "enabled",
    "dial",
    "sessions",
    "backoff_min",
    "backoff_max",
    "connect_timeout",
    "path_check",
    "stall_timeout",
    "idle_timeout",
    "answer_timeout",
    "fragment",
    "window",
    "window_bundles",
    "strip_checksum",
    "bundle_versions",
    "age_dialect",
    "order",
];

/// Keys that a listener of STCP or MTCP may have: it only receives.
const STCP_LISTENER_KEYS: &[&str] = &[
    "protocol",
    "address",
    "connections_per_address",
    "peer",
    "stall_timeout",
    "transfer_mru",
    "idle_timeout",
    "answer_timeout",
    "transfer_timeout",
    "reading",
    "accept_relayed",
    "relay",
    "accept_sources",
    "highest_priority",
    "accept_rate",
    "accept_bundles",
    "held",
    "held_bundles",
];

/// Keys that a link may have that carries bundles in others: it has no connection.
const BIBE_LINK_KEYS: &[&str] = &[
    "name",
    "protocol",
    "peer",
    "dialect",
    "custody",
    "latency",
    "signal_delay",
    "enabled",
    "dial",
    "window",
    "window_bundles",
    "reading",
    "strip_checksum",
    "bundle_versions",
    "age_dialect",
    "order",
    "accept_relayed",
    "relay",
    "accept_sources",
    "highest_priority",
    "accept_rate",
    "accept_bundles",
    "held",
    "held_bundles",
];

/// Keys that links of TCPCL do not have.
const OTHERS_KEYS: &[&str] = &[
    "engine",
    "remote_engine",
    "red",
    "light_time",
    "largest_block",
    "blocks",
    "aggregate",
    "mtu",
    "rate",
    "on_sent",
    "dialect",
    "custody",
    "latency",
    "signal_delay",
];

/// The convergence layer of a section of links or listeners, with default settings.
pub(super) fn protocol_of(entries: &Entries) -> Protocol {
    let named = entries.text("protocol").and_then(Protocol::named);
    named.unwrap_or_default()
}

/// The service that carries the bundles of a section of links or listeners.
pub(super) fn transport_of(entries: &Entries) -> Transport {
    protocol_of(entries).transport()
}

/// The port of an address of a section of links or listeners that names none.
pub(super) fn usual_port(entries: &Entries) -> u16 {
    match protocol_of(entries) {
        Protocol::Ltp(_) => LTP_PORT,
        _ => TCPCL_PORT,
    }
}

/// Keys of sections of links or listeners that mean nothing with a convergence layer.
pub(super) fn meaningless(section: &str, protocol: Protocol) -> impl Iterator<Item = &str> {
    let schema = SECTIONS.iter().filter(move |it| it.name == section);
    let keys = schema.flat_map(Section::keys).map(|key| key.name);
    let meaningful = keys_with(section, protocol);
    keys.filter(move |key| match meaningful {
        Some(meaningful) => !meaningful.contains(key) || !has_key(protocol, key),
        None => OTHERS_KEYS.contains(key),
    })
}

/// The keys that a convergence layer may have; `None` for all but those of others.
fn keys_with(section: &str, protocol: Protocol) -> Option<&'static [&'static str]> {
    match (protocol, section) {
        (Protocol::Tcpcl4 | Protocol::Tcpcl3 | Protocol::Auto, _) => None,
        (Protocol::Udp(_), "link") => Some(UDP_LINK_KEYS),
        (Protocol::Udp(_), _) => Some(UDP_LISTENER_KEYS),
        (Protocol::Ltp(_), "link") => Some(LTP_LINK_KEYS),
        (Protocol::Ltp(_), _) => Some(LTP_LISTENER_KEYS),
        (Protocol::Stcp(_), "link") => Some(STCP_LINK_KEYS),
        (Protocol::Stcp(_), _) => Some(STCP_LISTENER_KEYS),
        // Nobody listens: no listener has it.
        (Protocol::Bibe(_), _) => Some(BIBE_LINK_KEYS),
        // No file names it.
        (Protocol::Program, _) => None,
    }
}

/// Only the deployed form of STCP has keep-alives.
fn has_key(protocol: Protocol, key: &str) -> bool {
    match protocol {
        Protocol::Stcp(policy) => key != "keepalive" || policy.framing.has_keepalive(),
        _ => true,
    }
}

/// Refuse keys of links and listeners that mean nothing with their convergence layer.
///
/// # Errors
/// There is such a key; the first is named.
pub(super) fn check_keys(document: &Document<'_>) -> Result<(), FileError> {
    for section in ["link", "listen"] {
        for entries in document.all(section) {
            let protocol = protocol_of(entries);
            let Some(key) = meaningless(section, protocol).find(|key| entries.has(key)) else {
                continue;
            };
            let name = protocol.name();
            let what = match (protocol, key) {
                (Protocol::Udp(_), _) => format!("'{key}' means nothing over UDP"),
                (Protocol::Ltp(_) | Protocol::Stcp(_) | Protocol::Bibe(_), _) => {
                    format!("'{key}' means nothing with protocol = \"{name}\"")
                }
                (_, "on_sent") => format!("'{key}' means nothing where peers acknowledge"),
                (_, "dialect" | "custody" | "latency" | "signal_delay") => {
                    format!("'{key}' means nothing without protocol = \"bibe\"")
                }
                (_, key) if LTP_KEYS.contains(&key) => {
                    format!("'{key}' means nothing without protocol = \"ltp\"")
                }
                _ => format!("'{key}' means nothing without UDP"),
            };
            let hint = match keys_with(section, protocol) {
                Some(keys) => {
                    let keys = keys.iter().filter(|key| has_key(protocol, key)).copied();
                    let keys: Vec<&str> = keys.collect();
                    format!("with protocol = \"{name}\" there are: {}", keys.join(", "))
                }
                None if BIBE_LINK_KEYS.contains(&key) => {
                    "remove it, or write protocol = \"bibe\"".to_owned()
                }
                None if LTP_KEYS.contains(&key) => {
                    "remove it, or write protocol = \"ltp\"".to_owned()
                }
                None => "remove it, or write protocol = \"udp\"".to_owned(),
            };
            return Err(document.fault(entries.line_of(key), what).with_hint(hint));
        }
    }
    Ok(())
}

/// The policy of the sessions of a link or listener of STCP or MTCP, where the file says less of it than of others.
pub(super) fn settle(entries: &Entries, framing: Framing, policy: &mut SessionPolicy) {
    if !framing.has_keepalive() {
        policy.keepalive_s = 0;
    } else if !entries.has("keepalive") {
        policy.keepalive_s = STCP_KEEPALIVE_S;
    }
}

/// The convergence layer of a link, whole.
///
/// # Errors
/// A value is out of its bounds, or nobody is named as a peer that does not say who it is.
pub(super) fn read_protocol(
    document: &Document<'_>,
    entries: &Entries,
) -> Result<Protocol, FileError> {
    let protocol = protocol_of(entries);
    if !protocol.tells_peer() && !entries.has("peer") {
        let what = match protocol {
            Protocol::Udp(_) => {
                "a link over UDP needs a 'peer': nobody says there who it is".into()
            }
            _ => {
                let name = protocol.name();
                format!(
                    "a link with protocol = \"{name}\" needs a 'peer': nobody says there who it is"
                )
            }
        };
        return Err(document
            .fault(entries.line_of("protocol"), what)
            .with_hint("for example: peer = \"ipn:3.0\""));
    }
    Ok(match protocol {
        Protocol::Udp(usual) => Protocol::Udp(read_udp(document, entries, usual)?),
        Protocol::Ltp(usual) => Protocol::Ltp(read_ltp(document, entries, usual)?),
        Protocol::Stcp(usual) => Protocol::Stcp(StcpPolicy {
            on_sent: on_sent(entries, usual.on_sent),
            ..usual
        }),
        Protocol::Bibe(_) => Protocol::Bibe(read_bibe(entries)),
        protocol => protocol,
    })
}

pub(super) fn on_sent(entries: &Entries, usual: OnSent) -> OnSent {
    let named = entries.text("on_sent").and_then(OnSent::named);
    named.unwrap_or(usual)
}

/// A rate as it is written: octets a second in bits.
pub(super) fn written_rate(octets_per_s: u64) -> String {
    let bits = u128::from(octets_per_s) * 8;
    let units = [
        ("Gbit", 1_000_000_000),
        ("Mbit", 1_000_000),
        ("kbit", 1_000),
    ];
    let fits = units.iter().find(|(_, unit)| bits.is_multiple_of(*unit));
    let (name, unit) = fits.copied().unwrap_or(("bit", 1));
    format!("{}{name}", bits / unit)
}

fn read_udp(
    document: &Document<'_>,
    entries: &Entries,
    usual: UdpPolicy,
) -> Result<UdpPolicy, FileError> {
    let mtu_octets = entries.size("mtu").unwrap_or(usual.mtu_octets);
    let (least, most) = (UdpPolicy::MTU_MIN, UdpPolicy::MTU_MAX);
    if !(least..=most).contains(&mtu_octets) {
        return Err(document
            .fault(
                entries.line_of("mtu"),
                format!("'mtu' must be from {least} to {most} octets"),
            )
            .with_hint("for example: mtu = 1472, which fills a packet of Ethernet over IPv4"));
    }
    let octets_per_s = entries.rate("rate").unwrap_or(usual.octets_per_s);
    if octets_per_s == 0 {
        return Err(document
            .fault(entries.line_of("rate"), "'rate' is 0: nothing would leave")
            .with_hint("for example: rate = \"10Mbit\""));
    }
    Ok(UdpPolicy {
        mtu_octets,
        octets_per_s,
        on_sent: on_sent(entries, usual.on_sent),
    })
}
