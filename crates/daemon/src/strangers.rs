//! Lines of the log about connections that ended before a session was up: anybody may make such connections, as fast as they like.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use dhow_bundle::Instant;
use tracing::field::display;

use crate::pace::Pace;

/// Reasons that are told at once, at most, however soon they follow each other.
const REASONS_MOST: usize = 8;

/// A reason that was told so long ago is a new one.
const MEMORY: Duration = Duration::from_secs(60);

/// A bound of a line a second, and of one for each reason that was not told within the last minute.
#[derive(Debug, Default)]
pub struct Strangers {
    pace: Pace,
    told: BTreeSet<String>,
    since: Option<Instant>,
    /// The last one that was left out.
    last: Option<(String, Option<SocketAddr>)>,
}

impl Strangers {
    /// Logs why a connection ended, or counts it.
    pub fn say(&mut self, (stream, address): (u64, Option<SocketAddr>), why: &str, now: Instant) {
        if self.since.is_none_or(|since| now.since(since) >= MEMORY) {
            self.since = Some(now);
            self.told.clear();
        }
        let is_new = self.told.len() < REASONS_MOST && !self.told.contains(why);
        let more = match self.pace.say(now) {
            Some(more) => (more > 0).then_some(more),
            None if is_new => {
                self.pace.is_said();
                None
            }
            None => {
                self.last = Some((why.to_owned(), address));
                return;
            }
        };
        if is_new {
            self.told.insert(why.to_owned());
        }
        let address = address.map(display);
        tracing::warn!(stream, address, more, "no session: {why}");
    }

    /// Tells how many were left out, and the last of them, once none has come for a while.
    pub fn flush(&mut self, now: Instant) {
        let Some(more) = self.pace.flush(now) else {
            return;
        };
        let (last, address) = self.last.take().unwrap_or_default();
        let address = address.map(display);
        tracing::warn!(
            more,
            last,
            address,
            "more connections ended before a session was up"
        );
    }

    /// When `flush` has something to say.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.pace.due()
    }
}
