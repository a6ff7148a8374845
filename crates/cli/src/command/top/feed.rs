//! Requests to the node, in threads of their own, so that keys never wait for it.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::Value;

use super::reading::{Answers, Reading, plain};
use crate::admin::{Admin, path_segment};
use crate::arguments::Common;
use crate::command::why;
use crate::failure::Failure;

/// The time that the node has for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pieces of news that wait for the screen, at most.
const NEWS: usize = 256;

/// Requests of the person that wait, at most: further keys are ignored.
const REQUESTS: usize = 4;

/// The time before a stream of events that ended is asked for again.
const EVENTS_AGAIN: Duration = Duration::from_secs(2);

/// Most octets of one event; longer ones are skipped.
const EVENT_OCTETS: usize = 16 << 10;

/// Something that a thread found out.
#[derive(Debug)]
pub enum News {
    /// The node said this, at an instant.
    Reading(Box<Reading>, Instant),
    /// The node did not answer, and why.
    Away(String),
    /// An event in words.
    Event(String),
    /// The outcome of a request: a heading and words.
    Outcome(String, String),
}

/// Something that the person wants of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Another reading at once.
    Read,
    /// A link up or down.
    Turn { link: String, up: bool },
    /// The reason for which bundles for an endpoint wait.
    Why(String),
}

/// The threads' ends.
#[derive(Debug)]
pub struct Feed {
    pub news: Receiver<News>,
    requests: SyncSender<Request>,
}

impl Feed {
    /// Begins to ask the node.
    pub fn start(common: &Common, interval: Duration) -> Result<Self, Failure> {
        let (news_in, news) = sync_channel(NEWS);
        let (requests, requests_out) = sync_channel(REQUESTS);
        let admin = Admin::of(common.node.as_ref())?.within(PATIENCE);
        let events = Admin::of(common.node.as_ref())?.patiently();
        let told = news_in.clone();
        thread::spawn(move || ask(&admin, interval, &requests_out, &news_in));
        thread::spawn(move || listen(&events, &told));
        Ok(Self { news, requests })
    }

    /// Asks for something, unless too much is asked already.
    pub fn request(&self, request: Request) {
        // A person who asks more than that sees that nothing happens, and asks again.
        let _ = self.requests.try_send(request);
    }
}

/// Reads the node once.
pub fn read(admin: &Admin) -> Result<Reading, Failure> {
    Ok(Reading::of(&Answers {
        node: admin.read("/v1/node")?,
        links: admin.read("/v1/links")?,
        sessions: admin.read("/v1/sessions")?,
        destinations: admin.read("/v1/destinations")?,
        contacts: admin.read("/v1/contacts")?,
    }))
}

/// Reads at each interval, and does what is requested, until nobody looks any more.
fn ask(admin: &Admin, interval: Duration, requests: &Receiver<Request>, news: &SyncSender<News>) {
    let mut due = Instant::now();
    loop {
        let wait = due.saturating_duration_since(Instant::now());
        let told = match requests.recv_timeout(wait) {
            Ok(Request::Turn { link, up }) => {
                due = Instant::now();
                turn(admin, &link, up)
            }
            Ok(Request::Why(endpoint)) => explain(admin, &endpoint),
            Ok(Request::Read) | Err(RecvTimeoutError::Timeout) => {
                due = Instant::now() + interval;
                match read(admin) {
                    Ok(reading) => News::Reading(Box::new(reading), Instant::now()),
                    Err(failure) => News::Away(plain(&failure.to_string())),
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if news.send(told).is_err() {
            return;
        }
    }
}

fn turn(admin: &Admin, link: &str, up: bool) -> News {
    let (direction, doing) = if up {
        ("up", "bringing")
    } else {
        ("down", "taking")
    };
    let path = format!("/v1/links/{}/{direction}", path_segment(link));
    let outcome = admin.act(&Method::POST, &path, None);
    let heading = format!("link {link}");
    match outcome {
        Ok(_) => News::Event(format!("{doing} link {link} {direction}")),
        Err(failure) => News::Outcome(heading, failure.to_string()),
    }
}

fn explain(admin: &Admin, endpoint: &str) -> News {
    let heading = format!("why {endpoint} waits");
    let answer = admin.read(&format!("/v1/why/{}", path_segment(endpoint)));
    let words = answer.map_or_else(|failure| failure.to_string(), |it| why::told(&it));
    let lines: Vec<_> = words.lines().map(plain).collect();
    News::Outcome(heading, lines.join("\n"))
}

/// Tells of events for as long as somebody looks.
fn listen(admin: &Admin, news: &SyncSender<News>) {
    loop {
        let mut lines = Lines::default();
        // Why the stream ended is told by the readings, which fail as well.
        let ended = admin.stream(&Method::GET, "/v1/events", |piece| {
            for line in lines.take(piece) {
                if let Some(event) = event(&line)
                    && let Err(TrySendError::Disconnected(_)) = news.try_send(News::Event(event))
                {
                    return Err(Failure::refused("nobody looks any more"));
                }
            }
            Ok(())
        });
        drop(ended);
        thread::sleep(EVENTS_AGAIN);
    }
}

/// The lines of a stream of octets that comes in pieces.
#[derive(Debug, Default)]
struct Lines {
    begun: Vec<u8>,
    is_skipping: bool,
}

impl Lines {
    fn take(&mut self, piece: &[u8]) -> VecDeque<String> {
        let mut whole = VecDeque::new();
        for octet in piece {
            match octet {
                b'\n' => {
                    if !self.is_skipping {
                        whole.push_back(String::from_utf8_lossy(&self.begun).into_owned());
                    }
                    self.begun.clear();
                    self.is_skipping = false;
                }
                _ if self.begun.len() >= EVENT_OCTETS => self.is_skipping = true,
                octet => self.begun.push(*octet),
            }
        }
        whole
    }
}

/// An event in words, of a line of server-sent events that holds one.
fn event(line: &str) -> Option<String> {
    let value: Value = serde_json::from_str(line.strip_prefix("data:")?).ok()?;
    let fields = value.as_object()?;
    let mut words = plain(value.get("event")?.as_str()?).replace('_', " ");
    let shown = fields
        .iter()
        .filter(|(key, it)| *key != "event" && *key != "session" && !it.is_null());
    for (key, it) in shown {
        let it = it.as_str().map_or_else(|| it.to_string(), plain);
        words.push_str(&format!("  {} {it}", key.replace('_', " ")));
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_words_and_come_in_any_pieces() {
        let text = b": alive\ndata: {\"event\":\"session_up\",\"session\":3,\"link\":\"beta\",\"peer\":\"ipn:2.0\"}\n\ndata: no json\n";
        for length in [1, 7, text.len()] {
            let mut lines = Lines::default();
            let told: Vec<_> = text
                .chunks(length)
                .flat_map(|piece| lines.take(piece))
                .filter_map(|line| event(&line))
                .collect();
            assert_eq!(told, ["session up  link beta  peer ipn:2.0"]);
        }
    }

    #[test]
    fn an_endless_line_takes_bounded_memory_and_is_skipped() {
        let mut lines = Lines::default();
        for _ in 0..100 {
            assert!(lines.take(&[b'x'; 1000]).is_empty());
        }
        assert!(lines.begun.len() <= EVENT_OCTETS);
        assert_eq!(lines.take(b"\nnext\n"), ["next"]);
    }
}
