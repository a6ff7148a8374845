//! Segments obey RFC 5326, and show which bundles leave, come, and are acknowledged. Section numbers in this room are those of RFC 5326.
//!
//! An observer stands at each end of a link over LTP. It reads what its node gives and what its node is given, by the standard alone, and shares
//! nothing with the engines that it judges. Of what leaves it holds more than the standard asks for (docs/ltp.md): a datagram holds one segment of at
//! most `mtu` octets, in no time leave more octets than the rate allows, and a block is bundles, one behind the other.

mod cargo;
mod distance;
mod receiving;
mod segment;
mod sending;
mod spans;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_channel::Delay;
use dhow_scenario::scenario::LtpPolicy;

use self::distance::Distance;
use self::receiving::Receiving;
use self::segment::{Name, Party, Segment};
use self::sending::Sending;
use super::Seen;
use super::pace::Pace;

/// The time for which what a node had given away before it learnt of something may still leave its driver.
const LEFT_OVER: Duration = Duration::from_secs(10);

/// The bundles that a segment shows, or the rule that it breaks.
type Verdict = Result<Vec<Seen>, String>;

/// One end of a link over LTP.
#[derive(Debug)]
pub struct Observer {
    pace: Pace,
    distance: Distance,
    /// The engine IDs here and there.
    engines: (u64, u64),
    /// Sessions in which this end sends, and in which it receives.
    sending: BTreeMap<Name, Sending>,
    receiving: BTreeMap<Name, Receiving>,
    /// Reports that came, by session and serial number.
    reported: BTreeSet<(Name, u64)>,
    /// Answers that this end owes, with the time since when: internal operations traffic, which leaves before all else (5).
    owed: VecDeque<(Instant, Name, Answer)>,
}

/// The answer to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Report(u64),
    Cancel(Party),
}

/// The cancellations of a session by the party at this end.
#[derive(Debug, Default)]
struct Session {
    said: Option<(u8, Instant)>,
    /// Cancellations by the other party that came, and answers to them.
    heard: u64,
    answered: u64,
}

impl Session {
    const fn has_cancelled(&self) -> bool {
        self.said.is_some()
    }

    /// RFC 5326 6.16: the same reason again, once an answer can have come.
    fn say(&mut self, reason: u8, now: Instant, distance: &Distance) -> Result<(), String> {
        if let Some((before, left)) = self.said {
            if before != reason {
                return Err("cancels a session for two reasons (6.16)".to_owned());
            }
            if !distance.may_repeat(left, now) {
                return Err(
                    "cancels a session again before it can have been answered (6.5)".to_owned(),
                );
            }
        }
        self.said = Some((reason, now));
        Ok(())
    }

    /// RFC 5326 6.17: one answer for each cancellation that came.
    fn answer(&mut self) -> Result<(), String> {
        self.answered += 1;
        match self.answered <= self.heard {
            true => Ok(()),
            false => Err("acknowledges a cancellation that did not come (6.17)".to_owned()),
        }
    }
}

impl Observer {
    /// The observer of a conversation that begins, between these engines, with a peer at the end of so long a way.
    #[must_use]
    pub fn new(ltp: LtpPolicy, engines: (u64, u64), delay: Delay, now: Instant) -> Self {
        Self {
            pace: Pace::new(ltp.mtu_octets, ltp.octets_per_s, now),
            distance: Distance::new(delay),
            engines,
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            reported: BTreeSet::new(),
            owed: VecDeque::new(),
        }
    }

    /// The node knows from now on that nothing can leave, at neither end.
    pub fn handle_closed(&mut self, now: Instant) {
        self.distance.close(now);
    }

    /// The node knows that something can leave again.
    pub fn handle_open(&mut self, now: Instant) {
        self.distance.open(now);
    }

    /// The node gives a datagram of so many octets to be sent.
    ///
    /// # Errors
    /// It is too large, or comes too soon.
    pub fn handle_given(&mut self, octets: u64, now: Instant) -> Result<(), String> {
        self.pace.handle_given(octets, now)
    }

    /// A datagram has left the socket.
    ///
    /// # Errors
    /// It breaks a rule.
    pub fn handle_said(&mut self, datagram: &[u8], now: Instant) -> Verdict {
        let (name, segment) = segment::read(datagram).ok_or("sends what is not one segment (3)")?;
        let party = match &segment {
            Segment::Data(_) | Segment::ReportAck(_) => Party::Sender,
            Segment::Report(_) => Party::Receiver,
            Segment::Cancel(by, _) => *by,
            Segment::CancelAck(Party::Sender) => Party::Receiver,
            Segment::CancelAck(Party::Receiver) => Party::Sender,
        };
        let (here, there) = self.engines;
        let originator = match party {
            Party::Sender => here,
            Party::Receiver => there,
        };
        if name.0 != originator {
            return Err("sends a segment of a session of another engine (3.1)".to_owned());
        }
        match segment {
            Segment::Data(data) => {
                self.check_owed(now)?;
                let sending = self.sending.entry(name).or_default();
                sending.handle_data(&data, now, &self.distance)
            }
            Segment::Report(report) => {
                let receiving = self.receiving.get_mut(&name);
                let receiving =
                    receiving.ok_or("reports of a session that did not begin (6.11)")?;
                receiving.handle_report(&report, now, &self.distance)
            }
            Segment::ReportAck(serial) => {
                if !self.reported.contains(&(name, serial)) {
                    return Err("acknowledges a report that did not come (6.13)".to_owned());
                }
                let of = (name, Answer::Report(serial));
                self.owed.retain(|owed| (owed.1, owed.2) != of);
                Ok(Vec::new())
            }
            Segment::Cancel(_, reason) => {
                let distance = &self.distance;
                let session = match party {
                    Party::Sender => self.sending.get_mut(&name).map(|it| &mut it.session),
                    Party::Receiver => self.receiving.get_mut(&name).map(|it| &mut it.session),
                };
                let session = session.ok_or("cancels a session that did not begin (6.19)")?;
                // RFC 5326 6.19: nothing else of it is sent any more.
                self.owed
                    .retain(|(_, of, answer)| *of != name || matches!(answer, Answer::Cancel(_)));
                session.say(reason, now, distance).map(|()| Vec::new())
            }
            Segment::CancelAck(by) => {
                let of = (name, Answer::Cancel(by));
                self.owed.retain(|owed| (owed.1, owed.2) != of);
                let session = match party {
                    Party::Sender => &mut self.sending.entry(name).or_default().session,
                    Party::Receiver => &mut self.receiving.entry(name).or_default().session,
                };
                session.answer().map(|()| Vec::new())
            }
        }
    }

    /// A datagram that came is given to the node.
    pub fn handle_heard(&mut self, datagram: &[u8], now: Instant) -> Vec<Seen> {
        let Some((name, segment)) = segment::read(datagram) else {
            return Vec::new();
        };
        match segment {
            Segment::Data(data) => {
                let receiving = self.receiving.entry(name).or_default();
                receiving.handle_data(&data)
            }
            Segment::Report(report) => {
                self.reported.insert((name, report.serial));
                let Some(sending) = self.sending.get_mut(&name) else {
                    // 6.13: a node that started anew acknowledges reports of its life before, too.
                    self.owe(now, name, Answer::Report(report.serial));
                    return Vec::new();
                };
                let (is_right, seen) = sending.handle_report(&report, now);
                if is_right {
                    self.owe(now, name, Answer::Report(report.serial));
                }
                seen
            }
            Segment::Cancel(by, _) => {
                let session = match by {
                    Party::Sender => {
                        let receiving = self.receiving.entry(name).or_default();
                        receiving.handle_cancelled(now);
                        &mut receiving.session
                    }
                    Party::Receiver => {
                        let sending = self.sending.entry(name).or_default();
                        sending.handle_cancelled(now);
                        &mut sending.session
                    }
                };
                session.heard += 1;
                self.owe(now, name, Answer::Cancel(by));
                Vec::new()
            }
            Segment::ReportAck(serial) => {
                if let Some(receiving) = self.receiving.get_mut(&name) {
                    receiving.handle_acknowledged(serial, now);
                }
                Vec::new()
            }
            Segment::CancelAck(_) => Vec::new(),
        }
    }

    fn owe(&mut self, now: Instant, name: Name, answer: Answer) {
        let is_known = |owed: &(_, Name, Answer)| (owed.1, owed.2) == (name, answer);
        if !self.owed.iter().any(is_known) {
            self.owed.push_back((now, name, answer));
        }
    }

    /// Octets of a block leave: nothing waits that has to leave before.
    fn check_owed(&self, now: Instant) -> Result<(), String> {
        let waits = |(since, ..): &&(Instant, Name, Answer)| *since + LEFT_OVER < now;
        match self.owed.iter().find(waits) {
            None => Ok(()),
            Some((_, _, Answer::Report(_))) => {
                Err("sends data and leaves a report without acknowledgment (6.13)".to_owned())
            }
            Some((_, _, Answer::Cancel(_))) => {
                Err("sends data and leaves a cancellation without acknowledgment (6.17)".to_owned())
            }
        }
    }

    /// Whether segments came of a block that may still be completed.
    #[must_use]
    pub fn is_receiving(&self) -> bool {
        self.receiving.values().any(Receiving::is_receiving)
    }
}
