//! A neighbour that bundles reach in other bundles (draft-ietf-dtn-bibect-03), as the rest of the node sees it: a session whose transfers are the
//! encapsulating bundles, to it and from it.
//!
//! It has no connection, so it is established when the link is up. Of a bundle that leaves it gathers the pieces, from which the node makes
//! another bundle ([`Tunnel::take_whole`]); that has left as soon as it is durable here. Of those that come it knows which are read and how far
//! ([`Tunnel::next_reading`]), and the fate of the bundle in each ([`Tunnel::next_settled`]).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use dhow_bundle::NodeId;
use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::v7::admin::bibe::BpduHead;
use dhow_link::stream::{
    DownReason, LinkCommand, LinkEvent, RefuseReason, SessionParameters, TransferId,
};

use crate::config::BibePolicy;

/// Encapsulating bundles that are read at the same time, at most.
const READINGS_BOUND: usize = 16;

/// Encapsulating bundles that are known to be tried twice, at most.
const TRIED_BOUND: usize = 1_024;

/// A tunnel to a peer.
pub(crate) struct Tunnel {
    policy: BibePolicy,
    events: VecDeque<LinkEvent>,
    /// Bundles for the peer of which not all is here, and how much is missing: no more than the window of the link has room for.
    leaving: BTreeMap<TransferId, Leaving>,
    whole: VecDeque<(TransferId, Leaving)>,
    /// Encapsulating bundles from the peer that nobody has looked at. The store holds them.
    unread: VecDeque<BundleKey>,
    /// Bundles that are read, and of them those whose next octets are not asked for.
    coming: BTreeMap<TransferId, Coming>,
    paused: VecDeque<TransferId>,
    /// Carriers whose first octets are being read.
    opened: BTreeSet<BundleKey>,
    /// Reads under way, at most [`READINGS_BOUND`].
    readings: usize,
    settled: VecDeque<(Coming, Settled)>,
    /// Carriers for whose bundle there was no room once.
    tried: BTreeSet<BundleKey>,
    next_coming: u64,
}

/// A bundle for the peer.
pub(crate) struct Leaving {
    /// Its octets, in order.
    pub(crate) pieces: Vec<Piece>,
    /// Octets of all.
    pub(crate) length: u64,
    missing: u64,
}

/// A bundle from the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    /// The encapsulating bundle.
    pub(crate) outer: BundleKey,
    /// The head of the transmission.
    pub(crate) head: BpduHead,
    /// Octets of the encapsulating bundle's payload that were read.
    pub(crate) read: u64,
}

/// The fate of a bundle in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The bundle is durable here, or was here before.
    Taken,
    /// The bundle is not taken, for this reason.
    Refused(RefuseReason),
}

/// The octets of an encapsulating bundle that are read next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    /// The first ones of a bundle that nobody has looked at.
    First(BundleKey),
    /// The octets behind those that were read.
    Next(TransferId, Coming),
}

impl Tunnel {
    pub(crate) fn new(peer: NodeId, policy: BibePolicy) -> Self {
        let up = LinkEvent::Up(SessionParameters {
            peer,
            secured: false,
            proven: false,
            keepalive_s: 0,
            segment_mru: u64::MAX,
            transfer_mru: u64::MAX,
            keeps_reactive_fragments: false,
        });
        Self {
            policy,
            events: VecDeque::from([up]),
            leaving: BTreeMap::new(),
            whole: VecDeque::new(),
            unread: VecDeque::new(),
            coming: BTreeMap::new(),
            paused: VecDeque::new(),
            opened: BTreeSet::new(),
            readings: 0,
            settled: VecDeque::new(),
            tried: BTreeSet::new(),
            next_coming: 0,
        }
    }

    pub(crate) const fn policy(&self) -> &BibePolicy {
        &self.policy
    }

    pub(crate) fn handle_command(&mut self, command: LinkCommand) {
        match command {
            LinkCommand::Transmit { transfer, length } => {
                let leaving = Leaving {
                    pieces: Vec::new(),
                    length,
                    missing: length,
                };
                self.leaving.insert(transfer, leaving);
            }
            LinkCommand::Supply { transfer, octets } => self.supply(transfer, octets),
            LinkCommand::Cancel { transfer } => {
                self.leaving.remove(&transfer);
                self.whole.retain(|(whole, _)| *whole != transfer);
            }
            LinkCommand::Acknowledge { transfer, .. } => self.settle(transfer, Settled::Taken),
            LinkCommand::Refuse { transfer, reason } => {
                self.settle(transfer, Settled::Refused(reason));
            }
            LinkCommand::Terminate { reason } => {
                self.events
                    .push_back(LinkEvent::Down(DownReason::Terminated(reason)));
            }
            LinkCommand::Disconnected => {
                self.events
                    .push_back(LinkEvent::Down(DownReason::Disconnected));
            }
            // There is nobody whose octets could be doubted, and no connection that could be secured.
            LinkCommand::Unverified { .. }
            | LinkCommand::Secured { .. }
            | LinkCommand::Insecure => {}
        }
    }

    fn supply(&mut self, transfer: TransferId, piece: Piece) {
        let Some(leaving) = self.leaving.get_mut(&transfer) else {
            return;
        };
        leaving.missing = leaving.missing.saturating_sub(piece.length());
        leaving.pieces.push(piece);
        if leaving.missing == 0
            && let Some(leaving) = self.leaving.remove(&transfer)
        {
            self.whole.push_back((transfer, leaving));
        }
    }

    fn settle(&mut self, transfer: TransferId, settled: Settled) {
        if let Some(coming) = self.coming.remove(&transfer) {
            if settled == Settled::Taken {
                self.tried.remove(&coming.outer);
            }
            self.settled.push_back((coming, settled));
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    /// The next bundle for the peer that is whole.
    pub(crate) fn take_whole(&mut self) -> Option<(TransferId, Leaving)> {
        self.whole.pop_front()
    }

    /// The encapsulating bundle of a transfer is durable here, or is not to be.
    pub(crate) fn left(&mut self, transfer: TransferId, refused: Option<RefuseReason>) {
        self.events.push_back(match refused {
            None => LinkEvent::Sent { transfer },
            refused => LinkEvent::Failed {
                transfer,
                refused,
                acknowledged: 0,
            },
        });
    }

    /// An encapsulating bundle of the peer is here, and to be read.
    pub(crate) fn came(&mut self, outer: BundleKey) {
        self.unread.push_back(outer);
    }

    /// The next octets to read; none while as much is read as may be.
    pub(crate) fn next_reading(&mut self) -> Option<Reading> {
        if self.readings >= READINGS_BOUND {
            return None;
        }
        let reading = match self.paused.pop_front() {
            Some(transfer) => {
                // A transfer that was refused meanwhile is read no further.
                let coming = self.coming.get(&transfer).copied();
                let Some(coming) = coming else {
                    return self.next_reading();
                };
                Reading::Next(transfer, coming)
            }
            None if self.coming.len() + self.opened.len() >= READINGS_BOUND => return None,
            None => {
                let outer = self.unread.pop_front()?;
                self.opened.insert(outer);
                Reading::First(outer)
            }
        };
        self.readings += 1;
        Some(reading)
    }

    /// A read of an encapsulating bundle is over.
    pub(crate) fn end_reading(&mut self, outer: BundleKey) {
        self.opened.remove(&outer);
        self.readings = self.readings.saturating_sub(1);
    }

    /// The bundle of a transfer that is being read.
    pub(crate) fn coming(&self, transfer: TransferId) -> Option<Coming> {
        self.coming.get(&transfer).copied()
    }

    /// A bundle begins to come in another: its transfer.
    pub(crate) fn begin(&mut self, coming: Coming) -> TransferId {
        let transfer = TransferId(self.next_coming);
        self.next_coming += 1;
        self.coming.insert(transfer, coming);
        transfer
    }

    /// So many octets of the payload of a transfer's encapsulating bundle were read; there are more.
    pub(crate) fn pause(&mut self, transfer: TransferId, read: u64) {
        if let Some(coming) = self.coming.get_mut(&transfer) {
            coming.read = read;
            self.paused.push_back(transfer);
        }
    }

    /// A transfer's encapsulating bundle cannot be read now.
    pub(crate) fn give_up(&mut self, transfer: TransferId) {
        self.coming.remove(&transfer);
    }

    pub(crate) fn next_settled(&mut self) -> Option<(Coming, Settled)> {
        self.settled.pop_front()
    }

    /// There was no room for the bundle in this one: true when that was so before, or cannot be remembered.
    pub(crate) fn is_tried_again(&mut self, outer: BundleKey) -> bool {
        let is_again = self.tried.remove(&outer) || self.tried.len() >= TRIED_BOUND;
        if !is_again {
            self.tried.insert(outer);
        }
        is_again
    }

    /// All encapsulating bundles that are here and not settled: the tunnel is closed.
    pub(crate) fn close(&mut self) -> Vec<BundleKey> {
        let coming = core::mem::take(&mut self.coming).into_values();
        let opened = core::mem::take(&mut self.opened);
        let unread = core::mem::take(&mut self.unread);
        let coming = coming.map(|it| it.outer);
        coming.chain(opened).chain(unread).collect()
    }

    /// All encapsulating bundles that it has.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn outers(&self) -> impl Iterator<Item = BundleKey> {
        let coming = self.coming.values().map(|it| it.outer);
        let settled = self.settled.iter().map(|(it, _)| it.outer);
        let unread = self.unread.iter().chain(&self.opened).copied();
        coming.chain(settled).chain(unread)
    }
}
