//! Octets that a sender of TCP has on their way at once: windows that grow with answers and shrink with losses.

use std::collections::VecDeque;
use std::time::Duration;

use dhow_bundle::Instant;
use dhow_scenario::Scenario;

/// Octets of a full segment.
pub(crate) const SEGMENT_OCTETS: u64 = 1_448;

/// Octets that a connection begins with (RFC 6928: ten segments).
const INITIAL_OCTETS: u64 = 10 * SEGMENT_OCTETS;

/// Octets below which no loss takes a window (RFC 5681: two segments).
const LEAST_OCTETS: u64 = 2 * SEGMENT_OCTETS;

/// Segments on their way behind a lost one that tell of its loss (RFC 5681 3.2); with fewer it takes the timer.
const TELLING: u64 = 4;

/// The time for which the timer runs beyond a round trip, at least.
const TIMER: Duration = Duration::from_millis(200);

/// Parts of a window in which it is written, where it is less than the link holds: answers come as often in a round trip.
const PARTS: u64 = 16;

/// The time between two looks of BBR for the shortest round trip, and the time for which it has little on its way then, beside a round trip.
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBE_FOR: Duration = Duration::from_millis(200);

/// Octets that BBR has on its way then.
const PROBE_OCTETS: u64 = 4 * SEGMENT_OCTETS;

/// Octets by which cubic's function is off its plateau, 10⁹ times, for each cubic millisecond (RFC 9438: 0.4 segments for each cubic second).
const STEEPNESS: u128 = 579;
const SCALE: u128 = 1_000_000_000;

/// The distance from its plateau up to which the function goes on, milliseconds.
const TIME_MAX_MS: u64 = 10_000_000;

/// Thousandths of reno's growth that cubic has at least (RFC 9438 4.3).
const FRIENDLY_THOUSANDTHS: u64 = 529;

/// The congestion control that the connections of a simulation resemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Paces by what arrives: grows until the link is full, and heeds no loss.
    Bbr,
    /// RFC 5681, with selective acknowledgments: half at a loss, and a segment more in each round trip.
    Reno,
    /// RFC 9438: seven tenths at a loss, and back along a cubic function of time.
    Cubic,
}

impl Control {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Bbr, Self::Reno, Self::Cubic];

    /// Its name in kernels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bbr => "bbr",
            Self::Reno => "reno",
            Self::Cubic => "cubic",
        }
    }

    /// The one that a scenario names; none where it names none, or one that connections here cannot resemble.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Option<Self> {
        let name = scenario.congestion_control.as_deref()?;
        Self::ALL.into_iter().find(|control| control.name() == name)
    }
}

/// Octets that were written at once and have no answer yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unanswered {
    /// When the last of them left for the first time.
    pub(crate) left: Instant,
    /// When their sender hears that they have arrived, or that some have not.
    pub(crate) answered: Instant,
    /// The number of the octets.
    pub(crate) octets: u64,
    /// Whether some of them were lost.
    pub(crate) is_lost: bool,
    /// Whether others were ready to leave as soon as the line was free: the line or the window held them back, not the application.
    pub(crate) is_pressed: bool,
}

/// The congestion control of one direction of a connection.
#[derive(Debug)]
pub(crate) struct Congestion {
    control: Control,
    /// Octets that may be on their way.
    window: u64,
    /// Octets up to which the window doubles in each round trip.
    threshold: u64,
    /// Octets that the link holds.
    pipe: u64,
    /// Octets that the link and its queue hold: more than these are lost.
    most: u64,
    unanswered: VecDeque<Unanswered>,
    /// Octets of these.
    on_their_way: u64,
    /// The window is less since then; octets that left before neither grow it nor shrink it.
    reduced: Instant,
    /// Octets by which reno's window is to grow once they are whole ones, times the window.
    growth: u64,
    curve: Curve,
    /// When the last answer came, and how long its round trip was.
    idle: (Instant, Duration),
    probe: Probe,
}

/// The state of BBR's search for the shortest round trip.
#[derive(Clone, Copy, Debug)]
enum Probe {
    /// Not before this.
    At(Instant),
    /// As soon as little is on its way.
    Draining,
    /// It does, until this.
    Until(Instant),
}

/// The function of time that cubic follows.
#[derive(Debug, Default)]
struct Curve {
    /// The window before the last loss.
    before: u64,
    /// When the function begins.
    begins: Option<Instant>,
    /// The time after that until the window is as before.
    plateau_ms: u64,
    /// The window that reno would have.
    friendly: u64,
}

impl Congestion {
    /// The congestion control of a new connection over a link that holds so many octets on their way, and so many in its queue.
    pub(crate) fn new(control: Control, now: Instant, pipe: u64, queue: u64) -> Self {
        Self {
            control,
            window: INITIAL_OCTETS,
            threshold: u64::MAX,
            pipe,
            most: pipe.saturating_add(queue),
            unanswered: VecDeque::new(),
            on_their_way: 0,
            reduced: Instant::START,
            growth: 0,
            curve: Curve::default(),
            idle: (now, Duration::ZERO),
            probe: Probe::At(now + PROBE_EVERY),
        }
    }

    /// Octets that may be written now, at most `chunk` at once.
    pub(crate) fn room(&mut self, now: Instant, chunk: u64) -> u64 {
        self.handle_time(now);
        self.rest(now);
        let window = match self.probe {
            Probe::At(_) => self.window,
            Probe::Draining | Probe::Until(_) => PROBE_OCTETS,
        };
        let room = window.saturating_sub(self.on_their_way);
        let part = match window >= self.pipe.saturating_add(chunk) {
            true => chunk,
            false => (window / PARTS).clamp(SEGMENT_OCTETS, chunk.max(SEGMENT_OCTETS)),
        };
        room.min(part) / SEGMENT_OCTETS * SEGMENT_OCTETS
    }

    /// When an answer makes room next.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        Some(self.unanswered.front()?.answered)
    }

    /// The time beyond a round trip until a segment that is lost among so many octets is sent again.
    pub(crate) const fn timer(&self, octets: u64) -> Duration {
        match self.on_their_way + octets < TELLING * SEGMENT_OCTETS {
            true => TIMER,
            false => Duration::ZERO,
        }
    }

    /// Octets that were answered by now make room, and change the window.
    fn handle_time(&mut self, now: Instant) {
        while let Some(&first) = self.unanswered.front().filter(|it| it.answered <= now) {
            self.unanswered.pop_front();
            self.on_their_way = self.on_their_way.saturating_sub(first.octets);
            let round_trip = first.answered.since(first.left);
            self.idle = (first.answered, round_trip);
            if self.control == Control::Bbr {
                self.fill(first.octets);
                self.look(first.answered, round_trip);
            } else if first.is_lost {
                self.lose(&first);
            } else {
                self.grow(&first);
            }
        }
    }

    /// A window of which nothing has been used for some time is less: half for each time that the timer would have run (RFC 7661 says why).
    fn rest(&mut self, now: Instant) {
        let (since, round_trip) = self.idle;
        let times = now.since(since).as_nanos() / (round_trip + TIMER).as_nanos();
        if self.control == Control::Bbr || !self.unanswered.is_empty() || times == 0 {
            return;
        }
        self.threshold = self.threshold.max(self.window / 4 * 3);
        let least = self.window.min(INITIAL_OCTETS);
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        self.window = self.window.checked_shr(times).unwrap_or(0).max(least);
        self.idle.0 = now;
    }

    /// A window that doubles until it is twice what the link holds.
    fn fill(&mut self, octets: u64) {
        let full = (self.pipe * 2).max(INITIAL_OCTETS).min(self.most);
        self.window = self.window.saturating_add(octets).min(full);
    }

    /// BBR has little on its way now and then, to see the shortest round trip.
    fn look(&mut self, now: Instant, round_trip: Duration) {
        self.probe = match self.probe {
            Probe::At(begin) if now >= begin => Probe::Draining,
            Probe::Draining if self.on_their_way <= PROBE_OCTETS => {
                Probe::Until(now + round_trip.max(PROBE_FOR))
            }
            Probe::Until(end) if now >= end => Probe::At(now + PROBE_EVERY),
            same => same,
        };
    }

    /// Octets have arrived.
    fn grow(&mut self, sent: &Unanswered) {
        if sent.left < self.reduced || !sent.is_pressed {
            return;
        }
        if self.window < self.threshold {
            self.window = self.window.saturating_add(sent.octets);
        } else {
            self.window += match self.control {
                Control::Cubic => self.curve.growth(self.window, sent),
                Control::Reno | Control::Bbr => {
                    self.growth += SEGMENT_OCTETS * sent.octets;
                    let whole = self.growth / self.window;
                    self.growth %= self.window;
                    whole
                }
            };
        }
        if self.window > self.most {
            self.lose(sent);
        }
    }

    /// Some octets have not arrived. Of those that were on their way at once only the first loss counts.
    fn lose(&mut self, sent: &Unanswered) {
        if sent.left < self.reduced {
            return;
        }
        self.reduced = sent.answered;
        let less = match self.control {
            Control::Cubic => self.curve.reduce(self.window),
            Control::Reno | Control::Bbr => self.window / 2,
        };
        self.threshold = less.max(LEAST_OCTETS);
        self.window = match self.timer(sent.octets).is_zero() {
            true => self.threshold,
            false => SEGMENT_OCTETS,
        };
    }

    /// Octets were written.
    pub(crate) fn handle_sent(&mut self, now: Instant, mut sent: Unanswered) {
        self.handle_time(now);
        if let Some(last) = self.unanswered.back() {
            sent.answered = sent.answered.max(last.answered);
        }
        self.on_their_way += sent.octets;
        sent.is_pressed |= self.on_their_way * 2 >= self.window;
        self.unanswered.push_back(sent);
    }

    /// Nothing goes over the link any more, and nothing is answered: the timer runs out.
    pub(crate) fn handle_silence(&mut self) {
        self.unanswered.clear();
        self.on_their_way = 0;
        if self.control != Control::Bbr {
            self.threshold = (self.window / 2).max(LEAST_OCTETS);
            self.window = SEGMENT_OCTETS;
        }
    }
}

impl Curve {
    /// Octets by which a window grows with an answer.
    fn growth(&mut self, window: u64, sent: &Unanswered) -> u64 {
        let begins = *self.begins.get_or_insert_with(|| {
            self.friendly = window;
            let lost = self.before.saturating_sub(window);
            self.before = self.before.max(window);
            self.plateau_ms = cube_root(u128::from(lost) * SCALE / STEEPNESS);
            sent.answered
        });
        let round_trip = sent.answered.since(sent.left);
        let time_ms = (sent.answered.since(begins) + round_trip).as_millis();
        let plateau_ms = u128::from(self.plateau_ms);
        let off = STEEPNESS
            * time_ms
                .abs_diff(plateau_ms)
                .min(u128::from(TIME_MAX_MS))
                .pow(3)
            / SCALE;
        let off = u64::try_from(off).unwrap_or(u64::MAX);
        let target = match time_ms < plateau_ms {
            true => self.before.saturating_sub(off),
            false => self.before.saturating_add(off),
        };
        let target = target.clamp(window, window + window / 2);
        let growth = (target - window).saturating_mul(sent.octets) / window;
        // RFC 9438 4.3: never less than reno with the same loss; kernels leave it at that where the window is as before again.
        let reno = SEGMENT_OCTETS * sent.octets / window;
        self.friendly += reno * FRIENDLY_THOUSANDTHS / 1_000;
        growth.max(self.friendly.saturating_sub(window))
    }

    /// The window after a loss.
    fn reduce(&mut self, window: u64) -> u64 {
        // RFC 9438 4.7: room for others, where the window has not come back to where it was.
        self.before = match window < self.before {
            true => window * 85 / 100,
            false => window,
        };
        self.begins = None;
        window * 7 / 10
    }
}

/// The greatest number whose cube is no greater.
fn cube_root(cube: u128) -> u64 {
    let (mut least, mut most) = (0_u64, TIME_MAX_MS);
    while least < most {
        let middle = least + (most - least).div_ceil(2);
        match u128::from(middle).pow(3) <= cube {
            true => least = middle,
            false => most = middle - 1,
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    /// A window over a link that holds a thousand segments, and as many in its queue.
    fn congestion(control: Control) -> Congestion {
        let thousand = 1_000 * SEGMENT_OCTETS;
        Congestion::new(control, Instant::START, thousand, thousand)
    }

    /// Writes what may be, and has it answered a round trip later.
    fn round(congestion: &mut Congestion, number: u32, is_lost: bool) -> u64 {
        let left = Instant::START + ROUND_TRIP * number;
        let mut written = 0;
        loop {
            let octets = congestion.room(left, 1 << 30);
            if octets == 0 {
                return written / SEGMENT_OCTETS;
            }
            written += octets;
            let sent = Unanswered {
                left,
                answered: left + ROUND_TRIP,
                octets,
                is_lost,
                is_pressed: true,
            };
            congestion.handle_sent(left, sent);
        }
    }

    #[test]
    fn a_window_doubles_until_a_loss_and_then_grows_as_its_kind_does() {
        for (control, windows) in [
            (Control::Reno, [10, 20, 40, 80, 160, 80, 80, 81]),
            (Control::Cubic, [10, 20, 40, 80, 160, 112, 113, 116]),
            (Control::Bbr, [10, 20, 40, 80, 160, 320, 640, 1_280]),
        ] {
            let mut congestion = congestion(control);
            let rounds = (1..9).map(|number| round(&mut congestion, number, number == 5));
            let rounds: Vec<u64> = rounds.collect();
            assert_eq!(rounds, windows, "{control:?}");
        }
    }

    #[test]
    fn cubic_is_back_where_it_was_after_its_time_and_goes_beyond() {
        let mut congestion = congestion(Control::Cubic);
        for number in 1..=7 {
            round(&mut congestion, number, number == 7);
        }
        // 640 segments before the loss: 448, and back after the cube root of 192 ÷ 0.4 seconds, 7.8 s.
        let windows: Vec<u64> = (8..108)
            .map(|number| round(&mut congestion, number, false))
            .collect();
        assert_eq!(windows[0], 448);
        assert!((620..=645).contains(&windows[77]), "{}", windows[77]);
        assert!(windows[99] > 640, "{}", windows[99]);
    }

    #[test]
    fn losses_of_one_round_trip_count_once_and_few_segments_wait_for_the_timer() {
        let mut congestion = congestion(Control::Reno);
        let windows: Vec<u64> = (1..=6)
            .map(|number| round(&mut congestion, number, true))
            .collect();
        assert_eq!(windows, [10, 5, 2, 1, 1, 1]);
        assert_eq!(congestion.timer(SEGMENT_OCTETS), TIMER);
    }

    #[test]
    fn a_window_that_rests_begins_anew_and_is_soon_back() {
        let mut congestion = congestion(Control::Reno);
        for number in 1..=6 {
            round(&mut congestion, number, false);
        }
        assert_eq!(round(&mut congestion, 1_000, false), 10);
        assert_eq!(round(&mut congestion, 1_001, false), 20);
    }

    #[test]
    fn a_cube_root_is_whole() {
        let roots = [0, 1, 7, 8, 26, 27, 1_000_000_000].map(cube_root);
        assert_eq!(roots, [0, 1, 1, 2, 2, 3, 1_000]);
    }
}
