//! DTN time as people read it: date and time of day, UTC.

use dhow_bundle::DtnTime;

const MS_PER_DAY: u64 = 86_400_000;

/// `2026-11-20 14:39:02.123 UTC`, or words for the time that means "no accurate clock".
pub fn utc(time: DtnTime) -> String {
    let Some(unix_ms) = time.as_unix_millis() else {
        return "unknown (no accurate clock)".to_owned();
    };
    let (year, month, day) = civil_date(unix_ms / MS_PER_DAY);
    let in_day = unix_ms % MS_PER_DAY;
    let (hour, minute, second, ms) = (
        in_day / 3_600_000,
        in_day / 60_000 % 60,
        in_day / 1000 % 60,
        in_day % 1000,
    );
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03} UTC")
}

/// `20261120143902`, UTC, of a time since 1970.
pub fn compact(since_1970: std::time::Duration) -> String {
    let seconds = since_1970.as_secs();
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
}

/// The Gregorian date of a day counted from 1970-01-01, counted in eras of 400 years (146 097 days) that
/// begin on 1 March, so that the leap day is the last of its year.
fn civil_date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

/// The wall clock now.
pub fn now() -> DtnTime {
    let since_1970 = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    DtnTime::from_unix_millis(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates_read_right() {
        let utc_of_unix = |seconds: u64| utc(DtnTime::from_unix_millis(seconds * 1000));
        assert_eq!(utc_of_unix(951_782_400), "2000-02-29 00:00:00.000 UTC");
        assert_eq!(utc_of_unix(1_798_761_599), "2026-12-31 23:59:59.000 UTC");
        assert_eq!(utc_of_unix(4_107_542_400), "2100-03-01 00:00:00.000 UTC");
        let time = std::time::Duration::from_secs(1_798_761_599);
        assert_eq!(compact(time), "20261231235959");
        assert_eq!(utc(DtnTime::from_millis(1)), "2000-01-01 00:00:00.001 UTC");
        assert_eq!(utc(DtnTime::UNKNOWN), "unknown (no accurate clock)");
    }

    #[test]
    fn the_largest_time_is_written_without_overflow() {
        assert!(utc(DtnTime::from_millis(u64::MAX - DtnTime::UNIX_OFFSET_MS)).ends_with("UTC"));
    }
}
