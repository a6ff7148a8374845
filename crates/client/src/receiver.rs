//! Receiving bundles.

use std::time::Duration;

use dhow_bundle::{BundleId, CreationTimestamp, DtnTime, EndpointId, Priority, Version};
use dhow_node::api::seam::DeliveryHead;
use dhow_node::api::wire::{
    ADU_STATUS_REPORT, AapMessage, AapResponse, Body, BundleAdu, STATUS_ACK, STATUS_ERROR,
    STATUS_SUCCESS,
};

use crate::connection::{Connection, Wait};
use crate::delivery::{Delivery, Receipt};
use crate::error::{Error, Refusal};

/// Octets of confirmations that are collected at most while deliveries keep coming.
const CONFIRMATIONS_OCTETS: usize = 4096;

/// The time that `finish` waits for the node to close after it has read everything.
const FINISH: Duration = Duration::from_secs(5);

/// Flag of a bundle that carries an administrative record (RFC 9171 4.2.3).
const FLAG_ADMINISTRATIVE: u64 = 0x2;

/// A connection that receives.
///
/// A delivery that is neither confirmed nor declined when the connection ends is delivered again, here
/// or to another. Confirmations are written together while further deliveries are at hand, and at the
/// latest before this waits for one.
#[derive(Debug)]
pub struct Receiver {
    pub(crate) connection: Connection,
    /// Octets of the newest delivery's payload that have not been read.
    pub(crate) unread: u64,
    /// Whether deliveries were confirmed or declined, so that the node has something to read.
    has_answered: bool,
}

impl Receiver {
    pub(crate) const fn new(connection: Connection) -> Self {
        Self {
            connection,
            unread: 0,
            has_answered: false,
        }
    }

    /// The next delivery, waiting for it at most `timeout`; `None` when the time is over. Octets of the
    /// delivery before that were not read are skipped.
    ///
    /// # Errors
    /// When the connection is lost, the node refuses what this client said, or is silent within the delivery before.
    pub fn next_delivery(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<Delivery<'_>>, Error> {
        let wait = Wait::for_most(timeout);
        self.skip_unread()?;
        loop {
            if self.connection.is_drained() {
                self.connection.flush()?;
            }
            let Some(message) = self.connection.read_message::<AapMessage>(wait)? else {
                return Ok(None);
            };
            match message.body {
                Some(Body::Adu(adu)) => {
                    let receipt = Receipt(adu.delivery_id);
                    let head = head(&adu)?;
                    self.unread = head.payload_octets;
                    return Ok(Some(Delivery::new(self, head, receipt)));
                }
                Some(Body::Keepalive(_)) => {
                    self.connection.put(&AapResponse::of(STATUS_ACK));
                    self.connection.flush()?;
                }
                Some(Body::Refusal(response)) => return Err(Refusal::of(response).into()),
                // Kinds of messages that come after this version of the protocol.
                None => {}
                Some(_) => return Err(Error::Protocol("a receiver was sent no delivery".into())),
            }
        }
    }

    /// Confirm a delivery: the node forgets the bundle. From a node without Dhow's extension fields
    /// only the oldest delivery can be confirmed, whichever is named.
    ///
    /// # Errors
    /// When the connection is lost: then the delivery may come again.
    pub fn confirm(&mut self, receipt: Receipt) -> Result<(), Error> {
        self.answer(receipt, STATUS_SUCCESS)
    }

    /// Decline a delivery: the node keeps the bundle and delivers it again later.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn decline(&mut self, receipt: Receipt) -> Result<(), Error> {
        self.answer(receipt, STATUS_ERROR)
    }

    /// Hand over all confirmations and wait for the node to have read them, where there were any.
    ///
    /// # Errors
    /// When the connection is lost: then confirmed deliveries may come again.
    pub fn finish(mut self) -> Result<(), Error> {
        self.connection.end_writing()?;
        if self.has_answered {
            let time = FINISH.min(self.connection.patience_left());
            self.connection
                .discard_until_closed(Wait::for_most(Some(time)));
        }
        Ok(())
    }

    fn answer(&mut self, receipt: Receipt, status: i32) -> Result<(), Error> {
        self.has_answered = true;
        self.connection.put(&AapResponse {
            delivery_id: receipt.0,
            ..AapResponse::of(status)
        });
        if self.connection.is_drained() || self.connection.pending() >= CONFIRMATIONS_OCTETS {
            self.connection.flush()?;
        }
        Ok(())
    }

    /// Drop what was not read of a payload.
    pub(crate) fn skip_unread(&mut self) -> Result<(), Error> {
        let unread = std::mem::take(&mut self.unread);
        self.connection.skip_payload(unread)
    }
}

impl Drop for Receiver {
    /// Confirmations that are still collected would be lost; a failure means that they are.
    fn drop(&mut self) {
        let _ = self.connection.flush();
    }
}

fn head(adu: &BundleAdu) -> Result<DeliveryHead, Error> {
    let endpoint = |text: &str| match text {
        "" => Ok(EndpointId::Null),
        text => text
            .parse()
            .map_err(|error| Error::Protocol(format!("endpoint ID '{text}': {error}"))),
    };
    let flags = adu.bundle_flags.unwrap_or_else(|| {
        if adu.adu_flags.contains(&ADU_STATUS_REPORT) {
            FLAG_ADMINISTRATIVE
        } else {
            0
        }
    });
    Ok(DeliveryHead {
        id: BundleId {
            source: endpoint(&adu.src_eid)?,
            creation: CreationTimestamp {
                time: DtnTime::from_millis(adu.creation_timestamp_ms),
                sequence: adu.sequence_number,
            },
            fragment: None,
        },
        destination: endpoint(&adu.dst_eid)?,
        report_to: endpoint(&adu.report_to_eid)?,
        version: (adu.bundle_version)
            .and_then(|number| Version::of_number(u8::try_from(number).ok()?))
            .unwrap_or_default(),
        flags,
        priority: (adu.priority)
            .and_then(Priority::of_level)
            .unwrap_or_default(),
        lifetime_ms: adu.lifetime_ms.unwrap_or(0),
        payload_octets: adu.payload_length,
    })
}
