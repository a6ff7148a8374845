//! Administrative records (RFC 5050 6.1): status reports, custody signals, and aggregate custody signals.

use alloc::string::ToString;
use alloc::vec::Vec;

use thiserror::Error;

use super::dictionary::endpoint_of_text;
use super::primary::CreationTime;
use super::refusal::Refusal;
use super::sdnv::{self, Reader};
use crate::eid::EndpointId;
use crate::id::FragmentRange;

/// Runs of custody IDs in one signal, at most.
pub const MAX_RUNS: usize = 4_096;

/// A payload that is no administrative record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordRefusal {
    /// Its octets break a rule of all numbers and endpoint IDs, or end too early.
    #[error(transparent)]
    Octets(#[from] Refusal),
    /// Octets follow the record.
    #[error("octets follow the record")]
    OctetsAfterEnd,
    /// A type that is none of these.
    #[error("the record type {0} is not known")]
    Type(u8),
    /// A report that asserts nothing, or something unknown.
    #[error("the status flags are {0:#04x}")]
    Status(u8),
    /// Runs of custody IDs that are empty, too many, or beyond 64 bits.
    #[error("the runs of custody IDs are empty, more than {MAX_RUNS}, or beyond 64 bits")]
    Runs,
}

/// A moment, as reports tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReportTime {
    /// Seconds since the year 2000 began; 0 for not known.
    pub seconds: u64,
    /// Nanoseconds since the beginning of that second.
    pub nanoseconds: u64,
}

/// The bundle that a record tells of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Its source.
    pub source: EndpointId,
    /// Its creation timestamp.
    pub creation: CreationTime,
    /// The octets of a fragment; `None` for a whole bundle.
    pub fragment: Option<FragmentRange>,
}

/// A status report on a bundle (RFC 5050 6.1.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StatusReport {
    /// The bundle of the report.
    pub subject: Subject,
    /// The reason: a code of RFC 5050 6.1.1.
    pub reason: u8,
    /// When it was received, taken into custody, forwarded, delivered and deleted, where it was.
    pub times: [Option<ReportTime>; 5],
}

/// The names of the times of a report, in their order.
pub const STATUSES: [&str; 5] = ["received", "custody", "forwarded", "delivered", "deleted"];

/// The reasons of reports by their codes from 0 (RFC 5050 6.1.1).
const REPORT_REASONS: [&str; 9] = [
    "no additional information",
    "lifetime expired",
    "forwarded over unidirectional link",
    "transmission canceled",
    "depleted storage",
    "destination endpoint ID unintelligible",
    "no known route to destination from here",
    "no timely contact with next node on route",
    "block unintelligible",
];

/// The code of a custody signal that stands for another reason than in reports (RFC 5050 6.1.2); 1 and 2 are reserved there.
const REDUNDANT_RECEPTION: u8 = 3;

/// The name of a status report's reason (RFC 5050 6.1.1); `None` for a code without one.
#[must_use]
pub fn report_reason(code: u8) -> Option<&'static str> {
    REPORT_REASONS.get(usize::from(code)).copied()
}

/// The name of a custody signal's reason (RFC 5050 6.1.2); `None` for a code without one.
#[must_use]
pub fn signal_reason(code: u8) -> Option<&'static str> {
    match code {
        1 | 2 => None,
        REDUNDANT_RECEPTION => Some("redundant reception"),
        code => report_reason(code),
    }
}

/// The answer to the custodian of a bundle (RFC 5050 6.1.2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CustodySignal {
    /// The bundle of the signal.
    pub subject: Subject,
    /// Whether the node has taken custody.
    pub is_success: bool,
    /// Why not: a code of RFC 5050 6.1.2.
    pub reason: u8,
    /// The time of the signal.
    pub time: ReportTime,
}

/// The answer to a custodian of many bundles, by the numbers that it gave them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AggregateSignal {
    /// Whether the node has taken custody.
    pub is_success: bool,
    /// The reason of a refusal, as in [`CustodySignal::reason`].
    pub reason: u8,
    /// First and last number of each run, ascending.
    pub runs: Vec<(u64, u64)>,
}

/// The payload of an administrative bundle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AdministrativeRecord {
    /// Type 1.
    StatusReport(StatusReport),
    /// Type 2.
    CustodySignal(CustodySignal),
    /// Type 4.
    AggregateSignal(AggregateSignal),
}

/// The record is of a fragment.
const OF_FRAGMENT: u8 = 0x01;

/// Custody was taken.
const SUCCESS: u8 = 0x80;

impl AdministrativeRecord {
    /// Reads a payload.
    ///
    /// # Errors
    /// It is no such record.
    pub fn decode(payload: &[u8]) -> Result<Self, RecordRefusal> {
        let mut reader = Reader::new(payload);
        let first = reader.octet()?;
        let (kind, flags) = (first >> 4, first & 0x0f);
        let is_fragment = flags & OF_FRAGMENT != 0;
        let record = match kind {
            1 => Self::StatusReport(StatusReport::decode(&mut reader, is_fragment)?),
            2 => Self::CustodySignal(CustodySignal::decode(&mut reader, is_fragment)?),
            4 => Self::AggregateSignal(AggregateSignal::decode(&mut reader)?),
            _ => return Err(RecordRefusal::Type(kind)),
        };
        match reader.is_empty() {
            true => Ok(record),
            false => Err(RecordRefusal::OctetsAfterEnd),
        }
    }

    /// Writes the record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::StatusReport(report) => report.encode(&mut out),
            Self::CustodySignal(signal) => signal.encode(&mut out),
            Self::AggregateSignal(signal) => signal.encode(&mut out),
        }
        out
    }
}

fn read_fragment(
    reader: &mut Reader<'_>,
    is_fragment: bool,
) -> Result<Option<FragmentRange>, Refusal> {
    if !is_fragment {
        return Ok(None);
    }
    Ok(Some(FragmentRange {
        offset: reader.number()?,
        length: reader.number()?,
    }))
}

fn read_time(reader: &mut Reader<'_>) -> Result<ReportTime, Refusal> {
    Ok(ReportTime {
        seconds: reader.number()?,
        nanoseconds: reader.number()?,
    })
}

fn write_time(out: &mut Vec<u8>, time: ReportTime) {
    sdnv::write(out, time.seconds);
    sdnv::write(out, time.nanoseconds);
}

impl Subject {
    fn decode(reader: &mut Reader<'_>, fragment: Option<FragmentRange>) -> Result<Self, Refusal> {
        let creation = CreationTime {
            seconds: reader.number()?,
            sequence: reader.number()?,
        };
        let octets = reader.number()?;
        Ok(Self {
            source: endpoint_of_text("source of the bundle", reader.octets(octets)?)?,
            creation,
            fragment,
        })
    }

    /// The first octet of a record of this type about it.
    fn head(&self, kind: u8) -> u8 {
        kind << 4
            | if self.fragment.is_some() {
                OF_FRAGMENT
            } else {
                0
            }
    }

    fn encode_fragment(&self, out: &mut Vec<u8>) {
        if let Some(range) = self.fragment {
            sdnv::write(out, range.offset);
            sdnv::write(out, range.length);
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sdnv::write(out, self.creation.seconds);
        sdnv::write(out, self.creation.sequence);
        let source = self.source.to_string();
        sdnv::write(out, u64::try_from(source.len()).unwrap_or(u64::MAX));
        out.extend_from_slice(source.as_bytes());
    }
}

impl StatusReport {
    fn decode(reader: &mut Reader<'_>, is_fragment: bool) -> Result<Self, RecordRefusal> {
        let status = reader.octet()?;
        // Bit 5 was an application's acknowledgment in drafts, and has a time where programs still set it.
        if status == 0 || status >= 1 << STATUSES.len() {
            return Err(RecordRefusal::Status(status));
        }
        let reason = reader.octet()?;
        let fragment = read_fragment(reader, is_fragment)?;
        let mut times = [None; 5];
        for (bit, time) in times.iter_mut().enumerate() {
            if status & 1 << bit != 0 {
                *time = Some(read_time(reader)?);
            }
        }
        Ok(Self {
            subject: Subject::decode(reader, fragment)?,
            reason,
            times,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.subject.head(1));
        let set = self.times.iter().enumerate();
        let set = set.filter(|(_, time)| time.is_some());
        out.push(set.fold(0, |bits, (bit, _)| bits | 1 << bit));
        out.push(self.reason);
        self.subject.encode_fragment(out);
        for time in self.times.into_iter().flatten() {
            write_time(out, time);
        }
        self.subject.encode(out);
    }
}

impl CustodySignal {
    fn decode(reader: &mut Reader<'_>, is_fragment: bool) -> Result<Self, RecordRefusal> {
        let status = reader.octet()?;
        let fragment = read_fragment(reader, is_fragment)?;
        let time = read_time(reader)?;
        Ok(Self {
            subject: Subject::decode(reader, fragment)?,
            is_success: status & SUCCESS != 0,
            reason: status & !SUCCESS,
            time,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.subject.head(2));
        out.push(status(self.is_success, self.reason));
        self.subject.encode_fragment(out);
        write_time(out, self.time);
        self.subject.encode(out);
    }
}

/// The status of a signal: whether it is a success, and the reason of seven bits.
const fn status(is_success: bool, reason: u8) -> u8 {
    let success = if is_success { SUCCESS } else { 0 };
    success | reason & !SUCCESS
}

impl AggregateSignal {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, RecordRefusal> {
        let status = reader.octet()?;
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut before = 0_u64;
        while !reader.is_empty() {
            let (start, count) = (reader.number()?, reader.number()?);
            let first = before.checked_add(start);
            let more = count.checked_sub(1);
            let last = first
                .zip(more)
                .and_then(|(first, more)| first.checked_add(more));
            let (Some(first), Some(last)) = (first, last) else {
                return Err(RecordRefusal::Runs);
            };
            // A run that begins where another ends would tell of a number twice.
            if runs.len() == MAX_RUNS || (!runs.is_empty() && start == 0) {
                return Err(RecordRefusal::Runs);
            }
            runs.push((first, last));
            before = last;
        }
        if runs.is_empty() {
            return Err(RecordRefusal::Runs);
        }
        Ok(Self {
            is_success: status & SUCCESS != 0,
            reason: status & !SUCCESS,
            runs,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(4 << 4);
        out.push(status(self.is_success, self.reason));
        let mut before = 0;
        for &(first, last) in &self.runs {
            sdnv::write(out, first.saturating_sub(before));
            sdnv::write(out, last.saturating_sub(first).saturating_add(1));
            before = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    fn subject() -> Subject {
        Subject {
            source: "ipn:2.2".parse().unwrap(),
            creation: CreationTime {
                seconds: 848_000_000,
                sequence: 7,
            },
            fragment: None,
        }
    }

    #[test]
    fn an_aggregate_signal_is_read_and_written_as_in_ion_and_hdtn() {
        let octets = [0x40, 0x80, 0x01, 0x0a, 0x03, 0x07];
        let record = AdministrativeRecord::decode(&octets).unwrap();
        let AdministrativeRecord::AggregateSignal(signal) = &record else {
            panic!("{record:?}")
        };
        assert!(signal.is_success);
        assert_eq!(signal.runs, [(1, 10), (13, 19)]);
        assert_eq!(record.encode(), octets);
    }

    #[test]
    fn runs_that_are_none_are_refused() {
        let refused: [&[u8]; 4] = [
            &[0x40, 0x80],
            &[0x40, 0x80, 1, 0],
            &[0x40, 0x80, 1, 2, 0, 1],
            &[
                0x40, 0x80, 0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 2,
            ],
        ];
        for octets in refused {
            let read = AdministrativeRecord::decode(octets);
            assert_eq!(read, Err(RecordRefusal::Runs), "{octets:?}");
        }
        let many = [vec![0x40, 0x80], [2, 1].repeat(MAX_RUNS + 1)].concat();
        let read = AdministrativeRecord::decode(&many);
        assert_eq!(read, Err(RecordRefusal::Runs));
    }

    #[test]
    fn a_report_of_a_fragment_comes_back() {
        let mut times = [None; 5];
        times[0] = Some(ReportTime {
            seconds: 848_000_001,
            nanoseconds: 5,
        });
        times[4] = times[0];
        let fragment = Some(FragmentRange {
            offset: 100,
            length: 200,
        });
        let report = StatusReport {
            subject: Subject {
                fragment,
                ..subject()
            },
            reason: 1,
            times,
        };
        let record = AdministrativeRecord::StatusReport(report);
        assert_eq!(AdministrativeRecord::decode(&record.encode()), Ok(record));
    }

    proptest! {
        #[test]
        fn any_octets_are_a_record_or_none(octets in proptest::collection::vec(any::<u8>(), 0..80), kind in 0_u8..6) {
            for first in [kind << 4, kind << 4 | 1] {
                let octets = [&[first][..], &octets].concat();
                if let Ok(record) = AdministrativeRecord::decode(&octets) {
                    prop_assert_eq!(AdministrativeRecord::decode(&record.encode()), Ok(record));
                }
            }
        }

        #[test]
        fn a_signal_comes_back(is_success: bool, reason in 0_u8..0x80, seconds: u64, nanoseconds: u64) {
            let record = AdministrativeRecord::CustodySignal(CustodySignal {
                subject: subject(),
                is_success,
                reason,
                time: ReportTime { seconds, nanoseconds },
            });
            prop_assert_eq!(AdministrativeRecord::decode(&record.encode()), Ok(record));
        }
    }
}
