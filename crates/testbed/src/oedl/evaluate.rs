//! A Ruby interpreter evaluates a script: a process of its own, with little time, memory and output, no network and no files.

use std::io::{self, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::plan::Plan;
use super::script::Script;
use crate::place::needs::found;

/// The parts of OEDL for the interpreter, in the order in which it reads them.
const LANGUAGE: [&str; 7] = [
    include_str!("language/plan.rb"),
    include_str!("language/property.rb"),
    include_str!("language/application.rb"),
    include_str!("language/group.rb"),
    include_str!("language/builtin.rb"),
    include_str!("language/language.rb"),
    include_str!("language/evaluate.rb"),
];

/// The longest time to evaluate a script.
const TIME_MAX: Duration = Duration::from_secs(10);

/// The interval between looks at the interpreter's end.
const LOOK: Duration = Duration::from_millis(5);

/// Octets of a plan.
const PLAN_OCTETS_MAX: u64 = 16 << 20;

/// Octets of a script.
const SCRIPT_OCTETS_MAX: usize = 1 << 20;

/// Octets that are kept of what the script prints.
const PRINTED_OCTETS_MAX: u64 = 64 << 10;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum OedlError {
    /// The script says something that no plan can have.
    #[error("{}{what}", line.map_or_else(String::new, |line| format!("line {line}: ")))]
    Script {
        /// The script's line.
        line: Option<u32>,
        /// The fault.
        what: String,
        /// The advice for a person, if there is any.
        hint: Option<String>,
    },
    /// There is no interpreter.
    #[error("there is no Ruby interpreter")]
    NoRuby,
    /// The interpreter cannot be run.
    #[error("the Ruby interpreter cannot be run: {0}")]
    Ruby(#[from] io::Error),
    /// The evaluation took too long.
    #[error("the script takes too long to be evaluated")]
    TooLong,
    /// The script is longer than any script.
    #[error("the script has more than {SCRIPT_OCTETS_MAX} octets")]
    TooLarge,
    /// The interpreter said something else than a plan.
    #[error("the Ruby interpreter made no plan: {0}")]
    NoPlan(String),
}

impl OedlError {
    /// A fault of a line.
    pub(super) fn of_line(line: Option<u32>, what: impl Into<String>) -> Self {
        Self::Script {
            line,
            what: what.into(),
            hint: None,
        }
    }

    /// The advice for a person, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Script { hint, .. } => hint.clone(),
            Self::NoRuby => Some("apt-get install ruby (3.0 or newer)".to_owned()),
            Self::TooLong => Some("does one of its loops not end?".to_owned()),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Error { error: Refusal },
    Plan(Box<Plan>),
}

#[derive(Deserialize)]
struct Refusal {
    line: Option<u32>,
    what: String,
    hint: Option<String>,
}

/// Evaluates a script, with values for some of its properties: names and values in turn.
///
/// # Errors
/// Why there is no plan.
pub fn evaluate(script: &Script, properties: &[(String, String)]) -> Result<Plan, OedlError> {
    if script.text().len() > SCRIPT_OCTETS_MAX {
        return Err(OedlError::TooLarge);
    }
    let mut child = start(properties)?;
    let program = format!("{}\n__END__\n{}", LANGUAGE.concat(), script.text());
    let (input, output, talk) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (written, said, talked) = thread::scope(|scope| {
        let writing = scope.spawn(move || match input {
            Some(mut input) => input.write_all(program.as_bytes()),
            None => Ok(()),
        });
        let saying = scope.spawn(move || read(output, PLAN_OCTETS_MAX));
        let talking = scope.spawn(move || read(talk, PRINTED_OCTETS_MAX));
        let ended = wait(&mut child);
        (ended, saying.join(), (talking.join(), writing.join()))
    });
    // The interpreter's own bound of its processor time ends it by a signal.
    if written?.signal().is_some() {
        return Err(OedlError::TooLong);
    }
    let octets = said.unwrap_or_default();
    match serde_json::from_slice(&octets) {
        Ok(Answer::Plan(plan)) => Ok(*plan),
        Ok(Answer::Error { error }) => Err(OedlError::Script {
            line: error.line,
            what: error.what,
            hint: error.hint,
        }),
        Err(error) => {
            let talked = talked.0.unwrap_or_default();
            let words = String::from_utf8_lossy(&talked);
            let first = words
                .lines()
                .last()
                .map_or_else(|| error.to_string(), str::to_owned);
            Err(OedlError::NoPlan(first))
        }
    }
}

/// The interpreter, in a network of its own where the system lets it have one.
fn start(properties: &[(String, String)]) -> Result<Child, OedlError> {
    const ALONE: [&str; 4] = ["unshare", "--net", "--map-root-user", "--"];
    let is_possible = |words: &[&str]| {
        let mut command = Command::new("unshare");
        let quiet = command
            .args(words.iter().skip(1))
            .arg("true")
            .stdin(Stdio::null());
        let quiet = quiet.stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    };
    let alone: &[&str] = if is_possible(&ALONE) { &ALONE } else { &[] };
    let mut words = alone
        .iter()
        .copied()
        .chain(["ruby", "--disable-gems", "-W0", "-"]);
    let mut command = Command::new(words.next().unwrap_or("ruby"));
    command
        .args(words)
        .args(properties.iter().flat_map(|(name, value)| [name, value]))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LANG", "C.UTF-8")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if found("ruby").is_none() {
        return Err(OedlError::NoRuby);
    }
    Ok(command.spawn()?)
}

fn read(source: Option<impl Read>, octets_max: u64) -> Vec<u8> {
    let mut octets = Vec::new();
    if let Some(source) = source {
        // Octets read before a failure are judged by their content.
        let _ = source.take(octets_max).read_to_end(&mut octets);
    }
    octets
}

/// Waits until the interpreter has ended, or ends it.
fn wait(child: &mut Child) -> Result<ExitStatus, OedlError> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() >= TIME_MAX {
            child.kill()?;
            child.wait()?;
            return Err(OedlError::TooLong);
        }
        thread::sleep(LOOK);
    }
}
