//! Copies that routers make: no more than were permitted, none for a neighbour that was given one, and none dropped without a policy.
//!
//! A crash between the hand-over of a copy and its note, or a connection that ends before the acknowledgment is there, may count permits twice: they are
//! held against nodes as long as there was neither. Copies given to a node are known from acknowledgments that passed over links.

use std::collections::{BTreeMap, BTreeSet};

use dhow_bundle::router::{DropPolicy, RouterKind};
use dhow_scenario::Scenario;
use dhow_scenario::scenario::Routing;

use crate::ledger::{BundleName, Named};
use crate::queue::MachineIndex;

/// The rules of one node for bundles to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The router that decides.
    pub router: RouterKind,
    /// The copies of a bundle that is made there, with spray and wait.
    pub copies: u32,
    /// The copies that make room for others.
    pub drop: DropPolicy,
}

/// Copies of all bundles.
#[derive(Debug)]
pub struct Spreads {
    /// Rules by the position of a node, and the number of the destination; none for all others.
    rules: BTreeMap<(usize, Option<u32>), Rule>,
    /// Nodes beside the destination's that have had a bundle durably.
    holders: Named<BTreeSet<MachineIndex>>,
    /// Nodes that have acknowledged a whole bundle to another, which still has it.
    given: Named<BTreeSet<u32>, (BundleName, MachineIndex)>,
    /// Whether nothing has crashed, and no connection has ended.
    is_calm: bool,
}

impl Spreads {
    /// The oracle for a scenario in which nothing has happened.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let rule = |it: &Routing| {
            let to = it.to.and_then(|to| scenario.nodes.get(to.0));
            let rule = Rule {
                router: it.router,
                copies: it.copies,
                drop: it.drop,
            };
            ((it.node.0, to.map(|to| to.number)), rule)
        };
        Self {
            rules: scenario.routing.iter().map(rule).collect(),
            holders: Named::default(),
            given: Named::default(),
            is_calm: true,
        }
    }

    /// The rule of a node for bundles to another, where a router decides about them.
    #[must_use]
    pub fn rule(&self, at: MachineIndex, to: u32) -> Option<Rule> {
        let own = self.rules.get(&(at.at(), Some(to)));
        let rule = own.or_else(|| self.rules.get(&(at.at(), None)));
        rule.copied().filter(|it| it.router != RouterKind::Static)
    }

    /// A machine has crashed, or a connection has ended.
    pub fn disturb(&mut self) {
        self.is_calm = false;
    }

    /// A machine has a bundle durably.
    pub fn handle_stored(&mut self, at: MachineIndex, name: BundleName) {
        self.holders.entry(name).or_default().insert(at);
    }

    /// A machine deletes a bundle, so it may forget the nodes that it gave the bundle to.
    pub fn handle_deleted(&mut self, at: MachineIndex, name: BundleName) {
        self.given.remove(&(name, at));
    }

    /// A machine may forget the nodes that it gave bundles to whose notes were not durable.
    pub fn handle_crash(&mut self, at: MachineIndex) {
        self.disturb();
        self.given.retain(|(_, giver), _| *giver != at);
    }

    /// A node has acknowledged all of a whole bundle that a machine gave it.
    pub fn handle_given(&mut self, at: MachineIndex, name: BundleName, to: u32) {
        self.given.entry((name, at)).or_default().insert(to);
    }

    /// Whether a machine that begins to give a node a bundle has given it before.
    #[must_use]
    pub fn was_given(&self, at: MachineIndex, name: BundleName, to: u32) -> bool {
        let given = self.given.get(&(name, at));
        given.is_some_and(|nodes| nodes.contains(&to))
    }

    /// Nodes that have had a bundle from one node to another, where they are more than spray and wait permits.
    #[must_use]
    pub fn too_many(
        &self,
        (from, to): (MachineIndex, u32),
        destination: MachineIndex,
        name: BundleName,
    ) -> Option<usize> {
        let rule = self.rule(from, to)?;
        let holders = self.holders.get(&name)?;
        let others = holders.iter().filter(|it| **it != destination).count();
        let most = usize::try_from(rule.copies).unwrap_or(usize::MAX);
        let is_counted = self.is_calm && rule.router == RouterKind::SprayAndWait;
        (is_counted && others > most).then_some(others)
    }
}
