//! Link state cues (RFC 5326 5): the carrier of a link and planned contacts, told to neighbours whose transfers outlast the times in which nothing can
//! pass.
//!
//! Such a session stays. While nothing can leave, its queues are closed: bundles wait for it as for one that is not established, or take
//! another way.

use core::time::Duration;

use dhow_bundle::{DtnTime, NodeId, Now};
use dhow_link::datagram::{Path, PathState};

use crate::adjacencies::session_id::SessionId;
use crate::config::LinkId;
use crate::contacts::PlannedContact;
use crate::driver::Carrier;
use crate::node::Node;
use crate::routing::Contact;

/// The planned state of the way to and from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Whether the peer can transmit.
    incoming: PathState,
    /// One-way light time, of a contact that is on, or else of the next.
    pub(crate) light_time: Option<Duration>,
    /// When another contact begins or one ends.
    change: Option<DtnTime>,
}

impl Node {
    /// Tells the sessions of a link that keep their transfers of the state of their path. When the plan changes next comes back.
    pub(crate) fn tell_link_state(&mut self, now: Now, id: LinkId) -> Option<DtnTime> {
        let link = self.adjacencies.link(id)?;
        let (carrier, is_absent) = (link.carrier, link.is_absent());
        let peer = link.config.policy.peer.clone()?;
        let sessions = link.sessions.iter().copied();
        let sessions = sessions.filter(|it| self.adjacencies.keeps_transfers(*it));
        let sessions: alloc::vec::Vec<SessionId> = sessions.collect();
        if sessions.is_empty() {
            return None;
        }
        let plan = self.plan_with(&peer, now.dtn);
        let state = |is_closed| match is_closed {
            true => PathState::Closed,
            false => PathState::Open,
        };
        for session in sessions {
            self.adjacencies
                .converse(&mut self.attention, session, |it| {
                    let path = Path {
                        outgoing: state(is_absent),
                        incoming: match carrier {
                            Carrier::Absent => PathState::Closed,
                            Carrier::Present => plan.incoming,
                        },
                        light_time: plan.light_time,
                        ..it.path()
                    };
                    if path != it.path() {
                        it.handle_path(now, path);
                    }
                });
            self.turn_session(now, session, &peer, is_absent);
        }
        plan.change
    }

    /// A session may give its neighbour nothing any more, or may again.
    fn turn_session(&mut self, now: Now, session: SessionId, peer: &NodeId, is_shut: bool) {
        let Some(neighbour) = self.adjacencies.neighbour_mut(session) else {
            return;
        };
        if core::mem::replace(&mut neighbour.is_shut, is_shut) == is_shut
            || neighbour.parameters.is_none()
        {
            return;
        }
        if is_shut {
            if self.adjacencies.separate(peer, session) {
                self.forwarding.contact_changed(now, peer, Contact::Down);
            }
            // Another way may be the best one now.
            return self.adjacencies.serve_everybody();
        }
        if self.adjacencies.establish(peer, session) {
            self.forwarding.contact_changed(now, peer, Contact::Up);
        }
        self.adjacencies.serve(session);
        self.forwarding.wake_sent(
            &mut self.held,
            &mut self.adjacencies,
            &mut self.delivery,
            &mut self.outbox,
            session,
        );
    }

    /// The planned state of the way to and from a peer. If no contacts are planned in a direction, it is always open.
    pub(crate) fn plan_with(&self, peer: &NodeId, at: DtnTime) -> Plan {
        let always = Plan {
            incoming: PathState::Open,
            light_time: None,
            change: None,
        };
        if !at.is_known() {
            return always;
        }
        let (own, table) = (&self.config.node_ids, &self.config.contacts);
        let find = |find: &dyn Fn(&NodeId) -> Option<PlannedContact>| own.iter().find_map(find);
        let out = find(&|own| table.current(own, peer, at));
        let next_out = find(&|own| table.next(own, peer, at));
        let back = find(&|own| table.current(peer, own, at));
        let next_back = find(&|own| table.next(peer, own, at));
        let is_planned = own.iter().any(|own| table.has_way(peer, own));
        let all = [&out, &back, &next_out, &next_back].into_iter().flatten();
        let ends = [&out, &back].into_iter().flatten().map(|it| it.end);
        let starts = [&next_out, &next_back].into_iter().flatten();
        Plan {
            incoming: match is_planned && back.is_none() {
                true => PathState::Closed,
                false => PathState::Open,
            },
            light_time: all.map(PlannedContact::light_time).next(),
            change: ends.chain(starts.map(|it| it.start)).min(),
        }
    }
}
