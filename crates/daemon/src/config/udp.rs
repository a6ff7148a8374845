//! Links and listeners over UDP: the keys that mean something there, and what they say.

use dhow_bundle::protocol::{OnSent, Protocol, Transport, UdpPolicy};
use dhow_document::schema::Section;
use dhow_document::{Document, Entries, FileError};

use super::schema::SECTIONS;

/// Keys that a link over UDP may have.
const LINK_KEYS: &[&str] = &[
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
    "order",
    "accept_relayed",
    "relay",
    "accept_sources",
];

/// Keys that a listener over UDP may have: nobody is known there.
const LISTENER_KEYS: &[&str] = &["protocol", "address", "reading", "relay", "accept_sources"];

/// Keys that only links over UDP have.
const UDP_KEYS: &[&str] = &["mtu", "rate", "on_sent"];

/// The convergence layer of a section of links or listeners, with default settings.
pub(super) fn protocol_of(entries: &Entries) -> Protocol {
    let named = entries.text("protocol").and_then(Protocol::named);
    named.unwrap_or_default()
}

/// The service that carries the bundles of a section of links or listeners.
pub(super) fn transport_of(entries: &Entries) -> Transport {
    protocol_of(entries).transport()
}

/// Keys of sections of links or listeners that mean nothing over what carries their bundles.
pub(super) fn meaningless(section: &str, transport: Transport) -> impl Iterator<Item = &str> {
    let of_udp = keys_over_udp(section);
    let schema = SECTIONS.iter().filter(move |it| it.name == section);
    let keys = schema.flat_map(Section::keys).map(|key| key.name);
    keys.filter(move |key| match transport {
        Transport::Udp => !of_udp.contains(key),
        Transport::Tcp => UDP_KEYS.contains(key),
    })
}

fn keys_over_udp(section: &str) -> &'static [&'static str] {
    match section {
        "link" => LINK_KEYS,
        _ => LISTENER_KEYS,
    }
}

/// Refuse keys of links and listeners that mean nothing over what carries their bundles.
///
/// # Errors
/// There is such a key; the first is named.
pub(super) fn check_keys(document: &Document<'_>) -> Result<(), FileError> {
    for section in ["link", "listen"] {
        for entries in document.all(section) {
            let transport = transport_of(entries);
            let Some(key) = meaningless(section, transport).find(|key| entries.has(key)) else {
                continue;
            };
            let (what, hint) = match transport {
                Transport::Udp => (
                    format!("'{key}' means nothing over UDP"),
                    format!(
                        "with protocol = \"udp\" there are: {}",
                        keys_over_udp(section).join(", ")
                    ),
                ),
                Transport::Tcp => (
                    format!("'{key}' means nothing without UDP"),
                    "remove it, or write protocol = \"udp\"".to_owned(),
                ),
            };
            return Err(document.fault(entries.line_of(key), what).with_hint(hint));
        }
    }
    Ok(())
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

/// The policy of a link over UDP.
///
/// # Errors
/// A value is out of its bounds, or nobody is named as the peer.
pub(super) fn read_udp(
    document: &Document<'_>,
    entries: &Entries,
    usual: UdpPolicy,
) -> Result<UdpPolicy, FileError> {
    if !entries.has("peer") {
        return Err(document
            .fault(
                entries.line_of("protocol"),
                "a link over UDP needs a 'peer': nobody says there who it is",
            )
            .with_hint("for example: peer = \"ipn:3.0\""));
    }
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
        on_sent: entries
            .text("on_sent")
            .and_then(OnSent::named)
            .unwrap_or(usual.on_sent),
    })
}
