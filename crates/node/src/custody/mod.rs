//! Custody of bundles as a value: the bundles of which this node is custodian, the signals that it owes, and the times at which it sends again.
//!
//! Nothing here knows a store, a session or a route. Bundles are named by their [`BundleKey`], custodians by an endpoint ID; the caller says what has
//! happened (`handle_*`), and asks what is to be done (`poll_*`, each until it has nothing more). Start reading at `state.rs`, which has the
//! states of custody of one bundle; `bundles.rs` has those that this node is custodian of, `owed.rs` the signals to custodians before it, `encapsulation.rs` and `bibe.rs` what Bundle-in-Bundle
//! Encapsulation has instead, and `note.rs` what outlasts a restart.
//!
//! A bundle of version 6 passes through [`Custody::handle_request`] as it comes in, [`Custody::handle_accepted`] once it is durable,
//! [`Custody::handle_leaving`] as it leaves, [`Custody::handle_sent`] once it has left, and comes out of [`Custody::poll_outcome`] by a signal or its timer. With Bundle-in-Bundle
//! Encapsulation each hop is a transmission of its own ([`Custody::handle_encapsulated`]), and what came is signalled ([`Custody::handle_bpdu`]): a
//! restart forgets both, since a peer that hears nothing sends again, and one that counts from 1 after its own restart must not hear of
//! transmissions before it.

mod aggregates;
mod bibe;
mod bundles;
mod counters;
mod encapsulation;
mod incoming;
mod note;
mod numbers;
mod owed;
mod retransmission;
mod runs;
mod state;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::storage::BundleKey;
use dhow_bundle::v6::admin::Subject;
use dhow_bundle::v7::admin::bibe::Disposition;
use dhow_bundle::{EndpointId, Instant, Now};

use bibe::Peers;
pub use bibe::{BibePeer, PEERS_BOUND, TRANSMISSIONS_BOUND};
use bundles::{Bundles, Impossible};
pub use counters::CustodyCounters;
use incoming::{Incoming, Signalled, Source};
pub use note::CUSTODY_NOTE_OCTETS;
pub use numbers::GivenId;
use numbers::Reservation;
use owed::Owed;
pub use owed::{AggregationLimits, Custodian, OwedSignal};
pub use retransmission::Retransmission;
pub use runs::IdRuns;
pub use state::CustodyState;

/// The end of a wait for a custody signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Somebody else has custody: this node has none any more, and the bundle goes when nothing else retains it (RFC 5050 5.11).
    Released,
    /// A hop does not take custody: the bundle is to be sent elsewhere, or again later (RFC 5050 5.12). One that waits for that already may hear so again.
    ForwardElsewhere(Disposition),
    /// No signal came in time: the bundle is to be sent again (RFC 5050 5.12).
    SendAgain,
}

/// Custody that is to be taken of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// This node's custody ID of the bundle, for its custody transfer enhancement block.
    pub given: GivenId,
    /// The note of custody, to be committed with the bundle: at most [`CUSTODY_NOTE_OCTETS`].
    pub note: Bytes,
}

/// Custody of all bundles of a node.
#[derive(Debug)]
pub struct Custody {
    retransmission: Retransmission,
    reservation: Reservation,
    bundles: Bundles,
    owed: Owed,
    peers: Peers,
    incoming: Incoming,
    counters: CustodyCounters,
}

impl Default for Custody {
    fn default() -> Self {
        Self {
            retransmission: Retransmission::default(),
            reservation: Reservation::default(),
            bundles: Bundles::default(),
            owed: Owed::new(),
            peers: Peers::new(),
            incoming: Incoming::default(),
            counters: CustodyCounters::default(),
        }
    }
}

impl Custody {
    /// With these times that signals are waited for.
    #[must_use]
    pub const fn with_retransmission(mut self, retransmission: Retransmission) -> Self {
        self.retransmission = retransmission;
        self
    }

    /// With these limits of aggregate custody signals, for one custodian or all that have none of their own.
    #[must_use]
    pub fn with_aggregation(
        mut self,
        custodian: Option<EndpointId>,
        limits: AggregationLimits,
    ) -> Self {
        self.owed.set_limits(custodian, limits);
        self
    }

    /// Go on after a restart: no ID up to the highest that was reserved is given again.
    pub fn resume(&mut self, mark: u64) {
        self.reservation.resume(mark);
    }

    /// A reservation is durable.
    pub fn confirm_reservation(&mut self, mark: u64) {
        self.reservation.confirm(mark);
    }

    /// True where an ID is reserved durably: it may leave the node.
    #[must_use]
    pub const fn is_reserved_durably(&self, id: u64) -> bool {
        self.reservation.is_durable(id)
    }

    /// The counters of custody.
    #[must_use]
    pub const fn counters(&self) -> &CustodyCounters {
        &self.counters
    }

    /// Octets of memory that it takes.
    #[must_use]
    pub fn memory_octets(&self) -> usize {
        (self.bundles.memory_octets())
            .saturating_add(self.owed.memory_octets())
            .saturating_add(self.peers.memory_octets())
            .saturating_add(self.incoming.memory_octets())
    }

    /// The time of the next [`Self::poll_outcome`], [`Self::poll_signal`] or [`Self::poll_bibe_signal`] that has something, if nothing else happens.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let times = [
            self.bundles.poll_timeout(),
            self.owed.poll_timeout(),
            self.peers.poll_timeout(),
        ];
        let next = times.into_iter().flatten().min();
        match self.incoming.is_empty() {
            true => next,
            false => Some(Instant::START),
        }
    }

    fn count_impossible<T>(&mut self, result: Result<T, Impossible>) -> Option<T> {
        if result.is_err() {
            self.counters.transitions_refused += 1;
        }
        result.ok()
    }
}

/// Custody that this node takes, and has.
impl Custody {
    /// This node is to take custody of a bundle that comes in, or is made here (of which nobody is custodian before). None where there is no room: custody is
    /// then refused for depleted storage ([`Self::handle_refused`]).
    pub fn handle_request(
        &mut self,
        key: BundleKey,
        custodian: Option<Custodian>,
    ) -> Option<Acceptance> {
        let given = (self.bundles).request(&mut self.reservation, key, custodian);
        let given = self.count_impossible(given)?;
        self.counters.without_room += u64::from(given.is_none());
        let given = given?;
        let note = self.bundles.note(key)?;
        Some(Acceptance { given, note })
    }

    /// A bundle whose custody this node is to take is durable here: the custodian before is owed a signal from now on (RFC 5050 5.10.1).
    pub fn handle_accepted(&mut self, now: Instant, key: BundleKey) {
        let accepted = self.bundles.accept(key);
        let Some((id, custodian)) = self.count_impossible(accepted) else {
            return;
        };
        self.counters.accepted += 1;
        if let Some(custodian) = custodian {
            self.owe(now, custodian, Disposition::Accepted, Some(id));
        }
    }

    /// A bundle whose custody this node was to take was not kept, for this reason.
    ///
    /// # Panics
    /// When the reason is that custody was accepted.
    pub fn handle_declined(&mut self, now: Instant, key: BundleKey, reason: Disposition) {
        let declined = self.bundles.decline(key);
        if let Some(custodian) = self.count_impossible(declined).flatten() {
            self.handle_refused(now, custodian, reason);
        }
    }

    /// This node does not take custody of a bundle that came, for this reason.
    ///
    /// # Panics
    /// When the reason is that custody was accepted.
    pub fn handle_refused(&mut self, now: Instant, custodian: Custodian, reason: Disposition) {
        assert!(
            reason != Disposition::Accepted,
            "acceptance is not a reason to refuse"
        );
        self.counters.refused += 1;
        self.owe(now, custodian, reason, None);
    }

    /// Another copy of a bundle came whose custody this node has: the custodian of the copy hears that it is redundant (RFC 5050 6.1.2), unless the
    /// bundle is not durable here yet, or custody of it was not taken. False where nothing is owed.
    pub fn handle_duplicate(&mut self, now: Instant, key: BundleKey, custodian: Custodian) -> bool {
        let is_redundant = match self.bundles.state(key) {
            CustodyState::Accepted
            | CustodyState::AwaitingSignal
            | CustodyState::AwaitingForward => true,
            CustodyState::None
            | CustodyState::Requested
            | CustodyState::Released
            | CustodyState::Refused => false,
        };
        if is_redundant {
            self.handle_refused(now, custodian, Disposition::Redundant);
        }
        is_redundant
    }

    fn owe(
        &mut self,
        now: Instant,
        custodian: Custodian,
        disposition: Disposition,
        settles: Option<u64>,
    ) {
        let owed = self.owed.owe(now, custodian, disposition, settles);
        self.counters.signals_dropped += u64::from(owed.is_err());
    }

    /// A bundle that this node is custodian of begins to leave. A signal may overtake the acknowledgment of the transfer, on another session, and counts.
    pub fn handle_leaving(&mut self, key: BundleKey) {
        self.bundles.leaves(key);
    }

    /// A bundle that this node is custodian of was sent, and its signal is to be here after a round trip of so long, in which the next custodian may
    /// gather others. Its timer starts (RFC 5050 5.10.1).
    pub fn handle_sent(&mut self, now: Instant, key: BundleKey, round_trip: Duration) {
        let sent = (self.bundles).sent(now, key, round_trip, self.retransmission);
        self.count_impossible(sent);
    }

    /// A bundle is delivered, deleted or expired, and its key free for another: custody is released (RFC 5050 5.13), and no signal for it is waited for.
    /// The custodian before hears of the signals that it is owed all the same.
    pub fn handle_removed(&mut self, now: Instant, key: BundleKey) {
        self.bundles.remove(key);
        self.peers.remove_bundle(now, key);
    }

    /// The state of custody of a bundle.
    #[must_use]
    pub fn state(&self, key: BundleKey) -> CustodyState {
        self.bundles.state(key)
    }

    /// This node's custody ID of a bundle, if it is its custodian or about to be.
    #[must_use]
    pub fn custody_id(&self, key: BundleKey) -> Option<u64> {
        self.bundles.id(key)
    }

    /// The bundle with this custody ID.
    #[must_use]
    pub fn key(&self, custody_id: u64) -> Option<BundleKey> {
        self.bundles.key(custody_id)
    }

    /// Bundles that this node is custodian of or about to be.
    #[must_use]
    pub fn count(&self) -> usize {
        self.bundles.count()
    }

    /// A custody signal about one bundle came (RFC 5050 6.3); [`Self::poll_outcome`] says what it means.
    pub fn handle_signal(&mut self, key: BundleKey, disposition: Disposition) {
        let id = self.bundles.id(key);
        let runs = id.map(|id| (id, id));
        self.signalled(Source::Custodian, disposition, runs.as_slice());
    }

    /// An aggregate custody signal came; [`Self::poll_outcome`] says what it means for each bundle that its runs name. They may be of any length: only IDs
    /// under which bundles were sent are looked at.
    pub fn handle_aggregate(&mut self, disposition: Disposition, runs: &[(u64, u64)]) {
        self.signalled(Source::Custodian, disposition, runs);
    }

    /// The next bundle for which a signal came, or did not come in time.
    pub fn poll_outcome(&mut self, now: Instant) -> Option<(BundleKey, Outcome)> {
        // Each turn returns or takes one away of at most as many runs as are kept.
        while let Some(signalled) = self.incoming.front_mut() {
            let (run, disposition) = (signalled.run(), signalled.disposition);
            let resolved = match &signalled.source {
                Source::Custodian => self.bundles.resolve(run, disposition),
                Source::Peer(peer) => self.peers.resolve(peer, run, disposition),
            };
            let Some((id, key, outcome)) = resolved else {
                self.incoming.pop();
                continue;
            };
            if !signalled.go_on_behind(id) {
                self.incoming.pop();
            }
            match outcome {
                Outcome::Released => self.counters.released += 1,
                Outcome::ForwardElsewhere(_) | Outcome::SendAgain => {
                    self.counters.refused_there += 1;
                }
            }
            return Some((key, outcome));
        }
        let key = (self.bundles.poll_timed_out(now)).or_else(|| self.peers.poll_timed_out(now))?;
        self.counters.timed_out += 1;
        Some((key, Outcome::SendAgain))
    }

    /// Keeps the runs of a signal that name a bundle which was sent.
    fn signalled(&mut self, source: Source, disposition: Disposition, runs: &[(u64, u64)]) {
        let counter = match &source {
            Source::Custodian => Some(self.bundles.counter()),
            Source::Peer(peer) => self.peers.counter(peer),
        };
        // A run that lies names no bundle that is sent after it came.
        let highest = counter.map_or(0, |counter| self.reservation.highest(counter));
        let clipped = runs.iter().map(|&(first, last)| (first, last.min(highest)));
        let known = clipped.filter(|&(first, last)| {
            first <= last
                && match &source {
                    Source::Custodian => self.bundles.is_sent((first, last)),
                    Source::Peer(peer) => self.peers.is_sent(peer, (first, last)),
                }
        });
        let known: Vec<(u64, u64)> = known.collect();
        let unknown = runs
            .len()
            .saturating_sub(known.len())
            .max(usize::from(runs.is_empty()));
        self.counters.unknown += u64::try_from(unknown).unwrap_or(u64::MAX);
        let known = known
            .into_iter()
            .map(|run| Signalled::new(source.clone(), disposition, run));
        if !self.incoming.push(known) {
            self.counters.signals_left += 1;
        }
    }
}

/// Signals that this node owes, and what outlasts a restart.
impl Custody {
    /// The next signal that is to leave to a custodian. The caller makes it a bundle, and says once that is durable ([`Self::handle_signalled`]).
    pub fn poll_signal(&mut self, now: Now) -> Option<OwedSignal> {
        self.owed.poll(now)
    }

    /// True where custody may be taken or refused without a signal being dropped.
    #[must_use]
    pub fn has_room_for_signals(&self) -> bool {
        self.owed.has_room()
    }

    /// The bundle of a signal is durable here ([`OwedSignal::settles`]): the notes of the bundles that it tells of owe nothing.
    pub fn handle_signalled(&mut self, settled: &IdRuns) {
        self.bundles.settle(settled);
    }

    /// The next bundle whose note of custody has changed, and its note. It need not be written at once: after a restart the older one makes the signal leave
    /// once more, which its custodian ignores.
    pub fn poll_note(&mut self) -> Option<(BundleKey, Bytes)> {
        self.bundles.poll_note()
    }

    /// The note of custody of a bundle, at most [`CUSTODY_NOTE_OCTETS`]; none where there is nothing to note.
    #[must_use]
    pub fn note(&self, key: BundleKey) -> Option<Bytes> {
        self.bundles.note(key)
    }

    /// A restart finds a bundle with a note of custody, after [`Self::resume`]. It is to be sent; what was sent in an earlier run a signal may still
    /// name. A custodian that its note names is told again. False where the note cannot be read: this node has no custody of it.
    pub fn recover(&mut self, now: Instant, key: BundleKey, note: &[u8], subject: Subject) -> bool {
        let Some((id, owed)) = self.bundles.recover(key, note) else {
            self.counters.notes_refused += 1;
            return false;
        };
        self.reservation.pass(id);
        if let Some(debt) = owed {
            let custodian = Custodian {
                endpoint: debt.custodian,
                id: debt.id,
                subject,
            };
            self.bundles.set_owed(key, custodian.clone());
            self.owe(now, custodian, Disposition::Accepted, Some(id));
        }
        true
    }
}
