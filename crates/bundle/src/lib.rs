//! Bundles as values: endpoint IDs, blocks, codecs, administrative records, and the vocabulary that
//! every other crate shares.
//!
//! This room never knows a socket, a disk or a clock. Start reading at [`time`] (what time is here),
//! [`eid`] (who), [`id`] (which bundle), then `header` (what a bundle begins with) and [`storage`]
//! (how a node and its store talk).
#![no_std]

extern crate alloc;

pub mod admin;
pub mod block;
pub mod cbor;
pub mod crc;
pub mod eid;
pub mod encode;
pub mod forward;
mod glance;
pub mod header;
pub mod header_reader;
pub mod id;
pub mod mutant;
#[doc(hidden)]
pub mod oracle;
pub mod payload;
pub mod quantity;
pub mod reading;
pub mod refusal;
pub mod room;
pub mod short;
pub mod storage;
pub mod template;
pub mod time;

pub use block::{
    BlockFlags, BlockType, BundleFlags, CanonicalBlock, ExtensionBlock, FragmentPlace, HopCount,
    PrimaryBlock,
};
pub use crc::CrcType;
pub use eid::{EidPattern, EndpointId, NodeId};
pub use encode::{BundleBuilder, OutgoingHeader};
pub use forward::HopEdit;
pub use header::{Header, PayloadHead};
pub use header_reader::HeaderReader;
pub use id::{BundleId, CreationTimestamp, FragmentRange};
pub use payload::{Bundle, PayloadCrc, PayloadVerifier};
pub use reading::{Oddity, Reading};
pub use refusal::Refusal;
pub use room::Room;
pub use template::HeaderTemplate;
pub use time::{DtnTime, Instant, Now};
