//! The datagrams that a node gives to be sent: no larger than the scenario says, and in no time more octets than the rate allows.

use dhow_bundle::Instant;

/// Octets that may leave at once after a rest: the largest datagram.
const BURST_OCTETS: u64 = 65_507;

/// A node's clock may run faster by one part of so many.
const DRIFT_PART: u128 = 100;

const NANOS_PER_S: u128 = 1_000_000_000;

/// The datagrams of one conversation.
#[derive(Debug)]
pub(super) struct Pace {
    mtu_octets: u64,
    octets_per_s: u64,
    /// Billionths of octets that may leave now, and since when that is so.
    allowed: u128,
    since: Instant,
}

impl Pace {
    /// The pace of a conversation that begins.
    pub(super) fn new(mtu_octets: u64, octets_per_s: u64, now: Instant) -> Self {
        Self {
            mtu_octets,
            octets_per_s,
            allowed: u128::from(BURST_OCTETS) * NANOS_PER_S,
            since: now,
        }
    }

    /// The node gives a datagram of so many octets to be sent.
    ///
    /// # Errors
    /// It is too large, or comes too soon.
    pub(super) fn handle_given(&mut self, octets: u64, now: Instant) -> Result<(), String> {
        if octets > self.mtu_octets {
            return Err(format!(
                "sends a datagram of {octets} octets, and 'mtu' is {}",
                self.mtu_octets
            ));
        }
        let most = u128::from(BURST_OCTETS) * NANOS_PER_S;
        let more = now.since(self.since).as_nanos() * u128::from(self.octets_per_s);
        self.since = now;
        self.allowed = (self.allowed + more + more / DRIFT_PART).min(most + most / DRIFT_PART);
        let left = (self.allowed).checked_sub(u128::from(octets) * NANOS_PER_S);
        self.allowed = left.ok_or("sends more than 'send_rate' allows")?;
        Ok(())
    }
}
