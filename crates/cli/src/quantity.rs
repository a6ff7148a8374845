//! Sizes, rates and spans of time as people read them. Sizes count in thousands: kB = 1000.

use std::time::Duration;

const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];

/// `999 B`, `1.0 kB`, `15.6 MB`.
pub fn size(octets: u64) -> String {
    if octets < 1000 {
        return format!("{octets} B");
    }
    let mut scaled = to_f64(octets) / 1000.0;
    let mut unit = 0;
    // 999.95 would be rounded up to "1000.0".
    while scaled >= 999.95 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS.get(unit).unwrap_or(&"PB"))
}

/// `4.2 MB/s`; zero time gives no rate.
pub fn rate(octets: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if seconds <= 0.0 {
        return "- B/s".to_owned();
    }
    format!("{}/s", size(to_u64(to_f64(octets) / seconds)))
}

/// `28.31 Mbit/s`; zero time gives no rate.
pub fn bit_rate(octets: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if seconds <= 0.0 {
        return "- bit/s".to_owned();
    }
    let bits = to_f64(octets) * 8.0 / seconds;
    match bits {
        0.0..1e3 => format!("{bits:.0} bit/s"),
        1e3..1e6 => format!("{:.2} kbit/s", bits / 1e3),
        1e6..1e9 => format!("{:.2} Mbit/s", bits / 1e6),
        _ => format!("{:.2} Gbit/s", bits / 1e9),
    }
}

/// The rate of a count, a second, with one decimal below 100.
pub fn per_second(count: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if seconds <= 0.0 {
        return "-".to_owned();
    }
    let each = to_f64(count) / seconds;
    if each < 100.0 {
        format!("{each:.1}")
    } else {
        format!("{each:.0}")
    }
}

/// `250 ms`, `12.4 s`, `3 min 20 s`, `2 h 5 min`, `4 d 1 h`: the two largest units, the smaller one rounded.
pub fn span(milliseconds: u64) -> String {
    // So many of a unit, the nearest.
    let of = |unit: u64| milliseconds / unit + u64::from(milliseconds % unit >= unit.div_ceil(2));
    let (tenths, seconds) = (of(100), of(1000));
    let (minutes, hours) = (of(60_000), of(3_600_000));
    if milliseconds < 1000 {
        format!("{milliseconds} ms")
    } else if milliseconds < 60_000 && milliseconds.is_multiple_of(1000) {
        format!("{seconds} s")
    } else if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else if seconds < 3600 {
        two(seconds / 60, "min", seconds % 60, "s")
    } else if minutes < 24 * 60 {
        two(minutes / 60, "h", minutes % 60, "min")
    } else {
        two(hours / 24, "d", hours % 24, "h")
    }
}

/// A time that something took: like [`span`], with a decimal below 10 ms.
pub fn elapsed(time: Duration) -> String {
    if time < Duration::from_millis(10) {
        return format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    }
    span(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large} {large_unit}")
    } else {
        format!("{large} {large_unit} {small} {small_unit}")
    }
}

/// A whole number with its thousands apart: `12,345`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "shown with four digits at most"
)]
const fn to_f64(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates; shown with four digits at most"
)]
const fn to_u64(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_in_thousands() {
        let shown: Vec<String> = [0, 999, 1000, 15_649_999, 999_949, 999_950, u64::MAX]
            .map(size)
            .to_vec();
        assert_eq!(
            shown,
            [
                "0 B",
                "999 B",
                "1.0 kB",
                "15.6 MB",
                "999.9 kB",
                "1.0 MB",
                "18446.7 PB"
            ]
        );
    }

    #[test]
    fn spans_show_their_two_largest_units() {
        let shown: Vec<String> = [
            0,
            250,
            1000,
            3_970,
            12_449,
            59_950,
            200_000,
            7_500_000,
            86_400_000,
            349_200_000,
        ]
        .map(span)
        .to_vec();
        assert_eq!(
            shown,
            [
                "0 ms",
                "250 ms",
                "1 s",
                "4.0 s",
                "12.4 s",
                "1 min",
                "3 min 20 s",
                "2 h 5 min",
                "1 d",
                "4 d 1 h"
            ]
        );
    }

    #[test]
    fn short_times_are_not_shown_as_none() {
        let shown = [780, 9_900, 10_900].map(|micros| elapsed(Duration::from_micros(micros)));
        assert_eq!(shown, ["0.8 ms", "9.9 ms", "10 ms"]);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(thousands).to_vec(),
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    #[test]
    fn rates_without_time_are_not_shown_as_infinite() {
        assert_eq!(rate(5, Duration::ZERO), "- B/s");
        assert_eq!(rate(5_000_000, Duration::from_millis(500)), "10.0 MB/s");
        assert_eq!(per_second(5, Duration::from_millis(500)), "10.0");
    }
}
