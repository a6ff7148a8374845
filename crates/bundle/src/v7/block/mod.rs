//! Blocks (RFC 9171 4.3, 4.4), of which a bundle consists.
//!
//! `primary.rs` is the block that every bundle begins with, `canonical.rs` the form of all others,
//! `blocks.rs` those of a header, `extension.rs` the content of those that every node understands, `flags.rs` both kinds of flags.

mod blocks;
mod canonical;
mod extension;
mod flags;
mod primary;

pub use blocks::{ExtensionBlock, ExtensionBlocks};
pub use canonical::{BlockType, CanonicalBlock};
pub use extension::HopCount;
pub use flags::{BlockFlags, BundleFlags};
pub use primary::{FragmentPlace, PrimaryBlock};

pub(crate) use canonical::{BlockHead, verify_block_end};
pub(crate) use extension::{
    announces_aggregated_reports, decode_bundle_age, decode_hop_count, decode_previous_node,
    encode_aggregated_reports, encode_bundle_age, encode_hop_count, security_targets,
};
