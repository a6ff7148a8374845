//! One run: from the plan to its tables.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use dhow_scenario::Scenario;
use dhow_scenario::plan::PlannedRun;
use dhow_scenario::scenario::Processor;

use super::capture::{Captures, Packets};
use super::clock::Clock;
use super::collector::{self, Collector};
use super::contacts::{follow_contacts, last_contact};
use super::crash::{Power, powers};
use super::lab::{Check, Lab, Plot};
use super::machine::{kernel, load_average, timestamp};
use super::pause::Pauses;
use super::processor::Measured;
use super::profile::Profiling;
use super::program::{self, Task as Program};
use super::rates;
use super::sampling::{self, AFTERGLOW, Latest, Processes};
use super::standing::Standing;
use super::words::{self, Context};
use crate::application::{Ledger, Pool, Task, receive, send};
use crate::failure::LabError;
use crate::node::Daemon;
use crate::place::{Layout, Network, detour};
use crate::report::measured;
use crate::results::{self, Backend, Conditions, Ran, Results, ResultsError, Run, Status};

/// The time from one look at everything to the next.
const LOOK: Duration = Duration::from_millis(5);

/// The same while a program's times are taken.
const LOOK_TIMED: Duration = Duration::from_millis(1);

/// The time from one word of progress to the next.
const TELL: Duration = Duration::from_millis(100);

/// The time from one look at the disk to the next.
const DISK: Duration = Duration::from_secs(1);

/// Octets that stay free where results are written.
const RESERVE_OCTETS: u64 = 256 << 20;

/// The longest time for programs to end.
const PROGRAMS_END: Duration = Duration::from_secs(6);

/// The order for one run.
#[derive(Clone, Debug)]
pub struct Order<'a> {
    /// The scenario of the run.
    pub scenario: &'a Scenario,
    /// Its place in the plan.
    pub planned: &'a PlannedRun,
    /// Processors that are set by the rate of TCP, as they were measured.
    pub processors: &'a [Measured],
    /// The directory for its results.
    pub results: &'a Results,
    /// The program that has `node run`.
    pub program: PathBuf,
    /// Looks at nodes' files before anything is made.
    pub check: Check,
    /// True if stores stay when it is over.
    pub keep: bool,
    /// The use of the packets on its links.
    pub packets: Packets,
    /// The profiling of its nodes.
    pub profiling: Profiling,
    /// The version and commit of this program.
    pub build: &'static str,
}

/// Runs it, for as long as `goes_on`, and says how far it is.
///
/// # Errors
/// When results cannot be written. Any other failure is the run's status.
pub fn run(
    order: &Order<'_>,
    goes_on: &(dyn Fn() -> bool + Sync),
    watch: &mut dyn FnMut(&Standing),
) -> Result<Run, LabError> {
    let (begun, started) = (Instant::now(), timestamp());
    let name = format!("{:04}", order.planned.number);
    let kept = |error: ResultsError| LabError::new(error.to_string());
    let directory = order.results.begin(&name).map_err(kept)?;
    let directory = directory
        .canonicalize()
        .map_err(|error| LabError::io(directory.display(), &error))?;
    let ledger = Ledger::new(order.scenario);
    let mut stage = Stage {
        order,
        name: &name,
        directory: &directory,
        ledger: &ledger,
        contacts: Mutex::default(),
        duration: Duration::ZERO,
        samples: (0, 0),
        conditions: Conditions {
            build: order.build.to_owned(),
            kernel: kernel(),
            load_before: load_average(),
            processors: order.processors.to_vec(),
            ..Conditions::default()
        },
    };
    let ended = stage.play(goes_on, watch);
    let (duration, samples) = (stage.duration, stage.samples);
    let mut conditions = stage.conditions;
    conditions.load_after = load_average();
    let mut contacts = stage
        .contacts
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    contacts.sort_by(|one, other| one.start_s.total_cmp(&other.start_s));
    let status = match ended {
        Ok(()) if !goes_on() => Status::Interrupted,
        Ok(()) => judge(order.scenario, &ledger, duration),
        Err(_) if !goes_on() => Status::Interrupted,
        Err(error) => Status::Failed(match &error.hint {
            Some(hint) => format!("{error} (hint: {hint})"),
            None => error.to_string(),
        }),
    };
    if !order.keep {
        for node in &order.scenario.nodes {
            // A host without a node has no store.
            let _ = fs::remove_dir_all(directory.join("nodes").join(&node.name).join("store"));
        }
    }
    order
        .results
        .write(&name, &ledger.rows(order.scenario))
        .map_err(kept)?;
    order.results.write(&name, &contacts).map_err(kept)?;
    order
        .results
        .write_conditions(&name, &conditions)
        .map_err(kept)?;
    let capacities = crate::simulated::capacities(order.scenario, Backend::Netns);
    order.results.write(&name, &capacities).map_err(kept)?;
    let tally = ledger.tally();
    let run = Run {
        run: name,
        backend: Backend::Netns,
        point: results::Point(order.planned.point.clone()),
        repeat: order.planned.repeat,
        seed: order.planned.seed,
        status,
        started,
        duration_s: duration.as_secs_f64(),
        wall_s: begun.elapsed().as_secs_f64(),
        sent: tally.sent,
        accepted: tally.accepted,
        refused: tally.refused,
        delivered: tally.delivered,
        wrong: tally.wrong,
        expired: ledger.expired(duration),
        delivered_octets: tally.delivered_octets,
        samples: samples.0,
        samples_lost: samples.1,
        ..Run::default()
    };
    let run = measured(run, order.results, order.scenario).map_err(kept)?;
    order.results.seal(&run).map_err(kept)?;
    Ok(run)
}

/// The status of a run that came to its end.
fn judge(scenario: &Scenario, ledger: &Ledger, duration: Duration) -> Status {
    let tally = ledger.tally();
    if tally.wrong > 0 && scenario.crashes.is_empty() {
        let what = format!("{} payloads were delivered altered, or again", tally.wrong);
        return Status::Failed(what);
    }
    if let Some(status) = Status::of_refused(tally.refused, tally.sent, scenario.stop) {
        return status;
    }
    let missing = ledger.missing(duration);
    if scenario.stop.expects_all && missing > 0 {
        let what = format!("{missing} payloads were accepted and have not been delivered");
        return Status::Failed(what);
    }
    Status::Done
}

/// A run while it is under way.
struct Stage<'a> {
    order: &'a Order<'a>,
    name: &'a str,
    directory: &'a Path,
    ledger: &'a Ledger,
    contacts: Mutex<Vec<results::Contact>>,
    duration: Duration,
    /// Measurements that were stored, and that are known to be missing.
    samples: (u64, u64),
    conditions: Conditions,
}

impl Stage<'_> {
    /// Builds the lab, has everything happen, and removes it.
    fn play(
        &mut self,
        goes_on: &(dyn Fn() -> bool + Sync),
        watch: &mut dyn FnMut(&Standing),
    ) -> Result<(), LabError> {
        enough_disk(self.directory)?;
        let plot = Plot {
            program: self.order.program.clone(),
            directory: self.directory.to_path_buf(),
            check: self.order.check,
        };
        let mut lab = Lab::build(self.order.scenario, &plot, goes_on)?;
        lab.describe(&mut self.conditions);
        let played = match goes_on() {
            true => self.perform(&mut lab, goes_on, watch),
            false => Ok(()),
        };
        let cleared = lab.clear();
        played.and(cleared)
    }

    /// True if nodes are to end in order, which takes time while bundles are under way: their stores are kept, or their measurements are
    /// to reach a collector.
    fn is_end_of_use(&self) -> bool {
        let settings = self.order.scenario.nodes.iter();
        let mut settings = settings.flat_map(|node| &node.host.settings);
        self.order.keep || settings.any(|setting| setting.starts_with("measure."))
    }

    fn perform(
        &mut self,
        lab: &mut Lab,
        goes_on: &(dyn Fn() -> bool + Sync),
        watch: &mut dyn FnMut(&Standing),
    ) -> Result<(), LabError> {
        let scenario = self.order.scenario;
        let Some(layout) = lab.network().map(|network| network.layout().clone()) else {
            return Ok(());
        };
        let captures = match self.order.packets {
            Packets::Captured => Captures::begin(&layout, self.directory)?,
            Packets::Passed => Captures::default(),
        };
        let address = layout.collector();
        let context = Context {
            layout: &layout,
            collector: &address,
            run: self.name,
            port: words::port(self.order.planned.seed, self.order.planned.number),
            links: &scenario.links,
        };
        let place = self.directory.join("programs");
        let programs = scenario.programs.iter();
        let programs = programs.map(|program| Program::new(program, &context, &place));
        let mut programs: Vec<Program> = programs.collect::<Result<_, _>>()?;
        detour::make(&layout, &words::detours(scenario, &layout))?;
        let collector = match measures(scenario) {
            true => Some(Collector::begin(
                &self.order.program,
                &layout,
                self.directory,
            )?),
            false => None,
        };
        let pool = Pool::new(scenario.seed);
        let Some(parts) = lab.parts() else {
            return Ok(());
        };
        let profiling = self.order.profiling;
        let profiles = profiling.begin(&layout, parts.daemons, self.directory)?;
        let tasks = tasks(scenario, parts.daemons);
        let receivers: BTreeSet<usize> = receivers(scenario);
        // The first sample is of nodes that run.
        let processes = Processes::new(running(&layout, parts.daemons));
        let latest: Mutex<Latest> = Mutex::default();
        let fault: Mutex<Option<LabError>> = Mutex::default();
        parts.network.begin();
        let clock = Clock::start();
        let apis: Vec<_> = parts
            .daemons
            .iter()
            .map(|daemon| daemon.as_ref().map(Daemon::api))
            .collect();
        let outcome = thread::scope(|scope| {
            let (clock, pool, fault, processes) = (&clock, &pool, &fault, &processes);
            let latest = &latest;
            let (ledger, contacts, network) = (self.ledger, &self.contacts, parts.network);
            let directory = self.directory;
            let heed = |outcome: Result<(), LabError>| {
                if let Err(error) = outcome {
                    fault
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .get_or_insert(error);
                }
            };
            for task in &tasks {
                scope.spawn(move || heed(send(task, clock, pool, ledger)));
            }
            for node in receivers {
                if let (Some(Some(api)), Some(host)) = (apis.get(node), layout.hosts.get(node)) {
                    let number = host.number;
                    scope.spawn(move || heed(receive(api, number, clock, pool, ledger)));
                }
            }
            scope.spawn(move || heed(follow_contacts(scenario, network, clock, contacts)));
            let until = last_contact(scenario).saturating_add(AFTERGLOW);
            let hosts = (network, parts.groups);
            let sampler = scope.spawn(move || {
                let shared = (processes, latest);
                heed(sampling::sample(hosts, shared, clock, until, directory));
            });
            let mut powers = powers(scenario);
            let mut processings = processings(scenario);
            let mut pause = Pauses::new(scenario, self.order.program.clone(), &apis);
            let mut parts = parts;
            let (mut told, mut disk) = (Duration::ZERO, Duration::ZERO);
            let outcome = loop {
                let now = clock.now();
                if !goes_on() || now >= scenario.stop.at {
                    break Ok(());
                }
                let all_ended = || programs.iter().all(Program::has_ended);
                if scenario.stop.when_delivered && self.ledger.is_all_delivered()
                    || scenario.stop.when_ended && all_ended()
                {
                    break Ok(());
                }
                let failed = fault.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(error) = failed.or_else(|| network.fault()) {
                    break Err(error);
                }
                if let Err(error) = parts
                    .step(&mut powers, &mut programs, processes, now)
                    .and_then(|()| parts.change_processors(&mut processings, now))
                    .and_then(|()| pause.step(clock, self.ledger))
                {
                    break Err(error);
                }
                if now >= disk {
                    disk = now + DISK;
                    if let Err(error) = enough_disk(self.directory) {
                        break Err(error);
                    }
                }
                if now >= told {
                    told = now + TELL;
                    let sample = latest
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .clone();
                    watch(&parts.standing(now, contacts, self.ledger, sample));
                }
                let is_timed = programs.iter().any(Program::is_timed);
                thread::sleep(if is_timed { LOOK_TIMED } else { LOOK });
            };
            // The run is over: nothing counts that happens while programs end.
            self.duration = clock.now();
            clock.end();
            self.conditions.still = clock.still();
            let _ = sampler.join();
            let last = sampling::finish(network, self.duration, self.directory);
            let last = last.map(|queues| self.conditions.queues = queues);
            end_programs(&mut programs);
            outcome.and(last)
        });
        drop(captures);
        profiles.finish();
        // A fault after the last look counts as well.
        let late = fault.into_inner().unwrap_or_else(PoisonError::into_inner);
        let network = lab.network().and_then(Network::fault);
        let outcome = outcome.and(late.or(network).map_or(Ok(()), Err));
        // Measurements of the nodes' end are collected as well.
        if self.is_end_of_use() {
            lab.end_nodes();
        }
        let collected = match collector.map_or(Ok((0, 0)), Collector::finish) {
            Ok(samples) => {
                self.samples = samples;
                Ok(())
            }
            Err(error) => Err(error),
        };
        self.close_contacts();
        self.conditions.programs = self.times(&programs);
        let kept = self.keep_figures(&programs);
        outcome.and(collected).and(kept)
    }

    /// When programs ran.
    fn times(&self, programs: &[Program]) -> Vec<Ran> {
        let ran = programs.iter().filter_map(|program| {
            let node = self.order.scenario.nodes.get(program.host)?;
            program.ran(&node.name, self.duration)
        });
        ran.collect()
    }

    /// Writes what programs told of themselves; one that tells nothing takes nothing from the others.
    fn keep_figures(&self, programs: &[Program]) -> Result<(), LabError> {
        let told = programs.iter().enumerate().map(|(at, program)| {
            let node = self.order.scenario.nodes.get(program.host);
            let node = node.map_or("", |node| node.name.as_str());
            program::told(programs, at, node, self.duration)
        });
        let (mut rows, mut first) = (Vec::new(), Ok(()));
        for figures in told {
            match figures {
                Ok((figures, without_room)) => {
                    rows.extend(figures);
                    first = first.and(without_room.map_or(Ok(()), Err));
                }
                Err(error) => first = first.and(Err(error)),
            }
        }
        match rates::read(&collector::database(self.directory)) {
            Ok((measured, more)) => {
                rates::add(&mut rows, measured);
                first = first.and(rates::without_room(more).map_or(Ok(()), Err));
            }
            Err(error) => {
                let what = format!("cannot read measurements: {error}");
                first = first.and(Err(LabError::new(what)));
            }
        }
        let written = self.order.results.write(self.name, &rows);
        first.and(written.map_err(|error| LabError::new(error.to_string())))
    }

    /// Contacts that are under way end with the run.
    fn close_contacts(&mut self) {
        let end_s = self.duration.as_secs_f64();
        let contacts = self
            .contacts
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for contact in contacts.iter_mut().filter(|contact| contact.end_s.is_nan()) {
            contact.end_s = end_s;
        }
    }
}

impl super::lab::Parts<'_> {
    /// Does what is due, and looks at who has ended.
    fn step(
        &mut self,
        powers: &mut Vec<Power>,
        programs: &mut [Program],
        processes: &Processes,
        now: Duration,
    ) -> Result<(), LabError> {
        let mut changed = false;
        while let Some(power) = powers.pop_if(|power| power.at <= now) {
            changed = true;
            let daemon = self.daemons.get_mut(power.node).and_then(Option::as_mut);
            match (daemon, power.on) {
                (Some(daemon), true) => daemon.start()?,
                (Some(daemon), false) => daemon.kill(),
                (None, _) => {}
            }
        }
        if changed {
            self.note_processes()?;
        }
        for daemon in self.daemons.iter_mut().flatten() {
            if let Some(error) = daemon.ended() {
                return Err(error);
            }
        }
        let layout = self.network.layout();
        let mut running = running(layout, self.daemons);
        let others = program::others(programs);
        for (program, others) in programs.iter_mut().zip(others) {
            let group = self.groups.get(program.host).and_then(Option::as_ref);
            program.step(now, others, layout, group)?;
            if let Some(list) = running.get_mut(owner(layout, program.host)) {
                list.extend(program.process());
            }
        }
        *processes.lock().unwrap_or_else(PoisonError::into_inner) = running;
        Ok(())
    }

    /// Changes the processors of hosts whose time that is.
    fn change_processors(
        &self,
        processings: &mut Vec<Processing>,
        now: Duration,
    ) -> Result<(), LabError> {
        while let Some(change) = processings.pop_if(|it| it.at <= now) {
            if let Some(Some(group)) = self.groups.get(change.host) {
                group.set_processor(change.millionths)?;
            }
        }
        Ok(())
    }
}

/// The processor of a host changes.
#[derive(Clone, Copy, Debug)]
struct Processing {
    at: Duration,
    host: usize,
    /// Millionths of a core; none: no limit.
    millionths: Option<u32>,
}

/// When processors of hosts change, the last first.
fn processings(scenario: &Scenario) -> Vec<Processing> {
    let hosts = scenario.nodes.iter().enumerate();
    let both = hosts.filter_map(|(host, node)| {
        let Processor::Share(millionths) = node.host.processor? else {
            return None;
        };
        let change = |at, millionths| Processing {
            at,
            host,
            millionths,
        };
        // One that holds from the beginning was set before anything ran.
        let from = Some(node.host.cpu_from).filter(|from| !from.is_zero());
        let from = from.map(|from| change(from, Some(millionths)));
        Some([from, node.host.cpu_until.map(|until| change(until, None))])
    });
    let mut all: Vec<Processing> = both.flatten().flatten().collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.at));
    all
}

/// The processes of each host's nodes; those on the host of another are that one's.
fn running(layout: &Layout, daemons: &[Option<Daemon>]) -> Vec<Vec<u32>> {
    let mut running = vec![Vec::new(); daemons.len()];
    for (node, daemon) in daemons.iter().enumerate() {
        if let Some(list) = running.get_mut(owner(layout, node)) {
            list.extend(daemon.as_ref().and_then(Daemon::process));
        }
    }
    running
}

/// The position of the host that a node is on.
fn owner(layout: &Layout, node: usize) -> usize {
    let found = layout.hosts.get(node);
    found.and_then(|host| host.guest_of).unwrap_or(node)
}

/// True if a program or a node sends measurements to the lab's collector.
pub(crate) fn measures(scenario: &Scenario) -> bool {
    let mut settings = scenario.nodes.iter().flat_map(|node| &node.host.settings);
    words::measures(scenario) || settings.any(|text| text.contains("{collector}"))
}

/// The task of each sender.
fn tasks(scenario: &Scenario, daemons: &[Option<Daemon>]) -> Vec<Task> {
    let tasks = scenario
        .traffic
        .iter()
        .enumerate()
        .filter_map(|(position, traffic)| {
            let number = |node: usize| Some(scenario.nodes.get(node)?.number);
            Some(Task {
                position,
                traffic: traffic.clone(),
                numbers: (number(traffic.from.0)?, number(traffic.to.0)?),
                largest_octets: scenario.nodes.get(traffic.from.0)?.largest_payload_octets(),
                api: daemons.get(traffic.from.0)?.as_ref()?.api(),
                seed: scenario.seed,
            })
        });
    tasks.collect()
}

/// Nodes at which something arrives: payloads, or reports of them.
fn receivers(scenario: &Scenario) -> BTreeSet<usize> {
    let traffic = scenario.traffic.iter();
    let ends = traffic.flat_map(|traffic| {
        let reported = (traffic.reports > 0).then_some(traffic.from.0);
        std::iter::once(traffic.to.0).chain(reported)
    });
    ends.collect()
}

/// Tells all programs to end, waits, and kills those that stay.
fn end_programs(programs: &mut [Program]) {
    for program in programs.iter_mut() {
        program.ask_to_end();
    }
    let end = Instant::now() + PROGRAMS_END;
    for program in programs {
        while program.is_ending() && Instant::now() < end {
            thread::sleep(LOOK);
        }
        program.finish();
    }
}

/// Refuses to fill the disk.
fn enough_disk(directory: &Path) -> Result<(), LabError> {
    let found = rustix::fs::statvfs(directory)
        .map_err(|error| LabError::io(directory.display(), &error.into()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free >= RESERVE_OCTETS {
        return Ok(());
    }
    let what = format!(
        "the disk of {} is full: {} MiB are free, and {} stay free",
        directory.display(),
        free >> 20,
        RESERVE_OCTETS >> 20
    );
    Err(LabError::new(what).with_hint("--out names a directory on another disk; --resume goes on"))
}
