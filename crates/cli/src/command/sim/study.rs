//! All runs of a study in virtual time, and a table of their results.

use std::time::{Duration, Instant};

use dhow_scenario::Scenario;
use dhow_scenario::plan::{Plan, PlannedRun};
use dhow_sim::Run as Simulation;
use dhow_testbed::report::{Estimated, Repeats};
use dhow_testbed::results::{Backend, Figure, Results};
use dhow_testbed::simulated::{self, Ended};

use super::run::Run;
use super::{count, findings, lines};
use crate::arguments::Common;
use crate::command::lab::report::of_one;
use crate::command::lab::simulations::{Simulations, Work};
use crate::command::lab::study::{Settings, Study as Kept, impossible, name_of, unkept, wrong};
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::quantity;
use crate::table::{Align, Table};

/// Figures of the table, by the names of The ONE's message statistics, with their decimals; those of times follow from the times.
const FIGURES: [(&str, Option<usize>); 5] = [
    ("delivery_prob", Some(3)),
    ("overhead_ratio", Some(1)),
    ("latency_avg", None),
    ("hopcount_avg", Some(2)),
    ("buffertime_avg", None),
];

/// The runs of a scenario's variants and of what it sweeps, each with several seeds.
pub struct Study<'a> {
    command: &'a Run,
    plan: Plan,
    /// The directory of results, where they are kept.
    kept: Option<Kept>,
}

/// A run that has ended.
pub struct Ran {
    planned: PlannedRun,
    ended: Ended,
    figures: Vec<Figure>,
}

impl<'a> Study<'a> {
    /// The study of a command, of which all runs can be run.
    fn of(command: &'a Run) -> Result<Self, Failure> {
        let settings = Settings {
            settings: command.study_settings(),
            full: command.full,
        };
        let path = &command.scenario;
        let mut plan = Kept::plan(path, &settings)?;
        Kept::check_report(path, &plan)?;
        Kept::tell_notes(&plan)?;
        Kept::check_simulated(&plan, command.memory_limit())?;
        let kept = match &command.out {
            None => None,
            Some(out) => {
                let results = Results::create(out).map_err(|error| unkept(&error))?;
                let kept = Kept::new(path, plan.clone(), &settings, None, results);
                kept.write_manifest(&[Backend::Sim], &[])?;
                kept.copy_paper()?;
                Some(kept)
            }
        };
        // Nothing else of this machine changes while they run, so no order is to be drawn.
        plan.runs.sort_by_key(|run| run.number);
        Ok(Self {
            command,
            plan,
            kept,
        })
    }

    /// Runs the study of a command.
    pub fn run(command: &'a Run, common: &Common) -> Result<Ending, Failure> {
        let planned = Self::of(command);
        if planned.is_err() && interrupt::is_requested() {
            return Ok(Ending::Interrupted);
        }
        let study = planned?;
        interrupt::allow_longer();
        let simulations = Simulations {
            work: &study,
            left: &study.plan.runs,
            jobs: command.jobs,
            memory_limit: command.memory_limit(),
            in_lines: command.progress,
            page: None,
        };
        let begun = Instant::now();
        let mut tally = Tally::default();
        simulations.run(|ran| {
            study.tell(&ran, common.form())?;
            tally.add(&ran);
            Ok(())
        })?;
        if common.form() == Form::Text {
            output::text(&format!("\n{}", table(&tally.repeats)))?;
        }
        study.report()?;
        tally.tell(study.plan.runs.len(), begun.elapsed());
        Ok(tally.ending())
    }

    /// Prints a run.
    fn tell(&self, ran: &Ran, form: Form) -> Result<(), Failure> {
        let outcome = &ran.ended.outcome;
        // It was begun as the command was interrupted: nothing has happened in it.
        if outcome.interrupted && outcome.progress.events == 0 {
            return Ok(());
        }
        let settings = ran.planned.settings.iter().filter(|it| {
            // The seed has an option of its own, and one run has no repeats.
            !it.starts_with("seed=") && !it.starts_with("runs.")
        });
        let settings: Vec<String> = settings.cloned().collect();
        let command = self.command.command_of(&settings);
        match form {
            Form::Json => {
                let mut line = lines::json(outcome, ran.ended.wall, &command);
                lines::add_point(&mut line, &ran.planned, &ran.figures);
                output::json(&line)?;
            }
            Form::Text => {
                let line = lines::text(outcome, ran.ended.wall);
                output::line(&format!("{}{line}", lines::point(&ran.planned)))?;
            }
        }
        findings::tell(outcome, &command);
        Ok(())
    }

    /// Writes the report of what is kept; of nothing there is none.
    fn report(&self) -> Result<(), Failure> {
        if let Some(kept) = &self.kept
            && kept.has_run()?
        {
            let (page, _) = of_one(kept.results.directory())?;
            output::talk(&format!("the report is {}", page.display()));
        }
        Ok(())
    }
}

impl Work for Study<'_> {
    type Ran = Ran;

    fn name(&self) -> String {
        name_of(&self.command.scenario)
    }

    fn scenario(&self, run: &PlannedRun) -> Result<Scenario, Failure> {
        let mut scenario = self.plan.scenario(run).map_err(|error| wrong(&error))?;
        self.command.shorten(&mut scenario);
        Ok(scenario)
    }

    fn simulate(
        &self,
        scenario: &Scenario,
        run: &PlannedRun,
        goes_on: &mut dyn FnMut(&Simulation) -> bool,
    ) -> Result<Ran, Failure> {
        let ended = simulated::run(scenario, run.seed, goes_on).map_err(|it| impossible(&it))?;
        let has_begun = ended.outcome.progress.events > 0;
        if let Some(kept) = self.kept.as_ref().filter(|_| has_begun) {
            kept.keep(&ended, scenario, run)?;
        }
        Ok(Ran {
            planned: run.clone(),
            figures: ended.figures(),
            ended,
        })
    }

    fn is_last(&self, ran: &Ran) -> bool {
        !self.command.keep_going && !ran.ended.outcome.findings.is_empty()
    }
}

/// The results of all runs, counted.
#[derive(Default)]
struct Tally {
    repeats: Repeats,
    /// Runs that went to their end.
    whole: u64,
    /// Runs that were interrupted.
    partial: u64,
    violations: u64,
}

impl Tally {
    fn add(&mut self, ran: &Ran) {
        let outcome = &ran.ended.outcome;
        self.violations = self.violations.saturating_add(outcome.violations);
        if outcome.interrupted {
            self.partial += u64::from(outcome.progress.events > 0);
            return;
        }
        self.whole += 1;
        let planned = &ran.planned;
        self.repeats.add(&planned.point, planned.seed, &ran.figures);
    }

    fn tell(&self, planned: usize, elapsed: Duration) {
        if interrupt::is_requested() {
            output::note(&format!(
                "interrupted: {} of {} runs went to their end, {} in part",
                quantity::thousands(self.whole),
                quantity::thousands(count(planned)),
                quantity::thousands(self.partial)
            ));
        }
        output::talk(&format!(
            "{} runs in {}, {} violations",
            quantity::thousands(self.whole),
            quantity::elapsed(elapsed),
            quantity::thousands(self.violations)
        ));
    }

    fn ending(&self) -> Ending {
        if interrupt::is_requested() {
            Ending::Interrupted
        } else if self.violations > 0 {
            Ending::Incomplete
        } else {
            Ending::Done
        }
    }
}

/// A row for each point: of each figure the mean over seeds, half of its 95 % interval, and the standard deviation.
fn table(repeats: &Repeats) -> String {
    let keys = repeats.keys();
    let keys = keys.into_iter().map(|key| (key, Align::Left));
    let figures = FIGURES.map(|(name, _)| (name, Align::Right));
    let columns: Vec<(&str, Align)> = keys
        .chain([("runs", Align::Right)])
        .chain(figures)
        .collect();
    let mut table = Table::new(&columns);
    for row in repeats.rows(&FIGURES.map(|(name, _)| name)) {
        let set = row.set.iter().map(|value| (*value).to_owned());
        let figures = row.figures.iter().zip(FIGURES);
        let figures = figures.map(|(figure, (_, decimals))| cell(figure.as_ref(), decimals));
        let runs = quantity::thousands(row.runs);
        table.push(set.chain([runs]).chain(figures).collect());
    }
    let heading =
        "mean over seeds ± half of its 95 % interval (standard deviation); times in seconds";
    format!("{heading}\n{}", table.render(0))
}

fn cell(figure: Option<&Estimated>, decimals: Option<usize>) -> String {
    let Some(it) = figure else {
        return "-".to_owned();
    };
    let decimals = decimals.unwrap_or(match it.mean {
        100.0.. => 0,
        10.0.. => 1,
        _ => 3,
    });
    let mean = format!("{:.decimals$}", it.mean);
    match (it.confidence, it.deviation) {
        (Some(half), Some(deviation)) => {
            format!("{mean} ± {half:.decimals$} ({deviation:.decimals$})")
        }
        _ => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_point_and_no_interval_of_one_seed() {
        let figure = |name: &str, value: f64| Figure {
            name: name.to_owned(),
            value,
            ..Figure::default()
        };
        let set = |router: &str| vec![("variant".to_owned(), router.to_owned())];
        let mut repeats = Repeats::default();
        for (seed, delivery) in [(1, 0.25), (2, 0.5), (3, 0.75)] {
            repeats.add(&set("flood"), seed, &[figure("delivery_prob", delivery)]);
        }
        repeats.add(&set("direct"), 1, &[figure("latency_avg", 1234.4)]);
        let text = table(&repeats);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let cells = [
            "flood", "3", "0.500", "±", "0.621", "(0.250)", "-", "-", "-", "-",
        ];
        assert_eq!(lines[2], cells, "{text}");
        assert_eq!(
            lines[3],
            ["direct", "1", "-", "-", "1234", "-", "-"],
            "{text}"
        );
        let mut repeats = Repeats::default();
        repeats.add(&set("near"), 1, &[figure("latency_avg", 0.8251)]);
        assert!(table(&repeats).contains(" 0.825 "), "{}", table(&repeats));
    }
}
