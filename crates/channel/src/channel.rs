//! The machine: packets in at one end, out at the other, later and not always.

use alloc::collections::VecDeque;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use dhow_bundle::Instant;

use crate::delay::Delay;
use crate::line::Line;
use crate::loss::Dice;
use crate::profile::Profile;
use crate::trace::RateTrace;

/// Packets and octets by their fate, counted since the channel was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that have arrived, second ones included.
    pub delivered: u64,
    /// Octets of the packets that have arrived.
    pub delivered_octets: u64,
    /// Packets that left, each once: that arrive, or are lost on the way.
    pub left: u64,
    /// Octets of the packets that left.
    pub left_octets: u64,
    /// Packets that found the queue full.
    pub overflowed: u64,
    /// Packets that were lost on the way.
    pub lost: u64,
    /// Packets that came while there was no contact, were waiting when it ended, or met an end that was down.
    pub cut: u64,
    /// Packets that left and arrive twice.
    pub duplicated: u64,
    /// Packets, first and second ones, that were held up so that later ones could overtake them.
    pub reordered: u64,
}

/// The state of the contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    /// Packets leave.
    Up,
    /// None does.
    Down,
}

/// A packet and when it happens to it: that it has left, or that it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When.
    pub at: Instant,
    /// The packet.
    pub packet: Bytes,
}

/// Packets under way, in the order in which they arrive: in memory, or wherever a driver has room for what a long delay holds.
pub trait UnderWay: fmt::Debug {
    /// A packet left behind all that are there, and arrives no sooner than they do.
    fn push(&mut self, packet: Timed);

    /// The arrival of the first packet.
    fn first(&self) -> Option<Instant>;

    /// The arrival of the last packet.
    fn last(&self) -> Option<Instant>;

    /// Takes the first packet.
    fn pop(&mut self) -> Option<Timed>;
}

impl UnderWay for VecDeque<Timed> {
    fn push(&mut self, packet: Timed) {
        self.push_back(packet);
    }

    fn first(&self) -> Option<Instant> {
        self.front().map(|first| first.at)
    }

    fn last(&self) -> Option<Instant> {
        self.back().map(|last| last.at)
    }

    fn pop(&mut self) -> Option<Timed> {
        self.pop_front()
    }
}

/// One direction of a link.
///
/// Waiting packets are bounded by the profile's queue; those under way by what the rate moves in the longest time that
/// a packet takes (delay, jitter and hold-up together), twice that with duplicates. All bounds are in octets, and an
/// empty packet counts as one octet. Packets arrive in the order in which they came, also with jitter, but for those
/// that [`Reordering`](crate::Reordering) holds up.
#[derive(Debug)]
pub struct Channel<Q = VecDeque<Timed>> {
    profile: Profile,
    /// The delay in time, from `begun` on; the profile's where there is none.
    course: Option<Delay>,
    begun: Instant,
    line: Line,
    dice: Dice,
    contact: Contact,
    /// Packets that have not wholly left, and when they will have.
    waiting: VecDeque<Timed>,
    waiting_octets: u64,
    /// Packets that left and will arrive, and when: in the order in which they left.
    flying: Q,
    /// Packets that are held up, which others overtake: in the same order among themselves.
    held_up: Q,
    counters: Counters,
}

impl Channel {
    /// A link with a contact and nothing on it; the same seed does the same to the same packets.
    #[must_use]
    pub const fn new(profile: Profile, seed: u64) -> Self {
        Self::holding(profile, seed, VecDeque::new(), VecDeque::new())
    }
}

impl<Q> Channel<Q> {
    /// The same, with places for packets under way: for those that keep their order, and for those that are held up.
    #[must_use]
    pub const fn holding(profile: Profile, seed: u64, flying: Q, held_up: Q) -> Self {
        Self {
            profile,
            course: None,
            begun: Instant::START,
            line: Line::new(profile.rate),
            dice: Dice::new(seed),
            contact: Contact::Up,
            waiting: VecDeque::new(),
            waiting_octets: 0,
            flying,
            held_up,
            counters: Counters {
                delivered: 0,
                delivered_octets: 0,
                left: 0,
                left_octets: 0,
                overflowed: 0,
                lost: 0,
                cut: 0,
                duplicated: 0,
                reordered: 0,
            },
        }
    }

    /// The places for packets under way.
    #[must_use]
    pub const fn under_way(&self) -> [&Q; 2] {
        [&self.flying, &self.held_up]
    }
}

impl<Q: UnderWay> Channel<Q> {
    /// The same, at the rate that a trace says instead of the profile's, which then only tells how much may wait. The trace begins at the
    /// start of time, or when it is [told to](Channel::handle_start).
    #[must_use]
    pub fn with_trace(mut self, trace: RateTrace) -> Self {
        self.line = Line::traced(trace);
        self
    }

    /// The same, with a delay that changes in time instead of the profile's. Its course begins at the start of time, or when it is
    /// [told to](Channel::handle_start). Packets keep their order: where it becomes shorter, none overtakes one that left before.
    #[must_use]
    pub fn with_delay(mut self, delay: Delay) -> Self {
        self.course = Some(delay);
        self
    }

    /// The delay of what leaves at an instant.
    fn delay(&self, left: Instant) -> Duration {
        let course = self.course.as_ref();
        course.map_or(self.profile.delay, |course| {
            course.at(left.since(self.begun))
        })
    }

    /// The trace of the rate and the course of the delay, if there are such, begin at `start`. Packets that have left by `now` arrive; waiting packets leave by the trace from its new beginning.
    pub fn handle_start(&mut self, now: Instant, start: Instant) {
        self.depart(now);
        self.begun = start;
        if self.line.begin(start) {
            for waiting in &mut self.waiting {
                waiting.at = self.line.transmit(now, length(&waiting.packet));
            }
        }
    }

    /// A packet wants to cross. A single packet is taken by an empty queue whatever its size.
    pub fn handle_packet(&mut self, now: Instant, packet: Bytes) {
        self.depart(now);
        if self.contact == Contact::Down {
            self.counters.cut += 1;
            return;
        }
        let octets = length(&packet);
        let full = self.waiting_octets.saturating_add(octets) > self.profile.queue_octets;
        if full && !self.waiting.is_empty() {
            self.counters.overflowed += 1;
            return;
        }
        self.waiting_octets = self.waiting_octets.saturating_add(octets);
        let at = self.line.transmit(now, octets);
        self.waiting.push_back(Timed { at, packet });
    }

    /// The contact begins or ends. At its end, packets that have left by `now` still arrive; packets that wait or are
    /// leaving are cut.
    pub fn handle_contact(&mut self, now: Instant, contact: Contact) {
        self.depart(now);
        if contact == Contact::Down {
            self.counters.cut += u64::try_from(self.waiting.len()).unwrap_or(0);
            self.waiting.clear();
            self.waiting_octets = 0;
            self.line.reset(now);
        }
        self.contact = contact;
    }

    /// The next packet that has arrived by now.
    pub fn poll_packet(&mut self, now: Instant) -> Option<Bytes> {
        self.depart(now);
        let (queue, at) = match (self.flying.first(), self.held_up.first()) {
            (Some(flying), Some(held_up)) if held_up < flying => (&mut self.held_up, held_up),
            (None, Some(held_up)) => (&mut self.held_up, held_up),
            (Some(flying), _) => (&mut self.flying, flying),
            (None, None) => return None,
        };
        if at > now {
            return None;
        }
        let Timed { packet, .. } = queue.pop()?;
        self.counters.delivered += 1;
        self.counters.delivered_octets += u64::try_from(packet.len()).unwrap_or(0);
        Some(packet)
    }

    /// The packet that was polled last met an end that was down: it has not arrived.
    pub fn handle_refusal(&mut self, packet: &Bytes) {
        let octets = u64::try_from(packet.len()).unwrap_or(0);
        self.counters.delivered = self.counters.delivered.saturating_sub(1);
        self.counters.delivered_octets = self.counters.delivered_octets.saturating_sub(octets);
        self.counters.cut += 1;
    }

    /// When `poll_packet` wants to be called next; a packet that is lost on the way calls for nothing in the end.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let arrivals = self.under_way().map(UnderWay::first);
        let waiting = self.waiting.front();
        let soonest = waiting.map(|waiting| waiting.at + self.delay(waiting.at));
        arrivals.into_iter().flatten().chain(soonest).min()
    }

    /// When the next packet that waits now will have left.
    pub fn poll_departure(&mut self, now: Instant) -> Option<Instant> {
        self.depart(now);
        self.waiting.front().map(|waiting| waiting.at)
    }

    /// Octets that wait for their turn, as of the last call.
    #[must_use]
    pub const fn waiting_octets(&self) -> u64 {
        self.waiting_octets
    }

    /// The state of the contact.
    #[must_use]
    pub const fn contact(&self) -> Contact {
        self.contact
    }

    /// The packets and octets counted so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes the packets that have left by `now` out of the queue: each is lost, or put on its way once or twice.
    fn depart(&mut self, now: Instant) {
        while let Some(Timed { at, packet }) = due(&mut self.waiting, now) {
            self.waiting_octets = self.waiting_octets.saturating_sub(length(&packet));
            self.counters.left += 1;
            self.counters.left_octets += u64::try_from(packet.len()).unwrap_or(0);
            if self.dice.loses(self.profile.loss) {
                self.counters.lost += 1;
                continue;
            }
            if self.dice.picks(self.profile.duplicates) {
                self.counters.duplicated += 1;
                self.fly(at, packet.clone());
            }
            self.fly(at, packet);
        }
    }

    /// A packet left, and will arrive behind those that left before it: behind all, or behind those that are held up.
    fn fly(&mut self, left: Instant, packet: Bytes) {
        let mut at = left + self.delay(left) + self.dice.jitter(self.profile.jitter);
        let mut queue = &mut self.flying;
        if self.dice.picks(self.profile.reordering.part) {
            self.counters.reordered += 1;
            at = at + self.profile.reordering.by;
            queue = &mut self.held_up;
        }
        let at = queue.last().unwrap_or(Instant::START).max(at);
        queue.push(Timed { at, packet });
    }
}

/// The first packet, when its time has come.
fn due(queue: &mut VecDeque<Timed>, now: Instant) -> Option<Timed> {
    if queue.front()?.at > now {
        return None;
    }
    queue.pop_front()
}

/// Octets that count for a packet: its length, but at least 1, so that every bound in octets bounds packets too.
fn length(packet: &Bytes) -> u64 {
    u64::try_from(packet.len()).unwrap_or(u64::MAX).max(1)
}
