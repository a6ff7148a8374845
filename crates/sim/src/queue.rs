//! The one queue of a world: all events to come, in order.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use dhow_bundle::Instant;

/// Position of a machine in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineIndex(pub u32);

impl MachineIndex {
    /// The index as a position.
    #[must_use]
    pub fn at(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// The number of a machine's life: counts its starts. An event that was meant for an earlier one does not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life(pub u32);

/// A connection that lives in a slot; the serial tells it from those that had the slot before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionKey {
    /// Its place.
    pub slot: u32,
    /// Counts connections.
    pub serial: u32,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that dialled.
    Dialling,
    /// The one that accepted.
    Accepting,
}

impl Side {
    /// The other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Dialling => Self::Accepting,
            Self::Accepting => Self::Dialling,
        }
    }
}

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrent {
    /// A node's timer.
    Timer(MachineIndex, Life),
    /// A disk has flushed.
    Flushed(MachineIndex, Life),
    /// A disk has read.
    Read(MachineIndex, Life),
    /// Octets reach this side.
    Arrival(ConnectionKey, Side),
    /// This side may write again.
    Writable(ConnectionKey, Side),
    /// This side learns that the connection is gone.
    Ended(ConnectionKey, Side),
    /// This side's system has found out that what it sends is not answered.
    Doubted(ConnectionKey, Side),
    /// A call reaches whom it is for: the number of the dial.
    Called(u32),
    /// The dialling side hears of it.
    Answered(u32),
    /// The next contact of the scenario's list of contacts begins.
    ContactBegins(u32),
    /// A contact ends.
    ContactEnds(u32),
    /// Datagrams may have crossed a link from this side.
    Crossed(u32, Side),
    /// A socket of a link over UDP has room again.
    Sendable(u32, Side),
    /// Traffic is sent.
    Traffic(u32),
    /// A machine crashes by chance.
    ChanceCrash(MachineIndex),
    /// A machine crashes in a flush.
    FlushCrash(MachineIndex, Life),
    /// A machine crashes because the scenario says so: the number of the crash.
    PlannedCrash(u32),
    /// A machine starts.
    Start(MachineIndex, Life),
    /// A disk stalls.
    Stall(MachineIndex),
    /// An octet of a disk rots.
    Rot(MachineIndex),
    /// A disk is full.
    Fill(MachineIndex),
    /// A disk has room again.
    Empty(MachineIndex),
    /// A store looks how much room its disk has.
    Look(MachineIndex, Life),
    /// A clock jumps: the number of the step.
    ClockStep(u32),
    /// A store tries again what its disk refused.
    Retry(MachineIndex, Life),
    /// A machine's radio, of so many, may do something else.
    RadioFree(MachineIndex, u32),
    /// A machine's battery may be empty.
    BatteryLooked(MachineIndex),
    /// The machine's battery is full.
    Recharged(MachineIndex),
    /// A link's connections are reset.
    Reset(u32),
    /// Applications of a machine crash by chance.
    ClientCrash(MachineIndex),
    /// The machine's applications are back.
    ClientBack(MachineIndex, Life),
    /// The world is looked at.
    Sample,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    number: u64,
    happening: Occurrent,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Nanoseconds of a span of time, as a power of two: some seconds. Events later than the present span are in no order yet, so
/// that those that are set for hours later, and mostly to no avail, cost nothing in between.
const SPAN_BITS: u32 = 32;

fn span(at: Instant) -> u64 {
    at.as_nanos() >> SPAN_BITS
}

/// Events to come, the earliest first, and those of one instant in the order in which they were decided.
#[derive(Debug, Default)]
pub struct Queue {
    /// Events of the present span of time or before it.
    near: BinaryHeap<Reverse<Entry>>,
    /// The number of that span.
    present: u64,
    /// Events of later spans, by the spans' numbers.
    far: BTreeMap<u64, Vec<Reverse<Entry>>>,
    next: u64,
}

impl Queue {
    /// Something happens at an instant.
    pub fn push(&mut self, at: Instant, happening: Occurrent) {
        let number = self.next;
        self.next += 1;
        let entry = Reverse(Entry {
            at,
            number,
            happening,
        });
        match span(at) {
            span if span <= self.present => self.near.push(entry),
            span => self.far.entry(span).or_default().push(entry),
        }
    }

    /// Takes the next event, with its instant.
    pub fn pop(&mut self) -> Option<(Instant, Occurrent)> {
        if self.near.is_empty() {
            let (span, entries) = self.far.pop_first()?;
            self.present = span;
            self.near = BinaryHeap::from(entries);
        }
        let Reverse(entry) = self.near.pop()?;
        Some((entry.at, entry.happening))
    }

    /// The number of events to come.
    #[must_use]
    pub fn len(&self) -> usize {
        self.near.len() + self.far.values().map(Vec::len).sum::<usize>()
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.near.is_empty() && self.far.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::{Entropy, Purpose};

    #[test]
    fn what_was_decided_first_happens_first_at_each_instant_and_in_every_span() {
        let mut entropy = Entropy::new(1, Purpose::Node, 0);
        let mut queue = Queue::default();
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        let mut now = Instant::START;
        for number in 0..2_000 {
            // Some at the same instant, most in the present span, some in one far away.
            let later = match entropy.below(4) {
                0 => 0,
                1 => entropy.below(1 << 40),
                _ => entropy.below(1 << SPAN_BITS),
            };
            let at = Instant::from_nanos(now.as_nanos() + later);
            queue.push(at, Occurrent::Traffic(number));
            expected.push((at, number));
            if entropy.below(2) == 0 {
                found.extend(queue.pop());
                now = found.last().map_or(now, |(at, _)| *at);
            }
        }
        assert_eq!(queue.len() + found.len(), expected.len());
        found.extend(std::iter::from_fn(|| queue.pop()));
        assert!(queue.is_empty());
        expected.sort_unstable();
        let expected = expected.into_iter();
        let expected: Vec<_> = expected
            .map(|(at, number)| (at, Occurrent::Traffic(number)))
            .collect();
        assert_eq!(found, expected);
    }
}
