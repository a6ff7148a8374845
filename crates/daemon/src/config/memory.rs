//! Memory: one quota, and the share of each part of a node.

use dhow_document::{Document, FileError};
use dhow_node::config::{STORE_QUEUE_OCTETS_MOST, WINDOW_OCTETS_MOST};

use crate::machine::memory_octets;

/// The part of the machine's memory that a node takes at most, where its file does not say: one of so many.
const MACHINE_SHARE: u64 = 4;

/// Least quota: less would not hold a session and a bundle.
const MEMORY_OCTETS_MIN: u64 = 4 << 20;

/// Octets that may wait for the disk: at most what a disk of 2 GB/s with flushes of 5 ms is kept busy by.
const QUEUE_OCTETS: std::ops::RangeInclusive<u64> = 512 << 10..=STORE_QUEUE_OCTETS_MOST;
const QUEUE_SHARE: u64 = 16;

/// Octets of the log that are kept in memory: bundles that come and go in one contact should be there.
const CACHE_OCTETS: std::ops::RangeInclusive<u64> = 256 << 10..=1 << 30;
const CACHE_SHARE: u64 = 4;

/// Buffers of the cache hold a little less than they could: one of so many octets is lost.
const CACHE_LOSS: u64 = 8;

/// Octets on their way to applications and neighbours.
const CLIENT_OCTETS: std::ops::RangeInclusive<u64> = 256 << 10..=256 << 20;
const CLIENT_SHARE: u64 = 8;

/// Octets that a session may have sent and that are not acknowledged: as many as a neighbour of the same kind lets wait for its disk.
const WINDOW_OCTETS: std::ops::RangeInclusive<u64> = 4 << 20..=WINDOW_OCTETS_MOST;
const WINDOW_SHARE: u64 = 16;

/// A log that lies in memory as a whole has so many of four parts of the memory left for it and the index.
const LOG_QUARTERS: u64 = 3;

/// Octets of index that a stored bundle takes in the node and the store, endpoint IDs included.
const BUNDLE_OCTETS: u64 = 512;

/// The index has at least one of so many octets: without it nothing could be taken.
const INDEX_SHARE_MIN: u64 = 8;

/// Bundle keys are 32 bits wide; half of them leaves room for what is arriving and going.
const BUNDLES_MAX: u64 = 1 << 31;

/// The quota of memory, and its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it, octets: index, endpoint IDs, buffers of clients and sessions, cache of the log.
    pub octets: u64,
    /// Octets that may wait for the disk.
    pub queue_octets: u64,
    /// Octets of the log that are kept in memory.
    pub cache_octets: u64,
    /// Octets on their way to applications and neighbours that have not read them.
    pub client_octets: u64,
    /// Octets for the index: bundles, the endpoint IDs that they name, queues, sessions.
    pub index_octets: u64,
    /// Octets of the log where that lies in memory as a whole; 0 where it lies on a disk.
    pub log_octets: u64,
}

impl Memory {
    /// The quota as a node file has it, with the defaults of what the file leaves out.
    ///
    /// # Errors
    /// When it is too little, or the parts that the file names leave too little for the rest.
    pub(super) fn read(document: &Document<'_>) -> Result<Self, FileError> {
        let node = document.one("node")?;
        let store = document.one("store")?;
        let said = node.size("memory");
        if said.is_some_and(|octets| octets < MEMORY_OCTETS_MIN) {
            return Err(document
                .fault(
                    node.line_of("memory"),
                    "'memory' is less than 4MiB: no node could work",
                )
                .with_hint("for example: memory = \"64MiB\""));
        }
        let octets = said.unwrap_or_else(default_octets);
        let (queue, cache) = (store.size("queue"), store.size("memory"));
        // A log that is not written past the page cache has no cache of its own.
        let has_cache = matches!(store.text("durability"), None | Some("sync"));
        let cache = if has_cache { cache } else { Some(0) };
        let mut memory = Self::shared_out(octets, queue, cache);
        if memory.index_octets < octets / INDEX_SHARE_MIN {
            let line = match (queue, cache) {
                (Some(queue), Some(cache)) if cache > queue => store.line_of("memory"),
                (None, Some(_)) => store.line_of("memory"),
                _ => store.line_of("queue"),
            };
            return Err(document
                .fault(
                    line,
                    format!(
                        "of the {octets} octets of memory that the node may take, 'queue' and 'memory' of [store] leave too little for the rest"
                    ),
                )
                .with_hint("give [node] memory more, or these less"));
        }
        if store.text("durability") == Some("memory") {
            memory.log_octets = memory.index_octets / 4 * LOG_QUARTERS;
            memory.index_octets -= memory.log_octets;
        }
        Ok(memory)
    }

    fn shared_out(octets: u64, queue: Option<u64>, cache: Option<u64>) -> Self {
        let share = |of: u64, part: u64, range: &std::ops::RangeInclusive<u64>| {
            (of / part).clamp(*range.start(), *range.end())
        };
        let queue_octets = queue.unwrap_or_else(|| share(octets, QUEUE_SHARE, &QUEUE_OCTETS));
        let left = octets.saturating_sub(queue_octets);
        let cache_octets = cache.unwrap_or_else(|| share(left, CACHE_SHARE, &CACHE_OCTETS));
        let left = left.saturating_sub(with_loss(cache_octets));
        let client_octets = share(left, CLIENT_SHARE, &CLIENT_OCTETS);
        Self {
            octets,
            queue_octets,
            cache_octets,
            client_octets,
            index_octets: left.saturating_sub(client_octets),
            log_octets: 0,
        }
    }

    /// Octets that buffers take, those that wait for the disk and those of the log.
    #[must_use]
    pub const fn buffer_octets(&self) -> u64 {
        self.queue_octets
            .saturating_add(with_loss(self.cache_octets))
    }

    /// Bundles that the index holds, about.
    #[must_use]
    pub fn bundles(&self) -> u64 {
        (self.index_octets / BUNDLE_OCTETS).clamp(1_000, BUNDLES_MAX)
    }

    /// The window of a session that names none.
    pub(super) fn window_octets(&self) -> u64 {
        (self.octets / WINDOW_SHARE).clamp(*WINDOW_OCTETS.start(), *WINDOW_OCTETS.end())
    }
}

/// Octets of buffers that hold so many octets of the log.
const fn with_loss(cache_octets: u64) -> u64 {
    cache_octets.saturating_add(cache_octets / CACHE_LOSS)
}

fn default_octets() -> u64 {
    (memory_octets() / MACHINE_SHARE).max(MEMORY_OCTETS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_in_memory_is_part_of_the_quota() {
        let read = |durability: &str| {
            let text = format!(
                "[node]\nid = [\"ipn:2.0\"]\nmemory = \"64MiB\"\n[store]\ndurability = \"{durability}\""
            );
            let file = crate::config::NodeFile::parse(&text, std::path::Path::new("node.toml"));
            file.expect("it is a node file").memory
        };
        let (sync, memory) = (read("os"), read("memory"));
        assert_eq!(sync.log_octets, 0);
        assert_eq!(
            memory.log_octets + memory.index_octets,
            sync.index_octets,
            "{memory:?}"
        );
        assert!(memory.log_octets > 32 << 20, "{memory:?}");
    }

    #[test]
    fn the_parts_are_no_more_than_the_whole() {
        for octets in [4 << 20, 5 << 20, 16_000_000, 1 << 30, 6 << 30, 1 << 40] {
            for queue in [None, Some(1), Some(1 << 20), Some(octets / 2)] {
                for cache in [None, Some(0), Some(octets / 4)] {
                    let memory = Memory::shared_out(octets, queue, cache);
                    let sum = memory.buffer_octets() + memory.client_octets + memory.index_octets;
                    assert!(sum <= octets, "{octets} {queue:?} {cache:?}: {memory:?}");
                    assert!(
                        memory.index_octets >= octets / INDEX_SHARE_MIN,
                        "{memory:?}"
                    );
                }
            }
        }
        let memory = Memory::shared_out(16_000_000, None, None);
        assert_eq!(memory.queue_octets, 1_000_000);
        assert_eq!(memory.cache_octets, 3_750_000);
        let much = Memory::shared_out(10 << 20, Some(4 << 20), Some(5 << 20));
        assert!(much.index_octets < (10 << 20) / INDEX_SHARE_MIN);
    }
}
