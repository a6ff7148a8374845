//! One run as a report needs it: the facts about every run are kept in short, since a study has many and each may have millions of payloads.

use std::collections::{BTreeMap, BTreeSet};

use dhow_scenario::regular_file::read_text;

use super::cut::Cuts;
use super::limit;
use crate::number::float;
use crate::results::{
    Capacity, Contact, Figure, LinkSample, PROFILE, Payload, Ran, Resource, Results, ResultsError,
    Run, Status, Still, last_of, table::TEXT_OCTETS_MAX,
};
use crate::run::Measured;

/// Delays that are kept of a run: of more, so many at equal ranks.
const DELAYS_MAX: usize = 1_001;

/// The part of the time until the last delivery in which payloads were sent, from which on it was their pace that goodput is of.
const PACED: f64 = 0.9;

/// One run in short.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// Its line.
    pub run: Run,
    /// Delays of what was delivered, from the shortest, seconds; of many those at equal ranks.
    pub delays: Vec<f64>,
    /// When the first payload was sent.
    pub first_sent_s: Option<f64>,
    /// When the last was sent.
    pub last_sent_s: Option<f64>,
    /// When the last was delivered.
    pub last_delivery_s: Option<f64>,
    /// When its links could be used.
    pub contacts: Vec<Contact>,
    /// The counters of each link at the end.
    pub links: Vec<LinkSample>,
    /// The resources that each node had used at the end, and the most memory that it had in use.
    pub resources: Vec<Resource>,
    /// The time of each node, by use, while payloads could pass, or in all of the run if there were none.
    pub days: Vec<Day>,
    /// The figures of its programs.
    pub figures: Vec<Figure>,
    /// The amount that there was of each resource.
    pub capacities: Vec<Capacity>,
    /// When its time stood still.
    pub still: Option<Still>,
    /// When its programs ran.
    pub programs: Vec<Ran>,
    /// The congestion controls of its hosts.
    pub congestion: BTreeSet<String>,
    /// Its processors that are set by the rate of TCP.
    pub processors: Vec<Measured>,
    /// Payload that was delivered, between each two nodes.
    pub flows: Vec<Flow>,
    /// Octets that passed over each link while payloads could pass.
    pub passed: Vec<Passed>,
    /// True if more was delivered than its links could carry, which its status then says.
    pub is_impossible: bool,
}

/// Payload that was delivered from one node to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The node that sent it.
    pub from: String,
    /// The node that it was for.
    pub to: String,
    /// Octets of payload.
    pub octets: u64,
    /// When the first of it was sent.
    pub first_sent_s: f64,
    /// When the last of it was delivered.
    pub last_delivery_s: f64,
}

/// Octets that passed over a link in a time, in the direction in which more did.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// The link.
    pub link: String,
    /// Octets.
    pub octets: u64,
    /// The time: of a link that comes and goes that of its contacts.
    pub time_s: f64,
}

/// The time of a node by its use, in seconds of each second in the mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Day {
    /// The node.
    pub node: String,
    /// It had processors: cores.
    pub busy: f64,
    /// Its threads could have run and had no processor, one beside the other.
    pub waited: f64,
    /// Its threads waited for disks, one beside the other; nothing where the kernel did not count it.
    pub disk: Option<f64>,
    /// Octets that it wrote to its disk.
    pub written_octets: u64,
    /// The part of its waits for disks in which it read again pages that its memory had no room to keep.
    pub memory: f64,
    /// Its threads waited for locks, one beside the other.
    pub locks: f64,
}

/// The resource for which a node waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A processor that others had, or that its limit did not give it.
    Processor,
    /// A disk.
    Disk,
    /// Room in memory: a disk from which it reads again what it had read.
    Memory,
    /// A lock that another of its threads had.
    Locks,
    /// Octets from the network, or anything to do.
    Network,
    /// One of the two: the time for which it waited for disks is not known.
    NetworkOrDisk,
}

/// One run over time.
#[derive(Clone, Debug)]
pub struct Course {
    /// The run.
    pub summary: RunSummary,
    /// Its payloads.
    pub payloads: Vec<Payload>,
    /// The resources that its nodes used, over time.
    pub resources: Vec<Resource>,
    /// Functions that took most of the processor of each node, where they were looked for.
    pub profiles: Vec<(String, String)>,
}

impl Course {
    /// Reads a run's tables.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(run: Run, results: &Results) -> Result<Self, ResultsError> {
        let name = run.run.clone();
        let payloads = results.read::<Payload>(&name)?;
        let resources = results.read::<Resource>(&name)?;
        let links = results.read::<LinkSample>(&name)?;
        let conditions = results.conditions(&name)?;
        let mut summary = RunSummary {
            delays: delays(&payloads),
            first_sent_s: payloads.iter().map(|it| it.sent_s).min_by(f64::total_cmp),
            last_sent_s: payloads.iter().map(|it| it.sent_s).max_by(f64::total_cmp),
            last_delivery_s: payloads
                .iter()
                .filter_map(|it| it.delivered_s)
                .max_by(f64::total_cmp),
            contacts: results.read::<Contact>(&name)?,
            links: last_of(&links, |it| &it.link)
                .into_iter()
                .cloned()
                .collect(),
            resources: at_the_end(&resources),
            days: Vec::new(),
            figures: results.read::<Figure>(&name)?,
            capacities: results.read::<Capacity>(&name)?,
            still: conditions.still,
            programs: conditions.programs,
            congestion: conditions.congestion_control.into_values().collect(),
            processors: conditions.processors,
            flows: flows(&payloads),
            passed: Vec::new(),
            is_impossible: false,
            run,
        };
        summary.days = days(&resources, summary.watched());
        summary.passed = summary.passed_over(&links);
        let excess = Cuts::of(&summary).excess();
        if let Some(excess) = excess.filter(|_| summary.run.status == Status::Done) {
            summary.is_impossible = true;
            summary.run.status = Status::Failed(excess.to_string());
        }
        Ok(Self {
            profiles: profiles(&summary, results),
            summary,
            payloads,
            resources,
        })
    }
}

impl RunSummary {
    /// The programs whose failure is what was measured.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        let programs = self.programs.iter();
        programs.filter_map(|ran| Some((ran.program.as_str(), ran.failed.as_deref()?)))
    }
}

/// Profiles of nodes that are there.
fn profiles(summary: &RunSummary, results: &Results) -> Vec<(String, String)> {
    let nodes = results.of_run(&summary.run.run).join("nodes");
    let found = summary.resources.iter().filter_map(|it| {
        let text = read_text(&nodes.join(&it.node).join(PROFILE), TEXT_OCTETS_MAX).ok()?;
        Some((it.node.clone(), text))
    });
    found.collect()
}

/// Payload that was delivered, between each two nodes.
fn flows(payloads: &[Payload]) -> Vec<Flow> {
    let mut flows: BTreeMap<(&str, &str), Flow> = BTreeMap::new();
    for payload in payloads {
        let Some(delivered_s) = payload.delivered_s else {
            continue;
        };
        let flow = flows.entry((&payload.from, &payload.to));
        let flow = flow.or_insert_with(|| Flow {
            from: payload.from.clone(),
            to: payload.to.clone(),
            octets: 0,
            first_sent_s: payload.sent_s,
            last_delivery_s: delivered_s,
        });
        flow.octets += payload.octets;
        flow.first_sent_s = flow.first_sent_s.min(payload.sent_s);
        flow.last_delivery_s = flow.last_delivery_s.max(delivered_s);
    }
    flows.into_values().collect()
}

fn delays(payloads: &[Payload]) -> Vec<f64> {
    let mut delays: Vec<f64> = payloads
        .iter()
        .filter_map(|it| Some(it.delivered_s? - it.sent_s))
        .collect();
    delays.sort_by(f64::total_cmp);
    if delays.len() <= DELAYS_MAX {
        return delays;
    }
    let (last, parts) = (delays.len() - 1, DELAYS_MAX - 1);
    let at = |part: usize| delays.get(part * last / parts).copied();
    (0..=parts).filter_map(at).collect()
}

/// The last sample of each node, with the most memory that was in use in any of its samples.
fn at_the_end(resources: &[Resource]) -> Vec<Resource> {
    let mut most: BTreeMap<&str, u64> = BTreeMap::new();
    for sample in resources {
        let most = most.entry(&sample.node).or_default();
        *most = sample.rss_octets.max(*most);
    }
    let last = last_of(resources, |it| &it.node).into_iter();
    let last = last.map(|it| Resource {
        rss_octets: most.get(it.node.as_str()).copied().unwrap_or(0),
        ..it.clone()
    });
    last.collect()
}

/// The time of each node by its use, between two times: the difference of the first and the last of its samples between.
fn days(resources: &[Resource], (start, end): (f64, f64)) -> Vec<Day> {
    let mut between: BTreeMap<&str, (&Resource, &Resource)> = BTreeMap::new();
    let within = |it: &&Resource| it.time_s >= start && it.time_s <= end;
    for sample in resources.iter().filter(within) {
        between.entry(&sample.node).or_insert((sample, sample)).1 = sample;
    }
    let days = between.into_values();
    days.filter_map(|(first, last)| Day::between(first, last))
        .collect()
}

impl Day {
    /// The time of a node from one of its samples to a later one.
    fn between(first: &Resource, last: &Resource) -> Option<Self> {
        let time = last.time_s - first.time_s;
        let used = |what: fn(&Resource) -> f64| (what(last) - what(first)) / time;
        let disk = first.disk_wait_s.zip(last.disk_wait_s);
        let disk = disk.map(|(first, last)| (last - first) / time);
        let memory = disk.unwrap_or(0.0) * read_again(first, last);
        (time > 0.0).then(|| Self {
            node: last.node.clone(),
            busy: used(|it| it.user_s + it.system_s),
            waited: used(|it| it.wait_s),
            disk: disk.map(|disk| disk - memory),
            memory,
            locks: used(|it| it.lock_wait_s),
            written_octets: last
                .disk_write_octets
                .saturating_sub(first.disk_write_octets),
        })
    }

    /// For what the node waited most of the time; nothing where it was busy for longer than it waited for anything.
    #[must_use]
    pub fn waited_for(&self) -> Option<Wait> {
        let disk = self.disk.unwrap_or(0.0);
        let known = self.busy + self.waited + disk + self.memory + self.locks;
        let rest = (1.0 - known).max(0.0);
        let at_rest = match self.disk {
            Some(_) => Wait::Network,
            None => Wait::NetworkOrDisk,
        };
        let waits = [
            (self.waited, Wait::Processor),
            (disk, Wait::Disk),
            (self.memory, Wait::Memory),
            (self.locks, Wait::Locks),
            (rest, at_rest),
        ];
        let most = waits
            .into_iter()
            .max_by(|one, other| one.0.total_cmp(&other.0));
        most.filter(|(time, _)| *time > self.busy)
            .map(|(_, wait)| wait)
    }
}

/// The part of what went to and from disks that was read again since memory had no room to keep it, of 1.
fn read_again(first: &Resource, last: &Resource) -> f64 {
    let octets = |it: &Resource| it.disk_read_octets + it.disk_write_octets;
    let all = float(octets(last).saturating_sub(octets(first)));
    let again = first.read_again_octets.zip(last.read_again_octets);
    let again = again.map_or(0.0, |(first, last)| float(last.saturating_sub(first)));
    if all > 0.0 {
        (again / all).min(1.0)
    } else {
        0.0
    }
}

impl RunSummary {
    /// Contacts of links that come and go.
    pub fn planned(&self) -> impl Iterator<Item = &Contact> {
        let end = self.run.duration_s - 0.01;
        let comes_or_goes = move |it: &&Contact| it.start_s > 0.01 || it.end_s < end;
        self.contacts.iter().filter(comes_or_goes)
    }

    /// True if all payloads were delivered that nodes had not refused.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.run.delivered > 0 && self.run.delivered + self.run.refused >= self.run.sent
    }

    /// True if the load alone decided its goodput: all that was sent arrived, in contacts whose length no node changes, or as it was
    /// sent, with nothing at its limit.
    pub(super) fn is_bounded_by_load(&self) -> bool {
        let arrived = self.run.sent > 0 && self.run.delivered >= self.run.sent;
        arrived && (self.planned().next().is_some() || self.is_paced() && !limit::is_reached(self))
    }

    /// True if nearly all of the time until the last delivery was that in which payloads were sent.
    fn is_paced(&self) -> bool {
        let times = self.first_sent_s.zip(self.last_sent_s);
        times
            .zip(self.last_delivery_s)
            .is_some_and(|((first_sent, last_sent), last_delivery)| {
                last_sent - first_sent >= PACED * (last_delivery - first_sent)
            })
    }

    /// When the first payload could leave: it had been sent, and if links come and go, one was there.
    pub(super) fn first_chance(&self) -> f64 {
        let open = self.planned().map(|it| it.start_s).min_by(f64::total_cmp);
        match (self.first_sent_s, open) {
            (Some(sent), Some(open)) => sent.max(open),
            (Some(sent), None) => sent,
            (None, _) => 0.0,
        }
    }

    /// Payload that was delivered, by the time in which it could pass the narrowest cut on its way: bit/s. Nothing where none could, or
    /// where it is not known which links there were.
    #[must_use]
    pub fn goodput(&self) -> Option<f64> {
        if self.run.sent == 0 {
            return None;
        }
        match self.run.delivered_octets {
            0 => self.planned().next().map(|_| 0.0),
            _ => Cuts::of(self).goodput(),
        }
    }

    /// Octets that passed over each link: in its contacts, or where it always is there from when payloads could pass to the last delivery, as near
    /// to that as its samples are.
    fn passed_over(&self, samples: &[LinkSample]) -> Vec<Passed> {
        let mut of_links: BTreeMap<&str, Vec<&LinkSample>> = BTreeMap::new();
        for sample in samples {
            of_links.entry(&sample.link).or_default().push(sample);
        }
        let (start, end) = self.watched();
        let links = of_links.into_iter().filter_map(|(link, samples)| {
            let contacts = self.contacts.iter().filter(|it| it.link == link);
            let open: f64 = contacts.map(|it| it.end_s - it.start_s).sum();
            let last = *samples.last()?;
            let (first, last, time_s) = if open > 0.0 {
                (None, last, open)
            } else if samples.len() == 1 {
                (
                    None,
                    last,
                    end - start + Still::within(self.still, start, end),
                )
            } else {
                let first = samples.iter().rfind(|it| it.time_s <= start).copied();
                let behind = samples.iter().find(|it| it.time_s >= end);
                let last = behind.copied().unwrap_or(last);
                let start = first.map_or(0.0, |it| it.time_s);
                let still = Still::within(self.still, start, last.time_s);
                (first, last, last.time_s - start + still)
            };
            let octets =
                |value: fn(&LinkSample) -> u64| value(last).saturating_sub(first.map_or(0, value));
            Some(Passed {
                link: link.to_owned(),
                octets: octets(|it| it.octets_forward).max(octets(|it| it.octets_back)),
                time_s,
            })
        });
        links.collect()
    }

    /// The time in which it counts what nodes do: that in which payloads could pass, or where there were none that in which programs ran
    /// together, or all.
    fn watched(&self) -> (f64, f64) {
        match self.first_sent_s {
            Some(_) => self.window(),
            None => self.together().unwrap_or((0.0, self.run.duration_s)),
        }
    }

    /// From when all programs ran to when the first ended, in contacts of links that come and go; nothing where there is no such time.
    pub(super) fn together(&self) -> Option<(f64, f64)> {
        let from = self.programs.iter().map(|it| it.from_s);
        let from = from.chain(self.planned().map(|it| it.start_s).min_by(f64::total_cmp));
        let until = self.programs.iter().map(|it| it.until_s);
        let until = until.chain(self.planned().map(|it| it.end_s).max_by(f64::total_cmp));
        let (from, until) = (from.max_by(f64::total_cmp)?, until.min_by(f64::total_cmp)?);
        (!self.programs.is_empty() && until > from).then_some((from, until))
    }

    /// The time from when the first payload could pass to when the last could, or was there: seconds.
    #[must_use]
    pub fn window(&self) -> (f64, f64) {
        let last = self.last_delivery_s.unwrap_or(0.0);
        let starts = self.planned().map(|it| it.start_s);
        let ends = self.planned().map(|it| it.end_s);
        match (starts.min_by(f64::total_cmp), ends.max_by(f64::total_cmp)) {
            (Some(start), Some(end)) => (start, end.min(last.max(start + 0.5))),
            _ => (self.first_sent_s.unwrap_or(0.0), last),
        }
    }
}

#[cfg(test)]
impl RunSummary {
    /// A run of which nothing else is known.
    pub(crate) fn bare(run: Run) -> Self {
        Self {
            run,
            delays: Vec::new(),
            first_sent_s: None,
            last_sent_s: None,
            last_delivery_s: None,
            contacts: Vec::new(),
            links: Vec::new(),
            resources: Vec::new(),
            days: Vec::new(),
            figures: Vec::new(),
            capacities: Vec::new(),
            still: None,
            programs: Vec::new(),
            congestion: BTreeSet::new(),
            processors: Vec::new(),
            flows: Vec::new(),
            passed: Vec::new(),
            is_impossible: false,
        }
    }

    /// The same over a link of 1,000 octets a second, which so many passed in so many seconds.
    pub(crate) fn over_wire(self, octets: u64, time_s: f64) -> Self {
        let name = "wire".to_owned();
        Self {
            capacities: vec![Capacity {
                name: name.clone(),
                amount: Some(1_000.0),
                ..Capacity::default()
            }],
            passed: vec![Passed {
                link: name,
                octets,
                time_s,
            }],
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_of_what_arrived_as_it_was_sent_is_the_load() {
        let run = |delivered| Run {
            sent: 10,
            delivered,
            ..Run::default()
        };
        let summary = |delivered, last_sent_s, last_delivery_s| RunSummary {
            first_sent_s: Some(1.0),
            last_sent_s: Some(last_sent_s),
            last_delivery_s: Some(last_delivery_s),
            ..RunSummary::bare(run(delivered))
        };
        assert!(summary(10, 3.0, 3.1).is_bounded_by_load());
        // A load that leaves at once is as fast as it can be; not all arrived; a link was full.
        assert!(!summary(10, 1.0, 3.0).is_bounded_by_load());
        assert!(!summary(9, 3.0, 3.1).is_bounded_by_load());
        let full = summary(10, 3.0, 3.1).over_wire(1_900, 2.0);
        assert!(!full.is_bounded_by_load());
    }

    #[test]
    fn of_many_delays_those_at_equal_ranks_are_kept() {
        let payload = |number: u64, delay_s: Option<f64>| Payload {
            traffic: 1,
            number,
            from: "a".to_owned(),
            to: "b".to_owned(),
            octets: 1,
            sent_s: 1.0,
            accepted_s: None,
            delivered_s: delay_s.map(|delay| 1.0 + delay),
        };
        let few = [
            payload(1, Some(2.0)),
            payload(2, None),
            payload(3, Some(1.0)),
        ];
        assert_eq!(delays(&few), [1.0, 2.0]);
        let many: Vec<Payload> = (0..50_001)
            .map(|number| payload(number, Some(float(50_000 - number))))
            .collect();
        let kept = delays(&many);
        assert_eq!(kept.len(), DELAYS_MAX);
        assert_eq!((kept[0], kept[500], kept[1_000]), (0.0, 25_000.0, 50_000.0));
    }

    #[test]
    fn a_node_is_busy_by_what_it_used_between_two_times() {
        let sample = |node: &str, time_s: f64, user_s: f64| Resource {
            node: node.to_owned(),
            time_s,
            user_s,
            ..Resource::default()
        };
        let samples = [
            sample("a", 0.0, 0.0),
            sample("a", 5.0, 4.0),
            sample("b", 6.0, 9.0),
            sample("a", 7.0, 5.0),
            sample("a", 9.0, 9.0),
        ];
        let days = days(&samples, (1.0, 8.0));
        let busy: Vec<_> = days.iter().map(|it| (it.node.as_str(), it.busy)).collect();
        assert_eq!(busy, [("a", 0.5)]);
    }

    #[test]
    fn a_node_waits_for_what_took_most_of_its_time() {
        let day = |busy, waited, disk| Day {
            node: "a".to_owned(),
            busy,
            waited,
            disk,
            written_octets: 0,
            memory: 0.0,
            locks: 0.0,
        };
        let most = |busy, waited, disk| day(busy, waited, disk).waited_for();
        assert_eq!(most(0.1, 0.8, Some(0.0)), Some(Wait::Processor));
        assert_eq!(most(0.1, 0.2, Some(0.6)), Some(Wait::Disk));
        assert_eq!(most(0.1, 0.0, Some(0.0)), Some(Wait::Network));
        assert_eq!(most(0.1, 0.0, None), Some(Wait::NetworkOrDisk));
        assert_eq!(most(0.9, 0.05, Some(0.0)), None);
        let locked = Day {
            locks: 2.0,
            ..day(1.0, 0.0, Some(0.0))
        };
        assert_eq!(locked.waited_for(), Some(Wait::Locks));
    }

    #[test]
    fn waits_for_what_was_read_before_are_waits_for_memory() {
        let sample = |time_s, wait_s, octets, again| Resource {
            node: "a".to_owned(),
            time_s,
            disk_wait_s: Some(wait_s),
            disk_read_octets: octets,
            read_again_octets: again,
            ..Resource::default()
        };
        for (again, disk, memory, most) in [
            (None, 0.8, 0.0, Wait::Disk),
            (Some(1_000), 0.6, 0.2, Wait::Disk),
            (Some(3_000), 0.2, 0.6, Wait::Memory),
            (Some(9_000), 0.0, 0.8, Wait::Memory),
        ] {
            let first = sample(0.0, 1.0, 500, again.map(|_| 0));
            let day = Day::between(&first, &sample(10.0, 9.0, 4_500, again)).unwrap();
            let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
            assert!(
                near(day.disk.unwrap(), disk) && near(day.memory, memory),
                "{day:?}"
            );
            assert_eq!(day.waited_for(), Some(most));
        }
    }

    #[test]
    fn what_the_machine_waited_for_disks_is_no_wait_of_a_node() {
        let sample = |time_s, disk_wait_s| Resource {
            node: "a".to_owned(),
            time_s,
            iowait_s: time_s,
            disk_wait_s,
            ..Resource::default()
        };
        let disk = |first, last| {
            let day = Day::between(&sample(0.0, first), &sample(4.0, last));
            day.and_then(|day| day.disk)
        };
        assert_eq!(disk(None, None), None);
        assert_eq!(disk(Some(1.0), Some(3.0)), Some(0.5));
    }

    #[test]
    fn memory_is_told_by_its_most_and_all_else_by_its_end() {
        let sample = |rss_octets, switches| Resource {
            node: "a".to_owned(),
            rss_octets,
            switches,
            ..Resource::default()
        };
        let end = at_the_end(&[sample(5, 1), sample(9, 2), sample(3, 7)]);
        assert_eq!(end, [sample(9, 7)]);
    }
}
