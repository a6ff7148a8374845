//! The requests of an operator to a running node.

use alloc::vec::Vec;

use dhow_bundle::{NodeId, Now};

use crate::adjacencies::session_id::SessionId;
use crate::config::LinkId;
use crate::driver::{OperatorCommand, OperatorRefusal};
use crate::held::custody::set_peer;
use crate::node::Node;
use crate::view::LinkOrigin;

/// The operator asked for it: "transmission canceled" (RFC 9171 table 1).
const CANCELED: u8 = 3;

impl Node {
    pub(crate) fn add_configured_routes(&mut self) {
        let routes = core::mem::take(&mut self.config.routes);
        for route in routes {
            // The configuration was checked when it was read; a route that is given twice is one route.
            let _ = self.forwarding.add_route(&self.adjacencies, route);
        }
    }

    pub(crate) fn obey(
        &mut self,
        now: Now,
        command: OperatorCommand,
    ) -> Result<(), OperatorRefusal> {
        match command {
            OperatorCommand::LinkUp(name) => {
                let id = self.adjacencies.link_named(&name)?;
                if let Some(link) = self.adjacencies.link_mut(id) {
                    link.bring_up(now.monotonic);
                }
                Ok(())
            }
            OperatorCommand::LinkDown(name) => {
                let id = self.adjacencies.link_named(&name)?;
                self.take_link_down(now, id);
                Ok(())
            }
            OperatorCommand::RouteAdd(route) => {
                self.check_other(route.via.parse().ok())?;
                self.forwarding.add_route(&self.adjacencies, route)?;
                self.forwarding.reroute(
                    &mut self.held,
                    &mut self.adjacencies,
                    &mut self.delivery,
                    &mut self.outbox,
                );
                Ok(())
            }
            OperatorCommand::RouteDelete { to, via } => {
                self.adjacencies.hop_named(&via)?;
                self.forwarding.delete_route(&to, &via)?;
                self.forwarding.reroute(
                    &mut self.held,
                    &mut self.adjacencies,
                    &mut self.delivery,
                    &mut self.outbox,
                );
                Ok(())
            }
            OperatorCommand::LinkAdd { name, like, peer } => {
                self.check_other(peer.clone())?;
                let id = self.adjacencies.add_link(name, &like, peer)?;
                if let Some(link) = self.adjacencies.link(id) {
                    self.forwarding.add_link(id, &link.config);
                    set_peer(self.held.custody_mut().value_mut(), &link.config);
                }
                Ok(())
            }
            OperatorCommand::LinkDelete(name) => {
                let id = self.adjacencies.link_named(&name)?;
                match self.adjacencies.link(id).map(|link| link.origin) {
                    Some(LinkOrigin::Added) => {}
                    Some(LinkOrigin::Found) => return Err(OperatorRefusal::LinkFound(name)),
                    _ => return Err(OperatorRefusal::LinkConfigured(name)),
                }
                if let Some(to) = self.forwarding.route_over(id) {
                    return Err(OperatorRefusal::LinkRouted(name, to));
                }
                self.delete_link(now, id);
                Ok(())
            }
            OperatorCommand::BundleDrop(id) => {
                let key = self.held.find_bundle(&id);
                let key = key.ok_or(OperatorRefusal::UnknownBundle(id))?;
                if !self.drop_arrival(now, key) {
                    self.delete_or_mark(now, key, CANCELED);
                }
                Ok(())
            }
        }
    }

    /// A neighbour is another node.
    fn check_other(&self, neighbour: Option<NodeId>) -> Result<(), OperatorRefusal> {
        match neighbour.filter(|it| self.config.node_ids.contains(it)) {
            Some(own) => Err(OperatorRefusal::OwnNode(own)),
            None => Ok(()),
        }
    }

    /// A link is shown no more, and dialled no more.
    pub(crate) fn delete_link(&mut self, now: Now, id: LinkId) {
        self.take_link_down(now, id);
        let peer = self.adjacencies.forget_link(now.monotonic, id);
        for key in self.held.forget_peer(peer.as_ref()) {
            self.leave_again(now, key, None);
        }
        if (self.adjacencies.link(id)).is_some_and(|link| link.origin == LinkOrigin::Found) {
            self.adjacencies.stop_dialling(&mut self.outbox, id);
        }
    }

    fn take_link_down(&mut self, now: Now, id: LinkId) {
        let Some(link) = self.adjacencies.link_mut(id) else {
            return;
        };
        link.take_down();
        let sessions: Vec<SessionId> = link.sessions.clone();
        for session in sessions {
            self.adjacencies
                .terminate(&mut self.attention, now, session);
        }
        // Bundles that would have gone over this link may have another way.
        self.adjacencies.serve_everybody();
    }
}
