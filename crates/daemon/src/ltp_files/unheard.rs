//! Datagrams that nobody hears, since they are not authentic: they are counted, and told of once in a while.

use std::collections::BTreeMap;
use std::time::Duration;

use dhow_bundle::Instant;

use super::peer::PeerId;

/// Engines that are counted each by itself; those of all others are one number.
const MAX_ENGINES: usize = 8;

/// The time between two tellings: strangers make no flood of them.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Datagrams that were not authentic and are not told of yet.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    counts: BTreeMap<PeerId, u64>,
    others: u64,
    told: Option<Instant>,
}

impl Unheard {
    /// So many datagrams that say that they are of an engine were dropped.
    pub(super) fn count(&mut self, id: PeerId, datagrams: usize) {
        let datagrams = u64::try_from(datagrams).unwrap_or(u64::MAX);
        let is_new = !self.counts.contains_key(&id);
        let count = match is_new && self.counts.len() >= MAX_ENGINES {
            true => &mut self.others,
            false => self.counts.entry(id).or_default(),
        };
        *count = count.saturating_add(datagrams);
    }

    /// The words about all of them, when it is time.
    pub(super) fn tell(&mut self, now: Instant) -> Vec<String> {
        let is_early = |at: Instant| now.since(at) < TELL_EVERY;
        if self.counts.is_empty() || self.told.is_some_and(is_early) {
            return Vec::new();
        }
        self.told = Some(now);
        let counts = std::mem::take(&mut self.counts).into_iter();
        let mut words: Vec<_> = counts
            .map(|(id, count)| {
                let PeerId { host, engine } = id;
                let datagrams = datagrams(count);
                format!("{datagrams} of engine {engine} at {host} failed authentication: its --key does not fit the one here")
            })
            .collect();
        let others = std::mem::take(&mut self.others);
        if others > 0 {
            words.push(format!(
                "{} of other engines failed authentication",
                datagrams(others)
            ));
        }
        words
    }
}

fn datagrams(count: u64) -> String {
    match count {
        1 => "1 datagram".to_owned(),
        count => format!("{count} datagrams"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_told_of_by_name_up_to_a_bound_and_once_in_a_while() {
        let id = |engine| PeerId {
            host: [192, 0, 2, 1].into(),
            engine,
        };
        let mut unheard = Unheard::default();
        let start = Instant::START;
        assert_eq!(unheard.tell(start), [""; 0]);
        unheard.count(id(7), 1);
        assert_eq!(
            unheard.tell(start),
            [
                "1 datagram of engine 7 at 192.0.2.1 failed authentication: its --key does not fit the one here"
            ]
        );
        for engine in 0..20 {
            unheard.count(id(engine), 2);
        }
        let soon = start + (TELL_EVERY - Duration::from_nanos(1));
        assert_eq!(unheard.tell(soon), [""; 0]);
        let told = unheard.tell(start + TELL_EVERY);
        assert_eq!(told.len(), MAX_ENGINES + 1);
        assert!(told[0].starts_with("2 datagrams of engine 0 at "));
        assert_eq!(
            told[MAX_ENGINES],
            "24 datagrams of other engines failed authentication"
        );
        assert_eq!(unheard.tell(start + 2 * TELL_EVERY), [""; 0]);
    }
}
