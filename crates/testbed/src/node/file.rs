//! The configuration file of each node: keys that follow from the scenario, and its own settings over them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use dhow_bundle::protocol::Transport;
use dhow_bundle::{BundleFlags, Version};
use dhow_scenario::Scenario;
use dhow_scenario::scenario::{
    Clock, Custody, Framing, HostKind, Link, Node, Protocol, StcpPolicy,
};

use super::datagrams::{DATAGRAM_KEYS_ALONE, LTP_KEYS, UDP_KEYS, contacts, over_ltp, over_udp};
use super::route::{Routes, routes};
use crate::failure::LabError;
use crate::place::Layout;
use crate::toml_text::quoted;

/// A segment of a store as the simulator has it by itself: a node on a disk chooses better.
const SIMULATED_SEGMENT_OCTETS: u32 = 1 << 16;

/// Round trips for which sessions wait beside the usual time: lost octets take one more each time.
const PATIENCE_ROUND_TRIPS: u32 = 6;

/// The octets that a node waits for by itself (docs/node.schema.json).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The round trip from which on probes do not tell a lost path from a long one.
const PROBED_MAX: Duration = Duration::from_millis(500);

/// First wait before dialling again, as nodes have it.
const BACKOFF_MIN: Duration = Duration::from_millis(50);

/// The names by which settings know the listeners of other protocols than TCPCL, `listen.udp.KEY`: those of the protocols.
const NAMED_LISTENERS: &[&str] = &["udp", "ltp", "stcp", "stcp-draft", "mtcp"];

/// Keys that links, and those that listeners of STCP and MTCP have (docs/stcp.md).
const ONE_WAY_LINK_KEYS: &[&str] = &[
    "age_dialect",
    "answer_timeout",
    "backoff_max",
    "backoff_min",
    "bundle_versions",
    "connect_timeout",
    "enabled",
    "fragment",
    "idle_timeout",
    "on_sent",
    "order",
    "path_check",
    "sessions",
    "stall_timeout",
    "strip_checksum",
    "window",
    "window_bundles",
];
const ONE_WAY_LISTENER_KEYS: &[&str] = &[
    "accept_relayed",
    "accept_sources",
    "answer_timeout",
    "connections_per_address",
    "highest_priority",
    "idle_timeout",
    "reading",
    "relay",
    "stall_timeout",
    "transfer_mru",
    "transfer_timeout",
];

/// The distance between the ports of a node's listeners, which are more than there are hosts.
const PORTS_BETWEEN: u16 = 10_000;

/// A table of a file, and its keys with their values as TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    section: &'static str,
    is_list: bool,
    keys: Vec<(String, String)>,
}

/// The texts of all nodes' files, in the order of the scenario; empty where there is no node.
///
/// # Errors
/// When traffic has no way, or a node's settings name what its file has not.
pub fn configurations(scenario: &Scenario, layout: &Layout) -> Result<Vec<String>, LabError> {
    let routes = routes(scenario)?;
    check_versions(scenario)?;
    let asked = scenario.traffic.iter();
    let asked = asked.fold(0, |flags, traffic| flags | traffic.reports);
    let texts = (0..).zip(&scenario.nodes).map(|(at, node)| {
        if node.host.kind == HostKind::Command {
            return Ok(String::new());
        }
        let mut tables = tables(scenario, layout, &routes, asked, (at, node));
        for setting in &node.host.settings {
            let setting = setting.replace("{collector}", &layout.collector());
            set(&mut tables, &setting).map_err(|what| {
                let hint =
                    "a setting is SECTION.KEY=VALUE, or link.NAME.KEY=VALUE for one of several";
                LabError::new(format!("node '{}': {what}", node.name)).with_hint(hint)
            })?;
        }
        Ok(text(&tables))
    });
    texts.collect()
}

fn tables(
    scenario: &Scenario,
    layout: &Layout,
    routes: &Routes,
    asked: u64,
    (at, node): (usize, &Node),
) -> Vec<Table> {
    let id = |node: &Node| quoted(&format!("ipn:{}.0", node.number));
    let clock = match node.clock {
        Clock::None => "none",
        Clock::Known { .. } => "system",
    };
    let mut tables = vec![
        Table::once("node")
            .with("id", id(node))
            .with("clock", quoted(clock)),
        store(node),
        Table::once("api").with("socket", quoted("api.sock")),
        Table::once("reports").with("generate", reports(asked)),
    ];
    if node.custody != Custody::default() {
        tables.push(custody(node.custody));
    }
    let ends = |link: &Link| [link.between.0.0, link.between.1.0];
    let mine = scenario
        .links
        .iter()
        .filter(|link| ends(link).contains(&at));
    let longest = mine.map(Link::round_trip).max().unwrap_or_default();
    // RFC 9174 4.7: the smaller interval holds, which is that of the link.
    let port = |host: usize| layout.hosts.get(host).map_or(0, |host| host.port);
    let listener = Table::many("listen")
        .with("address", quoted(&format!("0.0.0.0:{}", port(at))))
        .with("keepalive", quoted("65535s"));
    let speaks = answered(scenario, at).next().flatten();
    tables.push(policy(held_to(listener, speaks), node, longest));
    let is_node = |host: &&Node| host.host.kind != HostKind::Command;
    let others = |link: &Link| {
        let [first, second] = ends(link);
        let way = [(0, first, 1, second), (1, second, 0, first)];
        let mine = way.into_iter().find(|(_, here, ..)| *here == at);
        mine.map(|(own, _, other, there)| (own, other, there))
    };
    let (mut listens, mut hears_blocks) = (false, false);
    let mut framings = BTreeSet::new();
    for (link, place) in scenario.links.iter().zip(&layout.links) {
        let Some((own, other, there)) = others(link) else {
            continue;
        };
        let peer = scenario.nodes.get(there).filter(is_node);
        let (Some(peer), Some(end)) = (peer, place.ends.get(other)) else {
            continue;
        };
        let offset = port_offset(link.protocol);
        let address = quoted(&format!("{}:{}", end.address, port(there) + offset));
        let table = Table::many("link")
            .with("name", quoted(&link.name))
            .with("address", address);
        let table = held_to(table, link.speaks);
        match link.protocol {
            // Bundles go to the side that is dialled: each dials.
            Protocol::Stcp(stcp) => {
                if framings.insert(stcp.framing.name()) {
                    let address = quoted(&format!("0.0.0.0:{}", port(at) + offset));
                    let listener = Table::many("listen");
                    let listener = listener.with("protocol", quoted(stcp.framing.name()));
                    let listener = listener.with("address", address);
                    let mru = node.transfer_mru.to_string();
                    tables.push(listener.with("transfer_mru", mru));
                }
                let table = table.with("peer", id(peer));
                tables.push(one_way(table, stcp, link));
            }
            // Either end has to know the other.
            Protocol::Udp(udp) => {
                if !std::mem::replace(&mut listens, true) {
                    let address = quoted(&format!("0.0.0.0:{}", port(at)));
                    let listener = Table::many("listen").with("protocol", quoted("udp"));
                    tables.push(listener.with("address", address));
                }
                let table = table.with("peer", id(peer));
                tables.push(over_udp(table, udp, link, &place.made));
            }
            // The peers of all links are heard at one listener, from which these links send.
            Protocol::Ltp(ltp) => {
                if !std::mem::replace(&mut hears_blocks, true) {
                    let address = quoted(&format!("0.0.0.0:{}", port(at) + offset));
                    let listener = Table::many("listen").with("protocol", quoted("ltp"));
                    tables.push(listener.with("address", address));
                }
                if node.clock != Clock::None {
                    let ids = [node, peer].map(|node| format!("ipn:{}.0", node.number));
                    tables.extend(contacts(link, [&ids[0], &ids[1]]));
                }
                let table = passing_on(table.with("peer", id(peer)), node);
                tables.push(over_ltp(table, ltp, link, &place.made));
            }
            _ if own == 0 => tables.push(over_tcp(table, node, link)),
            _ => {}
        }
    }
    tables.extend(route_tables(scenario, routes, at));
    let routing = scenario.routing.iter().filter(|it| it.node.0 == at);
    tables.extend(routing.map(|routing| {
        Table::many("routing")
            .with("to", quoted(&routing.pattern(&scenario.nodes)))
            .with("router", quoted(routing.router.name()))
    }));
    tables
}

/// Routes over the fewest links, and those of the scenario, which may give the former another priority. Of equals the first is used.
fn route_tables(scenario: &Scenario, routes: &Routes, at: usize) -> Vec<Table> {
    let written = scenario.routes.iter().filter(|route| route.node.0 == at);
    let written: Vec<_> = written
        .map(|route| (route.to.0, route.via.0, route.priority))
        .collect();
    let found = routes.get(at).into_iter().flatten();
    let found = found.map(|(to, via)| (*to, *via, 0));
    let is_written = |&(to, via, _): &(usize, usize, i32)| {
        written.iter().any(|other| (other.0, other.1) == (to, via))
    };
    let all = found
        .filter(|route| !is_written(route))
        .chain(written.iter().copied());
    let tables = all.filter_map(|(to, via, priority)| {
        let (to, via) = scenario.nodes.get(to).zip(scenario.nodes.get(via))?;
        let table = Table::many("route")
            .with("to", quoted(&format!("ipn:{}.*", to.number)))
            .with("via", quoted(&format!("ipn:{}.0", via.number)));
        Some(match priority {
            0 => table,
            _ => table.with("priority", priority.to_string()),
        })
    });
    tables.collect()
}

fn store(node: &Node) -> Table {
    let table = Table::once("store")
        .with("path", quoted("store"))
        .with("quota", node.quota_octets.to_string())
        .with("quota_bundles", node.quota_bundles.to_string())
        .with("removed_bound", node.removed_bound.to_string());
    let table = match node.source_bundles {
        Some(bundles) => table.with("source_held_bundles", bundles.to_string()),
        None => table,
    };
    match node.segment_octets {
        SIMULATED_SEGMENT_OCTETS => table,
        octets => table.with("segment", octets.to_string()),
    }
}

/// The policy of sessions over links of a round trip.
fn policy(table: Table, node: &Node, round_trip: Duration) -> Table {
    let patience = ANSWER_TIMEOUT + round_trip * PATIENCE_ROUND_TRIPS;
    passing_on(table, node)
        .with("segment_mru", node.segment_mru.to_string())
        .with("transfer_mru", node.transfer_mru.to_string())
        .with(
            "answer_timeout",
            quoted(&format!("{}s", patience.as_secs())),
        )
}

/// A node that stores bundles before they go on says so.
fn passing_on(table: Table, node: &Node) -> Table {
    match node.cut_through {
        true => table,
        false => table.with("cut_through", "false".into()),
    }
}

/// A link that its first node dials.
fn over_tcp(table: Table, node: &Node, link: &Link) -> Table {
    let mut table = dialled(
        table.with("keepalive", quoted(&format!("{}s", link.keepalive_s))),
        link,
    );
    if link.protocol != Protocol::default() {
        table = table.with("protocol", quoted(link.protocol.name()));
    }
    if link.round_trip() > PROBED_MAX {
        table = table.with("path_check", quoted("0s"));
    }
    policy(table, node, link.round_trip())
}

/// A link of STCP or MTCP, which either node dials.
fn one_way(table: Table, stcp: StcpPolicy, link: &Link) -> Table {
    let mut table = dialled(table, link)
        .with("protocol", quoted(stcp.framing.name()))
        .with("on_sent", quoted(stcp.on_sent.name()));
    if stcp.framing.has_keepalive() {
        table = table.with("keepalive", quoted(&format!("{}s", link.keepalive_s)));
    }
    match link.round_trip() > PROBED_MAX {
        true => table.with("path_check", quoted("0s")),
        false => table,
    }
}

/// The pauses between attempts to connect.
fn dialled(table: Table, link: &Link) -> Table {
    let patience = CONNECT_TIMEOUT + link.round_trip() * PATIENCE_ROUND_TRIPS;
    table
        .with("backoff_min", time(BACKOFF_MIN.min(link.retry)))
        .with("backoff_max", time(link.retry))
        .with("connect_timeout", time(patience))
}

/// The distance of a protocol's port from that of TCPCL: a listener has one.
const fn port_offset(protocol: Protocol) -> u16 {
    match protocol {
        Protocol::Stcp(stcp) => match stcp.framing {
            Framing::Stcp => PORTS_BETWEEN,
            Framing::StcpDraft => 2 * PORTS_BETWEEN,
            Framing::Mtcp => 3 * PORTS_BETWEEN,
            Framing::Encapsulation => 5 * PORTS_BETWEEN,
        },
        Protocol::Ltp(_) => 4 * PORTS_BETWEEN,
        _ => 0,
    }
}

/// The versions that the links of TCPCL are held to which a node answers.
fn answered(scenario: &Scenario, at: usize) -> impl Iterator<Item = Option<Version>> {
    let links = scenario.links.iter();
    let answered = links.filter(move |link| {
        let is_called = !link.protocol.is_one_way() && link.protocol.transport() != Transport::Udp;
        is_called && link.between.1.0 == at
    });
    answered.map(|link| link.speaks)
}

/// Refuses links that a node's one listener cannot tell apart.
fn check_versions(scenario: &Scenario) -> Result<(), LabError> {
    for (at, node) in scenario.nodes.iter().enumerate() {
        let mut versions = answered(scenario, at);
        let first = versions.next();
        if versions.any(|other| Some(other) != first) {
            let what = format!(
                "node '{}' answers calls over links of different 'bundle_versions', and has one listener",
                node.name
            );
            let hint = "the first node of 'between' dials: let this one dial the links of one kind";
            return Err(LabError::new(what).with_hint(hint));
        }
    }
    Ok(())
}

/// A link or listener that sends one version alone, where that is so.
fn held_to(table: Table, speaks: Option<Version>) -> Table {
    match speaks {
        Some(version) => table.with("bundle_versions", format!("[{}]", version.number())),
        None => table,
    }
}

fn custody(custody: Custody) -> Table {
    Table::once("custody")
        .with("accept", custody.accepts.to_string())
        .with("aggregate", custody.aggregates.to_string())
        .with("delay", time(custody.delay))
        .with("retry", time(custody.retry))
}

fn reports(asked: u64) -> String {
    let kinds = [
        ("reception", BundleFlags::REPORT_RECEPTION),
        ("forward", BundleFlags::REPORT_FORWARDING),
        ("delivery", BundleFlags::REPORT_DELIVERY),
        ("deletion", BundleFlags::REPORT_DELETION),
    ];
    let wanted = kinds.iter().filter(|(_, flag)| asked & flag.bits() != 0);
    let words: Vec<String> = wanted.map(|(word, _)| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

impl Table {
    const fn once(section: &'static str) -> Self {
        Self {
            section,
            is_list: false,
            keys: Vec::new(),
        }
    }

    pub(super) const fn many(section: &'static str) -> Self {
        Self {
            section,
            is_list: true,
            keys: Vec::new(),
        }
    }

    pub(super) fn with(mut self, key: &str, value: String) -> Self {
        self.put(key, value);
        self
    }

    fn put(&mut self, key: &str, value: String) {
        match self.keys.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key.to_owned(), value)),
        }
    }

    /// Whether a key has a value.
    fn says(&self, key: &str, value: &str) -> bool {
        let found = self.keys.iter().find(|(known, _)| known == key);
        found.is_some_and(|(_, known)| *known == quoted(value))
    }

    /// Whether it is the one of a list that a setting names.
    fn is_called(&self, name: &str) -> bool {
        match self.section {
            "listen" => NAMED_LISTENERS.contains(&name) && self.says("protocol", name),
            _ => self.is_list && self.says("name", name),
        }
    }

    /// Whether it is of STCP or MTCP.
    fn is_one_way(&self) -> bool {
        let mut names = Framing::ALL.into_iter().map(Framing::name);
        names.any(|name| self.says("protocol", name))
    }

    /// Whether a setting of a whole section may be of this one.
    fn may_have(&self, key: &str) -> bool {
        match self.section {
            "link" | "listen" if self.says("protocol", "udp") => UDP_KEYS.contains(&key),
            "link" if self.says("protocol", "ltp") => LTP_KEYS.contains(&key),
            "listen" if self.says("protocol", "ltp") => false,
            "link" if self.is_one_way() => ONE_WAY_LINK_KEYS.contains(&key),
            "listen" if self.is_one_way() => ONE_WAY_LISTENER_KEYS.contains(&key),
            "link" => !DATAGRAM_KEYS_ALONE.contains(&key),
            _ => true,
        }
    }
}

/// Sections of which a file has one at most and that are not written here by themselves.
const OTHER_SECTIONS: [&str; 3] = ["admin", "measure", "tls"];

/// Sets `SECTION.KEY=VALUE`, or of a list `SECTION.NAME.KEY=VALUE`; the node itself says whether it knows the key.
fn set(tables: &mut Vec<Table>, setting: &str) -> Result<(), String> {
    let (path, value) = setting.split_once('=').unwrap_or((setting, ""));
    let (section, rest) = path.trim().split_once('.').unwrap_or((path, ""));
    let (name, key) = match rest.rsplit_once('.') {
        Some((name, key)) => (Some(name), key),
        None => (None, rest),
    };
    if let Some(other) = OTHER_SECTIONS.into_iter().find(|other| *other == section)
        && !tables.iter().any(|table| table.section == other)
    {
        tables.push(Table::once(other));
    }
    let mut found = false;
    for table in tables.iter_mut().filter(|table| table.section == section) {
        let is_meant = match name {
            Some(name) => table.is_called(name),
            None => table.may_have(key),
        };
        if is_meant {
            table.put(key, as_toml(value.trim()));
            found = true;
        }
    }
    match found {
        true => Ok(()),
        false => Err(format!("there is no '{path}' to be set")),
    }
}

/// A value as TOML: numbers, Booleans, lists and texts in quotes as they are; all else as a text.
fn as_toml(value: &str) -> String {
    let is_number = value.parse::<i64>().is_ok();
    let is_whole = value.starts_with(['[', '"', '\'']) || value == "true" || value == "false";
    match is_number || is_whole {
        true => value.to_owned(),
        false => quoted(value),
    }
}

fn time(time: Duration) -> String {
    quoted(&format!("{}ms", time.as_millis()))
}

fn text(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        let (open, close) = if table.is_list {
            ("[[", "]]")
        } else {
            ("[", "]")
        };
        // Writing to a text does not fail.
        let _ = writeln!(text, "{open}{}{close}", table.section);
        for (key, value) in &table.keys {
            let _ = writeln!(text, "{key} = {value}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn written(node: &str) -> Result<Vec<String>, LabError> {
        written_over("", node)
    }

    /// The file with keys of the first link, and of the node that dials it.
    fn written_over(link: &str, node: &str) -> Result<Vec<String>, LabError> {
        let text = format!(
            "[[node]]\nname = \"a\"\n{node}[[node]]\nname = \"b\"\n[[node]]\nname = \"c\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"8Mbit\"\n{link}[[link]]\nbetween = [\"c\", \"b\"]\nrate = \"8Mbit\"\n[[traffic]]\nfrom = \"a\"\nto = \"c\"\nsize = 100\ncount = 1\nreports = [\"forwarding\"]\n[stop]\nat = \"1s\"\n"
        );
        let scenario = Scenario::parse(Path::new("s.toml"), &text).expect("a scenario");
        let layout = Layout::new(&scenario, "abc123").expect("a layout");
        configurations(&scenario, &layout)
    }

    #[test]
    fn who_dials_has_a_link_and_all_on_the_way_have_routes() {
        let files = written("").expect("files");
        assert!(files[0].contains("[[link]]\nname = \"a-b\"\naddress = \"198.18.0.2:4556\"\n"));
        assert!(files[0].contains("[[route]]\nto = \"ipn:3.*\"\nvia = \"ipn:2.0\"\n"));
        assert!(!files[1].contains("[[link]]"));
        assert!(files[1].contains("[[route]]\nto = \"ipn:3.*\"\nvia = \"ipn:3.0\"\n"));
        // Reports come back from the last node over the one in the middle.
        assert!(files[2].contains("[[route]]\nto = \"ipn:1.*\"\nvia = \"ipn:2.0\"\n"));
        assert!(files[2].contains("generate = [\"forward\"]"));
    }

    #[test]
    fn routes_of_the_scenario_stand_beside_those_over_the_fewest_links() {
        let routes = "[[route]]\nnode = \"b\"\nto = \"c\"\nvia = \"a\"\npriority = -1\n[[route]]\nnode = \"a\"\nto = \"c\"\nvia = \"b\"\npriority = 3\n";
        let files = written(routes).expect("files");
        let to_c = "[[route]]\nto = \"ipn:3.*\"\nvia = ";
        assert!(files[0].contains(&format!("{to_c}\"ipn:2.0\"\npriority = 3\n")));
        assert_eq!(files[0].matches(to_c).count(), 1);
        let both = [
            format!("{to_c}\"ipn:3.0\"\n\n"),
            format!("{to_c}\"ipn:1.0\"\npriority = -1\n"),
        ];
        assert!(files[1].contains(&both.concat()), "{}", files[1]);
    }

    #[test]
    fn settings_of_a_node_stand_over_what_follows_from_the_scenario() {
        let set = "settings = [\"store.durability=contact\", \"store.quota=1GiB\", \"link.a-b.window_bundles=5\", \"listen.cut_through=false\"]\n";
        let files = written(set).expect("files");
        for line in [
            "durability = \"contact\"",
            "quota = \"1GiB\"",
            "window_bundles = 5",
            "cut_through = false",
        ] {
            assert!(files[0].contains(line), "{line} in {}", files[0]);
            assert!(!files[1].contains(line));
        }
        assert_eq!(files[0].matches("\nquota = ").count(), 1);
    }

    #[test]
    fn custody_and_versions_of_links_are_in_the_files_of_both_ends() {
        let custody = "custody = false\ncustody_retry = \"2min\"\n";
        let files = written(custody).expect("files");
        let table = "[custody]\naccept = false\naggregate = true\ndelay = \"15000ms\"\nretry = \"120000ms\"\n";
        assert!(files[0].contains(table), "{}", files[0]);
        assert!(!files[1].contains("[custody]"));
        // Two links lead to the second node, which has one listener.
        let refused = written_over("bundle_versions = [6]\n", "").expect_err("they differ");
        assert!(refused.to_string().contains("one listener"), "{refused}");
        let text = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"8Mbit\"\nbundle_versions = [6]\n[stop]\nat = \"1s\"\n";
        let scenario = Scenario::parse(Path::new("s.toml"), text).expect("a scenario");
        let layout = Layout::new(&scenario, "abc123").expect("a layout");
        let files = configurations(&scenario, &layout).expect("files");
        for file in files {
            assert_eq!(file.matches("bundle_versions = [6]").count(), 1, "{file}");
        }
    }

    #[test]
    fn a_node_measures_for_the_collector_of_its_lab() {
        let settings = "settings = [\"measure.collect={collector}\", \"measure.interval=1s\"]\n";
        let files = written(settings).expect("files");
        let measure = "[measure]\ncollect = \"tcp:10.255.0.1:3003\"\ninterval = \"1s\"\n";
        assert!(files[0].contains(measure), "{}", files[0]);
    }

    #[test]
    fn both_ends_of_a_link_over_udp_have_it_and_send_no_more_than_it_carries() {
        let udp = "protocol = \"udp\"\nmtu = \"4kB\"\non_sent = \"keep\"\n";
        for (keys, rate) in [
            ("by = \"veth\"\n", 10_000_000),
            ("by = \"tbf\"\n", 1_000_000 * 1_472 / 1_514 * 8),
            ("by = \"emulator\"\n", 1_000_000 * 1_472 / 1_514 * 8),
            ("by = \"emulator\"\nsend_rate = \"1Mbit\"\n", 1_000_000),
        ] {
            let files = written_over(&format!("{udp}{keys}"), "").expect("files");
            for (file, address, peer) in [(0, "198.18.0.2", 2), (1, "198.18.0.1", 1)] {
                let link = format!(
                    "[[link]]\nname = \"a-b\"\naddress = \"{address}:4556\"\npeer = \"ipn:{peer}.0\"\nprotocol = \"udp\"\nmtu = 4000\nrate = \"{rate}bit\"\non_sent = \"keep\"\n\n"
                );
                assert!(files[file].contains(&link), "{keys}: {}", files[file]);
                let listener = "[[listen]]\nprotocol = \"udp\"\naddress = \"0.0.0.0:4556\"\n";
                assert_eq!(files[file].matches(listener).count(), 1);
            }
            assert!(!files[2].contains("udp"));
        }
    }

    #[test]
    fn both_ends_of_a_link_over_ltp_have_it_at_a_port_of_its_own() {
        let ltp =
            "protocol = \"ltp\"\nmtu = \"1kB\"\ndelay = \"2s\"\nred = \"5kB\"\nby = \"emulator\"\n";
        let files = written_over(ltp, "").expect("files");
        for (file, address, peer) in [(0, "198.18.0.2", 2), (1, "198.18.0.1", 1)] {
            let link = format!(
                "[[link]]\nname = \"a-b\"\naddress = \"{address}:44556\"\npeer = \"ipn:{peer}.0\"\nprotocol = \"ltp\"\nmtu = 1000\nrate = \"7677536bit\"\nlight_time = \"2000ms\"\nred = \"5000B\"\non_sent = \"forget\"\naggregate = true\n\n"
            );
            assert!(files[file].contains(&link), "{link}{}", files[file]);
            let listener = "[[listen]]\nprotocol = \"ltp\"\naddress = \"0.0.0.0:44556\"\n";
            assert_eq!(files[file].matches(listener).count(), 1);
        }
        assert!(!files[2].contains("ltp"));
    }

    #[test]
    fn nodes_know_when_the_light_time_of_a_link_over_ltp_changes() {
        let delay = "delay = [\"0 1s\", \"60s 1s\", \"60001ms 10s\"]\n";
        let files = written_over(&format!("protocol = \"ltp\"\n{delay}"), "").expect("files");
        for file in &files[..2] {
            assert!(file.matches("[[contact]]\n").count() >= 4, "{file}");
            for contact in [
                "from = \"ipn:1.0\"\nto = \"ipn:2.0\"\nstart = \"+0ms\"\nend = \"+60000ms\"\nrate = \"8000000bit\"\nlight_time = \"1000ms\"\n",
                "from = \"ipn:2.0\"\nto = \"ipn:1.0\"\nstart = \"+60001ms\"\nend = \"+315360000000ms\"\nrate = \"8000000bit\"\nlight_time = \"10000ms\"\n",
            ] {
                assert!(file.contains(contact), "{contact}{file}");
            }
        }
        assert!(!files[2].contains("contact"));
        let constant = written_over("protocol = \"ltp\"\ndelay = \"1s\"\n", "").expect("files");
        assert!(constant.iter().all(|file| !file.contains("contact")));
    }

    #[test]
    fn settings_of_all_links_reach_those_over_ltp_that_have_such_keys() {
        let set = "settings = [\"link.blocks=64\", \"link.rate=1Mbit\", \"link.aggregate=false\", \"link.window=1MiB\", \"link.stall_timeout=9s\"]\n";
        let ltp = "protocol = \"ltp\"\nby = \"emulator\"\n";
        // No link of the node has the last.
        let refused = written_over(ltp, set).expect_err("a key of TCP");
        assert!(
            refused.to_string().contains("link.stall_timeout"),
            "{refused}"
        );
        let set = set.replace(", \"link.stall_timeout=9s\"", "");
        let files = written_over(ltp, &set).expect("files");
        for line in [
            "blocks = 64\n",
            "rate = \"1Mbit\"\n",
            "aggregate = false\n",
            "window = \"1MiB\"\n",
        ] {
            assert_eq!(files[0].matches(line).count(), 1, "{line}{}", files[0]);
        }
        // A link over TCP has none of LTP's.
        let files = written("settings = [\"link.window=1MiB\"]\n").expect("files");
        assert!(files[0].contains("window = \"1MiB\"\n"));
        assert!(written("settings = [\"link.blocks=64\"]\n").is_err());
    }

    #[test]
    fn both_ends_of_a_link_of_stcp_dial_and_have_a_listener_for_it() {
        for (name, port, keepalive) in [
            ("stcp", 14_556, "keepalive = \"30s\"\n"),
            ("stcp-draft", 24_556, ""),
            ("mtcp", 34_556, ""),
        ] {
            let keys = format!("protocol = \"{name}\"\non_sent = \"keep\"\n");
            let set = "settings = [\"link.cut_through=false\", \"link.order=expiry\", \"listen.relay=false\"]\n";
            let files = written_over(&keys, "").expect("files");
            for (file, address, peer) in [(0, "198.18.0.2", 2), (1, "198.18.0.1", 1)] {
                let link = format!(
                    "[[link]]\nname = \"a-b\"\naddress = \"{address}:{port}\"\npeer = \"ipn:{peer}.0\"\nbackoff_min = \"50ms\"\nbackoff_max = \"1000ms\"\nconnect_timeout = \"3000ms\"\nprotocol = \"{name}\"\non_sent = \"keep\"\n{keepalive}\n"
                );
                assert!(files[file].contains(&link), "{link}{}", files[file]);
                let listener =
                    format!("[[listen]]\nprotocol = \"{name}\"\naddress = \"0.0.0.0:{port}\"\n");
                assert_eq!(files[file].matches(&listener).count(), 1);
            }
            assert!(!files[2].contains(name));
            // The second link of the node is of TCPCL, where there is one.
            let error = written_over(&keys, set).expect_err("none knows the key");
            assert_eq!(
                error.what,
                "node 'a': there is no 'link.cut_through' to be set"
            );
        }
    }

    #[test]
    fn a_setting_of_all_links_or_listeners_is_of_those_that_know_it() {
        let set = "settings = [\"listen.cut_through=false\", \"listen.udp.relay=true\", \"link.rate=9kbit\", \"link.order=expiry\"]\n";
        let files = written_over("protocol = \"udp\"\n", set).expect("files");
        let udp = "[[listen]]\nprotocol = \"udp\"\naddress = \"0.0.0.0:4556\"\nrelay = true\n\n";
        assert!(files[0].contains(udp), "{}", files[0]);
        assert!(
            files[0].contains("\nrate = \"9kbit\"\non_sent = \"forget\"\norder = \"expiry\"\n")
        );
        assert_eq!(files[0].matches("cut_through = false").count(), 1);
        let error = written("settings = [\"link.rate=9kbit\"]\n").expect_err("it is refused");
        assert_eq!(error.what, "node 'a': there is no 'link.rate' to be set");
    }

    #[test]
    fn a_setting_of_what_is_not_there_is_refused() {
        let settings = "settings = [\"link.a-c.window_bundles=5\"]\n";
        let error = written(settings).expect_err("it is refused");
        assert_eq!(
            error.what,
            "node 'a': there is no 'link.a-c.window_bundles' to be set"
        );
    }
}
