//! Memory that the index of a store needs, where the node may not take as much.

use std::path::PathBuf;

use dhow_node::Node;

use crate::config::NodeFile;

/// An estimate of memory is too small by one of so many parts of it, at most.
const MARGIN_PART: u64 = 16;

/// The part of the index's memory that opening takes beside it, and that the store's memory of removed bundles may have, is one of
/// so many.
pub const OPENING_SHARE: u64 = 16;

/// Tells of bundles that the disk did not give back.
pub fn tell_unread(bundles: u64) {
    if bundles > 0 {
        tracing::error!(
            bundles,
            "the disk did not give back what it had given a moment before: these bundles wait for the next start"
        );
    }
}

/// The index of what a store holds needs more memory than the node may take.
#[derive(Debug, thiserror::Error)]
#[error(
    "the index of the {bundles} bundles in {} needs about {needed} octets of memory, and the node may take {allowed}",
    path.display()
)]
pub struct TooLittleMemory {
    path: PathBuf,
    bundles: usize,
    needed: u64,
    allowed: u64,
}

impl TooLittleMemory {
    /// The hint for the fault.
    pub const HINT: &str = "raise [node] memory to at least that; bundles that are delivered, dropped or expired then free it";

    /// Whether what a node holds so far, of the first `count` of `bundles`, is more than it may.
    ///
    /// # Errors
    /// It is.
    pub fn check(file: &NodeFile, node: &Node, count: u64, bundles: usize) -> Result<(), Self> {
        let (found, allowed) = (node.memory_octets(), file.memory.octets);
        if found <= allowed {
            return Ok(());
        }
        let total = u64::try_from(bundles).unwrap_or(u64::MAX).max(count);
        let all = u128::from(found) * u128::from(total) / u128::from(count.max(1));
        let all = u64::try_from(all).unwrap_or(u64::MAX);
        Err(Self {
            path: file.store.path.clone(),
            bundles,
            needed: all.saturating_add(all / MARGIN_PART),
            allowed,
        })
    }
}
