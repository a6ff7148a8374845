//! Runs in virtual time, told as those on real sockets are.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dhow_scenario::Scenario;
use dhow_scenario::plan::PlannedRun;
use dhow_scenario::scenario::{NodeIndex, Presence, Processor};
use dhow_sim::congestion::Control;
use dhow_sim::run::{Outcome, Run as Simulation};
use dhow_sim::{NetworkError, Stride};

use crate::message_stats;
use crate::number::float;
use crate::place::{Made, makes};
use crate::report::measured;
use crate::results::{
    Backend, Capacity, Conditions, Contact, Figure, Limited, LinkSample, Payload, Point, Results,
    ResultsError, Run, Status,
};
use crate::run::{Contacts, timestamp};

/// Things that happen between two looks at whether the run is still wanted, at most.
const EVENTS_AT_ONCE: u64 = 20_000;

/// Contacts of one run that are told, at most.
pub(crate) const CONTACTS_MAX: usize = 100_000;

/// The likeness of connections where the scenario names no congestion control.
const WITHOUT_CONTROL: &str = "bbr without a start";

/// The name of a run in virtual time.
#[must_use]
pub fn name(planned: &PlannedRun) -> String {
    format!("sim-{:04}", planned.number)
}

/// A run in virtual time that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The outcome.
    pub outcome: Outcome,
    /// When it began, by the clock of this machine.
    started: String,
    /// The time that it took here.
    pub wall: Duration,
}

impl Ended {
    /// The fate of its bundles, by the names of The ONE's message statistics.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        message_stats::figures(&self.outcome)
    }
}

/// Runs a scenario in virtual time; `goes_on` is asked now and then, and may look how far it is.
///
/// # Errors
/// When traffic has no way.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    goes_on: &mut dyn FnMut(&Simulation) -> bool,
) -> Result<Ended, NetworkError> {
    let (begun, started) = (Instant::now(), timestamp());
    let mut simulation = Simulation::new(scenario, seed)?;
    let (mut wanted, mut stride) = (true, Stride::new(EVENTS_AT_ONCE));
    let mut looked = Instant::now();
    while wanted && simulation.advance(stride.events()) {
        stride.adapt(looked.elapsed());
        looked = Instant::now();
        wanted = goes_on(&simulation);
    }
    Ok(Ended {
        outcome: simulation.finish(),
        started,
        wall: begun.elapsed(),
    })
}

/// Leaves the results of a run in its directory.
///
/// # Errors
/// When results cannot be written.
pub fn keep(
    ended: &Ended,
    scenario: &Scenario,
    planned: &PlannedRun,
    results: &Results,
) -> Result<Run, ResultsError> {
    let outcome = &ended.outcome;
    let name = name(planned);
    results.begin(&name)?;
    results.write_conditions(&name, &conditions(scenario))?;
    results.write(&name, &payloads(outcome))?;
    results.write(&name, &contacts(scenario, outcome.progress.time))?;
    results.write(&name, &links(outcome))?;
    results.write(&name, &message_stats::figures(outcome))?;
    results.write(&name, &capacities(scenario, Backend::Sim))?;
    let run = Run {
        run: name,
        backend: Backend::Sim,
        point: Point(planned.point.clone()),
        repeat: planned.repeat,
        seed: planned.seed,
        status: match outcome.findings.first() {
            _ if outcome.interrupted => Status::Interrupted,
            Some(finding) => Status::Failed(finding.sentence.clone()),
            None => Status::of_refused(outcome.refused, outcome.progress.sent, scenario.stop)
                .unwrap_or(Status::Done),
        },
        started: ended.started.clone(),
        duration_s: outcome.progress.time.as_secs_f64(),
        trace_hash: Some(format!("{:016x}", outcome.trace_hash)),
        wall_s: ended.wall.as_secs_f64(),
        sent: outcome.progress.sent,
        accepted: outcome.accepted,
        refused: outcome.refused,
        delivered: outcome.progress.delivered,
        wrong: 0,
        expired: outcome.expired,
        delivered_octets: delivered_octets(outcome),
        samples: 0,
        samples_lost: 0,
        ..Run::default()
    };
    let run = measured(run, results, scenario)?;
    results.seal(&run)?;
    Ok(run)
}

/// The conditions of a run that virtual time has.
fn conditions(scenario: &Scenario) -> Conditions {
    let resembles = Control::of(scenario).map_or(WITHOUT_CONTROL, Control::name);
    let nodes = scenario.nodes.iter();
    Conditions {
        congestion_control: nodes
            .map(|node| (node.name.clone(), resembles.to_owned()))
            .collect(),
        ..Conditions::default()
    }
}

fn delivered_octets(outcome: &Outcome) -> u64 {
    let delivered = outcome.payloads.iter().filter(|it| it.delivered.is_some());
    delivered.map(|it| it.octets).sum()
}

fn payloads(outcome: &Outcome) -> Vec<Payload> {
    let payloads = outcome.payloads.iter().map(|it| Payload {
        traffic: u64::from(it.name.traffic) + 1,
        number: u64::from(it.name.number) + 1,
        from: it.from.clone(),
        to: it.to.clone(),
        octets: it.octets,
        sent_s: it.sent.as_secs_f64(),
        accepted_s: it.accepted.map(|time| time.as_secs_f64()),
        delivered_s: it.delivered.map(|time| time.as_secs_f64()),
    });
    payloads.collect()
}

/// The contacts that began before an end, in their order, each as long as it was.
#[must_use]
pub fn contacts(scenario: &Scenario, end: Duration) -> Vec<Contact> {
    let mut contacts: Vec<Contact> = Vec::new();
    // Of each link that is there, which contact that is.
    let mut open = BTreeMap::new();
    for switching in Contacts::new(&scenario.contacts, end) {
        let at_s = switching.at.as_secs_f64();
        if !switching.up {
            let contact = open.remove(&switching.link);
            if let Some(contact) = contact.and_then(|place: usize| contacts.get_mut(place)) {
                contact.end_s = at_s;
            }
        } else if contacts.len() < CONTACTS_MAX
            && let Some(link) = scenario.links.get(switching.link.0)
        {
            open.insert(switching.link, contacts.len());
            contacts.push(Contact {
                link: link.name.clone(),
                start_s: at_s,
                end_s: end.as_secs_f64(),
            });
        }
    }
    contacts
}

fn links(outcome: &Outcome) -> Vec<LinkSample> {
    let links = outcome.links.iter().map(|it| LinkSample {
        link: it.name.clone(),
        time_s: outcome.progress.time.as_secs_f64(),
        octets_forward: it.octets.0,
        octets_back: it.octets.1,
        ..LinkSample::default()
    });
    links.collect()
}

/// The rates of links and the processors of nodes, of a backend.
#[must_use]
pub fn capacities(scenario: &Scenario, backend: Backend) -> Vec<Capacity> {
    // The kinds of links there; virtual time keeps every rate to the octet.
    let makes = match backend {
        Backend::Netns => makes(scenario).unwrap_or_default(),
        Backend::Sim => Vec::new(),
    };
    let name = |node: NodeIndex| {
        let found = scenario.nodes.get(node.0);
        found.map_or_else(String::new, |node| node.name.clone())
    };
    let host = |node: NodeIndex| {
        let found = scenario.nodes.get(node.0);
        found.and_then(|node| node.guest_of).unwrap_or(node)
    };
    let links = scenario.links.iter().enumerate().map(|(number, link)| {
        let ahead = makes.get(number).map_or(Some(0), Made::ahead_octets);
        let rate = match ahead {
            Some(_) => float(link.rate.octets_per_s()),
            None => f64::INFINITY,
        };
        let wire = link.over.and_then(|wire| scenario.links.get(wire.0));
        // Its ends are in the order of those of its wire.
        let is_turned = wire.is_some_and(|wire| host(wire.between.0) != host(link.between.0));
        let (from, to) = match is_turned {
            true => (link.between.1, link.between.0),
            false => link.between,
        };
        Capacity {
            name: link.name.clone(),
            resource: Limited::Link,
            amount: link.rate_trace.is_none().then_some(rate),
            from: name(from),
            to: name(to),
            ahead_octets: ahead.unwrap_or(0),
            planned: link.presence == Presence::Planned,
            over: wire.map_or_else(String::new, |wire| wire.name.clone()),
        }
    });
    let processors = scenario.nodes.iter().filter_map(|node| {
        let Processor::Share(millionths) = node.host.processor? else {
            // Its part of a core is found before a run.
            return None;
        };
        Some(Capacity {
            name: node.name.clone(),
            resource: Limited::Processor,
            amount: Some(f64::from(millionths) / 1e6),
            ..Capacity::default()
        })
    });
    links.chain(processors).collect()
}

/// Says what of a scenario virtual time has not.
///
/// # Errors
/// The first such thing.
pub fn possible(scenario: &Scenario) -> Result<(), NetworkError> {
    dhow_sim::network::blueprints(scenario, scenario.seed).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn contacts_that_overlap_are_one_and_end_with_the_run() {
        let text = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nname = \"wire\"\nbetween = [\"a\", \"b\"]\nrate = \"8Mbit\"\n\
            [[contact]]\nlink = \"wire\"\nstart = \"1s\"\nfor = \"3s\"\nevery = \"8s\"\n\
            [[contact]]\nlink = \"wire\"\nstart = \"2s\"\nfor = \"4s\"\n\
            [[traffic]]\nfrom = \"a\"\nto = \"b\"\nsize = 100\ncount = 1\n[stop]\nat = \"20s\"\n";
        let scenario = Scenario::parse(Path::new("s.toml"), text).expect("a scenario");
        let told = contacts(&scenario, Duration::from_secs(10));
        let spans: Vec<(f64, f64)> = told.iter().map(|it| (it.start_s, it.end_s)).collect();
        assert_eq!(spans, [(1.0, 6.0), (9.0, 10.0)]);
    }

    #[test]
    fn a_link_whose_rate_follows_a_trace_or_that_keeps_to_none_has_no_bound() {
        let place = tempfile::tempdir().expect("a directory");
        std::fs::write(place.path().join("cell"), "1\n900\n").expect("a trace");
        let line =
            |name: &str, rate: &str| format!("[[line]]\nname = \"{name}\"\ncount = 2\n{rate}\n");
        let even = line("even", "rate = \"8Mbit\"");
        let traced = line("traced", "rate_trace = \"cell\"");
        let cable = line("cable", "rate = \"8Mbit\"\nby = \"veth\"");
        let text = format!("{even}{traced}{cable}[stop]\nat = \"1s\"\n");
        let scenario = Scenario::parse(&place.path().join("s.toml"), &text).expect("a scenario");
        for (backend, cable) in [
            (Backend::Sim, Some(1e6)),
            (Backend::Netns, Some(f64::INFINITY)),
        ] {
            let told = capacities(&scenario, backend);
            let told: Vec<Option<f64>> = told.iter().map(|it| it.amount).collect();
            assert_eq!(told, [Some(1e6), None, cable], "{backend}");
        }
    }
}
