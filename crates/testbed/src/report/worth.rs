//! The value of a key as a quantity, so that it has a place on an axis: `2kB`, `28Mbit`, `250ms`, `10%`, `0.1`, `4`; a range, `25s..35s`, is
//! at its middle.

use dhow_document::quantity::{parse_duration, parse_rate, parse_size};
use dhow_page::Axis;

use crate::number::whole;

/// A value with its place on an axis; nothing where it is no quantity.
pub(crate) fn worth(text: &str) -> Option<(u64, Axis)> {
    if let Some((least, most)) = text.split_once("..") {
        let (most, axis) = worth(most)?;
        let (least, of_least) = worth(least)?;
        let is_one = of_least == axis || least == 0;
        return is_one.then(|| (least.midpoint(most), axis));
    }
    if let Ok(count) = text.parse() {
        return Some((count, Axis::Count));
    }
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.trim().parse().ok()?;
        return (percent >= 0.0).then(|| (whole(percent * 100.0), Axis::Share));
    }
    if let Ok(octets) = parse_rate(text) {
        return Some((octets.saturating_mul(8), Axis::Rate));
    }
    if let Ok(octets) = parse_size(text) {
        return Some((octets, Axis::Octets));
    }
    let micros = parse_duration(text).ok()?.as_micros();
    Some((u64::try_from(micros).ok()?, Axis::Time))
}

/// The place of a value on an axis; the least where it has none there.
pub(crate) fn place(text: &str, axis: Axis) -> u64 {
    match fraction(text).filter(|_| axis == Axis::Share) {
        Some(place) => place,
        None => worth(text).map_or(0, |(place, _)| place),
    }
}

/// A part of 1, as `0.02`, on an axis of shares.
fn fraction(text: &str) -> Option<u64> {
    let part: f64 = text.parse().ok()?;
    (0.0..=1.0).contains(&part).then(|| whole(part * 10_000.0))
}

/// Values on one axis, where all of them are quantities of one kind. Numbers of which one is between 0 and 1, and none beyond, are shares.
pub(crate) fn axis_of<'a>(
    values: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> Option<Axis> {
    let values = values.into_iter();
    let is_count = |value: &str| value.parse::<u64>().is_ok();
    if values.clone().all(|it| fraction(it).is_some()) && !values.clone().all(is_count) {
        return Some(Axis::Share);
    }
    let mut found = None;
    for value in values {
        let (_, axis) = worth(value)?;
        if found.is_some_and(|it| it != axis) {
            return None;
        }
        found = Some(axis);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_a_place_and_names_have_none() {
        assert_eq!(worth("2kB"), Some((2_000, Axis::Octets)));
        assert_eq!(worth("4MiB"), Some((4_194_304, Axis::Octets)));
        assert_eq!(worth("28Mbit"), Some((28_000_000, Axis::Rate)));
        assert_eq!(worth("250ms"), Some((250_000, Axis::Time)));
        assert_eq!(worth("10%"), Some((1_000, Axis::Share)));
        assert_eq!(worth("16"), Some((16, Axis::Count)));
        assert_eq!(worth("25s..35s"), Some((30_000_000, Axis::Time)));
        assert_eq!(worth("0..2kB"), Some((1_000, Axis::Octets)));
        for name in ["", "sync", "2 apples", "-3", "1s..", "..", "1s..2kB"] {
            assert_eq!(worth(name), None, "{name}");
        }
        assert_eq!(axis_of(["2kB", "4MB"]), Some(Axis::Octets));
        assert_eq!(axis_of(["6s..9s", "1min"]), Some(Axis::Time));
        assert_eq!(axis_of(["2kB", "10%"]), None);
        assert_eq!(axis_of([]), None);
        assert_eq!(axis_of(["0", "0.02", "1"]), Some(Axis::Share));
        assert_eq!(axis_of(["0", "1"]), Some(Axis::Count));
        assert_eq!(axis_of(["0.5", "2"]), None);
        let places = ["0", "0.02", "1", "2%"].map(|it| place(it, Axis::Share));
        assert_eq!(places, [0, 200, 10_000, 200]);
        assert_eq!(place("1", Axis::Count), 1);
    }
}
