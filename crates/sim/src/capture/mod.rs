//! A packet capture of the octets that pass over a network's links; Wireshark opens it.
//!
//! Each connection is a TCP conversation as it would be seen where octets arrive: in the order of virtual time, with headers that
//! are made up, but right. Retransmissions and acknowledgments of their own are not simulated, so there are none. A datagram of a link over UDP is a packet.
//!
//! Start at [`Capture`]; `packet` makes what stands before octets, `pcapng` the blocks of the file.

mod packet;
mod pcapng;
mod tap;

use std::fmt::Write as _;
use std::net::Ipv6Addr;

use dhow_bundle::Instant;
use dhow_scenario::Scenario;
use dhow_scenario::scenario::Protocol;

use crate::clock::EPOCH;
use crate::queue::{MachineIndex, Side};
use packet::{ACK, FIN, PUSH, Packet, RESET, SYN};

/// The port that a node listens at (RFC 9174 8.1).
const LISTENER_PORT: u16 = 4556;

/// The port of LTP (RFC 5326 10.1).
const LTP_PORT: u16 = 1113;

/// Ports of dialling sides: so many from the first on, then again.
const FIRST_PORT: u16 = 10_000;
const PORTS: u32 = 50_000;

/// Octets of a packet, headers apart: what fits into one of IPv6, and no more than network cards put together.
const PACKET_OCTETS: usize = 60_000;

/// Remarks that wait for a link's next packet; of more, the newest count.
const REMARKS_MAX: usize = 32;

/// Seconds from the epoch of Unix to that of DTN (RFC 9171 4.2.6).
const DTN_EPOCH_S: u64 = 946_684_800;

/// A capture under way.
#[derive(Debug)]
pub struct Capture {
    /// Octets of the file that nobody has taken.
    octets: Vec<u8>,
    /// Octets of the file.
    length: u64,
    /// Octets that the file may have.
    limit: u64,
    ended: Option<Instant>,
    /// The address of each machine.
    addresses: Vec<Ipv6Addr>,
    /// Remarks for each link's next packet.
    remarks: Vec<Vec<String>>,
}

/// The way in which one side of a conversation ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In order.
    Finished,
    /// Its process was gone, or the link was.
    Reset,
}

/// A connection as a TCP conversation.
#[derive(Debug)]
pub struct Conversation {
    road: u32,
    /// The machine that dials and the one that listens.
    machines: (MachineIndex, MachineIndex),
    /// The port of the side that dials.
    port: u16,
    dialling: Speaker,
    accepting: Speaker,
    reset: bool,
}

#[derive(Clone, Copy, Debug)]
struct Speaker {
    /// The sequence number of the next octet that arrives from it.
    next: u32,
    finished: bool,
}

impl Conversation {
    /// A connection over a link; the serial number tells it from others.
    #[must_use]
    pub fn new(serial: u32, road: u32, machines: (MachineIndex, MachineIndex)) -> Self {
        let port = u16::try_from(serial % PORTS).unwrap_or(0);
        // Numbers that are used again only with a port that is.
        let speaker = |salt: u32| Speaker {
            next: (serial ^ salt).wrapping_mul(0x9e37_79b1),
            finished: false,
        };
        Self {
            road,
            machines,
            port: FIRST_PORT + port,
            dialling: speaker(0),
            accepting: speaker(0x5555_5555),
            reset: false,
        }
    }

    const fn speaker_mut(&mut self, side: Side) -> &mut Speaker {
        match side {
            Side::Dialling => &mut self.dialling,
            Side::Accepting => &mut self.accepting,
        }
    }
}

impl Capture {
    /// A capture of a scenario's links, of at most so many octets beside what says which links and nodes there are.
    #[must_use]
    pub fn new(scenario: &Scenario, limit: u64) -> Self {
        let address = |number: u32| {
            let [a, b, c, d] = number.to_be_bytes();
            // A prefix for sites (RFC 4193), `dtn` in it, and the node's number.
            Ipv6Addr::from([0xfd, b'd', b't', b'n', 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d])
        };
        let nodes = scenario.nodes.iter();
        let addresses: Vec<Ipv6Addr> = nodes.map(|node| address(node.number)).collect();
        let mut octets = Vec::new();
        pcapng::section(&mut octets, &scenario.name);
        for link in &scenario.links {
            let name = |at: usize| scenario.nodes.get(at).map_or("", |node| &node.name);
            let (dials, listens) = (name(link.between.0.0), name(link.between.1.0));
            let description = format!("{dials} dials {listens}");
            let speed = link.rate.octets_per_s().saturating_mul(8);
            pcapng::interface(&mut octets, &link.name, &description, speed);
        }
        let names = scenario.nodes.iter().map(|node| node.name.as_str());
        pcapng::names(&mut octets, addresses.iter().zip(names));
        Self {
            octets,
            length: 0,
            limit,
            ended: None,
            addresses,
            remarks: vec![Vec::new(); scenario.links.len()],
        }
    }

    /// When it had its size, if it has: later packets are not in it.
    #[must_use]
    pub const fn ended(&self) -> Option<Instant> {
        self.ended
    }

    /// Moves the octets that came since this was called last behind others.
    pub fn take(&mut self, octets: &mut Vec<u8>) {
        octets.append(&mut self.octets);
    }

    /// A call reaches the side that listens.
    pub fn call(&mut self, at: Instant, conversation: &mut Conversation) {
        self.say(at, conversation, Side::Dialling, SYN, &[]);
        conversation.dialling.next = conversation.dialling.next.wrapping_add(1);
    }

    /// The side that dialled hears that it is connected.
    pub fn answer(&mut self, at: Instant, conversation: &mut Conversation) {
        self.say(at, conversation, Side::Accepting, SYN | ACK, &[]);
        conversation.accepting.next = conversation.accepting.next.wrapping_add(1);
    }

    /// The side that listens hears that the other has heard it.
    pub fn accept(&mut self, at: Instant, conversation: &mut Conversation) {
        self.say(at, conversation, Side::Dialling, ACK, &[]);
    }

    /// Octets of one side arrive.
    pub fn octets(
        &mut self,
        at: Instant,
        conversation: &mut Conversation,
        from: Side,
        octets: &[u8],
    ) {
        for piece in octets.chunks(PACKET_OCTETS) {
            self.say(at, conversation, from, PUSH | ACK, piece);
            let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let next = &mut conversation.speaker_mut(from).next;
            *next = next.wrapping_add(length);
        }
    }

    /// The end of one side arrives.
    pub fn end(
        &mut self,
        at: Instant,
        conversation: &mut Conversation,
        from: Side,
        ending: Ending,
    ) {
        if conversation.speaker_mut(from).finished {
            return;
        }
        match ending {
            Ending::Finished => {
                self.say(at, conversation, from, FIN | ACK, &[]);
                let speaker = conversation.speaker_mut(from);
                speaker.next = speaker.next.wrapping_add(1);
                speaker.finished = true;
            }
            Ending::Reset => {
                self.say(at, conversation, from, RESET | ACK, &[]);
                conversation.reset = true;
            }
        }
    }

    /// Something happened to a link that no packet shows: the next one says it.
    pub fn remark(&mut self, at: Instant, road: u32, what: &str) {
        let place = usize::try_from(road).unwrap_or(usize::MAX);
        let Some(remarks) = self.remarks.get_mut(place) else {
            return;
        };
        if remarks.len() == REMARKS_MAX {
            remarks.remove(0);
        }
        let nanos = at.as_nanos();
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        let mut remark = String::new();
        // Writing into a text does not fail.
        let _ = write!(remark, "{seconds}.{rest:09} s: {what}");
        remarks.push(remark);
    }

    fn say(
        &mut self,
        at: Instant,
        conversation: &mut Conversation,
        from: Side,
        flags: u8,
        octets: &[u8],
    ) {
        if self.ended.is_some() || conversation.reset {
            return;
        }
        let (dials, listens) = conversation.machines;
        let to = conversation.speaker_mut(from.other()).next;
        let sequence = conversation.speaker_mut(from).next;
        let (machines, ports) = match from {
            Side::Dialling => ((dials, listens), (conversation.port, LISTENER_PORT)),
            Side::Accepting => ((listens, dials), (LISTENER_PORT, conversation.port)),
        };
        let packet = Packet {
            from: self.address(machines.0),
            to: self.address(machines.1),
            ports,
            sequence,
            acknowledged: if flags & ACK == 0 { 0 } else { to },
            flags,
            octets,
        };
        let packet = packet.encode();
        self.write(at, conversation.road, &packet);
    }

    /// A datagram of a protocol arrives, from and at these machines.
    pub fn datagram(
        &mut self,
        at: Instant,
        road: u32,
        (protocol, from, to): (Protocol, MachineIndex, MachineIndex),
        octets: &[u8],
    ) {
        if self.ended.is_none() {
            let ends = (self.address(from), self.address(to));
            let packet = packet::datagram(ends, port(protocol), octets);
            self.write(at, road, &packet);
        }
    }

    fn address(&self, at: MachineIndex) -> Ipv6Addr {
        let address = self.addresses.get(at.at()).copied();
        address.unwrap_or(Ipv6Addr::UNSPECIFIED)
    }

    /// Adds a packet with what was remarked of its link, as long as there is room.
    fn write(&mut self, at: Instant, road: u32, packet: &[u8]) {
        let place = usize::try_from(road).unwrap_or(usize::MAX);
        let remarks = self.remarks.get_mut(place).map(std::mem::take);
        let before = self.octets.len();
        let nanos = (DTN_EPOCH_S * 1_000 + EPOCH.as_millis()) * 1_000_000 + at.as_nanos();
        pcapng::packet(
            &mut self.octets,
            road,
            nanos,
            packet,
            &remarks.unwrap_or_default(),
        );
        let added = u64::try_from(self.octets.len() - before).unwrap_or(u64::MAX);
        if self.length.saturating_add(added) > self.limit {
            self.octets.truncate(before);
            self.ended = Some(at);
            return;
        }
        self.length += added;
    }
}

/// The port that datagrams of a protocol come from and go to.
const fn port(protocol: Protocol) -> u16 {
    match protocol {
        Protocol::Ltp(_) => LTP_PORT,
        _ => LISTENER_PORT,
    }
}
