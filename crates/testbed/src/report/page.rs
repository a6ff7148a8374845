//! The page: question and findings, each scenario's pictures and tables, and the needs of a repetition.

use std::collections::BTreeMap;

use dhow_page::quantity::{count, things, thousands};
use dhow_page::{List, Page, escaped, text, words};

use super::measure::Reading;
use super::statistics::Spread;
use super::study::Study;
use super::{both, cost, course, curves, hosts, limit, processors, repetition, several, verdict};
use crate::results::Status;

/// Lines of a table of runs, at most.
const LINES_MAX: usize = 200;

/// A page about the runs of scenarios.
#[must_use]
pub fn page(title: &str, introduction: &str, studies: &[Study]) -> String {
    let mut page = Page::new(title);
    if !introduction.is_empty() {
        page.lead(&escaped(introduction));
    }
    if studies.len() > 1 {
        page.add(&hypotheses(studies));
        page.add(&overview(studies));
    }
    for study in studies {
        if studies.len() > 1 {
            page.heading(&escaped(&study.question.title));
        }
        add_study(&mut page, study);
    }
    for study in studies {
        page.heading(&match studies.len() {
            1 => "Data for a repetition".to_owned(),
            _ => format!("Data for a repetition: {}", escaped(&study.question.title)),
        });
        page.add(&repetition::manifest(&study.manifest));
    }
    page.end()
}

/// One line of each hypothesis of others: what they found, and what was found here.
fn hypotheses(studies: &[Study]) -> String {
    let mut list = List::new(&["hypothesis", "the paper", "here"]);
    let stated = studies
        .iter()
        .filter(|it| !it.question.hypothesis.is_empty());
    let mut is_stated = false;
    for study in stated {
        is_stated = true;
        let points = curves::points(study);
        let here = format!(
            "{} {} {}",
            curves::words(study, &points),
            verdict::verdict(study, &points),
            limit::sentence(study)
        );
        let prose = |words: &str| text(format!("<span class=\"prose\">{}</span>", words.trim()));
        list.line(&[
            prose(&escaped(&study.question.hypothesis)),
            prose(&escaped(&study.question.found)),
            prose(&here),
        ]);
    }
    match is_stated {
        true => format!("<h3>Hypotheses</h3>{}<h3>Experiments</h3>", list.whole()),
        false => String::new(),
    }
}

/// One line of each scenario: what it asked and found.
fn overview(studies: &[Study]) -> String {
    let mut list = List::new(&["experiment", "found", "runs"]);
    for study in studies {
        let points = curves::points(study);
        list.line(&[
            text(escaped(&study.question.title)),
            text(format!(
                "<span class=\"prose\">{} {}</span>",
                curves::words(study, &points),
                verdict::verdict(study, &points)
            )),
            text(study.runs.len().to_string()),
        ]);
    }
    list.whole()
}

fn add_study(page: &mut Page, study: &Study) {
    let question = &study.question;
    if !question.question.is_empty() {
        page.paragraph(&format!("<em>{}</em>", escaped(&question.question)));
    }
    if !question.hypothesis.is_empty() {
        let words = escaped(&question.hypothesis);
        page.paragraph(&format!("The paper's hypothesis: {words}"));
    }
    if !question.found.is_empty() {
        page.paragraph(&format!("The paper: {}", escaped(&question.found)));
    }
    let points = curves::points(study);
    page.paragraph(&format!(
        "{} {}",
        curves::words(study, &points),
        verdict::verdict(study, &points)
    ));
    page.paragraph(&kept(study));
    page.paragraph(&processors::sentence(study));
    page.note(&repetition::extent(&study.manifest));
    page.note(&repetition::left_out(&study.manifest));
    add_failures(page, study);
    page.add(&failed_programs(study));
    page.note(&killed(study));
    page.add(&curves::picture(study, &points));
    page.add(&several::table(study, &points));
    // Beside the table of several measures it has only the spread.
    match question.table.is_empty() || points.iter().any(|point| point.cell.runs.len() > 1) {
        true => page.add(&curves::table(study, &points)),
        false => page.add(&curves::sources(&question.others)),
    }
    page.add(&curves::apart(study));
    for more in &study.question.more {
        let other = study.by(more);
        let points = curves::points(&other);
        // A picture has its title itself.
        match question.x {
            Some(_) => page.add(&curves::picture(&other, &points)),
            None => page.subheading(&curves::capital(&more.to_string())),
        }
        page.add(&curves::table(&other, &points));
    }
    page.add(&both::table(study));
    page.add(&cost::table(study));
    page.add(&figures(study));
    page.add(&course::delays(study));
    if let Some(shown) = &study.shown {
        let summary = &shown.summary;
        page.subheading(&format!(
            "Run {} over time{}",
            escaped(&summary.run.run),
            match summary.run.point.to_string() {
                point if point.is_empty() => String::new(),
                point => format!(": {}", escaped(&point)),
            }
        ));
        page.add(&course::of_run(shown));
        for (node, profile) in &shown.profiles {
            let title = format!("functions that took most of the processor of node {node}");
            page.add(&repetition::fold(&title, profile));
        }
    }
    page.add(&hosts::table(study));
    page.subheading("Runs");
    page.add(&runs(study));
}

/// The numbers of payloads and measurements, with those that were lost or altered.
fn kept(study: &Study) -> String {
    let sum = |value: fn(&crate::results::Run) -> u64| -> u64 {
        study.runs.iter().map(|summary| value(&summary.run)).sum()
    };
    let (sent, delivered) = (sum(|run| run.sent), sum(|run| run.delivered));
    let mut said = Vec::new();
    if sent > 0 {
        said.push(format!(
            "{}: {} sent, {} delivered.",
            things(count(study.runs.len()), "run", "runs"),
            things(sent, "payload", "payloads"),
            thousands(delivered)
        ));
    }
    match sum(|run| run.wrong) {
        0 if sent > 0 => said.push("None was delivered altered or twice.".to_owned()),
        0 => {}
        wrong => said.push(format!(
            "<strong class=\"bad\">{} delivered altered or twice.</strong>",
            things(wrong, "was", "were")
        )),
    }
    let (samples, lost) = (sum(|run| run.samples), sum(|run| run.samples_lost));
    if samples + lost > 0 {
        said.push(format!(
            "Measurements: {} stored, {} lost.",
            thousands(samples),
            thousands(lost)
        ));
    }
    said.join(" ")
}

/// Runs that are in no figure, those of one reason together.
fn add_failures(page: &mut Page, study: &Study) {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for summary in &study.runs {
        let reason = match &summary.run.status {
            Status::Done => continue,
            Status::Failed(what) => format!("failed: {}", escaped(what.trim_end_matches('.'))),
            Status::Interrupted => "interrupted".to_owned(),
        };
        let run = escaped(&summary.run.run);
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, runs)) => runs.push(run),
            None => reasons.push((reason, vec![run])),
        }
    }
    for (reason, runs) in reasons {
        let (was, runs, are) = match runs.as_slice() {
            [run] => ("was ", format!("Run {run}"), "It is"),
            runs => ("were ", format!("Runs {}", runs.join(", ")), "They are"),
        };
        let was = match reason.as_str() {
            "interrupted" => was,
            _ => "",
        };
        page.warning(&format!("{runs} {was}{reason}. {are} in no figure."));
    }
}

/// Programs whose failure is a finding, those of one reason together; nothing where none failed.
fn failed_programs(study: &Study) -> String {
    let mut reasons: Vec<((&str, &str), Vec<String>)> = Vec::new();
    for summary in &study.runs {
        for failure in summary.failures() {
            let place = match summary.run.point.to_string() {
                point if point.is_empty() => summary.run.run.clone(),
                point => format!("{} ({point})", summary.run.run),
            };
            match reasons.iter_mut().find(|(known, _)| *known == failure) {
                Some((_, runs)) => runs.push(place),
                None => reasons.push((failure, vec![place])),
            }
        }
    }
    let said = reasons
        .iter()
        .take(LINES_MAX)
        .map(|((program, what), runs)| {
            format!(
                "<li><strong>Program {} failed</strong> in {}, which is a finding: {}. {}</li>",
                escaped(program),
                things(count(runs.len()), "run", "runs"),
                escaped(what.trim_end_matches('.')),
                escaped(&format!("Runs: {}.", runs.join("; "))),
            )
        });
    let said: String = said.collect();
    match said.as_str() {
        "" => said,
        said => format!("<ul>{said}</ul>"),
    }
}

/// Programs that had to be killed at the end of their time; nothing where all ended when they were told to.
fn killed(study: &Study) -> String {
    let mut runs: BTreeMap<&str, u64> = BTreeMap::new();
    for summary in &study.runs {
        for ran in summary.programs.iter().filter(|ran| ran.killed) {
            *runs.entry(&ran.program).or_default() += 1;
        }
    }
    let summary = runs.into_iter().map(|(program, runs)| {
        format!(
            "Program {} did not end within its grace in {} and was killed.",
            escaped(program),
            things(runs, "run", "runs")
        )
    });
    summary.collect::<Vec<_>>().join(" ")
}

/// The figures of programs, over all runs of a combination.
fn figures(study: &Study) -> String {
    type Key<'a> = (String, &'a str, &'a str, &'a str);
    // Values with the seeds of their runs: a run that tells several is one.
    let mut all: Vec<(Key<'_>, Vec<(u64, f64)>)> = Vec::new();
    for summary in study.done() {
        let (point, seed) = (summary.run.point.to_string(), summary.run.seed);
        for it in &summary.figures {
            let key: Key<'_> = (point.clone(), &it.program, &it.name, &it.unit);
            match all.iter_mut().find(|(found, _)| *found == key) {
                Some((_, values)) => values.push((seed, it.value)),
                None => all.push((key, vec![(seed, it.value)])),
            }
        }
    }
    if all.is_empty() {
        return String::new();
    }
    let swept = all.iter().any(|((point, ..), _)| !point.is_empty());
    let mut columns = vec![
        "program", "figure", "mean", "±, 95 %", "σ", "runs", "least", "most", "told",
    ];
    if swept {
        columns.insert(0, "set");
    }
    let mut list = List::new(&columns);
    for ((point, program, name, unit), values) in all.iter().take(LINES_MAX) {
        let each = Spread::of(values.iter().map(|(_, value)| *value).collect());
        let Some((spread, each)) = Spread::of_seeds(values.iter().copied()).zip(each) else {
            continue;
        };
        let reading = Reading::of_unit(unit);
        let or = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |it| reading.said(it));
        let mut cells = vec![
            text(escaped(program)),
            text(escaped(name)),
            text(reading.said(spread.mean)),
            text(or(spread.confidence())),
            text(or(spread.deviation)),
            text(spread.values.len().to_string()),
            text(reading.said(each.least())),
            text(reading.said(each.most())),
            text(each.values.len().to_string()),
        ];
        if swept {
            cells.insert(0, words(escaped(point)));
        }
        list.line(&cells);
    }
    let shown = all.len().min(LINES_MAX);
    let table = list.end(shown, all.len(), "all are in figures.csv.");
    format!("<h3>Figures reported by programs</h3>{table}")
}

fn runs(study: &Study) -> String {
    let mut list = List::new(&[
        "run",
        "backend",
        "set",
        "repeat",
        "seed",
        "status",
        "sent",
        "delivered",
        "expired",
        "took",
    ]);
    for summary in study.runs.iter().take(LINES_MAX) {
        let run = &summary.run;
        list.line(&[
            text(escaped(&run.run)),
            text(run.backend.to_string()),
            words(escaped(&run.point.to_string())),
            text(run.repeat.to_string()),
            text(run.seed.to_string()),
            text(match run.status {
                Status::Done => "done",
                Status::Failed(_) => "failed",
                Status::Interrupted => "interrupted",
            }),
            text(thousands(run.sent)),
            text(thousands(run.delivered)),
            text(thousands(run.expired)),
            text(format!("{:.1} s", run.wall_s)),
        ]);
    }
    let shown = study.runs.len().min(LINES_MAX);
    list.end(shown, study.runs.len(), "all are in runs.csv.")
}
