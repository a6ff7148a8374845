//! The plain, checked values of a scenario file.

use dhow_bundle::RouterKind;
pub use dhow_bundle::protocol::{
    Aggregation, Framing, LtpPolicy, OnSent, Protocol, RedPart, StcpPolicy, Transport, UdpPolicy,
};
use dhow_bundle::router::{Acknowledgments, DropPolicy};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dhow_bundle::v6::{self, Priority};
use dhow_bundle::{BundleFlags, Version};
use dhow_channel::{Delay, Loss, Rate, RateTrace};

use crate::ScenarioError;
pub use crate::battery::Battery;
pub use crate::energy::Energy;
use crate::file;
pub use crate::host::{By, Host, HostKind, Processor, Wire};
pub use crate::program::{Failure, Output, Program};

/// Octets that a scenario file may have: far above any real one, so that a wrong path is not read whole.
const FILE_OCTETS_MAX: u64 = 64 << 20;

/// Position in [`Scenario::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub usize);

/// Position in [`Scenario::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIndex(pub usize);

/// A network, what happens to it, and when to stop.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name for people.
    pub name: String,
    /// The seed from which all entropy is drawn, unless the run says otherwise.
    pub seed: u64,
    /// Whether a run with another seed is one of another network: the file is to be read again with that seed.
    pub every_seed: bool,
    /// The part of sessions and stores that a simulation has.
    pub fidelity: Fidelity,
    /// The congestion control of TCP; of a testbed the system's own where none is named.
    pub congestion_control: Option<String>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The links between them.
    pub links: Vec<Link>,
    /// When planned links can be used.
    pub contacts: Vec<Contact>,
    /// Routes beside those over the fewest links.
    pub routes: Vec<Route>,
    /// The routers of nodes.
    pub routing: Vec<Routing>,
    /// Bundles that nodes send to each other.
    pub traffic: Vec<Traffic>,
    /// Crashes at given times.
    pub crashes: Vec<Crash>,
    /// Clocks that jump.
    pub clock_steps: Vec<ClockStep>,
    /// Faults by chance.
    pub faults: Faults,
    /// When its time stands still.
    pub pause: Option<Pause>,
    /// When to stop.
    pub stop: Stop,
    /// Programs that run on nodes of a testbed.
    pub programs: Vec<Program>,
    /// The power and energy that the network takes, where that is said.
    pub energy: Option<Energy>,
    /// Contents of the report of many runs: keys of `[report]` and their texts; those of a list are lines.
    pub report: BTreeMap<&'static str, String>,
    /// Differences from a contact plan: sentences for the person who runs the scenario.
    pub notes: Vec<String>,
    /// The fault of a part of the file that only a testbed can do, if there is one.
    pub unsimulated: Option<ScenarioError>,
}

/// The part of sessions and stores that a simulation has. The nodes are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fidelity {
    /// All octets, in sessions and on disks.
    #[default]
    Octet,
    /// The length of payloads alone, and of disks the octets that are durable.
    Bundle,
}

/// Custody of bundles of version 6 at a node (RFC 5050 5.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Custody {
    /// Whether it becomes custodian of bundles that ask for it.
    pub accepts: bool,
    /// Whether bundles leave it with its number for them.
    pub aggregates: bool,
    /// The time that a signal waits for other bundles to tell of.
    pub delay: Duration,
    /// The time after which a bundle is sent again of which no signal came.
    pub retry: Duration,
}

impl Default for Custody {
    fn default() -> Self {
        Self {
            accepts: true,
            aggregates: true,
            delay: Duration::from_secs(15),
            retry: Duration::from_secs(30),
        }
    }
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name in the file.
    pub name: String,
    /// Its number: the node is `ipn:NUMBER.0`.
    pub number: u32,
    /// Most octets in its store.
    pub quota_octets: u64,
    /// Most bundles in its store.
    pub quota_bundles: u64,
    /// Most bundles of one source endpoint in its store.
    pub source_bundles: Option<u64>,
    /// Identities of removed bundles that it remembers.
    pub removed_bound: usize,
    /// Custody of bundles of version 6 at it.
    pub custody: Custody,
    /// Octets of a segment of its store.
    pub segment_octets: u32,
    /// Largest segment of a transfer that it takes (RFC 9174 4.6), octets.
    pub segment_mru: u64,
    /// Largest transfer that it takes (RFC 9174 4.6), octets: larger bundles come to it in fragments.
    pub transfer_mru: u64,
    /// Whether it sends large bundles on while they come in.
    pub cut_through: bool,
    /// Its wall clock, and that clock's error.
    pub clock: Clock,
    /// Octets that the log of its store may have.
    pub disk_octets: u64,
    /// The time that its disk takes for a flush.
    pub flush: Duration,
    /// The time that its disk takes for a read that its memory does not have; zero for none such.
    pub read: Duration,
    /// Its host on a testbed.
    pub host: Arc<Host>,
    /// The node whose host it is on as well; that one is on its own.
    pub guest_of: Option<NodeIndex>,
    /// The battery of the node and its radios, where energy has an end.
    pub battery: Option<Battery>,
}

impl Node {
    /// Octets of the largest payload that its store could ever hold: any where the node's own settings say another quota.
    #[must_use]
    pub fn largest_payload_octets(&self) -> u64 {
        let mut settings = self.host.settings.iter();
        match settings.any(|setting| setting.starts_with("store.quota=")) {
            true => u64::MAX,
            false => self.quota_octets,
        }
    }
}

/// The wall clock of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Nothing but how long it has been running.
    None,
    /// The wall clock.
    Known {
        /// The time by which it is ahead of the true time, milliseconds; negative if it is behind.
        offset_ms: i64,
        /// The rate at which it runs fast, parts in a million; negative if it runs slow.
        drift_ppm: i32,
    },
}

/// A link between two nodes, the same in both directions.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its name in the file.
    pub name: String,
    /// The node that dials, and the node that listens.
    pub between: (NodeIndex, NodeIndex),
    /// The rate at which octets leave, in the mean where there is a trace.
    pub rate: Rate,
    /// When they may leave, where that changes.
    pub rate_trace: Option<RateTrace>,
    /// The time for which they are on their way.
    pub delay: Delay,
    /// The loss of packets; lost ones are sent again.
    pub loss: Loss,
    /// The time by which they may arrive later than by the delay, at most.
    pub jitter: Duration,
    /// Whether it is there always or by contacts.
    pub presence: Presence,
    /// The end of a contact, as its connections see it.
    pub at_end: AtEnd,
    /// The dialling node's longest pause between two attempts.
    pub retry: Duration,
    /// When its nodes use it.
    pub dial: Dial,
    /// Keepalive interval of sessions, seconds; 0 for none.
    pub keepalive_s: u16,
    /// The convergence layer that is spoken over it.
    pub protocol: Protocol,
    /// The one version of the Bundle Protocol that both ends send over it (docs/gateway.md), where it is not either.
    pub speaks: Option<Version>,
    /// The means that make it on a testbed.
    pub wire: Arc<Wire>,
    /// The link whose wire it shares; that one has its own.
    pub over: Option<LinkIndex>,
    /// The radio of which it is, where that is busy with one thing at a time.
    pub channel: Option<Channel>,
}

/// The channel of a radio, for which its links wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The number of the radio in the scenario; each host has one of it at most.
    pub radio: u32,
    /// The radios for which the channel is busy while a host sends.
    pub sharing: Sharing,
}

/// The radios that are busy while a host sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Its own radio and that of the host that it sends to.
    Ends,
    /// The radios of all hosts within its reach, and of the host that it sends to.
    Reach,
}

impl Link {
    /// The time until an answer comes, at most, where nothing is lost or waits for the line.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        let one_way = self.delay.longest().saturating_add(self.jitter);
        one_way.saturating_mul(2)
    }
}

/// When the nodes of a link use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dial {
    /// At any time.
    #[default]
    Always,
    /// In its contacts, which they know.
    Contacts,
}

/// When a link can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Always.
    Always,
    /// During its contacts.
    Planned,
}

/// The end of a contact, as its connections see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// Both sides are told that they are gone.
    Reset,
    /// Nobody is told; octets that were not through yet go on when the next contact begins.
    Silence,
}

/// When a link can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// The link.
    pub link: LinkIndex,
    /// When the first begins, from the start of the run.
    pub start: Duration,
    /// The length of each; more than nothing.
    pub length: Duration,
    /// The time from the beginning of one to that of the next; at least as long as one lasts.
    pub every: Option<Duration>,
}

/// A route of a node, to one that is no neighbour or none that is up; those over the fewest links have priority 0 and come before others of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The node that has the route.
    pub node: NodeIndex,
    /// The node to which bundles go.
    pub to: NodeIndex,
    /// The neighbour that is next.
    pub via: NodeIndex,
    /// Routes of a higher priority come first; among equals, in the order of the file.
    pub priority: i32,
}

/// The router of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// The node that has the router.
    pub node: NodeIndex,
    /// The node to which bundles go; none for every node that has no line of its own.
    pub to: Option<NodeIndex>,
    /// The router that decides about them.
    pub router: RouterKind,
    /// The copies of a bundle that is made there, with spray and wait.
    pub copies: u32,
    /// The nodes whose acknowledgments end copies of bundles.
    pub acknowledgments: Acknowledgments,
    /// The copies that a full store deletes.
    pub drop: DropPolicy,
}

impl Routing {
    /// The endpoint-ID pattern of its destinations among all nodes.
    #[must_use]
    pub fn pattern(&self, nodes: &[Node]) -> String {
        let to = self.to.and_then(|to| nodes.get(to.0));
        to.map_or_else(|| "ipn:*.*".into(), |to| format!("ipn:{}.*", to.number))
    }
}

/// Bundles that one node sends to another.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The node that sends.
    pub from: NodeIndex,
    /// The node that receives.
    pub to: NodeIndex,
    /// The number of bundles; none for as many as there is time for.
    pub count: Option<u64>,
    /// Octets of payload.
    pub size: Size,
    /// The times and sizes of the payloads, where a list says them; else there is nothing in it.
    pub list: Arc<[Listed]>,
    /// When the first is sent, from the start of the run.
    pub start: Duration,
    /// When the next are sent.
    pub pace: Pace,
    /// The number of bundles that are sent at once, at least 1.
    pub burst: u64,
    /// The lifetime of the bundles.
    pub lifetime: Duration,
    /// Payloads of up to this many octets are handed to the node in one piece with the request.
    pub at_once_octets: u64,
    /// The reports that are asked for: bundle processing control flags (RFC 9171 4.2.3).
    pub reports: u64,
    /// Whether reports may come in aggregated ones.
    pub aggregates: bool,
    /// Whether bundles must not be fragmented (RFC 9171 4.2.3).
    pub must_not_fragment: bool,
    /// The version of the bundles, and what they ask for in it.
    pub service: Service,
}

/// The version of the Bundle Protocol that bundles have, and what they ask for in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Version 7 (RFC 9171).
    Newest {
        /// The class of service, in ION's block (docs/priority.md).
        class: Priority,
    },
    /// Version 6 (RFC 5050).
    Older {
        /// Whether they ask for custody (RFC 5050 5.10).
        custody: bool,
        /// The class of service (RFC 5050 4.2).
        class: Priority,
    },
}

impl Traffic {
    /// The version of the bundles.
    #[must_use]
    pub const fn version(&self) -> Version {
        match self.service {
            Service::Newest { .. } => Version::V7,
            Service::Older { .. } => Version::V6,
        }
    }

    /// The class of service of the bundles.
    #[must_use]
    pub const fn class(&self) -> Priority {
        match self.service {
            Service::Newest { class } | Service::Older { class, .. } => class,
        }
    }

    /// Whether the bundles ask for custody.
    #[must_use]
    pub const fn has_custody(&self) -> bool {
        matches!(self.service, Service::Older { custody: true, .. })
    }

    /// The bundle processing control flags that are asked for, of the bundles' version.
    #[must_use]
    pub const fn flags(&self) -> u64 {
        let flags = match self.must_not_fragment {
            true => self.reports | BundleFlags::MUST_NOT_FRAGMENT.bits(),
            false => self.reports,
        };
        match self.service {
            Service::Newest { .. } => flags,
            // Reports and fragments have the same bits in both versions.
            Service::Older { custody, class } => v6::BundleFlags::from_bits(flags)
                .with(v6::BundleFlags::CUSTODY_REQUESTED, custody)
                .with_priority(class)
                .bits(),
        }
    }
}

/// A payload of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// When it is sent, from the start of the traffic.
    pub at: Duration,
    /// Octets of payload.
    pub octets: u64,
}

/// Octets of payload: as many as tell the bundles of a run apart at least ([`Size::MIN`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The smallest.
    pub min: u64,
    /// The largest; all between are as likely.
    pub max: u64,
}

impl Size {
    /// Octets that a payload needs to say which one it is.
    pub const MIN: u64 = 16;
}

/// The time from a bundle to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// All at once.
    AtOnce,
    /// Always as long.
    Constant(Duration),
    /// As long in the mean, independently of each other (a Poisson process).
    Mean(Duration),
    /// The times of [`Traffic::list`].
    Listed,
}

/// A node's power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The node.
    pub node: NodeIndex,
    /// When, from the start of the run.
    pub at: Duration,
    /// The time for which it is off.
    pub down: Duration,
}

/// A node's clock jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// The node; it has a clock.
    pub node: NodeIndex,
    /// When, from the start of the run.
    pub at: Duration,
    /// The time by which the clock jumps ahead, milliseconds; negative if it jumps back.
    pub by_ms: i64,
}

/// Faults by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Mean time between two crashes of one node.
    pub crash_every: Option<Duration>,
    /// The number of flushes, of a billion, in which a node crashes.
    pub crash_at_flush_per_billion: u32,
    /// The time for which a node that crashed is off, in the mean.
    pub crash_down: Duration,
    /// Mean time between two stalls of one disk.
    pub stall_every: Option<Duration>,
    /// The time that a stall takes, in the mean.
    pub stall_for: Duration,
    /// Mean time between two moments at which a link's connections are reset.
    pub reset_every: Option<Duration>,
    /// Whether disks say that they have flushed and have not.
    pub lying_disks: bool,
    /// Mean time between two octets that rot on one disk.
    pub rot_every: Option<Duration>,
    /// Mean time between two moments at which one disk is full.
    pub full_every: Option<Duration>,
    /// The time for which a disk stays full, in the mean.
    pub full_for: Duration,
    /// Reads of a disk that fail, of a billion.
    pub read_fails_per_billion: u32,
    /// Flushes of a disk that fail, of a billion.
    pub flush_fails_per_billion: u32,
    /// Mean time between two crashes of one node's applications.
    pub client_crash_every: Option<Duration>,
    /// Deliveries that an application does not take at first, of a billion.
    pub decline_per_billion: u32,
    /// After this nothing fails any more; never when absent.
    pub until: Option<Duration>,
}

/// When the time of a run stands still, so that what waits for a contact is where it is to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The time of the run.
    pub at: Duration,
    /// The node at which, with those on its host, all sent payloads are stored when the pause ends.
    pub until_stored_at: NodeIndex,
}

/// When to stop, and what is expected then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// After so long.
    pub at: Duration,
    /// Whether the run stops as soon as every bundle of the traffic has been delivered.
    pub when_delivered: bool,
    /// Whether the run stops as soon as all programs have ended.
    pub when_ended: bool,
    /// Whether it is no fault when a node refuses a payload.
    pub may_refuse: bool,
    /// Whether it is a fault when a bundle that was accepted and has not expired is not delivered by then.
    pub expects_all: bool,
}

impl Scenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// When it cannot be read or is no scenario.
    pub fn open(path: &Path) -> Result<Self, ScenarioError> {
        Self::open_with(path, &[])
    }

    /// Reads a scenario file, with values set over those of the file: each as `SECTION.KEY=VALUE` (of every section of that
    /// name), `SECTION.WHICH.KEY=VALUE` (of one: by its position from 0, or its name), or `KEY=VALUE`.
    ///
    /// # Errors
    /// When it cannot be read, is no scenario, or does not have the keys to be set.
    pub fn open_with(path: &Path, settings: &[String]) -> Result<Self, ScenarioError> {
        let unreadable = |error: std::io::Error| ScenarioError::of_file(path, error.to_string());
        let octets = fs::metadata(path).map_err(unreadable)?.len();
        if octets > FILE_OCTETS_MAX {
            let what = format!("{octets} octets are more than a scenario has");
            return Err(ScenarioError::of_file(path, what));
        }
        file::read(
            path,
            &fs::read_to_string(path).map_err(unreadable)?,
            settings,
        )
    }

    /// The nodes with a router that makes copies: their bundles need no way that is known ahead.
    #[must_use]
    pub fn copying_nodes(&self) -> BTreeSet<NodeIndex> {
        let copying = self
            .routing
            .iter()
            .filter(|it| it.router != RouterKind::Static);
        copying.map(|it| it.node).collect()
    }

    /// Reads a scenario's text; `path` is for messages and for the files that it names.
    ///
    /// # Errors
    /// When it is no scenario.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        file::read(path, text, &[])
    }
}
