//! `dhow lab compare`: two results, figure by figure.

use std::path::{Path, PathBuf};

use clap::Args;
use dhow_testbed::comparison::{CompareError, Compared, Comparison, Loss, Side, page};
use dhow_testbed::results::Results;
use serde_json::{Value, json};

use super::study::shown;
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};
use crate::table::{Align, Table};

/// Columns of the name of a figure, at most.
const NAME_COLUMNS: usize = 32;

/// Columns of a value, at most.
const VALUE_COLUMNS: usize = 14;

/// Columns of text that is not in a table.
const TEXT_COLUMNS: usize = 96;

/// Lines of what one side has alone, at most.
const ALONE_MAX: usize = 12;

const AFTER_HELP: &str = "\
Examples:
  dhow lab compare before after
  dhow lab compare before after --out comparison.html
  dhow lab compare before after --fail-above 5";

/// Compare two results: each figure of B with that of A
///
/// Results are directories of `dhow lab run --out` or `dhow sim run --out`, of one lab or of labs that sweep the same keys. Prints, for each figure that both have with the same settings, the medians, their ratio, and the difference of means with its 95 % confidence interval, relative to the mean of A. Differences between scenarios, versions and machines come first.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Compare {
    /// The baseline
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The results that are compared
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Write a page with pictures as well
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Exit with 1 if a figure of B is worse by more than this many percent beyond its noise
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    fail_above: Option<f64>,
}

/// The compared: studies that both have, and those that one has alone.
#[derive(Debug)]
struct Studies {
    both: Vec<(String, Comparison)>,
    alone: Vec<(&'static str, String)>,
}

impl Compare {
    /// Compares the results.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let studies = Studies::read(&self.a, &self.b)?;
        for (side, name) in &studies.alone {
            output::note(&format!("{name} is in {side} alone"));
        }
        let mut lost = 0;
        for (name, comparison) in &studies.both {
            let losses = self
                .fail_above
                .map(|percent| comparison.losses(percent / 100.0));
            match common.form() {
                Form::Json => output::json(&of_study(name, comparison, losses.as_deref()))?,
                Form::Text => output::text(&text(name, comparison, studies.both.len()))?,
            }
            let losses = losses.unwrap_or_default();
            lost += losses.len();
            for loss in &losses {
                output::talk(&lost_line(loss));
            }
        }
        if let Some(path) = &self.out {
            std::fs::write(path, page(&studies.both)).map_err(|error| {
                Failure::refused(format!("cannot write {}: {error}", path.display()))
                    .with_hint("--out names a file, which is made or replaced")
            })?;
            output::talk(&format!("the page is {}", path.display()));
        }
        Ok(match lost {
            0 => Ending::Done,
            _ => Ending::Incomplete,
        })
    }
}

impl Studies {
    /// Reads two results of one scenario each, or of several.
    fn read(a: &Path, b: &Path) -> Result<Self, Failure> {
        let (mut both, mut alone) = (Vec::new(), Vec::new());
        if is_one(a)? || is_one(b)? {
            let comparison = compared(a, b)?;
            both.push((name_of(a), comparison));
            return Ok(Self { both, alone });
        }
        let (in_a, in_b) = (Side::within(a), Side::within(b));
        for name in in_a.intersection(&in_b) {
            both.push((name.clone(), compared(&a.join(name), &b.join(name))?));
        }
        alone.extend(in_a.difference(&in_b).map(|name| ("A", name.clone())));
        alone.extend(in_b.difference(&in_a).map(|name| ("B", name.clone())));
        match both.is_empty() {
            false => Ok(Self { both, alone }),
            true => {
                let (a, b) = (a.display(), b.display());
                let what = format!("cannot compare: {a} and {b} have no scenario in common");
                Err(Failure::usage(what).with_hint("compare results of one lab"))
            }
        }
    }
}

/// True if a directory has results of one scenario, and false if it has those of several.
fn is_one(directory: &Path) -> Result<bool, Failure> {
    if Side::is_of_one(directory) {
        return Ok(true);
    }
    match Side::within(directory).is_empty() {
        false => Ok(false),
        true => Err(failed(&CompareError::NoResults(directory.to_path_buf()))),
    }
}

fn compared(a: &Path, b: &Path) -> Result<Comparison, Failure> {
    Comparison::of(side(a)?, side(b)?).map_err(|error| failed(&error))
}

/// Reads one result.
fn side(directory: &Path) -> Result<Side, Failure> {
    if !Side::is_of_one(directory) {
        return Err(failed(&CompareError::NoResults(directory.to_path_buf())));
    }
    let of_seeds = Side::of_seeds(directory).map_err(|error| failed(&error))?;
    if let Some(side) = of_seeds {
        return Ok(side);
    }
    let results = Results::open(directory).map_err(|error| failed(&error.into()))?;
    // Damaged tables are told apart from a scenario that this version does not read.
    let runs = results.runs().map_err(|error| failed(&error.into()))?;
    if runs.is_empty() {
        return Err(failed(&CompareError::NoRun(directory.to_path_buf())));
    }
    let study = shown(&results).map_err(|error| {
        Failure::usage(format!("cannot compare: {error}"))
            .with_hint("a table is damaged, or another version made the results, whose `dhow lab compare` reads them")
    })?;
    Side::of_study(directory, &study).map_err(|error| failed(&error))
}

fn failed(error: &CompareError) -> Failure {
    Failure::usage(format!("cannot compare: {error}")).with_hint(error.hint())
}

fn name_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or(directory.as_os_str());
    name.to_string_lossy().into_owned()
}

/// One study as JSON.
fn of_study(name: &str, comparison: &Comparison, losses: Option<&[Loss]>) -> Value {
    let mut object = comparison.json();
    if let Some(entries) = object.as_object_mut() {
        entries.shift_insert(0, "study".to_owned(), json!(name));
        if let Some(losses) = losses {
            let losses = losses.iter();
            let losses = losses
                .map(|it| json!({"set": it.set, "figure": it.figure, "part": finite(it.part)}));
            entries.insert("losses".to_owned(), losses.collect());
        }
    }
    object
}

/// A number that JSON has.
fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|it| it.is_finite())
}

/// One study for people.
fn text(name: &str, it: &Comparison, studies: usize) -> String {
    let mut lines = Vec::new();
    if studies > 1 {
        lines.push(format!("{name}:"));
    }
    for (name, side) in [("A", &it.a), ("B", &it.b)] {
        let runs = if side.done() == 1 { "run" } else { "runs" };
        let directory = side.directory().display();
        lines.push(format!("{name} is {directory}, of {} {runs}", side.done()));
    }
    match it.differs.is_empty() {
        true => lines.push("Scenario, settings, version and machine are the same.".to_owned()),
        false => lines.push("Differences, and values that are not known:".to_owned()),
    }
    for differing in &it.differs {
        let wide = format!("  {}: A {}; B {}", differing.what, differing.a, differing.b);
        match wide.chars().count() <= TEXT_COLUMNS {
            true => lines.push(wide),
            false => {
                lines.push(format!("  {}:", differing.what));
                lines.extend(wrapped("A", &differing.a));
                lines.extend(wrapped("B", &differing.b));
            }
        }
    }
    lines.extend(
        it.remarks()
            .iter()
            .flat_map(|remark| wrapped("note:", remark)),
    );
    let mut text = lines.join("\n") + "\n";
    let mut sets: Vec<String> = Vec::new();
    for figure in &it.figures {
        let set = it.set(figure);
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
    for set in sets {
        let mut table = Table::new(&[
            ("FIGURE", Align::Left),
            ("A", Align::Right),
            ("B", Align::Right),
            ("B/A", Align::Right),
            ("DIFFERENCE", Align::Right),
            ("VERDICT", Align::Left),
        ]);
        for figure in it.figures.iter().filter(|figure| it.set(figure) == set) {
            table.push(row(figure));
        }
        text += &format!("\n{}\n{}", cut(&set, TEXT_COLUMNS), table.render(2));
    }
    text += &alone(it);
    text + "\n" + &it.sentence() + "\n"
}

fn row(figure: &Compared) -> Vec<String> {
    let (a, b) = figure.estimate.medians();
    let ratio = figure.estimate.ratio();
    vec![
        cut(&figure.measure.to_string(), NAME_COLUMNS),
        cut(&figure.said(a), VALUE_COLUMNS),
        cut(&figure.said(b), VALUE_COLUMNS),
        ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
        cut(&figure.difference(), VALUE_COLUMNS + 2),
        figure.verdict().word().to_owned(),
    ]
}

/// The rows of one side alone, in lines.
fn alone(it: &Comparison) -> String {
    let mut text = String::new();
    for alone in it.alone.iter().take(ALONE_MAX) {
        let what = match alone.figure.as_str() {
            "" => alone.set.clone(),
            figure => format!("{figure} of {}", alone.set),
        };
        let side = alone.side.to_uppercase();
        text += &format!("\nin {side} alone: {}", cut(&what, TEXT_COLUMNS - 16));
    }
    match it.alone.len().saturating_sub(ALONE_MAX) {
        0 if text.is_empty() => String::new(),
        0 => text + "\n",
        more => format!("{text}\nand {more} more (--json has all)\n"),
    }
}

/// A figure that got worse by more than was allowed.
fn lost_line(loss: &Loss) -> String {
    let part = match loss.part.is_finite() {
        true => format!("at least {:.1} %", loss.part * 100.0),
        false => "more than any part of 0".to_owned(),
    };
    format!("worse by {part}: {} ({})", loss.figure, loss.set)
}

fn cut(text: &str, columns: usize) -> String {
    match text.char_indices().nth(columns) {
        None => text.to_owned(),
        Some(_) => text.chars().take(columns - 1).chain(['…']).collect(),
    }
}

/// Words behind a mark, in lines that fit.
fn wrapped(mark: &str, words: &str) -> Vec<String> {
    let mut lines = vec![format!("  {mark}")];
    for word in words.split_whitespace() {
        let fits = |line: &String| line.chars().count() + 1 + word.chars().count() <= TEXT_COLUMNS;
        match lines.last_mut().filter(|line| fits(line)) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(format!("    {word}")),
        }
    }
    lines
}

/// A part in percent, from 0 on.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("a number of percent is needed, such as 5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fits_its_columns() {
        let words = "a word ".repeat(60);
        let lines = wrapped("note:", &words);
        assert!(lines.len() > 1);
        assert!(
            lines
                .iter()
                .all(|line| line.chars().count() <= TEXT_COLUMNS)
        );
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
    }

    #[test]
    fn percents_are_numbers_from_nothing_on() {
        assert_eq!(parse_percent("5"), Ok(5.0));
        assert_eq!(parse_percent("2.5%"), Ok(2.5));
        for text in ["-1", "many", "inf", ""] {
            assert!(parse_percent(text).is_err(), "{text}");
        }
    }
}
