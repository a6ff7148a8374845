//! The part of an engine that all its sessions use.

use alloc::collections::VecDeque;

use super::config::Config;
use super::fault::{Fault, Faults};
use super::numbers::Numbers;
use super::operations::{Operation, Operations};
use super::segment::Reason;
use super::timer::Distance;
use super::wire::Envelope;
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

    /// An incoming transfer begins.
    pub(super) fn transfer(&mut self) -> TransferId {
        let number = self.next_transfer;
        self.next_transfer = number.saturating_add(1);
        TransferId(number)
    }

    /// Octets that a segment may have without what RFC 5327 adds.
    pub(super) fn room(&self) -> u64 {
        self.size.saturating_sub(self.envelope.octets())
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

/// The reason of a cancellation because the node refuses a transfer (RFC 5326 4.2: a client service's wish).
pub(super) const fn reason_of(refusal: RefuseReason) -> Reason {
    match refusal {
        RefuseReason::NoResources => Reason::SystemCancelled,
        _ => Reason::UserCancelled,
    }
}
