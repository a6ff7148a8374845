//! `protocol = "ltp"`: the keys of links and listeners over LTP (docs/ltp.md).

use dhow_bundle::NodeId;
use dhow_bundle::protocol::{
    Aggregation, LtpAuthentication, LtpPolicy, Protocol, RedPart, UdpPolicy,
};
use dhow_document::quantity::parse_size;
use dhow_document::schema::{Absent, Key, Kind, key};
use dhow_document::{Document, Entries, FileError};

use super::file::{millis, small};
use super::protocol::{on_sent, protocol_of};

/// Keys that only a link over LTP has, as the schema has them.
pub(super) const KEYS: &[Key] = &[
    key(
        "engine",
        Kind::Integer(0, i64::MAX),
        Absent::Means("over LTP the node number of the node's first ipn ID"),
        "2",
        "Over LTP, the engine ID of this node (RFC 5326 2).",
    ),
    key(
        "remote_engine",
        Kind::Integer(0, i64::MAX),
        Absent::Means("over LTP the node number of the 'peer'"),
        "3",
        "Over LTP, the engine ID of the peer.",
    ),
    key(
        "red",
        Kind::Text,
        Absent::Means("\"all\" over LTP"),
        "\"all\"",
        "Over LTP, the part of each block that is acknowledged and sent again where it is lost: \"all\", \"none\", or octets from its start, as in \"10kB\". A bundle of which a part is green is done with when it has left (see 'on_sent').",
    ),
    key(
        "light_time",
        Kind::Duration,
        Absent::Means("50ms over LTP"),
        "\"4min\"",
        "Over LTP, the one-way light time to the peer, from which the time follows in which it must have answered. Planned contacts with the peer say it instead, where there are any.",
    ),
    key(
        "largest_block",
        Kind::Size,
        Absent::Means("1TiB over LTP, and no more than 'transfer_mru'"),
        "\"64MiB\"",
        "Over LTP, octets of a block at most, both ways, from 1024 to 1TiB; larger bundles leave as fragments. Peers that take less cancel larger blocks: HDTN those above its maxBundleSizeBytes.",
    ),
    key(
        "key",
        Kind::Path,
        Absent::Means("segments are not authenticated"),
        "\"relay.key\"",
        "Over LTP, a file with a key of 10 to 64 octets as hexadecimal digits, which the peer has too: segments, both ways, are authenticated by HMAC-SHA1-80 (RFC 5327 2.1), and dropped where they are not. Or a file of PEM with this node's private key of RSA and the peer's public key: by RSA-SHA256.",
    ),
    key(
        "blocks",
        Kind::Integer(1, 65_536),
        Absent::Means("1024 over LTP"),
        "1024",
        "Over LTP, blocks that are under way at a time in each direction, at most.",
    ),
    key(
        "aggregate",
        Kind::Boolean,
        Absent::Means("false over LTP"),
        "true",
        "Over LTP, whether small bundles that wait leave as one block where all of it is red. Dhow and ION take such blocks; HDTN keeps one bundle of each and acknowledges all.",
    ),
];

/// The names of the keys of LTP.
pub(super) const LTP_KEYS: &[&str] = &[
    "engine",
    "remote_engine",
    "red",
    "light_time",
    "largest_block",
    "key",
    "blocks",
    "aggregate",
];

/// Keys that a link over LTP may have.
pub(super) const LTP_LINK_KEYS: &[&str] = &[
    "name",
    "protocol",
    "address",
    "peer",
    "engine",
    "remote_engine",
    "red",
    "light_time",
    "largest_block",
    "key",
    "blocks",
    "aggregate",
    "mtu",
    "rate",
    "on_sent",
    "enabled",
    "dial",
    "transfer_mru",
    "window",
    "window_bundles",
    "cut_through",
    "reading",
    "fragment",
    "strip_checksum",
    "bundle_versions",
    "age_dialect",
    "order",
    "accept_relayed",
    "relay",
    "accept_sources",
    "accept_rate",
    "accept_bundles",
    "held",
    "held_bundles",
];

/// Keys that a listener over LTP may have: only links' peers are heard there.
pub(super) const LTP_LISTENER_KEYS: &[&str] = &["protocol", "address"];

/// The settings of a link over LTP.
///
/// # Errors
/// A value is out of its bounds.
pub(super) fn read_ltp(
    document: &Document<'_>,
    entries: &Entries,
    usual: LtpPolicy,
) -> Result<LtpPolicy, FileError> {
    let refuse = |key, what: String, hint| {
        let fault = document.fault(entries.line_of(key), what);
        Err(fault.with_hint(hint))
    };
    let mtu_octets = entries.size("mtu").unwrap_or(usual.mtu_octets);
    let (least, most) = (UdpPolicy::MTU_MIN, UdpPolicy::MTU_MAX);
    if !(least..=most).contains(&mtu_octets) {
        let what = format!("'mtu' must be from {least} to {most} octets");
        return refuse("mtu", what, "for example: mtu = 1400");
    }
    let octets_per_s = entries.rate("rate").unwrap_or(usual.octets_per_s);
    if octets_per_s == 0 {
        let what = "'rate' is 0: nothing would leave".to_owned();
        return refuse("rate", what, "for example: rate = \"10Mbit\"");
    }
    let block_octets = entries.size("largest_block").unwrap_or(usual.block_octets);
    let (least, most) = (LtpPolicy::BLOCK_MIN, LtpPolicy::BLOCK_MAX);
    if !(least..=most).contains(&block_octets) {
        let what = format!("'largest_block' must be from {least} to {most} octets");
        return refuse(
            "largest_block",
            what,
            "for example: largest_block = \"64MiB\"",
        );
    }
    let red = match entries.text("red") {
        None => usual.red,
        Some("all") => RedPart::All,
        Some("none") => RedPart::None,
        Some(text) => match parse_size(text) {
            Ok(octets) => RedPart::Octets(octets),
            Err(error) => {
                let what = format!("'{text}' is not a red part: {error}");
                let hint = "write \"all\", \"none\", or octets as in red = \"10kB\"";
                return refuse("red", what, hint);
            }
        },
    };
    let light_time = entries.duration_if_set("light_time");
    let number = |key| small::<u64>(entries, key);
    Ok(LtpPolicy {
        engine: number("engine"),
        remote_engine: number("remote_engine"),
        red,
        mtu_octets,
        octets_per_s,
        light_time_ms: light_time.map_or(usual.light_time_ms, millis),
        block_octets,
        blocks: small(entries, "blocks").unwrap_or(usual.blocks),
        on_sent: on_sent(entries, usual.on_sent),
        authentication: match entries.has("key") {
            true => LtpAuthentication::Key,
            false => LtpAuthentication::None,
        },
        aggregation: match entries.is_true("aggregate") {
            true => Aggregation::Shared,
            false => Aggregation::Alone,
        },
    })
}

/// Both engines of each link over LTP have an ID.
///
/// # Errors
/// One has none: neither the file says it, nor has the node a number.
pub(super) fn check_engines(document: &Document<'_>, own: &[NodeId]) -> Result<(), FileError> {
    let links = document.all("link");
    for entries in links.filter(|it| matches!(protocol_of(it), Protocol::Ltp(_))) {
        let peer = entries
            .text("peer")
            .and_then(|it| it.parse::<NodeId>().ok());
        let has_number = [
            ("engine", own.iter().any(|it| it.number().is_some())),
            (
                "remote_engine",
                peer.is_some_and(|it| it.number().is_some()),
            ),
        ];
        for (key, is_known) in has_number {
            if is_known || entries.has(key) {
                continue;
            }
            let whose = match key {
                "engine" => "this node",
                _ => "its 'peer'",
            };
            let what = format!("the link over LTP lacks '{key}': {whose} has no number");
            let fault = document.fault(entries.line_of("protocol"), what);
            return Err(fault.with_hint(format!(
                "LTP knows engines by numbers, as of ipn:3.0; for example: {key} = 3"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dhow_bundle::protocol::OnSent;

    use super::*;
    use crate::config::NodeFile;

    const LINK: &str = "[[link]]\nname = \"gamma\"\naddress = \"192.0.2.3\"\nprotocol = \"ltp\"\npeer = \"ipn:3.0\"\n";

    fn parse(own: &str, more: &str) -> Result<NodeFile, String> {
        let text = format!("[node]\nid = \"{own}\"\n{LINK}{more}\n");
        NodeFile::parse(&text, Path::new("node.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_link_over_ltp_has_its_own_port_and_settings() {
        let file = parse("ipn:2.0", "").unwrap();
        assert_eq!(file.dial[0].port, 1113);
        // Only an operator who knows that the peer takes several bundles from a block says so.
        let usual = Protocol::Ltp(LtpPolicy {
            aggregation: Aggregation::Alone,
            ..LtpPolicy::default()
        });
        assert_eq!(file.node.links[0].protocol, usual);
        let more = "engine = 7\nremote_engine = 8\nred = \"10kB\"\nlight_time = \"4min\"\nlargest_block = \"1MiB\"\nblocks = 3\naggregate = true\nmtu = 128\nrate = \"8kbit\"\non_sent = \"keep\"";
        let policy = LtpPolicy {
            engine: Some(7),
            remote_engine: Some(8),
            red: RedPart::Octets(10_000),
            mtu_octets: 128,
            octets_per_s: 1_000,
            light_time_ms: 240_000,
            block_octets: 1 << 20,
            blocks: 3,
            aggregation: Aggregation::Shared,
            on_sent: OnSent::Keep,
            ..LtpPolicy::default()
        };
        let file = parse("ipn:2.0", more).unwrap();
        assert_eq!(file.node.links[0].protocol, Protocol::Ltp(policy));
    }

    #[test]
    fn a_key_is_found_beside_the_node_file() {
        let file = parse("ipn:2.0", "key = \"relay.key\"").unwrap();
        assert_eq!(file.dial[0].key, Some("relay.key".into()));
        let Protocol::Ltp(policy) = file.node.links[0].protocol else {
            panic!("a link over LTP");
        };
        assert_eq!(policy.authentication, LtpAuthentication::Key);
    }

    #[test]
    fn what_means_nothing_over_ltp_is_refused() {
        for (own, more, what) in [
            ("ipn:2.0", "red = \"some\"", "'some' is not a red part"),
            ("ipn:2.0", "mtu = 127", "'mtu' must be from 128"),
            ("ipn:2.0", "rate = \"0bit\"", "'rate' is 0"),
            (
                "ipn:2.0",
                "largest_block = 1023",
                "'largest_block' must be from 1024",
            ),
            ("ipn:2.0", "sessions = 2", "'sessions' means nothing"),
            ("dtn://b/", "", "lacks 'engine': this node has no number"),
            (
                "ipn:2.0",
                "[[link]]\nname = \"d\"\naddress = \"h\"\nprotocol = \"ltp\"\npeer = \"dtn://d/\"",
                "lacks 'remote_engine': its 'peer' has no number",
            ),
            (
                "ipn:2.0",
                "[[link]]\nname = \"t\"\naddress = \"h\"\nblocks = 2",
                "'blocks' means nothing without protocol = \"ltp\"",
            ),
        ] {
            let said = parse(own, more).unwrap_err();
            assert!(said.contains(what), "{said}");
        }
        assert!(parse("dtn://b/", "engine = 2").is_ok());
    }
}
