//! The room that held bundles take, and the bound that they meet.

use crate::config::Config;
use crate::driver::Occurrence;
use crate::held::Held;
use crate::local::Locality;
use crate::outbox::Outbox;
use crate::reception::Refused;
use alloc::format;
use alloc::string::String;
use dhow_bundle::Header;
use dhow_bundle::mutant::Mutant;
use dhow_bundle::mutant::planted;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::storage::Medium;
use dhow_link::stream::RefuseReason;

/// Octets that a bundle reserves at once, at most: all of most bundles.
const AT_ONCE_OCTETS: u64 = 1 << 20;

/// Room is reserved in steps of so many octets, at most.
const STEP_OCTETS: u64 = 256 << 10;

/// Neither is more than one part of the quota in so many, which are as many as there may be neighbours: together they hold little of it.
const BEGUN_SHARE: u64 = 1024;

/// Bundles that reserve so much when they begin to come, at a time. With more of them each reserves less, so that those of a neighbour which begins
/// many blocks at a time take no more than twice the room of so many together.
const BEGUN_MANY: u64 = 64;

/// Octets that a bundle of `total` octets reserves of which `arrived` are here, while so many are coming.
fn reserved(quota: u64, total: u64, arrived: u64, begun: u64) -> u64 {
    let part = (quota / BEGUN_SHARE).max(1);
    let share = |octets: u64| {
        let octets = octets.min(part);
        let less =
            octets.saturating_mul(BEGUN_MANY * BEGUN_MANY) / begun.saturating_mul(begun).max(1);
        octets.min(less).max(1)
    };
    let arrived = arrived.checked_next_multiple_of(share(STEP_OCTETS));
    let wanted = arrived.map_or(u64::MAX, |arrived| arrived.saturating_mul(2));
    total.min(wanted.saturating_add(share(AT_ONCE_OCTETS)))
}

/// A peer is told that so much can be taken, octets, however little the disk has room for: a peer that is told less than a header takes would
/// put its bundles aside, and one that is refused for lack of resources tries again.
const ANNOUNCED_LEAST: u64 = 64 << 10;

/// The room of the disk, or of the memory for bundles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskRoom {
    /// Octets of bundles.
    octets: u64,
    /// The medium that has that room.
    medium: Medium,
    /// The room as the driver was told last.
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

/// A change is told when it is one of so many of the octets that were told before, or more.
const TOLD_SHARE: u64 = 4;

impl Held {
    /// The disk has room for so many octets of bundles; a change that matters is told.
    pub(crate) fn capacity_changed(
        &mut self,
        out: &mut Outbox,
        config: &Config,
        octets: u64,
        medium: Medium,
    ) {
        self.disk_room.octets = octets;
        self.disk_room.medium = medium;
        let (effective, quota) = (self.quota_octets(config), config.quota_octets);
        let told = self.disk_room.told.unwrap_or(quota);
        let is_whole = |octets: u64| octets == quota;
        let is_notable =
            is_whole(effective) != is_whole(told) || effective.abs_diff(told) > told / TOLD_SHARE;
        if is_notable {
            self.disk_room.told = Some(effective);
            out.occurred(Occurrence::QuotaChanged {
                medium,
                effective,
                quota,
            });
        }
    }

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

    /// Octets that stored bundles take, and those that come in have reserved: what the quota is for;
    /// without copies of which the room is given away.
    pub(crate) fn taken_octets(&self) -> u64 {
        let held = self.bundles.octets().saturating_sub(self.sharing.octets());
        let held = held.saturating_sub(self.leaving.octets());
        held.saturating_sub(self.unreserved_octets)
    }

    /// Octets of bundles that come in for which no room is reserved yet.
    pub(crate) const fn unreserved_octets(&self) -> u64 {
        self.unreserved_octets
    }

    /// Stored bundles, and those that come in: what the quota of bundles is for. Parts that are kept of a bundle which comes in
    /// are one bundle with it.
    pub(crate) fn taken_bundles(&self) -> u64 {
        let held = self.bundles.count().saturating_sub(self.sharing.bundles());
        held.saturating_sub(self.leaving.bundles())
    }

    /// A bundle has begun to come in from a neighbour, and reserves no more than it must.
    pub(crate) fn begin_reservation(&mut self, config: &Config, key: BundleKey) {
        let quota = self.quota_octets(config);
        let begun = self.arrivals.begun();
        let Some(entry) = self.bundles.entry(key) else {
            return;
        };
        if let Some(arrival) = self.arrivals.get_mut(key) {
            arrival.unreserved = entry.octets() - reserved(quota, entry.octets(), 0, begun);
            self.unreserved_octets = self.unreserved_octets.saturating_add(arrival.unreserved);
        }
    }

    /// The first `arrived` octets of a bundle are here: reserve room for more of it.
    pub(crate) fn reserve(
        &mut self,
        config: &Config,
        key: BundleKey,
        arrived: u64,
    ) -> Result<(), Refused> {
        let quota = self.quota_octets(config);
        let (Some(entry), Some(arrival)) = (self.bundles.entry(key), self.arrivals.get(key)) else {
            return Ok(());
        };
        let unreserved =
            entry.octets() - reserved(quota, entry.octets(), arrived, self.arrivals.begun());
        let wanted = arrival.unreserved.saturating_sub(unreserved);
        if wanted == 0 || planted(Mutant::StepsNotReserved) {
            return Ok(());
        }
        if self.taken_octets().saturating_add(wanted) > self.quota_octets(config)
            && !planted(Mutant::QuotaOfOctetsIgnored)
        {
            return Err(self.no_room(config, wanted));
        }
        self.unreserved_octets = self.unreserved_octets.saturating_sub(wanted);
        if let Some(arrival) = self.arrivals.get_mut(key) {
            arrival.unreserved = unreserved;
        }
        Ok(())
    }

    /// All of a bundle is here, and blocks behind its payload made it longer than its header said.
    pub(crate) fn lengthen(
        &mut self,
        config: &Config,
        key: BundleKey,
        octets: u64,
    ) -> Result<(), Refused> {
        let known = self
            .bundles
            .entry(key)
            .map_or(octets, |entry| entry.octets());
        let more = octets.saturating_sub(known);
        if more == 0 {
            return Ok(());
        }
        if self.taken_octets().saturating_add(more) > self.quota_octets(config) {
            return Err(self.no_room(config, more));
        }
        self.bundles.lengthen(key, octets);
        Ok(())
    }

    pub(crate) fn full(&self, why: &str) -> Refused {
        let (octets, bundles) = (self.taken_octets(), self.taken_bundles());
        let why = format!("the store holds {octets} octets in {bundles} bundles{why}");
        Refused::new(RefuseReason::NoResources, why)
    }

    pub(crate) fn no_room(&self, config: &Config, octets: u64) -> Refused {
        self.full(&format!(
            " and {} leaves no room for {octets} more",
            self.bound_met(config)
        ))
    }

    /// Fragments of a whole that is for an endpoint here and cannot ever be here would stay until they expire.
    pub(crate) fn check_whole(&self, config: &Config, header: &Header) -> Result<(), Refused> {
        let octets = header.total_adu_octets();
        let is_fragment = header.primary.fragment.is_some();
        let fits = !is_fragment || octets <= self.quota_octets(config);
        if fits || self.endpoints.locality_of(&header.primary.destination) == Locality::Remote {
            return Ok(());
        }
        Err(Refused::not_acceptable(format!(
            "it is a fragment of {octets} octets for an endpoint here, and {} leaves no room for them",
            self.bound_met(config)
        )))
    }
}
