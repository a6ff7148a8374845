//! [`AggregatedReport`]: status reports on many bundles in one record of our own
//! (`docs/aggregated-reports.md`).

use alloc::vec::Vec;

use super::reason::ReasonCode;
use super::record::RecordRefusal;
use super::status_report::{Assertion, StatusReport};
use crate::cbor::{Reader, write_array, write_unsigned};
use crate::eid::EndpointId;
use crate::id::{BundleId, CreationTimestamp, FragmentRange};
use crate::reading::Reading;
use crate::time::DtnTime;

/// Reports in one record, at most: a run of a few octets names as many bundles as it likes, and whoever
/// reads the record does something for each.
pub const MAX_REPORTS: u64 = 65_536;

/// Items of a run: creation time, sequence number, count; and the time of the status where there is one.
const UNTIMED_ITEMS: u64 = 3;

/// The status of bundles at the reporting node, as one number (RFC 9171 6.1.1 has an indicator for each).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// 0: the reporting node received the bundles.
    Received,
    /// 1: the reporting node forwarded the bundles.
    Forwarded,
    /// 2: the reporting node delivered the bundles.
    Delivered,
    /// 3: the reporting node deleted the bundles.
    Deleted,
}

impl Status {
    const ALL: [Self; 4] = [
        Self::Received,
        Self::Forwarded,
        Self::Delivered,
        Self::Deleted,
    ];

    /// The status with this number.
    #[must_use]
    pub fn from_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u64 {
        match self {
            Self::Received => 0,
            Self::Forwarded => 1,
            Self::Delivered => 2,
            Self::Deleted => 3,
        }
    }
}

/// The fields that all bundles of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHead {
    /// The source of the bundles.
    pub source: EndpointId,
    /// Their status at the reporting node.
    pub status: Status,
    /// The reason of the status.
    pub reason: ReasonCode,
    /// The range, where all are fragments with this one.
    pub fragment: Option<FragmentRange>,
    /// Whether they asked for times.
    pub timing: Timing,
}

/// Whether bundles asked for the time of their status (RFC 9171 4.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timing {
    /// The bundles asked for no times.
    Absent,
    /// The bundles asked for times.
    Present,
}

/// Bundles of one creation time, with consecutive sequence numbers and the same time of their status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Creation timestamp of the first.
    pub first: CreationTimestamp,
    /// Number of bundles, 1 at least.
    pub count: u64,
    /// When their status came to be; of no meaning in a group without times.
    pub time: DtnTime,
}

/// Bundles of one group head: their status, and the runs of their creation timestamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportGroup {
    head: GroupHead,
    runs: Vec<Run>,
}

/// Status reports of one node on many bundles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AggregatedReport {
    groups: Vec<ReportGroup>,
}

impl ReportGroup {
    /// A group of no bundle yet.
    #[must_use]
    pub const fn new(head: GroupHead) -> Self {
        Self {
            head,
            runs: Vec::new(),
        }
    }

    /// Adds a bundle; one that was the last already is not added again: the time told first stands.
    ///
    /// # Panics
    /// When the bundles do not come in the order of their creation timestamps.
    pub fn push(&mut self, creation: CreationTimestamp, time: DtnTime) {
        let time = match self.head.timing {
            Timing::Absent => DtnTime::UNKNOWN,
            Timing::Present => time,
        };
        if let Some(run) = self.runs.last_mut() {
            let next = run.first.sequence.saturating_add(run.count);
            let last = CreationTimestamp {
                time: run.first.time,
                sequence: next.saturating_sub(1),
            };
            assert!(last <= creation, "bundles of a group come in order");
            if last == creation {
                return;
            }
            if creation.time == last.time && creation.sequence == next && time == run.time {
                run.count += 1;
                return;
            }
        }
        self.runs.push(Run {
            first: creation,
            count: 1,
            time,
        });
    }

    /// The fields that the bundles have in common.
    #[must_use]
    pub const fn head(&self) -> &GroupHead {
        &self.head
    }

    /// The bundles, in order.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The status reports that the group stands for.
    pub fn reports(&self) -> impl Iterator<Item = StatusReport> {
        self.runs.iter().flat_map(|run| {
            (0..run.count).map(|place| {
                let sequence = run.first.sequence.saturating_add(place);
                self.report(
                    CreationTimestamp {
                        time: run.first.time,
                        sequence,
                    },
                    run.time,
                )
            })
        })
    }

    fn report(&self, creation: CreationTimestamp, time: DtnTime) -> StatusReport {
        let head = &self.head;
        let assertion = |status: Status| {
            (status == head.status).then_some(Assertion {
                time: (head.timing == Timing::Present).then_some(time),
            })
        };
        StatusReport {
            received: assertion(Status::Received),
            forwarded: assertion(Status::Forwarded),
            delivered: assertion(Status::Delivered),
            deleted: assertion(Status::Deleted),
            reason: head.reason,
            bundle: BundleId {
                source: head.source.clone(),
                creation,
                fragment: head.fragment,
            },
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let head = &self.head;
        write_array(out, if head.fragment.is_some() { 7 } else { 5 });
        head.source.encode(out);
        write_unsigned(out, head.status.code());
        write_unsigned(out, head.reason.code());
        let base = match head.timing {
            Timing::Absent => None,
            Timing::Present => self.runs.iter().map(|run| run.time).min(),
        };
        write_array(out, u64::from(base.is_some()));
        if let Some(base) = base {
            write_unsigned(out, base.as_millis());
        }
        let items = UNTIMED_ITEMS + u64::from(base.is_some());
        let runs = u64::try_from(self.runs.len()).unwrap_or(u64::MAX);
        write_array(out, runs.saturating_mul(items));
        let mut before = Place::default();
        for run in &self.runs {
            let (elapsed_ms, sequence) = before.distance(run.first);
            write_unsigned(out, elapsed_ms);
            write_unsigned(out, sequence);
            write_unsigned(out, run.count);
            if let Some(base) = base {
                write_unsigned(out, run.time.as_millis().saturating_sub(base.as_millis()));
            }
            before = Place::after(run);
        }
        if let Some(range) = head.fragment {
            write_unsigned(out, range.offset);
            write_unsigned(out, range.length);
        }
    }

    fn decode(
        reader: &mut Reader<'_>,
        reading: Reading,
        left: &mut u64,
    ) -> Result<Self, RecordRefusal> {
        let mut array = reader.array()?;
        array.item(reader)?;
        let source = EndpointId::decode(reader, reading).map_err(RecordRefusal::Source)?;
        array.item(reader)?;
        let code = reader.unsigned()?;
        let status = Status::from_code(code).ok_or(RecordRefusal::Status(code))?;
        array.item(reader)?;
        let reason = ReasonCode::from_code(reader.unsigned()?);
        array.item(reader)?;
        let base = decode_base(reader)?;
        array.item(reader)?;
        let runs = decode_runs(reader, base, left)?;
        let fragment = if array.next(reader)? {
            let offset = reader.unsigned()?;
            array.item(reader)?;
            let length = reader.unsigned()?;
            array.end(reader)?;
            Some(FragmentRange { offset, length })
        } else {
            None
        };
        let timing = match base {
            None => Timing::Absent,
            Some(_) => Timing::Present,
        };
        let head = GroupHead {
            source,
            status,
            reason,
            fragment,
            timing,
        };
        Ok(Self { head, runs })
    }
}

/// The times of a group are counted from this one; `None` where it has none.
fn decode_base(reader: &mut Reader<'_>) -> Result<Option<u64>, RecordRefusal> {
    let mut array = reader.array()?;
    if !array.next(reader)? {
        return Ok(None);
    }
    let base = reader.unsigned()?;
    array.end(reader)?;
    Ok(Some(base))
}

fn decode_runs(
    reader: &mut Reader<'_>,
    base: Option<u64>,
    left: &mut u64,
) -> Result<Vec<Run>, RecordRefusal> {
    let mut array = reader.array()?;
    // Each run takes three octets at least, so the octets seen bound what is kept.
    let mut runs = Vec::new();
    let mut before = Place::default();
    while array.next(reader)? {
        let elapsed_ms = reader.unsigned()?;
        array.item(reader)?;
        let sequence = reader.unsigned()?;
        array.item(reader)?;
        let count = reader.unsigned()?;
        let time = match base {
            None => 0,
            Some(base) => {
                array.item(reader)?;
                base.checked_add(reader.unsigned()?)
                    .ok_or(RecordRefusal::RunOutOfRange)?
            }
        };
        let first = before
            .moved(elapsed_ms, sequence)
            .ok_or(RecordRefusal::RunOutOfRange)?;
        // The last sequence number of the run is one, too.
        if count == 0 || first.sequence.checked_add(count - 1).is_none() {
            return Err(RecordRefusal::RunOutOfRange);
        }
        *left = left
            .checked_sub(count)
            .ok_or(RecordRefusal::TooManyReports)?;
        let run = Run {
            first,
            count,
            time: DtnTime::from_millis(time),
        };
        before = Place::after(&run);
        runs.push(run);
    }
    match runs.is_empty() {
        true => Err(RecordRefusal::EmptyReport),
        false => Ok(runs),
    }
}

/// The creation timestamp of the next run if it followed the run before without a gap.
#[derive(Default)]
struct Place {
    time: DtnTime,
    sequence: u64,
}

impl Place {
    fn after(run: &Run) -> Self {
        Self {
            time: run.first.time,
            sequence: run.first.sequence.saturating_add(run.count),
        }
    }

    /// The distance to a run: milliseconds, then sequence numbers, which start again with each time.
    fn distance(&self, to: CreationTimestamp) -> (u64, u64) {
        let elapsed_ms = to.time.as_millis().saturating_sub(self.time.as_millis());
        let skipped = match elapsed_ms {
            0 => to.sequence.saturating_sub(self.sequence),
            _ => to.sequence,
        };
        (elapsed_ms, skipped)
    }

    fn moved(&self, elapsed_ms: u64, sequence: u64) -> Option<CreationTimestamp> {
        let time = self.time.as_millis().checked_add(elapsed_ms)?;
        let sequence = match elapsed_ms {
            0 => self.sequence.checked_add(sequence)?,
            _ => sequence,
        };
        Some(CreationTimestamp {
            time: DtnTime::from_millis(time),
            sequence,
        })
    }
}

impl AggregatedReport {
    /// A record of these groups; together they name at most [`MAX_REPORTS`] bundles.
    #[must_use]
    pub const fn new(groups: Vec<ReportGroup>) -> Self {
        Self { groups }
    }

    /// The groups, in order.
    #[must_use]
    pub fn groups(&self) -> &[ReportGroup] {
        &self.groups
    }

    /// The status reports that the record stands for; at most [`MAX_REPORTS`] of one that was read.
    pub fn reports(&self) -> impl Iterator<Item = StatusReport> {
        self.groups.iter().flat_map(ReportGroup::reports)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        write_array(out, u64::try_from(self.groups.len()).unwrap_or(u64::MAX));
        for group in &self.groups {
            group.encode(out);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>, reading: Reading) -> Result<Self, RecordRefusal> {
        let mut array = reader.array()?;
        let mut left = MAX_REPORTS;
        let mut groups = Vec::new();
        while array.next(reader)? {
            groups.push(ReportGroup::decode(reader, reading, &mut left)?);
        }
        match groups.is_empty() {
            true => Err(RecordRefusal::EmptyReport),
            false => Ok(Self { groups }),
        }
    }
}
