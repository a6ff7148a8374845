//! Stores stay within their quota, logs within the store's promise for it, and octets that wait for a disk within the queue.

use dhow_bundle::protocol::Transport;
use dhow_node::config::{Config, LinkConfig};

/// Octets that a stream may still give when the queue closes: one chunk and the piece that fills it, and those that they lead to beside their own.
const LAST_OCTETS: u64 = 256 * 1024 + 64 * 1024 + 64 * 1024;

/// Octets that came before others over datagrams, and follow those into the queue when they come: at most so many of all neighbours, and a part of the memory.
const EARLY_OCTETS: u64 = 256 << 20;
const EARLY_PART: u64 = 4;

/// Octets of a log's smallest segments, where all are not smaller.
const UNIT_OCTETS: u64 = 512 * 1024;

/// Octets of a bundle and of its records, at least.
const BUNDLE_OCTETS_LEAST: u64 = 100;

/// Octets of a checkpoint that a stored bundle takes, at most.
const COMMIT_OCTETS: u64 = 5;

/// The bound that is exceeded, if one is: bundles and octets as the node counts them, and octets of the log, where there
/// is one, with its segments' size.
#[must_use]
pub fn beyond(
    config: &Config,
    (bundles, octets): (u64, u64),
    log: Option<(u64, u32)>,
) -> Option<String> {
    if bundles > config.quota_bundles {
        return Some(format!(
            "{bundles} bundles in a store for {}",
            config.quota_bundles
        ));
    }
    if octets > config.quota_octets {
        return Some(format!(
            "{octets} octets in a store for {}",
            config.quota_octets
        ));
    }
    // docs/store-format.md 7: a quarter more than the quota, what is set aside, and three of the largest segments, behind two superblocks.
    let (log_octets, segment_octets) = log?;
    let quota = config.quota_octets;
    let segment = u64::from(segment_octets);
    let unit = segment.min(UNIT_OCTETS);
    let largest = (quota / 16).clamp(unit, segment);
    let most_bundles = config.quota_bundles.min(quota / BUNDLE_OCTETS_LEAST);
    let checkpoint = most_bundles * COMMIT_OCTETS + segment / 2;
    let set_aside = 2 * (checkpoint.div_ceil(unit * 3 / 4) + 1) * unit;
    let most = (quota + quota / 4).saturating_add(set_aside + 3 * largest + 2 * unit);
    (log_octets > most).then(|| format!("a log of {log_octets} octets where {most} are promised"))
}

/// The excess of octets that a store was given over its quota, if there is one: those of bundles that it was told to keep, or that are coming in, and
/// not to delete.
#[must_use]
pub fn crowded(config: &Config, given_octets: u64) -> Option<String> {
    let most = config.quota_octets;
    (given_octets > most)
        .then(|| format!("its disk was given {given_octets} octets of bundles where {most} may be"))
}

/// The excess of octets that wait for a disk over the bound of the queue, if there is one: those given to the store that no flush covers yet.
#[must_use]
pub fn overfull(config: &Config, waiting_octets: u64) -> Option<String> {
    let hears_datagrams = |link: &LinkConfig| link.protocol.transport() == Transport::Udp;
    let early_octets = match config.links.iter().any(hears_datagrams) {
        true => EARLY_OCTETS.min(config.memory_octets / EARLY_PART),
        false => 0,
    };
    let most = config
        .store_queue_octets
        .saturating_add(LAST_OCTETS + early_octets);
    (waiting_octets > most)
        .then(|| format!("{waiting_octets} octets wait for the disk where {most} may"))
}
