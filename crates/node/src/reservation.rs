//! Room in the store, and the bundles that get the last of it.
//!
//! Two neighbours that are both full and have bundles for each other would refuse each other's for ever. So a part of the quota is for
//! exchanges alone: only a neighbour that bundles wait for here may fill it, since what it gives makes room there for these. A bundle for
//! an endpoint here goes no further, and may fill it too, as may an echo answer, whose question goes when it comes, and an advert, without which
//! the neighbour would bring what is here.
//!
//! A bundle that is begun is to be brought to its end, so it reserves room; but a peer can announce what it
//! likes, and need never send it. So a bundle reserves as much again as it has brought, and little
//! before that: a node that wants to keep others out of the store must fill it.

use alloc::format;
use dhow_bundle::mutant::{Mutant, planted};

use dhow_bundle::EndpointId;

use crate::adjacencies::session_id::SessionId;
use crate::local::Locality;
use crate::node::Node;
use crate::reception::Refused;

/// The part of the quota that is for exchanges alone is one of so many, as long as that is not more than enough.
const EXCHANGE_SHARE: u64 = 8;

/// Octets that are for exchanges alone, at most.
const EXCHANGE_OCTETS_MAX: u64 = 64 << 20;

/// Bundles that are for exchanges alone, at most.
const EXCHANGE_BUNDLES_MAX: u64 = 1024;

/// Octets of memory that a bundle takes at most, about: three endpoint IDs of 1024 octets, a node's name, and its places in tables. With so many
/// left for each the sum of all tables need not be asked for.
const CREDIT_OCTETS: u64 = 8 << 10;

/// Bundles that are taken before it is asked for again, at most.
const CREDIT_BUNDLES: u64 = 64;

/// The origin of a bundle that wants room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comes<'a> {
    /// The bundle is made here.
    FromHere,
    /// The bundle is made here for the router of a neighbour that is there, and is soon gone.
    ForRouter,
    /// The bundle answers one about as large, which goes when it comes.
    Answer,
    /// An application gives it, for this endpoint.
    Given(&'a EndpointId),
    /// A neighbour brings it over this session, for this endpoint.
    Over(SessionId, &'a EndpointId),
}

/// The rest of the quota, and the part of it that is for exchanges alone.
struct Room {
    left: u64,
    left_bundles: u64,
    kept: u64,
    kept_bundles: u64,
}

/// Octets of a quota that are for exchanges alone.
#[must_use]
pub fn exchange_octets(quota_octets: u64) -> u64 {
    (quota_octets / EXCHANGE_SHARE).min(EXCHANGE_OCTETS_MAX)
}

impl Node {
    /// A full store refuses; it never drops bundles that it has acknowledged.
    pub(crate) fn check_room(&mut self, octets: u64, comes: Comes<'_>) -> Result<(), Refused> {
        let bundles = self.held.taken_bundles();
        let most = self.config.quota_bundles;
        let Room {
            left,
            left_bundles,
            kept,
            kept_bundles,
        } = self.room();
        let fits = left_bundles > 0 && (left >= octets || planted(Mutant::QuotaOfOctetsIgnored));
        self.check_memory(bundles, comes)?;
        // A bundle that fits at all is taken where nothing else is.
        let fits = fits || (left >= octets && planted(Mutant::QuotaOfBundlesIgnored));
        let is_spare = (left_bundles > kept_bundles || planted(Mutant::QuotaOfBundlesIgnored))
            && left.saturating_sub(octets) >= kept;
        match fits && (is_spare || bundles == 0 || self.may_fill(comes)) {
            true => Ok(()),
            false if fits => {
                let bound = match left_bundles > kept_bundles {
                    true => self.held.bound_met(&self.config),
                    false => format!("its quota of {most} bundles"),
                };
                Err(self.held.full(&format!(
                    ", and the rest of {bound} is for exchanges with neighbours that bundles wait for",
                )))
            }
            false => Err(self.held.no_room(&self.config, octets)),
        }
    }

    fn room(&self) -> Room {
        let most = self.config.quota_bundles;
        let quota = self.held.quota_octets(&self.config);
        Room {
            left: quota.saturating_sub(self.held.taken_octets()),
            left_bundles: most.saturating_sub(self.held.taken_bundles()),
            kept: exchange_octets(quota),
            kept_bundles: (most / EXCHANGE_SHARE).min(EXCHANGE_BUNDLES_MAX),
        }
    }

    /// Whether a quarter of the room is left, or less.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let room = self.room();
        let (octets, bundles) = (
            self.held.quota_octets(&self.config),
            self.config.quota_bundles,
        );
        room.left.saturating_sub(room.kept) <= octets / 4
            || room.left_bundles.saturating_sub(room.kept_bundles) <= bundles / 4
    }

    /// The octets and bundles that have to go so that a bundle of so many octets finds room.
    pub(crate) fn wanted_room(&self, octets: u64, comes: Comes<'_>) -> (u64, u64) {
        let mut room = self.room();
        if self.may_fill(comes) {
            (room.kept, room.kept_bundles) = (0, 0);
        }
        let taken = self.held.taken_octets();
        let over = taken.saturating_sub(self.held.quota_octets(&self.config));
        let more = octets.saturating_add(room.kept).saturating_sub(room.left);
        let bundles = (room.kept_bundles + 1).saturating_sub(room.left_bundles);
        (over.saturating_add(more).min(taken), bundles)
    }

    /// A bundle with an endpoint ID that no other names takes memory for as long as it is here. The last part is for exchanges, as of
    /// the quota.
    fn check_memory(&mut self, bundles: u64, comes: Comes<'_>) -> Result<(), Refused> {
        if self.held.take_memory_credit() {
            return Ok(());
        }
        let (taken, most) = (self.memory_octets(), self.config.memory_octets);
        let left = most.saturating_sub(taken);
        let kept = most / EXCHANGE_SHARE;
        let is_spare = bundles == 0 || left >= kept;
        let credit = (left.saturating_sub(kept) / CREDIT_OCTETS).min(CREDIT_BUNDLES);
        self.held.give_memory_credit(credit);
        match left > 0 && (is_spare || self.may_fill(comes)) {
            true => Ok(()),
            false => Err(self.held.full(&format!(
                ", and its index takes {taken} of {most} octets of memory ([node] memory)"
            ))),
        }
    }

    /// Whether a bundle may have the room that is for exchanges.
    fn may_fill(&self, comes: Comes<'_>) -> bool {
        let stays =
            |destination| self.held.endpoints().locality_of(destination) != Locality::Remote;
        // The last room is not for what encapsulates, but for what is in it.
        let is_encapsulating = |destination| {
            self.adjacencies.has_tunnels()
                && self.held.endpoints().locality_of(destination) == Locality::Administrative
        };
        match comes {
            Comes::FromHere => false,
            Comes::ForRouter | Comes::Answer => true,
            Comes::Given(destination) => stays(destination),
            Comes::Over(session, destination) => {
                let neighbour = self.adjacencies.neighbour(session);
                neighbour.is_some_and(|it| it.in_flight > 0)
                    || session.is_tunnel()
                    || stays(destination) && !is_encapsulating(destination)
                    || self
                        .forwarding
                        .choose(&self.held, &self.adjacencies, session)
                        .is_some()
            }
        }
    }
}
