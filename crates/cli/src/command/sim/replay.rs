//! `dhow sim replay`: a node led through its recording once more.

use std::fmt::{Debug, Write as _};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::storage::{Piece, StoreCommand};
use dhow_node::driver::{Action, Event};
use dhow_node::recording::frame::FileHeadError;
use dhow_node::recording::{Content, Finish};
use dhow_sim::replay::{Difference, End, FileError, Replay as Life, ReplayError, Sight, Step};
use serde_json::json;

use crate::arguments::{Common, parse_number};
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::quantity;

/// Entries between two looks at the person: some milliseconds.
const ENTRIES_PER_LOOK: u64 = 10_000;

/// The interval between lines of progress.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Characters of a traced line, at most.
const LINE_CHARACTERS: usize = 400;

/// Entries ahead of a difference from which on a trace is worth reading.
const TRACED_BEFORE: u64 = 40;

/// The name of this program in recordings.
const PROGRAM: &str = concat!("dhow ", env!("CARGO_PKG_VERSION"));

const AFTER_HELP: &str = "\
A recording that ends in the middle, as that of a node that was killed, is replayed as far as it goes.

Examples:
  dhow node run --record alpha.rec
  dhow sim replay alpha.rec
  dhow sim replay alpha.rec --trace --from 1200";

/// Replay a recording to a node, and check that it does the same again
///
/// The recording is one of `dhow node run --record`. Exits with 1 if the node acts differently from the recording, and prints the first difference.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Replay {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print everything that the node is told and what it does
    #[arg(long)]
    trace: bool,
    /// With --trace: print nothing before this entry
    #[arg(long, value_name = "ENTRY", default_value_t = 0, value_parser = parse_number, requires = "trace")]
    from: u64,
}

/// The end of a replay.
enum Outcome {
    End(End),
    Different(Difference),
    Interrupted,
}

impl Replay {
    /// Replays the recording.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let what = |error: &dyn std::fmt::Display| {
            format!("cannot replay {}: {error}", self.file.display())
        };
        let file = File::open(&self.file).map_err(|error| Failure::usage(what(&error)))?;
        let total = file.metadata().map(|it| it.len()).unwrap_or(0);
        let explain = |error: ReplayError| match hint(&error) {
            Some(hint) => Failure::refused(what(&error)).with_hint(hint),
            None => Failure::refused(what(&error)),
        };
        let mut life = Life::open(BufReader::new(file)).map_err(explain)?;
        let started = Instant::now();
        let outcome = self.lead(&mut life, total, explain)?;
        match common.form() {
            Form::Json => output::json(&json(&life, &outcome, started.elapsed()))?,
            Form::Text => output::line(&text(&life, &outcome, started.elapsed()))?,
        }
        Ok(match outcome {
            Outcome::End(_) => Ending::Done,
            Outcome::Interrupted => Ending::Interrupted,
            Outcome::Different(difference) => {
                self.tell(&life, &difference);
                Ending::Incomplete
            }
        })
    }

    fn lead(
        &self,
        life: &mut Life<BufReader<File>>,
        total: u64,
        explain: impl Fn(ReplayError) -> Failure,
    ) -> Result<Outcome, Failure> {
        let progress = Progress::stretch(total, "replay".to_owned());
        let started = Instant::now();
        let mut told = started;
        while !interrupt::is_requested() {
            for _ in 0..ENTRIES_PER_LOOK {
                let entry = life.passed().entries + 1;
                let mut lines = Vec::new();
                let step = if self.trace && entry >= self.from {
                    life.step(|sight| lines.push(shown(&sight)))
                } else {
                    life.step(|_| {})
                };
                let seconds = life.now().monotonic.as_nanos() / 1_000;
                for line in lines {
                    let (whole, rest) = (seconds / 1_000_000, seconds % 1_000_000);
                    output::line(&format!("{entry} {whole}.{rest:06} s {line}"))?;
                }
                match step.map_err(&explain)? {
                    Step::Same => {}
                    Step::Different(difference) => return Ok(Outcome::Different(difference)),
                    Step::End(end) => return Ok(Outcome::End(end)),
                }
            }
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                let passed = life.passed();
                let message = format!(
                    "{} entries, {} events/s",
                    quantity::thousands(passed.entries),
                    quantity::per_second(passed.events, started.elapsed()),
                );
                progress.say(life.whole_octets(), message);
            }
        }
        Ok(Outcome::Interrupted)
    }

    fn tell(&self, life: &Life<BufReader<File>>, difference: &Difference) {
        output::note(&format!(
            "entry {}: {}",
            difference.entry, difference.sentence
        ));
        if life.program() != PROGRAM {
            output::talk(&format!(
                "  it was recorded by {}, and this is {PROGRAM}",
                life.program()
            ));
        }
        output::talk(&format!(
            "  what came before: dhow sim replay {} --trace --from {}",
            self.file.display(),
            difference.entry.saturating_sub(TRACED_BEFORE).max(1)
        ));
    }
}

fn hint(error: &ReplayError) -> Option<String> {
    match error {
        ReplayError::File(FileError::Head(FileHeadError::NoRecording)) => {
            Some("'dhow node run --record FILE' makes a recording".to_owned())
        }
        ReplayError::File(
            FileError::Head(FileHeadError::Version(_)) | FileError::Unknown { .. },
        ) => Some("the version of dhow that recorded it reads it".to_owned()),
        ReplayError::File(FileError::Rotten { entries, .. }) if *entries > 1 => Some(format!(
            "up to there the node did what is recorded; --trace shows those {entries} entries"
        )),
        _ => None,
    }
}

fn json(life: &Life<BufReader<File>>, outcome: &Outcome, wall: Duration) -> serde_json::Value {
    let passed = life.passed();
    let difference = match outcome {
        Outcome::Different(it) => json!({
            "entry": it.entry,
            "at_s": it.now.monotonic.since(dhow_bundle::Instant::START).as_secs_f64(),
            "sentence": it.sentence,
        }),
        _ => serde_json::Value::Null,
    };
    json!({
        "node": life.node_id().to_string(),
        "program": life.program(),
        "payloads": life.content() == Content::Whole,
        "end": end(outcome),
        "difference": difference,
        "entries": passed.entries,
        "events": passed.events,
        "actions": passed.actions,
        "octets": passed.octets,
        "hash": format!("{:016x}", passed.digest),
        "recorded_s": life.lasted().as_secs_f64(),
        "wall_s": wall.as_secs_f64(),
    })
}

/// One word for how it ended.
const fn end(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::End(End::Finish(Finish::Node)) => "node",
        Outcome::End(End::Finish(Finish::Limit)) => "limit",
        Outcome::End(End::Cut { .. }) => "cut",
        Outcome::Different(_) => "different",
        Outcome::Interrupted => "interrupted",
    }
}

fn text(life: &Life<BufReader<File>>, outcome: &Outcome, wall: Duration) -> String {
    let passed = life.passed();
    let how = match outcome {
        Outcome::End(End::Finish(Finish::Node)) => "the same to its end".to_owned(),
        Outcome::End(End::Finish(Finish::Limit)) => {
            "the same to the size that the recording might have".to_owned()
        }
        Outcome::End(End::Cut { at }) => {
            format!("the same as far as it goes: it ends in the middle, after {at} octets")
        }
        Outcome::Different(it) => format!("different at entry {}", it.entry),
        Outcome::Interrupted => "interrupted".to_owned(),
    };
    let lasted = u64::try_from(life.lasted().as_millis()).unwrap_or(u64::MAX);
    format!(
        "{}  hash {:016x}  {} events, {} actions, {} written over {} in {}: {how}",
        life.node_id(),
        passed.digest,
        quantity::thousands(passed.events),
        quantity::thousands(passed.actions),
        quantity::size(passed.octets),
        quantity::span(lasted),
        quantity::elapsed(wall),
    )
}

/// A line of a trace.
fn shown(sight: &Sight<'_>) -> String {
    match sight {
        Sight::Event(Event::Octets { stream, octets }) => {
            format!("> stream {} brings octets: {}", stream.0, octets.len())
        }
        Sight::Event(Event::Read { ticket, octets }) => match octets {
            Some(octets) => format!("> read {} brings octets: {}", ticket.0, octets.len()),
            None => format!("> read {} failed", ticket.0),
        },
        Sight::Event(Event::Store(event)) => short("> store:", event),
        Sight::Event(event) => short(">", event),
        Sight::Timeout => "> timer".to_owned(),
        Sight::Action(Action::Store(StoreCommand::Append {
            key,
            octets: Piece::Octets(octets),
            ..
        })) => format!("< append to bundle {}, octets: {}", key.0, octets.len()),
        Sight::Action(Action::Store(command)) => short("< store:", command),
        Sight::Action(Action::Occurred(occurrence)) => short("< tells:", occurrence),
        Sight::Action(action) => short("<", action),
        Sight::Octets(stream, octets) => format!("< stream {} takes octets: {octets}", stream.0),
    }
}

/// The debug text of a value, in one line of a bounded length.
fn short(prefix: &str, value: &impl Debug) -> String {
    let mut line = String::new();
    let _ = write!(line, "{prefix} {value:?}");
    match line.char_indices().nth(LINE_CHARACTERS) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}
