//! One seed's run of a scenario, from beginning to end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_node::exchange_octets;
use dhow_scenario::Scenario;

use crate::capture::Capture;
use crate::congestion::Control;
use crate::ledger::UnitName;
use crate::machine::Machine;
use crate::network::NetworkError;
use crate::queue::MachineIndex;
use crate::sample::Sample;
use crate::store_times::StoreTimes;
use crate::trace::Step;
use crate::world::{Counts, World};

/// Steps of the nodes concerned that are told with a violation.
const STEPS_TOLD: usize = 24;

/// Events ahead of a violation from which on a replay is worth reading.
const REPLAYED: u64 = 200;

/// A run that is under way.
#[derive(Debug)]
pub struct Run {
    seed: u64,
    pub(crate) world: World,
    links: Vec<String>,
    traffic: Vec<(String, String)>,
    /// Whether nothing more happens.
    over: bool,
    control: Option<Control>,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time since the beginning.
    pub time: Duration,
    /// Things that have happened.
    pub events: u64,
    /// Payloads given to nodes.
    pub sent: u64,
    /// Payloads delivered.
    pub delivered: u64,
    /// Bundles that expired in a store.
    pub expired: u64,
    /// Bundles in stores when last looked at.
    pub stored: u64,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// A number that two runs share only when the same happened in both.
    pub trace_hash: u64,
    /// Whether the run was ended before it was over, so that no other run compares with it.
    pub interrupted: bool,
    /// Its progress at the end.
    pub progress: Progress,
    /// Payloads that nodes accepted.
    pub accepted: u64,
    /// Payloads that nodes refused.
    pub refused: u64,
    /// Status reports that came to those that send.
    pub reports: u64,
    /// Payloads that were neither accepted nor refused, nor delivered: the node crashed, or the run ended, before it answered.
    pub unaccepted: u64,
    /// Payloads that were delivered though the application was never told that they were accepted.
    pub untold: u64,
    /// Payloads that were accepted and expired before they were delivered.
    pub expired: u64,
    /// Counts of connections, contacts, flushes, bundles and faults.
    pub counts: Counts,
    /// The number of violations; the run ended with them.
    pub violations: u64,
    /// The first findings.
    pub findings: Vec<Finding>,
    /// Its course, at even intervals.
    pub samples: Vec<Sample>,
    /// The times that bundles spent in stores.
    pub store_times: StoreTimes,
    /// Every payload, in the order of the scenario's traffic.
    pub payloads: Vec<Fate>,
    /// The use of links.
    pub links: Vec<LinkUse>,
    /// The filling of stores.
    pub nodes: Vec<NodeUse>,
    /// The congestion control that its connections resemble, where the scenario names one.
    pub control: Option<Control>,
}

/// Something that must not be, with what led to it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The oracle that says so.
    pub oracle: &'static str,
    /// The time at which it was seen.
    pub at: Duration,
    /// The violation, as a sentence.
    pub sentence: String,
    /// The last things that happened to the nodes concerned, with the node's name.
    pub steps: Vec<(String, Step)>,
    /// The event from which on a replay shows the steps that led to it.
    pub replay_from: u64,
}

/// One payload's fate; times are from the beginning of the run.
#[derive(Clone, Debug)]
pub struct Fate {
    /// The payload's name.
    pub name: UnitName,
    /// The node that sent it.
    pub from: String,
    /// The node that it was for.
    pub to: String,
    /// Octets of it.
    pub octets: u64,
    /// When it was given to a node.
    pub sent: Duration,
    /// The time from which on it is of no use.
    pub expires: Duration,
    /// When the node had accepted it.
    pub accepted: Option<Duration>,
    /// Whether the node would not have it.
    pub is_refused: bool,
    /// When it was delivered.
    pub delivered: Option<Duration>,
}

impl Fate {
    /// The time from its sending to its delivery; `None` if it was not delivered.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        self.delivered?.checked_sub(self.sent)
    }
}

/// The filling of a node's store.
#[derive(Clone, Debug)]
pub struct NodeUse {
    /// The node's name.
    pub name: String,
    /// Bundles in its store, at most, of what samples saw.
    pub most_bundles: u64,
    /// Octets that counted for its quota, at most, of what samples saw.
    pub most_octets: u64,
    /// Octets that it may hold.
    pub quota_octets: u64,
    /// Octets of these that are not for exchanges alone: what applications may fill.
    pub open_octets: u64,
    /// Times that it crashed.
    pub crashes: u64,
    /// The energy that its battery had at the end, picojoules, and the time for which it was empty; none without a battery.
    pub battery: Option<(u64, Duration)>,
}

/// The use of a link.
#[derive(Clone, Debug)]
pub struct LinkUse {
    /// Its name.
    pub name: String,
    /// Octets that left at the dialling and at the accepting side, framing and headers of packets included.
    pub octets: (u64, u64),
    /// The time for which it was there.
    pub open: Duration,
    /// Octets that it could have carried in one direction in that time.
    pub capacity: u64,
    /// Whether the link loses packets.
    pub is_lossy: bool,
}

impl NodeUse {
    fn of(machine: &Machine, battery: Option<(u64, Duration)>) -> Self {
        let quota_octets = machine.blueprint.config.quota_octets;
        Self {
            name: machine.name.clone(),
            most_bundles: machine.most.bundles,
            most_octets: machine.most.octets,
            quota_octets,
            open_octets: quota_octets.saturating_sub(exchange_octets(quota_octets)),
            crashes: machine.most.crashes,
            battery,
        }
    }
}

impl Run {
    /// A run at its beginning.
    ///
    /// # Errors
    /// When traffic has no way.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Self, NetworkError> {
        let name = |at: usize| {
            scenario
                .nodes
                .get(at)
                .map_or("", |node| &node.name)
                .to_owned()
        };
        let traffic = scenario.traffic.iter();
        Ok(Self {
            seed,
            world: World::new(scenario, seed)?,
            links: scenario
                .links
                .iter()
                .map(|link| link.name.clone())
                .collect(),
            traffic: traffic.map(|it| (name(it.from.0), name(it.to.0))).collect(),
            over: false,
            control: Control::of(scenario),
        })
    }

    /// Captures what passes over the links from now on, up to so many octets; somebody is to [take](Self::captured) them.
    pub fn capture(&mut self, scenario: &Scenario, limit: u64) {
        self.world.capture = Some(Box::new(Capture::new(scenario, limit)));
    }

    /// The capture, where one was asked for.
    pub fn captured(&mut self) -> Option<&mut Capture> {
        self.world.capture.as_deref_mut()
    }

    /// Lets so many things happen; false when it is over, which it also is when an assertion of a node or a store does not hold.
    pub fn advance(&mut self, events: u64) -> bool {
        const END: Instant = Instant::from_nanos(u64::MAX);
        let world = &mut self.world;
        // A world that panicked is looked at, and not run on.
        let outcome = catch_unwind(AssertUnwindSafe(|| world.run(END, events)));
        let goes_on = outcome.unwrap_or_else(|said| {
            let text = said.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| said.downcast_ref::<&str>().copied());
            let sentence = format!("does not hold: {}", text.unwrap_or("an assertion"));
            let last = world.trace().newest().map(|step| step.machine);
            world.accuse("assertion", sentence, last.as_slice());
            false
        });
        self.over = !goes_on;
        goes_on
    }

    /// Its progress so far.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            time: self.world.now().since(Instant::START),
            events: self.world.events(),
            sent: self.world.ledger().sent(),
            delivered: self.world.ledger().delivered,
            expired: self.world.counts().expired,
            stored: self
                .world
                .samples()
                .last()
                .map_or(0, |sample| sample.bundles),
        }
    }

    /// The last thing that happened to a node, with its name, and how many have.
    #[must_use]
    pub fn last_step(&self) -> Option<(u64, &str, Step)> {
        let step = self.world.trace().newest()?;
        Some((
            self.world.trace().steps(),
            self.world.name(step.machine),
            step,
        ))
    }

    /// Ends the run, and looks at the disks.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        let events = self.world.events();
        let trace_hash = self.world.trace().hash();
        if self.world.violations().is_empty() {
            self.world.finish();
        }
        let world = &self.world;
        let since = |at: Instant| at.since(Instant::START);
        let findings = world.violations().iter().map(|violation| Finding {
            oracle: violation.oracle,
            at: since(violation.at),
            sentence: violation.sentence.clone(),
            steps: (world
                .trace()
                .last(&violation.machines, STEPS_TOLD)
                .into_iter())
            .map(|step| (world.name(step.machine).to_owned(), step))
            .collect(),
            replay_from: events.saturating_sub(REPLAYED),
        });
        let payloads: Vec<Fate> = world
            .ledger()
            .units()
            .map(|(name, unit)| {
                let ends = usize::try_from(name.traffic)
                    .ok()
                    .and_then(|at| self.traffic.get(at));
                let (from, to) = ends.cloned().unwrap_or_default();
                Fate {
                    name,
                    from,
                    to,
                    octets: unit.octets,
                    sent: since(unit.sent),
                    expires: since(unit.expires()),
                    accepted: unit.accepted.map(since),
                    is_refused: unit.is_refused,
                    delivered: unit.delivered.map(since),
                }
            })
            .collect();
        let links = self.links.iter().zip(world.roads()).map(|(name, road)| {
            let open = road.open_for(world.now());
            let capacity = u128::from(road.rate) * open.as_nanos() / 1_000_000_000;
            LinkUse {
                name: name.clone(),
                octets: road.carried(world.now()),
                open,
                capacity: u64::try_from(capacity).unwrap_or(u64::MAX),
                is_lossy: road.is_lossy(),
            }
        });
        let units = world.ledger().units();
        let expired = units.filter(|(_, unit)| {
            unit.accepted.is_some() && unit.delivered.is_none() && unit.expires() <= world.now()
        });
        let without = |is_delivered: bool| {
            let units = world.ledger().units();
            let units = units.filter(|(_, unit)| {
                unit.accepted.is_none() && unit.delivered.is_some() == is_delivered
            });
            u64::try_from(units.count()).unwrap_or(u64::MAX)
        };
        let (unanswered, untold) = (without(false), without(true));
        Outcome {
            seed: self.seed,
            trace_hash,
            interrupted: !self.over,
            progress: self.progress(),
            accepted: world.ledger().accepted,
            refused: world.ledger().refused,
            reports: world.ledger().reports,
            unaccepted: unanswered.saturating_sub(world.ledger().refused),
            untold,
            expired: u64::try_from(expired.count()).unwrap_or(u64::MAX),
            counts: world.counts(),
            violations: world.accused,
            findings: findings.collect(),
            samples: world.samples().to_vec(),
            store_times: world.store_times().clone(),
            payloads,
            links: links.collect(),
            nodes: (0..)
                .map(MachineIndex)
                .zip(world.machines())
                .map(|(at, machine)| {
                    let battery = world.battery(at);
                    let now = world.now();
                    NodeUse::of(machine, battery.map(|it| (it.left_pj(now), it.silent(now))))
                })
                .collect(),
            control: self.control,
        }
    }
}

impl Outcome {
    /// Payloads that were accepted, and neither delivered nor expired when the run ended.
    #[must_use]
    pub const fn on_their_way(&self) -> u64 {
        let at = &self.progress;
        let settled = (at.delivered.saturating_add(self.expired))
            .saturating_add(self.refused.saturating_add(self.unaccepted));
        at.sent.saturating_sub(settled)
    }

    /// The delays of delivered payloads, the shortest first.
    #[must_use]
    pub fn delays(&self) -> Vec<Duration> {
        let mut delays: Vec<Duration> = self.payloads.iter().filter_map(Fate::delay).collect();
        delays.sort_unstable();
        delays
    }
}
