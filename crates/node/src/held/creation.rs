//! Creation timestamps: never the same one twice, whatever the clock does and however often the node
//! restarts (RFC 9171 4.2.7).

use crate::held::Held;
use crate::outbox::Outbox;
use alloc::collections::BTreeMap;
use dhow_bundle::Now;
use dhow_bundle::storage::StoreCommand;

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::{CreationTimestamp, DtnTime, EndpointId};

/// The reach of a reservation of creation times in the store, milliseconds; again when half of it is left, so that what is
/// given out is mostly reserved durably already: one record a second at most.
const RESERVE_AHEAD_MS: u64 = 2_000;

/// Sequence numbers that are reserved at a time where there is no clock; again when half of them are left.
const RESERVE_SEQUENCE: u64 = 65_536;

/// Sources whose sequence numbers go on rather than start again; the bound keeps hostile or random
/// sources from filling memory.
const SOURCES_BOUND: usize = 1_024;

/// A reservation that must be durable before the timestamp that needs it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) time: DtnTime,
    pub(crate) sequence: u64,
}

/// Hands out creation timestamps.
#[derive(Default)]
pub(crate) struct Creation {
    /// Last creation time given out.
    last: DtnTime,
    reserved: DtnTime,
    /// Next sequence number for bundles without a creation time.
    next_sequence: u64,
    reserved_sequence: u64,
    /// The part of that which is durable.
    durable: (DtnTime, u64),
    /// The next sequence number of each source.
    sources: BTreeMap<EndpointId, u64>,
}

impl Creation {
    /// Go on after a restart: nothing up to these marks is given out again.
    pub(crate) fn resume(&mut self, time: DtnTime, sequence: u64) {
        if planted(Mutant::TimestampsReused) {
            return;
        }
        self.last = time;
        self.reserved = time;
        self.next_sequence = sequence.saturating_add(1);
        self.reserved_sequence = sequence;
        self.durable = (time, sequence);
    }

    /// Nothing beyond these marks has been given out.
    pub(crate) const fn reserved(&self) -> (DtnTime, u64) {
        (self.reserved, self.reserved_sequence)
    }

    /// A reservation is durable.
    pub(crate) fn confirm(&mut self, time: DtnTime, sequence: u64) {
        self.durable = (self.durable.0.max(time), self.durable.1.max(sequence));
    }

    /// True when no restart, whenever it comes, gives out this timestamp again.
    pub(crate) fn is_reserved_durably(&self, creation: CreationTimestamp) -> bool {
        let (time, sequence) = self.durable;
        if creation.time.is_known() {
            creation.time <= time
        } else {
            creation.sequence <= sequence
        }
    }

    /// The next timestamp of `source`, and what must be reserved in the store first, if anything.
    pub(crate) fn next(
        &mut self,
        source: &EndpointId,
        clock: DtnTime,
    ) -> (CreationTimestamp, Option<Reservation>) {
        if clock.is_known() {
            self.timed(source, clock)
        } else {
            self.untimed()
        }
    }

    fn timed(
        &mut self,
        source: &EndpointId,
        clock: DtnTime,
    ) -> (CreationTimestamp, Option<Reservation>) {
        if self.sources.len() >= SOURCES_BOUND && !self.sources.contains_key(source) {
            self.sources.clear();
        }
        // A source that is not known here may have used any sequence number at the last time, in an
        // earlier run or before it was forgotten: it starts again at a later one.
        let floor = if self.sources.is_empty() && self.last.is_known() {
            self.last.saturating_add_millis(1)
        } else {
            self.last
        };
        let time = clock.max(floor);
        self.last = time;
        let sequence = self.sources.entry(source.clone()).or_insert(0);
        let timestamp = CreationTimestamp {
            time,
            sequence: *sequence,
        };
        if !planted(Mutant::SequenceStandsStill) {
            *sequence = sequence.saturating_add(1);
        }
        let is_due = time.saturating_add_millis(RESERVE_AHEAD_MS / 2) > self.reserved;
        let reservation = is_due.then(|| {
            self.reserved = time.saturating_add_millis(RESERVE_AHEAD_MS);
            Reservation {
                time: self.reserved,
                sequence: self.reserved_sequence,
            }
        });
        (timestamp, reservation)
    }

    /// No number up to this mark is given out again, by any counter that shares it: sequence numbers of bundles without a creation time, and
    /// custody IDs.
    pub(crate) fn reserve_mark(&mut self, mark: u64) -> Reservation {
        self.reserved_sequence = self.reserved_sequence.max(mark);
        Reservation {
            time: self.reserved,
            sequence: self.reserved_sequence,
        }
    }

    /// RFC 9171 4.2.7: without a clock the time is 0, and the sequence number must never repeat.
    fn untimed(&mut self) -> (CreationTimestamp, Option<Reservation>) {
        let sequence = self.next_sequence;
        self.next_sequence = sequence.saturating_add(1);
        let is_due = sequence.saturating_add(RESERVE_SEQUENCE / 2) > self.reserved_sequence
            && !planted(Mutant::SequenceNotReserved);
        let reservation =
            is_due.then(|| self.reserve_mark(sequence.saturating_add(RESERVE_SEQUENCE)));
        (
            CreationTimestamp {
                time: DtnTime::UNKNOWN,
                sequence,
            },
            reservation,
        )
    }
}

impl Held {
    /// The next creation timestamp of a source; what it needs reserved goes to the store first.
    pub(crate) fn next_creation(
        &mut self,
        out: &mut Outbox,
        now: Now,
        source: &EndpointId,
    ) -> CreationTimestamp {
        let (creation, reservation) = self.creation.next(source, now.dtn);
        if let Some(reservation) = reservation {
            out.store(StoreCommand::Reserve {
                time: reservation.time,
                sequence: reservation.sequence,
            });
        }
        creation
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    fn source(service: u32) -> EndpointId {
        EndpointId::Ipn {
            allocator: 0,
            node: 1,
            service,
        }
    }

    #[test]
    fn sequence_numbers_of_one_source_are_consecutive() {
        let mut creation = Creation::default();
        let numbers: alloc::vec::Vec<u64> = (0..5)
            .map(|step| {
                creation
                    .next(&source(1), DtnTime::from_millis(1_000 + step))
                    .0
                    .sequence
            })
            .collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_clock_that_goes_back_and_restarts_never_repeat_a_timestamp() {
        let mut seen = BTreeSet::new();
        let mut mark = Reservation {
            time: DtnTime::UNKNOWN,
            sequence: 0,
        };
        for clock in [5_000_u64, 4_000, 4_000, 9_000, 10] {
            let mut creation = Creation::default();
            creation.resume(mark.time, mark.sequence);
            for service in 0..3_000_u32 {
                let source = source(service % 1_500);
                let (timestamp, reservation) = creation.next(&source, DtnTime::from_millis(clock));
                mark = reservation.unwrap_or(mark);
                assert!(
                    seen.insert((source, timestamp)),
                    "{timestamp:?} was given out twice"
                );
                assert!(
                    timestamp.time <= mark.time,
                    "a time beyond the durable mark was given out"
                );
            }
        }
    }

    #[test]
    fn without_a_clock_sequence_numbers_go_on_after_a_restart() {
        let mut creation = Creation::default();
        let (first, reservation) = creation.next(&source(1), DtnTime::UNKNOWN);
        let mark = reservation.expect("the first number needs a reservation");
        let mut next = Creation::default();
        next.resume(mark.time, mark.sequence);
        let (second, _) = next.next(&source(1), DtnTime::UNKNOWN);
        assert!(second.sequence > mark.sequence && second.sequence > first.sequence);
    }
}
