//! The application's side of a node: connections that send, and subscriptions that outlive a restart of
//! the node.

use std::io::Read as _;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dhow_bundle::gateway::record_to_v7;
use dhow_bundle::v7::admin::{AdministrativeRecord, StatusReport};
use dhow_bundle::{BundleFlags, EndpointId, NodeId, Reading, Version, v6};
use dhow_client::{Address, Client, Delivery, Error, Receipt, Receiver, Registration};

use crate::address::hint_of;
use crate::digest::hexadecimal;
use crate::failure::Failure;

/// Told with every failure of a node to answer.
pub const SILENT_HINT: &str = "a process has the node's socket open and does not answer: it may be stopped or overloaded; see its log, or restart it: stored bundles are kept";

/// A healthy node greets within this time, also where a command's timeout is shorter.
const GREETING_MIN: Duration = Duration::from_secs(1);

/// A node that greets later is taken for one that does not answer, also where a command's timeout is longer.
const GREETING_MAX: Duration = Duration::from_secs(30);

/// A node that takes and gives no octet for longer than this does not answer, also where a command's timeout is longer.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The failure of the command for a failed call, as "cannot …: {error}".
pub fn failure(what: &str, error: &Error) -> Failure {
    let failure = Failure::refused(format!("cannot {what}: {error}"));
    match error {
        Error::Unreachable { source, .. } => failure.with_hint(hint_of(source)),
        Error::Silent(_) => failure.with_hint(SILENT_HINT),
        _ => failure,
    }
}

/// Connects to a node, which must answer within the command's timeout, where it has one.
pub fn connect(address: &Address, timeout: Option<Duration>) -> Result<Client, Failure> {
    connection(address, timeout).map_err(|error| failure("reach the node", &error))
}

fn connection(address: &Address, timeout: Option<Duration>) -> Result<Client, Error> {
    let within = |most: Duration| timeout.map_or(most, |it| it.clamp(GREETING_MIN, most));
    Client::connect_within(address, within(GREETING_MAX))?.with_patience(within(SILENCE_MAX))
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

/// A node sees within this time that an application has ended.
const JUST_ENDED: Duration = Duration::from_millis(500);

/// Deliveries at an endpoint, also after the node has been away.
#[derive(Debug)]
pub struct Subscription {
    address: Address,
    registration: Registration,
    /// The time for which the node may be silent, where the command says so.
    timeout: Option<Duration>,
    receiver: Option<Receiver>,
    backoff: Duration,
}

/// The outcome of waiting for a delivery.
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
    /// Subscribes; the node must be there now, and answer within the command's timeout, where it has one.
    pub fn begin(
        address: &Address,
        registration: Registration,
        timeout: Option<Duration>,
    ) -> Result<Self, Failure> {
        let receiver = connect(address, timeout)?
            .receiver(&registration)
            .map_err(|error| failure("receive at the endpoint", &error))?;
        Ok(Self::with(address, registration, timeout, receiver))
    }

    /// As [`begin`](Self::begin), as the only application at the endpoint: there is no other receiver while this subscription lasts. One
    /// that has just ended, and whose end the node has not seen, is waited for. `hint` is told where there is another.
    pub fn begin_alone(
        address: &Address,
        registration: Registration,
        timeout: Option<Duration>,
        hint: &str,
    ) -> Result<Self, Failure> {
        let registration = registration.with_secret(hexadecimal(&random::<16>()?));
        let begun = Instant::now();
        loop {
            match connect(address, timeout)?.receiver(&registration) {
                Ok(receiver) => return Ok(Self::with(address, registration, timeout, receiver)),
                Err(Error::Refused(refusal))
                    if refusal.is_unauthorized() && begun.elapsed() < JUST_ENDED => {}
                Err(error) => {
                    let is_held = matches!(&error, Error::Refused(it) if it.is_unauthorized());
                    let failure = failure("receive at the endpoint", &error);
                    return Err(match is_held {
                        true => failure.with_hint(hint),
                        false => failure,
                    });
                }
            }
            let [pause, _] = BACKOFF;
            thread::sleep(pause);
        }
    }

    fn with(
        address: &Address,
        registration: Registration,
        timeout: Option<Duration>,
        receiver: Receiver,
    ) -> Self {
        let [backoff, _] = BACKOFF;
        Self {
            address: address.clone(),
            registration,
            timeout,
            receiver: Some(receiver),
            backoff,
        }
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

    /// Declines a delivery of this connection: the node keeps it and delivers it again a second later.
    pub fn decline(&mut self, receipt: Receipt) {
        if let Some(receiver) = &mut self.receiver
            && receiver.decline(receipt).is_err()
        {
            self.lose();
        }
    }

    /// True while the node is away.
    pub const fn is_away(&self) -> bool {
        self.receiver.is_none()
    }

    /// Begins anew: deliveries that are not confirmed come again.
    pub fn restart(&mut self) {
        if let Some(receiver) = self.receiver.take() {
            // Deliveries that were confirmed and whose confirmations were not handed over come again, and are known for repeats.
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
        let client = connection(&self.address, self.timeout);
        match client.and_then(|client| client.receiver(&self.registration)) {
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
    let payload = Bytes::from(payload);
    if is_of_v6(delivery.head().version, &payload) {
        return status_report_of_v6(&payload).into_iter().collect();
    }
    match AdministrativeRecord::decode(&payload, Reading::Lenient) {
        Ok(AdministrativeRecord::StatusReport(report)) => vec![report],
        Ok(AdministrativeRecord::AggregatedReport(report)) => report.reports().collect(),
        Ok(AdministrativeRecord::Other { .. }) | Err(_) => Vec::new(),
    }
}

/// Whether a record is one of version 6: its bundle is, or, where the node did not say of which version the bundle is, it begins as none of version 7 does,
/// which is an array.
fn is_of_v6(version: Version, payload: &[u8]) -> bool {
    let is_array = payload.first().is_some_and(|first| first >> 5 == ARRAY);
    version == Version::V6 || !is_array
}

/// Major type of arrays (RFC 8949 3.1).
const ARRAY: u8 = 4;

/// A status report of version 6, told as one of version 7 (docs/gateway.md).
fn status_report_of_v6(payload: &[u8]) -> Option<StatusReport> {
    let mut record = v6::admin::AdministrativeRecord::decode(payload).ok()?;
    if let v6::admin::AdministrativeRecord::StatusReport(report) = &mut record {
        // Version 7 has no word for custody: what else the report says counts.
        let [_, custody, ..] = &mut report.times;
        *custody = None;
    }
    match record_to_v7(&record) {
        Ok(AdministrativeRecord::StatusReport(report)) => Some(report),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::{CreationTimestamp, DtnTime};

    use super::*;

    fn report_of_v6(times: [Option<v6::admin::ReportTime>; 5]) -> Vec<u8> {
        let report = v6::admin::StatusReport {
            subject: v6::admin::Subject {
                source: "ipn:1.5".parse().unwrap(),
                creation: v6::CreationTime {
                    seconds: 848_000_000,
                    sequence: 7_042,
                },
                fragment: None,
            },
            reason: 0,
            times,
        };
        v6::admin::AdministrativeRecord::StatusReport(report).encode()
    }

    #[test]
    fn a_report_of_version_6_is_told_as_one_of_version_7() {
        let time = Some(v6::admin::ReportTime {
            seconds: 848_000_005,
            nanoseconds: 250_000_000,
        });
        for times in [
            [None, None, None, time, None],
            [None, time, None, time, None],
        ] {
            let record = report_of_v6(times);
            // A node of before says nothing of the version.
            assert!(is_of_v6(Version::V6, &record) && is_of_v6(Version::V7, &record));
            let report = status_report_of_v6(&record).unwrap();
            assert_eq!(
                report.bundle.creation,
                CreationTimestamp {
                    time: DtnTime::from_millis(848_000_000_042),
                    sequence: 7,
                }
            );
            let at = report.delivered.unwrap().time;
            assert_eq!(at, Some(DtnTime::from_millis(848_000_005_250)));
            assert!(report.received.is_none() && report.deleted.is_none());
        }
        let custody_alone = report_of_v6([None, time, None, None, None]);
        assert_eq!(status_report_of_v6(&custody_alone), None);
        assert!(!is_of_v6(Version::V7, &[0x82, 1]));
    }
}
