//! The counters of a namespace's interfaces, as the kernel has them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use super::layout::Layout;
use crate::namespace;

/// The columns of `/proc/net/dev` behind an interface's name.
const RECEIVED_OCTETS: usize = 0;
const RECEIVED_PACKETS: usize = 1;
const SENT_OCTETS: usize = 8;
const SENT_PACKETS: usize = 9;
const SENT_DROPPED: usize = 11;

/// The counters of one interface since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Octets that came in.
    pub received_octets: u64,
    /// Packets that came in.
    pub received_packets: u64,
    /// Octets that left.
    pub sent_octets: u64,
    /// Packets that left.
    pub sent_packets: u64,
    /// Packets that were to leave and found no room.
    pub dropped_packets: u64,
}

/// The counters of all interfaces of one namespace.
#[derive(Debug)]
pub(crate) struct Devices {
    file: File,
    text: String,
}

impl Devices {
    pub(crate) fn open(namespace: &str) -> io::Result<Self> {
        // The file is that of the namespace in which it was opened.
        let file = namespace::within(namespace, || File::open("/proc/thread-self/net/dev"))?;
        Ok(Self {
            file,
            text: String::new(),
        })
    }

    /// All interfaces now, by their names.
    pub(crate) fn read(&mut self) -> io::Result<BTreeMap<String, Counters>> {
        self.file.seek(SeekFrom::Start(0))?;
        self.text.clear();
        self.file.read_to_string(&mut self.text)?;
        Ok(parse(&self.text))
    }
}

/// Looks whether a host has sent anything over its links.
#[derive(Debug)]
pub struct Sent {
    devices: Devices,
    interfaces: Vec<String>,
    /// Packets that had left before.
    before: u64,
}

impl Sent {
    /// From now on, by a host of a lab; nothing where there is no such host.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn of(layout: &Layout, host: usize) -> io::Result<Option<Self>> {
        let Some(place) = layout.hosts.get(host) else {
            return Ok(None);
        };
        let owner = |at: usize| {
            layout
                .hosts
                .get(at)
                .and_then(|it| it.guest_of)
                .unwrap_or(at)
        };
        let ends = layout.links.iter().flat_map(|link| &link.ends);
        let ends = ends.filter(|end| owner(end.host) == owner(host));
        let mut sent = Self {
            devices: Devices::open(&place.namespace)?,
            interfaces: ends.map(|end| end.interface.clone()).collect(),
            before: 0,
        };
        sent.before = sent.packets()?;
        Ok(Some(sent))
    }

    /// True once it has.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn has_any(&mut self) -> io::Result<bool> {
        Ok(self.packets()? > self.before)
    }

    fn packets(&mut self) -> io::Result<u64> {
        let read = self.devices.read()?;
        let counters = self.interfaces.iter().filter_map(|it| read.get(it));
        Ok(counters.map(|it| it.sent_packets).sum())
    }
}

fn parse(text: &str) -> BTreeMap<String, Counters> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let read = lines.map(|(name, columns)| {
        let columns: Vec<u64> = columns
            .split_whitespace()
            .map(|column| column.parse().unwrap_or(0))
            .collect();
        let at = |column: usize| columns.get(column).copied().unwrap_or(0);
        let counters = Counters {
            received_octets: at(RECEIVED_OCTETS),
            received_packets: at(RECEIVED_PACKETS),
            sent_octets: at(SENT_OCTETS),
            sent_packets: at(SENT_PACKETS),
            dropped_packets: at(SENT_DROPPED),
        };
        (name.trim().to_owned(), counters)
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_kernels_table() {
        let text = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    lo:     100       2    0    0    0     0          0         0      100       2    0    0    0     0       0          0\n link0: 7 6 0 5 0 0 0 0 4 3 0 2 0 0 0 0\n";
        let read = parse(text);
        assert_eq!(read.len(), 2);
        let link = Counters {
            received_octets: 7,
            received_packets: 6,
            sent_octets: 4,
            sent_packets: 3,
            dropped_packets: 2,
        };
        assert_eq!(read.get("link0"), Some(&link));
    }
}
