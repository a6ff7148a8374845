//! Small bundles that may leave or be delivered while their sync runs.

use crate::adjacencies::Adjacencies;
use crate::before_sync::Orphan;
use crate::forwarding::Forwarding;
use crate::forwarding::cut_through::CutThrough;
use crate::held::Held;
use crate::held::bundles::Identity;
use crate::outbox::Outbox;
use crate::sending::Outgoing;
use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::{Header, Now, Reading};

/// Bundles that have gone on ahead of their commit, at most: their octets are in memory twice.
const UNSYNCED_BOUND: usize = 64;

/// Octets of a bundle that goes on ahead of its commit, at most: they are copied, or kept in memory for so long.
pub(crate) const UNSYNCED_OCTETS: u64 = 16 * 1024;

impl Forwarding {
    /// No other bundle for its destination is on its way into the store and behind the others.
    pub(crate) fn is_first(&self, held: &Held, key: BundleKey) -> bool {
        self.cut_throughs.len() < UNSYNCED_BOUND && held.arrivals().is_first(key)
    }

    /// A bundle from a neighbour is small, and may go on ahead of its commit.
    pub(crate) fn may_go_before_sync(&self, held: &Held, key: BundleKey, header: &Header) -> bool {
        header.total_octets() <= UNSYNCED_OCTETS
            && !held.custody().wants(key)
            && header.primary.fragment.is_none()
            && !header.has_open_end()
            && self.is_first(held, key)
    }

    /// A bundle whose commit is on its way goes on.
    pub(crate) fn pass_before_sync(&mut self, held: &mut Held, key: BundleKey, pass: CutThrough) {
        self.cut_throughs.insert(key, pass);
        held.arrivals_mut().go_before_sync(key);
    }

    /// An application has been given a bundle that is not durable here.
    pub(crate) fn is_in_hand(&self, held: &Held, identity: &Identity) -> bool {
        let pass = (held.find(identity)).and_then(|key| self.cut_throughs.get(&key));
        matches!(
            pass,
            Some(
                CutThrough::Given | CutThrough::Confirmed | CutThrough::Orphaned(Orphan::Delivery)
            )
        )
    }

    /// A bundle of this node whose commit is on its way leaves at once, where a session has room and no other for its destination waits.
    pub(crate) fn leave_before_sync(
        &mut self,
        held: &mut Held,
        adjacencies: &mut Adjacencies,
        out: &mut Outbox,
        now: Now,
        key: BundleKey,
        octets: &Bytes,
    ) {
        let Some(entry) = held.entry(key) else {
            return;
        };
        // A custodian's promise is durable before it is given.
        if held.custody().wants(key) {
            return;
        }
        let is_reserved = held.creation().is_reserved_durably(entry.creation());
        if !is_reserved || !self.is_first(held, key) {
            return;
        }
        let Ok(Some(header)) = Header::decode(octets, Reading::Strict) else {
            return;
        };
        let Some(session) = self.way_ahead(held, adjacencies, now, key, &header) else {
            return;
        };
        let place = (key, &header);
        let edit = (held).hop_edit(adjacencies, now, session, place, None);
        let (head, total) = self.head(&header, &edit);
        let Some(neighbour) = adjacencies.neighbour(session) else {
            return;
        };
        if total > neighbour.transfer_mru() {
            return;
        }
        let outgoing = Outgoing {
            key,
            octets: header.total_octets(),
            fragment: false,
            start: 0,
            header_octets: u64::try_from(head.len()).unwrap_or(u64::MAX),
            stored_octets: 0,
            begun: now.monotonic,
        };
        adjacencies.charge(held, session, key);
        let body = octets.slice(header.octets.len()..);
        let ending = adjacencies.ending(session, &header, &edit);
        let [body, end] = ending.of_octets(body, header.payload_octets());
        let pieces = [head, body, end].map(Piece::Octets);
        if let Some(transfer) = adjacencies.transmit(out, now, session, outgoing, total, pieces) {
            self.pass_before_sync(held, key, CutThrough::Left(session, transfer));
        }
    }
}
