//! The test of measured curves against the expected course, as far as repeats can decide it.
//!
//! A hypothesis holds where the interval of confidence of every difference that it is about (the 95 % intervals of both means, added as
//! squares) lies within it, and is refuted where one
//! lies outside; between the two nothing is decided. So "level" is a test of equivalence: that nothing was found to differ is not enough.

use dhow_page::escaped;
use dhow_page::quantity::{count, things};

use super::curves::Point;
use super::doubt;
use super::statistics::Spread;
use super::study::{Expected, Study};

/// Runs of each point that a verdict takes.
const REPEATS_MIN: usize = 5;

/// The part by which what rises or falls does so at least.
const SLOPE: f64 = 0.1;

/// The answer of repeats to a hypothesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Held,
    Refuted,
    /// Values differ too much from run to run.
    Undecided,
}

/// The verdict on each curve, or the doubt that rules verdicts out; empty if nothing was expected and nothing is in doubt.
pub(crate) fn verdict(study: &Study, points: &[Point<'_>]) -> String {
    if let Some(doubt) = doubt::doubt(study) {
        return doubt;
    }
    let Some(expects) = study.question.expects else {
        return String::new();
    };
    let mut groups: Vec<(&str, Vec<&Point<'_>>)> = Vec::new();
    for point in points.iter().filter(|point| point.spread.is_some()) {
        match groups.last_mut().filter(|it| it.0 == point.cell.group) {
            Some((_, points)) => points.push(point),
            None => groups.push((&point.cell.group, vec![point])),
        }
    }
    for (_, points) in &mut groups {
        if let Some(from) = &study.question.expects_from {
            let first = points.iter().position(|it| it.cell.x == *from);
            points.drain(..first.unwrap_or(points.len()));
        }
    }
    if groups.iter().all(|(_, points)| points.len() < 2) {
        return "Whether it went as was expected cannot be said: no curve has values at two points."
            .to_owned();
    }
    let groups = groups.iter().filter(|(_, points)| points.len() > 1);
    // Curves of one verdict are told together.
    let mut verdicts: Vec<(String, Vec<String>)> = Vec::new();
    for (group, points) in groups {
        let spreads: Vec<&Spread> = points.iter().filter_map(|it| it.spread.as_ref()).collect();
        let verdict = match too_few(points) {
            Some(few) => {
                let runs = things(count(few), "run", "runs");
                format!(
                    "is <strong>not tested</strong>: a verdict takes {REPEATS_MIN} runs of each point, and one has {runs} (<code>--repeats {REPEATS_MIN}</code>)"
                )
            }
            None => match judge(expects, study.question.margin, &spreads) {
                Verdict::Held => "<strong>held</strong>".to_owned(),
                Verdict::Refuted => "<strong class=\"bad\">is refuted</strong>".to_owned(),
                Verdict::Undecided => "is <strong>not decided</strong>: values differ too much from run to run for their number".to_owned(),
            },
        };
        match verdicts.iter_mut().find(|(known, _)| *known == verdict) {
            Some((_, groups)) => groups.push(escaped(group)),
            None => verdicts.push((verdict, vec![escaped(group)])),
        }
    }
    let what = escaped(&study.y.to_string());
    let mut expected = expected(expects, study.question.margin);
    if let Some(from) = &study.question.expects_from {
        expected += &format!(", from {} on,", escaped(from));
    }
    let sentences = verdicts.iter().map(|(verdict, groups)| {
        let of = match groups.join("; ").as_str() {
            "" => String::new(),
            groups => format!(" of {groups}"),
        };
        format!("The hypothesis that {what}{of} {expected} {verdict}.")
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// The runs of the point with the fewest, if they are too few; values that no seed changes need no more than two.
fn too_few(points: &[&Point<'_>]) -> Option<usize> {
    let runs = points.iter().filter_map(|point| {
        let spread = point.spread.as_ref()?;
        let enough = spread.values.len() >= REPEATS_MIN || point.cell.is_of_no_seed(spread);
        (!enough).then_some(spread.values.len())
    });
    runs.min()
}

fn expected(expects: Expected, margin: f64) -> String {
    let slope = SLOPE * 100.0;
    match expects {
        Expected::Rises => {
            format!("rises by {slope:.0} % and more from the first point to the last")
        }
        Expected::Falls => {
            format!("falls by {slope:.0} % and more from the first point to the last")
        }
        Expected::Level => format!("is the same at all points within {} %", margin * 100.0),
    }
}

fn judge(expects: Expected, margin: f64, spreads: &[&Spread]) -> Verdict {
    let (Some(first), Some(last)) = (spreads.first(), spreads.last()) else {
        return Verdict::Undecided;
    };
    match expects {
        Expected::Rises => above(interval(last, first, 1.0 + SLOPE)),
        Expected::Falls => above(interval(first, last, 1.0 / (1.0 - SLOPE))),
        Expected::Level => {
            let mean = spreads.iter().map(|it| it.mean).sum::<f64>();
            let most = margin * (mean / crate::number::float(count(spreads.len()))).abs();
            let pairs = spreads.iter().enumerate().flat_map(|(place, one)| {
                let others = spreads.iter().skip(place + 1);
                others.map(move |other| interval(one, other, 1.0))
            });
            let verdicts: Vec<Verdict> = pairs.map(|it| within(it, most)).collect();
            match verdicts {
                all if all.contains(&Verdict::Refuted) => Verdict::Refuted,
                all if all.contains(&Verdict::Undecided) => Verdict::Undecided,
                _ => Verdict::Held,
            }
        }
    }
}

/// The 95 % interval in which the mean of the one lies above so many times that of the other.
fn interval(one: &Spread, other: &Spread, times: f64) -> (f64, f64) {
    let difference = one.mean - other.mean * times;
    let half = one.confidence().unwrap_or(0.0);
    let other_half = other.confidence().unwrap_or(0.0) * times;
    let half = half.hypot(other_half);
    (difference - half, difference + half)
}

fn above((least, most): (f64, f64)) -> Verdict {
    match (least >= 0.0, most < 0.0) {
        (true, _) => Verdict::Held,
        (_, true) => Verdict::Refuted,
        _ => Verdict::Undecided,
    }
}

fn within((least, most): (f64, f64), margin: f64) -> Verdict {
    if least >= -margin && most <= margin {
        Verdict::Held
    } else if least > margin || most < -margin {
        Verdict::Refuted
    } else {
        Verdict::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(mean: f64, off: f64) -> Spread {
        Spread::of(vec![
            mean - off,
            mean - off / 2.0,
            mean,
            mean + off / 2.0,
            mean + off,
        ])
        .unwrap()
    }

    fn judged(expects: Expected, margin: f64, values: &[(f64, f64)]) -> Verdict {
        let spreads: Vec<Spread> = values
            .iter()
            .map(|(mean, off)| spread(*mean, *off))
            .collect();
        judge(expects, margin, &spreads.iter().collect::<Vec<_>>())
    }

    #[test]
    fn what_is_level_is_so_within_a_margin_and_not_for_want_of_a_difference() {
        let level = |margin, values: &[(f64, f64)]| judged(Expected::Level, margin, values);
        let near = [(100.0, 0.1), (100.2, 0.1), (99.9, 0.1)];
        assert_eq!(level(0.01, &near), Verdict::Held);
        // The means are as near, and the values say nothing.
        let loose = [(100.0, 30.0), (100.2, 30.0)];
        assert_eq!(level(0.01, &loose), Verdict::Undecided);
        assert_eq!(level(0.01, &[(100.0, 0.1), (103.0, 0.1)]), Verdict::Refuted);
        assert_eq!(level(0.05, &[(100.0, 0.1), (103.0, 0.1)]), Verdict::Held);
        // A point between may differ alone.
        let hump = [(100.0, 0.1), (120.0, 0.1), (100.0, 0.1)];
        assert_eq!(level(0.01, &hump), Verdict::Refuted);
    }

    #[test]
    fn what_rises_or_falls_does_so_by_a_tenth_beyond_chance() {
        let rises = |values: &[(f64, f64)]| judged(Expected::Rises, 0.01, values);
        assert_eq!(
            rises(&[(100.0, 1.0), (50.0, 1.0), (120.0, 1.0)]),
            Verdict::Held
        );
        assert_eq!(rises(&[(100.0, 1.0), (105.0, 1.0)]), Verdict::Refuted);
        assert_eq!(rises(&[(100.0, 20.0), (115.0, 20.0)]), Verdict::Undecided);
        let falls = |values: &[(f64, f64)]| judged(Expected::Falls, 0.01, values);
        assert_eq!(falls(&[(100.0, 1.0), (80.0, 1.0)]), Verdict::Held);
        assert_eq!(falls(&[(100.0, 1.0), (95.0, 1.0)]), Verdict::Refuted);
    }
}
