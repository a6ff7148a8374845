//! Measurements as bundles: a node, perhaps this one, takes parcels at its API socket and sends them to a collector's endpoint.

use std::io;
use std::time::Duration;

use dhow_bundle::EndpointId;
use dhow_client::{Address, Client, Error, Registration, SendHead, Sender};
use dhow_measure::client::Carrier;

/// The time that the node may take to make a parcel durable.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends parcels through a node.
#[derive(Debug)]
pub struct BundleCarrier {
    address: Address,
    registration: Registration,
    head: SendHead,
    sender: Option<Sender>,
}

impl BundleCarrier {
    /// Through the node at that socket, from one endpoint of it to another, wherever that is. Nothing is connected before the first parcel.
    #[must_use]
    pub fn new(
        address: Address,
        source: EndpointId,
        destination: EndpointId,
        lifetime: Duration,
    ) -> Self {
        Self {
            address,
            registration: Registration::new(source),
            head: SendHead::to(destination).with_lifetime(lifetime),
            sender: None,
        }
    }

    fn send(&mut self, parcel: &[u8]) -> Result<Sender, Error> {
        let mut sender = match self.sender.take() {
            Some(sender) => sender,
            None => Client::connect(&self.address)?.sender(&self.registration)?,
        };
        sender.send_octets(&self.head, parcel)?;
        match sender.next_answer(Some(PATIENCE))? {
            Some(answer) => match answer.outcome {
                Ok(_) => Ok(sender),
                Err(refusal) => Err(Error::Refused(refusal)),
            },
            // A late answer must not be taken for that to the next parcel: the sender is dropped.
            None => Err(Error::Silent(PATIENCE)),
        }
    }
}

impl Carrier for BundleCarrier {
    fn carry(&mut self, parcel: &[u8]) -> io::Result<()> {
        let sender = self.send(parcel).map_err(io::Error::other)?;
        self.sender = Some(sender);
        Ok(())
    }
}
