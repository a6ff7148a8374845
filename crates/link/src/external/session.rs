//! One neighbour to which a program leads: the machine.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use core::time::Duration;

use bytes::{Bytes, BytesMut};
use dhow_bundle::{Instant, NodeId, Now, SmallBuffer};

use super::frame::FrameReader;
use super::wire::{DATA_OCTETS_MAX, Said, Told};
use crate::stream::{
    DownReason, Gather, LinkCommand, LinkEvent, RefuseReason, SessionParameters, StreamSession,
    TerminateReason, TransferId,
};
use crate::tcpcl::event::Events;
use crate::tcpcl::outgoing::{Cancelled, Outcome, Outgoing, Phase};
use crate::tcpcl::writer::{Encode as _, HEAD_ROOM, Writer};

/// Events that may wait before the session asks for no more octets.
const EVENTS_WAITING_MAX: usize = 16_384;

/// Bundles of the program that have come and are not durable, before it is not read.
const UNACKNOWLEDGED_MAX: usize = 1_024;

/// Octets of answers that wait for the program to read them, before it is not read.
const ANSWERS_OCTETS_MAX: usize = 64 << 10;

/// Bundles that the program keeps and nobody has taken from it; a further one has failed for want of room.
pub const KEPT_MAX: usize = 65_536;

/// The settings of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Largest bundle taken, octets.
    pub transfer_mru: u64,
    /// A program from which nothing comes, and which takes nothing, for so long while a bundle is under way is given up.
    pub answer_timeout: Duration,
}

/// The state of a session:
///
/// ```text
///            Terminate, bundle under way           nothing under way
///   Open ───────────────────────────────▶ Ending ──────────────────────▶ Closed
///    │ │   Terminate with nothing under way, end of the stream   │ │          ▲
///    │ └──────────────────────────────────────────────────────── │ ┴──────────┤
///    │ a message that is none, nothing moves for too long        │            │
///    └──────────────────────────────────────────────────▶ Parting┴────────────┘
///                                       the farewell has left, or nobody reads it
/// ```
///
/// In the middle of a message of data there is no room for a farewell: then the session is closed at once.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Open,
    Ending(TerminateReason),
    Parting(DownReason),
    Closed,
}

impl State {
    /// Whether the program is heard.
    const fn hears(&self) -> bool {
        matches!(self, Self::Open | Self::Ending(_))
    }
}

/// A bundle that is coming in.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    transfer: u64,
    octets: u64,
    received: u64,
    /// Whether the node does not want the bundle.
    is_refused: bool,
}

/// One neighbour. It is up from the beginning: the program has said so. See [`StreamSession`].
#[derive(Debug)]
pub struct Session {
    config: Config,
    state: State,
    reader: FrameReader,
    queue: Outgoing<()>,
    /// Transfers that the program keeps, until it says more.
    kept: BTreeSet<TransferId>,
    incoming: Option<Incoming>,
    /// Octets of bundles that have come and are not durable here.
    unacknowledged: BTreeMap<u64, u64>,
    /// Answers to the program, which go between its messages of data.
    answers: BytesMut,
    events: Events,
    heads: SmallBuffer,
    /// The time at which something last moved.
    moved: Instant,
}

impl Session {
    /// The session with a neighbour to which a program leads that takes bundles of so many octets at most; 0 for any. Octets that the
    /// program sent behind its greeting are in `reader`, and `welcome` is the first message to it.
    #[must_use]
    pub fn new(
        (peer, mtu): (NodeId, u64),
        reader: FrameReader,
        welcome: &[u8],
        config: Config,
        now: Now,
    ) -> Self {
        let mut session = Self {
            config,
            state: State::Open,
            reader,
            queue: Outgoing::new(DATA_OCTETS_MAX),
            kept: BTreeSet::new(),
            incoming: None,
            unacknowledged: BTreeMap::new(),
            answers: BytesMut::from(welcome),
            events: Events::default(),
            heads: SmallBuffer::new(HEAD_ROOM),
            moved: now.monotonic,
        };
        session.events.push(LinkEvent::Up(SessionParameters {
            peer,
            secured: false,
            proven: false,
            keepalive_s: 0,
            segment_mru: DATA_OCTETS_MAX,
            transfer_mru: if mtu == 0 { u64::MAX } else { mtu },
            keeps_reactive_fragments: false,
        }));
        session.read();
        session
    }

    /// False while `poll_octets` has nothing to give.
    #[must_use]
    pub fn may_have_octets(&self) -> bool {
        self.state != State::Closed && !(self.queue.is_idle() && self.answers.is_empty())
    }

    /// Octets of bundles of which nothing has been given out yet.
    #[must_use]
    pub const fn queued_octets(&self) -> u64 {
        self.queue.queued_octets()
    }

    fn is_idle(&self) -> bool {
        self.queue.is_idle() && self.incoming.is_none() && self.unacknowledged.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        let waits = !self.queue.is_idle() || self.incoming.is_some();
        let is_timed = match self.state {
            State::Open => waits,
            State::Ending(_) | State::Parting(_) => true,
            State::Closed => false,
        };
        is_timed.then(|| self.moved + self.config.answer_timeout)
    }

    fn read(&mut self) {
        while self.state.hears() {
            let said = match self.reader.take() {
                Ok(None) => return,
                Ok(Some(frame)) => Said::read(&frame).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(rule) = said.and_then(|said| self.hear(said)) {
                let bye = rule.clone();
                self.part(DownReason::PeerFault(rule), &bye);
            }
        }
    }

    fn hear(&mut self, said: Said) -> Result<(), String> {
        match said {
            Said::Begin { transfer, octets } => self.begin(transfer, octets),
            Said::Data(octets) => self.take(octets),
            Said::Sent { transfer } => self.answered(transfer, Outcome::Transmitted),
            Said::Failed { transfer, reason } => {
                let reason = RefuseReason::from_code(reason);
                self.answered(transfer, Outcome::Failed(Some(reason)))
            }
            Said::Kept { transfer } => self.answered(transfer, Outcome::Kept),
            Said::Abort => {
                let incoming = self.incoming.take();
                let incoming = incoming.ok_or("no bundle has begun that could be given up")?;
                self.unacknowledged.remove(&incoming.transfer);
                if !incoming.is_refused && incoming.received > 0 {
                    self.events.push(LinkEvent::Abandoned {
                        transfer: TransferId(incoming.transfer),
                        refused: None,
                    });
                }
                Ok(())
            }
        }
    }

    fn begin(&mut self, transfer: u64, octets: u64) -> Result<(), String> {
        if self.incoming.is_some() {
            return Err("a bundle begins within another".into());
        }
        if self.unacknowledged.contains_key(&transfer) {
            return Err("a number stands for two bundles".into());
        }
        if octets == 0 {
            return Err("a bundle has no octets".into());
        }
        let is_refused = octets > self.config.transfer_mru || self.state != State::Open;
        if is_refused {
            let reason = match self.state {
                State::Open => RefuseReason::NoResources,
                State::Ending(_) | State::Parting(_) | State::Closed => {
                    RefuseReason::SessionTerminating
                }
            };
            self.answer(Told::Refused {
                transfer,
                reason: reason.code(),
            });
        }
        self.incoming = Some(Incoming {
            transfer,
            octets,
            received: 0,
            is_refused,
        });
        Ok(())
    }

    fn take(&mut self, octets: Bytes) -> Result<(), String> {
        let mut incoming = self.incoming.ok_or("no bundle has begun")?;
        let start = incoming.received == 0;
        let count = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        if count == 0 {
            return Err("a message of data has none".into());
        }
        incoming.received = incoming.received.saturating_add(count);
        if incoming.received > incoming.octets {
            return Err("a bundle is longer than it was said to be".into());
        }
        let end = incoming.received == incoming.octets;
        self.incoming = (!end).then_some(incoming);
        if incoming.is_refused {
            return Ok(());
        }
        let transfer = incoming.transfer;
        self.unacknowledged.insert(transfer, incoming.octets);
        self.events.push(LinkEvent::Segment {
            transfer: TransferId(transfer),
            octets,
            start,
            end,
            length: start.then_some(incoming.octets),
        });
        Ok(())
    }

    /// The program says that the neighbour has a bundle, has not, and why, or that it keeps the bundle itself.
    fn answered(&mut self, transfer: u64, outcome: Outcome) -> Result<(), String> {
        let transfer = TransferId(transfer);
        if self.kept.contains(&transfer) {
            self.answered_kept(transfer, outcome);
            return Ok(());
        }
        let Some(sequence) = self.queue.sequence(transfer) else {
            return Ok(());
        };
        let Some((_, sent, out)) = self.queue.under_way(sequence) else {
            return match self.queue.is_queued(sequence) {
                true => Err("an answer comes before its bundle".into()),
                false => Ok(()),
            };
        };
        let has_left = out.phase == Phase::Sent && sent == out.length;
        match outcome {
            Outcome::Failed(reason) => {
                let reason = reason.unwrap_or(RefuseReason::Unknown);
                self.queue.refuse(sequence, reason, &mut self.events);
            }
            Outcome::Kept if has_left && self.kept.len() >= KEPT_MAX => {
                let refused = Outcome::Failed(Some(RefuseReason::NoResources));
                self.queue.finish(sequence, refused, &mut self.events);
            }
            outcome if has_left => {
                if matches!(outcome, Outcome::Kept) {
                    self.kept.insert(transfer);
                }
                self.queue.finish(sequence, outcome, &mut self.events);
            }
            _ if out.phase.is_given_up() => {}
            _ => return Err("a bundle is there before it was sent".into()),
        }
        Ok(())
    }

    /// The program says more of a bundle that it keeps.
    fn answered_kept(&mut self, transfer: TransferId, outcome: Outcome) {
        let event = match outcome {
            Outcome::Kept => return,
            // RFC 9174 table 6: the neighbour has the whole bundle.
            Outcome::Failed(Some(reason)) if reason != RefuseReason::Completed => {
                LinkEvent::Failed {
                    transfer,
                    refused: Some(reason),
                    acknowledged: 0,
                }
            }
            _ => LinkEvent::Transmitted { transfer },
        };
        self.kept.remove(&transfer);
        self.events.push(event);
    }

    fn answer(&mut self, told: Told<'_>) {
        told.encode(&mut self.answers);
    }

    fn refuse(&mut self, TransferId(transfer): TransferId, reason: RefuseReason) {
        if let Some(incoming) = &mut self.incoming
            && incoming.transfer == transfer
        {
            incoming.is_refused = true;
        }
        if self.unacknowledged.remove(&transfer).is_some() {
            self.answer(Told::Refused {
                transfer,
                reason: reason.standard().code(),
            });
        }
    }

    fn acknowledge(&mut self, TransferId(transfer): TransferId, octets: u64) {
        if self.unacknowledged.get(&transfer) == Some(&octets) {
            self.unacknowledged.remove(&transfer);
            self.answer(Told::Acknowledged { transfer });
        }
    }

    fn terminate(&mut self, now: Now, reason: TerminateReason) {
        if self.state == State::Open {
            self.state = State::Ending(reason);
            self.moved = now.monotonic;
            self.events.push(LinkEvent::Ending);
            self.queue.end(&mut self.events);
            self.settle();
        }
    }

    /// An ending session is over once nothing is under way, one that parts once the program has been told.
    fn settle(&mut self) {
        match &self.state {
            State::Ending(reason) if self.is_idle() => {
                let reason = DownReason::Terminated(*reason);
                self.close(reason);
            }
            State::Parting(reason) if self.answers.is_empty() => {
                let reason = reason.clone();
                self.close(reason);
            }
            _ => {}
        }
    }

    /// Nothing is heard any more, and the program is told why.
    fn part(&mut self, reason: DownReason, bye: &str) {
        if !self.state.hears() || self.queue.is_inside_segment() {
            return self.close(reason);
        }
        if self.state == State::Open {
            self.events.push(LinkEvent::Ending);
        }
        self.give_up();
        self.answer(Told::Bye { reason: bye });
        self.state = State::Parting(reason);
    }

    fn close(&mut self, reason: DownReason) {
        if self.state == State::Closed {
            return;
        }
        self.give_up();
        self.state = State::Closed;
        self.events.push(LinkEvent::Down(reason));
    }

    /// Nothing is under way any more.
    fn give_up(&mut self) {
        self.unacknowledged.clear();
        self.queue.close(&mut self.events);
        for transfer in core::mem::take(&mut self.kept) {
            self.events.push(LinkEvent::Failed {
                transfer,
                refused: None,
                acknowledged: 0,
            });
        }
        if let Some(incoming) = self
            .incoming
            .take()
            .filter(|it| !it.is_refused && it.received > 0)
        {
            self.events.push(LinkEvent::Abandoned {
                transfer: TransferId(incoming.transfer),
                refused: None,
            });
        }
    }

    fn write_rest(&mut self, writer: &mut Writer<'_>) {
        if let Some(sequence) = self.queue.write_segment_rest(writer, &mut self.events)
            && let Some((_, _, out)) = self.queue.under_way(sequence)
            && out.phase.is_given_up()
        {
            // Nobody is to answer for a bundle that was given up.
            self.queue
                .finish(sequence, Outcome::Failed(None), &mut self.events);
        }
    }
}

impl StreamSession for Session {
    fn handle_octets(&mut self, now: Now, octets: Bytes) {
        if self.state.hears() {
            self.moved = now.monotonic;
            self.reader.push(octets);
            self.read();
            self.settle();
        }
    }

    fn handle_command(&mut self, now: Now, command: LinkCommand) {
        match command {
            LinkCommand::Transmit { transfer, length } if self.state == State::Open => {
                if self.queue.is_idle() {
                    self.moved = now.monotonic;
                }
                self.queue.push(transfer, length, ());
            }
            LinkCommand::Transmit { transfer, .. } => self.events.push(LinkEvent::Failed {
                transfer,
                refused: None,
                acknowledged: 0,
            }),
            LinkCommand::Supply { transfer, octets } => self.queue.supply(transfer, octets),
            LinkCommand::Cancel { transfer } => {
                if self.kept.remove(&transfer) {
                    self.events.push(LinkEvent::Failed {
                        transfer,
                        refused: None,
                        acknowledged: 0,
                    });
                } else if self.queue.cancel(transfer, true, &mut self.events) == Cancelled::NeedsEnd
                {
                    self.close(DownReason::Terminated(TerminateReason::Unknown));
                }
            }
            LinkCommand::Acknowledge { transfer, octets } => self.acknowledge(transfer, octets),
            LinkCommand::Refuse { transfer, reason } => self.refuse(transfer, reason),
            LinkCommand::Terminate { reason } => self.terminate(now, reason),
            LinkCommand::Disconnected => self.close(DownReason::Disconnected),
            LinkCommand::Unverified { .. }
            | LinkCommand::Secured { .. }
            | LinkCommand::Insecure => {}
        }
        self.settle();
    }

    fn handle_timeout(&mut self, now: Now) {
        if self.deadline().is_some_and(|at| at <= now.monotonic) {
            match &self.state {
                // Nobody reads the farewell.
                State::Parting(reason) => {
                    let reason = reason.clone();
                    self.close(reason);
                }
                // Octets of the program may lie in the socket because no more are wanted.
                _ if self.wants_octets() => {
                    self.part(DownReason::TransferTimeout, "nothing moves for too long");
                }
                _ => {}
            }
            self.moved = now.monotonic;
        }
    }

    fn poll_octets(&mut self, now: Now, limit: usize, out: &mut Gather) {
        if self.state == State::Closed {
            return;
        }
        let mut heads = core::mem::replace(&mut self.heads, SmallBuffer::new(0));
        let mut writer = Writer::new(&mut heads, out, limit);
        self.write_rest(&mut writer);
        if !self.queue.is_inside_segment() {
            writer.take(&mut self.answers);
        }
        while writer.room() > 0
            && !self.queue.is_inside_segment()
            && let Some((segment, ())) = self.queue.begin_segment(now.monotonic, |()| false)
        {
            let transfer = segment.transfer.0;
            if segment.is_first {
                let octets = segment.total.unwrap_or(segment.octets);
                writer.message(&Told::Begin { transfer, octets });
            }
            match segment.octets {
                0 => writer.message(&Told::Abort { transfer }),
                octets => writer.message(&Told::Data { octets }),
            }
            self.write_rest(&mut writer);
        }
        if !writer.is_untouched() {
            self.moved = now.monotonic;
        }
        writer.flush();
        self.heads = heads;
        self.settle();
    }

    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.take()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline()
    }

    fn wants_octets(&self) -> bool {
        self.events.len() < EVENTS_WAITING_MAX
            && self.unacknowledged.len() < UNACKNOWLEDGED_MAX
            && self.answers.len() < ANSWERS_OCTETS_MAX
    }
}
