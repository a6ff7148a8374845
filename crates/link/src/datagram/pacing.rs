//! Rate control: a token bucket.

use core::time::Duration;

use dhow_bundle::Instant;

/// The token bucket that datagrams pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// UDP payload octets a second; headers of UDP and IP come on top. 0 lets only the first burst pass.
    pub octets_per_s: u64,
    /// Octets that may leave at once after a rest. At least one datagram's always may.
    pub burst_octets: u64,
}

/// The part of a second, one of so many, of which a smooth rate has the octets in a burst.
const BURSTS_PER_S: u64 = 10;

impl Rate {
    /// This rate with a burst of no more than it carries in a tenth of a second: what leaves at once keeps a slow path from all that follows.
    #[must_use]
    pub fn smooth(self) -> Self {
        let most_octets = self.octets_per_s / BURSTS_PER_S;
        Self {
            burst_octets: self.burst_octets.min(most_octets),
            ..self
        }
    }
}

const NANOS_PER_S: u128 = 1_000_000_000;

/// Tokens for octets, filled at a rate. In any interval of `t` seconds at most `burst + rate * t` octets pass;
/// no rounding adds to that.
#[derive(Debug)]
pub(crate) struct Bucket {
    octets_per_s: u64,
    /// The bucket's size in billionths of octets, as `tokens`.
    capacity: u128,
    tokens: u128,
    /// When `tokens` was right.
    at: Instant,
}

impl Bucket {
    /// A full bucket, which holds a datagram of `mtu` octets at least.
    pub(crate) fn new(rate: Rate, mtu: u64, now: Instant) -> Self {
        let capacity = u128::from(rate.burst_octets.max(mtu)) * NANOS_PER_S;
        Self {
            octets_per_s: rate.octets_per_s,
            capacity,
            tokens: capacity,
            at: now,
        }
    }

    /// Let a datagram pass, if there are tokens for all of it.
    ///
    /// # Errors
    /// When there will be; `None` for never.
    pub(crate) fn take(&mut self, now: Instant, octets: u64) -> Result<(), Option<Instant>> {
        let elapsed = now.since(self.at).as_nanos();
        let more = elapsed.saturating_mul(u128::from(self.octets_per_s));
        self.tokens = self.tokens.saturating_add(more).min(self.capacity);
        self.at = self.at.max(now);
        let needed = u128::from(octets).saturating_mul(NANOS_PER_S);
        match self.tokens.checked_sub(needed) {
            Some(tokens) => {
                self.tokens = tokens;
                Ok(())
            }
            None => Err(self.filled(needed)),
        }
    }

    /// The time that the octets which left in a burst take at the rate: a path that carries no more than that passes on
    /// what leaves now so much later.
    pub(crate) fn backlog(&self, now: Instant) -> Duration {
        if self.octets_per_s == 0 {
            return Duration::ZERO;
        }
        let missing = self.capacity.saturating_sub(self.tokens);
        let wait = missing.div_ceil(u128::from(self.octets_per_s));
        let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        wait.saturating_sub(now.since(self.at))
    }

    /// When there will be so many tokens.
    fn filled(&self, needed: u128) -> Option<Instant> {
        if self.octets_per_s == 0 || needed > self.capacity {
            return None;
        }
        let missing = needed.saturating_sub(self.tokens);
        let wait = missing.div_ceil(u128::from(self.octets_per_s));
        let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        Some(self.at + wait)
    }
}
