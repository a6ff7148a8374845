//! Samples of the resources that hosts have used and of the octets that links have carried, at intervals while a run goes
//! on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use serde_json::Value;

use super::clock::Clock;
use super::usage::{KIB, Usage, named, page_octets};
use crate::failure::LabError;
use crate::number::float;
use crate::place::{Accounting, Counters, End, Group, Network};
use crate::results::{LinkSample, Resource, Row};

/// The time from one sample to the next.
const EVERY: Duration = Duration::from_millis(100);

/// The time for which processes may have been there when samples begin.
const BEFORE: Duration = Duration::from_secs(60);

/// The time after the last contact for which samples go on.
pub(super) const AFTERGLOW: Duration = Duration::from_secs(15);

/// Processes of each host, in the order of the scenario.
pub(super) type Processes = Mutex<Vec<Vec<u32>>>;

/// The values of the last sample, for the display of the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Latest {
    pub(super) time: Duration,
    /// Processor time of each host.
    pub(super) busy: Vec<Duration>,
    /// Octets that each link has carried, from the end that dials and to it.
    pub(super) octets: Vec<[u64; 2]>,
}

/// Takes samples until a time of the run, or its end.
///
/// # Errors
/// When they cannot be written.
pub(super) fn sample(
    (network, groups): (&Network, &[Option<Group>]),
    (processes, latest): (&Processes, &Mutex<Latest>),
    clock: &Clock,
    until: Duration,
    directory: &Path,
) -> Result<(), LabError> {
    let mut resources = table::<Resource>(directory)?;
    let mut links = table::<LinkSample>(directory)?;
    let mut used: Vec<BTreeMap<u32, Usage>> = vec![BTreeMap::new(); network.layout().hosts.len()];
    let failed = |error: csv::Error| LabError::new(format!("cannot write samples: {error}"));
    let begun = Machine::now();
    let mut at = Duration::ZERO;
    while !clock.is_over() && at <= until {
        let time = clock.now();
        let time_s = time.as_secs_f64();
        let (mut busy, mut octets) = (Vec::new(), Vec::new());
        let machine = Machine::now().since(&begun);
        let now = processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let run_ticks = (time + BEFORE).as_millis() * u128::from(clock_ticks_per_second()) / 1_000;
        let run_ticks = u64::try_from(run_ticks).unwrap_or(u64::MAX);
        let hosts = network.layout().hosts.iter().zip(groups);
        for (((host, group), used), processes) in hosts.zip(&mut used).zip(&now) {
            if host.guest_of.is_some() {
                busy.push(Duration::ZERO);
                continue;
            }
            for usage in used.values_mut() {
                usage.rss_octets = 0;
            }
            for process in processes {
                if let Some(usage) = Usage::of(*process) {
                    used.entry(*process).or_default().grow(usage, run_ticks);
                }
            }
            let read_again = group.as_ref().and_then(Group::read_again);
            let row = Resource {
                read_again_octets: read_again.map(|pages| pages.saturating_mul(page_octets())),
                ..resource(&host.name, time_s, used, &machine)
            };
            busy.push(Duration::from_secs_f64(row.user_s + row.system_s));
            resources.serialize(row).map_err(failed)?;
        }
        let carried = network
            .carried()
            .map_err(|error| LabError::io("cannot read counters", &error))?;
        for (link, [(first, lost_forward), (second, lost_back)]) in
            network.layout().links.iter().zip(carried)
        {
            let row = LinkSample {
                lost_forward,
                lost_back,
                ..link_sample(&link.name, time_s, first, second)
            };
            octets.push([row.octets_forward, row.octets_back]);
            if link.over.is_none() {
                links.serialize(row).map_err(failed)?;
            }
        }
        *latest.lock().unwrap_or_else(PoisonError::into_inner) = Latest { time, busy, octets };
        at += EVERY;
        clock.sleep_until(at);
    }
    for writer in [&mut resources, &mut links] {
        writer
            .flush()
            .map_err(|error| LabError::io("cannot write samples", &error))?;
    }
    Ok(())
}

/// A last sample of links, with the packets that the kernel's queues dropped: only their own counters have those. Returns the output of
/// `tc` on all queues.
///
/// # Errors
/// When the kernel does not say, or it cannot be written.
pub(super) fn finish(
    network: &Network,
    now: Duration,
    directory: &Path,
) -> Result<BTreeMap<String, Value>, LabError> {
    let mut queues = network.queues()?;
    if !queues.is_empty() {
        add_drops(network, &queues, now, directory)?;
    }
    queues.extend(network.plain_queues());
    Ok(queues)
}

fn add_drops(
    network: &Network,
    queues: &BTreeMap<String, Value>,
    now: Duration,
    directory: &Path,
) -> Result<(), LabError> {
    let failed = |what: String| LabError::new(format!("cannot write samples: {what}"));
    let carried = network
        .carried()
        .map_err(|error| LabError::io("cannot read counters", &error))?;
    let file = fs::File::options()
        .append(true)
        .open(directory.join(LinkSample::FILE));
    let file = file.map_err(|error| failed(error.to_string()))?;
    let mut writer = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(file);
    for (link, [(first, lost_forward), (second, lost_back)]) in
        network.layout().links.iter().zip(carried)
    {
        if link.over.is_some() {
            continue;
        }
        let [dialling, listening] = &link.ends;
        let mut row = link_sample(&link.name, now.as_secs_f64(), first, second);
        // Interfaces of other links have queues too, which only some hosts are asked for.
        let dropped = |end: &End| {
            let host = network.layout().hosts.get(end.host);
            let host = host.filter(|_| link.made.has_queue())?;
            Some(drops(queues.get(&host.name)?, &end.interface))
        };
        row.lost_forward = lost_forward + dropped(dialling).unwrap_or(0);
        row.lost_back = lost_back + dropped(listening).unwrap_or(0);
        writer
            .serialize(row)
            .map_err(|error| failed(error.to_string()))?;
    }
    writer.flush().map_err(|error| failed(error.to_string()))
}

/// Packets that the queues of an interface had no room for. Each of them counts what those in it dropped as well.
fn drops(queues: &Value, interface: &str) -> u64 {
    let queues = queues.as_array().into_iter().flatten();
    let own = queues.filter(|it| it["dev"] == interface);
    let drops = own.filter_map(|it| it["drops"].as_u64());
    drops.max().unwrap_or(0)
}

fn link_sample(link: &str, time_s: f64, first: Counters, second: Counters) -> LinkSample {
    LinkSample {
        link: link.to_owned(),
        time_s,
        octets_forward: first.sent_octets,
        octets_back: second.sent_octets,
        packets_forward: first.sent_packets,
        packets_back: second.sent_packets,
        lost_forward: 0,
        lost_back: 0,
    }
}

fn table<R: Row>(directory: &Path) -> Result<csv::Writer<fs::File>, LabError> {
    let path = directory.join(R::FILE);
    csv::Writer::from_path(&path)
        .map_err(|error| LabError::new(format!("cannot write {}: {error}", path.display())))
}

fn resource(node: &str, time_s: f64, used: &BTreeMap<u32, Usage>, machine: &Machine) -> Resource {
    let sum = |part: fn(&Usage) -> u64| -> u64 { used.values().map(part).sum() };
    let ticks_s = |ticks: u64| seconds(ticks, clock_ticks_per_second());
    Resource {
        node: node.to_owned(),
        time_s,
        user_s: ticks_s(sum(|it| it.user_ticks)),
        system_s: ticks_s(sum(|it| it.system_ticks)),
        iowait_s: ticks_s(machine.iowait_ticks),
        rss_octets: sum(|it| it.rss_octets),
        page_in: sum(|it| it.major_faults),
        page_out: machine.pages_out,
        switches: sum(|it| it.switches().0),
        voluntary_switches: sum(|it| it.switches().1),
        wait_s: Duration::from_nanos(sum(Usage::wait_ns)).as_secs_f64(),
        disk_wait_s: machine
            .tells_disk_waits
            .then(|| ticks_s(sum(Usage::disk_wait_ticks))),
        lock_wait_s: EVERY.as_secs_f64() * float(sum(Usage::lock_looks)),
        read_again_octets: None,
        disk_read_octets: sum(|it| it.read_octets),
        disk_write_octets: sum(|it| it.written_octets),
    }
}

fn seconds(ticks: u64, per_second: u64) -> f64 {
    let millis = ticks.saturating_mul(1_000) / per_second.max(1);
    Duration::from_millis(millis).as_secs_f64()
}

/// The counters of the machine as a whole.
struct Machine {
    iowait_ticks: u64,
    pages_out: u64,
    /// True if it counts the time that processes wait for disks.
    tells_disk_waits: bool,
}

impl Machine {
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = stat.lines().next().unwrap_or_default();
        let iowait = first.split_whitespace().nth(5);
        let memory = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        Self {
            iowait_ticks: iowait.and_then(|ticks| ticks.parse().ok()).unwrap_or(0),
            pages_out: named(&memory, "pgpgout ").saturating_mul(KIB) / page_octets(),
            tells_disk_waits: Accounting::of_machine().is_on(),
        }
    }

    /// The difference to the counters at an earlier moment.
    fn since(self, begun: &Self) -> Self {
        Self {
            iowait_ticks: self.iowait_ticks.saturating_sub(begun.iowait_ticks),
            pages_out: self.pages_out.saturating_sub(begun.pages_out),
            ..self
        }
    }
}
