//! Rate control: a token bucket.

use core::time::Duration;

use dhow_bundle::Instant;

use super::config::Rate;

const NANOS_PER_S: u128 = 1_000_000_000;

/// Tokens for octets, filled at a rate. In any interval of `t` seconds at most `burst + rate * t` octets pass;
/// no rounding adds to that.
#[derive(Debug)]
pub(super) struct Bucket {
    octets_per_s: u64,
    /// In billionths of octets, as `tokens`.
    capacity: u128,
    tokens: u128,
    /// When `tokens` was right.
    at: Instant,
}

impl Bucket {
    /// A full bucket, which holds a datagram of `mtu` octets at least.
    pub(super) fn new(rate: Rate, mtu: u64, now: Instant) -> Self {
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
    pub(super) fn take(&mut self, now: Instant, octets: u64) -> Result<(), Option<Instant>> {
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
