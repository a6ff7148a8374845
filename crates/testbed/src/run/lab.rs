//! A lab: a scenario's network with its nodes, from the file that says what there will be to the last namespace's end.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use dhow_scenario::Scenario;
use dhow_scenario::scenario::{Clock as NodeClock, Dial, Faults, HostKind, Processor};

use super::capture::Packets;
use super::profile::Profiling;
use super::words;
use crate::failure::LabError;
use crate::node::{Daemon, configurations};
use crate::place::{Accounting, Group, Groups, Layout, Network, State, clear, congestion, needs};
use crate::results::Conditions;

/// Says what a node will say against its file: its path and its text.
pub type Check = fn(&Path, &str) -> Result<(), LabError>;

/// The place of a lab, and its parts.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The program that has `node run`.
    pub program: PathBuf,
    /// The directory of the run, absolute; it is there.
    pub directory: PathBuf,
    /// Looks at nodes' files before anything is made.
    pub check: Check,
}

/// A network with its nodes.
pub struct Lab {
    state: State,
    network: Option<Network>,
    daemons: Vec<Option<Daemon>>,
    groups: Vec<Option<Group>>,
    files: Vec<String>,
}

impl Lab {
    /// Makes it, for as long as `goes_on`; links with contacts are down.
    ///
    /// # Errors
    /// The part that could not be made: then nothing is left of the rest.
    pub fn build(
        scenario: &Scenario,
        plot: &Plot,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Self, LabError> {
        let layout = Layout::new(scenario, &State::draw_name()?)?;
        let files = inspect(scenario, &layout, plot.check)?;
        needs::check(scenario, &layout)?;
        refuse_unmeasured(scenario)?;
        congestion::check(scenario.congestion_control.as_deref())?;
        let state = State::new(&layout, &scenario.name, &plot.directory);
        // From here on any process that finds the file can remove the parts that are there.
        state.write()?;
        // Without it the report says less of what hosts waited for.
        let _ = Accounting::of_machine().hold(&state.lab);
        let mut lab = Self {
            state,
            network: None,
            daemons: Vec::new(),
            groups: Vec::new(),
            files,
        };
        let failed = |error: io::Error| LabError::io("cannot make the lab's directory", &error);
        symlink(&plot.directory, &lab.state.shortcut).map_err(failed)?;
        let network = lab.network.insert(Network::build(layout, scenario.seed)?);
        if let Some(wanted) = &scenario.congestion_control {
            for host in network.layout().own_hosts() {
                congestion::set(&host.namespace, wanted)?;
            }
        }
        lab.add_nodes(scenario, plot)?;
        for daemon in lab.daemons.iter_mut().flatten() {
            daemon.start()?;
        }
        for daemon in lab.daemons.iter_mut().flatten() {
            daemon.wait_ready(goes_on)?;
        }
        if let Some(mut parts) = lab.parts() {
            parts.note_processes()?;
        }
        Ok(lab)
    }

    /// The content of the lab's file.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Its network, until it is taken down.
    #[must_use]
    pub const fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// Its parts, for the code that makes events happen.
    pub(super) fn parts(&mut self) -> Option<Parts<'_>> {
        Some(Parts {
            network: self.network.as_ref()?,
            daemons: &mut self.daemons,
            groups: &self.groups,
            state: &mut self.state,
        })
    }

    /// Writes down which settings its nodes have, and which limits the kernel holds its hosts to.
    pub(super) fn describe(&self, conditions: &mut Conditions) {
        let hosts = self.network.iter().flat_map(|it| &it.layout().hosts);
        for ((host, daemon), group) in hosts.zip(&self.daemons).zip(&self.groups) {
            let name = &host.name;
            let used = congestion::used(&host.namespace);
            conditions.congestion_control.insert(name.clone(), used);
            if let Some(group) = group {
                conditions.limits.insert(name.clone(), group.limits());
            }
            if let Some(settings) = daemon.as_ref().and_then(Daemon::settings) {
                conditions.nodes.insert(name.clone(), settings);
            }
        }
    }

    /// Ends all nodes in order.
    pub fn end_nodes(&mut self) {
        for daemon in self.daemons.iter().flatten() {
            daemon.ask_to_end();
        }
        for daemon in self.daemons.iter_mut().flatten() {
            daemon.wait_end();
        }
    }

    /// Removes all of it, nodes that still run included.
    ///
    /// # Errors
    /// When something stays.
    pub fn clear(mut self) -> Result<(), LabError> {
        self.remove()
    }

    fn remove(&mut self) -> Result<(), LabError> {
        for daemon in self.daemons.iter_mut().flatten() {
            daemon.kill();
        }
        self.daemons.clear();
        // Emulators let go of their devices first.
        self.network = None;
        clear::clear(&self.state)
    }

    fn add_nodes(&mut self, scenario: &Scenario, plot: &Plot) -> Result<(), LabError> {
        let groups = Groups::of(&self.state.lab);
        let Some(network) = &self.network else {
            return Ok(());
        };
        let hosts = network.layout().hosts.iter().zip(&scenario.nodes);
        let failed = |node: &str, error: &io::Error| {
            LabError::io(format!("cannot write the files of node '{node}'"), error)
        };
        for (host, node) in hosts {
            let directory = plot.directory.join("nodes").join(&host.name);
            fs::create_dir_all(&directory).map_err(|error| failed(&node.name, &error))?;
            let group = groups.make(&host.name, &node.host, &directory)?;
            if let (Some(group), Some(Processor::Share(millionths))) = (&group, node.host.processor)
                && node.host.cpu_from.is_zero()
            {
                group.set_processor(Some(millionths))?;
            }
            self.groups.push(group);
        }
        // A host's limits hold for all nodes on it.
        for (node, host) in network.layout().hosts.iter().enumerate() {
            let shared = host
                .guest_of
                .and_then(|owner| self.groups.get(owner).cloned());
            if let (Some(shared), Some(group)) = (shared, self.groups.get_mut(node)) {
                *group = shared;
            }
        }
        let hosts = network.layout().hosts.iter().zip(&self.groups);
        for ((host, group), text) in hosts.zip(&self.files) {
            if host.kind == HostKind::Command {
                self.daemons.push(None);
                continue;
            }
            let directory = plot.directory.join("nodes").join(&host.name);
            let file = fs::write(directory.join("node.toml"), text);
            file.map_err(|error| failed(&host.name, &error))?;
            let shortcut = self.state.shortcut.join("nodes").join(&host.name);
            let places = (directory.as_path(), shortcut.as_path());
            let namespace = &host.namespace;
            let group = group.clone();
            let daemon = Daemon::new(&host.name, namespace, &plot.program, places, group);
            self.daemons.push(Some(daemon));
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // The parts that stay are in the lab's file.
        let _ = self.remove();
    }
}

/// Says what of a scenario no lab can do, before anything is made.
///
/// # Errors
/// The first such thing, and what may be done about it.
pub fn possible(scenario: &Scenario, check: Check) -> Result<(), LabError> {
    let layout = Layout::new(scenario, UNNAMED)?;
    inspect(scenario, &layout, check)?;
    congestion::check(scenario.congestion_control.as_deref())?;
    words::check(scenario, &layout)
}

/// Says what this machine lacks for a scenario.
///
/// # Errors
/// The first thing that is missing, and how to get it.
pub fn equipped(
    scenario: &Scenario,
    packets: Packets,
    profiling: Profiling,
) -> Result<(), LabError> {
    needs::check(scenario, &Layout::new(scenario, UNNAMED)?)?;
    packets.check()?;
    profiling.check()
}

/// Stands for the name of a lab that is not made.
const UNNAMED: &str = "000000";

/// The nodes' files, where all can be written.
fn inspect(scenario: &Scenario, layout: &Layout, check: Check) -> Result<Vec<String>, LabError> {
    refuse(scenario)?;
    let files = configurations(scenario, layout)?;
    let nodes = layout.hosts.iter().zip(&files);
    for (host, text) in nodes.filter(|(host, _)| host.kind == HostKind::Dhow) {
        check(&Path::new(&host.name).join("node.toml"), text)?;
    }
    Ok(files)
}

/// The parts of a lab; nodes and limits are in the order of the scenario.
pub(super) struct Parts<'a> {
    pub(super) network: &'a Network,
    /// None where there is only a host.
    pub(super) daemons: &'a mut [Option<Daemon>],
    pub(super) groups: &'a [Option<Group>],
    state: &'a mut State,
}

impl Parts<'_> {
    /// Writes down which processes there are now.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn note_processes(&mut self) -> Result<(), LabError> {
        for (node, daemon) in self.state.nodes.iter_mut().zip(&*self.daemons) {
            node.process = daemon.as_ref().and_then(Daemon::process);
        }
        self.state.is_up = true;
        self.state.write()
    }
}

/// Refuses processors that are set by the rate of TCP, and whose part of a core nobody has measured.
fn refuse_unmeasured(scenario: &Scenario) -> Result<(), LabError> {
    let mut nodes = scenario.nodes.iter();
    let unmeasured = |processor| matches!(processor, Some(Processor::OfTcp(_)));
    let Some(node) = nodes.find(|node| unmeasured(node.host.processor)) else {
        return Ok(());
    };
    let what = format!(
        "'cpu' of '{}' is a rate of TCP, and how much of a core that takes was not measured",
        node.name
    );
    Err(LabError::new(what).with_hint("`dhow lab run` measures it; or say a share: cpu = \"1%\""))
}

/// Refuses what only a simulation can do.
fn refuse(scenario: &Scenario) -> Result<(), LabError> {
    let hint = "`dhow sim run` has it";
    let faults = Faults {
        crash_every: None,
        crash_at_flush_per_billion: 0,
        stall_every: None,
        reset_every: None,
        lying_disks: false,
        rot_every: None,
        full_every: None,
        read_fails_per_billion: 0,
        flush_fails_per_billion: 0,
        client_crash_every: None,
        decline_per_billion: 0,
        ..scenario.faults
    };
    if faults != scenario.faults {
        let what = "what fails by chance ([faults]) needs virtual time";
        return Err(LabError::new(what).with_hint(hint));
    }
    if !scenario.clock_steps.is_empty() {
        let what =
            "clocks that jump ([[clock_step]]) need virtual time: all nodes have this machine's";
        return Err(LabError::new(what).with_hint(hint));
    }
    if scenario.links.iter().any(|link| link.channel.is_some()) {
        let what = "a radio that hosts share (its 'channel') needs virtual time";
        return Err(LabError::new(what).with_hint(hint));
    }
    if let Some(link) = scenario.links.iter().find(|it| it.dial == Dial::Contacts) {
        let what = format!(
            "'{}' is used in its contacts alone ('dial'), which needs virtual time: nodes start before the run",
            link.name
        );
        return Err(LabError::new(what).with_hint(hint));
    }
    if let Some(node) = scenario.nodes.iter().find(|it| it.battery.is_some()) {
        let what = format!(
            "'{}' has a battery, which needs virtual time: nothing here takes its energy",
            node.name
        );
        return Err(LabError::new(what).with_hint(hint));
    }
    for node in &scenario.nodes {
        let is_wrong = |clock| {
            !matches!(
                clock,
                NodeClock::None
                    | NodeClock::Known {
                        offset_ms: 0,
                        drift_ppm: 0
                    }
            )
        };
        if is_wrong(node.clock) {
            let what = format!(
                "node '{}' has a wrong clock, and all have this machine's",
                node.name
            );
            return Err(LabError::new(what).with_hint(hint));
        }
        if node.disk_octets != u64::MAX {
            let what = format!("node '{}' has a disk of its own size ('disk')", node.name);
            return Err(LabError::new(what).with_hint(format!("'quota' bounds its store; {hint}")));
        }
    }
    Ok(())
}
