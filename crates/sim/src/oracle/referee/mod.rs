//! A session's octets obey RFC 9174, or RFC 7242 where it is of version 3.
//!
//! A referee sits at every connection and reads both directions twice: where they are written, to judge what is said, and where
//! they are read, to know the octets that the answering side has heard by then. It was written from the standard
//! and shares nothing with the sessions that it judges.

mod message;
mod older;
mod party;
mod portion;
mod upkeep;

use std::fmt;

use dhow_bundle::Instant;

use crate::queue::Side;

use message::{Message, Reader};
use older::Unanswered;
use party::Party;
pub use portion::Seen;
use portion::{Keep, Passage};

/// The reason of a refusal that says that the receiver has the whole already (RFC 9174 table 6).
const COMPLETED: u8 = 0x01;

/// The judge of one connection.
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
    /// Reads the octets that the side has read.
    heard: Reader,
    /// Bundles that it says.
    out: Passage,
    /// Bundles that it has heard.
    into: Passage,
    /// Segments of version 3 that it has said, and that it has heard.
    said_3: Unanswered,
    heard_3: Unanswered,
    /// Observations that nobody has been told of yet.
    seen: Vec<Seen>,
    /// When it last said or heard something about a bundle, or the session began.
    stirred: Instant,
}

impl Judged {
    fn new(side: Side) -> Self {
        Self {
            party: Party::new(side),
            said: Reader::default(),
            heard: Reader::default(),
            out: Passage::default(),
            into: Passage::default(),
            said_3: Unanswered::default(),
            heard_3: Unanswered::default(),
            seen: Vec::new(),
            stirred: Instant::START,
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

/// A direction in which a side cannot go on at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// The connection takes nothing more.
    Writing,
    /// Octets have arrived that its node does not take yet.
    Reading,
}

/// A breach of a rule, as the end of a sentence that begins with the side that said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foul(String);

impl Foul {
    /// A breach of a rule of another protocol.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

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
    /// The rule that they break.
    pub fn handle_written(&mut self, side: Side, octets: &[u8], now: Instant) -> Result<(), Foul> {
        let Judged {
            party,
            said,
            out,
            into,
            said_3,
            heard_3,
            seen,
            stirred,
            ..
        } = self.judged(side);
        let judged = said.read(octets, &mut |message, data| {
            let message = match message {
                Message::Answer(answer) => heard_3.answered(answer)?,
                message => message,
            };
            party.say(&message)?;
            match &message {
                Message::Keepalive => return Ok(()),
                Message::Segment(segment) => {
                    if party.is_older() {
                        said_3.add(segment);
                    }
                    out.begin(&message);
                }
                Message::Data => seen.extend(out.take(data, Keep::All).map(|read| match read {
                    Ok(parcel) => Seen::Said(parcel),
                    Err(what) => Seen::Nonsense(what),
                })),
                Message::SegmentEnd => {
                    let whole = out.end();
                    seen.extend(whole.map(|(parcel, octets)| Seen::SaidWhole(parcel, octets)));
                }
                Message::Ack {
                    flags,
                    transfer,
                    octets,
                } => {
                    let parcel = into.acknowledged(*flags, *transfer);
                    seen.extend(parcel.map(|parcel| Seen::Acknowledges(parcel, *octets)));
                }
                Message::Refuse { reason, transfer } => {
                    let parcel = into.refused(*transfer).filter(|_| *reason == COMPLETED);
                    seen.extend(parcel.map(|parcel| Seen::Acknowledges(parcel, u64::MAX)));
                }
                _ => {}
            }
            *stirred = now;
            Ok(())
        });
        party.has_said(now);
        judged.map_err(Foul)
    }

    /// The bundles and answers that one side has said and heard since this was asked last.
    pub fn take_seen(&mut self, side: Side) -> Vec<Seen> {
        std::mem::take(&mut self.judged(side).seen)
    }

    /// Whether a bundle has begun to come to one side and not ended.
    #[must_use]
    pub fn is_receiving(&self, side: Side) -> bool {
        let judged = match side {
            Side::Dialling => &self.dialling,
            Side::Accepting => &self.accepting,
        };
        judged.into.is_under_way()
    }

    /// Since when one side, in a session that stands, has neither said nor heard anything about a bundle, and waits for no answer; and
    /// the octets that a transfer may have which it sends.
    #[must_use]
    pub fn idle_since(&self, side: Side) -> Option<(Instant, u64)> {
        let judged = match side {
            Side::Dialling => &self.dialling,
            Side::Accepting => &self.accepting,
        };
        let transfer_mru = judged.party.transfer_mru()?;
        let is_idle = judged.party.is_established() && !judged.out.is_under_way();
        is_idle.then_some((judged.stirred, transfer_mru))
    }

    /// One side cannot write, or does not read, the octets that are there for it.
    pub fn handle_blocked(&mut self, side: Side, how: Blocked, now: Instant) {
        self.judged(side).party.is_blocked(how, now);
    }

    /// Whether one side, which is there, has done in time its duties by now.
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
        let Judged {
            party,
            heard,
            out,
            into,
            said_3,
            heard_3,
            seen,
            stirred,
            ..
        } = self.judged(side);
        party.has_heard(now);
        // They were judged where they were written.
        let read = heard.read(octets, &mut |message, data| {
            let message = match message {
                Message::Answer(answer) => said_3.answered(answer)?,
                message => message,
            };
            party.hear(&message, now);
            match &message {
                Message::Keepalive => return Ok(()),
                Message::Segment(segment) => {
                    if party.is_older() {
                        heard_3.add(segment);
                    }
                    into.begin(&message);
                }
                Message::Data => {
                    let read = into.take(data, Keep::Blocks);
                    seen.extend(read.and_then(Result::ok).map(Seen::Heard));
                }
                Message::SegmentEnd => {
                    seen.extend(into.end().map(|(parcel, _)| Seen::HeardWhole(parcel)));
                }
                Message::Ack {
                    flags,
                    transfer,
                    octets,
                } => {
                    let parcel = out.acknowledged(*flags, *transfer);
                    seen.extend(parcel.map(|parcel| Seen::Acknowledged(parcel, *octets)));
                }
                Message::Refuse { reason, transfer } => {
                    let parcel = out.refused(*transfer).filter(|_| *reason == COMPLETED);
                    seen.extend(parcel.map(|parcel| Seen::Acknowledged(parcel, u64::MAX)));
                }
                _ => {}
            }
            *stirred = now;
            Ok(())
        });
        drop(read);
    }
}

#[cfg(test)]
mod tests;
