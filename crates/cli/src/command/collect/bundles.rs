//! Measurements that come as bundles: parcels at an endpoint of a node, confirmed once they are stored.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use dhow_bundle::EndpointId;
use dhow_client::{Delivery, Receipt, Registration};
use dhow_measure::collector::{Intake, Kept, PARCEL_OCTETS_MAX, Pledge};

use crate::address::locate;
use crate::application::{Arrival, Subscription};
use crate::arguments::Common;
use crate::failure::Failure;
use crate::interrupt::{self, LOOK};
use crate::progress::Progress;

/// Parcels that are on their way to the database at once, and share its commits.
const BATCH: u16 = 64;

/// The time for which the next one of them is waited for.
const MOMENT: Duration = Duration::from_millis(1);

/// The time for which a database that takes nothing is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// Parcels that come to an endpoint.
pub struct Parcels {
    subscription: Subscription,
    intake: Intake,
    progress: Arc<Progress>,
    batch: Vec<(Receipt, Pledge)>,
}

/// The content of a delivery.
enum Taken {
    Parcel(Receipt, Vec<u8>),
    TooLong(Receipt),
    /// The node went while it was read.
    Cut,
}

impl Parcels {
    /// Subscribes; the node must be there now.
    pub fn begin(
        endpoint: EndpointId,
        common: &Common,
        intake: Intake,
        progress: Arc<Progress>,
    ) -> Result<Self, Failure> {
        let registration = Registration::new(endpoint).with_window(BATCH.into());
        Ok(Self {
            subscription: Subscription::begin(&locate(common.node.as_ref())?, registration, None)?,
            intake,
            progress,
            batch: Vec::new(),
        })
    }

    /// Takes what comes until the command is interrupted.
    pub fn run(mut self) -> Result<(), Failure> {
        while !interrupt::is_requested() {
            let wait = match self.batch.is_empty() {
                true => LOOK,
                false => MOMENT,
            };
            match self.subscription.poll(wait, read)? {
                Arrival::Delivery(taken) => self.take(taken),
                Arrival::Nothing | Arrival::Lost => self.settle(),
            }
            if self.batch.len() >= usize::from(BATCH) {
                self.settle();
            }
        }
        self.settle();
        self.subscription.finish();
        Ok(())
    }

    fn take(&mut self, taken: Taken) {
        let (receipt, refused) = match taken {
            Taken::Cut => return,
            Taken::TooLong(receipt) => {
                let why = format!("it is longer than {PARCEL_OCTETS_MAX} octets");
                (receipt, why)
            }
            Taken::Parcel(receipt, octets) => match self.intake.take(&octets) {
                Ok(pledge) => {
                    self.batch.push((receipt, pledge));
                    return;
                }
                Err(error) => (receipt, error.to_string()),
            },
        };
        self.refuse(receipt, &refused);
    }

    /// Confirms a refused bundle, which would else come again for ever.
    fn refuse(&mut self, receipt: Receipt, why: &str) {
        self.progress.note(&format!("a bundle was refused: {why}"));
        self.subscription.confirm(receipt);
    }

    /// Confirms what is stored; all else is to come again.
    fn settle(&mut self) {
        let mut left = None;
        for (receipt, pledge) in std::mem::take(&mut self.batch) {
            match pledge.wait() {
                Kept::Stored => self.subscription.confirm(receipt),
                Kept::Refused(why) => self.refuse(receipt, &why),
                Kept::Not(why) => left = Some(why),
            }
        }
        if let Some(why) = left {
            self.progress
                .note(&format!("bundles stay at the node for now: {why}"));
            // A delivery that is not confirmed has its place in the window, and comes again over the next connection only.
            self.subscription.restart();
            if !interrupt::is_requested() {
                std::thread::sleep(PAUSE);
            }
        }
    }
}

fn read(mut delivery: Delivery<'_>) -> Taken {
    let receipt = delivery.receipt();
    if delivery.head().payload_octets > PARCEL_OCTETS_MAX {
        return Taken::TooLong(receipt);
    }
    let mut octets = Vec::new();
    match delivery.read_to_end(&mut octets) {
        Ok(_) => Taken::Parcel(receipt, octets),
        Err(_) => Taken::Cut,
    }
}
