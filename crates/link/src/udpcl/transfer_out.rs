//! Transfers to the peer: draft 3.3 (a bundle by itself) and 3.6 (segments).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use dhow_bundle::SmallBuffer;
use dhow_bundle::storage::Piece;

use super::config::{Config, Framing};
use super::supply::Supply;
use super::wire::{Place, segment_head_octets, segment_room, write_segment_head};
use crate::datagram::{Batch, DatagramEvent};
use crate::stream::{RefuseReason, TransferId};

/// Room for heads that is taken at once, octets.
const HEAD_ROOM: usize = 4 * 1024;

/// Outgoing transfers, from `Transmit` until their last datagram has left.
///
/// Each waits for its own octets alone: one whose octets do not come holds up no other, since datagrams need no order.
#[derive(Debug)]
pub(super) struct TransfersOut {
    mtu: u64,
    transfer_mru: u64,
    framing: Framing,
    /// Not wholly given out.
    open: BTreeMap<TransferId, TransferOut>,
    /// Transfers of which the next datagram's octets are there, in the order in which that came to be.
    ready: VecDeque<TransferId>,
    /// Wholly given out or cancelled, in that order.
    leaving: VecDeque<Leaving>,
    queued_octets: u64,
    /// The ID of the next transfer in segments.
    next_id: u64,
    heads: SmallBuffer,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct TransferOut {
    length: u64,
    supply: Supply,
    /// Octets given out.
    given: u64,
    /// Its ID, once it goes out in segments.
    id: Option<u64>,
    is_ready: bool,
}

/// A transfer that ends once so many datagrams have left.
#[derive(Debug)]
struct Leaving {
    transfer: TransferId,
    datagrams: u64,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Sent,
    Cancelled,
}

/// The next datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    transfer: TransferId,
    /// `None` for a bundle by itself.
    segment: Option<(u64, Option<Place>)>,
    /// Octets of the transfer.
    data: u64,
    /// Octets of the datagram.
    pub(super) size: u64,
}

impl TransfersOut {
    /// None yet; `config` is within its bounds, and IDs begin at `first_id`.
    pub(super) fn new(config: &Config, first_id: u64) -> Self {
        Self {
            mtu: config.mtu,
            transfer_mru: config.transfer_mru,
            framing: config.framing,
            open: BTreeMap::new(),
            ready: VecDeque::new(),
            leaving: VecDeque::new(),
            queued_octets: 0,
            next_id: first_id,
            heads: SmallBuffer::new(HEAD_ROOM),
            scratch: Vec::new(),
        }
    }

    /// Largest transfer, octets.
    pub(super) const fn transfer_mru(&self) -> u64 {
        self.transfer_mru
    }

    /// Octets of transfers of which nothing has been given out.
    pub(super) const fn queued_octets(&self) -> u64 {
        self.queued_octets
    }

    /// Every transfer is over.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.leaving.is_empty()
    }

    /// Datagrams have so many octets at most from now on.
    pub(super) fn limit(&mut self, mtu: u64) {
        if mtu == core::mem::replace(&mut self.mtu, mtu) {
            return;
        }
        // The next datagrams have other lengths now. Transfers that are ready stay before those that become it.
        let mut again = core::mem::take(&mut self.ready);
        let waiting = self.open.iter().filter(|(_, out)| !out.is_ready);
        again.extend(waiting.map(|(transfer, _)| *transfer));
        again.retain(|transfer| self.has_next(*transfer));
        self.ready = again;
    }

    /// Queue a transfer.
    pub(super) fn transmit(
        &mut self,
        transfer: TransferId,
        length: u64,
        events: &mut VecDeque<DatagramEvent>,
    ) {
        // No bundle is empty, and an empty datagram would be none.
        let refused = match length {
            0 => Some(RefuseReason::NotAcceptable),
            length if length > self.transfer_mru => Some(RefuseReason::NoResources),
            _ => None,
        };
        if refused.is_some() {
            return events.push_back(failed(transfer, refused));
        }
        let queued = TransferOut {
            length,
            supply: Supply::default(),
            given: 0,
            id: None,
            is_ready: false,
        };
        let before = self.open.insert(transfer, queued);
        assert!(
            before.is_none(),
            "a node numbers each transfer of a link once"
        );
        self.queued_octets = self.queued_octets.saturating_add(length);
    }

    /// The next octets of a transfer. If the transfer is over, they are dropped.
    pub(super) fn supply(&mut self, transfer: TransferId, octets: Piece) {
        let Some(out) = self.open.get_mut(&transfer) else {
            return;
        };
        out.supply.push(octets);
        assert!(
            out.given.saturating_add(out.supply.octets()) <= out.length,
            "a node supplies no more octets than it said the transfer has"
        );
        self.look_whether_ready(transfer);
    }

    /// The node gives up a transfer, after `datagrams` datagrams of all. One that was wholly given out goes on.
    pub(super) fn cancel(
        &mut self,
        transfer: TransferId,
        datagrams: u64,
        events: &mut VecDeque<DatagramEvent>,
    ) {
        let Some(out) = self.open.remove(&transfer) else {
            return;
        };
        self.ready.retain(|ready| *ready != transfer);
        if out.given == 0 {
            self.queued_octets = self.queued_octets.saturating_sub(out.length);
            return events.push_back(failed(transfer, None));
        }
        // Draft 2.1: cancelling means to stop sending; the peer's timeout does the rest.
        self.leaving.push_back(Leaving {
            transfer,
            datagrams,
            end: End::Cancelled,
        });
    }

    /// The link is ending: nothing that has not begun will.
    pub(super) fn end(&mut self, events: &mut VecDeque<DatagramEvent>) {
        self.open.retain(|transfer, out| {
            let has_begun = out.given > 0;
            if !has_begun {
                events.push_back(failed(*transfer, None));
            }
            has_begun
        });
        self.ready.retain(|ready| self.open.contains_key(ready));
        self.queued_octets = 0;
    }

    /// The link is over: every transfer has failed.
    pub(super) fn close(&mut self, events: &mut VecDeque<DatagramEvent>) {
        let leaving = core::mem::take(&mut self.leaving).into_iter();
        let open = core::mem::take(&mut self.open).into_keys();
        let all = leaving.map(|leaving| leaving.transfer).chain(open);
        events.extend(all.map(|transfer| failed(transfer, None)));
        self.ready.clear();
        self.queued_octets = 0;
    }

    /// So many datagrams have left in all.
    pub(super) fn left(&mut self, datagrams: u64, events: &mut VecDeque<DatagramEvent>) {
        while let Some(leaving) = self.leaving.front()
            && leaving.datagrams <= datagrams
        {
            let transfer = leaving.transfer;
            events.push_back(match leaving.end {
                End::Sent => DatagramEvent::Sent { transfer },
                End::Cancelled => failed(transfer, None),
            });
            self.leaving.pop_front();
        }
    }

    /// The next datagram that can leave.
    pub(super) fn plan(&mut self) -> Option<Plan> {
        let first = self.ready.front().copied()?;
        self.plan_of(first)
    }

    /// Add the planned datagram to `out`; it is number `datagrams` of all.
    pub(super) fn give(&mut self, plan: &Plan, datagrams: u64, out: &mut Batch) {
        let Some(open) = self.open.get_mut(&plan.transfer) else {
            return;
        };
        if let Some((id, place)) = plan.segment {
            self.scratch.clear();
            write_segment_head(&mut self.scratch, id, place, plan.data);
            self.heads.reserve(self.scratch.len());
            self.heads.put(&self.scratch);
            out.push(Piece::Octets(self.heads.give()));
        }
        open.supply.give(plan.data, out);
        out.end_datagram();
        if open.given == 0 {
            self.queued_octets = self.queued_octets.saturating_sub(open.length);
        }
        open.given = open.given.saturating_add(plan.data);
        open.is_ready = false;
        self.ready.pop_front();
        if open.given == open.length {
            self.open.remove(&plan.transfer);
            self.leaving.push_back(Leaving {
                transfer: plan.transfer,
                datagrams,
                end: End::Sent,
            });
        } else if self.has_next(plan.transfer) {
            // A transfer goes on before another begins, so that the peer has few incomplete ones.
            self.ready.push_front(plan.transfer);
        }
    }

    fn look_whether_ready(&mut self, transfer: TransferId) {
        let waits = self.open.get(&transfer).is_some_and(|out| !out.is_ready);
        if waits && self.has_next(transfer) {
            self.ready.push_back(transfer);
        }
    }

    /// Whether the octets of a transfer's next datagram are there, which it then is ready for.
    fn has_next(&mut self, transfer: TransferId) -> bool {
        let Some(plan) = self.plan_of(transfer) else {
            return false;
        };
        let Some(out) = self.open.get_mut(&transfer) else {
            return false;
        };
        out.is_ready = plan.data <= out.supply.octets();
        out.is_ready
    }

    fn plan_of(&mut self, transfer: TransferId) -> Option<Plan> {
        let out = self.open.get_mut(&transfer)?;
        let has_begun = out.given > 0;
        if self.framing == Framing::WhenNeeded && !has_begun && out.length <= self.mtu {
            return Some(Plan {
                transfer,
                segment: None,
                data: out.length,
                size: out.length,
            });
        }
        let next_id = &mut self.next_id;
        let id = *out.id.get_or_insert_with(|| {
            let id = *next_id;
            // Draft 3.6.1: after the last ID comes zero.
            *next_id = id.wrapping_add(1);
            id
        });
        // Draft 3.5.2: the only segment of a transfer has neither length nor offset.
        let place = if !has_begun && segment_room(self.mtu, id, None) >= out.length {
            None
        } else {
            Some(Place {
                length: out.length,
                offset: out.given,
            })
        };
        let left = out.length.saturating_sub(out.given);
        let data = segment_room(self.mtu, id, place).min(left);
        Some(Plan {
            transfer,
            segment: Some((id, place)),
            data,
            size: segment_head_octets(id, place, data).saturating_add(data),
        })
    }
}

const fn failed(transfer: TransferId, refused: Option<RefuseReason>) -> DatagramEvent {
    DatagramEvent::Failed {
        transfer,
        refused,
        acknowledged: 0,
    }
}
