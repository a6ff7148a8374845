//! A scenario file as a study: its plan, the directory of its results, the runs that are left.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use dhow_daemon::config::FileError;
use dhow_scenario::Scenario;
use dhow_scenario::plan::{Extent, LeftOut, Plan, PlannedRun};
use dhow_sim::{NetworkError, Run as Simulation};
use dhow_testbed::place::needs::{absence, is_there};
use dhow_testbed::report::{Named, Question, ReportError, Study as Shown, page};
use dhow_testbed::results::{Backend, Point, Results, ResultsError, Run, Status};
use dhow_testbed::run::{Packets, Profiling, described, equipped, possible, programs, timestamp};
use dhow_testbed::simulated::{self, Ended};
use serde_json::{Map, Value, json};

use super::check;
use super::simulations::Work;
use crate::build::COMMIT;
use crate::command::sim::memory;
use crate::digest::Sha256;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::quantity;

/// The keys of a manifest that tell of its beginning: results that are gone on with keep them.
const BEGINNING: [&str; 5] = ["version", "commit", "command", "started", "machine"];

/// Runs on sockets that take this together, or longer, are worth a word before they begin.
const LONG: Duration = Duration::from_secs(3_600);

/// Octets that a scenario file may have.
const FILE_OCTETS_MAX: u64 = 64 << 20;

/// Options that set values over those of a scenario's file.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// Set a value of the scenario: in every section of that kind (traffic.size=2kB), or in one, by its name or its position from 0 (link.NAME.rate=1Mbit, traffic.0.count=5); may be given several times
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub settings: Vec<String>,
    /// Set what the scenario's [full] says
    #[arg(long)]
    pub full: bool,
}

/// The words of programs that a study runs.
pub type Commands = BTreeSet<Vec<String>>;

/// One scenario file and its runs.
pub struct Study {
    path: PathBuf,
    plan: Plan,
    settings: Settings,
    /// The commands of its programs; `None` where none are run.
    commands: Option<Commands>,
    pub results: Results,
}

impl Study {
    /// Reads a scenario's plan.
    pub fn plan(path: &Path, settings: &Settings) -> Result<Plan, Failure> {
        let unreadable = |what: String| {
            Failure::usage(format!(
                "cannot read the scenario: {}: {what}",
                path.display()
            ))
        };
        let octets = fs::metadata(path)
            .map_err(|error| unreadable(error.to_string()))?
            .len();
        if octets > FILE_OCTETS_MAX {
            return Err(unreadable(format!(
                "a scenario of {octets} octets is too large"
            )));
        }
        let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let extent = if settings.full {
            Extent::Full
        } else {
            Extent::Usual
        };
        let goes_on = || !interrupt::is_requested();
        Plan::parse_while(path, &text, &settings.settings, extent, goes_on)
            .map_err(|error| wrong(&error))
    }

    /// Leaves out variants whose programs are not installed, and says so.
    pub fn leave_out(path: &Path, plan: &mut Plan) -> Result<(), Failure> {
        plan.leave_out(is_there);
        for it in &plan.left_out {
            output::talk(&left_out(it));
        }
        match plan.runs.is_empty() {
            false => Ok(()),
            true => {
                let what = format!("no variant of {} can be run", path.display());
                Err(Failure::refused(what).with_hint("install what is missing"))
            }
        }
    }

    /// Says what of a plan cannot be done in network namespaces, before anything is; what its programs run comes back.
    pub fn check(plan: &Plan, packets: Packets, profiling: Profiling) -> Result<Commands, Failure> {
        let mut commands = Commands::new();
        for run in combinations(plan) {
            let scenario = plan.scenario(run).map_err(|error| wrong(&error))?;
            let hinted = |failure: Failure, hint: Option<&String>| match hint {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            };
            possible(&scenario, check).map_err(|error| {
                let what = format!("cannot run the scenario: {error}");
                hinted(Failure::usage(what), error.hint.as_ref())
            })?;
            equipped(&scenario, packets, profiling).map_err(|error| {
                let what = format!("cannot run the scenario: {error}");
                hinted(Failure::refused(what), error.hint.as_ref())
            })?;
            commands.extend(scenario.programs.into_iter().map(|program| program.words));
        }
        Ok(commands)
    }

    /// Says what of a plan cannot be done in virtual time, before anything is.
    pub fn check_simulated(plan: &Plan, memory_limit: u64) -> Result<(), Failure> {
        for run in combinations(plan) {
            let scenario = plan.scenario(run).map_err(|error| wrong(&error))?;
            simulated::possible(&scenario).map_err(|error| impossible(&error))?;
            memory::check(&scenario, memory_limit)?;
        }
        Ok(())
    }

    /// Whether any of its runs has programs.
    pub fn has_programs(plan: &Plan) -> Result<bool, Failure> {
        for run in combinations(plan) {
            let scenario = plan.scenario(run).map_err(|error| wrong(&error))?;
            if !scenario.programs.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Says what is not as the scenario's contact plans say it.
    pub fn tell_notes(plan: &Plan) -> Result<(), Failure> {
        if let Some(run) = plan.runs.first() {
            let scenario = plan.scenario(run).map_err(|error| wrong(&error))?;
            scenario.notes.iter().for_each(|text| output::note(text));
        }
        Ok(())
    }

    /// Tells how long the runs take in real time, where that is long.
    pub fn tell_time(path: &Path, plan: &Plan) -> Result<(), Failure> {
        let Some(run) = plan.runs.first() else {
            return Ok(());
        };
        let each = plan.scenario(run).map_err(|error| wrong(&error))?.stop.at;
        let runs = u32::try_from(plan.runs.len()).unwrap_or(u32::MAX);
        if each.saturating_mul(runs) >= LONG {
            let (path, each) = (path.display(), quantity::elapsed(each));
            let runs = match runs {
                1 => "1 run on sockets takes".to_owned(),
                _ => format!("{runs} runs on sockets take"),
            };
            output::note(&format!(
                "{path}: {runs} up to {each} each in real time; --backend sim has virtual time"
            ));
        }
        Ok(())
    }

    /// Says what of `[report]` there is not, before anything runs.
    pub fn check_report(path: &Path, plan: &Plan) -> Result<(), Failure> {
        let Some(run) = plan.runs.first() else {
            return Ok(());
        };
        let first = plan.scenario(run).map_err(|error| wrong(&error))?;
        let swept: Vec<&str> = run.point.iter().map(|(key, _)| key.as_str()).collect();
        let question = check_question(path, &first, &swept)?;
        let mut named = Named::default();
        for run in plan.runs.iter().filter(|run| run.repeat == 1) {
            named.add(&plan.scenario(run).map_err(|error| wrong(&error))?);
        }
        let checked = named.check(&question);
        checked.map_err(|error| unasked(path, &error))
    }

    /// Refuses to go on with results of another plan: a run's directory is named by its place in the plan, so they would be
    /// replaced.
    pub fn check_same(results: &Results, plan: &Plan, settings: &Settings) -> Result<(), Failure> {
        let kept = results.manifest().map_err(|error| unkept(&error))?;
        if kept.is_null() && results.runs().map_err(|error| unkept(&error))?.is_empty() {
            // It was ended before it could say what was planned.
            return Ok(());
        }
        let planned = manifest_of(plan, settings)?;
        let named = [
            ("scenario", "the scenario"),
            ("settings", "what is set (--set, --repeats)"),
            ("full", "--full"),
            ("files", "what the files have that the scenario names"),
            ("runs", "what is planned"),
        ];
        let changed = named
            .iter()
            .find(|(key, _)| kept.get(key) != planned.get(key));
        match changed {
            None => Ok(()),
            Some((_, what)) => {
                let place = results.directory().display();
                let what =
                    format!("cannot go on with {place}: {what} is not as in its manifest.json");
                Err(Failure::usage(what).with_hint(
                    "give --resume the scenario, --set, --repeats and --full of the first time, or another --out",
                ))
            }
        }
    }

    /// A plan whose results go to a directory.
    pub fn new(
        path: &Path,
        plan: Plan,
        settings: &Settings,
        commands: Option<Commands>,
        results: Results,
    ) -> Self {
        Self {
            path: path.to_path_buf(),
            plan,
            settings: settings.clone(),
            commands,
            results,
        }
    }

    /// The name of the file without its ending.
    pub fn name(&self) -> String {
        name_of(&self.path)
    }

    /// Runs that are planned and not done, in their order.
    pub fn left(&self, backend: Backend) -> Result<Vec<PlannedRun>, Failure> {
        let done = self.results.runs().map_err(|error| unkept(&error))?;
        let key = |backend, point: &Point, repeat, seed| (backend, point.to_string(), repeat, seed);
        let done: BTreeSet<_> = done
            .iter()
            .filter(|run| run.status == Status::Done)
            .map(|run| key(run.backend, &run.point, run.repeat, run.seed))
            .collect();
        let is_left = |run: &&PlannedRun| {
            !done.contains(&key(
                backend,
                &Point(run.point.clone()),
                run.repeat,
                run.seed,
            ))
        };
        Ok(self.plan.runs.iter().filter(is_left).cloned().collect())
    }

    /// True if a run of it has ended, now or before.
    pub fn has_run(&self) -> Result<bool, Failure> {
        let runs = self.results.runs().map_err(|error| unkept(&error))?;
        Ok(!runs.is_empty())
    }

    /// The number of runs that are planned.
    pub fn planned(&self) -> usize {
        self.plan.runs.len()
    }

    /// Runs in network namespaces at once, where nobody asks for another number.
    pub const fn jobs(&self) -> u64 {
        self.plan.jobs
    }

    /// Leaves the results of a run in virtual time in its directory.
    pub fn keep(
        &self,
        ended: &Ended,
        scenario: &Scenario,
        run: &PlannedRun,
    ) -> Result<Run, Failure> {
        let kept = simulated::keep(ended, scenario, run, &self.results);
        kept.map_err(|error| unkept(&error))
    }

    /// The scenario of a run.
    pub fn scenario(&self, run: &PlannedRun) -> Result<Scenario, Failure> {
        self.plan.scenario(run).map_err(|error| wrong(&error))
    }

    /// Writes what is to run, on what.
    pub fn write_manifest(
        &self,
        backends: &[Backend],
        own_programs: &[&str],
    ) -> Result<(), Failure> {
        // Virtual time has no programs.
        let commands = self.commands.as_ref();
        let command: Vec<String> = std::env::args().collect();
        let mut manifest = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "commit": COMMIT,
            "command": command,
            "started": timestamp(),
            "backends": backends.iter().map(Backend::to_string).collect::<Vec<_>>(),
            "machine": described(),
            "programs": commands.map(|words| programs(words.iter().map(Vec::as_slice), own_programs)),
            "lab": lab_of(&self.path),
            "file": self.path.display().to_string(),
        });
        if let (Value::Object(manifest), Value::Object(planned)) =
            (&mut manifest, manifest_of(&self.plan, &self.settings)?)
        {
            manifest.extend(planned);
            let before = self.results.manifest().map_err(|error| unkept(&error))?;
            keep_beginning(manifest, &before);
        }
        let written = self.results.write_manifest(&manifest);
        written.map_err(|error| unkept(&error))
    }

    /// Takes what others found to the results, where the report looks for it.
    pub fn copy_paper(&self) -> Result<(), Failure> {
        let Some(run) = self.plan.runs.first() else {
            return Ok(());
        };
        let scenario = self.scenario(run)?;
        let Some(paper) = scenario.report.get("paper").map(Path::new) else {
            return Ok(());
        };
        let from = self.path.parent().unwrap_or(Path::new("")).join(paper);
        let to = self
            .results
            .directory()
            .join(paper.file_name().unwrap_or_default());
        fs::copy(&from, &to).map(|_| ()).map_err(|error| {
            let what = format!("cannot read what others found: {}: {error}", from.display());
            Failure::usage(what).with_hint("'paper' of [report] names a file beside the scenario")
        })
    }
}

/// Takes over how results began that are gone on with, and appends to `resumed` how they go on.
fn keep_beginning(manifest: &mut Map<String, Value>, before: &Value) {
    let Some(before) = before.as_object() else {
        return;
    };
    let resumption = Map::from_iter(BEGINNING.iter().filter_map(|key| {
        let began = before.get(*key)?.clone();
        let now = manifest.insert((*key).to_owned(), began)?;
        Some(((*key).to_owned(), now))
    }));
    let mut resumed = before.get("resumed").and_then(Value::as_array).cloned();
    resumed.get_or_insert_default().push(resumption.into());
    manifest.insert("resumed".to_owned(), resumed.into());
}

impl Work for Study {
    type Ran = Run;

    fn name(&self) -> String {
        Self::name(self)
    }

    fn scenario(&self, run: &PlannedRun) -> Result<Scenario, Failure> {
        Self::scenario(self, run)
    }

    fn simulate(
        &self,
        scenario: &Scenario,
        run: &PlannedRun,
        goes_on: &mut dyn FnMut(&Simulation) -> bool,
    ) -> Result<Run, Failure> {
        let ended = simulated::run(scenario, run.seed, goes_on).map_err(|it| impossible(&it))?;
        self.keep(&ended, scenario, run)
    }
}

/// A scenario that virtual time cannot run.
pub fn impossible(error: &NetworkError) -> Failure {
    let failure = Failure::usage(format!("cannot run the scenario: {error}"));
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Says what of a scenario's `[report]` there is not, where these keys are swept.
pub fn check_question(
    path: &Path,
    scenario: &Scenario,
    swept: &[&str],
) -> Result<Question, Failure> {
    let near = path.parent().unwrap_or(Path::new(""));
    Question::read(&scenario.name, &scenario.report, near)
        .and_then(|question| question.check_swept(swept).map(|()| question))
        .map_err(|error| unasked(path, &error))
}

/// A `[report]` that asks for a node, program or key that is not there.
fn unasked(path: &Path, error: &ReportError) -> Failure {
    let what = format!("cannot read the scenario: {}: {error}", path.display());
    Failure::usage(what).with_hint("docs/lab.md says what [report] may ask")
}

/// A run of each combination, since repeats differ in their seeds alone; none any more once the command is to end.
fn combinations(plan: &Plan) -> impl Iterator<Item = &PlannedRun> {
    let runs = plan.runs.iter().filter(|run| run.repeat == 1);
    runs.take_while(|_| !interrupt::is_requested())
}

/// The manifest of a plan: the same for the same scenario and settings.
fn manifest_of(plan: &Plan, settings: &Settings) -> Result<Value, Failure> {
    let runs = plan.runs.iter().map(|run| {
        json!({
            "number": run.number,
            "point": Point(run.point.clone()).to_string(),
            "repeat": run.repeat,
            "seed": run.seed,
            "settings": run.settings,
        })
    });
    let files = plan.files().map_err(|error| wrong(&error))?;
    let files = files.into_iter();
    let files = files.map(|(name, path)| Ok((name, json!({"sha256": digest_of(&path)?}))));
    let files = files.collect::<Result<Map<_, _>, Failure>>()?;
    let mut manifest = json!({
        "scenario": plan.text(),
        "settings": settings.settings,
        "full": settings.full,
        "runs": runs.collect::<Vec<_>>(),
    });
    if let Some(manifest) = manifest.as_object_mut() {
        if !files.is_empty() {
            manifest.insert("files".to_owned(), files.into());
        }
        if !plan.left_out.is_empty() {
            let told = plan.left_out.iter().map(left_out);
            manifest.insert("left_out".to_owned(), told.collect());
        }
    }
    Ok(manifest)
}

/// Says of a variant that it is left out.
fn left_out(it: &LeftOut) -> String {
    let hint = match it.hint.as_str() {
        "" => String::new(),
        hint => format!(" (hint: {hint})"),
    };
    format!(
        "variant '{}' is left out: {}{hint}",
        it.variant,
        absence(&it.program)
    )
}

/// The SHA-256 of a file, in hexadecimal.
fn digest_of(path: &Path) -> Result<String, Failure> {
    let mut digest = Sha256::default();
    File::open(path)
        .and_then(|mut file| io::copy(&mut file, &mut digest))
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    Ok(digest.hexadecimal())
}

/// The part of results that the report shows, as the scenario that they are of asks.
pub fn shown(results: &Results) -> Result<Shown, Failure> {
    let directory = results.directory();
    let wrong = |what: String| {
        Failure::refused(format!("cannot report on {}: {what}", directory.display()))
    };
    let manifest = results.manifest().map_err(|error| unkept(&error))?;
    let text = |key: &str| manifest.get(key).and_then(Value::as_str);
    let scenario = text("scenario").ok_or_else(|| wrong("its manifest has no scenario".into()))?;
    let settings = manifest.get("settings").and_then(Value::as_array);
    let settings = settings.into_iter().flatten().filter_map(Value::as_str);
    let settings: Vec<String> = settings.map(str::to_owned).collect();
    let extent = match manifest.get("full").and_then(Value::as_bool) {
        Some(true) => Extent::Full,
        _ => Extent::Usual,
    };
    // Files that the scenario names are where it was.
    let path = PathBuf::from(text("file").unwrap_or_default());
    let plan = Plan::parse(&path, scenario, &settings, extent)
        .map_err(|error| wrong(error.to_string()))?;
    let first = plan.runs.first();
    let first = first.ok_or_else(|| wrong("nothing was planned".to_owned()))?;
    let scenario = plan
        .scenario(first)
        .map_err(|error| wrong(error.to_string()))?;
    let mut keys = scenario.report.clone();
    if let Some(paper) = keys.get_mut("paper") {
        let name = Path::new(paper.as_str()).file_name().map(OsStr::to_owned);
        *paper = name.unwrap_or_default().to_string_lossy().into_owned();
    }
    Question::read(&scenario.name, &keys, directory)
        .and_then(|question| Shown::read(question, results))
        .map_err(|error| wrong(error.to_string()))
}

/// Writes a page about studies into a directory; where it is comes back.
pub fn write_page(directory: &Path, title: &str, studies: &[Shown]) -> Result<PathBuf, Failure> {
    let path = directory.join("report.html");
    fs::write(&path, page(title, "", studies))
        .map_err(|error| Failure::refused(format!("cannot write {}: {error}", path.display())))?;
    Ok(path)
}

/// The title of a scenario's directory: the first heading of its README.md, or its name.
fn lab_of(path: &Path) -> Option<String> {
    let directory = path.canonicalize().ok()?.parent()?.to_path_buf();
    let readme = fs::read_to_string(directory.join("README.md")).unwrap_or_default();
    let heading = readme.lines().find_map(|line| line.strip_prefix("# "));
    let name = || Some(directory.file_name()?.to_string_lossy().into_owned());
    heading
        .map(|heading| heading.trim().to_owned())
        .or_else(name)
}

/// The name of a file without its ending.
pub fn name_of(path: &Path) -> String {
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    stem.unwrap_or_default()
}

/// Results that cannot be kept.
pub fn unkept(error: &ResultsError) -> Failure {
    Failure::refused(format!("cannot keep results: {error}"))
}

/// A scenario that is none.
pub fn wrong(error: &FileError) -> Failure {
    let failure = Failure::usage(format!("cannot read the scenario: {error}"));
    match &error.hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_not_gone_on_with_once_a_file_of_the_scenario_is_another() {
        let place = tempfile::tempdir().unwrap();
        let (path, trace) = (place.path().join("s.toml"), place.path().join("cell.trace"));
        fs::write(&trace, "1\n2\n").unwrap();
        let text =
            "[[line]]\nname = \"n\"\ncount = 2\nrate_trace = \"cell.trace\"\n[stop]\nat = \"1s\"\n";
        fs::write(&path, text).unwrap();
        let settings = Settings {
            settings: Vec::new(),
            full: false,
        };
        let plan = || Study::plan(&path, &settings).unwrap();
        let results = Results::create(&place.path().join("out")).unwrap();
        let study = Study::new(&path, plan(), &settings, None, results.clone());
        study.write_manifest(&[Backend::Sim], &[]).unwrap();
        let first = results.manifest().unwrap();
        assert_eq!(
            (&first["programs"], first.get("resumed")),
            (&Value::Null, None)
        );
        study.write_manifest(&[Backend::Sim], &[]).unwrap();
        let second = results.manifest().unwrap();
        assert_eq!(
            (&second["started"], &second["command"]),
            (&first["started"], &first["command"])
        );
        assert_eq!(second["resumed"].as_array().unwrap().len(), 1);
        Study::check_same(&results, &plan(), &settings).unwrap();
        fs::write(&trace, "1\n3\n").unwrap();
        let refused = Study::check_same(&results, &plan(), &settings).unwrap_err();
        assert!(refused.to_string().contains("files"), "{refused}");
    }
}
