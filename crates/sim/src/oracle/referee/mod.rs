//! A session's octets obey RFC 9174.
//!
//! A referee sits at every connection and reads both directions twice: where they are written, to judge what is said, and where
//! they are read, to know what whoever answers has heard by then. It was written from the standard
//! and shares nothing with the sessions that it judges.

mod message;
mod party;
mod upkeep;

use std::fmt;

use dhow_bundle::Instant;

use crate::queue::Side;

use message::Reader;
use party::Party;

/// Who judges one connection.
#[derive(Debug)]
pub struct Referee {
    dialling: Judged,
    accepting: Judged,
}

/// One side as the referee knows it.
#[derive(Debug)]
struct Judged {
    party: Party,
    /// Reads what it writes.
    said: Reader,
    /// Reads what it has read.
    heard: Reader,
}

impl Judged {
    fn new(side: Side) -> Self {
        Self {
            party: Party::new(side),
            said: Reader::default(),
            heard: Reader::default(),
        }
    }
}

impl Default for Referee {
    fn default() -> Self {
        Self {
            dialling: Judged::new(Side::Dialling),
            accepting: Judged::new(Side::Accepting),
        }
    }
}

/// What a side cannot do at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// The connection takes nothing more.
    Writing,
    /// Octets have arrived that its node does not take yet.
    Reading,
}

/// What breaks a rule, as the end of a sentence that begins with who said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foul(String);

impl fmt::Display for Foul {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Referee {
    fn judged(&mut self, side: Side) -> &mut Judged {
        match side {
            Side::Dialling => &mut self.dialling,
            Side::Accepting => &mut self.accepting,
        }
    }

    /// One side writes octets.
    ///
    /// # Errors
    /// What they say breaks a rule.
    pub fn handle_written(&mut self, side: Side, octets: &[u8], now: Instant) -> Result<(), Foul> {
        let Judged { party, said, .. } = self.judged(side);
        let judged = said.read(octets, &mut |message| party.say(&message));
        party.has_said(now);
        judged.map_err(Foul)
    }

    /// One side cannot write, or does not read, what is there for it.
    pub fn handle_blocked(&mut self, side: Side, how: Blocked, now: Instant) {
        self.judged(side).party.is_blocked(how, now);
    }

    /// Whether one side, which is there, has done by now what is to be done in time.
    ///
    /// # Errors
    /// It has not.
    pub fn check_time(&self, side: Side, now: Instant) -> Result<(), Foul> {
        let judged = match side {
            Side::Dialling => &self.dialling,
            Side::Accepting => &self.accepting,
        };
        // Nothing can be said within a message: its rest may wait for a disk.
        if judged.said.is_within_message() {
            return Ok(());
        }
        judged.party.overdue(now).map_err(Foul)
    }

    /// One side has read octets that the other wrote.
    pub fn handle_read(&mut self, side: Side, octets: &[u8], now: Instant) {
        let Judged { party, heard, .. } = self.judged(side);
        party.has_heard(now);
        // They were judged where they were written.
        let read = heard.read(octets, &mut |message| {
            party.hear(&message, now);
            Ok(())
        });
        drop(read);
    }
}

#[cfg(test)]
mod tests;
