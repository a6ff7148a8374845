//! The first part of a bundle that is still coming in, kept so that a contact that ends early has not been for
//! nothing (docs/tcpcl-extensions.md 1).
//!
//! Where both sides of a session keep prefixes, a fragment with the payload octets that are here is committed
//! beside the bundle from time to time; the store shares the payload between the two. What such a fragment has
//! is acknowledged as soon as it is durable. A longer fragment takes the place of a shorter one, and the whole
//! bundle that of all. When the session ends within the transfer, a fragment of all that came goes the way of any
//! other bundle, and so it does after a crash, with what was committed. What is refused is not kept.

use crate::adjacencies::Adjacencies;
use crate::config::Config;
use crate::held::Held;
use crate::outbox::Outbox;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;
use dhow_bundle::mutant::{Mutant, planted};

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Extents, Piece, StoreCommand};
use dhow_bundle::v7::forward::UnsupportedBlocks;
use dhow_bundle::{
    BundleFlags, BundleId, EndpointId, FragmentRange, Header, HopEdit, Instant, Now, OutgoingHeader,
};
use dhow_link::stream::{LinkCommand, RefuseReason, TransferId};

use crate::arrivals::{Arrival, Origin};
use crate::bundles::{Entry, Fragment, Removal};
use crate::door::{Occurrence, StreamId};
use crate::held::FRESH;
use crate::node::Node;
use crate::reception::{Incoming, Reception, Refused};
use crate::reports::ReportKind;
use crate::retention::{Retention, Trigger};

/// Payloads of fewer octets are kept as a whole only: they fit a segment or two.
const KEEP_OCTETS: u64 = 64 * 1024;

/// A fragment is made so long after the one before, or after the bundle began to come in, at least: no more
/// than that is lost with a contact, and bundles over fast links are here before.
const STEP: Duration = Duration::from_millis(20);

/// It has this share more than the one before, at least: each costs the store a list of all places.
const STEP_SHARE: u64 = 32;

/// Prefixes that were acknowledged and then not kept because the whole turned out wrong, remembered at most.
const RETRACTED_BOUND: usize = 64;

/// What of a bundle that is coming in is kept so far.
#[derive(Debug)]
pub(crate) struct Keeping {
    /// The fragment that is durable.
    pub(crate) kept: Option<BundleKey>,
    /// Octets of the transfer that it has, acknowledged.
    covered: u64,
    /// The next fragment, on its way into the store.
    pub(crate) next: Option<BundleKey>,
    /// When the last one was made, or the bundle began to come in.
    last: Instant,
}

/// A fragment on its way into the store.
#[derive(Debug)]
pub(crate) struct Prefix {
    /// The bundle that it is of.
    of: BundleKey,
    /// Octets of the transfer that it has.
    covers: u64,
    fate: Fate,
    /// A shorter one, wanted until this one is durable.
    pub(crate) replaces: Option<BundleKey>,
}

/// What becomes of a fragment once it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is kept while the rest of the bundle comes in.
    Kept,
    /// Nothing more comes: it goes its way.
    Final,
    /// It is not wanted any more.
    Dropped,
}

/// What a fragment of the octets that are here is made of, beside them.
pub(crate) struct Part {
    header: OutgoingHeader,
    trailer: Bytes,
    range: FragmentRange,
    total_octets: u64,
    /// Octets of the transfer that it has.
    covers: u64,
}

/// Transfers whose prefix was acknowledged and not kept.
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
        let acknowledged = self.keepings.get(&of).is_some_and(|it| it.covered > 0);
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
            return Err(Refused {
                reason: RefuseReason::Retransmit,
                why: "what comes before this fragment turned out wrong".into(),
            });
        }
        self.retracted
            .retain(|other| !same(other) || start(id) > start(other));
        Ok(())
    }

    /// A bundle has begun to come in: what comes of it is kept in parts where that is agreed and allowed.
    pub(crate) fn begin_keeping(
        &mut self,
        adjacencies: &Adjacencies,
        now: Now,
        key: BundleKey,
        (stream, transfer): (StreamId, TransferId),
        header: &Header,
    ) {
        let flags = header.primary.flags;
        // RFC 9171 4.2.3: a bundle without source has no identity that its fragments could share.
        let may = header.payload_octets() >= KEEP_OCTETS
            && !flags.contains(BundleFlags::MUST_NOT_FRAGMENT)
            && !header.primary.source.is_null();
        let agreed = may
            && adjacencies
                .neighbours
                .get(&stream)
                .is_some_and(|neighbour| {
                    neighbour.keeps_prefixes() && neighbour.unverified != Some(transfer)
                });
        if agreed {
            let keeping = Keeping {
                kept: None,
                covered: 0,
                next: None,
                last: now.monotonic,
            };
            self.keepings.insert(key, keeping);
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
        let is_due = |it: &&Keeping| it.next.is_none() && now.monotonic.since(it.last) >= STEP;
        let Some(keeping) = self.keepings.get(&key).filter(is_due) else {
            return;
        };
        let covered = keeping.covered;
        let Some(Origin::Neighbour { stream, transfer }) =
            self.arrivals.get(key).map(|arrival| arrival.origin)
        else {
            return;
        };
        let reception = adjacencies
            .neighbours
            .get_mut(&stream)
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
        if let Some(keeping) = self.keepings.get_mut(&key) {
            keeping.next = next;
            keeping.last = now.monotonic;
        }
    }

    /// Commit a fragment beside the bundle that it is of; `None` when there is one of its identity already, or no
    /// room for its blocks.
    fn store_part(
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
        let entry = Entry {
            source: self.endpoints.retain(whole.source),
            destination: self.endpoints.retain(whole.destination),
            report_to: self.endpoints.retain(whole.report_to),
            previous: whole.previous.map(|index| self.endpoints.retain(index)),
            creation: whole.creation,
            fragment: Some(Box::new(Fragment {
                range: part.range,
                total_octets: part.total_octets,
            })),
            flags: whole.flags | BundleFlags::FRAGMENT.bits(),
            extents: Extents::Many(Box::default()),
            header_octets: u32::try_from(part.header.octets.len()).unwrap_or(u32::MAX),
            payload_octets: part.range.length,
            octets: part.header.total_octets(),
            order: 0,
            retention: Retention::ARRIVING,
            sound_until: whole.received + FRESH,
            doomed: None,
            removal: Removal::Deleted,
            ..*whole
        };
        let destination = entry.destination;
        let key = self.bundles.insert(entry);
        self.sharing.share(of, key, part.range.length);
        self.arrivals
            .insert(key, Arrival::new(Origin::Prefix), destination);
        let covers = part.covers;
        let prefix = Prefix {
            of,
            covers,
            fate,
            replaces,
        };
        self.prefixes.insert(key, prefix);
        self.append(out, key, Piece::Octets(part.header.octets));
        out.store(StoreCommand::Share { key, from: of });
        self.append(out, key, Piece::Octets(part.trailer));
        self.commit(adjacencies, out, key);
        let origin = self.arrivals.get(of).map(|arrival| arrival.origin);
        if let Some(Origin::Neighbour { stream, transfer }) = origin
            && planted(Mutant::PrefixAcknowledgedAtOnce)
            && let Some(neighbour) = adjacencies.neighbours.get_mut(&stream)
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
}

impl Node {
    /// A fragment is durable.
    pub(crate) fn part_kept(&mut self, now: Now, key: BundleKey) {
        let Some(prefix) = self.held.prefixes.remove(&key) else {
            return;
        };
        self.discard(now, prefix.replaces);
        match prefix.fate {
            Fate::Dropped => self.discard(now, Some(key)),
            Fate::Final => self.keep_for_good(now, key),
            Fate::Kept => {
                let shorter = self.held.keepings.get_mut(&prefix.of).and_then(|keeping| {
                    keeping.next = None;
                    keeping.covered = prefix.covers;
                    keeping.kept.replace(key)
                });
                self.discard(now, shorter);
                let origin = self
                    .held
                    .arrivals
                    .get(prefix.of)
                    .map(|arrival| arrival.origin);
                if let Some(Origin::Neighbour { stream, transfer }) = origin {
                    let octets = prefix.covers;
                    self.adjacencies.command(
                        &mut self.attention,
                        now,
                        stream,
                        LinkCommand::Acknowledge { transfer, octets },
                    );
                }
                self.held.keep_more(
                    &mut self.adjacencies,
                    &mut self.outbox,
                    &self.config,
                    now,
                    prefix.of,
                );
            }
        }
    }

    /// The store could not keep a fragment: the shorter one stays what there is.
    pub(crate) fn part_refused(&mut self, now: Now, key: BundleKey) {
        let Some(prefix) = self.held.prefixes.remove(&key) else {
            return;
        };
        match (prefix.fate, prefix.replaces) {
            (Fate::Kept, _) => {
                if let Some(keeping) = self.held.keepings.get_mut(&prefix.of) {
                    keeping.next = None;
                }
            }
            (Fate::Final, Some(shorter)) => self.keep_for_good(now, shorter),
            (_, shorter) => self.discard(now, shorter),
        }
    }

    /// Nothing more of a bundle comes in, which `incoming` is of: what was acknowledged of it stays.
    pub(crate) fn end_keeping(&mut self, now: Now, of: BundleKey, incoming: Option<&Incoming>) {
        let Some(keeping) = self.held.keepings.remove(&of) else {
            return;
        };
        let next = keeping
            .next
            .and_then(|next| self.held.prefixes.get_mut(&next));
        let Some(kept) = keeping.kept else {
            // Nothing was acknowledged, so that all of it will come again.
            if let Some(next) = next {
                next.fate = Fate::Dropped;
            }
            return;
        };
        if let Some(next) = next {
            next.fate = Fate::Final;
            next.replaces = Some(kept);
            return;
        }
        let longer = incoming
            .and_then(Incoming::part)
            .filter(|part| part.covers > keeping.covered)
            .and_then(|part| {
                self.held.store_part(
                    &mut self.adjacencies,
                    &mut self.outbox,
                    &self.config,
                    of,
                    part,
                    (Fate::Final, Some(kept)),
                )
            });
        if longer.is_none() && planted(Mutant::PrefixDropped) {
            self.discard(now, Some(kept));
        } else if longer.is_none() {
            self.keep_for_good(now, kept);
        }
    }

    /// The parts of a bundle are not wanted: it is here as a whole, or turned out wrong.
    pub(crate) fn drop_keeping(&mut self, now: Now, of: BundleKey) {
        let Some(keeping) = self.held.keepings.remove(&of) else {
            return;
        };
        self.discard(now, keeping.kept);
        if let Some(next) = keeping
            .next
            .and_then(|next| self.held.prefixes.get_mut(&next))
        {
            next.fate = Fate::Dropped;
        }
    }

    /// A fragment is all that came: it goes its way.
    fn keep_for_good(&mut self, now: Now, key: BundleKey) {
        self.held.advance(&mut self.outbox, key, Trigger::Stored);
        let Some(entry) = self.held.bundles.entry(key) else {
            return;
        };
        let (subject, octets) = (
            self.held
                .reported(&self.config, entry, ReportKind::Received),
            entry.octets,
        );
        let id = self.held.told(&mut self.outbox, entry);
        let from = entry.previous.map(|index| self.held.endpoints.id(index));
        let from = from.and_then(EndpointId::node_id);
        self.outbox.counters.count_received(now.monotonic, octets);
        self.outbox.counters.kept += 1;
        if let Some((from, id)) = from.zip(id) {
            self.outbox
                .occurred(Occurrence::Received { id, from, octets });
        }
        if let Some(subject) = subject {
            self.report(now, &subject, ReportKind::Received, 0);
        }
        self.forwarding.keep(&mut self.held, key);
        self.dispatch(now, key);
    }

    fn discard(&mut self, now: Now, key: Option<BundleKey>) {
        if let Some(key) = key {
            self.delete(now, key, Removal::Deleted, None);
        }
    }
}
