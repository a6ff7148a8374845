//! Reports on bundles that were sent: read beside the sending, then waited for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dhow_client::{Address, Created, Registration};

use super::fate::{Fate, Fates, Outcome};
use crate::application::{Arrival, Subscription, status_reports};
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::report_kind::{REPORTS_OFF, REPORTS_OFF_AFTER};

/// Reports that may be on their way to this command at a time: they are small, and many.
pub const WINDOW: u32 = 256;

/// The time after the bundles' expiry in which their last reports may come: the expiry of one is reported when it expires.
const LATE: Duration = Duration::from_secs(1);

/// The lifetime of bundles of a node that does not tell theirs.
const UNTOLD: Duration = Duration::from_secs(86_400);

/// Reads reports as they come.
#[derive(Debug)]
pub struct Receipts {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
    /// The longest lifetime of the bundles.
    lifetime: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    fates: Mutex<Fates>,
    /// Told of every change of a fate.
    changed: Condvar,
    /// Whether nobody waits any more.
    ended: AtomicBool,
}

impl Receipts {
    /// Subscribes to the source endpoint, where the reports will come.
    pub fn begin(address: &Address, registration: Registration) -> Result<Self, Failure> {
        let subscription = Subscription::begin(address, registration, None)?;
        let shared = Arc::<Shared>::default();
        let reader = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.read(subscription)
        });
        Ok(Self {
            shared,
            reader: Some(reader),
            lifetime: Duration::ZERO,
        })
    }

    /// The node has this bundle: a report on it is expected.
    pub fn expect(&mut self, bundle: &Created) {
        let lifetime = match bundle.lifetime_ms {
            0 => UNTOLD,
            lifetime_ms => Duration::from_millis(lifetime_ms),
        };
        self.lifetime = self.lifetime.max(lifetime);
        self.shared.lock().expect(&bundle.source, bundle.creation);
    }

    /// The next outcome that was not told yet.
    pub fn poll_outcome(&self) -> Option<Outcome> {
        self.shared.lock().poll_news()
    }

    /// Waits until all bundles are delivered or deleted, or have expired.
    pub fn wait(self, form: Form) -> Result<Ending, Failure> {
        let begun = Instant::now();
        let patience = self.lifetime.saturating_add(LATE);
        let mut fates = self.shared.lock();
        let progress = Progress::bundles(fates.sent(), "delivered");
        let mut noted = false;
        loop {
            while let Some(outcome) = fates.poll_news() {
                tell(&outcome, form, &progress)?;
            }
            if let Some(failure) = fates.failure.take() {
                return Err(failure);
            }
            if fates.is_settled() || begun.elapsed() >= patience {
                break;
            }
            if interrupt::is_requested() {
                progress.finish();
                output::talk(&format!("interrupted: {}", fates.standing()));
                return Ok(Ending::Interrupted);
            }
            progress.position(fates.settled());
            if !fates.is_heard_of() && !noted && begun.elapsed() >= REPORTS_OFF_AFTER {
                noted = true;
                progress.note(&format!("no report came so far: {REPORTS_OFF}"));
            }
            let left = patience.saturating_sub(begun.elapsed()).min(LOOK);
            let waited = self.shared.changed.wait_timeout(fates, left);
            fates = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        progress.finish();
        judge(&fates, form)
    }
}

/// Says at once the fate of a bundle; people need not be told of each that was delivered.
fn tell(outcome: &Outcome, form: Form, progress: &Progress) -> Result<(), Failure> {
    match form {
        Form::Json => output::json(outcome)?,
        Form::Text if outcome.event == Fate::Deleted => progress.note(&outcome.text()),
        Form::Text => {}
    }
    Ok(())
}

fn judge(fates: &Fates, form: Form) -> Result<Ending, Failure> {
    if form == Form::Json {
        for outcome in fates.unreported() {
            output::json(&outcome)?;
        }
    }
    let (delivered, sent) = (fates.delivered(), fates.sent());
    if delivered == sent {
        if form == Form::Text {
            output::line(&format!("delivered {delivered} of {sent}"))?;
        }
        return Ok(Ending::Done);
    }
    let failure = Failure::refused(format!(
        "{delivered} of {sent} bundles were reported delivered in their lifetime{}",
        fates.complaint()
    ));
    Err(if fates.is_heard_of() {
        failure
    } else {
        failure.with_hint(format!("no report came: {REPORTS_OFF}"))
    })
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
                let here = delivery.head().destination.clone();
                let reporter = delivery.head().id.source.clone();
                (
                    status_reports(&mut delivery),
                    delivery.receipt(),
                    reporter,
                    here,
                )
            });
            match arrival {
                Ok(Arrival::Delivery((reports, receipt, reporter, here))) => {
                    subscription.confirm(receipt);
                    if !reports.is_empty() {
                        let mut fates = self.lock();
                        for report in &reports {
                            fates.reported(report, &reporter, &here);
                        }
                        drop(fates);
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
