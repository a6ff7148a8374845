//! The next bundle for a session, and the bundles that sessions are cutting into fragments.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::neighbour::Neighbour;
use crate::adjacencies::session_id::SessionId;
use crate::forwarding::Forwarding;
use crate::forwarding::queues::{Choice, QueueId};
use crate::held::Held;
use crate::routing::Hop;
use crate::sending::must_not_fragment;
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{Header, HopEdit};
use dhow_link::stream::RefuseReason;

/// A bundle that a session is cutting into fragments.
#[derive(Debug)]
pub(crate) struct Split {
    pub(crate) key: BundleKey,
    /// Payload octets of one fragment.
    pub(crate) piece_octets: u64,
    /// First payload octet that is not yet under way.
    pub(crate) next: u64,
}

/// The progress of a bundle that is cut into fragments.
#[derive(Debug)]
pub(crate) struct SplitBundle {
    pub(crate) header: Box<Header>,
    /// Fragments read for or given to the session and not yet answered.
    pub(crate) outstanding: u64,
    /// Whether no more fragments will be made.
    pub(crate) complete: bool,
    /// A fragment failed: the bundle stays here.
    pub(crate) failed: Option<Option<RefuseReason>>,
}

impl Forwarding {
    /// The next bundle for a session.
    pub(crate) fn choose(
        &self,
        held: &Held,
        adjacencies: &Adjacencies,
        session: SessionId,
    ) -> Option<Choice> {
        self.weigh(held, adjacencies, session).0
    }

    /// The next bundle for a session, and the queues that are to be listed anew.
    pub(crate) fn weigh(
        &self,
        held: &Held,
        adjacencies: &Adjacencies,
        session: SessionId,
    ) -> (Option<Choice>, Vec<QueueId>) {
        let Some(neighbour) = adjacencies.neighbour(session) else {
            return (None, Vec::new());
        };
        let best = |hops: &[Hop]| hops.iter().position(|hop| adjacencies.is_up(hop));
        if neighbour.ceiling_octets().is_some() {
            let (choice, stale) = self
                .queues
                .next(held.bundles(), &neighbour.hops, best, |key| {
                    held.is_below(neighbour, key) && self.may_go(held, neighbour, key)
                });
            if choice.is_some() {
                return (choice, stale);
            }
        }
        self.queues
            .next(held.bundles(), &neighbour.hops, best, |key| {
                self.may_go(held, neighbour, key)
            })
    }

    /// The bundle behind the one that was chosen for a session last, while nothing else has happened.
    pub(crate) fn follow(
        &self,
        held: &Held,
        adjacencies: &Adjacencies,
        session: SessionId,
        last: &Choice,
    ) -> Option<Choice> {
        let following = self.queues.following(held.bundles(), last)?;
        let neighbour = adjacencies.neighbour(session)?;
        let goes =
            held.is_below(neighbour, following.key) && self.may_go(held, neighbour, following.key);
        goes.then_some(following)
    }

    pub(crate) fn may_go(&self, held: &Held, neighbour: &Neighbour, key: BundleKey) -> bool {
        held.entry(key).is_some_and(|entry| {
            let fits =
                entry.octets() <= neighbour.transfer_mru() || !must_not_fragment(entry.flags());
            // A bundle never goes back to the neighbour that it came from: that one would take it for a
            // copy of what it has got rid of.
            let is_back = entry.previous().is_some() && entry.previous() == neighbour.peer;
            let may_pass = !is_back || planted(Mutant::SentBack);
            let is_spoken = !entry.is_untranslatable() || neighbour.speaks(entry.version());
            // The carriers of a tunnel come to its other end by another way.
            let is_inside =
                neighbour.session.is_tunnel() && neighbour.peer == Some(entry.destination());
            let has_room = (neighbour.shortages)
                .rest(entry.source(), entry.octets())
                .is_none();
            fits && may_pass
                && is_spoken
                && !is_inside
                && has_room
                && !self.has_left(held, neighbour.link, key)
        })
    }

    /// A bundle's header for the next hop, and octets of the bundle with it.
    pub(crate) fn head(&mut self, header: &Header, edit: &HopEdit) -> (Bytes, u64) {
        self.heads.forwarded(header, edit)
    }
}
