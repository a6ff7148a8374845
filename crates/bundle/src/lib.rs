//! Bundles as values: endpoint IDs, blocks, codecs, administrative records, and the vocabulary that
//! every other crate shares.
//!
//! This room never knows a socket, a disk or a clock. Start reading at [`time`] (what time is here),
//! [`eid`] (who), [`id`] (which bundle), then [`header`] (a bundle of either version), [`v7`] and [`v6`] (the versions on the wire), [`gateway`] (either as the other) and [`storage`] (how a node and
//! its store talk).
#![no_std]

extern crate alloc;

mod builder;
pub mod cbor;
pub mod crc;
pub mod eid;
pub mod gateway;
pub mod header;
pub mod header_reader;
pub mod id;
pub mod mutant;
pub mod payload;
pub mod priority;
pub mod protocol;
pub mod reading;
pub mod router;
pub mod short;
pub mod small_buffer;
pub mod storage;
pub mod template;
pub mod time;
pub mod v6;
pub mod v7;
pub mod version;

pub use builder::{BundleBuilder, OutgoingHeader};
pub use crc::CrcType;
pub use eid::{EidPattern, EndpointId, NodeId};
pub use header::{Header, MAX_HEADER_OCTETS, PayloadHead};
pub use header_reader::HeaderReader;
pub use id::{BundleId, CreationTimestamp, FragmentRange};
pub use payload::{Bundle, PayloadCrc, PayloadVerifier};
pub use priority::{ClassOfService, Priority};
pub use protocol::Protocol;
pub use reading::{Deviation, Reading};
pub use router::RouterKind;
pub use small_buffer::SmallBuffer;
pub use template::HeaderTemplate;
pub use time::{DtnTime, Instant, Now};
pub use v7::block::{
    BlockFlags, BlockType, BundleFlags, CanonicalBlock, ExtensionBlock, FragmentPlace, HopCount,
    PrimaryBlock,
};
pub use v7::forward::HopEdit;
pub use v7::refusal::Refusal;
pub use version::Version;
