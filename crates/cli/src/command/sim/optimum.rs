//! `dhow sim optimum`: the bound that no router beats.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use dhow_scenario::Scenario;
use dhow_sim::optimum::Optimum as Best;
use serde_json::json;

use super::lines::{mean_s, ratio};
use crate::arguments::{Common, parse_number};
use crate::command::lab::study::wrong;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};
use crate::quantity;

/// Compute the best delivery that a scenario's contacts allow
///
/// Each payload goes by the contacts that bring it to its destination first, as if all contacts were known in advance, every store had room and links had no rate; only delays of links count. No router can do better.
#[derive(Args, Debug)]
pub struct Optimum {
    /// The scenario
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// The seed [default: the scenario's, or 1]
    #[arg(long, value_name = "NUMBER", value_parser = parse_number)]
    seed: Option<u64>,
    /// Set a value of the scenario, as with dhow sim run; several times for several
    #[arg(long = "set", value_name = "PATH=VALUE")]
    settings: Vec<String>,
}

impl Optimum {
    /// Looks at all payloads.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let open = |settings: &[String]| {
            Scenario::open_with(&self.scenario, settings).map_err(|error| wrong(&error))
        };
        let mut scenario = open(&self.settings)?;
        let seed = self.seed.unwrap_or(scenario.seed);
        if scenario.every_seed && seed != scenario.seed {
            let seed = format!("seed={seed}");
            scenario = open(&[self.settings.as_slice(), &[seed]].concat())?;
        }
        let best = Best::of(&scenario, seed)
            .map_err(|error| Failure::refused(format!("cannot look at it: {error}")))?;
        let delivered = u64::try_from(best.delays.len()).unwrap_or(u64::MAX);
        let median = best.delays.get(best.delays.len() / 2);
        match common.form() {
            Form::Json => output::json(&json!({
                "seed": seed,
                "sent": best.sent,
                "delivered": delivered,
                "delivery_ratio": ratio(delivered, best.sent),
                "delay_mean_s": mean_s(&best.delays),
                "delay_median_s": median.map(Duration::as_secs_f64),
                "hops_mean": ratio(best.hops, delivered),
            }))?,
            Form::Text => {
                let shown = |time: Duration| {
                    quantity::span(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
                };
                let median = median.map_or_else(String::new, |median| {
                    format!("  median delay {}", shown(*median))
                });
                output::line(&format!(
                    "seed {seed}  {delivered} of {} can arrive{median}",
                    best.sent
                ))?;
            }
        }
        Ok(Ending::Done)
    }
}
