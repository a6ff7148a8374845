//! The pieces into which files are cut: of a size that is given, or that is found.

use std::str::FromStr;

use dhow_bundle::EndpointId;
use dhow_client::Address;
use serde_json::json;

use crate::arguments::parse_size;
use crate::failure::Failure;
use crate::measurement::best_size::{self, SIZE_MIN, Trial};
use crate::output::{self, Form};
use crate::quantity;

/// Octets of a piece, or that they are to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// At most so many octets a piece.
    Octets(u64),
    /// The size that the path carries best.
    Auto,
}

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            text => parse_size(text).map(Self::Octets),
        }
    }
}

impl Split {
    /// Octets of a piece on the way to `destination`; a size that is found is said.
    pub fn octets(
        self,
        node: &Address,
        destination: &EndpointId,
        largest: u64,
        form: Form,
    ) -> Result<Option<u64>, Failure> {
        match self {
            Self::Octets(octets) => Ok(Some(octets)),
            // Nothing to cut.
            Self::Auto if largest <= SIZE_MIN => Ok(None),
            Self::Auto => {
                output::talk("trying bundle sizes ...");
                let trials = best_size::trials(node, destination, largest)?;
                let chosen = best_size::choose(&trials);
                let octets = chosen.map_or(best_size::DEFAULT, |trial| trial.size);
                match form {
                    Form::Text => output::talk(&words(chosen, &trials)),
                    Form::Json => output::json(&json!({
                        "event": "split",
                        "size_octets": octets,
                        "trials": trials.iter().map(|trial| json!({
                            "size_octets": trial.size, "octets_per_s": trial.goodput
                        })).collect::<Vec<_>>(),
                    }))?,
                }
                Ok(Some(octets))
            }
        }
    }
}

fn words(chosen: Option<Trial>, trials: &[Trial]) -> String {
    let Some(chosen) = chosen else {
        return format!(
            "no perf service answered; cutting into bundles of {}",
            quantity::size(best_size::DEFAULT)
        );
    };
    let trials: Vec<String> = trials
        .iter()
        .map(|trial| {
            format!(
                "{} at {}/s",
                quantity::size(trial.size),
                quantity::size(trial.goodput)
            )
        })
        .collect();
    format!(
        "cutting into bundles of {}, the smallest size nearly as fast as any ({})",
        quantity::size(chosen.size),
        trials.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_is_a_size_or_auto() {
        assert_eq!("auto".parse(), Ok(Split::Auto));
        assert_eq!("50kB".parse(), Ok(Split::Octets(50_000)));
        assert!("0".parse::<Split>().is_err() && "best".parse::<Split>().is_err());
    }

    #[test]
    fn it_is_said_which_size_was_found_and_why() {
        let trials = [(2_000, 40_000_000), (10_000, 99_000_000)];
        let trials = trials.map(|(size, goodput)| Trial { size, goodput });
        assert_eq!(
            words(best_size::choose(&trials), &trials),
            "cutting into bundles of 10.0 kB, the smallest size nearly as fast as any (2.0 kB at 40.0 MB/s, 10.0 kB at 99.0 MB/s)"
        );
        assert_eq!(
            words(None, &[]),
            "no perf service answered; cutting into bundles of 100.0 kB"
        );
    }
}
