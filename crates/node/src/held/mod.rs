//! The bundles that this node holds: those that come into the store, those in it, and the memory of those that were.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::neighbour::Neighbour;
use crate::driver::Action;
use crate::held::arrivals::Origin;
use crate::held::bundles::Entry;
use crate::held::bundles::Identity;
use crate::held::bundles::Removal;
use crate::held::bundles::{HeldTime, NewEntry, Received};
use crate::held::endpoints::EndpointIndex;
use crate::outbox::Outbox;
use crate::steps::Step;
pub(crate) mod arrivals;
pub(crate) mod backlog;
pub(crate) mod bundles;
pub(crate) mod chain;
pub(crate) mod creation;
pub(crate) mod custody;
pub(crate) mod departures;
mod depths;
pub(crate) mod endpoints;
mod entry;
pub(crate) mod expiries;
mod index;
#[cfg(any(test, feature = "testing"))]
mod invariants;
mod leaving;
pub(crate) mod moved;
pub(crate) mod onward;
mod permits;
pub(crate) mod reactive;
pub(crate) mod reassembly;
pub(crate) mod recovery;
pub(crate) mod removed;
pub(crate) mod retention;
pub(crate) mod rivals;
pub(crate) mod room;
pub(crate) mod shares;
mod sharing;
pub(crate) mod verification;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use bytes::Bytes;
use core::time::Duration;
use dhow_bundle::BundleBuilder;
use dhow_bundle::BundleId;
use dhow_bundle::Now;
use dhow_bundle::OutgoingHeader;
use dhow_bundle::PrimaryBlock;
use dhow_bundle::mutant::Mutant;
use dhow_bundle::mutant::planted;
use dhow_bundle::storage::Extents;
use dhow_bundle::storage::StoreCommand;
use dhow_bundle::storage::StoredBundle;
use dhow_link::stream::LinkCommand;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{HeaderReader, Instant, Priority, Version};

use crate::config::{Config, FirstRead};
use crate::held::arrivals::Arrivals;
use crate::held::backlog::Backlog;
use crate::held::bundles::Bundles;
use crate::held::creation::Creation;
use crate::held::custody::HeldCustody;
use crate::held::endpoints::Endpoints;
use crate::held::expiries::Expiries;
use crate::held::leaving::Leaving;
use crate::held::reactive::{Reactive, ReactiveFragment, Retracted};
use crate::held::reassembly::Reassembly;
use crate::held::removed::Removed;
use crate::held::rivals::Rivals;
use crate::held::room::DiskRoom;
use crate::held::sharing::Sharing;
use crate::local::Local;
use crate::memory::tree_octets;
use crate::sending::PendingRead;
use crate::series::Series;

/// Octets that came this long ago are still those that came; after it they are compared with their
/// checksums before an application gets them.
pub(crate) const FRESH: Duration = Duration::from_secs(1);

/// The part of the memory that identities of removed bundles may take is one of so many.
const REMEMBERED_SHARE: u64 = 8;

/// All bundles here.
pub(crate) struct Held {
    endpoints: Endpoints,
    bundles: Bundles,
    arrivals: Arrivals,
    rivals: Rivals,
    backlog: Backlog,
    /// Parts that are kept of bundles that are coming in.
    reactive: BTreeMap<BundleKey, Reactive>,
    /// The kept parts on their way into the store.
    reactive_fragments: BTreeMap<BundleKey, ReactiveFragment>,
    retracted: Retracted,
    /// The octets that they and the bundles have in common.
    sharing: Sharing,
    /// Copies of which the room is given away.
    leaving: Leaving,
    /// Octets of bundles that are coming in, for which no room is reserved yet.
    unreserved_octets: u64,
    disk_room: DiskRoom,
    /// Octets of memory that the queues of recovered bundles will take.
    expected_octets: usize,
    /// So many bundles find memory before it is counted again.
    memory_credit: u64,
    reassembly: Reassembly,
    expiries: Expiries,
    /// When bundles that a neighbour refused are tried again.
    retries: BTreeSet<(Instant, BundleKey)>,
    /// Bundles that the store is comparing with their checksums.
    verifying: BTreeSet<BundleKey>,
    /// Bundles whose octets moved in the store while somebody may still read the old places.
    moved: BTreeSet<BundleKey>,
    /// Reads that the driver has not answered, by ticket.
    reads: Series<PendingRead>,
    first_read: FirstRead,
    removed: Removed,
    creation: Creation,
    /// Custody of bundles of version 6.
    custody: HeldCustody,
    /// Copies that may be made of bundles which came with their number.
    permits: BTreeMap<BundleKey, u64>,
    /// The number of carriers that each record came out of which is in one.
    depths: BTreeMap<BundleKey, u8>,
    /// Reads the headers of bundles that come in.
    headers_in: Option<Box<HeaderReader>>,
}

/// The time of [`Mutant::ExpiryPutOff`].
const PUT_OFF: Duration = Duration::from_secs(3_600);

impl Held {
    #[inline]
    pub(crate) const fn bundles(&self) -> &Bundles {
        &self.bundles
    }

    #[inline]
    pub(crate) fn bundles_mut(&mut self) -> &mut Bundles {
        &mut self.bundles
    }

    /// All bundles, to change them, and the endpoint IDs that they name.
    #[inline]
    pub(crate) fn bundles_and_endpoints(&mut self) -> (&mut Bundles, &Endpoints) {
        (&mut self.bundles, &self.endpoints)
    }

    #[inline]
    pub(crate) fn entry(&self, key: BundleKey) -> Option<&Entry> {
        self.bundles.entry(key)
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, key: BundleKey) -> Option<&mut Entry> {
        self.bundles.entry_mut(key)
    }

    #[inline]
    pub(crate) fn find(&self, identity: &Identity) -> Option<BundleKey> {
        self.bundles.find(identity)
    }

    /// The first octets of a bundle are durable, so many of them; false where it is not coming in.
    pub(crate) fn note_durable(&mut self, key: BundleKey, octets: u64) -> bool {
        let Some(arrival) = self.arrivals.get_mut(key) else {
            return false;
        };
        // Octets that it shares with another were not given to the store for it.
        let octets = octets.min(arrival.appended);
        let more = octets.saturating_sub(arrival.durable);
        arrival.durable = arrival.durable.max(octets);
        self.backlog.settle(arrival.origin, more);
        true
    }

    /// Bundles that are coming in.
    #[inline]
    pub(crate) const fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    #[inline]
    pub(crate) fn arrivals_mut(&mut self) -> &mut Arrivals {
        &mut self.arrivals
    }

    /// Octets that wait for the disk.
    #[inline]
    pub(crate) const fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    #[inline]
    pub(crate) fn backlog_mut(&mut self) -> &mut Backlog {
        &mut self.backlog
    }

    /// Application data units for endpoints here whose fragments come one by one.
    #[inline]
    pub(crate) const fn reassembly(&self) -> &Reassembly {
        &self.reassembly
    }

    #[inline]
    pub(crate) fn reassembly_mut(&mut self) -> &mut Reassembly {
        &mut self.reassembly
    }

    /// The identities of bundles that were removed.
    #[inline]
    pub(crate) const fn removed(&self) -> &Removed {
        &self.removed
    }

    /// Remember a bundle that is removed, and had come back so often. Takes over one count of `identity.source`.
    pub(crate) fn remember(
        &mut self,
        now: Instant,
        identity: Identity,
        until: Instant,
        removal: Removal,
        returned: (u8, Option<u8>),
    ) {
        let endpoints = &mut self.endpoints;
        (self.removed).insert(now, endpoints, identity, until, removal, returned);
    }

    /// Forget removed bundles that would have expired.
    #[inline]
    pub(crate) fn prune_removed(&mut self, now: Instant) {
        self.removed.prune(&mut self.endpoints, now);
    }

    /// Creation timestamps that may be given out.
    #[inline]
    pub(crate) const fn creation(&self) -> &Creation {
        &self.creation
    }

    #[inline]
    pub(crate) fn creation_mut(&mut self) -> &mut Creation {
        &mut self.creation
    }

    /// Let a bundle expire when its entry says.
    #[inline]
    pub(crate) fn let_expire(&mut self, key: BundleKey) {
        self.expiries.insert(&mut self.bundles, key);
    }

    /// Let a bundle expire no more.
    #[inline]
    pub(crate) fn keep_from_expiry(&mut self, key: BundleKey) {
        self.expiries.remove(&mut self.bundles, key);
    }

    /// A bundle that has expired by now; it expires no more.
    #[inline]
    pub(crate) fn next_expired(&mut self, now: Instant) -> Option<BundleKey> {
        let now = match planted(Mutant::ExpiryPutOff) {
            true => Instant::START + now.since(Instant::START).saturating_sub(PUT_OFF),
            false => now,
        };
        self.expiries.pop(&mut self.bundles, now)
    }

    #[inline]
    #[cfg(any(test, feature = "testing"))]
    pub(crate) const fn expiries(&self) -> &Expiries {
        &self.expiries
    }

    /// Try a bundle again at this instant.
    #[inline]
    pub(crate) fn retry_at(&mut self, until: Instant, key: BundleKey) {
        self.retries.insert((until, key));
    }

    /// Try a bundle no more that was to be tried at this instant.
    #[inline]
    pub(crate) fn end_retry(&mut self, until: Instant, key: BundleKey) {
        self.retries.remove(&(until, key));
        self.verifying.remove(&key);
    }

    /// A bundle that is to be tried by now.
    pub(crate) fn next_retry(&mut self, now: Instant) -> Option<BundleKey> {
        let &(at, key) = self.retries.first()?;
        if at > now {
            return None;
        }
        self.retries.remove(&(at, key));
        Some(key)
    }

    /// Bundles that are tried again, in order.
    #[inline]
    #[cfg(any(test, feature = "testing"))]
    pub(crate) const fn retries(&self) -> &BTreeSet<(Instant, BundleKey)> {
        &self.retries
    }

    /// When bundles expire or are tried again.
    #[inline]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let retry = self.retries.first().map(|&(at, _)| at);
        let expiry = self.expiries.next();
        let expiry = expiry.map(|at| match planted(Mutant::ExpiryPutOff) {
            true => at + PUT_OFF,
            false => at,
        });
        [expiry, retry].into_iter().flatten().min()
    }

    /// The store compares a bundle with its checksums.
    #[inline]
    pub(crate) fn begin_verification(&mut self, key: BundleKey) {
        self.verifying.insert(key);
    }

    #[inline]
    pub(crate) fn end_verification(&mut self, key: BundleKey) {
        self.verifying.remove(&key);
    }

    /// Bundles that the store is comparing with their checksums.
    #[inline]
    pub(crate) fn verifications(&self) -> usize {
        self.verifying.len()
    }

    /// Bundles that are coming in and kept in parts.
    #[inline]
    pub(crate) const fn reactive(&self) -> &BTreeMap<BundleKey, Reactive> {
        &self.reactive
    }

    #[inline]
    pub(crate) fn reactive_mut(&mut self) -> &mut BTreeMap<BundleKey, Reactive> {
        &mut self.reactive
    }

    /// Their parts on their way into the store.
    #[inline]
    #[cfg(any(test, feature = "testing"))]
    pub(crate) const fn reactive_fragments(&self) -> &BTreeMap<BundleKey, ReactiveFragment> {
        &self.reactive_fragments
    }

    #[inline]
    pub(crate) fn reactive_fragments_mut(&mut self) -> &mut BTreeMap<BundleKey, ReactiveFragment> {
        &mut self.reactive_fragments
    }

    /// The read that the driver has answered.
    #[inline]
    pub(crate) fn end_read(&mut self, ticket: u64) -> Option<PendingRead> {
        self.reads.remove(ticket)
    }

    #[inline]
    pub(crate) const fn reads(&self) -> &Series<PendingRead> {
        &self.reads
    }

    /// A reader for the headers of bundles that come in, to be given back.
    #[inline]
    pub(crate) fn take_reader(&mut self) -> Box<HeaderReader> {
        self.headers_in.take().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn give_reader_back(&mut self, reader: Box<HeaderReader>) {
        self.headers_in = Some(reader);
    }

    /// The queues of recovered bundles are there.
    #[inline]
    pub(crate) fn end_expectation(&mut self) {
        self.expected_octets = 0;
    }

    /// A bundle that is removed shares no octets any more.
    #[inline]
    pub(crate) fn end_sharing(&mut self, key: BundleKey) {
        self.sharing.release(key);
    }

    /// The room of a bundle that is being deleted is for others from now on.
    pub(crate) fn begin_leaving(&mut self, key: BundleKey) {
        if let Some(entry) = self.bundles.entry(key)
            && entry.state() == retention::State::Deleting
        {
            self.leaving.begin(key, entry.octets());
        }
    }

    /// A bundle that is removed has given its room away, and no more than that.
    #[inline]
    pub(crate) fn end_leaving(&mut self, key: BundleKey) {
        self.leaving.end(key);
    }

    /// Take one of the bundles for which memory was counted; false where it is to be counted again.
    #[inline]
    pub(crate) fn take_memory_credit(&mut self) -> bool {
        let has_any = self.memory_credit > 0;
        self.memory_credit -= u64::from(has_any);
        has_any
    }

    /// So many bundles find memory before it is counted again.
    #[inline]
    pub(crate) fn give_memory_credit(&mut self, bundles: u64) {
        self.memory_credit = bundles;
    }

    /// Octets of memory that the tables of bundles take, those of the endpoint IDs that they name included.
    pub(crate) fn memory_octets(&self) -> usize {
        (self.bundles.memory_octets())
            .saturating_add(self.endpoints.memory_octets())
            .saturating_add(self.expected_octets)
            .saturating_add(self.expiries.memory_octets())
            .saturating_add(self.removed.memory_octets())
            .saturating_add(self.arrivals.memory_octets())
            .saturating_add(self.custody.memory_octets())
            .saturating_add(tree_octets::<(BundleKey, u64)>(self.permits.len()))
            .saturating_add(tree_octets::<(BundleKey, u8)>(self.depths.len()))
            .saturating_add(tree_octets::<(Instant, BundleKey)>(self.retries.len()))
    }

    #[inline]
    pub(crate) const fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    #[inline]
    pub(crate) fn endpoints_mut(&mut self) -> &mut Endpoints {
        &mut self.endpoints
    }

    pub(crate) fn new(config: &Config) -> Self {
        Self {
            endpoints: Endpoints::new(Local::new(config), config.seed),
            bundles: Bundles::new(config.seed),
            arrivals: Arrivals::default(),
            rivals: Rivals::default(),
            backlog: Backlog::default(),
            reactive: BTreeMap::new(),
            reactive_fragments: BTreeMap::new(),
            retracted: Retracted::new(),
            sharing: Sharing::default(),
            leaving: Leaving::default(),
            unreserved_octets: 0,
            disk_room: DiskRoom::default(),
            expected_octets: 0,
            memory_credit: 0,
            reassembly: Reassembly::default(),
            expiries: Expiries::default(),
            retries: BTreeSet::new(),
            verifying: BTreeSet::new(),
            moved: BTreeSet::new(),
            reads: Series::default(),
            first_read: config.first_read,
            removed: Removed::new(config.removed_bound, remembered_octets(config), config.seed),
            creation: Creation::default(),
            custody: HeldCustody::new(config),
            permits: BTreeMap::new(),
            depths: BTreeMap::new(),
            headers_in: None,
        }
    }

    /// A bundle held under this identity.
    pub(crate) fn find_bundle(&self, id: &BundleId) -> Option<BundleKey> {
        let source: EndpointIndex = self.endpoints.find(&id.source)?;
        self.bundles.find(&Identity {
            source,
            creation: id.creation,
            fragment: id.fragment,
        })
    }

    /// Hold a bundle that this node makes.
    pub(crate) fn hold_new(
        &mut self,
        now: Now,
        builder: &BundleBuilder,
        header: &OutgoingHeader,
    ) -> BundleKey {
        let header_octets = u64::try_from(header.octets.len()).unwrap_or(u64::MAX);
        let octets = [header_octets, header.payload.length, header.total_octets()];
        let version = builder.version();
        let properties = (builder.priority(), false);
        self.hold_made(now, version, builder.primary(), octets, properties)
    }

    /// Hold a bundle that this node makes: octets of its header, of its payload, and of all.
    pub(crate) fn hold_made(
        &mut self,
        now: Now,
        version: Version,
        primary: &PrimaryBlock,
        [header_octets, payload_octets, octets]: [u64; 3],
        (priority, reads_aggregated_reports): (Priority, bool),
    ) -> BundleKey {
        let entry = NewEntry {
            source: self.endpoints.acquire(&primary.source),
            destination: self.endpoints.acquire(&primary.destination),
            report_to: self.endpoints.acquire(&primary.report_to),
            previous: None,
            creation: primary.creation,
            fragment: None,
            version,
            flags: primary.flags.bits(),
            reads_aggregated_reports,
            priority,
            lifetime_ms: primary.lifetime_ms,
            held: HeldTime::Arriving(Received {
                at: now.monotonic,
                dtn: now.dtn,
                age_ms: 0,
            }),
            expires: now.monotonic + Duration::from_millis(primary.lifetime_ms),
            header_octets: u32::try_from(header_octets).unwrap_or(u32::MAX),
            payload_octets,
            octets,
            sound_until: now.monotonic + FRESH,
            returns: 0,
            hops: Some(0),
        };
        self.bundles.insert(entry)
    }

    /// Ask the driver for octets of the store.
    #[inline]
    pub(crate) fn read(&mut self, out: &mut Outbox, pending: PendingRead, extents: Extents) {
        let ticket = out.ticket();
        self.reads.push(ticket.0, pending);
        out.act(Action::Read { ticket, extents });
    }

    /// The record that the store keeps of a bundle that is coming in.
    pub(crate) fn stored_bundle(&self, entry: &Entry) -> StoredBundle {
        let (fragment, reception) = (entry.fragment(), entry.reception());
        StoredBundle {
            id: self.bundle_id(entry),
            destination: self.endpoints.id(entry.destination()).clone(),
            report_to: self.endpoints.id(entry.report_to()).clone(),
            version: entry.version().number(),
            flags: entry.flags(),
            lifetime_ms: entry.lifetime_ms(),
            age_at_reception_ms: reception.age_ms,
            received: reception.dtn,
            header_octets: entry.header_octets(),
            payload_octets: entry.payload_octets(),
            total_adu_octets: fragment.map_or(0, |fragment| fragment.total_octets),
            previous: entry
                .previous()
                .map(|index| self.endpoints.id(index).clone()),
            reads_aggregated_reports: entry.reads_aggregated_reports(),
            priority: entry.priority(),
            note: Bytes::new(),
        }
    }

    pub(crate) fn bundle_id(&self, entry: &Entry) -> dhow_bundle::BundleId {
        dhow_bundle::BundleId {
            source: self.endpoints.id(entry.source()).clone(),
            creation: entry.creation(),
            fragment: entry.fragment().map(|fragment| fragment.range),
        }
    }

    /// A bundle's octets are complete: keep it.
    pub(crate) fn commit(
        &mut self,
        adjacencies: &mut Adjacencies,
        out: &mut Outbox,
        key: BundleKey,
    ) {
        let Some(entry) = self.bundles.entry(key) else {
            return;
        };
        let mut bundle = Box::new(self.stored_bundle(entry));
        if entry.version() == Version::V6 {
            bundle.note = self.custody_note(key);
        } else {
            bundle.note = self.permits_note(key);
        }
        let (octets, begun) = (entry.octets(), entry.received());
        out.store(StoreCommand::Commit { key, bundle });
        out.stepped(self, key, || Step::Arrived { begun });
        let origin = self.arrivals.get(key).map(|arrival| arrival.origin);
        if let Some(Origin::Neighbour { session, transfer }) = origin
            && planted(Mutant::AcknowledgedAtCommit)
            && let Some(neighbour) = adjacencies.neighbour_mut(session)
        {
            let now = Now {
                monotonic: Instant::START,
                dtn: dhow_bundle::DtnTime::UNKNOWN,
            };
            neighbour.command(now, LinkCommand::Acknowledge { transfer, octets });
        }
    }

    /// A bundle's identity for drivers that are told of every event.
    #[inline]
    pub(crate) fn told(&self, out: &mut Outbox, entry: &Entry) -> Option<BundleId> {
        (out.telling.is_of_bundles()).then(|| self.bundle_id(entry))
    }

    /// Whether a bundle is smaller than what the neighbour refused for lack of room.
    pub(crate) fn is_below(&self, neighbour: &Neighbour, key: BundleKey) -> bool {
        let octets = self.bundles.entry(key).map_or(0, |entry| entry.octets());
        neighbour
            .ceiling_octets()
            .is_none_or(|ceiling| octets < ceiling)
    }
}

/// Octets of memory that identities of removed bundles may take.
fn remembered_octets(config: &Config) -> usize {
    usize::try_from(config.memory_octets / REMEMBERED_SHARE).unwrap_or(usize::MAX)
}
