//! One held bundle.

use alloc::boxed::Box;

use dhow_bundle::storage::{Extent, Extents};
use dhow_bundle::{CreationTimestamp, DtnTime, FragmentRange, Instant, Priority, Version};

use crate::held::chain::{END, Links};
use crate::held::endpoints::EndpointIndex;
use crate::held::retention::{Impossible, Retention, State, Trigger};

/// The identity of a bundle inside the node: [`dhow_bundle::BundleId`] with its source interned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) source: EndpointIndex,
    pub(crate) creation: CreationTimestamp,
    pub(crate) fragment: Option<FragmentRange>,
}

/// A fragment's place in its application data unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) range: FragmentRange,
    pub(crate) total_octets: u64,
}

/// Why a bundle was removed, when a copy that comes later must be known for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// An application has the bundle.
    Delivered,
    /// The next hop has the bundle.
    Forwarded,
    /// Expired, dropped or corrupt.
    Deleted,
}

/// A bundle that begins to be held.
#[derive(Debug)]
pub(crate) struct NewEntry {
    pub(crate) source: EndpointIndex,
    pub(crate) destination: EndpointIndex,
    pub(crate) report_to: EndpointIndex,
    /// The neighbour that it came from.
    pub(crate) previous: Option<EndpointIndex>,
    pub(crate) creation: CreationTimestamp,
    pub(crate) fragment: Option<Fragment>,
    /// The version of its octets.
    pub(crate) version: Version,
    /// Bundle processing control flags of that version.
    pub(crate) flags: u64,
    /// Whether its report-to endpoint reads aggregated reports.
    pub(crate) reads_aggregated_reports: bool,
    /// The order in which it leaves this node.
    pub(crate) priority: Priority,
    pub(crate) lifetime_ms: u64,
    pub(crate) held: HeldTime,
    pub(crate) expires: Instant,
    pub(crate) header_octets: u32,
    pub(crate) payload_octets: u64,
    pub(crate) octets: u64,
    /// Until when its octets are trusted: they came, or were compared with their checksums, a moment ago.
    pub(crate) sound_until: Instant,
    /// The number of times that it has come back to this node after it had left.
    pub(crate) returns: u8,
    /// Its hop count when it was received, if it carries one and this run saw it (RFC 9171 4.4.3).
    pub(crate) hops: Option<u8>,
}

/// The time since a bundle was received.
#[derive(Clone, Debug)]
pub(crate) enum HeldTime {
    /// The bundle comes in now.
    Arriving(Received),
    /// An earlier run of this node stored it so many milliseconds before `now`, as far as the wall clock tells.
    Recovered {
        now: Instant,
        held_ms: u64,
        extents: Extents,
    },
}

/// The time at which a bundle was received, and its age then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) at: Instant,
    /// The time by the wall clock.
    pub(crate) dtn: DtnTime,
    pub(crate) age_ms: u64,
}

/// One held bundle, in 128 octets: there may be ten million.
#[derive(Debug)]
pub(crate) struct Entry {
    creation: CreationTimestamp,
    lifetime_ms: u64,
    /// Nanoseconds from the start of this run to its reception; below zero where an earlier run received it.
    received: i64,
    expires: Instant,
    sound_until: Instant,
    /// Its place in its queue, once it is stored; its age on reception until then.
    order: u64,
    /// Properties that few bundles have.
    pub(super) rare: Option<Box<Rare>>,
    source: EndpointIndex,
    destination: EndpointIndex,
    report_to: EndpointIndex,
    previous: EndpointIndex,
    /// The lower 22 bits of its flags, its rank among priorities, and its version.
    flags: u32,
    header_octets: u32,
    /// Octets behind the payload.
    trailer_octets: u32,
    /// The halves of the octets of its payload.
    payload_low: u32,
    payload_high: u16,
    /// The halves of the place of its octets in the store, once it is stored; of the wall clock at its reception until then.
    place_high: u16,
    place_low: u32,
    /// Its neighbours in the bag of its expiry, and in its queue.
    pub(super) in_bag: Links,
    pub(super) in_queue: Links,
    /// The next bundle of its part of the index, or the next vacant place.
    pub(super) next: u32,
    /// The number of times that it has come back to this node after it had left.
    returns: u8,
    /// The place among its destination's hops of the first that it may go over, as far as was looked.
    pub(crate) detour: u8,
    hops: u8,
    /// Its state, and the bits below.
    marks: u8,
}

/// The bits of an entry's marks: four of its state, two of its removal.
const STATE_MASK: u8 = 0b1111;
const REMOVAL_SHIFT: u8 = 4;
const REMOVAL_MASK: u8 = 0b11 << REMOVAL_SHIFT;
/// Its hop count is known.
const HAS_HOPS: u8 = 1 << 6;
/// Its octets lie at its place.
const HAS_PLACE: u8 = 1 << 7;

/// Properties that few bundles have: a fragment's place, octets in several pieces, numbers beyond the usual, and a state that lasts until a time.
#[derive(Debug)]
pub(super) struct Rare {
    fragment: Option<Fragment>,
    extents: Option<Extents>,
    octets: u64,
    payload_octets: u64,
    /// The other bits of its flags.
    flags: u64,
    reads_aggregated_reports: bool,
    /// Whether the bundle has no form in the other version of the Bundle Protocol.
    is_untranslatable: bool,
    retry_at: Instant,
    pending_deletion: Option<u8>,
    /// Whether it was there when the bundle began to be held.
    pub(super) is_counted: bool,
}

impl Default for Rare {
    fn default() -> Self {
        Self {
            fragment: None,
            extents: None,
            octets: 0,
            payload_octets: 0,
            flags: 0,
            reads_aggregated_reports: false,
            is_untranslatable: false,
            retry_at: Instant::START,
            pending_deletion: None,
            is_counted: false,
        }
    }
}

/// Bits of a bundle's flags that an entry has room for.
const FLAG_BITS: u32 = 22;

const FLAGS_MASK: u32 = (1 << FLAG_BITS) - 1;

/// Bits of a bundle's rank among priorities: those above the flags.
const RANK_MASK: u32 = !FLAGS_MASK & !IS_VERSION_6;

/// The bundle is one of version 6: the bit above those of the rank.
const IS_VERSION_6: u32 = 1 << 31;

/// The lower bits of a bundle's flags, with its priority and its version.
fn low_flags(version: Version, priority: Priority, flags: u64) -> u32 {
    let low = u32::try_from(flags & u64::from(FLAGS_MASK)).unwrap_or(0);
    let low = low | u32::from(priority.rank()) << FLAG_BITS;
    match version {
        Version::V6 => low | IS_VERSION_6,
        Version::V7 => low,
    }
}

/// The higher half of a number that an entry has no room for: its rare part has it.
const BEYOND: u16 = u16::MAX;

/// The count of octets behind the payload of a bundle whose octets its rare part has.
const ODD: u32 = u32::MAX;

/// The halves of a number below 2^48 - 2^32; those of one beyond are marked.
fn halves(number: u64) -> (u32, u16) {
    let low = u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
    (low, u16::try_from(number >> 32).unwrap_or(BEYOND))
}

const fn whole(low: u32, high: u16) -> u64 {
    #[expect(
        clippy::as_conversions,
        reason = "both are widened, in a constant function"
    )]
    let halves = (low as u64, high as u64);
    halves.1 << 32 | halves.0
}

/// No endpoint.
const NOBODY: EndpointIndex = EndpointIndex::at(u32::MAX);

impl Entry {
    #[inline(always)]
    pub(super) fn new(new: NewEntry) -> Self {
        let (received, reception, extents) = match new.held {
            HeldTime::Arriving(reception) => (nanos(reception.at), Some(reception), None),
            HeldTime::Recovered {
                now,
                held_ms,
                extents,
            } => {
                let held = i64::try_from(held_ms).unwrap_or(i64::MAX);
                let held = held.saturating_mul(1_000_000);
                (nanos(now).saturating_sub(held), None, Some(extents))
            }
        };
        let (payload_low, payload_high) = halves(new.payload_octets);
        let (place_low, place_high) = halves(reception.map_or(0, |it| it.dtn.as_millis()));
        let mut entry = Self {
            creation: new.creation,
            lifetime_ms: new.lifetime_ms,
            received,
            expires: new.expires,
            sound_until: new.sound_until,
            order: reception.map_or(0, |it| it.age_ms),
            rare: None,
            source: new.source,
            destination: new.destination,
            report_to: new.report_to,
            previous: new.previous.unwrap_or(NOBODY),
            flags: low_flags(new.version, new.priority, new.flags),
            header_octets: new.header_octets,
            trailer_octets: 0,
            payload_low,
            payload_high,
            place_high,
            place_low,
            in_bag: Links::OUT,
            in_queue: Links::OUT,
            next: END,
            returns: new.returns,
            detour: 0,
            hops: new.hops.unwrap_or(0),
            marks: match new.hops {
                Some(_) => HAS_HOPS,
                None => 0,
            },
        };
        entry.set_removal(Removal::Deleted);
        entry.marks |= match extents {
            None => Retention::ARRIVING,
            Some(_) => Retention::RECOVERED,
        }
        .code();
        if new.flags >> FLAG_BITS > 0 {
            entry.rare_mut().flags = new.flags >> FLAG_BITS;
        }
        if new.reads_aggregated_reports {
            entry.rare_mut().reads_aggregated_reports = true;
        }
        if payload_high == BEYOND {
            entry.rare_mut().payload_octets = new.payload_octets;
        }
        if new.fragment.is_some() {
            entry.rare_mut().fragment = new.fragment;
        }
        entry.set_octets(new.octets);
        if let Some(extents) = extents {
            entry.set_extents(extents);
        }
        entry
    }

    pub(super) const fn vacant(next: u32) -> Self {
        Self {
            creation: CreationTimestamp {
                time: DtnTime::UNKNOWN,
                sequence: 0,
            },
            lifetime_ms: 0,
            received: 0,
            expires: Instant::START,
            sound_until: Instant::START,
            order: 0,
            rare: None,
            source: NOBODY,
            destination: NOBODY,
            report_to: NOBODY,
            previous: NOBODY,
            flags: 0,
            header_octets: 0,
            trailer_octets: 0,
            payload_low: 0,
            payload_high: 0,
            place_high: 0,
            place_low: 0,
            in_bag: Links::OUT,
            in_queue: Links::OUT,
            next,
            returns: 0,
            detour: 0,
            hops: 0,
            marks: STATE_MASK,
        }
    }

    pub(super) const fn is_vacant(&self) -> bool {
        self.marks == STATE_MASK
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    pub(crate) const fn source(&self) -> EndpointIndex {
        self.source
    }

    pub(crate) const fn destination(&self) -> EndpointIndex {
        self.destination
    }

    pub(crate) const fn report_to(&self) -> EndpointIndex {
        self.report_to
    }

    /// The neighbour that it came from.
    pub(crate) fn previous(&self) -> Option<EndpointIndex> {
        (self.previous != NOBODY).then_some(self.previous)
    }

    pub(crate) const fn creation(&self) -> CreationTimestamp {
        self.creation
    }

    /// A fragment's place in its application data unit.
    pub(crate) fn fragment(&self) -> Option<Fragment> {
        self.rare.as_ref().and_then(|rare| rare.fragment)
    }

    /// Its report-to endpoint reads aggregated reports.
    pub(crate) fn reads_aggregated_reports(&self) -> bool {
        let rare = self.rare.as_ref();
        rare.is_some_and(|rare| rare.reads_aggregated_reports)
    }

    /// The version of its octets.
    pub(crate) const fn version(&self) -> Version {
        match self.flags & IS_VERSION_6 {
            0 => Version::V7,
            _ => Version::V6,
        }
    }

    /// Bundle processing control flags of its version (RFC 9171 4.2.3, RFC 5050 4.2); the bits that both have mean the same.
    pub(crate) fn flags(&self) -> u64 {
        let high = self.rare.as_ref().map_or(0, |rare| rare.flags);
        high << FLAG_BITS | u64::from(self.flags & FLAGS_MASK)
    }

    /// The order in which it leaves this node.
    pub(crate) fn priority(&self) -> Priority {
        let rank = (self.flags & RANK_MASK) >> FLAG_BITS;
        Priority::of_rank(u16::try_from(rank).unwrap_or(u16::MAX))
    }

    pub(crate) const fn lifetime_ms(&self) -> u64 {
        self.lifetime_ms
    }

    /// The time and the age of its reception, of a bundle that is not stored yet.
    pub(crate) fn reception(&self) -> Received {
        Received {
            at: self.received(),
            dtn: DtnTime::from_millis(whole(self.place_low, self.place_high)),
            age_ms: self.order,
        }
    }

    /// When it was received by the clock of this run; its start where an earlier one received it.
    pub(crate) fn received(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.received).unwrap_or(0))
    }

    /// The time for which this run of the node and earlier ones have held it, milliseconds.
    pub(crate) fn held_ms(&self, now: Instant) -> u64 {
        let held = nanos(now).saturating_sub(self.received);
        u64::try_from(held / 1_000_000).unwrap_or(0)
    }

    pub(crate) const fn expires(&self) -> Instant {
        self.expires
    }

    /// The places of its octets in the store; none until it is stored.
    pub(crate) fn extents(&self) -> Extents {
        match self.place_high {
            _ if self.marks & HAS_PLACE == 0 => Extents::Many(Box::default()),
            BEYOND => {
                let extents = self.rare.as_ref().and_then(|rare| rare.extents.clone());
                extents.unwrap_or_else(|| Extents::Many(Box::default()))
            }
            _ => Extents::One(Extent {
                offset: whole(self.place_low, self.place_high),
                length: self.octets(),
            }),
        }
    }

    /// Sets the places of the bundle's octets.
    pub(crate) fn set_extents(&mut self, extents: Extents) {
        self.marks |= HAS_PLACE;
        let octets = self.octets();
        let (low, high) = match &extents {
            Extents::One(extent) if extent.length == octets => halves(extent.offset),
            _ => (0, BEYOND),
        };
        (self.place_low, self.place_high) = (low, high);
        if high == BEYOND {
            self.rare_mut().extents = Some(extents);
        }
    }

    pub(crate) const fn header_octets(&self) -> u32 {
        self.header_octets
    }

    pub(crate) fn payload_octets(&self) -> u64 {
        match self.payload_high {
            BEYOND => self.rare.as_ref().map_or(0, |rare| rare.payload_octets),
            high => whole(self.payload_low, high),
        }
    }

    /// Octets behind the payload.
    pub(crate) fn trailer_octets(&self) -> u64 {
        let before = u64::from(self.header_octets).saturating_add(self.payload_octets());
        self.octets().saturating_sub(before)
    }

    /// All octets of the bundle.
    pub(crate) fn octets(&self) -> u64 {
        match self.trailer_octets {
            ODD => self.rare.as_ref().map_or(0, |rare| rare.octets),
            trailer => {
                let around = u64::from(self.header_octets) + u64::from(trailer);
                self.payload_octets().saturating_add(around)
            }
        }
    }

    pub(super) fn set_octets(&mut self, octets: u64) {
        let before = (self.payload_octets()).saturating_add(u64::from(self.header_octets));
        let trailer = octets.checked_sub(before);
        let trailer = trailer.and_then(|it| u32::try_from(it).ok());
        self.trailer_octets = trailer.unwrap_or(ODD);
        if self.trailer_octets == ODD {
            self.rare_mut().octets = octets;
        }
    }

    /// Its place in its queue, once it is stored: by its priority, and then by the turn of its flow.
    pub(crate) const fn order(&self) -> u64 {
        self.order
    }

    pub(crate) fn set_order(&mut self, order: u64) {
        self.order = order;
    }

    /// Until when its octets are trusted; [`Instant::START`] where they have to be compared with their checksums.
    pub(crate) const fn sound_until(&self) -> Instant {
        self.sound_until
    }

    pub(crate) fn set_sound_until(&mut self, until: Instant) {
        self.sound_until = until;
    }

    /// The number of times that it has come back to this node after it had left.
    pub(crate) const fn returns(&self) -> u8 {
        self.returns
    }

    /// Its hop count when it was received, if it carries one and this run saw it (RFC 9171 4.4.3).
    pub(crate) fn hops(&self) -> Option<u8> {
        (self.marks & HAS_HOPS != 0).then_some(self.hops)
    }

    pub(crate) fn set_hops(&mut self, hops: Option<u8>) {
        self.hops = hops.unwrap_or(0);
        self.marks &= !HAS_HOPS;
        if hops.is_some() {
            self.marks |= HAS_HOPS;
        }
    }

    /// Why it is deleted as soon as it is back from where it is.
    pub(crate) fn pending_deletion(&self) -> Option<u8> {
        self.rare.as_ref().and_then(|rare| rare.pending_deletion)
    }

    /// Delete it as soon as it is back from where it is.
    pub(crate) fn mark_pending_deletion(&mut self, reason: u8) {
        self.rare_mut().pending_deletion = Some(reason);
    }

    /// Whether the bundle was found to have no form in the other version of the Bundle Protocol.
    pub(crate) fn is_untranslatable(&self) -> bool {
        let rare = self.rare.as_ref();
        rare.is_some_and(|rare| rare.is_untranslatable)
    }

    /// The bundle has no form in the other version of the Bundle Protocol.
    pub(crate) fn mark_untranslatable(&mut self) {
        self.rare_mut().is_untranslatable = true;
    }

    pub(crate) const fn removal(&self) -> Removal {
        match (self.marks & REMOVAL_MASK) >> REMOVAL_SHIFT {
            0 => Removal::Delivered,
            1 => Removal::Forwarded,
            _ => Removal::Deleted,
        }
    }

    pub(crate) fn set_removal(&mut self, removal: Removal) {
        let code = match removal {
            Removal::Delivered => 0,
            Removal::Forwarded => 1,
            Removal::Deleted => 2,
        };
        self.marks = self.marks & !REMOVAL_MASK | code << REMOVAL_SHIFT;
    }

    pub(crate) fn state(&self) -> State {
        self.retention().state()
    }

    fn retention(&self) -> Retention {
        let until = || (self.rare.as_ref()).map_or(Instant::START, |rare| rare.retry_at);
        Retention::of_code(self.marks & STATE_MASK, until)
    }

    /// Move on; the state stays where the table has no transition.
    #[inline(always)]
    pub(crate) fn advance(&mut self, trigger: Trigger) -> Result<(), Impossible> {
        let mut retention = self.retention();
        retention.advance(trigger)?;
        self.marks = self.marks & !STATE_MASK | retention.code();
        if let State::AwaitingRetry { until } = retention.state() {
            self.rare_mut().retry_at = until;
        }
        Ok(())
    }

    pub(super) fn is(&self, identity: &Identity) -> bool {
        self.creation == identity.creation
            && self.source == identity.source
            && self.fragment().map(|fragment| fragment.range) == identity.fragment
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity {
            source: self.source,
            creation: self.creation,
            fragment: self.fragment().map(|fragment| fragment.range),
        }
    }
}

fn nanos(at: Instant) -> i64 {
    i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::held::bundles::tests::entry;

    /// Numbers of any size, those at the edges of what an entry has room for most of all.
    fn number() -> impl Strategy<Value = u64> {
        let edges = [0, 32, 48, 63].map(|bits| 1_u64 << bits);
        let near = (prop::sample::select(edges.to_vec()), 0_u64..3);
        prop_oneof![
            near.prop_map(|(edge, by)| edge.saturating_sub(1) + by),
            0_u64..1_000,
            any::<u64>()
        ]
    }

    fn extents() -> impl Strategy<Value = Extents> {
        let extent = || (number(), number()).prop_map(|(offset, length)| Extent { offset, length });
        let many = prop::collection::vec(extent(), 0..4);
        prop_oneof![
            extent().prop_map(Extents::One),
            many.prop_map(|them| Extents::Many(them.into()))
        ]
    }

    proptest! {
        /// An entry is packed: whatever it was given, usual or not, it says again.
        #[test]
        fn an_entry_keeps_what_it_was_given(
            (flags, lifetime_ms, payload_octets, octets) in (number(), number(), number(), number()),
            (age_ms, received_ms, header_octets) in (number(), 0_u64..0xffff_0000_0000, any::<u32>()),
            (range, hops, pending_deletion, until) in (prop::option::of(number()), any::<Option<u8>>(), any::<Option<u8>>(), number()),
            (is_usual, places) in (any::<bool>(), prop::collection::vec(extents(), 0..3)),
        ) {
            let fragment = range.map(|offset| Fragment {
                range: FragmentRange { offset, length: 7 },
                total_octets: offset.saturating_add(9),
            });
            let octets = match is_usual {
                true => payload_octets.saturating_add(u64::from(header_octets)).saturating_add(5),
                false => octets,
            };
            let (at, dtn) = (Instant::from_nanos(until >> 1), DtnTime::from_millis(received_ms));
            let received = Received { at, dtn, age_ms };
            let priority = Priority::of_rank(u16::try_from(octets % 257).unwrap());
            let new = NewEntry {
                fragment, version: Version::of_number(6 + u8::from(flags % 2 == 0)).unwrap(), flags, reads_aggregated_reports: flags % 3 == 0, priority, lifetime_ms, header_octets, payload_octets, octets, hops,
                held: HeldTime::Arriving(received),
                ..entry(3, Instant::from_nanos(until))
            };
            let mut entry = Entry::new(new);
            prop_assert_eq!(entry.priority(), priority);
            prop_assert_eq!(entry.fragment(), fragment);
            prop_assert_eq!((entry.flags(), entry.lifetime_ms()), (flags, lifetime_ms));
            prop_assert_eq!(entry.version() == Version::V7, flags % 2 == 0);
            prop_assert_eq!(entry.reads_aggregated_reports(), flags % 3 == 0);
            prop_assert_eq!((entry.payload_octets(), entry.octets()), (payload_octets, octets));
            prop_assert_eq!((entry.header_octets(), entry.hops()), (header_octets, hops));
            prop_assert_eq!((entry.reception(), entry.previous()), (received, None));
            prop_assert_eq!((entry.removal(), entry.state()), (Removal::Deleted, State::Arriving));
            prop_assert!(entry.extents().as_slice().is_empty() && !entry.is_vacant());
            for extents in places {
                entry.set_extents(extents.clone());
                prop_assert_eq!(entry.extents(), extents);
                prop_assert_eq!(entry.octets(), octets);
            }
            if let Some(reason) = pending_deletion {
                entry.mark_pending_deletion(reason);
            }
            for removal in [Removal::Delivered, Removal::Forwarded] {
                entry.set_removal(removal);
                prop_assert_eq!((entry.removal(), entry.state()), (removal, State::Arriving));
            }
            let until = Instant::from_nanos(until);
            for (trigger, state) in [
                (Trigger::Stored, State::DispatchPending),
                (Trigger::RetryLater { until }, State::AwaitingRetry { until }),
                (Trigger::Deleted, State::Deleting),
            ] {
                prop_assert!(entry.advance(trigger).is_ok());
                prop_assert_eq!((entry.state(), entry.removal()), (state, Removal::Forwarded));
                prop_assert_eq!((entry.pending_deletion(), entry.fragment()), (pending_deletion, fragment));
            }
            prop_assert!(entry.advance(Trigger::Stored).is_err());
            prop_assert_eq!(entry.state(), State::Deleting);
            entry.set_hops(None);
            prop_assert_eq!(entry.hops(), None);
        }
    }

    /// The wall clock tells how long earlier runs held a bundle: it may say anything.
    #[test]
    fn the_time_of_earlier_runs_counts() {
        let day = Instant::from_nanos(86_400_000_000_000);
        for (held_ms, then) in [(0, 86_400_000), (7, 86_400_007), (1 << 50, u64::MAX)] {
            let extents = Extents::One(Extent {
                offset: 5,
                length: 2,
            });
            let held = HeldTime::Recovered {
                now: Instant::START,
                held_ms,
                extents,
            };
            let entry = Entry::new(NewEntry {
                held,
                ..entry(3, day)
            });
            assert_eq!(entry.received(), Instant::START);
            assert_eq!(
                entry.held_ms(Instant::START),
                held_ms.min(i64::MAX.unsigned_abs() / 1_000_000)
            );
            assert!(entry.held_ms(day) <= then && entry.held_ms(day) >= then.min(86_400_000));
        }
    }
}
