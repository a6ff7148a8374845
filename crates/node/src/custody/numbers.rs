//! Custody and transmission IDs: never the same one twice, however often the node restarts.

/// The first ID of all. 0 is no custody ID to DTNME, and no transmission with custody in BIBE.
const FIRST: u64 = 1;

/// IDs that are reserved at a time; again when half of them are left, so that an ID is mostly reserved durably when it is given.
const RESERVE_IDS: u64 = 65_536;

/// An ID that was given to a bundle or transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenId {
    /// The ID.
    pub id: u64,
    /// The highest ID that is to be reserved durably, before this one leaves the node or stands in a note, if any: the caller keeps it, tells
    /// [`Custody::confirm_reservation`](super::Custody::confirm_reservation) once it is durable, and gives the highest to [`Custody::resume`](super::Custody::resume) after a restart.
    pub reserve: Option<u64>,
}

/// The reservation that all counters share.
#[derive(Debug, Default)]
pub(super) struct Reservation {
    /// No counter that begins gives an ID up to this one.
    floor: u64,
    reserved: u64,
    durable: u64,
}

impl Reservation {
    /// Nothing up to this mark is given again.
    pub(super) fn resume(&mut self, mark: u64) {
        self.floor = self.floor.max(mark);
        self.reserved = self.reserved.max(mark);
        self.durable = self.durable.max(mark);
    }

    /// A reservation is durable.
    pub(super) fn confirm(&mut self, mark: u64) {
        self.durable = self.durable.max(mark);
    }

    /// True where no restart, whenever it comes, gives this ID again.
    pub(super) const fn is_durable(&self, id: u64) -> bool {
        id <= self.durable
    }

    /// An ID that no counter is to give, nor one before it: a bundle has it from an earlier run, or the counter that gave it is forgotten.
    pub(super) fn pass(&mut self, id: u64) {
        self.floor = self.floor.max(id);
    }

    /// The highest ID that somebody may have been given by this counter or one before it.
    pub(super) fn highest(&self, counter: &Counter) -> u64 {
        self.floor.max(counter.last)
    }
}

/// IDs of one kind, in order.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// The last one given; 0 for none.
    last: u64,
}

impl Counter {
    /// The last ID given; 0 for none.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// The next ID; none where all were given.
    pub(super) fn next(&mut self, reservation: &mut Reservation) -> Option<GivenId> {
        let before = self.last.max(reservation.floor);
        let id = before.checked_add(1)?.max(FIRST);
        self.last = id;
        let is_due = id.saturating_add(RESERVE_IDS / 2) > reservation.reserved
            && reservation.reserved < u64::MAX;
        let reserve = is_due.then(|| {
            reservation.reserved = id.saturating_add(RESERVE_IDS);
            reservation.reserved
        });
        Some(GivenId { id, reserve })
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_id_is_given_twice_whatever_restarts_come() {
        let (mut mark, mut seen) = (0, BTreeSet::new());
        for ids in [1, 3, 70_000, 0, 40_000] {
            let mut reservation = Reservation::default();
            reservation.resume(mark);
            let mut counter = Counter::default();
            for place in 0..ids {
                let given = counter.next(&mut reservation).unwrap();
                mark = given.reserve.unwrap_or(mark);
                assert!(given.id <= mark, "{} is not reserved", given.id);
                assert!(seen.insert(given.id), "{} was given twice", given.id);
                assert_eq!(reservation.is_durable(given.id), place > 0);
                reservation.confirm(mark);
            }
        }
        assert_eq!(seen.first(), Some(&1));
    }

    #[test]
    fn a_counter_that_begins_goes_on_behind_those_that_were_forgotten() {
        let mut reservation = Reservation::default();
        let mut first = Counter::default();
        for _ in 0..3 {
            first.next(&mut reservation);
        }
        let mut beside = Counter::default();
        assert_eq!(beside.next(&mut reservation).unwrap().id, 1);
        reservation.pass(first.last());
        let mut second = Counter::default();
        assert_eq!(second.next(&mut reservation).unwrap().id, 4);
    }

    #[test]
    fn ids_end_with_the_last_of_64_bits() {
        let mut reservation = Reservation::default();
        reservation.resume(u64::MAX - 1);
        let mut counter = Counter::default();
        let given = counter.next(&mut reservation).unwrap();
        assert_eq!((given.id, given.reserve), (u64::MAX, Some(u64::MAX)));
        assert_eq!(counter.next(&mut reservation), None);
    }
}
