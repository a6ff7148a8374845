//! A bundle as it stands on a link, read from its octets as RFC 9171 lays them out and from nothing else; one of version 6 is read in `older.rs`.

use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId, FragmentRange};

use super::checksum::check_crc;
use super::older;
use crate::ledger::BundleName;

/// Bundle processing control flags (RFC 9171 4.2.3): a fragment.
const FRAGMENT: u64 = 0x1;

/// An administrative record.
const ADMINISTRATIVE: u64 = 0x2;

/// Block types (RFC 9171 9.1).
const PAYLOAD: u64 = 1;
const PREVIOUS_NODE: u64 = 6;
const BUNDLE_AGE: u64 = 7;
const HOP_COUNT: u64 = 10;

/// Payloads with a checksum of more octets are not summed: their receiver sums them, and their octets are compared.
const SUMMED_OCTETS: u64 = 16 * 1024;

/// A bundle's blocks, without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The version of the Bundle Protocol.
    pub version: u64,
    /// Its name, a fragment's that of the bundle that it is of.
    pub name: BundleName,
    /// Source.
    pub source: EndpointId,
    /// Destination.
    pub destination: EndpointId,
    /// Report-to endpoint.
    pub report_to: EndpointId,
    /// The current custodian, of a bundle of version 6.
    pub custodian: Option<EndpointId>,
    /// The number that this custodian gave it.
    pub custody_number: Option<u64>,
    /// Bundle processing control flags.
    pub flags: u64,
    /// When it was created, milliseconds of DTN time; 0 where its source has no clock.
    pub created_ms: u64,
    /// Lifetime in milliseconds.
    pub lifetime_ms: u64,
    /// First octet and octets of the whole, of a fragment.
    pub fragment: Option<(u64, u64)>,
    /// The node of the previous node block.
    pub previous: Option<EndpointId>,
    /// The bundle age block, milliseconds.
    pub age_ms: Option<u64>,
    /// Limit and count of the hop count block.
    pub hops: Option<(u64, u64)>,
    /// Offset of the payload.
    pub payload_at: u64,
    /// Octets of the payload.
    pub payload_octets: u64,
    /// The payload block's CRC type.
    pub(super) payload_crc: u64,
    /// Offset of the payload block.
    pub(super) payload_block_at: usize,
}

impl Default for Parcel {
    fn default() -> Self {
        Self {
            version: 7,
            name: BundleName(0),
            source: EndpointId::Null,
            destination: EndpointId::Null,
            report_to: EndpointId::Null,
            custodian: None,
            custody_number: None,
            flags: 0,
            created_ms: 0,
            lifetime_ms: 0,
            fragment: None,
            previous: None,
            age_ms: None,
            hops: None,
            payload_at: 0,
            payload_octets: 0,
            payload_crc: 0,
            payload_block_at: 0,
        }
    }
}

/// The reason why octets cannot be read.
pub(super) enum Stop {
    /// There are too few.
    Short,
    /// The octets are no bundle.
    Wrong(String),
}

pub(super) type Read<T> = Result<T, Stop>;

pub(super) fn wrong<T>(what: impl Into<String>) -> Read<T> {
    Err(Stop::Wrong(what.into()))
}

impl Parcel {
    /// Reads the blocks at the beginning of a bundle's octets; `None` where they are not all there.
    ///
    /// # Errors
    /// The fault of octets that are no bundle, as a sentence's end.
    pub fn read(octets: &[u8]) -> Result<Option<Self>, String> {
        let mut items = Items::of(octets);
        let read = match octets.first() {
            Some(&older::VERSION) => older::read(&mut items),
            _ => read(&mut items),
        };
        match read {
            Ok(parcel) => Ok(Some(parcel)),
            Err(Stop::Short) => Ok(None),
            Err(Stop::Wrong(what)) => Err(what),
        }
    }

    /// Octets of the whole bundle.
    pub const fn octets(&self) -> u64 {
        let behind = match (self.version, self.payload_crc) {
            (6, _) => 0,
            (_, 1) => 4,
            (_, 2) => 6,
            _ => 1,
        };
        self.payload_at
            .saturating_add(self.payload_octets)
            .saturating_add(behind)
    }

    /// The octets of the whole application data unit that it has.
    pub fn range(&self) -> FragmentRange {
        FragmentRange {
            offset: self.fragment.map_or(0, |(offset, _)| offset),
            length: self.payload_octets,
        }
    }

    /// The part of [`Self::range`] that a node has of it, in whichever version it came there first. An administrative record has another
    /// length in the other one (docs/gateway.md): its first octet stands for all of it.
    pub fn range_before(&self) -> FragmentRange {
        let range = self.range();
        match self.is_administrative() && self.fragment.is_none() {
            true => FragmentRange {
                length: range.length.min(1),
                ..range
            },
            false => range,
        }
    }

    /// Octets of the whole application data unit.
    pub fn total_octets(&self) -> u64 {
        self.fragment
            .map_or(self.payload_octets, |(_, total)| total)
    }

    /// Octets of the whole that a node has of it, as [`Self::range_before`] counts them.
    pub fn whole_before(&self) -> u64 {
        match self.is_administrative() {
            true => self.total_octets().min(1),
            false => self.total_octets(),
        }
    }

    /// Flags that all fragments have in common with their bundle.
    pub const fn lasting_flags(&self) -> u64 {
        self.flags & !FRAGMENT
    }

    /// Whether it carries an administrative record.
    pub const fn is_administrative(&self) -> bool {
        self.flags & ADMINISTRATIVE != 0
    }

    /// The payload in the octets of the whole bundle.
    pub fn payload<'a>(&self, octets: &'a [u8]) -> &'a [u8] {
        let start = usize::try_from(self.payload_at).unwrap_or(usize::MAX);
        let length = usize::try_from(self.payload_octets).unwrap_or(usize::MAX);
        let end = start.saturating_add(length);
        octets.get(start..end).unwrap_or_default()
    }

    /// Reads what follows the payload of a bundle that is whole.
    ///
    /// # Errors
    /// The fault of those octets, as a sentence's end.
    pub fn check_end(&self, octets: &[u8]) -> Result<(), String> {
        if self.version == 6 {
            return Ok(());
        }
        if u64::try_from(octets.len()) != Ok(self.octets()) || octets.last() != Some(&0xff) {
            return Err(
                "sends a bundle that does not end where its payload block does (RFC 9171 4.1)"
                    .to_owned(),
            );
        }
        let block = octets.get(self.payload_block_at..octets.len().saturating_sub(1));
        match self.payload_octets <= SUMMED_OCTETS {
            true => check_crc(block.unwrap_or_default(), self.payload_crc),
            false => Ok(()),
        }
    }
}

fn read(items: &mut Items<'_>) -> Read<Parcel> {
    if items.octet()? != 0x9f {
        return wrong("sends a bundle that is not an indefinite array (RFC 9171 4.1)");
    }
    let mut parcel = primary(items)?;
    let mut numbers = Vec::new();
    loop {
        let start = items.at;
        let fields = items.array()?;
        let (kind, number) = (items.unsigned()?, items.unsigned()?);
        let (_, crc) = (items.unsigned()?, items.unsigned()?);
        if crc > 2 || fields != 5 + u64::from(crc != 0) {
            return wrong("sends a block of a wrong number of fields (RFC 9171 4.3.2)");
        }
        if numbers.contains(&number) || (number == 1) != (kind == PAYLOAD) {
            return wrong(format!(
                "sends two blocks of number {number}, or one of a wrong number (RFC 9171 4.1)"
            ));
        }
        numbers.push(number);
        let length = items.string()?;
        if kind == PAYLOAD {
            parcel.payload_at = u64::try_from(items.at).unwrap_or(u64::MAX);
            parcel.payload_octets = length;
            parcel.payload_crc = crc;
            parcel.payload_block_at = start;
            return Ok(parcel);
        }
        let content = items.take(length)?;
        let mut content = Items::of(content);
        match kind {
            PREVIOUS_NODE => set_once(&mut parcel.previous, content.endpoint()?)?,
            BUNDLE_AGE => set_once(&mut parcel.age_ms, content.unsigned()?)?,
            HOP_COUNT => {
                content.array()?;
                set_once(&mut parcel.hops, (content.unsigned()?, content.unsigned()?))?;
            }
            _ => {}
        }
        items.end_block(start, crc)?;
    }
}

fn set_once<T>(field: &mut Option<T>, value: T) -> Read<()> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => wrong("sends a bundle with two blocks of which there is one (RFC 9171 4.4)"),
    }
}

fn primary(items: &mut Items<'_>) -> Read<Parcel> {
    let start = items.at;
    let fields = items.array()?;
    if items.unsigned()? != 7 {
        return wrong("sends a bundle of another version (RFC 9171 4.3.1)");
    }
    let (flags, crc) = (items.unsigned()?, items.unsigned()?);
    let (destination, source) = (items.endpoint()?, items.endpoint()?);
    let report_to = items.endpoint()?;
    items.array()?;
    let (created_ms, sequence) = (items.unsigned()?, items.unsigned()?);
    let lifetime_ms = items.unsigned()?;
    let fragment = match flags & FRAGMENT {
        0 => None,
        _ => Some((items.unsigned()?, items.unsigned()?)),
    };
    if crc > 2 || fields != 8 + u64::from(crc != 0) + 2 * u64::from(fragment.is_some()) {
        return wrong("sends a primary block of a wrong number of fields (RFC 9171 4.3.1)");
    }
    items.end_block(start, crc)?;
    let id = BundleId {
        source: source.clone(),
        creation: CreationTimestamp {
            time: DtnTime::from_millis(created_ms),
            sequence,
        },
        fragment: None,
    };
    Ok(Parcel {
        version: 7,
        name: BundleName::of(&id),
        source,
        destination,
        report_to,
        flags,
        created_ms,
        lifetime_ms,
        fragment,
        ..Parcel::default()
    })
}

/// The content of a status report (RFC 9171 6.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportContent {
    /// The bundle that it is about.
    pub name: BundleName,
    /// The octets of the bundle, where the report is about a fragment.
    pub range: Option<FragmentRange>,
    /// Received, forwarded, delivered and deleted, each with the time at which, where that is said.
    pub statuses: [Option<Option<u64>>; 4],
    /// The reason code.
    pub reason: u64,
}

impl ReportContent {
    /// Reads an administrative record of a version of the Bundle Protocol; `None` where it is no status report.
    ///
    /// # Errors
    /// The fault of the record, as a sentence's end.
    pub fn read(version: u64, octets: &[u8]) -> Result<Option<Self>, String> {
        let mut items = Items::of(octets);
        let told = match version {
            6 => older::read_report(&mut items),
            _ => told(&mut items),
        };
        match told {
            Ok(told) => Ok(told),
            Err(Stop::Short) => {
                Err("sends a status report that ends early (RFC 9171 6.1.1)".to_owned())
            }
            Err(Stop::Wrong(what)) => Err(what),
        }
    }
}

fn told(items: &mut Items<'_>) -> Read<Option<ReportContent>> {
    items.array()?;
    if items.unsigned()? != 1 {
        return Ok(None);
    }
    let fields = items.array()?;
    if items.array()? != 4 {
        return wrong("sends a status report without four statuses (RFC 9171 6.1.1)");
    }
    let mut statuses = [None; 4];
    for status in &mut statuses {
        let parts = items.array()?;
        let holds = match items.octet()? {
            0xf5 => true,
            0xf4 => false,
            _ => return wrong("sends a status that is neither true nor false (RFC 9171 6.1.1)"),
        };
        let at = match parts {
            2 => Some(items.unsigned()?),
            _ => None,
        };
        *status = holds.then_some(at);
    }
    let reason = items.unsigned()?;
    let source = items.endpoint()?;
    items.array()?;
    let creation = CreationTimestamp {
        time: DtnTime::from_millis(items.unsigned()?),
        sequence: items.unsigned()?,
    };
    let range = match fields {
        4 => None,
        6 => Some(FragmentRange {
            offset: items.unsigned()?,
            length: items.unsigned()?,
        }),
        _ => return wrong("sends a status report of a wrong number of fields (RFC 9171 6.1.1)"),
    };
    let id = BundleId {
        source,
        creation,
        fragment: None,
    };
    Ok(Some(ReportContent {
        name: BundleName::of(&id),
        range,
        statuses,
        reason,
    }))
}

/// Items of CBOR (RFC 8949) from the front of octets.
pub(super) struct Items<'a> {
    octets: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Items<'a> {
    /// All of some octets.
    pub(super) const fn of(octets: &'a [u8]) -> Self {
        Self { octets, at: 0 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.at >= self.octets.len()
    }

    pub(super) fn octet(&mut self) -> Read<u8> {
        let octet = self.octets.get(self.at).ok_or(Stop::Short)?;
        self.at += 1;
        Ok(*octet)
    }

    pub(super) fn take(&mut self, length: u64) -> Read<&'a [u8]> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let end = self.at.saturating_add(length);
        let taken = self.octets.get(self.at..end).ok_or(Stop::Short)?;
        self.at = end;
        Ok(taken)
    }

    /// The value of a head of some major type, in its shortest form.
    fn head(&mut self, major: u8) -> Read<u64> {
        let first = self.octet()?;
        if first >> 5 != major {
            return wrong(format!(
                "sends an item of major type {} where {major} is due (RFC 8949 3.1)",
                first >> 5
            ));
        }
        let (value, least) = match first & 0x1f {
            short @ 0..=23 => return Ok(u64::from(short)),
            24 => (self.number(1)?, 24),
            25 => (self.number(2)?, 1 << 8),
            26 => (self.number(4)?, 1 << 16),
            27 => (self.number(8)?, 1 << 32),
            other => {
                return wrong(format!(
                    "sends an item of additional information {other} (RFC 8949 3)"
                ));
            }
        };
        match value >= least {
            true => Ok(value),
            false => wrong("sends a number that is longer than it must be (RFC 9171 4.1)"),
        }
    }

    fn number(&mut self, octets: u64) -> Read<u64> {
        let octets = self.take(octets)?.iter();
        Ok(octets.fold(0, |sum, octet| sum << 8 | u64::from(*octet)))
    }

    pub(super) fn unsigned(&mut self) -> Read<u64> {
        self.head(0)
    }

    fn string(&mut self) -> Read<u64> {
        self.head(2)
    }

    pub(super) fn array(&mut self) -> Read<u64> {
        self.head(4)
    }

    /// An endpoint ID (RFC 9171 4.2.5.1, RFC 9758): `dtn:none`, or one of the `ipn` scheme.
    fn endpoint(&mut self) -> Read<EndpointId> {
        self.array()?;
        let scheme = self.unsigned()?;
        if scheme == 1 {
            return match self.unsigned()? {
                0 => Ok(EndpointId::Null),
                _ => wrong("names an endpoint dtn:none wrongly (RFC 9171 4.2.5.1.1)"),
            };
        }
        let parts = self.array()?;
        let first = self.unsigned()?;
        let number = |value: u64| u32::try_from(value).map_err(|_| Stop::Short);
        let (allocator, node) = match parts {
            2 => (number(first >> 32)?, number(first & 0xffff_ffff)?),
            3 => (number(first)?, number(self.unsigned()?)?),
            _ => {
                return wrong(
                    "names an ipn endpoint of other than two or three parts (RFC 9758 6)",
                );
            }
        };
        let service = number(self.unsigned()?)?;
        Ok(match (allocator, node, service) {
            (0, 0, 0) => EndpointId::Null,
            _ => EndpointId::Ipn {
                allocator,
                node,
                service,
            },
        })
    }

    /// Reads the checksum that ends the block from `start` on, and compares it.
    fn end_block(&mut self, start: usize, crc: u64) -> Read<()> {
        if crc == 0 {
            return Ok(());
        }
        let length = self.string()?;
        self.take(length)?;
        let block = self.octets.get(start..self.at).unwrap_or_default();
        check_crc(block, crc).map_err(Stop::Wrong)
    }
}
