//! Octets to segments and back: RFC 5326 3.
//!
//! Numbers are SDNVs (2), of at most 64 bits. A datagram holds whole segments, one behind the other (5). Past this file
//! every segment is as the standard says, except for its session.

use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::v6::sdnv::{self, Reader};

use super::end_to_end::{self, EXTENSIONS};
use super::fault::Fault;
use super::segment::{
    Data, DataHead, DataKind, Party, Reason, Report, Segment, Serials, SessionId,
};

/// The extension of RFC 5327 2.1.
pub(super) const AUTHENTICATION: u8 = 0x00;

/// The tag of cookies (RFC 5327 2.2).
pub(super) const COOKIE: u8 = 0x01;

/// The claims that a report is read with, at most: a datagram of 65,507 octets has room for 32,000 and a report of this
/// layer's for some hundred.
pub(super) const MAX_CLAIMS: u64 = 8_192;

/// Octets of the claims' shortest form.
const LEAST_CLAIM_OCTETS: u64 = 2;

/// An extension of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extension {
    pub(super) tag: u8,
    pub(super) value: Bytes,
    /// The octets of the datagram before its value.
    pub(super) at: usize,
}

/// A segment with the extensions that authenticate it, and those for several hops; others are skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) segment: Segment,
    pub(super) header: Vec<Extension>,
    pub(super) trailer: Vec<Extension>,
    /// The place of the segment in its datagram.
    pub(super) octets: core::ops::Range<usize>,
}

/// The segments of one datagram, in order.
#[derive(Debug)]
pub(super) struct Packet<'a> {
    datagram: &'a Bytes,
    reader: Reader<'a>,
}

impl<'a> Packet<'a> {
    pub(super) fn new(datagram: &'a Bytes) -> Self {
        let reader = Reader::new(datagram);
        Self { datagram, reader }
    }

    /// The next segment; `None` behind the last. Behind a fault nothing is readable.
    ///
    /// # Errors
    /// The rule that the segment breaks.
    pub(super) fn next(&mut self) -> Option<Result<Received, Fault>> {
        if self.reader.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            // RFC 5326 6: a segment that does not conform is discarded at once; its length is unknown.
            self.reader = Reader::new(&[]);
        }
        Some(read)
    }

    fn read(&mut self) -> Result<Received, Fault> {
        let start = self.reader.position();
        let control = self.octet()?;
        // RFC 5326 3.1: the version number must be 0000.
        if control >> 4 != 0 {
            return Err(Fault::Version);
        }
        let session = SessionId {
            originator: self.number()?,
            number: self.number()?,
        };
        let counts = self.octet()?;
        let header = self.extensions(counts >> 4)?;
        let segment = match control {
            0 => self.data(session, DataKind::Red)?,
            1 => self.data(session, DataKind::RedCheckpoint)?,
            2 => self.data(session, DataKind::RedEnd)?,
            3 => self.data(session, DataKind::BlockRedEnd)?,
            4 => self.data(session, DataKind::Green)?,
            7 => self.data(session, DataKind::BlockGreenEnd)?,
            8 => self.report(session)?,
            9 => Segment::ReportAck(session, self.serial()?),
            12 => Segment::Cancel(session, Party::Sender, self.reason()?),
            13 => Segment::CancelAck(session, Party::Sender),
            14 => Segment::Cancel(session, Party::Receiver, self.reason()?),
            15 => Segment::CancelAck(session, Party::Receiver),
            // RFC 5326 3.1.2: 5, 6, 10 and 11.
            _ => return Err(Fault::UndefinedType),
        };
        let trailer = self.extensions(counts & 0x0f)?;
        Ok(Received {
            segment,
            header,
            trailer,
            octets: start..self.reader.position(),
        })
    }

    /// RFC 5326 3.1.4: tag, length, value, `count` times.
    fn extensions(&mut self, count: u8) -> Result<Vec<Extension>, Fault> {
        let mut known = Vec::new();
        for _ in 0..count {
            let tag = self.octet()?;
            let length = self.number()?;
            let at = self.reader.position();
            let value = self.octets(length)?;
            if tag == AUTHENTICATION || tag == COOKIE || end_to_end::is_tag(tag) {
                known.push(Extension { tag, value, at });
            }
        }
        Ok(known)
    }

    fn data(&mut self, session: SessionId, kind: DataKind) -> Result<Segment, Fault> {
        let service = self.number()?;
        let offset = self.number()?;
        let length = self.number()?;
        // RFC 5326 9.3: ranges are consistent and sane.
        offset.checked_add(length).ok_or(Fault::BeyondNumbers)?;
        // RFC 5326 3.2.1: checkpoints must have both serial numbers, others must not.
        let serials = if kind.is_checkpoint() {
            Some(Serials {
                checkpoint: self.serial()?,
                report: self.number()?,
            })
        } else {
            None
        };
        let head = DataHead {
            session,
            kind,
            service,
            offset,
            length,
            serials,
        };
        let octets = self.octets(length)?;
        Ok(Segment::Data(Data { head, octets }))
    }

    fn report(&mut self, session: SessionId) -> Result<Segment, Fault> {
        let serial = self.serial()?;
        let checkpoint = self.number()?;
        let upper = self.number()?;
        let lower = self.number()?;
        // RFC 5326 6.11: a report whose lower bound is not below its upper one must not be issued.
        if lower >= upper {
            return Err(Fault::ScopeEmpty);
        }
        let count = self.number()?;
        let left = self.left();
        if count > MAX_CLAIMS || count.saturating_mul(LEAST_CLAIM_OCTETS) > left {
            return Err(Fault::Claims);
        }
        let mut claims = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let mut behind = None;
        for _ in 0..count {
            let offset = self.number()?;
            let length = self.number()?;
            let claim = claim_in_block(lower, offset, length).ok_or(Fault::Claims)?;
            // RFC 5326 3.2.2: a claim has an octet or more, ends within the scope, and lies behind the one before.
            let in_order = behind.is_none_or(|end| claim.0 > end);
            if length == 0 || claim.1 > upper || !in_order {
                return Err(Fault::Claims);
            }
            behind = Some(claim.1);
            claims.push(claim);
        }
        let report = Report {
            serial,
            checkpoint,
            upper,
            lower,
            claims,
        };
        Ok(Segment::Report(session, report))
    }

    /// RFC 5326 3.2.1 and 3.2.2: a serial number must not be zero. The greatest has no successor.
    fn serial(&mut self) -> Result<u64, Fault> {
        match self.number()? {
            0 => Err(Fault::SerialZero),
            u64::MAX => Err(Fault::Number),
            serial => Ok(serial),
        }
    }

    fn reason(&mut self) -> Result<Reason, Fault> {
        Reason::of(self.octet()?).ok_or(Fault::Reason)
    }

    fn left(&self) -> u64 {
        let left = self.datagram.len().saturating_sub(self.reader.position());
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    fn octet(&mut self) -> Result<u8, Fault> {
        self.reader.octet().map_err(|_| Fault::Truncated)
    }

    fn number(&mut self) -> Result<u64, Fault> {
        use dhow_bundle::v6::refusal::Refusal;
        self.reader.number().map_err(|refusal| match refusal {
            Refusal::Truncated => Fault::Truncated,
            _ => Fault::Number,
        })
    }

    fn octets(&mut self, length: u64) -> Result<Bytes, Fault> {
        let slice = self.reader.octets(length).map_err(|_| Fault::Truncated)?;
        Ok(self.datagram.slice_ref(slice))
    }
}

/// The engine of a session that a datagram is addressed to: by it a driver finds the [`Engine`](super::Engine) that it belongs to,
/// whatever address it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// The receiver of the block that this engine sends.
    ReceiverFrom(u64),
    /// The sender: this engine, which has begun the session of this number.
    Sender {
        /// The engine ID.
        engine: u64,
        /// The session number.
        session: u64,
    },
}

impl Addressee {
    /// The addressee of a datagram's first segment; `None` of one that has no segment. All segments of a datagram go from one
    /// engine to another.
    #[must_use]
    pub fn of(datagram: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let control = reader.octet().ok()?;
        let (engine, session) = (reader.number().ok()?, reader.number().ok()?);
        match control {
            0..=7 | 9 | 12 | 15 => Some(Self::ReceiverFrom(engine)),
            8 | 13 | 14 => Some(Self::Sender { engine, session }),
            _ => None,
        }
    }
}

/// Start and end in the block of a claim (RFC 5326 3.2.2: offsets count from the lower bound).
fn claim_in_block(lower: u64, offset: u64, length: u64) -> Option<(u64, u64)> {
    let start = lower.checked_add(offset)?;
    Some((start, start.checked_add(length)?))
}

/// The octets that RFC 5327 adds to every segment; empty without it.
#[derive(Clone, Debug, Default)]
pub(super) struct Envelope {
    /// Header extensions and trailer extensions, as the octet that counts them. RFC 5326 3.1.4: it must be zero without any.
    pub(super) counts: u8,
    /// The header extensions.
    pub(super) header: Vec<u8>,
    /// The start of the trailer extensions, as far as it is written here.
    pub(super) trailer: Bytes,
    /// Octets of the trailer that are written elsewhere.
    pub(super) pending: u64,
}

impl Envelope {
    /// Octets that a segment is longer by.
    pub(super) fn octets(&self) -> u64 {
        length_of(&self.header)
            .saturating_add(length_of(&self.trailer))
            .saturating_add(self.pending)
    }
}

/// The extensions of a segment: those of RFC 5327, and those for several hops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    /// The fields that segments of all sessions share.
    pub(super) envelope: &'a Envelope,
    /// The values of its cookies, behind the other header extensions.
    pub(super) cookies: [Option<&'a [u8]>; 2],
    /// The extensions for several hops, in front of the cookies; empty in most.
    pub(super) end_to_end: &'a [u8],
}

impl<'a> From<&'a Envelope> for Around<'a> {
    fn from(envelope: &'a Envelope) -> Self {
        Self {
            envelope,
            cookies: [None; 2],
            end_to_end: &[],
        }
    }
}

impl<'a> Around<'a> {
    /// The same extensions, with those for several hops.
    pub(super) const fn with_end_to_end(mut self, extensions: &'a [u8]) -> Self {
        self.end_to_end = extensions;
        self
    }
}

impl Around<'_> {
    /// Octets that a segment is longer by.
    pub(super) fn octets(&self) -> u64 {
        let cookies = self.cookies.into_iter().flatten().map(|cookie| {
            let length = length_of(cookie);
            length
                .saturating_add(number_octets(length))
                .saturating_add(1)
        });
        let others = self.envelope.octets();
        let others = others.saturating_add(length_of(self.end_to_end));
        cookies.fold(others, u64::saturating_add)
    }
}

pub(super) fn length_of(octets: &[u8]) -> u64 {
    u64::try_from(octets.len()).unwrap_or(u64::MAX)
}

/// Octets of a number.
pub(super) fn number_octets(value: u64) -> u64 {
    let groups = u64::BITS
        .saturating_sub(value.leading_zeros())
        .div_ceil(7)
        .max(1);
    u64::from(groups)
}

fn write_start(out: &mut Vec<u8>, code: u8, session: SessionId, around: Around<'_>) {
    out.push(code);
    sdnv::write(out, session.originator);
    sdnv::write(out, session.number);
    let cookies = around.cookies.into_iter().flatten();
    let counts = cookies.clone().fold(around.envelope.counts, |counts, _| {
        counts.saturating_add(0x10)
    });
    let onward = match around.end_to_end {
        [] => 0,
        _ => EXTENSIONS << 4,
    };
    out.push(counts.saturating_add(onward));
    out.extend_from_slice(&around.envelope.header);
    out.extend_from_slice(around.end_to_end);
    for cookie in cookies {
        out.push(COOKIE);
        sdnv::write(out, length_of(cookie));
        out.extend_from_slice(cookie);
    }
}

/// Write all of a data segment before its octets.
pub(super) fn write_data_head(out: &mut Vec<u8>, head: &DataHead, around: Around<'_>) {
    let code = match head.kind {
        DataKind::Red => 0,
        DataKind::RedCheckpoint => 1,
        DataKind::RedEnd => 2,
        DataKind::BlockRedEnd => 3,
        DataKind::Green => 4,
        DataKind::BlockGreenEnd => 7,
    };
    write_start(out, code, head.session, around);
    for number in [head.service, head.offset, head.length] {
        sdnv::write(out, number);
    }
    if let Some(serials) = head.serials {
        sdnv::write(out, serials.checkpoint);
        sdnv::write(out, serials.report);
    }
}

/// Octets of a data segment before its own, for a segment of up to `most` of them.
pub(super) fn data_head_octets(
    session: SessionId,
    service: u64,
    offset: u64,
    most: u64,
    serials: Option<Serials>,
) -> u64 {
    let of_serials = serials.map_or(0, |serials| {
        number_octets(serials.checkpoint).saturating_add(number_octets(serials.report))
    });
    let numbers = [session.originator, session.number, service, offset, most];
    // The control octet and the one that counts extensions.
    let fixed = 2_u64.saturating_add(of_serials);
    numbers
        .into_iter()
        .map(number_octets)
        .fold(fixed, u64::saturating_add)
}

/// Octets of a report without its claims, of which it has `count`.
pub(super) fn report_head_octets(session: SessionId, report: &Report, count: u64) -> u64 {
    let numbers = [
        session.originator,
        session.number,
        report.serial,
        report.checkpoint,
        report.upper,
        report.lower,
        count,
    ];
    numbers
        .into_iter()
        .map(number_octets)
        .fold(2, u64::saturating_add)
}

/// Octets of a claim in a report with this lower bound.
pub(super) fn claim_octets(lower: u64, (start, end): (u64, u64)) -> u64 {
    let (offset, length) = (start.saturating_sub(lower), end.saturating_sub(start));
    number_octets(offset).saturating_add(number_octets(length))
}

/// Write a report segment.
pub(super) fn write_report(
    out: &mut Vec<u8>,
    session: SessionId,
    report: &Report,
    around: Around<'_>,
) {
    write_start(out, 8, session, around);
    let count = u64::try_from(report.claims.len()).unwrap_or(u64::MAX);
    let numbers = [
        report.serial,
        report.checkpoint,
        report.upper,
        report.lower,
        count,
    ];
    for number in numbers {
        sdnv::write(out, number);
    }
    for (start, end) in &report.claims {
        sdnv::write(out, start.saturating_sub(report.lower));
        sdnv::write(out, end.saturating_sub(*start));
    }
    out.extend_from_slice(&around.envelope.trailer);
}

/// Write a report-acknowledgment segment.
pub(super) fn write_report_ack(
    out: &mut Vec<u8>,
    session: SessionId,
    serial: u64,
    around: Around<'_>,
) {
    write_start(out, 9, session, around);
    sdnv::write(out, serial);
    out.extend_from_slice(&around.envelope.trailer);
}

/// Write a cancel segment.
pub(super) fn write_cancel(
    out: &mut Vec<u8>,
    session: SessionId,
    by: Party,
    reason: Reason,
    around: Around<'_>,
) {
    let code = match by {
        Party::Sender => 12,
        Party::Receiver => 14,
    };
    write_start(out, code, session, around);
    out.push(reason.code());
    out.extend_from_slice(&around.envelope.trailer);
}

/// Write a cancel-acknowledgment segment.
pub(super) fn write_cancel_ack(
    out: &mut Vec<u8>,
    session: SessionId,
    by: Party,
    around: Around<'_>,
) {
    let code = match by {
        Party::Sender => 13,
        Party::Receiver => 15,
    };
    write_start(out, code, session, around);
    out.extend_from_slice(&around.envelope.trailer);
}
