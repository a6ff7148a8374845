//! The reasons for which bundles wait, for an operator.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{BundleId, DtnTime, EndpointId, NodeId, Now};
use dhow_link::ltp::cancellation_of;
use dhow_link::stream::RefuseReason;

use crate::adjacencies::links::Link;
use crate::adjacencies::neighbour::Neighbour;
use crate::config::Protocol;
use crate::forwarding::refusals::Refusal;
use crate::held::bundles::Entry;
use crate::held::reassembly::UnitId;
use crate::held::retention::State;
use crate::inspection::{is_stored, millis};
use crate::local::Locality;
use crate::node::Node;
use crate::routing::Hop;
use crate::sending::must_not_fragment;
use crate::view::{BundleView, LinkView};

/// Next hops that are told of, at most.
const WAYS_TOLD: usize = 32;

/// Why a bundle, or what is for an endpoint, waits.
#[derive(Clone, Debug)]
pub struct Why {
    /// The bundle; `None` for an answer about an endpoint.
    pub bundle: Option<BundleView>,
    /// The destination.
    pub destination: EndpointId,
    /// The bundles for the destination that are here.
    pub present: Present,
    /// The router that decides about the destination, where routes do not.
    pub router: Option<String>,
    /// The causes: obstacles of the bundle itself first, then each next hop, best first.
    pub causes: Vec<Cause>,
}

/// The bundles for a destination that are here, by what they wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// Bundles that wait for a next hop, or for an application that takes them.
    pub waiting: u64,
    /// On their way to a neighbour, or with an application, and not acknowledged yet.
    pub in_flight: u64,
    /// Bundles that wait for their next attempt.
    pub resting: u64,
    /// Milliseconds until the first of those is tried again.
    pub retry_in_ms: Option<u64>,
    /// Fragments, for the others of their wholes.
    pub fragments: u64,
    /// Bundles that have left, and are kept.
    pub sent: u64,
    /// Damaged on disk.
    pub damaged: u64,
}

/// A cause.
#[derive(Clone, Debug)]
pub enum Cause {
    /// No route leads to the destination, and its node is no neighbour.
    NoRoute,
    /// A router decides, and no neighbour has a session.
    NoNeighbour,
    /// A router decides, and names none of so many neighbours.
    NotChosen(usize),
    /// A router that is a program has not decided.
    Undecided,
    /// The next hop has not taken the bundle.
    Way(Way),
    /// The endpoint is of this node, and no application has registered it.
    NotRegistered,
    /// The endpoint is registered, and no application takes deliveries.
    NoSubscriber,
    /// The bundle is with an application that has not confirmed it, or waits for its turn there.
    Delivering,
    /// The bundle is being sent to these neighbours.
    Sending(Vec<NodeId>),
    /// The bundle rests for so many milliseconds.
    Resting(u64),
    /// A neighbour refused it last, so many milliseconds ago.
    Refused {
        /// The neighbour.
        by: NodeId,
        /// Its reason.
        reason: RefuseReason,
        /// The name of the reason where LTP cancelled the block (RFC 5326 3.2.4). `RLEXC` is also for the others that ask for it again, and for no answer.
        cancelled: Option<&'static str>,
        /// Milliseconds since.
        ago_ms: u64,
    },
    /// The bundle has left over a link that promises nothing, and is kept until it expires.
    Sent,
    /// The next hop has it, and this node is its custodian until a signal comes.
    AwaitingSignal,
    /// The bundle is a fragment for an endpoint here, and others of its whole are missing.
    Fragments {
        /// Octets of the whole that are here.
        octets: u64,
        /// Octets of the whole.
        total_octets: u64,
    },
    /// Its octets are damaged on disk.
    Damaged,
}

/// A next hop.
#[derive(Clone, Debug)]
pub struct Way {
    /// The name of the link, or the neighbour's node ID.
    pub next_hop: String,
    /// The link that leads to it, where there is one.
    pub link: Option<LinkView>,
    /// Established sessions.
    pub sessions: usize,
    /// The neighbour said that it has no room: it is tried again in so many milliseconds.
    pub full_for_ms: Option<u64>,
    /// Milliseconds until the planned contact that is on ends.
    pub contact_ends_in_ms: Option<u64>,
    /// Milliseconds until the next planned contact begins.
    pub contact_begins_in_ms: Option<u64>,
    /// Milliseconds since the last planned contact ended, where none is on and none comes.
    pub contact_ended_ago_ms: Option<u64>,
    /// One-way light time, of the contact that is planned or of the link, milliseconds; 0 where none is known.
    pub light_time_ms: u64,
    /// Why this bundle may not go there, although others may.
    pub bars: Vec<Bar>,
}

/// The times of planned contacts with a neighbour, as [`Way`] has them.
#[derive(Default)]
struct PlannedTimes {
    ends_in_ms: Option<u64>,
    begins_in_ms: Option<u64>,
    ended_ago_ms: Option<u64>,
}

/// Why a bundle may not go to a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// The bundle came from there.
    CameFromThere,
    /// The bundle must not be fragmented, and is larger than what the neighbour takes in one transfer.
    TooLarge {
        /// Octets of the bundle.
        octets: u64,
        /// The neighbour's transfer MRU, octets.
        transfer_mru: u64,
    },
    /// The bundle has no form in the version of the Bundle Protocol that the neighbour speaks.
    OtherVersion,
    /// The bundle has left over this link already, which promises nothing.
    HasLeft,
}

impl Node {
    /// Why what is for an endpoint waits, whether anything does or not. Takes a look at each bundle.
    #[must_use]
    pub fn why_endpoint(&self, now: Now, destination: &EndpointId) -> Why {
        let mut why = self.why(now, destination);
        let (mut is_undecided, mut last) = (false, None::<&Refusal>);
        let (mut resting, mut fragment) = (None, None);
        for (key, entry) in self.bundles_for(destination) {
            match entry.state() {
                State::AwaitingRetry { .. } => resting = resting.or(Some((key, entry))),
                State::Reassembling => fragment = fragment.or(Some(entry)),
                _ => {}
            }
            is_undecided |= self.forwarding.awaits_decision(key);
            let newer = |it: &&Refusal| last.is_none_or(|last| last.at < it.at);
            last = self.forwarding.refusal(key).filter(newer).or(last);
        }
        // What keeps one that was tried back keeps others like it back.
        why.causes = match is_undecided {
            true => Vec::from([Cause::Undecided]),
            false => self.causes_of(now, destination, resting),
        };
        let missing = fragment.map(|fragment| self.missing(fragment));
        why.causes.splice(..0, missing);
        why.causes.extend(last.map(|last| refused(now, last)));
        why
    }

    /// Why a stored bundle waits; `None` when it is not here.
    #[must_use]
    pub fn why_bundle(&self, now: Now, id: &BundleId) -> Option<Why> {
        let key = self.held.find_bundle(id)?;
        let entry = self.held.entry(key).filter(|entry| is_stored(entry))?;
        let destination = self.held.endpoints().id(entry.destination());
        let mut why = self.why(now, destination);
        why.bundle = Some(self.bundle_view(now, key, entry));
        why.causes = self.causes(now, key, entry);
        Some(why)
    }

    fn why(&self, now: Now, destination: &EndpointId) -> Why {
        Why {
            bundle: None,
            destination: destination.clone(),
            present: self.present(now, destination),
            router: self.forwarding.router_name(destination).map(Into::into),
            causes: Vec::new(),
        }
    }

    fn bundles_for(&self, destination: &EndpointId) -> impl Iterator<Item = (BundleKey, &Entry)> {
        let index = self.held.endpoints().find(destination);
        let all = self.held.bundles().iter();
        all.filter(move |(_, entry)| Some(entry.destination()) == index)
    }

    fn present(&self, now: Now, destination: &EndpointId) -> Present {
        let mut present = Present::default();
        for (_, entry) in self.bundles_for(destination) {
            match entry.state() {
                State::Waiting | State::DispatchPending => present.waiting += 1,
                State::InFlight => present.in_flight += 1,
                State::AwaitingRetry { until } => {
                    let first = present.retry_in_ms.unwrap_or(u64::MAX);
                    present.resting += 1;
                    present.retry_in_ms = Some(first.min(millis(until, now)));
                }
                State::Reassembling => present.fragments += 1,
                State::Sent => present.sent += 1,
                State::Quarantined => present.damaged += 1,
                State::Arriving | State::Kept | State::Deleting => {}
            }
        }
        present
    }

    fn causes(&self, now: Now, key: BundleKey, entry: &Entry) -> Vec<Cause> {
        let destination = self.held.endpoints().id(entry.destination());
        let is_here = self.held.endpoints().local().locality(destination) != Locality::Remote;
        let mut causes = Vec::new();
        match entry.state() {
            State::InFlight if is_here => causes.push(Cause::Delivering),
            State::InFlight => causes.push(Cause::Sending(self.senders_of(key))),
            State::Reassembling => causes.push(self.missing(entry)),
            State::AwaitingRetry { until } => {
                causes.push(Cause::Resting(millis(until, now)));
                let mut all = self.causes_of(now, destination, Some((key, entry)));
                all.retain(|cause| matches!(cause, Cause::Way(way) if !way.bars.is_empty()));
                causes.append(&mut all);
            }
            State::Sent => causes.push(match self.held.custody().is_custodian(key) {
                true => Cause::AwaitingSignal,
                false => Cause::Sent,
            }),
            State::Quarantined => causes.push(Cause::Damaged),
            State::Waiting if self.forwarding.awaits_decision(key) => causes.push(Cause::Undecided),
            State::Waiting | State::DispatchPending => {
                causes = self.causes_of(now, destination, Some((key, entry)));
            }
            State::Arriving | State::Kept | State::Deleting => {}
        }
        let refusal = self.forwarding.refusal(key);
        causes.extend(refusal.map(|refusal| refused(now, refusal)));
        causes
    }

    /// The causes that a destination has, for a bundle of it or any.
    fn causes_of(
        &self,
        now: Now,
        destination: &EndpointId,
        bundle: Option<(BundleKey, &Entry)>,
    ) -> Vec<Cause> {
        let router = self.forwarding.router_name(destination);
        if self.held.endpoints().local().locality(destination) != Locality::Remote {
            return Vec::from_iter(self.registration_lacks(destination));
        }
        let mut causes = Vec::new();
        if router.is_some() {
            causes.push(match self.adjacencies.peers().count() {
                0 => Cause::NoNeighbour,
                neighbours => Cause::NotChosen(neighbours),
            });
        } else {
            let hops = self.forwarding.routes().hops(destination);
            let ways = hops
                .iter()
                .filter(|hop| self.forwarding.is_way(&self.adjacencies, hop))
                .take(WAYS_TOLD);
            let mut known = BTreeSet::new();
            for way in ways.map(|hop| self.way(now, hop, bundle)) {
                // A neighbour and the link to it are one way.
                let link = way.link.as_ref().map(|link| link.name.clone());
                if link.is_none_or(|link| known.insert(link)) {
                    causes.push(Cause::Way(way));
                }
            }
        }
        if causes.is_empty() {
            causes.push(Cause::NoRoute);
        }
        causes
    }

    /// The causes at an endpoint of this node that keep bundles from delivery.
    fn registration_lacks(&self, destination: &EndpointId) -> Option<Cause> {
        let index = self.held.endpoints().find(destination);
        let registrations = self.delivery.registrations();
        match index.and_then(|index| registrations.get(index)) {
            None => Some(Cause::NotRegistered),
            Some(it) if it.subscribers.is_empty() => Some(Cause::NoSubscriber),
            Some(_) => Some(Cause::Delivering),
        }
    }

    fn way(&self, now: Now, hop: &Hop, bundle: Option<(BundleKey, &Entry)>) -> Way {
        let sessions: Vec<&Neighbour> = self.adjacencies.sessions_over(hop).collect();
        let link = self.adjacencies.link_to(hop);
        let full = sessions.iter().filter_map(|it| it.paused_until).max();
        let full = full.filter(|until| *until > now.monotonic);
        let peer = match hop {
            Hop::Peer(peer) => Some(peer),
            Hop::Link(_) => link.and_then(|it| it.config.policy.peer.as_ref().or(it.peer.as_ref())),
        };
        let planned = peer.map_or_else(PlannedTimes::default, |peer| self.planned_times(now, peer));
        Way {
            next_hop: self.adjacencies.hop_name(hop),
            link: link.map(|link| self.link_view(link)),
            sessions: sessions.len(),
            full_for_ms: full.map(|until| millis(until, now)),
            contact_ends_in_ms: planned.ends_in_ms,
            contact_begins_in_ms: planned.begins_in_ms,
            contact_ended_ago_ms: planned.ended_ago_ms,
            light_time_ms: whole_millis(self.light_time(now, link, peer)),
            bars: match (sessions.first(), bundle) {
                (Some(neighbour), Some((key, entry))) => self.bars(neighbour, key, entry),
                _ => Vec::new(),
            },
        }
    }

    /// One-way light time of the way to a neighbour; zero where none is known.
    fn light_time(&self, now: Now, link: Option<&Link>, peer: Option<&NodeId>) -> Duration {
        let planned = peer.and_then(|peer| self.plan_with(peer, now.dtn).light_time);
        planned.unwrap_or_else(|| match link.map(|link| &link.config.protocol) {
            Some(Protocol::Ltp(policy)) => Duration::from_millis(policy.light_time_ms),
            _ => Duration::ZERO,
        })
    }

    /// The times of the contacts that are planned with a neighbour.
    fn planned_times(&self, now: Now, peer: &NodeId) -> PlannedTimes {
        let (own, contacts) = (&self.config.node_ids, &self.config.contacts);
        let until = |at: DtnTime| at.as_millis().saturating_sub(now.dtn.as_millis());
        if !now.dtn.is_known() {
            return PlannedTimes::default();
        }
        let current = own
            .iter()
            .filter_map(|own| contacts.current(own, peer, now.dtn));
        let next = own
            .iter()
            .filter_map(|own| contacts.next(own, peer, now.dtn));
        let mut times = PlannedTimes {
            ends_in_ms: current.map(|it| until(it.end)).max(),
            begins_in_ms: next.map(|it| until(it.start)).min(),
            ended_ago_ms: None,
        };
        if times.ends_in_ms.is_none() && times.begins_in_ms.is_none() {
            let last = own
                .iter()
                .filter_map(|own| contacts.last(own, peer, now.dtn));
            let since = |at: DtnTime| now.dtn.as_millis().saturating_sub(at.as_millis());
            times.ended_ago_ms = last.map(|it| since(it.end)).min();
        }
        times
    }

    fn bars(&self, neighbour: &Neighbour, key: BundleKey, entry: &Entry) -> Vec<Bar> {
        let mut bars = Vec::new();
        if entry.previous().is_some() && entry.previous() == neighbour.peer {
            bars.push(Bar::CameFromThere);
        }
        let (octets, transfer_mru) = (entry.octets(), neighbour.transfer_mru());
        if must_not_fragment(entry.flags()) && octets > transfer_mru {
            bars.push(Bar::TooLarge {
                octets,
                transfer_mru,
            });
        }
        if entry.is_untranslatable() && !neighbour.speaks(entry.version()) {
            bars.push(Bar::OtherVersion);
        }
        if (self.forwarding).has_left(&self.held, neighbour.link, key) {
            bars.push(Bar::HasLeft);
        }
        bars
    }

    /// The neighbours to which a bundle is under way.
    fn senders_of(&self, key: BundleKey) -> Vec<NodeId> {
        let neighbours = self.adjacencies.neighbours();
        let senders = neighbours.filter(|(_, it)| it.outgoing().values().any(|it| it.key == key));
        senders
            .filter_map(|(session, _)| self.adjacencies.peer_of(session))
            .collect()
    }

    /// The octets of a fragment's whole that are here; a whole one goes with its first fragment.
    fn missing(&self, entry: &Entry) -> Cause {
        let unit = UnitId::of(entry);
        let covered = self.held.reassembly().covered_octets(&unit);
        Cause::Fragments {
            octets: covered.unwrap_or(unit.total_octets),
            total_octets: unit.total_octets,
        }
    }
}

fn refused(now: Now, refusal: &Refusal) -> Cause {
    let reason = refusal.reason;
    Cause::Refused {
        by: refusal.by.clone(),
        reason,
        cancelled: cancellation_of(reason).filter(|_| refusal.is_ltp),
        ago_ms: whole_millis(now.monotonic.since(refusal.at)),
    }
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
