//! The messages that a sender writes and reads for each bundle, with as few octets and allocations as
//! possible.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dhow_bundle::{CreationTimestamp, DtnTime, EndpointId, Priority, Version};
use dhow_node::api::encoding::put_request;
use dhow_node::api::wire::{BundleAdu, STATUS_SUCCESS};
use prost::Message;

use crate::error::{Error, Refusal};
use crate::sender::{Created, Ticket};

/// The parameters of a bundle to be sent: endpoints, lifetime, flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendHead {
    destination: EndpointId,
    source: Option<EndpointId>,
    report_to: Option<EndpointId>,
    lifetime: Option<Duration>,
    flags: u64,
    aggregated_reports: bool,
    version: Version,
    priority: Option<Priority>,
}

impl SendHead {
    /// A bundle for an endpoint, with the node's default lifetime and no reports.
    #[must_use]
    pub const fn to(destination: EndpointId) -> Self {
        Self {
            destination,
            source: None,
            report_to: None,
            lifetime: None,
            flags: 0,
            aggregated_reports: false,
            version: Version::V7,
            priority: None,
        }
    }

    /// The source, if not the endpoint of the connection (the null endpoint, for an anonymous bundle).
    #[must_use]
    pub fn with_source(mut self, source: EndpointId) -> Self {
        self.source = Some(source);
        self
    }

    /// The report-to endpoint (default: the source).
    #[must_use]
    pub fn with_report_to(mut self, report_to: EndpointId) -> Self {
        self.report_to = Some(report_to);
        self
    }

    /// The lifetime of the bundle, in whole milliseconds (default: the node's).
    #[must_use]
    pub const fn with_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Bundle processing control flags to ask for (RFC 9171 4.2.3): 0x4 must not fragment, 0x20
    /// acknowledgment by the application, 0x40 times in reports, reports of reception 0x4000,
    /// forwarding 0x10000, delivery 0x20000 and deletion 0x40000.
    #[must_use]
    pub const fn with_flags(mut self, flags: u64) -> Self {
        self.flags = flags;
        self
    }

    /// Say that the report-to endpoint reads aggregated reports (`docs/aggregated-reports.md`): nodes
    /// that can then tell of many bundles in one.
    #[must_use]
    pub const fn with_aggregated_reports(mut self) -> Self {
        self.aggregated_reports = true;
        self
    }

    /// The version of the bundle (default: 7). Of version 6, flags are those of RFC 5050 4.2: 0x8 asks for custody, 0x8000 for reports of
    /// it, 0x80 and 0x100 are the class of service; its reports have times without 0x40.
    #[must_use]
    pub const fn with_version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// The order in which the bundle leaves nodes (default: normal, or of version 6 what its flags say).
    #[must_use]
    pub const fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    fn adu(&self, length: u64) -> BundleAdu {
        let text = |endpoint: &Option<EndpointId>| {
            endpoint
                .as_ref()
                .map(EndpointId::to_string)
                .unwrap_or_default()
        };
        BundleAdu {
            src_eid: text(&self.source),
            dst_eid: self.destination.to_string(),
            report_to_eid: text(&self.report_to),
            payload_length: length,
            lifetime_ms: self
                .lifetime
                .map(|lifetime| u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX)),
            bundle_flags: Some(self.flags),
            aggregated_reports: self.aggregated_reports,
            priority: (self.priority)
                .filter(|it| self.version != Version::V7 || *it != Priority::Normal)
                .map(|it| it.level().into()),
            bundle_version: (self.version != Version::V7).then(|| self.version.number().into()),
            ..BundleAdu::default()
        }
    }
}

/// A request without its number, as octets: most bundles of a sender differ in nothing else.
#[derive(Debug)]
pub(crate) struct Request {
    head: SendHead,
    length: u64,
    adu: Vec<u8>,
    /// Octets of the endpoint IDs that the answer repeats.
    pub(crate) endpoint_octets: usize,
}

impl Request {
    pub(crate) fn new(head: &SendHead, length: u64) -> Self {
        let adu = head.adu(length);
        Self {
            head: head.clone(),
            length,
            endpoint_octets: adu.src_eid.len() + adu.dst_eid.len(),
            adu: adu.encode_to_vec(),
        }
    }

    pub(crate) fn is_for(&self, head: &SendHead, length: u64) -> bool {
        self.length == length && self.head == *head
    }

    pub(crate) fn put(&self, ticket: Ticket, out: &mut BytesMut) {
        put_request(&self.adu, ticket.0, out);
    }
}

/// An answer as a sender reads it: `AapResponse` without what the sender knows already.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Response {
    #[prost(int32, tag = "1")]
    status: i32,
    #[prost(message, optional, tag = "3")]
    bundle: Option<CreatedBundle>,
    #[prost(string, tag = "1003")]
    message: String,
}

/// Of `Bundle` in an answer, what the sender does not know; the source as octets, which need no room of
/// their own.
#[derive(Clone, PartialEq, Message)]
struct CreatedBundle {
    #[prost(bytes = "bytes", tag = "1")]
    source: Bytes,
    #[prost(uint64, tag = "3")]
    creation_timestamp_ms: u64,
    #[prost(uint64, tag = "4")]
    sequence_number: u64,
    #[prost(uint64, tag = "8")]
    lifetime_ms: u64,
}

/// Reads answers; knows the source of the answer before, which is mostly that of the next.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    newest: Option<(Bytes, EndpointId)>,
}

impl Answers {
    /// The outcome that an answer reports: the bundle created, or the node's refusal.
    pub(crate) fn read(&mut self, response: Response) -> Result<Result<Created, Refusal>, Error> {
        if response.status != STATUS_SUCCESS {
            return Ok(Err(response.into()));
        }
        let Some(bundle) = response.bundle else {
            return Err(Error::Protocol(
                "an answer says success and not which bundle".into(),
            ));
        };
        Ok(Ok(Created {
            source: self.source(&bundle.source)?,
            creation: CreationTimestamp {
                time: DtnTime::from_millis(bundle.creation_timestamp_ms),
                sequence: bundle.sequence_number,
            },
            lifetime_ms: bundle.lifetime_ms,
        }))
    }

    fn source(&mut self, octets: &Bytes) -> Result<EndpointId, Error> {
        if let Some((known, source)) = &self.newest
            && known == octets
        {
            return Ok(source.clone());
        }
        let text = String::from_utf8_lossy(octets);
        let source: EndpointId = text
            .parse()
            .map_err(|error| Error::Protocol(format!("source '{text}': {error}")))?;
        // A copy: the slice would keep the buffer that it was read into.
        self.newest = Some((Bytes::copy_from_slice(octets), source.clone()));
        Ok(source)
    }
}

impl From<Response> for Refusal {
    fn from(response: Response) -> Self {
        Self {
            status: response.status,
            message: response.message,
        }
    }
}

#[cfg(test)]
mod tests {
    use dhow_node::api::wire::{AapMessage, AapResponse, Body, Bundle};

    use super::*;

    #[test]
    fn a_numbered_request_is_the_message_with_its_number() {
        let head = SendHead::to("ipn:4.42".parse().unwrap())
            .with_source("ipn:2.5".parse().unwrap())
            .with_lifetime(Duration::from_secs(60))
            .with_flags(0x2_0000);
        for (length, number) in [(0, 0), (1000, 1), (u64::MAX, 127), (7, u64::MAX)] {
            let mut octets = BytesMut::new();
            Request::new(&head, length).put(Ticket(number), &mut octets);
            let message = AapMessage::decode_length_delimited(octets.freeze()).unwrap();
            let adu = BundleAdu {
                request_id: Some(number),
                ..head.adu(length)
            };
            assert_eq!(message, AapMessage::new(Body::Adu(adu)));
        }
    }

    #[test]
    fn an_answer_is_read_whatever_else_it_says() {
        let mut answers = Answers::default();
        for source in ["ipn:2.5", "ipn:2.5", "dtn://two/five"] {
            let octets = AapResponse {
                bundle_headers: Some(Bundle {
                    src_eid: source.into(),
                    dst_eid: "ipn:4.42".into(),
                    creation_timestamp_ms: 800_000_000_000,
                    sequence_number: 3,
                    payload_length: 1000,
                    lifetime_ms: 60_000,
                    ..Bundle::default()
                }),
                request_id: Some(9),
                ..AapResponse::of(STATUS_SUCCESS)
            }
            .encode_to_vec();
            let response = Response::decode(Bytes::from(octets)).unwrap();
            let created = answers.read(response).unwrap().unwrap();
            assert_eq!(created.source, source.parse().unwrap());
            assert_eq!(
                (
                    created.creation.time.as_millis(),
                    created.creation.sequence,
                    created.lifetime_ms
                ),
                (800_000_000_000, 3, 60_000)
            );
        }
        let refused = AapResponse {
            message: "no room".into(),
            ..AapResponse::of(8)
        };
        let response = Response::decode(Bytes::from(refused.encode_to_vec())).unwrap();
        let refusal = answers.read(response).unwrap().unwrap_err();
        assert_eq!((refusal.status, refusal.message.as_str()), (8, "no room"));
        let bare = Response::decode(Bytes::from(AapResponse::of(1).encode_to_vec())).unwrap();
        assert!(answers.read(bare).is_err());
    }
}
