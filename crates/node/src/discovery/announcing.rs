//! The times, addresses and sequence numbers of beacons that are due.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use dhow_bundle::Instant;

use crate::driver::{Announcement, BeaconTo};

/// Addresses that have been answered within a period, at most: more are left to the next beacon.
const ANSWERED_BOUND: usize = 256;

/// The beacons of one place.
pub(crate) struct Announcing {
    period: Duration,
    destinations: Vec<Destination>,
    /// Addresses that have had an answer, and when the next may follow.
    answered: BTreeMap<IpAddr, Instant>,
}

struct Destination {
    due: Instant,
    /// Draft 2.6: counted for each destination by itself.
    sequence: u32,
}

impl Announcing {
    /// Beacons to so many destinations, one a period each.
    pub(crate) fn new(destinations: u32, period: Duration) -> Self {
        let destination = |_| Destination {
            due: Instant::START,
            sequence: 0,
        };
        Self {
            period,
            destinations: (0..destinations).map(destination).collect(),
            answered: BTreeMap::new(),
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.destinations.iter().map(|it| it.due).min()
    }

    /// Beacons that are due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Announcement> {
        self.answered.retain(|_, until| *until > now);
        let period = self.period;
        let due = (0_u32..).zip(&mut self.destinations);
        due.filter(|(_, it)| it.due <= now)
            .map(|(at, it)| {
                it.due = now + period;
                it.announce(at, period)
            })
            .collect()
    }

    /// Last beacons: no more will follow (draft 2.1: period 0).
    pub(crate) fn depart(&mut self) -> Vec<Announcement> {
        let all = (0_u32..).zip(&mut self.destinations);
        all.map(|(at, it)| it.announce(at, Duration::ZERO))
            .collect()
    }

    /// An answer to somebody who has just become known, so that both know each other at once; `None` where one has had an answer within a period.
    pub(crate) fn answer(&mut self, now: Instant, to: SocketAddr) -> Option<Announcement> {
        self.answered.retain(|_, until| *until > now);
        if self.answered.contains_key(&to.ip()) || self.answered.len() >= ANSWERED_BOUND {
            return None;
        }
        self.answered.insert(to.ip(), now + self.period);
        let first = self.destinations.first();
        Some(Announcement {
            to: BeaconTo::Address(to),
            // An answer does not count (as in dtn7-rs): it is beside the beacons of a destination.
            sequence: first.map_or(0, |it| it.sequence),
            period_ms: period_ms(self.period),
        })
    }
}

impl Destination {
    fn announce(&mut self, at: u32, period: Duration) -> Announcement {
        let sequence = self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
        Announcement {
            to: BeaconTo::Destination(at),
            sequence,
            period_ms: period_ms(period),
        }
    }
}

fn period_ms(period: Duration) -> u64 {
    u64::try_from(period.as_millis()).unwrap_or(u64::MAX)
}
