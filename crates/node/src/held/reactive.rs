//! The parts that are kept of bundles that are coming in.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::session_id::SessionId;
use crate::config::Config;
use crate::held::FRESH;
use crate::held::Held;
use crate::held::arrivals::Arrival;
use crate::held::arrivals::Origin;
use crate::held::bundles::Fragment;
use crate::held::bundles::{HeldTime, NewEntry};
use crate::outbox::Outbox;
use crate::reception::Incoming;
use crate::reception::Reception;
use crate::reception::Refused;
use alloc::collections::VecDeque;
use bytes::Bytes;
use core::time::Duration;
use dhow_bundle::BundleFlags;
use dhow_bundle::BundleId;
use dhow_bundle::EndpointId;
use dhow_bundle::FragmentRange;
use dhow_bundle::Header;
use dhow_bundle::HopEdit;
use dhow_bundle::Instant;
use dhow_bundle::Now;
use dhow_bundle::OutgoingHeader;
use dhow_bundle::mutant::Mutant;
use dhow_bundle::mutant::planted;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::storage::Piece;
use dhow_bundle::storage::StoreCommand;
use dhow_bundle::v7::forward::UnsupportedBlocks;
use dhow_link::stream::LinkCommand;
use dhow_link::stream::RefuseReason;
use dhow_link::stream::TransferId;

/// Payloads of fewer octets are kept as a whole only: they fit a segment or two.
const KEEP_OCTETS: u64 = 64 * 1024;

/// A fragment is made so long after the one before, or after the bundle began to come in, at least: no more
/// than that is lost with a contact, and bundles over fast links are here before.
const STEP: Duration = Duration::from_millis(20);

/// A part has this share more than the one before, at least: each costs the store a list of all places.
const STEP_SHARE: u64 = 32;

/// Prefixes that were acknowledged and then not kept because the whole turned out wrong, remembered at most.
const RETRACTED_BOUND: usize = 64;

/// The fragment that is kept so far of a bundle that is coming in.
#[derive(Debug)]
pub(crate) struct Reactive {
    /// The fragment that is durable.
    pub(crate) kept: Option<BundleKey>,
    /// Octets of the transfer that it has, acknowledged.
    pub(crate) covered: u64,
    /// The next fragment, on its way into the store.
    pub(crate) next: Option<BundleKey>,
    /// When the last one was made, or the bundle began to come in.
    pub(crate) last: Instant,
}

/// A fragment on its way into the store.
#[derive(Debug)]
pub(crate) struct ReactiveFragment {
    /// The bundle that it is of.
    pub(crate) of: BundleKey,
    /// Octets of the transfer that it has.
    pub(crate) covers: u64,
    pub(crate) fate: Fate,
    /// A shorter one, wanted until this one is durable.
    pub(crate) replaces: Option<BundleKey>,
}

/// The fate of a fragment once it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The part is kept while the rest of the bundle comes in.
    Kept,
    /// Nothing more comes: it goes its way.
    Final,
    /// The part is not wanted any more.
    Dropped,
}

/// The blocks of a fragment that is made of the octets that are here.
pub(crate) struct Part {
    pub(crate) header: OutgoingHeader,
    pub(crate) trailer: Bytes,
    pub(crate) range: FragmentRange,
    pub(crate) total_octets: u64,
    /// Octets of the transfer that it has.
    pub(crate) covers: u64,
}

/// Transfers whose first octets were acknowledged and not kept.
pub(crate) type Retracted = VecDeque<BundleId>;

impl Incoming {
    /// A fragment of all payload octets that are here; `None` where there are none, or all, or a part of what
    /// follows them.
    pub(crate) fn part(&self) -> Option<Part> {
        let octets = self
            .received
            .checked_sub(u64::from(self.header.header_octets()))?;
        let must = BundleFlags::MUST_NOT_FRAGMENT;
        if octets == 0
            || octets >= self.header.payload_octets()
            || self.header.primary.flags.contains(must)
        {
            return None;
        }
        let range = FragmentRange {
            offset: self.header.range().offset,
            length: octets,
        };
        // RFC 9171 5.8: the fragment with the first octets has all blocks. They stay as they came: what
        // changes at a hop changes when it leaves.
        let edit = HopEdit {
            previous_node: self.header.previous_node().and_then(EndpointId::node_id),
            unsupported: UnsupportedBlocks::Keep,
            fragment: Some(range),
            ..HopEdit::default()
        };
        let header = self.header.forwarded(&edit);
        let trailer = (self.verifier).fragment_trailer(&self.header.payload, &header.payload);
        Some(Part {
            header,
            trailer,
            range,
            total_octets: self.header.total_adu_octets(),
            covers: self.received,
        })
    }
}

impl Held {
    /// A bundle of which a part was acknowledged turned out wrong. Should its sender not hear of the refusal, it
    /// sends the rest alone: then it is asked for the whole.
    pub(crate) fn retract(&mut self, of: BundleKey) {
        let acknowledged = self.reactive.get(&of).is_some_and(|it| it.covered > 0);
        let Some(entry) = self.bundles.entry(of).filter(|_| acknowledged) else {
            return;
        };
        let id = self.bundle_id(entry);
        if self.retracted.len() >= RETRACTED_BOUND {
            self.retracted.pop_front();
        }
        self.retracted.push_back(id);
    }

    /// A fragment comes without what comes before it, which was acknowledged here and then turned out wrong.
    pub(crate) fn check_retracted(&mut self, id: &BundleId) -> Result<(), Refused> {
        if self.retracted.is_empty() {
            return Ok(());
        }
        let start = |id: &BundleId| id.fragment.map_or(0, |range| range.offset);
        let same = |other: &BundleId| id.source == other.source && id.creation == other.creation;
        if id.fragment.is_some()
            && (self.retracted.iter()).any(|other| same(other) && start(id) > start(other))
        {
            return Err(Refused::new(
                RefuseReason::Retransmit,
                "what comes before this fragment turned out wrong",
            ));
        }
        self.retracted
            .retain(|other| !same(other) || start(id) > start(other));
        Ok(())
    }

    /// Commit a fragment beside the bundle that it is of; `None` when there is one of its identity already, or no
    /// room for its blocks.
    pub(crate) fn store_part(
        &mut self,
        adjacencies: &mut Adjacencies,
        out: &mut Outbox,
        config: &Config,
        of: BundleKey,
        part: Part,
        (fate, replaces): (Fate, Option<BundleKey>),
    ) -> Option<BundleKey> {
        let whole = self.bundles.entry(of)?;
        let mut identity = whole.identity();
        identity.fragment = Some(part.range);
        if self.bundles.find(&identity).is_some() {
            return None;
        }
        // Its payload takes no room beside the bundle's; its blocks do.
        let beside = part.header.total_octets().saturating_sub(part.range.length);
        if self.taken_octets().saturating_add(beside) > self.quota_octets(config) {
            return None;
        }
        let reception = whole.reception();
        let entry = NewEntry {
            source: self.endpoints.retain(whole.source()),
            destination: self.endpoints.retain(whole.destination()),
            report_to: self.endpoints.retain(whole.report_to()),
            previous: whole.previous().map(|index| self.endpoints.retain(index)),
            creation: whole.creation(),
            fragment: Some(Fragment {
                range: part.range,
                total_octets: part.total_octets,
            }),
            version: whole.version(),
            flags: whole.flags() | BundleFlags::FRAGMENT.bits(),
            reads_aggregated_reports: whole.reads_aggregated_reports(),
            priority: whole.priority(),
            lifetime_ms: whole.lifetime_ms(),
            held: HeldTime::Arriving(reception),
            expires: whole.expires(),
            header_octets: u32::try_from(part.header.octets.len()).unwrap_or(u32::MAX),
            payload_octets: part.range.length,
            octets: part.header.total_octets(),
            sound_until: reception.at + FRESH,
            returns: whole.returns(),
            hops: whole.hops(),
        };
        let (destination, priority) = (entry.destination, entry.priority);
        let key = self.bundles.insert(entry);
        self.sharing.share(of, key, part.range.length);
        self.arrivals.insert(
            key,
            Arrival::new(Origin::ReactiveFragment),
            (destination, priority),
        );
        let covers = part.covers;
        let fragment = ReactiveFragment {
            of,
            covers,
            fate,
            replaces,
        };
        self.reactive_fragments.insert(key, fragment);
        self.append(out, key, Piece::Octets(part.header.octets));
        out.store(StoreCommand::Share { key, from: of });
        self.append(out, key, Piece::Octets(part.trailer));
        self.commit(adjacencies, out, key);
        let origin = self.arrivals.get(of).map(|arrival| arrival.origin);
        if let Some(Origin::Neighbour { session, transfer }) = origin
            && planted(Mutant::ReactiveFragmentAcknowledgedAtOnce)
            && let Some(neighbour) = adjacencies.neighbour_mut(session)
        {
            let now = Now {
                monotonic: Instant::START,
                dtn: dhow_bundle::DtnTime::UNKNOWN,
            };
            let octets = covers;
            neighbour.command(now, LinkCommand::Acknowledge { transfer, octets });
        }
        Some(key)
    }

    /// A bundle has begun to come in: its octets are kept in parts where that is agreed and allowed.
    pub(crate) fn begin_reactive(
        &mut self,
        adjacencies: &Adjacencies,
        now: Now,
        key: BundleKey,
        (session, transfer): (SessionId, TransferId),
        header: &Header,
    ) {
        let flags = header.primary.flags;
        // RFC 9171 4.2.3: a bundle without source has no identity that its fragments could share.
        let may = header.payload_octets() >= KEEP_OCTETS
            && !flags.contains(BundleFlags::MUST_NOT_FRAGMENT)
            && !header.primary.source.is_null();
        let agreed = may
            && adjacencies.neighbour(session).is_some_and(|neighbour| {
                neighbour.keeps_reactive_fragments() && neighbour.unverified != Some(transfer)
            });
        if agreed {
            let reactive = Reactive {
                kept: None,
                covered: 0,
                next: None,
                last: now.monotonic,
            };
            self.reactive.insert(key, reactive);
        }
    }

    /// Octets of a bundle that is coming in have become durable: time for the next part, perhaps.
    pub(crate) fn keep_more(
        &mut self,
        adjacencies: &mut Adjacencies,
        out: &mut Outbox,
        config: &Config,
        now: Now,
        key: BundleKey,
    ) {
        let is_due = |it: &&Reactive| it.next.is_none() && now.monotonic.since(it.last) >= STEP;
        let Some(reactive) = self.reactive.get(&key).filter(is_due) else {
            return;
        };
        let covered = reactive.covered;
        let Some(Origin::Neighbour { session, transfer }) =
            self.arrivals.get(key).map(|arrival| arrival.origin)
        else {
            return;
        };
        let reception = adjacencies
            .neighbour_mut(session)
            .and_then(|neighbour| neighbour.receptions.get_mut(&transfer));
        let Some(Reception::Payload(incoming)) = reception else {
            return;
        };
        if incoming.received.saturating_sub(covered) <= covered / STEP_SHARE {
            return;
        }
        let Some(part) = incoming.part() else { return };
        // The store shares what it has: all that the part is to have.
        if let Some(octets) = incoming.take_gathered() {
            self.append(out, key, Piece::Octets(octets));
        }
        let next = self.store_part(adjacencies, out, config, key, part, (Fate::Kept, None));
        if let Some(reactive) = self.reactive.get_mut(&key) {
            reactive.next = next;
            reactive.last = now.monotonic;
        }
    }
}
