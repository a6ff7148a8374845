//! Quantities as people read them.

use std::time::Duration;

/// A time as people read it, rounded to the last digit that is shown: `3 d 4 h`, `2 h 5 min`, `12.5 s`, `40 ms`, `1.5 ms`, `250 µs`.
#[must_use]
pub fn span(time: Duration) -> String {
    const MICROSECOND: u128 = 1_000;
    const MILLISECOND: u128 = 1_000 * MICROSECOND;
    const SECOND: u128 = 1_000 * MILLISECOND;
    let nanos = time.as_nanos();
    // So many of a unit, the nearest.
    let of = |unit: u128| (nanos + unit / 2) / unit;
    let (micros, tenths) = (of(MICROSECOND), of(SECOND / 10));
    let two = |small: u128, in_large: u128, [large_unit, small_unit]: [&str; 2]| {
        let (large, small) = (small / in_large, small % in_large);
        match small {
            0 => format!("{large} {large_unit}"),
            _ => format!("{large} {large_unit} {small} {small_unit}"),
        }
    };
    if micros == 0 {
        "0 ms".to_owned()
    } else if micros < 1_000 {
        format!("{micros} µs")
    } else if of(MILLISECOND / 10) < 100 {
        match of(MILLISECOND / 10) {
            tenths if tenths % 10 == 0 => format!("{} ms", tenths / 10),
            tenths => format!("{}.{} ms", tenths / 10, tenths % 10),
        }
    } else if of(MILLISECOND) < 1_000 {
        format!("{} ms", of(MILLISECOND))
    } else if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else if of(SECOND) < 3_600 {
        two(of(SECOND), 60, ["min", "s"])
    } else if of(60 * SECOND) < 24 * 60 {
        two(of(60 * SECOND), 60, ["h", "min"])
    } else {
        two(of(3_600 * SECOND), 24, ["d", "h"])
    }
}

/// A number with its thousands apart: `1,234,567`.
#[must_use]
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// So many things, the word in its number: `1 crash`, `2 crashes`.
#[must_use]
pub fn things(count: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        thousands(count),
        if count == 1 { one } else { many }
    )
}

/// A count of what is in memory.
#[must_use]
pub fn count(things: usize) -> u64 {
    u64::try_from(things).unwrap_or(u64::MAX)
}

/// One number divided by another, rounded to two decimals: `2.04`.
#[must_use]
pub fn ratio(part: u64, whole: u64) -> String {
    let hundredths = rounded(part, 100, whole.max(1));
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// A part of a whole as a percentage rounded to one decimal: `99.5 %`; of nothing, `–`. It is `100.0 %` only of a whole.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    let tenths = match rounded(part, 1_000, whole) {
        1_000.. if part < whole => 999,
        tenths => tenths,
    };
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// So many times a part of a whole, rounded to the nearest.
fn rounded(part: u64, times: u64, whole: u64) -> u128 {
    let whole = u128::from(whole);
    (u128::from(part) * u128::from(times) + whole / 2) / whole
}

/// Octets as people read them, rounded to one decimal: `999 B`, `1.5 MB`.
#[must_use]
pub fn size(octets: u64) -> String {
    short(octets, ["GB", "MB", "kB", "B"])
}

/// Bits in a second as people read them, rounded to one decimal: `1.5 Mbit/s`.
#[must_use]
pub fn rate(bits: u64) -> String {
    short(bits, ["Gbit/s", "Mbit/s", "kbit/s", "bit/s"])
}

/// Microjoules as people read them, rounded to one decimal: `250 mJ`, `1.5 J`.
#[must_use]
pub fn energy(microjoules: u64) -> String {
    short(microjoules, ["kJ", "J", "mJ", "µJ"])
}

fn short(value: u64, [billions, millions, thousands, ones]: [&str; 4]) -> String {
    let units = [
        (1_000_000_000, billions),
        (1_000_000, millions),
        (1_000, thousands),
    ];
    // A value that would be shown as 1,000.0 of a unit is shown as 1.0 of the next.
    let begins = |scale: u64| {
        if scale > 1_000 {
            scale - scale / 20_000
        } else {
            scale
        }
    };
    let unit = units.into_iter().find(|(scale, _)| value >= begins(*scale));
    match unit {
        None => format!("{value} {ones}"),
        Some((scale, name)) => {
            let tenths = rounded(value, 10, scale);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_short() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(thousands),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(things(1, "crash", "crashes"), "1 crash");
        assert_eq!(ratio(204, 100), "2.04");
        assert_eq!(percent(199, 200), "99.5 %");
        assert_eq!(percent(0, 0), "–");
        assert_eq!(
            [percent(417, 10_000), percent(9_999, 10_000)],
            ["4.2 %", "99.9 %"]
        );
        assert_eq!(
            [47_999_756, 999_949, 999_950, 999].map(size),
            ["48.0 MB", "999.9 kB", "1.0 MB", "999 B"]
        );
        assert_eq!(
            [size(999), size(1_540), size(2_000_000_000)],
            ["999 B", "1.5 kB", "2.0 GB"]
        );
        let spans = [40, 12_540, 200_000, 7_500_000, 277_200_000];
        let spans = spans.map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(
            spans,
            ["40 ms", "12.5 s", "3 min 20 s", "2 h 5 min", "3 d 5 h"]
        );
        // Nothing is cut: what would be the next unit is.
        let rounded = [3_970, 9_960, 59_949, 59_950, 3_599_500, 86_370_000];
        let rounded = rounded.map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(
            rounded,
            ["4.0 s", "10.0 s", "59.9 s", "1 min", "1 h", "1 d"]
        );
        let rounded = [1_960, 9_949, 9_950, 999_499, 999_500];
        let rounded = rounded.map(|us| span(Duration::from_micros(us)));
        assert_eq!(rounded, ["2 ms", "9.9 ms", "10 ms", "999 ms", "1.0 s"]);
        let short = [0, 250, 1_000, 1_540, 40_540].map(|us| span(Duration::from_micros(us)));
        assert_eq!(short, ["0 ms", "250 µs", "1 ms", "1.5 ms", "41 ms"]);
        assert_eq!(rate(28_000_000), "28.0 Mbit/s");
    }
}
