//! Setting up a session: contact headers (RFC 7242 4).

use alloc::format;
use alloc::string::{String, ToString};

use bytes::Bytes;
use dhow_bundle::{EndpointId, NodeId, Now, Reading};
use thiserror::Error;

use super::message::{ContactHeader, offer};
use super::session::{Session, peer_fault};
use super::state::Trigger;
use super::transfer_in::Answering;
use super::wire::WireFault;
use crate::stream::{DownReason, LinkEvent, SessionParameters, TerminateReason};
use crate::tcpcl::config::{Config, TlsPolicy};

/// A limit that the peer cannot announce: RFC 7242 has no such field.
const NO_LIMIT: u64 = u64::MAX;

/// The terms for bundles that both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) answering: Answering,
    /// Whether the acknowledged octets of a bundle that fails are kept as a fragment.
    pub(super) keeps_reactive_fragments: bool,
    /// Whether the peer is told the lengths of bundles.
    pub(super) lengths: bool,
}

impl Agreed {
    /// Before the peer has said anything.
    pub(super) const NOTHING: Self = Self {
        answering: Answering::Nothing,
        keeps_reactive_fragments: false,
        lengths: false,
    };

    /// RFC 7242 4.2: what both sides offer; LENGTH is for the side that asked for it.
    const fn of(ours: u8, theirs: u8) -> Self {
        let both = ours & theirs;
        let answering = if both & offer::ACKNOWLEDGMENTS == 0 {
            Answering::Nothing
        } else if both & offer::REFUSALS == 0 {
            Answering::Acknowledgments
        } else {
            Answering::Refusals
        };
        Self {
            answering,
            // Without acknowledgments nobody knows what was kept.
            keeps_reactive_fragments: both & offer::FRAGMENTATION != 0
                && both & offer::ACKNOWLEDGMENTS != 0,
            lengths: theirs & offer::LENGTHS != 0,
        }
    }
}

/// The offer of a session of ours: all that there is, and to keep parts where the node does.
pub(super) const fn offered(config: &Config) -> u8 {
    let always = offer::ACKNOWLEDGMENTS | offer::REFUSALS | offer::LENGTHS;
    if config.keeps_reactive_fragments {
        always | offer::FRAGMENTATION
    } else {
        always
    }
}

/// Why a peer's contact header is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum HeaderFault {
    #[error("\"{0}\" is not an endpoint of a node (RFC 7242 4.1)")]
    Endpoint(String),
    #[error("the peer claims our node ID, {0}")]
    OurNodeId(NodeId),
    #[error("the peer is {found}, not {expected} (RFC 7242 4.1)")]
    Unexpected { found: NodeId, expected: NodeId },
    #[error("TLS is required, and version 3 of the protocol has none (RFC 7242 7)")]
    NoTls,
}

impl HeaderFault {
    fn down(&self) -> DownReason {
        match self {
            Self::Unexpected { .. } | Self::NoTls => DownReason::Security(self.to_string()),
            Self::Endpoint(_) | Self::OurNodeId(_) => peer_fault(self),
        }
    }
}

impl Session {
    /// RFC 7242 4: each side sends its contact header at once.
    pub(super) fn queue_contact_header(&mut self) {
        ContactHeader {
            offer: self.offer,
            keepalive_s: self.config.keepalive_s,
            endpoint: format!("{}", self.config.node_id),
        }
        .encode(&mut self.opening);
    }

    pub(super) fn handle_contact(&mut self, now: Now, chunk: &mut Bytes) {
        let header = match self.decoder.contact(chunk) {
            Ok(None) => return,
            Ok(Some(header)) => header,
            // RFC 7242 4.2: a session of another version is not possible.
            Err(WireFault::Version(_)) => {
                let reason = TerminateReason::VersionMismatch;
                return self.fail(Some(reason), DownReason::Terminated(reason));
            }
            Err(fault) => return self.handle_wire_fault(fault),
        };
        let peer = match self.judge(&header) {
            Ok(peer) => peer,
            Err(fault) => return self.fail(Some(TerminateReason::ContactFailure), fault.down()),
        };
        let agreed = Agreed::of(self.offer, header.offer);
        // RFC 7242 4.2: the smaller of the two intervals, so that 0 disables keepalives.
        let keepalive_s = self.config.keepalive_s.min(header.keepalive_s);
        let parameters = SessionParameters {
            peer,
            secured: false,
            proven: false,
            keepalive_s,
            segment_mru: NO_LIMIT,
            transfer_mru: NO_LIMIT,
            keeps_reactive_fragments: agreed.keeps_reactive_fragments,
        };
        self.apply(Trigger::HeadersAgreed);
        self.parameters = Some(parameters.clone());
        self.events.push(LinkEvent::Up(parameters));
        self.timers.negotiated(now.monotonic, keepalive_s);
        self.incoming.negotiated(agreed.answering);
        self.outgoing.negotiated(agreed);
    }

    fn judge(&self, header: &ContactHeader) -> Result<NodeId, HeaderFault> {
        if self.config.tls == TlsPolicy::Required {
            return Err(HeaderFault::NoTls);
        }
        // RFC 7242 4.1: any endpoint of the node. Names without a slash are usual in programs of its time.
        let endpoint = EndpointId::parse(&header.endpoint, Reading::Lenient).ok();
        let Some(peer) = endpoint.and_then(|endpoint| endpoint.node_id()) else {
            return Err(HeaderFault::Endpoint(header.endpoint.clone()));
        };
        if peer == self.config.node_id {
            return Err(HeaderFault::OurNodeId(peer));
        }
        if let Some(expected) = &self.config.expected_peer
            && *expected != peer
        {
            return Err(HeaderFault::Unexpected {
                found: peer,
                expected: expected.clone(),
            });
        }
        Ok(peer)
    }
}
