//! The messages of a session of version 3, as RFC 7242 lays it out, in the words of version 4.
//!
//! No octet says which transfer a segment or an answer belongs to: the n-th bundle is the n-th that begins, and the n-th answer
//! is for the n-th segment (RFC 7242 5.4).

use std::collections::VecDeque;

use super::message::{Answer, Fields, Message, Offer, Read, START, Segment};

/// Octets of a number of 64 bits, at most (RFC 6256).
const NUMBER_OCTETS_MAX: u32 = 10;

/// Octets of an endpoint ID that are worth reading.
const ENDPOINT_OCTETS_MAX: u64 = 1024;

/// Reads what follows a contact header.
#[derive(Debug, Default)]
pub struct Older {
    /// Bundles that have begun.
    begun: u64,
}

/// The contact header behind its flags.
pub fn greeting(fields: &mut Fields<'_>, flags: u8) -> Read {
    let Some(keepalive_s) = fields.u16() else {
        return Ok(None);
    };
    let Some(length) = number(fields)? else {
        return Ok(None);
    };
    if length > ENDPOINT_OCTETS_MAX {
        return Err(format!(
            "has an endpoint ID of {length} octets (RFC 7242 4.1)"
        ));
    }
    let Some(endpoint) = fields.octets(usize::try_from(length).unwrap_or(usize::MAX)) else {
        return Ok(None);
    };
    if std::str::from_utf8(endpoint).is_err() {
        return Err("has an endpoint ID that is not text (RFC 7242 4.1)".to_owned());
    }
    let offer = Offer {
        keepalive_s,
        segment_mru: u64::MAX,
        transfer_mru: u64::MAX,
    };
    Ok(Some(Message::Greeting { flags, offer }))
}

impl Older {
    /// The next message.
    pub fn message(&mut self, fields: &mut Fields<'_>) -> Read {
        let Some(first) = fields.u8() else {
            return Ok(None);
        };
        let (kind, flags) = (first >> 4, first & 0x0f);
        match kind {
            0x1 => self.segment(fields, flags, None),
            0x2 if flags != 0 => Err(format!(
                "sets flags {flags:#x} of ACK_SEGMENT (RFC 7242 5.3)"
            )),
            0x2 => Ok(number(fields)?.map(|octets| Message::Answer(Answer::Ack(octets)))),
            0x3 => Ok(Some(Message::Answer(Answer::Refuse(flags)))),
            0x4 => Ok(Some(Message::Keepalive)),
            0x5 => shutdown(fields, flags),
            0x6 => self.announced(fields),
            _ => Err(format!(
                "says a message of type {kind:#x} (RFC 7242 table 2)"
            )),
        }
    }

    /// LENGTH is there right before a bundle begins (RFC 7242 5.5).
    fn announced(&mut self, fields: &mut Fields<'_>) -> Read {
        let Some(total) = number(fields)? else {
            return Ok(None);
        };
        let Some(first) = fields.u8() else {
            return Ok(None);
        };
        if first >> 4 != 0x1 || first & START == 0 {
            return Err("says LENGTH and begins no bundle (RFC 7242 5.5)".to_owned());
        }
        self.segment(fields, first & 0x0f, Some(total))
    }

    fn segment(&mut self, fields: &mut Fields<'_>, flags: u8, total: Option<u64>) -> Read {
        let Some(octets) = number(fields)? else {
            return Ok(None);
        };
        self.begun = self.begun.saturating_add(u64::from(flags & START != 0));
        let Some(transfer) = self.begun.checked_sub(1) else {
            return Err("goes on with a bundle and has begun none (RFC 7242 5.2)".to_owned());
        };
        Ok(Some(Message::Segment(Segment {
            flags,
            transfer,
            total,
            octets,
        })))
    }
}

fn shutdown(fields: &mut Fields<'_>, flags: u8) -> Read {
    let (has_reason, has_delay) = (flags & 0x2 != 0, flags & 0x1 != 0);
    if has_reason && fields.u8().is_none() {
        return Ok(None);
    }
    if has_delay && number(fields)?.is_none() {
        return Ok(None);
    }
    Ok(Some(Message::Shutdown))
}

/// A self-delimiting numeric value (RFC 6256 2).
fn number(fields: &mut Fields<'_>) -> Result<Option<u64>, String> {
    let mut value: u128 = 0;
    for _ in 0..NUMBER_OCTETS_MAX {
        let Some(octet) = fields.u8() else {
            return Ok(None);
        };
        value = value * 128 + u128::from(octet % 128);
        if octet < 128 {
            let all = u64::try_from(value);
            return all
                .map(Some)
                .map_err(|_| "says a number of more than 64 bits".to_owned());
        }
    }
    Err("says a number that does not end (RFC 6256 2)".to_owned())
}

/// Segments that have no answer, in their order.
#[derive(Debug, Default)]
pub struct Unanswered {
    segments: VecDeque<(u64, u8)>,
}

impl Unanswered {
    /// One more segment passes.
    pub fn add(&mut self, segment: &Segment) {
        self.segments.push_back((segment.transfer, segment.flags));
    }

    /// An answer passes: in words of version 4, it is for the segment that is the next.
    ///
    /// # Errors
    /// There is none, as a sentence's end.
    pub fn answered(&mut self, answer: Answer) -> Result<Message, String> {
        let Some((transfer, flags)) = self.segments.pop_front() else {
            return Err(
                "answers where no segment has come that has no answer (RFC 7242 5.4)".to_owned(),
            );
        };
        Ok(match answer {
            Answer::Ack(octets) => Message::Ack {
                flags,
                transfer,
                octets,
            },
            Answer::Refuse(reason) => Message::Refuse { reason, transfer },
        })
    }
}
