//! Bundles that came through a tunnel and carry others (draft-ietf-dtn-bibect-03), from when they are here until those are: taken, read, settled with
//! their sender, or given back where the tunnel is closed.

use dhow_bundle::Now;
use dhow_bundle::storage::{BundleKey, Extents};
use dhow_bundle::v7::admin::bibe::Disposition;
use dhow_link::stream::RefuseReason;

use crate::adjacencies::session_id::SessionId;
use crate::adjacencies::tunnel::{Reading, Settled};
use crate::detours::OBSTACLE_RETRY;
use crate::held::retention::Trigger;
use crate::node::Node;
use crate::sending::{NOT_ACCEPTABLE_RETRY, PendingRead};

/// Octets of a payload that are read first: a custody signal has no more.
const FIRST_OCTETS: u64 = 64 * 1024;

/// Octets that are read at once behind the first.
const NEXT_OCTETS: u64 = 256 * 1024;

impl Node {
    /// An administrative record of a tunnel's peer is here. It waits while the link of the tunnel is down.
    pub(crate) fn take_encapsulating(
        &mut self,
        now: Now,
        key: BundleKey,
        session: Option<SessionId>,
    ) {
        if self.held.is_stale(now, key) {
            return self.verify(now, key);
        }
        let tunnel = session.and_then(|session| self.adjacencies.tunnel_mut(session));
        let Some(tunnel) = tunnel else {
            self.retry_after(now, key, NOT_ACCEPTABLE_RETRY);
            return;
        };
        if self.held.advance(&mut self.outbox, key, Trigger::Taken) {
            tunnel.came(key);
        }
    }

    /// Read what came through a tunnel, as far as the store has room for what is in it.
    pub(crate) fn read_encapsulating(&mut self, session: SessionId) {
        while self.outbox.has_turn_left()
            && (self.held.backlog()).has_room(session.stream(), self.config.store_queue_octets)
            && let Some(tunnel) = self.adjacencies.tunnel_mut(session)
            && let Some(reading) = tunnel.next_reading()
        {
            let (key, transfer, from, octets) = match reading {
                Reading::First(key) => (key, None, 0, FIRST_OCTETS),
                Reading::Next(transfer, it) => (it.outer, Some(transfer), it.read, NEXT_OCTETS),
            };
            let extents = self.held.payload_part(key, from, octets);
            self.held.read(
                &mut self.outbox,
                PendingRead::Encapsulating {
                    session,
                    key,
                    transfer,
                },
                Extents::Many(extents.into()),
            );
        }
    }

    /// Let go of encapsulating bundles whose bundle is durable here, or will not be, and note what their senders are to hear.
    pub(crate) fn settle_encapsulating(&mut self, now: Now, session: SessionId) {
        let peer = self.adjacencies.peer_of(session);
        while let Some(tunnel) = self.adjacencies.tunnel_mut(session)
            && let Some((coming, settled)) = tunnel.next_settled()
        {
            let disposition = match settled {
                Settled::Taken => Disposition::Accepted,
                Settled::Refused(RefuseReason::Completed) => Disposition::Redundant,
                // Another copy may be on its way to the disk, or the room comes: it is tried twice.
                Settled::Refused(RefuseReason::NoResources | RefuseReason::SourceFull)
                    if coming.head.asks_for_custody() && tunnel.is_tried_again(coming.outer) =>
                {
                    Disposition::DepletedStorage
                }
                Settled::Refused(
                    RefuseReason::NoResources
                    | RefuseReason::SourceFull
                    | RefuseReason::Retransmit
                    | RefuseReason::SessionTerminating,
                ) => {
                    self.retry_after(now, coming.outer, OBSTACLE_RETRY);
                    continue;
                }
                Settled::Refused(_) => Disposition::NoInformation,
            };
            if let Some(peer) = &peer {
                let custody = self.held.custody_mut().value_mut();
                custody.handle_bpdu(now, peer.endpoint(), &coming.head, disposition);
            }
            self.delivered(now, coming.outer);
        }
    }

    /// A tunnel is closed: carriers that it has not settled are read again when it is open.
    pub(crate) fn close_tunnel(&mut self, now: Now, session: SessionId) {
        self.settle_encapsulating(now, session);
        let tunnel = self.adjacencies.tunnel_mut(session);
        for key in tunnel.map(|it| it.close()).into_iter().flatten() {
            self.retry_after(now, key, OBSTACLE_RETRY);
        }
    }
}
