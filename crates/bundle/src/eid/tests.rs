use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::cbor::{CborError, Reader};
use crate::reading::Reading;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap())
        .collect()
}

fn eid(text: &str) -> EndpointId {
    text.parse().unwrap()
}

fn decode(octets: &[u8], reading: Reading) -> Result<EndpointId, EidRefusal> {
    let mut reader = Reader::new(octets);
    let endpoint = EndpointId::decode(&mut reader, reading)?;
    assert!(reader.is_empty(), "the endpoint ID must use all octets");
    Ok(endpoint)
}

#[test]
fn uris_are_shown_as_rfc_9758_prefers() {
    for (text, shown) in [
        ("ipn:1.2", "ipn:1.2"),
        ("ipn:0.1.2", "ipn:1.2"),
        ("ipn:0.1.0", "ipn:1.0"),
        ("ipn:977000.1.3", "ipn:977000.1.3"),
        ("ipn:977000.0.3", "ipn:977000.0.3"),
        ("ipn:!.7", "ipn:!.7"),
        ("ipn:4294967295.7", "ipn:!.7"),
        ("ipn:0.0", "dtn:none"),
        ("ipn:0.0.0", "dtn:none"),
        ("dtn:none", "dtn:none"),
        ("IPN:1.2", "ipn:1.2"),
        ("dtn://node/", "dtn://node/"),
        ("dtn://node/a/b~?#", "dtn://node/a/b~?#"),
        ("dtn://a%20b/~group", "dtn://a%20b/~group"),
    ] {
        assert_eq!(eid(text).to_string(), shown, "{text}");
    }
}

#[test]
fn wrong_uris_are_refused_with_the_reason() {
    let long = alloc::format!("dtn://n/{}", "x".repeat(1020));
    for (text, reason) in [
        ("", "it begins with neither \"ipn:\" nor \"dtn:\""),
        ("mailto:x", "it begins with neither \"ipn:\" nor \"dtn:\""),
        (
            "ipn:",
            "an ipn endpoint ID has two or three numbers with dots between, not 1",
        ),
        (
            "ipn:1",
            "an ipn endpoint ID has two or three numbers with dots between, not 1",
        ),
        (
            "ipn:1.2.3.4",
            "an ipn endpoint ID has two or three numbers with dots between, not 4",
        ),
        (
            "ipn:4294967296.1",
            "\"4294967296\" is not a number from 0 to 4294967295 without leading zeros",
        ),
        (
            "ipn:01.1",
            "\"01\" is not a number from 0 to 4294967295 without leading zeros",
        ),
        (
            "ipn:+1.1",
            "\"+1\" is not a number from 0 to 4294967295 without leading zeros",
        ),
        (
            "ipn:1.",
            "\"\" is not a number from 0 to 4294967295 without leading zeros",
        ),
        (
            "ipn:!.1.2",
            "\"!\" is not a number from 0 to 4294967295 without leading zeros",
        ),
        (
            "ipn:0.1",
            "node 0 has no service 1: the null endpoint is ipn:0.0",
        ),
        (
            "ipn:0.0.1",
            "node 0 has no service 1: the null endpoint is ipn:0.0",
        ),
        (
            "dtn:node",
            "a dtn endpoint ID is \"dtn:none\" or has the form \"dtn://name/demux\"",
        ),
        ("dtn://node", "the slash after the node name is missing"),
        ("dtn:///x", "the node name is empty"),
        ("dtn://a b/", "a node name cannot have the character ' '"),
        ("dtn://a%2/", "a node name cannot have the character '%'"),
        ("dtn://a/b c", "a demux cannot have the character ' '"),
        ("dtn://a/\u{e9}", "a demux cannot have the character 'é'"),
        (long.as_str(), "it has 1028 octets, more than 1024"),
    ] {
        assert_eq!(
            text.parse::<EndpointId>().unwrap_err().to_string(),
            reason,
            "{text}"
        );
    }
}

#[test]
fn lenient_reading_adds_the_slash_and_nothing_else() {
    assert_eq!(
        EndpointId::parse("dtn://me2", Reading::Lenient),
        Ok(eid("dtn://me2/"))
    );
    assert_eq!(
        EndpointId::parse("dtn:me2", Reading::Lenient),
        Err(EidError::DtnForm)
    );
    assert_eq!(
        NodeId::parse("dtn://me2", Reading::Lenient)
            .unwrap()
            .to_string(),
        "dtn://me2/"
    );
    let octets = hex("8201652f2f6d6532");
    assert_eq!(decode(&octets, Reading::Lenient), Ok(eid("dtn://me2/")));
    assert_eq!(
        decode(&octets, Reading::Strict),
        Err(EidRefusal::Part(EidError::SlashMissing))
    );
}

/// RFC 9171 4.2.5.1 and RFC 9758: golden octets, the preferred form first.
#[test]
fn endpoint_ids_have_the_octets_of_the_standards() {
    for (text, octets) in [
        ("dtn:none", "820100"),
        ("dtn://node1/", "8201682f2f6e6f6465312f"),
        ("dtn://node1/ping", "82016c2f2f6e6f6465312f70696e67"),
        ("ipn:1.2", "8202820102"),
        ("ipn:1.1", "8202820101"),
        ("ipn:977000.1.3", "8202831a000ee8680103"),
        ("ipn:!.7", "8202821affffffff07"),
    ] {
        let mut out = Vec::new();
        eid(text).encode(&mut out);
        assert_eq!(out, hex(octets), "{text}");
        assert_eq!(decode(&out, Reading::Strict), Ok(eid(text)));
    }
    for (text, octets) in [
        ("ipn:1.1", "820283000101"),
        ("ipn:977000.1.3", "8202821b000ee8680000000103"),
        ("dtn:none", "8202820000"),
        ("dtn:none", "820283000000"),
        ("ipn:1.2", "9f029f0102ffff"),
    ] {
        assert_eq!(
            decode(&hex(octets), Reading::Strict),
            Ok(eid(text)),
            "{octets}"
        );
    }
    let chunked = hex("82017f 642f2f6e6f 60 646465312f ff");
    assert_eq!(decode(&chunked, Reading::Strict), Ok(eid("dtn://node1/")));
}

#[test]
fn wrong_octets_are_refused() {
    for octets in [
        "82028100",                       // one number
        "8202840000000000",               // four numbers
        "82028200 01",                    // service of node 0
        "82028301 1b0000000100000000 01", // node beyond 32 bits
        "8202831b0000000800000001 01 01", // allocator beyond 32 bits
        "820282 01 1b0000000100000000",   // service beyond 32 bits
        "820101",                         // dtn integer other than none
        "8201646e6f6e65",                 // "none" as text
        "8218010000",                     // scheme not in its shortest form
        "820300",                         // unregistered scheme
        "8101",                           // one item
        "83010000",                       // three items
        "82021801",                       // not an array
        "82016 2ff2f",                    // not UTF-8
        "a10100",                         // a map
    ] {
        let refusal = decode(&hex(octets), Reading::Lenient).unwrap_err();
        assert!(
            !matches!(refusal, EidRefusal::Cbor(CborError::Incomplete { .. })),
            "{octets}: {refusal}"
        );
    }
}

#[test]
fn text_that_is_too_long_is_refused_before_it_is_read() {
    // A text string of 2^40 octets is announced; none of it is there.
    let refusal = decode(&hex("82017b0000010000000000"), Reading::Strict).unwrap_err();
    assert_eq!(refusal, EidRefusal::Cbor(CborError::TooLong { at: 2 }));
    // Indefinite: two chunks of 600.
    let mut octets = hex("82017f");
    for _ in 0..2 {
        octets.extend_from_slice(&hex("790258"));
        octets.extend_from_slice(&[b'a'; 600]);
    }
    octets.push(0xff);
    assert!(matches!(
        decode(&octets, Reading::Strict),
        Err(EidRefusal::Cbor(CborError::TooLong { .. }))
    ));
}

#[test]
fn node_ids_are_administrative_endpoints() {
    assert_eq!(eid("ipn:4.7").node_id().unwrap().to_string(), "ipn:4.0");
    assert_eq!(eid("ipn:9.4.7").node_id().unwrap().to_string(), "ipn:9.4.0");
    assert_eq!(
        eid("dtn://n/a/b").node_id().unwrap().to_string(),
        "dtn://n/"
    );
    assert_eq!(eid("dtn:none").node_id(), None);
    assert_eq!(eid("ipn:!.7").node_id(), None);
    assert_eq!(NodeId::new(eid("ipn:4.7")), Err(EidError::NotNode));
    assert_eq!(NodeId::new(eid("dtn://n/a")), Err(EidError::NotNode));
    assert_eq!(NodeId::new(EndpointId::Null), Err(EidError::NoNode));
    assert_eq!(NodeId::new(eid("ipn:!.0")), Err(EidError::NoNode));
    let node: NodeId = "ipn:4.0".parse().unwrap();
    assert_eq!(node.service("42"), Ok(eid("ipn:4.42")));
    assert!(node.service("x").is_err());
    assert!(
        node.has(&eid("ipn:4.42")) && !node.has(&eid("ipn:5.42")) && !node.has(&eid("ipn:1.4.42"))
    );
    let node: NodeId = "dtn://n/".parse().unwrap();
    assert_eq!(node.service("mail/in"), Ok(eid("dtn://n/mail/in")));
    assert!(node.has(&eid("dtn://n/x")) && !node.has(&eid("dtn://nn/x")));
    assert_eq!(eid("dtn://n/x").service().as_deref(), Some("x"));
    assert_eq!(eid("ipn:4.42").service().as_deref(), Some("42"));
    assert!(!eid("dtn://n/~all").is_singleton() && eid("dtn://n/all").is_singleton());
}

/// draft-ietf-dtn-eid-pattern appendix B, and our forms for dtn: pattern, what it matches, what it does not.
#[test]
fn patterns_match_what_the_draft_says() {
    for (pattern, inside, outside) in [
        ("ipn:0.3.4", "ipn:3.4", "ipn:3.5"),
        ("ipn:0.3.*", "ipn:3.4", "ipn:4.4"),
        ("ipn:0.*.4", "ipn:99.4", "ipn:1.99.4"),
        ("ipn:0.3.[0-19]", "ipn:3.19", "ipn:3.20"),
        ("ipn:0.3.[10-19]", "ipn:3.10", "ipn:3.9"),
        ("ipn:0.3.[0-4,10-19]", "ipn:3.4", "ipn:3.5"),
        (
            "ipn:977000.[10000-5000000000].*",
            "ipn:977000.4294967295.1",
            "ipn:977000.9999.1",
        ),
        (
            "ipn:977000.[0-4294967295].*",
            "ipn:977000.7.1",
            "ipn:977001.7.1",
        ),
        ("ipn:4294967295.0", "ipn:!.0", "ipn:1.0"),
        ("ipn:!.0", "ipn:!.0", "ipn:!.1"),
        (
            "ipn:977000.[100+].*|ipn:977001.*.*|ipn:977002.[0-100].*",
            "ipn:977002.100.5",
            "ipn:977002.101.5",
        ),
        ("ipn:0.3.[10-0]", "ipn:3.5", "ipn:3.11"),
        (
            "ipn:0.*.*|ipn:977000.*.0",
            "ipn:977000.5.0",
            "ipn:977000.5.1",
        ),
        ("[2,ipn]:**", "ipn:1.2.3", "dtn://n/"),
        ("ipn:**", "ipn:1.2.3", "dtn://n/"),
        ("dtn:**|ipn:0.3.4", "dtn://n/x", "ipn:3.5"),
        (
            "ipn:4196183048192100.1",
            "ipn:977000.100.1",
            "ipn:977000.101.1",
        ),
        ("ipn:4.*", "ipn:4.7", "ipn:5.7"),
        ("ipn:*.*", "ipn:4.7", "ipn:1.4.7"),
        ("ipn:*", "ipn:1.4.7", "dtn://n/"),
        ("ipn:[1-5].*", "ipn:5.7", "ipn:6.7"),
        ("ipn:977000.4.*", "ipn:977000.4.1", "ipn:4.1"),
        ("dtn://node/*", "dtn://node/in", "dtn://node/in/box"),
        ("dtn://node/**", "dtn://node/in/box", "dtn://other/in"),
        ("dtn://node/in/*", "dtn://node/in/box", "dtn://node/out"),
        ("dtn://*/**", "dtn://any/thing/at/all", "ipn:1.1"),
        ("dtn://*/echo", "dtn://any/echo", "dtn://any/sink"),
        ("dtn:*", "dtn://any/echo", "ipn:1.1"),
        ("dtn://node/x", "dtn://node/x", "dtn://node/"),
    ] {
        let parsed: EidPattern = pattern.parse().unwrap();
        assert!(
            parsed.matches(&eid(inside)),
            "{pattern} must match {inside}"
        );
        assert!(
            !parsed.matches(&eid(outside)),
            "{pattern} must not match {outside}"
        );
        let again: EidPattern = parsed.to_string().parse().unwrap();
        assert_eq!(again, parsed, "{pattern} shown as {parsed}");
    }
    for pattern in ["*", "*:**"] {
        let parsed: EidPattern = pattern.parse().unwrap();
        assert_eq!(parsed, EidPattern::any());
        assert!(parsed.matches(&eid("ipn:1.2.3")) && parsed.matches(&EndpointId::Null));
    }
    let nothing: EidPattern = "".parse().unwrap();
    assert!(!nothing.matches(&eid("ipn:1.1")) && !nothing.matches(&EndpointId::Null));
    assert_eq!(nothing.to_string(), "");
}

#[test]
fn patterns_with_node_ids_are_told_from_those_without() {
    for (pattern, has) in [
        ("*", true),
        ("ipn:**", true),
        ("dtn:*", true),
        ("ipn:5.0", true),
        ("ipn:5.*", true),
        ("ipn:[1-5].[0-2]", true),
        ("ipn:5.1", false),
        ("ipn:*.[1+]", false),
        ("dtn:none", false),
        ("ipn:0.0.*", false),
        ("dtn://n/", true),
        ("dtn://*/*", true),
        ("dtn://n/**", true),
        ("dtn://n/mail", false),
        ("dtn://n/mail/**", false),
        ("ipn:5.1|dtn://n/", true),
        ("", false),
    ] {
        let parsed: EidPattern = pattern.parse().unwrap();
        assert_eq!(parsed.has_node_ids(), has, "{pattern}");
    }
}

/// draft-ietf-dtn-eid-pattern B.1.4, B.1.6: normal and canonical forms.
#[test]
fn patterns_are_normalized() {
    for (pattern, shown) in [
        ("ipn:0.3.[0-9,10-19]", "ipn:3.[0-19]"),
        ("ipn:0.3.[0-15,10-19]", "ipn:3.[0-19]"),
        ("ipn:0.3.[10-19,0-9]", "ipn:3.[0-19]"),
        ("ipn:0.3.[10-19,0-4]", "ipn:3.[0-4,10-19]"),
        ("ipn:977000.[10000-5000000000].*", "ipn:977000.[10000+].*"),
        ("ipn:977000.[0-4294967295].*", "ipn:977000.*.*"),
        ("ipn:0.3.[10-0]", "ipn:3.[0-10]"),
        ("ipn:0.3.[7]", "ipn:3.7"),
        ("*", "*:**"),
        ("dtn:*", "dtn:**"),
        ("ipn:0.0", "dtn:none"),
    ] {
        assert_eq!(
            pattern.parse::<EidPattern>().unwrap().to_string(),
            shown,
            "{pattern}"
        );
    }
}

/// docs/patterns.md: what matches, and the order from the most specific pattern on.
#[test]
fn patterns_match_and_rank_as_the_document_says() {
    let pattern = |text: &str| text.parse::<EidPattern>().unwrap();
    for (text, matched, other) in [
        ("ipn:*.7", "ipn:9.7", "ipn:9.8"),
        ("ipn:[1-5,9,100+].*", "ipn:100.1", "ipn:6.1"),
        ("ipn:977000.3.*", "ipn:977000.3.1", "ipn:3.1"),
        ("dtn://beta/*", "dtn://beta/mail", "dtn://beta/mail/in"),
        ("dtn://beta/*", "dtn://beta/", "dtn://gamma/"),
        ("dtn://beta/**", "dtn://beta/mail/in", "dtn://gamma/mail"),
        ("dtn://*/mail", "dtn://gamma/mail", "dtn://gamma/news"),
        ("dtn://*/**", "dtn://gamma/mail/in", "ipn:2.1"),
        ("ipn:2.*|dtn://beta/**", "dtn://beta/mail", "ipn:3.1"),
    ] {
        assert!(pattern(text).matches(&eid(matched)), "{text} {matched}");
        assert!(!pattern(text).matches(&eid(other)), "{text} {other}");
    }
    for (endpoint, patterns) in [
        (
            "ipn:2.42",
            &[
                "ipn:2.42",
                "ipn:2.*",
                "ipn:[1-9].42",
                "ipn:*.42",
                "ipn:**",
                "*",
            ][..],
        ),
        (
            "dtn://b/in",
            &[
                "dtn://b/in",
                "dtn://b/in*",
                "dtn://b/in**",
                "dtn://b/i*",
                "dtn://b/**",
                "dtn://*/in",
                "dtn:*",
            ],
        ),
    ] {
        let ranks = patterns
            .iter()
            .map(|it| pattern(it).specificity(&eid(endpoint)).unwrap());
        assert!(ranks.is_sorted_by(|a, b| a > b), "{patterns:?}");
    }
    for refused in [
        "ipn:2",
        "*:*",
        "http://a/",
        "dtn://beta",
        "dtn://**",
        "dtn://b*/x",
        "dtn://beta/*/x",
    ] {
        assert!(refused.parse::<EidPattern>().is_err(), "{refused}");
    }
}

#[test]
fn wrong_patterns_are_refused_with_the_reason() {
    let many: String = (0..200)
        .map(|number| alloc::format!("{},", number * 2))
        .collect();
    for (pattern, reason) in [
        (
            "ipn:1",
            "an ipn pattern has two or three parts with dots between, not 1",
        ),
        (
            "ipn:1.2.3.4",
            "an ipn pattern has two or three parts with dots between, not 4",
        ),
        (
            "ipn:a.*",
            "\"a\" is not a number, \"*\" or intervals such as \"[1-5,9,100+]\"",
        ),
        (
            "ipn:1.[]",
            "\"\" is not a number, \"*\" or intervals such as \"[1-5,9,100+]\"",
        ),
        (
            "ipn:1.[,3]",
            "\"\" is not a number, \"*\" or intervals such as \"[1-5,9,100+]\"",
        ),
        (
            "ipn:1.**",
            "\"**\" is not a number, \"*\" or intervals such as \"[1-5,9,100+]\"",
        ),
        (
            "http://x/",
            "the scheme of \"http://x/\" is neither ipn nor dtn",
        ),
        (
            "*:**|ipn:1.1",
            "\"*:**\" matches everything and cannot be one of several items",
        ),
        (
            "dtn://no*de/x",
            "in \"dtn://no*de/x\" a wildcard can only be the whole node name or the end of the demux",
        ),
        (
            "dtn://node/*/x",
            "in \"dtn://node/*/x\" a wildcard can only be the whole node name or the end of the demux",
        ),
        ("dtn://node", "the slash after the node name is missing"),
        (
            "ipn:0.7",
            "node 0 has no service 7: the null endpoint is ipn:0.0",
        ),
        (
            &alloc::format!("ipn:1.[{many}1]"),
            "a part has more than 128 intervals",
        ),
        (&"ipn:1.1|".repeat(200), "it has more than 128 items"),
    ] {
        assert_eq!(
            pattern.parse::<EidPattern>().unwrap_err().to_string(),
            reason,
            "{pattern}"
        );
    }
}

pub(crate) fn any_endpoint() -> impl Strategy<Value = EndpointId> {
    prop_oneof![
        1 => Just(EndpointId::Null),
        4 => (prop_oneof![Just(0_u32), any::<u32>()], 1_u32.., any::<u32>())
            .prop_map(|(allocator, node, service)| EndpointId::from_ipn_numbers(allocator, node, service).unwrap()),
        2 => "dtn://[a-z0-9._~-]{1,20}/[!-~]{0,20}".prop_map(|text| text.parse().unwrap()),
    ]
}

proptest! {
    #[test]
    fn every_endpoint_survives_text_and_octets(endpoint in any_endpoint()) {
        prop_assert_eq!(&endpoint.to_string().parse::<EndpointId>().unwrap(), &endpoint);
        let mut octets = Vec::new();
        endpoint.encode(&mut octets);
        prop_assert_eq!(&decode(&octets, Reading::Strict).unwrap(), &endpoint);
        for length in 0..octets.len() {
            let cut = decode(&octets[..length], Reading::Strict);
            let incomplete = matches!(cut, Err(EidRefusal::Cbor(CborError::Incomplete { .. })));
            prop_assert!(incomplete);
        }
    }

    #[test]
    fn every_endpoint_is_matched_by_its_own_pattern(endpoint in any_endpoint(), other in any_endpoint()) {
        let pattern = EidPattern::from(&endpoint);
        prop_assert!(pattern.matches(&endpoint));
        prop_assert_eq!(pattern.matches(&other), endpoint == other);
        prop_assert_eq!(pattern.as_endpoint(), Some(endpoint));
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,60}", rest in "[ipndt:/.*0-9!\\[\\],+|-]{0,40}") {
        for text in [text, rest] {
            let _ = text.parse::<EndpointId>();
            if let Ok(pattern) = text.parse::<EidPattern>() {
                prop_assert_eq!(&pattern.to_string().parse::<EidPattern>().unwrap(), &pattern);
            }
        }
    }
}
