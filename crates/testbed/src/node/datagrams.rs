//! Links with datagrams as a node's file has them.

use std::time::Duration;

use dhow_scenario::scenario::{Aggregation, Link, LtpPolicy, Protocol, RedPart, UdpPolicy};

use super::file::Table;
use crate::place::{LINK_MTU_OCTETS, Made};
use crate::toml_text::quoted;

/// Octets of the headers of IPv4 and UDP, and of Ethernet, which the kernel's queues count.
const UDP_HEADERS_OCTETS: u64 = 28;
const ETHERNET_OCTETS: u64 = 14;

/// The end of the last contact: later than that of any run.
const LAST_END: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Keys that links and listeners over UDP have (docs/udpcl.md), and those that only they have: a setting of all links is of those that know it.
pub(super) const UDP_KEYS: &[&str] = &[
    "accept_relayed",
    "accept_sources",
    "age_dialect",
    "bundle_versions",
    "enabled",
    "fragment",
    "highest_priority",
    "mtu",
    "on_sent",
    "order",
    "rate",
    "reading",
    "relay",
    "strip_checksum",
];

/// Keys that links over LTP have.
pub(super) const LTP_KEYS: &[&str] = &[
    "accept_bundles",
    "accept_rate",
    "accept_relayed",
    "accept_sources",
    "age_dialect",
    "aggregate",
    "blocks",
    "bundle_versions",
    "cut_through",
    "dial",
    "enabled",
    "engine",
    "fragment",
    "held",
    "held_bundles",
    "key",
    "largest_block",
    "light_time",
    "mtu",
    "on_sent",
    "order",
    "rate",
    "reading",
    "red",
    "relay",
    "remote_engine",
    "strip_checksum",
    "transfer_mru",
    "window",
    "window_bundles",
];

/// Keys that links with datagrams have, and others have not.
pub(super) const DATAGRAM_KEYS_ALONE: &[&str] = &[
    "aggregate",
    "blocks",
    "engine",
    "key",
    "largest_block",
    "light_time",
    "mtu",
    "on_sent",
    "rate",
    "red",
    "remote_engine",
];

/// A link over UDP. A node leaves to one that keeps a rate no more than it carries: in virtual time the rest waits in the socket, here it would be dropped.
pub(super) fn over_udp(table: Table, udp: UdpPolicy, link: &Link, made: &Made) -> Table {
    let bits = carried_bits(link, made, (udp.mtu_octets, udp.octets_per_s));
    let on_sent = udp.on_sent.name();
    table
        .with("protocol", quoted(link.protocol.name()))
        .with("mtu", udp.mtu_octets.to_string())
        .with("rate", quoted(&format!("{bits}bit")))
        .with("on_sent", quoted(on_sent))
}

/// A link over LTP, whose light time is the link's delay.
pub(super) fn over_ltp(table: Table, ltp: LtpPolicy, link: &Link, made: &Made) -> Table {
    let bits = carried_bits(link, made, (ltp.mtu_octets, ltp.octets_per_s));
    let red = match ltp.red {
        RedPart::All => quoted("all"),
        RedPart::None => quoted("none"),
        RedPart::Octets(octets) => quoted(&format!("{octets}B")),
    };
    table
        .with("protocol", quoted(link.protocol.name()))
        .with("mtu", ltp.mtu_octets.to_string())
        .with("rate", quoted(&format!("{bits}bit")))
        .with("light_time", quoted(&format!("{}ms", ltp.light_time_ms)))
        .with("red", red)
        .with("on_sent", quoted(ltp.on_sent.name()))
        .with(
            "aggregate",
            (ltp.aggregation == Aggregation::Shared).to_string(),
        )
}

/// The contacts of a link over LTP whose light time changes, in both directions, between nodes of these IDs: its ends wait for answers accordingly. Times are
/// behind the start of the node, which is before that of the run.
pub(super) fn contacts(link: &Link, ids: [&str; 2]) -> Vec<Table> {
    let is_planned = link.delay.shortest() != link.delay.longest();
    if !is_planned || !matches!(link.protocol, Protocol::Ltp(_)) {
        return Vec::new();
    }
    let bits = u128::from(link.rate.octets_per_s()) * 8;
    let [here, there] = ids;
    let mut start = Duration::ZERO;
    let mut tables = Vec::new();
    for (end, light_time) in link.delay.ranges() {
        let end = end.unwrap_or(LAST_END);
        // A range of less than a millisecond is none.
        if end.as_millis() <= start.as_millis() {
            continue;
        }
        for (from, to) in [(here, there), (there, here)] {
            let table = Table::many("contact")
                .with("from", quoted(from))
                .with("to", quoted(to))
                .with("start", quoted(&format!("+{}ms", start.as_millis())))
                .with("end", quoted(&format!("+{}ms", end.as_millis())))
                .with("rate", quoted(&format!("{bits}bit")))
                .with(
                    "light_time",
                    quoted(&format!("{}ms", light_time.as_millis().max(1))),
                );
            tables.push(table);
        }
        start = end;
    }
    tables
}

/// Bits of UDP payload in a second, in datagrams of so many octets: no more than the link carries, where it keeps a rate.
fn carried_bits(link: &Link, made: &Made, (mtu_octets, octets_per_s): (u64, u64)) -> u128 {
    let mtu = mtu_octets.min(LINK_MTU_OCTETS - UDP_HEADERS_OCTETS);
    let packet = mtu + UDP_HEADERS_OCTETS + ETHERNET_OCTETS;
    let rate = u128::from(link.rate.octets_per_s()) * u128::from(mtu);
    let carried = match made {
        Made::Veth => u64::MAX,
        _ => u64::try_from(rate / u128::from(packet)).unwrap_or(u64::MAX),
    };
    u128::from(octets_per_s.min(carried).max(1)) * 8
}
