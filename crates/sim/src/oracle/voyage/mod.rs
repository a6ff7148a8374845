//! The treatment of bundles by the nodes that they pass through, as it is seen on links, at disks and by applications.
//!
//! Nothing here is a node's word. A station is a machine as seen from outside: the bundles that came to it over links, those
//! that its neighbours acknowledged, and those that it gave to its disk, with the flush that covers them.

mod checksum;
mod older;
mod parcel;
mod report;
mod station;

use std::collections::BTreeSet;
use std::time::Duration;

use dhow_bundle::{EndpointId, FragmentRange, Instant};

use crate::clock::EPOCH;
use crate::ledger::{BundleName, Ledger, Named};
use crate::payload::Payloads;
use crate::queue::MachineIndex;

pub use older::{SignalContent, Subject};
pub use parcel::{Parcel, ReportContent};
pub(super) use station::acknowledged;
use station::is_of;
pub use station::{Sending, Station};

/// The oracle that found a violation, and the end of a sentence about it that begins with a node's name.
pub type Wrong = (&'static str, String);

/// Bundle processing control flags that both versions have (docs/gateway.md), but for that of fragments.
const COMMON_FLAGS: u64 = 0x07_4026;

/// The payload is an administrative record, which has another length in the other version.
const ADMINISTRATIVE: u64 = 0x2;

/// A lifetime is longer in version 6 by less than this: a part of a second of its own, and one of the creation time.
const LIFETIME_ROUNDED_MS: u64 = 2_000;

/// The fields of a bundle when its source first sent it: none of them changes on the way (RFC 9171 4.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Original {
    version: u64,
    destination: EndpointId,
    report_to: EndpointId,
    flags: u64,
    lifetime_ms: u64,
    total_octets: u64,
}

impl Original {
    fn of(parcel: &Parcel) -> Self {
        Self {
            version: parcel.version,
            destination: parcel.destination.clone(),
            report_to: parcel.report_to.clone(),
            flags: parcel.lasting_flags(),
            lifetime_ms: parcel.lifetime_ms,
            total_octets: parcel.total_octets(),
        }
    }

    /// Whether a bundle with these fields may be this one. In the other version (docs/gateway.md) it has the flags that both versions have, and a
    /// lifetime of whole seconds where that is version 6, rounded up with what its creation time loses.
    fn is_same(&self, other: &Self) -> bool {
        if self.version == other.version {
            return self == other;
        }
        let (older, newer) = match self.version {
            6 => (self, other),
            _ => (other, self),
        };
        let life = newer.lifetime_ms..=newer.lifetime_ms.saturating_add(LIFETIME_ROUNDED_MS);
        self.destination == other.destination
            && self.report_to == other.report_to
            && self.flags & COMMON_FLAGS == other.flags & COMMON_FLAGS
            && life.contains(&older.lifetime_ms)
            && (self.total_octets == other.total_octets || self.flags & ADMINISTRATIVE != 0)
    }
}

/// All stations, and the facts about bundles wherever they are.
#[derive(Debug)]
pub struct Voyages {
    stations: Vec<Station>,
    originals: Named<Original>,
    /// Whether some nodes end copies of bundles that are where they were to go.
    ends_copies: bool,
    /// Reports that came to their destination: the bundle, the node, and the status.
    reported: BTreeSet<(BundleName, u32, usize)>,
}

/// When something is looked at, and how far clocks may be apart.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The true time.
    pub now: Instant,
    /// The difference between two nodes' clocks, at most.
    pub tolerance: Duration,
}

impl Moment {
    /// Milliseconds by which a bundle is older than its lifetime, by right clocks; `None` where its source had none.
    fn overdue_ms(&self, parcel: &Parcel) -> Option<i128> {
        let since = self.now.since(Instant::START).as_millis();
        let now_ms = u128::from(EPOCH.as_millis()).saturating_add(since);
        let end_ms = u128::from(parcel.created_ms).saturating_add(u128::from(parcel.lifetime_ms));
        let late = i128::try_from(now_ms).ok()? - i128::try_from(end_ms).ok()?;
        (parcel.created_ms > 0).then_some(late)
    }

    fn tolerance_ms(&self) -> i128 {
        i128::try_from(self.tolerance.as_millis()).unwrap_or(i128::MAX)
    }
}

impl Voyages {
    /// The voyages among machines with these node numbers, each with whether it has a clock.
    #[must_use]
    pub fn new(machines: impl Iterator<Item = (u32, bool)>) -> Self {
        let stations = machines.map(|(number, clock)| Station::new(number, clock));
        Self {
            stations: stations.collect(),
            originals: Named::default(),
            ends_copies: false,
            reported: BTreeSet::new(),
        }
    }

    /// Some nodes end copies of bundles that are where they were to go, and acknowledge others without keeping them.
    #[must_use]
    pub fn with_copies_that_end(self) -> Self {
        Self {
            ends_copies: true,
            ..self
        }
    }

    /// Whether the disk of a bundle's destination has, or had, all octets of the whole bundle: nobody loses anything with another copy.
    #[must_use]
    pub fn is_there(&self, parcel: &Parcel) -> bool {
        let whole = FragmentRange {
            offset: 0,
            length: parcel.whole_before(),
        };
        let mut stations = self.stations.iter();
        let destination = stations.find(|it| is_of(&parcel.destination, it.number));
        self.ends_copies && destination.is_some_and(|it| it.has_durably(parcel.name, whole))
    }

    /// Whether the disk of the node with this number has, or had, some octets of a bundle.
    #[must_use]
    pub fn has_at(&self, number: u32, name: BundleName, range: FragmentRange) -> bool {
        let mut stations = self.stations.iter();
        let station = stations.find(|it| it.number == number);
        station.is_some_and(|it| it.has_durably(name, range))
    }

    /// One machine.
    #[must_use]
    pub fn station(&self, at: MachineIndex) -> Option<&Station> {
        self.stations.get(at.at())
    }

    /// One machine, to be told something.
    pub fn station_mut(&mut self, at: MachineIndex) -> Option<&mut Station> {
        self.stations.get_mut(at.at())
    }

    /// A machine has said the blocks of a bundle.
    ///
    /// # Errors
    /// They are not what they should be.
    pub fn handle_said(
        &mut self,
        at: MachineIndex,
        parcel: &Parcel,
        sending: Sending,
        moment: Moment,
    ) -> Result<(), Wrong> {
        let Some(station) = self.stations.get_mut(at.at()) else {
            return Ok(());
        };
        let original = Original::of(parcel);
        if station.is_source(parcel) {
            let first = self.originals.entry(parcel.name);
            let first = first.or_insert_with(|| original.clone());
            check(
                first.is_same(&original),
                || "gives one creation timestamp to two bundles (RFC 9171 4.2.7)",
            )?;
        } else if let Some(first) = self.originals.get(&parcel.name) {
            check(
                first.is_same(&original),
                || "passes a bundle on with another primary block (RFC 9171 4.3.1)",
            )?;
        }
        station.check_blocks(parcel, sending, moment)
    }

    /// A machine has said a whole bundle, which has these octets.
    ///
    /// # Errors
    /// They are not what they should be.
    pub fn handle_said_whole(
        &self,
        at: MachineIndex,
        parcel: &Parcel,
        octets: &[u8],
        (ledger, payloads): (&Ledger, &Payloads),
        moment: Moment,
    ) -> Result<(), Wrong> {
        let length = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        // One that ends early was given up.
        if length < parcel.octets() {
            return Ok(());
        }
        parcel.check_end(octets).map_err(|what| ("passage", what))?;
        if let Some(station) = self.station(at) {
            station.check_kept(parcel)?;
        }
        let payload = parcel.payload(octets);
        if parcel.is_administrative() {
            return match ReportContent::read(parcel.version, payload)
                .map_err(|what| ("passage", what))?
            {
                Some(told) => self.check_report(parcel, &told, ledger, moment),
                None => Ok(()),
            };
        }
        let Some(unit) = ledger.carried(parcel.name) else {
            return Ok(());
        };
        let offset = parcel.range().offset;
        let whole = ledger.unit(unit).map_or(0, |it| it.octets);
        check(
            payloads.goes_on(unit, whole, offset, payload),
            || "sends another payload than the bundle's",
        )
    }

    /// A status report is for an application, which has it.
    ///
    /// # Errors
    /// It does not tell what was.
    pub fn handle_report(
        &mut self,
        from: u32,
        (version, payload): (u64, &[u8]),
        ledger: &Ledger,
        moment: Moment,
    ) -> Result<(), Wrong> {
        let Some(told) = ReportContent::read(version, payload).map_err(|what| ("reports", what))?
        else {
            return Ok(());
        };
        self.check_told(from, &told, ledger, moment)?;
        let statuses = (0..).zip(&told.statuses);
        for (status, _) in statuses.filter(|(_, said)| said.is_some()) {
            self.reported.insert((told.name, from, status));
        }
        Ok(())
    }
}

fn check(holds: bool, what: impl FnOnce() -> &'static str) -> Result<(), Wrong> {
    match holds {
        true => Ok(()),
        false => Err(("passage", what().to_owned())),
    }
}

/// Whether some ranges have all octets of one.
pub(in crate::oracle) fn covers(
    ranges: impl Iterator<Item = FragmentRange>,
    wanted: FragmentRange,
) -> bool {
    let mut ranges: Vec<FragmentRange> = ranges.collect();
    ranges.sort_unstable();
    let end = wanted.offset.saturating_add(wanted.length);
    let mut reached = wanted.offset;
    for range in ranges {
        if range.offset <= reached {
            reached = reached.max(range.offset.saturating_add(range.length));
        }
    }
    reached >= end
}
