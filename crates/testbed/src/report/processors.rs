//! The speed of processors that are set by the rate of TCP.

use dhow_page::Axis;

use super::measure::said;
use super::statistics::Spread;
use super::study::Study;
use crate::number::float;

/// The rate of TCP between disks on the processors of a study, and their part of a core; empty where none is set so.
pub(crate) fn sentence(study: &Study) -> String {
    let measured = || study.done().flat_map(|summary| &summary.processors);
    let rates = measured().map(|it| float(it.octets_per_s) * 8.0);
    let shares = measured().map(|it| f64::from(it.millionths) / 1e4);
    let (Some(rates), Some(shares)) = (Spread::of(rates.collect()), Spread::of(shares.collect()))
    else {
        return String::new();
    };
    format!(
        "On the slow processors TCP between disks, in blocks of 100 kB, moved {}, measured before each run; they had {} of a core here.",
        range(&rates, |rate| said(Axis::Rate, rate)),
        range(&shares, |share| format!("{share:.2} %"))
    )
}

/// The range from the least to the most.
fn range(spread: &Spread, said: impl Fn(f64) -> String) -> String {
    let (least, most) = (said(spread.least()), said(spread.most()));
    match least == most {
        true => format!("<strong>{least}</strong>"),
        false => format!("<strong>{least}</strong> to <strong>{most}</strong>"),
    }
}
