//! The bundles that this node holds: what comes into the store, what is in it, and what is remembered of what was.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{HeaderReader, Instant};

use crate::arrivals::Arrivals;
use crate::backlog::Backlog;
use crate::bundles::Bundles;
use crate::config::Config;
use crate::creation::Creation;
use crate::disk_room::DiskRoom;
use crate::endpoints::Endpoints;
use crate::expiries::Expiries;
use crate::local::Local;
use crate::prefix::{Keeping, Prefix, Retracted};
use crate::reassembly::Reassembly;
use crate::removed::Removed;
use crate::sending::PendingRead;
use crate::series::Series;
use crate::sharing::Sharing;

/// The part of the memory that identities of removed bundles may take is one of so many.
const REMEMBERED_SHARE: u64 = 8;

/// All bundles here.
pub(crate) struct Held {
    pub(crate) endpoints: Endpoints,
    pub(crate) bundles: Bundles,
    pub(crate) arrivals: Arrivals,
    pub(crate) backlog: Backlog,
    /// Parts that are kept of bundles that are coming in.
    pub(crate) keepings: BTreeMap<BundleKey, Keeping>,
    /// Those parts on their way into the store.
    pub(crate) prefixes: BTreeMap<BundleKey, Prefix>,
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
    pub(crate) rests: BTreeSet<(Instant, BundleKey)>,
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
            keepings: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            retracted: Retracted::new(),
            sharing: Sharing::default(),
            unreserved_octets: 0,
            disk_room: DiskRoom::default(),
            expected_octets: 0,
            memory_credit: 0,
            reassembly: Reassembly::default(),
            expiries: Expiries::default(),
            rests: BTreeSet::new(),
            verifying: BTreeSet::new(),
            moved: BTreeSet::new(),
            reads: Series::default(),
            removed: Removed::new(config.removed_bound, remembered_octets(config), config.seed),
            creation: Creation::default(),
            headers_in: None,
        }
    }
}

/// Octets of memory that identities of removed bundles may take.
fn remembered_octets(config: &Config) -> usize {
    usize::try_from(config.memory_octets / REMEMBERED_SHARE).unwrap_or(usize::MAX)
}
