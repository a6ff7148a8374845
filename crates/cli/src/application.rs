//! The application's side of a node: connections that send, and subscriptions that outlive a restart of
//! the node.

use std::io::Read as _;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use dhow_bundle::admin::{AdministrativeRecord, StatusReport};
use dhow_bundle::{BundleFlags, EndpointId, NodeId, Reading};
use dhow_client::{Address, Client, Delivery, Error, Receipt, Receiver, Registration};

use crate::address::HINT;
use crate::failure::Failure;

/// What a failed call means for the command, as "cannot …: {error}".
pub fn failure(what: &str, error: &Error) -> Failure {
    let failure = Failure::refused(format!("cannot {what}: {error}"));
    if matches!(error, Error::Unreachable { .. }) {
        failure.with_hint(HINT)
    } else {
        failure
    }
}

/// Connects to a node.
pub fn connect(address: &Address) -> Result<Client, Failure> {
    Client::connect(address).map_err(|error| failure("reach the node", &error))
}

/// An endpoint of the node that nobody else uses: a random high service.
pub fn random_endpoint(node: &NodeId) -> Result<EndpointId, Failure> {
    let number = random::<4>().map(u32::from_be_bytes)?;
    let service = match node.endpoint() {
        // Above the numbers of well-known and private services, and positive where 32 bits have a sign.
        EndpointId::Ipn { .. } => (number & 0x3fff_ffff | 0x4000_0000).to_string(),
        _ => format!("dhow-{number:08x}"),
    };
    node.service(&service)
        .map_err(|error| Failure::refused(format!("cannot make an endpoint of {node}: {error}")))
}

/// Random octets of the operating system.
pub fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut octets = [0; N];
    getrandom::fill(&mut octets)
        .map_err(|error| Failure::refused(format!("cannot get random octets: {error}")))?;
    Ok(octets)
}

/// First and largest delay before connecting again.
const BACKOFF: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Deliveries at an endpoint, also after the node has been away.
#[derive(Debug)]
pub struct Subscription {
    address: Address,
    registration: Registration,
    receiver: Option<Receiver>,
    backoff: Duration,
}

/// What came of waiting.
#[derive(Debug)]
pub enum Arrival<T> {
    /// A delivery, and what was made of it.
    Delivery(T),
    /// Nothing came in time.
    Nothing,
    /// The connection was lost: deliveries that are not confirmed come again on the next one.
    Lost,
}

impl Subscription {
    /// Subscribes; the node must be there now.
    pub fn begin(address: &Address, registration: Registration) -> Result<Self, Failure> {
        let receiver = connect(address)?
            .receiver(&registration)
            .map_err(|error| failure("receive at the endpoint", &error))?;
        let [backoff, _] = BACKOFF;
        Ok(Self {
            address: address.clone(),
            registration,
            receiver: Some(receiver),
            backoff,
        })
    }

    /// Waits for a delivery, or for the node to be there again, for at most about `wait`. `take` must
    /// read the payload before it returns.
    pub fn poll<T>(
        &mut self,
        wait: Duration,
        take: impl FnOnce(Delivery<'_>) -> T,
    ) -> Result<Arrival<T>, Failure> {
        let Some(receiver) = &mut self.receiver else {
            self.connect_again(wait)?;
            return Ok(Arrival::Nothing);
        };
        match receiver.next_delivery(Some(wait)) {
            Ok(Some(delivery)) => Ok(Arrival::Delivery(take(delivery))),
            Ok(None) => Ok(Arrival::Nothing),
            Err(error) if error.is_lost() => {
                self.lose();
                Ok(Arrival::Lost)
            }
            Err(error) => Err(failure("receive", &error)),
        }
    }

    /// Confirms a delivery of this connection; after a loss the delivery comes again and is confirmed
    /// then.
    pub fn confirm(&mut self, receipt: Receipt) {
        if let Some(receiver) = &mut self.receiver
            && receiver.confirm(receipt).is_err()
        {
            self.lose();
        }
    }

    /// True while the node is away.
    pub const fn is_away(&self) -> bool {
        self.receiver.is_none()
    }

    /// Begins anew: what was delivered and is not confirmed comes again.
    pub fn restart(&mut self) {
        if let Some(receiver) = self.receiver.take() {
            // What was confirmed and not handed over comes again, and is known for a repeat.
            let _ = receiver.finish();
        }
    }

    /// The connection is of no more use.
    pub fn lose(&mut self) {
        self.receiver = None;
    }

    /// Hands over all confirmations.
    pub fn finish(mut self) {
        self.restart();
    }

    fn connect_again(&mut self, wait: Duration) -> Result<(), Failure> {
        thread::sleep(self.backoff.min(wait));
        match Client::connect(&self.address).and_then(|client| client.receiver(&self.registration))
        {
            Ok(receiver) => {
                [self.backoff, _] = BACKOFF;
                self.receiver = Some(receiver);
                Ok(())
            }
            Err(error) if error.is_lost() => {
                let [_, largest] = BACKOFF;
                self.backoff = (self.backoff * 2).min(largest);
                Ok(())
            }
            Err(error) => Err(failure("receive at the endpoint again", &error)),
        }
    }
}

/// Octets of an administrative record that are read; status reports have some dozens, aggregated ones up to
/// about 150,000.
const RECORD_OCTETS: u64 = 256 * 1024;

/// The status reports that a delivery carries, if it does; the imperfections of deployed programs are
/// read over.
pub fn status_reports(delivery: &mut Delivery<'_>) -> Vec<StatusReport> {
    let flags = BundleFlags::from_bits(delivery.head().flags);
    if !flags.contains(BundleFlags::ADMINISTRATIVE_RECORD)
        || delivery.head().payload_octets > RECORD_OCTETS
    {
        return Vec::new();
    }
    let mut payload = Vec::new();
    if delivery.read_to_end(&mut payload).is_err() {
        return Vec::new();
    }
    match AdministrativeRecord::decode(&Bytes::from(payload), Reading::Lenient) {
        Ok(AdministrativeRecord::StatusReport(report)) => vec![report],
        Ok(AdministrativeRecord::AggregatedReport(report)) => report.reports().collect(),
        Ok(AdministrativeRecord::Other { .. }) | Err(_) => Vec::new(),
    }
}
