//! The value of a key as a quantity, so that it has a place on an axis: `2kB`, `28Mbit`, `250ms`, `10%`, `4`.

use dhow_document::quantity::{parse_duration, parse_rate, parse_size};
use dhow_page::Axis;

use crate::number::whole;

/// A value with its place on an axis; nothing where it is no quantity.
pub(crate) fn worth(text: &str) -> Option<(u64, Axis)> {
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

/// Values on one axis, where all of them are quantities of one kind.
pub(crate) fn axis_of<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Axis> {
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
        for name in ["", "sync", "2 apples", "-3"] {
            assert_eq!(worth(name), None, "{name}");
        }
        assert_eq!(axis_of(["2kB", "4MB"]), Some(Axis::Octets));
        assert_eq!(axis_of(["2kB", "10%"]), None);
        assert_eq!(axis_of([]), None);
    }
}
