//! A measurement under way: its streams on threads of their own, and its summaries as they come.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dhow_client::{Address, Delivery, Receipt};
use dhow_node::perf::wire::{RunId, SUMMARY_OCTETS, Summary};

use super::plan::Plan;
use super::received::{Received, Totals};
use super::stream::{Shared, Stream};
use crate::application::{self, Arrival, Subscription};
use crate::failure::Failure;

/// Summaries that may be on their way to this command at a time.
pub const WINDOW: u32 = 64;

/// Whether a wait brought something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A summary that tells more than was known.
    Some,
    /// Nothing.
    None,
}

/// A measurement under way. It stops sending when it is dropped.
#[derive(Debug)]
pub struct Flight {
    shared: Arc<Shared>,
    streams: Vec<JoinHandle<Result<(), Failure>>>,
    subscription: Option<Subscription>,
    run: RunId,
    received: Received,
    begun: Instant,
    /// When the streams had sent all.
    sent: Option<Instant>,
}

impl Flight {
    /// Connects, and begins to send; the node must be there now.
    pub fn begin(address: &Address, plan: &Plan) -> Result<Self, Failure> {
        let run = application::random::<16>()?;
        // Summaries may come as soon as the first bundle has left.
        let subscription =
            Subscription::begin(address, plan.registration.clone(), Some(plan.timeout))?;
        let shared = Arc::new(Shared::default());
        let mut streams = Vec::new();
        for number in 0..plan.streams {
            let client = application::connect(address, Some(plan.timeout))?;
            shared.active.fetch_add(1, Ordering::Relaxed);
            let (shared, plan, address) = (Arc::clone(&shared), plan.clone(), address.clone());
            streams.push(thread::spawn(move || {
                let stream = Stream {
                    plan: &plan,
                    shared: &shared,
                    run,
                    number,
                };
                let outcome = stream.send(&address, client);
                if outcome.is_err() {
                    shared.has_failed.store(true, Ordering::Relaxed);
                    shared.stop.store(true, Ordering::Relaxed);
                }
                shared.active.fetch_sub(1, Ordering::Release);
                outcome
            }));
        }
        Ok(Self {
            shared,
            streams,
            subscription: Some(subscription),
            run,
            received: Received::default(),
            begun: Instant::now(),
            sent: None,
        })
    }

    /// Waits for a summary for at most about `wait`.
    pub fn poll(&mut self, wait: Duration) -> Result<News, Failure> {
        if self.sent.is_none() && !self.is_sending() {
            self.sent = Some(Instant::now());
        }
        let Some(subscription) = &mut self.subscription else {
            return Ok(News::None);
        };
        let arrival = subscription.poll(wait, read)?;
        let Arrival::Delivery((summary, receipt)) = arrival else {
            return Ok(News::None);
        };
        subscription.confirm(receipt);
        if !summary.is_some_and(|summary| self.received.take(&self.run, summary)) {
            return Ok(News::None);
        }
        let totals = self.received.totals();
        self.shared
            .tell(totals.bundles.saturating_add(totals.repeated));
        Ok(News::Some)
    }

    /// Send nothing more.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// True while streams have something to send, or to be answered.
    pub fn is_sending(&self) -> bool {
        self.shared.active.load(Ordering::Acquire) > 0
    }

    /// True once a stream could not send its bundles, and all have ended.
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Relaxed) && !self.is_sending()
    }

    /// True while streams send, and do not wait for the service to tell of what they have sent.
    pub fn is_moving(&self) -> bool {
        self.is_sending() && !self.shared.is_full.load(Ordering::Relaxed)
    }

    /// Time since it began.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Time that sending took, so far or in all.
    pub fn sending_time(&self) -> Duration {
        self.sent
            .map_or_else(|| self.begun.elapsed(), |sent| sent - self.begun)
    }

    /// Bundles that the node here has taken.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Bundles that were sent again because the node here had been away.
    pub fn resent(&self) -> u64 {
        self.shared.resent.load(Ordering::Relaxed)
    }

    /// The summaries of the service.
    pub const fn received(&self) -> &Received {
        &self.received
    }

    /// The totals of all bundles that came.
    pub fn totals(&self) -> Totals {
        self.received.totals()
    }

    /// Bundles taken here that the service has not told of.
    pub fn outstanding(&self) -> u64 {
        self.accepted().saturating_sub(self.totals().bundles)
    }

    /// True once all has been sent and told of.
    pub fn is_complete(&self) -> bool {
        !self.is_sending() && self.outstanding() == 0
    }

    /// Ends it: why sending failed, if it did.
    pub fn end(mut self) -> Result<(), Failure> {
        self.stop();
        let mut outcome = Ok(());
        for stream in self.streams.drain(..) {
            let ended = stream
                .join()
                .unwrap_or_else(|_| Err(Failure::refused("cannot send: a stream broke down")));
            outcome = outcome.and(ended);
        }
        if let Some(subscription) = self.subscription.take() {
            subscription.finish();
        }
        outcome
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The summary that a delivery carries, and what confirms it.
fn read(mut delivery: Delivery<'_>) -> (Option<Summary>, Receipt) {
    let receipt = delivery.receipt();
    let mut payload = [0; SUMMARY_OCTETS];
    let is_long_enough = delivery.read_exact(&mut payload).is_ok();
    (
        is_long_enough.then(|| Summary::decode(&payload)).flatten(),
        receipt,
    )
}
