//! A pattern's properties, as the options of OTG name and write them: on its command line, and for a sender that runs.

use std::time::Duration;

use dhow_document::quantity::parse_rate;

use super::command::{Command, CommandError, Planned};
use super::schedule::{Bursts, Pace, Pattern};

/// Checks that a sender of this pattern can follow all planned commands of its time, so that none fails when the flow has long begun.
///
/// # Errors
/// The first command that it could not follow.
pub fn check_planned(pattern: Pattern, planned: &[Planned]) -> Result<(), CommandError> {
    let mut in_time: Vec<&Planned> = planned.iter().collect();
    in_time.sort_by_key(|planned| planned.at);
    let follow = |pattern: Pattern, planned: &Planned| match &planned.command {
        Command::Set { name, value } => Ok(change(pattern, name, value)?.checked()?),
        Command::Pause | Command::Resume | Command::Exit => Ok(pattern),
    };
    in_time.into_iter().try_fold(pattern, follow).map(|_| ())
}

/// The pattern with another value of a property, as the options of OTG name them.
pub fn change(pattern: Pattern, name: &str, value: &str) -> Result<Pattern, CommandError> {
    let wrong = || CommandError::Value {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let unknown = || CommandError::NoProperty(name.to_owned());
    let seconds = || parse_seconds(value).map_err(|_| wrong());
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
        ("rate", _) => changed.pace = Pace::BitsPerS(parse_bits(value).map_err(|_| wrong())?),
        ("interval", Bursts::Always) => changed.pace = Pace::Interval(seconds()?),
        ("ontime", Bursts::Exponential { on, .. } | Bursts::Pareto { on, .. }) => *on = seconds()?,
        ("offtime", Bursts::Exponential { off, .. } | Bursts::Pareto { off, .. }) => {
            *off = seconds()?;
        }
        ("shape", Bursts::Pareto { shape, .. }) => *shape = value.parse().map_err(|_| wrong())?,
        _ => return Err(unknown()),
    }
    Ok(changed)
}

/// bit/s: a number as OTG takes it, or one with a unit.
///
/// # Errors
/// Why it is none.
pub fn parse_bits(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(number) => Duration::try_from_secs_f64(number.round())
            .map(|whole| whole.as_secs())
            .map_err(|_| format!("'{text}' is not a rate")),
        Err(_) => parse_rate(text)
            .map(|octets| octets.saturating_mul(8))
            .map_err(|_| format!("'{text}' is not a rate; for example 1000000, 1e6 or 1Mbit")),
    }
}

/// Seconds as OTG takes them.
///
/// # Errors
/// Why they are none.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number of seconds"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time < Duration::from_secs(1 << 33) => Ok(time),
        _ => Err(format!("'{text}' seconds are not a valid time")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::schedule::PatternError;

    #[test]
    fn a_property_is_the_patterns_own_or_refused() {
        let on = Duration::from_secs(1);
        let constant = Pattern {
            octets: 512,
            pace: Pace::BitsPerS(4_096),
            bursts: Bursts::Always,
        };
        let bursts = Bursts::Exponential { on, off: on };
        let bursty = Pattern { bursts, ..constant };
        let faster = change(constant, "cbr:rate", "2.5e6").unwrap();
        assert_eq!(
            (faster.pace, faster.octets),
            (Pace::BitsPerS(2_500_000), 512)
        );
        let with_unit = change(constant, "cbr:rate", "1Mbit").unwrap();
        assert_eq!(with_unit.pace, Pace::BitsPerS(1_000_000));
        let apart = change(constant, "cbr:interval", "0.5").unwrap();
        assert_eq!(apart.pace, Pace::Interval(Duration::from_millis(500)));
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
    #[test]
    fn a_plan_is_followed_in_its_time_and_its_mistakes_are_known_before() {
        let constant = Pattern {
            octets: 512,
            pace: Pace::BitsPerS(4_096),
            bursts: Bursts::Always,
        };
        let check = |lines: &[(u64, &str)]| {
            let planned: Vec<Planned> = lines
                .iter()
                .map(|(at_s, line)| Planned {
                    at: Duration::from_secs(*at_s),
                    command: line.parse().unwrap(),
                })
                .collect();
            check_planned(constant, &planned)
        };
        assert_eq!(
            check(&[(9, "cbr:rate 1e6"), (1, "pause"), (2, "resume")]),
            Ok(())
        );
        let refused = check(&[(1, "pause"), (2, "exp:rate 5")]);
        assert_eq!(
            refused,
            Err(CommandError::NoProperty("exp:rate".to_owned()))
        );
        let refused = check(&[(2, "cbr:size 3")]);
        assert_eq!(refused, Err(PatternError::Octets(3).into()));
    }

    #[test]
    fn rates_are_numbers_as_otg_takes_them_or_have_a_unit() {
        for (text, bits) in [
            ("56623104", 56_623_104),
            ("54e6", 54_000_000),
            ("1000.4", 1_000),
            ("1Mbit", 1_000_000),
        ] {
            assert_eq!(parse_bits(text), Ok(bits), "{text}");
        }
        assert!(parse_bits("-1").is_err() && parse_bits("fast").is_err());
    }
}
