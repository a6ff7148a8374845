//! Countdowns to the peer's answers: RFC 5326 6.2 to 6.6 and 6.15; and the session whose time comes next.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use dhow_bundle::Instant;

/// The distance to the peer, and whether the peer transmits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distance {
    /// One-way light time.
    pub(super) light_time: Duration,
    /// Additional anticipated latency (RFC 5326 6.5).
    pub(super) margin: Duration,
    /// The time since which nothing can come from the peer.
    pub(super) deaf_since: Option<Instant>,
}

/// A change of the way to the peer, from an instant on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// The peer ceases transmission.
    Ceased(Instant),
    /// The peer transmits again, for the first time since the former.
    Resumed(Instant, Instant),
    /// The peer is as far away as this, and answers within the margin.
    Moved(Instant, Duration, Duration),
}

/// A countdown to the time at which an answer is expected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Countdown {
    /// When the peer answers at the latest: nominal remote engine acknowledge transmission time (RFC 5326 6.5).
    nominal: Instant,
    due: Instant,
    is_suspended: bool,
}

impl Countdown {
    /// A segment has left, and its answer is on its way back after the light time and the margin. Octets that left before
    /// it take `backlog` on the path.
    pub(super) fn start(now: Instant, distance: &Distance, backlog: Duration) -> Self {
        let nominal = now + backlog + distance.light_time + distance.margin;
        Self {
            nominal,
            due: nominal + distance.light_time,
            // RFC 5326 6.2, 6.3, 6.15: suspended at once when the peer has ceased transmission.
            is_suspended: distance.deaf_since.is_some(),
        }
    }

    /// The way is another. An answer that is on its way already comes as it would have come.
    pub(super) fn follow(&mut self, change: Change) {
        match change {
            // RFC 5326 6.5.
            Change::Ceased(now) => self.is_suspended |= self.nominal >= now,
            // RFC 5326 6.6: the answer is later by the time that it could not leave.
            Change::Resumed(_, now) => {
                if core::mem::take(&mut self.is_suspended) {
                    self.due = self.due + now.since(self.nominal);
                }
            }
            Change::Moved(now, light_time, margin) => {
                let due = self.nominal + light_time;
                // An answer that may have left already may take the longer time of before.
                let has_time = self.nominal >= now + margin || due > self.due;
                if self.is_suspended || (self.nominal >= now && has_time) {
                    self.due = due;
                }
            }
        }
    }

    /// When the answer is overdue; `None` while the countdown is suspended.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        if self.is_suspended {
            None
        } else {
            Some(self.due)
        }
    }
}

/// A segment that is to be acknowledged: a checkpoint, a report or a cancellation.
#[derive(Debug)]
pub(super) struct Awaited {
    /// Times that it was queued.
    times: u32,
    is_queued: bool,
    /// When it last left.
    left: Option<Instant>,
    countdown: Option<Countdown>,
}

/// The outcome of a wish to send a segment again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// The segment is to be queued.
    Queue,
    /// The segment is on its way out already.
    OnItsWay,
    /// The segment was sent too often.
    Exceeded,
}

impl Awaited {
    /// A segment that is queued for the first time.
    pub(super) const fn new() -> Self {
        Self {
            times: 1,
            is_queued: true,
            left: None,
            countdown: None,
        }
    }

    /// Send it again, unless it was queued `most` times.
    pub(super) fn again(&mut self, most: u32) -> Again {
        if self.is_queued {
            return Again::OnItsWay;
        }
        if self.times >= most {
            return Again::Exceeded;
        }
        self.times = self.times.saturating_add(1);
        (self.is_queued, self.countdown) = (true, None);
        Again::Queue
    }

    /// Send a copy right behind it, which counts as no further time.
    pub(super) const fn copy(&mut self) {
        self.is_queued = true;
    }

    /// The segment was given to the driver.
    pub(super) const fn given(&mut self) {
        self.is_queued = false;
    }

    /// A segment left.
    pub(super) fn has_left(&mut self, now: Instant, distance: &Distance, backlog: Duration) {
        self.left = Some(now);
        if !self.is_queued {
            self.countdown = Some(Countdown::start(now, distance, backlog));
        }
    }

    /// Whether the segment is queued, has not left, or left less than `time` ago.
    pub(super) fn is_young(&self, now: Instant, time: Duration) -> bool {
        self.is_queued || self.left.is_none_or(|left| now.since(left) < time)
    }

    pub(super) fn follow(&mut self, change: Change) {
        if let Some(countdown) = &mut self.countdown {
            countdown.follow(change);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.countdown.as_ref().and_then(Countdown::deadline)
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|due| due <= now)
    }
}

/// The next instant of each session, by number: as many entries as there are sessions at most.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    by_session: BTreeMap<u64, Instant>,
    in_order: BTreeSet<(Instant, u64)>,
}

impl Alarms {
    /// The session wants to be called then.
    pub(super) fn set(&mut self, session: u64, at: Option<Instant>) {
        let before = match at {
            Some(at) => self.by_session.insert(session, at),
            None => self.by_session.remove(&session),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.in_order.remove(&(before, session));
        }
        if let Some(at) = at {
            self.in_order.insert((at, session));
        }
    }

    /// The next instant of all.
    pub(super) fn first(&self) -> Option<Instant> {
        self.in_order.first().map(|(at, _)| *at)
    }

    /// A session whose time has come, once.
    pub(super) fn pop(&mut self, now: Instant) -> Option<u64> {
        let (at, session) = *self.in_order.first()?;
        if at > now {
            return None;
        }
        self.set(session, None);
        Some(session)
    }

    pub(super) fn clear(&mut self) {
        self.by_session.clear();
        self.in_order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    fn distance(deaf_since: Option<Instant>) -> Distance {
        Distance {
            light_time: Duration::from_secs(10),
            margin: Duration::from_secs(2),
            deaf_since,
        }
    }

    /// RFC 5326 6.2: out and back, and the margin; segments that left before are on the path first.
    #[test]
    fn a_countdown_lasts_a_round_trip_and_the_margin() {
        let backlog = Duration::from_secs(3);
        let countdown = Countdown::start(at(1), &distance(None), backlog);
        assert_eq!(countdown.deadline(), Some(at(26)));
    }

    /// RFC 5326 6.5: an answer that left before the peer ceased still comes; others are waited for.
    #[test]
    fn a_countdown_is_suspended_only_while_the_answer_cannot_have_left() {
        let mut countdown = Countdown::start(at(0), &distance(None), Duration::ZERO);
        countdown.follow(Change::Ceased(at(13)));
        assert_eq!(countdown.deadline(), Some(at(22)));
        let mut countdown = Countdown::start(at(0), &distance(None), Duration::ZERO);
        countdown.follow(Change::Ceased(at(12)));
        assert_eq!(countdown.deadline(), None);
    }

    /// RFC 5326 6.6: no delay when the peer is back before it would have answered, and else the delay since then.
    #[test]
    fn a_resumed_countdown_is_later_by_the_time_that_the_answer_could_not_leave() {
        for (resumed, due) in [(5, 22), (12, 22), (100, 110)] {
            let mut countdown = Countdown::start(at(0), &distance(Some(at(0))), Duration::ZERO);
            assert_eq!(countdown.deadline(), None);
            countdown.follow(Change::Resumed(at(0), at(resumed)));
            assert_eq!(countdown.deadline(), Some(at(due)));
            countdown.follow(Change::Resumed(at(0), at(resumed + 50)));
            assert_eq!(countdown.deadline(), Some(at(due)));
        }
    }

    #[test]
    fn an_answer_that_has_not_left_takes_the_light_time_that_is_planned_for_then() {
        let far = Duration::from_secs(60);
        let mut countdown = Countdown::start(at(0), &distance(None), Duration::ZERO);
        let margin = Duration::from_secs(2);
        countdown.follow(Change::Moved(at(12), far, margin));
        assert_eq!(countdown.deadline(), Some(at(72)));
        countdown.follow(Change::Moved(at(11), Duration::from_secs(5), margin));
        assert_eq!(countdown.deadline(), Some(at(72)), "it may be on its way");
        countdown.follow(Change::Moved(at(13), Duration::from_secs(5), margin));
        assert_eq!(countdown.deadline(), Some(at(72)), "it is on its way");
        countdown.follow(Change::Ceased(at(11)));
        countdown.follow(Change::Moved(at(40), Duration::from_secs(5), margin));
        countdown.follow(Change::Resumed(at(11), at(100)));
        assert_eq!(countdown.deadline(), Some(at(105)));
    }
}
