//! The conversation: the machine that all other files of this room are parts of.

use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::storage::Piece;
use dhow_bundle::{Instant, Now};

use super::announcement::PeerState;
use super::config::{Announcement, Config, LEAST_MTU};
use super::fault::{Fault, Faults};
use super::transfer_in::TransfersIn;
use super::transfer_out::{Plan, TransfersOut};
use super::wire::{EcnCounts, Extensions, KEEPALIVE, Message, Packet, write_announcement};
use crate::datagram::pacing::Bucket;
use crate::datagram::{
    Assurance, Batch, Capabilities, DatagramEvent, DatagramLink, Limit, Path, PathState,
};
use crate::stream::{DownReason, LinkCommand, TerminateReason};

/// Events that may wait before datagrams are dropped. One more datagram may add as many as it has messages.
pub(super) const MAX_EVENTS_WAITING: usize = 16_384;

/// The services of this layer: RFC 7122 carries version 6 of the Bundle Protocol, the draft 7 too.
const BUNDLE_VERSIONS: &[u8] = &[6, 7];

/// One UDP conversation: all that passes between one local and one remote address.
///
/// The driver tells it of datagrams and commands, takes events after each call until there are none, sends the
/// datagrams that `poll_datagrams` gives, and tells when they have left. See [`DatagramLink`].
#[derive(Debug)]
pub struct Conversation {
    pub(super) config: Config,
    phase: Phase,
    path: Path,
    /// The time since which nothing can come from the peer.
    deaf_since: Option<Instant>,
    pub(super) incoming: TransfersIn,
    outgoing: TransfersOut,
    peer: PeerState,
    ecn: Option<EcnCounts>,
    bucket: Bucket,
    /// When the bucket has tokens for the datagram that waits.
    filled: Option<Instant>,
    /// Datagrams given out.
    given: u64,
    /// Datagrams given out that have left.
    left: u64,
    keepalive: Timer,
    announcement: Timer,
    pub(super) events: VecDeque<DatagramEvent>,
    faults: Faults,
    scratch: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The transfers that have begun leave, until the instant at the latest.
    Ending(TerminateReason, Instant),
    Down,
}

/// When a datagram without octets of a transfer is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Never,
    At(Instant),
    Due,
}

impl Timer {
    fn expire(&mut self, now: Instant) {
        if matches!(self, Self::At(at) if *at <= now) {
            *self = Self::Due;
        }
    }

    const fn deadline(self) -> Option<Instant> {
        match self {
            Self::At(at) => Some(at),
            Self::Never | Self::Due => None,
        }
    }
}

/// A datagram to be sent.
enum Next {
    Announcement,
    Transfer(Plan),
    Keepalive,
}

impl Conversation {
    /// A conversation with a peer that may be there. Values of `config` beyond their bounds are taken for these;
    /// `seed` says where transfer IDs begin, so that those of two runs of a node differ.
    #[must_use]
    pub fn new(config: Config, seed: u64, now: Now) -> Self {
        let config = config.bounded();
        let mut events = VecDeque::new();
        // Draft 3.6.1: a smaller range encodes shorter. 32 bits last for years at the pace of the IDs.
        let first_id = seed & 0x7fff_ffff;
        Self {
            phase: Phase::Open,
            path: Path::default(),
            deaf_since: None,
            incoming: TransfersIn::new(&config),
            outgoing: TransfersOut::new(&config, first_id),
            peer: PeerState::new(config.peer.clone(), &mut events),
            ecn: None,
            bucket: Bucket::new(config.rate, config.mtu, now.monotonic),
            filled: None,
            given: 0,
            left: 0,
            keepalive: config
                .keepalive
                .map_or(Timer::Never, |interval| Timer::At(now.monotonic + interval)),
            announcement: if config.announcement.is_some() {
                Timer::Due
            } else {
                Timer::Never
            },
            events,
            faults: Faults::default(),
            scratch: Vec::new(),
            config,
        }
    }

    /// The newest counts of ECN marks that the peer told (draft 3.5.8).
    #[must_use]
    pub const fn ecn_counts(&self) -> Option<EcnCounts> {
        self.ecn
    }

    fn handle_extensions(&mut self, now: Instant, extensions: Extensions) {
        self.ecn = extensions.ecn.or(self.ecn);
        self.peer
            .handle(now, &extensions, &mut self.faults, &mut self.events);
        if let Some(segment) = extensions.segment {
            self.incoming
                .handle_segment(now, segment, &mut self.faults, &mut self.events);
        }
    }

    fn terminate(&mut self, now: Instant, reason: TerminateReason) {
        if self.phase == Phase::Open {
            self.phase = Phase::Ending(reason, now + self.config.termination_timeout);
            self.outgoing.end(&mut self.events);
            self.events.push_back(DatagramEvent::Ending);
        }
    }

    /// An ending conversation is over as soon as nothing is left to leave.
    fn settle(&mut self) {
        if let Phase::Ending(reason, _) = self.phase
            && self.outgoing.is_idle()
        {
            self.close(DownReason::Terminated(reason));
        }
    }

    fn close(&mut self, reason: DownReason) {
        if self.phase != Phase::Down {
            self.phase = Phase::Down;
            self.outgoing.close(&mut self.events);
            self.incoming.close(&mut self.events);
            self.events.push_back(DatagramEvent::Down(reason));
        }
    }

    /// The next datagram and its octets. An announcement precedes what the peer is to do with it.
    fn next_datagram(&mut self) -> Option<(Next, u64)> {
        if self.announcement == Timer::Due
            && let Some(announcement) = self.config.announcement.clone()
        {
            self.write_announcement(&announcement);
            let octets = u64::try_from(self.scratch.len()).unwrap_or(u64::MAX);
            return Some((Next::Announcement, octets));
        }
        if let Some(plan) = self.outgoing.plan() {
            let octets = plan.size;
            return Some((Next::Transfer(plan), octets));
        }
        let octets = u64::try_from(KEEPALIVE.len()).unwrap_or(u64::MAX);
        (self.keepalive == Timer::Due).then_some((Next::Keepalive, octets))
    }

    fn give(&mut self, now: Instant, next: &Next, out: &mut Batch) {
        self.given = self.given.saturating_add(1);
        match next {
            Next::Transfer(plan) => self.outgoing.give(plan, self.given, out),
            Next::Keepalive => {
                out.push(Piece::Octets(Bytes::from_static(&KEEPALIVE)));
                out.end_datagram();
            }
            Next::Announcement => {
                out.push(Piece::Octets(Bytes::copy_from_slice(&self.scratch)));
                out.end_datagram();
                if let Some(announcement) = &self.config.announcement {
                    self.announcement = Timer::At(now + announcement.interval);
                }
            }
        }
        if let Some(interval) = self.config.keepalive {
            self.keepalive = Timer::At(now + interval);
        }
    }

    /// Octets of the largest datagram.
    fn mtu(&self) -> u64 {
        let passes = self.path.mtu.unwrap_or(u64::MAX);
        self.config.mtu.min(passes).max(LEAST_MTU)
    }

    /// Write an announcement, without the node ID where that does not fit.
    fn write_announcement(&mut self, announcement: &Announcement) {
        let node_id = announcement.node_id.to_string();
        let mtu = usize::try_from(self.mtu()).unwrap_or(usize::MAX);
        for node_id in [Some(node_id.as_str()), None] {
            self.scratch.clear();
            write_announcement(&mut self.scratch, announcement.interval, node_id);
            if self.scratch.len() <= mtu {
                return;
            }
        }
    }

    /// Let time take its effect on what waits for the peer.
    fn expire(&mut self, now: Instant) {
        self.incoming.forget(now);
        if self.deaf_since.is_none() {
            self.incoming.expire(now, &mut self.events);
            self.peer.expire(now, &mut self.events);
        }
    }
}

impl DatagramLink for Conversation {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            assurance: Assurance::Sent,
            transfer_mru: self.outgoing.transfer_mru(),
            bundle_versions: BUNDLE_VERSIONS,
        }
    }

    fn handle_datagrams(&mut self, now: Now, datagrams: &[Bytes]) {
        if self.phase == Phase::Down {
            return;
        }
        let now = now.monotonic;
        self.expire(now);
        for datagram in datagrams {
            if !self.wants_datagrams() {
                self.faults.count(Fault::Flooded);
                continue;
            }
            let mut packet = Packet::new(datagram.clone());
            while let Some(message) = packet.next(&mut self.faults) {
                match message {
                    Message::Bundle(octets) => {
                        self.incoming
                            .handle_bundle(octets, &mut self.faults, &mut self.events);
                    }
                    Message::Extensions(extensions) => self.handle_extensions(now, extensions),
                    Message::Padding => {}
                }
            }
        }
        self.faults.report(now, &mut self.events);
    }

    fn handle_command(&mut self, now: Now, command: LinkCommand) {
        match command {
            LinkCommand::Transmit { transfer, .. } if self.phase != Phase::Open => {
                self.events.push_back(DatagramEvent::Failed {
                    transfer,
                    refused: None,
                    acknowledged: 0,
                });
            }
            LinkCommand::Transmit { transfer, length } => {
                self.outgoing.transmit(transfer, length, &mut self.events);
            }
            LinkCommand::Supply { transfer, octets } => self.outgoing.supply(transfer, octets),
            LinkCommand::Cancel { transfer } => {
                self.outgoing.cancel(transfer, self.given, &mut self.events);
                self.outgoing.left(self.left, &mut self.events);
            }
            LinkCommand::Refuse { transfer, .. } => self.incoming.refuse(now.monotonic, transfer),
            LinkCommand::Terminate { reason } => self.terminate(now.monotonic, reason),
            LinkCommand::Disconnected => self.close(DownReason::Disconnected),
            // Nothing is acknowledged, and there is no TLS.
            LinkCommand::Acknowledge { .. }
            | LinkCommand::Unverified { .. }
            | LinkCommand::Secured { .. }
            | LinkCommand::Insecure => {}
        }
        self.settle();
    }

    fn handle_left(&mut self, _: Now, datagrams: u64) {
        self.left = self.left.saturating_add(datagrams);
        assert!(
            self.left <= self.given,
            "no more datagrams leave than were given"
        );
        self.outgoing.left(self.left, &mut self.events);
        self.settle();
    }

    fn handle_path(&mut self, now: Now, path: Path) {
        if self.phase == Phase::Down {
            return;
        }
        let now = now.monotonic;
        self.path = path;
        self.outgoing.limit(self.mtu());
        match (path.incoming, self.deaf_since) {
            (PathState::Closed, None) => {
                self.expire(now);
                self.deaf_since = Some(now);
            }
            (PathState::Open, Some(since)) => {
                self.incoming.shift(since, now);
                self.peer.shift(since, now);
                self.deaf_since = None;
            }
            (PathState::Closed, Some(_)) | (PathState::Open, None) => {}
        }
    }

    fn handle_timeout(&mut self, now: Now) {
        let now = now.monotonic;
        if self.phase == Phase::Down {
            return;
        }
        self.expire(now);
        self.faults.report(now, &mut self.events);
        self.keepalive.expire(now);
        self.announcement.expire(now);
        if self.filled.is_some_and(|filled| filled <= now) {
            self.filled = None;
        }
        if let Phase::Ending(reason, end) = self.phase
            && end <= now
        {
            self.close(DownReason::Terminated(reason));
        }
    }

    fn poll_datagrams(&mut self, now: Now, limit: Limit, out: &mut Batch) {
        let now = now.monotonic;
        if self.phase == Phase::Down || self.path.outgoing == PathState::Closed {
            return;
        }
        self.filled = None;
        let (mut datagrams, mut octets) = (limit.datagrams, limit.octets);
        while datagrams > 0
            && let Some((next, size)) = self.next_datagram()
            && (size <= octets || datagrams == limit.datagrams)
        {
            if let Err(filled) = self.bucket.take(now, size) {
                self.filled = filled;
                return;
            }
            self.give(now, &next, out);
            datagrams = datagrams.saturating_sub(1);
            octets = octets.saturating_sub(size);
        }
    }

    fn poll_event(&mut self) -> Option<DatagramEvent> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.phase == Phase::Down {
            return None;
        }
        let waits_for_peer = self.deaf_since.is_none();
        let sends = self.path.outgoing == PathState::Open;
        let end = match self.phase {
            Phase::Ending(_, end) => Some(end),
            Phase::Open | Phase::Down => None,
        };
        let of_peer = [self.incoming.deadline(), self.peer.deadline()];
        let of_sending = [
            self.filled,
            self.keepalive.deadline(),
            self.announcement.deadline(),
        ];
        let of_peer = of_peer.into_iter().filter(|_| waits_for_peer);
        let of_sending = of_sending.into_iter().filter(|_| sends);
        let others = [self.faults.deadline(), end];
        of_peer.chain(of_sending).chain(others).flatten().min()
    }

    fn queued_octets(&self) -> u64 {
        self.outgoing.queued_octets()
    }

    fn wants_datagrams(&self) -> bool {
        self.events.len() < MAX_EVENTS_WAITING
    }
}
