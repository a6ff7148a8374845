//! Chunks that come in any order, given out in order: those that are early are held, within bounds.

use std::collections::BTreeMap;

/// Chunks held, at most: half of the deliveries that may be unconfirmed, so that others always come.
const HELD: usize = 512;

/// Octets held, at most.
const HELD_OCTETS: usize = 64 << 20;

/// The place at which a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The number of the next chunk: the one after the last that was written whole.
    pub next: u64,
    /// Octets of the next chunk that are written already.
    pub skip: u64,
}

/// Chunks of one stream, each with a token of the caller's.
#[derive(Debug)]
pub struct Order<T> {
    position: Position,
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

/// The next chunk has fewer octets than were written of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    /// Octets of the chunk.
    pub octets: usize,
}

impl<T> Order<T> {
    /// The stream goes on here.
    pub const fn from(position: Position) -> Self {
        Self {
            position,
            held: BTreeMap::new(),
            octets: 0,
        }
    }

    /// The place at which the stream goes on.
    pub const fn position(&self) -> Position {
        self.position
    }

    /// Puts a chunk where it belongs.
    pub fn place(&mut self, number: u64, chunk: Vec<u8>, token: T) -> Placed<T> {
        if number < self.position.next || self.held.contains_key(&number) {
            return Placed::Repeat(token);
        }
        let mut declined = Vec::new();
        // The next one is given out at once.
        while number != self.position.next
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

    /// The octets of the next chunk that are to be written, if it is there.
    pub fn unwritten(&self) -> Option<Result<&[u8], TooShort>> {
        let (chunk, _) = self.held.get(&self.position.next)?;
        let rest = (usize::try_from(self.position.skip).ok()).and_then(|skip| chunk.get(skip..));
        let octets = chunk.len();
        Some(rest.ok_or(TooShort { octets }))
    }

    /// So many octets more of the next chunk are written.
    pub fn wrote(&mut self, octets: usize) {
        let octets = u64::try_from(octets).unwrap_or(u64::MAX);
        self.position.skip = self.position.skip.saturating_add(octets);
    }

    /// The token of the next chunk, where all of it is written: the one after it is next.
    pub fn complete(&mut self) -> Option<T> {
        if !matches!(self.unwritten(), Some(Ok([]))) {
            return None;
        }
        let (chunk, token) = self.held.remove(&self.position.next)?;
        self.octets = self.octets.saturating_sub(chunk.len());
        self.position = Position {
            next: self.position.next.saturating_add(1),
            skip: 0,
        };
        Some(token)
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

    const BEGINNING: Position = Position { next: 0, skip: 0 };

    /// The tokens of all chunks that are written.
    fn drain(order: &mut Order<u64>) -> Vec<u64> {
        let mut tokens = Vec::new();
        while let Some(Ok(rest)) = order.unwritten() {
            let octets = rest.len();
            order.wrote(octets);
            tokens.extend(order.complete());
        }
        tokens
    }

    #[test]
    fn chunks_are_given_out_in_order_and_once() {
        let mut order = Order::from(BEGINNING);
        let mut out = Vec::new();
        for number in [2, 0, 2, 1, 1, 0, 4, 5, 3, 4] {
            let is_repeat = out.contains(&number) || order.held.contains_key(&number);
            let placed = order.place(number, vec![7; 9], number);
            assert_eq!(placed == Placed::Repeat(number), is_repeat);
            out.extend(drain(&mut order));
        }
        assert_eq!(out, [0, 1, 2, 3, 4, 5]);
        let position = Position { next: 6, skip: 0 };
        assert_eq!((order.octets, order.position()), (0, position));
    }

    #[test]
    fn of_more_than_can_be_held_the_latest_are_declined() {
        let mut order = Order::from(BEGINNING);
        let bound = u64::try_from(HELD).unwrap();
        for number in 1..=bound {
            assert_eq!(order.place(number, vec![], number), Placed::Held(vec![]));
        }
        assert_eq!(order.position(), BEGINNING);
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
        let mut order = Order::from(BEGINNING);
        let quarter = || vec![0; HELD_OCTETS / 4];
        for number in 2..=5 {
            assert_eq!(order.place(number, quarter(), number), Placed::Held(vec![]));
        }
        assert_eq!(order.place(6, vec![0], 6), Placed::Declined(6));
        assert_eq!(order.place(1, vec![0], 1), Placed::Held(vec![5]));
        assert_eq!(order.octets, HELD_OCTETS / 4 * 3 + 1);
        order.forget();
        assert_eq!((order.octets, order.unwritten()), (0, None));
        assert_eq!(order.place(1, vec![0], 1), Placed::Held(vec![]));
    }

    #[test]
    fn the_position_is_behind_what_is_written_however_much_is_held() {
        let mut order = Order::from(BEGINNING);
        for number in [0, 1, 3] {
            order.place(number, vec![7; 9], number);
        }
        assert_eq!(drain(&mut order), [0, 1]);
        assert_eq!(order.position(), Position { next: 2, skip: 0 });
        order.place(2, vec![1, 2, 3], 2);
        order.wrote(2);
        assert_eq!(order.complete(), None);
        assert_eq!(order.unwritten(), Some(Ok(&[3][..])));
        // The connection is lost, and the chunks come again; or another run goes on.
        order.forget();
        let position = order.position();
        assert_eq!(position, Position { next: 2, skip: 2 });
        for mut order in [order, Order::from(position)] {
            assert_eq!(order.place(1, vec![7; 9], 1), Placed::Repeat(1));
            order.place(2, vec![1, 2, 3], 2);
            assert_eq!(order.unwritten(), Some(Ok(&[3][..])));
            assert_eq!(drain(&mut order), [2]);
            assert_eq!(order.position(), Position { next: 3, skip: 0 });
        }
    }

    #[test]
    fn a_chunk_shorter_than_what_is_written_of_it_is_another_one() {
        let mut order = Order::from(Position { next: 4, skip: 3 });
        order.place(4, vec![1, 2], 4);
        assert_eq!(order.unwritten(), Some(Err(TooShort { octets: 2 })));
        assert_eq!(order.complete(), None);
        // All octets may be written, and the chunk not confirmed.
        let mut order = Order::from(Position { next: 4, skip: 2 });
        order.place(4, vec![1, 2], 4);
        assert_eq!(order.complete(), Some(4));
    }
}
