//! The bundles that this node holds: what comes into the store, what is in it, and what is remembered of what was.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::neighbour::Neighbour;
use crate::driver::Action;
use crate::driver::Telling;
use crate::held::arrivals::Origin;
use crate::held::bundles::Entry;
use crate::held::bundles::Identity;
use crate::held::bundles::{HeldTime, NewEntry, Received};
use crate::held::endpoints::EndpointIndex;
use crate::outbox::Outbox;
pub(crate) mod arrivals;
pub(crate) mod backlog;
pub(crate) mod bundles;
pub(crate) mod chain;
pub(crate) mod creation;
pub(crate) mod departures;
pub(crate) mod endpoints;
mod entry;
pub(crate) mod expiries;
mod index;
pub(crate) mod moved;
pub(crate) mod onward;
pub(crate) mod reactive;
pub(crate) mod reassembly;
pub(crate) mod recovery;
pub(crate) mod removed;
pub(crate) mod retention;
pub(crate) mod room;
pub(crate) mod sharing;
pub(crate) mod verification;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
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
use dhow_bundle::{HeaderReader, Instant};

use crate::config::Config;
use crate::held::arrivals::Arrivals;
use crate::held::backlog::Backlog;
use crate::held::bundles::Bundles;
use crate::held::creation::Creation;
use crate::held::endpoints::Endpoints;
use crate::held::expiries::Expiries;
use crate::held::reactive::{Reactive, ReactiveFragment, Retracted};
use crate::held::reassembly::Reassembly;
use crate::held::removed::Removed;
use crate::held::room::DiskRoom;
use crate::held::sharing::Sharing;
use crate::local::Local;
use crate::sending::PendingRead;
use crate::series::Series;

/// Octets that came this long ago are still those that came; after it they are compared with their
/// checksums before an application gets them.
pub(crate) const FRESH: Duration = Duration::from_secs(1);

/// The part of the memory that identities of removed bundles may take is one of so many.
const REMEMBERED_SHARE: u64 = 8;

/// All bundles here.
pub(crate) struct Held {
    pub(crate) endpoints: Endpoints,
    pub(crate) bundles: Bundles,
    pub(crate) arrivals: Arrivals,
    pub(crate) backlog: Backlog,
    /// Parts that are kept of bundles that are coming in.
    pub(crate) reactive: BTreeMap<BundleKey, Reactive>,
    /// Those parts on their way into the store.
    pub(crate) reactive_fragments: BTreeMap<BundleKey, ReactiveFragment>,
    pub(crate) retracted: Retracted,
    /// The octets that they and the bundles have in common.
    pub(crate) sharing: Sharing,
    /// Octets of bundles that are coming in, for which no room is reserved yet.
    pub(crate) unreserved_octets: u64,
    pub(crate) disk_room: DiskRoom,
    /// Octets of memory that the queues of recovered bundles will take.
    pub(crate) expected_octets: usize,
    /// So many bundles find memory before it is counted again.
    pub(crate) memory_credit: u64,
    pub(crate) reassembly: Reassembly,
    pub(crate) expiries: Expiries,
    /// When bundles that a neighbour refused are tried again.
    pub(crate) retries: BTreeSet<(Instant, BundleKey)>,
    /// Bundles that the store is comparing with their checksums.
    pub(crate) verifying: BTreeSet<BundleKey>,
    /// Bundles whose octets moved in the store while somebody may still read the old places.
    pub(crate) moved: BTreeSet<BundleKey>,
    /// Reads that the driver has not answered, by ticket.
    pub(crate) reads: Series<PendingRead>,
    pub(crate) removed: Removed,
    pub(crate) creation: Creation,
    /// Reads the headers of bundles that come in.
    pub(crate) headers_in: Option<Box<HeaderReader>>,
}

impl Held {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            endpoints: Endpoints::new(Local::new(config), config.seed),
            bundles: Bundles::new(config.seed),
            arrivals: Arrivals::default(),
            backlog: Backlog::default(),
            reactive: BTreeMap::new(),
            reactive_fragments: BTreeMap::new(),
            retracted: Retracted::new(),
            sharing: Sharing::default(),
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
            removed: Removed::new(config.removed_bound, remembered_octets(config), config.seed),
            creation: Creation::default(),
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
        self.hold_made(now, builder.primary(), octets)
    }

    /// Hold a bundle that this node makes: octets of its header, of its payload, and of all.
    pub(crate) fn hold_made(
        &mut self,
        now: Now,
        primary: &PrimaryBlock,
        [header_octets, payload_octets, octets]: [u64; 3],
    ) -> BundleKey {
        let entry = NewEntry {
            source: self.endpoints.acquire(&primary.source),
            destination: self.endpoints.acquire(&primary.destination),
            report_to: self.endpoints.acquire(&primary.report_to),
            previous: None,
            creation: primary.creation,
            fragment: None,
            flags: primary.flags.bits(),
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
            version: 7,
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
        let bundle = Box::new(self.stored_bundle(entry));
        let octets = entry.octets();
        out.store(StoreCommand::Commit { key, bundle });
        let origin = self.arrivals.get(key).map(|arrival| arrival.origin);
        if let Some(Origin::Neighbour { stream, transfer }) = origin
            && planted(Mutant::AcknowledgedAtCommit)
            && let Some(neighbour) = adjacencies.neighbour_mut(stream)
        {
            let now = Now {
                monotonic: Instant::START,
                dtn: dhow_bundle::DtnTime::UNKNOWN,
            };
            neighbour.command(now, LinkCommand::Acknowledge { transfer, octets });
        }
    }

    /// A bundle's identity for whoever is told of what happens to every bundle.
    pub(crate) fn told(&self, out: &mut Outbox, entry: &Entry) -> Option<BundleId> {
        (out.telling == Telling::Everything).then(|| self.bundle_id(entry))
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
