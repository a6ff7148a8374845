//! The engine: the machine that all other files of this room are parts of.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::{Instant, Now};

use super::config::{Config, Red};
use super::cookies::Cookies;
use super::departure::Cue;
use super::end_to_end::EndToEnd;
use super::fault::{Fault, Faults};
use super::local::Local;
use super::numbers::Numbers;
use super::operations::Operations;
use super::seal::Authentication;
use super::segment::{Party, Reason, Segment, SessionId};
use super::sessions_in::SessionsIn;
use super::sessions_out::SessionsOut;
use super::timer::{Change, Distance};
use super::wire::{Envelope, Packet, Received};
use crate::datagram::pacing::Bucket;
use crate::datagram::{
    Assurance, Batch, Capabilities, DatagramEvent, DatagramLink, Limit, Path, PathState,
};
use crate::stream::{DownReason, LinkCommand, TerminateReason, TransferId};

/// Events that may wait before datagrams are dropped. One more datagram may add as many as it has segments.
pub(super) const MAX_EVENTS_WAITING: usize = 16_384;

/// LTP carries octets: bundles of either version.
const BUNDLE_VERSIONS: &[u8] = &[6, 7];

/// An LTP engine's relation to one remote engine.
///
/// The driver tells it of datagrams and commands, takes events after each call until there are none, sends the datagrams
/// that `poll_datagrams` gives, and tells when they have left. See [`DatagramLink`].
#[derive(Debug)]
pub struct Engine {
    pub(super) local: Local,
    phase: Phase,
    path: Path,
    pub(super) incoming: SessionsIn,
    pub(super) outgoing: SessionsOut,
    pub(super) bucket: Bucket,
    /// When the bucket has tokens for the datagram that waits.
    filled: Option<Instant>,
    /// Datagrams given out.
    pub(super) given: u64,
    /// Datagrams given out that have left.
    left: u64,
    /// Link state cues (RFC 5326 5) of segments that are waited for: datagrams given that have not left.
    pub(super) cues: VecDeque<(u64, Cue)>,
    pub(super) scratch: Vec<u8>,
}

/// The knowledge of an engine of a session number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// The engine gave no session that number.
    Never,
    /// The engine may have given it: that session would be over.
    Perhaps,
    /// A session of that number is open.
    Open,
}

/// The state of an outgoing transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of its session.
    pub session: u64,
    /// Octets that were given out, each counted once.
    pub sent: u64,
    /// Octets that the peer claims to have.
    pub claimed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The sessions that have begun go on, until the instant at the latest, and no other begins in either direction.
    Ending(TerminateReason, Instant),
    /// All of them are cancelled, and the peer is told so, until the instant at the latest.
    Leaving(TerminateReason, Instant),
    Down,
}

impl Phase {
    /// Why the link ends, and when at the latest.
    const fn end(self) -> Option<(TerminateReason, Instant)> {
        match self {
            Self::Ending(reason, end) | Self::Leaving(reason, end) => Some((reason, end)),
            Self::Open | Self::Down => None,
        }
    }
}

impl Engine {
    /// An engine whose peer may be there. Values of `config` beyond their bounds are taken for these; of `seed`, which must
    /// be hard to guess (RFC 5326 9.3), session and serial numbers follow.
    #[must_use]
    pub fn new(config: Config, seed: u64, now: Now) -> Self {
        let config = config.bounded();
        let mut events = VecDeque::new();
        if let Some(peer) = config.peer.clone() {
            events.push_back(DatagramEvent::Up { peer });
        }
        Self {
            phase: Phase::Open,
            path: Path::default(),
            incoming: SessionsIn::new(config.remembered),
            outgoing: SessionsOut::new(),
            bucket: Bucket::new(config.rate, config.mtu, now.monotonic),
            filled: None,
            given: 0,
            left: 0,
            cues: VecDeque::new(),
            scratch: Vec::new(),
            local: Local {
                size: config.mtu,
                distance: Distance {
                    light_time: config.light_time,
                    margin: config.margin,
                    deaf_since: None,
                },
                numbers: Numbers::new(seed),
                operations: Operations::default(),
                faults: Faults::default(),
                events,
                envelope: (config.authentication.as_ref())
                    .map_or_else(Envelope::default, Authentication::envelope),
                cookies: Cookies::default(),
                next_transfer: 0,
                config,
            },
        }
    }

    /// Set the octets behind gaps for which there is room now ([`Config::reassembly_octets`]). Octets that are there stay.
    pub const fn set_room(&mut self, octets: u64) {
        self.local.config.reassembly_octets = octets;
    }

    /// Octets behind gaps that are there.
    #[must_use]
    pub const fn octets_beyond(&self) -> u64 {
        self.incoming.octets_beyond()
    }

    /// Whether a session of this number is one in which this engine sends. A driver asks it to find the engine of a report.
    #[must_use]
    pub fn knows_session(&self, number: u64) -> Known {
        if self.outgoing.sessions.contains_key(&number) {
            Known::Open
        } else if self.local.numbers.was_given(number) {
            Known::Perhaps
        } else {
            Known::Never
        }
    }

    /// The session of an incoming transfer, as the peer numbers it: while it is open, and as long as it is remembered.
    #[must_use]
    pub fn incoming_session(&self, transfer: TransferId) -> Option<u64> {
        self.incoming.session_of(transfer)
    }

    /// Incoming sessions that are open: blocks that come, and those whose sender has not acknowledged the last report.
    #[must_use]
    pub fn incoming_sessions(&self) -> usize {
        self.incoming.len()
    }

    /// Whether a block comes, or has come and its sender or the driver does not know: not when all sessions are cancelled.
    #[must_use]
    pub fn receives(&self) -> bool {
        let is_octets = |event: &DatagramEvent| matches!(event, DatagramEvent::Piece { .. });
        self.incoming.receives() || self.local.events.iter().any(is_octets)
    }

    /// Whether a report, an acknowledgment or a cancellation has yet to be given out.
    #[must_use]
    pub fn has_word_left(&self) -> bool {
        !self.local.operations.is_empty()
    }

    /// The state of an outgoing transfer; `None` once it is over.
    #[must_use]
    pub fn progress(&self, transfer: TransferId) -> Option<Progress> {
        let session = self.outgoing.session_of(transfer)?;
        Some(Progress {
            session: session.id.number,
            sent: session.sent,
            claimed: session.claimed_octets(),
        })
    }

    /// Whether a segment is authentic, where that is asked for. Else the extension is ignored (RFC 5327 2.1).
    fn accepts(&self, datagram: &Bytes, received: &Received) -> bool {
        let authentication = self.local.config.authentication.as_ref();
        authentication.is_none_or(|authentication| authentication.accepts(datagram, received))
    }

    /// A segment that is authentic: its cookies are looked at (RFC 5327 2.2).
    fn handle_received(&mut self, now: Instant, received: Received) {
        let (id, party) = (received.segment.session(), received.segment.receiver());
        let originator = match party {
            Party::Receiver => self.local.config.remote_engine,
            Party::Sender => self.local.config.engine,
        };
        if id.originator != originator {
            return self.local.faults.count(Fault::AnotherEngine);
        }
        let end_to_end = match self.end_to_end_of(&received) {
            Ok(end_to_end) => end_to_end,
            // RFC 5326 6: a segment that does not conform is discarded.
            Err(fault) => return self.local.faults.count(fault),
        };
        let (incoming, outgoing, local) = (&self.incoming, &self.outgoing, &mut self.local);
        let size = local.size;
        let Some(news) = local.cookies.look(now, id, &received.header, size) else {
            return local.faults.count(Fault::NoCookie);
        };
        let delay = local.cookie_delay();
        let is_open = |id| is_open(incoming, outgoing, id);
        let was_known = local.cookies.has(id) || is_open(id);
        local.cookies.learn(now, id, &news, delay, is_open);
        self.handle_segment(now, received.segment, end_to_end);
        // Of a session that was not there and does not begin with this segment, no cookie is remembered.
        if !was_known && !self::is_open(&self.incoming, &self.outgoing, id) {
            self.local.cookies.forget(id);
        }
        if party == Party::Receiver {
            self.begin_cookie(id);
        }
    }

    /// Begin a cookie of an open session, unless it has one.
    pub(super) fn begin_cookie(&mut self, id: SessionId) {
        let (incoming, outgoing, local) = (&self.incoming, &self.outgoing, &mut self.local);
        let count = usize::try_from(local.config.cookie_octets).unwrap_or(0);
        if count > 0 && is_open(incoming, outgoing, id) && !local.cookies.has(id) {
            let value = local.numbers.octets(count);
            let is_open = |id| is_open(incoming, outgoing, id);
            local.cookies.begin(id, value, is_open);
        }
    }

    /// The part of a block for all hops, which the segments at its start have.
    fn end_to_end_of(&self, received: &Received) -> Result<Option<EndToEnd>, Fault> {
        match &received.segment {
            Segment::Data(data) if self.local.config.end_to_end && data.head.offset == 0 => {
                EndToEnd::read(&received.header)
            }
            _ => Ok(None),
        }
    }

    /// Whether transfers may begin.
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// A transfer fails of which nothing was sent.
    pub(super) fn fail_at_once(&mut self, transfer: TransferId) {
        self.local.events.push_back(DatagramEvent::Failed {
            transfer,
            refused: None,
            acknowledged: 0,
        });
    }

    fn handle_segment(&mut self, now: Instant, segment: Segment, end_to_end: Option<EndToEnd>) {
        let (incoming, outgoing, local) = (&mut self.incoming, &mut self.outgoing, &mut self.local);
        match segment {
            // The link that follows may ask for more of its peer: a block that begins is left to it, as if its segments were lost.
            Segment::Data(data)
                if self.phase != Phase::Open && !incoming.is_open(data.head.session.number) => {}
            Segment::Data(data) => incoming.handle_data(now, local, &data, end_to_end),
            Segment::Report(id, report) => outgoing.handle_report(now, local, id, &report),
            Segment::ReportAck(id, serial) => incoming.handle_report_ack(now, local, id, serial),
            Segment::Cancel(id, Party::Sender, reason) => incoming.handle_cancel(local, id, reason),
            Segment::Cancel(id, Party::Receiver, reason) => {
                outgoing.handle_cancel(now, local, id, reason);
            }
            Segment::CancelAck(id, Party::Sender) => outgoing.handle_cancel_ack(now, local, id),
            Segment::CancelAck(id, Party::Receiver) => incoming.handle_cancel_ack(local, id),
        }
    }

    fn terminate(&mut self, now: Instant, reason: TerminateReason) {
        match self.phase {
            Phase::Open => {
                let end = now + self.local.config.termination_timeout;
                self.phase = Phase::Ending(reason, end);
                self.outgoing.end(now, &mut self.local);
                self.local.events.push_back(DatagramEvent::Ending);
            }
            // Asked a second time, it waits for nobody any more.
            Phase::Ending(reason, end) => {
                self.phase = Phase::Leaving(reason, end);
                self.outgoing.break_off(now, &mut self.local);
            }
            Phase::Leaving(..) | Phase::Down => {}
        }
    }

    /// Transfers end whose datagrams have left, and an ending link once nothing is left to wait for.
    pub(super) fn settle(&mut self) {
        self.outgoing.left(self.left, &mut self.local.events);
        let is_over = self.local.operations.is_empty()
            && match self.phase {
                Phase::Ending(..) => self.outgoing.is_idle(),
                Phase::Leaving(..) => self.left == self.given,
                Phase::Open | Phase::Down => false,
            };
        if is_over && let Some((reason, _)) = self.phase.end() {
            self.close(DownReason::Terminated(reason));
        }
    }

    fn close(&mut self, reason: DownReason) {
        if self.phase != Phase::Down {
            self.phase = Phase::Down;
            self.outgoing.close(&mut self.local.events);
            self.incoming.close(&mut self.local.events);
            self.local.operations.clear();
            self.local.cookies.clear();
            self.cues.clear();
            self.local.events.push_back(DatagramEvent::Down(reason));
        }
    }

    /// The way to the peer is another.
    fn follow(&mut self, now: Instant, change: Change) {
        self.outgoing.follow(now, &self.local, change);
        self.incoming.follow(now, &mut self.local, change);
    }

    /// Octets of the largest datagram.
    fn mtu(&self) -> u64 {
        let passes = self.path.mtu.unwrap_or(u64::MAX);
        let config = &self.local.config;
        config.mtu.min(passes).max(config.least_mtu())
    }
}

/// Whether either engine may still say something in a session.
fn is_open(incoming: &SessionsIn, outgoing: &SessionsOut, id: SessionId) -> bool {
    incoming.is_open(id.number) || outgoing.sessions.contains_key(&id.number)
}

impl DatagramLink for Engine {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            assurance: match self.local.config.red {
                Red::All => Assurance::Acknowledged,
                Red::None | Red::Octets(_) => Assurance::Sent,
            },
            transfer_mru: self.local.config.transfer_mru,
            bundle_versions: BUNDLE_VERSIONS,
        }
    }

    fn handle_datagrams(&mut self, now: Now, datagrams: &[Bytes]) {
        let now = now.monotonic;
        for datagram in datagrams {
            if self.phase == Phase::Down {
                return;
            }
            if !self.wants_datagrams() {
                self.local.faults.count(Fault::Flooded);
                continue;
            }
            // ION wakes itself by such datagrams, and at its end all that it ever talked to.
            if **datagram == [0] {
                continue;
            }
            // RFC 5326 5: a datagram must hold whole segments.
            let mut packet = Packet::new(datagram);
            while let Some(read) = packet.next() {
                match read {
                    Ok(received) if !self.accepts(datagram, &received) => {
                        self.local.faults.count(Fault::NotAuthentic);
                    }
                    Ok(received) => self.handle_received(now, received),
                    Err(fault) => self.local.faults.count(fault),
                }
            }
        }
        self.local.faults.report(now, &mut self.local.events);
        self.settle();
    }

    fn handle_command(&mut self, now: Now, command: LinkCommand) {
        let now = now.monotonic;
        if self.phase == Phase::Down {
            if let LinkCommand::Transmit { transfer, .. } = command {
                self.fail_at_once(transfer);
            }
            return;
        }
        let local = &mut self.local;
        match command {
            LinkCommand::Transmit { transfer, .. } if self.phase != Phase::Open => {
                self.fail_at_once(transfer);
            }
            LinkCommand::Transmit { transfer, length } => {
                self.outgoing.transmit(now, local, transfer, length);
                let session = self.outgoing.session_of(transfer);
                if let Some(id) = session.map(|session| session.id) {
                    self.begin_cookie(id);
                }
            }
            LinkCommand::Supply { transfer, octets } => {
                self.outgoing.supply(local, transfer, octets);
            }
            LinkCommand::Cancel { transfer } => {
                self.outgoing
                    .cancel(now, local, transfer, Reason::UserCancelled);
            }
            LinkCommand::Acknowledge { transfer, octets } => {
                self.incoming.acknowledge(now, local, transfer, octets);
            }
            LinkCommand::Refuse { transfer, reason } => {
                self.incoming.refuse(now, local, transfer, reason);
            }
            LinkCommand::Terminate { reason } => self.terminate(now, reason),
            LinkCommand::Disconnected => self.close(DownReason::Disconnected),
            // There is no TLS, and nothing is kept of a part of a block.
            LinkCommand::Unverified { .. }
            | LinkCommand::Secured { .. }
            | LinkCommand::Insecure => {}
        }
        self.settle();
    }

    fn handle_left(&mut self, now: Now, datagrams: u64) {
        self.left = self.left.saturating_add(datagrams);
        assert!(
            self.left <= self.given,
            "no more datagrams leave than were given"
        );
        while let Some((datagram, cue)) = self.cues.front().copied()
            && datagram <= self.left
        {
            self.cues.pop_front();
            self.handle_cue(now.monotonic, cue);
        }
        self.settle();
    }

    fn handle_path(&mut self, now: Now, path: Path) {
        if self.phase == Phase::Down {
            return;
        }
        let now = now.monotonic;
        self.path = path;
        self.local.size = self.mtu();
        self.outgoing.resize(&self.local);
        if let Some(light_time) = path.light_time
            && light_time != self.local.distance.light_time
        {
            self.local.be_distant(light_time);
            let margin = self.local.distance.margin;
            self.follow(now, Change::Moved(now, light_time, margin));
        }
        // RFC 5326 6.5, 6.6.
        let since = self.local.distance.deaf_since;
        let is_deaf = path.incoming == PathState::Closed;
        if is_deaf == since.is_some() || planted(Mutant::CountdownInSilence) {
            return;
        }
        self.local.distance.deaf_since = is_deaf.then_some(now);
        self.follow(
            now,
            match since {
                Some(since) => Change::Resumed(since, now),
                None => Change::Ceased(now),
            },
        );
    }

    fn handle_timeout(&mut self, now: Now) {
        let now = now.monotonic;
        if self.phase == Phase::Down {
            return;
        }
        self.outgoing.handle_timeout(now, &mut self.local);
        self.incoming.handle_timeout(now, &mut self.local);
        self.local.faults.report(now, &mut self.local.events);
        if self.filled.is_some_and(|filled| filled <= now) {
            self.filled = None;
        }
        self.settle();
        if let Some((reason, end)) = self.phase.end()
            && end <= now
        {
            self.close(DownReason::Terminated(reason));
        }
    }

    fn poll_datagrams(&mut self, now: Now, limit: Limit, out: &mut Batch) {
        let now = now.monotonic;
        // RFC 5326 6.4.
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
        self.local.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.phase == Phase::Down {
            return None;
        }
        let filled = (self.filled).filter(|_| self.path.outgoing == PathState::Open);
        let end = self.phase.end().map(|(_, end)| end);
        let alarms = [self.outgoing.alarms.first(), self.incoming.alarms.first()];
        let others = [filled, end, self.local.faults.deadline()];
        alarms.into_iter().chain(others).flatten().min()
    }

    fn queued_octets(&self) -> u64 {
        self.outgoing.queued_octets()
    }

    fn wants_datagrams(&self) -> bool {
        self.local.events.len() < MAX_EVENTS_WAITING
    }
}
