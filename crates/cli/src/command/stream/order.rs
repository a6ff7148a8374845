//! Chunks that come in any order, given out in order: those that are early are held, within bounds.

use std::collections::BTreeMap;

/// Chunks held, at most: half of the deliveries that may be unconfirmed, so that others always come.
const HELD: usize = 512;

/// Octets held, at most.
const HELD_OCTETS: usize = 64 << 20;

/// Chunks of one stream, each with a token of the caller's.
#[derive(Debug)]
pub struct Order<T> {
    next: u64,
    held: BTreeMap<u64, (Vec<u8>, T)>,
    octets: usize,
}

/// The outcome of placing a chunk, with the tokens of chunks that the caller is to confirm or decline.
#[derive(Debug, PartialEq, Eq)]
pub enum Placed<T> {
    /// The chunk came before.
    Repeat(T),
    /// The chunk is held, and there was no room for others that are later than it.
    Held(Vec<T>),
    /// The chunk is too early, and there is no room for it.
    Declined(T),
}

impl<T> Order<T> {
    /// The chunk of this number is the next.
    pub const fn from(next: u64) -> Self {
        Self {
            next,
            held: BTreeMap::new(),
            octets: 0,
        }
    }

    /// The number of the next chunk.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Puts a chunk where it belongs.
    pub fn place(&mut self, number: u64, chunk: Vec<u8>, token: T) -> Placed<T> {
        if number < self.next || self.held.contains_key(&number) {
            return Placed::Repeat(token);
        }
        let mut declined = Vec::new();
        // The next one is given out at once.
        while number != self.next
            && (self.held.len() >= HELD || self.octets.saturating_add(chunk.len()) > HELD_OCTETS)
        {
            match self.held.last_key_value() {
                Some((last, _)) if *last > number => {
                    let Some((_, (octets, token))) = self.held.pop_last() else {
                        break;
                    };
                    self.octets = self.octets.saturating_sub(octets.len());
                    declined.push(token);
                }
                _ => return Placed::Declined(token),
            }
        }
        self.octets = self.octets.saturating_add(chunk.len());
        self.held.insert(number, (chunk, token));
        Placed::Held(declined)
    }

    /// The next chunk, if it is there.
    pub fn poll(&mut self) -> Option<(Vec<u8>, T)> {
        let (chunk, token) = self.held.remove(&self.next)?;
        self.octets = self.octets.saturating_sub(chunk.len());
        self.next = self.next.saturating_add(1);
        Some((chunk, token))
    }

    /// The number of the first chunk that is held.
    pub fn first_held(&self) -> Option<u64> {
        self.held.first_key_value().map(|(number, _)| *number)
    }

    /// Forgets all chunks that are held: they come again.
    pub fn forget(&mut self) {
        self.held.clear();
        self.octets = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of all chunks that are given out.
    fn drain(order: &mut Order<u64>) -> Vec<u64> {
        std::iter::from_fn(|| order.poll().map(|(_, token)| token)).collect()
    }

    #[test]
    fn chunks_are_given_out_in_order_and_once() {
        let mut order = Order::from(0);
        let mut out = Vec::new();
        for number in [2, 0, 2, 1, 1, 0, 4, 5, 3, 4] {
            let is_repeat = out.contains(&number) || order.held.contains_key(&number);
            let placed = order.place(number, vec![7; 9], number);
            assert_eq!(placed == Placed::Repeat(number), is_repeat);
            out.extend(drain(&mut order));
        }
        assert_eq!(out, [0, 1, 2, 3, 4, 5]);
        assert_eq!((order.octets, order.next()), (0, 6));
    }

    #[test]
    fn of_more_than_can_be_held_the_latest_are_declined() {
        let mut order = Order::from(0);
        let bound = u64::try_from(HELD).unwrap();
        for number in 1..=bound {
            assert_eq!(order.place(number, vec![], number), Placed::Held(vec![]));
        }
        assert_eq!(order.first_held(), Some(1));
        let late = order.place(bound + 1, vec![], 99_999);
        assert_eq!(late, Placed::Declined(99_999));
        order.held.remove(&5);
        order.place(bound + 7, vec![], bound + 7);
        assert_eq!(order.place(5, vec![], 5), Placed::Held(vec![bound + 7]));
        // The one that all others wait for is taken however much is held.
        assert_eq!(order.place(0, vec![], 0), Placed::Held(vec![]));
        assert_eq!(drain(&mut order), (0..=bound).collect::<Vec<_>>());
    }

    #[test]
    fn of_more_octets_than_can_be_held_the_latest_are_declined() {
        let mut order = Order::from(0);
        let quarter = || vec![0; HELD_OCTETS / 4];
        for number in 2..=5 {
            assert_eq!(order.place(number, quarter(), number), Placed::Held(vec![]));
        }
        assert_eq!(order.place(6, vec![0], 6), Placed::Declined(6));
        assert_eq!(order.place(1, vec![0], 1), Placed::Held(vec![5]));
        assert_eq!(order.octets, HELD_OCTETS / 4 * 3 + 1);
        order.forget();
        assert_eq!((order.octets, order.poll()), (0, None));
        assert_eq!(order.place(1, vec![0], 1), Placed::Held(vec![]));
    }
}
