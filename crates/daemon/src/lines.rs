//! A bound on log lines of one kind: neighbours can provoke any number of them, and a log must stay readable.

use std::collections::BTreeMap;
use std::time::Duration;

use dhow_bundle::{Instant, NodeId};

/// Lines are counted in intervals of this length; at its end one line tells of those that were left out.
const INTERVAL: Duration = Duration::from_secs(10);

/// The same of lines that follow each other without anybody's doing, for as long as something is as it is.
const LONG_INTERVAL: Duration = Duration::from_secs(60);

/// Lines of one kind about one neighbour, or about none, in an interval, at most.
const LINES_MAX: u32 = 20;

/// Lines of one kind about all neighbours in an interval, at most: anybody may connect under any name.
const LINES_OF_ALL_MAX: u32 = 100;

/// Neighbours whose lines are counted one by one, at most, times kinds; those of further ones are counted together.
const COUNTS_MAX: usize = 256;

/// Kinds of lines that neighbours and their bundles provoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A session is up.
    SessionUp,
    /// A session is down.
    SessionDown,
    /// A link's connection became no session.
    NoSession,
    /// A neighbour's bundle was refused.
    Refused,
    /// A neighbour refused a bundle.
    RefusedByPeer,
    /// A bundle had no form in the version that a neighbour speaks.
    Untranslatable,
    /// A neighbour rejected a message.
    Rejected,
    /// Datagrams broke a rule.
    Dropped,
    /// A bundle expired.
    Expired,
    /// A bundle was deleted for another reason, and by no operator.
    Deleted,
    /// The store refused octets.
    StoreRefused,
    /// A bundle is in quarantine.
    Quarantined,
    /// A bundle did not allow an event.
    TransitionRefused,
    /// The disk gave no octets of a stored bundle.
    Unread,
    /// Nothing here reads a record for this node.
    RecordUnread,
    /// A neighbour was found or lost.
    Neighbour,
    /// A neighbour that was found was not reached.
    Unreached,
}

impl Kind {
    /// The text of the line that counts the omitted ones.
    const fn summary(self) -> &'static str {
        match self {
            Self::SessionUp => "more sessions came up",
            Self::SessionDown => "more sessions went down",
            Self::NoSession => "more connections of links became no session",
            Self::Refused => "more bundles were refused",
            Self::RefusedByPeer => "more bundles were refused by neighbours",
            Self::Untranslatable => "more bundles had no form in the version that neighbours speak",
            Self::Rejected => "more messages were rejected by neighbours",
            Self::Dropped => "more rules were broken by datagrams",
            Self::Expired => "more bundles expired",
            Self::Deleted => "more bundles were deleted",
            Self::StoreRefused => "more refusals of the store",
            Self::Neighbour => "more neighbours were found or lost",
            Self::Unreached => "more attempts to connect to found neighbours failed",
            Self::Unread => "more reads of stored octets failed",
            Self::RecordUnread => "more administrative records were for nothing that is here",
            Self::Quarantined => "more bundles are damaged on disk and in quarantine",
            Self::TransitionRefused => {
                "more events were passed over that a bundle's state did not allow"
            }
        }
    }

    const fn is_news(self) -> bool {
        matches!(
            self,
            Self::SessionUp
                | Self::SessionDown
                | Self::Expired
                | Self::Deleted
                | Self::Neighbour
                | Self::Unreached
        )
    }

    const fn interval(self) -> Duration {
        match self {
            Self::Unreached => LONG_INTERVAL,
            _ => INTERVAL,
        }
    }
}

/// Lines of one interval.
#[derive(Clone, Copy, Debug)]
struct Count {
    since: Instant,
    said: u32,
    unsaid: u64,
}

/// Lines of all kinds, and about whom.
#[derive(Debug, Default)]
pub struct Lines {
    counts: BTreeMap<(Kind, Option<NodeId>), Count>,
    due: Option<Instant>,
}

impl Lines {
    /// Whether a line may be logged now; it is counted.
    pub fn may_say(&mut self, kind: Kind, about: Option<&NodeId>, now: Instant) -> bool {
        if self.due.is_some_and(|due| due <= now) {
            self.flush(now);
        }
        let own = about.map(|peer| (kind, Some(peer.clone())));
        if let Some(own) = own
            && (self.counts.len() < COUNTS_MAX || self.counts.contains_key(&own))
            && !self.count(own, LINES_MAX, now)
        {
            return false;
        }
        let most = match about {
            Some(_) => LINES_OF_ALL_MAX,
            None => LINES_MAX,
        };
        self.count((kind, None), most, now)
    }

    /// A line is not logged, but counted.
    pub fn leave_out(&mut self, kind: Kind, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.flush(now);
        }
        self.count((kind, None), 0, now);
    }

    fn count(&mut self, what: (Kind, Option<NodeId>), most: u32, now: Instant) -> bool {
        let interval = what.0.interval();
        let begun = Count {
            since: now,
            said: 0,
            unsaid: 0,
        };
        let count = self.counts.entry(what).or_insert(begun);
        if now - count.since >= interval {
            *count = begun;
        }
        if count.said < most {
            count.said += 1;
            return true;
        }
        count.unsaid += 1;
        let end = count.since + interval;
        self.due = Some(self.due.map_or(end, |due| due.min(end)));
        false
    }

    /// Tell of what was left out in intervals that are over.
    pub fn flush(&mut self, now: Instant) {
        self.counts.retain(|(kind, peer), count| {
            let is_over = now - count.since >= kind.interval();
            if is_over && count.unsaid > 0 {
                let peer = peer.as_ref().map(ToString::to_string);
                let (more, what) = (count.unsaid, kind.summary());
                match kind.is_news() {
                    true => tracing::info!(more, peer, "{what}"),
                    false => tracing::warn!(more, peer, "{what}"),
                }
            }
            !is_over
        });
        let unsaid = self.counts.iter().filter(|(_, count)| count.unsaid > 0);
        let ends = unsaid.map(|((kind, _), count)| count.since + kind.interval());
        self.due = ends.min();
    }

    /// When `flush` has something to tell.
    #[must_use]
    pub const fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::START + Duration::from_millis(ms)
    }

    fn peer(node: u32) -> NodeId {
        format!("ipn:{node}.0").parse().unwrap()
    }

    #[test]
    fn so_many_lines_are_said_about_each_and_about_all() {
        let mut lines = Lines::default();
        let mut said = BTreeMap::<u32, u32>::new();
        for line in 0..10_000 {
            let about = 1 + line % 8;
            let is_said = lines.may_say(Kind::Refused, Some(&peer(about)), at_ms(0));
            *said.entry(about).or_default() += u32::from(is_said);
        }
        assert!(said.values().all(|said| *said <= LINES_MAX));
        assert_eq!(said.values().sum::<u32>(), LINES_OF_ALL_MAX);
        // Another kind has its own.
        assert!(lines.may_say(Kind::Expired, None, at_ms(0)));
        assert_eq!(lines.due(), Some(at_ms(10_000)));
        lines.flush(at_ms(10_000));
        assert_eq!(lines.due(), None);
        assert!(lines.may_say(Kind::Refused, Some(&peer(1)), at_ms(10_000)));
    }

    #[test]
    fn lines_that_are_left_out_are_counted_over_the_interval_of_their_kind() {
        let mut lines = Lines::default();
        assert!(lines.may_say(Kind::Unreached, None, at_ms(0)));
        for ms in 1..59_000 {
            lines.leave_out(Kind::Unreached, at_ms(ms));
        }
        assert_eq!(lines.due(), Some(at_ms(60_000)));
        let count = lines.counts.get(&(Kind::Unreached, None)).unwrap();
        assert_eq!((count.said, count.unsaid), (1, 58_999));
        lines.flush(at_ms(60_000));
        assert_eq!((lines.due(), lines.counts.len()), (None, 0));
    }

    #[test]
    fn neighbours_with_ever_new_names_are_counted_together() {
        let mut lines = Lines::default();
        let mut said = 0;
        for node in 1..=100_000 {
            said += u32::from(lines.may_say(Kind::SessionUp, Some(&peer(node)), at_ms(5)));
        }
        assert_eq!(said, LINES_OF_ALL_MAX);
        assert!(lines.counts.len() <= COUNTS_MAX + 1);
        lines.flush(at_ms(10_005));
        assert!(lines.counts.is_empty());
    }
}
