//! Connections: ordered octets both ways over a link with a rate and a delay.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::Instant;
use dhow_channel::{Delay, Dice, Line, Loss};
use dhow_node::config::LinkId;
use dhow_node::driver::StreamId;
use dhow_scenario::scenario::{AtEnd, Channel, Fidelity, Link, Protocol, Sharing, Transport};

use crate::capture::Conversation;
use crate::congestion::{Congestion, Control, SEGMENT_OCTETS};
use crate::datagrams::Air;
use crate::entropy::Entropy;
use crate::oracle::{Onlooker, Referee};
use crate::portion::Portion;
use crate::queue::{ConnectionKey, Life, MachineIndex, Side};
use crate::transmitter::{Leaving, Transmitter};

/// Octets that a sender may have on their way or unread at the other side, beside what the link holds.
const WINDOW_OCTETS: u64 = 256 * 1024;

/// Octets written at once, at most and at least; between them what the link carries in a chunk's time.
const CHUNK_OCTETS: (u64, u64) = (4 * 1024, 256 * 1024);

/// The time for which a link carries octets that are written at once.
const fn chunk_time(fidelity: Fidelity) -> Duration {
    match fidelity {
        Fidelity::Octet => Duration::from_millis(20),
        Fidelity::Bundle => Duration::from_millis(200),
    }
}

/// Octets of a packet, as losses count without a congestion control.
const PACKET_OCTETS: u64 = 1400;

/// Octets of the headers around a full segment of TCP: IPv4, and TCP with timestamps. A stream is counted as if all of its segments
/// were full, as those of a link that is full are.
const HEADERS_OCTETS: u64 = 52;

/// The queue of a link at least, as of an emulated one.
const QUEUE_MIN_OCTETS: u64 = 256 * 1024;

/// The time, beside a round trip, after which a sender without a congestion control sends lost octets again, at least.
const RETRANSMISSION_MIN: Duration = Duration::from_millis(200);

/// The number of times that the same octets are lost, at most.
const LOSSES_MAX: u32 = 16;

/// Octets that a sender may write into a connection over which nothing goes.
const HELD_OCTETS: u64 = 64 * 1024;

/// The state of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndState {
    /// The dialling side has no answer, or the accepting side not heard that it has one.
    Unheard,
    /// The end is at work.
    Open,
    /// The node has closed it; what it still gives is written.
    Closing,
    /// There is none any more.
    Gone,
}

/// One end of a connection.
#[derive(Debug)]
pub struct End {
    /// The machine that has this end.
    pub machine: MachineIndex,
    /// The life of the machine to which this end belongs.
    pub life: Life,
    /// The stream as the machine's node calls it.
    pub stream: StreamId,
    /// Its state.
    pub state: EndState,
    /// The octets that it writes.
    pub way: Direction,
}

/// Octets that will arrive.
#[derive(Debug)]
pub struct Flight {
    /// When they leave for the first time.
    pub(crate) leaving: Leaving,
    /// When the last of them has left for the last time.
    pub sent: Instant,
    /// When they are there.
    pub arrives: Instant,
    /// The octets.
    pub portion: Portion,
}

impl Flight {
    /// Takes what has left by now, which arrives as long after it as the rest would have.
    fn split(&mut self, now: Instant) -> Option<Self> {
        if self.sent > self.leaving.ends {
            // The octets behind a packet that was lost are of no use ahead of it.
            return None;
        }
        let left = self.leaving.left_of(self.portion.octets(), now);
        let portion = (left > 0).then(|| self.portion.split_to(left))?;
        Some(Self {
            leaving: self.leaving,
            sent: now,
            arrives: now + self.arrives.since(self.sent),
            portion,
        })
    }
}

/// The octets that one end writes and the other reads.
#[derive(Debug, Default)]
pub struct Direction {
    /// On their way, in order.
    pub flying: VecDeque<Flight>,
    /// Arrived and not read.
    pub unread: VecDeque<Bytes>,
    /// Written while nothing goes over the link.
    pub held: VecDeque<Portion>,
    /// Octets in all three.
    pub under_way: u64,
    /// The time until which the line is busy with the octets that were written last.
    pub busy: Instant,
    /// Whether there is, or may be, more to write.
    pub wants: bool,
    /// Whether a `Writable` is on its way.
    pub unsynced: bool,
    /// Whether the end is behind all that was written.
    pub finished: bool,
    /// Whether its node closed it in order.
    pub closed: bool,
    /// Whether the reader is told of the end as soon as it has read all.
    pub ending: bool,
    /// Whether octets came to an end that is gone and were not answered.
    pub unanswered: bool,
    /// Whether a `Doubted` is on its way.
    pub doubted: bool,
    /// When its node last had nothing more to write.
    pub quiet: Instant,
    /// The window of octets on their way, where the scenario names a congestion control.
    pub(crate) congestion: Option<Box<Congestion>>,
}

/// The fate of octets that are put on a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carriage {
    /// The time until which they keep the line busy.
    pub(crate) free: Instant,
    /// When they leave for the first time.
    pub(crate) leaving: Leaving,
    /// When the last of them has left for the last time.
    pub(crate) sent: Instant,
    /// The time by which they arrive later than after the delay.
    pub(crate) late: Duration,
    /// Whether some of them leave more than once.
    pub(crate) is_lost: bool,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// The connection's key.
    pub key: ConnectionKey,
    /// Position of its link.
    pub road: u32,
    /// Whether the link failed under it: nothing gets through any more.
    pub broken: bool,
    /// The end that dialled.
    pub dialling: End,
    /// The end that accepted.
    pub accepting: End,
    /// The referee of the session, where it is of TCPCL and all octets of it are there.
    pub referee: Option<Box<Referee>>,
    /// The onlooker of a connection that carries bundles in one direction.
    pub onlooker: Option<Box<Onlooker>>,
    /// Whether the side that listens where the link is of TCPCL has dialled: of a connection in one direction either may.
    pub is_back: bool,
    /// The connection as packets of a capture.
    pub conversation: Conversation,
}

impl Connection {
    /// One end.
    #[must_use]
    pub const fn end(&self, side: Side) -> &End {
        match side {
            Side::Dialling => &self.dialling,
            Side::Accepting => &self.accepting,
        }
    }

    /// One end, to be changed.
    pub const fn end_mut(&mut self, side: Side) -> &mut End {
        match side {
            Side::Dialling => &mut self.dialling,
            Side::Accepting => &mut self.accepting,
        }
    }

    /// The octets that arrive at one end.
    pub const fn towards_mut(&mut self, side: Side) -> &mut Direction {
        &mut self.end_mut(side.other()).way
    }

    /// The side of the link at which one end is.
    #[must_use]
    pub const fn side_of_link(&self, side: Side) -> Side {
        match self.is_back {
            true => side.other(),
            false => side,
        }
    }

    /// Whether both ends are gone.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.dialling.state == EndState::Gone && self.accepting.state == EndState::Gone
    }
}

impl Direction {
    /// When the last of what has been written has left for the last time.
    #[must_use]
    pub fn last_departure(&self, now: Instant) -> Instant {
        self.flying.back().map_or(now, |flight| flight.sent)
    }

    /// When the last of what has been written arrives, and now where nothing is on its way.
    #[must_use]
    pub fn last_arrival(&self, now: Instant) -> Instant {
        self.flying
            .back()
            .map_or(now, |flight| flight.arrives)
            .max(now)
    }

    /// Drops what has not left by now.
    pub fn cut(&mut self, now: Instant) {
        self.flying.retain(|flight| flight.sent <= now);
        self.held.clear();
        self.count();
    }

    /// Keeps for later what has not left by now. Of what is leaving, and not for a second time, the part that has left arrives: when it
    /// does comes back, of octets that were to arrive together with others.
    pub fn hold(&mut self, now: Instant) -> Option<Instant> {
        let first = self.flying.iter().position(|flight| flight.sent > now)?;
        let mut later = self.flying.split_off(first);
        let part = later.front_mut().and_then(|flight| flight.split(now));
        let arrives = part.as_ref().map(|part| self.last_arrival(part.arrives));
        self.flying.extend(
            part.zip(arrives)
                .map(|(part, arrives)| Flight { arrives, ..part }),
        );
        let held = std::mem::take(&mut self.held);
        let later = later.into_iter().map(|flight| flight.portion);
        self.held = later.chain(held).collect();
        arrives
    }

    /// Counts the octets under way anew.
    pub fn count(&mut self) {
        let flying = self.flying.iter().map(|flight| &flight.portion);
        let unread = self.unread.iter().map(length);
        let portion = flying.chain(&self.held).map(Portion::octets);
        self.under_way = unread.chain(portion).sum();
    }
}

/// A link.
#[derive(Debug)]
pub struct Wire {
    /// The machine that dials and the one that listens.
    pub ends: (MachineIndex, MachineIndex),
    /// The link as the node of each end calls it, where it has it in its configuration: as who dials does, and where either end has to know the
    /// other, both.
    pub links: [Option<LinkId>; 2],
    /// The convergence layer of its connections.
    pub protocol: Protocol,
    /// The one version of the Bundle Protocol that is sent over it, where it is not either.
    pub speaks: Option<dhow_bundle::Version>,
    /// The sockets at its ends if the link is over UDP or LTP; it has no connections then.
    pub air: Option<Box<Air>>,
    /// The radios at its ends, where they are busy with one thing at a time.
    pub(crate) channel: Option<Channel>,
    /// The time for which octets are on their way.
    delay: Delay,
    /// The time until an answer comes, at most.
    pub round_trip: Duration,
    /// The end of a contact, as its connections see it.
    pub at_end: AtEnd,
    /// The number of contacts at present; always one where the link is always there.
    pub contacts: u32,
    /// Its ends whose batteries are empty, and contacts that there would be but for them.
    pub(crate) silent_ends: u8,
    pub(crate) hidden_contacts: u32,
    /// Connections over it.
    pub connections: Vec<ConnectionKey>,
    /// When a connection ended last, at the dialling and at the accepting side.
    pub parted: (Instant, Instant),
    /// The time of all contacts before the present one, and the beginning of that.
    pub open: (Duration, Instant),
    loss: Loss,
    jitter: Duration,
    dice: (Dice, Dice),
    lines: (Transmitter, Transmitter),
    window_octets: u64,
    chunk_octets: u64,
    /// The congestion control of its connections.
    control: Option<Control>,
    /// Octets that are on their way in a round trip when it is full.
    pipe_octets: u64,
    /// Octets a second.
    pub rate: u64,
}

impl Wire {
    /// A link without connections; what happens on it by chance is drawn.
    #[must_use]
    pub fn new(
        ends: (MachineIndex, MachineIndex),
        link: &Link,
        fidelity: Fidelity,
        control: Option<Control>,
        mut entropy: Entropy,
    ) -> Self {
        let mut dice = || Dice::new(entropy.draw());
        let line = || {
            Transmitter::new(match &link.rate_trace {
                Some(trace) => Line::traced(trace.clone()),
                None => Line::new(link.rate),
            })
        };
        let held = link.rate.octets_in(link.delay.longest() * 2);
        let chunk = link.rate.octets_in(chunk_time(fidelity));
        let (dice, lines) = ((dice(), dice()), (line(), line()));
        let has_datagrams = link.protocol.transport() == Transport::Udp;
        let air = has_datagrams.then(|| Box::new(Air::new(link, &mut entropy)));
        Self {
            ends,
            links: [None, None],
            protocol: link.protocol,
            speaks: link.speaks,
            air,
            channel: link.channel,
            delay: link.delay.clone(),
            round_trip: link.round_trip(),
            at_end: link.at_end,
            contacts: 0,
            silent_ends: 0,
            hidden_contacts: 0,
            connections: Vec::new(),
            parted: (Instant::START, Instant::START),
            open: (Duration::ZERO, Instant::START),
            loss: link.loss,
            jitter: link.jitter,
            dice,
            lines,
            window_octets: WINDOW_OCTETS.saturating_add(match control {
                // A window that is to be the congestion control's does not end at the reader's.
                Some(_) => held.saturating_mul(4),
                None => held,
            }),
            chunk_octets: chunk.clamp(CHUNK_OCTETS.0, CHUNK_OCTETS.1),
            control,
            pipe_octets: held,
            rate: link.rate.octets_per_s(),
        }
    }

    /// One direction of a new connection.
    #[must_use]
    pub fn way(&self, now: Instant) -> Direction {
        let queue = self.pipe_octets.max(QUEUE_MIN_OCTETS);
        let congestion = self
            .control
            .map(|control| Congestion::new(control, now, self.pipe_octets, queue));
        Direction {
            congestion: congestion.map(Box::new),
            ..Direction::default()
        }
    }

    /// The machines that have the link in their configuration, each with what its node calls it.
    pub fn linked(&self) -> impl Iterator<Item = (MachineIndex, LinkId)> + use<> {
        let ends = [self.ends.0, self.ends.1].into_iter().zip(self.links);
        ends.filter_map(|(end, link)| Some((end, link?)))
    }

    /// The time from an instant of leaving to the arrival.
    #[must_use]
    pub fn delay(&self, at: Instant) -> Duration {
        self.delay.at(at.since(Instant::START))
    }

    /// The delay as it changes in time.
    #[must_use]
    pub const fn course(&self) -> &Delay {
        &self.delay
    }

    /// Whether octets leave.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.contacts > 0
    }

    /// The machine at one side.
    #[must_use]
    pub const fn machine(&self, side: Side) -> MachineIndex {
        match side {
            Side::Dialling => self.ends.0,
            Side::Accepting => self.ends.1,
        }
    }

    /// The number of octets that one side may write now.
    #[must_use]
    pub fn room(&self, way: &mut Direction, now: Instant) -> u64 {
        let window = if self.is_open() {
            if way.busy > now {
                return 0;
            }
            self.window_octets
        } else {
            HELD_OCTETS
        };
        let room = window.saturating_sub(way.under_way).min(self.chunk_octets);
        match &mut way.congestion {
            Some(congestion) if self.is_open() => room.min(congestion.room(now, self.chunk_octets)),
            _ => room,
        }
    }

    /// When one side that may not write now may again by what leaves the line or is answered.
    #[must_use]
    pub fn again(&self, way: &Direction, now: Instant) -> Option<Instant> {
        if !self.is_open() {
            return None;
        }
        let answer = || way.congestion.as_ref()?.poll_timeout();
        (way.busy > now).then_some(way.busy).or_else(answer)
    }

    /// The octets that one side may write at once, at most.
    #[must_use]
    pub const fn turn_octets(&self) -> u64 {
        self.chunk_octets
    }

    /// Whether radios at its ends are about one bundle until that has left.
    #[must_use]
    pub fn goes_by_bundle(&self) -> bool {
        (self.channel).is_some_and(|channel| channel.sharing == Sharing::Ends)
    }

    /// Whether packets are lost on it.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        self.loss != Loss::None
    }

    /// The fate of octets that one side writes now. A packet that is lost leaves once more when a round trip is over and its sender knows.
    pub(crate) fn carry(
        &mut self,
        side: Side,
        now: Instant,
        octets: u64,
        congestion: Option<&Congestion>,
    ) -> Carriage {
        let (packet, timer) = match congestion {
            Some(congestion) => (SEGMENT_OCTETS, congestion.timer(octets)),
            None => (PACKET_OCTETS, RETRANSMISSION_MIN),
        };
        let leaving = self.transmit(side, now, octets);
        let (mut free, mut sent) = (leaving.ends, leaving.ends);
        let (loss, jitter) = (self.loss, self.jitter);
        let wait = self.delay(now) * 2 + timer;
        let mut packets = octets.div_ceil(packet);
        let mut is_lost = false;
        for _ in 0..LOSSES_MAX {
            let dice = self.dice(side);
            packets = (0..packets).map(|_| u64::from(dice.loses(loss))).sum();
            if packets == 0 {
                break;
            }
            is_lost = true;
            dice.mend();
            free = self.transmit(side, now, packets * packet).ends;
            sent = free.max(sent + wait);
        }
        Carriage {
            free,
            leaving,
            sent,
            late: self.dice(side).jitter(jitter),
            is_lost,
        }
    }

    const fn dice(&mut self, side: Side) -> &mut Dice {
        match side {
            Side::Dialling => &mut self.dice.0,
            Side::Accepting => &mut self.dice.1,
        }
    }

    /// When octets leave that one side writes now, with the headers of their packets.
    fn transmit(&mut self, side: Side, now: Instant, octets: u64) -> Leaving {
        let line = match side {
            Side::Dialling => &mut self.lines.0,
            Side::Accepting => &mut self.lines.1,
        };
        let octets = octets + (octets * HEADERS_OCTETS).div_ceil(SEGMENT_OCTETS);
        line.transmit(now, octets)
    }

    /// Octets that have left by now at the dialling and at the accepting side, with the headers of their packets.
    #[must_use]
    pub fn carried(&self, now: Instant) -> (u64, u64) {
        if let Some(air) = &self.air {
            let left = |side| air.socket(side).left_octets();
            return (left(Side::Dialling), left(Side::Accepting));
        }
        (self.lines.0.carried(now), self.lines.1.carried(now))
    }

    /// Octets that are leaving are cut off.
    pub fn cut(&mut self, now: Instant) {
        self.lines.0.cut(now);
        self.lines.1.cut(now);
    }
}

/// Octets in a piece.
pub fn length(octets: &Bytes) -> u64 {
    u64::try_from(octets.len()).unwrap_or(u64::MAX)
}
