//! Intervals of a connection, and the whole of it.

use std::time::Duration;

use super::observer::{Report, Transfer};

/// Counts what passes, from a connection's start.
#[derive(Clone, Debug)]
pub struct Intervals {
    id: u32,
    every: Option<Duration>,
    begin: Duration,
    counted: Counted,
    all: Counted,
}

/// The state of a counter at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    octets: u64,
    report: Option<Report>,
}

impl Intervals {
    /// The intervals of a connection; none is told before the end where there is no length of intervals.
    pub fn new(id: u32, every: Option<Duration>) -> Self {
        Self {
            id,
            every: every.filter(|every| !every.is_zero()),
            begin: Duration::ZERO,
            counted: Counted::default(),
            all: Counted::default(),
        }
    }

    /// So much more has passed, at a time.
    pub const fn add(&mut self, octets: u64) {
        self.all.octets += octets;
    }

    /// Sets the counts of datagrams.
    pub const fn set_report(&mut self, report: Report) {
        self.all.report = Some(report);
    }

    /// True if an interval has ended by `now` that has not been reported.
    pub fn is_due(&self, now: Duration) -> bool {
        let end = self.every.and_then(|every| self.begin.checked_add(every));
        end.is_some_and(|end| end <= now)
    }

    /// The next interval that is over by now; the others follow when it is asked again.
    pub fn poll(&mut self, now: Duration) -> Option<Transfer> {
        let every = self.every?;
        let end = self.begin.checked_add(every).filter(|end| *end <= now)?;
        let (all, counted) = (self.all, self.counted);
        let transfer = Transfer {
            id: self.id,
            is_total: false,
            begin: self.begin,
            end,
            octets: all.octets - counted.octets,
            datagrams: all.report.map(|report| difference(report, counted.report)),
        };
        self.begin = end;
        self.counted = all;
        Some(transfer)
    }

    /// The whole, at the end.
    pub const fn total(&self, now: Duration) -> Transfer {
        Transfer {
            id: self.id,
            is_total: true,
            begin: Duration::ZERO,
            end: now,
            octets: self.all.octets,
            datagrams: self.all.report,
        }
    }
}

/// Datagrams that came between two reports; jitter and delay are those of the later one.
fn difference(later: Report, earlier: Option<Report>) -> Report {
    let earlier = earlier.unwrap_or_default();
    Report {
        sent: later.sent.saturating_sub(earlier.sent),
        // Datagrams that were missing may have come since.
        lost: later.lost.saturating_sub(earlier.lost),
        out_of_order: later.out_of_order.saturating_sub(earlier.out_of_order),
        duplicates: later
            .duplicates
            .map(|all| all.saturating_sub(earlier.duplicates.unwrap_or_default())),
        jitter_ns: later.jitter_ns,
        delay: later.delay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_add_up_to_the_whole() {
        let second = Duration::from_secs(1);
        let mut intervals = Intervals::new(3, Some(second));
        assert_eq!(intervals.poll(second / 2), None);
        let report = |sent, lost| Report {
            sent,
            lost,
            ..Report::default()
        };
        intervals.add(100);
        intervals.set_report(report(10, 1));
        let first = intervals.poll(second * 5 / 2).unwrap();
        assert_eq!(
            (first.begin, first.end, first.octets),
            (Duration::ZERO, second, 100)
        );
        assert_eq!(first.datagrams, Some(report(10, 1)));
        let empty = intervals.poll(second * 5 / 2).unwrap();
        assert_eq!((empty.begin, empty.octets), (second, 0));
        assert_eq!(empty.datagrams, Some(report(0, 0)));
        assert_eq!(intervals.poll(second * 5 / 2), None);
        intervals.add(1);
        let total = intervals.total(second * 3);
        assert_eq!(
            (total.octets, total.end, total.is_total),
            (101, second * 3, true)
        );
    }
}
