//! Bundles that go out in fragments, because the next hop takes no larger transfers or the operator says
//! so (RFC 9171 5.8).
//!
//! Fragments are made on the way out and never stored; the bundle stays until next hops have acknowledged all of
//! them. If acknowledgments take their time, as over LTP, the payload of each leaves from where the bundle is stored: it was read only for
//! its checksum. When one fails, it goes on behind those that were acknowledged without a gap. The cut falls at the same
//! octets each time, so that fragments which a neighbour has already are known there for copies.
//!
//! So does a bundle whose transfer failed go on behind what the next hop keeps of it (docs/tcpcl-extensions.md 1).

use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, Piece};
use dhow_bundle::{FragmentRange, Header, Now};
use dhow_link::stream::RefuseReason;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::adjacencies::session_id::SessionId;
use crate::crossing::LeavingFragment;
use crate::forwarding::choice::Split;
use crate::forwarding::choice::SplitBundle;
use crate::held::bundles::Entry;
use crate::node::Node;
use crate::sending::NOT_ACCEPTABLE_RETRY;
use crate::sending::Outgoing;

/// Payload of one fragment, at most, octets: a fragment is read into memory to compute its checksum.
const PIECE_OCTETS_BOUND: u64 = 4 << 20;

/// Octets that a fragment's header blocks and trailer may take more than those of its bundle, as it would go out
/// in one piece, octets: two numbers of the primary block and its CRC, and a longer age.
const PIECE_OVERHEAD_OCTETS: u64 = 64;

impl Node {
    /// Start cutting a bundle whose window is already charged, once those before it on this session are
    /// cut. Without its payload it takes `overhead` octets.
    pub(crate) fn begin_split(
        &mut self,
        now: Now,
        session: SessionId,
        key: BundleKey,
        header: Box<Header>,
        overhead: u64,
    ) {
        let octets = self.held.entry(key).map_or(0, |entry| entry.octets());
        let Some(neighbour) = self.adjacencies.neighbour(session) else {
            return;
        };
        let limit = neighbour.policy.fragment_octets;
        let overhead = overhead.saturating_add(PIECE_OVERHEAD_OCTETS);
        let room = neighbour
            .transfer_mru()
            .saturating_sub(overhead)
            .min(PIECE_OCTETS_BOUND);
        let piece_octets = limit.map_or(room, |limit| limit.min(room));
        // From here on the fragments are charged, not the bundle.
        self.adjacencies.discharge(session, octets);
        if piece_octets == 0 {
            // The peer's transfer MRU has no room for even one octet of payload.
            self.give_back(now, session, key, Some(NOT_ACCEPTABLE_RETRY));
            return;
        }
        let next = self
            .forwarding
            .acknowledged_by(&self.adjacencies, session, key)
            .unwrap_or(0);
        if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
            let priority = |key| self.held.entry(key).map(Entry::priority);
            let mine = priority(key);
            let place = (neighbour.splits).partition_point(|other| priority(other.key) >= mine);
            let split = Split {
                key,
                piece_octets,
                next,
            };
            neighbour.splits.insert(place, split);
        }
        let split = SplitBundle {
            header,
            outstanding: 0,
            complete: false,
            failed: None,
        };
        self.held.custody_mut().cut(key);
        self.forwarding.begin_split(key, session, split);
    }

    /// A fragment's payload is here: make its blocks and open the transfer.
    pub(crate) fn transmit_fragment(
        &mut self,
        now: Now,
        session: SessionId,
        key: BundleKey,
        range: FragmentRange,
        payload: Bytes,
    ) {
        let ready = self
            .adjacencies
            .neighbour(session)
            .is_some_and(|neighbour| !neighbour.ending);
        let permits = (self.forwarding).permits(&self.adjacencies, session, key);
        let Some(state) = self.forwarding.split(key, session).filter(|_| ready) else {
            self.adjacencies.discharge(session, range.length);
            self.settle_fragment(now, session, key, Some(None));
            return;
        };
        // A fragment of a fragment counts from the start of the original payload.
        let offset = state.header.range().offset.saturating_add(range.offset);
        let fragment = FragmentRange {
            offset,
            length: range.length,
        };
        let mut edit = self.held.hop_edit(
            &self.adjacencies,
            now,
            session,
            (key, &state.header),
            Some(fragment),
        );
        edit.permits = permits;
        let leaving = (self.adjacencies).leaving_fragment(session, &state.header, &edit, &payload);
        let LeavingFragment { head, end } = match leaving {
            Ok(leaving) => leaving,
            Err(why) => {
                self.adjacencies.discharge(session, range.length);
                self.refuse_crossing(now, session, key, &why);
                return self.settle_fragment(now, session, key, Some(None));
            }
        };
        let octets = |octets: &Bytes| u64::try_from(octets.len()).unwrap_or(u64::MAX);
        let header_octets = octets(&head);
        let length = [&payload, &end].map(octets).into_iter();
        let length = length.fold(header_octets, u64::saturating_add);
        let (payload, stored_octets) = self.fragment_payload(session, key, range, payload);
        let pieces = core::iter::once(Piece::Octets(head)).chain(payload);
        let pieces = pieces.chain([Piece::Octets(end)]);
        self.adjacencies.transmit(
            &mut self.outbox,
            now,
            session,
            Outgoing {
                key,
                octets: range.length,
                fragment: true,
                start: range.offset,
                header_octets,
                stored_octets,
                begun: now.monotonic,
            },
            length,
            pieces,
        );
    }

    /// A fragment's payload as it leaves, and its octets that leave from where the bundle is stored.
    fn fragment_payload(
        &self,
        session: SessionId,
        key: BundleKey,
        range: FragmentRange,
        payload: Bytes,
    ) -> (Vec<Piece>, u64) {
        let neighbour = self.adjacencies.neighbour(session);
        let is_paced = neighbour.is_some_and(|it| it.session.is_paced());
        let Some(entry) = self.held.entry(key).filter(|_| is_paced) else {
            return (vec![Piece::Octets(payload)], 0);
        };
        let start = u64::from(entry.header_octets()).saturating_add(range.offset);
        let extents = entry.extents().slice(start, range.length);
        (
            extents.into_iter().map(Piece::Extent).collect(),
            range.length,
        )
    }

    /// A fragment was taken (`failed` is `None`) or not.
    pub(crate) fn settle_fragment(
        &mut self,
        now: Now,
        session: SessionId,
        key: BundleKey,
        failed: Option<Option<RefuseReason>>,
    ) {
        let Some(split) = self.forwarding.split_mut(key, session) else {
            return;
        };
        split.outstanding = split.outstanding.saturating_sub(1);
        if let Some(refused) = failed {
            if planted(Mutant::RefusedFragmentForgotten) {
                return self.finish_split(now, session, key);
            }
            split.failed = Some(refused);
            self.stop_split(now, session, key, refused);
            return;
        }
        self.finish_split(now, session, key);
    }

    /// No more fragments of this bundle go out on this session.
    pub(crate) fn stop_split(
        &mut self,
        now: Now,
        session: SessionId,
        key: BundleKey,
        refused: Option<RefuseReason>,
    ) {
        if let Some(neighbour) = self.adjacencies.neighbour_mut(session) {
            neighbour.splits.retain(|split| split.key != key);
        }
        if let Some(split) = self.forwarding.split_mut(key, session) {
            split.failed.get_or_insert(refused);
            split.complete = true;
        }
        self.finish_split(now, session, key);
    }

    fn finish_split(&mut self, now: Now, session: SessionId, key: BundleKey) {
        let done = self.forwarding.split(key, session).is_some_and(|split| {
            split.complete && (split.outstanding == 0 || planted(Mutant::LastFragmentNotAwaited))
        });
        if !done {
            return;
        }
        match self
            .forwarding
            .end_split(key, session)
            .and_then(|split| split.failed)
        {
            None => self.forwarded(now, session, key),
            Some(refused) => self.come_back(now, session, key, refused),
        }
    }
}
