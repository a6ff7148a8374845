//! Custody between peers of Bundle-in-Bundle Encapsulation: requests to them, and signals to them.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::v7::admin::bibe::{BibeRefusal, BibeSignal, BpduHead, Disposition};
use dhow_bundle::{EndpointId, Instant, Now};

use super::Custody;
use super::bibe::BibePeer;
use super::incoming::Source;
use super::numbers::GivenId;

impl Custody {
    /// A peer is there, or is treated differently from now on. False where there are [`PEERS_BOUND`](super::PEERS_BOUND) others.
    pub fn set_peer(&mut self, peer: EndpointId, settings: BibePeer) -> bool {
        self.peers.set(peer, settings)
    }

    /// The settings of a peer; none where it is no peer.
    #[must_use]
    pub fn peer(&self, peer: &EndpointId) -> Option<&BibePeer> {
        self.peers.settings(peer)
    }

    /// A peer is one no more: the bundles whose signal it has not sent, at most [`TRANSMISSIONS_BOUND`](super::TRANSMISSIONS_BOUND), which are to be sent elsewhere.
    pub fn remove_peer(&mut self, peer: &EndpointId) -> Vec<BundleKey> {
        self.peers.remove(&mut self.reservation, peer)
    }

    /// A bundle is sent to a peer in another, with custody, and its signal may take so long: forth and back, and what the peer gathers. The transmission ID;
    /// none where the peer is none, or there are too many. Signals about earlier transmissions of the bundle count as well.
    pub fn handle_encapsulated(
        &mut self,
        now: Instant,
        peer: &EndpointId,
        key: BundleKey,
        wait: Duration,
    ) -> Option<GivenId> {
        (self.peers).send(&mut self.reservation, now, peer, key, wait)
    }

    /// A bundle that is sent to a peer is in this one, which is held here: the time for its signal begins when that has left
    /// ([`Self::handle_carrier_gone`]).
    pub fn handle_carried(&mut self, key: BundleKey, carrier: BundleKey) {
        self.peers.carry(key, carrier);
    }

    /// A bundle, which may carry another, has left, or is held no more.
    pub fn handle_carrier_gone(&mut self, now: Instant, carrier: BundleKey) {
        self.peers.let_go(now, carrier);
    }

    /// A bundle that was to be sent to a peer in another is not: no signal for it is waited for.
    pub fn handle_not_encapsulated(&mut self, key: BundleKey) {
        self.peers.end_last(key);
    }

    /// Whether a signal of a peer is waited for about a bundle.
    #[must_use]
    pub fn is_encapsulated(&self, key: BundleKey) -> bool {
        self.peers.is_sent_bundle(key)
    }

    /// The payload of a custody signal of a peer came; [`Self::poll_outcome`] says what it means for each bundle.
    ///
    /// # Errors
    /// The rule that it breaks; it is then ignored.
    pub fn handle_bibe_signal(
        &mut self,
        peer: &EndpointId,
        payload: &[u8],
    ) -> Result<(), BibeRefusal> {
        let settings = self.peers.settings(peer).copied().unwrap_or_default();
        let signal = BibeSignal::decode(payload, settings.numbering)?;
        let source = Source::Peer(peer.clone());
        self.signalled(source, signal.disposition, &signal.runs);
        Ok(())
    }

    /// A bundle that came from a peer in another, which asked for custody, is durable here, redundant, or cannot be taken: the peer is owed a signal. False
    /// where it is no peer, did not ask for custody, or its signals find no room.
    pub fn handle_bpdu(
        &mut self,
        now: Now,
        peer: &EndpointId,
        head: &BpduHead,
        disposition: Disposition,
    ) -> bool {
        let owed = self.peers.owe(now, peer, head, disposition);
        self.counters.signals_dropped += u64::from(owed.is_err());
        owed.unwrap_or(false)
    }

    /// The next signal that is to leave to a peer, and its payload. Signals are sent without custody.
    pub fn poll_bibe_signal(&mut self, now: Instant) -> Option<(EndpointId, Bytes)> {
        self.peers.poll_signal(now)
    }
}
