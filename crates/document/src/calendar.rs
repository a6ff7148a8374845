//! Times of the calendar, UTC, as octets of text have them.

const SECONDS_PER_DAY: u64 = 86_400;

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: u64 = 719_468;

/// Seconds of Unix time of a date as `2026-11-24`, with what stands between its numbers, and a time as `06:00:00`, from the year 2000 on.
#[must_use]
pub fn unix_seconds((date, between): (&str, char), time: &str) -> Option<u64> {
    let [year, month, day] = numbers(date, between, [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 2000 || !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let in_day = (hour * 60 + minute) * 60 + second;
    Some(days_since_1970(year, month, day) * SECONDS_PER_DAY + in_day)
}

/// Three numbers of so many digits each.
fn numbers(text: &str, between: char, digits: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(between);
    let mut numbers = [0; 3];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits)?;
        *number = parse_digits(part)?;
    }
    parts.next().is_none().then_some(numbers)
}

/// A number of digits alone.
#[must_use]
pub fn parse_digits(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|octet| octet.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// The days of a Gregorian date from 1970 on, counted in eras of 400 years (146 097 days) of which each year begins on 1 March, so that
/// the leap day is its last.
const fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - DAYS_BEFORE_1970
}
