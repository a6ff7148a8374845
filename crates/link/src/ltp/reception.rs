//! The octets of an incoming block, as they come.

use alloc::boxed::Box;

use bytes::Bytes;

use dhow_bundle::mutant::{Mutant, planted};

use super::config::Config;
use super::end_to_end::EndToEnd;
use super::fault::Fault;
use super::local::Local;
use super::parts::Parts;
use super::segment::{DataHead, SessionId};
use crate::datagram::DatagramEvent;
use crate::datagram::span::{Overlap, Spans};
use crate::stream::TransferId;

/// The octets of a block that have come.
#[derive(Debug)]
pub(super) struct Reception {
    pub(super) id: SessionId,
    /// Numbered when its first octets come.
    pub(super) transfer: Option<TransferId>,
    pub(super) parts: Parts,
    /// The part of the block for all hops.
    pub(super) end_to_end: Option<Box<EndToEnd>>,
    /// All octets that came.
    pub(super) received: Spans,
    /// Octets from the start that are durable.
    pub(super) durable: u64,
    /// Whether all octets have come.
    pub(super) is_complete: bool,
    /// Whether the node has the bundle already: nothing more of it is told.
    pub(super) is_unwanted: bool,
}

impl Reception {
    pub(super) fn new(id: SessionId) -> Self {
        Self {
            id,
            transfer: None,
            parts: Parts::default(),
            end_to_end: None,
            received: Spans::default(),
            durable: 0,
            is_complete: false,
            is_unwanted: false,
        }
    }

    /// Take what the start of the block says for all hops; false when the start said something else before.
    pub(super) fn address(&mut self, end_to_end: Option<EndToEnd>) -> bool {
        if self.received.prefix() == 0 && self.end_to_end.is_none() {
            self.end_to_end = end_to_end.map(Box::new);
        }
        self.end_to_end.as_deref().copied() == end_to_end
    }

    /// Octets behind the first gap.
    pub(super) fn octets_beyond(&self) -> u64 {
        self.received
            .octets()
            .saturating_sub(self.received.prefix())
    }

    /// Whether there is room for the octets of a segment. Without it they count as lost, while its flags do not.
    ///
    /// # Errors
    /// The bound that is reached.
    pub(super) fn may_take(
        &self,
        config: &Config,
        room: u64,
        head: &DataHead,
    ) -> Result<(), Fault> {
        let (start, end) = (head.offset, head.end());
        if start <= self.received.prefix() || start == end {
            return Ok(());
        }
        // Half of the room is for red octets: green ones would keep out for ever what they wait for.
        let reserved = if head.kind.is_red() {
            0
        } else {
            config.reassembly_octets / 2
        };
        if head.length > room.saturating_sub(reserved) {
            return Err(Fault::BeyondGaps);
        }
        let is_apart = self.received.overlap(start, end) == Overlap::Nothing
            && !self.received.touches(start, end);
        // Half of the gaps are for red octets, which the sender waits for.
        let most = if head.kind.is_red() {
            config.gaps
        } else {
            config.gaps / 2
        };
        if is_apart && self.received.len() >= most {
            return Err(Fault::TooManyGaps);
        }
        Ok(())
    }

    /// Tell of the octets of a segment that were not there before.
    pub(super) fn take(&mut self, local: &mut Local, head: &DataHead, octets: &Bytes) {
        if head.length == 0 {
            return;
        }
        // A transfer begins with the first octets that are told of.
        let transfer = *self.transfer.get_or_insert_with(|| local.transfer());
        while let Some((from, to)) = { self.received.gaps(head.offset, head.end()).next() } {
            self.received.insert(from, to);
            if self.is_unwanted {
                continue;
            }
            let index = |at: u64| {
                let at = at.saturating_sub(head.offset);
                usize::try_from(at).unwrap_or(usize::MAX).min(octets.len())
            };
            local.events.push_back(DatagramEvent::Piece {
                transfer,
                offset: from,
                octets: octets.slice(index(from)..index(to)),
                length: self.parts.length,
            });
        }
        let whole = (self.parts.length)
            .filter(|length| self.received.octets() == *length || planted(Mutant::RedPartTrusted));
        if let Some(length) = whole
            && !self.is_complete
        {
            self.is_complete = true;
            if self.is_unwanted {
                self.durable = length;
            } else {
                local
                    .events
                    .push_back(DatagramEvent::Complete { transfer, length });
            }
        }
    }

    /// The report that would make the claims complete waits: all is there, and not durable yet.
    pub(super) fn withholds(&self) -> bool {
        self.is_complete
            && !planted(Mutant::ReportedBeforeDurable)
            && self.parts.is_all_red()
            && self
                .parts
                .length
                .is_some_and(|length| self.durable < length)
    }

    /// All of the red part is there, so many octets.
    pub(super) fn whole_red(&self) -> Option<u64> {
        (self.parts.red_end).filter(|red| self.received.has_all(0, *red))
    }
}
