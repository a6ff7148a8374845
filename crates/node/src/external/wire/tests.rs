use alloc::vec;

use proptest::prelude::*;

use super::*;

fn node(number: u32) -> NodeId {
    alloc::format!("ipn:{number}.0").parse().unwrap()
}

fn said() -> impl Strategy<Value = Said> {
    let number = any::<u64>();
    let mode = prop_oneof![Just(Mode::One), Just(Mode::Each), Just(Mode::Keep)];
    let hops = proptest::collection::vec((1_u32..5_000).prop_map(node), 0..=HOPS_BOUND);
    prop_oneof![
        (1_u64.., "[a-z0-9]{1,64}").prop_map(|(version, name)| Said::Router { version, name }),
        (1_u64.., "[a-z]{1,9}", 1_u32..9, any::<u64>()).prop_map(
            |(version, name, peer, mtu_octets)| {
                let peer = node(peer);
                Said::Neighbour {
                    version,
                    name,
                    peer,
                    mtu_octets,
                }
            }
        ),
        (number, mode, hops).prop_map(|(number, mode, hops)| Said::Forward { number, mode, hops }),
        (number, any::<u64>()).prop_map(|(number, again_ms)| Said::Hold { number, again_ms }),
        (number, any::<u8>()).prop_map(|(number, reason)| Said::Discard { number, reason }),
        number.prop_map(|number| Said::Routes { number }),
        (1_u32..9, proptest::collection::vec(any::<u8>(), 0..300)).prop_map(|(peer, octets)| {
            Said::Advert {
                peer: node(peer),
                octets,
            }
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_said_is_read_as_it_was_written(said in said()) {
        let mut out = Vec::new();
        said.put(&mut out);
        prop_assert_eq!(Said::read(&out[4..]), Ok(said));
        for end in 4..out.len() {
            prop_assert!(Said::read(&out[4..end]).is_err());
        }
        out.push(0);
        prop_assert_eq!(Said::read(&out[4..]), Err(WireError::Trailing));
    }

    #[test]
    fn any_octets_are_a_message_or_none(octets in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(said) = Said::read(&octets) {
            let mut out = Vec::new();
            said.put(&mut out);
            prop_assert_eq!(Said::read(&out[4..]), Ok(said));
        }
    }
}

/// docs/external.md 3: 1 to 64 octets.
#[test]
fn a_program_without_a_name_is_refused() {
    let read = |name: &str, is_router| {
        let (version, name) = (1, name.into());
        let said = match is_router {
            true => Said::Router { version, name },
            false => Said::Neighbour {
                version,
                name,
                peer: node(2),
                mtu_octets: 0,
            },
        };
        let mut out = Vec::new();
        said.put(&mut out);
        Said::read(&out[4..])
    };
    for is_router in [true, false] {
        assert_eq!(read("", is_router), Err(WireError::Nameless));
        assert!(read("x", is_router).is_ok());
        assert!(read(&"x".repeat(64), is_router).is_ok());
        assert!(read(&"x".repeat(65), is_router).is_err());
    }
}

/// The octets of docs/external.md.
#[test]
fn messages_have_the_octets_of_the_document() {
    let mut out = Vec::new();
    Said::Router {
        version: 1,
        name: "hops".into(),
    }
    .put(&mut out);
    assert_eq!(out, b"\x00\x00\x00\x0f\x84\x00\x01\x66router\x64hops");
    out.clear();
    Said::Forward {
        number: 7,
        mode: Mode::Each,
        hops: vec![node(2), node(3)],
    }
    .put(&mut out);
    assert_eq!(
        out,
        b"\x00\x00\x00\x15\x84\x10\x07\x01\x82\x67ipn:2.0\x67ipn:3.0"
    );
    out.clear();
    Told::Neighbour {
        peer: &node(2),
        is_up: true,
        link: "next",
        octets_per_s: 125_000,
    }
    .put(&mut out);
    assert_eq!(
        out,
        b"\x00\x00\x00\x15\x85\x02\x67ipn:2.0\x01\x64next\x1a\x00\x01\xe8\x48"
    );
    out.clear();
    Told::Bye { reason: "no" }.put(&mut out);
    assert_eq!(out, b"\x00\x00\x00\x05\x82\x07\x62no");
}

#[test]
fn what_no_program_may_say_is_refused() {
    for (octets, error) in [
        (&b"\x84\x00\x00\x66router\x61a"[..], WireError::Version(0)),
        (
            b"\x84\x00\x01\x65layer\x61a",
            WireError::Part("layer".into()),
        ),
        (b"\x84\x10\x07\x03\x80", WireError::Mode(3)),
        (b"\x83\x12\x07\x19\x01\x00", WireError::Reason(256)),
        (b"\x84\x10\x07\x01\x81\x61x", WireError::Node("x".into())),
        (b"\x81\x18\x63", WireError::Code(99)),
        (b"\x9f\x13\x07\xff", WireError::Indefinite),
        (b"\x84\x10\x07\x01\x9f\xff", WireError::Indefinite),
    ] {
        assert_eq!(Said::read(octets), Err(error));
    }
    // A reader of this version skips what later ones add.
    assert_eq!(
        Said::read(b"\x84\x13\x07\xa1\x01\x02\x80"),
        Ok(Said::Routes { number: 7 })
    );
    let mut hops = b"\x84\x10\x07\x01\x98\x41".to_vec();
    hops.extend(b"\x67ipn:2.0".repeat(65));
    assert_eq!(Said::read(&hops), Err(WireError::TooManyHops));
    let mut advert = b"\x83\x14\x67ipn:2.0\x59\xf0\x01".to_vec();
    advert.extend(vec![0; 61_441]);
    assert_eq!(Said::read(&advert), Err(WireError::LongAdvert(61_441)));
}
