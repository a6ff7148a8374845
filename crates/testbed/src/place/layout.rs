//! The plan of a lab: names, addresses and kinds of links, all of which follow from the scenario and the lab's name.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use dhow_channel::{Delay, Loss, Part, Profile, RateTrace};
use dhow_scenario::Scenario;
use dhow_scenario::scenario::{AtEnd, By, Contact, HostKind, Link, NodeIndex, Presence};

use crate::failure::LabError;

/// The port on which nodes listen (RFC 9174 8.1); others on the same host have the next ones.
const PORT: u16 = 4556;

/// The port at which a lab's collector listens (OML's port).
pub const COLLECTOR_PORT: u16 = 3003;

/// Hosts of a lab: a bridge has 1,024 ports.
const HOSTS_MAX: usize = 1_000;

/// Links of a lab: as many networks of four addresses as 198.18.0.0/15 has, which is kept for such tests (RFC 2544).
const LINKS_MAX: usize = 1 << 15;

/// The first address of links.
const LINKS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// The first address of the control network, which has 16 bits.
const CONTROL: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 0);

/// The first address of the collector as it is reached by way of hosts: one for each host, as far from it as the host's own from `CONTROL`.
const DETOURS: Ipv4Addr = Ipv4Addr::new(10, 254, 0, 0);

/// Octets of a name of a node: with the lab's name before it, it is one of a file.
const NAME_OCTETS_MAX: usize = 100;

/// All hosts and links of a lab.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Six hexadecimal digits.
    pub lab: String,
    /// The hosts in the order of the scenario's nodes.
    pub hosts: Vec<HostPlace>,
    /// The links in the order of the scenario's links.
    pub links: Vec<LinkPlace>,
}

/// A host, or the place of one more node on it.
#[derive(Clone, Debug)]
pub struct HostPlace {
    /// Its name in the scenario.
    pub name: String,
    /// The node's number.
    pub number: u32,
    /// The kind of the host: with a node, or for programs alone.
    pub kind: HostKind,
    /// Its network namespace, which may be another's as well.
    pub namespace: String,
    /// The position of the host that it shares; none where it has its own.
    pub guest_of: Option<usize>,
    /// The port on which its node listens.
    pub port: u16,
    /// Its address on the control network.
    pub control: Ipv4Addr,
}

/// A link.
#[derive(Clone, Debug)]
pub struct LinkPlace {
    /// Its name in the scenario.
    pub name: String,
    /// The end that dials, and the end that listens.
    pub ends: [End; 2],
    /// The parts of which it is made.
    pub made: Made,
    /// The means to end a contact.
    pub at_end: AtEnd,
    /// True if it is there only during contacts.
    pub planned: bool,
    /// Octets that its rate moves in a round trip.
    pub flight_octets: u64,
    /// The position of the link whose interfaces and addresses it has; none where it has its own.
    pub over: Option<usize>,
}

/// An end of a link.
#[derive(Clone, Debug)]
pub struct End {
    /// The position of its host.
    pub host: usize,
    /// The interface.
    pub interface: String,
    /// The interface's address, of a network of four.
    pub address: Ipv4Addr,
}

/// The parts of which a link is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// Channels between TUN devices, and the trace of their rate where that changes.
    Emulator(Profile, Option<RateTrace>, Option<Delay>),
    /// A veth pair.
    Veth,
    /// A veth pair and a token bucket.
    Tbf {
        /// Bits a second.
        rate_bits: u64,
        /// Octets that may leave at once.
        burst: u64,
        /// Octets that may wait.
        queue: u64,
    },
    /// A veth pair and the words of a netem queue.
    Netem(String),
}

impl Made {
    /// True if a queue of the kernel keeps the rate, and drops packets for which it has no room.
    #[must_use]
    pub const fn has_queue(&self) -> bool {
        matches!(self, Self::Tbf { .. } | Self::Netem(_))
    }

    /// The name of its kind in a scenario.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Emulator(..) => "emulator",
            Self::Veth => "veth",
            Self::Tbf { .. } => "tbf",
            Self::Netem(_) => "netem",
        }
    }

    /// Octets that may pass in one direction at the beginning of a contact beside those that the rate moves; nothing where no rate is kept.
    #[must_use]
    pub const fn ahead_octets(&self) -> Option<u64> {
        match self {
            Self::Veth => None,
            Self::Tbf { burst, .. } => Some(*burst),
            Self::Emulator(..) | Self::Netem(_) => Some(0),
        }
    }
}

/// The bucket of tbf: 4 ms at the rate, at least two packets with their Ethernet headers. It is what the link gives beyond its rate after
/// each rest, and how late the kernel's timer may be without a loss of rate.
const TBF_BURST: Duration = Duration::from_millis(4);
const TBF_BURST_MIN_OCTETS: u64 = 2 * (LINK_MTU_OCTETS + ETHERNET_OCTETS);

/// From this rate on links of `by = "auto"` are made by tbf: its bucket is 4 ms there. Below, the
/// two packets of its bucket are a longer time of the link.
const TBF_FROM_OCTETS_PER_S: u64 = 20_000_000 / 8;

/// Contacts of links that tbf makes are at least as long, where `by` is `"auto"`: in that time what it counts of Ethernet headers, which the
/// rate of a link has not, is more than its bucket.
const TBF_CONTACT_MIN: Duration = Duration::from_millis(500);

/// The queue of a link that names none: 50 ms at the rate, at least this many octets.
const TBF_QUEUE: Duration = Duration::from_millis(50);
const TBF_QUEUE_MIN_OCTETS: u64 = 1 << 17;

/// Octets of the largest packet of a link.
pub const LINK_MTU_OCTETS: u64 = 1_500;

/// Octets of an Ethernet header, which tbf counts.
const ETHERNET_OCTETS: u64 = 14;

impl Layout {
    /// The layout that a scenario asks for, in a lab of a name.
    ///
    /// # Errors
    /// When the scenario asks for something that a testbed cannot have.
    pub fn new(scenario: &Scenario, lab: &str) -> Result<Self, LabError> {
        if scenario.nodes.len() > HOSTS_MAX || scenario.links.len() > LINKS_MAX {
            let what = format!(
                "{} nodes and {} links are more than a machine has room for",
                scenario.nodes.len(),
                scenario.links.len()
            );
            let hint =
                format!("at most {HOSTS_MAX} and {LINKS_MAX}; `dhow sim run` has larger networks");
            return Err(LabError::new(what).with_hint(hint));
        }
        let mut hosts = Vec::new();
        for (offset, node) in (2_u32..).zip(&scenario.nodes) {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if node.name.is_empty()
                || !node.name.chars().all(plain)
                || node.name.len() > NAME_OCTETS_MAX
            {
                let what = format!("'{}' cannot be the name of a host", node.name);
                return Err(LabError::new(what).with_hint("letters, digits, '-', '_' and '.' can"));
            }
            hosts.push(HostPlace {
                name: node.name.clone(),
                number: node.number,
                kind: node.host.kind,
                namespace: format!("dhow-{lab}-{}", node.name),
                guest_of: node.guest_of.map(|owner| owner.0),
                port: PORT,
                control: Ipv4Addr::from_bits(CONTROL.to_bits() + offset),
            });
        }
        settle_guests(&mut hosts);
        if hosts.iter().any(|host| host.name == "control") {
            let hint = "the testbed's own network has that name";
            return Err(LabError::new("no node may be named 'control'").with_hint(hint));
        }
        if let Some(host) = hosts.iter().find(|host| [".", ".."].contains(&&*host.name)) {
            let what = format!("no node may be named '{}'", host.name);
            let hint = "a node's files are in a directory of its name";
            return Err(LabError::new(what).with_hint(hint));
        }
        let mut links = Vec::new();
        let made = makes(scenario)?;
        for ((number, link), made) in (0_u32..).zip(&scenario.links).zip(made) {
            let network = LINKS.to_bits() + 4 * number;
            let end = |host: NodeIndex, offset: u32| End {
                host: host.0,
                interface: format!("link{number}"),
                address: Ipv4Addr::from_bits(network + offset),
            };
            links.push(LinkPlace {
                name: link.name.clone(),
                ends: [end(link.between.0, 1), end(link.between.1, 2)],
                made,
                at_end: link.at_end,
                planned: link.presence == Presence::Planned,
                flight_octets: link.rate.octets_in(link.round_trip()),
                over: link.over.map(|wire| wire.0),
            });
        }
        share_wires(&mut links, &hosts);
        Ok(Self {
            lab: lab.to_owned(),
            hosts,
            links,
        })
    }

    /// The namespace of the control network.
    #[must_use]
    pub fn control_namespace(&self) -> String {
        format!("dhow-{}-control", self.lab)
    }

    /// The address at which hosts reach what listens in the control network's namespace.
    #[must_use]
    pub fn control_address(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(CONTROL.to_bits() + 1)
    }

    /// The address of the lab's collector.
    #[must_use]
    pub fn collector(&self) -> String {
        format!("tcp:{}:{COLLECTOR_PORT}", self.control_address())
    }

    /// The collector's address by way of a host.
    #[must_use]
    pub fn collector_behind(&self, host: &HostPlace) -> Ipv4Addr {
        Ipv4Addr::from_bits(DETOURS.to_bits() + host.control.to_bits() - CONTROL.to_bits())
    }

    /// The address of measurements that a host passes on.
    #[must_use]
    pub fn collector_by(&self, host: &HostPlace) -> String {
        format!("tcp:{}:{COLLECTOR_PORT}", self.collector_behind(host))
    }

    /// The addresses of two hosts on the first link between them that always is there.
    #[must_use]
    pub fn addresses_between(&self, one: usize, other: usize) -> Option<(Ipv4Addr, Ipv4Addr)> {
        let mut links = self.links.iter().filter(|link| !link.planned);
        links.find_map(|link| {
            let of = |host| link.ends.iter().find(|end| end.host == host);
            Some((of(one)?.address, of(other)?.address))
        })
    }

    /// The host of a name.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<(usize, &HostPlace)> {
        let mut hosts = self.hosts.iter().enumerate();
        hosts.find(|(_, host)| host.name == name)
    }

    /// Hosts that share no other's.
    pub fn own_hosts(&self) -> impl Iterator<Item = &HostPlace> {
        self.hosts.iter().filter(|host| host.guest_of.is_none())
    }

    /// The address of a host on the first link that it shares with another, or on the link of a name.
    #[must_use]
    pub fn address_from(&self, here: usize, there: usize, link: Option<&str>) -> Option<Ipv4Addr> {
        let owner = |at: usize| self.hosts.get(at)?.guest_of.or(Some(at));
        if owner(here) == owner(there) && link.is_none() {
            return Some(Ipv4Addr::LOCALHOST);
        }
        let mut links = self.links.iter().filter(|it| match link {
            Some(name) => it.name == name,
            None => it.ends.iter().any(|end| end.host == here),
        });
        links.find_map(|link| {
            let end = link.ends.iter().find(|end| end.host == there)?;
            Some(end.address)
        })
    }
}

/// Gives nodes on the hosts of others what those have, and a port of their own.
fn settle_guests(hosts: &mut [HostPlace]) {
    let owners = hosts.to_vec();
    let mut ports = vec![PORT; owners.len()];
    for host in hosts {
        let Some(owner) = host.guest_of else {
            continue;
        };
        if let (Some(place), Some(port)) = (owners.get(owner), ports.get_mut(owner)) {
            *port += 1;
            host.namespace.clone_from(&place.namespace);
            (host.control, host.port) = (place.control, *port);
        }
    }
}

/// Gives links over the wires of others the interfaces and addresses of those, at the ends on the same host.
fn share_wires(links: &mut [LinkPlace], hosts: &[HostPlace]) {
    let owner = |host: usize| hosts.get(host).and_then(|it| it.guest_of).unwrap_or(host);
    let wires = links.to_vec();
    for link in links {
        let Some(wire) = link.over.and_then(|over| wires.get(over)) else {
            continue;
        };
        for end in &mut link.ends {
            let same = wire.ends.iter();
            let mut same = same.filter(|it| owner(it.host) == owner(end.host));
            if let Some(shared) = same.next() {
                end.interface.clone_from(&shared.interface);
                end.address = shared.address;
            }
        }
    }
}

/// The kinds of the links of a scenario, in their order.
///
/// # Errors
/// When nothing here can make one.
pub(crate) fn makes(scenario: &Scenario) -> Result<Vec<Made>, LabError> {
    let short = |contact: &&Contact| contact.length < TBF_CONTACT_MIN;
    let short = scenario.contacts.iter().filter(short);
    let brief: BTreeSet<usize> = short.map(|contact| contact.link.0).collect();
    let links = scenario.links.iter().enumerate();
    links
        .map(|(number, link)| {
            let is_fast = link.rate.octets_per_s() >= TBF_FROM_OCTETS_PER_S;
            let usual = match is_fast && !brief.contains(&number) {
                true => By::Tbf,
                false => By::Emulator,
            };
            made(link, usual)
        })
        .collect()
}

/// The kind of a link; `usual` where it is plain and nothing else is asked for.
fn made(link: &Link, usual: By) -> Result<Made, LabError> {
    let delay = link.delay.longest();
    let is_constant = delay == link.delay.shortest();
    let named = |what: String| LabError::new(format!("link '{}': {what}", link.name));
    let wire = &link.wire;
    let plain = delay.is_zero()
        && link.rate_trace.is_none()
        && link.jitter.is_zero()
        && link.loss == Loss::None
        && wire.duplicate == Part::NONE
        && wire.reorder == Part::NONE;
    let by = match wire.by {
        By::Auto if plain => usual,
        By::Auto => By::Emulator,
        by => by,
    };
    if matches!(by, By::Tbf | By::Veth) && !plain {
        let error = named(
            "neither tbf nor veth can delay, lose or reorder packets, or follow a trace".to_owned(),
        );
        return Err(error.with_hint("by = \"emulator\" can"));
    }
    if by == By::Netem && !is_constant {
        let error = named("netem has no delay that changes in time".to_owned());
        return Err(error.with_hint("by = \"emulator\" has"));
    }
    Ok(match by {
        By::Veth => Made::Veth,
        By::Tbf | By::Auto => Made::Tbf {
            rate_bits: link.rate.octets_per_s().saturating_mul(8),
            burst: link.rate.octets_in(TBF_BURST).max(TBF_BURST_MIN_OCTETS),
            queue: wire
                .queue_octets
                .unwrap_or_else(|| link.rate.octets_in(TBF_QUEUE).max(TBF_QUEUE_MIN_OCTETS)),
        },
        By::Emulator => {
            let profile = Profile::new(link.rate, delay)
                .with_jitter(link.jitter)
                .with_loss(link.loss)
                .with_duplicates(wire.duplicate)
                .with_reordering(wire.reorder, wire.reorder_by);
            let profile = match wire.queue_octets {
                Some(octets) => profile.with_queue_octets(octets),
                None => profile,
            };
            let course = (!is_constant).then(|| link.delay.clone());
            Made::Emulator(profile, link.rate_trace.clone(), course)
        }
        By::Netem => Made::Netem(netem(link, delay)?),
    })
}

/// The words of a netem queue that is like a link.
fn netem(link: &Link, delay: Duration) -> Result<String, LabError> {
    if link.rate_trace.is_some() {
        let what = format!("link '{}': netem cannot follow a trace", link.name);
        return Err(LabError::new(what).with_hint("by = \"emulator\" can"));
    }
    let wire = &link.wire;
    let percent = |part: u32| format!("{}.{:07}%", part / 10_000_000, part % 10_000_000);
    let mut words = format!(
        "netem rate {}bit delay {}us",
        link.rate.octets_per_s().saturating_mul(8),
        delay.as_micros()
    );
    if !link.jitter.is_zero() {
        words += &format!(" {}us", link.jitter.as_micros());
    }
    match link.loss {
        Loss::None => {}
        Loss::Independent { per_billion } => words += &format!(" loss {}", percent(per_billion)),
        _ => {
            let what = format!(
                "link '{}': netem cannot lose packets in bursts here",
                link.name
            );
            return Err(LabError::new(what).with_hint("by = \"emulator\" can"));
        }
    }
    if wire.duplicate != Part::NONE {
        words += &format!(" duplicate {}", percent(wire.duplicate.per_billion()));
    }
    if wire.reorder != Part::NONE {
        let what = format!(
            "link '{}': netem reorders packets differently from the emulator",
            link.name
        );
        return Err(LabError::new(what).with_hint("by = \"emulator\" has it"));
    }
    let queue = wire.queue_octets.unwrap_or(1_000 * LINK_MTU_OCTETS);
    words += &format!(" limit {}", (queue / LINK_MTU_OCTETS).max(1));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn layout(links: &str) -> Result<Layout, LabError> {
        layout_of("8Mbit", links)
    }

    fn layout_of(rate: &str, links: &str) -> Result<Layout, LabError> {
        let text = format!(
            "[[node]]\nname = \"east\"\n[[node]]\nname = \"west\"\n[[node]]\nname = \"third\"\n[[link]]\nbetween = [\"east\", \"west\"]\nrate = \"{rate}\"\n{links}[stop]\nat = \"1s\"\n"
        );
        let scenario = Scenario::parse(Path::new("s.toml"), &text).expect("a scenario");
        Layout::new(&scenario, "abc123")
    }

    #[test]
    fn the_means_of_a_link_follow_from_what_is_asked_of_it() {
        let contact = |length: &str| {
            format!("[[contact]]\nlink = \"east-west\"\nstart = \"0\"\nfor = \"{length}\"\n")
        };
        for (rate, keys, expected) in [
            ("20Mbit", "", "tbf"),
            ("1Gbit", "", "tbf"),
            ("20Mbit", &contact("500ms"), "tbf"),
            ("20Mbit", &contact("499ms"), "emulator"),
            ("19Mbit", "", "emulator"),
            ("64kbit", "", "emulator"),
            ("64kbit", "by = \"tbf\"\n", "tbf"),
        ] {
            let layout = layout_of(rate, keys).expect("a layout");
            assert_eq!(layout.links[0].made.name(), expected, "{rate} {keys}");
        }
        for (keys, expected) in [
            ("delay = \"5ms\"\n", "emulator"),
            ("loss = 0.1\n", "emulator"),
            ("reorder = 0.1\n", "emulator"),
            ("by = \"veth\"\n", "veth"),
            ("by = \"emulator\"\n", "emulator"),
            ("by = \"netem\"\ndelay = \"5ms\"\n", "netem"),
            ("by = \"tbf\"\ndelay = \"5ms\"\n", "refused"),
            ("delay = [\"0 1s\", \"1h 2s\"]\n", "emulator"),
            ("by = \"netem\"\ndelay = [\"0 1s\", \"1h 2s\"]\n", "refused"),
        ] {
            let found = match layout(keys) {
                Err(_) => "refused",
                Ok(layout) => layout.links[0].made.name(),
            };
            assert_eq!(found, expected, "{keys}");
        }
    }

    #[test]
    fn the_bucket_of_tbf_is_four_milliseconds_and_never_less_than_two_packets() {
        for (rate, expected) in [("64kbit", 3_028), ("100Mbit", 50_000)] {
            let layout = layout_of(rate, "by = \"tbf\"\n").expect("a layout");
            assert_eq!(layout.links[0].made.ahead_octets(), Some(expected));
        }
    }

    #[test]
    fn hosts_see_each_other_on_the_links_that_they_share() {
        let more = "[[link]]\nbetween = [\"west\", \"third\"]\nname = \"far\"\nrate = \"1Mbit\"\n";
        let layout = layout(more).expect("a layout");
        let seen = |here, there, link| {
            let found = layout.address_from(here, there, link);
            found.map(|address| address.to_string())
        };
        assert_eq!(seen(0, 1, None).as_deref(), Some("198.18.0.2"));
        assert_eq!(seen(1, 0, None).as_deref(), Some("198.18.0.1"));
        assert_eq!(seen(2, 1, None).as_deref(), Some("198.18.0.5"));
        assert_eq!(seen(0, 1, Some("far")).as_deref(), Some("198.18.0.5"));
        assert_eq!(seen(0, 0, None).as_deref(), Some("127.0.0.1"));
        assert_eq!(seen(0, 2, None), None);
    }
}
