//! The transfer MRU that neighbours are told, by the room of the disk.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::session_id::SessionId;
use crate::attention::Attention;
use crate::config::Config;
use crate::held::Held;
use alloc::vec::Vec;
use dhow_bundle::Now;

/// A session ends, so that the peer is told anew, once so many times the transfer MRU can be taken that it was told.
const GROWN: u64 = 2;

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
        let small: Vec<SessionId> = self
            .neighbours
            .iter()
            .filter(|(_, it)| !it.ending && is_small(it.announced_mru, it.policy.transfer_mru))
            .map(|(session, _)| *session)
            .collect();
        for session in small {
            self.terminate(attention, now, session);
        }
    }
}
