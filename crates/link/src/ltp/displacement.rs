//! Incoming sessions that give way to newer ones where as many are open as may be.
//!
//! A sender that dies leaves its sessions open here, and does not know of them once it is back: its new ones would be dropped until the old
//! ones were given up for their silence. So where octets are missing of as many blocks as may be, the session that has been silent longest gives
//! way to a new one, if it has been silent for longer than any answer takes. Each engine has sessions of its own, so no neighbour takes places of another.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::Instant;

use super::config::Config;
use super::fault::Fault;
use super::local::Local;
use super::segment::Reason;
use super::sessions_in::SessionsIn;

/// Round trips, each with the margin, for which a session that gives way has been silent.
const SILENT_ROUND_TRIPS: u32 = 3;

/// Sessions that may give way, as they were found last.
#[derive(Debug, Default)]
pub(super) struct Silent {
    /// The one first that has been silent longest, with the instant since which.
    sessions: VecDeque<(Instant, u64)>,
    /// Before this instant no other one is found: all sessions need not be looked at for each segment that has no place.
    next: Option<Instant>,
}

impl SessionsIn {
    /// Make a place for another session; false where there is none.
    pub(super) fn make_place(&mut self, now: Instant, local: &mut Local) -> bool {
        // Those that are cancelled have as many places of their own.
        let most = local.config.sessions;
        if self.len().saturating_sub(self.cancelled.min(most)) < most {
            return true;
        }
        // A sender that has as many blocks under way as may be, of some of which it waits for the last report, has no more of these than
        // places, and goes on with each of them. RFC 5326 6.5: silence says nothing while nothing can come.
        let may_give_way = self.partial >= most && local.distance.deaf_since.is_none();
        let silent = may_give_way.then(|| self.longest_silent(now, &local.config));
        let Some(number) = silent.flatten() else {
            local.faults.count(Fault::TooManySessions);
            return false;
        };
        local.faults.count(Fault::Idle);
        if self.cancelled < most {
            self.cancel(now, local, number, Reason::SystemCancelled, None);
        } else {
            // As many senders as may be are being told already.
            self.over(local, number, None);
        }
        true
    }

    /// Count a session among those of which octets are missing, as long as some are.
    pub(super) fn count(&mut self, number: u64) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let is_partial = session.silent_since().is_some();
        match (session.is_partial, is_partial) {
            (false, true) => self.partial = self.partial.saturating_add(1),
            (true, false) => self.partial = self.partial.saturating_sub(1),
            _ => {}
        }
        session.is_partial = is_partial;
    }

    fn longest_silent(&mut self, now: Instant, config: &Config) -> Option<u64> {
        let silence = silence(config);
        loop {
            while let Some((since, number)) = self.silent.sessions.pop_front() {
                let session = self.sessions.get(&number);
                if session.and_then(|it| it.silent_since()) == Some(since) {
                    return Some(number);
                }
            }
            if self.silent.next.is_some_and(|next| now < next) {
                return None;
            }
            let sessions = self.sessions.iter();
            let silent = sessions.filter_map(|(number, it)| Some((it.silent_since()?, *number)));
            let (mut found, others): (Vec<_>, Vec<_>) =
                silent.partition(|(since, _)| *since + silence <= now);
            // One that begins now is not found before it has been silent as long.
            let next = others.iter().map(|(since, _)| *since + silence).min();
            self.silent.next = Some(next.unwrap_or(now + silence));
            found.sort_unstable();
            self.silent.sessions = found.into();
            if self.silent.sessions.is_empty() {
                return None;
            }
        }
    }
}

/// The silence after which a session gives way: no answer takes as long, also one that was lost once.
fn silence(config: &Config) -> Duration {
    let round_trip = config.round_trip().saturating_add(config.margin);
    round_trip.saturating_mul(SILENT_ROUND_TRIPS)
}
