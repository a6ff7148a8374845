//! Memory that all clients share: who needs some waits until there is room, and who asked first is first.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Room for so many octets.
#[derive(Debug)]
pub struct Room {
    octets_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    next: u64,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    octets: usize,
    granted: SyncSender<()>,
}

/// A part of a room, which is given back when this is dropped.
#[derive(Debug)]
pub struct Held {
    room: Arc<Room>,
    octets: usize,
}

impl Room {
    /// Room for so many octets.
    pub fn new(octets_max: usize) -> Arc<Self> {
        Arc::new(Self {
            octets_max,
            state: Mutex::default(),
        })
    }

    /// Takes a part, all of the room at most, and waits until it is there: for ever, or as long as `patience` says.
    pub fn take(self: &Arc<Self>, octets: usize, patience: Option<Duration>) -> Option<Held> {
        let octets = octets.min(self.octets_max);
        let held = |room: &Arc<Self>| Held {
            room: Arc::clone(room),
            octets,
        };
        let (number, grant) = match self.ask(octets) {
            None => return Some(held(self)),
            Some(asked) => asked,
        };
        let is_granted = match patience {
            None => grant.recv().is_ok(),
            Some(patience) => grant.recv_timeout(patience).is_ok(),
        };
        if is_granted || self.take_back(number, &grant) {
            return Some(held(self));
        }
        None
    }

    /// Somebody waits.
    pub fn is_wanted(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// Takes what is there; else who asks waits, under a number, for a word.
    fn ask(&self, octets: usize) -> Option<(u64, Receiver<()>)> {
        let mut state = self.lock();
        if state.waiting.is_empty() && state.used + octets <= self.octets_max {
            state.used += octets;
            return None;
        }
        let (granted, grant) = mpsc::sync_channel(1);
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(Waiting {
            number,
            octets,
            granted,
        });
        Some((number, grant))
    }

    /// Who waited does not wait any more; true where the room was given just now.
    fn take_back(&self, number: u64, grant: &Receiver<()>) -> bool {
        let mut state = self.lock();
        if grant.try_recv().is_ok() {
            return true;
        }
        state.waiting.retain(|waiting| waiting.number != number);
        self.give(&mut state);
        false
    }

    /// Gives what is there to those who wait, the first one first.
    fn give(&self, state: &mut State) {
        while let Some(first) = state.waiting.front() {
            if state.used + first.octets > self.octets_max {
                return;
            }
            state.used += first.octets;
            // Who waits takes itself out before it goes.
            let _ = first.granted.send(());
            state.waiting.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// How much it is.
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
        let mut state = self.room.lock();
        state.used = state.used.saturating_sub(octets);
        self.room.give(&mut state);
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

    #[test]
    fn who_asked_first_gets_room_first_and_who_gives_up_holds_up_nobody() {
        let room = Room::new(10);
        let mut all = room.take(100, None).unwrap();
        assert_eq!(all.octets(), 10);
        assert!(room.take(1, Some(Duration::ZERO)).is_none());
        let (sender, done) = mpsc::channel();
        std::thread::scope(|scope| {
            for (octets, name) in [(8, "large"), (2, "small"), (1, "last")] {
                let before = room.lock().waiting.len();
                let (room, sender) = (Arc::clone(&room), sender.clone());
                scope.spawn(move || {
                    let held = room.take(octets, None);
                    sender.send((name, held)).unwrap();
                });
                while room_of(&all).lock().waiting.len() == before {
                    std::thread::yield_now();
                }
            }
            // Room for the small one, and the large one is first.
            all.shrink(7);
            let none = done.recv_timeout(Duration::from_millis(20));
            assert!(none.is_err());
            drop(all);
            let mut came: Vec<_> = (0..2).map(|_| done.recv().unwrap()).collect();
            came.sort_by_key(|(name, _)| *name);
            assert_eq!([came[0].0, came[1].0], ["large", "small"]);
            drop(came);
            assert_eq!(done.recv().unwrap().0, "last");
        });
        assert_eq!(room.lock().used, 0);
    }

    fn room_of(held: &Held) -> Arc<Room> {
        Arc::clone(&held.room)
    }
}
