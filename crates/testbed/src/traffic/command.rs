//! The commands for a running sender: a line each on its standard input, or planned.

use std::str::FromStr;
use std::time::Duration;

use super::schedule::PatternError;

/// Something that a running sender is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Nothing more leaves.
    Pause,
    /// The sender goes on where it paused; packets that would have left meanwhile are not made up for.
    Resume,
    /// The program ends.
    Exit,
    /// A property of the pattern has another value.
    Set {
        /// Such as `cbr:rate`.
        name: String,
        /// Its value.
        value: String,
    },
}

/// A command and when it comes, from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The time, from the start.
    pub at: Duration,
    /// The command that comes then.
    pub command: Command,
}

/// Why a command is not followed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CommandError {
    /// The line is no command.
    #[error("'{0}' is none of pause, resume, exit and PROPERTY VALUE")]
    Unknown(String),
    /// The pattern has no such property.
    #[error("this flow has no property '{0}'")]
    NoProperty(String),
    /// The property cannot have that value.
    #[error("{name} cannot be '{value}'")]
    Value {
        /// The name of the property.
        name: String,
        /// The value that was asked for.
        value: String,
    },
    /// No packets leave in such a pattern.
    #[error("cannot send such packets: {0}")]
    Pattern(#[from] PatternError),
}

impl FromStr for Command {
    type Err = CommandError;

    /// A line as OTG reads it: `pause`, `resume`, `exit`, or an option with its value, with dashes or without.
    fn from_str(line: &str) -> Result<Self, CommandError> {
        let line = line.trim();
        let bare = line.trim_start_matches('-');
        match bare {
            "pause" => return Ok(Self::Pause),
            "resume" => return Ok(Self::Resume),
            "exit" => return Ok(Self::Exit),
            _ => {}
        }
        let (name, value) = bare
            .split_once(|c: char| c == '=' || c.is_whitespace())
            .ok_or_else(|| CommandError::Unknown(line.to_owned()))?;
        Ok(Self::Set {
            name: name.to_owned(),
            value: value.trim().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_otg() {
        let set = |name: &str, value: &str| Command::Set {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        for (line, command) in [
            ("pause", Command::Pause),
            ("resume\n", Command::Resume),
            ("exit", Command::Exit),
            ("cbr:rate 1000000", set("cbr:rate", "1000000")),
            ("--cbr:rate=1e6", set("cbr:rate", "1e6")),
            ("--cbr:size   64", set("cbr:size", "64")),
        ] {
            assert_eq!(line.parse(), Ok(command), "{line}");
        }
        assert_eq!(
            "stop".parse::<Command>(),
            Err(CommandError::Unknown("stop".to_owned()))
        );
    }
}
