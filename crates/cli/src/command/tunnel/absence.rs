//! The time for which a node is away.

use std::time::{Duration, Instant};

/// Watches for a node that does not come back.
#[derive(Debug, Default)]
pub struct Absence {
    since: Option<Instant>,
}

/// The outcome of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The node is there as before, or away as before.
    Same,
    /// The node has gone.
    Gone,
    /// The node is back.
    Back,
    /// The node has been away for longer than it may.
    TooLong,
}

impl Absence {
    /// Looks at whether the node is away, where it may be for so long.
    pub fn look(&mut self, now: Instant, is_away: bool, patience: Duration) -> Seen {
        match (self.since, is_away) {
            (None, false) => Seen::Same,
            (None, true) => {
                self.since = Some(now);
                Seen::Gone
            }
            (Some(_), false) => {
                self.since = None;
                Seen::Back
            }
            (Some(since), true) => match now.saturating_duration_since(since) > patience {
                true => Seen::TooLong,
                false => Seen::Same,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_away_for_too_long_is_told_from_one_that_comes_back() {
        let patience = Duration::from_secs(60);
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut absence = Absence::default();
        for (seconds, is_away, seen) in [
            (0, false, Seen::Same),
            (1, true, Seen::Gone),
            (61, true, Seen::Same),
            (62, false, Seen::Back),
            (63, false, Seen::Same),
            (64, true, Seen::Gone),
            (124, true, Seen::Same),
            (125, true, Seen::TooLong),
        ] {
            assert_eq!(
                absence.look(at(seconds), is_away, patience),
                seen,
                "{seconds}"
            );
        }
    }
}
