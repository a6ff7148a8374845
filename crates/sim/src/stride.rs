//! The number of things that happen between two looks at whether a run is still wanted.

use std::time::Duration;

/// The time between two looks that is aimed at, at most: a person does not notice it.
const LOOK: Duration = Duration::from_millis(50);

/// Events between two looks. Most take microseconds, and one in which a node is given much of a large payload takes
/// milliseconds, so their number follows from the time that the last ones took.
#[derive(Clone, Copy, Debug)]
pub struct Stride {
    events: u64,
    most: u64,
}

impl Stride {
    /// Few at first, and never more than so many.
    #[must_use]
    pub const fn new(most: u64) -> Self {
        Self { events: 1, most }
    }

    /// Events until the next look.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// The last ones took so long.
    pub fn adapt(&mut self, took: Duration) {
        self.events = match took {
            _ if took > LOOK => self.events / 2,
            _ if took < LOOK / 4 => self.events.saturating_mul(2),
            _ => self.events,
        }
        .clamp(1, self.most.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_grows_while_events_are_quick_and_shrinks_when_they_are_not() {
        let mut stride = Stride::new(100);
        let mut after = |took_ms| {
            stride.adapt(Duration::from_millis(took_ms));
            stride.events()
        };
        assert_eq!([0, 0, 12, 13, 50].map(&mut after), [2, 4, 8, 8, 8]);
        assert_eq!([51, 51, 51, 51, 51].map(&mut after), [4, 2, 1, 1, 1]);
        assert_eq!([1; 8].map(after)[7], 100);
    }
}
