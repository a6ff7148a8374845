//! Delivery reports of what was sent: read beside the sending, then waited for.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
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
    fates: Arc<Mutex<Fates>>,
    ended: Arc<AtomicBool>,
}

impl Receipts {
    /// Subscribes to the source endpoint, where the reports will come.
    pub fn begin(address: &Address, registration: Registration) -> Result<Self, Failure> {
        let mut subscription = Subscription::begin(address, registration)?;
        let receipts = Self {
            fates: Arc::default(),
            ended: Arc::default(),
        };
        let (fates, ended) = (Arc::clone(&receipts.fates), Arc::clone(&receipts.ended));
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let arrival = subscription.poll(LOOK, |mut delivery| {
                    (
                        status_report(&mut delivery),
                        delivery.receipt(),
                        delivery.head().destination.clone(),
                    )
                });
                match arrival {
                    Ok(Arrival::Delivery((report, receipt, source))) => {
                        if let Some(report) = report {
                            lock(&fates).reported(&report, &source);
                        }
                        subscription.confirm(receipt);
                    }
                    Ok(Arrival::Nothing | Arrival::Lost) => {}
                    Err(failure) => {
                        lock(&fates).failure = Some(failure);
                        return;
                    }
                }
            }
            subscription.finish();
        });
        Ok(receipts)
    }

    /// The node has this bundle: a report on it is expected.
    pub fn expect(&self, creation: CreationTimestamp) {
        lock(&self.fates).expect(creation);
    }

    /// Waits until all bundles are reported on or have expired.
    pub fn wait(self, lifetime: Duration, form: Form) -> Result<Ending, Failure> {
        let begun = Instant::now();
        let progress = Progress::bundles(lock(&self.fates).sent, "delivered");
        let mut noted = false;
        loop {
            let (open, settled, failure) = {
                let fates = lock(&self.fates);
                (
                    fates.open.len(),
                    fates.delivered + fates.deleted,
                    fates.failure.clone(),
                )
            };
            progress.position(settled);
            if let Some(failure) = failure {
                return Err(failure);
            }
            if open == 0 || begun.elapsed() >= lifetime {
                break;
            }
            if interrupt::is_requested() {
                return Ok(Ending::Interrupted);
            }
            if settled == 0 && !noted && begun.elapsed() >= REPORTS_OFF_AFTER {
                noted = true;
                progress.note(&format!("no status report came yet: {REPORTS_OFF}"));
            }
            thread::sleep(LOOK / 10);
        }
        progress.finish();
        self.judge(form)
    }

    fn judge(&self, form: Form) -> Result<Ending, Failure> {
        let fates = lock(&self.fates);
        if fates.delivered == fates.sent {
            if form == Form::Text {
                output::line(&format!("delivered {} of {}", fates.delivered, fates.sent))?;
            }
            return Ok(Ending::Done);
        }
        let failure = Failure::refused(format!(
            "{} of {} bundles were reported delivered in their lifetime{}",
            fates.delivered,
            fates.sent,
            fates.unreported()
        ));
        Err(if fates.delivered == 0 && fates.deleted == 0 {
            failure.with_hint(REPORTS_OFF)
        } else {
            failure
        })
    }
}

impl Drop for Receipts {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Fates {
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

fn lock(fates: &Mutex<Fates>) -> MutexGuard<'_, Fates> {
    fates.lock().unwrap_or_else(PoisonError::into_inner)
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
