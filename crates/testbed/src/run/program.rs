//! Programs of a scenario: when they begin and end, and their figures.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use dhow_scenario::scenario::{Failure, Output, Program};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::failure::LabError;
use crate::namespace;
use crate::node::{Log, last_words};
use crate::place::needs::found;
use crate::place::{Group, Layout, Sent, api_of};
use crate::printed::{FIGURES_MAX, figures};
use crate::results::{FIRST_OCTET, Figure, Ran};
use crate::run::words::{Context, fill};

/// The longest time for a program to end after SIGTERM.
const END: Duration = Duration::from_secs(5);

/// Octets that a program whose figures are read may print.
const PRINTED_OCTETS_MAX: u64 = 64 << 20;

/// A program that is to run, or runs.
#[derive(Debug)]
pub(super) struct Task {
    name: String,
    pub(super) host: usize,
    words: Vec<String>,
    environment: Vec<(String, String)>,
    start: Duration,
    stop: Option<Duration>,
    after: Option<usize>,
    until: Option<usize>,
    since: Option<usize>,
    ready: Option<String>,
    failure: Failure,
    state: Stage,
    log: PathBuf,
    output: Output,
    /// The file of its standard output apart from its log, if its figures are read.
    printed: Option<PathBuf>,
    /// When it began, from the start of the run; nothing before.
    began: Option<Duration>,
    /// When it ended or was told to.
    ended: Option<Duration>,
    /// Whether the program did not end when it was told to.
    killed: bool,
    /// Whether the program was told to end.
    was_asked: bool,
    /// Whether the program said that it is ready.
    is_ready: bool,
    /// Its failure, where that is what was measured.
    failed: Option<String>,
    /// The packets that its host has sent since it began, where a time begins with its first packet.
    sent: Option<Sent>,
    /// When that packet left.
    first_octet: Option<Duration>,
}

/// Whether a program may begin, by the one that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    Shut,
    /// The other program has failed, or ended without being ready.
    Never,
}

/// The state of others, as it matters to a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Others {
    gate: Gate,
    /// Whether the program with which it is to end has ended.
    is_over: bool,
    /// Whether a time begins with its first packet.
    is_timed: bool,
}

/// The state of all programs, as it matters to each, in their order.
pub(super) fn others(programs: &[Task]) -> Vec<Others> {
    let of = |at: Option<usize>| at.and_then(|at| programs.get(at));
    let each = programs.iter().enumerate().map(|(at, program)| {
        let mut timed = programs.iter().enumerate();
        Others {
            gate: of(program.after).map_or(Gate::Open, Task::gate),
            is_over: of(program.until).is_some_and(Task::has_ended),
            is_timed: timed
                .any(|(own, it)| it.output == Output::Time && it.since.unwrap_or(own) == at),
        }
    });
    each.collect()
}

/// The figures of a program of these, by its position.
///
/// # Errors
/// When it was to tell some and told none.
pub(super) fn told(
    programs: &[Task],
    at: usize,
    node: &str,
    end: Duration,
) -> Result<(Vec<Figure>, Option<LabError>), LabError> {
    let Some(program) = programs.get(at) else {
        return Ok((Vec::new(), None));
    };
    let since = program.since.and_then(|it| programs.get(it));
    program.figures(since.unwrap_or(program), node, end)
}

#[derive(Debug)]
enum Stage {
    Waiting,
    Running(Child, Log),
    /// The program was told to end, and is killed at that moment.
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
            after: program.after,
            until: program.until,
            since: program.since,
            ready: program.ready.clone(),
            failure: program.failure,
            state: Stage::Waiting,
            log: directory.join(format!("{}.log", program.name)),
            output: program.output,
            began: None,
            ended: None,
            killed: false,
            was_asked: false,
            is_ready: false,
            failed: None,
            sent: None,
            first_octet: None,
            printed: (!matches!(program.output, Output::Log | Output::Sftp | Output::Time))
                .then(|| directory.join(format!("{}.out", program.name))),
        })
    }

    /// Says whether this machine has it, as far as that can be told: a relative way depends on where it is taken, and a `PATH` of its own on
    /// what is there.
    pub(super) fn check_there(&self) -> Result<(), LabError> {
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

    /// True while its times are taken.
    pub(super) fn is_timed(&self) -> bool {
        self.sent.is_some() || self.output == Output::Time && !self.has_ended()
    }

    /// Whether those that wait for it may begin.
    fn gate(&self) -> Gate {
        let is_there = match self.ready {
            Some(_) => self.is_ready,
            None => self.has_ended() && self.began.is_some() && self.failed.is_none(),
        };
        match (is_there, self.has_ended()) {
            (true, _) => Gate::Open,
            (false, true) => Gate::Never,
            (false, false) => Gate::Shut,
        }
    }

    /// Does what is due.
    ///
    /// # Errors
    /// When it cannot be started, or failed by itself.
    pub(super) fn step(
        &mut self,
        now: Duration,
        others: Others,
        layout: &Layout,
        group: Option<&Group>,
    ) -> Result<(), LabError> {
        self.look_at_packets(now)?;
        match &mut self.state {
            Stage::Waiting if others.gate == Gate::Never || others.is_over => {
                self.state = Stage::Ended;
                Ok(())
            }
            Stage::Waiting if now >= self.start && others.gate == Gate::Open => {
                if others.is_timed {
                    self.watch_packets(layout)?;
                }
                self.began = Some(now);
                self.begin(layout, group)
            }
            Stage::Running(child, log) if has_ended(child) => {
                self.is_ready |= log.has_said_it();
                self.ended = Some(now);
                match self.finish() {
                    Some(status) if !status.success() => self.has_failed(status),
                    _ => Ok(()),
                }
            }
            Stage::Running(_, log) => {
                self.is_ready |= log.has_said_it();
                if others.is_over || self.stop.is_some_and(|stop| now >= stop) {
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

    /// The program ended by itself with an exit code of failure.
    fn has_failed(&mut self, status: ExitStatus) -> Result<(), LabError> {
        let (name, words) = (&self.name, last_words(&self.log));
        match self.failure {
            Failure::OfRun => {
                let what = format!("program '{name}' failed ({status}): {words}");
                Err(LabError::new(what))
            }
            Failure::Measured => {
                // Before its last line it says what it did.
                let last = words.lines().next_back().unwrap_or_default();
                self.failed = Some(format!("{status}: {last}"));
                Ok(())
            }
        }
    }

    /// A program whose time is to be told was to end by itself.
    fn was_told_to_end(&mut self) {
        if self.failure == Failure::Measured && self.output == Output::Time {
            let what = "it did not end by itself".to_owned();
            self.failed.get_or_insert(what);
        }
    }

    /// Looks from now on for the first packet that its host sends.
    fn watch_packets(&mut self, layout: &Layout) -> Result<(), LabError> {
        let failed = |error| LabError::io("cannot read counters", &error);
        self.sent = Sent::of(layout, self.host).map_err(failed)?;
        Ok(())
    }

    /// Notes when the first packet left.
    fn look_at_packets(&mut self, now: Duration) -> Result<(), LabError> {
        let failed = |error| LabError::io("cannot read counters", &error);
        if let Some(sent) = &mut self.sent
            && sent.has_any().map_err(failed)?
        {
            self.first_octet = Some(now);
            self.sent = None;
        }
        if self.has_ended() {
            self.sent = None;
        }
        Ok(())
    }

    /// The figures in what it printed, where it was to print some, and an error where there was no room for all; `end` is that of the run.
    ///
    /// # Errors
    /// When there are none.
    fn figures(
        &self,
        since: &Self,
        node: &str,
        end: Duration,
    ) -> Result<(Vec<Figure>, Option<LabError>), LabError> {
        let may_be_silent = self.failure == Failure::Measured && self.has_no_end();
        if self.failed.is_some() || may_be_silent {
            return Ok((Vec::new(), None));
        }
        if self.output == Output::Time {
            return Ok((self.times(since, node)?, None));
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

    /// True if it did not begin, or another one's failure kept it from its end.
    const fn has_no_end(&self) -> bool {
        self.began.is_none() || self.ended.is_none()
    }

    /// The times for which it ran: from the start of a program's process, and from the first packet of that one's host.
    fn times(&self, since: &Self, node: &str) -> Result<Vec<Figure>, LabError> {
        let name = &self.name;
        let ended = self.ended.filter(|_| !self.was_asked);
        let began = since.began.filter(|_| self.began.is_some());
        let (Some(ended), Some(began)) = (ended, began) else {
            let what = format!("program '{name}' did not end by itself, so it has no time");
            return Err(LabError::new(what).with_hint(
                "a later 'at' of [stop], output = \"log\", or may_fail = true if that is a finding",
            ));
        };
        let froms = [("time", Some(began)), (FIRST_OCTET, since.first_octet)];
        let times = froms.into_iter().filter_map(|(figure, from)| {
            Some(Figure {
                node: node.to_owned(),
                program: name.clone(),
                name: figure.to_owned(),
                time_s: ended.as_secs_f64(),
                value: ended.saturating_sub(from?).as_secs_f64(),
                unit: "s".to_owned(),
            })
        });
        Ok(times.collect())
    }

    /// When it ran on a node, in a run that ended then; nothing where it did not begin.
    pub(super) fn ran(&self, node: &str, end: Duration) -> Option<Ran> {
        Some(Ran {
            program: self.name.clone(),
            node: node.to_owned(),
            from_s: self.began?.as_secs_f64(),
            until_s: self.ended.unwrap_or(end).as_secs_f64(),
            killed: self.killed,
            failed: self.failed.clone(),
        })
    }

    /// Asks it to end, and does not wait.
    pub(super) fn ask_to_end(&mut self) {
        if matches!(self.state, Stage::Running(..)) {
            self.was_asked = true;
            self.was_told_to_end();
        }
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
        let api = api_of(layout, host).map(|api| ("DHOW_NODE", api));
        let spawn = move || {
            use std::os::unix::process::CommandExt as _;
            Group::command(group, &executable(program)?)
                .args(words)
                .env_remove("DHOW_NODE")
                .envs(api)
                .envs(sender)
                .env("PATH", path()?)
                .envs(environment.iter().map(|(name, value)| (name, value)))
                .current_dir(directory)
                .stdin(Stdio::null())
                .stdout(printed)
                .stderr(writer)
                .process_group(0)
                .spawn()
        };
        let child = namespace::within(&host.namespace, spawn).map_err(failed)?;
        let log = Log::begin_looking(reader, &self.log, self.ready.as_deref()).map_err(failed)?;
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
        "dhow" => env::current_exe(),
        word => Ok(PathBuf::from(word)),
    }
}

/// The directories in which a program's shell looks: first that of the program that runs the testbed, so that `dhow` is this one there too.
fn path() -> io::Result<OsString> {
    let usual = env::var_os("PATH").unwrap_or_default();
    let own = env::current_exe()?;
    let own = own.parent().map(Path::to_owned);
    let all = own.into_iter().chain(env::split_paths(&usual));
    // A directory with a colon in its name cannot be among them.
    Ok(env::join_paths(all).unwrap_or(usual))
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
