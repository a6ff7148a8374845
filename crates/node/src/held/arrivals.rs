//! Bundles on their way into the store, found by their keys.

use crate::held::Held;
use crate::outbox::Outbox;
use crate::reception::Incoming;
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use dhow_bundle::mutant::Mutant;
use dhow_bundle::mutant::planted;
use dhow_bundle::storage::Piece;
use dhow_bundle::storage::StoreCommand;

use dhow_bundle::Priority;
use dhow_bundle::storage::BundleKey;
use dhow_link::stream::TransferId;

use crate::adjacencies::session_id::SessionId;
use crate::api::seam::RequestId;
use crate::driver::StreamId;
use crate::held::endpoints::EndpointIndex;

/// Places that are allocated at once: keys are dense, and those that are arriving lie close to each other.
const SHEET: usize = 256;

/// The origin of a bundle that is arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A neighbour's transfer, to be acknowledged.
    Neighbour {
        session: SessionId,
        transfer: TransferId,
    },
    /// An application's request, to be answered.
    Client {
        stream: StreamId,
        request: RequestId,
    },
    /// The node itself.
    Own,
    /// The node itself: it encapsulates the bundle of a transfer through a tunnel.
    Encapsulating {
        session: SessionId,
        transfer: TransferId,
    },
    /// A bundle that is coming in, of which it is a part.
    ReactiveFragment,
}

impl Origin {
    /// The stream that the bundle comes over.
    pub(crate) const fn stream(self) -> Option<StreamId> {
        match self {
            Self::Neighbour { session, .. } => Some(session.stream()),
            Self::Client { stream, .. } => Some(stream),
            Self::Own | Self::Encapsulating { .. } | Self::ReactiveFragment => None,
        }
    }
}

/// Destinations are told apart by so many lanes.
const LANES: usize = 512;

/// A bundle on its way into the store.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) origin: Origin,
    /// Octets given to the store.
    pub(crate) appended: u64,
    /// Octets that the store has reported durable.
    pub(crate) durable: u64,
    /// Octets of the bundle for which no room is reserved yet.
    pub(crate) unreserved: u64,
    /// The slot in which it counts among those for its destination, until it has gone on ahead of its commit.
    lane: Option<usize>,
}

impl Arrival {
    pub(crate) fn new(origin: Origin) -> Self {
        Self {
            origin,
            appended: 0,
            durable: 0,
            unreserved: 0,
            lane: None,
        }
    }

    /// Octets that wait for the disk.
    pub(crate) const fn waiting(&self) -> u64 {
        self.appended.saturating_sub(self.durable)
    }
}

/// All bundles that are arriving.
#[derive(Default)]
pub(crate) struct Arrivals {
    /// The number of each key's slot, from 1; 0 for keys that are not arriving.
    #[expect(
        clippy::vec_box,
        reason = "sheets stay where they are when their list grows"
    )]
    sheets: Vec<Box<[u32; SHEET]>>,
    slots: Vec<(BundleKey, Arrival)>,
    /// The number of bundles for the destinations of each lane that have not gone on ahead; none before the first.
    lanes: Vec<u32>,
}

impl Arrivals {
    /// A bundle for this destination, of this priority, begins to arrive.
    pub(crate) fn insert(
        &mut self,
        key: BundleKey,
        mut arrival: Arrival,
        (destination, priority): (EndpointIndex, Priority),
    ) {
        let lane = lane(destination, priority);
        if self.lanes.is_empty() {
            self.lanes.resize(LANES, 0);
        }
        self.count(lane, |count| count.saturating_add(1));
        arrival.lane = Some(lane);
        let (sheet, _) = split(key.0);
        while self.sheets.len() <= sheet {
            self.sheets.push(Box::new([0; SHEET]));
        }
        assert!(!self.contains(key), "a bundle arrives once");
        self.slots.push((key, arrival));
        self.place(key, self.slots.len());
    }

    pub(crate) fn get(&self, key: BundleKey) -> Option<&Arrival> {
        let (_, arrival) = self.slots.get(index(self.number(key))?)?;
        Some(arrival)
    }

    pub(crate) fn get_mut(&mut self, key: BundleKey) -> Option<&mut Arrival> {
        let slot = index(self.number(key))?;
        let (_, arrival) = self.slots.get_mut(slot)?;
        Some(arrival)
    }

    pub(crate) fn contains(&self, key: BundleKey) -> bool {
        self.number(key) != 0
    }

    /// A bundle arrives no longer.
    pub(crate) fn remove(&mut self, key: BundleKey) -> Option<Arrival> {
        let slot = index(self.number(key))?;
        let (_, arrival) = self.slots.swap_remove(slot);
        if let Some(&(moved, _)) = self.slots.get(slot) {
            self.place(moved, slot + 1);
        }
        self.place(key, 0);
        if let Some(lane) = arrival.lane {
            self.count(lane, |count| count.saturating_sub(1));
        }
        Some(arrival)
    }

    /// A bundle goes on ahead of its commit: others for its destination are behind it no longer.
    pub(crate) fn go_before_sync(&mut self, key: BundleKey) {
        if let Some(lane) = self.get_mut(key).and_then(|it| it.lane.take()) {
            self.count(lane, |count| count.saturating_sub(1));
        }
    }

    /// Whether no bundle but this one, for its destination and of its priority or one of the same lane, is on its way into the store and has not gone on ahead.
    pub(crate) fn is_first(&self, key: BundleKey) -> bool {
        let Some(lane) = self.get(key).and_then(|it| it.lane) else {
            return false;
        };
        self.lanes.get(lane).is_some_and(|count| *count == 1)
    }

    fn count(&mut self, lane: usize, change: impl Fn(u32) -> u32) {
        if let Some(count) = self.lanes.get_mut(lane) {
            *count = change(*count);
        }
    }

    /// All of them, in no order that means anything.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BundleKey, &Arrival)> {
        self.slots.iter().map(|(key, arrival)| (*key, arrival))
    }

    /// Their number.
    pub(crate) fn begun(&self) -> u64 {
        u64::try_from(self.slots.len()).unwrap_or(u64::MAX)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Octets of memory that they take.
    pub(crate) fn memory_octets(&self) -> usize {
        self.sheets.len() * size_of::<[u32; SHEET]>()
            + self.slots.len() * size_of::<(BundleKey, Arrival)>()
            + self.lanes.len() * size_of::<u32>()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Notes the number of a key's slot.
    fn place(&mut self, key: BundleKey, number: usize) {
        let (sheet, row) = split(key.0);
        let place = self.sheets.get_mut(sheet).and_then(|it| it.get_mut(row));
        if let Some(place) = place {
            *place = u32::try_from(number).unwrap_or(0);
        }
    }

    fn number(&self, key: BundleKey) -> u32 {
        let (sheet, row) = split(key.0);
        let place = self.sheets.get(sheet).and_then(|sheet| sheet.get(row));
        place.copied().unwrap_or(0)
    }
}

/// Destinations and priorities of one lane count as one.
fn lane(destination: EndpointIndex, priority: Priority) -> usize {
    let beyond = priority.rank().abs_diff(Priority::Normal.rank());
    (EndpointIndex::FIRST.lane(destination, LANES) + usize::from(beyond)) % LANES
}

/// A key's sheet, and its row there.
fn split(key: u32) -> (usize, usize) {
    let key = usize::try_from(key).unwrap_or(usize::MAX);
    (key / SHEET, key % SHEET)
}

/// The slot of this number; none for 0.
fn index(number: u32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}

impl Held {
    /// Give the store the next octets of a bundle that is arriving.
    pub(crate) fn append(&mut self, out: &mut Outbox, key: BundleKey, piece: Piece) {
        self.append_summed(out, key, piece, None);
    }

    /// Give the store the next octets of a bundle that is arriving, and their CRC-32C where it is known.
    pub(crate) fn append_summed(
        &mut self,
        out: &mut Outbox,
        key: BundleKey,
        piece: Piece,
        crc: Option<u32>,
    ) {
        let length = piece.length();
        if let Some(arrival) = self.arrivals.get_mut(key) {
            arrival.appended = arrival.appended.saturating_add(length);
            self.backlog.give(arrival.origin, length);
            out.store(StoreCommand::Append {
                key,
                octets: piece,
                crc,
            });
        }
    }

    /// Give the store octets of a bundle that is arriving, at their place behind a gap.
    pub(crate) fn append_at(&mut self, out: &mut Outbox, key: BundleKey, at: u64, octets: Bytes) {
        let count = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        if let Some(arrival) = self.arrivals.get_mut(key) {
            arrival.appended = arrival.appended.saturating_add(count);
            self.backlog.give(arrival.origin, count);
            out.store(StoreCommand::AppendAt { key, at, octets });
        }
    }

    /// A bundle does not arrive any more, and is not durable: the store may not have come to its last octets.
    pub(crate) fn end_arrival(&mut self, key: BundleKey) -> Option<Arrival> {
        let arrival = self.forget_arrival(key)?;
        self.backlog.abandon(key, arrival.origin, arrival.waiting());
        Some(arrival)
    }

    /// A bundle that is held begins to arrive.
    pub(crate) fn begin_arrival(&mut self, key: BundleKey, origin: Origin) {
        let lane = (self.bundles.entry(key)).map(|it| (it.destination(), it.priority()));
        let lane = lane.unwrap_or((EndpointIndex::FIRST, Priority::Normal));
        self.arrivals.insert(key, Arrival::new(origin), lane);
    }

    pub(crate) fn forget_arrival(&mut self, key: BundleKey) -> Option<Arrival> {
        let arrival = self.arrivals.remove(key)?;
        if arrival.unreserved > 0 {
            // It will not be completed: what did not come takes no room while the rest is deleted.
            if !planted(Mutant::RoomLeaks) {
                self.unreserved_octets = self.unreserved_octets.saturating_sub(arrival.unreserved);
            }
            self.bundles.shrink(key, arrival.appended);
        }
        Some(arrival)
    }

    /// Give the store all that came of a bundle: a part of it is to have as much.
    pub(crate) fn append_gathered(&mut self, out: &mut Outbox, incoming: &mut Incoming) {
        if let Some(octets) = incoming.take_gathered() {
            self.append(out, incoming.key, Piece::Octets(octets));
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arrivals_are_found_as_in_a_map(steps in proptest::collection::vec((any::<bool>(), 0_u32..600), 0..300)) {
            let (mut arrivals, mut map) = (Arrivals::default(), BTreeMap::new());
            for (number, (add, key)) in (0_u64..).zip(steps) {
                let key = BundleKey(key);
                if add && !map.contains_key(&key) {
                    let mut arrival = Arrival::new(Origin::Own);
                    arrival.appended = number;
                    arrivals.insert(key, arrival, (EndpointIndex::FIRST, Priority::Normal));
                    map.insert(key, number);
                } else {
                    let removed = arrivals.remove(key).map(|arrival| arrival.appended);
                    prop_assert_eq!(removed, map.remove(&key));
                }
                prop_assert_eq!((arrivals.is_empty(), arrivals.len()), (map.is_empty(), map.len()));
                let found: BTreeMap<_, _> = arrivals.iter().map(|(key, it)| (key, it.appended)).collect();
                prop_assert_eq!(&found, &map);
                for key in (0..600).map(BundleKey) {
                    let found = arrivals.get(key).map(|arrival| arrival.appended);
                    prop_assert_eq!(found, map.get(&key).copied());
                    prop_assert_eq!(arrivals.contains(key), map.contains_key(&key));
                    prop_assert_eq!(arrivals.get_mut(key).map(|it| it.appended), found);
                }
            }
        }
    }
}
