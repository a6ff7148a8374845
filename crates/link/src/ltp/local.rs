//! The part of an engine that all its sessions use.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::config::Config;
use super::cookies::Cookies;
use super::fault::{Fault, Faults};
use super::numbers::Numbers;
use super::operations::{Operation, Operations};
use super::segment::{Reason, SessionId};
use super::timer::Distance;
use super::wire::{Around, Envelope};
use crate::datagram::DatagramEvent;
use crate::stream::{RefuseReason, TransferId};

/// Limits, numbers, and the ways out.
#[derive(Debug)]
pub(super) struct Local {
    /// Within its bounds.
    pub(super) config: Config,
    /// Octets of the largest segment now.
    pub(super) size: u64,
    pub(super) distance: Distance,
    pub(super) numbers: Numbers,
    pub(super) operations: Operations,
    pub(super) faults: Faults,
    pub(super) events: VecDeque<DatagramEvent>,
    /// The octets that RFC 5327 adds to each segment.
    pub(super) envelope: Envelope,
    /// The cookies of sessions.
    pub(super) cookies: Cookies,
    /// Our number of the next incoming transfer.
    pub(super) next_transfer: u64,
}

impl Local {
    /// Queue a segment of the internal operations traffic.
    pub(super) fn operate(&mut self, operation: Operation) {
        if !self.operations.push(operation) {
            self.faults.count(Fault::Flooded);
        }
    }

    /// A segment for the sender of a session came: where this engine has given no session that number, an operator is told. The engine may
    /// have had it before it began anew.
    pub(super) fn note_unknown(&mut self, id: SessionId) {
        if !self.numbers.was_given(id.number) {
            self.faults.count(Fault::NeverSent);
        }
    }

    /// An incoming transfer begins.
    pub(super) fn transfer(&mut self) -> TransferId {
        let number = self.next_transfer;
        self.next_transfer = number.saturating_add(1);
        TransferId(number)
    }

    /// The peer is as far away as this from now on.
    pub(super) fn be_distant(&mut self, light_time: Duration) {
        self.distance.light_time = light_time;
        self.config.light_time = light_time;
        self.config.idle_timeout = self
            .config
            .least_idle_timeout()
            .max(self.config.idle_timeout);
    }

    /// The octets that RFC 5327 adds to segments of a session.
    pub(super) fn around(&self, id: SessionId) -> Around<'_> {
        Around {
            envelope: &self.envelope,
            cookies: self.cookies.values(id),
            end_to_end: &[],
        }
    }

    /// Octets that a segment of a session may have without what RFC 5327 adds.
    pub(super) fn room(&self, id: SessionId) -> u64 {
        self.size.saturating_sub(self.around(id).octets())
    }

    /// The time after which a cookie that leaves now is in all that comes (RFC 5327 2.2: acceptable delay).
    pub(super) fn cookie_delay(&self) -> Duration {
        let there_and_back = self.distance.light_time.saturating_mul(2);
        there_and_back.saturating_add(self.distance.margin)
    }
}

/// The meaning of a cancellation's reason to a node.
pub(super) const fn refusal_of(reason: Reason) -> RefuseReason {
    match reason {
        Reason::UserCancelled => RefuseReason::Unknown,
        Reason::Unreachable => RefuseReason::NotAcceptable,
        Reason::RetransmissionLimit | Reason::Miscolored | Reason::CycleLimit => {
            RefuseReason::Retransmit
        }
        Reason::SystemCancelled => RefuseReason::NoResources,
    }
}

/// The name of a reason of a cancellation (RFC 5326 3.2.4) that an engine tells a node of as this refusal: `RLEXC` is also for `MISCOLORED` and `RXMTCYCEXC`.
#[must_use]
pub const fn cancellation_of(refusal: RefuseReason) -> Option<&'static str> {
    match refusal {
        RefuseReason::Unknown => Some("USR_CNCLD"),
        RefuseReason::NotAcceptable => Some("UNREACH"),
        RefuseReason::NoResources => Some("SYS_CNCLD"),
        RefuseReason::Retransmit => Some("RLEXC"),
        _ => None,
    }
}

/// The reason of a cancellation because the node refuses a transfer (RFC 5326 4.2: a client service's wish).
pub(super) const fn reason_of(refusal: RefuseReason) -> Reason {
    match refusal {
        RefuseReason::NoResources | RefuseReason::SourceFull => Reason::SystemCancelled,
        _ => Reason::UserCancelled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_is_told_of_a_cancellation_has_the_name_of_its_reason() {
        for (reason, name) in [
            (Reason::UserCancelled, "USR_CNCLD"),
            (Reason::Unreachable, "UNREACH"),
            (Reason::RetransmissionLimit, "RLEXC"),
            (Reason::Miscolored, "RLEXC"),
            (Reason::SystemCancelled, "SYS_CNCLD"),
            (Reason::CycleLimit, "RLEXC"),
        ] {
            assert_eq!(cancellation_of(refusal_of(reason)), Some(name));
        }
    }
}
