//! Pairs of sessions, and octets from nowhere.

use proptest::prelude::*;

use super::*;
use crate::stcp::oracle::{check_session, received};

fn framing() -> impl Strategy<Value = Framing> {
    proptest::sample::select(Framing::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Bundles arrive as they were given, whatever is written and read at a time, with keep-alives between them.
    #[test]
    fn bundles_arrive_in_order_in_any_chunking(
        framing in framing(),
        lengths in proptest::collection::vec(prop_oneof![1..40_u64, 1..70_000_u64], 1..12),
        steps in proptest::collection::vec((1..9_000_usize, 1..9_000_usize, 0..20_000_u64), 1..30),
    ) {
        let mut session = sender(Config::new(framing));
        let mut receiver = Session::accept(Config::new(framing), at(0));
        let (mut offset, mut expected) = (0, Vec::new());
        for (transfer, length) in (0..).zip(&lengths) {
            transmit(&mut session, transfer, offset, *length);
            expected.push(log_octets(offset, *length));
            offset += length;
        }
        let (mut said, mut told, mut now) = (Vec::new(), Vec::new(), 0);
        for (limit, chunk, wait) in steps.into_iter().chain(core::iter::repeat((50_000, 50_000, 15_000))) {
            now += wait;
            session.handle_timeout(at(now));
            let written = poll(&mut session, at(now), limit);
            said.extend(events(&mut session));
            for chunk in written.chunks(chunk) {
                receiver.handle_octets(at(now), Bytes::copy_from_slice(chunk));
                told.extend(events(&mut receiver));
            }
            let is_all = sent(&said).len() == lengths.len();
            if is_all && !session.may_have_octets() {
                break;
            }
        }
        prop_assert_eq!(sent(&said), (0..lengths.len() as u64).collect::<Vec<_>>());
        prop_assert_eq!(bundles(&told), expected);
    }

    #[test]
    fn no_octets_break_a_session(octets in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _bundles = check_session(&octets);
    }

    /// Heads and octets that are nearly right.
    #[test]
    fn no_frames_break_a_session(
        framing in framing(),
        frames in proptest::collection::vec((0..60_u8, 0..70_usize, any::<bool>()), 0..20),
        growth in any::<u8>(),
        refusals in any::<u8>(),
    ) {
        let mut stream = Vec::new();
        for (said, length, is_right) in frames {
            let said = if is_right { length as u8 } else { said };
            match framing {
                Framing::Stcp => stream.extend([0, 0, 0, said]),
                Framing::StcpDraft => stream.extend([0x82, 0x18, said, 0x58, said]),
                Framing::Mtcp => stream.extend([0x58, said]),
                Framing::Encapsulation => stream.extend([0xe1 | (said & 1) << 4, said]),
            }
            stream.extend(core::iter::repeat_n(0x9f, length));
        }
        received(framing, &stream, growth, refusals);
    }
}
