//! Transfers from the peer: draft 3.6.2.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::Instant;

use super::config::Config;
use super::ended::Ended;
use super::fault::{Fault, Faults};
use super::wire::{Segment, is_bundle};
use crate::datagram::DatagramEvent;
use crate::datagram::span::{Overlap, Spans};
use crate::stream::{RefuseReason, TransferId};

/// Incomplete transfers from one peer. A sender has one or a few under way; what comes beyond takes the place of
/// the one whose last segment is the oldest.
pub(super) const MAX_INCOMPLETE: usize = 64;

/// Separate parts of an incomplete transfer, 16 octets each: a third of the segments of the longest transfer in the
/// default size. One that lost more will not be whole.
pub(super) const MAX_PARTS: usize = 1_024;

/// The time that a transfer may take in all: the longest at 10 kbit/s.
const MAX_AGE: Duration = Duration::from_secs(3_600);

/// Incoming transfers, from their first segment until nobody remembers them.
#[derive(Debug)]
pub(super) struct TransfersIn {
    transfer_mru: u64,
    timeout: Duration,
    most_octets: u64,
    /// Incomplete transfers by the peer's numbers.
    incomplete: BTreeMap<u64, Incomplete>,
    /// Octets that came of those transfers.
    octets: u64,
    ended: Ended,
    /// Our number of the next transfer.
    next: u64,
}

#[derive(Debug)]
struct Incomplete {
    transfer: TransferId,
    length: u64,
    spans: Spans,
    /// When it is given up however fast its segments come.
    end: Instant,
    /// When its last segment came.
    last: Instant,
}

impl TransfersIn {
    /// None yet; `config` is within its bounds.
    pub(super) fn new(config: &Config) -> Self {
        Self {
            transfer_mru: config.transfer_mru,
            timeout: config.transfer_timeout,
            most_octets: config.reassembly_octets,
            incomplete: BTreeMap::new(),
            octets: 0,
            ended: Ended::default(),
            next: 0,
        }
    }

    /// Incomplete transfers, and octets that came of them.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn held(&self) -> (usize, u64) {
        (self.incomplete.len(), self.octets)
    }

    /// Transfers that are over and still known.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn known(&self) -> usize {
        self.ended.len()
    }

    /// A bundle came by itself.
    pub(super) fn handle_bundle(
        &mut self,
        octets: Bytes,
        faults: &mut Faults,
        events: &mut VecDeque<DatagramEvent>,
    ) {
        let length = length_of(&octets);
        if length > self.transfer_mru {
            return faults.count(Fault::TransferTooLong);
        }
        let transfer = self.number();
        push_piece(transfer, 0, octets, length, events);
        events.push_back(DatagramEvent::Complete { transfer, length });
    }

    /// A segment came.
    pub(super) fn handle_segment(
        &mut self,
        now: Instant,
        segment: Segment,
        faults: &mut Faults,
        events: &mut VecDeque<DatagramEvent>,
    ) {
        // Draft 3.6.2: segments that come again of a transfer that is over are dropped.
        if self.ended.contains(segment.transfer) {
            return;
        }
        if let Err(fault) = self.check(now, &segment, events) {
            if let Some(fault) = fault {
                faults.count(fault);
            }
            return;
        }
        let Segment {
            transfer: id,
            length,
            offset,
            octets,
        } = segment;
        let more = length_of(&octets);
        if more == length {
            let transfer = self.number();
            push_piece(transfer, 0, octets, length, events);
            return self.complete(now, id, transfer, length, events);
        }
        self.make_room(now, id, more, faults, events);
        if !self.incomplete.contains_key(&id) {
            let transfer = self.number();
            let begun = Incomplete {
                transfer,
                length,
                spans: Spans::default(),
                end: now + MAX_AGE,
                last: now,
            };
            self.incomplete.insert(id, begun);
        }
        let Some(incomplete) = self.incomplete.get_mut(&id) else {
            return;
        };
        incomplete.last = now;
        incomplete.spans.insert(offset, offset.saturating_add(more));
        self.octets = self.octets.saturating_add(more);
        let transfer = incomplete.transfer;
        let is_whole = incomplete.spans.octets() == length;
        push_piece(transfer, offset, octets, length, events);
        if is_whole {
            self.incomplete.remove(&id);
            self.octets = self.octets.saturating_sub(length);
            self.complete(now, id, transfer, length, events);
        }
    }

    /// Whether a segment is acceptable. It is dropped in silence where it came before.
    fn check(
        &mut self,
        now: Instant,
        segment: &Segment,
        events: &mut VecDeque<DatagramEvent>,
    ) -> Result<(), Option<Fault>> {
        let Some(first) = segment.octets.first() else {
            return Err(Some(Fault::SegmentEmpty));
        };
        let end = segment.offset.checked_add(length_of(&segment.octets));
        let Some(end) = end.filter(|end| *end <= segment.length) else {
            return Err(Some(Fault::SegmentBeyondLength));
        };
        if segment.length > self.transfer_mru {
            return Err(Some(Fault::TransferTooLong));
        }
        let under_way = self.incomplete.get(&segment.transfer);
        // Draft 3.5.2: differing lengths make the transfer malformed; its further segments are refused.
        if under_way.is_some_and(|incomplete| incomplete.length != segment.length) {
            self.refuse_id(now, segment.transfer, RefuseReason::NotAcceptable, events);
            return Err(Some(Fault::LengthContradicted));
        }
        if let Some(incomplete) = under_way {
            // Draft 3.6.2: overlapping segments are dropped, those that were doubled included.
            match incomplete.spans.overlap(segment.offset, end) {
                Overlap::Nothing => {}
                Overlap::Part => return Err(Some(Fault::SegmentOverlaps)),
                Overlap::Everything => return Err(None),
            }
            if incomplete.spans.len() >= MAX_PARTS && !incomplete.spans.touches(segment.offset, end)
            {
                return Err(Some(Fault::TooManyGaps));
            }
        }
        // Draft 3.6.2: a transfer that does not begin as a bundle is discarded.
        if segment.offset == 0 && !is_bundle(*first) {
            self.refuse_id(now, segment.transfer, RefuseReason::NotAcceptable, events);
            return Err(Some(Fault::NotBundle));
        }
        Ok(())
    }

    /// Let others give way to `more` octets of the transfer `id`, those first whose last segment is the oldest.
    fn make_room(
        &mut self,
        now: Instant,
        id: u64,
        more: u64,
        faults: &mut Faults,
        events: &mut VecDeque<DatagramEvent>,
    ) {
        let is_new = !self.incomplete.contains_key(&id);
        while (is_new && self.incomplete.len() >= MAX_INCOMPLETE)
            || self.octets.saturating_add(more) > self.most_octets
        {
            let others = self.incomplete.iter().filter(|(other, _)| **other != id);
            let Some((&oldest, _)) = others.min_by_key(|(_, incomplete)| incomplete.last) else {
                return;
            };
            faults.count(Fault::TransferEvicted);
            self.refuse_id(now, oldest, RefuseReason::NoResources, events);
        }
    }

    /// The node does not want a transfer: segments that still come are dropped.
    pub(super) fn refuse(&mut self, now: Instant, transfer: TransferId) {
        let mut all = self.incomplete.iter();
        let found = all.find(|(_, incomplete)| incomplete.transfer == transfer);
        if let Some((&id, _)) = found {
            self.remove(now, id);
        }
    }

    /// When the next transfer is given up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let all = self.incomplete.values();
        all.map(|incomplete| incomplete.deadline(self.timeout))
            .min()
    }

    /// Give up the transfers of which nothing came for too long. While nothing can come, no time passes for them.
    pub(super) fn expire(&mut self, now: Instant, events: &mut VecDeque<DatagramEvent>) {
        while let Some((&id, _)) = self
            .incomplete
            .iter()
            .find(|(_, incomplete)| incomplete.deadline(self.timeout) <= now)
        {
            if let Some(transfer) = self.remove(now, id) {
                let refused = None;
                events.push_back(DatagramEvent::Abandoned { transfer, refused });
            }
        }
    }

    /// Forget the transfers that have been over for long enough.
    pub(super) fn forget(&mut self, now: Instant) {
        self.ended.expire(now);
    }

    /// Time passed in which nothing could come, from `since` on.
    pub(super) fn shift(&mut self, since: Instant, now: Instant) {
        for incomplete in self.incomplete.values_mut() {
            let silent = now.since(incomplete.last.max(since));
            incomplete.last = incomplete.last + silent;
            incomplete.end = incomplete.end + silent;
        }
    }

    /// The link is over.
    pub(super) fn close(&mut self, events: &mut VecDeque<DatagramEvent>) {
        self.octets = 0;
        let all = core::mem::take(&mut self.incomplete).into_values();
        events.extend(all.map(|incomplete| DatagramEvent::Abandoned {
            transfer: incomplete.transfer,
            refused: None,
        }));
    }

    fn complete(
        &mut self,
        now: Instant,
        id: u64,
        transfer: TransferId,
        length: u64,
        events: &mut VecDeque<DatagramEvent>,
    ) {
        self.ended.push(id, now + self.timeout);
        events.push_back(DatagramEvent::Complete { transfer, length });
    }

    fn refuse_id(
        &mut self,
        now: Instant,
        id: u64,
        reason: RefuseReason,
        events: &mut VecDeque<DatagramEvent>,
    ) {
        if let Some(transfer) = self.remove(now, id) {
            let refused = Some(reason);
            events.push_back(DatagramEvent::Abandoned { transfer, refused });
        }
    }

    /// A transfer is over: remember it, and say which one it was here if it had begun.
    fn remove(&mut self, now: Instant, id: u64) -> Option<TransferId> {
        self.ended.push(id, now + self.timeout);
        let incomplete = self.incomplete.remove(&id)?;
        self.octets = self.octets.saturating_sub(incomplete.spans.octets());
        Some(incomplete.transfer)
    }

    fn number(&mut self) -> TransferId {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        TransferId(number)
    }
}

impl Incomplete {
    fn deadline(&self, timeout: Duration) -> Instant {
        (self.last + timeout).min(self.end)
    }
}

fn push_piece(
    transfer: TransferId,
    offset: u64,
    octets: Bytes,
    length: u64,
    events: &mut VecDeque<DatagramEvent>,
) {
    events.push_back(DatagramEvent::Piece {
        transfer,
        offset,
        octets,
        length: Some(length),
    });
}

fn length_of(octets: &Bytes) -> u64 {
    u64::try_from(octets.len()).unwrap_or(u64::MAX)
}
