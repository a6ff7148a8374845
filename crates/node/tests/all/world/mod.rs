//! A few nodes, the plainest stores and pipes between them, driven step by step from one seed.

pub mod air;
pub mod client;
pub mod store;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use air::Air;
use bytes::{Bytes, BytesMut};
use client::Client;
use dhow_bundle::storage::{Extents, Piece, StoreEvent};
use dhow_bundle::{DtnTime, Instant, Now};
use dhow_link::Gather;
use dhow_node::Node;
use dhow_node::config::{
    Config, DialTime, Enabled, LinkConfig, LinkId, ListenerId, Route, SessionPolicy,
};
use dhow_node::contacts::PlannedContact;
use dhow_node::driver::{
    Action, Announcement, Event, LinkAddress, Occurrence, OperatorRefusal, Path, Purpose, StreamId,
    Ticket,
};
use store::Store;

/// Wall clock when a world begins.
pub const EPOCH: DtnTime = DtnTime::from_millis(800_000_000_000);

/// A contact between two nodes, in seconds from when a world begins.
#[allow(dead_code, reason = "each test uses a part")]
pub fn contact((from, to): (u32, u32), (start_s, end_s): (u64, u64)) -> PlannedContact {
    let node = |number: u32| format!("ipn:{number}.0").parse().unwrap();
    PlannedContact {
        from: node(from),
        to: node(to),
        start: EPOCH.saturating_add_millis(start_s * 1_000),
        end: EPOCH.saturating_add_millis(end_s * 1_000),
        octets_per_s: 125_000,
        light_time_ms: 0,
    }
}

pub struct Machine {
    pub config: Config,
    pub node: Option<Node>,
    pub store: Store,
    /// When this node (re)started.
    started: Instant,
    pub occurrences: Vec<Occurrence>,
    pub clients: BTreeMap<StreamId, Client>,
    /// Programs at the external socket.
    pub programs: BTreeMap<StreamId, Program>,
    /// The machine to which each link leads.
    pub leads: Vec<usize>,
    /// Whether the clock is known to this node, and how far it is off, milliseconds.
    pub clock_ms: Option<i64>,
    /// Beacons that it is to send.
    pub beacons: Vec<Announcement>,
    /// Links that beacons told of.
    pub found: Vec<LinkAddress>,
    /// Reads that the disk has not answered.
    pub reads: Vec<(Ticket, Extents)>,
    /// Whether the disk finishes no sync.
    pub stalled: bool,
    /// Whether the machine's sockets take nothing.
    pub stuffed: bool,
}

/// A program at the external socket: the messages that it is to say, and those that it was told.
#[derive(Default)]
pub struct Program {
    pub to_node: VecDeque<Bytes>,
    pub from_node: Vec<u8>,
    pub is_over: bool,
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    octets: VecDeque<Bytes>,
}

struct Connection {
    ends: [(usize, StreamId); 2],
    pipes: [Pipe; 2],
    /// Whether nothing gets through, and nobody is told.
    frozen: bool,
}

pub struct World {
    pub machines: Vec<Machine>,
    connections: Vec<Connection>,
    pub air: Air,
    pub monotonic: Instant,
    next_stream: u64,
    random: u64,
    /// Pairs of nodes that cannot reach each other.
    pub cut: Vec<(usize, usize)>,
    /// Between which pairs of nodes everything vanishes, dials too.
    pub silent: Vec<(usize, usize)>,
    /// The state, for drivers, of paths that carry nothing.
    pub appearance: Path,
    /// When dials were made.
    pub dials: Vec<Instant>,
    /// Disks answer reads late, in any order and not always, move what they hold and refuse; every node is
    /// checked after every event.
    pub hostile: bool,
    /// Whether the knowledge that drivers have of paths is wrong now and then.
    pub misled: bool,
    /// The number of times that a hostile disk refuses a write, per thousand syncs.
    pub refusals: u64,
    /// The last answer to an operator.
    pub answer: Option<Result<(), OperatorRefusal>>,
    /// The time that each event takes.
    pub pace: Duration,
    /// Octets that arrived at each node from neighbours.
    pub carried: BTreeMap<usize, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Line,
    Circle,
}

pub fn config(node: u32) -> Config {
    Config {
        quota_octets: 1 << 30,
        quota_bundles: 1 << 20,
        store_queue_octets: 1 << 20,
        removed_bound: 10_000,
        seed: u64::from(node),
        ..Config::usual(vec![format!("ipn:{node}.0").parse().unwrap()])
    }
}

impl World {
    /// A line of nodes 1, 2, 3 …, each dialling the next, with routes both ways by links and peers.
    pub fn line(count: u32, seed: u64, edit: impl Fn(u32, &mut Config)) -> Self {
        Self::build(count, seed, Shape::Line, edit)
    }

    /// Nodes in a circle, each dialling the next and sending everything that is not its own to it.
    #[allow(dead_code, reason = "each test uses a part")]
    pub fn circle(count: u32, seed: u64, edit: impl Fn(u32, &mut Config)) -> Self {
        Self::build(count, seed, Shape::Circle, |number, config| {
            config.routes = vec![Route {
                to: "ipn:*".into(),
                via: "next".into(),
                priority: 0,
            }];
            edit(number, config);
        })
    }

    fn build(count: u32, seed: u64, shape: Shape, edit: impl Fn(u32, &mut Config)) -> Self {
        let machines = (1..=count).map(|number| {
            let mut config = config(number);
            let mut leads = Vec::new();
            if number < count || shape == Shape::Circle {
                config.links.push(LinkConfig {
                    dial: DialTime::Always,
                    name: "next".into(),
                    policy: SessionPolicy::default(),
                    enabled: Enabled::Yes,
                    sessions: 1,
                    backoff_min_ms: 50,
                    backoff_max_ms: 1_000,
                    protocol: dhow_node::config::Protocol::default(),
                });
                config.routes = (number + 1..=count)
                    .map(|to| Route {
                        to: format!("ipn:{to}.*"),
                        via: "next".into(),
                        priority: 0,
                    })
                    .collect();
                leads.push(usize::try_from(number % count).unwrap());
            }
            edit(number, &mut config);
            if config.links.last().is_some_and(|link| link.name == "back") {
                leads.push(usize::try_from(number).unwrap() - 2);
            }
            Machine {
                config,
                node: None,
                store: Store::default(),
                started: Instant::START,
                occurrences: Vec::new(),
                clients: BTreeMap::new(),
                programs: BTreeMap::new(),
                leads,
                clock_ms: Some(0),
                beacons: Vec::new(),
                found: Vec::new(),
                reads: Vec::new(),
                stalled: false,
                stuffed: false,
            }
        });
        let mut world = Self {
            machines: machines.collect(),
            connections: Vec::new(),
            air: Air::default(),
            monotonic: Instant::START,
            next_stream: 0,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            cut: Vec::new(),
            silent: Vec::new(),
            appearance: Path::Lost,
            dials: Vec::new(),
            hostile: false,
            misled: false,
            refusals: 40,
            answer: None,
            pace: Duration::ZERO,
            carried: BTreeMap::new(),
        };
        for machine in 0..world.machines.len() {
            world.start(machine);
        }
        world
    }

    pub fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % below
    }

    pub fn now(&self, machine: usize) -> Now {
        let machine = &self.machines[machine];
        let ms = i64::try_from(self.monotonic.as_nanos() / 1_000_000).unwrap();
        let dtn = machine.clock_ms.map_or(DtnTime::UNKNOWN, |off| {
            DtnTime::from_millis(
                u64::try_from(i64::try_from(EPOCH.as_millis()).unwrap() + ms + off).unwrap(),
            )
        });
        let up = self.monotonic - machine.started;
        Now {
            monotonic: Instant::START + up,
            dtn,
        }
    }

    pub fn start(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        machine.started = self.monotonic;
        let (store, found) = Store::recover(machine.store.kept.clone());
        let capacity = machine.store.capacity;
        machine.store = store;
        machine.store.capacity = capacity;
        let (time, sequence) = machine.store.kept.reserved;
        let removed = machine.store.kept.removed.clone();
        machine.node = Some(Node::new(machine.config.clone()));
        for (bundle, extents) in found {
            let bundle = Box::new(bundle);
            self.handle(at, Event::Recovered { bundle, extents });
        }
        self.handle(
            at,
            Event::Opened {
                reserved_time: time,
                reserved_sequence: sequence,
                removed,
            },
        );
    }

    /// The node is gone from one instant to the next; octets that it had sent still arrive.
    pub fn crash(&mut self, at: usize) {
        self.machines[at].node = None;
        self.machines[at].clients.clear();
        self.machines[at].programs.clear();
        self.machines[at].reads.clear();
        self.air.forget(at, None);
        self.disconnect(|ends| ends.iter().any(|(machine, _)| *machine == at));
    }

    /// Nodes `a` and `b` can no longer reach each other.
    pub fn cut(&mut self, a: usize, b: usize) {
        self.cut.push((a.min(b), a.max(b)));
        self.disconnect(|ends| {
            ends.iter()
                .all(|(machine, _)| *machine == a || *machine == b)
        });
    }

    /// The connections of nodes `a` and `b` fall silent for good; new connections are not affected.
    pub fn freeze(&mut self, a: usize, b: usize) {
        for connection in &mut self.connections {
            if connection
                .ends
                .iter()
                .all(|(machine, _)| *machine == a || *machine == b)
            {
                connection.frozen = true;
            }
        }
    }

    /// Damage octets under way from node `a` to node `b`, in the middle of much; false when there is not.
    #[allow(dead_code, reason = "each test uses a part")]
    pub fn spoil(&mut self, a: usize, b: usize) -> bool {
        let found = self.connections.iter_mut().find_map(|connection| {
            let ends = connection.ends.map(|(machine, _)| machine);
            let side = match ends {
                [first, second] if (first, second) == (a, b) => 0,
                [first, second] if (first, second) == (b, a) => 1,
                _ => return None,
            };
            let mut chunks = connection.pipes[side].octets.iter_mut();
            chunks.find(|octets| octets.len() > 10_000)
        });
        let Some(octets) = found else { return false };
        let mut spoilt = BytesMut::from(&octets[..]);
        let middle = spoilt.len() / 2;
        spoilt[middle] ^= 0x10;
        *octets = spoilt.freeze();
        true
    }

    /// The octets that nodes `a` and `b` send each other vanish, and nobody is told. The connection that they have now never
    /// recovers from that.
    #[allow(dead_code, reason = "each test uses a part")]
    pub fn silence(&mut self, a: usize, b: usize) {
        self.freeze(a, b);
        self.silent.push((a.min(b), a.max(b)));
    }

    /// Nodes `a` and `b` hear each other again.
    #[allow(dead_code, reason = "each test uses a part")]
    pub fn end_silence(&mut self, a: usize, b: usize) {
        self.silent.retain(|&pair| pair != (a.min(b), a.max(b)));
    }

    pub fn join(&mut self, a: usize, b: usize) {
        self.cut.retain(|&pair| pair != (a.min(b), a.max(b)));
    }

    fn disconnect(&mut self, which: impl Fn(&[(usize, StreamId); 2]) -> bool) {
        let (gone, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.connections)
            .into_iter()
            .partition(|it| which(&it.ends));
        self.connections = left;
        // The ends of a frozen connection are not told.
        for connection in gone.into_iter().filter(|it| !it.frozen) {
            for (machine, stream) in connection.ends {
                self.handle(machine, Event::Disconnected { stream });
            }
        }
    }

    pub fn connect(&mut self, at: usize, client: Client) -> StreamId {
        let stream = self.stream();
        self.machines[at].clients.insert(stream, client);
        self.handle(
            at,
            Event::Connected {
                stream,
                purpose: Purpose::Client,
            },
        );
        stream
    }

    #[allow(dead_code, reason = "each test uses a part")]
    pub fn connect_program(&mut self, at: usize) -> StreamId {
        let stream = self.stream();
        self.machines[at]
            .programs
            .insert(stream, Program::default());
        let purpose = Purpose::Program;
        self.handle(at, Event::Connected { stream, purpose });
        stream
    }

    pub fn leave(&mut self, at: usize, stream: StreamId) -> Client {
        let client = self.machines[at]
            .clients
            .remove(&stream)
            .expect("the client is there");
        self.handle(at, Event::Disconnected { stream });
        client
    }

    pub fn client(&mut self, at: usize, stream: StreamId) -> &mut Client {
        self.machines[at]
            .clients
            .get_mut(&stream)
            .expect("the client is there")
    }

    fn stream(&mut self) -> StreamId {
        self.next_stream += 1;
        StreamId(self.next_stream)
    }

    pub fn handle(&mut self, at: usize, event: Event) {
        let now = self.now(at);
        if let Some(node) = self.machines[at].node.as_mut() {
            node.handle(now, event);
        }
        self.pump(at);
        self.check(at);
    }

    /// A node's sockets take octets again.
    pub fn unstuff(&mut self, at: usize) {
        self.machines[at].stuffed = false;
        let ends = self.connections.iter().flat_map(|it| it.ends);
        let streams: Vec<StreamId> = ends.filter(|it| it.0 == at).map(|it| it.1).collect();
        for stream in streams {
            self.flush(at, stream);
        }
        self.pump(at);
    }

    /// Everything in a node is as it must be.
    pub fn check(&self, at: usize) {
        if self.hostile
            && let Some(node) = self.machines[at].node.as_ref()
            && let Err(what) = node.check_invariants()
        {
            panic!("node {}: {what}", at + 1);
        }
    }

    fn pump(&mut self, at: usize) {
        let now = self.now(at);
        while let Some(action) = self.machines[at]
            .node
            .as_mut()
            .and_then(|node| node.poll(now))
        {
            match action {
                Action::Store(command) => self.machines[at].store.handle(command),
                Action::Read { ticket, extents } if self.hostile => {
                    self.machines[at].reads.push((ticket, extents));
                }
                Action::Read { ticket, extents } => {
                    let octets = Some(self.machines[at].store.read(&extents));
                    if let Some(node) = self.machines[at].node.as_mut() {
                        node.handle(now, Event::Read { ticket, octets });
                    }
                }
                Action::Dial { link } => self.dial(at, link),
                Action::StopDialling { .. } => {}
                Action::CheckPath { stream } => {
                    let path = self.path(at, stream);
                    self.handle(at, Event::PathChecked { stream, path });
                }
                Action::Flush { stream } | Action::StartTls { stream } => self.flush(at, stream),
                Action::Abort { stream } => {
                    self.air.forget(at, Some(stream));
                    self.disconnect(|ends| ends.contains(&(at, stream)));
                }
                Action::Close { stream } => {
                    self.flush(at, stream);
                    self.air.forget(at, Some(stream));
                    self.close(at, stream);
                    let program = self.machines[at].programs.get_mut(&stream);
                    let is_program = program.map(|it| it.is_over = true).is_some();
                    if is_program || self.machines[at].clients.remove(&stream).is_some() {
                        self.handle(at, Event::Disconnected { stream });
                    }
                }
                Action::Answer { outcome, .. } => {
                    let known = outcome.is_ok() || self.hostile;
                    assert!(known, "the operator knows what it asks: {outcome:?}");
                    self.answer = Some(outcome);
                }
                Action::Occurred(occurrence) => self.machines[at].occurrences.push(occurrence),
                Action::Announce(_, announcement) => self.machines[at].beacons.push(announcement),
                Action::LinkFound(found) => {
                    let leads = &mut self.machines[at].leads;
                    let link = usize::try_from(found.link.0).unwrap();
                    leads.resize(leads.len().max(link + 1), usize::MAX);
                    // The port says which machine it is.
                    leads[link] = usize::from(found.port - 1);
                    self.machines[at].found.push(*found);
                }
            }
        }
    }

    fn close(&mut self, at: usize, stream: StreamId) {
        // The octets that were written before the end still arrive.
        let found = self
            .connections
            .iter()
            .position(|it| it.ends.contains(&(at, stream)));
        if let Some(place) = found {
            while self.carry(place, usize::MAX) {}
            if place < self.connections.len()
                && self.connections[place].ends.contains(&(at, stream))
            {
                let connection = self.connections.remove(place);
                for (machine, stream) in connection.ends {
                    self.handle(machine, Event::Disconnected { stream });
                }
            }
        }
    }

    /// Dials a link.
    pub fn dial(&mut self, at: usize, link: LinkId) {
        // Further links lead where the first does.
        let leads = &self.machines[at].leads;
        let to = *leads
            .get(usize::try_from(link.0).unwrap())
            .unwrap_or(&leads[0]);
        self.dials.push(self.monotonic);
        if self.speaks_datagrams(at, link) {
            return self.converse(at, link, to);
        }
        if self.silent.contains(&(at.min(to), at.max(to))) {
            return;
        }
        let reachable = self.machines.get(to).is_some_and(|it| it.node.is_some())
            && !self.cut.contains(&(at.min(to), at.max(to)));
        if !reachable {
            self.handle(
                at,
                Event::DialFailed {
                    link,
                    reason: "unreachable".into(),
                },
            );
            return;
        }
        let ends = [(at, self.stream()), (to, self.stream())];
        self.connections.push(Connection {
            ends,
            pipes: Default::default(),
            frozen: false,
        });
        self.handle(
            at,
            Event::Connected {
                stream: ends[0].1,
                purpose: Purpose::Dialled { link },
            },
        );
        let listener = ListenerId(0);
        self.handle(
            to,
            Event::Connected {
                stream: ends[1].1,
                purpose: Purpose::Accepted { listener },
            },
        );
    }

    /// The octets that a driver would know of a stream's path.
    fn path(&mut self, at: usize, stream: StreamId) -> Path {
        if self.misled && self.random(4) == 0 {
            return match self.random(4) {
                0 => Path::Open,
                1 => Path::Lost,
                2 => Path::Dark,
                _ => Path::Unknown,
            };
        }
        let connection = self
            .connections
            .iter()
            .find(|it| it.ends.contains(&(at, stream)));
        // The other side may have cut it without a word getting through.
        if connection.is_none_or(|it| it.frozen) {
            self.appearance
        } else {
            Path::Open
        }
    }

    fn flush(&mut self, at: usize, stream: StreamId) {
        if self.machines[at].stuffed {
            return;
        }
        if self.air.has(at, stream) {
            return self.send_datagrams(at, stream);
        }
        let now = self.now(at);
        loop {
            let mut out = Gather::new();
            let Some(node) = self.machines[at].node.as_mut() else {
                return;
            };
            node.poll_octets(now, stream, 64 * 1024, &mut out);
            if out.is_empty() {
                return;
            }
            let mut octets = BytesMut::new();
            for piece in out.pieces() {
                match piece {
                    Piece::Octets(piece) => octets.extend_from_slice(piece),
                    Piece::Extent(extent) => {
                        octets.extend_from_slice(&self.machines[at].store.read(&[*extent]))
                    }
                }
            }
            let octets = octets.freeze();
            if let Some(client) = self.machines[at].clients.get_mut(&stream) {
                client.hear(octets);
                continue;
            }
            if let Some(program) = self.machines[at].programs.get_mut(&stream) {
                program.from_node.extend_from_slice(&octets);
                continue;
            }
            let connection = self
                .connections
                .iter_mut()
                .find(|it| it.ends.contains(&(at, stream)));
            if let Some(connection) = connection {
                let side = usize::from(connection.ends[1] == (at, stream));
                connection.pipes[side].octets.push_back(octets);
            }
        }
    }

    /// Carry some octets of one connection to the other side; false when there are none.
    fn carry(&mut self, place: usize, most: usize) -> bool {
        // Neither side's octets wait until the other has none.
        let first = if self.hostile { self.random(2) } else { 0 };
        let first = usize::try_from(first).unwrap();
        let Some(connection) = self.connections.get_mut(place).filter(|it| !it.frozen) else {
            return false;
        };
        for side in [first, 1 - first] {
            if let Some(mut octets) = connection.pipes[side].octets.pop_front() {
                if octets.len() > most {
                    let rest = octets.split_off(most);
                    connection.pipes[side].octets.push_front(rest);
                }
                let (machine, stream) = connection.ends[1 - side];
                *self.carried.entry(machine).or_default() += u64::try_from(octets.len()).unwrap();
                self.handle(machine, Event::Octets { stream, octets });
                return true;
            }
        }
        false
    }

    /// Everything that is under way between nodes arrives at once, as one chunk in each direction.
    #[allow(dead_code, reason = "each test uses a part")]
    pub fn rush(&mut self) {
        for place in 0..self.connections.len() {
            for side in [0, 1] {
                let Some(connection) = self.connections.get_mut(place) else {
                    return;
                };
                let mut octets = BytesMut::new();
                for chunk in connection.pipes[side].octets.drain(..) {
                    octets.extend_from_slice(&chunk);
                }
                let octets = octets.freeze();
                let (machine, stream) = connection.ends[1 - side];
                if !octets.is_empty() {
                    self.handle(machine, Event::Octets { stream, octets });
                }
            }
        }
    }

    /// One thing happens somewhere; false when nothing can but time.
    pub fn step(&mut self) -> bool {
        self.monotonic = self.monotonic + self.pace;
        let machines = u64::try_from(self.machines.len()).unwrap();
        let first = usize::try_from(self.random(machines)).unwrap();
        let most = 1 + usize::try_from(self.random(20_000)).unwrap();
        if !self.connections.is_empty() {
            let count = u64::try_from(self.connections.len()).unwrap();
            let place = usize::try_from(self.random(count)).unwrap();
            if self.random(3) > 0 && self.carry(place, most) {
                return true;
            }
        }
        if !self.air.is_empty() && self.random(3) > 0 {
            self.carry_datagrams();
            return true;
        }
        for offset in 0..self.machines.len() {
            let at = (first + offset) % self.machines.len();
            if self.machines[at].node.is_some()
                && (self.client_octets(at) || self.answer_read(at) || self.sync(at))
            {
                return true;
            }
        }
        (0..self.connections.len()).any(|place| self.carry(place, most)) || self.carry_datagrams()
    }

    fn client_octets(&mut self, at: usize) -> bool {
        let machine = &mut self.machines[at];
        let Some(node) = machine.node.as_ref() else {
            return false;
        };
        let ready = machine.clients.iter_mut().find_map(|(&stream, client)| {
            let octets = if node.takes_octets(stream) {
                client.to_node.pop_front()
            } else {
                None
            };
            octets.map(|octets| (stream, octets))
        });
        let ready = ready.or_else(|| {
            machine.programs.iter_mut().find_map(|(&stream, program)| {
                let takes = !program.is_over && node.takes_octets(stream);
                let octets = takes.then(|| program.to_node.pop_front());
                Some((stream, octets.flatten()?))
            })
        });
        let Some((stream, octets)) = ready else {
            return false;
        };
        self.handle(at, Event::Octets { stream, octets });
        true
    }

    /// A disk answers one of the reads that it was asked for, whichever.
    fn answer_read(&mut self, at: usize) -> bool {
        let count = u64::try_from(self.machines[at].reads.len()).unwrap();
        if count == 0 || self.random(3) == 0 {
            return false;
        }
        let which = usize::try_from(self.random(count)).unwrap();
        let (ticket, extents) = self.machines[at].reads.swap_remove(which);
        let octets = (self.random(20) > 0).then(|| self.machines[at].store.read(&extents));
        self.handle(at, Event::Read { ticket, octets });
        true
    }

    fn sync(&mut self, at: usize) -> bool {
        if self.machines[at].stalled {
            return false;
        }
        if self.hostile {
            let dice = (self.random(4), self.random(1_000));
            let machine = &mut self.machines[at];
            if dice.0 == 0 {
                machine.store.relocate(dice.1);
            }
            machine.store.refusing = dice.1 < self.refusals;
        }
        if self.machines[at].store.is_clean() {
            return !self.machines[at].reads.is_empty();
        }
        let events: Vec<StoreEvent> = self.machines[at].store.sync();
        let now = self.now(at);
        for event in events {
            if let Some(node) = self.machines[at].node.as_mut() {
                node.handle(now, Event::Store(event));
            }
            self.check(at);
        }
        self.pump(at);
        self.check(at);
        true
    }

    /// Time passes on all nodes.
    pub fn pass(&mut self, duration: Duration) {
        self.monotonic = self.monotonic + duration;
        for at in 0..self.machines.len() {
            let now = self.now(at);
            if let Some(node) = self.machines[at].node.as_mut() {
                node.handle_timeout(now);
            }
            self.pump(at);
            self.check(at);
        }
    }

    /// Let things happen, and time pass where nothing else can, until `done` or a bound.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let end = self.monotonic + Duration::from_secs(1_200);
        for _ in 0..200_000 {
            if done(self) {
                return;
            }
            if !self.step() {
                self.pass(Duration::from_millis(if self.hostile { 200 } else { 25 }));
            }
            if self.monotonic > end {
                break;
            }
        }
        panic!("never: {what}");
    }

    /// Let so many things happen that can without time.
    #[allow(dead_code, reason = "each test uses a part")]
    pub fn settle_some(&mut self, count: u32) {
        for _ in 0..count {
            if !self.step() {
                return;
            }
        }
    }

    /// Let this many seconds pass.
    #[allow(dead_code, reason = "each test uses a part")]
    pub fn stay(&mut self, seconds: u32) {
        for _ in 0..seconds * 40 {
            self.settle();
            self.pass(Duration::from_millis(25));
        }
        self.settle();
    }

    /// Let everything that can happen without time happen.
    pub fn settle(&mut self) {
        for _ in 0..200_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the nodes never come to rest");
    }
}
