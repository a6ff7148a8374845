//! `dhow sim run`: a scenario, with one seed or many.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use dhow_scenario::{Scenario, plan};
use dhow_sim::{Outcome, Run as Simulation, Stride};

use super::capture::CaptureFile;
use super::report::Report;
use super::seeds::{Post, Runner, Seeds};
use super::study::Study;
use super::watch::Watch;
use super::{findings, lines, memory, trace};
use crate::arguments::{Common, parse_duration, parse_number, parse_size};
use crate::command::lab::study::{check_question, impossible, wrong};
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::quantity;

/// Events between two looks at the person, at most: as a rule some milliseconds.
const EVENTS_PER_LOOK: u64 = 10_000;

/// The same where packets are captured, which wait in memory until then: each event may bring 256 KiB.
const CAPTURED_EVENTS_PER_LOOK: u64 = 256;

/// The interval between lines of progress.
const TELL_EVERY: Duration = Duration::from_millis(100);

const AFTER_HELP: &str = "\
The same scenario and seed do the same, on every machine: trace_hash says whether two runs did.

Examples:
  dhow sim run labs/village-bus.toml --seeds 200
  dhow sim run labs/village-bus.toml --seed 7 --out village
  dhow sim run labs/encounters/town.toml --study --repeats 5
  dhow sim run labs/village-bus.toml --set traffic.size=2kB --set link.bus-town.rate=1Mbit";

/// Run a scenario's network in virtual time, and watch that nothing is lost, altered or delivered twice
///
/// The nodes are those of `dhow node run`; disks, links, clocks and what fails are simulated from the seed. The run stops at the first violation, prints what led to it and exits with 1. Several seeds run at once; their results are printed in order.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Run {
    /// The scenario
    #[arg(value_name = "SCENARIO")]
    pub(super) scenario: PathBuf,
    /// The seed [default: the scenario's, or 1]
    #[arg(long, value_name = "NUMBER", value_parser = parse_number)]
    seed: Option<u64>,
    /// Number of seeds, from that of --seed on
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Run the whole study: each combination of the scenario's variants and of what its [sweep] has, as often as its [runs] says, and print a table of means over seeds
    #[arg(long, conflicts_with_all = ["seeds", "pcap", "trace"])]
    study: bool,
    /// The study with so many runs of each combination, each with the next seed
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["seeds", "pcap", "trace"])]
    repeats: Option<u32>,
    /// The study with what the scenario's [full] says
    #[arg(long, conflicts_with_all = ["seeds", "pcap", "trace"])]
    pub(super) full: bool,
    /// Number of runs at once [default: as many as there are cores, or as memory is expected to hold]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) jobs: Option<u64>,
    /// Go on with the other runs after a violation
    #[arg(long)]
    pub(super) keep_going: bool,
    /// Set a value of the scenario: in every section of that kind (traffic.size=2kB), or in one, by its name or its position from 0 (link.NAME.rate=1Mbit, traffic.0.count=5); may be given several times
    #[arg(long = "set", value_name = "PATH=VALUE")]
    settings: Vec<String>,
    /// Stop at this virtual time, whatever the scenario says; if that is before the scenario's end, expects_all is not checked
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    until: Option<Duration>,
    /// Refuse a scenario that is expected to take more memory [default: nine tenths of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Report progress on stderr, a line a second, also where that is not a terminal
    #[arg(long)]
    pub(super) progress: bool,
    /// Write report.html and tables as CSV into a directory; of a study those of `dhow lab run`
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Write what passes over the links into a file that Wireshark opens (pcapng); with one seed
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// With --pcap: octets of packets after which the file ends
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1GiB", requires = "pcap")]
    pcap_octets: u64,
    /// Print everything that nodes are told
    #[arg(long, conflicts_with = "jobs")]
    trace: bool,
    /// With --trace: print nothing before this event
    #[arg(long, value_name = "EVENT", default_value_t = 0, requires = "trace")]
    from: u64,
}

impl Run {
    /// Runs all seeds.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        if self.study || self.full || self.repeats.is_some() {
            return Study::run(self, common);
        }
        if self.pcap.is_some() && self.seeds > 1 {
            let what = format!("cannot capture {} seeds in one file", self.seeds);
            return Err(Failure::usage(what).with_hint("--pcap goes with one seed: --seed NUMBER"));
        }
        let scenario = self.scenario(None)?;
        self.check_study(&scenario)?;
        let all = Seeds {
            count: self.seeds,
            jobs: self.jobs(&scenario)?,
            look_every: TELL_EVERY,
        };
        let runner = Runs {
            command: self,
            first: self.seed.unwrap_or(scenario.seed),
            scenario: &scenario,
        };
        let mut report = (self.out.as_deref())
            .map(|directory| Report::begin(&scenario.name, directory))
            .transpose()?;
        let (mut runs, mut partial, mut violations) = (0_u64, 0_u64, 0_u64);
        let begun = Instant::now();
        interrupt::allow_longer();
        let watch = Watch::new(self.seeds, runner.first, scenario.stop.at, self.progress);
        let ran = all.run(
            &runner,
            |standing| watch.look(standing),
            |Ran { outcome, wall }| {
                // It was begun as the command was interrupted: nothing has happened in it.
                if outcome.interrupted && outcome.progress.events == 0 {
                    return Ok(());
                }
                violations = violations.saturating_add(outcome.violations);
                watch.hide(|| -> Result<(), Failure> {
                    match common.form() {
                        Form::Json => output::json(&lines::json(&outcome, wall, &self.command()))?,
                        Form::Text => output::line(&lines::text(&outcome, wall))?,
                    }
                    findings::tell(&outcome, &self.command());
                    Ok(())
                })?;
                match outcome.interrupted {
                    true => partial += 1,
                    false => runs += 1,
                }
                report.as_mut().map_or(Ok(()), |report| report.add(outcome))
            },
        );
        watch.finish();
        if let Some(report) = report {
            report.finish()?;
        }
        ran?;
        if interrupt::is_requested() {
            output::note(&format!(
                "interrupted: {runs} of {} ran to the end, {partial} in part",
                seeds(self.seeds)
            ));
        }
        if self.seeds > 1 {
            output::talk(&format!(
                "{runs} runs in {}, {violations} violations",
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

    /// The number of seeds that run at once: where nobody says it, as many as there are cores and as memory is expected to hold.
    fn jobs(&self, scenario: &Scenario) -> Result<u64, Failure> {
        if self.trace {
            return Ok(1);
        }
        let asked = self.jobs.map(|jobs| jobs.min(self.seeds));
        memory::jobs(asked, scenario, self.memory_limit())
    }

    pub(super) fn memory_limit(&self) -> u64 {
        self.memory.unwrap_or_else(memory::limit)
    }

    /// The scenario, with what was set; with a seed of its own where one is given.
    fn scenario(&self, seed: Option<u64>) -> Result<Scenario, Failure> {
        let mut settings = self.settings.clone();
        settings.extend(seed.map(|seed| format!("seed={seed}")));
        let opened = Scenario::open_with(&self.scenario, &settings);
        let mut scenario = opened.map_err(|error| wrong(&error))?;
        if seed.is_none() {
            scenario.notes.iter().for_each(|text| output::note(text));
        }
        let expects_all = scenario.stop.expects_all;
        self.shorten(&mut scenario);
        if expects_all && !scenario.stop.expects_all && seed.is_none() {
            output::note("--until ends the run early, so expects_all is not checked");
        }
        memory::check(&scenario, self.memory_limit()).map_err(|failure| {
            let hint =
                "fewer nodes, less traffic or shorter lifetimes take less; --memory allows more";
            failure.with_hint(hint)
        })?;
        Ok(scenario)
    }

    /// Ends a scenario where --until says.
    pub(super) fn shorten(&self, scenario: &mut Scenario) {
        if let Some(until) = self.until {
            scenario.stop.expects_all &= until >= scenario.stop.at;
            scenario.stop.at = until;
        }
    }

    /// All that is set over the scenario of a study.
    pub(super) fn study_settings(&self) -> Vec<String> {
        let mut settings = self.settings.clone();
        settings.extend(self.seed.map(|seed| format!("seed={seed}")));
        let repeats = self.repeats;
        settings.extend(repeats.map(|repeats| format!("runs.repeats={repeats}")));
        settings
    }

    /// Says what is wrong with what is swept or shown of many runs, though one is run here.
    fn check_study(&self, scenario: &Scenario) -> Result<(), Failure> {
        let text = fs::read_to_string(&self.scenario);
        let text = text.map_err(|error| {
            let path = self.scenario.display();
            Failure::usage(format!("cannot read the scenario: {path}: {error}"))
        })?;
        let swept = plan::swept(&self.scenario, &text, &self.settings);
        let swept = swept.map_err(|error| wrong(&error))?;
        let swept: Vec<&str> = swept.iter().map(String::as_str).collect();
        let set: Vec<&str> = (self.settings.iter())
            .filter_map(|setting| Some(setting.split_once('=')?.0))
            .collect();
        let left: Vec<&str> = swept
            .iter()
            .filter(|key| !set.contains(key))
            .copied()
            .collect();
        if !left.is_empty() {
            output::note(&format!(
                "this is one run, without the file's {}; --study runs all of it",
                left.join(" and "),
            ));
        }
        check_question(&self.scenario, scenario, &swept).map(|_| ())
    }

    /// The command, as far as it says what is run.
    fn command(&self) -> String {
        self.command_of(&self.settings)
    }

    /// The command that runs the scenario with these settings.
    pub(super) fn command_of(&self, settings: &[String]) -> String {
        let mut command = format!("dhow sim run {}", self.scenario.display());
        for setting in settings {
            let _ = write!(command, " --set '{setting}'");
        }
        if let Some(until) = self.until {
            let _ = write!(command, " --until {}ms", until.as_millis());
        }
        command
    }
}

fn seeds(count: u64) -> String {
    match count {
        1 => "1 seed".to_owned(),
        _ => format!("{} seeds", quantity::thousands(count)),
    }
}

/// The results of a seed, and the time that it took.
struct Ran {
    outcome: Outcome,
    wall: Duration,
}

/// Runs the seeds of a command.
struct Runs<'a> {
    command: &'a Run,
    /// The first seed.
    first: u64,
    scenario: &'a Scenario,
}

impl Runner for Runs<'_> {
    type Ran = Ran;

    fn run(&self, number: u64, post: &Post<'_, Ran>) -> Result<Ran, Failure> {
        let seed = self.first.wrapping_add(number);
        let own;
        let mut scenario = self.scenario;
        if scenario.every_seed && seed != scenario.seed {
            own = self.command.scenario(Some(seed))?;
            scenario = &own;
        }
        let started = Instant::now();
        let mut run = Simulation::new(scenario, seed).map_err(|error| impossible(&error))?;
        let mut file = None;
        if let Some(path) = &self.command.pcap {
            run.capture(scenario, self.command.pcap_octets);
            file = Some(CaptureFile::create(path)?);
        }
        if self.command.trace {
            trace::print(&mut run, self.command.from)?;
        }
        let mut stride = Stride::new(match file {
            Some(_) => CAPTURED_EVENTS_PER_LOOK,
            None => EVENTS_PER_LOOK,
        });
        let mut advance = |run: &mut Simulation| {
            let begun = Instant::now();
            let goes_on = run.advance(stride.events());
            stride.adapt(begun.elapsed());
            goes_on
        };
        while !interrupt::is_requested() && post.tell(run.progress()) && advance(&mut run) {
            if let Some(file) = &mut file {
                file.add(&mut run)?;
            }
        }
        if let Some(file) = file {
            file.finish(&mut run)?;
        }
        Ok(Ran {
            outcome: run.finish(),
            wall: started.elapsed(),
        })
    }

    fn is_last(&self, ran: &Ran) -> bool {
        !self.command.keep_going && !ran.outcome.findings.is_empty()
    }

    fn is_stopped(&self) -> bool {
        interrupt::is_requested()
    }
}
