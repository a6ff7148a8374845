//! The requests of an operator to a running node.

use dhow_bundle::{NodeId, Now};

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
                self.bring_link_up(now, id);
                Ok(())
            }
            OperatorCommand::Change(changes) => self.change(now, *changes),
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
}
