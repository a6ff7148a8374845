//! The bundle storage of a machine: the real store on a simulated disk, or a sparse store.

use std::sync::Arc;

use bytes::Bytes;
use dhow_bundle::storage::{Extent, Extents, StoreCommand, StoreEvent, StoredBundle};
use dhow_bundle::{BundleId, DtnTime};
use dhow_scenario::scenario::Fidelity;
use dhow_store::{Disk, Loss, OpenError, Options, Store};

use crate::disk::{Blow, Hand, SimDisk};
use crate::entropy::Entropy;
use crate::sparse_store::SparseStore;

/// The octets that outlive the machine's crashes, and the store that works on them while it is up.
pub enum Storage {
    /// A log, at octet fidelity.
    Log {
        /// The disk, which outlives crashes.
        disk: Arc<SimDisk>,
        /// The store on it, while the machine is up.
        store: Option<Box<Store>>,
    },
    /// A sparse store, at bundle fidelity.
    SparseStore(Box<SparseStore>),
}

/// The content of a store at a restart.
#[derive(Debug)]
pub struct Found {
    /// Bundles, of which the node is told in this order.
    pub bundles: Vec<(StoredBundle, Extents)>,
    /// Creation timestamps reserved.
    pub reserved: (DtnTime, u64),
    /// Identities of removed bundles and when they expire.
    pub removed: Vec<(BundleId, DtnTime)>,
    /// The bundles that the store says it has lost.
    pub loss: Loss,
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Log { .. } => "Log",
            Self::SparseStore(_) => "Shelf",
        })
    }
}

impl Storage {
    /// An empty one: a disk that has room for a log of so many octets, or a sparse store that remembers so many identities.
    #[must_use]
    pub fn new(
        fidelity: Fidelity,
        (hand, capacity_octets): (Hand, u64),
        removed_bound: usize,
    ) -> Self {
        match fidelity {
            Fidelity::Octet => Self::Log {
                disk: SimDisk::new(hand, capacity_octets).into(),
                store: None,
            },
            Fidelity::Bundle => Self::SparseStore(SparseStore::new(removed_bound).into()),
        }
    }

    /// From now on flushes make nothing durable.
    pub fn lie(&mut self) {
        match self {
            Self::Log { disk, .. } => disk.lie(),
            Self::SparseStore(sparse_store) => sparse_store.lie(),
        }
    }

    /// A process begins to work on it.
    ///
    /// # Errors
    /// The disk does not hold what a store can be opened from.
    pub fn open(&mut self, options: &Options) -> Result<Found, OpenError> {
        match self {
            Self::Log { disk, store } => {
                let shared: Arc<dyn Disk> = Arc::<SimDisk>::clone(disk);
                let (opened, recovered) = Store::open(shared, options.clone())?;
                // Opening is done when it has flushed what it wrote.
                disk.finish_flush();
                *store = Some(Box::new(opened));
                let bundles = recovered.bundles;
                Ok(Found {
                    bundles: bundles.map(|(_, bundle, at)| (bundle, at)).collect(),
                    reserved: (recovered.reserved_time, recovered.reserved_sequence),
                    removed: recovered.removed,
                    loss: recovered.loss,
                })
            }
            Self::SparseStore(sparse_store) => Ok(Found {
                bundles: sparse_store.open(),
                reserved: sparse_store.reserved(),
                removed: sparse_store.removed(),
                loss: Loss::default(),
            }),
        }
    }

    /// The machine is struck: the process is gone, and the disk has from now on the octets that a restart finds.
    pub fn strike(&mut self, blow: Blow, entropy: &mut Entropy) {
        match self {
            Self::Log { disk, store } => {
                *store = None;
                disk.strike(blow, entropy);
            }
            Self::SparseStore(sparse_store) => sparse_store.strike(blow, entropy),
        }
    }

    /// The bundles that a restart would find.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn left(&mut self, options: &Options) -> Result<Vec<StoredBundle>, OpenError> {
        if let Self::SparseStore(sparse_store) = self {
            return Ok(sparse_store.bundles().cloned().collect());
        }
        let bundles = self.open(options)?.bundles;
        Ok(bundles.into_iter().map(|(bundle, _)| bundle).collect())
    }

    /// Does what a batch of commands says, without a flush.
    pub fn handle(&mut self, commands: impl IntoIterator<Item = StoreCommand>) {
        match self {
            Self::Log { store, .. } => {
                if let Some(store) = store {
                    store.handle(commands);
                }
            }
            Self::SparseStore(sparse_store) => sparse_store.handle(commands),
        }
    }

    /// Adds what need not wait for a flush to `out`.
    pub fn written(&mut self, out: &mut Vec<StoreEvent>) {
        if let Self::Log {
            store: Some(store), ..
        } = self
        {
            store.written(out);
        }
    }

    /// Begins to make durable what was written; how many flushes that takes.
    pub fn sync(&mut self) -> u64 {
        match self {
            Self::Log { disk, store } => {
                let before = disk.flushes();
                if let Some(store) = store {
                    store.sync();
                }
                disk.flushes() - before
            }
            Self::SparseStore(sparse_store) => sparse_store.sync(),
        }
    }

    /// Looks how much room the disk has, and adds events about it to `out`.
    pub fn tell_capacity(&mut self, out: &mut Vec<StoreEvent>) {
        if let Self::Log {
            store: Some(store), ..
        } = self
        {
            store.tell_capacity(out);
        }
    }

    /// The flushes have ended: adds what is true now to `out`.
    pub fn settle(&mut self, out: &mut Vec<StoreEvent>) {
        match self {
            Self::Log { disk, store } => {
                disk.finish_flush();
                if let Some(store) = store {
                    store.settle(out);
                    store.tell_capacity(out);
                }
            }
            Self::SparseStore(sparse_store) => {
                sparse_store.finish_flush();
                sparse_store.settle(out);
            }
        }
    }

    /// An octet changes that memory does not have; where it lies, or `None` where nothing may rot.
    pub fn rot(&self, entropy: &mut Entropy) -> Option<u64> {
        match self {
            Self::Log { disk, .. } => disk.rot(entropy),
            Self::SparseStore(_) => None,
        }
    }

    /// Whether one of the octets that lie here is not what was written; `None` where octets cannot rot.
    #[must_use]
    pub fn is_rotten(&self, extents: &[Extent]) -> Option<bool> {
        let Self::Log { disk, .. } = self else {
            return None;
        };
        let mut places = extents.iter();
        Some(places.any(|it| disk.is_rotten(it.offset..it.offset.saturating_add(it.length))))
    }

    /// From now on the disk has room for a log of so many octets.
    pub fn limit(&self, octets: u64) {
        if let Self::Log { disk, .. } = self {
            disk.limit(octets);
        }
    }

    /// From now on, or no longer, nothing can be written.
    pub fn fill(&self, full: bool) {
        if let Self::Log { disk, .. } = self {
            disk.fill(full);
        }
    }

    /// The next flush fails, or not.
    pub fn fail(&self, fails: bool) {
        if let Self::Log { disk, .. } = self {
            disk.fail(fails);
        }
    }

    /// Flushes that have begun; none is counted where there is no disk.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        match self {
            Self::Log { disk, .. } => disk.flushes(),
            Self::SparseStore(_) => 0,
        }
    }

    /// Whether the disk has refused something, and the store therefore everything since.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self, Self::Log { store: Some(store), .. } if store.failure().is_some())
    }

    /// Whether the store has something to do before it gives all room that was made, though nothing is asked of it.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        matches!(self, Self::Log { store: Some(store), .. } if store.is_unsettled())
    }

    /// Octets of the log that have their room on the disk, and of one of its segments; `None` where there is no log.
    #[must_use]
    pub fn log_octets(&self) -> Option<(u64, u32)> {
        match self {
            Self::Log {
                disk,
                store: Some(store),
            } => Some((disk.taken_octets(), store.segment_octets())),
            _ => None,
        }
    }

    /// Forgets remembered identities that have expired.
    pub fn forget_expired(&mut self, now: DtnTime) {
        match self {
            Self::Log { store, .. } => {
                if let Some(store) = store {
                    store.forget_expired(now);
                }
            }
            Self::SparseStore(sparse_store) => sparse_store.forget_expired(now),
        }
    }

    /// The octets of some extents; `None` when they are not there.
    #[must_use]
    pub fn read(&self, extents: &[Extent]) -> Option<Bytes> {
        let Self::Log { disk, .. } = self else {
            return Some(self.sparse_store()?.read(extents)?.join());
        };
        let total: u64 = extents.iter().map(|extent| extent.length).sum();
        let mut out = Vec::with_capacity(usize::try_from(total).ok()?);
        for extent in extents {
            let end = extent.offset.checked_add(extent.length)?;
            if !disk.append_to(extent.offset..end, &mut out) {
                return None;
            }
        }
        Some(out.into())
    }

    /// The sparse store, at bundle fidelity.
    #[must_use]
    pub fn sparse_store(&self) -> Option<&SparseStore> {
        match self {
            Self::Log { .. } => None,
            Self::SparseStore(sparse_store) => Some(sparse_store),
        }
    }

    /// Octets of memory that a disk's contents take.
    #[must_use]
    pub fn memory_octets(&self) -> usize {
        match self {
            Self::Log { disk, .. } => disk.memory_octets(),
            Self::SparseStore(_) => 0,
        }
    }
}
