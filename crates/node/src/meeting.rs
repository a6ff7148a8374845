//! The beginning of a connection with a neighbour: the convergence layer that is spoken on it, and by which policy.

use alloc::boxed::Box;

use dhow_bundle::{EndpointId, NodeId, Now};
use dhow_link::tcpcl::Session;

use crate::adjacencies::Adjacencies;
use crate::adjacencies::datagrams::Datagrams;
use crate::adjacencies::layer::Layer;
use crate::adjacencies::links::{Tongue, Welcome};
use crate::adjacencies::neighbour::{Neighbour, one_way, session_config};
use crate::adjacencies::session_id::SessionId;
use crate::adjacencies::tunnel::Tunnel;
use crate::config::{
    Enabled, LinkId, ListenerConfig, ListenerId, LtpPolicy, Protocol, SessionPolicy, UdpPolicy,
};
use crate::driver::{Action, Purpose, StreamId};
use crate::node::{Node, Stage};

impl Node {
    /// A neighbour's connection is there, or an address from which datagrams may come.
    pub(crate) fn meet(&mut self, now: Now, stream: StreamId, purpose: &Purpose) {
        let session = SessionId::over(stream);
        let (tongue, link, mut policy) = match *purpose {
            Purpose::Dialled { link: id } => {
                let Some(link) = self.adjacencies.link_mut(id) else {
                    return;
                };
                let policy = link.config.policy.clone();
                if link.connected(session) == Welcome::Surplus {
                    self.outbox.act(Action::Abort { stream });
                    self.outbox.act(Action::Close { stream });
                    return;
                }
                (Some(link.tongue()), Some(id), policy)
            }
            Purpose::Accepted { listener } | Purpose::Heard { listener } => {
                let Some(listener) = self.listener(listener) else {
                    return;
                };
                let tongue = match (purpose, listener.protocol) {
                    (Purpose::Heard { .. }, _) => {
                        Some(Tongue::Other(Protocol::Udp(UdpPolicy::default())))
                    }
                    (_, protocol @ Protocol::Stcp(_)) => Some(Tongue::Other(protocol)),
                    _ => None,
                };
                (tongue, None, listener.policy.clone())
            }
            Purpose::Client | Purpose::Program => return,
        };
        // RFC 9174 4.6: the largest transfer that can be taken. Peers make room for it (HDTN: 48 octets for each segment of
        // it and each bundle in flight), and the store would refuse what is longer than the quota.
        policy.transfer_mru = policy.transfer_mru.min(self.config.quota_octets).max(1);
        let (layer, announced) = self.layer(now, tongue, link, &mut policy);
        // A peer that brings bundles and says nothing of itself is nobody, unless policy names it.
        let brings = link.is_none() && (layer.is_datagrams() || !layer.acknowledges());
        let mut neighbour = Neighbour::new(layer, (&policy, announced), link, now);
        if let Purpose::Accepted { listener } | Purpose::Heard { listener } = *purpose {
            neighbour.listener = Some(listener);
        }
        if brings {
            let named = neighbour.sender_id().map(NodeId::endpoint);
            let sender = named.unwrap_or(&EndpointId::Null);
            neighbour.peer = Some(self.held.endpoints_mut().acquire(sender));
        }
        self.adjacencies.welcome(session, neighbour);
        self.attention.attend(stream);
        self.attend_all(now);
        self.adjacencies.watch_paths(now);
        if let Some(link) = link {
            self.adjacencies.stop_dialling(&mut self.outbox, link);
        }
        // The operator or the shutdown was quicker than the connection.
        let unwanted = link
            .and_then(|link| self.adjacencies.link(link))
            .is_some_and(|link| link.enabled == Enabled::No);
        if unwanted || self.stage == Stage::ShuttingDown {
            self.adjacencies
                .terminate(&mut self.attention, now, session);
        }
    }

    /// The convergence layer of a new neighbour, and the transfer MRU that the peer is told.
    fn layer(
        &mut self,
        now: Now,
        tongue: Option<Tongue>,
        link: Option<LinkId>,
        policy: &mut SessionPolicy,
    ) -> (Layer, u64) {
        let announced = self.held.announced_mru(&self.config, policy.transfer_mru);
        // Nobody is known by an address alone.
        let peer = link.and(policy.peer.clone());
        let version = match tongue {
            Some(Tongue::Other(Protocol::Udp(udp))) => {
                // Nobody takes back what has left, so none leaves before it is durable here.
                policy.cut_through = Enabled::No;
                let seed = self.random.next();
                let mut link = Datagrams::udp(udp, peer, seed, now);
                link.translate_all(now);
                return (Layer::Datagrams(Box::new(link)), announced);
            }
            Some(Tongue::Other(Protocol::Ltp(ltp))) => {
                let seed = self.random.next();
                let engines = self.engines_with(&ltp, peer.as_ref());
                let early_octets = Adjacencies::early_octets_bound(&self.config);
                let bounds = (policy.transfer_mru, early_octets);
                let mut link = Datagrams::ltp(ltp, engines, peer, bounds, (seed, now));
                link.translate_all(now);
                return (Layer::Datagrams(Box::new(link)), policy.transfer_mru);
            }
            Some(Tongue::Other(Protocol::Stcp(stcp))) => {
                policy.cut_through = Enabled::No;
                // The peer is told nothing, so that nothing is to be told anew.
                let mru = policy.transfer_mru;
                let layer = one_way(stcp, policy, peer, now);
                return (Layer::OneWay(Box::new(layer)), mru);
            }
            Some(Tongue::Other(Protocol::Bibe(bibe))) => {
                policy.cut_through = Enabled::No;
                let own = self.held.endpoints().local().node_id();
                let peer = peer.unwrap_or_else(|| own.clone());
                let tunnel = Tunnel::new(peer, bibe);
                return (Layer::Bundles(Box::new(tunnel)), policy.transfer_mru);
            }
            Some(Tongue::Tcpcl(version)) => Some(version),
            // An accepted connection answers either version of TCPCL; links say which.
            Some(Tongue::Other(
                Protocol::Tcpcl4 | Protocol::Tcpcl3 | Protocol::Auto | Protocol::Program,
            ))
            | None => None,
        };
        let own = self.held.endpoints().local().node_id().clone();
        let mut config = session_config(own, policy);
        config.transfer_mru = announced;
        let session = match version {
            Some(version) => Session::dial(version, config, now),
            None => Session::accept(config, now),
        };
        (Layer::Stream(Box::new(session)), announced)
    }

    /// The engine IDs here and there: where nothing else is said the node numbers (RFC 7116 3.1.2, as deployed), and 0 without any.
    pub(crate) fn engines_with(&self, policy: &LtpPolicy, peer: Option<&NodeId>) -> (u64, u64) {
        let mut own = self.config.node_ids.iter();
        let own = policy.engine.or_else(|| own.find_map(NodeId::number));
        let remote = policy
            .remote_engine
            .or_else(|| peer.and_then(NodeId::number));
        (own.unwrap_or(0), remote.unwrap_or(0))
    }

    fn listener(&self, ListenerId(id): ListenerId) -> Option<&ListenerConfig> {
        let id = usize::try_from(id).ok()?;
        self.config.listeners.get(id)
    }
}
