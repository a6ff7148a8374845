//! Signals that this node owes to custodians of bundles of version 6: one by one (RFC 5050 6.1.2), or many in one aggregate custody signal.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use dhow_bundle::v6::admin::{
    AdministrativeRecord, AggregateSignal, CustodySignal, MAX_RUNS, ReportTime, Subject,
};
use dhow_bundle::v7::admin::bibe::Disposition;
use dhow_bundle::{EndpointId, Instant, Now};

use super::aggregates::{Aggregates, Limits, NoRoom};
use super::runs::IdRuns;
use crate::memory::{text_octets, tree_octets};

/// Single signals that were not polled yet, at most.
pub(super) const SINGLES_BOUND: usize = 4_096;

/// Octets of an aggregate custody signal before its runs: the record's type, and its status.
const HEAD_OCTETS: usize = 2;

/// The limits of an aggregate custody signal to a custodian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationLimits {
    /// The first bundle in a signal waits so long for others.
    pub delay: Duration,
    /// Octets of its payload. With 0 each bundle has a signal for itself.
    pub octets: usize,
    /// Runs of custody IDs in it, at most [`MAX_RUNS`].
    pub runs: usize,
}

impl Default for AggregationLimits {
    /// Those of ION's aggregate custody signals: 15 s, and 120 octets.
    fn default() -> Self {
        Self {
            delay: Duration::from_secs(15),
            octets: 120,
            runs: 1_024,
        }
    }
}

/// The custodian of a bundle before this node, and how it knows the bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Custodian {
    /// Its endpoint ID: the current custodian in the primary block.
    pub endpoint: EndpointId,
    /// The custody ID that it gave to the bundle; none where the bundle has no custody transfer enhancement block that names this custodian.
    pub id: Option<u64>,
    /// The bundle, for a custody signal about it alone.
    pub subject: Subject,
}

/// A signal that is to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwedSignal {
    /// The custodian that it goes to.
    pub custodian: EndpointId,
    /// The payload of an administrative bundle; an aggregate custody signal has no time of its own, so the bundle's creation time is it.
    pub record: AdministrativeRecord,
    /// This node's custody IDs of the bundles whose acceptance it tells of. Once the signal's bundle is durable here,
    /// [`Custody::handle_signalled`](super::Custody::handle_signalled) takes the debt out of their notes.
    pub settles: IdRuns,
}

/// A signal about one bundle.
#[derive(Debug)]
struct Single {
    custodian: EndpointId,
    subject: Subject,
    disposition: Disposition,
    settles: Option<u64>,
}

/// A signal that could not be kept: its custodian's timer brings the bundle again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dropped;

/// All signals that are owed.
#[derive(Debug)]
pub(super) struct Owed {
    aggregates: Aggregates,
    singles: VecDeque<Single>,
    limits: AggregationLimits,
    /// The limits of custodians that have their own.
    custodians: BTreeMap<EndpointId, AggregationLimits>,
}

impl Owed {
    pub(super) const fn new() -> Self {
        Self {
            aggregates: Aggregates::new(aggregate_octets),
            singles: VecDeque::new(),
            limits: AggregationLimits {
                delay: Duration::from_secs(15),
                octets: 120,
                runs: 1_024,
            },
            custodians: BTreeMap::new(),
        }
    }

    pub(super) fn set_limits(&mut self, custodian: Option<EndpointId>, limits: AggregationLimits) {
        match custodian {
            Some(custodian) => drop(self.custodians.insert(custodian, limits)),
            None => self.limits = limits,
        }
    }

    /// A custodian is to be told the outcome of custody of a bundle. If too many aggregates gather, the bundle has a signal for itself.
    pub(super) fn owe(
        &mut self,
        now: Instant,
        custodian: Custodian,
        disposition: Disposition,
        settles: Option<u64>,
    ) -> Result<(), Dropped> {
        // The null endpoint has no members: nobody would hear.
        if custodian.endpoint.is_null() {
            return Ok(());
        }
        if let Some(id) = custodian.id {
            let own = self.custodians.get(&custodian.endpoint);
            let limits = own.copied().unwrap_or(self.limits);
            let limits = Limits {
                due: now + limits.delay,
                octets: limits.octets,
                runs: limits.runs.min(MAX_RUNS),
            };
            let scope = (custodian.endpoint.clone(), disposition);
            match self.aggregates.add(&scope, id, settles, limits) {
                Ok(()) => return Ok(()),
                Err(NoRoom::Aggregates | NoRoom::Ready) => {}
            }
        }
        if self.singles.len() >= SINGLES_BOUND {
            return Err(Dropped);
        }
        self.singles.push_back(Single {
            custodian: custodian.endpoint,
            subject: custodian.subject,
            disposition,
            settles,
        });
        Ok(())
    }

    /// The next signal that is to leave.
    pub(super) fn poll(&mut self, now: Now) -> Option<OwedSignal> {
        if let Some(single) = self.singles.pop_front() {
            return Some(single.signal(now));
        }
        let ((custodian, disposition), aggregate) = self.aggregates.poll(now.monotonic)?;
        let (is_success, reason) = disposition.signal();
        Some(OwedSignal {
            custodian,
            record: AdministrativeRecord::AggregateSignal(AggregateSignal {
                is_success,
                reason,
                runs: aggregate.ids.to_vec(),
            }),
            settles: aggregate.settles,
        })
    }

    /// When the next signal is to leave.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.singles.is_empty() {
            true => self.aggregates.poll_timeout(),
            false => Some(Instant::START),
        }
    }

    /// True where some other signals find room, for any custodian.
    pub(super) fn has_room(&self) -> bool {
        self.singles.len() < SINGLES_BOUND
    }

    /// Octets of memory that they take.
    pub(super) fn memory_octets(&self) -> usize {
        let texts = self.singles.iter();
        let texts = texts.map(|it| text_octets(&it.custodian) + text_octets(&it.subject.source));
        let places = self.singles.capacity() * size_of::<Single>();
        (self.aggregates.memory_octets())
            .saturating_add(places)
            .saturating_add(texts.fold(0, usize::saturating_add))
            .saturating_add(tree_octets::<(EndpointId, AggregationLimits)>(
                self.custodians.len(),
            ))
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let (gathering, ready) = self.aggregates.counts();
        (gathering, ready, self.singles.len())
    }
}

impl Single {
    fn signal(self, now: Now) -> OwedSignal {
        let (is_success, reason) = self.disposition.signal();
        let millis = now.dtn.as_millis();
        OwedSignal {
            custodian: self.custodian,
            record: AdministrativeRecord::CustodySignal(CustodySignal {
                subject: self.subject,
                is_success,
                reason,
                time: ReportTime {
                    seconds: millis / 1_000,
                    nanoseconds: millis % 1_000 * 1_000_000,
                },
            }),
            settles: self.settles.map(IdRuns::of).unwrap_or_default(),
        }
    }
}

/// Octets of the payload of an aggregate custody signal.
fn aggregate_octets(runs: &mut dyn Iterator<Item = (u64, u64)>) -> usize {
    let mut before = 0;
    let octets = runs.map(|(first, last)| {
        let start = first.saturating_sub(before);
        before = last;
        sdnv_octets(start) + sdnv_octets(last.saturating_sub(first).saturating_add(1))
    });
    octets.fold(HEAD_OCTETS, usize::saturating_add)
}

/// Octets of a self-delimiting numeric value (RFC 5050 4.1): seven bits in each.
fn sdnv_octets(value: u64) -> usize {
    let bits = u64::BITS.saturating_sub(value.leading_zeros());
    usize::try_from(bits.div_ceil(7).max(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_payload_is_as_long_as_it_is_measured(ids in proptest::collection::vec(any::<u64>().prop_flat_map(|id| 0..=id), 1..30)) {
            let mut runs = IdRuns::default();
            for id in ids {
                runs.insert(id);
            }
            let record = AdministrativeRecord::AggregateSignal(AggregateSignal {
                is_success: true,
                reason: 0,
                runs: runs.to_vec(),
            });
            prop_assert_eq!(aggregate_octets(&mut runs.iter()), record.encode().len());
        }
    }
}
