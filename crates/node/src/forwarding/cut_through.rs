//! Cut-through: bundles that go out while they come in.

use crate::adjacencies::Adjacencies;
use crate::adjacencies::neighbour::Neighbour;
use crate::adjacencies::session_id::SessionId;
use crate::attention::Attention;
use crate::before_sync::Orphan;
use crate::checksums::Ending;
use crate::config::{Acknowledge, Enabled};
use crate::cut_through::PATIENCE;
use crate::forwarding::Forwarding;
use crate::held::Held;
use crate::held::bundles::Entry;
use crate::local::Locality;
use crate::outbox::Outbox;
use crate::reception::Incoming;
use crate::sending::Outgoing;
use alloc::vec::Vec;
use core::time::Duration;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::{BundleKey, Extent, Piece, StoreCommand};
use dhow_bundle::{Header, Instant, Now};
use dhow_link::stream::{LinkCommand, RefuseReason, TransferId};

/// Smaller bundles wait until they are stored, octets: at 100 Mbit/s they are here within 20 ms.
const CUT_THROUGH_OCTETS: u64 = 256 * 1024;

/// The time that they wait before the bundle gives way, unless half of it is here and it still comes.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The fate of a bundle that went on while it was not durable here, and still is not.
#[derive(Clone, Debug)]
pub(crate) enum CutThrough {
    /// The bundle is being sent while it comes in.
    UnderWay(CutThroughTransfer),
    /// All of it was given to a session.
    Left(SessionId, TransferId),
    /// An application has been given it and has said nothing.
    Given,
    /// An application has it for good.
    Confirmed,
    /// The echo service has answered the bundle.
    Answered,
    /// Somebody has been given it and has said nothing, and the store could not keep it.
    Orphaned(Orphan),
    /// The next hop on this session says that it has it.
    Taken(SessionId),
    /// The next hop, or the application, did not take it.
    Failed(Option<RefuseReason>),
}

/// A bundle that is coming in and going out.
#[derive(Clone, Debug)]
pub(crate) struct CutThroughTransfer {
    pub(crate) session: SessionId,
    pub(crate) transfer: TransferId,
    /// Octets of the bundle as it came that are written, and were looked at here.
    written: u64,
    /// The octets after its payload there.
    ending: Ending,
}

impl CutThroughTransfer {
    /// The octets of a bundle, now stored, that its next hop has yet to get.
    pub(crate) fn rest(&self, entry: &Entry) -> Vec<Piece> {
        let header = u64::from(entry.header_octets());
        let payload_end = header.saturating_add(entry.payload_octets());
        let from = self.written.clamp(header, payload_end);
        self.ending.of_extents(&entry.extents(), from, payload_end)
    }
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
    session: SessionId,
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
    ) -> Option<SessionId> {
        self.way(held, adjacencies, key, header, |session, neighbour| {
            neighbour.is_idle(now.monotonic) && self.choose(held, adjacencies, session).is_none()
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
    ) -> Option<SessionId> {
        if self.waits_before(held, key) {
            return None;
        }
        self.way(held, adjacencies, key, header, |_, neighbour| {
            neighbour.has_room_before_sync(now.monotonic)
        })
    }

    /// Whether a bundle of the same destination waits that is to go before one which comes.
    pub(crate) fn waits_before(&self, held: &Held, key: BundleKey) -> bool {
        let Some(entry) = held.entry(key) else {
            return false;
        };
        let first = self
            .queues
            .first_of(held.bundles(), entry.destination(), |_| true);
        let first = first.and_then(|first| held.entry(first));
        first.is_some_and(|first| first.priority() >= entry.priority())
    }

    /// A session to the best hop of a bundle that takes it in one piece, and is free as asked.
    pub(crate) fn way(
        &self,
        held: &Held,
        adjacencies: &Adjacencies,
        key: BundleKey,
        header: &Header,
        is_free: impl Fn(SessionId, &Neighbour) -> bool,
    ) -> Option<SessionId> {
        let entry = held.entry(key)?;
        let destination = held.endpoints().id(entry.destination());
        let is_remote = held.endpoints().local().locality(destination) == Locality::Remote;
        if entry.returns() > 0 || !is_remote || self.is_routed(held, key) {
            return None;
        }
        let hops = self.routes.hops(destination);
        let best = hops.iter().find(|hop| adjacencies.is_up(hop))?;
        let is_way = |session: &SessionId| {
            adjacencies.neighbour(*session).is_some_and(|neighbour| {
                let whole = neighbour.policy.fragment_octets;
                // A bundle that crosses into the other version (docs/gateway.md) waits until it is stored: it may turn out to have no form there.
                neighbour.policy.cut_through == Enabled::Yes
                    && neighbour.speaks(entry.version())
                    && !neighbour.session.holds_unverified()
                    && entry.previous() != neighbour.peer
                    && whole.is_none_or(|limit| header.payload_octets() <= limit)
                    && is_free(*session, neighbour)
            })
        };
        adjacencies.session_ids_over(best).find(is_way)
    }

    /// A bundle has begun to come in: send it on at once where that is worth it and nobody else waits.
    pub(crate) fn begin_cut_through(
        &mut self,
        held: &mut Held,
        adjacencies: &mut Adjacencies,
        out: &mut Outbox,
        now: Now,
        incoming: &mut Incoming,
    ) {
        let (key, header) = (incoming.key, &incoming.header);
        if header.total_octets() < CUT_THROUGH_OCTETS
            || header.has_open_end()
            || held.has_rivals(key)
            || held.custody().wants(key)
        {
            return;
        }
        let Some(session) = self.idle_way(held, adjacencies, now, key, header) else {
            return;
        };
        let edit = held.hop_edit(adjacencies, now, session, (key, header), None);
        let outgoing = header.forwarded(&edit);
        let (length, octets) = (outgoing.total_octets(), header.total_octets());
        let Some(neighbour) = adjacencies.neighbour(session) else {
            return;
        };
        if length > neighbour.transfer_mru() {
            return;
        }
        adjacencies.charge(held, session, key);
        let sent = Outgoing {
            key,
            octets,
            fragment: false,
            start: 0,
            header_octets: u64::try_from(outgoing.octets.len()).unwrap_or(u64::MAX),
            stored_octets: octets,
            begun: now.monotonic,
        };
        let Some(transfer) = adjacencies.open_transfer(now, session, sent, length) else {
            return;
        };
        if let Some(neighbour) = adjacencies.neighbour_mut(session) {
            neighbour.cut_through = Some(key);
            neighbour.queueing = None;
            neighbour.command(now, LinkCommand::Unverified { transfer });
            let octets = Piece::Octets(outgoing.octets);
            neighbour.command(now, LinkCommand::Supply { transfer, octets });
        }
        out.counters.passed += 1;
        let under_way = CutThroughTransfer {
            session,
            transfer,
            written: 0,
            ending: adjacencies.ending(session, header, &edit),
        };
        self.pass_before_sync(held, key, CutThrough::UnderWay(under_way));
        // The store watches a bundle of which it has octets.
        held.append_gathered(out, incoming);
        out.store(StoreCommand::Watch { key });
        adjacencies.flush(out, session);
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
        let Some(entry) = held.entry(key) else {
            return;
        };
        let header = u64::from(entry.header_octets());
        let payload_end = header.saturating_add(entry.payload_octets());
        let Some(CutThrough::UnderWay(under_way)) = self.cut_throughs.get_mut(&key) else {
            return;
        };
        let (session, transfer) = (under_way.session, under_way.transfer);
        for extent in extents {
            let start = under_way.written;
            let end = start.saturating_add(extent.length);
            under_way.written = end;
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
            if let Some(neighbour) = adjacencies.neighbour_mut(session) {
                neighbour.command(now, LinkCommand::Supply { transfer, octets });
            }
        }
        adjacencies.flush(out, session);
    }

    /// A bundle will not come in whole, or is not kept: what of it goes out ends early.
    pub(crate) fn drop_cut_through(
        &mut self,
        adjacencies: &mut Adjacencies,
        attention: &mut Attention,
        now: Now,
        key: BundleKey,
    ) {
        match self.cut_throughs.remove(&key) {
            Some(CutThrough::UnderWay(_)) if planted(Mutant::BrokenPassGoesOn) => {}
            Some(CutThrough::UnderWay(under_way)) => {
                adjacencies.end_early(attention, now, under_way)
            }
            Some(CutThrough::Left(session, transfer)) => {
                adjacencies.disown_transfer(session, transfer)
            }
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
        session: SessionId,
        key: BundleKey,
    ) {
        let waits = self.choose(held, adjacencies, session).is_some();
        let Some(CutThrough::UnderWay(under_way)) = self.cut_throughs.get(&key) else {
            return;
        };
        let under_way = under_way.clone();
        let Some(neighbour) = adjacencies.neighbour_mut(session) else {
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
                adjacencies.pause(session, look);
            }
            return;
        };
        if now.monotonic < queueing.look {
            return;
        }
        let look = now.monotonic + LONGEST_WAIT;
        neighbour.queueing = Some(Queueing {
            look,
            written: under_way.written,
            ..queueing
        });
        let link = neighbour.link;
        adjacencies.pause(session, look);
        if now.monotonic - queueing.since < LONGEST_WAIT {
            if let Some(link) = link.and_then(|link| adjacencies.link_mut(link)) {
                link.relieve(now.monotonic);
            }
            return;
        }
        // Once half of it is here, the rest takes about as long as it took so far at most.
        let whole = held.entry(key).map_or(0, |entry| entry.octets());
        if under_way.written > queueing.written && under_way.written >= whole / 2 {
            return;
        }
        self.cut_throughs.insert(key, CutThrough::Failed(None));
        adjacencies.end_early(attention, now, under_way);
    }

    /// The neighbour that a bundle came from is told that it is durable here; by policy only once the next hop
    /// has it, where it is on its way there already.
    pub(crate) fn acknowledge(
        &mut self,
        adjacencies: &mut Adjacencies,
        attention: &mut Attention,
        now: Now,
        key: BundleKey,
        (session, transfer): (SessionId, TransferId),
        octets: u64,
    ) {
        let cut_throughs = matches!(self.cut_throughs.get(&key), Some(CutThrough::UnderWay(_)));
        let policy = || {
            adjacencies
                .neighbour(session)
                .map(|it| it.policy.acknowledge)
        };
        if cut_throughs && policy() == Some(Acknowledge::NextHop) {
            let owed = Owed {
                session,
                transfer,
                octets,
            };
            self.owed.insert(key, owed);
        } else {
            adjacencies.command(
                attention,
                now,
                session,
                LinkCommand::Acknowledge { transfer, octets },
            );
        }
    }

    /// The next hop has taken a bundle or has not: the neighbour that it came from need not wait any longer.
    pub(crate) fn pay(
        &mut self,
        adjacencies: &mut Adjacencies,
        attention: &mut Attention,
        now: Now,
        key: BundleKey,
    ) {
        if let Some(owed) = self.owed.remove(&key) {
            let Owed {
                session,
                transfer,
                octets,
            } = owed;
            adjacencies.command(
                attention,
                now,
                session,
                LinkCommand::Acknowledge { transfer, octets },
            );
        }
    }
}
