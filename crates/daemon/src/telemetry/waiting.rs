//! The reason for which a bundle waits, in the words of `dhow why`.

use dhow_bundle::{BundleId, Now};
use dhow_node::Node;
use dhow_node::why::{Cause, Way};

/// The reason for which a bundle waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// The reason.
    pub(super) reason: &'static str,
    /// The next hop that it is about, where it is about one.
    pub(super) next_hop: Option<String>,
}

impl Waiting {
    /// The wait of a bundle that a node holds, as it is now: `None` where it waits for nothing.
    pub(super) fn of(node: &Node, now: Now, id: &BundleId) -> Option<Self> {
        let why = node.why_bundle(now, id)?;
        why.causes.into_iter().find_map(Self::of_cause)
    }

    fn of_cause(cause: Cause) -> Option<Self> {
        let reason = match cause {
            Cause::Way(way) => return Some(Self::of_way(way)),
            Cause::Delivering | Cause::Sending(_) => return None,
            Cause::Refused { by, .. } => {
                return Some(Self {
                    reason: "refused",
                    next_hop: Some(by.to_string()),
                });
            }
            Cause::NoRoute => "no_route",
            Cause::NoNeighbour => "no_neighbour",
            Cause::NotChosen(_) => "not_chosen",
            Cause::Undecided => "awaiting_router",
            Cause::NotRegistered => "not_registered",
            Cause::NoSubscriber => "no_subscriber",
            Cause::Resting(_) => "resting",
            Cause::Sent => "sent",
            Cause::AwaitingSignal => "awaiting_signal",
            Cause::Fragments { .. } => "reassembling",
            Cause::Damaged => "damaged",
        };
        Some(Self {
            reason,
            next_hop: None,
        })
    }

    fn of_way(way: Way) -> Self {
        let reason = match way.sessions {
            0 => "no_session",
            _ if way.full_for_ms.is_some() => "full",
            _ if !way.bars.is_empty() => "barred",
            _ => "queue",
        };
        Self {
            reason,
            next_hop: Some(way.next_hop),
        }
    }
}
