//! Chunks that the node refused for want of room, until it takes them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// First and largest pause before the node is asked again.
const PAUSE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// A chunk as it is sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its number.
    pub number: u64,
    /// Octets without its header.
    pub octets: u64,
    /// The payload of its bundle.
    pub payload: Vec<u8>,
}

/// Chunks for which the node had no room. Those that are under way are answered before one of these is sent, the first of them alone.
#[derive(Debug)]
pub struct Unsent {
    chunks: BTreeMap<u64, Chunk>,
    /// Since when the node has had no room.
    since: Option<Instant>,
    pause: Duration,
    /// The time at which the node is asked again.
    due: Option<Instant>,
}

/// A change that people are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// All is as it was.
    Nothing,
    /// The node has no room, or has room again.
    Change,
}

impl Default for Unsent {
    fn default() -> Self {
        let [pause, _] = PAUSE;
        Self {
            chunks: BTreeMap::new(),
            since: None,
            pause,
            due: None,
        }
    }
}

impl Unsent {
    /// The node had no room for a chunk.
    pub fn refused(&mut self, now: Instant, chunk: Chunk) -> Told {
        self.chunks.insert(chunk.number, chunk);
        let told = match self.since {
            Some(_) => Told::Nothing,
            None => Told::Change,
        };
        self.since.get_or_insert(now);
        if self.due.is_none() {
            self.due = Some(now + self.pause);
            let [_, largest] = PAUSE;
            self.pause = (self.pause * 2).min(largest);
        }
        told
    }

    /// The node took a chunk: what it refused is sent again at once.
    pub fn taken(&mut self, now: Instant) -> Told {
        [self.pause, _] = PAUSE;
        self.due = self.due.map(|_| now);
        match self.since.take() {
            Some(_) => Told::Change,
            None => Told::Nothing,
        }
    }

    /// True where every chunk that was sent is the node's, or under way.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The time for which the node has had no room.
    pub fn waited(&self, now: Instant) -> Duration {
        self.since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// The chunk to send again, if its time has come; otherwise the time until then.
    pub fn poll(&mut self, now: Instant) -> Result<Option<Chunk>, Duration> {
        match self.due.filter(|due| *due > now) {
            Some(due) => Err(due.saturating_duration_since(now)),
            None => {
                self.due = None;
                Ok(self.chunks.pop_first().map(|(_, chunk)| chunk))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(number: u64) -> Chunk {
        Chunk {
            number,
            octets: 0,
            payload: Vec::new(),
        }
    }

    #[test]
    fn chunks_are_sent_again_in_order_and_less_and_less_often() {
        let [first, largest] = PAUSE;
        let mut now = Instant::now();
        let mut unsent = Unsent::default();
        assert_eq!(unsent.poll(now), Ok(None));
        assert_eq!(unsent.refused(now, chunk(5)), Told::Change);
        assert_eq!(unsent.refused(now, chunk(6)), Told::Nothing);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let pause = unsent.poll(now).unwrap_err();
            pauses.push(pause);
            now += pause;
            assert_eq!(unsent.poll(now), Ok(Some(chunk(5))));
            assert_eq!(unsent.refused(now, chunk(5)), Told::Nothing);
        }
        assert_eq!(pauses[..3], [first, first * 2, first * 4]);
        assert_eq!(pauses[7], largest);
        assert_eq!(unsent.waited(now), pauses.iter().sum::<Duration>());
    }

    #[test]
    fn once_the_node_takes_one_the_others_follow_at_once() {
        let now = Instant::now();
        let mut unsent = Unsent::default();
        for number in [7, 8, 9] {
            unsent.refused(now, chunk(number));
        }
        let later = now + PAUSE[0];
        assert_eq!(unsent.poll(later), Ok(Some(chunk(7))));
        assert_eq!(unsent.taken(later), Told::Change);
        assert_eq!(unsent.waited(later), Duration::ZERO);
        assert_eq!(unsent.poll(later), Ok(Some(chunk(8))));
        assert_eq!(unsent.taken(later), Told::Nothing);
        assert_eq!(unsent.poll(later), Ok(Some(chunk(9))));
        assert!(unsent.is_empty());
        // One that was under way is refused after another was taken.
        assert_eq!(unsent.refused(later, chunk(10)), Told::Change);
        assert_eq!(unsent.taken(later), Told::Change);
        assert_eq!(unsent.poll(later), Ok(Some(chunk(10))));
    }
}
