//! What came of runs, for people and for other programs: one page with pictures, and tables beside it.

mod page;
mod picture;
mod tables;

pub use page::page;
pub use tables::{Tables, tables};

use std::time::Duration;

/// A time as people read it: `3 d 4 h`, `2 h 5 min`, `12.5 s`, `40 ms`.
#[must_use]
pub fn span(time: Duration) -> String {
    let (seconds, milliseconds) = (time.as_secs(), time.subsec_millis());
    let two = |large: u64, large_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    };
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..60 => format!("{seconds}.{} s", milliseconds / 100),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "min"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

/// A part of a whole as a percentage with one decimal: `99.5 %`; of nothing, `–`.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    let tenths = u128::from(part) * 1_000 / u128::from(whole);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Octets as people read them: `999 B`, `1.5 MB`.
#[must_use]
pub fn size(octets: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    let unit = units.into_iter().find(|(scale, _)| octets >= *scale);
    match unit {
        None => format!("{octets} B"),
        Some((scale, name)) => {
            let tenths = octets / (scale / 10);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_short() {
        assert_eq!(percent(199, 200), "99.5 %");
        assert_eq!(percent(0, 0), "–");
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
    }
}
