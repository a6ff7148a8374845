//! Keepalives: a side that has nothing to say says so in time, and ends a session in which nothing is heard (RFC 9174 5.1.1).

use std::time::Duration;

use dhow_bundle::Instant;

use super::message::Offer;

/// The time by which something may happen later than the standard says: clocks drift, and are not those of this judge.
const SLACK: Duration = Duration::from_secs(1);

/// A part of the interval that is slack too.
const SLACK_PART: u32 = 10;

/// The keepalives of one side of a session.
#[derive(Debug, Default)]
pub struct Upkeep {
    /// Between two things that are said, at most; none before it is agreed on, and zero where there are to be no keepalives.
    interval: Option<Duration>,
    /// When it last said something, or had something to say that the connection did not take.
    said: Instant,
    /// When it last heard something, or wanted to hear nothing.
    heard: Instant,
}

impl Upkeep {
    /// The side knows both sides' offers; they hold for the whole session.
    pub fn agree(&mut self, offers: [Offer; 2], now: Instant) {
        if self.interval.is_some() {
            return;
        }
        // RFC 9174 4.7: the smaller of the two; 0 for none.
        let least = offers.iter().map(|offer| offer.keepalive_s).min();
        self.interval = least.map(|seconds| Duration::from_secs(seconds.into()));
        (self.said, self.heard) = (now, now);
    }

    /// The side says something now, or would if it could.
    pub fn say(&mut self, now: Instant) {
        self.said = now;
    }

    /// The side hears something now, or would if it wanted to.
    pub fn hear(&mut self, now: Instant) {
        self.heard = now;
    }

    /// The rule that it has failed to obey by now, as a sentence's end; nothing more is expected of a session that ends.
    pub fn overdue(&self, now: Instant) -> Result<(), String> {
        let Some(interval) = self.interval.filter(|interval| !interval.is_zero()) else {
            return Ok(());
        };
        let (silent, deaf) = (now.since(self.said), now.since(self.heard));
        let slack = SLACK + interval / SLACK_PART;
        if silent > interval + slack {
            return Err(format!(
                "has said nothing for {} s where it is to say something every {} s (RFC 9174 5.1.1)",
                silent.as_secs(),
                interval.as_secs()
            ));
        }
        if deaf > interval * 2 + slack {
            return Err(format!(
                "has heard nothing for {} s in a session of {} s between keepalives and has not ended it (RFC 9174 5.1.1)",
                deaf.as_secs(),
                interval.as_secs()
            ));
        }
        Ok(())
    }
}
