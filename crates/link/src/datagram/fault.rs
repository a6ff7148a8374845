//! Rules that datagrams break: counted, never fatal.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use dhow_bundle::Instant;

use super::DatagramEvent;

/// Time between two reports of the same faults: a flood of bad datagrams makes no flood of events.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The rules of a layer.
pub(crate) trait Rule: Copy + Ord {
    /// The rule with its section, as a sentence's part.
    fn rule(self) -> &'static str;
}

/// Faults that have not been reported: a number for each rule.
#[derive(Debug)]
pub(crate) struct Faults<F> {
    counts: BTreeMap<F, u64>,
    /// No report before this.
    next: Instant,
}

impl<F> Default for Faults<F> {
    fn default() -> Self {
        Self {
            counts: BTreeMap::new(),
            next: Instant::START,
        }
    }
}

impl<F: Rule> Faults<F> {
    pub(crate) fn count(&mut self, fault: F) {
        let count = self.counts.entry(fault).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// Tell of all faults, where the last report is long enough ago.
    pub(crate) fn report(&mut self, now: Instant, events: &mut VecDeque<DatagramEvent>) {
        if self.counts.is_empty() || now < self.next {
            return;
        }
        self.next = now + REPORT_INTERVAL;
        let counts = core::mem::take(&mut self.counts).into_iter();
        events.extend(counts.map(|(fault, count)| DatagramEvent::Fault {
            rule: fault.rule(),
            count,
        }));
    }

    /// When the next report is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.counts.is_empty()).then_some(self.next)
    }
}
