//! What nodes and links are on a testbed: limits of hosts, and what makes links.

use std::time::Duration;

use dhow_channel::Part;
use dhow_document::{Document, Entries, FileError};

/// Less would not hold a program.
const MEMORY_MIN: u64 = 4 << 20;

/// What a node has on a testbed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// What runs there.
    pub kind: HostKind,
    /// Thousandths of a core that it may take.
    pub cpu_per_mille: Option<u32>,
    /// Octets of memory that it may take.
    pub memory_octets: Option<u64>,
    /// Octets that it may write to its disk in a second.
    pub disk_octets_per_s: Option<u64>,
    /// `KEY=VALUE`s of the node's own configuration file.
    pub settings: Vec<String>,
}

/// What runs on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostKind {
    /// A node.
    #[default]
    Dhow,
    /// Programs only.
    Command,
}

/// What makes a link on a testbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// What makes it.
    pub by: By,
    /// Octets that may wait at each end.
    pub queue_octets: Option<u64>,
    /// Packets that arrive twice.
    pub duplicate: Part,
    /// Packets that are held up.
    pub reorder: Part,
    /// How long those are held up.
    pub reorder_by: Duration,
}

/// What makes a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Whatever can do what is asked for.
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

/// What a section says of its hosts.
pub(crate) fn read_host(document: &Document<'_>, entries: &Entries) -> Result<Host, FileError> {
    let cpu = entries.text("cpu").map(|text| {
        parse_percent(text).ok_or_else(|| {
            let what = format!("'cpu' is a part of a core, not '{text}'");
            let error = document.fault(entries.line_of("cpu"), what);
            error.with_hint("for example: cpu = \"10%\", or \"200%\" for two cores")
        })
    });
    let memory_octets = entries.size("memory");
    if memory_octets.is_some_and(|octets| octets < MEMORY_MIN) {
        let what = "'memory' is at least 4MiB";
        return Err(document.fault(entries.line_of("memory"), what));
    }
    if entries.size("disk_rate") == Some(0) {
        let what = "'disk_rate' is more than nothing";
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
        cpu_per_mille: cpu.transpose()?,
        memory_octets,
        disk_octets_per_s: entries.size("disk_rate"),
        settings,
    })
}

/// `10%`, `2.5%`, `200%`: thousandths.
fn parse_percent(text: &str) -> Option<u32> {
    let number = text.trim().strip_suffix('%')?.trim_end();
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    let digits = whole
        .bytes()
        .chain(tenth.bytes())
        .all(|c| c.is_ascii_digit());
    let parsed = (tenth.len() == 1 && digits).then(|| format!("{whole}{tenth}").parse().ok())?;
    parsed.filter(|per_mille| *per_mille > 0 && !whole.is_empty())
}

/// What a section says of what makes its links.
pub(crate) fn read_wire(document: &Document<'_>, entries: &Entries) -> Result<Wire, FileError> {
    let part = |key: &str| {
        Part::of_billion(entries.part(key).unwrap_or(0))
            .map_err(|error| document.fault(entries.line_of(key), format!("'{key}': {error}")))
    };
    if entries.size("queue") == Some(0) {
        let what = "'queue' is more than nothing";
        return Err(document.fault(entries.line_of("queue"), what));
    }
    let reorder_by = entries.duration("reorder_by");
    if reorder_by.is_zero() {
        let what = "'reorder_by' is more than nothing";
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
    fn parts_of_a_core_are_thousandths() {
        for (text, parts) in [
            ("10%", Some(100)),
            ("2.5%", Some(25)),
            ("200 %", Some(2_000)),
            ("0%", None),
            ("%", None),
            (".5%", None),
            ("10", None),
            ("-1%", None),
            ("1.25%", None),
        ] {
            assert_eq!(parse_percent(text), parts, "{text}");
        }
    }
}
