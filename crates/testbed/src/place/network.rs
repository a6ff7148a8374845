//! The network itself: namespaces, their links and the control network, made and kept.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use dhow_channel::Counters as ChannelCounters;
use dhow_scenario::scenario::AtEnd;
use serde_json::Value;

use super::device::{Counters, Devices};
use super::layout::{End, HostPlace, Layout, LinkPlace, Made};
use super::passed::Taken;
use super::reset::reset;
use super::state::state_directory;
use super::switch::Switch;
use super::{batch, buffers};
use crate::emulate::{Emulator, Place, Tally};
use crate::failure::LabError;
use crate::namespace;

/// Hosts that are set up at once: the kernel lets few changes happen beside each other.
const WORKERS: usize = 4;

/// Hosts whose queues are told though no link of theirs has a rate.
const PLAIN_HOSTS_MAX: usize = 64;

/// Octets of the largest packet of a link.
const MTU: u16 = 1_500;

/// The bridge of the control network, in its namespace.
pub const CONTROL_BRIDGE: &str = "ctl";

/// The interface to the control network.
pub const CONTROL_INTERFACE: &str = "ctl0";

/// The table of rules that ends contacts silently.
const CUT: &str = "dhow_cut";

/// All namespaces and links of a lab, for as long as this lives; [`clear`](super::clear::clear) removes namespaces.
pub struct Network {
    layout: Layout,
    links: Vec<Link>,
    devices: Mutex<Vec<Devices>>,
    stop: Arc<AtomicBool>,
    /// When the traces of emulated links begin.
    start: Arc<OnceLock<Instant>>,
    emulators: Vec<JoinHandle<()>>,
    fault: Arc<Mutex<Option<LabError>>>,
}

/// A link's state beside that in the kernel.
struct Link {
    cut: Cut,
    tally: Option<Tally>,
    /// Packets that the ends of contacts took, from either end.
    taken: Mutex<[Taken; 2]>,
}

impl Link {
    fn new(cut: Cut, tally: Option<Tally>) -> Self {
        let taken = Mutex::default();
        Self { cut, tally, taken }
    }
}

/// The means to end and begin a contact.
enum Cut {
    /// The interfaces go down and up; where an emulator is between them, it is told to drop what waits there.
    Interfaces([Switch; 2], Option<Mutex<io::PipeWriter>>),
    /// Packets are dropped by rules.
    Rules,
    /// The emulator is told.
    Channel(Mutex<io::PipeWriter>),
    /// The means are with the link whose wire this one shares.
    Elsewhere,
}

impl Network {
    /// Makes all of it; links with contacts are down. The seed is that of what links lose.
    ///
    /// # Errors
    /// The part that could not be made; parts already made stay until they are cleared.
    pub fn build(layout: Layout, seed: u64) -> Result<Self, LabError> {
        make_namespaces(&layout)?;
        make_pairs(&layout)?;
        let mut network = Self {
            links: Vec::new(),
            devices: Mutex::default(),
            stop: Arc::default(),
            start: Arc::default(),
            emulators: Vec::new(),
            fault: Arc::default(),
            layout,
        };
        network.set_up_hosts()?;
        buffers::set(&network.layout)?;
        for number in 0..network.layout.links.len() {
            let link = network.make_link(number, seed)?;
            network.links.push(link);
        }
        let hosts = network.layout.hosts.iter();
        let opened = hosts.map(|host| Devices::open(&host.namespace));
        let opened: io::Result<Vec<Devices>> = opened.collect();
        network.devices = Mutex::new(
            opened.map_err(|error| LabError::io("cannot read counters of interfaces", &error))?,
        );
        let planned = (0..).zip(&network.layout.links);
        for (number, _) in planned.filter(|(_, link)| link.planned && link.over.is_none()) {
            network.set(number, false)?;
        }
        Ok(network)
    }

    /// The layout of the network.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Why an emulator ended, where one has.
    #[must_use]
    pub fn fault(&self) -> Option<LabError> {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.clone()
    }

    /// The time of the scenario begins: until now links whose rate follows a trace were at its beginning or beyond.
    pub fn begin(&self) {
        // Time that has begun does not begin again.
        let _ = self.start.set(Instant::now());
    }

    /// Begins or ends a contact of a link.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set(&self, link: usize, up: bool) -> Result<(), LabError> {
        let (Some(place), Some(link)) = (self.layout.links.get(link), self.links.get(link)) else {
            return Ok(());
        };
        let failed = |error: io::Error| {
            let what = if up { "begin" } else { "end" };
            LabError::io(
                format!("cannot {what} a contact of '{}'", place.name),
                &error,
            )
        };
        match &link.cut {
            Cut::Interfaces(switches, emulator) => {
                if !up && place.made.has_queue() {
                    let mut taken = link.taken.lock().unwrap_or_else(PoisonError::into_inner);
                    for (taken, switch) in taken.iter_mut().zip(switches) {
                        taken.wait(switch.waiting().map_err(failed)?);
                    }
                }
                // The end that dials goes up last: the listening end is there then.
                for switch in switches.iter().rev() {
                    switch.set(up).map_err(failed)?;
                }
                if !up {
                    self.reset(place).map_err(failed)?;
                    // Waiting packets are of connections that are gone, and would take the next contact's time.
                    let told = emulator.as_ref();
                    told.map_or(Ok(()), |writer| tell(writer, b"down\nup\n"))
                        .map_err(failed)?;
                }
            }
            Cut::Channel(writer) => {
                let line: &[u8] = if up { b"up\n" } else { b"down\n" };
                tell(writer, line).map_err(failed)?;
            }
            Cut::Rules => {
                let [first, second] = &place.ends;
                for (end, other, from) in [(first, second, 1), (second, first, 0)] {
                    let Some(host) = self.layout.hosts.get(end.host) else {
                        continue;
                    };
                    let rules = rules(&end.interface, up);
                    batch::tell("nft", &["-f", "-"], &rules, Some(&host.namespace))?;
                    // Packets of the other end are dropped here.
                    let sent = self.counters(other).map_err(failed)?;
                    let mut taken = link.taken.lock().unwrap_or_else(PoisonError::into_inner);
                    match taken.get_mut(from) {
                        Some(taken) if up => taken.end_dropping(sent),
                        Some(taken) => taken.begin_dropping(sent),
                        None => {}
                    }
                }
            }
            Cut::Elsewhere => {}
        }
        Ok(())
    }

    /// Resets the connections at both ends of a link.
    fn reset(&self, place: &LinkPlace) -> io::Result<()> {
        let ends = place.ends.iter();
        let mut hosts = ends.filter_map(|end| Some((self.layout.hosts.get(end.host)?, end)));
        hosts.try_for_each(|(host, end)| reset(&host.namespace, end.address))
    }

    /// The counters of an end's interface.
    fn counters(&self, end: &End) -> io::Result<Counters> {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let read = devices.get_mut(end.host).map(Devices::read).transpose()?;
        let found = read.and_then(|it| it.get(&end.interface).copied());
        Ok(found.unwrap_or_default())
    }

    /// All that left the ends of each link and did not end with a contact, from the end that dials and to it, in the order of the scenario; and
    /// the packets that were lost of either. One over the wire of another is counted there.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn carried(&self) -> io::Result<Vec<[(Counters, u64); 2]>> {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let read = devices.iter_mut().map(Devices::read);
        let read: Vec<_> = read.collect::<io::Result<_>>()?;
        let carried = self
            .layout
            .links
            .iter()
            .zip(&self.links)
            .map(|(place, link)| {
                if place.over.is_some() {
                    return Default::default();
                }
                let at = |end: &End| {
                    let counters = read.get(end.host).and_then(|it| it.get(&end.interface));
                    counters.copied().unwrap_or_default()
                };
                let [first, second] = &place.ends;
                let (first, second) = (at(first), at(second));
                if let Some(tally) = &link.tally {
                    let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                    return [left(tally.0), left(tally.1)];
                }
                let taken = link.taken.lock().unwrap_or_else(PoisonError::into_inner);
                let direction = |taken: &Taken, here: Counters, there: Counters| {
                    let (passed, taken) = taken.passed(here);
                    let missing = here.sent_packets.saturating_sub(there.received_packets);
                    (passed, taken + missing + here.dropped_packets)
                };
                let [forward, back] = &*taken;
                [
                    direction(forward, first, second),
                    direction(back, second, first),
                ]
            });
        Ok(carried.collect())
    }

    /// The kernel's queues of the interfaces of hosts that have a link with a rate, as `tc` tells them, by the names of hosts.
    ///
    /// # Errors
    /// When `tc` does not say.
    pub fn queues(&self) -> Result<BTreeMap<String, Value>, LabError> {
        let shaped = self.shaped();
        let hosts = self.numbered().filter(|(at, _)| shaped.contains(at));
        hosts
            .map(|(_, host)| Ok((host.name.clone(), queues_of(host)?)))
            .collect()
    }

    /// The same of the first hosts that have no such link; those of which `tc` says nothing are left out.
    #[must_use]
    pub fn plain_queues(&self) -> BTreeMap<String, Value> {
        let shaped = self.shaped();
        let hosts = self.numbered().filter(|(at, _)| !shaped.contains(at));
        hosts
            .take(PLAIN_HOSTS_MAX)
            .filter_map(|(_, host)| Some((host.name.clone(), queues_of(host).ok()?)))
            .collect()
    }

    /// Hosts that have a link of which the kernel keeps the rate.
    fn shaped(&self) -> BTreeSet<usize> {
        let shaped = self
            .layout
            .links
            .iter()
            .filter(|link| link.made.has_queue());
        shaped
            .flat_map(|link| link.ends.each_ref().map(|end| end.host))
            .collect()
    }

    /// Hosts by their positions.
    fn numbered(&self) -> impl Iterator<Item = (usize, &HostPlace)> {
        let hosts = self.layout.hosts.iter().enumerate();
        hosts.filter(|(_, host)| host.guest_of.is_none())
    }

    /// Addresses, rates and states of all hosts' interfaces.
    fn set_up_hosts(&self) -> Result<(), LabError> {
        let hosts: Vec<usize> = (0..self.layout.hosts.len()).collect();
        let share = hosts.len().div_ceil(WORKERS).max(1);
        thread::scope(|scope| {
            let works = hosts.chunks(share).map(|share| {
                scope.spawn(move || share.iter().try_for_each(|host| self.set_up_host(*host)))
            });
            let works: Vec<_> = works.collect();
            for work in works {
                match work.join() {
                    Ok(outcome) => outcome?,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(())
        })
    }

    fn set_up_host(&self, number: usize) -> Result<(), LabError> {
        let Some(host) = self.layout.hosts.get(number) else {
            return Ok(());
        };
        let mut lines = String::new();
        if host.guest_of.is_none() {
            quieten(&host.namespace);
            lines = format!(
                "link set lo up\naddress add {}/16 dev {CONTROL_INTERFACE}\nlink set {CONTROL_INTERFACE} up\n",
                host.control
            );
        }
        let mut shapes = String::new();
        for link in self.layout.links.iter().filter(|it| it.over.is_none()) {
            for end in link.ends.iter().filter(|end| end.host == number) {
                if matches!(link.made, Made::Emulator(..)) {
                    continue;
                }
                let interface = &end.interface;
                lines += &format!("address add {}/30 dev {interface}\n", end.address);
                lines += &format!("link set {interface} up\n");
                match &link.made {
                    Made::Tbf {
                        rate_bits,
                        burst,
                        queue,
                    } => {
                        shapes += &format!(
                            "qdisc replace dev {interface} root tbf rate {rate_bits}bit burst {burst} limit {}\n",
                            queue.saturating_add(*burst)
                        );
                    }
                    Made::Netem(words) => {
                        shapes += &format!("qdisc replace dev {interface} root {words}\n");
                    }
                    Made::Emulator(..) | Made::Veth => {}
                }
            }
        }
        batch::ip(&lines, Some(&host.namespace))?;
        batch::tell("tc", &["-batch", "-"], &shapes, Some(&host.namespace)).map_err(|error| {
            match error.what.contains("kind is unknown") {
                true => {
                    error.with_hint("this kernel has no such queue: by = \"emulator\" needs none")
                }
                false => error,
            }
        })
    }

    fn make_link(&mut self, number: usize, seed: u64) -> Result<Link, LabError> {
        let Some(place) = self.layout.links.get(number).cloned() else {
            return Err(LabError::new("there is no such link"));
        };
        if place.over.is_some() {
            return Ok(Link::new(Cut::Elsewhere, None));
        }
        if let Made::Emulator(profile, trace, delay) = place.made.clone() {
            let at = |end: &End| Place {
                namespace: self
                    .layout
                    .hosts
                    .get(end.host)
                    .map(|it| it.namespace.clone()),
                interface: end.interface.clone(),
                address: end.address.into(),
                prefix: 30,
            };
            let [left, right] = &place.ends;
            let which = u64::try_from(number)
                .unwrap_or(0)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let failed = |what: String| LabError::new(format!("link '{}': {what}", place.name));
            let tally = Tally::default();
            let (reader, writer) = io::pipe().map_err(|error| failed(error.to_string()))?;
            // The directory of the lab, by its short way.
            let directory = state_directory().join(&self.layout.lab);
            let ends = (&at(left), &at(right));
            let seed = seed ^ which;
            let mut emulator = Emulator::open(ends.0, ends.1, MTU, profile, seed, &directory)
                .map_err(|error| failed(error.to_string()))?
                .with_control(reader.into())
                .with_tally(Arc::clone(&tally));
            if let Some(trace) = trace {
                emulator = emulator.with_trace(trace, Arc::clone(&self.start));
            }
            if let Some(delay) = delay {
                emulator = emulator.with_delay(delay, Arc::clone(&self.start));
            }
            let (stop, fault) = (Arc::clone(&self.stop), Arc::clone(&self.fault));
            let name = place.name.clone();
            self.emulators.push(thread::spawn(move || {
                let ran = emulator.run(|| stop.load(Ordering::Relaxed), |_| ());
                if let Err(error) = ran {
                    let mut fault = fault.lock().unwrap_or_else(PoisonError::into_inner);
                    fault.get_or_insert(LabError {
                        what: format!("link '{name}': {error}"),
                        hint: error.hint(),
                    });
                }
            }));
            let writer = Mutex::new(writer);
            let cut = match place.at_end {
                AtEnd::Silence => Cut::Channel(writer),
                AtEnd::Reset => Cut::Interfaces(self.switches(&place)?, Some(writer)),
            };
            return Ok(Link::new(cut, Some(tally)));
        }
        let cut = match place.at_end {
            AtEnd::Silence => Cut::Rules,
            AtEnd::Reset => Cut::Interfaces(self.switches(&place)?, None),
        };
        Ok(Link::new(cut, None))
    }

    fn switches(&self, place: &LinkPlace) -> Result<[Switch; 2], LabError> {
        let [first, second] = &place.ends;
        let open = |end: &End| {
            let host = self.layout.hosts.get(end.host);
            let namespace = host.map_or("", |host| host.namespace.as_str());
            Switch::open(namespace, &end.interface)
                .map_err(|error| LabError::io(format!("cannot switch '{}'", place.name), &error))
        };
        Ok([open(first)?, open(second)?])
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for emulator in self.emulators.drain(..) {
            // One that panicked has said so itself.
            let _ = emulator.join();
        }
    }
}

/// Tells an emulator of contacts, a line each.
fn tell(writer: &Mutex<io::PipeWriter>, lines: &[u8]) -> io::Result<()> {
    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
    writer.write_all(lines)
}

/// All that left an end of an emulated link, and the number of packets that were lost.
fn left(counters: ChannelCounters) -> (Counters, u64) {
    let left = Counters {
        sent_packets: counters.left,
        sent_octets: counters.left_octets,
        ..Counters::default()
    };
    (left, counters.lost + counters.overflowed + counters.cut)
}

/// The output of `tc` on the queues of a host.
fn queues_of(host: &HostPlace) -> Result<Value, LabError> {
    let words = ["-statistics", "-json", "qdisc", "show"];
    let text = batch::ask("tc", &words, &host.namespace)?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

fn make_namespaces(layout: &Layout) -> Result<(), LabError> {
    let control = layout.control_namespace();
    let hosts = layout.own_hosts().map(|host| &host.namespace);
    let names = std::iter::once(&control).chain(hosts);
    let lines: String = names.map(|name| format!("netns add {name}\n")).collect();
    batch::ip(&lines, None)
}

/// Pairs of interfaces: those of links, and those to the bridge of the control network.
fn make_pairs(layout: &Layout) -> Result<(), LabError> {
    let control = layout.control_namespace();
    let mut lines = String::new();
    let mut bridge = format!(
        "link set lo up\nlink add {CONTROL_BRIDGE} type bridge\naddress add {}/16 dev {CONTROL_BRIDGE}\nlink set {CONTROL_BRIDGE} up\n",
        layout.control_address()
    );
    for (number, host) in layout.own_hosts().enumerate() {
        lines += &format!(
            "link add {CONTROL_INTERFACE} netns {} type veth peer name c{number} netns {control}\n",
            host.namespace
        );
        bridge += &format!("link set c{number} master {CONTROL_BRIDGE}\nlink set c{number} up\n");
    }
    for link in layout.links.iter().filter(|it| it.over.is_none()) {
        let hosts = link.ends.each_ref().map(|end| layout.hosts.get(end.host));
        let ([first, second], [Some(one), Some(other)]) = (&link.ends, hosts) else {
            continue;
        };
        if !matches!(link.made, Made::Emulator(..)) {
            lines += &format!(
                "link add {} netns {} type veth peer name {} netns {}\n",
                first.interface, one.namespace, second.interface, other.namespace
            );
        }
    }
    quieten(&control);
    batch::ip(&lines, None)?;
    batch::ip(&bridge, Some(&control))
}

/// No IPv6, whose neighbours would be looked for over every link.
fn quieten(namespace: &str) {
    let path = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
    let default = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
    // A kernel without IPv6 is as quiet.
    let _ = namespace::within(namespace, || {
        std::fs::write(default, "1").and_then(|()| std::fs::write(path, "1"))
    });
}

/// Rules that drop all that comes and leaves over an interface, or their end.
fn rules(interface: &str, up: bool) -> String {
    let table = format!("{CUT}_{interface}");
    if up {
        return format!("add table inet {table}\ndelete table inet {table}\n");
    }
    format!(
        "add table inet {table}
add chain inet {table} in {{ type filter hook prerouting priority -400; }}
add rule inet {table} in iifname \"{interface}\" drop
add chain inet {table} out {{ type filter hook postrouting priority 400; }}
add rule inet {table} out oifname \"{interface}\" drop
"
    )
}
