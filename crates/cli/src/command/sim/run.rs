//! `dhow sim run`: a scenario, with one seed or many.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use dhow_daemon::machine::{memory_octets, peak_octets};
use dhow_scenario::Scenario;
use dhow_sim::{Estimate, Outcome, Run as Simulation};
use serde_json::{Value, json};

use super::findings;
use super::report::Report;
use crate::arguments::{Common, parse_duration, parse_number, parse_size};
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::quantity;

/// Events between two looks at the person: some milliseconds.
const EVENTS_PER_LOOK: u64 = 10_000;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// How often it is told in lines.
const LINE_EVERY: Duration = Duration::from_secs(1);

const AFTER_HELP: &str = "\
The same scenario and seed do the same, on every machine: hash says whether two runs did.

Examples:
  dhow sim run labs/village-bus.toml --seeds 200
  dhow sim run labs/village-bus.toml --seed 7 --out village
  dhow sim run labs/village-bus.toml --set traffic.size=2kB --set link.bus-town.rate=1Mbit";

/// Run a scenario's network in virtual time, and watch that nothing is lost, altered or delivered twice
///
/// The nodes are those of `dhow node run`; disks, links, clocks and what fails are simulated from the seed. A run stops at the first violation, with what led to it. Exit code 1 where there was one.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Run {
    /// The scenario
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// The seed [default: the scenario's, or 1]
    #[arg(long, value_name = "NUMBER", value_parser = parse_number)]
    seed: Option<u64>,
    /// Run with so many seeds, from that of --seed on
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Set a value of the scenario: of every section of a name (traffic.size=2kB), or of one, by its name or its position from 0 (link.NAME.rate=1Mbit, traffic.0.count=5); several times for several
    #[arg(long = "set", value_name = "PATH=VALUE")]
    settings: Vec<String>,
    /// Stop after so much virtual time, whatever the scenario says
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    until: Option<Duration>,
    /// Refuse a scenario that is expected to take more memory [default: nine tenths of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Say on stderr how far it is, a line a second, also where nobody watches
    #[arg(long)]
    progress: bool,
    /// Write report.html and tables as CSV into a directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print everything that nodes are told
    #[arg(long)]
    trace: bool,
    /// With --trace: print nothing before this event
    #[arg(long, value_name = "EVENT", default_value_t = 0, requires = "trace")]
    from: u64,
}

impl Run {
    /// Runs all seeds.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let mut scenario = self.scenario(None)?;
        let first = self.seed.unwrap_or(scenario.seed);
        let mut report = Report::new(&scenario.name);
        let mut violations = 0;
        let begun = Instant::now();
        for number in 0..self.seeds {
            let seed = first.wrapping_add(number);
            if scenario.every_seed && seed != scenario.seed {
                scenario = self.scenario(Some(seed))?;
            }
            let started = Instant::now();
            let outcome = self.run_seed(&scenario, seed)?;
            let wall = started.elapsed();
            violations += outcome.findings.len();
            match common.form() {
                Form::Json => output::json(&self.json(&outcome, wall))?,
                Form::Text => output::line(&text(&outcome, wall))?,
            }
            findings::tell(&outcome, &self.command());
            report.add(outcome);
            if interrupt::is_requested() {
                break;
            }
        }
        if let Some(directory) = &self.out {
            report.write(directory)?;
        }
        if self.seeds > 1 {
            output::talk(&format!(
                "{} runs in {}, {violations} violations",
                report.runs(),
                quantity::elapsed(begun.elapsed())
            ));
        }
        Ok(if interrupt::is_requested() {
            Ending::Interrupted
        } else if violations > 0 {
            Ending::Incomplete
        } else {
            Ending::Done
        })
    }

    /// The scenario, with what was set; with a seed of its own where one is given.
    fn scenario(&self, seed: Option<u64>) -> Result<Scenario, Failure> {
        let mut settings = self.settings.clone();
        settings.extend(seed.map(|seed| format!("seed={seed}")));
        let mut scenario = Scenario::open_with(&self.scenario, &settings).map_err(|error| {
            let failure = Failure::usage(format!("cannot read the scenario: {error}"));
            match error.hint {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            }
        })?;
        if let Some(until) = self.until {
            scenario.stop.expects_all &= until >= scenario.stop.at;
            scenario.stop.at = until;
        }
        self.check_memory(&scenario)?;
        Ok(scenario)
    }

    /// Refuses what is expected not to fit into memory.
    fn check_memory(&self, scenario: &Scenario) -> Result<(), Failure> {
        let estimate = Estimate::of(scenario);
        let limit = self.memory.unwrap_or(memory_octets() / 10 * 9);
        if estimate.octets() <= limit {
            return Ok(());
        }
        let what = format!(
            "cannot run the scenario: it would take about {} ({} nodes and {} links: {}; {} bundles: {}), and {} may be taken",
            quantity::size(estimate.octets()),
            quantity::thousands(count(scenario.nodes.len())),
            quantity::thousands(count(scenario.links.len())),
            quantity::size(estimate.network_octets),
            quantity::thousands(estimate.bundles),
            quantity::size(estimate.bundle_octets),
            quantity::size(limit),
        );
        let hint = "fewer nodes, less traffic or shorter lifetimes take less; --memory allows more";
        Err(Failure::usage(what).with_hint(hint))
    }

    /// The command, as far as it says what is run.
    fn command(&self) -> String {
        let mut command = format!("dhow sim run {}", self.scenario.display());
        for setting in &self.settings {
            let _ = write!(command, " --set '{setting}'");
        }
        if let Some(until) = self.until {
            let _ = write!(command, " --until {}ms", until.as_millis());
        }
        command
    }

    fn run_seed(&self, scenario: &Scenario, seed: u64) -> Result<Outcome, Failure> {
        let mut run = Simulation::new(scenario, seed)
            .map_err(|error| Failure::usage(format!("cannot run the scenario: {error}")))?;
        let total = u64::try_from(scenario.stop.at.as_millis()).unwrap_or(u64::MAX);
        let progress = Progress::stretch(total, format!("seed {seed}"));
        let tell_every = if self.progress {
            LINE_EVERY
        } else {
            TELL_EVERY
        };
        let started = Instant::now();
        let mut told = started;
        interrupt::allow_longer();
        if self.trace {
            self.trace(&mut run)?;
        }
        while !interrupt::is_requested() && run.advance(EVENTS_PER_LOOK) {
            if told.elapsed() >= tell_every {
                told = Instant::now();
                let at = run.progress();
                let done = u64::try_from(at.time.as_millis()).unwrap_or(u64::MAX);
                let message = format!(
                    "{}, {}, {} events/s, {} created, {} delivered, {} expired, {} in stores",
                    quantity::span(done),
                    times(at.time, started.elapsed()),
                    quantity::per_second(at.events, started.elapsed()),
                    at.sent,
                    at.delivered,
                    at.expired,
                    at.stored
                );
                if self.progress {
                    output::talk(&format!("seed {seed}: {message}"));
                    continue;
                }
                progress.say(done, message);
            }
        }
        progress.finish();
        Ok(run.finish())
    }

    /// Prints what nodes are told, event by event, until the run is over.
    fn trace(&self, run: &mut Simulation) -> Result<(), Failure> {
        let mut before = 0;
        while run.progress().events < self.from {
            let left = self.from - run.progress().events;
            if interrupt::is_requested() || !run.advance(left.min(EVENTS_PER_LOOK)) {
                return Ok(());
            }
        }
        while !interrupt::is_requested() && run.advance(1) {
            let Some((count, name, step)) = run.last_step() else {
                continue;
            };
            if count > before {
                let event = run.progress().events;
                output::line(&format!("{event} {name} {step}"))?;
                before = count;
            }
        }
        Ok(())
    }

    fn json(&self, outcome: &Outcome, wall: Duration) -> Value {
        let violations: Vec<Value> = outcome
            .findings
            .iter()
            .map(|it| {
                json!({
                    "oracle": it.oracle,
                    "at_s": it.at.as_secs_f64(),
                    "sentence": it.sentence,
                    "replay": findings::replay(outcome, it, &self.command()),
                })
            })
            .collect();
        json!({
            "seed": outcome.seed,
            "trace_hash": format!("{:016x}", outcome.trace_hash),
            "violations": violations,
            "events": outcome.progress.events,
            "virtual_s": outcome.progress.time.as_secs_f64(),
            "wall_s": wall.as_secs_f64(),
            "peak_octets": peak_octets(),
            "sent": outcome.progress.sent,
            "accepted": outcome.accepted,
            "refused": outcome.refused,
            "delivered": outcome.progress.delivered,
            "expired": outcome.expired,
            "crashes": outcome.counts.crashes,
            "stalls": outcome.counts.stalls,
            "contacts": outcome.counts.contacts,
            "connections": outcome.counts.connections,
            "forwarded": outcome.counts.forwarded,
            "duplicates": outcome.counts.duplicates,
        })
    }
}

fn text(outcome: &Outcome, wall: Duration) -> String {
    let at = outcome.progress;
    format!(
        "seed {}  hash {:016x}  {} in {} ({}, {} events/s, {})  {} of {} delivered, {} expired  {} crashes  {} violations",
        outcome.seed,
        outcome.trace_hash,
        quantity::span(u64::try_from(at.time.as_millis()).unwrap_or(u64::MAX)),
        quantity::elapsed(wall),
        times(at.time, wall),
        quantity::per_second(at.events, wall),
        quantity::size(peak_octets().unwrap_or(0)),
        at.delivered,
        at.sent,
        outcome.expired,
        outcome.counts.crashes,
        outcome.findings.len()
    )
}

fn count(things: usize) -> u64 {
    u64::try_from(things).unwrap_or(u64::MAX)
}

/// How many times faster than real: `×1,200`.
fn times(virtual_time: Duration, wall: Duration) -> String {
    let times = virtual_time.as_nanos() / wall.as_nanos().max(1);
    format!(
        "×{}",
        quantity::thousands(u64::try_from(times).unwrap_or(u64::MAX))
    )
}
