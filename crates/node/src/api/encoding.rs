//! The encoding of the messages that go with every single bundle: the same octets as those of
//! [`wire`](super::wire), written and recognised without making the message's strings first.

use alloc::string::{String, ToString};
use alloc::sync::Arc;

use bytes::BufMut;
use dhow_bundle::{CreationTimestamp, EndpointId, Priority, Version};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use super::seam::{DeliveryHead, DeliveryId};
use super::wire::STATUS_SUCCESS;

/// Field of the `BundleAdu` in an `AapMessage`.
const ADU_TAG: u32 = 3;

/// Field of the request ID in a `BundleAdu` and in an `AapResponse`.
const REQUEST_ID_TAG: u32 = 1002;

/// The key of the request ID, a varint, as octets.
const REQUEST_ID_KEY: [u8; 2] = [0xd0, 0x3e];

/// Field of the `Bundle` in an `AapResponse`.
const BUNDLE_TAG: u32 = 3;

/// Append a request whose `adu`, without its request ID, is encoded already: a client that sends much
/// mostly sends the same head with another number.
pub fn put_request(adu: &[u8], request_id: u64, out: &mut impl BufMut) {
    let body = octets(adu.len() + key_len(REQUEST_ID_TAG) + encoded_len_varint(request_id));
    let message = octets(key_len(ADU_TAG) + encoded_len_varint(body)) + body;
    encode_varint(message, out);
    encode_key(ADU_TAG, WireType::LengthDelimited, out);
    encode_varint(body, out);
    out.put_slice(adu);
    encode_key(REQUEST_ID_TAG, WireType::Varint, out);
    encode_varint(request_id, out);
}

/// The `adu` and the request ID of a message that [`put_request`] could have written; `None` for any
/// other, which may all the same be a request.
pub(super) fn split_request(message: &[u8]) -> Option<(&[u8], u64)> {
    let (&[key], rest) = message.split_first_chunk()?;
    if key != 0x1a {
        return None;
    }
    let (length, body) = varint(rest)?;
    let (last, before) = body.split_last()?;
    // Octets of a varint but its last one have their highest bit set, and the key's last one has not.
    let more = before.iter().rev().take_while(|octet| **octet & 0x80 != 0);
    let (adu, number) = body.split_at_checked(before.len().checked_sub(more.count())?)?;
    let (number, after) = varint(number)?;
    let adu = adu.strip_suffix(&REQUEST_ID_KEY)?;
    (length == octets(body.len()) && last & 0x80 == 0 && after.is_empty()).then_some((adu, number))
}

/// A varint at the start of `octets`, and what follows.
fn varint(octets: &[u8]) -> Option<(u64, &[u8])> {
    let mut rest = octets;
    let value = prost::encoding::decode_varint(&mut rest).ok()?;
    Some((value, rest))
}

/// Octets of an answer, as most are.
const ANSWER_OCTETS: usize = 192;

/// The fields of the bundle that was created in the answer to a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Created<'a> {
    pub(super) source: &'a str,
    pub(super) destination: &'a str,
    pub(super) creation: CreationTimestamp,
    pub(super) payload_octets: u64,
    pub(super) lifetime_ms: u64,
    pub(super) request_id: Option<u64>,
}

impl Created<'_> {
    /// Append the `AapResponse` that says it.
    pub(super) fn put(&self, out: &mut impl BufMut) {
        let texts = [(1, self.source), (2, self.destination)];
        let numbers = [
            (3, self.creation.time.as_millis()),
            (4, self.creation.sequence),
            (5, self.payload_octets),
            (8, self.lifetime_ms),
        ];
        let bundle = texts
            .iter()
            .map(|&(tag, text)| text_len(tag, text))
            .sum::<usize>()
            + numbers
                .iter()
                .map(|&(tag, number)| number_len(tag, number))
                .sum::<usize>();
        let status = u64::try_from(STATUS_SUCCESS).unwrap_or_default();
        let message = number_len(1, status)
            + key_len(BUNDLE_TAG)
            + encoded_len_varint(octets(bundle))
            + bundle
            + self
                .request_id
                .map_or(0, |id| field_len(REQUEST_ID_TAG, id));
        let length = encoded_len_varint(octets(message)).saturating_add(message);
        let lengths = [octets(message), octets(bundle)];
        let mut room = [0; ANSWER_OCTETS];
        match room.get_mut(..length) {
            // Most answers are short: they are put together here, and given at once.
            Some(mut place) => {
                self.write(lengths, &texts, &numbers, &mut place);
                out.put_slice(room.get(..length).unwrap_or_default());
            }
            None => self.write(lengths, &texts, &numbers, out),
        }
    }

    fn write(
        &self,
        [message, bundle]: [u64; 2],
        texts: &[(u32, &str)],
        numbers: &[(u32, u64)],
        out: &mut impl BufMut,
    ) {
        encode_varint(message, out);
        put_number(1, u64::try_from(STATUS_SUCCESS).unwrap_or_default(), out);
        encode_key(BUNDLE_TAG, WireType::LengthDelimited, out);
        encode_varint(bundle, out);
        texts
            .iter()
            .for_each(|&(tag, text)| put_text(tag, text, out));
        numbers
            .iter()
            .for_each(|&(tag, number)| put_number(tag, number, out));
        if let Some(id) = self.request_id {
            put_field(REQUEST_ID_TAG, id, out);
        }
    }
}

/// Append the message that goes before the payload of a delivery of an ordinary bundle.
pub(super) fn put_delivery(
    id: DeliveryId,
    head: &DeliveryHead,
    encoding: &mut DeliveryEncoding,
    out: &mut impl BufMut,
) {
    let report_to = match &head.report_to {
        EndpointId::Null => Arc::default(),
        endpoint => encoding.report_to.of(endpoint),
    };
    let source = encoding.source.of(&head.id.source);
    let destination = encoding.destination.of(&head.destination);
    let before = [(1, &*source), (2, &*destination)];
    let numbers = [
        (3, head.id.creation.time.as_millis()),
        (4, head.id.creation.sequence),
        (5, head.payload_octets),
    ];
    let always = [(1000, head.lifetime_ms), (1001, head.flags), (1003, id.0)];
    let version = match head.version {
        Version::V6 => 6,
        // Zero is not written.
        Version::V7 => 0,
    };
    let priority = level_beyond_normal(head.priority).map_or(0, u64::from);
    let adu = before
        .iter()
        .map(|&(tag, text)| text_len(tag, text))
        .sum::<usize>()
        + numbers
            .iter()
            .map(|&(tag, number)| number_len(tag, number))
            .sum::<usize>()
        + text_len(7, &report_to)
        + always
            .iter()
            .map(|&(tag, number)| field_len(tag, number))
            .sum::<usize>()
        + number_len(1005, version)
        + number_len(1006, priority);
    let message = key_len(ADU_TAG) + encoded_len_varint(octets(adu)) + adu;
    encode_varint(octets(message), out);
    encode_key(ADU_TAG, WireType::LengthDelimited, out);
    encode_varint(octets(adu), out);
    before
        .iter()
        .for_each(|&(tag, text)| put_text(tag, text, out));
    numbers
        .iter()
        .for_each(|&(tag, number)| put_number(tag, number, out));
    put_text(7, &report_to, out);
    always
        .iter()
        .for_each(|&(tag, number)| put_field(tag, number, out));
    put_number(1005, version, out);
    put_number(1006, priority, out);
}

/// The level of a priority, which a normal one need not say.
pub(super) fn level_beyond_normal(priority: Priority) -> Option<u32> {
    (priority != Priority::Normal).then(|| priority.level().into())
}

/// The texts of the endpoints that deliveries name.
#[derive(Debug, Default)]
pub(super) struct DeliveryEncoding {
    source: EndpointTexts,
    destination: EndpointTexts,
    report_to: EndpointTexts,
}

/// The text of an endpoint ID, which is mostly the same as the time before.
#[derive(Debug, Default)]
pub(super) struct EndpointTexts {
    newest: Option<(EndpointId, Arc<str>)>,
}

impl EndpointTexts {
    pub(super) fn of(&mut self, endpoint: &EndpointId) -> Arc<str> {
        match &self.newest {
            Some((known, text)) if known == endpoint => Arc::clone(text),
            _ => {
                let text: Arc<str> = String::into_boxed_str(endpoint.to_string()).into();
                self.newest = Some((endpoint.clone(), Arc::clone(&text)));
                text
            }
        }
    }
}

fn octets(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Octets of a number's field, also of a zero's.
fn field_len(tag: u32, number: u64) -> usize {
    key_len(tag) + encoded_len_varint(number)
}

fn put_field(tag: u32, number: u64, out: &mut impl BufMut) {
    encode_key(tag, WireType::Varint, out);
    encode_varint(number, out);
}

/// Octets of a number's field where zero is left out.
fn number_len(tag: u32, number: u64) -> usize {
    if number == 0 {
        0
    } else {
        field_len(tag, number)
    }
}

fn put_number(tag: u32, number: u64, out: &mut impl BufMut) {
    if number != 0 {
        put_field(tag, number, out);
    }
}

/// Octets of a text's field, where an empty text is left out.
fn text_len(tag: u32, text: &str) -> usize {
    match text.len() {
        0 => 0,
        length => key_len(tag) + encoded_len_varint(octets(length)) + length,
    }
}

fn put_text(tag: u32, text: &str, out: &mut impl BufMut) {
    if !text.is_empty() {
        encode_key(tag, WireType::LengthDelimited, out);
        encode_varint(octets(text.len()), out);
        out.put_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use dhow_bundle::{BundleId, DtnTime};
    use prost::Message as _;

    use super::*;
    use crate::api::wire::{AapMessage, AapResponse, Body, Bundle, BundleAdu, put_message};

    const NUMBERS: [u64; 6] = [0, 1, 127, 128, 800_000_000_000, u64::MAX];

    #[test]
    fn a_split_request_is_the_message_without_its_number() {
        for number in NUMBERS {
            for length in NUMBERS {
                let adu = BundleAdu {
                    dst_eid: "ipn:4.42".into(),
                    payload_length: length,
                    lifetime_ms: Some(length),
                    ..BundleAdu::default()
                };
                let (adu, mut message) = (adu.encode_to_vec(), BytesMut::new());
                put_request(&adu, number, &mut message);
                let mut rest = &message[..];
                prost::encoding::decode_varint(&mut rest).unwrap();
                assert_eq!(split_request(rest), Some((&adu[..], number)));
                let whole = AapMessage::decode(rest).unwrap();
                let Some(Body::Adu(read)) = whole.body else {
                    panic!("an adu")
                };
                assert_eq!(
                    (read.request_id, read.payload_length),
                    (Some(number), length)
                );
                for cut in 0..rest.len() {
                    assert_eq!(split_request(&rest[..cut]), None, "{cut} octets");
                }
                let more = [rest, &[0]].concat();
                assert_eq!(split_request(&more), None);
            }
        }
    }

    #[test]
    fn a_created_bundle_is_told_as_its_message_would() {
        for number in NUMBERS {
            for (source, request_id) in [("ipn:2.5", None), ("", Some(number))] {
                let created = Created {
                    source,
                    destination: "dtn://delta/inbox",
                    creation: CreationTimestamp {
                        time: DtnTime::from_millis(number),
                        sequence: number,
                    },
                    payload_octets: number,
                    lifetime_ms: number,
                    request_id,
                };
                let message = AapResponse {
                    bundle_headers: Some(Bundle {
                        src_eid: source.into(),
                        dst_eid: created.destination.into(),
                        creation_timestamp_ms: number,
                        sequence_number: number,
                        payload_length: number,
                        lifetime_ms: number,
                        ..Bundle::default()
                    }),
                    request_id,
                    ..AapResponse::of(STATUS_SUCCESS)
                };
                let (mut short, mut long) = (BytesMut::new(), BytesMut::new());
                created.put(&mut short);
                put_message(&message, &mut long);
                assert_eq!(short, long);
            }
        }
    }

    #[test]
    fn a_delivery_is_announced_as_its_message_would() {
        let mut encoding = DeliveryEncoding::default();
        for number in NUMBERS {
            for (report_to, rank) in [("dtn:none", 255), ("ipn:1.5", 0)] {
                let head = DeliveryHead {
                    version: dhow_bundle::Version::V7,
                    id: BundleId {
                        source: "ipn:1.5".parse().unwrap(),
                        creation: CreationTimestamp {
                            time: DtnTime::from_millis(number),
                            sequence: number,
                        },
                        fragment: None,
                    },
                    destination: "ipn:2.42".parse().unwrap(),
                    report_to: report_to.parse().unwrap(),
                    flags: number & !2,
                    priority: Priority::of_rank(rank),
                    lifetime_ms: number,
                    payload_octets: number,
                };
                let message = AapMessage::new(Body::Adu(BundleAdu {
                    src_eid: "ipn:1.5".into(),
                    dst_eid: "ipn:2.42".into(),
                    creation_timestamp_ms: number,
                    sequence_number: number,
                    payload_length: number,
                    report_to_eid: if report_to == "dtn:none" {
                        String::new()
                    } else {
                        report_to.into()
                    },
                    lifetime_ms: Some(number),
                    bundle_flags: Some(number & !2),
                    delivery_id: Some(number),
                    priority: (rank == 0).then_some(257),
                    ..BundleAdu::default()
                }));
                let (mut short, mut long) = (BytesMut::new(), BytesMut::new());
                put_delivery(DeliveryId(number), &head, &mut encoding, &mut short);
                put_message(&message, &mut long);
                assert_eq!(short, long);
            }
        }
    }
}
