//! Bundles that a session was given and could not get rid of: they wait again, rest, or take another way.

use core::time::Duration;

use dhow_bundle::Now;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;
use dhow_link::stream::RefuseReason;

use crate::adjacencies::neighbour::Neighbour;
use crate::adjacencies::session_id::SessionId;
use crate::forwarding::copies::CopyEnd;
use crate::forwarding::refusals::Refusal;
use crate::held::bundles::Removal;
use crate::held::retention::State;
use crate::node::Node;
use crate::sending::NOT_ACCEPTABLE_RETRY;
use crate::sending::RETRANSMIT_RETRY;

impl Node {
    /// A bundle that a session could not get rid of.
    pub(crate) fn come_back(
        &mut self,
        now: Now,
        session: SessionId,
        key: BundleKey,
        refused: Option<RefuseReason>,
    ) {
        let peer = self.adjacencies.peer_of(session);
        if let (Some(reason), Some(by)) = (refused, peer) {
            let at = now.monotonic;
            let neighbour = self.adjacencies.neighbour(session);
            let is_ltp = neighbour.is_some_and(Neighbour::is_ltp);
            let refusal = Refusal {
                by,
                reason,
                is_ltp,
                at,
            };
            self.forwarding.note_refusal(key, refusal);
        }
        match self.forwarding.copies().router(key) {
            Some(_) => self.give_back(now, session, key, retry_delay(refused)),
            None => self.not_taken(now, key, refused),
        }
    }

    /// A bundle that somebody was given and has not taken.
    pub(crate) fn not_taken(&mut self, now: Now, key: BundleKey, refused: Option<RefuseReason>) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let is_lost = entry.detour > 0 && planted(Mutant::DetourLostWithSession);
        if entry.state() != State::InFlight || is_lost {
            return;
        }
        if self.held.custody().is_released(key) {
            return self.delete(now, key, Removal::Forwarded, None);
        }
        if refused.is_some() && self.held.custody().has_left(key) {
            // A node that has had the bundle may refuse each copy (IBR-DTN), and never signal again: the wait grows.
            return self.await_signal(now, key);
        }
        match retry_delay(refused) {
            Some(duration) => drop(self.retry_after(now, key, duration)),
            None => self.put_back(now, key),
        }
    }

    /// A session has not got rid of a bundle, which waits again, after a rest where there is one.
    pub(crate) fn give_back(
        &mut self,
        now: Now,
        session: SessionId,
        key: BundleKey,
        rest: Option<Duration>,
    ) {
        match rest {
            _ if self.forwarding.copies().router(key).is_some() => {
                let rest = rest.unwrap_or(Duration::ZERO);
                self.copy_back(now, session, key, CopyEnd::Returned(rest));
            }
            Some(duration) => drop(self.retry_after(now, key, duration)),
            None => self.put_back(now, key),
        }
    }

    /// A session is to carry a bundle that may not be intact: it is compared with its checksums first, once nobody reads it.
    pub(crate) fn verify_for(&mut self, now: Now, session: SessionId, key: BundleKey) {
        if self
            .forwarding
            .copy_over(now, session, key, CopyEnd::Returned(RETRANSMIT_RETRY))
        {
            self.verify(now, key);
        }
    }
}

/// The rest of a bundle that a neighbour refused for this reason, or gave no answer about.
const fn retry_delay(refused: Option<RefuseReason>) -> Option<Duration> {
    match refused {
        None
        | Some(
            RefuseReason::NoResources | RefuseReason::SourceFull | RefuseReason::SessionTerminating,
        ) => None,
        Some(RefuseReason::Retransmit | RefuseReason::Unknown) => Some(RETRANSMIT_RETRY),
        Some(_) => Some(NOT_ACCEPTABLE_RETRY),
    }
}
