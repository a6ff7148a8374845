//! Nodes and links on a testbed: limits of hosts, and the means that make links.

use std::time::Duration;

use dhow_channel::Part;
use dhow_document::quantity::parse_rate;
use dhow_document::{Document, Entries, FileError};

/// Less would not hold a program.
const MEMORY_MIN: u64 = 4 << 20;

/// Millionths of a core, at least: what the kernel can share out, a millisecond of each second.
const SHARE_MIN: u32 = 1_000;

const CPU_HINT: &str = "for example: cpu = \"10%\", \"0.25%\" (0.1% is the least), \"200%\" for two cores, or \"24Mbit\": as much as TCP needs for that between disks";

/// The host of a node on a testbed, and its limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The kind of program that runs there.
    pub kind: HostKind,
    /// The processor that it has; none where it has no limit.
    pub processor: Option<Processor>,
    /// The time from which on the limit holds, from the start of the run.
    pub cpu_from: Duration,
    /// The time until which the limit holds.
    pub cpu_until: Option<Duration>,
    /// Octets of memory that it may take.
    pub memory_octets: Option<u64>,
    /// Octets that it may write to its disk in a second.
    pub disk_octets_per_s: Option<u64>,
    /// Reads, and as many writes, that it may ask its disk for in a second.
    pub disk_operations_per_s: Option<u64>,
    /// `KEY=VALUE`s of the node's own configuration file.
    pub settings: Vec<String>,
}

/// A processor slower than the machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// Millionths of a core.
    Share(u32),
    /// With as much of a core as takes TCP between disks to so many octets a second, in blocks of 100 kB; the testbed finds how much that is.
    OfTcp(u64),
}

/// The kind of program that runs on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostKind {
    /// A node.
    #[default]
    Dhow,
    /// Programs only.
    Command,
}

/// The means of a link on a testbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The kind of those means.
    pub by: By,
    /// Octets that may wait at each end.
    pub queue_octets: Option<u64>,
    /// Packets that arrive twice.
    pub duplicate: Part,
    /// Packets that are held up.
    pub reorder: Part,
    /// The time for which those are held up.
    pub reorder_by: Duration,
}

/// A kind of means that make a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The kind that can do all that is asked for.
    Auto,
    /// Channels of our own.
    Emulator,
    /// A pair of interfaces with the kernel's token bucket.
    Tbf,
    /// A pair of interfaces with the kernel's emulator.
    Netem,
    /// A pair of interfaces as fast as it goes.
    Veth,
}

/// Reads the limits of a section's hosts.
pub(crate) fn read_host(document: &Document<'_>, entries: &Entries) -> Result<Host, FileError> {
    let processor = entries.text("cpu").map(|text| {
        parse_processor(text).ok_or_else(|| {
            let what = format!("'cpu' is neither a part of a core nor a rate of TCP: '{text}'");
            let error = document.fault(entries.line_of("cpu"), what);
            error.with_hint(CPU_HINT)
        })
    });
    let cpu_from = entries.duration_if_set("cpu_from").unwrap_or_default();
    let cpu_until = entries.duration_if_set("cpu_until");
    if cpu_until.is_some_and(|until| until <= cpu_from) {
        let what = format!("'cpu_until' is before 'cpu' holds, which is from {cpu_from:?} on");
        return Err(document.fault(entries.line_of("cpu_until"), what));
    }
    let memory_octets = entries.size("memory");
    if memory_octets.is_some_and(|octets| octets < MEMORY_MIN) {
        let what = "'memory' is at least 4MiB";
        return Err(document.fault(entries.line_of("memory"), what));
    }
    if entries.size("disk_rate") == Some(0) {
        let what = "'disk_rate' must be more than 0";
        return Err(document.fault(entries.line_of("disk_rate"), what));
    }
    let settings = entries.list("settings").to_vec();
    let wrong = settings.iter().find(|setting| {
        let parts = setting
            .split_once('=')
            .and_then(|(path, _)| path.split_once('.'));
        parts.is_none_or(|(section, key)| section.is_empty() || key.is_empty())
    });
    if let Some(setting) = wrong {
        let what = format!("'{setting}' sets nothing");
        let error = document.fault(entries.line_of("settings"), what);
        return Err(error.with_hint("for example: settings = [\"store.durability=contact\"]"));
    }
    Ok(Host {
        kind: match entries.text("kind") {
            Some("command") => HostKind::Command,
            _ => HostKind::Dhow,
        },
        processor: processor.transpose()?,
        cpu_from,
        cpu_until,
        memory_octets,
        disk_octets_per_s: entries.size("disk_rate"),
        disk_operations_per_s: entries.count("disk_operations"),
        settings,
    })
}

/// `10%`, `0.25%`, `200%`, or a rate.
fn parse_processor(text: &str) -> Option<Processor> {
    match text.trim().strip_suffix('%') {
        Some(number) => parse_percent(number).map(Processor::Share),
        None => parse_rate(text)
            .ok()
            .filter(|rate| *rate > 0)
            .map(Processor::OfTcp),
    }
}

/// Millionths of a number of hundredths.
fn parse_percent(number: &str) -> Option<u32> {
    let (whole, part) = number
        .trim()
        .split_once('.')
        .unwrap_or((number.trim(), "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let is_number = digits(whole) && digits(part) && part.len() <= 4;
    let parsed = is_number.then(|| format!("{whole}{part:0<4}").parse().ok())?;
    parsed.filter(|parts| *parts >= SHARE_MIN)
}

/// Reads the means of a section's links.
pub(crate) fn read_wire(document: &Document<'_>, entries: &Entries) -> Result<Wire, FileError> {
    let part = |key: &str| {
        Part::of_billion(entries.part(key).unwrap_or(0))
            .map_err(|error| document.fault(entries.line_of(key), format!("'{key}': {error}")))
    };
    if entries.size("queue") == Some(0) {
        let what = "'queue' must be more than 0";
        return Err(document.fault(entries.line_of("queue"), what));
    }
    let reorder_by = entries.duration("reorder_by");
    if reorder_by.is_zero() {
        let what = "'reorder_by' must be more than 0";
        return Err(document.fault(entries.line_of("reorder_by"), what));
    }
    Ok(Wire {
        by: match entries.text("by") {
            Some("emulator") => By::Emulator,
            Some("tbf") => By::Tbf,
            Some("netem") => By::Netem,
            Some("veth") => By::Veth,
            _ => By::Auto,
        },
        queue_octets: entries.size("queue"),
        duplicate: part("duplicate")?,
        reorder: part("reorder")?,
        reorder_by,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_parts_of_a_core_or_rates_of_tcp() {
        let share = |parts| Some(Processor::Share(parts));
        for (text, expected) in [
            ("10%", share(100_000)),
            ("2.5%", share(25_000)),
            ("0.25%", share(2_500)),
            ("0.1%", share(1_000)),
            ("0.0999%", None),
            ("200 %", share(2_000_000)),
            ("24Mbit", Some(Processor::OfTcp(3_000_000))),
            ("0Mbit", None),
            ("0%", None),
            ("%", None),
            (".5%", None),
            ("1.%", None),
            ("-1%", None),
            ("99999999999%", None),
            ("slow", None),
        ] {
            assert_eq!(parse_processor(text), expected, "{text}");
        }
    }
}
