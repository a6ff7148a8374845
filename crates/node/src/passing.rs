//! Bundles that leave while they still come in.
//!
//! A large bundle for a next hop whose session is up and has nothing to do is sent on as its octets come
//! in, read from where the store has written them. The peer gets the header with the length of the whole at
//! once; what follows the payload is held back until the bundle is durable here, which it becomes only when
//! its checksum is right. So the next hop never has the whole of a bundle that this node has not, and a bundle
//! that turns out wrong, or does not come to its end, ends early there and is refused (RFC 9174 5.2.5.1).
//!
//! Transfers do not interleave (RFC 9174 5.2), so a bundle that comes in slowly would keep others waiting: they
//! get another session where this node can dial one, and the bundle gives way where it cannot.

use crate::adjacencies::Adjacencies;
use crate::admission::dtn_expiry;
use crate::api::seam::ApiRefusal;
use crate::attention::Attention;
use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::held::arrivals::Origin;
use crate::held::bundles::Removal;
use crate::outbox::Outbox;
use core::time::Duration;
use dhow_bundle::mutant::{Mutant, planted};

use dhow_bundle::storage::{BundleKey, Extent, Piece, StoreCommand};
use dhow_bundle::{Header, Instant, Now};
use dhow_link::stream::{LinkCommand, RefuseReason, TransferId};

use crate::ahead::Orphan;
use crate::checksums::Ending;
use crate::config::{Acknowledge, Enabled};
use crate::door::StreamId;
use crate::held::retention::Trigger;
use crate::local::Locality;
use crate::neighbour::Neighbour;
use crate::node::Node;
use crate::routing::Hop;
use crate::sending::Outgoing;

/// Smaller bundles wait until they are stored, octets: at 100 Mbit/s they are here within 20 ms.
const PASS_OCTETS: u64 = 256 * 1024;

/// How long others wait behind a bundle that is coming in before another session is dialled for them.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long they wait before the bundle gives way, unless half of it is here and it still comes.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// What has become of a bundle that went on while it was not durable here, and still is not.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pass {
    /// It is being sent while it comes in.
    UnderWay(Passing),
    /// All of it was given to a session.
    Left(StreamId, TransferId),
    /// An application has been given it and has said nothing.
    Handed,
    /// An application has it for good.
    Confirmed,
    /// The echo service has answered it.
    Answered,
    /// Somebody has been given it and has said nothing, and the store could not keep it.
    Orphaned(Orphan),
    /// The next hop on this session says that it has it.
    Taken(StreamId),
    /// The next hop, or the application, did not take it.
    Failed(Option<RefuseReason>),
}

/// A bundle that is coming in and going out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing {
    pub(crate) stream: StreamId,
    pub(crate) transfer: TransferId,
    /// Octets of the bundle as it came that are written, and were looked at here.
    written: u64,
    /// The octets after its payload there.
    ending: Ending,
}

/// Others that wait until a session has passed a bundle on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queueing {
    since: Instant,
    /// When they are looked at again.
    look: Instant,
    /// Octets of the bundle that were written when they were looked at.
    written: u64,
}

/// An acknowledgment that waits until the next hop has the bundle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    stream: StreamId,
    transfer: TransferId,
    octets: u64,
}

impl Forwarding {
    /// A session to the best hop of a bundle that has nothing to do, and takes the bundle in one piece.
    pub(crate) fn idle_way(
        &self,
        held: &Held,
        adjacencies: &Adjacencies,
        now: Now,
        key: BundleKey,
        header: &Header,
    ) -> Option<StreamId> {
        self.way(held, adjacencies, key, header, |stream, neighbour| {
            neighbour.is_idle(now.monotonic) && self.choose(held, adjacencies, stream).is_none()
        })
    }

    /// A session to the best hop of a bundle that takes it in one piece beside those of others, of which none is for the same destination.
    pub(crate) fn way_ahead(
        &self,
        held: &Held,
        adjacencies: &Adjacencies,
        now: Now,
        key: BundleKey,
        header: &Header,
    ) -> Option<StreamId> {
        let destination = held.bundles.entry(key)?.destination;
        if self.queues.first_of(destination, |_| true).is_some() {
            return None;
        }
        self.way(held, adjacencies, key, header, |_, neighbour| {
            neighbour.has_room_ahead(now.monotonic)
        })
    }

    /// A session to the best hop of a bundle that takes it in one piece, and is free as asked.
    pub(crate) fn way(
        &self,
        held: &Held,
        adjacencies: &Adjacencies,
        key: BundleKey,
        header: &Header,
        is_free: impl Fn(StreamId, &Neighbour) -> bool,
    ) -> Option<StreamId> {
        let entry = held.bundles.entry(key)?;
        let destination = held.endpoints.id(entry.destination);
        let is_remote = held.endpoints.local().locality(destination) == Locality::Remote;
        if entry.returns > 0 || !is_remote || self.is_routed(held, key) {
            return None;
        }
        let hops = self.routes.hops(destination);
        let best = hops.iter().find(|hop| adjacencies.is_up(hop))?;
        let is_way = |stream: &&StreamId| {
            adjacencies.neighbours.get(stream).is_some_and(|neighbour| {
                let whole = neighbour.policy.fragment_octets;
                neighbour.policy.cut_through == Enabled::Yes
                    && !neighbour.session.holds_unverified()
                    && entry.previous != neighbour.peer
                    && whole.is_none_or(|limit| header.payload_octets() <= limit)
                    && is_free(**stream, neighbour)
            })
        };
        match best {
            Hop::Link(link) => adjacencies
                .link(*link)?
                .streams
                .iter()
                .find(is_way)
                .copied(),
            Hop::Peer(peer) => adjacencies.peers.get(peer)?.iter().find(is_way).copied(),
        }
    }

    /// A bundle has begun to come in: send it on at once where that is worth it and nobody else waits.
    pub(crate) fn pass_on(
        &mut self,
        held: &mut Held,
        adjacencies: &mut Adjacencies,
        out: &mut Outbox,
        now: Now,
        key: BundleKey,
        header: &Header,
    ) {
        if header.total_octets() < PASS_OCTETS {
            return;
        }
        let Some(stream) = self.idle_way(held, adjacencies, now, key, header) else {
            return;
        };
        let edit = held.hop_edit(adjacencies, now, stream, (key, header), None);
        let outgoing = header.forwarded(&edit);
        let (length, octets) = (outgoing.total_octets(), header.total_octets());
        let Some(neighbour) = adjacencies.neighbours.get(&stream) else {
            return;
        };
        if length > neighbour.transfer_mru() {
            return;
        }
        adjacencies.charge(held, stream, key);
        let sent = Outgoing {
            key,
            octets,
            fragment: false,
            start: 0,
            header_octets: u64::try_from(outgoing.octets.len()).unwrap_or(u64::MAX),
            begun: now.monotonic,
        };
        let Some(transfer) = adjacencies.open_transfer(now, stream, sent, length) else {
            return;
        };
        if let Some(neighbour) = adjacencies.neighbours.get_mut(&stream) {
            neighbour.passing = Some(key);
            neighbour.queueing = None;
            neighbour.command(now, LinkCommand::Unverified { transfer });
            let octets = Piece::Octets(outgoing.octets);
            neighbour.command(now, LinkCommand::Supply { transfer, octets });
        }
        out.counters.passed += 1;
        let passing = Passing {
            stream,
            transfer,
            written: 0,
            ending: adjacencies.ending(stream, header),
        };
        self.pass_ahead(held, key, Pass::UnderWay(passing));
        out.store(StoreCommand::Watch { key });
        adjacencies.flush(out, stream);
    }

    /// More octets of a bundle that is passed on can be read.
    pub(crate) fn written(
        &mut self,
        held: &Held,
        adjacencies: &mut Adjacencies,
        out: &mut Outbox,
        now: Now,
        key: BundleKey,
        extents: &[Extent],
    ) {
        let Some(entry) = held.bundles.entry(key) else {
            return;
        };
        let header = u64::from(entry.header_octets);
        let payload_end = header.saturating_add(entry.payload_octets);
        let Some(Pass::UnderWay(passing)) = self.passes.get_mut(&key) else {
            return;
        };
        let (stream, transfer) = (passing.stream, passing.transfer);
        for extent in extents {
            let start = passing.written;
            let end = start.saturating_add(extent.length);
            passing.written = end;
            // The header has gone out as it is for the next hop; what follows the payload is held back.
            let header = if planted(Mutant::HeaderPassedAgain) {
                0
            } else {
                header
            };
            let (from, to) = (start.max(header), end.min(payload_end));
            if from >= to {
                continue;
            }
            let octets = Piece::Extent(Extent {
                offset: extent.offset.saturating_add(from - start),
                length: to - from,
            });
            if let Some(neighbour) = adjacencies.neighbours.get_mut(&stream) {
                neighbour.command(now, LinkCommand::Supply { transfer, octets });
            }
        }
        adjacencies.flush(out, stream);
    }

    /// A bundle will not come in whole, or is not kept: what of it goes out ends early.
    pub(crate) fn drop_pass(
        &mut self,
        adjacencies: &mut Adjacencies,
        attention: &mut Attention,
        now: Now,
        key: BundleKey,
    ) {
        match self.passes.remove(&key) {
            Some(Pass::UnderWay(_)) if planted(Mutant::BrokenPassGoesOn) => {}
            Some(Pass::UnderWay(passing)) => adjacencies.end_early(attention, now, passing),
            Some(Pass::Left(stream, transfer)) => adjacencies.disown_transfer(stream, transfer),
            _ => {}
        }
    }

    /// A session passes a bundle on that is coming in: look after those that wait for the session.
    pub(crate) fn look_after_queue(
        &mut self,
        held: &Held,
        adjacencies: &mut Adjacencies,
        attention: &mut Attention,
        now: Now,
        stream: StreamId,
        key: BundleKey,
    ) {
        let waits = self.choose(held, adjacencies, stream).is_some();
        let Some(Pass::UnderWay(passing)) = self.passes.get(&key) else {
            return;
        };
        let passing = *passing;
        let Some(neighbour) = adjacencies.neighbours.get_mut(&stream) else {
            return;
        };
        let Some(queueing) = neighbour.queueing.filter(|_| waits) else {
            neighbour.queueing = None;
            if waits {
                let look = now.monotonic + PATIENCE;
                neighbour.queueing = Some(Queueing {
                    since: now.monotonic,
                    look,
                    written: 0,
                });
                adjacencies.pauses.insert((look, stream));
            }
            return;
        };
        if now.monotonic < queueing.look {
            return;
        }
        let look = now.monotonic + LONGEST_WAIT;
        neighbour.queueing = Some(Queueing {
            look,
            written: passing.written,
            ..queueing
        });
        let link = neighbour.link;
        adjacencies.pauses.insert((look, stream));
        if now.monotonic - queueing.since < LONGEST_WAIT {
            if let Some(link) = link.and_then(|link| adjacencies.link_mut(link)) {
                link.relieve(now.monotonic);
            }
            return;
        }
        // Once half of it is here, the rest takes about as long as it took so far at most.
        let whole = held.bundles.entry(key).map_or(0, |entry| entry.octets);
        if passing.written > queueing.written && passing.written >= whole / 2 {
            return;
        }
        self.passes.insert(key, Pass::Failed(None));
        adjacencies.end_early(attention, now, passing);
    }

    /// Whom a bundle came from is told that it is durable here; by policy only once the next hop has it, where
    /// it is on its way there already.
    pub(crate) fn acknowledge(
        &mut self,
        adjacencies: &mut Adjacencies,
        attention: &mut Attention,
        now: Now,
        key: BundleKey,
        (stream, transfer): (StreamId, TransferId),
        octets: u64,
    ) {
        let passes = matches!(self.passes.get(&key), Some(Pass::UnderWay(_)));
        let policy = || {
            adjacencies
                .neighbours
                .get(&stream)
                .map(|it| it.policy.acknowledge)
        };
        if passes && policy() == Some(Acknowledge::NextHop) {
            let owed = Owed {
                stream,
                transfer,
                octets,
            };
            self.owed.insert(key, owed);
        } else {
            adjacencies.command(
                attention,
                now,
                stream,
                LinkCommand::Acknowledge { transfer, octets },
            );
        }
    }

    /// The next hop has taken a bundle or has not: whom it came from need not wait any longer.
    pub(crate) fn pay(
        &mut self,
        adjacencies: &mut Adjacencies,
        attention: &mut Attention,
        now: Now,
        key: BundleKey,
    ) {
        if let Some(owed) = self.owed.remove(&key) {
            let Owed {
                stream,
                transfer,
                octets,
            } = owed;
            adjacencies.command(
                attention,
                now,
                stream,
                LinkCommand::Acknowledge { transfer, octets },
            );
        }
    }
}

impl Adjacencies {
    pub(crate) fn end_early(&mut self, attention: &mut Attention, now: Now, passing: Passing) {
        let Passing {
            stream, transfer, ..
        } = passing;
        let Some(neighbour) = self.neighbours.get_mut(&stream) else {
            return;
        };
        neighbour.stop_passing();
        self.disown_transfer(stream, transfer);
        self.command(attention, now, stream, LinkCommand::Cancel { transfer });
    }
}

impl Node {
    /// A bundle that was passed on is durable: the rest of it may leave. True when it is in flight now.
    pub(crate) fn finish_pass(&mut self, now: Now, key: BundleKey) -> bool {
        let Some(pass) = self.forwarding.passes.remove(&key) else {
            return false;
        };
        self.held.advance(&mut self.outbox, key, Trigger::Taken);
        let Some(entry) = self.held.bundles.entry(key) else {
            return false;
        };
        match pass {
            Pass::UnderWay(passing) => {
                let header = u64::from(entry.header_octets);
                let payload_end = header.saturating_add(entry.payload_octets);
                let from = passing.written.clamp(header, payload_end);
                let rest = passing.ending.of_extents(&entry.extents, from, payload_end);
                let Passing {
                    stream, transfer, ..
                } = passing;
                if let Some(neighbour) = self.adjacencies.neighbours.get_mut(&stream) {
                    neighbour.stop_passing();
                    for octets in rest {
                        neighbour.command(now, LinkCommand::Supply { transfer, octets });
                    }
                }
                // Others follow it.
                self.adjacencies.to_serve.insert(stream);
                self.adjacencies.flush(&mut self.outbox, stream);
            }
            Pass::Left(..) | Pass::Handed | Pass::Orphaned(_) => {}
            Pass::Confirmed if planted(Mutant::ConfirmedAheadNotDeleted) => {}
            Pass::Confirmed | Pass::Answered => self.delivered(now, key),
            Pass::Taken(stream) => self.forwarded(now, stream, key),
            Pass::Failed(refused) => self.not_taken(now, key, refused),
        }
        true
    }

    /// The transfer of a bundle that is not durable yet is over; false when it is another's.
    pub(crate) fn pass_over(
        &mut self,
        now: Now,
        stream: StreamId,
        key: BundleKey,
        outcome: Pass,
    ) -> bool {
        let pass = match self.forwarding.passes.get_mut(&key) {
            Some(pass @ (Pass::UnderWay(_) | Pass::Left(..))) => pass,
            Some(Pass::Orphaned(_)) => {
                self.settle_orphan(now, key, outcome);
                return true;
            }
            _ => return false,
        };
        let before = core::mem::replace(pass, outcome);
        if let Pass::UnderWay(_) = before
            && let Some(neighbour) = self.adjacencies.neighbours.get_mut(&stream)
        {
            neighbour.stop_passing();
        }
        true
    }

    /// The store could not keep a bundle that went on ahead. True when whom it came from is told by what becomes of it.
    pub(crate) fn orphan(&mut self, now: Now, key: BundleKey, origin: Origin) -> bool {
        let pass = self.forwarding.passes.get(&key).copied();
        let orphan = match (pass, origin) {
            (Some(Pass::Handed | Pass::Confirmed), _) => Orphan::Delivery,
            (
                Some(Pass::Left(..) | Pass::Taken(_) | Pass::Failed(_)),
                Origin::Client { stream, request },
            ) => Orphan::Request(stream, request),
            _ => {
                self.forwarding
                    .drop_pass(&mut self.adjacencies, &mut self.attention, now, key);
                self.outbox.store(StoreCommand::Abandon { key });
                return false;
            }
        };
        // The store refused its end, and has none of its octets. Its abandonment may wait long for an application.
        self.held.backlog.release(key);
        self.forwarding.passes.insert(key, Pass::Orphaned(orphan));
        if let Some(outcome @ (Pass::Confirmed | Pass::Taken(_) | Pass::Failed(_))) = pass {
            self.settle_orphan(now, key, outcome);
        }
        matches!(orphan, Orphan::Request(..))
    }

    /// Whoever has a bundle that the store could not keep has taken it, or has not.
    pub(crate) fn settle_orphan(&mut self, now: Now, key: BundleKey, outcome: Pass) {
        let Some(Pass::Orphaned(orphan)) = self.forwarding.passes.remove(&key) else {
            return;
        };
        let removal = match outcome {
            Pass::Confirmed => {
                self.tell_delivered(now, key);
                Removal::Delivered
            }
            Pass::Taken(stream) => {
                self.forwarded(now, stream, key);
                Removal::Forwarded
            }
            _ => Removal::Deleted,
        };
        let Some(entry) = self.held.bundles.entry_mut(key) else {
            return;
        };
        entry.removal = removal;
        if let Orphan::Request(stream, request) = orphan {
            let created = (self.held.endpoints.id(entry.source).clone(), entry.creation);
            let outcome = match removal {
                Removal::Forwarded => Ok(created),
                _ => Err(ApiRefusal::NoResources(
                    "the store refused it, and it may have left all the same".into(),
                )),
            };
            self.outbox.counters.created += u64::from(outcome.is_ok());
            self.delivery
                .transmission_done(&mut self.attention, now, stream, request, outcome);
        }
        let entry = self.held.bundles.entry(key);
        let delivered = entry
            .filter(|it| it.removal == Removal::Delivered && !planted(Mutant::OrphanForgotten));
        let remember = delivered.map(|it| (self.held.bundle_id(it), dtn_expiry(it.expires, now)));
        match remember {
            // A confirmation outlives a crash as well where the store did not keep the bundle.
            Some(_) => self.outbox.store(StoreCommand::Delete { key, remember }),
            None => self.outbox.store(StoreCommand::Abandon { key }),
        }
    }
}

impl Neighbour {
    /// Nothing is under way to the peer, and it would take something.
    fn is_idle(&self, now: Instant) -> bool {
        self.has_room(now) && self.in_flight == 0 && self.splits.is_empty()
    }

    fn stop_passing(&mut self) {
        self.passing = None;
        self.queueing = None;
    }
}
