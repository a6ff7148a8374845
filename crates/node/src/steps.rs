//! The steps of single bundles through a node, for drivers that follow them ([`Telling::Steps`]).
//!
//! [`Telling::Steps`]: crate::driver::Telling::Steps

use alloc::boxed::Box;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{BundleId, FragmentRange, Instant, NodeId};
use dhow_link::stream::RefuseReason;

use crate::adjacencies::session_id::SessionId;
use crate::driver::Occurrence;
use crate::held::Held;
use crate::node::Node;
use crate::outbox::Outbox;
use crate::sending::Outgoing;

/// A step of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BundleStep {
    /// The bundle, or fragment, that is held here.
    pub id: BundleId,
    /// The step.
    pub step: Step,
}

/// The steps that a bundle takes in a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// All of its octets are here, and the store was asked to keep it.
    Arrived {
        /// The time at which its header was here.
        begun: Instant,
    },
    /// The bundle is durable, and goes its way.
    Stored {
        /// The neighbour that brought it; `None` where it was made here, or nobody knows who brought it.
        from: Option<NodeId>,
        /// Octets of the whole bundle.
        octets: u64,
    },
    /// Fragments have made the whole.
    Assembled,
    /// The bundle was given to an application.
    HandedOver,
    /// A neighbour has taken it, or it has left over a link on which nobody says more.
    Sent {
        /// The neighbour.
        to: NodeId,
        /// The fragment that left, where that was only a part of what is held here.
        part: Option<FragmentRange>,
        /// Octets of the bundle, or of the fragment's payload.
        octets: u64,
        /// The time at which the transfer began.
        begun: Instant,
    },
    /// A transfer failed.
    Unsent {
        /// The neighbour.
        to: NodeId,
        /// The part as with [`Step::Sent`].
        part: Option<FragmentRange>,
        /// The time at which the transfer began.
        begun: Instant,
        /// The neighbour's reason; `None` where the session ended.
        refused: Option<RefuseReason>,
    },
    /// Its copy here was deleted, since the bundle is known to be where it was to go.
    Purged,
}

impl Outbox {
    /// Tells of a step of a stored bundle, where somebody follows them.
    #[inline]
    pub(crate) fn stepped(&mut self, held: &Held, key: BundleKey, step: impl FnOnce() -> Step) {
        if self.telling.is_of_steps() {
            self.tell_step(held, key, step());
        }
    }

    #[cold]
    fn tell_step(&mut self, held: &Held, key: BundleKey, step: Step) {
        let Some(entry) = held.entry(key) else {
            return;
        };
        let mut id = held.bundle_id(entry);
        if held.reassembly().parts(key).is_some() {
            id.fragment = None;
        }
        let step = Box::new(BundleStep { id, step });
        self.occurred(Occurrence::Step(step));
    }
}

impl Node {
    /// Tells that a bundle is durable.
    #[inline]
    pub(crate) fn tell_stored(&mut self, key: BundleKey) {
        if self.outbox.telling.is_of_steps()
            && let Some(entry) = self.held.entry(key)
        {
            let previous = entry.previous();
            let previous = previous.map(|index| self.held.endpoints().id(index));
            let from = previous.and_then(dhow_bundle::EndpointId::node_id);
            let octets = entry.octets();
            let step = Step::Stored { from, octets };
            self.outbox.tell_step(&self.held, key, step);
        }
    }

    /// Tells how a transfer ended: `refused` is of one that failed.
    #[inline]
    pub(crate) fn tell_transfer_step(
        &mut self,
        session: SessionId,
        outgoing: &Outgoing,
        refused: Option<Option<RefuseReason>>,
    ) {
        if self.outbox.telling.is_of_steps() {
            self.tell_end(session, outgoing, refused);
        }
    }

    #[cold]
    fn tell_end(
        &mut self,
        session: SessionId,
        outgoing: &Outgoing,
        refused: Option<Option<RefuseReason>>,
    ) {
        let Some((entry, to)) =
            (self.held.entry(outgoing.key)).zip(self.adjacencies.peer_of(session))
        else {
            return;
        };
        let id = self.held.bundle_id(entry);
        let part = outgoing.fragment.then(|| FragmentRange {
            offset: id
                .fragment
                .map_or(0, |range| range.offset)
                .saturating_add(outgoing.start),
            length: outgoing.octets,
        });
        let (octets, begun) = (outgoing.octets, outgoing.begun);
        let step = match refused {
            None => Step::Sent {
                to,
                part,
                octets,
                begun,
            },
            Some(refused) => Step::Unsent {
                to,
                part,
                begun,
                refused,
            },
        };
        self.outbox
            .occurred(Occurrence::Step(Box::new(BundleStep { id, step })));
    }
}
