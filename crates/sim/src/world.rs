//! A network in virtual time: its parts, and the loop in which everything happens.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_bundle::router::Acknowledgments;
use dhow_link::Gather;
use dhow_node::config::LinkId;
use dhow_node::recording::Content;
use dhow_scenario::scenario::{
    Clock, ClockStep, Contact, Crash, Faults, Fidelity, NodeIndex, Presence, Traffic,
};
use dhow_scenario::{Scenario, Schedule};

use crate::batteries::Battery;
use crate::capture::Capture;
use crate::clock::ClockError;
use crate::congestion::Control;
use crate::connection::{Connection, Wire};
use crate::dialling::Dial;
use crate::disk::Hand;
use crate::entropy::{Entropy, Purpose};
use crate::ledger::Ledger;
use crate::looking::Awaited;
use crate::machine::{Failing, Machine, Most};
use crate::network::{NetworkError, blueprints};
use crate::oracle::{
    Airtime, Custodies, Energy, Kept, Precedence, Spreads, Violation, Voyages, beyond,
};
use crate::payload::Payloads;
use crate::queue::{Life, MachineIndex, Occurrent, Queue};
use crate::radios::Radios;
use crate::sample::Sample;
use crate::storage::Storage;
use crate::store_times::StoreTimes;
use crate::trace::{Step, Trace, What};

/// Things that may happen at one instant: beyond it a node is turning in circles.
const AT_ONCE_MAX: u64 = 1_000_000;

/// The number of samples of a run.
const SAMPLES: u32 = 200;

/// Slack for every comparison of two nodes' clocks.
const TOLERANCE: Duration = Duration::from_secs(1);

/// A network in virtual time.
#[derive(Debug)]
pub struct World {
    pub(crate) now: Instant,
    pub(crate) fidelity: Fidelity,
    /// The time as disks see it.
    hand: Hand,
    pub(crate) queue: Queue,
    pub(crate) machines: Vec<Machine>,
    /// The times for which their timers are set, by the true time, and the lives.
    pub(crate) armed: Vec<Option<(Life, Instant)>>,
    /// The machine that is looked at next.
    pub(crate) looked_at: usize,
    /// The numbers of their nodes.
    pub(crate) numbers: Vec<u32>,
    pub(crate) roads: Vec<Wire>,
    /// Radios that do one thing at a time.
    pub(crate) radios: Radios,
    /// Octets on the air, and the energy that they took, as oracles see it.
    pub(crate) airtime: Airtime,
    pub(crate) energy: Energy,
    /// The batteries of machines that have one; empty where none has.
    pub(crate) batteries: Vec<Option<Battery>>,
    pub(crate) connections: Vec<Option<Connection>>,
    pub(crate) free_slots: Vec<u32>,
    pub(crate) dials: Vec<Option<Dial>>,
    pub(crate) free_dials: Vec<u32>,
    /// Room for what a stream is to write.
    pub(crate) gather: Gather,
    /// Bundles of which nodes have been given all by datagrams, the oldest first.
    pub(crate) awaited: VecDeque<Awaited>,
    pub(crate) next_serial: u32,
    pub(crate) next_stream: u64,
    pub(crate) contacts: Vec<Contact>,
    pub(crate) crashes: Vec<Crash>,
    pub(crate) clock_steps: Vec<ClockStep>,
    pub(crate) faults: Faults,
    pub(crate) traffic: Vec<Flow>,
    pub(crate) payloads: Payloads,
    pub(crate) ledger: Ledger,
    pub(crate) kept: Kept,
    /// The passage of bundles over links, where all octets of them are there.
    pub(crate) voyages: Option<Box<Voyages>>,
    pub(crate) spreads: Spreads,
    /// Bundles that wait, and which of them go before which.
    pub(crate) precedence: Precedence,
    /// Custody of bundles, as far as it was seen.
    pub(crate) custodies: Custodies,
    pub(crate) trace: Trace,
    pub(crate) capture: Option<Box<Capture>>,
    /// The first violations.
    pub(crate) violations: Vec<Violation>,
    /// The number of violations in all.
    pub(crate) accused: u64,
    pub(crate) samples: Vec<Sample>,
    pub(crate) store_times: StoreTimes,
    pub(crate) counts: Counts,
    pub(crate) chance: Chance,
    clock_error: ClockError,
    sample_every: Duration,
    events: u64,
    /// Things that happened at the present instant.
    at_once: u64,
    pub(crate) end: Instant,
    pub(crate) expects_all: bool,
    when_delivered: bool,
    /// The number of payloads that there will be, where that is known.
    expected: Option<u64>,
}

/// Numbers of hops that are told apart.
pub const HOPS_TOLD: usize = 32;

/// Counts of connections, contacts, flushes, bundles and faults of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Machines that crashed.
    pub crashes: u64,
    /// Disks that stalled.
    pub stalls: u64,
    /// Octets of disks that rotted.
    pub rotted: u64,
    /// Times that disks were full.
    pub filled: u64,
    /// Connections made.
    pub connections: u64,
    /// Dials that failed.
    pub dial_failures: u64,
    /// Contacts that began.
    pub contacts: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bundles that nodes took from neighbours, fragments and repetitions included.
    pub received: u64,
    /// Bundles that neighbours took.
    pub forwarded: u64,
    /// Bundles of the scenario's traffic that neighbours took: those of routers and reports are not among them.
    pub relayed: u64,
    /// Copies of such bundles that a full store deleted.
    pub dropped: u64,
    /// Deliveries of such bundles by the number of links that they crossed, from 0; the last is of all that were more. Those that
    /// say no hop count are not among them.
    pub hops: [u64; HOPS_TOLD],
    /// Bundles that expired in a store.
    pub expired: u64,
    /// Bundles that came again.
    pub duplicates: u64,
    /// Bundles that a store refused though its node had admitted them.
    pub store_refusals: u64,
}

/// The random numbers that decide which faults happen by chance.
#[derive(Debug)]
pub(crate) struct Chance {
    pub(crate) crash: Vec<Entropy>,
    pub(crate) stall: Vec<Entropy>,
    pub(crate) rot: Vec<Entropy>,
    pub(crate) full: Vec<Entropy>,
    pub(crate) reset: Vec<Entropy>,
    pub(crate) client: Vec<Entropy>,
}

/// Traffic of the scenario, and how far it is.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) traffic: Traffic,
    pub(crate) from: MachineIndex,
    /// Number of the destination.
    pub(crate) to: String,
    /// The number of its node.
    pub(crate) to_number: u32,
    /// Report-to endpoint; empty where no reports are asked for.
    pub(crate) reports_to: String,
    /// Payloads that are not due yet.
    pub(crate) due: Peekable<Schedule>,
    /// Payloads that no node has been given.
    pub(crate) ungiven: Schedule,
}

impl World {
    /// A scenario's network at its beginning, with all that a seed decides.
    ///
    /// # Errors
    /// When traffic has no way.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, NetworkError> {
        let hand = Hand::default();
        let machines = scenario.nodes.iter().zip(blueprints(scenario, seed)?);
        let machines: Vec<Machine> = machines
            .enumerate()
            .map(|(at, (node, blueprint))| {
                let room = (hand.clone(), node.disk_octets);
                let bound = blueprint.options.removed_bound;
                let mut storage = Storage::new(scenario.fidelity, room, bound);
                if scenario.faults.lying_disks {
                    storage.lie();
                }
                Machine {
                    name: node.name.clone(),
                    blueprint,
                    storage,
                    life: Life(0),
                    running: None,
                    wall: node.clock,
                    flush: node.flush,
                    read: node.read,
                    stalled: Instant::START,
                    troubled: Instant::START,
                    failing: Failing::new(
                        &scenario.faults,
                        Entropy::new(seed, Purpose::Failure, at),
                    ),
                    entropy: Entropy::new(seed, Purpose::Disk, at),
                    roads: Vec::new(),
                    recorded: None,
                    recordings: Vec::new(),
                    most: Most::default(),
                }
            })
            .collect();
        let receiver = |node: NodeIndex| {
            let node = scenario.nodes.get(node.0);
            crate::network::receiver(node.map_or(0, |node| node.number))
        };
        let flow = |(at, traffic): (usize, &Traffic)| Flow {
            traffic: traffic.clone(),
            from: machine(traffic.from.0),
            to: receiver(traffic.to),
            to_number: scenario
                .nodes
                .get(traffic.to.0)
                .map_or(0, |node| node.number),
            reports_to: match traffic.reports {
                0 => String::new(),
                _ => receiver(traffic.from),
            },
            due: Schedule::new(traffic, at, seed).peekable(),
            ungiven: Schedule::new(traffic, at, seed),
        };
        let of = |purpose, count: usize| {
            (0..count)
                .map(|at| Entropy::new(seed, purpose, at))
                .collect()
        };
        let counts: Option<Vec<u64>> = scenario.traffic.iter().map(|it| it.count).collect();
        let mut world = Self {
            now: Instant::START,
            fidelity: scenario.fidelity,
            hand,
            queue: Queue::default(),
            kept: Kept::new(machines.len()),
            voyages: voyages(scenario),
            spreads: Spreads::new(scenario),
            precedence: Precedence::new(scenario),
            custodies: Custodies::new(scenario.nodes.iter().map(|it| it.number).collect()),
            chance: Chance {
                crash: of(Purpose::Crash, machines.len()),
                stall: of(Purpose::Stall, machines.len()),
                rot: of(Purpose::Rot, machines.len()),
                full: of(Purpose::Full, machines.len()),
                reset: of(Purpose::Reset, scenario.links.len()),
                client: of(Purpose::Client, machines.len()),
            },
            clock_error: ClockError::of(scenario),
            armed: vec![None; machines.len()],
            looked_at: 0,
            machines,
            numbers: scenario.nodes.iter().map(|node| node.number).collect(),
            roads: Vec::with_capacity(scenario.links.len()),
            radios: Radios::default(),
            airtime: Airtime::default(),
            energy: Energy::new(scenario.nodes.iter().map(|node| node.battery)),
            batteries: Vec::new(),
            connections: Vec::new(),
            free_slots: Vec::new(),
            dials: Vec::new(),
            free_dials: Vec::new(),
            gather: Gather::new(),
            awaited: VecDeque::new(),
            next_serial: 0,
            next_stream: 0,
            contacts: scenario.contacts.clone(),
            crashes: scenario.crashes.clone(),
            clock_steps: scenario.clock_steps.clone(),
            faults: scenario.faults,
            traffic: scenario.traffic.iter().enumerate().map(flow).collect(),
            payloads: Payloads::of(scenario.fidelity, seed),
            ledger: Ledger::new(scenario.traffic.len()),
            trace: Trace::default(),
            capture: None,
            violations: Vec::new(),
            accused: 0,
            samples: Vec::new(),
            store_times: StoreTimes::default(),
            counts: Counts::default(),
            sample_every: (scenario.stop.at / SAMPLES).max(Duration::from_nanos(1)),
            events: 0,
            at_once: 0,
            end: Instant::START + scenario.stop.at,
            expects_all: scenario.stop.expects_all,
            when_delivered: scenario.stop.when_delivered,
            expected: counts.map(|counts| counts.iter().sum()),
        };
        world.begin(scenario, seed);
        Ok(world)
    }

    /// Everything that is known to happen is put into the queue.
    fn begin(&mut self, scenario: &Scenario, seed: u64) {
        let control = Control::of(scenario);
        for (number, link) in (0_u32..).zip(&scenario.links) {
            let ends = (machine(link.between.0.0), machine(link.between.1.0));
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let entropy = Entropy::new(seed, Purpose::Link, at);
            let mut road = Wire::new(ends, link, self.fidelity, control, entropy);
            road.contacts = u32::from(link.presence == Presence::Always);
            road.links = [ends.0, ends.1].map(|end| {
                let leads = self.machines.get(end.at());
                let place = leads.and_then(|it| it.blueprint.leads.binary_search(&number).ok())?;
                Some(LinkId(u32::try_from(place).unwrap_or(u32::MAX)))
            });
            self.roads.push(road);
            for end in [ends.0, ends.1] {
                if let Some(machine) = self.machines.get_mut(end.at()) {
                    machine.roads.push(number);
                }
            }
        }
        for at in 0..self.machines.len() {
            self.queue
                .push(Instant::START, Occurrent::Start(machine(at), Life(0)));
        }
        for (number, contact) in (0_u32..).zip(&scenario.contacts) {
            let at = Instant::START + contact.start;
            self.queue.push(at, Occurrent::ContactBegins(number));
        }
        for (number, flow) in (0_u32..).zip(&scenario.traffic) {
            let first = flow.list.first().map_or(Duration::ZERO, |listed| listed.at);
            let at = Instant::START + flow.start + first;
            self.queue.push(at, Occurrent::Traffic(number));
        }
        for (number, crash) in (0_u32..).zip(&scenario.crashes) {
            let at = Instant::START + crash.at;
            self.queue.push(at, Occurrent::PlannedCrash(number));
        }
        for (number, step) in (0_u32..).zip(&scenario.clock_steps) {
            let at = Instant::START + step.at;
            self.queue.push(at, Occurrent::ClockStep(number));
        }
        self.begin_batteries(scenario.nodes.iter().map(|node| node.battery));
        self.begin_faults();
        self.queue
            .push(Instant::START + self.sample_every, Occurrent::Sample);
    }

    /// Lets things happen until an instant, or until so many things have happened; false when the run is over.
    pub fn run(&mut self, until: Instant, mut events: u64) -> bool {
        while events > 0 {
            if self.is_over() {
                return false;
            }
            let Some((at, happening)) = self.queue.pop() else {
                return false;
            };
            if at > until.min(self.end) {
                self.queue.push(at, happening);
                self.now = until.min(self.end);
                return self.now < self.end;
            }
            if at > self.now {
                self.now = at;
                self.hand.set(at);
                self.at_once = 0;
            }
            self.at_once += 1;
            if self.at_once > AT_ONCE_MAX {
                self.accuse("moves", format!("time stands still at {happening:?}"), &[]);
                return false;
            }
            self.happen(happening);
            self.events += 1;
            events -= 1;
        }
        true
    }

    fn is_over(&self) -> bool {
        let all = self.when_delivered && self.expected == Some(self.ledger.delivered);
        all || self.now >= self.end || !self.violations.is_empty()
    }

    fn happen(&mut self, happening: Occurrent) {
        match happening {
            Occurrent::Timer(at, life) => self.timer(at, life),
            Occurrent::Flushed(at, life) => self.flushed(at, life),
            Occurrent::Read(at, life) => self.answer_read(at, life),
            Occurrent::Arrival(key, side) => self.arrive(key, side),
            Occurrent::Writable(key, side) => self.writable(key, side),
            Occurrent::Ended(key, side) => self.ended(key, side),
            Occurrent::Doubted(key, side) => self.doubted(key, side),
            Occurrent::Called(dial) => self.called(dial),
            Occurrent::Answered(dial) => self.answered(dial),
            Occurrent::ContactBegins(number) => self.contact_begins(number),
            Occurrent::ContactEnds(road) => self.contact_ends(road),
            Occurrent::Crossed(road, side) => self.crossed(road, side),
            Occurrent::Sendable(road, side) => self.sendable(road, side),
            Occurrent::Traffic(number) => self.traffic(number),
            Occurrent::ChanceCrash(at) => self.chance_crash(at),
            Occurrent::FlushCrash(at, life) => self.flush_crash(at, life),
            Occurrent::PlannedCrash(number) => self.planned_crash(number),
            Occurrent::Start(at, life) => self.start(at, life),
            Occurrent::Stall(at) => self.stall(at),
            Occurrent::ClockStep(number) => self.step_clock(number),
            Occurrent::Rot(at) => self.rot(at),
            Occurrent::Fill(at) => self.fill_disk(at),
            Occurrent::Empty(at) => self.empty_disk(at),
            Occurrent::Look(at, life) => self.look_at_disk(at, life),
            Occurrent::Retry(at, life) => self.retry_store(at, life),
            Occurrent::RadioFree(at, radio) => self.radio_free(at, radio),
            Occurrent::BatteryLooked(at) => self.look_at_battery(at),
            Occurrent::Recharged(at) => self.recharge(at),
            Occurrent::Reset(road) => self.chance_reset(road),
            Occurrent::ClientCrash(at) => self.crash_clients(at),
            Occurrent::ClientBack(at, life) => self.return_clients(at, life),
            Occurrent::Sample => self.sample(),
        }
    }

    fn sample(&mut self) {
        self.queue
            .push(self.now + self.sample_every, Occurrent::Sample);
        let mut sample = Sample {
            at: self.now,
            sent: self.ledger.sent(),
            delivered: self.ledger.delivered,
            ..Sample::default()
        };
        let mut wrong = Vec::new();
        for (at, machine) in (0..).map(MachineIndex).zip(&mut self.machines) {
            let Some(running) = &machine.running else {
                continue;
            };
            let stored = (running.node.taken_bundles(), running.node.taken_octets());
            sample.up += 1;
            sample.bundles += stored.0;
            sample.octets += stored.1;
            machine.most.bundles = machine.most.bundles.max(stored.0);
            machine.most.octets = machine.most.octets.max(stored.1);
            let log = machine.storage.log_octets();
            if let Some(what) = beyond(&machine.blueprint.config, stored, log) {
                wrong.push((at, format!("node {}: {what}", machine.name)));
            }
        }
        self.samples.push(sample);
        for (at, what) in wrong {
            self.accuse("within", what, &[at]);
        }
        self.look_around();
        self.look_for_awaited();
    }

    /// A machine's name.
    #[must_use]
    pub fn name(&self, at: MachineIndex) -> &str {
        self.machines
            .get(at.at())
            .map_or("", |machine| &machine.name)
    }

    /// Notes what a node is told.
    pub(crate) fn note(&mut self, machine: MachineIndex, what: What, amount: u64, octets: &[u8]) {
        let step = Step {
            at: self.now,
            machine,
            what,
            amount,
        };
        self.trace.add(step, octets);
        self.remark_machine(machine, what);
    }

    /// The difference between two nodes' clocks, at most.
    pub(crate) fn tolerance(&self) -> Duration {
        self.clock_error.at(self.now) * 2 + TOLERANCE
    }

    /// Record the nodes that are started from now on, with as much of their payloads; in memory, so not for long.
    pub fn record(&mut self, content: Content) {
        for machine in &mut self.machines {
            machine.recorded = Some(content);
        }
    }

    /// The recordings of nodes that run no more, each with its machine's name.
    pub fn recordings(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.machines.iter().flat_map(|machine| {
            let recordings = machine.recordings.iter();
            recordings.map(|it| (machine.name.as_str(), it.as_slice()))
        })
    }

    /// The virtual time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The number of events so far.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// The trace of the nodes' events.
    #[must_use]
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The payloads that were sent and delivered.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The violations, of which no more than a bound are kept.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Samples of the run's course.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The times that bundles spent in stores.
    #[must_use]
    pub const fn store_times(&self) -> &StoreTimes {
        &self.store_times
    }

    /// Counts of connections, contacts, flushes, bundles and faults.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The machines.
    pub(crate) fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// The links.
    #[must_use]
    pub fn roads(&self) -> &[Wire] {
        &self.roads
    }

    /// Octets of memory that the disks take.
    #[must_use]
    pub fn disk_octets(&self) -> usize {
        self.machines
            .iter()
            .map(|machine| machine.storage.memory_octets())
            .sum()
    }
}

/// The observer of bundles from outside, where all octets of them are there.
fn voyages(scenario: &Scenario) -> Option<Box<Voyages>> {
    let nodes = scenario.nodes.iter();
    let nodes = nodes.map(|node| (node.number, node.clock != Clock::None));
    let mut routing = scenario.routing.iter();
    let ends_copies = routing.any(|it| it.acknowledgments != Acknowledgments::None);
    let voyages = || match ends_copies {
        true => Voyages::new(nodes).with_copies_that_end(),
        false => Voyages::new(nodes),
    };
    (scenario.fidelity == Fidelity::Octet).then(|| Box::new(voyages()))
}

/// A machine by the position of its node.
pub(crate) fn machine(at: usize) -> MachineIndex {
    MachineIndex(u32::try_from(at).unwrap_or(u32::MAX))
}
