//! Reports that wait for each other, in the course of a turn: written at its end, sent when they are due.

use core::time::Duration;

use dhow_bundle::Now;
use dhow_bundle::storage::BundleKey;

use crate::collection::GRACE;
use crate::collection::Part;
use crate::held::bundles::Removal;
use crate::held::retention::State;
use crate::node::Node;

impl Node {
    /// End a turn: send the collections that are due, and write what the others have not.
    pub(crate) fn write_reports(&mut self, now: Now) {
        while let Some(report_to) = self.reporting.collections.due_at(now.monotonic) {
            self.send_collection(now, report_to);
        }
        self.end_parts(now);
        while let Some(report_to) = self.reporting.collections.next_unwritten() {
            self.write_part(now, report_to);
        }
        for command in self.reporting.collections.take_behind() {
            self.outbox.store(command);
        }
    }

    /// Parts whose collection was sent rest no longer.
    fn end_parts(&mut self, now: Now) {
        for key in self.reporting.collections.take_outworn() {
            let fate = self.reporting.collections.fate(key);
            if !matches!(self.held.state(key), Some(State::AwaitingRetry { .. })) {
                continue;
            }
            match fate {
                Some(Part::Replaced) => self.delete(now, key, Removal::Deleted, None),
                Some(Part::Alone) => self.wake(now, key),
                Some(Part::Current) | None => {}
            }
        }
    }

    /// A part is durable: it waits until its collection is sent.
    pub(crate) fn part_stored(&mut self, now: Now, key: BundleKey) {
        match self.reporting.collections.fate(key) {
            Some(Part::Current) => {
                let patience = Duration::from_millis(self.config.reports.collect_ms);
                self.retry_after(now, key, patience + GRACE);
            }
            Some(Part::Replaced | Part::Alone) | None => {
                self.delete(now, key, Removal::Deleted, None);
            }
        }
    }
}
