//! Results of all seeds together.

use dhow_page::quantity::{count, percent, ratio, span, things, thousands};
use dhow_page::{Axis, Curve, Look, Picture};

use super::lists;
use super::summary::Summary;

/// Times at which the runs are compared.
const PLACES: u64 = 160;

/// All runs in a sentence or two.
pub(crate) fn words(runs: &[&Summary]) -> String {
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        return String::new();
    };
    let wrong = runs.iter().filter(|run| !run.findings.is_empty()).count();
    let verdict = match wrong {
        0 => "in none did an oracle find a violation".to_owned(),
        _ => format!(
            "<span class=\"bad\">in {} an oracle found a violation</span>",
            thousands(count(wrong))
        ),
    };
    let mut words = format!(
        "{} were run, {} to {}: {verdict}.",
        things(count(runs.len()), "seed", "seeds"),
        first.seed,
        last.seed
    );
    let shares = three(runs, |run| Some(share(run)));
    if let Some(shares) = shares {
        let [least, median, most] = shares.map(|it| percent(it, 10_000));
        words += &if least == most {
            format!(" In each, {median} of the payloads were delivered")
        } else {
            format!(
                " In the median seed {median} of the payloads were delivered, in others {least} to {most}"
            )
        };
    }
    if let Some(times) = three(runs, |run| run.delay(50)) {
        let [least, median, most] = times.map(span);
        words += &format!("; the median delay was {median}, in others {least} to {most}");
    }
    words.push('.');
    words
}

/// The share that was delivered, in 1/10,000.
fn share(run: &Summary) -> u64 {
    let share = u128::from(run.delivered) * 10_000 / u128::from(run.sent.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// The least, the one in the middle and the greatest of what runs have; none where no run has it.
fn three<T: Ord + Copy>(
    runs: &[&Summary],
    value: impl Fn(&Summary) -> Option<T>,
) -> Option<[T; 3]> {
    let mut values: Vec<T> = runs.iter().filter_map(|run| value(run)).collect();
    values.sort_unstable();
    let middle = values.get(values.len() / 2)?;
    Some([*values.first()?, *middle, *values.last()?])
}

/// Something that is counted in a run.
type Value = fn(&Summary) -> u64;

/// The differences between runs, as a table.
pub(crate) fn table(runs: &[&Summary]) -> String {
    let mut lines = Vec::new();
    if let Some(shares) = three(runs, |run| Some(share(run))) {
        lines.push(("delivered", shares.map(|it| percent(it, 10_000))));
    }
    for (name, hundredths) in [
        ("median delay", 50),
        ("95th percentile delay", 95),
        ("longest delay", 100),
    ] {
        if let Some(times) = three(runs, |run| run.delay(hundredths)) {
            lines.push((name, times.map(span)));
        }
    }
    let cost = |run: &Summary| {
        let hundred = run.carried_octets.saturating_mul(100);
        (run.delivered_octets > 0).then(|| hundred / run.delivered_octets)
    };
    if let Some(costs) = three(runs, cost) {
        lines.push((
            "octets carried for each delivered",
            costs.map(|it| ratio(it, 100)),
        ));
    }
    let counts: [(&str, Value); 4] = [
        ("expired", |run| run.expired),
        ("duplicates", |run| run.counts.duplicates),
        ("crashes", |run| run.counts.crashes),
        ("events", |run| run.events),
    ];
    for (name, value) in counts {
        if let Some(values) = three(runs, |run| Some(value(run))) {
            lines.push((name, values.map(thousands)));
        }
    }
    lists::spread(&lines)
}

/// The share that was delivered within a time, in the median seed and in all.
pub(crate) fn delays(runs: &[&Summary]) -> String {
    let longest = runs.iter().filter_map(|run| run.delay(100)).max();
    let Some(longest) = longest else {
        return String::new();
    };
    let (mut points, mut band) = (Vec::new(), Vec::new());
    for place in 0..=PLACES {
        let time = longest * u32::try_from(place).unwrap_or(u32::MAX) / 160;
        let Some([least, median, most]) = three(runs, |run| Some(run.share_within(time))) else {
            continue;
        };
        let along = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        points.push((along, median));
        band.push((along, least, most));
    }
    let name = "the median seed, and from the least to the most";
    let mut curve = Curve::new(name, Look::Main).through(points);
    curve.band = band;
    let title = "Delay: share of the payloads that were delivered within a time, of all seeds";
    Picture::new(title, &[curve], Axis::Time, Axis::Share).figure()
}
