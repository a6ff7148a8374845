//! Octets from nowhere: nothing panics, nothing grows.

use proptest::prelude::*;

use super::*;
use crate::tcpcl::v4::oracle::{check_session, established, from_the_start};

fn message() -> impl Strategy<Value = Message> {
    use super::super::extension::TransferExtensions;
    use super::super::message::{SessInit, XferSegment};
    prop_oneof![
        (
            any::<u8>(),
            any::<u64>(),
            any::<Option<u64>>(),
            0..200_u64,
            any::<bool>()
        )
            .prop_map(|(flags, transfer, length, data_length, unverified)| {
                let length = if flags & 2 == 0 { None } else { length };
                let extensions = TransferExtensions {
                    length,
                    unverified: unverified && flags & 2 != 0,
                    fault: None,
                };
                Message::XferSegment(XferSegment {
                    flags,
                    transfer,
                    extensions,
                    data_length,
                })
            }),
        any::<(u8, u64, u64)>().prop_map(|(flags, transfer, acknowledged_length)| {
            Message::XferAck {
                flags,
                transfer,
                acknowledged_length,
            }
        }),
        any::<(u8, u64)>().prop_map(|(reason, transfer)| Message::XferRefuse { reason, transfer }),
        Just(Message::Keepalive),
        any::<(u8, u8)>().prop_map(|(flags, reason)| Message::SessTerm { flags, reason }),
        any::<(u8, u8)>().prop_map(|(reason, rejected)| Message::MsgReject { reason, rejected }),
        (
            any::<(u16, u64, u64)>(),
            "[ -~]{0,40}",
            proptest::collection::vec(any::<u8>(), 0..40)
        )
            .prop_map(
                |((keepalive_s, segment_mru, transfer_mru), node_id, extensions)| {
                    let extensions = Bytes::from(extensions);
                    Message::SessInit(SessInit {
                        keepalive_s,
                        segment_mru,
                        transfer_mru,
                        node_id,
                        extensions,
                    })
                }
            ),
    ]
}

/// Cut octets into chunks of the given lengths, again and again.
fn chunks(octets: &[u8], lengths: &[usize]) -> Vec<Bytes> {
    let mut rest = octets;
    let mut chunks = Vec::new();
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, behind) = rest.split_at((*length).min(rest.len()));
        chunks.push(Bytes::copy_from_slice(chunk));
        rest = behind;
    }
    chunks
}

proptest! {
    /// Every message survives the way over the wire, in whatever pieces it arrives.
    #[test]
    fn messages_are_read_as_they_were_written(
        sent in proptest::collection::vec(message(), 0..20),
        lengths in proptest::collection::vec(1..60_usize, 1..8),
    ) {
        let mut octets = BytesMut::new();
        let mut data = Vec::new();
        for message in &sent {
            message.encode(&mut octets);
            if let Message::XferSegment(segment) = message {
                let start = data.len() as u64;
                let fresh: Vec<u8> = (start..start + segment.data_length).map(log_octet).collect();
                octets.extend_from_slice(&fresh);
                data.extend(fresh);
            }
        }
        let mut decoder = Decoder::default();
        let (mut read, mut read_data) = (Vec::new(), Vec::new());
        for mut chunk in chunks(&octets, &lengths) {
            while let Some(item) = decoder.next(&mut chunk).unwrap() {
                match item {
                    Item::Message(message) => read.push(message),
                    Item::Data { octets, .. } => read_data.extend_from_slice(&octets),
                }
            }
            prop_assert!(chunk.is_empty());
        }
        prop_assert_eq!(read, sent);
        prop_assert_eq!(read_data, data);
    }

    /// A session copes with any octets and any order of messages.
    #[test]
    fn no_stream_of_messages_breaks_a_session(
        sent in proptest::collection::vec(message(), 0..60),
        noise in proptest::collection::vec(any::<u8>(), 0..40),
        choices in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut octets = BytesMut::new();
        for message in &sent {
            message.encode(&mut octets);
            if let Message::XferSegment(segment) = message {
                octets.extend((0..segment.data_length).map(log_octet));
            }
        }
        octets.extend_from_slice(&noise);
        established(&octets, &choices);
        from_the_start(Role::Passive, &octets);
        from_the_start(Role::Active, &octets);
    }

    #[test]
    fn no_octets_break_a_session(octets in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _transfers = check_session(&octets);
    }
}
