//! `dhow lab selftest`: whether emulated links keep to their rates, delays and losses, on this machine, now.

use clap::Args;
use dhow_testbed::selftest::{Finding, run, trials};

use super::failure;
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::table::{Align, Table};

/// Measure links: delay, rate, loss, jitter, reordering, how many packets a second the emulator holds, and that no link gives more than its rate
///
/// Each line names what makes the link: for links that only have a rate, the kernel's token bucket (tbf) from 20 Mbit/s on, and the emulator below. Takes some 30 s. A busy machine delays packets, which shows. Needs root. Exit code 1 where a bound is missed.
#[derive(Args, Debug)]
pub struct Selftest {}

impl Selftest {
    /// Measures all properties of the machine.
    #[expect(clippy::unused_self, reason = "as all commands")]
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        interrupt::allow_longer();
        let place = tempfile::tempdir()
            .map_err(|error| Failure::refused(format!("cannot make a directory: {error}")))?;
        let count = u64::try_from(trials().len()).unwrap_or(u64::MAX);
        let progress = Progress::stretch(count, "trials".to_owned());
        let mut findings = Vec::new();
        for (done, trial) in (0..).zip(trials()) {
            if interrupt::is_requested() {
                return Ok(Ending::Interrupted);
            }
            progress.say(done, trial.name.to_owned());
            let finding = run(trial, place.path());
            let finding = finding.map_err(|error| failure("measure links", &error))?;
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
