//! Times in a node file: of the calendar, UTC, or behind the node's start.

use std::time::Duration;

use dhow_bundle::DtnTime;
use dhow_document::calendar::{parse_digits, unix_seconds};
use dhow_document::quantity::parse_duration;
use dhow_document::{Document, Entries, FileError};

/// A time as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// `2026-11-24T06:00:00Z`.
    At(DtnTime),
    /// `+90s`.
    AfterStart(Duration),
}

impl Moment {
    /// Reads a key's time; none where it is absent.
    pub(super) fn read(
        document: &Document<'_>,
        entries: &Entries,
        key: &str,
    ) -> Result<Option<Self>, FileError> {
        let Some(text) = entries.text(key) else {
            return Ok(None);
        };
        let moment = Self::parse(text).ok_or_else(|| {
            document
                .fault(entries.line_of(key), format!("'{text}' is not a time"))
                .with_hint(format!(
                    "for example: {key} = \"2026-11-24T06:00:00Z\", or {key} = \"+10min\" behind the node's start"
                ))
        })?;
        Ok(Some(moment))
    }

    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix('+') {
            Some(span) => parse_duration(span).ok().map(Self::AfterStart),
            None => utc(text).map(Self::At),
        }
    }

    /// The time that it is for a node with this start.
    pub(super) fn of_start(self, start: DtnTime) -> DtnTime {
        match self {
            Self::At(time) => time,
            Self::AfterStart(span) => after(start, span),
        }
    }
}

/// The time that a text means for a node with this start; none where it is no time.
#[must_use]
pub fn moment_of(text: &str, start: DtnTime) -> Option<DtnTime> {
    Moment::parse(text).map(|moment| moment.of_start(start))
}

/// A time so much later.
pub(super) fn after(time: DtnTime, span: Duration) -> DtnTime {
    time.saturating_add_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// The time of `2026-11-24T06:00:00Z` or `2026-11-24T06:00:00.250Z`, from the year 2000 on.
fn utc(text: &str) -> Option<DtnTime> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = match time.split_once('.') {
        Some((time, fraction)) => (time, fraction),
        None => (time, "0"),
    };
    let ms = match fraction.len() {
        1..=3 => parse_digits(&format!("{fraction:0<3}"))?,
        _ => return None,
    };
    let seconds = unix_seconds((date, '-'), time)?;
    Some(DtnTime::from_unix_millis(seconds * 1_000 + ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_calendar_are_read_to_the_millisecond() {
        for (text, unix_ms) in [
            ("2000-01-01T00:00:00Z", 946_684_800_000),
            ("2000-02-29T23:59:59.9Z", 951_868_799_900),
            ("2026-11-24T06:00:00Z", 1_795_500_000_000),
            ("2100-03-01T00:00:00.001Z", 4_107_542_400_001),
        ] {
            let time = DtnTime::from_unix_millis(unix_ms);
            assert_eq!(Moment::parse(text), Some(Moment::At(time)), "{text}");
        }
        let start = DtnTime::from_millis(5_000);
        let behind = Moment::parse("+1min").map(|moment| moment.of_start(start));
        assert_eq!(behind, Some(DtnTime::from_millis(65_000)));
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "+",
            "+soon",
            "60s",
            "now",
            "2026-11-24",
            "2026-11-24T06:00:00",
            "2026-11-24 06:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-04-00T00:00:00Z",
            "2026-11-24T24:00:00Z",
            "2026-11-24T06:60:00Z",
            "2026-11-24T06:00:60Z",
            "1999-12-31T23:59:59Z",
            "2026-11-24T06:00:00.1234Z",
            "2026-11-24T06:00:00.Z",
            "+2026-1-1T06:00:00Z",
            "2026-+1-24T06:00:00Z",
            "2026-11-24T06:00Z",
            "2026-11-24T06:00:00:00Z",
        ] {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }
}
