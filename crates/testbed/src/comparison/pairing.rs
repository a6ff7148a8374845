//! Runs of both results with the same settings, and the figures that both have of them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::differing::{Differing, differing};
use super::estimate::{Better, Estimate, Verdict};
use super::side::{CompareError, Sample, Side};
use crate::report::{Measure, Reading, Spread};
use crate::results::{Backend, Point};

/// A part below which a half of an interval is the rounding of floats: repeats in virtual time may all be alike.
const ROUNDING: f64 = 1e-9;

/// One figure at one point, of both.
#[derive(Debug)]
pub struct Compared {
    /// Values of the keys that both sweep.
    pub point: Point,
    /// The backend; nothing where each side ran on another one.
    pub backend: Option<Backend>,
    /// The measure.
    pub measure: Measure,
    /// The figures of both.
    pub estimate: Estimate,
    pub(crate) reading: Reading,
}

/// A figure at one point that one side has alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alone {
    /// `a` or `b`.
    pub side: &'static str,
    /// The settings, and the backend where both have several.
    pub set: String,
    /// The figure's name in `[report]`; empty where it has the whole point alone.
    pub figure: String,
}

/// A figure that got worse by more than was allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The settings.
    pub set: String,
    /// The figure, in words.
    pub figure: String,
    /// The part of the mean that it lost at least, with 95 % confidence.
    pub part: f64,
}

/// Two results of one study.
#[derive(Debug)]
pub struct Comparison {
    /// The first.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// The differences.
    pub differs: Vec<Differing>,
    /// Keys that both sweep.
    pub keys: Vec<String>,
    /// Keys that one sweeps alone: its runs with different values of them are taken as one.
    pub pooled: Vec<String>,
    /// Figures that both have, by point.
    pub figures: Vec<Compared>,
    /// The rows of one alone.
    pub alone: Vec<Alone>,
}

/// A point at which runs are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    point: Point,
    backend: Option<Backend>,
}

impl Place {
    fn said(&self, are_several: bool) -> String {
        let point = self
            .point
            .0
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let backend = self
            .backend
            .filter(|_| are_several)
            .map(|it| it.to_string());
        let parts: Vec<String> = point.chain(backend).collect();
        match parts.is_empty() {
            true => "all runs".to_owned(),
            false => parts.join(" "),
        }
    }
}

impl Comparison {
    /// Compares the second with the first.
    ///
    /// # Errors
    /// When they have nothing in common.
    pub fn of(a: Side, b: Side) -> Result<Self, CompareError> {
        let (keys_a, keys_b) = (keys(&a), keys(&b));
        let is_shared = |key: &&String| keys_b.contains(*key);
        let shared: Vec<String> = keys_a.iter().filter(is_shared).cloned().collect();
        let all = keys_a.iter().chain(&keys_b);
        let pooled = all.filter(|key| !shared.contains(*key)).cloned().collect();
        // Sockets beside virtual time are two backends of one point.
        let (on_a, on_b) = (backends(&a), backends(&b));
        let by_backend = !on_a.is_disjoint(&on_b);
        let are_several = on_a.union(&on_b).count() > 1 && by_backend;
        let place = |sample: &Sample| Place {
            point: Point(
                (shared.iter())
                    .filter_map(|key| Some((key.clone(), sample.point.value(key)?.to_owned())))
                    .collect(),
            ),
            backend: by_backend.then_some(sample.backend),
        };
        let places = |side: &Side| {
            let mut places: Vec<Place> = Vec::new();
            for sample in &side.samples {
                let place = place(sample);
                if !places.contains(&place) {
                    places.push(place);
                }
            }
            places
        };
        let (in_a, in_b) = (places(&a), places(&b));
        let mut found = Found::default();
        for at in &in_a {
            if !in_b.contains(at) {
                found.alone_at("a", at.said(are_several));
                continue;
            }
            let of = |side: &Side, measure: &Measure| {
                let samples = side.samples.iter().filter(|it| place(it) == *at);
                let key = measure.key();
                Spread::of_seeds(samples.filter_map(|it| Some((it.seed, *it.values.get(&key)?))))
            };
            for measure in measures(&a, &b) {
                match (of(&a, measure), of(&b, measure)) {
                    (Some(one), Some(other)) => found.figures.push(Compared {
                        point: at.point.clone(),
                        backend: at.backend,
                        measure: measure.clone(),
                        estimate: Estimate::of(one, other),
                        reading: reading(measure, &a, &b),
                    }),
                    (Some(_), None) => found.alone("a", at.said(are_several), measure.key()),
                    (None, Some(_)) => found.alone("b", at.said(are_several), measure.key()),
                    (None, None) => {}
                }
            }
        }
        for at in in_b.iter().filter(|at| !in_a.contains(at)) {
            found.alone_at("b", at.said(are_several));
        }
        if found.figures.is_empty() {
            let said = |places: &[Place]| {
                places
                    .first()
                    .map_or_else(String::new, |at| at.said(are_several))
            };
            let (a, b) = (said(&in_a), said(&in_b));
            return Err(CompareError::NothingShared { a, b });
        }
        Ok(Self {
            differs: differing(&a, &b),
            a,
            b,
            keys: shared,
            pooled,
            figures: found.figures,
            alone: found.alone,
        })
    }

    /// Figures that got worse by more than a part of their mean, and by more than noise.
    #[must_use]
    pub fn losses(&self, part: f64) -> Vec<Loss> {
        let losses = self.figures.iter().filter_map(|it| {
            let loss = it.estimate.loss(it.measure.better())?;
            (loss > part).then(|| Loss {
                set: self.set(it),
                figure: it.measure.to_string(),
                part: loss,
            })
        });
        losses.collect()
    }

    /// The settings of a figure, and its backend where that is not the same for all.
    #[must_use]
    pub fn set(&self, it: &Compared) -> String {
        let (point, backend) = (it.point.clone(), it.backend);
        Place { point, backend }.said(self.has_backends())
    }

    /// True if both ran on several backends.
    pub(super) fn has_backends(&self) -> bool {
        let first = self.figures.first().and_then(|it| it.backend);
        self.figures.iter().any(|it| it.backend != first)
    }

    /// The number of figures of a verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.figures
            .iter()
            .filter(|it| it.verdict() == verdict)
            .count()
    }

    /// The result, in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let all = self.figures.len();
        let parts = [
            (Verdict::Better, "better"),
            (Verdict::Worse, "worse"),
            (Verdict::Differs, "other than they were"),
            (Verdict::Noise, "within noise"),
            (Verdict::Same, "the same"),
            (Verdict::Unknown, "of one run, without an interval"),
        ];
        let parts = parts
            .into_iter()
            .map(|(verdict, word)| (self.count(verdict), word));
        let parts = parts.filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        format!("Of {all} figures of B beside A: {}.", parts.join(", "))
    }

    /// Warnings before a figure is believed: runs that are in none, and settings that are not told apart.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for (name, side) in [("A", &self.a), ("B", &self.b)] {
            if side.unfinished > 0 {
                let (has, runs) = match side.unfinished {
                    1 => ("has", "run"),
                    _ => ("have", "runs"),
                };
                remarks.push(format!(
                    "{name} is not complete: {} planned {runs} {has} no whole tables.",
                    side.unfinished
                ));
            }
            if let [first, rest @ ..] = side.failed.as_slice() {
                let more = match rest.len() {
                    0 => String::new(),
                    more => format!(" (and {more} more)"),
                };
                remarks.push(format!("In no figure of {name}: {first}{more}."));
            }
        }
        if self.count(Verdict::Unknown) > 0 {
            remarks.push(
                "A side has one run alone of some settings: no interval tells such a difference from noise. More repeats do.".to_owned(),
            );
        }
        if !self.pooled.is_empty() {
            remarks.push(format!(
                "One side alone sweeps {}: its runs with all values of it are taken as one.",
                self.pooled.join(", ")
            ));
        }
        if let Some(Compared { backend: None, .. }) = self.figures.first() {
            remarks.push("A and B ran on different backends.".to_owned());
        }
        remarks
    }

    /// All of it as JSON (docs/lab.md).
    #[must_use]
    pub fn json(&self) -> Value {
        let differs = self.differs.iter();
        let differs = differs.map(|it| json!({"what": it.what, "a": it.a, "b": it.b}));
        let figures = self.figures.iter().map(Compared::json);
        let alone = self.alone.iter();
        let alone = alone.map(|it| json!({"side": it.side, "set": it.set, "figure": it.figure}));
        json!({
            "a": side(&self.a),
            "b": side(&self.b),
            "differs": differs.collect::<Vec<_>>(),
            "keys": self.keys,
            "pooled": self.pooled,
            "figures": figures.collect::<Vec<_>>(),
            "alone": alone.collect::<Vec<_>>(),
        })
    }
}

impl Compared {
    /// The meaning of its difference.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.estimate.verdict(self.measure.better())
    }

    /// A value of it, as people read it.
    #[must_use]
    pub fn said(&self, value: f64) -> String {
        self.reading.plain(value)
    }

    /// A difference in parts of the mean of the first; nothing where that is 0.
    pub(super) fn part(&self, difference: f64) -> Option<f64> {
        let mean = self.estimate.a.mean.abs();
        (mean != 0.0)
            .then(|| difference / mean)
            .filter(|part| part.is_finite())
    }

    /// The difference of means with half of its interval, as people read it: in percent of the mean of A, or as it is where that is 0.
    #[must_use]
    pub fn difference(&self) -> String {
        let (difference, half) = (self.estimate.difference(), self.estimate.half());
        let sign = if difference < 0.0 { "-" } else { "+" };
        let said = match (self.part(difference), half.map(|half| self.part(half))) {
            _ if difference == 0.0 => return "0".to_owned(),
            (Some(part), None) => percent(part.abs()),
            (Some(part), Some(half)) => {
                let half = half.filter(|half| *half > ROUNDING);
                format!("{} ± {}", percent(part.abs()), percent(half.unwrap_or(0.0)))
            }
            (None, _) => match half {
                Some(half) => format!("{} ± {}", self.said(difference.abs()), self.said(half)),
                None => self.said(difference.abs()),
            },
        };
        format!("{sign}{said}")
    }

    fn json(&self) -> Value {
        let it = &self.estimate;
        let (median_a, median_b) = it.medians();
        let of = |spread: &Spread, median: f64| {
            json!({
                "runs": spread.values.len(), "median": median, "mean": spread.mean,
                "least": spread.least(), "most": spread.most(),
            })
        };
        let interval = it.interval();
        let set = self.point.0.iter();
        let set: Map<String, Value> = set
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        json!({
            "set": set,
            "backend": self.backend.map(|it| it.to_string()),
            "figure": self.measure.key(),
            "name": self.measure.to_string(),
            "unit": self.reading.unit_of_values(),
            "better": self.measure.better().map(|it| match it {
                Better::More => "more",
                Better::Less => "less",
            }),
            "a": of(&it.a, median_a),
            "b": of(&it.b, median_b),
            "ratio": it.ratio(),
            "difference": it.difference(),
            "low": interval.map(|it| it.low),
            "high": interval.map(|it| it.high),
            "verdict": self.verdict().word(),
        })
    }
}

/// A part as a percentage, with as many digits as it has to tell.
fn percent(part: f64) -> String {
    let value = part * 100.0;
    match value {
        it if it >= 1e6 => format!("{it:.1e} %"),
        it if it >= 99.95 => format!("{it:.0} %"),
        0.0 => "0 %".to_owned(),
        it if it >= 0.95 => format!("{it:.1} %"),
        it => format!("{it:.2} %"),
    }
}

/// The findings of all points.
#[derive(Debug, Default)]
struct Found {
    figures: Vec<Compared>,
    alone: Vec<Alone>,
}

impl Found {
    fn alone(&mut self, side: &'static str, set: String, figure: String) {
        self.alone.push(Alone { side, set, figure });
    }

    fn alone_at(&mut self, side: &'static str, set: String) {
        self.alone(side, set, String::new());
    }
}

fn side(side: &Side) -> Value {
    json!({
        "directory": side.directory.display().to_string(),
        "runs": side.done(),
        "failed": side.failed,
        "unfinished": side.unfinished,
    })
}

/// The keys that a side sweeps, in its order.
fn keys(side: &Side) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for (key, _) in side.samples.iter().flat_map(|it| &it.point.0) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

fn backends(side: &Side) -> BTreeSet<Backend> {
    side.samples.iter().map(|it| it.backend).collect()
}

/// The measures of both, those of the first first.
fn measures<'a>(a: &'a Side, b: &'a Side) -> Vec<&'a Measure> {
    let mut all: Vec<&Measure> = a.measures.iter().collect();
    all.extend(b.measures.iter().filter(|it| !a.measures.contains(it)));
    all
}

/// A program of either side tells the unit of its figures.
fn reading(measure: &Measure, a: &Side, b: &Side) -> Reading {
    let tells = |side: &Side| match measure {
        Measure::Figure(name, _) => {
            let mut figures = side.summaries.iter().flat_map(|it| &it.figures);
            figures.any(|it| it.name == *name)
        }
        _ => true,
    };
    let side = if tells(a) { a } else { b };
    measure.reading(&side.summaries)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;

    fn side(values: &[(&str, u64, f64)]) -> Side {
        let samples = values.iter().map(|(point, seed, goodput)| Sample {
            backend: Backend::Sim,
            point: point.parse().unwrap(),
            seed: *seed,
            values: BTreeMap::from([("goodput".to_owned(), *goodput)]),
        });
        Side {
            directory: PathBuf::from("out"),
            manifest: Value::Null,
            samples: samples.collect(),
            measures: vec![Measure::Goodput],
            summaries: Vec::new(),
            failed: Vec::new(),
            unfinished: 0,
            x: None,
        }
    }

    #[test]
    fn runs_of_the_same_settings_are_compared_and_others_are_listed() {
        let a = side(&[("n=1", 1, 100.0), ("n=1", 2, 102.0), ("n=2", 1, 5.0)]);
        let b = side(&[("n=1", 1, 50.0), ("n=1", 2, 50.0), ("n=3", 1, 5.0)]);
        let it = Comparison::of(a, b).unwrap();
        assert_eq!(it.keys, ["n"]);
        let figures: Vec<_> = it
            .figures
            .iter()
            .map(|it| (it.point.to_string(), it.verdict()))
            .collect();
        assert_eq!(figures, [("n=1".to_owned(), Verdict::Worse)]);
        let alone: Vec<_> = it
            .alone
            .iter()
            .map(|it| (it.side, it.set.as_str()))
            .collect();
        assert_eq!(alone, [("a", "n=2"), ("b", "n=3")]);
        // 51 less 12.706 * 1.414214 / 1.414214 is 38.294, of 101.
        let losses = it.losses(0.3);
        assert!((losses[0].part - 0.379_149).abs() < 1e-5, "{losses:?}");
        assert_eq!(it.losses(0.4), []);
    }

    #[test]
    fn a_key_that_one_side_sweeps_alone_is_pooled() {
        let a = side(&[("n=1", 1, 1.0), ("n=1", 2, 3.0)]);
        let b = side(&[
            ("n=1;m=1", 1, 1.0),
            ("n=1;m=2", 1, 3.0),
            ("n=1;m=1", 2, 2.0),
        ]);
        let it = Comparison::of(a, b).unwrap();
        assert_eq!(
            (it.keys.as_slice(), it.pooled.as_slice()),
            (&["n".to_owned()][..], &["m".to_owned()][..])
        );
        // Runs of one seed are one value: their mean.
        assert_eq!(it.figures[0].estimate.b.values, [2.0, 2.0]);
        assert_eq!(it.figures[0].verdict(), Verdict::Same);
    }

    #[test]
    fn results_without_a_common_point_are_refused() {
        let refused = Comparison::of(side(&[("n=1", 1, 1.0)]), side(&[("n=2", 1, 1.0)]));
        let refused = refused.unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("n=1 is in the first alone, and n=2"),
            "{refused}"
        );
        assert!(refused.hint().contains("sweep the same keys"));
    }
}
