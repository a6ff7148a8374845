//! Segments as RFC 5326 section 3 lays them out, read by it alone.

/// The session of a segment: its originator's engine ID and its number (RFC 5326 3.1).
pub(super) type Name = (u64, u64);

/// The two parties of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    Sender,
    Receiver,
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment<'a> {
    Data(Data<'a>),
    Report(Report),
    ReportAck(u64),
    /// Cancelled by this party, for this reason.
    Cancel(Party, u8),
    /// The answer to a cancellation by this party.
    CancelAck(Party),
}

/// A data segment (RFC 5326 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data<'a> {
    pub(super) is_red: bool,
    pub(super) is_red_end: bool,
    pub(super) is_block_end: bool,
    pub(super) offset: u64,
    pub(super) octets: &'a [u8],
    /// The serial number of a checkpoint, and that of the report which it answers or 0.
    pub(super) checkpoint: Option<(u64, u64)>,
}

/// A report segment (RFC 5326 3.2.2), its claims as ranges of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) serial: u64,
    pub(super) checkpoint: u64,
    pub(super) upper: u64,
    pub(super) lower: u64,
    pub(super) claims: Vec<(u64, u64)>,
}

impl Data<'_> {
    pub(super) fn end(&self) -> u64 {
        let length = u64::try_from(self.octets.len()).unwrap_or(u64::MAX);
        self.offset.saturating_add(length)
    }
}

/// The one segment of a datagram, with its session; `None` where it holds something else.
pub(super) fn read(datagram: &[u8]) -> Option<(Name, Segment<'_>)> {
    let mut rest = datagram;
    let control = octet(&mut rest)?;
    if control >> 4 != 0 {
        return None;
    }
    let name = (sdnv(&mut rest)?, sdnv(&mut rest)?);
    let extensions = octet(&mut rest)?;
    for _ in 0..extensions >> 4 {
        skip_extension(&mut rest)?;
    }
    let kind = control & 0xf;
    let segment = match kind {
        0..=4 | 7 => Segment::Data(data(&mut rest, kind)?),
        8 => Segment::Report(report(&mut rest)?),
        9 => Segment::ReportAck(sdnv(&mut rest)?),
        12 => Segment::Cancel(Party::Sender, octet(&mut rest)?),
        13 => Segment::CancelAck(Party::Sender),
        14 => Segment::Cancel(Party::Receiver, octet(&mut rest)?),
        15 => Segment::CancelAck(Party::Receiver),
        _ => return None,
    };
    for _ in 0..extensions & 0xf {
        skip_extension(&mut rest)?;
    }
    rest.is_empty().then_some((name, segment))
}

/// Types 0 to 3 are red, 4 and 7 green; all red ones but type 0 are checkpoints (RFC 5326 3.1.1).
fn data<'a>(rest: &mut &'a [u8], kind: u8) -> Option<Data<'a>> {
    let _service = sdnv(rest)?;
    let offset = sdnv(rest)?;
    let length = usize::try_from(sdnv(rest)?).ok()?;
    let checkpoint = match kind {
        1..=3 => Some((sdnv(rest)?, sdnv(rest)?)),
        _ => None,
    };
    let (octets, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(Data {
        is_red: kind < 4,
        is_red_end: matches!(kind, 2 | 3),
        is_block_end: matches!(kind, 3 | 7),
        offset,
        octets,
        checkpoint,
    })
}

fn report(rest: &mut &[u8]) -> Option<Report> {
    let (serial, checkpoint) = (sdnv(rest)?, sdnv(rest)?);
    let (upper, lower) = (sdnv(rest)?, sdnv(rest)?);
    let count = sdnv(rest)?;
    let mut claims = Vec::new();
    for _ in 0..count {
        let start = lower.checked_add(sdnv(rest)?)?;
        claims.push((start, start.checked_add(sdnv(rest)?)?));
    }
    Some(Report {
        serial,
        checkpoint,
        upper,
        lower,
        claims,
    })
}

fn skip_extension(rest: &mut &[u8]) -> Option<()> {
    let _tag = octet(rest)?;
    let length = usize::try_from(sdnv(rest)?).ok()?;
    *rest = rest.split_at_checked(length)?.1;
    Some(())
}

fn octet(rest: &mut &[u8]) -> Option<u8> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    Some(*first)
}

/// A self-delimiting numeric value (RFC 6256).
fn sdnv(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    loop {
        let next = octet(rest)?;
        if number.leading_zeros() < 7 {
            return None;
        }
        number = number << 7 | u64::from(next & 0x7f);
        if next & 0x80 == 0 {
            return Some(number);
        }
    }
}
