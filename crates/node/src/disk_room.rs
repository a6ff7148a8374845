//! The quota that counts: what the node was given, or what the disk has room for where that is less.
//!
//! The store tells how much that is (`StoreEvent::Capacity`), now and then and with hysteresis. The node admits no more, so that a neighbour
//! or an application is refused before the store has to refuse, and with the bound that was met. Stored bundles stay, also where they are
//! more than the disk would take anew.

use crate::adjacencies::Adjacencies;
use crate::attention::Attention;
use crate::config::Config;
use crate::held::Held;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use dhow_bundle::Now;
use dhow_bundle::storage::Medium;

use crate::door::{Occurrence, StreamId};
use crate::node::Node;

/// A change is told when it is one of so many of the octets that were told before, or more.
const TOLD_SHARE: u64 = 4;

/// A peer is told that so much can be taken, octets, however little the disk has room for: a peer that is told less than a header takes would
/// put its bundles aside, and one that is refused for lack of resources tries again.
const ANNOUNCED_LEAST: u64 = 64 << 10;

/// A session ends, so that the peer is told anew, once so many times the transfer MRU can be taken that it was told.
const GROWN: u64 = 2;

/// The room of the disk, or of the memory for bundles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskRoom {
    /// Octets of bundles.
    octets: u64,
    /// The medium that has that room.
    medium: Medium,
    /// As the driver was told last.
    told: Option<u64>,
}

impl Default for DiskRoom {
    fn default() -> Self {
        Self {
            octets: u64::MAX,
            medium: Medium::Disk,
            told: None,
        }
    }
}

impl DiskRoom {
    const fn name(self) -> &'static str {
        match self.medium {
            Medium::Disk => "the disk",
            Medium::Memory => "[node] memory",
        }
    }
}

impl Held {
    /// Octets of bundles that the node takes at present: its quota, or what the disk has room for where that is less.
    pub(crate) fn quota_octets(&self, config: &Config) -> u64 {
        config.quota_octets.min(self.disk_room.octets)
    }

    /// The transfer MRU that a peer is told by a policy that has this one.
    pub(crate) fn announced_mru(&self, config: &Config, wanted: u64) -> u64 {
        wanted.min(self.quota_octets(config).max(ANNOUNCED_LEAST))
    }

    /// The bound of what can be stored, as the subject of a sentence.
    pub(crate) fn bound_met(&self, config: &Config) -> String {
        let (effective, quota) = (self.quota_octets(config), config.quota_octets);
        let medium = self.disk_room.name();
        match effective < quota {
            true => {
                format!("the room that {medium} has for {effective} octets of the quota of {quota}")
            }
            false => format!("its quota of {quota}"),
        }
    }

    /// The bound of what can be stored, as a sentence.
    pub(crate) fn bound_told(&self, config: &Config) -> String {
        let (effective, quota) = (self.quota_octets(config), config.quota_octets);
        let medium = self.disk_room.name();
        match effective < quota {
            true => format!("{medium} has room for {effective} octets of the quota of {quota}"),
            false => format!("it has a quota of {quota} octets"),
        }
    }
}

impl Adjacencies {
    /// Ends sessions whose peers were told a transfer MRU for which the disk had no more room then: what they send would come in pieces
    /// of that size, for as long as the session lasts.
    pub(crate) fn announce_anew(
        &mut self,
        held: &Held,
        attention: &mut Attention,
        config: &Config,
        now: Now,
    ) {
        let is_small = |told: u64, wanted: u64| {
            held.announced_mru(config, wanted) >= told.saturating_mul(GROWN)
        };
        let small: Vec<StreamId> = self
            .neighbours
            .iter()
            .filter(|(_, it)| !it.ending && is_small(it.announced_mru, it.policy.transfer_mru))
            .map(|(stream, _)| *stream)
            .collect();
        for stream in small {
            self.terminate(attention, now, stream);
        }
    }
}

impl Node {
    /// The disk has room for more octets of bundles than before, or for fewer.
    pub(crate) fn capacity_changed(&mut self, now: Now, octets: u64, medium: Medium) {
        let before = self.held.quota_octets(&self.config);
        self.held.disk_room.octets = octets;
        self.held.disk_room.medium = medium;
        let (effective, quota) = (
            self.held.quota_octets(&self.config),
            self.config.quota_octets,
        );
        let told = self.held.disk_room.told.unwrap_or(quota);
        let is_whole = |octets: u64| octets == quota;
        let is_notable =
            is_whole(effective) != is_whole(told) || effective.abs_diff(told) > told / TOLD_SHARE;
        if is_notable {
            self.held.disk_room.told = Some(effective);
            self.outbox.occurred(Occurrence::QuotaChanged {
                medium,
                effective,
                quota,
            });
        }
        if effective > before {
            self.adjacencies
                .announce_anew(&self.held, &mut self.attention, &self.config, now);
        }
    }
}
