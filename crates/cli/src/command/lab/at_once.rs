//! Runs in network namespaces at once, for studies that wait for light more than they work.

use std::cell::Cell;
use std::time::{Duration, Instant};

use dhow_scenario::plan::PlannedRun;
use dhow_scenario::scenario::Processor;
use dhow_sim::run::Progress as Reached;
use dhow_testbed::results::{Run as Ran, Status};
use dhow_testbed::run;

use super::failure;
use super::run::{Run, tell};
use super::simulations::{LINE_EVERY, words};
use super::study::Study;
use crate::arguments::Common;
use crate::command::sim::count;
use crate::command::sim::seeds::{Post, Runner, Seeds};
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::progress::Progress;

/// The time between two looks at runs.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs of a study that are to be done, so many at once.
pub(super) struct AtOnce<'a> {
    /// The order of their doing.
    pub how: &'a Run,
    /// The study.
    pub study: &'a Study,
    /// The runs.
    pub left: &'a [PlannedRun],
    /// Runs at once.
    pub jobs: u64,
    /// Whether a line a second goes to stderr, also where nobody watches.
    pub in_lines: bool,
}

impl AtOnce<'_> {
    /// Runs them; the number of those that failed comes back.
    pub(super) fn run(&self, common: &Common) -> Result<u64, Failure> {
        let all = count(self.left.len());
        let seeds = Seeds {
            count: all,
            jobs: self.jobs,
            look_every: LOOK_EVERY,
        };
        let bar = Progress::stretch(all, self.study.name());
        let (mut failed, told) = (0, Cell::new(Instant::now()));
        let ran = seeds.run(
            self,
            |standing| {
                if !self.in_lines {
                    bar.say(standing.done, words(standing, all));
                } else if told.get().elapsed() >= LINE_EVERY {
                    told.set(Instant::now());
                    output::talk(&format!("{}: {}", self.study.name(), words(standing, all)));
                }
            },
            |ran| {
                failed += u64::from(matches!(ran.status, Status::Failed(_)));
                bar.hide(|| tell(self.study, &ran, common))
            },
        );
        bar.finish();
        ran.map(|()| failed)
    }
}

impl Runner for AtOnce<'_> {
    type Ran = Ran;

    fn run(&self, number: u64, post: &Post<'_, Ran>) -> Result<Ran, Failure> {
        let planned = usize::try_from(number)
            .ok()
            .and_then(|at| self.left.get(at));
        let planned = planned.ok_or_else(|| Failure::refused("there is no such run"))?;
        let scenario = self.study.scenario(planned)?;
        let mut hosts = scenario.nodes.iter().map(|node| &node.host.processor);
        if hosts.any(|it| matches!(it, Some(Processor::OfTcp(_)))) {
            let what = "a processor that is set by the rate of TCP is measured before each run, and --jobs wants several at once";
            return Err(Failure::usage(what).with_hint("--jobs 1, or a cpu in percent"));
        }
        let order = self.how.order(self.study, &scenario, planned, &[])?;
        let goes_on = || !interrupt::is_requested();
        let ran = run::run(&order, &goes_on, &mut |standing| {
            post.tell(Reached {
                time: standing.time,
                ..Reached::default()
            });
        });
        ran.map_err(|error| failure("run the scenario", &error))
    }

    fn is_last(&self, _: &Ran) -> bool {
        false
    }

    fn is_stopped(&self) -> bool {
        interrupt::is_requested()
    }
}
