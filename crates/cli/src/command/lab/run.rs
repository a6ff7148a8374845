//! `dhow lab run`: all runs of a scenario, or of all scenarios of a directory.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use dhow_scenario::Scenario;
use dhow_scenario::plan::{Backends, Plan, PlannedRun};
use dhow_testbed::results::{Backend, Point, Results, Run as Ran, Status};
use dhow_testbed::run::{self, Measured, Order, Packets, Processors, Profiling, timestamp};
use rustix::process::geteuid;
use serde_json::json;

use super::at_once::AtOnce;
use super::page::Page;
use super::report::{of_all, of_one};
use super::rootless;
use super::simulations::Simulations;
use super::study::{Commands, Settings, Study, name_of, unkept};
use super::view::{Series, View};
use super::watch::{How, Watch};
use super::{check, failure};
use crate::arguments::Common;
use crate::build::BUILD;
use crate::command::sim::memory;
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::quantity;

const AFTER_HELP: &str = "\
Examples:
  dhow lab run labs/line.toml --set runs.repeats=5
  dhow lab run study.toml --full --out results
  dhow lab run study.toml --full --out results --resume
  dhow lab run study.toml --page";

/// The address of a page if nobody says another: only this machine reaches it, and the port is free.
const LOOPBACK: &str = "127.0.0.1:0";

/// Run a scenario with real nodes in network namespaces, as often as it says
///
/// Each run has a network of its own, and nothing of it is left. The results of all runs are in a directory of tables, with a report. Ctrl-C ends the run under way and keeps what there is. A user other than root needs a machine that lets users make namespaces; limits are then refused. Exit code 1 where a run failed.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Run {
    /// The scenario, or a directory of which every *.toml is one
    #[arg(value_name = "FILE|DIR")]
    scenario: PathBuf,
    /// Backend that it runs on; twice for both, side by side in the report [default: what the scenario says, else netns]
    #[arg(long = "backend", value_enum)]
    backends: Vec<Place>,
    #[command(flatten)]
    settings: Settings,
    /// Go on with the results in --out: run what is planned and not done
    #[arg(long, requires = "out")]
    resume: bool,
    /// The directory for results; with --resume it has some [default: NAME-YYYYMMDD-HHMMSS here]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Number of runs of each combination of values [default: what the scenario says]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// Run so many at once [default: in virtual time as many as there are cores, or as memory is expected to hold; in namespaces what the scenario says, else 1, since they share the processors]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    jobs: Option<u64>,
    /// Keep nodes' stores in the results
    #[arg(long)]
    keep: bool,
    /// Capture what passes over links, a file for each end of a link (needs dumpcap)
    #[arg(long)]
    pcap: bool,
    /// Profile nodes: the functions that took most of the processor, a text for each node (needs perf)
    #[arg(long)]
    profile: bool,
    /// Report progress on stderr, a line a second, also where that is not a terminal
    #[arg(long)]
    progress: bool,
    /// Serve a page that shows the lab while it runs, at an address of this machine, which is said on stderr [without ADDR: 127.0.0.1:0, a port that is free]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = LOOPBACK, value_parser = parse_address)]
    page: Option<SocketAddr>,
}

/// A backend for the runs of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    /// Network namespaces of this machine, in real time
    Netns,
    /// One process, in virtual time
    Sim,
}

impl Place {
    const fn backend(self) -> Backend {
        match self {
            Self::Netns => Backend::Netns,
            Self::Sim => Backend::Sim,
        }
    }
}

/// A scenario that is to run.
struct Planned {
    path: PathBuf,
    /// The directory of its results.
    place: PathBuf,
    plan: Plan,
    places: Vec<Place>,
    commands: Option<Commands>,
}

impl Run {
    /// The runs of a scenario in network namespaces.
    pub fn of(
        scenario: PathBuf,
        settings: Settings,
        repeats: Option<u32>,
        out: Option<PathBuf>,
    ) -> Self {
        Self {
            scenario,
            backends: vec![Place::Netns],
            settings,
            resume: false,
            out,
            repeats,
            jobs: None,
            keep: false,
            pcap: false,
            profile: false,
            progress: false,
            page: None,
        }
    }

    /// Runs all runs of the study.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let mut settings = self.settings.clone();
        settings.settings.extend(
            self.repeats
                .map(|repeats| format!("runs.repeats={repeats}")),
        );
        let out = self.out.clone().unwrap_or_else(|| self.default_out());
        // All files are read before anything runs.
        let mut plans = Vec::new();
        for path in self.files()? {
            let plan = match Study::plan(&path, &settings) {
                Err(_) if interrupt::is_requested() => return Ok(Ending::Interrupted),
                planned => planned?,
            };
            plans.push((path, self.places(&plan), plan));
        }
        let has = |place: Place| plans.iter().any(|(_, places, _)| places.contains(&place));
        self.refuse_what_no_backend_has(&has)?;
        if has(Place::Netns)
            && let Some(ending) = rootless::move_inside(&[&self.scenario, &out])?
        {
            return Ok(ending);
        }
        let several = self.scenario.is_dir();
        let mut planned: Vec<Planned> = Vec::new();
        for (path, places, mut plan) in plans {
            if several && !places.contains(&Place::Netns) && Study::has_programs(&plan)? {
                let path = path.display();
                output::note(&format!("{path} is left out: virtual time has no programs"));
                continue;
            }
            Study::check_report(&path, &plan)?;
            Study::tell_notes(&plan)?;
            if places.contains(&Place::Netns) {
                Study::leave_out(&path, &mut plan)?;
                Study::tell_time(&path, &plan)?;
            }
            if places.contains(&Place::Sim) {
                Study::check_simulated(&plan, memory::limit())?;
            }
            let commands = match places.contains(&Place::Netns) {
                true => Some(Study::check(&plan, self.packets(), self.profiling())?),
                false => None,
            };
            let place = if several {
                out.join(name_of(&path))
            } else {
                out.clone()
            };
            if self.resume && place.is_dir() {
                Study::check_same(&self.results(&place)?, &plan, &settings)?;
            }
            if interrupt::is_requested() {
                return Ok(Ending::Interrupted);
            }
            planned.push(Planned {
                path,
                place,
                plan,
                places,
                commands,
            });
        }
        if planned.is_empty() {
            let place = self.scenario.display();
            let what = format!("no scenario of {place} runs in virtual time: all have programs");
            return Err(Failure::usage(what).with_hint("--backend netns has them"));
        }
        let page = self.page.map(Page::start).transpose()?;
        if let Some(page) = &page {
            output::talk(&format!("the page is {}", page.places()));
        }
        interrupt::allow_longer();
        interrupt::say_at_end(|| {
            "`dhow lab inspect` lists what is left, and `dhow lab down ID` removes it".to_owned()
        });
        let (mut failed, mut shown, mut report) = (0_u64, Vec::new(), None);
        let places = planned.iter().map(|it| it.place.as_path());
        let place = processors_place(&out, places);
        let mut processors = Processors::new(&place, this_program()?, check, BUILD);
        for it in planned {
            let results = self.results(&it.place)?;
            let study = Study::new(&it.path, it.plan, &settings, it.commands, results);
            let page = page.as_ref();
            failed += self.run_study(&study, &it.places, &mut processors, page, common)?;
            // Of nothing there is no report.
            if interrupt::is_requested() && !study.has_run()? {
                break;
            }
            let (path, of_it) = of_one(&it.place)?;
            output::talk(&format!("the report is {}", path.display()));
            report = Some(path);
            if several {
                shown.push(of_it);
            }
            if interrupt::is_requested() {
                break;
            }
        }
        if several {
            report = Some(of_all(&out, &shown)?);
        }
        output::talk(&format!("results are in {}", out.display()));
        let ending = if interrupt::is_requested() {
            Ending::Interrupted
        } else if failed > 0 {
            Ending::Incomplete
        } else {
            Ending::Done
        };
        if let Some(page) = page {
            page.end(ending, &out, report.as_deref());
        }
        Ok(ending)
    }

    /// The backends of a plan: those asked for, else those that the scenario is for.
    fn places(&self, plan: &Plan) -> Vec<Place> {
        match (self.backends.is_empty(), plan.backends) {
            (false, _) => self.backends.clone(),
            (true, Backends::Netns) => vec![Place::Netns],
            (true, Backends::Sim) => vec![Place::Sim],
            (true, Backends::Both) => vec![Place::Netns, Place::Sim],
        }
    }

    /// Runs one study; the number of its runs that failed comes back.
    fn run_study(
        &self,
        study: &Study,
        places: &[Place],
        processors: &mut Processors,
        page: Option<&Page>,
        common: &Common,
    ) -> Result<u64, Failure> {
        let backends: Vec<Backend> = places.iter().map(|it| it.backend()).collect();
        study.write_manifest(&backends, &self.own_programs())?;
        study.copy_paper()?;
        let mut failed = 0;
        for place in places {
            failed += self.run_in(*place, study, processors, page, common)?;
        }
        Ok(failed)
    }

    /// Runs one study in one place; how many of its runs failed comes back.
    fn run_in(
        &self,
        place: Place,
        study: &Study,
        processors: &mut Processors,
        page: Option<&Page>,
        common: &Common,
    ) -> Result<u64, Failure> {
        let left = study.left(place.backend())?;
        let planned = study.planned();
        if left.len() < planned {
            let done = planned - left.len();
            output::talk(&format!(
                "{}: {done} of {planned} runs are done",
                study.name()
            ));
        }
        if let Some(page) = page {
            let name = format!("{} on {}", study.name(), place.backend());
            page.study(&name, planned, planned - left.len());
        }
        if place == Place::Sim {
            return self.in_virtual_time(study, &left, page, common);
        }
        // A page shows one run on sockets.
        let jobs = self.jobs.unwrap_or(study.jobs());
        if jobs > 1 && left.len() > 1 && page.is_none() {
            let at_once = AtOnce {
                how: self,
                study,
                left: &left,
                jobs,
                in_lines: self.progress,
            };
            return at_once.run(common);
        }
        let (mut failed, begun, first) = (0, Instant::now(), planned - left.len() + 1);
        for (number, run) in (planned - left.len() + 1..).zip(&left) {
            if interrupt::is_requested() {
                break;
            }
            let what = format!("{} run {number} of {planned}", study.name());
            let series = Series {
                over: (number - first, begun.elapsed()),
                left: planned - number,
                what,
            };
            let ran = self.on_sockets(study, run, processors, series, page, common.form())?;
            if let Some(page) = page {
                page.ran(&ran);
            }
            failed += u64::from(matches!(ran.status, Status::Failed(_)));
            tell(study, &ran, common)?;
        }
        Ok(failed)
    }

    fn on_sockets(
        &self,
        study: &Study,
        planned: &PlannedRun,
        processors: &mut Processors,
        series: Series,
        page: Option<&Page>,
        form: Form,
    ) -> Result<Ran, Failure> {
        let mut scenario = study.scenario(planned)?;
        let goes_on = || !interrupt::is_requested();
        let measured = processors
            .settle(&mut scenario, &goes_on, &mut |it| {
                output::talk(&processor(it));
            })
            .map_err(|error| failure("measure the processor", &error))?;
        let of = (scenario.nodes.len(), scenario.links.len());
        let (what, end) = (series.what.clone(), scenario.stop.at);
        let nodes = scenario.nodes.iter().map(|node| node.name.clone());
        let links = scenario.links.iter().map(|link| link.name.clone());
        let view = match form {
            Form::Json => None,
            Form::Text if self.progress => None,
            Form::Text => View::new(series, end, nodes.collect(), links.collect()),
        };
        let how = view.map_or_else(|| self.plainly(), |view| How::View(Box::new(view)));
        let watch = Watch::new(what, end, of, how);
        let order = self.order(study, &scenario, planned, &measured)?;
        if let Some(page) = page {
            let set = Point(planned.point.clone()).to_string();
            page.begin(&format!("{:04}", planned.number), &set, &scenario);
        }
        let ran = run::run(&order, &goes_on, &mut |standing| {
            watch.look(standing);
            if let Some(page) = page {
                page.look(standing);
            }
        });
        watch.finish();
        ran.map_err(|error| failure("run the scenario", &error))
    }

    /// The order for a run on sockets.
    pub(super) fn order<'a>(
        &self,
        study: &'a Study,
        scenario: &'a Scenario,
        planned: &'a PlannedRun,
        processors: &'a [Measured],
    ) -> Result<Order<'a>, Failure> {
        Ok(Order {
            scenario,
            planned,
            processors,
            results: &study.results,
            program: this_program()?,
            check,
            keep: self.keep,
            packets: self.packets(),
            profiling: self.profiling(),
            build: BUILD,
        })
    }

    fn in_virtual_time(
        &self,
        study: &Study,
        left: &[PlannedRun],
        page: Option<&Page>,
        common: &Common,
    ) -> Result<u64, Failure> {
        let simulations = Simulations {
            work: study,
            left,
            jobs: self.jobs,
            memory_limit: memory::limit(),
            in_lines: self.progress,
            page,
        };
        let mut failed = 0;
        simulations.run(|ran| {
            failed += u64::from(matches!(ran.status, Status::Failed(_)));
            if let Some(page) = page {
                page.ran(&ran);
            }
            tell(study, &ran, common)
        })?;
        Ok(failed)
    }

    /// Virtual time has no stores, packets and processors that could be looked at; runs in namespaces would take each other's processors.
    fn refuse_what_no_backend_has(&self, has: &dyn Fn(Place) -> bool) -> Result<(), Failure> {
        if self.page.is_some() && self.jobs.is_some_and(|jobs| jobs > 1) && has(Place::Netns) {
            let what = "--page shows one run in namespaces at a time, and --jobs wants several";
            return Err(Failure::usage(what).with_hint("leave one of them out"));
        }
        if self.page.is_some() && has(Place::Netns) && !geteuid().is_root() {
            let what = "--page needs root where runs are on sockets: the network of a user's lab is one of its own, which no browser reaches";
            return Err(Failure::usage(what).with_hint("sudo dhow lab …, or --backend sim"));
        }
        let asked = [
            ("--pcap", self.pcap),
            ("--keep", self.keep),
            ("--profile", self.profile),
        ];
        let asked = asked.iter().find(|(_, is_asked)| *is_asked);
        match asked {
            Some((option, _)) if !has(Place::Netns) => {
                let what = format!("{option} is of no use in virtual time");
                Err(Failure::usage(what).with_hint("--backend netns has it"))
            }
            _ => Ok(()),
        }
    }

    fn profiling(&self) -> Profiling {
        match self.profile {
            true => Profiling::Nodes,
            false => Profiling::Nothing,
        }
    }

    /// Programs that it uses beside those that make networks.
    fn own_programs(&self) -> Vec<&'static str> {
        let asked = [(self.pcap, "dumpcap"), (self.profile, "perf")];
        let asked = asked.into_iter().filter(|(is_asked, _)| *is_asked);
        asked.map(|(_, program)| program).collect()
    }

    const fn plainly(&self) -> How {
        match self.progress {
            true => How::Lines,
            false => How::Bar,
        }
    }

    fn packets(&self) -> Packets {
        match self.pcap {
            true => Packets::Captured,
            false => Packets::Passed,
        }
    }

    /// The scenario, or those of the directory in the order of their names.
    fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        if !self.scenario.is_dir() {
            return Ok(vec![self.scenario.clone()]);
        }
        let unreadable = |error: std::io::Error| {
            Failure::usage(format!("cannot read {}: {error}", self.scenario.display()))
        };
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.scenario).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                files.push(path);
            }
        }
        files.sort();
        match files.is_empty() {
            false => Ok(files),
            true => {
                let what = format!("there is no scenario in {}", self.scenario.display());
                Err(Failure::usage(what).with_hint("its files end in .toml"))
            }
        }
    }

    fn results(&self, place: &Path) -> Result<Results, Failure> {
        let opened = match self.resume && place.is_dir() {
            true => Results::open(place),
            false => Results::create(place),
        };
        opened.map_err(|error| {
            unkept(&error).with_hint("--resume goes on with results that are there")
        })
    }

    /// `NAME-YYYYMMDD-HHMMSS`.
    fn default_out(&self) -> PathBuf {
        let now: String = timestamp()
            .trim_end_matches('Z')
            .replace('T', "-")
            .split('-')
            .enumerate()
            .map(|(place, part)| match place {
                3 => format!("-{}", part.replace(':', "")),
                _ => part.to_owned(),
            })
            .collect();
        let whole = self.scenario.canonicalize();
        let whole = whole.as_deref().unwrap_or(&self.scenario);
        PathBuf::from(format!("{}-{now}", name_of(whole)))
    }
}

/// An address and a port of this machine.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "an address and a port are needed, such as 127.0.0.1:8080; without them --page stands behind the scenario".to_owned()
    })
}

/// Prints the result of a run.
pub(super) fn tell(study: &Study, ran: &Ran, common: &Common) -> Result<(), Failure> {
    match common.form() {
        Form::Json => output::json(&json!({"study": study.name(), "run": ran})),
        Form::Text => output::line(&line(ran)),
    }
}

/// The directory of what is measured of processors, which no scenario's results have.
fn processors_place<'a>(out: &Path, taken: impl Iterator<Item = &'a Path>) -> PathBuf {
    let taken: Vec<&Path> = taken.collect();
    let mut name = "processor".to_owned();
    while taken.contains(&out.join(&name).as_path()) {
        name.push('s');
    }
    out.join(name)
}

/// The program that this is, for nodes.
fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::refused(format!("cannot find this program: {error}")))
}

/// The rate of TCP with a part of a core, for people.
fn processor(measured: &Measured) -> String {
    format!(
        "TCP between disks moves {}/s with {:.3} % of a core ({}/s are wanted)",
        quantity::size(measured.octets_per_s),
        f64::from(measured.millionths) / 1e4,
        quantity::size(measured.wanted_octets_per_s),
    )
}

/// A run for people.
fn line(run: &Ran) -> String {
    let point = match run.point.0.is_empty() {
        true => String::new(),
        false => format!(" {}", run.point),
    };
    format!(
        "{}{point} repeat {} seed {}: {}; {} of {} payloads delivered ({}) in {}",
        run.run,
        run.repeat,
        run.seed,
        run.status,
        quantity::thousands(run.delivered),
        quantity::thousands(run.sent),
        quantity::size(run.delivered_octets),
        quantity::elapsed(Duration::try_from_secs_f64(run.duration_s).unwrap_or_default()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_named_processor_has_its_directory_to_itself() {
        let of = |names: &[&str]| {
            let taken: Vec<PathBuf> = names
                .iter()
                .map(|name| Path::new("out").join(name))
                .collect();
            processors_place(Path::new("out"), taken.iter().map(PathBuf::as_path))
        };
        assert_eq!(of(&["4-processor"]), Path::new("out/processor"));
        assert_eq!(of(&["processor"]), Path::new("out/processors"));
        assert_eq!(
            of(&["processor", "processors"]),
            Path::new("out/processorss")
        );
    }
}
