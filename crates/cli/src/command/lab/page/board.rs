//! The content of the page, between the lab, which writes it, and readers, who are each at their own place in it.
//!
//! Readers are never waited for: a new state takes the place of the one before it, and of events the last are kept. A reader that comes too late for
//! some is told how many.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

/// Events that are kept for readers.
const EVENTS_MAX: usize = 200;

/// The state that is shown, for all readers.
#[derive(Debug, Default)]
pub struct Board {
    shown: Mutex<Shown>,
    /// Tells readers of another state of what is shown.
    news: watch::Sender<()>,
    /// Tells the lab of readers that come, go, or have the report.
    readers: Condvar,
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
    report: Option<Bytes>,
    /// Readers of events at present.
    readers: usize,
    /// Readers, also former ones, that may ask for the report.
    due: usize,
    /// Readers that have been given the report.
    reported: usize,
    is_closed: bool,
}

/// A reader, at its place.
#[derive(Debug)]
pub struct Reader {
    board: Arc<Board>,
    news: watch::Receiver<()>,
    plan: u64,
    now: u64,
    events: u64,
    has_ended: bool,
}

/// The report on its way to a reader, who has been given it once this value is dropped.
#[derive(Debug)]
pub struct Given {
    board: Arc<Board>,
    text: Bytes,
}

impl Board {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut self.shown());
        self.news.send_replace(());
    }

    /// True while somebody reads.
    pub fn is_read(&self) -> bool {
        self.shown().readers > 0
    }

    /// Shows another run.
    pub fn plan(&self, text: &str) {
        self.change(|shown| shown.plan = (shown.plan.0 + 1, text.into()));
    }

    /// Shows another state of the run.
    pub fn now(&self, text: &str) {
        self.change(|shown| shown.now = (shown.now.0 + 1, text.into()));
    }

    /// Adds an event.
    pub fn event(&self, text: &str) {
        self.change(|shown| {
            if shown.events.len() == EVENTS_MAX {
                shown.events.pop_front();
                shown.gone += 1;
            }
            shown.events.push_back(text.into());
        });
    }

    /// Says that the lab has ended, and gives what readers may ask for then.
    pub fn end(&self, text: &str, report: Option<Vec<u8>>) {
        self.change(|shown| {
            shown.ended = Some(text.into());
            shown.report = report.map(Bytes::from);
            shown.due = shown.readers;
        });
    }

    /// The report, once the lab has ended.
    pub fn report(&self) -> Option<Bytes> {
        self.shown().report.clone()
    }

    /// Waits until readers have the report, or are told of the end where there is none, but no longer than this; none reads on.
    pub fn close(&self, patience: Duration) {
        let until = Instant::now() + patience;
        self.wait(until, |shown| {
            shown.report.is_none() || shown.reported >= shown.due
        });
        self.change(|shown| shown.is_closed = true);
        self.wait(until, |shown| shown.readers == 0);
    }

    fn wait(&self, until: Instant, is_done: impl Fn(&Shown) -> bool) {
        let mut shown = self.shown();
        while !is_done(&shown) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.readers.wait_timeout(shown, left);
            shown = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Reader {
    /// A reader of a board, which knows the events before this one.
    pub fn new(board: &Arc<Board>, events: u64) -> Self {
        let mut shown = board.shown();
        shown.readers += 1;
        shown.due += usize::from(shown.ended.is_some());
        // An event that was not yet there belongs to another lab, at the same address.
        let events = Some(events).filter(|it| *it <= shown.last());
        Self {
            board: Arc::clone(board),
            news: board.news.subscribe(),
            plan: 0,
            now: 0,
            events: events.unwrap_or(0),
            has_ended: false,
        }
    }

    /// News at the reader's place, as server-sent events, once there is anything or this time is over; nothing when the page is closed.
    pub async fn read(&mut self, patience: Duration) -> Option<String> {
        // News from here on is seen below or waited for.
        self.news.mark_unchanged();
        if !self.has_news() {
            // It is the same whether something is new or the time is over.
            let _ = tokio::time::timeout(patience, self.news.changed()).await;
        }
        let board = Arc::clone(&self.board);
        let shown = board.shown();
        let news = shown.news(self);
        match (news.is_empty(), shown.is_closed) {
            (false, _) => Some(news),
            (true, true) => None,
            // A comment, by which a connection that is lost is found.
            (true, false) => Some(":\n\n".to_owned()),
        }
    }

    fn has_news(&self) -> bool {
        let shown = self.board.shown();
        shown.is_closed
            || shown.plan.0 > self.plan
            || shown.now.0 > self.now
            || shown.last() > self.events
            || shown.ended.is_some() && !self.has_ended
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut shown = self.board.shown();
        shown.readers = shown.readers.saturating_sub(1);
        // A reader that was never told of the end asks for no report.
        let is_due = shown.ended.is_some() && !self.has_ended;
        shown.due = shown.due.saturating_sub(usize::from(is_due));
        self.board.readers.notify_all();
    }
}

impl Given {
    /// The report for a reader of this board.
    pub fn new(board: &Arc<Board>, text: Bytes) -> Self {
        let board = Arc::clone(board);
        Self { board, text }
    }
}

impl AsRef<[u8]> for Given {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        self.board.shown().reported += 1;
        self.board.readers.notify_all();
    }
}

impl Shown {
    fn last(&self) -> u64 {
        let kept = u64::try_from(self.events.len()).unwrap_or(u64::MAX);
        self.gone.saturating_add(kept)
    }

    fn news(&self, place: &mut Reader) -> String {
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
        for (number, event) in (place.events + 1..).zip(self.events.iter().skip(known)) {
            // A reader that comes again says the last that it has.
            add("event", &format!("{event}\nid: {number}"));
        }
        place.events = self.last();
        if let Some(ended) = self.ended.as_ref().filter(|_| !place.has_ended) {
            place.has_ended = true;
            add("ended", ended);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT: Duration = Duration::ZERO;

    fn next(reader: &mut Reader) -> Option<String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(reader.read(NOT))
    }

    #[test]
    fn a_reader_has_the_newest_state_and_each_event_once() {
        let board = Arc::new(Board::default());
        let mut reader = Reader::new(&board, 0);
        board.plan("1");
        board.now("2");
        board.now("3");
        board.event("4");
        assert_eq!(
            next(&mut reader).unwrap(),
            "event: plan\ndata: 1\n\nevent: now\ndata: 3\n\nevent: event\ndata: 4\nid: 1\n\n"
        );
        assert_eq!(next(&mut reader).unwrap(), ":\n\n");
        board.event("5");
        assert_eq!(
            next(&mut reader).unwrap(),
            "event: event\ndata: 5\nid: 2\n\n"
        );
    }

    #[test]
    fn a_reader_that_comes_again_goes_on_behind_the_last_event_that_it_has() {
        let board = Arc::new(Board::default());
        board.event("4");
        board.event("5");
        let mut again = Reader::new(&board, 1);
        assert_eq!(
            next(&mut again).unwrap(),
            "event: event\ndata: 5\nid: 2\n\n"
        );
        // A number of another lab, which had more.
        let mut other = Reader::new(&board, 3);
        assert_eq!(next(&mut other).unwrap().matches("event: event").count(), 2);
    }

    #[test]
    fn a_reader_that_does_not_read_is_told_what_it_missed_and_nothing_grows() {
        let board = Arc::new(Board::default());
        let mut reader = Reader::new(&board, 0);
        board.event("0");
        next(&mut reader).unwrap();
        for number in 1..=1_000 {
            board.event(&number.to_string());
        }
        assert_eq!(board.shown().events.len(), EVENTS_MAX);
        let news = next(&mut reader).unwrap();
        assert!(
            news.starts_with("event: skipped\ndata: 800\n\nevent: event\ndata: 801\nid: 802\n\n"),
            "{news}"
        );
        assert_eq!(news.matches("event: event").count(), EVENTS_MAX);
    }

    #[test]
    fn the_end_is_told_before_a_page_is_closed() {
        let board = Arc::new(Board::default());
        let mut reader = Reader::new(&board, 0);
        board.end("done", None);
        board.close(NOT);
        assert_eq!(next(&mut reader).unwrap(), "event: ended\ndata: done\n\n");
        assert_eq!(next(&mut reader), None);
    }

    #[test]
    fn the_end_waits_for_readers_that_are_to_have_the_report_and_for_no_others() {
        let board = Arc::new(Board::default());
        let (mut reader, gone) = (Reader::new(&board, 0), Reader::new(&board, 0));
        board.end("done", Some(b"report".to_vec()));
        next(&mut reader).unwrap();
        drop(gone);
        // It asks for the report once it has been told, and reads no events meanwhile.
        drop(reader);
        let report = Given::new(&board, board.report().unwrap());
        assert_eq!(report.as_ref(), b"report");
        assert_eq!(board.shown().due, 1);
        assert_eq!(board.shown().reported, 0);
        drop(report);
        // There is nothing to wait for.
        board.close(Duration::from_secs(3600));
    }
}
