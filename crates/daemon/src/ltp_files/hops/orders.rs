//! Files that are sent to far engines.

use std::time::Duration;

use dhow_bundle::Instant;
use dhow_link::ltp::{EndReport, Ends, Status};
use dhow_link::stream::RefuseReason;

use super::super::sender::open;
use super::super::why::Why;
use super::block::{Block, Fate};
use super::station::Station;
use super::{End, Outcome, Told, Work};

/// A file that is sent.
#[derive(Debug)]
pub(super) struct OrderState {
    transfer: u64,
    /// The engine that it is for.
    destination: u64,
    wants_report: bool,
    began: Instant,
    outcome: Outcome,
    /// The time at which the order fails, unless a report tells why before.
    fails_at: Option<Instant>,
    is_over: bool,
    has_failed: bool,
}

impl Block {
    /// Whether it was made here.
    pub(super) const fn is_own(&self) -> bool {
        self.octets.is_some() || self.order.is_some()
    }
}

/// Whether parts, each by its offset and length, are all of so many octets.
fn covers(parts: &[(u64, u64)], octets: u64) -> bool {
    let mut parts = parts.to_vec();
    parts.sort_unstable();
    let end = parts
        .iter()
        .fold(0, |end, (offset, length)| match *offset <= end {
            true => end.max(offset.saturating_add(*length)),
            false => end,
        });
    end == octets
}

impl Station<'_> {
    /// Begin to send all files.
    pub(super) fn take_orders(&mut self) {
        let Work::Send(orders) = self.settings.work.clone() else {
            return;
        };
        let now = self.clock.now().monotonic;
        for (number, order) in orders.into_iter().enumerate() {
            let mut of = order.end_to_end;
            let mut state = OrderState {
                transfer: of.transfer,
                destination: of.destination.engine,
                wants_report: of.wants_report,
                began: now,
                outcome: Outcome {
                    number,
                    octets: 0,
                    session: None,
                    hop: None,
                    end: None,
                    failure: None,
                },
                fails_at: None,
                is_over: false,
                has_failed: false,
            };
            match open(&order.path) {
                Ok((file, octets)) => {
                    state.outcome.octets = octets;
                    of.length = Some(octets);
                    let life = Duration::from_secs(of.life_s);
                    let mut block = Block::new(now, now + life);
                    block.end_to_end = Some(of);
                    block.fate = Fate::PassOn;
                    block.order = Some(number);
                    block.came.add(0, octets);
                    block.ends = Ends {
                        red: Some(order.red.of(octets)),
                        length: Some(octets),
                    };
                    self.orders.push(state);
                    let block = self.add(block);
                    self.leaving.add_as_it_is(block, file, octets);
                    self.start(block);
                }
                Err(why) => {
                    state.outcome.failure = Some(why.into());
                    self.orders.push(state);
                }
            }
        }
    }

    /// Whether a block is a file that is sent here.
    pub(super) fn is_order(&self, block: u64) -> bool {
        self.blocks.get(&block).is_some_and(|it| it.order.is_some())
    }

    fn order_of(&mut self, block: u64) -> Option<&mut OrderState> {
        let order = self.blocks.get(&block)?.order?;
        self.orders.get_mut(order)
    }

    /// The session of a file has begun.
    pub(super) fn begun(&mut self, block: u64, session: Option<u64>) {
        if let Some(order) = self.order_of(block) {
            order.outcome.session = session;
        }
    }

    /// The next hop has a file.
    pub(super) fn hop_done(&mut self, block: u64) {
        let now = self.clock.now().monotonic;
        if let Some(order) = self.order_of(block) {
            order.outcome.hop = Some(now.since(order.began));
            // The report may take as long as the block may live.
            let deadline = self.blocks.get(&block).map(|it| it.deadline);
            // A report of a hop at which its life ends leaves after that.
            let deadline = deadline.map(|at| at + self.linger());
            if let Some(order) = self.order_of(block) {
                order.fails_at = deadline;
            }
        }
    }

    /// The session of a file that is sent here failed.
    pub(super) fn order_failed(&mut self, block: u64, refused: RefuseReason, why: Why) {
        let now = self.clock.now().monotonic;
        let linger = self.linger();
        let Some(order) = self.order_of(block) else {
            return;
        };
        order.outcome.failure = Some(why);
        let is_told = matches!(refused, RefuseReason::Unknown) && order.wants_report;
        order.fails_at = Some(match is_told {
            true => now + linger,
            false => now,
        });
        self.detach_outward(block);
        self.remove(block);
    }

    /// The life of a file ended before the next hop had it, or no hop takes it; false when the block is no file that is sent here.
    pub(super) fn order_expired(&mut self, block: u64) -> bool {
        let now = self.clock.now().monotonic;
        let Some(order) = self.order_of(block) else {
            return false;
        };
        order.outcome.failure = Some(Why::TooLate);
        order.fails_at = Some(now);
        self.stop(block, RefuseReason::Unknown);
        true
    }

    /// A report of an engine came. Only the destination knows that a file is there, and says so of all its octets.
    pub(super) fn reported(&mut self, by: Option<u64>, report: &EndReport) {
        let now = self.clock.now();
        let mut orders = self.orders.iter_mut();
        let order = orders.find(|it| it.transfer == report.transfer && !it.is_over);
        let is_credible = |order: &OrderState| match report.status {
            Status::Complete => {
                by == Some(order.destination) && covers(&report.claims, order.outcome.octets)
            }
            Status::Partial => by == Some(order.destination),
            Status::Expired
            | Status::NoRoute
            | Status::NoSpace
            | Status::TooLarge
            | Status::GivenUp => true,
        };
        if order.as_deref().is_some_and(|it| !is_credible(it)) {
            let (by, transfer) = (by.unwrap_or(0), report.transfer);
            self.note_once_a_while(now, || {
                format!("a report of engine {by} about transfer {transfer} is not believed: it is not of the destination, or not about the whole file")
            });
            return;
        }
        let now = now.monotonic;
        if let Some(order) = order {
            order.outcome.end = Some((report.clone(), now.since(order.began)));
            let by = by.unwrap_or(0);
            let status = report.status;
            let is_there = status == Status::Complete;
            order.outcome.failure = (!is_there).then_some(Why::Reported { by, status });
        }
    }

    /// The sender ends: all files that are not over have failed.
    pub(super) fn end_orders(&mut self) {
        for order in self.orders.iter_mut().filter(|it| !it.is_over) {
            order.is_over = true;
            order.has_failed = true;
            let outcome = &mut order.outcome;
            let why = match outcome.hop {
                Some(_) => Why::NotAwaited,
                None => Why::Ended,
            };
            let failure = outcome.failure.take().or(Some(why));
            let end = outcome.end.take();
            let outcome = Outcome {
                failure,
                end,
                ..*outcome
            };
            self.watch.hear(Told::Ended(outcome));
        }
    }

    /// Tell how far the files are.
    pub(super) fn tell_progress(&mut self) {
        if self.orders.is_empty() {
            return;
        }
        let is_with_hop = |it: &&OrderState| it.outcome.hop.is_some();
        let there = self.orders.iter().filter(is_with_hop);
        let there: u64 = there.map(|it| it.outcome.octets).sum();
        let leaving = self.blocks.values().filter_map(|block| {
            let outward = block.outward.filter(|_| block.order.is_some())?;
            let neighbour = self.neighbours.get(&outward.peer)?;
            neighbour.engine.progress(outward.transfer)
        });
        let (sent, claimed) = leaving.fold((there, there), |sum, it| {
            let sent = sum.0.saturating_add(it.sent);
            (sent, sum.1.saturating_add(it.claimed))
        });
        self.watch.hear(Told::Progress(sent, claimed));
    }

    /// Tell of files that are over; the end, once all are.
    pub(super) fn end_of_orders(&mut self) -> Option<End> {
        let now = self.clock.now().monotonic;
        let mut ended = Vec::new();
        for order in self.orders.iter_mut().filter(|it| !it.is_over) {
            let outcome = &mut order.outcome;
            let is_late = order.fails_at.is_some_and(|at| at <= now);
            let has_failed = outcome.failure.is_some() && order.fails_at.is_none();
            let is_hop_over = outcome.hop.is_some() || outcome.failure.is_some();
            let is_done = (outcome.end.is_some() && is_hop_over)
                || (outcome.hop.is_some() && !order.wants_report);
            if !(is_done || is_late || has_failed) {
                continue;
            }
            order.is_over = true;
            if !is_done && outcome.failure.is_none() {
                outcome.failure = Some(Why::NoReport);
            }
            order.has_failed = outcome.failure.is_some();
            ended.push(Outcome {
                end: outcome.end.take(),
                failure: outcome.failure.take(),
                ..*outcome
            });
        }
        for outcome in ended {
            self.watch.hear(Told::Ended(outcome));
        }
        let is_all = !self.orders.is_empty() && self.orders.iter().all(|it| it.is_over);
        let has_failed = self.orders.iter().any(|it| it.has_failed);
        is_all.then_some(match has_failed {
            true => End::Failed,
            false => End::Done,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_without_a_gap_and_an_end_beyond_cover_a_file() {
        assert!(covers(&[(0, 9)], 9) && covers(&[(4, 5), (0, 4)], 9));
        for parts in [
            &[][..],
            &[(0, 8)],
            &[(1, 8)],
            &[(0, 4), (5, 4)],
            &[(0, 10)],
            &[(0, 4), (u64::MAX, 9)],
        ] {
            assert!(!covers(parts, 9), "{parts:?}");
        }
        assert!(!covers(&[(0, u64::MAX), (1, u64::MAX)], 9));
    }
}
