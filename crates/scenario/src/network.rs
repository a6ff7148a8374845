//! The network as far as it has been read: nodes, links and contacts, and the lines of their names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dhow_document::{Document, Entries, FileError, nearest, there_are};

use crate::kind::{LinkKind, NodeKind};
use crate::scenario::{Channel, Contact, Host, Link, LinkIndex, Node, NodeIndex, Presence};
use crate::schema::NODE_NUMBER_MAX;

/// Nodes that a scenario may have: far above what any machine runs, so that a slip does not fill the memory.
pub(crate) const NODES_MAX: usize = 1_000_000;

/// Links that a scenario may have.
pub(crate) const LINKS_MAX: usize = 10_000_000;

/// Contacts that a scenario may have; one that comes again and again counts once.
pub(crate) const CONTACTS_MAX: usize = 10_000_000;

/// Nodes, links and contacts, with their names.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) contacts: Vec<Contact>,
    /// Differences from the file, for the person who runs the scenario.
    pub(crate) notes: Vec<String>,
    by_name: BTreeMap<String, NodeIndex>,
    by_number: BTreeMap<u32, NodeIndex>,
    by_link: BTreeMap<String, LinkIndex>,
    by_ends: BTreeMap<(NodeIndex, NodeIndex), LinkIndex>,
    /// The links that share the wire of another, by the place of that.
    by_wire: BTreeMap<usize, Vec<LinkIndex>>,
}

impl Network {
    /// A node; its number is its place where none is given.
    ///
    /// # Errors
    /// The mistake.
    pub(crate) fn add_node(
        &mut self,
        name: String,
        number: Option<u64>,
        kind: &NodeKind,
    ) -> Result<NodeIndex, String> {
        if self.nodes.len() >= NODES_MAX {
            return Err(format!("a scenario has at most {NODES_MAX} nodes"));
        }
        let place = u64::try_from(self.nodes.len() + 1).unwrap_or(u64::MAX);
        let number = u32::try_from(number.unwrap_or(place))
            .map_err(|_| format!("a node's number is from 1 to {NODE_NUMBER_MAX}"))?;
        let index = NodeIndex(self.nodes.len());
        if self.by_number.insert(number, index).is_some() {
            return Err(format!("two nodes have the number {number}"));
        }
        if self.by_name.insert(name.clone(), index).is_some() {
            return Err(format!("two nodes are named '{name}'"));
        }
        self.nodes.push(kind.node(name, number));
        Ok(index)
    }

    /// Puts a node onto the host of another, whose limits hold for both.
    pub(crate) fn put_on_host(&mut self, guest: NodeIndex, owner: NodeIndex) {
        if let Some(node) = self.nodes.get_mut(guest.0) {
            node.guest_of = Some(owner);
            node.host = Arc::new(Host {
                kind: node.host.kind,
                settings: node.host.settings.clone(),
                ..Host::default()
            });
        }
    }

    /// The node whose host a node is on: itself where it has one of its own.
    fn host_of(&self, node: NodeIndex) -> NodeIndex {
        let found = self.nodes.get(node.0).and_then(|node| node.guest_of);
        found.unwrap_or(node)
    }

    /// A link; its name follows from its ends where none is given.
    ///
    /// # Errors
    /// The mistake.
    pub(crate) fn add_link(
        &mut self,
        between: (NodeIndex, NodeIndex),
        name: Option<&str>,
        kind: &LinkKind,
    ) -> Result<LinkIndex, String> {
        self.insert_link(between, name, |name| kind.link(name, between))
    }

    /// A link between two hosts with a radio.
    ///
    /// # Errors
    /// The mistake.
    pub(crate) fn add_radio_link(
        &mut self,
        between: (NodeIndex, NodeIndex),
        kind: &LinkKind,
        channel: Option<Channel>,
    ) -> Result<LinkIndex, String> {
        self.insert_link(between, None, |name| Link {
            channel,
            ..kind.link(name, between)
        })
    }

    /// A link that shares the wire of another; it may have a pause of its own between two attempts.
    ///
    /// # Errors
    /// The mistake.
    pub(crate) fn add_link_over(
        &mut self,
        between: (NodeIndex, NodeIndex),
        name: Option<&str>,
        over: LinkIndex,
        retry: Option<Duration>,
    ) -> Result<LinkIndex, String> {
        let Some(wire) = self.links.get(over.0).cloned() else {
            return Err("there is no such link".to_owned());
        };
        if wire.over.is_some() {
            return Err(format!("'{}' has no wire of its own", wire.name));
        }
        let hosts =
            |ends: (NodeIndex, NodeIndex)| in_order((self.host_of(ends.0), self.host_of(ends.1)));
        if hosts(between) != hosts(wire.between) {
            let what = format!("'{}' is a wire between other hosts", wire.name);
            return Err(what);
        }
        let index = self.insert_link(between, name, |name| Link {
            name,
            between,
            retry: retry.unwrap_or(wire.retry),
            over: Some(over),
            ..wire
        })?;
        self.by_wire.entry(over.0).or_default().push(index);
        Ok(index)
    }

    fn insert_link(
        &mut self,
        between: (NodeIndex, NodeIndex),
        name: Option<&str>,
        link: impl FnOnce(String) -> Link,
    ) -> Result<LinkIndex, String> {
        let (first, second) = (self.name(between.0), self.name(between.1));
        if between.0 == between.1 {
            return Err(format!("'{first}' needs no link to itself"));
        }
        if self.host_of(between.0) == self.host_of(between.1) {
            return Err(format!("'{first}' and '{second}' are on one host"));
        }
        if self.links.len() >= LINKS_MAX {
            return Err(format!("a scenario has at most {LINKS_MAX} links"));
        }
        let name = name.map_or_else(|| format!("{first}-{second}"), str::to_owned);
        let index = LinkIndex(self.links.len());
        if self.by_link.insert(name.clone(), index).is_some() {
            return Err(format!("two links are named '{name}'"));
        }
        self.by_ends.entry(in_order(between)).or_insert(index);
        self.links.push(link(name));
        Ok(index)
    }

    /// The link between two nodes, whichever dials; the first where there are several.
    pub(crate) fn link_between(&self, between: (NodeIndex, NodeIndex)) -> Option<LinkIndex> {
        self.by_ends.get(&in_order(between)).copied()
    }

    /// A contact, which makes its link one that is not always there, and with it those that share its wire.
    ///
    /// # Errors
    /// When there are too many, or the link has no wire of its own.
    pub(crate) fn add_contact(&mut self, contact: Contact) -> Result<(), String> {
        if self.contacts.len() >= CONTACTS_MAX {
            return Err(format!("a scenario has at most {CONTACTS_MAX} contacts"));
        }
        let found = self.links.get(contact.link.0);
        if let Some(link) = found.filter(|link| link.over.is_some()) {
            let what = format!(
                "'{}' has the contacts of the link that it is over",
                link.name
            );
            return Err(what);
        }
        let over = self.by_wire.get(&contact.link.0).into_iter().flatten();
        for index in over.chain([&contact.link]) {
            if let Some(link) = self.links.get_mut(index.0) {
                link.presence = Presence::Planned;
            }
        }
        self.contacts.push(contact);
        Ok(())
    }

    fn name(&self, node: NodeIndex) -> &str {
        self.nodes.get(node.0).map_or("", |node| &node.name)
    }

    /// The node that a key names.
    ///
    /// # Errors
    /// When there is none of that name.
    pub(crate) fn node(
        &self,
        document: &Document<'_>,
        entries: &Entries,
        key: &str,
        name: &str,
    ) -> Result<NodeIndex, FileError> {
        if let Some(index) = self.node_named(name) {
            return Ok(index);
        }
        let error = document.fault(entries.line_of(key), format!("there is no node '{name}'"));
        Err(
            match nearest(name, self.by_name.keys().map(String::as_str)) {
                Some(meant) => error.with_hint(format!("did you mean '{meant}'?")),
                None => error.with_hint(self.there_are()),
            },
        )
    }

    /// The names of the nodes, for a hint.
    fn there_are(&self) -> String {
        match self.nodes.is_empty() {
            true => {
                "each node has a [[node]] with its name, or a section that makes several".to_owned()
            }
            false => there_are(self.nodes.iter().map(|node| node.name.clone())),
        }
    }

    /// The nodes whose names a key tells, with `*` for whatever is there; one without it.
    ///
    /// # Errors
    /// When there are none.
    pub(crate) fn nodes(
        &self,
        document: &Document<'_>,
        entries: &Entries,
        key: &str,
    ) -> Result<Vec<NodeIndex>, FileError> {
        let pattern = entries.text(key).unwrap_or_default();
        self.nodes_named(document, entries, key, pattern)
    }

    /// The nodes that one pattern of a key's list names.
    ///
    /// # Errors
    /// When there are none.
    pub(crate) fn nodes_named(
        &self,
        document: &Document<'_>,
        entries: &Entries,
        key: &str,
        pattern: &str,
    ) -> Result<Vec<NodeIndex>, FileError> {
        if !pattern.contains('*') {
            return Ok(vec![self.node(document, entries, key, pattern)?]);
        }
        let named = (0..).map(NodeIndex).zip(&self.nodes);
        let named = named.filter(|(_, node)| matches(pattern, &node.name));
        let found: Vec<NodeIndex> = named.map(|(index, _)| index).collect();
        if found.is_empty() {
            let what = format!("there is no node '{pattern}'");
            let error = document.fault(entries.line_of(key), what);
            return Err(error.with_hint(self.there_are()));
        }
        Ok(found)
    }

    /// The node of a name.
    pub(crate) fn node_named(&self, name: &str) -> Option<NodeIndex> {
        self.by_name.get(name).copied()
    }

    /// The node of a number.
    pub(crate) fn node_numbered(&self, number: u32) -> Option<NodeIndex> {
        self.by_number.get(&number).copied()
    }

    /// The link that a key names.
    ///
    /// # Errors
    /// When there is none of that name.
    pub(crate) fn link(
        &self,
        document: &Document<'_>,
        entries: &Entries,
        key: &str,
    ) -> Result<LinkIndex, FileError> {
        let name = entries.text(key).unwrap_or_default();
        if let Some(index) = self.by_link.get(name) {
            return Ok(*index);
        }
        let error = document.fault(entries.line_of(key), format!("there is no link '{name}'"));
        let turned = name.split_once('-').and_then(|(first, second)| {
            let ends = (self.node_named(first)?, self.node_named(second)?);
            let link = self.links.get(self.link_between(ends)?.0)?;
            Some(link.name.as_str())
        });
        let known = self.by_link.keys().map(String::as_str);
        Err(match turned.or_else(|| nearest(name, known)) {
            Some(meant) => error.with_hint(format!("did you mean '{meant}'?")),
            None => {
                error.with_hint("a link is called by its name, or FIRST-SECOND where it has none")
            }
        })
    }

    /// Each node's neighbours over links, in the order of the links.
    pub(crate) fn neighbours(&self) -> Vec<Vec<NodeIndex>> {
        let mut neighbours = vec![Vec::new(); self.nodes.len()];
        for link in &self.links {
            for (here, there) in [link.between, (link.between.1, link.between.0)] {
                if let Some(list) = neighbours.get_mut(here.0) {
                    list.push(there);
                }
            }
        }
        neighbours
    }
}

/// The nodes that are so many links away at most, without the one in the middle.
pub(crate) fn within(
    neighbours: &[Vec<NodeIndex>],
    middle: NodeIndex,
    links: u64,
) -> BTreeSet<NodeIndex> {
    let mut found = BTreeSet::from([middle]);
    let mut reached = VecDeque::from([(middle, 0)]);
    while let Some((here, far)) = reached.pop_front() {
        if far == links {
            continue;
        }
        for there in neighbours.get(here.0).into_iter().flatten() {
            if found.insert(*there) {
                reached.push_back((*there, far + 1));
            }
        }
    }
    found.remove(&middle);
    found
}

/// Whether a name is one of a pattern, in which `*` stands for any characters, also none.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, behind)) = name.split_once(part) else {
            return false;
        };
        name = behind;
    }
    name.ends_with(end)
}

fn in_order((first, second): (NodeIndex, NodeIndex)) -> (NodeIndex, NodeIndex) {
    (first.min(second), first.max(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("n1", "n1", true),
            ("n1", "n12", false),
            ("*", "", true),
            ("n*", "n12", true),
            ("n*", "m12", false),
            ("*-1", "n12-1", true),
            ("*-1", "n12-12", false),
            ("n*-*1", "n12-31", true),
            ("n*1*1", "n1", false),
            ("a*a", "a", false),
            ("a**b", "ab", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
