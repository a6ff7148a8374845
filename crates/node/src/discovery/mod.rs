//! Neighbours that are found by their beacons, and beacons that are sent: docs/discovery.md.
//!
//! Start reading at [`place`], the machine of one `[[discover]]` entry: beacons in, a table of [`neighbour`]s, each with the addresses where it
//! may be (`origin` says of which addresses a beacon may tell); `announcing` says when a beacon is due and to whom. `finding.rs`, outside, makes links of neighbours.
//!
//! This room never knows a link's state or a session: it is told whether there is one.

pub(crate) mod announcing;
pub mod config;
pub(crate) mod neighbour;
pub mod origin;
pub(crate) mod place;
pub mod refused;

use alloc::vec::Vec;

use dhow_bundle::{Instant, NodeId};

use crate::config::Config;
use place::Place;
use refused::BeaconCounts;

/// All `[[discover]]` entries.
#[derive(Default)]
pub(crate) struct Discovery {
    places: Vec<Place>,
    /// When one of them wants to be attended to.
    due: Option<Instant>,
}

impl Discovery {
    pub(crate) fn new(config: &Config) -> Self {
        let own = config.node_ids.as_slice();
        let places: Vec<_> = (config.discover.iter())
            .map(|discover| Place::new(discover, own))
            .collect();
        let due = (!places.is_empty()).then_some(Instant::START);
        Self { places, due }
    }

    /// When it wants to be attended to.
    pub(crate) const fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Whether it wants to be attended to now.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// The machines, in the order of the configuration.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// The places as by [`Self::places`], to change them.
    pub(crate) fn places_mut(&mut self) -> &mut [Place] {
        &mut self.places
    }

    /// Finds out when one of them wants to be attended to next.
    pub(crate) fn rearm(&mut self) {
        self.due = self.places.iter().filter_map(Place::poll_timeout).min();
    }

    /// A neighbour's last session is over: it is to be looked at.
    pub(crate) fn remind(&mut self, now: Instant, node: &NodeId) {
        for place in &mut self.places {
            if let Some(neighbour) = place.neighbour_mut(node) {
                neighbour.look_at = now;
                self.due = Some(now);
            }
        }
    }

    /// Counts of all places.
    pub(crate) fn counts(&self) -> BeaconCounts {
        let mut counts = BeaconCounts::default();
        for place in &self.places {
            counts.add(place.counts());
        }
        counts
    }
}
