//! Neighbours that are found by their beacons: their links are made, given other addresses, and deleted.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use dhow_bundle::{Instant, NodeId, Now};
use dhow_link::discovery::ServiceProtocol;
use dhow_link::stream::DownReason;

use crate::config::LinkId;
use crate::discovery::config::DiscoverId;
use crate::discovery::place::News;
use crate::driver::{Action, Announcement, LinkAddress, Occurrence};
use crate::held::custody::set_peer;
use crate::node::{Node, Stage};
use crate::view::LinkOrigin;

/// Attempts in a row that fail before another address of a neighbour is tried.
const FAILURES_IN_VAIN: u32 = 3;

/// Links to one neighbour that may be found, of different entries: their names have a number from the second on.
const NAMESAKES_BOUND: u32 = 16;

/// Octets of the part of a link's name that is its neighbour's.
const NAME_OCTETS: usize = 50;

impl Node {
    /// A datagram came to a place where beacons are heard.
    pub(crate) fn hear_beacon(
        &mut self,
        now: Now,
        DiscoverId(id): DiscoverId,
        from: SocketAddr,
        datagram: &Bytes,
    ) {
        let at = usize::try_from(id).ok();
        let place = at.and_then(|at| self.discovery.places_mut().get_mut(at));
        let Some(place) = place.filter(|_| self.stage == Stage::Working) else {
            return;
        };
        let mut answers = Vec::new();
        let news = place.hear(now.monotonic, from, datagram, &mut answers);
        for announcement in answers {
            self.outbox
                .act(Action::Announce(DiscoverId(id), announcement));
        }
        if news == News::Some {
            self.discovery.rearm();
        }
    }

    /// Send the beacons that are due, and look at neighbours.
    #[cold]
    pub(crate) fn attend_discovery(&mut self, now: Now) {
        if self.stage != Stage::Working {
            return;
        }
        let count = self.discovery.places().len();
        for at in 0..count {
            let Some(place) = self.discovery.places_mut().get_mut(at) else {
                break;
            };
            let (beacons, due) = (place.announce(now.monotonic), place.due(now.monotonic));
            self.send_beacons(at, beacons);
            for node in due {
                self.look_at_neighbour(now, at, &node);
            }
        }
        self.discovery.rearm();
    }

    /// No beacon will follow.
    pub(crate) fn depart(&mut self) {
        for at in 0..self.discovery.places().len() {
            let place = self.discovery.places_mut().get_mut(at);
            let last = place.map_or_else(Vec::new, |it| it.depart());
            self.send_beacons(at, last);
        }
    }

    fn send_beacons(&mut self, at: usize, beacons: Vec<Announcement>) {
        let id = DiscoverId(u32::try_from(at).unwrap_or(u32::MAX));
        for announcement in beacons {
            self.outbox.act(Action::Announce(id, announcement));
        }
    }

    /// Make a neighbour's link, give it another address, or delete it.
    fn look_at_neighbour(&mut self, now: Now, at: usize, node: &NodeId) {
        let is_met = self.adjacencies.peers().any(|peer| peer == node);
        let Some(place) = self.discovery.places_mut().get_mut(at) else {
            return;
        };
        let (patience, period) = (place.patience(node), place.period());
        let is_datagrams = place.protocol() == Some(ServiceProtocol::Udpcl);
        let Some(neighbour) = place.neighbour_mut(node) else {
            return;
        };
        neighbour.expire(now.monotonic);
        let link = neighbour.link;
        if neighbour.is_silent() {
            // A neighbour whose session lives is there, whatever its beacons say; a conversation by datagrams says nothing of that.
            let is_routed = link.is_some_and(|link| self.forwarding.route_over(link).is_some());
            let is_alive = is_met || link.is_some_and(|link| self.is_in_use(link));
            if is_routed || (is_alive && !is_datagrams) {
                return self.look_again(at, node, now.monotonic + period);
            }
            return self.lose_neighbour(now, at, node);
        }
        match link {
            None if is_met => {
                neighbour.dial_at = now.monotonic + patience;
                self.look_again(at, node, now.monotonic + period);
            }
            None if neighbour.dial_at <= now.monotonic => self.make_link(now, at, node),
            None => {
                let dial_at = neighbour.dial_at;
                self.look_again(at, node, dial_at);
            }
            // The neighbour has dialled by itself, and one session is enough.
            Some(link) => self.look_at_link(now, at, node, (link, is_met)),
        }
    }

    /// Whether sessions or routes need a link.
    fn is_in_use(&self, id: LinkId) -> bool {
        let link = self.adjacencies.link(id);
        link.is_some_and(|link| !link.sessions.is_empty())
            || self.forwarding.route_over(id).is_some()
    }

    /// A neighbour that dialled by itself is dialled no more: one session is enough where bundles go both ways in it.
    fn look_at_link(&mut self, now: Now, at: usize, node: &NodeId, (id, is_met): (LinkId, bool)) {
        let link = self.adjacencies.link(id);
        let goes_both_ways = link.is_some_and(|link| link.config.protocol.tells_peer());
        if !is_met || !goes_both_ways || self.is_in_use(id) {
            return self.redirect(now, at, node, id);
        }
        self.delete_link(now, id);
        let Some(place) = self.discovery.places_mut().get_mut(at) else {
            return;
        };
        let (patience, period) = (place.patience(node), place.period());
        if let Some(neighbour) = place.neighbour_mut(node) {
            neighbour.link = None;
            neighbour.current = None;
            neighbour.dial_at = now.monotonic + patience;
        }
        self.look_again(at, node, now.monotonic + period);
    }

    /// Look at a neighbour at this instant, or earlier where one of its addresses counts no more.
    fn look_again(&mut self, at: usize, node: &NodeId, by: Instant) {
        let place = self.discovery.places_mut().get_mut(at);
        if let Some(neighbour) = place.and_then(|it| it.neighbour_mut(node)) {
            neighbour.look_at = neighbour
                .next_silence()
                .map_or(by, |silence| silence.min(by));
        }
    }

    fn lose_neighbour(&mut self, now: Now, at: usize, node: &NodeId) {
        let place = self.discovery.places_mut().get_mut(at);
        let link = place.and_then(|place| {
            let link = place.neighbour_mut(node).and_then(|it| it.link);
            place.lose(node);
            link
        });
        if let Some(link) = link {
            self.delete_link(now, link);
        }
        self.outbox
            .occurred(Occurrence::NeighbourLost { node: node.clone() });
    }

    /// A neighbour is to be dialled that has no link.
    fn make_link(&mut self, now: Now, at: usize, node: &NodeId) {
        let made = self.add_found_link(now, at, node);
        let period = self.discovery.places().get(at).map(|it| it.period());
        let later = now.monotonic + period.unwrap_or_default();
        let Some(link) = made else {
            // There is no room for links: some may go.
            return self.look_again(at, node, later);
        };
        let place = self.discovery.places_mut().get_mut(at);
        let neighbour = place.and_then(|it| it.neighbour_mut(node));
        let Some(neighbour) = neighbour else {
            return;
        };
        neighbour.link = Some(link);
        neighbour.current = neighbour.best(false).cloned();
        let address = neighbour.current.as_ref().map(ToString::to_string);
        self.tell_address(at, node, link);
        self.outbox.occurred(Occurrence::NeighbourFound {
            node: node.clone(),
            link,
            address: address.unwrap_or_default(),
        });
        self.look_again(at, node, later);
    }

    fn add_found_link(&mut self, now: Now, at: usize, node: &NodeId) -> Option<LinkId> {
        let mut config = self.config.discover.get(at)?.link.clone();
        config.name = self.name_for(node);
        let made = (self.adjacencies).add_found_link(now.monotonic, config, node.clone());
        let id = made.ok()?;
        if let Some(link) = self.adjacencies.link(id) {
            self.forwarding.add_link(id, &link.config);
            set_peer(self.held.custody_mut().value_mut(), &link.config);
        }
        Some(id)
    }

    /// The name of the link to a neighbour: `found-ipn-5`, `found-alpha` for `dtn://alpha/`.
    fn name_for(&self, node: &NodeId) -> String {
        let text = node.to_string();
        let text = match text.strip_prefix("dtn://") {
            Some(name) => name.trim_end_matches('/'),
            None => text.trim_end_matches(".0"),
        };
        let plain = text.chars().take(NAME_OCTETS).map(|it| match it {
            it if it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.') => it,
            _ => '-',
        });
        let mut name = String::from("found-");
        name.extend(plain);
        let taken = |name: &str| self.adjacencies.link_named(name).is_ok();
        if !taken(&name) {
            return name;
        }
        let numbered = (2..=NAMESAKES_BOUND).map(|at| alloc::format!("{name}-{at}"));
        numbered.into_iter().find(|it| !taken(it)).unwrap_or(name)
    }

    /// Have the driver dial a neighbour's link at the address that it has now.
    fn tell_address(&mut self, at: usize, node: &NodeId, link: LinkId) {
        let name = self.adjacencies.link(link).map(|it| it.config.name.clone());
        let place = self.discovery.places_mut().get_mut(at);
        let neighbour = place.and_then(|it| it.neighbour_mut(node));
        if let (Some(name), Some(reach)) = (name, neighbour.and_then(|it| it.current.clone())) {
            self.outbox
                .act(Action::LinkFound(alloc::boxed::Box::new(LinkAddress {
                    link,
                    place: DiscoverId(u32::try_from(at).unwrap_or(u32::MAX)),
                    name,
                    host: reach.host.to_string(),
                    port: reach.port,
                    origin: reach.origin(),
                })));
        }
    }

    /// Give a neighbour's link another address where it is at its old one no more, or dials it in vain.
    fn redirect(&mut self, now: Now, at: usize, node: &NodeId, id: LinkId) {
        let link = self.adjacencies.link(id);
        let is_idle = link.is_some_and(|it| it.sessions.is_empty());
        let is_in_vain = link.is_some_and(|it| it.failures >= FAILURES_IN_VAIN);
        let Some(place) = self.discovery.places_mut().get_mut(at) else {
            return;
        };
        let by = now.monotonic + place.period();
        let Some(neighbour) = place.neighbour_mut(node) else {
            return;
        };
        let wants_other = !neighbour.is_current() || (is_in_vain && neighbour.ways() > 1);
        let best = neighbour.best(is_in_vain).cloned();
        if is_idle && wants_other && best.is_some() && best != neighbour.current {
            neighbour.current = best;
            self.adjacencies.redial(&mut self.outbox, now.monotonic, id);
            self.tell_address(at, node, id);
        }
        self.look_again(at, node, by);
    }

    /// A session of a link was not with the peer that its policy names, or not as secure as it asks for. If a beacon told of the peer, it lied, or
    /// somebody is in its place.
    pub(crate) fn doubt_beacon(&mut self, now: Now, id: LinkId, reason: &DownReason) {
        let is_found = (self.adjacencies.link(id)).is_some_and(|it| it.origin == LinkOrigin::Found);
        let is_fault = matches!(reason, DownReason::Security(_) | DownReason::PeerFault(_));
        if !is_found || !is_fault {
            return;
        }
        for at in 0..self.discovery.places().len() {
            let Some(place) = self.discovery.places_mut().get_mut(at) else {
                break;
            };
            let node = (place.neighbours().find(|(_, it)| it.link == Some(id)))
                .map(|(node, _)| node.clone());
            if let Some(node) = node {
                place.expose(now.monotonic, &node);
            }
        }
        self.discovery.rearm();
    }
}
