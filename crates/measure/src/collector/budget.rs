//! Memory that all clients share: a client that needs some waits until there is room, and the first to ask is the first to get it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Room for so many octets.
#[derive(Debug)]
pub struct Budget {
    octets_max: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// The number of times that room was waited for, and that it was then given.
    asked: u64,
    given: u64,
}

/// A part of a room, which is given back when this is dropped.
#[derive(Debug)]
pub struct Held {
    room: Arc<Budget>,
    octets: usize,
}

impl Budget {
    /// Room for so many octets.
    pub fn new(octets_max: usize) -> Arc<Self> {
        Arc::new(Self {
            octets_max,
            state: Mutex::default(),
            freed: Condvar::new(),
        })
    }

    /// Takes a part, all of the room at most, and waits until it is there. A holder of a part must not ask for another one.
    pub fn take(self: &Arc<Self>, octets: usize) -> Held {
        let octets = octets.min(self.octets_max);
        let mut state = self.lock();
        let turn = state.asked;
        state.asked += 1;
        while state.given != turn || state.used + octets > self.octets_max {
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.given += 1;
        state.used += octets;
        drop(state);
        // There may be room for the next one, too.
        self.freed.notify_all();
        self.held(octets)
    }

    /// Takes a part, where it is there now.
    pub fn try_take(self: &Arc<Self>, octets: usize) -> Option<Held> {
        let mut state = self.lock();
        if state.used + octets > self.octets_max {
            return None;
        }
        state.used += octets;
        drop(state);
        Some(self.held(octets))
    }

    /// Somebody waits.
    pub fn is_wanted(&self) -> bool {
        let state = self.lock();
        state.asked > state.given
    }

    fn held(self: &Arc<Self>, octets: usize) -> Held {
        Held {
            room: Arc::clone(self),
            octets,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Its octets.
    pub const fn octets(&self) -> usize {
        self.octets
    }

    /// Both together.
    pub fn join(&mut self, mut other: Self) {
        self.octets += std::mem::take(&mut other.octets);
    }

    /// Gives back what is more than so many octets.
    pub fn shrink(&mut self, octets: usize) {
        let less = self.octets.saturating_sub(octets);
        self.octets -= less;
        self.give_back(less);
    }

    fn give_back(&self, octets: usize) {
        if octets == 0 {
            return;
        }
        self.room.lock().used -= octets;
        self.room.freed.notify_all();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back(self.octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::mpsc;

    #[test]
    fn who_needs_room_waits_until_it_is_given_back() {
        let room = Budget::new(10);
        let mut all = room.take(100);
        assert_eq!(all.octets(), 10);
        assert!(room.try_take(1).is_none() && !room.is_wanted());
        let (sender, taken) = mpsc::channel();
        let small = sender.clone();
        std::thread::scope(|scope| {
            let room = &room;
            scope.spawn(move || sender.send(room.take(8)).unwrap());
            while !room.is_wanted() {
                std::thread::yield_now();
            }
            all.shrink(7);
            let mut other = room.try_take(1).unwrap();
            other.join(room.try_take(2).unwrap());
            assert_eq!(other.octets(), 3);
            drop(other);
            // A small request does not go before an earlier one.
            scope.spawn(move || small.send(room.take(1)).unwrap());
            while room.lock().asked < 3 {
                std::thread::yield_now();
            }
            assert!(taken.try_recv().is_err());
            drop(all);
            let mut octets = [(); 2].map(|()| taken.recv().unwrap().octets());
            octets.sort_unstable();
            assert_eq!(octets, [1, 8]);
        });
        assert_eq!(room.lock().used, 0);
    }
}
