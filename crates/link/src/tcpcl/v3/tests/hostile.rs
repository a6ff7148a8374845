//! Octets from nowhere: nothing panics, nothing grows.

use proptest::prelude::*;

use super::*;
use crate::tcpcl::v3::oracle::{check_session, established as established_with, from_the_start};

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (0..4_u8, 0..200_u64).prop_map(|(flags, length)| data(flags, length)),
        (0..4_u8, 0..200_u64).prop_map(|(flags, length)| data(flags, length)),
        prop_oneof![0..3_000_u64, any::<u64>()].prop_map(ack),
        (0..16_u8).prop_map(refuse),
        Just(Message::Keepalive),
        (any::<Option<u8>>(), any::<Option<u64>>())
            .prop_map(|(reason, delay_s)| Message::Shutdown(Shutdown { reason, delay_s })),
        prop_oneof![0..400_u64, any::<u64>()].prop_map(|octets| Message::Length { octets }),
    ]
}

proptest! {
    /// Every message survives the way over the wire, in whatever pieces it arrives.
    #[test]
    fn messages_are_read_as_they_were_written(
        sent in proptest::collection::vec(message(), 0..20),
        length in 1..60_usize,
    ) {
        let octets = encoded(&sent);
        let mut decoder = Decoder::default();
        let (mut read, mut read_data) = (Vec::new(), 0);
        for chunk in octets.chunks(length) {
            let mut chunk = Bytes::copy_from_slice(chunk);
            while let Some(item) = decoder.next(&mut chunk).unwrap() {
                match item {
                    Item::Message(message) => read.push(message),
                    Item::Data { octets, .. } => read_data += octets.len(),
                }
            }
            prop_assert!(chunk.is_empty());
        }
        let data: u64 = sent.iter().map(|message| match message {
            Message::DataSegment(segment) => segment.length,
            _ => 0,
        }).sum();
        prop_assert_eq!(read, sent);
        prop_assert_eq!(read_data as u64, data);
    }

    /// A session copes with any octets and any order of messages.
    #[test]
    fn no_stream_of_messages_breaks_a_session(
        sent in proptest::collection::vec(message(), 0..60),
        noise in proptest::collection::vec(any::<u8>(), 0..40),
        choices in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut octets = header(choices.first().copied().unwrap_or(7), 3, "ipn:1.0");
        let greeted = octets.len();
        octets.extend(encoded(&sent));
        octets.extend_from_slice(&noise);
        established_with(&octets[greeted..], &choices);
        from_the_start(&octets);
    }

    #[test]
    fn no_octets_break_a_session(octets in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _bundles = check_session(&octets);
    }
}
