//! One side of a session: the messages that it has said and heard, and so those that it may say.

use std::collections::{BTreeSet, VecDeque};

use dhow_bundle::Instant;

use super::Blocked;
use super::message::{END, Message, Offer, START, Segment};
use super::upkeep::Upkeep;
use crate::queue::Side;

/// REPLY of a `SESS_TERM` (RFC 9174 table 8).
const REPLY: u8 = 0x01;

/// Refused transfers that are remembered, in each direction: segments that crossed a refusal follow it soon.
const REFUSED_MAX: usize = 1024;

/// One side of a session.
#[derive(Debug)]
pub struct Party {
    side: Side,
    /// Whether the side speaks version 3.
    is_older: bool,
    said_contact: bool,
    said_init: Option<Offer>,
    said_term: bool,
    heard_contact: bool,
    heard_init: Option<Offer>,
    /// Its flags and reason.
    heard_term: Option<(u8, u8)>,
    /// The transfer of which it has sent segments but not the last.
    outgoing: Option<Outgoing>,
    /// The last transfer that it began.
    last: Option<u64>,
    /// Transfers of its own that it heard refused.
    refused_to_it: BTreeSet<u64>,
    /// The segment that is arriving, with the sum of its transfer's lengths before it.
    incoming: Option<(Segment, u64)>,
    /// Transfers that have begun to arrive and are not answered to their end.
    open: VecDeque<u64>,
    /// Segments that have arrived and are not acknowledged.
    unanswered: VecDeque<Arrived>,
    /// Transfers that it refused.
    refused: BTreeSet<u64>,
    /// Its keepalives.
    upkeep: Upkeep,
}

#[derive(Debug)]
struct Outgoing {
    transfer: u64,
    octets: u64,
    total: Option<u64>,
}

#[derive(Debug)]
struct Arrived {
    transfer: u64,
    flags: u8,
    /// Octets of the transfer, this segment's included.
    sum: u64,
}

impl Party {
    /// A side that has said and heard nothing.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            is_older: false,
            said_contact: false,
            said_init: None,
            said_term: false,
            heard_contact: false,
            heard_init: None,
            heard_term: None,
            outgoing: None,
            last: None,
            refused_to_it: BTreeSet::new(),
            incoming: None,
            open: VecDeque::new(),
            unanswered: VecDeque::new(),
            refused: BTreeSet::new(),
            upkeep: Upkeep::default(),
        }
    }

    /// Whether both sides have said what they offer, as far as it knows, and neither that it ends.
    pub fn is_established(&self) -> bool {
        let is_agreed = self.said_init.is_some() && self.heard_init.is_some();
        is_agreed && !self.said_term && self.heard_term.is_none()
    }

    /// Whether it speaks version 3.
    pub const fn is_older(&self) -> bool {
        self.is_older
    }

    /// Octets that a transfer may have which it sends, once it has heard so.
    pub fn transfer_mru(&self) -> Option<u64> {
        self.heard_init.map(|offer| offer.transfer_mru)
    }

    /// The side has said octets.
    pub fn has_said(&mut self, now: Instant) {
        self.upkeep.say(now);
        self.agree(now);
    }

    /// Agrees on the session's parameters once both sides' offers are known here (4.7).
    fn agree(&mut self, now: Instant) {
        if let Some(offers) = self.said_init.zip(self.heard_init) {
            self.upkeep.agree([offers.0, offers.1], now);
        }
    }

    /// The side has heard octets.
    pub fn has_heard(&mut self, now: Instant) {
        self.upkeep.hear(now);
    }

    /// The side would do something if it could.
    pub fn is_blocked(&mut self, how: Blocked, now: Instant) {
        match how {
            Blocked::Writing => self.upkeep.say(now),
            Blocked::Reading => self.upkeep.hear(now),
        }
    }

    /// Whether it has done its duties by now.
    ///
    /// # Errors
    /// It has not, as a sentence's end.
    pub fn overdue(&self, now: Instant) -> Result<(), String> {
        if self.said_term || self.heard_term.is_some() {
            return Ok(());
        }
        self.upkeep.overdue(now)
    }

    /// The side has heard a message.
    pub fn hear(&mut self, message: &Message, now: Instant) {
        match message {
            Message::Contact { .. } => self.heard_contact = true,
            Message::Greeting { offer, .. } => {
                self.heard_contact = true;
                self.heard_init = Some(*offer);
                self.agree(now);
            }
            Message::Init(offer) => {
                self.heard_init = Some(*offer);
                self.agree(now);
            }
            Message::Segment(segment) => {
                let before = match self.incoming {
                    Some((before, sum)) if before.transfer == segment.transfer => {
                        sum.saturating_add(before.octets)
                    }
                    _ => 0,
                };
                if segment.flags & START != 0 {
                    self.open.push_back(segment.transfer);
                }
                self.incoming = Some((*segment, before));
            }
            Message::SegmentEnd => {
                let Some((segment, before)) = self.incoming else {
                    return;
                };
                if !self.refused.contains(&segment.transfer) {
                    self.unanswered.push_back(Arrived {
                        transfer: segment.transfer,
                        flags: segment.flags,
                        sum: before.saturating_add(segment.octets),
                    });
                }
            }
            Message::Refuse { transfer, .. } => {
                remember(&mut self.refused_to_it, *transfer);
            }
            Message::Term { flags, reason } => self.heard_term = Some((*flags, *reason)),
            Message::Shutdown => self.heard_term = Some((0, 0)),
            Message::Ack { .. }
            | Message::Answer(_)
            | Message::Keepalive
            | Message::Reject { .. }
            | Message::Data => {}
        }
    }

    /// The side says a message.
    ///
    /// # Errors
    /// It must not, as a sentence's end.
    pub fn say(&mut self, message: &Message) -> Result<(), String> {
        match message {
            Message::Contact { version, flags } => self.say_contact(*version, *flags),
            Message::Greeting { flags, offer } => self.say_greeting(*flags, *offer),
            Message::Init(offer) => self.say_init(*offer),
            Message::Shutdown => self.say_shutdown(),
            Message::Term { flags, reason } => self.say_term(*flags, *reason),
            // Between two nodes that obey there is nothing to reject.
            Message::Reject { reason, kind } => Err(format!(
                "rejects a message of type {kind:#04x} for reason {reason} (RFC 9174 5.1.2)"
            )),
            Message::SegmentEnd | Message::Data | Message::Answer(_) => Ok(()),
            _ if self.said_init.is_none() || self.heard_init.is_none() => {
                Err("goes on before both sides have said SESS_INIT (RFC 9174 4.6)".to_owned())
            }
            Message::Segment(segment) => self.say_segment(segment),
            Message::Ack {
                flags,
                transfer,
                octets,
            } => self.say_ack(*flags, *transfer, *octets),
            Message::Refuse { transfer, .. } => self.say_refusal(*transfer),
            Message::Keepalive => {
                let offers = [self.said_init, self.heard_init];
                let none = offers.iter().flatten().any(|offer| offer.keepalive_s == 0);
                refuse_if(none, || {
                    "says KEEPALIVE where one side wants none (RFC 9174 5.1.1)".to_owned()
                })
            }
        }
    }

    fn say_contact(&mut self, version: u8, flags: u8) -> Result<(), String> {
        refuse_if(self.side == Side::Accepting && !self.heard_contact, || {
            "accepted the connection and speaks first (RFC 9174 4.1)".to_owned()
        })?;
        refuse_if(version != 4 || flags & !1 != 0, || {
            format!("begins version {version} with flags {flags:#04x} (RFC 9174 4.2)")
        })?;
        self.said_contact = true;
        Ok(())
    }

    fn say_greeting(&mut self, flags: u8, offer: Offer) -> Result<(), String> {
        refuse_if(flags & !0x0f != 0, || {
            format!("sets flags {flags:#04x} of its contact header (RFC 7242 4.1)")
        })?;
        // RFC 7242 table 1: refusals with acknowledgments alone.
        refuse_if(flags & 0x5 == 0x4, || {
            "offers refusals and no acknowledgments (RFC 7242 4.1)".to_owned()
        })?;
        self.is_older = true;
        self.said_contact = true;
        self.said_init = Some(offer);
        Ok(())
    }

    fn say_shutdown(&mut self) -> Result<(), String> {
        refuse_if(!self.said_contact, || {
            "says SHUTDOWN before its contact header (RFC 7242 6.1)".to_owned()
        })?;
        refuse_if(self.said_term, || {
            "says SHUTDOWN again (RFC 7242 6.1)".to_owned()
        })?;
        self.said_term = true;
        Ok(())
    }

    fn say_init(&mut self, offer: Offer) -> Result<(), String> {
        refuse_if(!self.heard_contact, || {
            "says SESS_INIT before the other's contact header (RFC 9174 4.3)".to_owned()
        })?;
        refuse_if(self.said_init.is_some(), || {
            "says SESS_INIT again (RFC 9174 4.6)".to_owned()
        })?;
        refuse_if(self.said_term, || {
            "says SESS_INIT after SESS_TERM (RFC 9174 6.1)".to_owned()
        })?;
        self.said_init = Some(offer);
        Ok(())
    }

    fn say_segment(&mut self, segment: &Segment) -> Result<(), String> {
        let Segment {
            flags,
            transfer,
            total,
            octets,
        } = *segment;
        refuse_if(flags & !(START | END) != 0, || {
            format!("sets flags {flags:#04x} of a segment (RFC 9174 5.2.2)")
        })?;
        refuse_if(self.is_older && self.said_term, || {
            "sends a segment after SHUTDOWN (RFC 7242 3)".to_owned()
        })?;
        if flags & START != 0 {
            self.begin(transfer, total)?;
        }
        let Some(outgoing) = self.outgoing.as_mut().filter(|it| it.transfer == transfer) else {
            return Err(format!(
                "goes on with transfer {transfer}, which is not under way (RFC 9174 5.2.2)"
            ));
        };
        refuse_if(self.refused_to_it.contains(&transfer), || {
            format!("goes on with transfer {transfer} after it was refused (RFC 9174 5.2.4)")
        })?;
        outgoing.octets = outgoing.octets.saturating_add(octets);
        let (sum, total) = (outgoing.octets, outgoing.total);
        if let Some(offer) = self.heard_init {
            refuse_if(octets > offer.segment_mru, || {
                let mru = offer.segment_mru;
                format!("sends a segment of {octets} octets to one that takes {mru} (RFC 9174 4.6)")
            })?;
            refuse_if(total.unwrap_or(0).max(sum) > offer.transfer_mru, || {
                let (most, mru) = (total.unwrap_or(0).max(sum), offer.transfer_mru);
                format!("sends a transfer of {most} octets to one that takes {mru} (RFC 9174 4.6)")
            })?;
        }
        // One that ends short of it was given up.
        refuse_if(total.is_some_and(|total| sum > total), || {
            format!("sends more of transfer {transfer} than it announced (RFC 9174 5.2.5.1)")
        })?;
        if flags & END != 0 {
            self.outgoing = None;
        }
        Ok(())
    }

    fn begin(&mut self, transfer: u64, total: Option<u64>) -> Result<(), String> {
        refuse_if(self.said_term, || {
            format!("begins transfer {transfer} after SESS_TERM (RFC 9174 6.1)")
        })?;
        let under_way = self.outgoing.as_ref().map(|it| it.transfer);
        let under_way = under_way.filter(|it| !self.refused_to_it.contains(it));
        refuse_if(under_way.is_some(), || {
            format!("begins transfer {transfer} within another (RFC 9174 5.2.2)")
        })?;
        refuse_if(self.last.is_some_and(|last| transfer <= last), || {
            format!("begins a transfer {transfer} for the second time (RFC 9174 5.2.1)")
        })?;
        let next = self.last.map_or(0, |last| last.saturating_add(1));
        refuse_if(next != transfer, || {
            format!("begins transfer {transfer} where the next is {next} (RFC 9174 5.2.1)")
        })?;
        self.last = Some(transfer);
        self.outgoing = Some(Outgoing {
            transfer,
            octets: 0,
            total,
        });
        Ok(())
    }

    fn say_ack(&mut self, flags: u8, transfer: u64, octets: u64) -> Result<(), String> {
        let mut arrived = self.unanswered.iter();
        let Some(at) = arrived.position(|it| it.transfer == transfer) else {
            return Err(format!(
                "acknowledges {octets} octets of transfer {transfer}, of which nothing has arrived that is not answered (RFC 9174 5.2.3)"
            ));
        };
        let Some(segment) = self.unanswered.remove(at) else {
            return Ok(());
        };
        refuse_if(octets != segment.sum, || {
            let sum = segment.sum;
            format!(
                "acknowledges {octets} octets of transfer {transfer} for a segment that ends at {sum} (RFC 9174 5.2.3)"
            )
        })?;
        refuse_if(flags != segment.flags, || {
            let expected = segment.flags;
            format!(
                "acknowledges a segment of flags {expected:#04x} with {flags:#04x} (RFC 9174 5.2.3)"
            )
        })?;
        if flags & END != 0 {
            self.open.retain(|it| *it != transfer);
        }
        Ok(())
    }

    fn say_refusal(&mut self, transfer: u64) -> Result<(), String> {
        // Segments that crossed the refusal are refused again.
        if self.refused.contains(&transfer) {
            return Ok(());
        }
        refuse_if(!self.open.contains(&transfer), || {
            format!("refuses transfer {transfer}, which is not under way (RFC 9174 5.2.4)")
        })?;
        refuse_if(self.open.front() != Some(&transfer), || {
            format!(
                "refuses transfer {transfer} before it has answered those ahead (RFC 9174 5.2.4)"
            )
        })?;
        self.open.pop_front();
        self.unanswered.retain(|it| it.transfer != transfer);
        remember(&mut self.refused, transfer);
        Ok(())
    }

    fn say_term(&mut self, flags: u8, reason: u8) -> Result<(), String> {
        refuse_if(!self.said_contact, || {
            "says SESS_TERM before its contact header (RFC 9174 4.1)".to_owned()
        })?;
        refuse_if(self.said_term, || {
            "says SESS_TERM again (RFC 9174 6.1)".to_owned()
        })?;
        refuse_if(flags & !REPLY != 0, || {
            format!("says SESS_TERM with reserved flags {flags:#04x} (RFC 9174 6.1)")
        })?;
        let expected = self
            .heard_term
            .map(|(flags, reason)| (flags | REPLY, reason));
        refuse_if(
            expected.map_or(flags & REPLY != 0, |expected| expected != (flags, reason)),
            || {
                let answered = match expected {
                    Some((_, reason)) => format!("to a SESS_TERM of reason {reason}"),
                    None => "and has heard none".to_owned(),
                };
                format!(
                    "says SESS_TERM with flags {flags:#04x} and reason {reason} {answered} (RFC 9174 6.1)"
                )
            },
        )?;
        self.said_term = true;
        Ok(())
    }
}

fn refuse_if(broken: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if broken { Err(what()) } else { Ok(()) }
}

/// Adds a transfer to some that are remembered, and forgets the oldest.
fn remember(transfers: &mut BTreeSet<u64>, transfer: u64) {
    transfers.insert(transfer);
    if transfers.len() > REFUSED_MAX {
        transfers.pop_first();
    }
}
