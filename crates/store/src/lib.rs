//! The durable bundle store: one append-only log in fixed-size segments that are recycled in place.
//!
//! This room knows a [`Disk`] and the vocabulary of `dhow_bundle::storage`; it must never know a clock, a
//! socket or what is in a bundle, nor a thread but those that a file's disk has for itself. `docs/store-format.md` gives the log to the octet.
//!
//! Start at [`store`] (commands in, events out), then `log` (writing), `segment` (what may be written over), `arriving`,
//! `gaps`, `places`, `removal`, `note`, `compaction` (what commands do), `room`, `checkpoint` and `preparation` (upkeep), and `recovery`, `walk`, `tail`, `replay`, `image`, `loss` (opening), `closing`.
//!
//! ```
//! use std::sync::Arc;
//! use dhow_bundle::storage::{BundleKey, Piece, StoreCommand, StoreEvent};
//! use dhow_store::{MemoryDisk, Options, Store};
//!
//! let (mut store, recovered) = Store::open(Arc::new(MemoryDisk::new()), Options::default())?;
//! assert_eq!(recovered.bundles.count(), 0);
//! let octets = Piece::Octets(bytes::Bytes::from_static(b"a bundle"));
//! store.handle([StoreCommand::Append { key: BundleKey(0), octets, crc: None }]);
//! let mut events = Vec::new();
//! store.commit(&mut events);
//! assert!(matches!(events.as_slice(), [StoreEvent::Durable { octets: 8, .. }]));
//! # Ok::<(), dhow_store::OpenError>(())
//! ```

mod arriving;
mod bodies;
mod checkpoint;
mod closing;
mod compaction;
mod deferred_sync;
pub mod disk;
mod error;
mod gaps;
mod image;
mod log;
mod loss;
mod note;
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod places;
mod preparation;
mod reader;
mod record;
mod recovery;
mod removal;
mod removed;
mod replay;
mod reserve;
mod segment;
mod slot;
pub mod store;
mod superblock;
mod tail;
mod walk;
mod wire;

pub use compaction::Verdict;
pub use disk::{
    BUFFER_OCTETS, Buffers, CachingDisk, Chunk, Disk, DiskError, FileDisk, History, LockError,
    MemoryDisk,
};
#[cfg(any(test, feature = "testing"))]
pub use disk::{Failure, FaultyDisk};
pub use error::OpenError;
pub use image::RecoveredBundles;
pub use loss::{Cause, Count, EarlyEnd, LOST_PLACES_MAX, Loss, LostPlace};
pub use reader::StoreReader;
pub use recovery::{Origin, Recovered};
pub use store::{Durability, Options, Statistics, Store};
pub use superblock::{SEGMENT_OCTETS_MAX, SEGMENT_OCTETS_MIN};
