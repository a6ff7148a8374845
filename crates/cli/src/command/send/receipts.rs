//! Delivery reports of what was sent: read beside the sending, then waited for.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dhow_bundle::admin::StatusReport;
use dhow_bundle::{CreationTimestamp, EndpointId};
use dhow_client::{Address, Registration};

use crate::application::{Arrival, Subscription, status_report};
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::report_kind::{REPORTS_OFF, REPORTS_OFF_AFTER};

/// Reports that may be on their way to this command at a time: they are small, and many.
pub const WINDOW: u32 = 256;

/// Reports kept that came before the node's answer to their bundle; more than can be unanswered.
const EARLY_MAX: usize = 65_536;

/// Bundles without a report that are named one by one.
const NAMED_MAX: usize = 10;

/// What is known of the bundles' fate.
#[derive(Debug, Default)]
struct Fates {
    /// Sent and not reported on.
    open: HashSet<CreationTimestamp>,
    /// Reported delivered before the node's answer to their sending came.
    early: HashSet<CreationTimestamp>,
    sent: u64,
    delivered: u64,
    /// Reported deleted.
    deleted: u64,
    failure: Option<Failure>,
}

/// Reads delivery reports as they come.
#[derive(Debug)]
pub struct Receipts {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    fates: Mutex<Fates>,
    /// Told of every change of a fate.
    changed: Condvar,
    /// Nobody waits any more.
    ended: AtomicBool,
}

impl Receipts {
    /// Subscribes to the source endpoint, where the reports will come.
    pub fn begin(address: &Address, registration: Registration) -> Result<Self, Failure> {
        let subscription = Subscription::begin(address, registration)?;
        let shared = Arc::<Shared>::default();
        let reader = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.read(subscription)
        });
        Ok(Self {
            shared,
            reader: Some(reader),
        })
    }

    /// The node has this bundle: a report on it is expected.
    pub fn expect(&self, creation: CreationTimestamp) {
        self.shared.lock().expect(creation);
    }

    /// Waits until all bundles are reported on or have expired.
    pub fn wait(self, lifetime: Duration, form: Form) -> Result<Ending, Failure> {
        let begun = Instant::now();
        let mut fates = self.shared.lock();
        let progress = Progress::bundles(fates.sent, "delivered");
        let mut noted = false;
        while !fates.open.is_empty() && begun.elapsed() < lifetime {
            if let Some(failure) = fates.failure.take() {
                return Err(failure);
            }
            if interrupt::is_requested() {
                return Ok(Ending::Interrupted);
            }
            let settled = fates.delivered + fates.deleted;
            progress.position(settled);
            if settled == 0 && !noted && begun.elapsed() >= REPORTS_OFF_AFTER {
                noted = true;
                progress.note(&format!("no status report came yet: {REPORTS_OFF}"));
            }
            let left = lifetime.saturating_sub(begun.elapsed()).min(LOOK);
            let waited = self.shared.changed.wait_timeout(fates, left);
            fates = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        progress.finish();
        fates.judge(form)
    }
}

impl Drop for Receipts {
    /// Reports that were read are confirmed, or they would come again.
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            // A reader that failed has nothing to confirm.
            let _ = reader.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Fates> {
        self.fates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, mut subscription: Subscription) {
        while !self.ended.load(Ordering::Relaxed) {
            let arrival = subscription.poll(LOOK, |mut delivery| {
                let source = delivery.head().destination.clone();
                (status_report(&mut delivery), delivery.receipt(), source)
            });
            match arrival {
                Ok(Arrival::Delivery((report, receipt, source))) => {
                    subscription.confirm(receipt);
                    if let Some(report) = report {
                        self.lock().reported(&report, &source);
                        self.changed.notify_all();
                    }
                }
                Ok(Arrival::Nothing | Arrival::Lost) => {}
                Err(failure) => {
                    self.lock().failure = Some(failure);
                    self.changed.notify_all();
                    return;
                }
            }
        }
        subscription.finish();
    }
}

impl Fates {
    fn judge(&self, form: Form) -> Result<Ending, Failure> {
        if self.delivered == self.sent {
            if form == Form::Text {
                output::line(&format!("delivered {} of {}", self.delivered, self.sent))?;
            }
            return Ok(Ending::Done);
        }
        let failure = Failure::refused(format!(
            "{} of {} bundles were reported delivered in their lifetime{}",
            self.delivered,
            self.sent,
            self.unreported()
        ));
        Err(if self.delivered == 0 && self.deleted == 0 {
            failure.with_hint(REPORTS_OFF)
        } else {
            failure
        })
    }

    fn expect(&mut self, creation: CreationTimestamp) {
        self.sent += 1;
        if self.early.remove(&creation) {
            self.delivered += 1;
        } else {
            self.open.insert(creation);
        }
    }

    fn reported(&mut self, report: &StatusReport, source: &EndpointId) {
        // The endpoint may have sent others before, or somebody may send reports on foreign bundles.
        if report.bundle.source != *source || report.bundle.fragment.is_some() {
            return;
        }
        let creation = report.bundle.creation;
        if report.delivered.is_some() {
            if self.open.remove(&creation) {
                self.delivered += 1;
            } else if self.early.len() < EARLY_MAX {
                self.early.insert(creation);
            }
        } else if report.deleted.is_some() && self.open.remove(&creation) {
            self.deleted += 1;
        }
    }

    fn unreported(&self) -> String {
        let mut creations: Vec<&CreationTimestamp> = self.open.iter().collect();
        creations.sort();
        let named: Vec<String> = creations
            .iter()
            .take(NAMED_MAX)
            .map(|creation| format!("{}/{}", creation.time, creation.sequence))
            .collect();
        let more = if creations.len() > NAMED_MAX {
            ", ..."
        } else {
            ""
        };
        let deleted = if self.deleted > 0 {
            format!("; deleted on the way: {}", self.deleted)
        } else {
            String::new()
        };
        let missing = if named.is_empty() {
            String::new()
        } else {
            format!("; not heard of: {}{more}", named.join(", "))
        };
        format!("{deleted}{missing}")
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::admin::{Assertion, ReasonCode};
    use dhow_bundle::{BundleId, DtnTime};

    use super::*;

    fn creation(sequence: u64) -> CreationTimestamp {
        CreationTimestamp {
            time: DtnTime::from_millis(1000),
            sequence,
        }
    }

    fn delivered(source: &EndpointId, sequence: u64) -> StatusReport {
        StatusReport {
            received: None,
            forwarded: None,
            delivered: Some(Assertion { time: None }),
            deleted: None,
            reason: ReasonCode::from_code(0),
            bundle: BundleId {
                source: source.clone(),
                creation: creation(sequence),
                fragment: None,
            },
        }
    }

    #[test]
    fn a_report_counts_once_whether_it_comes_before_or_after_the_answer() {
        let here: EndpointId = "ipn:1.5".parse().unwrap();
        let mut fates = Fates::default();
        fates.expect(creation(1));
        for sequence in [1, 2, 1, 2] {
            fates.reported(&delivered(&here, sequence), &here);
        }
        fates.expect(creation(2));
        fates.expect(creation(3));
        assert_eq!((fates.sent, fates.delivered, fates.open.len()), (3, 2, 1));
    }

    #[test]
    fn reports_on_bundles_of_another_source_do_not_count() {
        let (here, elsewhere): (EndpointId, EndpointId) =
            ("ipn:1.5".parse().unwrap(), "ipn:9.5".parse().unwrap());
        let mut fates = Fates::default();
        fates.expect(creation(1));
        fates.reported(&delivered(&elsewhere, 1), &here);
        assert_eq!(
            (fates.delivered, fates.unreported().as_str()),
            (0, "; not heard of: 1000/1")
        );
    }
}
