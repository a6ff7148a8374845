//! What a running sender may be told: a line each on its standard input, or planned.

use std::str::FromStr;
use std::time::Duration;

use super::schedule::{Bursts, Pattern, PatternError};

/// Something that a running sender is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Nothing more leaves.
    Pause,
    /// It goes on where it paused; what would have left meanwhile is not made up for.
    Resume,
    /// It ends.
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
    /// When.
    pub at: Duration,
    /// What.
    pub command: Command,
}

/// Why a command is not followed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CommandError {
    /// It is none.
    #[error("'{0}' is none of pause, resume, exit and PROPERTY VALUE")]
    Unknown(String),
    /// The pattern has no such property.
    #[error("this flow has no property '{0}'")]
    NoProperty(String),
    /// The property cannot have that value.
    #[error("{name} cannot be '{value}'")]
    Value {
        /// Which.
        name: String,
        /// What was wanted.
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

/// The pattern with another value of a property, as the options of OTG name them.
pub fn change(pattern: Pattern, name: &str, value: &str) -> Result<Pattern, CommandError> {
    let wrong = || CommandError::Value {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let unknown = || CommandError::NoProperty(name.to_owned());
    let number = || value.parse::<f64>().ok().filter(|number| *number >= 0.0);
    let seconds = || {
        number()
            .and_then(|number| Duration::try_from_secs_f64(number).ok())
            .ok_or_else(wrong)
    };
    let (generator, property) = name.split_once(':').ok_or_else(unknown)?;
    let fits = match pattern.bursts {
        Bursts::Always => generator == "cbr",
        Bursts::Exponential { .. } => matches!(generator, "exp" | "expo" | "expoo"),
        Bursts::Pareto { .. } => generator == "pareto",
    };
    if !fits {
        return Err(unknown());
    }
    let mut changed = pattern;
    match (property, &mut changed.bursts) {
        ("size", _) => changed.octets = value.parse().map_err(|_| wrong())?,
        ("rate", _) => changed.bits_per_s = number().and_then(whole).ok_or_else(wrong)?,
        ("ontime", Bursts::Exponential { on, .. } | Bursts::Pareto { on, .. }) => *on = seconds()?,
        ("offtime", Bursts::Exponential { off, .. } | Bursts::Pareto { off, .. }) => {
            *off = seconds()?;
        }
        ("shape", Bursts::Pareto { shape, .. }) => *shape = number().ok_or_else(wrong)?,
        _ => return Err(unknown()),
    }
    Ok(changed)
}

/// A rate as a whole number of bit/s.
fn whole(number: f64) -> Option<u64> {
    Duration::try_from_secs_f64(number.round())
        .ok()
        .map(|time| time.as_secs())
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

    #[test]
    fn a_property_is_the_patterns_own_or_refused() {
        let on = Duration::from_secs(1);
        let constant = Pattern {
            octets: 512,
            bits_per_s: 4_096,
            bursts: Bursts::Always,
        };
        let bursts = Bursts::Exponential { on, off: on };
        let bursty = Pattern { bursts, ..constant };
        let faster = change(constant, "cbr:rate", "2.5e6").unwrap();
        assert_eq!((faster.bits_per_s, faster.octets), (2_500_000, 512));
        let Bursts::Exponential { on, off } = change(bursty, "exp:ontime", "0.25").unwrap().bursts
        else {
            panic!("another kind of burst")
        };
        assert_eq!((on.as_millis(), off.as_millis()), (250, 1_000));
        for (name, value) in [("exp:rate", "1"), ("cbr:ontime", "1"), ("rate", "1")] {
            let refused = change(constant, name, value);
            assert_eq!(refused, Err(CommandError::NoProperty(name.to_owned())));
        }
        assert!(change(constant, "cbr:rate", "-1").is_err());
        assert!(change(constant, "cbr:size", "many").is_err());
    }
}
