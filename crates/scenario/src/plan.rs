//! The runs of a study of a scenario: every combination of the swept values, each several times, in an order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;

use dhow_document::quantity::{parse_duration, parse_rate, parse_size};
use dhow_document::{Document, FileError};

use crate::entropy::Entropy;
use crate::file;
use crate::scenario::Scenario;

/// The purpose of the random numbers for the order of runs.
const PURPOSE: u64 = Entropy::OURS + 100;

/// Runs of a study, at most: far above any that somebody waits for.
const RUNS_MAX: usize = 1_000_000;

/// The key of a variant among those of a point.
const VARIANT: &str = "variant";

/// Keys that name a file to read: rates of links, contact plans, lists of traffic.
const FILES: [&str; 3] = ["rate_trace", "file", "list"];

/// Whether what `[full]` says is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The file as it is.
    Usual,
    /// The study with the values of `[full]`.
    Full,
}

/// The backends of a lab that a scenario is for, where nobody asks for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backends {
    /// Network namespaces, in real time.
    Netns,
    /// Virtual time.
    Sim,
    /// Network namespaces first, then virtual time.
    Both,
}

/// All runs of a scenario.
#[derive(Clone, Debug)]
pub struct Plan {
    path: PathBuf,
    text: String,
    /// The backends of the runs, where nobody asks for another.
    pub backends: Backends,
    /// Runs in network namespaces at once, where nobody asks for another number.
    pub jobs: u64,
    /// The runs, in the order in which they are run.
    pub runs: Vec<PlannedRun>,
    /// Programs that variants need, by the variants' names.
    needs: BTreeMap<String, Vec<String>>,
    /// Variants whose runs are not among them.
    pub left_out: Vec<LeftOut>,
}

/// A variant that is not run, since its needs are not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub variant: String,
    /// The program that is not there.
    pub program: String,
    /// The command that installs it; empty where the scenario does not say.
    pub hint: String,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// Its number, from 1: by combination, then by repeat.
    pub number: u32,
    /// The values that the sweep sets, each with its path.
    pub point: Vec<(String, String)>,
    /// The number of the combination's repeat, from 1.
    pub repeat: u32,
    /// Its seed.
    pub seed: u64,
    /// All that is set over the file, as `--set` takes it.
    pub settings: Vec<String>,
}

/// The keys that a scenario's runs differ in, where what is swept and all variants can be: for a run of the file as it is.
///
/// # Errors
/// When a value of a sweep or a variant makes no scenario.
pub fn swept(path: &Path, text: &str, settings: &[String]) -> Result<Vec<String>, FileError> {
    let document = file::document(path, text, settings)?;
    let has_variants = document.all("variant").next().is_some();
    variants(&document, path, text, settings)?;
    let mut keys = Vec::from_iter(has_variants.then(|| VARIANT.to_owned()));
    for swept in document.loose("sweep") {
        check_values(
            &document,
            &swept.path,
            swept.line,
            &swept.values,
            |setting| try_settings(path, text, settings, slice::from_ref(setting)).map(|_| ()),
        )?;
        keys.push(swept.path.clone());
    }
    Ok(keys)
}

/// The settings of `[full]`, as `--set` takes them.
fn of_full(document: &Document<'_>) -> Vec<String> {
    let full = document.loose("full");
    full.map(|entry| format!("{}={}", entry.path, entry.text()))
        .collect()
}

/// Refuses what `[full]` cannot set, also where it is not asked for.
fn check_full(path: &Path, text: &str, settings: &[String]) -> Result<(), FileError> {
    let document = file::document(path, text, &[])?;
    for (entry, setting) in document.loose("full").zip(of_full(&document)) {
        let place = || document.fault(entry.line, format!("[full] {}", entry.path));
        let all = [std::slice::from_ref(&setting), settings].concat();
        let full = file::document(path, text, &all).map_err(|error| of_setting(place(), error))?;
        let Some(swept) = entry.path.strip_prefix("sweep.") else {
            continue;
        };
        let swept = full.loose("sweep").find(|it| it.path == swept);
        for value in swept.into_iter().flat_map(|it| &it.values) {
            let setting = format!("{}={value}", swept.map_or("", |it| it.path.as_str()));
            let all = [settings, &[setting]].concat();
            file::document(path, text, &all).map_err(|error| of_setting(place(), error))?;
        }
    }
    Ok(())
}

/// Refuses more runs than a study has, before any is planned.
fn check_count(document: &Document<'_>, repeats: u32) -> Result<(), FileError> {
    let of_repeats = document.one("runs")?.line_of("repeats");
    let mut planned = document.all("variant").count().max(1);
    let repeats = usize::try_from(repeats).unwrap_or(usize::MAX);
    let sweeps = document.loose("sweep");
    let sweeps = sweeps.map(|swept| (swept.line, swept.values.len()));
    for (line, count) in sweeps.chain([(of_repeats, repeats)]) {
        planned = planned.saturating_mul(count);
        if planned > RUNS_MAX {
            let what = format!("a study has at most {RUNS_MAX} runs");
            let hint = "sweep fewer values, or have fewer 'repeats' of [runs] (--repeats)";
            return Err(document.fault(line, what).with_hint(hint));
        }
    }
    Ok(())
}

/// Refuses a sweep without values, or with one that makes no scenario.
fn check_values(
    document: &Document<'_>,
    key: &str,
    line: usize,
    values: &[String],
    read: impl Fn(&String) -> Result<(), FileError>,
) -> Result<(), FileError> {
    if values.is_empty() {
        return Err(document.fault(line, format!("'{key}' has no values")));
    }
    let mut before = BTreeMap::new();
    for value in values {
        if let Some(same) = before.insert(Meaning::of(value), value) {
            let what = format!("'{key}' has the value {same} twice, the second time as {value}");
            let hint = "'repeats' of [runs] has each value run again, with a seed of its own";
            return Err(document.fault(line, what).with_hint(hint));
        }
    }
    values.iter().try_for_each(|value| {
        let place = || document.fault(line, format!("{key} = {value}"));
        read(&format!("{key}={value}")).map_err(|error| of_setting(place(), error))
    })
}

/// A value as what it is: two of the same text, or of the same quantity, are one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Meaning<'a> {
    Quantity(Option<u64>, Option<u64>, Option<Duration>),
    Text(&'a str),
}

impl<'a> Meaning<'a> {
    fn of(value: &'a str) -> Self {
        let text = value.trim();
        let size = parse_size(text).ok();
        let rate = parse_rate(text).ok();
        match (size, rate, parse_duration(text).ok()) {
            (None, None, None) => Self::Text(text),
            (size, rate, duration) => Self::Quantity(size, rate, duration),
        }
    }
}

impl Plan {
    /// The runs of a scenario's text, with values set over it; `path` is for messages and for the files that it names.
    ///
    /// # Errors
    /// When it is no scenario, or one combination is none.
    pub fn parse(
        path: &Path,
        text: &str,
        settings: &[String],
        extent: Extent,
    ) -> Result<Self, FileError> {
        Self::parse_while(path, text, settings, extent, || true)
    }

    /// The same, for as long as this says so: many combinations take their time.
    ///
    /// # Errors
    /// When it is no scenario, one combination is none, or it did not go on.
    pub fn parse_while(
        path: &Path,
        text: &str,
        settings: &[String],
        extent: Extent,
        goes_on: impl Fn() -> bool,
    ) -> Result<Self, FileError> {
        let mut base = Vec::new();
        if extent == Extent::Full {
            base.extend(of_full(&file::document(path, text, &[])?));
        }
        base.extend_from_slice(settings);
        let scenario = file::read(path, text, &base)?;
        let document = file::document(path, text, &base)?;
        if extent == Extent::Usual {
            check_full(path, text, settings)?;
        }
        let entries = document.one("runs")?;
        let repeats = entries.count("repeats").unwrap_or(1);
        let repeats = u32::try_from(repeats).unwrap_or(u32::MAX);
        check_count(&document, repeats)?;
        let is_to_go_on = || match goes_on() {
            true => Ok(()),
            false => Err(document.fault(entries.line_of("repeats"), "it was not read to its end")),
        };
        let mut points = variants(&document, path, text, &base)?;
        let (of_full, of_command) = base.split_at(base.len() - settings.len());
        let of_full = of_full.iter().map(|it| (Given::Full, it));
        let of_command = of_command.iter().map(|it| (Given::Command, it));
        let given: Vec<_> = of_full.chain(of_command).collect();
        for swept in document.loose("sweep") {
            let wrong = |what: String| document.fault(swept.line, what);
            for (given, setting) in &given {
                let (path, value) = setting.split_once('=').unwrap_or((setting, ""));
                let (path, value) = (path.trim(), value.trim());
                if is_overridden(path, &swept.path) {
                    let error = wrong(given.is_idle(path, &swept.path));
                    return Err(error.with_hint(given.hint(value, &swept.path)));
                }
            }
            check_values(
                &document,
                &swept.path,
                swept.line,
                &swept.values,
                |setting| {
                    is_to_go_on()?;
                    try_settings(path, text, &base, slice::from_ref(setting)).map(|_| ())
                },
            )?;
            if let Some(what) = set_by_variant(&points, &swept.path) {
                let hint = "leave it out of [sweep], or out of 'set' of each variant";
                return Err(wrong(what).with_hint(hint));
            }
            let with = |point: &Point, value: &String| {
                let mut point = point.clone();
                point.told.push((swept.path.clone(), value.clone()));
                point.settings.push(format!("{}={value}", swept.path));
                point
            };
            points = points
                .iter()
                .flat_map(|point| swept.values.iter().map(move |value| with(point, value)))
                .collect();
        }
        let mut runs = Vec::new();
        let mut number = 0;
        for point in points {
            is_to_go_on()?;
            // Values that are right one by one may be wrong together.
            let all = try_settings(path, text, &base, &point.settings)?;
            for repeat in 1..=repeats {
                number += 1;
                runs.push(PlannedRun {
                    number,
                    point: point.told.clone(),
                    repeat,
                    seed: scenario.seed.wrapping_add(u64::from(repeat - 1)),
                    settings: all.clone(),
                });
            }
        }
        if entries.text("order") != Some("given") {
            shuffle(&mut runs, scenario.seed);
        }
        Ok(Self {
            path: path.to_path_buf(),
            text: text.to_owned(),
            backends: match entries.text("backend") {
                Some("sim") => Backends::Sim,
                Some("both") => Backends::Both,
                _ => Backends::Netns,
            },
            jobs: entries.count("jobs").unwrap_or(1),
            runs,
            needs: needs(&document),
            left_out: Vec::new(),
        })
    }

    /// Leaves out variants that need a program that is not there.
    pub fn leave_out(&mut self, is_there: impl Fn(&str) -> bool) {
        for (variant, needs) in &self.needs {
            let needs = needs
                .iter()
                .map(|it| it.split_once(':').unwrap_or((it, "")));
            let mut missing = needs.filter(|(program, _)| !is_there(program.trim()));
            self.left_out
                .extend(missing.next().map(|(program, hint)| LeftOut {
                    variant: variant.clone(),
                    program: program.trim().to_owned(),
                    hint: hint.trim().to_owned(),
                }));
        }
        let of_variant = |run: &PlannedRun, name: &str| {
            let mut point = run.point.iter();
            point.any(|(key, value)| key == VARIANT && value == name)
        };
        let left_out = &self.left_out;
        self.runs
            .retain(|run| !left_out.iter().any(|it| of_variant(run, &it.variant)));
    }

    /// The scenario's text as it was read.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The files that its runs read beside the scenario's, as they are named there, and where they are.
    ///
    /// # Errors
    /// When a run has no scenario; the plan has read it once.
    pub fn files(&self) -> Result<BTreeMap<String, PathBuf>, FileError> {
        let mut files = BTreeMap::new();
        // Repeats differ in their seeds alone.
        for run in self.runs.iter().filter(|run| run.repeat == 1) {
            let document = file::document(&self.path, &self.text, &run.settings)?;
            for entries in document.sections() {
                let named = FILES.iter().filter(|key| entries.has(key));
                let named = named.filter_map(|key| entries.text(key));
                files.extend(named.map(|name| (name.to_owned(), document.resolve(name))));
            }
        }
        Ok(files)
    }

    /// The scenario of a run, whose seed is the run's.
    ///
    /// # Errors
    /// When it is none; the plan has read it once.
    pub fn scenario(&self, run: &PlannedRun) -> Result<Scenario, FileError> {
        let mut scenario = file::read(&self.path, &self.text, &run.settings)?;
        if scenario.every_seed && scenario.seed != run.seed {
            let mut settings = run.settings.clone();
            settings.push(format!("seed={}", run.seed));
            scenario = file::read(&self.path, &self.text, &settings)?;
        }
        scenario.seed = run.seed;
        Ok(scenario)
    }
}

/// A combination of what is swept.
#[derive(Clone, Debug, Default)]
struct Point {
    /// Names and values for people.
    told: Vec<(String, String)>,
    /// All that is set.
    settings: Vec<String>,
    /// The part that its variant sets.
    of_variant: Vec<String>,
}

/// The variants of a file, or the one that it is.
fn variants(
    document: &Document<'_>,
    path: &Path,
    text: &str,
    base: &[String],
) -> Result<Vec<Point>, FileError> {
    let mut points: Vec<Point> = Vec::new();
    for entries in document.all("variant") {
        let name = entries.text("name").unwrap_or_default().to_owned();
        let wrong = |key: &str, what: String| document.fault(entries.line_of(key), what);
        let told = vec![(VARIANT.to_owned(), name.clone())];
        if points.iter().any(|point| point.told == told) {
            return Err(wrong("name", format!("two variants are named '{name}'")));
        }
        let settings = entries.list("set").to_vec();
        try_settings(path, text, base, &settings)
            .map_err(|error| of_setting(wrong("set", format!("variant '{name}'")), error))?;
        points.push(Point {
            told,
            of_variant: settings.clone(),
            settings,
        });
    }
    if points.is_empty() {
        points.push(Point::default());
    }
    Ok(points)
}

/// Says where a sweep sets what a variant sets: it is set last, so the variant would not be what it says. Nothing where none does.
fn set_by_variant(points: &[Point], swept: &str) -> Option<String> {
    points.iter().find_map(|point| {
        let mut paths = point.of_variant.iter();
        let path = paths.find_map(|setting| {
            let path = setting.split_once('=')?.0.trim();
            is_overridden(path, swept).then_some(path)
        })?;
        let variant = point.told.first().map_or("", |(_, name)| name);
        Some(format!(
            "'{swept}' is swept, so '{path}' of variant '{variant}' would say nothing"
        ))
    })
}

/// Programs that variants need, by the variants' names.
fn needs(document: &Document<'_>) -> BTreeMap<String, Vec<String>> {
    let variants = document.all("variant");
    let named = variants.map(|it| (it.text("name").unwrap_or_default(), it.list("needs")));
    let needing = named.filter(|(_, needs)| !needs.is_empty());
    needing
        .map(|(name, needs)| (name.to_owned(), needs.to_vec()))
        .collect()
}

/// The place of a value that is set beside a sweep.
#[derive(Clone, Copy, Debug)]
enum Given {
    Full,
    Command,
}

impl Given {
    /// The error if a sweep sets the same.
    fn is_idle(self, path: &str, swept: &str) -> String {
        let said = match self {
            Self::Full => format!("'{path}' of [full]"),
            Self::Command => format!("--set {path}"),
        };
        format!("'{swept}' is swept, so {said} would say nothing")
    }

    fn hint(self, value: &str, swept: &str) -> String {
        match self {
            Self::Full => format!("\"sweep.{swept}\" = [\"{value}\"] in [full] sets what is swept"),
            Self::Command => format!("--set 'sweep.{swept}=[\"{value}\"]'"),
        }
    }
}

/// Whether a sweep of a path sets all that a setting of another does: the same key, of the same section or of each of its name.
fn is_overridden(path: &str, swept: &str) -> bool {
    let of_all = || {
        let (section, rest) = path.split_once('.')?;
        let (_, key) = rest.rsplit_once('.')?;
        Some((section, key))
    };
    path == swept || of_all().is_some_and(|parts| swept.split_once('.') == Some(parts))
}

/// All settings, where they make a scenario.
fn try_settings(
    path: &Path,
    text: &str,
    base: &[String],
    more: &[String],
) -> Result<Vec<String>, FileError> {
    let all = [base, more].concat();
    file::read(path, text, &all).map(|_| all)
}

/// The fault of a value, at the place at which it was written.
fn of_setting(place: FileError, error: FileError) -> FileError {
    let what = format!("{}: {}", place.what, error.what);
    let fault = FileError { what, ..place };
    match error.hint {
        Some(hint) => fault.with_hint(hint),
        None => fault,
    }
}

/// An order in which each is as likely (Fisher and Yates).
fn shuffle(runs: &mut [PlannedRun], seed: u64) {
    let mut entropy = Entropy::new(seed, PURPOSE, 0);
    for last in (1..runs.len()).rev() {
        let bound = u64::try_from(last).unwrap_or(0) + 1;
        let other = usize::try_from(entropy.below(bound)).unwrap_or(last);
        runs.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const STUDY: &str = r#"
seed = 7
[[node]]
name = "east"
[[node]]
name = "west"
[[link]]
between = ["east", "west"]
rate = "1Mbit"
[[traffic]]
from = "east"
to = "west"
count = 3
size = "2kB"
[stop]
at = "1h"
[sweep]
"traffic.size" = ["2kB", "4kB"]
link.rate = ["1Mbit", "2Mbit", "3Mbit"]
[runs]
repeats = 2
[full]
"runs.repeats" = 5
"sweep.traffic.size" = ["1kB", "2kB", "4kB", "8kB"]
"#;

    fn plan(settings: &[&str], extent: Extent) -> Result<Plan, FileError> {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        Plan::parse(Path::new("s.toml"), STUDY, &settings, extent)
    }

    #[test]
    fn every_combination_is_run_as_often_as_repeats_say() {
        let plan = plan(&["runs.order=given"], Extent::Usual).expect("a plan");
        let told: Vec<String> = plan
            .runs
            .iter()
            .map(|run| {
                let point = run.point.iter().map(|(_, value)| value.as_str());
                let point = point.collect::<Vec<_>>().join(" ");
                format!("{} {point} {} {}", run.number, run.repeat, run.seed)
            })
            .collect();
        assert_eq!(told.len(), 12);
        assert_eq!(
            told[..4],
            [
                "1 2kB 1Mbit 1 7",
                "2 2kB 1Mbit 2 8",
                "3 2kB 2Mbit 1 7",
                "4 2kB 2Mbit 2 8"
            ]
        );
        let last = plan.scenario(&plan.runs[11]).expect("a scenario");
        assert_eq!((last.traffic[0].size.max, last.seed), (4_000, 8));
        assert_eq!(last.links[0].rate.octets_per_s(), 375_000);
    }

    #[test]
    fn variants_set_several_values_at_once_and_go_with_what_is_swept() {
        let text = format!(
            "{STUDY}[[variant]]\nname = \"few\"\nset = [\"traffic.count=1\"]\n\
             [[variant]]\nname = \"slow\"\nset = [\"traffic.count=9\", \"link.delay=8ms\"]\n"
        );
        let set = [
            "sweep.link.rate=[\"1Mbit\"]",
            "runs.repeats=1",
            "runs.order=given",
        ];
        let set = set.map(str::to_owned);
        let plan = Plan::parse(Path::new("s.toml"), &text, &set, Extent::Usual).expect("a plan");
        assert_eq!(plan.runs.len(), 2 * 2);
        assert_eq!(
            plan.runs[2].point[0],
            ("variant".to_owned(), "slow".to_owned())
        );
        let last = plan.scenario(&plan.runs[3]).expect("a scenario");
        assert_eq!(last.traffic[0].count, Some(9));
        assert_eq!(last.links[0].rate.octets_per_s(), 125_000);
        let refused = |text: &str| {
            let error = Plan::parse(Path::new("s.toml"), text, &[], Extent::Usual);
            error.expect_err("it is refused").to_string()
        };
        let error = refused(&text.replace("count=9", "count=nine"));
        assert!(error.contains("variant 'slow': 'count'"), "{error}");
        assert!(refused(&text.replace("slow", "few")).contains("two variants are named 'few'"));
        // A swept key would be set last.
        for path in ["link.rate", "link.0.rate"] {
            let error = refused(&text.replace("link.delay=8ms", &format!("{path}=8kbit")));
            let words =
                format!("'link.rate' is swept, so '{path}' of variant 'slow' would say nothing");
            assert!(error.contains(&words), "{error}");
        }
    }

    #[test]
    fn a_variant_that_needs_what_is_not_there_is_left_out_and_numbers_stay() {
        let text = format!(
            "{STUDY}[[variant]]\nname = \"theirs\"\nneeds = [\"a\", \"b: apt-get install b\", \"c\"]\n\
             [[variant]]\nname = \"ours\"\n"
        );
        let set = ["runs.repeats=1", "runs.order=given"].map(str::to_owned);
        let plan = Plan::parse(Path::new("s.toml"), &text, &set, Extent::Usual).expect("a plan");
        let left = |there: &[&str]| {
            let mut plan = plan.clone();
            plan.leave_out(|program| there.contains(&program));
            plan
        };
        assert_eq!(left(&["a", "b", "c"]).runs, plan.runs);
        let without = left(&["a"]);
        let numbers: Vec<u32> = without.runs.iter().map(|run| run.number).collect();
        assert_eq!(numbers, [7, 8, 9, 10, 11, 12]);
        let told = LeftOut {
            variant: "theirs".to_owned(),
            program: "b".to_owned(),
            hint: "apt-get install b".to_owned(),
        };
        assert_eq!(without.left_out, [told]);
    }

    #[test]
    fn the_order_is_drawn_from_the_seed() {
        let numbers = |settings: &[&str]| {
            let plan = plan(settings, Extent::Usual).expect("a plan");
            plan.runs.iter().map(|run| run.number).collect::<Vec<_>>()
        };
        let drawn = numbers(&[]);
        assert_eq!(drawn, numbers(&[]));
        assert_ne!(drawn, numbers(&["seed=8"]));
        let mut sorted = drawn.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (1..=12).collect::<Vec<_>>());
        assert_ne!(drawn, sorted);
    }

    #[test]
    fn the_full_extent_sets_what_the_file_says_and_the_command_sets_over_it() {
        assert_eq!(
            plan(&[], Extent::Full).expect("a plan").runs.len(),
            4 * 3 * 5
        );
        let fewer = plan(&["runs.repeats=1"], Extent::Full).expect("a plan");
        assert_eq!(fewer.runs.len(), 4 * 3);
    }

    #[test]
    fn what_full_cannot_set_is_refused_before_it_is_asked_for() {
        for (full, said) in [
            ("\"traffic.sise\" = 4", "s.toml:23: [full] traffic.sise: "),
            (
                "\"sweep.traffic.sise\" = [\"1kB\"]",
                "[full] sweep.traffic.sise: ",
            ),
            ("\"run.repeats\" = 4", "[full] run.repeats: "),
        ] {
            let text = STUDY.replace("\"runs.repeats\" = 5", full);
            for extent in [Extent::Usual, Extent::Full] {
                let error = Plan::parse(Path::new("s.toml"), &text, &[], extent);
                let error = error.expect_err(full).to_string();
                assert!(extent == Extent::Full || error.contains(said), "{error}");
            }
        }
    }

    #[test]
    fn a_setting_in_whose_place_a_sweep_is_would_say_nothing() {
        for setting in [
            "traffic.size=3kB",
            " traffic.size = 3kB",
            "traffic.0.size=3kB",
        ] {
            let error = plan(&[setting], Extent::Usual).expect_err(setting);
            assert!(
                error
                    .what
                    .contains("'traffic.size' is swept, so --set traffic."),
                "{error}"
            );
            let hint = "--set 'sweep.traffic.size=[\"3kB\"]'";
            assert_eq!(error.hint.as_deref(), Some(hint));
        }
        for setting in ["sweep.traffic.size=[\"3kB\"]", "traffic.0.count=3"] {
            plan(&[setting], Extent::Usual).expect(setting);
        }
        let full = "[full]\n\"traffic.size\" = \"9kB\"\n";
        let text = format!("{}{full}", STUDY.split("[full]").next().expect("a part"));
        let error = Plan::parse(Path::new("s.toml"), &text, &[], Extent::Full);
        let error = error.expect_err("it is refused");
        assert!(
            error.what.contains("'traffic.size' of [full]") && error.hint.is_some(),
            "{error}"
        );
    }

    #[test]
    fn more_runs_than_a_study_has_are_refused_before_any_is_looked_at() {
        let runs = |repeats: u32| {
            let set = [format!("runs.repeats={repeats}")];
            let unread = || panic!("a combination is looked at");
            let planned =
                Plan::parse_while(Path::new("s.toml"), STUDY, &set, Extent::Usual, unread);
            planned.expect_err("it is refused")
        };
        // Of six combinations.
        for repeats in [166_667, 1_000_000] {
            let error = runs(repeats);
            assert!(error.what.ends_with("a study has at most 1000000 runs"));
            assert!(error.hint.expect("a hint").contains("--repeats"));
        }
        let most = plan(&["runs.repeats=166666"], Extent::Usual).expect("a plan");
        assert_eq!(most.runs.len(), 999_996);
    }

    #[test]
    fn a_plan_is_given_up_between_values_and_between_combinations() {
        // Five values of two keys are looked at one by one, then six combinations.
        for looked_at in 0..11_u32 {
            let left = Cell::new(looked_at);
            let goes_on = || left.replace(left.get().saturating_sub(1)) > 0;
            let planned =
                Plan::parse_while(Path::new("s.toml"), STUDY, &[], Extent::Usual, goes_on);
            let error = planned.expect_err("it is given up");
            assert!(error.what.contains("not read to its end"), "{error}");
        }
        let left = Cell::new(11_u32);
        let goes_on = || left.replace(left.get().saturating_sub(1)) > 0;
        Plan::parse_while(Path::new("s.toml"), STUDY, &[], Extent::Usual, goes_on).expect("a plan");
    }

    #[test]
    fn a_value_that_is_swept_twice_is_refused() {
        for (values, is_refused) in [
            ("[\"1kB\", \"2kB\", \"1kB\"]", true),
            ("[\"1kB\", \"1000B\"]", true),
            ("[\"1kB\", \"1KiB\"]", false),
        ] {
            let set = format!("sweep.traffic.size={values}");
            match plan(&[&set], Extent::Usual) {
                Err(error) => {
                    assert!(is_refused && error.what.contains("1kB twice"), "{error}");
                    assert!(error.hint.expect("a hint").contains("repeats"));
                }
                Ok(_) => assert!(!is_refused, "{values}"),
            }
        }
    }

    #[test]
    fn a_bad_value_of_a_sweep_is_told_with_its_line() {
        let text = STUDY.replace("\"4kB\"]\nlink", "\"4parsec\"]\nlink");
        let error = Plan::parse(Path::new("s.toml"), &text, &[], Extent::Usual);
        let error = error.expect_err("it is refused").to_string();
        assert!(
            error.starts_with("s.toml:18: traffic.size = 4parsec: 'size' is not a size"),
            "{error}"
        );
    }

    #[test]
    fn sections_for_studies_change_nothing_in_a_scenario() {
        let cut = STUDY.split("[sweep]").next().expect("a part");
        let read = |text: &str| {
            let scenario = Scenario::parse(Path::new("s.toml"), text).expect("a scenario");
            format!("{scenario:?}")
        };
        assert_eq!(read(cut), read(STUDY));
    }
}
