//! The content of the page, between the lab, which writes it, and readers, who are each at their own place in it.
//!
//! Readers are never waited for: a new state takes the place of the one before it, and of events the last are kept. A reader that comes too late for
//! some is told how many.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Events that are kept for readers.
const EVENTS_MAX: usize = 200;

/// The state that is shown, for all readers.
#[derive(Debug, Default)]
pub struct Board {
    shown: Mutex<Shown>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Shown {
    /// The run that is shown, and how often it was another.
    plan: (u64, Arc<str>),
    /// Its state, and how often that was another.
    now: (u64, Arc<str>),
    events: VecDeque<Arc<str>>,
    /// Events that there were before the first that is kept.
    gone: u64,
    ended: Option<Arc<str>>,
    report: Option<Arc<[u8]>>,
    /// Readers of events at present.
    readers: usize,
    /// Readers that have asked for the report.
    reported: usize,
    is_closed: bool,
}

/// A reader's place.
#[derive(Debug, Default)]
pub struct Place {
    plan: u64,
    now: u64,
    events: u64,
    has_ended: bool,
}

impl Board {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True while somebody reads.
    pub fn is_read(&self) -> bool {
        self.shown().readers > 0
    }

    /// Shows another run.
    pub fn plan(&self, text: &str) {
        let mut shown = self.shown();
        shown.plan = (shown.plan.0 + 1, text.into());
        self.changed.notify_all();
    }

    /// Shows another state of the run.
    pub fn now(&self, text: &str) {
        let mut shown = self.shown();
        shown.now = (shown.now.0 + 1, text.into());
        self.changed.notify_all();
    }

    /// Adds an event.
    pub fn event(&self, text: &str) {
        let mut shown = self.shown();
        if shown.events.len() == EVENTS_MAX {
            shown.events.pop_front();
            shown.gone += 1;
        }
        shown.events.push_back(text.into());
        self.changed.notify_all();
    }

    /// Says that the lab has ended, and gives what readers may ask for then.
    pub fn end(&self, text: &str, report: Option<Vec<u8>>) {
        let mut shown = self.shown();
        shown.ended = Some(text.into());
        shown.report = report.map(Arc::from);
        self.changed.notify_all();
    }

    /// The report, once the lab has ended.
    pub fn report(&self) -> Option<Arc<[u8]>> {
        let mut shown = self.shown();
        shown.reported += 1;
        self.changed.notify_all();
        shown.report.clone()
    }

    /// Waits until each reader has asked for the report, but no longer than this, and lets none read on.
    pub fn close(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut shown = self.shown();
        while shown.report.is_some() && shown.reported < shown.readers {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(shown, left);
            shown = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        shown.is_closed = true;
        self.changed.notify_all();
    }

    /// A reader comes.
    pub fn enter(&self) {
        self.shown().readers += 1;
    }

    /// A reader goes.
    pub fn leave(&self) {
        let mut shown = self.shown();
        shown.readers = shown.readers.saturating_sub(1);
        self.changed.notify_all();
    }

    /// News at a reader's place, as server-sent events, once there is anything or this time is over; nothing when the page is closed.
    pub fn next(&self, place: &mut Place, patience: Duration) -> Option<String> {
        let mut shown = self.shown();
        if !shown.is_closed && !shown.has_news(place) {
            let waited = self.changed.wait_timeout(shown, patience);
            shown = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match shown.is_closed {
            true => None,
            false => Some(shown.news(place)),
        }
    }
}

impl Shown {
    fn last(&self) -> u64 {
        let kept = u64::try_from(self.events.len()).unwrap_or(u64::MAX);
        self.gone.saturating_add(kept)
    }

    fn has_news(&self, place: &Place) -> bool {
        self.plan.0 > place.plan
            || self.now.0 > place.now
            || self.last() > place.events
            || self.ended.is_some() && !place.has_ended
    }

    fn news(&self, place: &mut Place) -> String {
        let mut text = String::new();
        let mut add = |name: &str, words: &str| {
            text += &format!("event: {name}\ndata: {words}\n\n");
        };
        if self.plan.0 > place.plan {
            place.plan = self.plan.0;
            add("plan", &self.plan.1);
        }
        if self.now.0 > place.now {
            place.now = self.now.0;
            add("now", &self.now.1);
        }
        if place.events < self.gone {
            // A reader at its beginning has missed nothing that it was to have.
            if place.events > 0 {
                add("skipped", &(self.gone - place.events).to_string());
            }
            place.events = self.gone;
        }
        let known = usize::try_from(place.events - self.gone).unwrap_or(usize::MAX);
        for event in self.events.iter().skip(known) {
            add("event", event);
        }
        place.events = self.last();
        if let Some(ended) = self.ended.as_ref().filter(|_| !place.has_ended) {
            place.has_ended = true;
            add("ended", ended);
        }
        match text.is_empty() {
            // A comment, by which a connection that is lost is found.
            true => ":\n\n".to_owned(),
            false => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT: Duration = Duration::ZERO;

    #[test]
    fn a_reader_has_the_newest_state_and_each_event_once() {
        let (board, mut place) = (Board::default(), Place::default());
        board.plan("1");
        board.now("2");
        board.now("3");
        board.event("4");
        let news = board.next(&mut place, NOT).unwrap();
        assert_eq!(
            news,
            "event: plan\ndata: 1\n\nevent: now\ndata: 3\n\nevent: event\ndata: 4\n\n"
        );
        assert_eq!(board.next(&mut place, NOT).unwrap(), ":\n\n");
        board.event("5");
        assert_eq!(
            board.next(&mut place, NOT).unwrap(),
            "event: event\ndata: 5\n\n"
        );
    }

    #[test]
    fn a_reader_that_does_not_read_is_told_what_it_missed_and_nothing_grows() {
        let (board, mut place) = (Board::default(), Place::default());
        board.event("0");
        board.next(&mut place, NOT).unwrap();
        for number in 1..=1_000 {
            board.event(&number.to_string());
        }
        assert_eq!(board.shown().events.len(), EVENTS_MAX);
        let news = board.next(&mut place, NOT).unwrap();
        assert!(
            news.starts_with("event: skipped\ndata: 800\n\nevent: event\ndata: 801\n\n"),
            "{news}"
        );
        assert_eq!(news.matches("event: event").count(), EVENTS_MAX);
    }

    #[test]
    fn the_end_is_told_and_waits_for_readers_no_longer_than_it_may() {
        let (board, mut place) = (Board::default(), Place::default());
        board.enter();
        board.end("done", Some(b"report".to_vec()));
        assert_eq!(
            board.next(&mut place, NOT).unwrap(),
            "event: ended\ndata: done\n\n"
        );
        // The one reader has the report, so there is nothing to wait for.
        assert_eq!(board.report().as_deref(), Some(&b"report"[..]));
        board.close(Duration::from_secs(3600));
        assert_eq!(board.next(&mut place, NOT), None);
    }
}
