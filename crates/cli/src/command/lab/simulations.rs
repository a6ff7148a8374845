//! Runs of a study in virtual time, beside each other and told in their order.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dhow_scenario::Scenario;
use dhow_scenario::plan::PlannedRun;
use dhow_sim::Run as Simulation;
use dhow_testbed::results::Point;
use dhow_testbed::simulated::name;

use super::page::Page;
use crate::command::sim::seeds::{Post, Runner, Seeds, Standing};
use crate::command::sim::{count, memory};
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::progress::Progress;
use crate::quantity;

/// The interval between two looks at how far they are.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The interval between lines of progress.
pub(super) const LINE_EVERY: Duration = Duration::from_secs(1);

/// Parts of each run that a bar tells apart.
const PARTS: u64 = 1000;

/// A study whose runs are done in virtual time.
pub trait Work: Sync {
    /// The result of a run.
    type Ran: Send;

    /// Its name.
    fn name(&self) -> String;

    /// The scenario of a run.
    fn scenario(&self, run: &PlannedRun) -> Result<Scenario, Failure>;

    /// Does a run for as long as it goes on.
    fn simulate(
        &self,
        scenario: &Scenario,
        run: &PlannedRun,
        goes_on: &mut dyn FnMut(&Simulation) -> bool,
    ) -> Result<Self::Ran, Failure>;

    /// Whether no run after one of which this came is wanted.
    fn is_last(&self, _: &Self::Ran) -> bool {
        false
    }
}

/// Runs in virtual time that are to be done.
pub struct Simulations<'a, W> {
    /// The study.
    pub work: &'a W,
    /// The runs.
    pub left: &'a [PlannedRun],
    /// Runs at once; nothing for as many as there are cores and as memory is expected to hold.
    pub jobs: Option<u64>,
    /// Octets that all runs under way may take.
    pub memory_limit: u64,
    /// Whether a line a second goes to stderr, also where nobody watches.
    pub in_lines: bool,
    /// The page on which they are shown.
    pub page: Option<&'a Page>,
}

impl<W: Work> Simulations<'_, W> {
    /// Runs them; `tell` is given the result of each, in order.
    pub fn run(&self, mut tell: impl FnMut(W::Ran) -> Result<(), Failure>) -> Result<(), Failure> {
        let runs = Runs {
            simulations: self,
            ends: Mutex::default(),
        };
        let all = Seeds {
            count: count(self.left.len()),
            jobs: self.jobs()?,
            look_every: LOOK_EVERY,
        };
        let watch = Watch::of(&runs);
        let ran = all.run(
            &runs,
            |standing| {
                watch.look(standing);
                if let Some(page) = self.page {
                    page.under_way(standing, &|number| runs.named(number));
                }
            },
            |ran| watch.bar.hide(|| tell(ran)),
        );
        watch.bar.finish();
        ran
    }

    fn jobs(&self) -> Result<u64, Failure> {
        // The runs of a study are about as large.
        match self.left.first() {
            Some(first) => memory::jobs(self.jobs, &self.work.scenario(first)?, self.memory_limit),
            None => Ok(1),
        }
    }
}

/// Runs one after the other on each thread.
struct Runs<'a, W> {
    simulations: &'a Simulations<'a, W>,
    /// When each that was begun ends at the latest.
    ends: Mutex<BTreeMap<u64, Duration>>,
}

impl<W> Runs<'_, W> {
    /// The name of a run that was begun, its settings, and when it ends at the latest.
    fn named(&self, number: u64) -> Option<(String, String, Duration)> {
        let at = usize::try_from(number).ok()?;
        let planned = self.simulations.left.get(at)?;
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let end = ends.get(&number).copied()?;
        Some((name(planned), Point(planned.point.clone()).to_string(), end))
    }
}

impl<W: Work> Runner for Runs<'_, W> {
    type Ran = W::Ran;

    fn run(&self, number: u64, post: &Post<'_, W::Ran>) -> Result<W::Ran, Failure> {
        let Simulations { work, left, .. } = self.simulations;
        let planned = usize::try_from(number).ok().and_then(|at| left.get(at));
        let planned = planned.ok_or_else(|| Failure::refused("there is no such run"))?;
        let scenario = work.scenario(planned)?;
        let ends = self.ends.lock();
        (ends.unwrap_or_else(PoisonError::into_inner)).insert(number, scenario.stop.at);
        let (name, set) = (name(planned), Point(planned.point.clone()).to_string());
        work.simulate(&scenario, planned, &mut |simulation| {
            if let Some(page) = self.simulations.page {
                page.look_into(&name, &set, &scenario, simulation);
            }
            post.tell(simulation.progress()) && !interrupt::is_requested()
        })
    }

    fn is_last(&self, ran: &W::Ran) -> bool {
        self.simulations.work.is_last(ran)
    }

    fn is_stopped(&self) -> bool {
        interrupt::is_requested()
    }
}

/// The number of runs of all that are done, and under way, for people.
pub(super) fn words(standing: &Standing, all: u64) -> String {
    let (all, done) = (quantity::thousands(all), quantity::thousands(standing.done));
    let under_way = standing.under_way.len();
    format!("{done} of {all} runs done, {under_way} under way")
}

/// Tells how far they are.
struct Watch<'a, W> {
    runs: &'a Runs<'a, W>,
    bar: Progress,
    told: std::cell::Cell<Instant>,
}

impl<'a, W: Work> Watch<'a, W> {
    fn of(runs: &'a Runs<'a, W>) -> Self {
        let total = count(runs.simulations.left.len()).saturating_mul(PARTS);
        Self {
            runs,
            bar: Progress::stretch(total, runs.simulations.work.name()),
            told: std::cell::Cell::new(Instant::now()),
        }
    }

    fn look(&self, standing: &Standing) {
        let words = || words(standing, count(self.runs.simulations.left.len()));
        if !self.runs.simulations.in_lines {
            let done = standing.done.saturating_mul(PARTS);
            return self.bar.say(done + self.parts(standing), words());
        }
        if self.told.get().elapsed() >= LINE_EVERY {
            self.told.set(Instant::now());
            output::talk(&format!(
                "{}: {}",
                self.runs.simulations.work.name(),
                words()
            ));
        }
    }

    /// Parts of those under way that are done.
    fn parts(&self, standing: &Standing) -> u64 {
        let ends = self.runs.ends.lock();
        let ends = ends.unwrap_or_else(PoisonError::into_inner);
        let parts = standing.under_way.iter().map(|(number, at)| {
            let end = ends.get(number).map_or(0, Duration::as_millis).max(1);
            let part = at.time.as_millis() * u128::from(PARTS) / end;
            u64::try_from(part).map_or(PARTS, |part| part.min(PARTS))
        });
        parts.sum()
    }
}
