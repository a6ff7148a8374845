//! Programs of a scenario: what their words become, when they begin and end.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use dhow_scenario::Scenario;
use dhow_scenario::scenario::{Output, Program};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::failure::LabError;
use crate::namespace;
use crate::node::{Log, last_words};
use crate::place::detour::Detour;
use crate::place::needs::found;
use crate::place::{Group, Layout};
use crate::printed::{FIGURES_MAX, figures};
use crate::results::{Figure, Ran};

/// The longest time for a program to end after SIGTERM.
const END: Duration = Duration::from_secs(5);

/// Octets that a program whose figures are read may print.
const PRINTED_OCTETS_MAX: u64 = 64 << 20;

/// The values of names in braces in a program's words, beside nodes.
#[derive(Clone, Debug)]
pub(super) struct Context<'a> {
    pub layout: &'a Layout,
    /// The address of the collector.
    pub collector: &'a str,
    /// The run's name.
    pub run: &'a str,
}

/// A program that is to run, or runs.
#[derive(Debug)]
pub(super) struct Task {
    name: String,
    pub(super) host: usize,
    words: Vec<String>,
    environment: Vec<(String, String)>,
    start: Duration,
    stop: Option<Duration>,
    state: Stage,
    log: PathBuf,
    output: Output,
    /// The file of its standard output apart from its log, if its figures are read.
    printed: Option<PathBuf>,
    /// When it began, from the start of the run; nothing before.
    began: Option<Duration>,
    /// When it ended or was told to.
    ended: Option<Duration>,
    /// It did not end when it was told to.
    killed: bool,
}

#[derive(Debug)]
enum Stage {
    Waiting,
    Running(Child, Log),
    /// It was told to end, and is killed at that moment.
    Ending(Child, Log, Instant),
    Ended,
}

impl Task {
    /// A program whose names in braces have become addresses.
    ///
    /// # Errors
    /// When there is nothing of such a name.
    pub(super) fn new(
        program: &Program,
        context: &Context<'_>,
        directory: &Path,
    ) -> Result<Self, LabError> {
        let host = program.node.0;
        let fill = |text: &String| {
            fill(text, host, context)
                .map_err(|what| LabError::new(format!("program '{}': {what}", program.name)))
        };
        let words: Result<_, _> = program.words.iter().map(fill).collect();
        let environment = program.environment.iter();
        let environment = environment.map(|(name, value)| Ok((name.clone(), fill(value)?)));
        Ok(Self {
            name: program.name.clone(),
            host,
            words: words?,
            environment: environment.collect::<Result<_, LabError>>()?,
            start: program.start,
            stop: program.stop,
            state: Stage::Waiting,
            log: directory.join(format!("{}.log", program.name)),
            output: program.output,
            began: None,
            ended: None,
            killed: false,
            printed: (!matches!(program.output, Output::Log | Output::Sftp | Output::Time))
                .then(|| directory.join(format!("{}.out", program.name))),
        })
    }

    /// Says whether this machine has it, as far as that can be told: a relative way depends on where it is taken, and a `PATH` of its own on
    /// what is there.
    fn check_there(&self) -> Result<(), LabError> {
        let own_path = self.environment.iter().any(|(name, _)| name == "PATH");
        let Some(word) = self.words.first().filter(|_| !own_path) else {
            return Ok(());
        };
        let is_relative = word.contains('/') && !word.starts_with('/');
        if word == "dhow" || is_relative || found(word).is_some() {
            return Ok(());
        }
        let what = format!(
            "program '{}': there is no program '{word}' on this machine",
            self.name
        );
        let hint = "install it; a [[variant]] whose 'needs' names it is left out without it";
        Err(LabError::new(what).with_hint(hint))
    }

    /// True if it ran and has ended.
    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.state, Stage::Ended)
    }

    /// The process, while it runs.
    pub(super) fn process(&self) -> Option<u32> {
        match &self.state {
            Stage::Running(child, _) | Stage::Ending(child, _, _) => Some(child.id()),
            Stage::Waiting | Stage::Ended => None,
        }
    }

    /// Does what is due.
    ///
    /// # Errors
    /// When it cannot be started, or failed by itself.
    pub(super) fn step(
        &mut self,
        now: Duration,
        layout: &Layout,
        group: Option<&Group>,
    ) -> Result<(), LabError> {
        match &mut self.state {
            Stage::Waiting if now >= self.start => {
                self.began = Some(now);
                self.begin(layout, group)
            }
            Stage::Running(child, _) if has_ended(child) => {
                self.ended = Some(now);
                match self.finish() {
                    Some(status) if !status.success() => {
                        let (name, words) = (&self.name, last_words(&self.log));
                        let what = format!("program '{name}' failed ({status}): {words}");
                        Err(LabError::new(what))
                    }
                    _ => Ok(()),
                }
            }
            Stage::Running(..) => {
                if self.stop.is_some_and(|stop| now >= stop) {
                    self.ended = Some(now);
                    self.ask_to_end();
                }
                Ok(())
            }
            Stage::Ending(child, _, kill_at) => {
                if has_ended(child) || Instant::now() >= *kill_at {
                    self.finish();
                }
                Ok(())
            }
            Stage::Waiting | Stage::Ended => Ok(()),
        }
    }

    /// The figures in what it printed, where it was to print some, and an error where there was no room for all; `end` is that of the run.
    ///
    /// # Errors
    /// When there are none.
    pub(super) fn figures(
        &self,
        node: &str,
        end: Duration,
    ) -> Result<(Vec<Figure>, Option<LabError>), LabError> {
        if self.output == Output::Time {
            return Ok((vec![self.time(node)?], None));
        }
        let path = match (self.output, &self.printed) {
            // It says most of it where errors go.
            (Output::Sftp, _) => &self.log,
            (_, Some(path)) => path,
            (_, None) => return Ok((Vec::new(), None)),
        };
        let name = &self.name;
        let text = printed(path).map_err(|error| {
            LabError::io(format!("program '{name}' printed no figures"), &error)
        })?;
        let printed = figures(self.output, &text).map_err(|what| {
            let words = last_words(&self.log);
            LabError::new(format!("program '{name}': {what}: {words}"))
        })?;
        let began = self.began.unwrap_or_default();
        let rows = printed.figures.into_iter().map(|it| Figure {
            node: node.to_owned(),
            program: name.clone(),
            name: it.figure.figure,
            time_s: it
                .time_s
                .map_or(end.as_secs_f64(), |time| began.as_secs_f64() + time),
            value: it.figure.value,
            unit: it.figure.unit,
        });
        Ok((rows.collect(), without_room(name, printed.lost)))
    }

    /// The time for which it ran.
    fn time(&self, node: &str) -> Result<Figure, LabError> {
        let name = &self.name;
        let was_told = |ended: &Duration| self.stop.is_some_and(|stop| *ended >= stop);
        let ended = self.ended.filter(|ended| !was_told(ended)).ok_or_else(|| {
            let what = format!("program '{name}' did not end by itself, so it has no time");
            LabError::new(what).with_hint("a later 'at' of [stop], or output = \"log\"")
        })?;
        let began = self.began.unwrap_or_default();
        Ok(Figure {
            node: node.to_owned(),
            program: name.clone(),
            name: "time".to_owned(),
            time_s: ended.as_secs_f64(),
            value: ended.saturating_sub(began).as_secs_f64(),
            unit: "s".to_owned(),
        })
    }

    /// When it ran on a node, in a run that ended then; nothing where it did not begin.
    pub(super) fn ran(&self, node: &str, end: Duration) -> Option<Ran> {
        Some(Ran {
            program: self.name.clone(),
            node: node.to_owned(),
            from_s: self.began?.as_secs_f64(),
            until_s: self.ended.unwrap_or(end).as_secs_f64(),
            killed: self.killed,
        })
    }

    /// Asks it to end, and does not wait.
    pub(super) fn ask_to_end(&mut self) {
        self.signal(Signal::TERM);
        self.state = match std::mem::replace(&mut self.state, Stage::Ended) {
            Stage::Running(child, log) => Stage::Ending(child, log, Instant::now() + END),
            other @ Stage::Ending(..) => other,
            Stage::Waiting | Stage::Ended => Stage::Ended,
        };
    }

    /// True if it was told to end and is still there.
    pub(super) fn is_ending(&self) -> bool {
        match &self.state {
            Stage::Ending(child, _, _) => !has_ended(child),
            _ => false,
        }
    }

    fn begin(&mut self, layout: &Layout, group: Option<&Group>) -> Result<(), LabError> {
        let name = &self.name;
        let failed = |error: io::Error| {
            let error = LabError::io(format!("cannot start program '{name}'"), &error);
            error.with_hint("the first word of 'run' is a program")
        };
        let Some(host) = layout.hosts.get(self.host) else {
            return Ok(());
        };
        let directory = self.log.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory).map_err(failed)?;
        let (reader, writer) = io::pipe().map_err(failed)?;
        let printed = match &self.printed {
            Some(path) => Stdio::from(File::create(path).map_err(failed)?),
            None => Stdio::from(writer.try_clone().map_err(failed)?),
        };
        let (program, words) = self
            .words
            .split_first()
            .ok_or_else(|| LabError::new(format!("program '{name}' has no words")))?;
        let environment = &self.environment;
        // The name of the one that measures: hosts have one name, that of the machine.
        let says_who = |it: &(String, String)| ["OML_NAME", "OML_CONFIG"].contains(&it.0.as_str());
        let sender = (!environment.iter().any(says_who)).then_some(("OML_NAME", name));
        let spawn = move || {
            use std::os::unix::process::CommandExt as _;
            Group::command(group, &executable(program)?)
                .args(words)
                .envs(sender)
                .envs(environment.iter().map(|(name, value)| (name, value)))
                .current_dir(directory)
                .stdin(Stdio::null())
                .stdout(printed)
                .stderr(writer)
                .process_group(0)
                .spawn()
        };
        let child = namespace::within(&host.namespace, spawn).map_err(failed)?;
        let log = Log::begin(reader, &self.log).map_err(failed)?;
        self.state = Stage::Running(child, log);
        Ok(())
    }

    /// Ends it at once, with all that it started; how it ended, where it ran.
    pub(super) fn finish(&mut self) -> Option<ExitStatus> {
        self.killed |= self.is_ending();
        self.signal(Signal::KILL);
        match std::mem::replace(&mut self.state, Stage::Ended) {
            Stage::Running(mut child, mut log) | Stage::Ending(mut child, mut log, _) => {
                let status = child.wait().ok();
                log.finish();
                status
            }
            Stage::Waiting | Stage::Ended => None,
        }
    }

    fn signal(&self, signal: Signal) {
        let process = self.process().and_then(|id| i32::try_from(id).ok());
        if let Some(process) = process.and_then(Pid::from_raw) {
            // It leads its group, so it gets the signal once: a second SIGTERM would have it end without its last words. It may have ended just now.
            let _ = kill_process_group(process, signal);
        }
    }
}

/// True if a process has ended. It is not waited for, so that its number stays its own until its group got its signal.
fn has_ended(child: &Child) -> bool {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    process.is_none_or(|process| !matches!(waitid(WaitId::Pid(process), look), Ok(None)))
}

/// The output of a program, if it is not too long.
fn printed(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?.take(PRINTED_OCTETS_MAX + 1);
    let octets = { file }.read_to_string(&mut text)?;
    if u64::try_from(octets).unwrap_or(u64::MAX) > PRINTED_OCTETS_MAX {
        let what = format!(
            "{} has more than {PRINTED_OCTETS_MAX} octets",
            path.display()
        );
        return Err(io::Error::other(what));
    }
    Ok(text)
}

/// `dhow` is the program that runs the testbed, wherever it is; all else is looked for as a shell does.
fn executable(word: &str) -> io::Result<PathBuf> {
    match word {
        "dhow" => std::env::current_exe(),
        word => Ok(PathBuf::from(word)),
    }
}

/// Says what in programs' words names nothing, and which program is not there.
///
/// # Errors
/// The first such word.
pub(super) fn check(scenario: &Scenario, layout: &Layout) -> Result<(), LabError> {
    let context = Context {
        layout,
        collector: "",
        run: "",
    };
    let mut programs = scenario.programs.iter();
    programs.try_for_each(|program| Task::new(program, &context, Path::new(""))?.check_there())
}

/// A text in which what stands in braces has become what it names.
fn fill(text: &str, here: usize, context: &Context<'_>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        filled += before;
        let Some((name, after)) = behind.split_once('}') else {
            filled.push('{');
            rest = behind;
            continue;
        };
        filled += &match name {
            "collector" => context.collector.to_owned(),
            "run" => context.run.to_owned(),
            _ => match name.split_once(':') {
                Some(("collector", by)) => collector_by(by, here, context)?,
                parts => {
                    let (node, link) = parts.map_or((name, None), |(it, link)| (it, Some(link)));
                    let host = context.layout.host(node);
                    let (there, _) = host.ok_or_else(|| format!("'{{{name}}}' names no node"))?;
                    let address = context.layout.address_from(here, there, link);
                    let address = address.ok_or_else(|| {
                        format!("'{{{name}}}' has no address on a link from here")
                    })?;
                    address.to_string()
                }
            },
        };
        rest = after;
    }
    filled += rest;
    Ok(filled)
}

/// The address of a host's measurements that go by way of a node.
fn collector_by(node: &str, here: usize, context: &Context<'_>) -> Result<String, String> {
    let layout = context.layout;
    let host = layout.host(node);
    let (there, host) = host.ok_or_else(|| format!("'{{collector:{node}}}' names no node"))?;
    if here == there {
        return Ok(context.collector.to_owned());
    }
    match layout.addresses_between(here, there) {
        Some(_) => Ok(layout.collector_by(host)),
        None => Err(format!(
            "'{{collector:{node}}}' needs a link from here to '{node}' that is always there"
        )),
    }
}

/// All that programs of a scenario are told: their words and variables, with the position of their host.
fn told(scenario: &Scenario) -> impl Iterator<Item = (usize, &String)> {
    scenario.programs.iter().flat_map(|program| {
        let values = program.environment.iter().map(|(_, value)| value);
        let texts = program.words.iter().chain(values);
        texts.map(move |text| (program.node.0, text))
    })
}

/// True if a program sends measurements to the lab's collector.
pub(super) fn measures(scenario: &Scenario) -> bool {
    told(scenario).any(|(_, text)| text.contains("{collector}") || text.contains("{collector:"))
}

/// Programs' hosts whose measurements go by way of another, and which.
pub(super) fn detours(scenario: &Scenario, layout: &Layout) -> BTreeSet<Detour> {
    let mut detours = BTreeSet::new();
    for (here, text) in told(scenario) {
        let names = text.split('{').filter_map(|part| part.split_once('}'));
        let gateways = names.filter_map(|(name, _)| layout.host(name.strip_prefix("collector:")?));
        detours.extend(gateways.map(|(there, _)| (here, there)));
    }
    detours.retain(|(here, there)| here != there);
    detours
}

/// Says that a program told so many figures more than are kept; nothing where it did not.
fn without_room(program: &str, lost: usize) -> Option<LabError> {
    let what = format!(
        "program '{program}' printed {lost} figures beyond the {FIGURES_MAX} that a run has room for"
    );
    let hint = "have it print fewer: one a second, or what came of all at its end";
    (lost > 0).then(|| LabError::new(what).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_without_room_name_their_program_and_the_bound() {
        let error = without_room("meter", 3).expect("there is no room");
        let what = error.to_string();
        assert!(
            what.contains("'meter'") && what.contains("100000"),
            "{what}"
        );
        assert!(error.hint.is_some() && without_room("meter", 0).is_none());
    }
}
