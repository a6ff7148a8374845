//! One bundle being received.

use std::io::{self, ErrorKind, Read};

use dhow_node::api::seam::DeliveryHead;

use crate::error::Error;
use crate::receiver::Receiver;

/// A handle to confirm or decline a delivery after its payload has been read, also after the next one
/// was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a delivery that is not confirmed comes again"]
pub struct Receipt(pub(crate) Option<u64>);

/// One bundle being received: its head, and its payload as a [`Read`].
///
/// Dropping it neither confirms nor declines: the node delivers it again when the connection has ended.
#[derive(Debug)]
pub struct Delivery<'receiver> {
    receiver: &'receiver mut Receiver,
    head: DeliveryHead,
    receipt: Receipt,
}

impl<'receiver> Delivery<'receiver> {
    pub(crate) const fn new(
        receiver: &'receiver mut Receiver,
        head: DeliveryHead,
        receipt: Receipt,
    ) -> Self {
        Self {
            receiver,
            head,
            receipt,
        }
    }

    /// The head of the bundle. Its lifetime is 0 if the node does not say it.
    #[must_use]
    pub const fn head(&self) -> &DeliveryHead {
        &self.head
    }

    /// Octets of payload that have not been read.
    #[must_use]
    pub const fn unread(&self) -> u64 {
        self.receiver.unread
    }

    /// For confirming or declining through the receiver, once the payload has been read: with a window
    /// of more than one delivery, several may be on their way to safety.
    pub const fn receipt(&self) -> Receipt {
        self.receipt
    }

    /// Confirm the delivery: the node forgets the bundle. Octets that were not read are skipped.
    ///
    /// # Errors
    /// When the connection is lost: then the bundle may come again.
    pub fn confirm(self) -> Result<(), Error> {
        self.receiver.confirm(self.receipt)
    }

    /// Decline the delivery: the node keeps the bundle and delivers it again later. Octets that were not
    /// read are skipped.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn decline(self) -> Result<(), Error> {
        self.receiver.decline(self.receipt)
    }
}

impl Read for Delivery<'_> {
    /// Payload octets; ends with the payload. A lost connection is an error of the kind `UnexpectedEof`.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let octets = self
            .receiver
            .connection
            .read_payload(self.receiver.unread, out)
            .map_err(|error| io::Error::new(ErrorKind::UnexpectedEof, error))?;
        let read = u64::try_from(octets).unwrap_or(u64::MAX);
        self.receiver.unread = self.receiver.unread.saturating_sub(read);
        Ok(octets)
    }
}
