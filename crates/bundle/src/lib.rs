//! Bundles as values: endpoint IDs, blocks, codecs, administrative records, and the vocabulary that
//! every other crate shares.
//!
//! This room never knows a socket, a disk or a clock. Start reading at [`time`] (what time is here),
//! [`eid`] (who), [`id`] (which bundle), then [`v7`] and [`v6`] (the versions on the wire), [`gateway`] (either as the other) and [`storage`] (how a node and
//! its store talk).
#![no_std]

extern crate alloc;

pub mod cbor;
pub mod crc;
pub mod eid;
pub mod gateway;
pub mod id;
pub mod mutant;
pub mod protocol;
pub mod reading;
pub mod router;
pub mod short;
pub mod small_buffer;
pub mod storage;
pub mod time;
pub mod v6;
pub mod v7;

pub use crc::CrcType;
pub use eid::{EidPattern, EndpointId, NodeId};
pub use id::{BundleId, CreationTimestamp, FragmentRange};
pub use protocol::Protocol;
pub use reading::{Deviation, Reading};
pub use router::RouterKind;
pub use small_buffer::SmallBuffer;
pub use time::{DtnTime, Instant, Now};
pub use v7::block::{
    BlockFlags, BlockType, BundleFlags, CanonicalBlock, ExtensionBlock, FragmentPlace, HopCount,
    PrimaryBlock,
};
pub use v7::encode::{BundleBuilder, OutgoingHeader};
pub use v7::forward::HopEdit;
pub use v7::header::{Header, PayloadHead};
pub use v7::header_reader::HeaderReader;
pub use v7::payload::{Bundle, PayloadCrc, PayloadVerifier};
pub use v7::refusal::Refusal;
pub use v7::template::HeaderTemplate;
