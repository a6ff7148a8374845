//! `dhow lab selftest`: whether emulated links keep to their rates, delays and losses, on this machine, now.

use std::time::Duration;

use clap::Args;
use dhow_testbed::selftest::{Finding, Trial, far, run, trials};

use super::failure;
use crate::arguments::{Common, parse_duration};
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::table::{Align, Table};

/// Measure links: delay, rate, loss, jitter, reordering, how many packets a second the emulator holds, and that no link gives more than its rate
///
/// Each line names what makes the link: for links that only have a rate, the kernel's token bucket (tbf) from 20 Mbit/s on, and the emulator below. Takes some 30 s. A busy machine delays packets, which shows. Needs root. Exit code 1 where a bound is missed.
#[derive(Args, Debug)]
pub struct Selftest {
    /// Measure links of 100 Mbit/s with these one-way delays instead, one after the other, each for 13 s and its delay: 1s,100s,20min; beyond 64 MiB what is under way is on disk, in the directory for temporary files
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = parse_light_time)]
    light_time: Vec<Duration>,
}

/// The longest light time that is measured: that of Neptune is four hours.
const LIGHT_TIME_MAX: Duration = Duration::from_secs(86_400);

fn parse_light_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    match time <= LIGHT_TIME_MAX {
        true => Ok(time),
        false => Err("at most a day: it is waited for".to_owned()),
    }
}

impl Selftest {
    /// Measures all properties of the machine.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        interrupt::allow_longer();
        let place = tempfile::tempdir()
            .map_err(|error| Failure::refused(format!("cannot make a directory: {error}")))?;
        let trials: Vec<Trial> = match self.light_time.as_slice() {
            [] => trials(),
            times => times.iter().copied().map(far).collect(),
        };
        let count = u64::try_from(trials.len()).unwrap_or(u64::MAX);
        let progress = Progress::stretch(count, "trials".to_owned());
        let mut findings = Vec::new();
        for (done, trial) in (0..).zip(&trials) {
            progress.say(done, trial.name.to_owned());
            let found = run(trial, place.path(), &|| !interrupt::is_requested());
            let Some(finding) = found.map_err(|error| failure("measure links", &error))? else {
                return Ok(Ending::Interrupted);
            };
            if common.form() == Form::Json {
                output::json(&finding)?;
            }
            findings.push(finding);
        }
        progress.finish();
        if common.form() == Form::Text {
            output::text(&table(&findings))?;
        }
        let missed = findings.iter().any(|finding| finding.held == Some(false));
        Ok(if missed {
            Ending::Incomplete
        } else {
            Ending::Done
        })
    }
}

fn table(findings: &[Finding]) -> String {
    let mut table = Table::new(&[
        ("TRIAL", Align::Left),
        ("LINK", Align::Left),
        ("ASKED", Align::Left),
        ("MEASURED", Align::Left),
        ("BOUND", Align::Left),
        ("", Align::Left),
    ]);
    for finding in findings {
        let word = match finding.held {
            Some(true) => "held",
            Some(false) => "MISSED",
            None => "",
        };
        table.push(vec![
            finding.name.clone(),
            finding.link.clone(),
            finding.asked.clone(),
            finding.measured.clone(),
            finding.bound.clone(),
            word.to_owned(),
        ]);
    }
    table.render(0)
}
