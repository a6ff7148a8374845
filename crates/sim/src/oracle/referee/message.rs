//! The messages of a session, read from its octets as RFC 9174 lays them out, or RFC 7242 (`older`), and from nothing else.

use super::older::{self, Older};

/// START and END of an `XFER_SEGMENT` (RFC 9174 table 5); in a `DATA_SEGMENT` they are the same (RFC 7242 5.2).
pub const START: u8 = 0x02;
/// See [`START`].
pub const END: u8 = 0x01;

/// Octets of a head that are worth waiting for; no head of a session between two nodes comes near.
const HEAD_OCTETS_MAX: usize = 64 * 1024;

/// The one flag of an extension item (RFC 9174 tables 3 and 7).
const CRITICAL: u8 = 0x01;

/// The type of a Transfer Length extension item (RFC 9174 8.4).
const TRANSFER_LENGTH: u16 = 1;

/// Something that is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The contact header (4.2).
    Contact { version: u8, flags: u8 },
    /// `SESS_INIT` (4.6).
    Init(Offer),
    /// `XFER_SEGMENT` without its data (5.2.2).
    Segment(Segment),
    /// Some of a segment's data, which are told beside it.
    Data,
    /// The last octet of a segment's data.
    SegmentEnd,
    /// `XFER_ACK` (5.2.3).
    Ack {
        flags: u8,
        transfer: u64,
        octets: u64,
    },
    /// `XFER_REFUSE` (5.2.4).
    Refuse { reason: u8, transfer: u64 },
    /// `KEEPALIVE` (5.1.1).
    Keepalive,
    /// `SESS_TERM` (6.1).
    Term { flags: u8, reason: u8 },
    /// `MSG_REJECT` (5.1.2).
    Reject { reason: u8, kind: u8 },
    /// The contact header of version 3 (RFC 7242 4.1).
    Greeting { flags: u8, offer: Offer },
    /// `ACK_SEGMENT` or `REFUSE_BUNDLE`, which say neither a transfer nor flags (RFC 7242 5.3, 5.4).
    Answer(Answer),
    /// SHUTDOWN (RFC 7242 6.1).
    Shutdown,
}

/// An answer to the segment that is to be answered next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// So many octets of its transfer have come.
    Ack(u64),
    /// A refusal for this reason.
    Refuse(u8),
}

/// The parameters that one side offers for a session (4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Seconds; 0 for no keepalives.
    pub keepalive_s: u16,
    /// Octets.
    pub segment_mru: u64,
    /// Octets.
    pub transfer_mru: u64,
}

/// A segment's head (5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// START and END.
    pub flags: u8,
    /// The number of the transfer.
    pub transfer: u64,
    /// Octets of the whole transfer, where that is said (5.2.5.1).
    pub total: Option<u64>,
    /// Octets of data.
    pub octets: u64,
}

/// Reads one direction of a connection, in any pieces.
#[derive(Debug, Default)]
pub struct Reader {
    /// The beginning of a head.
    partial: Vec<u8>,
    /// Data of the segment that are still to come.
    data: u64,
    contact: bool,
    /// Reads what follows a contact header of version 3.
    older: Option<Older>,
}

impl Reader {
    /// Whether a message has begun and not ended, so that no other can begin.
    pub fn is_within_message(&self) -> bool {
        self.data > 0 || !self.partial.is_empty()
    }

    /// Reads octets and tells what they complete.
    ///
    /// # Errors
    /// The fault of octets that are no message, as a sentence's end.
    pub fn read(
        &mut self,
        octets: &[u8],
        tell: &mut impl FnMut(Message, &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let joined;
        let mut rest = octets;
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(octets);
            joined = std::mem::take(&mut self.partial);
            rest = &joined;
        }
        while !rest.is_empty() {
            if self.data > 0 {
                let most = usize::try_from(self.data).unwrap_or(usize::MAX);
                let (data, later) = rest.split_at(most.min(rest.len()));
                self.data -= u64::try_from(data.len()).unwrap_or(u64::MAX);
                rest = later;
                tell(Message::Data, data)?;
                if self.data == 0 {
                    tell(Message::SegmentEnd, &[])?;
                }
                continue;
            }
            let mut fields = Fields(rest);
            let message = match (&mut self.older, self.contact) {
                (Some(older), true) => older.message(&mut fields),
                (_, true) => message(&mut fields),
                (_, false) => contact(&mut fields),
            };
            let Some(message) = message? else {
                if rest.len() > HEAD_OCTETS_MAX {
                    return Err(format!("a head of more than {HEAD_OCTETS_MAX} octets"));
                }
                self.partial = rest.to_vec();
                return Ok(());
            };
            rest = fields.0;
            self.contact = true;
            let segment = match message {
                Message::Segment(segment) => Some(segment.octets),
                Message::Greeting { .. } => {
                    self.older = Some(Older::default());
                    None
                }
                _ => None,
            };
            tell(message, &[])?;
            self.data = segment.unwrap_or(0);
            if segment == Some(0) {
                tell(Message::SegmentEnd, &[])?;
            }
        }
        Ok(())
    }
}

/// Fields from the front of octets; `None` where there are too few.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub fn octets(&mut self, octets: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(octets)?;
        self.0 = rest;
        Some(field)
    }

    /// A list of extension items behind its length.
    fn items(&mut self) -> Option<&'a [u8]> {
        let octets = self.u32()?;
        self.octets(usize::try_from(octets).unwrap_or(usize::MAX))
    }
}

/// A message, `None` where its octets are not all there; or what is wrong with it, as a sentence's end.
pub type Read = Result<Option<Message>, String>;

fn contact(fields: &mut Fields<'_>) -> Read {
    let Some(magic) = fields.array::<4>() else {
        return Ok(None);
    };
    if &magic != b"dtn!" {
        return Err("begins without a contact header (RFC 9174 4.2)".to_owned());
    }
    let Some((version, flags)) = fields.u8().zip(fields.u8()) else {
        return Ok(None);
    };
    match version {
        3 => older::greeting(fields, flags),
        _ => Ok(Some(Message::Contact { version, flags })),
    }
}

fn message(fields: &mut Fields<'_>) -> Read {
    let Some(kind) = fields.u8() else {
        return Ok(None);
    };
    match kind {
        0x01 => segment(fields),
        0x02 => Ok(ack(fields)),
        0x03 => Ok(fields
            .u8()
            .zip(fields.u64())
            .map(|(reason, transfer)| Message::Refuse { reason, transfer })),
        0x04 => Ok(Some(Message::Keepalive)),
        0x05 => {
            let both = fields.u8().zip(fields.u8());
            Ok(both.map(|(flags, reason)| Message::Term { flags, reason }))
        }
        0x06 => {
            let both = fields.u8().zip(fields.u8());
            Ok(both.map(|(reason, kind)| Message::Reject { reason, kind }))
        }
        0x07 => init(fields),
        other => Err(format!(
            "says a message of type {other:#04x} (RFC 9174 table 2)"
        )),
    }
}

fn ack(fields: &mut Fields<'_>) -> Option<Message> {
    Some(Message::Ack {
        flags: fields.u8()?,
        transfer: fields.u64()?,
        octets: fields.u64()?,
    })
}

fn init(fields: &mut Fields<'_>) -> Read {
    let mut offer = || {
        let offer = Offer {
            keepalive_s: fields.u16()?,
            segment_mru: fields.u64()?,
            transfer_mru: fields.u64()?,
        };
        let length = fields.u16()?;
        let node_id = fields.octets(usize::from(length))?;
        Some((offer, node_id, fields.items()?))
    };
    let Some((offer, node_id, items)) = offer() else {
        return Ok(None);
    };
    each_item(items, |_, _| Ok(()))?;
    match std::str::from_utf8(node_id) {
        Ok(_) => Ok(Some(Message::Init(offer))),
        Err(_) => Err("has a node ID that is not text (RFC 9174 4.6)".to_owned()),
    }
}

fn segment(fields: &mut Fields<'_>) -> Read {
    let mut head = || {
        let (flags, transfer) = (fields.u8()?, fields.u64()?);
        // Extension items are there with START alone.
        let items = match flags & START {
            0 => &[],
            _ => fields.items()?,
        };
        Some((flags, transfer, items, fields.u64()?))
    };
    let Some((flags, transfer, items, octets)) = head() else {
        return Ok(None);
    };
    let mut total = None;
    each_item(items, |kind, value| {
        if kind == TRANSFER_LENGTH {
            let said = value.try_into().ok().map(u64::from_be_bytes);
            if said.is_none() || total.is_some() {
                return Err("has no one total length of 8 octets (RFC 9174 5.2.5.1)".to_owned());
            }
            total = said;
        }
        Ok(())
    })?;
    Ok(Some(Message::Segment(Segment {
        flags,
        transfer,
        total,
        octets,
    })))
}

/// Goes through extension items (4.8, 5.2.5): what kind each is of, and its value.
fn each_item(
    items: &[u8],
    mut handle: impl FnMut(u16, &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut items = Fields(items);
    while !items.0.is_empty() {
        let head = items.u8().zip(items.u16()).zip(items.u16());
        let item = head.and_then(|((flags, kind), length)| {
            Some((flags, kind, items.octets(usize::from(length))?))
        });
        let Some((flags, kind, value)) = item else {
            return Err("has extension items that end early (RFC 9174 4.8)".to_owned());
        };
        if flags & !CRITICAL != 0 {
            return Err(format!(
                "sets flags {flags:#04x} of an extension item (RFC 9174 4.8)"
            ));
        }
        handle(kind, value)?;
    }
    Ok(())
}
