//! From a file's TOML to a checked [`Scenario`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use dhow_document::schema::Section;
use dhow_document::{Document, Entries, FileError};
use toml::de::{DeTable, DeValue};

use crate::kind::{LinkKind, NodeKind};
use crate::network::Network;
use crate::scenario::{
    Clock, ClockStep, Contact, Crash, Dial, Faults, Fidelity, HostKind, NodeIndex, Pause, Presence,
    Protocol, Scenario, Stop, Traffic, Transport,
};
use crate::schema::SECTIONS;
use crate::{contact_plan, energy, generator, guest, program, route, traffic};

/// Octets of the name of a congestion control, as the kernel has them (`TCP_CA_NAME_MAX`, less the end).
const CONGESTION_NAME_OCTETS: usize = 15;

pub(crate) fn read(path: &Path, text: &str, settings: &[String]) -> Result<Scenario, FileError> {
    read_set(path, text, settings).map_err(|error| {
        let without = || read_set(path, text, &[]);
        if settings.is_empty() || error.line.is_none() || without().is_err() {
            return error;
        }
        // The fault shows in a line of the file, which is right by itself.
        let blamed = format!(
            "without --set {} the file is right",
            settings.join(" --set ")
        );
        let hint = match &error.hint {
            Some(hint) => format!("{blamed}; {hint}"),
            None => blamed,
        };
        error.with_hint(hint)
    })
}

fn read_set(path: &Path, text: &str, settings: &[String]) -> Result<Scenario, FileError> {
    let document = document(path, text, settings)?;
    let top = document.one("")?;
    let seed = top.count("seed").unwrap_or(1);
    let stop = read_stop(&document)?;
    let mut network = Network::default();
    read_nodes(&document, &mut network)?;
    generator::expand(&document, &mut network, seed, stop.at)?;
    if network.nodes.is_empty() {
        return Err(document.fault(1, "a scenario has at least one [[node]]"));
    }
    guest::read_hosts(&document, &mut network)?;
    read_links(&document, &mut network)?;
    read_contacts(&document, &mut network)?;
    contact_plan::read(&document, &mut network, stop.at)?;
    let routes = route::read(&document, &network)?;
    let routing = route::read_routing(&document, &network)?;
    let traffic = traffic::read(&document, &network, (seed, stop.at))?;
    check_hosts(&document, &network, &traffic)?;
    check_dialling(&document, &network)?;
    let stem = || {
        path.file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
    };
    Ok(Scenario {
        name: top
            .text("name")
            .map(str::to_owned)
            .or_else(stem)
            .unwrap_or_default(),
        seed,
        every_seed: top.is_true("every_seed"),
        fidelity: match top.text("fidelity") {
            Some("bundle") => Fidelity::Bundle,
            _ => Fidelity::Octet,
        },
        congestion_control: read_congestion_control(&document, top)?,
        routes,
        routing,
        traffic,
        crashes: read_crashes(&document, &network, stop)?,
        clock_steps: read_clock_steps(&document, &network, stop)?,
        faults: read_faults(&document)?,
        pause: read_pause(&document, &network, stop)?,
        stop,
        programs: program::read(&document, &network, stop.at)?,
        energy: energy::read(&document)?,
        report: read_report(&document)?,
        unsimulated: find_unsimulated(&document),
        nodes: network.nodes,
        links: network.links,
        contacts: network.contacts,
        notes: network.notes,
    })
}

/// A name that the kernel may know.
fn read_congestion_control(
    document: &Document<'_>,
    top: Entries,
) -> Result<Option<String>, FileError> {
    let key = "congestion_control";
    let Some(name) = top.text(key) else {
        return Ok(None);
    };
    let is_one = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if name.is_empty() || name.len() > CONGESTION_NAME_OCTETS || !name.chars().all(is_one) {
        let what = format!("'{name}' is not the name of a congestion control");
        let hint = "one of those in /proc/sys/net/ipv4/tcp_allowed_congestion_control";
        return Err(document.fault(top.line_of(key), what).with_hint(hint));
    }
    Ok(Some(name.to_owned()))
}

/// The document of a scenario, with values set over it.
pub(crate) fn document<'a>(
    path: &'a Path,
    text: &'a str,
    settings: &'a [String],
) -> Result<Document<'a>, FileError> {
    Document::read_with(path, text, SECTIONS, settings, name_of)
}

/// The name by which settings address a section: its name, or its ends.
fn name_of(table: &DeTable<'_>) -> Option<String> {
    let text = |key: &str| table.get(key)?.get_ref().as_str().map(str::to_owned);
    let ends = || match table.get("between")?.get_ref() {
        DeValue::Array(ends) => {
            let ends = ends.iter().map(|end| end.get_ref().as_str());
            Some(ends.collect::<Option<Vec<_>>>()?.join("-"))
        }
        _ => None,
    };
    text("name").or_else(ends).or_else(|| text("link"))
}

fn read_nodes(document: &Document<'_>, network: &mut Network) -> Result<(), FileError> {
    for entries in document.all("node") {
        let kind = NodeKind::read(document, entries)?;
        let name = entries.text("name").unwrap_or_default().to_owned();
        let number = entries.count("number");
        let key = if number.is_some() { "number" } else { "name" };
        network.add_node(name, number, &kind).map_err(|what| {
            let hint = "each node has a name and a number of its own";
            document.fault(entries.line_of(key), what).with_hint(hint)
        })?;
    }
    Ok(())
}

fn read_links(document: &Document<'_>, network: &mut Network) -> Result<(), FileError> {
    // Wires are there before links that share them.
    let (over, own): (Vec<_>, Vec<_>) = document.all("link").partition(|it| it.has("over"));
    for entries in own.into_iter().chain(over) {
        let [first, second] = entries.list("between") else {
            let what = "'between' names two nodes";
            let hint = "for example: between = [\"east\", \"west\"]";
            return Err(document
                .fault(entries.line_of("between"), what)
                .with_hint(hint));
        };
        let between = (
            network.node(document, entries, "between", first)?,
            network.node(document, entries, "between", second)?,
        );
        if entries.has("over") {
            guest::read_link_over(document, entries, between, network)?;
            continue;
        }
        let kind = LinkKind::read(document, entries)?;
        let name = entries.text("name");
        let key = if name.is_some() { "name" } else { "between" };
        network.add_link(between, name, &kind).map_err(|what| {
            let hint = "a link joins two nodes, and has a name of its own (name = \"wire\")";
            document.fault(entries.line_of(key), what).with_hint(hint)
        })?;
    }
    Ok(())
}

fn read_contacts(document: &Document<'_>, network: &mut Network) -> Result<(), FileError> {
    for entries in document.all("contact") {
        let link = network.link(document, entries, "link")?;
        let start = entries.duration("start");
        let (length, key) = match (
            entries.duration_if_set("for"),
            entries.duration_if_set("end"),
        ) {
            (Some(length), None) => (length, "for"),
            (None, Some(end)) => (end.saturating_sub(start), "end"),
            (Some(_), Some(_)) => {
                let what = "[[contact]] has a 'for' and an 'end'";
                let error = document.fault(entries.line_of("end"), what);
                return Err(error.with_hint("either says when it ends: leave one out"));
            }
            (None, None) => {
                let what = "[[contact]] has neither a 'for' nor an 'end'";
                let hint = "for example: for = \"5min\", or end = \"1h\"";
                return Err(document.fault(entries.line(), what).with_hint(hint));
            }
        };
        if length.is_zero() {
            let end = entries.duration_if_set("end").unwrap_or(start);
            let what = format!("a contact that begins at {start:?} ends at {end:?}");
            let hint =
                "it ends after it begins: 'end' counts from the start of the run, as 'start' does";
            return Err(document.fault(entries.line_of(key), what).with_hint(hint));
        }
        let every = entries.duration_if_set("every");
        if every.is_some_and(|every| every < length) {
            let what = "a contact lasts longer than the time until the next";
            return Err(document.fault(entries.line_of("every"), what));
        }
        let contact = Contact {
            link,
            start,
            length,
            every,
        };
        network
            .add_contact(contact)
            .map_err(|what| document.fault(entries.line(), what))?;
    }
    Ok(())
}

fn read_crashes(
    document: &Document<'_>,
    network: &Network,
    stop: Stop,
) -> Result<Vec<Crash>, FileError> {
    let mut crashes = Vec::new();
    for entries in document.all("crash") {
        let at = read_moment(document, entries, stop)?;
        for node in network.nodes(document, entries, "node")? {
            crashes.push(Crash {
                node,
                at,
                down: entries.duration("down"),
            });
        }
    }
    Ok(crashes)
}

fn read_clock_steps(
    document: &Document<'_>,
    network: &Network,
    stop: Stop,
) -> Result<Vec<ClockStep>, FileError> {
    let mut steps = Vec::new();
    for entries in document.all("clock_step") {
        for node in network.nodes(document, entries, "node")? {
            let found = network.nodes.get(node.0);
            if let Some(node) = found.filter(|node| node.clock == Clock::None) {
                let what = format!("'{}' has no clock", node.name);
                return Err(document.fault(entries.line_of("node"), what));
            }
            steps.push(ClockStep {
                node,
                at: read_moment(document, entries, stop)?,
                by_ms: entries.offset_ms("by").unwrap_or(0),
            });
        }
    }
    Ok(steps)
}

/// The `at` of what happens once: before the run is over.
fn read_moment(
    document: &Document<'_>,
    entries: &Entries,
    stop: Stop,
) -> Result<Duration, FileError> {
    let at = entries.duration("at");
    if at >= stop.at {
        let what = format!(
            "{} is at {at:?}, and the run is over at {:?}",
            entries.title(),
            stop.at
        );
        return Err(document
            .fault(entries.line_of("at"), what)
            .with_hint("'at' counts from the start of the run; 'at' of [stop] is its end"));
    }
    Ok(at)
}

fn read_faults(document: &Document<'_>) -> Result<Faults, FileError> {
    let entries = document.one("faults")?;
    let often = |key: &'static str| match entries.duration_if_set(key) {
        Some(time) if time.is_zero() => {
            let what = format!("'{key}' must be more than 0");
            Err(document.fault(entries.line_of(key), what))
        }
        time => Ok(time),
    };
    Ok(Faults {
        crash_every: often("crash_every")?,
        crash_at_flush_per_billion: entries.part("crash_at_flush").unwrap_or_default(),
        crash_down: entries.duration("crash_down"),
        stall_every: often("stall_every")?,
        stall_for: entries.duration("stall_for"),
        reset_every: often("reset_every")?,
        lying_disks: entries.is_true("lying_disks"),
        rot_every: often("rot_every")?,
        full_every: often("full_every")?,
        full_for: entries.duration("full_for"),
        read_fails_per_billion: entries.part("read_fails").unwrap_or_default(),
        flush_fails_per_billion: entries.part("flush_fails").unwrap_or_default(),
        client_crash_every: often("client_crash_every")?,
        decline_per_billion: entries.part("decline").unwrap_or_default(),
        until: entries.duration_if_set("until"),
    })
}

/// Links that are used in their contacts have some, and nodes that know the time.
fn check_dialling(document: &Document<'_>, network: &Network) -> Result<(), FileError> {
    let mut links = network.links.iter();
    let wrong = links.find_map(|link| {
        if link.dial != Dial::Contacts {
            return None;
        }
        if link.presence == Presence::Always {
            let what = format!(
                "'{}' is used in its contacts (dial) and has none",
                link.name
            );
            return Some((what, "[[contact]] says when it is there"));
        }
        let ends = [link.between.0, link.between.1];
        let mut nodes = ends.iter().filter_map(|end| network.nodes.get(end.0));
        let node = nodes.find(|node| node.clock == Clock::None)?;
        let what = format!(
            "'{}' is used in its contacts (dial), and '{}' has no clock to know them by",
            link.name, node.name
        );
        Some((what, "dial = \"always\", or clock = \"known\""))
    });
    let Some((what, hint)) = wrong else {
        return Ok(());
    };
    let mut sections = document.sections();
    let line = sections
        .find(|it| it.has("dial"))
        .map(|it| it.line_of("dial"));
    Err(document.fault(line.unwrap_or(1), what).with_hint(hint))
}

/// Nodes that send and receive are there.
fn check_hosts(
    document: &Document<'_>,
    network: &Network,
    traffic: &[Traffic],
) -> Result<(), FileError> {
    let without = |index: NodeIndex| {
        let node = network.nodes.get(index.0)?;
        (node.host.kind == HostKind::Command).then_some(node.name.as_str())
    };
    let ends = traffic
        .iter()
        .flat_map(|traffic| [traffic.from, traffic.to]);
    let Some(name) = ends.into_iter().find_map(without) else {
        return Ok(());
    };
    let line = document.all("traffic").next().map_or(0, Entries::line);
    let what = format!("'{name}' has no node that sends or receives (kind = \"command\")");
    Err(document.fault(line, what))
}

/// Keys of nodes and links that only a testbed heeds.
const TESTBED_ONLY: &[&str] = &[
    "host",
    "over",
    "cpu",
    "cpu_from",
    "cpu_until",
    "memory",
    "disk_rate",
    "disk_operations",
    "settings",
    "queue",
];

/// Keys of traffic that only a testbed heeds; a link has one of the same name.
const TRAFFIC_ON_TESTBED: &[&str] = &["aggregate"];

/// Keys of links that a simulation heeds only where they have datagrams: a stream of octets hides what they say.
const DATAGRAMS_ONLY: &[&str] = &["duplicate", "reorder"];

/// The first thing in a file that only a testbed can do.
fn find_unsimulated(document: &Document<'_>) -> Option<FileError> {
    let hint = "`dhow lab run` has it, with nodes on sockets";
    // The power that hosts take is another 'host'.
    let sections = SECTIONS.iter().filter(|section| section.name != "energy");
    let all = sections.flat_map(|section| {
        let traffic = match section.name {
            "traffic" => TRAFFIC_ON_TESTBED,
            _ => &[],
        };
        document.all(section.name).map(move |it| (it, traffic))
    });
    for (entries, traffic) in all {
        let named = entries.has("protocol").then(|| entries.text("protocol"));
        let protocol = named.flatten().and_then(Protocol::named);
        let has_datagrams = protocol.is_some_and(|it| it.transport() == Transport::Udp);
        let hidden = DATAGRAMS_ONLY.iter().filter(|_| !has_datagrams);
        let mut only = TESTBED_ONLY.iter().chain(traffic).chain(hidden);
        let only = only.find(|key| entries.has(key));
        let hosts = entries.has("kind") && entries.text("kind") == Some("command");
        let found = only.or(hosts.then_some(&"kind"));
        if let Some(key) = found {
            let what = format!("'{key}' of {} cannot be simulated", entries.title());
            return Some(document.fault(entries.line_of(key), what).with_hint(hint));
        }
    }
    let sections = [("program", "[[program]]"), ("pause", "[pause]")];
    let mut found = sections
        .into_iter()
        .filter_map(|(name, shown)| Some((document.all(name).next()?, shown)));
    let (section, shown) = found.next()?;
    let what = format!("{shown} cannot be simulated");
    Some(document.fault(section.line(), what).with_hint(hint))
}

fn read_report(document: &Document<'_>) -> Result<BTreeMap<&'static str, String>, FileError> {
    let entries = document.one("report")?;
    let section = SECTIONS.iter().find(|section| section.name == "report");
    let keys = section.into_iter().flat_map(Section::keys);
    let texts = keys.map(|key| (key.name, entries.list(key.name).join("\n")));
    Ok(texts.filter(|(_, text)| !text.is_empty()).collect())
}

fn read_pause(
    document: &Document<'_>,
    network: &Network,
    stop: Stop,
) -> Result<Option<Pause>, FileError> {
    let Some(entries) = document.all("pause").next() else {
        return Ok(None);
    };
    let key = "until_stored_at";
    let until_stored_at = network.node(document, entries, key, entries.text(key).unwrap_or(""))?;
    let node = network.nodes.get(until_stored_at.0);
    if let Some(node) = node.filter(|node| node.host.kind == HostKind::Command) {
        let what = format!(
            "'{}' has no node that stores (kind = \"command\")",
            node.name
        );
        return Err(document.fault(entries.line_of(key), what));
    }
    Ok(Some(Pause {
        at: read_moment(document, entries, stop)?,
        until_stored_at,
    }))
}

fn read_stop(document: &Document<'_>) -> Result<Stop, FileError> {
    let entries = document.one("stop")?;
    if entries.duration("at").is_zero() {
        let what = "'at' of [stop] is 0: the run would be over before it begins";
        return Err(document.fault_of(&entries, "at", what));
    }
    if entries.is_true("when_ended") && document.all("program").next().is_none() {
        let what = "'when_ended' of [stop] says nothing without a [[program]]";
        let hint = "'when_delivered' ends a run when all payloads have arrived";
        return Err(document
            .fault(entries.line_of("when_ended"), what)
            .with_hint(hint));
    }
    Ok(Stop {
        at: entries.duration("at"),
        when_delivered: entries.is_true("when_delivered"),
        when_ended: entries.is_true("when_ended"),
        may_refuse: entries.is_true("may_refuse"),
        expects_all: entries.is_true("expects_all"),
    })
}

#[cfg(test)]
mod tests;
