//! What will happen, in order: the one queue of a world.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use dhow_bundle::Instant;

/// Position of a machine in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineIndex(pub u32);

impl MachineIndex {
    /// As a position.
    #[must_use]
    pub fn at(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Which life of a machine: counts its starts. What was meant for an earlier one does not happen.
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
    /// The other one.
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
pub enum Happening {
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
    /// A link's connections are reset.
    Reset(u32),
    /// Applications of a machine crash by chance.
    ClientCrash(MachineIndex),
    /// They are back.
    ClientBack(MachineIndex, Life),
    /// The world is looked at.
    Sample,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    number: u64,
    happening: Happening,
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

/// What will happen, the earliest first, and of one instant what was decided first.
#[derive(Debug, Default)]
pub struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    next: u64,
}

impl Queue {
    /// Something happens at an instant.
    pub fn push(&mut self, at: Instant, happening: Happening) {
        let number = self.next;
        self.next += 1;
        self.heap.push(Reverse(Entry {
            at,
            number,
            happening,
        }));
    }

    /// What happens next, and when.
    pub fn pop(&mut self) -> Option<(Instant, Happening)> {
        let Reverse(entry) = self.heap.pop()?;
        Some((entry.at, entry.happening))
    }

    /// How much is going to happen.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}
