//! Golden vectors, and recorded connections of other programs.

use super::*;
use crate::stcp::wire::{Decoder, Head, Item};
use crate::tcpcl::writer::Encode;

/// A bundle without checksums, as ipn:2.1 sends it to ipn:1.1.
const BUNDLE: &str =
    "9f88070000820282020182028201018202820100821903e8071a0036ee8085010100004568656c6c6fff";

#[test]
fn a_bundle_has_the_published_form_in_each_framing() {
    for (framing, head) in [
        (Framing::Mtcp, "582a"),
        (Framing::Stcp, "0000002a"),
        (Framing::StcpDraft, "82182a582a"),
    ] {
        let stream = hex(&(String::from(head) + BUNDLE));
        let mut session = sender(Config::new(framing));
        let transfer = TransferId(0);
        let length = (BUNDLE.len() / 2) as u64;
        session.handle_command(at(0), LinkCommand::Transmit { transfer, length });
        let octets = Piece::Octets(hex(BUNDLE).into());
        session.handle_command(at(0), LinkCommand::Supply { transfer, octets });
        assert_eq!(poll(&mut session, at(0), 1 << 20), stream, "{framing:?}");

        let mut session = Session::accept(Config::new(framing), at(0));
        session.handle_octets(at(0), stream.into());
        assert_eq!(bundles(&events(&mut session)), [hex(BUNDLE)]);
    }
}

macro_rules! capture {
    ($framing:expr, $name:literal) => {
        (
            $framing,
            $name,
            include_bytes!(concat!("../../../tests/data/captures/stcp/", $name, ".bin")).as_slice(),
        )
    };
}

const CAPTURES: [(Framing, &str, &[u8]); 8] = [
    capture!(Framing::Stcp, "ion-stcp-0"),
    capture!(Framing::Stcp, "ion-stcp-1"),
    capture!(Framing::Stcp, "dtnme-stcp-0"),
    capture!(Framing::Stcp, "dtnme-stcp-1"),
    capture!(Framing::Mtcp, "ud3tn-mtcp-0"),
    capture!(Framing::Mtcp, "ud3tn-mtcp-1"),
    capture!(Framing::Mtcp, "dtn7rs-mtcp-0"),
    capture!(Framing::Mtcp, "dtn7rs-mtcp-1"),
];

fn play(framing: Framing, octets: &'static [u8], chunk: usize) -> Vec<Vec<u8>> {
    let mut session = Session::accept(Config::new(framing), at(0));
    let mut said = Vec::new();
    for chunk in octets.chunks(chunk) {
        session.handle_octets(at(0), Bytes::from_static(chunk));
        said.extend(events(&mut session));
    }
    session.handle_command(at(0), LinkCommand::Disconnected);
    let end = events(&mut session);
    assert_eq!(down(&end), Some(&DownReason::Disconnected));
    assert_eq!(end.len(), 1, "nothing was under way");
    bundles(&said)
}

#[test]
fn recorded_connections_carry_the_bundles_that_another_program_found() {
    let all = include_str!("../../../tests/data/captures/stcp/bundles.tsv");
    for program in ["ion-stcp", "dtnme-stcp", "ud3tn-mtcp", "dtn7rs-mtcp"] {
        let rows = all.lines().filter_map(|line| line.split_once('\t'));
        let rows = rows.filter(|(name, _)| name.split('#').next() == Some(program));
        let mut expected: Vec<Vec<u8>> = rows.map(|(_, row)| hex(row)).collect();
        expected.sort();
        assert!(expected.len() >= 5);
        for chunk in [1, 7, 4_096, 1 << 20] {
            let captures = CAPTURES.into_iter();
            let captures = captures.filter(|(_, name, _)| name.starts_with(program));
            let mut found: Vec<Vec<u8>> = captures
                .flat_map(|(framing, _, octets)| play(framing, octets, chunk))
                .collect();
            found.sort();
            assert_eq!(found, expected, "{program} in chunks of {chunk}");
        }
    }
}

#[test]
fn recordings_are_written_again_to_the_octet() {
    for (framing, name, recorded) in CAPTURES {
        let mut decoder = Decoder::new(framing, u64::MAX);
        let mut chunk = Bytes::from_static(recorded);
        let mut written = bytes::BytesMut::new();
        let mut keepalives = 0;
        while let Some(item) = decoder.next(&mut chunk).unwrap() {
            match item {
                Item::Head(octets) => {
                    keepalives += u64::from(octets == 0);
                    Head { framing, octets }.encode(&mut written);
                }
                Item::Octets { octets, .. } => written.extend_from_slice(&octets),
            }
        }
        assert_eq!(written, recorded, "{name}");
        assert_eq!(
            keepalives > 0,
            name.starts_with("ion"),
            "{name}: {keepalives}"
        );
    }
}
