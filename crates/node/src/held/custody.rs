//! Custody of the bundles held: which of them have it, what a restart found of it, and the signals on their way into the store.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::gateway::identity;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, NOTE_OCTETS, StoreCommand, StoredBundle};
use dhow_bundle::v6::{self, BundleFlags};
use dhow_bundle::v7::forward::Custodian as NewCustodian;
use dhow_bundle::{EndpointId, FragmentRange, Header, Instant, NodeId, Version};

use crate::config::{Config, CustodyPolicy, Enabled, LinkConfig, Protocol};
use crate::custody::{
    AggregationLimits, BibePeer, Custodian, Custody, CustodyState, IdRuns, Retransmission,
};
use crate::held::Held;
use crate::held::bundles::Entry;
use crate::memory::tree_octets;
use crate::outbox::Outbox;

/// Bundles in custody that leave in fragments, at most: signals about fragments of others are not understood, and those are sent again.
const CUT_BOUND: usize = 1_024;

/// Ranges of the payload of one bundle of which custody was taken, at most: fragments of more are sent again with the whole.
const TAKEN_RANGES_BOUND: usize = 1_024;

/// Custody, and the signals under way for it.
pub(crate) struct HeldCustody {
    custody: Custody,
    policy: CustodyPolicy,
    /// Notes that a restart found, until it is known which custody IDs were given.
    recalled: Vec<(BundleKey, Bytes)>,
    /// Signals on their way into the store, and the bundles whose acceptance each tells of.
    signals: BTreeMap<BundleKey, IdRuns>,
    /// Bundles that leave in fragments, and the ranges of the whole payload of which others have custody, by their first octet.
    cut: BTreeMap<BundleKey, BTreeMap<u64, u64>>,
    /// Bundles that others have custody of, while they are leaving once more.
    released: BTreeSet<BundleKey>,
}

impl HeldCustody {
    pub(crate) fn new(config: &Config) -> Self {
        let policy = config.custody;
        let limits = AggregationLimits {
            delay: Duration::from_millis(policy.delay_ms),
            ..AggregationLimits::default()
        };
        let retransmission = Retransmission {
            floor: Duration::from_millis(policy.retry_ms),
            ..Retransmission::default()
        };
        let mut custody = Custody::default()
            .with_aggregation(None, limits)
            .with_retransmission(retransmission);
        for link in &config.links {
            set_peer(&mut custody, link);
        }
        Self {
            custody,
            policy,
            recalled: Vec::new(),
            signals: BTreeMap::new(),
            cut: BTreeMap::new(),
            released: BTreeSet::new(),
        }
    }

    pub(crate) fn memory_octets(&self) -> usize {
        (self.custody.memory_octets())
            .saturating_add(tree_octets::<(BundleKey, IdRuns)>(self.signals.len()))
            .saturating_add(self.recalled.capacity() * size_of::<(BundleKey, Bytes)>())
            .saturating_add(tree_octets::<(BundleKey, BTreeMap<u64, u64>)>(
                self.cut.len(),
            ))
            .saturating_add(tree_octets::<BundleKey>(self.released.len()))
    }

    /// Whether this node has custody of a bundle.
    pub(crate) fn has(&self, key: BundleKey) -> bool {
        matches!(
            self.custody.state(key),
            CustodyState::Accepted | CustodyState::AwaitingSignal | CustodyState::AwaitingForward
        )
    }

    /// Whether a bundle in custody left before, and leaves again.
    pub(crate) fn has_left(&self, key: BundleKey) -> bool {
        self.custody.state(key) == CustodyState::AwaitingForward
    }

    /// Whether this node has custody of a bundle, or waits for a signal of the peer that it was sent to in another.
    pub(crate) fn is_custodian(&self, key: BundleKey) -> bool {
        self.has(key) || self.custody.is_encapsulated(key)
    }

    /// Whether a signal about a bundle is expected that has left.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn awaits_signal(&self, key: BundleKey) -> bool {
        self.custody.state(key) == CustodyState::AwaitingSignal || self.custody.is_encapsulated(key)
    }

    /// Whether this node has custody of a bundle, or is about to have it.
    pub(crate) fn wants(&self, key: BundleKey) -> bool {
        self.has(key) || self.custody.state(key) == CustodyState::Requested
    }

    /// A custody signal is on its way into the store.
    pub(crate) fn note_signal(&mut self, key: BundleKey, settles: IdRuns) {
        self.signals.insert(key, settles);
    }

    /// A bundle is durable here: this node is its custodian from now on, or what it says to a custodian is said for good. True for the former.
    pub(crate) fn stored(&mut self, now: Instant, key: BundleKey) -> bool {
        let is_requested = self.custody.state(key) == CustodyState::Requested;
        if is_requested {
            self.custody.handle_accepted(now, key);
        }
        if let Some(settles) = self.signals.remove(&key) {
            self.custody.handle_signalled(&settles);
            // A note that is not written anew makes the signal leave once more after a restart, which its custodian ignores.
            while self.custody.poll_note().is_some() {}
        }
        is_requested
    }

    /// A bundle is held no longer.
    pub(crate) fn removed(&mut self, now: Instant, key: BundleKey) {
        self.signals.remove(&key);
        self.cut.remove(&key);
        self.released.remove(&key);
        self.custody.handle_removed(now, key);
    }

    /// Another node has custody of a bundle that is leaving once more.
    pub(crate) fn release_leaving(&mut self, key: BundleKey) {
        self.released.insert(key);
    }

    /// Whether another node has custody of a bundle that was leaving once more: nothing retains it here.
    pub(crate) fn is_released(&self, key: BundleKey) -> bool {
        self.released.contains(&key)
    }

    /// A bundle leaves in fragments, each of which has a signal of its own.
    pub(crate) fn cut(&mut self, key: BundleKey) {
        self.custody.handle_leaving(key);
        if self.has(key) && self.cut.len() < CUT_BOUND {
            self.cut.entry(key).or_default();
        }
    }

    /// Somebody has custody of a fragment of a bundle that has this range: true where that makes all of it.
    fn take_range(&mut self, key: BundleKey, range: FragmentRange, whole: FragmentRange) -> bool {
        let taken = self.cut.entry(key).or_default();
        let (mut start, mut end) = (range.offset, range.offset.saturating_add(range.length));
        while let Some((&first, &last)) = taken.range(..=end).next_back()
            && last >= start
        {
            (start, end) = (start.min(first), end.max(last));
            taken.remove(&first);
        }
        if taken.len() < TAKEN_RANGES_BOUND {
            taken.insert(start, end);
        }
        start <= whole.offset && end >= whole.offset.saturating_add(whole.length)
    }

    #[inline]
    pub(crate) const fn value(&self) -> &Custody {
        &self.custody
    }

    #[inline]
    pub(crate) fn value_mut(&mut self) -> &mut Custody {
        &mut self.custody
    }
}

impl Held {
    /// A bundle of version 6 that comes in asks for custody: this node is to be its custodian, once it is durable here.
    pub(crate) fn request_custody(&mut self, out: &mut Outbox, key: BundleKey, header: &Header) {
        let Some(custodian) = custodian_of(header) else {
            return;
        };
        if self.custody.policy.accept == Enabled::No || !self.custody.custody.has_room_for_signals()
        {
            return;
        }
        // One that is back, and has no other custodian than this node, has nobody to tell.
        let is_own = custodian.endpoint.is_null() || self.endpoints.is_here(&custodian.endpoint);
        self.begin_custody(out, key, (!is_own).then_some(custodian));
    }

    /// This node is to be custodian of a bundle that it makes.
    pub(crate) fn begin_custody(
        &mut self,
        out: &mut Outbox,
        key: BundleKey,
        custodian: Option<Custodian>,
    ) {
        let acceptance = self.custody.custody.handle_request(key, custodian);
        let mark = acceptance.and_then(|acceptance| acceptance.given.reserve);
        if let Some(mark) = mark {
            if planted(Mutant::CustodyIdNotReserved) {
                return self.custody.custody.confirm_reservation(mark);
            }
            let reservation = self.creation.reserve_mark(mark);
            out.store(StoreCommand::Reserve {
                time: reservation.time,
                sequence: reservation.sequence,
            });
        }
    }

    /// The note of custody that is committed with a bundle.
    pub(crate) fn custody_note(&self, key: BundleKey) -> Bytes {
        let note = self.custody.custody.note(key);
        note.filter(|note| note.len() <= NOTE_OCTETS)
            .unwrap_or_default()
    }

    /// The custodian that a bundle leaves with, where it is this node. A fragment has no number: a signal that names it would mean the whole.
    pub(crate) fn new_custodian(
        &self,
        key: BundleKey,
        header: &Header,
        is_fragment: bool,
    ) -> Option<NewCustodian> {
        if header.version() != Version::V6 || !self.custody.has(key) {
            return None;
        }
        let is_numbered = self.custody.policy.aggregate == Enabled::Yes && !is_fragment;
        let id = (self.custody.custody.custody_id(key))
            .filter(|id| is_numbered && self.custody.custody.is_reserved_durably(*id));
        Some(NewCustodian {
            endpoint: self.own_node_for(&header.primary.destination).clone(),
            id,
        })
    }

    /// The node ID of this node in the scheme of an endpoint.
    fn own_node_for(&self, endpoint: &EndpointId) -> &EndpointId {
        let local = self.endpoints.local();
        let own = endpoint.node_id().map(|peer| local.counterpart(&peer));
        own.unwrap_or_else(|| local.node_id()).endpoint()
    }

    /// A restart found a bundle with a note of custody.
    pub(crate) fn recall_custody(&mut self, key: BundleKey, bundle: &StoredBundle) -> bool {
        let flags = BundleFlags::from_bits(bundle.flags);
        let has_custody = bundle.version == Version::V6.number()
            && flags.contains(BundleFlags::CUSTODY_REQUESTED)
            && !bundle.note.is_empty()
            && !planted(Mutant::CustodyForgottenAtStart);
        if has_custody {
            self.custody.recalled.push((key, bundle.note.clone()));
        }
        has_custody
    }

    /// All bundles that a restart found are known, and so is the mark up to which custody IDs may have been given.
    pub(crate) fn recover_custody(&mut self, now: Instant, mark: u64) {
        self.custody.custody.resume(mark);
        for (key, note) in core::mem::take(&mut self.custody.recalled) {
            let subject = self
                .entry(key)
                .and_then(|entry| self.custody_subject(entry));
            if let Some(subject) = subject {
                self.custody.custody.recover(now, key, &note, subject);
            }
        }
    }

    /// A bundle as signals name it.
    fn custody_subject(&self, entry: &Entry) -> Option<v6::admin::Subject> {
        let id = self.bundle_id(entry);
        Some(v6::admin::Subject {
            source: id.source,
            creation: identity::to_v6(id.creation).ok()?,
            fragment: id.fragment,
        })
    }

    /// The bundle that a signal names, where custody of all of it is settled: itself, or the whole of which somebody has taken custody in fragments.
    pub(crate) fn signalled(
        &mut self,
        subject: &v6::admin::Subject,
        is_success: bool,
    ) -> Option<BundleKey> {
        let id = dhow_bundle::BundleId {
            source: subject.source.clone(),
            creation: identity::to_v7(subject.creation).ok()?,
            fragment: subject.fragment,
        };
        if let Some(key) = self.find_bundle(&id) {
            return Some(key);
        }
        let range = id.fragment?;
        // A node between here and the next custodian may have cut a bundle that left as a whole.
        let uncut = dhow_bundle::BundleId {
            fragment: None,
            ..id.clone()
        };
        if let Some(key) = self.find_bundle(&uncut) {
            self.custody.cut(key);
        }
        let (key, whole) = self.custody.cut.keys().find_map(|&key| {
            let entry = self.entry(key)?;
            let whole = range_of(entry);
            let is_of_it = *self.endpoints.id(entry.source()) == id.source
                && entry.creation() == id.creation
                && whole.offset <= range.offset
                && end_of(range) <= end_of(whole);
            is_of_it.then_some((key, whole))
        })?;
        if !is_success {
            return Some(key);
        }
        let is_whole = self.custody.take_range(key, range, whole);
        (is_whole || planted(Mutant::CustodyOfFragment)).then_some(key)
    }

    /// A tunnel's peer is one no more: the bundles whose signal it has not sent.
    pub(crate) fn forget_peer(&mut self, peer: Option<&NodeId>) -> Vec<BundleKey> {
        let custody = &mut self.custody.custody;
        peer.map(|peer| custody.remove_peer(peer.endpoint()))
            .unwrap_or_default()
    }

    /// Custody of bundles of version 6.
    #[inline]
    pub(crate) const fn custody(&self) -> &HeldCustody {
        &self.custody
    }

    #[inline]
    pub(crate) fn custody_mut(&mut self) -> &mut HeldCustody {
        &mut self.custody
    }
}

/// The peer of a tunnel is known to custody, with its codes.
pub(crate) fn set_peer(custody: &mut Custody, link: &LinkConfig) {
    if let (Protocol::Bibe(policy), Some(peer)) = (link.protocol, &link.policy.peer) {
        let settings = BibePeer {
            types: policy.dialect.types(),
            numbering: policy.dialect.numbering(),
            latency: Duration::from_millis(policy.latency_ms),
            delay: Duration::from_millis(policy.delay_ms),
            ..BibePeer::default()
        };
        custody.set_peer(peer.endpoint().clone(), settings);
    }
}

/// The part of the application data unit that a held bundle has.
fn range_of(entry: &Entry) -> FragmentRange {
    let whole = FragmentRange {
        offset: 0,
        length: entry.payload_octets(),
    };
    entry.fragment().map_or(whole, |fragment| fragment.range)
}

const fn end_of(range: FragmentRange) -> u64 {
    range.offset.saturating_add(range.length)
}

/// The custodian of a bundle that asks for custody, and how it knows the bundle; none of one that asks for none.
pub(crate) fn custodian_of(header: &Header) -> Option<Custodian> {
    let old = header.as_v6()?;
    let flags = old.primary.flags;
    if !flags.contains(BundleFlags::CUSTODY_REQUESTED)
        || flags.contains(BundleFlags::ADMINISTRATIVE_RECORD)
        || old.primary.source.is_null()
    {
        return None;
    }
    let endpoint = old.primary.custodian.clone();
    // The number counts where it is this custodian's: a node without aggregate signals leaves that of the one before.
    let blocks = old.blocks.iter();
    let mut numbers = blocks
        .filter(|block| block.block_type == v6::BlockType::CUSTODY_OR_AGE)
        .filter_map(v6::Block::custody_id);
    let number = numbers.next().filter(|(_, of)| *of == endpoint);
    let is_only_one = numbers.next().is_none();
    let fragment = header.id().fragment;
    // A node that is no custodian may have cut the bundle that the number means: of a fragment only its own name is sure.
    let means_this = is_only_one && fragment.is_none();
    Some(Custodian {
        endpoint,
        id: number.filter(|_| means_this).map(|(id, _)| id),
        subject: v6::admin::Subject {
            source: old.primary.source.clone(),
            creation: old.primary.creation,
            fragment,
        },
    })
}
