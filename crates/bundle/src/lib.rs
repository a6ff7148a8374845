//! Bundles as values: endpoint IDs, blocks, codecs, administrative records, and the vocabulary that
//! every other crate shares.
//!
//! This room never knows a socket, a disk or a clock. Start reading at [`time`] (what time is here),
//! [`eid`] (who), [`id`] (which bundle), then `header` (what a bundle begins with) and [`storage`]
//! (how a node and its store talk).
#![no_std]

extern crate alloc;

pub mod cbor;
pub mod eid;
pub mod id;
pub mod reading;
pub mod storage;
pub mod time;

pub use eid::{EidPattern, EndpointId, NodeId};
pub use id::{BundleId, CreationTimestamp, FragmentRange};
pub use reading::{Oddity, Reading};
pub use time::{DtnTime, Instant, Now};
