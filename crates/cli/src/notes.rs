//! Notes about what happens again and again: of each cause a few in a while, so that no cause hides another, and no more than can be read.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Notes of one cause in a [`SPAN`], at most.
const NOTES: u64 = 5;

/// The time for which notes are counted together.
const SPAN: Duration = Duration::from_secs(60);

/// The notes of a command, by their causes, which are few.
#[derive(Debug)]
pub struct Notes<C> {
    causes: BTreeMap<C, Cause>,
}

/// Notes of one cause.
#[derive(Debug)]
struct Cause {
    /// When the present span began.
    since: Instant,
    /// Notes since then, those that were not told included.
    noted: u64,
}

impl<C: Ord> Default for Notes<C> {
    fn default() -> Self {
        Self {
            causes: BTreeMap::new(),
        }
    }
}

impl<C: Ord> Notes<C> {
    /// The words to tell about something that has happened, if they are to be told.
    pub fn note(&mut self, now: Instant, cause: C, text: &str) -> Option<String> {
        let cause = self.causes.entry(cause).or_insert(Cause {
            since: now,
            noted: 0,
        });
        let mut untold = 0;
        if now.saturating_duration_since(cause.since) >= SPAN {
            untold = cause.noted.saturating_sub(NOTES);
            *cause = Cause {
                since: now,
                noted: 0,
            };
        }
        cause.noted = cause.noted.saturating_add(1);
        let more = match (cause.noted, untold) {
            (NOTES, _) => format!("; further ones within {} s are not told", SPAN.as_secs()),
            (NOTES.., _) => return None,
            (_, 0) => String::new(),
            (_, 1) => ", and 1 like it was not told".to_owned(),
            (_, untold) => format!(", and {untold} like it were not told"),
        };
        Some(format!("{text}{more}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_apart_and_come_back_after_a_while() {
        let begun = Instant::now();
        let mut notes = Notes::default();
        let told: Vec<String> = (0..8)
            .filter_map(|_| notes.note(begun, 'a', "a bundle is lost"))
            .collect();
        assert_eq!(told.len(), 5);
        assert_eq!(told[3], "a bundle is lost");
        assert_eq!(
            told[4],
            "a bundle is lost; further ones within 60 s are not told"
        );
        assert_eq!(
            notes.note(begun, 'b', "no device").as_deref(),
            Some("no device")
        );
        let almost = begun + SPAN - Duration::from_millis(1);
        assert_eq!(notes.note(almost, 'a', "a bundle is lost"), None);
        let later = begun + SPAN;
        assert_eq!(
            notes.note(later, 'a', "another is lost").as_deref(),
            Some("another is lost, and 4 like it were not told")
        );
        assert_eq!(
            notes.note(later, 'a', "another is lost").as_deref(),
            Some("another is lost")
        );
    }
}
