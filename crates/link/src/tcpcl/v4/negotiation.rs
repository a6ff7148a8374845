//! The setup of a session: contact headers, TLS, `SESS_INIT` (RFC 9174 4).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::{NodeId, Now};
use thiserror::Error;

use super::extension::{ExtensionFault, SessionExtensions};
use super::message::{CAN_TLS, ContactHeader, Message, SessInit, VERSION};
use super::session::{Session, peer_fault};
use super::state::Trigger;
use super::transfer_out::ReactiveFragments;
use crate::stream::{DownReason, LinkEvent, PeerIdentities, SessionParameters, TerminateReason};
use crate::tcpcl::config::{IdentityPolicy, Role, TlsPolicy};
use crate::tcpcl::writer::Encode;

/// The smallest Segment MRU that a peer may have, octets: below it, heads outweigh data (the "data
/// dribble" of RFC 9174 7.10).
const MIN_SEGMENT_MRU: u64 = 64;

/// Node IDs of a certificate that are named, at most.
const NAMED_MOST: usize = 4;

/// Why a peer's `SESS_INIT` is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum InitFault {
    #[error("{0} (RFC 9174 4.8)")]
    Extensions(ExtensionFault),
    #[error("the peer does not say its node ID (RFC 9174 4.6)")]
    NoNodeId,
    #[error("\"{0}\" is not a node ID (RFC 9174 4.6)")]
    NodeId(String),
    #[error("the peer claims our node ID, {0}")]
    OurNodeId(NodeId),
    #[error("a Segment MRU of {0} octets is too small (RFC 9174 7.10)")]
    SegmentMru(u64),
    #[error("the peer is {found}, not {expected} (RFC 9174 4.6)")]
    Unexpected { found: NodeId, expected: NodeId },
    #[error(
        "the peer's certificate does not prove that it is {0}, it names {1} (RFC 9174 4.4.4.3)"
    )]
    Unauthenticated(NodeId, String),
}

impl InitFault {
    fn down(&self) -> DownReason {
        match self {
            Self::Unexpected { .. } | Self::Unauthenticated(..) => {
                DownReason::Security(self.to_string())
            }
            _ => peer_fault(self),
        }
    }
}

impl Session {
    pub(super) fn queue_contact_header(&mut self) {
        let flags = if self.config.tls == TlsPolicy::Never {
            0
        } else {
            CAN_TLS
        };
        ContactHeader {
            version: VERSION,
            flags,
        }
        .encode(&mut self.opening);
    }

    pub(super) fn handle_contact(&mut self, chunk: &mut Bytes) {
        let header = match self.decoder.contact(chunk) {
            Ok(None) => return,
            Ok(Some(header)) => header,
            Err(fault) => return self.handle_wire_fault(fault),
        };
        // RFC 9174 4.1: the passive entity answers once it has the active one's contact header.
        if self.role == Role::Passive {
            self.queue_contact_header();
        }
        if header.version != VERSION {
            // RFC 9174 4.3: the passive entity says "Version mismatch"; the active one closes when it
            // gets a lower version than it sent.
            let silent = self.role == Role::Active && header.version < VERSION;
            let farewell = if silent {
                None
            } else {
                Some(TerminateReason::VersionMismatch)
            };
            return self.fail(
                farewell,
                DownReason::Terminated(TerminateReason::VersionMismatch),
            );
        }
        // RFC 9174 4.3: TLS is used when both can.
        let secured = self.config.tls != TlsPolicy::Never && header.flags & CAN_TLS != 0;
        if secured {
            self.apply(Trigger::TlsAgreed);
            self.events.push(LinkEvent::StartTls);
            if !chunk.is_empty() {
                self.handle_early_octets();
            }
        } else if self.config.tls == TlsPolicy::Required {
            // RFC 9174 4.3: an unacceptable Enable TLS ends the session with "Contact Failure".
            let reason = DownReason::Security(
                "TLS is required and the peer has none (RFC 9174 4.3)".to_string(),
            );
            self.fail(Some(TerminateReason::ContactFailure), reason);
        } else {
            self.apply(Trigger::PlainAgreed);
            self.begin_initiation();
        }
    }

    /// Octets between the contact header and the TLS handshake: taken as part of the session, they
    /// would be an attacker's way past TLS; the handshake itself does not pass here.
    pub(super) fn handle_early_octets(&mut self) {
        let reason = "octets came before the TLS handshake (RFC 9174 4.4.3)";
        self.fail(None, DownReason::Security(reason.to_string()));
    }

    pub(super) fn handle_secured(&mut self, identities: PeerIdentities) {
        if self.state != super::state::State::Securing {
            return;
        }
        let network_is_proven =
            identities.dns_matches == Some(true) || identities.address_matches == Some(true);
        // RFC 9174 4.4.4.2: network-level identities are judged right after the handshake.
        let network_is_needed = match self.config.identity {
            IdentityPolicy::NodeId | IdentityPolicy::Unauthenticated => false,
            IdentityPolicy::NodeIdElseNetwork => identities.node_ids.is_empty(),
            IdentityPolicy::NodeIdAndNetwork => true,
        };
        self.identities = Some(identities);
        self.apply(Trigger::HandshakeDone);
        if network_is_needed && !network_is_proven {
            let reason = "the peer's certificate proves neither its DNS name nor its address (RFC 9174 4.4.4.2)";
            return self.fail(
                Some(TerminateReason::ContactFailure),
                DownReason::Security(reason.to_string()),
            );
        }
        self.begin_initiation();
    }

    pub(super) fn handle_insecure(&mut self) {
        use super::state::State;
        // Under TLS 1.3 the entity that dialled may hear of a refusal when it has sent its SESS_INIT (RFC 8446 4.4.2.4).
        if matches!(self.state, State::Securing | State::Initiation) {
            // RFC 9174 4.4.3: both sides close the connection; there is no session to terminate.
            self.opening.clear();
            self.fail(
                None,
                DownReason::Security(
                    "TLS failed (RFC 9174 4.4.3), the log says on which certificate".to_string(),
                ),
            );
        }
    }

    /// RFC 9174 4.4.3, 3.3: the active entity sends its `SESS_INIT` first.
    fn begin_initiation(&mut self) {
        if self.role == Role::Active {
            self.queue_sess_init();
        }
    }

    fn queue_sess_init(&mut self) {
        let init = SessInit {
            keepalive_s: self.config.keepalive_s,
            segment_mru: self.config.segment_mru,
            transfer_mru: self.config.transfer_mru,
            node_id: format!("{}", self.config.node_id),
            extensions: SessionExtensions {
                keeps_reactive_fragments: self.config.keeps_reactive_fragments,
            }
            .encode(),
        };
        Message::SessInit(init).encode(&mut self.opening);
    }

    pub(super) fn handle_sess_init(&mut self, now: Now, init: &SessInit) {
        let (peer, extensions) = match self.judge(init) {
            Ok(acceptable) => acceptable,
            // RFC 9174 4.7, 4.8: unacceptable parameters end the session with "Contact Failure".
            Err(fault) => return self.fail(Some(TerminateReason::ContactFailure), fault.down()),
        };
        if self.role == Role::Passive {
            self.queue_sess_init();
        }
        // RFC 9174 4.7: the smaller of the two intervals, so that 0 disables keepalives.
        let keepalive_s = self.config.keepalive_s.min(init.keepalive_s);
        let identities = self.identities.as_ref();
        let parameters = SessionParameters {
            secured: identities.is_some(),
            proven: identities.is_some_and(|it| it.node_ids.contains(&peer)),
            peer,
            keepalive_s,
            segment_mru: init.segment_mru,
            transfer_mru: init.transfer_mru,
            keeps_reactive_fragments: self.config.keeps_reactive_fragments
                && extensions.keeps_reactive_fragments,
        };
        let reactive_fragments = match parameters.keeps_reactive_fragments {
            true => ReactiveFragments::Kept,
            false => ReactiveFragments::Dropped,
        };
        self.apply(Trigger::InitAgreed);
        self.parameters = Some(parameters.clone());
        self.events.push(LinkEvent::Up(parameters));
        self.timers.negotiated(now.monotonic, keepalive_s);
        self.outgoing.negotiated(
            (init.segment_mru, init.transfer_mru),
            reactive_fragments,
            &mut self.events,
        );
    }

    fn judge(&self, init: &SessInit) -> Result<(NodeId, SessionExtensions), InitFault> {
        // RFC 9174 4.8: an unknown critical item ends the session; 4.6: so does a list that cannot be
        // read.
        let extensions =
            SessionExtensions::decode(&init.extensions).map_err(InitFault::Extensions)?;
        // RFC 9174 4.6: a node ID of no octets means that the peer does not say who it is. Nothing
        // could be routed to it, so it is not acceptable here.
        if init.node_id.is_empty() {
            return Err(InitFault::NoNodeId);
        }
        let Ok(peer) = NodeId::parse(&init.node_id, self.config.reading) else {
            return Err(InitFault::NodeId(init.node_id.clone()));
        };
        if peer == self.config.node_id {
            return Err(InitFault::OurNodeId(peer));
        }
        if let Some(expected) = &self.config.expected_peer
            && *expected != peer
        {
            return Err(InitFault::Unexpected {
                found: peer,
                expected: expected.clone(),
            });
        }
        if init.segment_mru < MIN_SEGMENT_MRU {
            return Err(InitFault::SegmentMru(init.segment_mru));
        }
        if let Some(identities) = &self.identities
            && !self.proves(identities, &peer)
        {
            let named = identities.node_ids.iter().take(NAMED_MOST);
            let named: Vec<String> = named.map(ToString::to_string).collect();
            let named = match named.is_empty() {
                true => "no node".into(),
                false => named.join(", "),
            };
            return Err(InitFault::Unauthenticated(peer, named));
        }
        Ok((peer, extensions))
    }

    /// RFC 9174 4.4.4.3: the node ID of the peer's `SESS_INIT` against those of its certificate.
    fn proves(&self, identities: &PeerIdentities, peer: &NodeId) -> bool {
        let proven = identities.node_ids.contains(peer);
        match self.config.identity {
            IdentityPolicy::NodeId | IdentityPolicy::NodeIdAndNetwork => proven,
            // Without any node ID in the certificate, the network-level identity was asked for.
            IdentityPolicy::NodeIdElseNetwork => proven || identities.node_ids.is_empty(),
            IdentityPolicy::Unauthenticated => true,
        }
    }
}
