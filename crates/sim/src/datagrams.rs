//! Links over UDP and LTP: datagrams that a node gives, that leave its socket, cross a channel, and are given to the node at the other end, or are not.
//!
//! Both ends have a link in their configuration, and so a conversation each. Nothing is dialled: a conversation begins as soon as a node
//! asks for it, and what comes while there is none is lost, as it is where nobody has a socket.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use dhow_bundle::storage::Piece;
use dhow_bundle::{FragmentRange, Instant};
use dhow_channel::{Channel, Profile, channel};
use dhow_link::Batch;
use dhow_link::datagram::Limit;
use dhow_node::config::LinkId;
use dhow_node::driver::{Event, Purpose, StreamId};
use dhow_scenario::scenario::{AtEnd, Link, OnSent, Presence, Protocol};

use crate::clients::CLIENT;
use crate::connection::length;
use crate::dialling::road_at;
use crate::entropy::Entropy;
use crate::ledger::BundleName;
use crate::machine::Machine;
use crate::oracle::{Seen, Watch};
use crate::queue::{MachineIndex, Occurrent, Side};
use crate::world::World;

/// Octets that may wait in a socket to leave, and as many to be read, headers included: the size that Linux gives a socket (`net.core.wmem_default`).
/// Datagrams that come beyond it are lost; those that are to leave wait in the driver.
const SOCKET_OCTETS: u64 = 212_992;

/// Octets of the headers of IPv4 and UDP, which take the line as well.
const HEADERS: [u8; 28] = [0; 28];

/// Datagrams that a node is asked for at once, and that it is told of at once, at most.
const BATCH: usize = 64;

/// Streams with this bit are conversations by datagrams.
const DATAGRAMS: u64 = 1 << 62;

/// Bits of the link's number in the number of such a stream: above the side, below the count of streams.
const ROAD_BITS: u32 = 24;

/// The two ends of a link with datagrams.
#[derive(Debug)]
pub struct Air {
    protocol: Protocol,
    dialling: Socket,
    accepting: Socket,
}

/// One end of such a link.
#[derive(Debug)]
pub struct Socket {
    /// The channel that takes the datagrams which leave here.
    pub(crate) channel: Channel,
    /// When the channel is looked at next.
    armed: Option<Instant>,
    conversation: Option<Conversation>,
    /// Whether a `Sendable` is on its way.
    unsynced: bool,
    /// Bundles that have left and are kept, since the machine started.
    kept: BTreeSet<(BundleName, FragmentRange)>,
}

/// The conversation of a node over such a link.
#[derive(Debug)]
struct Conversation {
    stream: StreamId,
    begun: Instant,
    /// Given by the node, and not in the socket yet: octets of the store are read when they leave.
    unsent: VecDeque<Vec<Piece>>,
    /// Arrived and not read.
    unread: VecDeque<Bytes>,
    unread_octets: u64,
    watch: Watch,
}

impl Air {
    /// A link's sockets, with nothing in them.
    #[must_use]
    pub fn new(link: &Link, entropy: &mut Entropy) -> Self {
        let profile = Profile::new(link.rate, link.delay.longest())
            .with_queue_octets(u64::MAX)
            .with_jitter(link.jitter)
            .with_loss(link.loss)
            .with_duplicates(link.wire.duplicate)
            .with_reordering(link.wire.reorder, link.wire.reorder_by);
        let mut socket = || {
            let mut channel = Channel::new(profile, entropy.draw());
            if link.delay.shortest() != link.delay.longest() {
                channel = channel.with_delay(link.delay.clone());
            }
            if let Some(trace) = &link.rate_trace {
                channel = channel.with_trace(trace.clone());
            }
            if link.presence == Presence::Planned {
                channel.handle_contact(Instant::START, channel::Contact::Down);
            }
            Socket {
                channel,
                armed: None,
                conversation: None,
                unsynced: false,
                kept: BTreeSet::new(),
            }
        };
        Self {
            protocol: link.protocol,
            dialling: socket(),
            accepting: socket(),
        }
    }

    /// The protocol of its datagrams.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The fate of a bundle that has left, where nobody acknowledges it.
    #[must_use]
    pub const fn on_sent(&self) -> Option<OnSent> {
        self.protocol.on_sent()
    }

    /// The nodes know whether something can leave.
    pub fn handle_path(&mut self, is_open: bool, now: Instant) {
        for socket in [&mut self.dialling, &mut self.accepting] {
            if let Some(conversation) = &mut socket.conversation {
                conversation.watch.handle_path(is_open, now);
            }
        }
    }

    /// One end.
    #[must_use]
    pub const fn socket(&self, side: Side) -> &Socket {
        match side {
            Side::Dialling => &self.dialling,
            Side::Accepting => &self.accepting,
        }
    }

    const fn socket_mut(&mut self, side: Side) -> &mut Socket {
        match side {
            Side::Dialling => &mut self.dialling,
            Side::Accepting => &mut self.accepting,
        }
    }

    /// A contact begins or ends: datagrams that have left by then arrive, and those that wait in the sockets are lost.
    pub fn handle_contact(&mut self, now: Instant, contact: channel::Contact) {
        self.dialling.channel.handle_contact(now, contact);
        self.accepting.channel.handle_contact(now, contact);
    }

    /// The power fails at one end: what waits in its socket is lost.
    fn cut(&mut self, side: Side, now: Instant) {
        let channel = &mut self.socket_mut(side).channel;
        let contact = channel.contact();
        channel.handle_contact(now, channel::Contact::Down);
        channel.handle_contact(now, contact);
    }
}

impl Socket {
    /// Whether a node has a conversation here.
    #[must_use]
    pub const fn is_used(&self) -> bool {
        self.conversation.is_some()
    }

    /// Whether a transfer comes in here that may still be completed.
    #[must_use]
    pub fn is_receiving(&self, now: Instant) -> bool {
        let conversation = self.conversation.as_ref();
        conversation.is_some_and(|it| it.watch.is_receiving(now))
    }

    /// Datagrams that have left, octets with headers.
    #[must_use]
    pub const fn left_octets(&self) -> u64 {
        self.channel.counters().left_octets
    }
}

impl World {
    /// A node wants a conversation over a link.
    pub(crate) fn converse(&mut self, at: MachineIndex, number: u32, link: LinkId) {
        let now = self.now;
        self.next_stream += 1;
        let Some(road) = self.roads.get_mut(road_at(number)) else {
            return;
        };
        let side = match road.ends.0 == at {
            true => Side::Dialling,
            false => Side::Accepting,
        };
        let is_dark = road.at_end == AtEnd::Reset && !road.is_open();
        let delay = road.course().clone();
        let other = road.machine(side.other());
        let Some(air) = &mut road.air else { return };
        let numbers = [at, other].map(|it| self.numbers.get(it.at()).copied().unwrap_or(0));
        let numbers = (u64::from(numbers[0]), u64::from(numbers[1]));
        let Some(mut watch) = Watch::of(air.protocol, numbers, delay, now) else {
            return;
        };
        if is_dark {
            watch.handle_path(false, now);
        }
        let last_bit = u64::from(side == Side::Accepting);
        let stream = (self.next_stream << (ROAD_BITS + 1)) | (u64::from(number) << 1) | last_bit;
        let stream = StreamId(DATAGRAMS | stream);
        air.socket_mut(side).conversation = Some(Conversation {
            stream,
            begun: now,
            unsent: VecDeque::new(),
            unread: VecDeque::new(),
            unread_octets: 0,
            watch,
        });
        let purpose = Purpose::Dialled { link };
        if let Some(running) = self.running_mut(at) {
            running
                .inbox
                .push_back(Event::Connected { stream, purpose });
        }
    }

    /// Whether a stream is a conversation by datagrams, over or not.
    pub(crate) const fn is_conversation(stream: StreamId) -> bool {
        stream.0 & (CLIENT | DATAGRAMS) == DATAGRAMS
    }

    /// The link and side of a conversation that a node has.
    fn conversation_at(&self, stream: StreamId) -> Option<(u32, Side)> {
        let number = u32::try_from((stream.0 >> 1) & ((1 << ROAD_BITS) - 1)).ok()?;
        let side = match stream.0 & 1 {
            0 => Side::Dialling,
            _ => Side::Accepting,
        };
        let socket = self.socket(number, side)?;
        let conversation = socket.conversation.as_ref()?;
        (conversation.stream == stream).then_some((number, side))
    }

    fn socket(&self, number: u32, side: Side) -> Option<&Socket> {
        let air = self.roads.get(road_at(number))?.air.as_ref()?;
        Some(air.socket(side))
    }

    /// The sockets of a machine, each with the machine at the other end.
    pub(crate) fn sockets_of(
        &self,
        at: MachineIndex,
    ) -> impl Iterator<Item = (MachineIndex, &Socket)> {
        let roads = self.machines.get(at.at()).map(|it| &it.roads);
        let roads = roads.into_iter().flatten();
        let roads = roads.filter_map(move |number| self.roads.get(road_at(*number)));
        roads.filter_map(move |road| {
            let sides = [Side::Dialling, Side::Accepting];
            let side = sides.into_iter().find(|side| road.machine(*side) == at)?;
            let socket = road.air.as_ref()?.socket(side);
            Some((road.machine(side.other()), socket))
        })
    }

    fn socket_mut(&mut self, number: u32, side: Side) -> Option<&mut Socket> {
        let air = self.roads.get_mut(road_at(number))?.air.as_mut()?;
        Some(air.socket_mut(side))
    }

    fn conversation_mut(&mut self, number: u32, side: Side) -> Option<&mut Conversation> {
        self.socket_mut(number, side)?.conversation.as_mut()
    }

    /// A node has no more to do with a conversation: what it gave and has not left does not leave.
    pub(crate) fn end_conversation(&mut self, stream: StreamId) {
        if let Some((number, side)) = self.conversation_at(stream)
            && let Some(socket) = self.socket_mut(number, side)
        {
            socket.conversation = None;
        }
    }

    /// A machine has crashed; datagrams in its sockets leave where it still has power.
    pub(crate) fn end_conversations(&mut self, at: MachineIndex, has_power: bool) {
        let now = self.now;
        let roads = self.machines.get(at.at()).map(|it| it.roads.clone());
        for number in roads.into_iter().flatten() {
            let Some(road) = self.roads.get_mut(road_at(number)) else {
                continue;
            };
            let sides = [Side::Dialling, Side::Accepting].map(|side| (side, road.machine(side)));
            let Some(air) = &mut road.air else { continue };
            for (side, _) in sides.into_iter().filter(|(_, machine)| *machine == at) {
                let socket = air.socket_mut(side);
                socket.conversation = None;
                socket.kept.clear();
                if !has_power {
                    air.cut(side, now);
                }
            }
        }
    }

    /// A node has datagrams for a conversation.
    pub(crate) fn flush_datagrams(&mut self, at: MachineIndex, stream: StreamId) {
        if let Some((number, side)) = self.conversation_at(stream) {
            self.send_datagrams(at, (number, side));
        }
    }

    /// A socket has room again.
    pub(crate) fn sendable(&mut self, number: u32, side: Side) {
        let Some(road) = self.roads.get_mut(road_at(number)) else {
            return;
        };
        let at = road.machine(side);
        if let Some(air) = &mut road.air {
            air.socket_mut(side).unsynced = false;
        }
        self.send_datagrams(at, (number, side));
        self.turn(at);
    }

    /// Sends what a node has given, and what it still gives, for as long as the socket takes it.
    fn send_datagrams(&mut self, at: MachineIndex, (number, side): (u32, Side)) {
        let now = self.now;
        let limit = Limit {
            datagrams: BATCH,
            octets: SOCKET_OCTETS,
        };
        loop {
            if !self.empty_outbox(at, (number, side)) {
                return;
            }
            let Some(socket) = self.socket_mut(number, side) else {
                return;
            };
            let Some(stream) = socket.conversation.as_ref().map(|it| it.stream) else {
                return;
            };
            let mut given = Batch::new();
            let Some(running) = self.running_mut(at) else {
                return;
            };
            let shown = running.now(now);
            running
                .node
                .poll_datagrams(shown, stream, limit, &mut given);
            let Some(conversation) = self.conversation_mut(number, side) else {
                return;
            };
            if given.is_empty() {
                return;
            }
            let mut judged = Ok(());
            for pieces in given.datagrams() {
                let octets = pieces.iter().map(Piece::length).sum();
                judged = judged.and(conversation.watch.handle_given(octets, now));
                conversation.unsent.push_back(pieces.to_vec());
            }
            if let Err(what) = judged {
                self.call_datagram(at, &what);
            }
        }
    }

    /// Puts what a node has given into the socket; false where that is full, or the conversation over.
    fn empty_outbox(&mut self, at: MachineIndex, (number, side): (u32, Side)) -> bool {
        let now = self.now;
        let mut datagrams = 0;
        let (stream, is_empty) = loop {
            let Some(socket) = self.socket_mut(number, side) else {
                return false;
            };
            let again = socket.channel.poll_departure(now);
            let waiting = socket.channel.waiting_octets();
            let Some(conversation) = &mut socket.conversation else {
                return false;
            };
            let stream = conversation.stream;
            let Some(next) = conversation.unsent.front() else {
                break (stream, Some(true));
            };
            let octets = next.iter().map(Piece::length).sum::<u64>();
            if let Some(again) = again.filter(|_| waiting + octets > SOCKET_OCTETS) {
                if !std::mem::replace(&mut socket.unsynced, true) {
                    self.queue.push(again, Occurrent::Sendable(number, side));
                }
                break (stream, Some(false));
            }
            let pieces = conversation.unsent.pop_front().unwrap_or_default();
            let machine = self.machines.get_mut(at.at());
            let Some(packet) = machine.and_then(|it| it.packet(now, &pieces)) else {
                // The disk does not give what was to be sent.
                self.end_conversation(stream);
                break (stream, None);
            };
            datagrams += 1;
            self.leave((number, side), &packet);
        };
        if let Some(running) = self.running_mut(at) {
            let left = (datagrams > 0).then_some(Event::Left { stream, datagrams });
            let over = is_empty.is_none().then_some(Event::Disconnected { stream });
            running.inbox.extend(left.into_iter().chain(over));
        }
        is_empty.unwrap_or(false)
    }

    /// A socket takes a datagram.
    fn leave(&mut self, (number, side): (u32, Side), packet: &Bytes) {
        let now = self.now;
        let Some(socket) = self.socket_mut(number, side) else {
            return;
        };
        socket.channel.handle_packet(now, packet.clone());
        self.watch_channel(number, side);
        let datagram = packet.get(HEADERS.len()..).unwrap_or_default();
        let Some(conversation) = self.conversation_mut(number, side) else {
            return;
        };
        let seen = conversation.watch.handle_said(datagram, now);
        self.judge_datagram((number, side), seen);
    }

    /// Looks at a channel again when something arrives.
    fn watch_channel(&mut self, number: u32, side: Side) {
        let Some(socket) = self.socket_mut(number, side) else {
            return;
        };
        let Some(due) = socket.channel.poll_timeout() else {
            return;
        };
        if socket.armed.is_none_or(|armed| due < armed) {
            socket.armed = Some(due);
            self.queue.push(due, Occurrent::Crossed(number, side));
        }
    }

    /// Datagrams may have crossed a link from one side.
    pub(crate) fn crossed(&mut self, number: u32, side: Side) {
        let now = self.now;
        let Some(socket) = self.socket_mut(number, side) else {
            return;
        };
        if socket.armed != Some(now) {
            return;
        }
        socket.armed = None;
        let mut packets = Vec::new();
        while let Some(packet) = socket.channel.poll_packet(now) {
            packets.push(packet);
        }
        self.watch_channel(number, side);
        let to = side.other();
        let Some(at) = self.roads.get(road_at(number)).map(|it| it.machine(to)) else {
            return;
        };
        for packet in packets {
            let datagram = packet.slice(HEADERS.len().min(packet.len())..);
            self.capture_datagram(number, side, &datagram);
            let Some(conversation) = self.conversation_mut(number, to) else {
                continue;
            };
            let octets = conversation.unread_octets + length(&packet);
            if octets <= SOCKET_OCTETS {
                conversation.unread_octets = octets;
                conversation.unread.push_back(datagram);
            }
        }
        if let Some(running) = self.running_mut(at) {
            if !running.has_datagrams.contains(&(number, to)) {
                running.has_datagrams.push((number, to));
            }
            self.turn(at);
        }
    }

    /// Gives a node datagrams that have arrived, if it takes any.
    pub(crate) fn feed_datagrams(&mut self, at: MachineIndex) -> bool {
        let now = self.now;
        let mut place = 0;
        loop {
            let Some(running) = self.running_mut(at) else {
                return false;
            };
            let Some(&(number, side)) = running.has_datagrams.get(place) else {
                return false;
            };
            let conversation = self.conversation_mut(number, side);
            let Some(conversation) = conversation.filter(|it| !it.unread.is_empty()) else {
                if let Some(running) = self.running_mut(at) {
                    running.has_datagrams.remove(place);
                }
                continue;
            };
            let stream = conversation.stream;
            let running = self.running_mut(at);
            if running.is_none_or(|running| !running.node.takes_octets(stream)) {
                place += 1;
                continue;
            }
            let Some(conversation) = self.conversation_mut(number, side) else {
                return false;
            };
            let count = conversation.unread.len().min(BATCH);
            let datagrams: Vec<Bytes> = conversation.unread.drain(..count).collect();
            let mut seen = Vec::new();
            for datagram in &datagrams {
                let headers = u64::try_from(HEADERS.len()).unwrap_or(0);
                let octets = length(datagram) + headers;
                conversation.unread_octets = conversation.unread_octets.saturating_sub(octets);
                seen.extend(conversation.watch.handle_heard(datagram, now));
            }
            self.judge_datagram((number, side), Ok(seen));
            if let Some(running) = self.running_mut(at) {
                let event = Event::Datagrams { stream, datagrams };
                running.inbox.push_back(event);
            }
            return true;
        }
    }

    /// Judges the bundles that a datagram shows, at the end of a link at which it left or was read.
    fn judge_datagram(&mut self, (number, side): (u32, Side), seen: Result<Vec<Seen>, String>) {
        let Some(road) = self.roads.get(road_at(number)) else {
            return;
        };
        let (at, other) = (road.machine(side), road.machine(side.other()));
        let on_sent = road.air.as_ref().and_then(|air| air.on_sent());
        let conversation = self
            .socket(number, side)
            .and_then(|it| it.conversation.as_ref());
        let begun = conversation.map_or(self.now, |it| it.begun);
        let to = self.numbers.get(other.at()).copied();
        let seen = match seen {
            Ok(seen) => seen,
            Err(what) => return self.call_datagram(at, &what),
        };
        let moment = self.moment();
        for seen in seen {
            let Some(on_sent) = on_sent else {
                // Somebody acknowledges it, as in a session.
                self.judge_copy(at, &seen, to);
                if let Err(wrong) = self.judge_seen(at, seen, (begun, to), moment) {
                    self.accuse_wrong(at, wrong);
                }
                continue;
            };
            if let Seen::HeardWhole(parcel) = &seen {
                self.await_taken(at, parcel.name, parcel.range());
            }
            let left = match &seen {
                Seen::SaidWhole(parcel, _) => Some(Arc::clone(parcel)),
                _ => None,
            };
            if let Err(wrong) = self.judge_seen(at, seen, (begun, to), moment) {
                self.accuse_wrong(at, wrong);
            }
            let Some(parcel) = left else { continue };
            let is_rotten = self.ledger.record(parcel.name).rotten;
            let station = self.voyages.as_mut().and_then(|it| it.station_mut(at));
            let judged = station.map_or(Ok(()), |station| station.handle_left(&parcel));
            if let Some(wrong) = judged.err().filter(|_| !is_rotten) {
                self.accuse_wrong(at, wrong);
            }
            self.custodies.handle_given(at, &parcel, parcel.octets());
            let (range, how) = (parcel.range(), (parcel.total_octets(), on_sent));
            self.ledger.let_go(parcel.name, range, how);
            let socket = self.socket_mut(number, side);
            let kept = socket.filter(|_| on_sent == OnSent::Keep);
            if kept.is_some_and(|it| !it.kept.insert((parcel.name, range))) {
                self.call_datagram(at, "sends again what it keeps");
            }
        }
    }

    fn call_datagram(&mut self, at: MachineIndex, what: &str) {
        let sentence = format!("in datagrams, {} {what}", self.name(at));
        self.accuse("wire", sentence, &[at]);
    }
}

impl Machine {
    /// A datagram with its headers; `None` where the disk does not give its octets.
    fn packet(&mut self, now: Instant, pieces: &[Piece]) -> Option<Bytes> {
        let has_extents = pieces.iter().any(|it| matches!(it, Piece::Extent(_)));
        if has_extents && self.failing.read(now) {
            return None;
        }
        let mut packet = BytesMut::from(&HEADERS[..]);
        for piece in pieces {
            match piece {
                Piece::Octets(octets) => packet.extend_from_slice(octets),
                Piece::Extent(extent) => packet.extend_from_slice(&self.storage.read(&[*extent])?),
            }
        }
        Some(packet.freeze())
    }
}
