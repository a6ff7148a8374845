//! Packets that wait until the node has taken those before them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Octets of packets that wait, at most: of more the oldest go, so that a connection inside sees loss rather than a long queue.
const OCTETS_MAX: usize = 1 << 20;

/// Packets that wait, at most.
const PACKETS_MAX: usize = 1_024;

/// Packets that wait, between the thread that reads the device and the one that sends.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    packets: VecDeque<Vec<u8>>,
    octets: usize,
    dropped: u64,
    /// The device gives no more.
    broken: Option<io::Error>,
}

/// Packets that leave together.
#[derive(Debug, Default)]
pub struct Batch {
    /// The packets, one behind the other.
    pub octets: Vec<u8>,
    /// The number of packets.
    pub packets: u64,
}

impl Queue {
    /// A packet came from the device.
    pub fn push(&self, packet: &[u8]) {
        let mut state = self.state();
        state.octets += packet.len();
        state.packets.push_back(packet.to_vec());
        while state.octets > OCTETS_MAX || state.packets.len() > PACKETS_MAX {
            let Some(oldest) = state.packets.pop_front() else {
                break;
            };
            state.octets -= oldest.len();
            state.dropped += 1;
        }
        self.changed.notify_one();
    }

    /// A packet came that the other end could not tell from the next.
    pub fn drop_unreadable(&self) {
        self.state().dropped += 1;
    }

    /// The device gives no more packets.
    pub fn close(&self, why: io::Error) {
        self.state().broken = Some(why);
        self.changed.notify_one();
    }

    /// The packets that wait, of which one at least and so many octets at most; waits for the first for a while.
    ///
    /// # Errors
    /// Why the device gives no more.
    pub fn take(&self, octets_max: usize, wait: Duration) -> io::Result<Batch> {
        let mut state = self.state();
        if state.packets.is_empty() && state.broken.is_none() {
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut batch = Batch::default();
        while let Some(packet) = state.packets.front() {
            if batch.packets > 0 && batch.octets.len() + packet.len() > octets_max {
                break;
            }
            batch.octets.extend_from_slice(packet);
            batch.packets += 1;
            state.octets -= packet.len();
            state.packets.pop_front();
        }
        match state.broken.take() {
            Some(error) if batch.packets == 0 => Err(error),
            broken => {
                state.broken = broken;
                Ok(batch)
            }
        }
    }

    /// Packets for which there was no room, or that the other end could not read.
    pub fn dropped(&self) -> u64 {
        self.state().dropped
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_leaves_together_and_the_oldest_goes_where_there_is_no_room() {
        let queue = Queue::default();
        for number in 0..10 {
            queue.push(&[number; 100]);
        }
        let batch = queue.take(350, Duration::ZERO).unwrap();
        assert_eq!((batch.packets, batch.octets.len()), (3, 300));
        // One larger than the bound leaves alone.
        let batch = queue.take(10, Duration::ZERO).unwrap();
        assert_eq!(batch.octets, [3; 100]);
        let batch = queue.take(usize::MAX, Duration::ZERO).unwrap();
        assert_eq!(batch.packets, 6);
        assert_eq!(queue.take(1, Duration::ZERO).unwrap().packets, 0);
        for _ in 0..PACKETS_MAX + 5 {
            queue.push(&[1]);
        }
        assert_eq!(queue.dropped(), 5);
        for _ in 0..OCTETS_MAX / 60_000 + 1 {
            queue.push(&[2; 60_000]);
        }
        let batch = queue.take(usize::MAX, Duration::ZERO).unwrap();
        assert!(batch.octets.len() <= OCTETS_MAX && batch.octets.ends_with(&[2]));
        queue.push(&[1]);
        queue.close(io::Error::other("gone"));
        assert_eq!(queue.take(9, Duration::ZERO).unwrap().packets, 1);
        assert!(queue.take(9, Duration::ZERO).is_err());
    }
}
