//! The octets that may be under way to a side that answers: a neighbour that acknowledges transfers, the store that makes octets durable.
//!
//! All that is under way stands before a bundle that comes now. So it is no more than keeps the other side busy: as much as that takes in
//! [`DELAYS`] times its answer's delay and [`SLACK`]. Its rate is the largest of the last rounds. A round lasts until something is answered that was
//! given after the round's beginning: a store that answers late, and all at once, is no faster for that. Rounds in which less was under way
//! than might be say nothing about the rate. The delay is that of an answer with nothing standing before it, which is not seen while the
//! window is full: so every [`DELAY_LIFE`] the window shrinks, for two rounds, to less than keeps the other side busy.
//!
//! Before the first answer nothing is known. The window begins with [`INITIAL_OCTETS`] and doubles every
//! [`DOUBLING`] until somebody answers, so that a long way costs no more than its delay.

use core::time::Duration;

use dhow_bundle::Instant;
use dhow_bundle::mutant::{Mutant, planted};
use dhow_bundle::storage::BundleKey;

use crate::adjacencies::Adjacencies;
use crate::adjacencies::session_id::SessionId;
use crate::held::Held;

/// Delays of an answer in which the octets under way are taken, beyond [`SLACK`]: a store gathers while it flushes, and the longer a flush
/// takes beside what it writes, the more has to be gathered for it.
const DELAYS: u32 = 6;

/// Time that the octets under way take beyond that.
const SLACK: Duration = Duration::from_millis(10);

/// Octets that may be under way when nothing is known.
const INITIAL_OCTETS: u64 = 1 << 20;

/// Octets that may be under way, at least.
const FLOOR_OCTETS: u64 = 128 << 10;

/// Time for which an answer is waited for until as much again may be under way.
const DOUBLING: Duration = Duration::from_millis(50);

/// Doublings without an answer, at most: 1 TiB.
const DOUBLINGS_MOST: u32 = 20;

/// Time for which the shortest delay of an answer is believed, at least.
const DELAY_LIFE: Duration = Duration::from_secs(10);

/// Delays for which the shortest is believed, at least: to look for it costs about one.
const DELAY_LIFE_DELAYS: u32 = 50;

/// Rounds of which the fastest counts.
const ROUNDS: usize = 4;

/// The octets under way, and the number that may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// Octets that were given to the other side, and of them those that it answered.
    sent: u64,
    answered: u64,
    round: Option<Round>,
    /// Octets a second of the last rounds, the oldest overwritten first.
    rates: [u64; ROUNDS],
    newest: usize,
    /// The delay of an answer with nothing before it, and when it was seen.
    delay: Option<(Duration, Instant)>,
    probe: Probe,
    /// Octets that may be under way, once something was answered.
    octets: Option<u64>,
}

/// The time until something that is given after its beginning is answered.
#[derive(Clone, Copy, Debug)]
struct Round {
    begun: Instant,
    /// Octets that were answered then.
    answered: u64,
    /// The number of octets whose answer ends the round; `None` before the first answer.
    until: Option<u64>,
    /// Whether as much was under way as may be.
    is_full: bool,
}

/// Whether the shortest delay is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Probe {
    #[default]
    No,
    /// Fewer octets are under way.
    Draining,
    /// The shortest delay of what was sent since then counts.
    Looking(Instant, Option<Duration>),
}

impl Window {
    /// True while more may be given to the other side, which has to answer `under_way` octets.
    pub(crate) fn has_room(&self, now: Instant, under_way: u64) -> bool {
        under_way < self.octets(now)
    }

    /// Whether the other side's rate is known: a round has ended.
    pub(crate) fn is_measured(&self) -> bool {
        self.rate() > 0
    }

    /// Octets that may be under way.
    pub(crate) fn octets(&self, now: Instant) -> u64 {
        self.octets.unwrap_or_else(|| {
            let waited = self.round.map_or(Duration::ZERO, |it| now - it.begun);
            let doublings = waited.as_millis() / DOUBLING.as_millis();
            let doublings = u32::try_from(doublings).unwrap_or(u32::MAX);
            INITIAL_OCTETS << doublings.min(DOUBLINGS_MOST)
        })
    }

    /// When more may be under way though nobody answers.
    pub(crate) fn grows_at(&self, now: Instant) -> Option<Instant> {
        if self.octets.is_some() {
            return None;
        }
        // The bundles that fill it may still be read.
        let begun = self.round.map_or(now, |round| round.begun);
        let waited = u32::try_from((now - begun).as_millis() / DOUBLING.as_millis()).ok()?;
        (waited < DOUBLINGS_MOST).then(|| begun + DOUBLING * (waited + 1))
    }

    /// There is more to give, and no room for it.
    pub(crate) fn is_full(&mut self) {
        if let Some(round) = &mut self.round {
            round.is_full = true;
        }
    }

    /// Octets are given to the other side.
    pub(crate) fn sent(&mut self, now: Instant, octets: u64) {
        if self.sent == self.answered {
            // Nothing was under way: the pause without answers says nothing about the rate.
            self.round = Some(Round {
                begun: now,
                answered: self.answered,
                until: self.octets.map(|_| self.sent.saturating_add(octets)),
                is_full: false,
            });
        }
        self.sent = self.sent.saturating_add(octets);
    }

    /// Octets that were given are not to be answered any more.
    pub(crate) fn lost(&mut self, octets: u64) {
        self.answered = self.answered.saturating_add(octets).min(self.sent);
        if let Some(round) = &mut self.round {
            // They did not add to the rate.
            round.answered = round.answered.saturating_add(octets);
        }
    }

    /// Octets that were given at `since` are answered.
    pub(crate) fn answered(&mut self, now: Instant, since: Instant, octets: u64) {
        self.answered = self.answered.saturating_add(octets).min(self.sent);
        self.see_delay(now, since);
        let Some(round) = &mut self.round else {
            return;
        };
        let until = *round.until.get_or_insert(self.sent);
        if self.octets.is_none() {
            // It grows no more by itself.
            self.octets = Some(self.octets(now));
        }
        if self.answered >= until {
            self.end_round(now);
        }
    }

    fn see_delay(&mut self, now: Instant, since: Instant) {
        let delay = now - since;
        if let Probe::Looking(from, shortest) = &mut self.probe
            && since >= *from
        {
            *shortest = Some(shortest.map_or(delay, |it| it.min(delay)));
        }
        if self.delay.is_none_or(|(shortest, _)| delay <= shortest) {
            self.delay = Some((delay, now));
        }
    }

    fn end_round(&mut self, now: Instant) {
        let Some(round) = self.round else {
            return;
        };
        let took = (now - round.begun).as_nanos().max(1);
        let octets = u128::from(self.answered.saturating_sub(round.answered));
        let rate = u64::try_from(octets * 1_000_000_000 / took).unwrap_or(u64::MAX);
        // A window that was not filled is no measure of what can be, unless it is more.
        if round.is_full || rate > self.rate() {
            self.newest = (self.newest + 1) % ROUNDS;
            if let Some(place) = self.rates.get_mut(self.newest) {
                *place = rate;
            }
        }
        self.round = Some(Round {
            begun: now,
            answered: self.answered,
            until: Some(self.sent.saturating_add(1)),
            is_full: false,
        });
        self.next_probe(now, round.is_full);
        self.octets = Some(self.wanted());
    }

    fn next_probe(&mut self, now: Instant, was_full: bool) {
        self.probe = match (self.probe, self.delay) {
            (Probe::No, Some((delay, seen)))
                if was_full && now - seen > DELAY_LIFE.max(delay * DELAY_LIFE_DELAYS) =>
            {
                Probe::Draining
            }
            (Probe::Draining, _) => Probe::Looking(now, None),
            (Probe::Looking(_, Some(shortest)), _) => {
                self.delay = Some((shortest, now));
                Probe::No
            }
            (probe, _) => probe,
        };
    }

    fn rate(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or(0)
    }

    fn wanted(&self) -> u64 {
        let delay = self.delay.map_or(Duration::ZERO, |(delay, _)| delay);
        let (time, floor) = match self.probe {
            Probe::No => (
                delay.saturating_mul(DELAYS).saturating_add(SLACK),
                FLOOR_OCTETS,
            ),
            // So little that nothing waits, also where the delay is too long by what stood before an answer.
            Probe::Draining | Probe::Looking(..) => (delay / 2, 1),
        };
        let octets = u128::from(self.rate()).saturating_mul(time.as_nanos()) / 1_000_000_000;
        u64::try_from(octets).unwrap_or(u64::MAX).max(floor)
    }
}

impl Adjacencies {
    /// A bundle is under way to a session.
    pub(crate) fn charge(&mut self, held: &Held, session: SessionId, key: BundleKey) {
        let octets = held.entry(key).map_or(0, |entry| entry.octets());
        if let Some(neighbour) = self.neighbours.get_mut(&session) {
            neighbour.in_flight += 1;
            neighbour.in_flight_octets = neighbour.in_flight_octets.saturating_add(octets);
        }
    }

    /// So many octets of one are not any more.
    pub(crate) fn discharge(&mut self, session: SessionId, octets: u64) {
        if let Some(neighbour) = self.neighbours.get_mut(&session) {
            if !planted(Mutant::WindowLeaks) {
                neighbour.in_flight = neighbour.in_flight.saturating_sub(1);
            }
            neighbour.in_flight_octets = neighbour.in_flight_octets.saturating_sub(octets);
            self.to_serve.insert(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use core::mem;

    use super::*;

    /// Octets that an operator lets be under way.
    const MOST_OCTETS: u64 = 64 << 20;

    const MILLI: Duration = Duration::from_millis(1);

    /// Somebody who takes octets at a rate, one bundle after the other, and answers each after a delay.
    struct Taker {
        octets_per_ms: u64,
        delay: Duration,
        now: Instant,
        /// When the last bundle that was given will have been taken.
        busy: Instant,
        under_way: VecDeque<(Instant, Instant, u64)>,
        window: Window,
    }

    impl Taker {
        fn new(octets_per_ms: u64, delay: Duration) -> Self {
            Self {
                octets_per_ms,
                delay,
                now: Instant::START,
                busy: Instant::START,
                under_way: VecDeque::new(),
                window: Window::default(),
            }
        }

        fn octets(&self) -> u64 {
            self.under_way.iter().map(|(_, _, octets)| octets).sum()
        }

        /// A saturating stream of bundles for a while; octets that were answered.
        fn stream(&mut self, bundle: u64, during: Duration) -> u64 {
            let (end, mut answered) = (self.now + during, 0);
            let mut under_way = self.octets();
            while self.now < end {
                while let Some(&(at, since, octets)) =
                    self.under_way.front().filter(|it| it.0 <= self.now)
                {
                    self.under_way.pop_front();
                    self.window.answered(at.max(self.now), since, octets);
                    answered += octets;
                    under_way -= octets;
                }
                while under_way < MOST_OCTETS && self.window.has_room(self.now, under_way) {
                    under_way += bundle;
                    let nanos = bundle * 1_000_000 / self.octets_per_ms;
                    self.busy = self.busy.max(self.now) + Duration::from_nanos(nanos);
                    self.window.sent(self.now, bundle);
                    self.under_way
                        .push_back((self.busy + self.delay, self.now, bundle));
                }
                self.window.is_full();
                self.now = self.now + MILLI / 10;
            }
            answered
        }

        /// Time for which a bundle that comes now waits for those before it.
        fn wait(&self) -> Duration {
            self.busy.since(self.now)
        }
    }

    #[test]
    fn a_saturating_stream_has_ten_milliseconds_and_six_flushes_under_way() {
        for (octets_per_ms, flush_ms) in [(400_000, 1), (400_000, 5), (3_000, 1), (50_000, 40)] {
            let flush = MILLI * flush_ms;
            let mut taker = Taker::new(octets_per_ms, flush);
            taker.stream(10_000, Duration::from_secs(1));
            let moved = taker.stream(10_000, Duration::from_secs(12));
            let share = moved / 12 * 100 / (octets_per_ms * 1_000);
            assert!(share >= 99, "{share} % of {octets_per_ms} octets/ms");
            for _ in 0..50 {
                taker.stream(10_000, MILLI * 7);
                let most =
                    SLACK * 3 / 2 + flush * 7 + Duration::from_micros(10_000_000 / octets_per_ms);
                let floor = Duration::from_micros(FLOOR_OCTETS * 1_200 / octets_per_ms);
                assert!(
                    taker.wait() <= most.max(floor),
                    "{:?} with flushes of {flush:?} at {octets_per_ms}: {:?}",
                    taker.wait(),
                    taker.window
                );
            }
        }
    }

    /// The rate at which a store writes, beside the time that a flush takes anyway.
    const DISK_OCTETS_PER_MS: u64 = 240_000;

    /// The window after a second of a stream to a store that answers what it flushed at once, some of its flushes being long.
    fn window_of_a_store(long: Duration, every: u32) -> u64 {
        let (bundle, mut now, mut waiting) = (10_000, Instant::START, VecDeque::new());
        let (mut window, mut under_way) = (Window::default(), 0);
        for flush in 0..1_000_u32 {
            let taken = mem::take(&mut waiting);
            let octets = u64::try_from(taken.len()).unwrap_or(0) * bundle;
            let is_long = flush % every == every - 1;
            let end = now
                + if is_long { long } else { MILLI }
                + Duration::from_micros(octets * 1_000 / DISK_OCTETS_PER_MS);
            while now < end {
                while window.has_room(now, under_way) && under_way < MOST_OCTETS {
                    window.sent(now, bundle);
                    waiting.push_back(now);
                    under_way += bundle;
                }
                window.is_full();
                now = now + MILLI / 10;
            }
            // The answers of one flush come as fast as a thread makes them.
            for since in taken {
                now = now + Duration::from_micros(2);
                window.answered(now, since, bundle);
                under_way -= bundle;
            }
            if now - Instant::START > Duration::from_secs(1) {
                break;
            }
        }
        window.octets(now)
    }

    #[test]
    fn answers_that_come_all_at_once_are_no_measure_of_the_rate() {
        for (long, every) in [(1, 1), (20, 2), (100, 7), (200, 3)] {
            let octets = window_of_a_store(MILLI * long, every);
            let most = DISK_OCTETS_PER_MS * 25;
            assert!(
                (FLOOR_OCTETS..=most).contains(&octets),
                "{octets} octets where one in {every} flushes takes {long} ms"
            );
        }
    }

    #[test]
    fn a_longer_way_costs_no_more_than_its_delay_at_the_beginning() {
        let mut taker = Taker::new(10_000, Duration::from_secs(2));
        let moved = taker.stream(10_000, Duration::from_secs(4));
        assert!(
            moved >= 16_000_000,
            "{moved} octets of 20 MB in the two seconds behind the first answer"
        );
        let moved = taker.stream(10_000, Duration::from_secs(60));
        assert!(moved >= 590_000_000, "{moved} octets");
    }

    #[test]
    fn a_rate_that_changes_is_followed() {
        let mut taker = Taker::new(400_000, MILLI);
        taker.stream(10_000, Duration::from_secs(1));
        taker.octets_per_ms = 40_000;
        taker.stream(10_000, Duration::from_secs(1));
        assert!(taker.wait() <= MILLI * 20, "{:?}", taker.wait());
        taker.octets_per_ms = 400_000;
        taker.stream(10_000, Duration::from_secs(1));
        let moved = taker.stream(10_000, Duration::from_secs(1));
        assert!(moved >= 390_000_000, "{moved} octets");
    }

    #[test]
    fn a_stream_that_does_not_fill_it_leaves_it_as_it_is() {
        let mut taker = Taker::new(400_000, MILLI);
        taker.stream(10_000, Duration::from_secs(1));
        let before = taker.window.octets(taker.now);
        for _ in 0..1_000 {
            taker.now = taker.now + MILLI * 20;
            while let Some((_, since, octets)) = taker.under_way.pop_front() {
                taker.window.answered(taker.now, since, octets);
            }
            taker.window.sent(taker.now, 100);
            let now = taker.now + MILLI;
            taker.window.answered(now, taker.now, 100);
        }
        assert!(taker.window.octets(taker.now) >= before / 2);
    }
}
