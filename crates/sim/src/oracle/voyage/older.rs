//! A bundle of version 6 as it stands on a link, read from its octets as RFC 5050 and RFC 6260 lay them out and from nothing else; and its
//! administrative records.

use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId, FragmentRange};

use super::parcel::{Items, Parcel, Read, ReportContent, Stop, wrong};
use crate::ledger::BundleName;

/// The first octet of a bundle (RFC 5050 4.5.1).
pub(super) const VERSION: u8 = 6;

/// Bundle processing control flag (RFC 5050 4.2): a fragment.
const FRAGMENT: u64 = 0x1;

/// Block processing control flags (RFC 5050 4.3): the last block, and one with references to endpoint IDs.
const LAST: u64 = 0x08;
const REFERENCES: u64 = 0x40;

/// Block types: payload (RFC 5050 4.5.2), previous hop (RFC 6259), a custodian's number or an age, an age, and what a bundle was in version 7
/// (docs/gateway.md).
const PAYLOAD: u8 = 1;
const PREVIOUS_HOP: u8 = 5;
const CUSTODY_OR_AGE: u8 = 10;
const AGE: u8 = 20;
const GATEWAY: u8 = 213;

/// Octets of an SDNV of 64 bits (RFC 5050 4.1).
const SDNV_OCTETS: usize = 10;

/// A signal is of a fragment (RFC 5050 6.1), and of success (6.1.2).
const OF_FRAGMENT: u8 = 0x1;
const SUCCESS: u8 = 0x80;

/// The reason of a signal: redundant reception (RFC 5050 6.1.2).
const REDUNDANT: u8 = 3;

/// The bundles that a custody signal is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One bundle, or a fragment of it.
    One(BundleName, Option<FragmentRange>),
    /// The bundles of these numbers of the custodian, first and last of each run.
    Numbered(Vec<(u64, u64)>),
}

/// A custody signal: its sender has the bundles, or had them before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalContent {
    /// The bundles.
    pub subject: Subject,
    /// Whether the custodian may let them go: custody was taken, or the bundle had come before.
    pub releases: bool,
}

/// Reads the blocks at the beginning of a bundle's octets.
pub(super) fn read(items: &mut Items<'_>) -> Read<Parcel> {
    items.octet()?;
    let mut parcel = primary(items)?;
    loop {
        let kind = items.octet()?;
        let flags = number(items)?;
        let mut references = Vec::new();
        if flags & REFERENCES != 0 {
            for _ in 0..number(items)? {
                references.push((number(items)?, number(items)?));
            }
        }
        let length = number(items)?;
        if kind == PAYLOAD {
            if flags & LAST == 0 {
                return wrong("sends a bundle with blocks behind its payload");
            }
            parcel.payload_at = u64::try_from(items.at).unwrap_or(u64::MAX);
            parcel.payload_octets = length;
            return Ok(parcel);
        }
        let content = items.take(length)?;
        if flags & LAST != 0 {
            return wrong("sends a bundle without payload (RFC 5050 4.5)");
        }
        block(&mut parcel, kind, content)?;
    }
}

/// Takes over what a block says.
fn block(parcel: &mut Parcel, kind: u8, content: &[u8]) -> Read<()> {
    let mut items = Items::of(content);
    match kind {
        PREVIOUS_HOP => {
            let text = content.strip_suffix(&[0]).unwrap_or(content);
            let text = String::from_utf8_lossy(text).replace('\0', ":");
            parcel.previous = Some(endpoint_of(&text)?);
        }
        CUSTODY_OR_AGE | AGE => {
            let first = number(&mut items)?;
            match content.get(items.at..) {
                None | Some([]) => parcel.age_ms = Some(first / 1_000),
                Some(text) => {
                    let of = endpoint_of(&String::from_utf8_lossy(text))?;
                    let is_its = parcel.custodian.as_ref() == Some(&of);
                    parcel.custody_number = is_its.then_some(first);
                }
            }
        }
        GATEWAY => {
            items.array()?;
            for _ in 0..3 {
                items.unsigned()?;
            }
            parcel.hops = Some((items.unsigned()?, items.unsigned()?));
        }
        _ => {}
    }
    Ok(())
}

fn primary(items: &mut Items<'_>) -> Read<Parcel> {
    let flags = number(items)?;
    let length = number(items)?;
    let start = items.at;
    let mut references = [(0, 0); 4];
    for reference in &mut references {
        *reference = (number(items)?, number(items)?);
    }
    let (seconds, sequence) = (number(items)?, number(items)?);
    let lifetime_s = number(items)?;
    let strings = number(items)?;
    let strings = items.take(strings)?;
    let fragment = match flags & FRAGMENT {
        0 => None,
        _ => Some((number(items)?, number(items)?)),
    };
    if u64::try_from(items.at - start) != Ok(length) {
        return wrong("sends a primary block of another length than it says (RFC 5050 4.5.1)");
    }
    let [destination, source, report_to, custodian] = references;
    let id = identity(endpoint(strings, source)?, seconds, sequence);
    Ok(Parcel {
        version: VERSION.into(),
        name: BundleName::of(&id),
        source: id.source,
        destination: endpoint(strings, destination)?,
        report_to: endpoint(strings, report_to)?,
        custodian: Some(endpoint(strings, custodian)?),
        flags,
        created_ms: id.creation.time.as_millis(),
        lifetime_ms: lifetime_s.saturating_mul(1_000),
        fragment,
        ..Parcel::default()
    })
}

/// The identity of a bundle as version 7 has it (docs/gateway.md).
fn identity(source: EndpointId, seconds: u64, sequence: u64) -> BundleId {
    let (time_ms, sequence) = match seconds {
        0 => (0, sequence),
        _ => (
            seconds
                .saturating_mul(1_000)
                .saturating_add(sequence % 1_000),
            sequence / 1_000,
        ),
    };
    BundleId {
        source,
        creation: CreationTimestamp {
            time: DtnTime::from_millis(time_ms),
            sequence,
        },
        fragment: None,
    }
}

/// An endpoint ID by its strings (RFC 5050 4.4), or by numbers where there are none (RFC 6260 2.2).
fn endpoint(strings: &[u8], (scheme, part): (u64, u64)) -> Read<EndpointId> {
    if strings.is_empty() {
        return match (scheme, part) {
            (0, 0) => Ok(EndpointId::Null),
            _ => endpoint_of(&format!("ipn:{scheme}.{part}")),
        };
    }
    let text = |at: u64| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let rest = strings.get(at..).unwrap_or_default();
        let text = rest.split(|octet| *octet == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    endpoint_of(&format!("{}:{}", text(scheme), text(part)))
}

fn endpoint_of(text: &str) -> Read<EndpointId> {
    let parsed = text.parse();
    parsed.map_err(|_| {
        Stop::Wrong(format!(
            "names '{text}', which is not an endpoint (RFC 5050 4.4)"
        ))
    })
}

/// A number of seven bits an octet (RFC 5050 4.1).
fn number(items: &mut Items<'_>) -> Read<u64> {
    let mut value = 0_u64;
    for _ in 0..SDNV_OCTETS {
        let octet = items.octet()?;
        value = value << 7 | u64::from(octet & 0x7f);
        if octet & 0x80 == 0 {
            return Ok(value);
        }
    }
    wrong("sends a number of more than ten octets (RFC 5050 4.1)")
}

fn range(items: &mut Items<'_>, head: u8) -> Read<Option<FragmentRange>> {
    Ok(match head & OF_FRAGMENT {
        0 => None,
        _ => Some(FragmentRange {
            offset: number(items)?,
            length: number(items)?,
        }),
    })
}

/// The bundle that a record names at its end.
fn named(items: &mut Items<'_>) -> Read<BundleName> {
    let (seconds, sequence) = (number(items)?, number(items)?);
    let length = number(items)?;
    let source = String::from_utf8_lossy(items.take(length)?).into_owned();
    let id = identity(endpoint_of(&source)?, seconds, sequence);
    Ok(BundleName::of(&id))
}

/// Reads an administrative record; `None` where it is no status report (RFC 5050 6.1.1).
pub(super) fn read_report(items: &mut Items<'_>) -> Read<Option<ReportContent>> {
    let head = items.octet()?;
    if head >> 4 != 1 {
        return Ok(None);
    }
    let (status, reason) = (items.octet()?, items.octet()?);
    let range = range(items, head)?;
    // Received, taken into custody, forwarded, delivered, deleted.
    let mut times = [None; 5];
    for (bit, time) in times.iter_mut().enumerate() {
        if status & 1 << bit != 0 {
            let (seconds, nanoseconds) = (number(items)?, number(items)?);
            let at_ms = seconds
                .saturating_mul(1_000)
                .saturating_add(nanoseconds / 1_000_000);
            *time = Some(Some(at_ms));
        }
    }
    let [received, _, forwarded, delivered, deleted] = times;
    Ok(Some(ReportContent {
        name: named(items)?,
        range,
        statuses: [received, forwarded, delivered, deleted],
        reason: reason.into(),
    }))
}

impl SignalContent {
    /// Reads an administrative record of version 6; `None` where it is no custody signal.
    ///
    /// # Errors
    /// The fault of the record, as a sentence's end.
    pub fn read(octets: &[u8]) -> Result<Option<Self>, String> {
        match signal(&mut Items::of(octets)) {
            Ok(signal) => Ok(signal),
            Err(Stop::Short) => {
                Err("sends a custody signal that ends early (RFC 5050 6.1.2)".to_owned())
            }
            Err(Stop::Wrong(what)) => Err(what),
        }
    }
}

fn signal(items: &mut Items<'_>) -> Read<Option<SignalContent>> {
    let head = items.octet()?;
    if ![2, 4].contains(&(head >> 4)) {
        return Ok(None);
    }
    let status = items.octet()?;
    let subject = if head >> 4 == 2 {
        let range = range(items, head)?;
        // The time of the signal.
        number(items)?;
        number(items)?;
        Subject::One(named(items)?, range)
    } else {
        let mut runs = Vec::new();
        let mut before = 0_u64;
        while !items.is_empty() {
            let first = before.saturating_add(number(items)?);
            let last = first.saturating_add(number(items)?.saturating_sub(1));
            runs.push((first, last));
            before = last;
        }
        Subject::Numbered(runs)
    };
    let is_success = status & SUCCESS != 0;
    Ok(Some(SignalContent {
        subject,
        releases: is_success || status & !SUCCESS == REDUNDANT,
    }))
}

#[cfg(test)]
mod tests {
    use dhow_bundle::v6::admin::{AdministrativeRecord, AggregateSignal, CustodySignal};
    use dhow_bundle::v6::{CreationTime, admin};

    use super::*;

    /// The bundle of docs/gateway.md.
    const EXAMPLE: &str =
        "068882181202010101010001008394ade800b7029c100013010201c8140103dbc66001080568656c6c6f";

    fn octets(hex: &str) -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2);
        let octet = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        pairs.map(octet).collect()
    }

    #[test]
    fn a_bundle_of_version_6_has_the_name_that_it_has_in_version_7() {
        let octets = octets(EXAMPLE);
        let parcel = Parcel::read(&octets).unwrap().unwrap();
        assert_eq!(parcel.version, 6);
        assert_eq!(parcel.created_ms, 848_000_000_042);
        assert_eq!(
            (parcel.age_ms, parcel.lifetime_ms),
            (Some(1_500), 3_600_000)
        );
        assert_eq!(parcel.custodian, Some("ipn:1.0".parse().unwrap()));
        assert_eq!(parcel.payload(&octets), b"hello");
        assert_eq!(parcel.check_end(&octets), Ok(()));
        let id = BundleId {
            source: "ipn:1.1".parse().unwrap(),
            creation: CreationTimestamp {
                time: DtnTime::from_millis(848_000_000_042),
                sequence: 7,
            },
            fragment: None,
        };
        assert_eq!(parcel.name, BundleName::of(&id));
        for short in 0..octets.len() - 6 {
            assert_eq!(Parcel::read(&octets[..short]), Ok(None), "{short}");
        }
    }

    #[test]
    fn signals_are_read_as_they_are_written() {
        let subject = admin::Subject {
            source: "ipn:1.1".parse().unwrap(),
            creation: CreationTime {
                seconds: 848_000_000,
                sequence: 7_042,
            },
            fragment: Some(FragmentRange {
                offset: 100,
                length: 300,
            }),
        };
        let signal = |is_success, reason| {
            let record = AdministrativeRecord::CustodySignal(CustodySignal {
                subject: subject.clone(),
                is_success,
                reason,
                time: admin::ReportTime::default(),
            });
            SignalContent::read(&record.encode()).unwrap().unwrap()
        };
        assert!(signal(true, 0).releases && signal(false, 3).releases);
        assert!(!signal(false, 4).releases);
        let name = BundleName::of(&identity(subject.source.clone(), 848_000_000, 7_042));
        assert_eq!(
            signal(true, 0).subject,
            Subject::One(name, subject.fragment)
        );
        let record = AdministrativeRecord::AggregateSignal(AggregateSignal {
            is_success: true,
            reason: 0,
            runs: vec![(3, 3), (7, 300)],
        });
        let read = SignalContent::read(&record.encode()).unwrap().unwrap();
        assert_eq!(read.subject, Subject::Numbered(vec![(3, 3), (7, 300)]));
    }
}
