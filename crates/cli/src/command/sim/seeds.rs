//! Seeds that run beside each other, on as many threads as there is room for, and are told in their order.
//!
//! The results are told as one thread would have told them: workers run ahead of the order by a bounded number of seeds, and where a
//! seed ends all, those after it are dropped, whether they have run or not.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use dhow_sim::run::Progress;

use crate::failure::Failure;

/// Seeds that each worker may be ahead of the one that is told next: what has come of them waits in memory.
const AHEAD_EACH: u64 = 4;

/// Seeds that are to be run.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// Number of seeds.
    pub count: u64,
    /// Number of seeds that run at once.
    pub jobs: u64,
    /// The time between two looks at their progress.
    pub look_every: Duration,
}

/// The caller's side: it runs seeds, and says when they are to end. Seeds are counted from 0.
pub trait Runner: Sync {
    /// The result of a seed.
    type Ran: Send;

    /// Runs one; it may end early as soon as it is not wanted any more.
    fn run(&self, number: u64, post: &Post<'_, Self::Ran>) -> Result<Self::Ran, Failure>;

    /// Whether no seed after one of which this came is wanted.
    fn is_last(&self, ran: &Self::Ran) -> bool;

    /// Whether no further seed is to begin, and those under way are to end.
    fn is_stopped(&self) -> bool;
}

/// The progress of all seeds.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Seeds that have run to their end.
    pub done: u64,
    /// Seeds under way, in order, and how far each is.
    pub under_way: Vec<(u64, Progress)>,
}

/// A worker's place, from which it tells how far it is.
#[derive(Debug)]
pub struct Post<'a, T> {
    desk: &'a Desk<T>,
    number: u64,
}

impl<T> Post<'_, T> {
    /// So far it is; false where the seed is not wanted any more.
    pub fn tell(&self, progress: Progress) -> bool {
        let mut state = self.desk.state();
        state.under_way.insert(self.number, progress);
        self.number < state.end
    }
}

/// State that workers share with the thread that tells of their results.
#[derive(Debug)]
struct Desk<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// The next to begin.
    next: u64,
    /// The next to be told.
    told: u64,
    /// None from here on is wanted.
    end: u64,
    under_way: BTreeMap<u64, Progress>,
    done: BTreeMap<u64, Result<T, Failure>>,
}

impl<T> Desk<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next seed to run, as soon as it is not too far ahead.
    fn begin(&self, ahead: u64, is_stopped: &dyn Fn() -> bool) -> Option<u64> {
        let mut state = self.state();
        loop {
            let number = state.next;
            if number >= state.end || is_stopped() {
                return None;
            }
            if number < state.told.saturating_add(ahead) {
                state.next += 1;
                return Some(number);
            }
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A seed has run.
    fn finish(&self, number: u64, ran: Result<T, Failure>, is_last: bool) {
        let mut state = self.state();
        state.under_way.remove(&number);
        state.done.insert(number, ran);
        if is_last {
            state.end = state.end.min(number + 1);
        }
        self.changed.notify_all();
    }

    /// The result of the next seed in order; none after the last.
    fn take(
        &self,
        look_every: Duration,
        is_stopped: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(&Standing),
    ) -> Option<Result<T, Failure>> {
        let mut state = self.state();
        loop {
            if is_stopped() {
                state.end = state.end.min(state.next);
                self.changed.notify_all();
            }
            let told = state.told;
            if told >= state.end {
                return None;
            }
            if let Some(ran) = state.done.remove(&told) {
                state.told += 1;
                self.changed.notify_all();
                return Some(ran);
            }
            let standing = Standing {
                done: told + u64::try_from(state.done.len()).unwrap_or(u64::MAX),
                under_way: state.under_way.iter().map(|(at, it)| (*at, *it)).collect(),
            };
            drop(state);
            watch(&standing);
            let waited = self.changed.wait_timeout(self.state(), look_every);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// No seed is wanted any more.
    fn close(&self) {
        self.state().end = 0;
        self.changed.notify_all();
    }
}

/// Closes the desk of a thread that panics, so that no other waits for it for ever.
struct ClosesInPanic<'a, T>(&'a Desk<T>);

impl<T> Drop for ClosesInPanic<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.close();
        }
    }
}

impl Seeds {
    /// Runs them, tells the result of each in order, and, between, the progress of all.
    ///
    /// # Errors
    /// The failure of the first seed that could not be run, or of `tell`.
    pub fn run<R: Runner>(
        &self,
        runner: &R,
        mut watch: impl FnMut(&Standing),
        mut tell: impl FnMut(R::Ran) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let desk = Desk {
            state: Mutex::new(State {
                next: 0,
                told: 0,
                end: self.count,
                under_way: BTreeMap::new(),
                done: BTreeMap::new(),
            }),
            changed: Condvar::new(),
        };
        let jobs = self.jobs.min(self.count);
        let work = || {
            let _closing = ClosesInPanic(&desk);
            let ahead = jobs.saturating_mul(AHEAD_EACH);
            while let Some(number) = desk.begin(ahead, &|| runner.is_stopped()) {
                let post = Post {
                    desk: &desk,
                    number,
                };
                let ran = runner.run(number, &post);
                let is_last = ran.as_ref().map_or(true, |ran| runner.is_last(ran));
                desk.finish(number, ran, is_last);
            }
        };
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(work);
            }
            let mut told = || {
                let is_stopped = || runner.is_stopped();
                while let Some(ran) = desk.take(self.look_every, &is_stopped, &mut watch) {
                    tell(ran?)?;
                }
                Ok(())
            };
            let told = told();
            desk.close();
            told
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    /// Seeds of which one ends only when it is told so by another, and some are the last.
    struct Script {
        /// The first waits for the second.
        waits: Option<(u64, u64)>,
        last: Vec<u64>,
        begun: AtomicU64,
        finished: Mutex<Vec<u64>>,
        changed: Condvar,
        stopped: AtomicBool,
    }

    impl Script {
        fn new(waits: Option<(u64, u64)>, last: &[u64]) -> Self {
            Self {
                waits,
                last: last.to_vec(),
                begun: AtomicU64::new(0),
                finished: Mutex::default(),
                changed: Condvar::new(),
                stopped: AtomicBool::new(false),
            }
        }

        fn told(&self, count: u64, jobs: u64) -> Vec<u64> {
            let seeds = Seeds {
                count,
                jobs,
                look_every: Duration::from_millis(1),
            };
            let mut told = Vec::new();
            let ended = seeds.run(
                self,
                |_| (),
                |number| {
                    told.push(number);
                    Ok(())
                },
            );
            ended.expect("all can be run");
            told
        }
    }

    impl Runner for Script {
        type Ran = u64;

        fn run(&self, number: u64, _: &Post<'_, u64>) -> Result<u64, Failure> {
            self.begun.fetch_max(number, Ordering::Relaxed);
            let mut finished = self.finished.lock().expect("nobody panics");
            if let Some((waiting, awaited)) = self.waits
                && waiting == number
            {
                let waited = |finished: &mut Vec<u64>| !finished.contains(&awaited);
                finished = (self.changed.wait_while(finished, waited)).expect("nobody panics");
            }
            finished.push(number);
            self.changed.notify_all();
            Ok(number)
        }

        fn is_last(&self, ran: &u64) -> bool {
            self.last.contains(ran)
        }

        fn is_stopped(&self) -> bool {
            self.stopped.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn seeds_are_told_in_order_whichever_ends_first() {
        let script = Script::new(Some((0, 3)), &[]);
        assert_eq!(script.told(20, 4), (0..20).collect::<Vec<_>>());
        assert_eq!(script.finished.lock().expect("it is there").len(), 20);
    }

    #[test]
    fn the_first_in_order_that_ends_all_is_told_last_though_a_later_one_ended_first() {
        let script = Script::new(Some((2, 5)), &[2, 5]);
        assert_eq!(script.told(1_000, 4), [0, 1, 2]);
        assert!(script.begun.load(Ordering::Relaxed) < 50);
    }

    #[test]
    fn seeds_that_wait_to_be_told_are_few() {
        // The first ends when the last does that may begin before it is told.
        let ahead = 2 * AHEAD_EACH;
        let script = Script::new(Some((0, ahead - 1)), &[0]);
        assert_eq!(script.told(1_000, 2), [0]);
        assert_eq!(script.begun.load(Ordering::Relaxed), ahead - 1);
    }

    #[test]
    fn seeds_under_way_are_told_and_no_others_begin_when_it_is_stopped() {
        let script = Script::new(None, &[]);
        script.stopped.store(true, Ordering::Relaxed);
        let told = script.told(1_000_000, 3);
        let begun = script.begun.load(Ordering::Relaxed);
        assert!(told.is_empty() || told == (0..=begun).collect::<Vec<_>>());
        assert!(told.len() < 1_000, "{}", told.len());
    }
}
