//! Header extensions for blocks that cross several hops of LTP without bundles: a profile of our own (docs/ltp.md).
//!
//! A session of LTP is between two neighbours, and so are the engines that its segments name. These extensions, of the tags for
//! private use 0xC0 to 0xC6, tell each receiver of a block which engine made it and which one it is for. They are in every data
//! segment whose offset is 0, in the order of their tags.

use alloc::vec::Vec;

use dhow_bundle::v6::sdnv::{self, Reader};

use super::fault::Fault;
use super::wire::{Extension, length_of};

/// The first tag, and the one behind the last.
const TAGS: core::ops::Range<u8> = 0xc0..0xc7;

const SOURCE: u8 = 0xc0;
const DESTINATION: u8 = 0xc1;
const TRANSFER: u8 = 0xc2;
const LENGTH: u8 = 0xc3;
const LIFE: u8 = 0xc4;
const HOPS: u8 = 0xc5;
const CONTROL: u8 = 0xc6;

/// Header extensions of a block.
pub(super) const EXTENSIONS: u8 = 7;

/// Bits of the control octet.
const REPORT_WANTED: u8 = 1;
const IS_REPORT: u8 = 2;
const CONGESTED: u8 = 4;

/// A client service of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    /// The engine ID.
    pub engine: u64,
    /// The client service ID.
    pub service: u64,
}

/// The part of a block's header that all its hops share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndToEnd {
    /// The maker of the block.
    pub source: Service,
    /// The destination of the transfer.
    pub destination: Service,
    /// The number of the transfer: the source gives each only once.
    pub transfer: u64,
    /// Octets of the whole block, as the source estimates; `None` where it does not know.
    pub length: Option<u64>,
    /// Seconds for which the block is of use. A hop takes the time that the block stayed from it, at least one.
    pub life_s: u64,
    /// Hops that the block may still make, with this one.
    pub hops: u8,
    /// Whether the destination is to tell the source that the block is there.
    pub wants_report: bool,
    /// Whether the block is such a report.
    pub is_report: bool,
    /// Whether a queue on the way was more than half full.
    pub is_congested: bool,
}

/// Whether an extension is one of these.
pub(super) fn is_tag(tag: u8) -> bool {
    TAGS.contains(&tag)
}

impl EndToEnd {
    /// The extensions, of which there are [`EXTENSIONS`].
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let control = [
            (self.wants_report, REPORT_WANTED),
            (self.is_report, IS_REPORT),
            (self.is_congested, CONGESTED),
        ];
        let control = control.into_iter().filter(|(is_set, _)| *is_set);
        let control = control.fold(0, |sum, (_, bit)| sum | bit);
        let (from, to) = (self.source, self.destination);
        write_numbers(&mut out, SOURCE, &[from.engine, from.service]);
        write_numbers(&mut out, DESTINATION, &[to.engine, to.service]);
        write_numbers(&mut out, TRANSFER, &[self.transfer]);
        write_numbers(&mut out, LENGTH, &[self.length.unwrap_or(0)]);
        write_numbers(&mut out, LIFE, &[self.life_s]);
        out.extend_from_slice(&[HOPS, 1, self.hops]);
        out.extend_from_slice(&[CONTROL, 1, control]);
        out
    }

    /// Read the extensions of a segment; `None` when it has none of them.
    ///
    /// # Errors
    /// One is missing, is there twice, or has a value of another form.
    pub(super) fn read(header: &[Extension]) -> Result<Option<Self>, Fault> {
        let mut values: [Option<&[u8]>; 7] = [None; 7];
        for extension in header.iter().filter(|it| is_tag(it.tag)) {
            let place = usize::from(extension.tag.saturating_sub(TAGS.start));
            let value = values.get_mut(place).ok_or(Fault::EndToEnd)?;
            if value.replace(&extension.value).is_some() {
                return Err(Fault::EndToEnd);
            }
        }
        if values.iter().all(Option::is_none) {
            return Ok(None);
        }
        let [
            Some(source),
            Some(destination),
            Some(transfer),
            Some(length),
            Some(life),
            Some([hops]),
            Some([control]),
        ] = values
        else {
            return Err(Fault::EndToEnd);
        };
        if control & !(REPORT_WANTED | IS_REPORT | CONGESTED) != 0 {
            return Err(Fault::EndToEnd);
        }
        let [length] = read_numbers(length)?;
        let [transfer] = read_numbers(transfer)?;
        let [life_s] = read_numbers(life)?;
        Ok(Some(Self {
            source: read_service(source)?,
            destination: read_service(destination)?,
            transfer,
            length: (length > 0).then_some(length),
            life_s,
            hops: *hops,
            wants_report: control & REPORT_WANTED != 0,
            is_report: control & IS_REPORT != 0,
            is_congested: control & CONGESTED != 0,
        }))
    }
}

fn write_numbers(out: &mut Vec<u8>, tag: u8, numbers: &[u64]) {
    let mut value = Vec::new();
    for number in numbers {
        sdnv::write(&mut value, *number);
    }
    out.push(tag);
    sdnv::write(out, length_of(&value));
    out.extend_from_slice(&value);
}

/// The numbers of a value, which has no other octets.
fn read_numbers<const COUNT: usize>(value: &[u8]) -> Result<[u64; COUNT], Fault> {
    let mut reader = Reader::new(value);
    let mut numbers = [0; COUNT];
    for number in &mut numbers {
        *number = reader.number().map_err(|_| Fault::EndToEnd)?;
    }
    match reader.is_empty() {
        true => Ok(numbers),
        false => Err(Fault::EndToEnd),
    }
}

fn read_service(value: &[u8]) -> Result<Service, Fault> {
    let [engine, service] = read_numbers(value)?;
    Ok(Service { engine, service })
}

/// The end of a transfer, as its destination or a hop on the way tells its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndReport {
    /// The number of the transfer.
    pub transfer: u64,
    /// The outcome.
    pub status: Status,
    /// Offset and length of each part that came, in order.
    pub claims: Vec<(u64, u64)>,
}

/// The outcome of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// The destination has the whole block.
    Complete,
    /// Green octets were lost.
    Partial,
    /// Its life ended on the way.
    Expired,
    /// No hop leads to the destination, or the block made all hops that it might make.
    NoRoute,
    /// A hop had no room for it until its life ended.
    NoSpace,
    /// It is larger than the blocks that the destination, or a hop, takes.
    TooLarge,
    /// A hop that had it gave it up, and knows no better reason: the next one did not take it and said no more.
    GivenUp,
}

/// Claims of a report, at most.
const MAX_CLAIMS: u64 = 8_192;

/// Octets of a report, at most: those of the most claims, with numbers of 64 bits.
pub const MAX_END_REPORT_OCTETS: u64 = 32 + MAX_CLAIMS * 20;

impl Status {
    const ALL: [Self; 7] = [
        Self::Complete,
        Self::Partial,
        Self::Expired,
        Self::NoRoute,
        Self::NoSpace,
        Self::TooLarge,
        Self::GivenUp,
    ];

    const fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Partial => 1,
            Self::Expired => 2,
            Self::NoRoute => 3,
            Self::NoSpace => 4,
            Self::TooLarge => 5,
            Self::GivenUp => 6,
        }
    }
}

impl EndReport {
    /// The block that it is. Claims beyond the most that a report has are left out.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let most = usize::try_from(MAX_CLAIMS).unwrap_or(usize::MAX);
        let claims = self.claims.get(..most).unwrap_or(&self.claims);
        let mut out = Vec::new();
        sdnv::write(&mut out, self.transfer);
        out.push(self.status.code());
        sdnv::write(&mut out, u64::try_from(claims.len()).unwrap_or(u64::MAX));
        for (offset, length) in claims {
            sdnv::write(&mut out, *offset);
            sdnv::write(&mut out, *length);
        }
        out
    }

    /// Read the block of a report; `None` when it is none: claims are out of order or empty, or octets follow.
    #[must_use]
    pub fn decode(block: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(block);
        let transfer = reader.number().ok()?;
        let code = reader.octet().ok()?;
        let status = Status::ALL.into_iter().find(|it| it.code() == code)?;
        let count = reader.number().ok()?;
        if count > MAX_CLAIMS {
            return None;
        }
        let mut claims = Vec::new();
        let mut behind = None;
        for _ in 0..count {
            let (offset, length) = (reader.number().ok()?, reader.number().ok()?);
            let end = offset.checked_add(length)?;
            if length == 0 || behind.is_some_and(|behind| offset <= behind) {
                return None;
            }
            behind = Some(end);
            claims.push((offset, length));
        }
        reader.is_empty().then_some(Self {
            transfer,
            status,
            claims,
        })
    }
}
