//! Bundles between versions 6 and 7 of the Bundle Protocol (`docs/gateway.md`): header blocks of one version as those of the other. The payload
//! passes untouched, but for administrative records.
//!
//! Pure functions: nothing here knows a store, a link or a clock. Start reading at [`identity`] (a bundle stays the same bundle), then at
//! [`v7_of`] (`to_v7.rs`) and [`v6_of`] (`to_v6.rs`), or at [`crossed`] for a bundle as a node holds it. Blocks that the other version has no place for are chosen in `fate.rs` and travel in the
//! gateway block (`of_v6.rs`, `of_v7.rs`; `remembered.rs` for programs that show it).

mod crossing;
mod edit;
mod endpoint;
mod fate;
mod flags;
pub mod identity;
mod lifetime;
mod of_v6;
mod of_v7;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod place;
mod record;
pub mod remembered;
mod to_v6;
mod to_v7;
pub mod untranslatable;

#[cfg(test)]
mod tests;

pub use crossing::{Crossed, crossed, record_crossed};
pub use edit::{AgeDialect, Edit};
pub(crate) use of_v7::{count_hops, hop_count_of};
pub use record::{record_to_v6, record_to_v7};
pub use to_v6::{OutgoingV6, v6_of};
pub use to_v7::v7_of;
pub use untranslatable::Untranslatable;

/// Type of the gateway block in version 7: one of those for private use (RFC 9171 9.1).
pub const GATEWAY_BLOCK_V7: crate::v7::block::BlockType = crate::v7::block::BlockType(213);

/// Type of the gateway block in version 6: one of those for private use (RFC 5050 4.5.2).
pub const GATEWAY_BLOCK_V6: crate::v6::BlockType = crate::v6::BlockType(213);

/// The hop limit of a bundle in version 7, also for crossings, where nothing sets one: each router on a long way, and no circle for long.
pub const DEFAULT_HOP_LIMIT: u8 = 30;

/// Blocks that one bundle takes along into the other version, at most: real bundles have up to 4.
pub const MAX_REMEMBERED_BLOCKS: usize = 16;

/// Octets of content of the blocks that one bundle takes along, at most: they are in every fragment.
pub const MAX_REMEMBERED_OCTETS: usize = 4_096;
