//! The lines of a run's tables. Times are seconds from the start of the run, sizes are octets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A line of a table.
pub trait Row: Serialize + DeserializeOwned + Default {
    /// The table's file, in the directory of a run and in that of all.
    const FILE: &'static str;
}

/// A payload that an application sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Payload {
    /// The number of its traffic in the scenario, from 1.
    pub traffic: u64,
    /// The number of the payload within that traffic, from 1.
    pub number: u64,
    /// The name of the node that sent it.
    pub from: String,
    /// The name of the node that it was for.
    pub to: String,
    /// Its size.
    pub octets: u64,
    /// When it was given to the node.
    pub sent_s: f64,
    /// When the node said that it had it; empty where it did not.
    pub accepted_s: Option<f64>,
    /// When it was delivered; empty where it was not.
    pub delivered_s: Option<f64>,
}

/// A time in which a link could be used.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Contact {
    /// The link's name.
    pub link: String,
    /// When it began.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
}

/// Octets and packets that have passed over a link up to a moment: all numbers count from the start. Packets that waited at an end, or were dropped
/// there, when a contact ended have not passed and are lost; those that were lost on the way have passed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LinkSample {
    /// The link's name.
    pub link: String,
    /// The moment.
    pub time_s: f64,
    /// Octets that left the node that dials; where the kernel makes the link, with Ethernet headers.
    pub octets_forward: u64,
    /// Octets that left the other for it.
    pub octets_back: u64,
    /// Packets that left the node that dials.
    pub packets_forward: u64,
    /// Packets that left the other for it.
    pub packets_back: u64,
    /// Packets lost of those from the node that dials: on the link, because its queue was full, or with the end of a contact.
    pub lost_forward: u64,
    /// Packets lost of those to it.
    pub lost_back: u64,
}

/// The resources that the processes of a node have used up to a moment: all numbers but `rss_octets` count from the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Resource {
    /// The node's name.
    pub node: String,
    /// The moment.
    pub time_s: f64,
    /// Processor time outside the kernel, seconds.
    pub user_s: f64,
    /// Processor time in the kernel, seconds.
    pub system_s: f64,
    /// Time that processors of the whole machine had nothing to do but to wait for a disk, seconds.
    pub iowait_s: f64,
    /// Memory in use.
    pub rss_octets: u64,
    /// Pages that were read from a disk (major faults).
    pub page_in: u64,
    /// Pages that the whole machine wrote to disks.
    pub page_out: u64,
    /// Switches from one process to another.
    pub switches: u64,
    /// Switches of them that a process made since it had nothing to do.
    #[serde(default)]
    pub voluntary_switches: u64,
    /// Time that threads could have run and had no processor, one beside the other, seconds: others had it, or their limit was used up.
    #[serde(default)]
    pub wait_s: f64,
    /// Time that processes waited for disks, seconds; empty where the kernel does not count it (`kernel.task_delayacct`).
    #[serde(default)]
    pub disk_wait_s: Option<f64>,
    /// Time that threads waited for locks that others had, one beside the other, seconds: by what they did at each sample.
    #[serde(default)]
    pub lock_wait_s: f64,
    /// Octets that were read again since memory had no room to keep them; empty of a host without a limit of memory.
    #[serde(default)]
    pub read_again_octets: Option<u64>,
    /// Octets read from disks.
    pub disk_read_octets: u64,
    /// Octets written to disks.
    pub disk_write_octets: u64,
}

/// The figure that says how long a program took since the first packet of its host.
pub const FIRST_OCTET: &str = "time_from_first_octet";

/// A figure that a program told of itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Figure {
    /// The node on which it ran.
    pub node: String,
    /// Its name in the scenario.
    pub program: String,
    /// The name of the figure: `goodput`, `jitter`.
    pub name: String,
    /// When it was told, or the end of the time that it is for.
    pub time_s: f64,
    /// The figure.
    pub value: f64,
    /// The unit of the value: `bit/s`, `s`, `datagrams`.
    pub unit: String,
}

/// A resource that may limit a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limited {
    /// The rate of a link in one direction.
    #[default]
    Link,
    /// The processor time that a node may take.
    Processor,
}

/// The amount that a run had of a resource.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Capacity {
    /// The link or node.
    pub name: String,
    /// The resource.
    pub resource: Limited,
    /// The amount: octets a second of a link in one direction, or cores; `inf` of a link that keeps to no rate, and empty of one whose rate changes.
    pub amount: Option<f64>,
    /// The nodes of a link: the one that dials.
    #[serde(default)]
    pub from: String,
    /// The one that listens.
    #[serde(default)]
    pub to: String,
    /// Octets that a link may carry at the beginning of a contact beside those that its rate moves.
    #[serde(default)]
    pub ahead_octets: u64,
    /// True if a link is there only during contacts.
    #[serde(default)]
    pub planned: bool,
    /// The link whose wire it shares; its own amount is that one's.
    #[serde(default)]
    pub over: String,
}

impl Row for Payload {
    const FILE: &'static str = "payloads.csv";
}

impl Row for Contact {
    const FILE: &'static str = "contacts.csv";
}

impl Row for LinkSample {
    const FILE: &'static str = "links.csv";
}

impl Row for Resource {
    const FILE: &'static str = "resources.csv";
}

impl Row for Figure {
    const FILE: &'static str = "figures.csv";
}

impl Row for Capacity {
    const FILE: &'static str = "capacities.csv";
}

/// The last line of each name, of lines in the order of time; names are in the order in which they first come.
pub(crate) fn last_of<R>(rows: &[R], name: impl Fn(&R) -> &str) -> Vec<&R> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut last: Vec<&R> = Vec::new();
    for row in rows {
        let place = *places.entry(name(row)).or_insert(last.len());
        match last.get_mut(place) {
            Some(it) => *it = row,
            None => last.push(row),
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_name_the_last_line_counts() {
        let rows = [("b", 1), ("a", 2), ("b", 3), ("c", 4), ("a", 5)];
        let last = last_of(&rows, |row| row.0);
        assert_eq!(last, [&("b", 3), &("a", 5), &("c", 4)]);
    }
}
