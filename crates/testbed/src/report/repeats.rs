//! Figures of runs that differ in their seeds alone: mean, deviation and confidence, by the values set.

use std::collections::BTreeMap;

use super::Spread;
use crate::results::Figure;

/// The figures of runs, in the order in which their points came first.
#[derive(Clone, Debug, Default)]
pub struct Repeats {
    points: Vec<PointRepeats>,
}

/// The runs of one point.
#[derive(Clone, Debug)]
struct PointRepeats {
    /// The settings.
    set: Vec<(String, String)>,
    /// Runs of the point.
    runs: u64,
    /// Values of each figure, with the seeds of their runs.
    values: BTreeMap<String, Vec<(u64, f64)>>,
}

/// A figure of several seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimated {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of the sample; nothing of one seed.
    pub deviation: Option<f64>,
    /// Half of the 95 % interval of the mean, by Student's distribution; nothing of one seed.
    pub confidence: Option<f64>,
}

/// The runs of one point in short.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'a> {
    /// The values of what was set.
    pub set: Vec<&'a str>,
    /// Runs of the point.
    pub runs: u64,
    /// The figures that were asked for; nothing where no run has that one.
    pub figures: Vec<Option<Estimated>>,
}

impl Repeats {
    /// Adds a run: its settings, its seed and its figures.
    pub fn add(&mut self, set: &[(String, String)], seed: u64, figures: &[Figure]) {
        let place = self.points.iter().position(|it| it.set == set);
        let place = place.unwrap_or_else(|| {
            self.points.push(PointRepeats {
                set: set.to_vec(),
                runs: 0,
                values: BTreeMap::new(),
            });
            self.points.len() - 1
        });
        let Some(point) = self.points.get_mut(place) else {
            return;
        };
        point.runs += 1;
        for figure in figures {
            let values = point.values.entry(figure.name.clone()).or_default();
            values.push((seed, figure.value));
        }
    }

    /// The keys that were set.
    #[must_use]
    pub fn keys(&self) -> Vec<&str> {
        let first = self.points.first();
        let set = first.into_iter().flat_map(|it| &it.set);
        set.map(|(key, _)| key.as_str()).collect()
    }

    /// A row for each point, with figures of these names.
    #[must_use]
    pub fn rows(&self, names: &[&str]) -> Vec<Row<'_>> {
        let rows = self.points.iter().map(|point| {
            let estimated = |name: &&str| {
                let spread = Spread::of_seeds(point.values.get(*name)?.iter().copied())?;
                Some(Estimated {
                    mean: spread.mean,
                    deviation: spread.deviation,
                    confidence: spread.confidence(),
                })
            };
            Row {
                set: point.set.iter().map(|(_, value)| value.as_str()).collect(),
                runs: point.runs,
                figures: names.iter().map(estimated).collect(),
            }
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, value: f64) -> Figure {
        Figure {
            name: name.to_owned(),
            value,
            ..Figure::default()
        }
    }

    #[test]
    fn runs_of_one_point_have_a_row_with_mean_deviation_and_confidence() {
        let set = |copies: &str| vec![("routing.copies".to_owned(), copies.to_owned())];
        let mut repeats = Repeats::default();
        repeats.add(&set("4"), 1, &[figure("delivery_prob", 0.2)]);
        repeats.add(&set("1"), 1, &[]);
        repeats.add(&set("4"), 2, &[figure("delivery_prob", 0.4)]);
        repeats.add(&set("4"), 3, &[figure("delivery_prob", 0.6)]);
        assert_eq!(repeats.keys(), ["routing.copies"]);
        let rows = repeats.rows(&["delivery_prob", "hopcount_avg"]);
        let told: Vec<_> = rows.iter().map(|it| (it.set.clone(), it.runs)).collect();
        assert_eq!(told, [(vec!["4"], 3), (vec!["1"], 1)]);
        let of_four = rows[0].figures[0].unwrap();
        assert!((of_four.mean - 0.4).abs() < 1e-12);
        assert!((of_four.deviation.unwrap() - 0.2).abs() < 1e-12);
        // 4.303 * 0.2 / sqrt(3)
        assert!((of_four.confidence.unwrap() - 0.496_87).abs() < 1e-4);
        assert_eq!((rows[0].figures[1], rows[1].figures[0]), (None, None));
    }

    #[test]
    fn one_seed_has_no_deviation() {
        let mut repeats = Repeats::default();
        repeats.add(&[], 7, &[figure("delivered", 3.0)]);
        let rows = repeats.rows(&["delivered"]);
        let it = rows[0].figures[0].unwrap();
        assert_eq!((it.mean, it.deviation, it.confidence), (3.0, None, None));
        assert!(repeats.keys().is_empty());
    }
}
