//! A neighbour's link over datagrams, as the rest of the node sees it: a session whose transfers come in order.
//!
//! The store takes a bundle's octets in order, and datagrams overtake each other. So octets that come early wait here, in memory,
//! until those before them have come, or the layer gives their transfer up. A transfer whose first octets come behind those of a newer one waits as
//! a whole: the newer may be the same bundle, sent again by a peer that gave the older up, and the node would take the older for the newest copy. All neighbours together have [`EARLY_OCTETS`] for that.

use alloc::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::{NodeId, Now};
use dhow_link::datagram::{Limit, Path};
use dhow_link::stream::{LinkCommand, LinkEvent, RefuseReason, SessionParameters, TransferId};
use dhow_link::udpcl::{self, Conversation};
use dhow_link::{Batch, DatagramEvent, DatagramLink};

use crate::config::{OnSent, UdpPolicy};
use crate::memory::length;
use crate::view::DatagramCounts;

/// Octets that came early, of all neighbours, with [`PIECE_OCTETS`] for each piece, at most.
pub(crate) const EARLY_OCTETS: u64 = 32 << 20;

/// Early octets have no more than this part of the index's memory.
pub(crate) const EARLY_SHARE: u64 = 16;

/// After a rest as much leaves at once as the rate lets pass in one of so many parts of a second, where that is more than usual: the
/// timers of a driver are a millisecond late, and later on a busy machine.
const BURSTS_PER_S: u64 = 500;

/// Memory for an early piece beside its octets, so that pieces of one octet are not free.
const PIECE_OCTETS: u64 = 128;

/// A conversation with a configured peer, or with a stranger.
pub(crate) struct Datagrams {
    link: Conversation,
    on_sent: OnSent,
    segment_mru: u64,
    transfers: BTreeMap<TransferId, Coming>,
    /// The first transfer that has not begun.
    next: TransferId,
    /// The newest transfer of which the node has the first octets.
    newest: TransferId,
    early_octets: u64,
    /// What `early_octets` may be.
    room_octets: u64,
    events: VecDeque<LinkEvent>,
    /// Rules that were broken, and how often.
    faults: VecDeque<(&'static str, u64)>,
    /// Transfers for whose early octets there was no room.
    refused: u64,
    counts: DatagramCounts,
}

/// A transfer of which some octets have come.
#[derive(Default)]
struct Coming {
    /// Octets that the node has.
    given: u64,
    early: BTreeMap<u64, Bytes>,
}

impl Coming {
    /// Octets that came early and are the next to be given.
    fn next_early(&mut self) -> Option<Bytes> {
        if self.early.contains_key(&self.given) && planted(Mutant::EarlyOctetsBackwards) {
            return self.early.pop_last().map(|(_, octets)| octets);
        }
        self.early.remove(&self.given)
    }
}

impl Datagrams {
    pub(crate) fn new(policy: UdpPolicy, peer: Option<NodeId>, seed: u64, now: Now) -> Self {
        let mut config = udpcl::Config {
            mtu: policy.mtu_octets,
            peer: peer.map_or(udpcl::Peer::Unknown, udpcl::Peer::Known),
            ..udpcl::Config::default()
        };
        config.rate.octets_per_s = policy.octets_per_s;
        let burst_octets = policy.octets_per_s / BURSTS_PER_S;
        config.rate.burst_octets = config.rate.burst_octets.max(burst_octets);
        Self {
            on_sent: policy.on_sent,
            segment_mru: config.mtu,
            link: Conversation::new(config, seed, now),
            transfers: BTreeMap::new(),
            next: TransferId(0),
            newest: TransferId(0),
            early_octets: 0,
            room_octets: 0,
            events: VecDeque::new(),
            faults: VecDeque::new(),
            refused: 0,
            counts: DatagramCounts::default(),
        }
    }

    /// Datagrams came; `room_octets` may wait here in all.
    pub(crate) fn handle_datagrams(&mut self, now: Now, datagrams: &[Bytes], room_octets: u64) {
        self.room_octets = room_octets;
        self.counts.received += length(datagrams.len());
        self.counts.received_octets += datagrams.iter().map(|it| length(it.len())).sum::<u64>();
        self.link.handle_datagrams(now, datagrams);
        self.translate_all(now);
    }

    pub(crate) fn handle_left(&mut self, now: Now, datagrams: u64) {
        self.link.handle_left(now, datagrams);
        self.translate_all(now);
    }

    pub(crate) fn handle_command(&mut self, now: Now, command: LinkCommand) {
        if let LinkCommand::Refuse { transfer, .. } = &command {
            self.forget(*transfer);
        }
        self.link.handle_command(now, command);
        self.translate_all(now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Now) {
        self.link.handle_timeout(now);
        self.translate_all(now);
    }

    /// The path takes no longer datagrams than these.
    pub(crate) fn narrowed(&mut self, now: Now, octets: u64) {
        let path = Path {
            mtu: Some(octets),
            ..Path::default()
        };
        self.link.handle_path(now, path);
        self.translate_all(now);
    }

    pub(crate) fn poll_datagrams(&mut self, now: Now, limit: Limit, out: &mut Batch) {
        let (datagrams, octets) = (out.len(), out.octets());
        self.link.poll_datagrams(now, limit, out);
        self.counts.sent += length(out.len() - datagrams);
        self.counts.sent_octets += out.octets() - octets;
        self.translate_all(now);
    }

    /// The next event since the last call.
    pub(crate) fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    /// A rule that was broken, and how often.
    pub(crate) fn poll_fault(&mut self) -> Option<(&'static str, u64)> {
        self.faults.pop_front()
    }

    /// Transfers given up since the last call because there was no room for early octets.
    pub(crate) const fn take_refused(&mut self) -> u64 {
        core::mem::replace(&mut self.refused, 0)
    }

    /// The fate of a bundle when its last datagram has left.
    pub(crate) const fn on_sent(&self) -> OnSent {
        self.on_sent
    }

    pub(crate) const fn link(&self) -> &Conversation {
        &self.link
    }

    pub(crate) const fn counts(&self) -> DatagramCounts {
        self.counts
    }

    /// Octets that wait for others, and what they take beside.
    pub(crate) const fn early_octets(&self) -> u64 {
        self.early_octets
    }

    /// Take what the layer says; a new value has said nothing yet.
    pub(crate) fn translate_all(&mut self, now: Now) {
        while let Some(event) = self.link.poll_event() {
            self.translate(now, event);
        }
    }

    fn translate(&mut self, now: Now, event: DatagramEvent) {
        let event = match event {
            DatagramEvent::Up { peer } => LinkEvent::Up(SessionParameters {
                peer,
                secured: false,
                proven: false,
                keepalive_s: 0,
                segment_mru: self.segment_mru,
                transfer_mru: self.link.capabilities().transfer_mru,
                keeps_reactive_fragments: false,
            }),
            DatagramEvent::Piece {
                transfer,
                offset,
                octets,
                length,
            } => return self.piece(now, transfer, (offset, octets), length),
            DatagramEvent::Complete { transfer, length } => return self.complete(transfer, length),
            DatagramEvent::Abandoned { transfer, refused } => match self.forget(transfer) {
                Some(coming) if coming.given > 0 => LinkEvent::Abandoned { transfer, refused },
                _ => return,
            },
            DatagramEvent::Sent { transfer } => LinkEvent::Sent { transfer },
            DatagramEvent::Transmitted { transfer } => LinkEvent::Transmitted { transfer },
            DatagramEvent::Failed {
                transfer,
                refused,
                acknowledged,
            } => LinkEvent::Failed {
                transfer,
                refused,
                acknowledged,
            },
            DatagramEvent::Ending => LinkEvent::Ending,
            DatagramEvent::Down(reason) => LinkEvent::Down(reason),
            DatagramEvent::Fault { rule, count } => {
                self.counts.faults += count;
                return self.faults.push_back((rule, count));
            }
            DatagramEvent::Announced { .. } => return,
        };
        self.events.push_back(event);
    }

    fn piece(
        &mut self,
        now: Now,
        transfer: TransferId,
        (offset, octets): (u64, Bytes),
        total: Option<u64>,
    ) {
        // Octets that the node has refused may still come: of a transfer that has begun and is not here.
        if transfer >= self.next {
            self.next = TransferId(transfer.0.saturating_add(1));
            self.transfers.insert(transfer, Coming::default());
        }
        let Some(coming) = self.transfers.get_mut(&transfer) else {
            return;
        };
        let is_late = coming.given == 0 && transfer < self.newest;
        let is_all = total == Some(length(octets.len()));
        if offset > coming.given || is_late && !is_all {
            let cost = length(octets.len()).saturating_add(PIECE_OCTETS);
            let early_octets = self.early_octets.saturating_add(cost);
            if early_octets > self.room_octets {
                self.refused = self.refused.saturating_add(1);
                return self.refuse(now, transfer);
            }
            self.early_octets = early_octets;
            // A slice would keep the buffer that it came in.
            coming.early.insert(offset, Bytes::copy_from_slice(&octets));
            return;
        }
        self.give(transfer, octets, total);
        self.give_early(transfer, total);
    }

    /// The octets of a transfer that came early and are the next.
    fn give_early(&mut self, transfer: TransferId, total: Option<u64>) {
        while let Some(coming) = self.transfers.get_mut(&transfer)
            && let Some(octets) = coming.next_early()
        {
            let cost = length(octets.len()).saturating_add(PIECE_OCTETS);
            self.early_octets = self.early_octets.saturating_sub(cost);
            self.give(transfer, octets, total);
        }
    }

    /// The next octets of a transfer, which may be the last.
    fn give(&mut self, transfer: TransferId, octets: Bytes, total: Option<u64>) {
        let Some(coming) = self.transfers.get_mut(&transfer) else {
            return;
        };
        let start = coming.given == 0;
        self.newest = self.newest.max(transfer);
        coming.given = coming.given.saturating_add(length(octets.len()));
        let end = total == Some(coming.given);
        if end {
            self.forget(transfer);
        }
        self.events.push_back(LinkEvent::Segment {
            transfer,
            octets,
            start,
            end,
            length: total.filter(|_| start),
        });
    }

    /// All has come: what waited as a whole is given, and where the layer learned only now that nothing follows, the end.
    fn complete(&mut self, transfer: TransferId, length: u64) {
        self.give_early(transfer, Some(length));
        if self.transfers.contains_key(&transfer) {
            self.give(transfer, Bytes::new(), Some(length));
        }
    }

    fn refuse(&mut self, now: Now, transfer: TransferId) {
        let coming = self.forget(transfer);
        let reason = RefuseReason::NoResources;
        self.link
            .handle_command(now, LinkCommand::Refuse { transfer, reason });
        if coming.is_some_and(|coming| coming.given > 0) {
            self.events.push_back(LinkEvent::Abandoned {
                transfer,
                refused: Some(reason),
            });
        }
    }

    fn forget(&mut self, transfer: TransferId) -> Option<Coming> {
        let coming = self.transfers.remove(&transfer)?;
        for octets in coming.early.values() {
            let cost = length(octets.len()).saturating_add(PIECE_OCTETS);
            self.early_octets = self.early_octets.saturating_sub(cost);
        }
        Some(coming)
    }
}
