//! The results of `dhow sim run`: tables with a line or more for each seed.

use std::collections::BTreeMap;
use std::path::Path;

use dhow_page::quantity::count;
use serde::Deserialize;

use crate::number::float;
use crate::report::{Measure, quantile};
use crate::results::{Backend, Point, not_there, table};

use super::side::{CompareError, Sample, TORN};

/// A line of `runs.csv`, as far as it is compared.
#[derive(Debug, Deserialize)]
struct Line {
    seed: u64,
    interrupted: bool,
    sent: u64,
    delivered: u64,
    expired: u64,
    refused: u64,
    crashes: u64,
    duplicates: u64,
    violations: u64,
}

/// A line of `payloads.csv`, as far as it is compared.
#[derive(Debug, Deserialize)]
struct Payload {
    seed: u64,
    sent_s: f64,
    delivered_s: Option<f64>,
}

/// A count of a seed, and its name.
type Count = (&'static str, fn(&Line) -> u64);

/// Counts of a seed that are compared as figures.
const COUNTS: [Count; 5] = [
    ("expired", |it| it.expired),
    ("refused", |it| it.refused),
    ("crashes", |it| it.crashes),
    ("duplicates", |it| it.duplicates),
    ("violations", |it| it.violations),
];

/// True if a directory has the tables of `dhow sim run`, or one in their place that cannot be read.
pub(super) fn is_of_seeds(directory: &Path) -> bool {
    match table::open(&directory.join("runs.csv")) {
        Err(error) => !not_there(&error) && is_alone(directory),
        Ok(mut table) => match table.headers() {
            Err(_) => is_alone(directory),
            Ok(headings) => headings.get(0) == Some("seed"),
        },
    }
}

/// True if a directory has nothing that tells of a scenario's runs on any backend.
fn is_alone(directory: &Path) -> bool {
    !directory.join("manifest.json").exists()
}

/// The runs of these tables, and the seeds that were ended before their end.
pub(super) fn read(directory: &Path) -> Result<(Vec<Sample>, Vec<String>), CompareError> {
    let lines_of_runs = lines::<Line>(&directory.join("runs.csv"))?;
    if lines_of_runs.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut delays: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for payload in lines::<Payload>(&directory.join("payloads.csv"))? {
        if let Some(delivered_s) = payload.delivered_s {
            let delays = delays.entry(payload.seed).or_default();
            delays.push(delivered_s - payload.sent_s);
        }
    }
    let (mut samples, mut failed) = (Vec::new(), Vec::new());
    for line in lines_of_runs {
        if line.interrupted {
            failed.push(format!("seed {}: interrupted", line.seed));
            continue;
        }
        let mut delays = delays.remove(&line.seed).unwrap_or_default();
        if count(delays.len()) < line.delivered {
            failed.push(format!("seed {}: {TORN}", line.seed));
            continue;
        }
        delays.sort_by(f64::total_cmp);
        let delivery = (line.sent > 0).then(|| float(line.delivered) / float(line.sent));
        let mut values = BTreeMap::new();
        let mut put = |measure: Measure, value: Option<f64>| {
            value.map(|value| values.insert(measure.key(), value));
        };
        put(Measure::Delivery, delivery);
        for hundredths in [50, 95, 100] {
            let share = f64::from(hundredths) / 100.0;
            put(Measure::Delay(hundredths), quantile(&delays, share));
        }
        for (name, of) in COUNTS {
            put(
                Measure::Figure(name.to_owned(), None),
                Some(float(of(&line))),
            );
        }
        samples.push(Sample {
            backend: Backend::Sim,
            point: Point::default(),
            seed: line.seed,
            values,
        });
    }
    Ok((samples, failed))
}

fn lines<L: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<L>, CompareError> {
    let failed = |error: csv::Error| CompareError::Table {
        path: path.to_path_buf(),
        what: error.to_string(),
    };
    let mut table = table::open(path).map_err(|error| failed(error.into()))?;
    let lines = table.deserialize();
    lines.collect::<Result<_, _>>().map_err(failed)
}
