//! Requests of a client that sends, and the answers in the order of the requests.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::BytesMut;
use dhow_bundle::{CreationTimestamp, EndpointId, Priority, Version};

use super::encoding::{Created, EndpointTexts};
use super::seam::{ApiRefusal, RequestId, SendRequest};
use super::wire::{
    ADU_BPDU, ADU_NORMAL, ADU_STATUS_REPORT, ADU_WITH_BDM_AUTH, AapResponse, Bundle, BundleAdu,
    STATUS_ERROR, STATUS_INVALID_REQUEST, STATUS_NOT_FOUND, STATUS_SUCCESS, STATUS_UNAUTHORIZED,
    put_message,
};

/// Most requests of one connection that wait for their answer: at 300,000 bundles a second they cover
/// a flush of 50 ms, and hold a few MB.
pub const REQUESTS_MAX: usize = 16_384;

/// Bundle processing control flags that a sender may ask for (RFC 9171 4.2.3): must not fragment,
/// acknowledgment by the application, times in reports, and reports of reception, forwarding, delivery
/// and deletion.
pub const REQUESTABLE_FLAGS: u64 =
    0x4 | 0x20 | 0x40 | 0x4000 | 0x1_0000 | FLAG_REPORT_DELIVERY | 0x4_0000;

/// The flags of version 6 (RFC 5050 4.2): custody and reports of it and the class of service as well, and no times, which its reports have.
pub const REQUESTABLE_FLAGS_V6: u64 = REQUESTABLE_FLAGS & !0x40 | 0x8 | 0x180 | 0x8000;

/// Request reporting of bundle delivery (RFC 9171 4.2.3).
const FLAG_REPORT_DELIVERY: u64 = 0x2_0000;

/// Limits and defaults of a connection that sends.
#[derive(Debug)]
pub(super) struct SendRules {
    /// The connection's endpoint.
    pub(super) endpoint: Option<EndpointId>,
    /// Lifetime where the client says none, milliseconds.
    pub(super) default_lifetime_ms: u64,
    /// The newest request: a client that sends much mostly sends the like of it again.
    newest: Option<Known>,
}

/// A request that was read.
#[derive(Debug)]
struct Known {
    /// Its octets but for its number.
    adu: Vec<u8>,
    wanted: Wanted,
}

/// A bundle that a client asks to send, with the destination as the client spells it.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) send: SendRequest,
    destination: Arc<str>,
}

impl SendRules {
    pub(super) const fn new(default_lifetime_ms: u64) -> Self {
        Self {
            endpoint: None,
            default_lifetime_ms,
            newest: None,
        }
    }

    /// The request that has these octets, if it was the newest one.
    pub(super) fn again(&self, adu: &[u8]) -> Option<Wanted> {
        let known = self.newest.as_ref().filter(|known| known.adu == adu)?;
        Some(known.wanted.clone())
    }

    /// Know a request again by its octets.
    pub(super) fn remember(&mut self, adu: &[u8], wanted: &Wanted) {
        self.newest = Some(Known {
            adu: adu.to_vec(),
            wanted: wanted.clone(),
        });
    }

    /// Read what a client wants to send.
    pub(super) fn read(&self, adu: &BundleAdu) -> Result<Wanted, ApiRefusal> {
        check_kind(&adu.adu_flags)?;
        let destination = parse(&adu.dst_eid, "destination")?;
        if destination == EndpointId::Null {
            return Err(ApiRefusal::InvalidRequest(
                "a bundle needs a destination".into(),
            ));
        }
        let source = match adu.src_eid.as_str() {
            "" => None,
            text => Some(parse(text, "source")?),
        };
        if let Some(source) = &source
            && *source != EndpointId::Null
            && self.endpoint.as_ref() != Some(source)
        {
            return Err(ApiRefusal::Unauthorized(format!(
                "{source} is not the endpoint of this connection"
            )));
        }
        let report_to = match adu.report_to_eid.as_str() {
            "" => None,
            text => Some(parse(text, "report-to endpoint")?),
        };
        // A client that knows nothing of flags wants to hear of the delivery when it says where.
        let flags = match (adu.bundle_flags, &report_to) {
            (Some(flags), _) => flags,
            (None, Some(_)) => FLAG_REPORT_DELIVERY,
            (None, None) => 0,
        };
        let version = match adu.bundle_version {
            None => Version::V7,
            Some(number) => u8::try_from(number)
                .ok()
                .and_then(Version::of_number)
                .ok_or_else(|| {
                    let why = format!("there is no version {number} of bundles: 6 or 7");
                    ApiRefusal::InvalidRequest(why)
                })?,
        };
        let priority = match adu.priority {
            // An application that says nothing of a bundle of version 6 does not mean that it may wait for all others.
            None => adu.bundle_flags.is_none().then_some(Priority::Normal),
            Some(level) => Some(Priority::of_level(level).ok_or_else(|| {
                let why = format!("there is no priority {level}: 1 to 257");
                ApiRefusal::InvalidRequest(why)
            })?),
        };
        let requestable = match version {
            Version::V6 => REQUESTABLE_FLAGS_V6,
            Version::V7 => REQUESTABLE_FLAGS,
        };
        if flags & !requestable != 0 {
            return Err(ApiRefusal::InvalidRequest(format!(
                "bundle processing control flags {:#x} are not the sender's to set",
                flags & !requestable
            )));
        }
        Ok(Wanted {
            send: SendRequest {
                source,
                destination,
                report_to,
                priority,
                lifetime_ms: adu.lifetime_ms.unwrap_or(self.default_lifetime_ms),
                version,
                flags,
                aggregated_reports: adu.aggregated_reports,
                payload_octets: adu.payload_length,
            },
            destination: adu.dst_eid.as_str().into(),
        })
    }
}

/// Refuse kinds of ADU that are not offered.
fn check_kind(kinds: &[i32]) -> Result<(), ApiRefusal> {
    for &kind in kinds {
        match kind {
            ADU_NORMAL => {}
            ADU_WITH_BDM_AUTH => {
                return Err(ApiRefusal::Unauthorized(
                    "this node offers no bundle dispatch to applications".into(),
                ));
            }
            ADU_BPDU | ADU_STATUS_REPORT => {
                return Err(ApiRefusal::InvalidRequest(
                    "applications may not send administrative records".into(),
                ));
            }
            other => {
                return Err(ApiRefusal::InvalidRequest(format!(
                    "ADU flag {other} is unknown"
                )));
            }
        }
    }
    Ok(())
}

/// Read an endpoint ID.
pub(super) fn parse(text: &str, what: &str) -> Result<EndpointId, ApiRefusal> {
    text.parse()
        .map_err(|error| ApiRefusal::InvalidRequest(format!("cannot read the {what}: {error}")))
}

/// A refusal as a response.
pub(super) fn refusal(refusal: ApiRefusal, request_id: Option<u64>) -> AapResponse {
    let (status, message) = match refusal {
        ApiRefusal::InvalidRequest(message) => (STATUS_INVALID_REQUEST, message),
        ApiRefusal::Unauthorized(message) => (STATUS_UNAUTHORIZED, message),
        ApiRefusal::NoResources(message) => (STATUS_ERROR, message),
        ApiRefusal::NotFound(message) => (STATUS_NOT_FOUND, message),
    };
    AapResponse {
        message,
        request_id,
        ..AapResponse::of(status)
    }
}

/// An answer that must wait for those before it.
fn response(created: &Created<'_>) -> AapResponse {
    AapResponse {
        bundle_headers: Some(Bundle {
            src_eid: created.source.into(),
            dst_eid: created.destination.into(),
            creation_timestamp_ms: created.creation.time.as_millis(),
            sequence_number: created.creation.sequence,
            payload_length: created.payload_octets,
            lifetime_ms: created.lifetime_ms,
            ..Bundle::default()
        }),
        request_id: created.request_id,
        ..AapResponse::of(STATUS_SUCCESS)
    }
}

/// A request on its way to its answer.
#[derive(Debug)]
enum Slot {
    /// The node has the request.
    Waiting {
        /// The destination as the client spelt it.
        destination: Arc<str>,
        lifetime_ms: u64,
        payload_octets: u64,
        request_id: Option<u64>,
    },
    /// An answer that waits for those before it.
    Answered(Box<AapResponse>),
}

/// The requests of one connection, oldest first.
#[derive(Debug, Default)]
pub(super) struct Requests {
    slots: VecDeque<Slot>,
    /// Number of the first slot.
    first: u64,
    /// The texts of the source, mostly one for all bundles of a connection.
    source: EndpointTexts,
}

impl Requests {
    pub(super) fn is_full(&self) -> bool {
        self.slots.len() >= REQUESTS_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// A request that the node is to answer.
    pub(super) fn ask(&mut self, wanted: &Wanted, request_id: Option<u64>) -> RequestId {
        let number = self.next();
        self.slots.push_back(Slot::Waiting {
            destination: Arc::clone(&wanted.destination),
            lifetime_ms: wanted.send.lifetime_ms,
            payload_octets: wanted.send.payload_octets,
            request_id,
        });
        number
    }

    /// A request that is answered already.
    pub(super) fn push_answered(&mut self, response: AapResponse) {
        self.slots.push_back(Slot::Answered(Box::new(response)));
    }

    /// The node has answered: write the answers whose turn it is. Answers to what is answered or was never
    /// asked are dropped.
    pub(super) fn answer(
        &mut self,
        request: RequestId,
        outcome: Result<(EndpointId, CreationTimestamp), ApiRefusal>,
        out: &mut BytesMut,
    ) {
        let Some(offset) = request.0.checked_sub(self.first) else {
            return;
        };
        let Ok(offset) = usize::try_from(offset) else {
            return;
        };
        let Some(slot) = self.slots.get_mut(offset) else {
            return;
        };
        if let Slot::Waiting {
            destination,
            lifetime_ms,
            payload_octets,
            request_id,
        } = slot
        {
            match outcome {
                Ok((source, creation)) => {
                    let created = Created {
                        source: &self.source.of(&source),
                        destination,
                        creation,
                        payload_octets: *payload_octets,
                        lifetime_ms: *lifetime_ms,
                        request_id: *request_id,
                    };
                    if offset == 0 {
                        created.put(out);
                        self.pop();
                    } else {
                        *slot = Slot::Answered(Box::new(response(&created)));
                    }
                }
                Err(why) => *slot = Slot::Answered(Box::new(refusal(why, *request_id))),
            }
        }
        self.release(out);
    }

    /// Write the answers whose turn it is.
    pub(super) fn release(&mut self, out: &mut BytesMut) {
        while let Some(Slot::Answered(response)) = self.slots.front() {
            put_message(response.as_ref(), out);
            self.pop();
        }
    }

    fn pop(&mut self) {
        self.slots.pop_front();
        self.first = self.first.saturating_add(1);
    }

    /// Forget everything: the connection is over. Numbers go on.
    pub(super) fn clear(&mut self) {
        self.first = self.next().0;
        self.slots.clear();
    }

    /// The number of the next request.
    fn next(&self) -> RequestId {
        let waiting = u64::try_from(self.slots.len()).unwrap_or(u64::MAX);
        RequestId(self.first.saturating_add(waiting))
    }
}
