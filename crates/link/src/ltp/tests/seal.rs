//! Authenticated segments: RFC 5327.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::storage::Piece;

use super::super::{Authentication, Ciphersuite, Config, Engine, Seal, VALUE_OCTETS};
use super::script::config;
use super::world::{ALL, at, flatten};
use crate::datagram::{Batch, DatagramEvent, DatagramLink};
use crate::stream::{LinkCommand, TransferId};

fn sha1(octets: &[u8]) -> [u8; 20] {
    let mut padded = octets.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((octets.len() as u64 * 8).to_be_bytes());
    let mut state = [
        0x6745_2301_u32,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    for chunk in padded.chunks(64) {
        let mut words: Vec<u32> = chunk
            .chunks(4)
            .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
            .collect();
        for at in 16..80 {
            let word = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
            words.push(word.rotate_left(1));
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.iter().enumerate() {
            let (f, k) = match at / 20 {
                0 => (b & c | !b & d, 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(f)
                .wrapping_add(e)
                .wrapping_add(k)
                .wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (sum, word) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(word);
        }
    }
    let octets: Vec<u8> = state.iter().flat_map(|word| word.to_be_bytes()).collect();
    octets.try_into().unwrap()
}

fn hmac(key: &[u8], octets: &[u8]) -> [u8; 20] {
    let pad = |with: u8| {
        (0..64)
            .map(|at| key.get(at).unwrap_or(&0) ^ with)
            .collect::<Vec<u8>>()
    };
    let inner = sha1(&[pad(0x36).as_slice(), octets].concat());
    sha1(&[pad(0x5c).as_slice(), &inner].concat())
}

/// RFC 2202, test cases 1 and 2.
#[test]
fn the_code_of_the_tests_is_the_standard_one() {
    assert_eq!(
        hmac(&[0x0b; 20], b"Hi There")[..4],
        [0xb6, 0x17, 0x31, 0x86]
    );
    assert_eq!(
        hmac(b"Jefe", b"what do ya want for nothing?")[..4],
        [0xef, 0xfc, 0xdf, 0x6a]
    );
}

/// The key of RFC 5327 2.1, and one of our own.
#[derive(Debug)]
struct Keys;

impl Keys {
    /// In the place of a signature stands a long code: the mathematics is a driver's.
    fn value(&self, suite: Ciphersuite, key_id: &[u8], octets: &[u8]) -> Option<Vec<u8>> {
        let null = [
            0xc3, 0x7b, 0x7e, 0x64, 0x92, 0x58, 0x43, 0x40, 0xbe, 0xd1, 0x22, 0x07, 0x80, 0x89,
            0x41, 0x15, 0x50, 0x68, 0xf7, 0x38,
        ];
        let key = match (suite, key_id) {
            (Ciphersuite::Null, _) => null.to_vec(),
            (Ciphersuite::HmacSha1 | Ciphersuite::RsaSha256, [0x24]) => b"secret".to_vec(),
            _ => return None,
        };
        let value = hmac(&key, octets).repeat(value_octets(suite).div_ceil(20));
        Some(value[..value_octets(suite)].to_vec())
    }
}

impl Seal for Keys {
    fn accepts(&self, suite: Ciphersuite, key_id: &[u8], octets: &[u8], value: &[u8]) -> bool {
        (self.value(suite, key_id, octets)).is_some_and(|right| right == value)
    }
}

/// Octets of a ciphersuite's values: of RSA-SHA256 those of a key of 2,048 bits.
const fn value_octets(suite: Ciphersuite) -> usize {
    match suite {
        Ciphersuite::HmacSha1 | Ciphersuite::Null => VALUE_OCTETS,
        Ciphersuite::RsaSha256 => 256,
    }
}

fn authentication(suite: Ciphersuite) -> Authentication {
    Authentication {
        suite,
        key_id: vec![0x24],
        value_octets: value_octets(suite) as u64,
        seal: Some(Arc::new(Keys)),
    }
}

fn engine(engine: u64, remote_engine: u64, suite: Option<Ciphersuite>) -> Engine {
    let config = Config {
        engine,
        remote_engine,
        authentication: suite.map(authentication),
        ..config()
    };
    Engine::new(config, engine, at(0))
}

/// The datagrams of an engine, as a driver completes them.
fn sealed(engine: &mut Engine, suite: Ciphersuite) -> Vec<Bytes> {
    let mut batch = Batch::new();
    engine.poll_datagrams(at(0), ALL, &mut batch);
    engine.handle_left(at(0), batch.len() as u64);
    let seal = |mut octets: Vec<u8>| {
        octets.extend(Keys.value(suite, &[0x24], &octets).unwrap());
        let most = 150.max(128 + value_octets(suite));
        assert!(octets.len() <= most, "the value has room");
        octets.into()
    };
    flatten(&batch).into_iter().map(seal).collect()
}

fn block_of(sender: &mut Engine) {
    let transfer = TransferId(0);
    sender.handle_command(
        at(0),
        LinkCommand::Transmit {
            transfer,
            length: 400,
        },
    );
    let octets = Piece::Octets(vec![5; 400].into());
    sender.handle_command(at(0), LinkCommand::Supply { transfer, octets });
}

fn faults(engine: &mut Engine) -> u64 {
    engine.handle_timeout(at(2_000_000));
    let events = core::iter::from_fn(|| engine.poll_event());
    events
        .map(|event| match event {
            DatagramEvent::Fault { rule, count } => {
                assert!(rule.contains("not authentic"), "{rule}");
                count
            }
            other => panic!("{other:?}"),
        })
        .sum()
}

/// RFC 5327 2.1: the extensions are those of the standard's example, and a block passes with its report and acknowledgment.
#[test]
fn authentic_segments_pass() {
    for (suite, code) in [
        (Ciphersuite::HmacSha1, 0),
        (Ciphersuite::RsaSha256, 1),
        (Ciphersuite::Null, 255),
    ] {
        let (mut sender, mut receiver) = (engine(2, 3, Some(suite)), engine(3, 2, Some(suite)));
        block_of(&mut sender);
        let datagrams = sealed(&mut sender, suite);
        let at_extensions = datagrams[0]
            .windows(5)
            .any(|octets| octets == [0x11, 0, 2, code, 0x24]);
        assert!(at_extensions);
        receiver.handle_datagrams(at(0), &datagrams);
        let (transfer, octets) = (TransferId(0), 400);
        receiver.handle_command(at(0), LinkCommand::Acknowledge { transfer, octets });
        sender.handle_datagrams(at(0), &sealed(&mut receiver, suite));
        receiver.handle_datagrams(at(0), &sealed(&mut sender, suite));
        assert_eq!(receiver.incoming.held(), (0, 0, 1));
        let events: Vec<_> = core::iter::from_fn(|| sender.poll_event()).collect();
        assert!(matches!(
            events.as_slice(),
            [
                DatagramEvent::Sent { .. },
                DatagramEvent::Transmitted { .. }
            ]
        ));
    }
}

/// Any changed octet, a value that is missing, and a key that nobody has.
#[test]
fn other_segments_are_dropped() {
    let suite = Ciphersuite::HmacSha1;
    let mut sender = engine(2, 3, Some(suite));
    block_of(&mut sender);
    let first = sealed(&mut sender, suite)[0].clone();
    let mut receiver = engine(3, 2, Some(suite));
    let session_end = 8;
    for place in session_end..first.len() {
        let mut changed = first.to_vec();
        changed[place] ^= 1;
        receiver.handle_datagrams(at(0), &[changed.into()]);
        assert_eq!(receiver.incoming.held().0, 0, "octet {place}");
    }
    let mut receiver = engine(3, 2, Some(suite));
    let mut plain = engine(2, 3, None);
    block_of(&mut plain);
    let mut batch = Batch::new();
    plain.poll_datagrams(at(0), ALL, &mut batch);
    let plain: Vec<Bytes> = flatten(&batch).into_iter().map(Bytes::from).collect();
    receiver.handle_datagrams(at(0), &plain);
    assert_eq!(faults(&mut receiver), plain.len() as u64);
    // An engine that does not ask for authentication ignores the extension.
    let mut receiver = engine(3, 2, None);
    receiver.handle_datagrams(at(0), &[first]);
    assert_eq!(receiver.incoming.held().0, 1);
}

/// A segment up to its authentication value, which says that so many more trailer extensions are behind that.
fn unsealed(more_trailers: u8) -> Vec<u8> {
    let suite = Ciphersuite::HmacSha1;
    let mut sender = engine(2, 3, Some(suite));
    block_of(&mut sender);
    let mut octets = sealed(&mut sender, suite)[0].to_vec();
    octets.truncate(octets.len() - VALUE_OCTETS);
    let counts = octets.windows(2).position(|it| it == [0x11, 0]).unwrap();
    octets[counts] += more_trailers;
    octets
}

fn is_taken(parts: &[&[u8]]) -> bool {
    let mut receiver = engine(3, 2, Some(Ciphersuite::HmacSha1));
    receiver.handle_datagrams(at(0), &[parts.concat().into()]);
    receiver.incoming.held().0 == 1
}

fn value_of(parts: &[&[u8]]) -> Vec<u8> {
    let (suite, octets) = (Ciphersuite::HmacSha1, parts.concat());
    Keys.value(suite, &[0x24], &octets).unwrap()
}

/// RFC 5327 2.1: "the entire LTP segment except the AuthVal".
#[test]
fn a_value_is_also_of_the_extensions_behind_it() {
    let start = unsealed(1);
    let (behind, changed) = (b"\xc9\x03abc".as_slice(), b"\xc9\x03abd".as_slice());
    let value = value_of(&[&start, behind]);
    assert!(is_taken(&[&start, &value, behind]));
    assert!(!is_taken(&[&start, &value, changed]));
    let value = value_of(&[&start]);
    assert!(!is_taken(&[&start, &value, behind]), "it is not covered");
}

/// RFC 5327 2.1: while keys change a segment may have two values, and is taken when one of them is right.
#[test]
fn of_two_values_one_is_to_be_right() {
    let start = unsealed(1);
    let (head, wrong) = (b"\x00\x0a".as_slice(), [7; VALUE_OCTETS].as_slice());
    let first = value_of(&[&start, head]);
    assert!(is_taken(&[&start, &first, head, wrong]), "without both");
    let first = value_of(&[&start, head, wrong]);
    assert!(is_taken(&[&start, &first, head, wrong]), "with the other");
    let second = value_of(&[&start, wrong, head]);
    assert!(is_taken(&[&start, wrong, head, &second]));
    let second = value_of(&[&start, head]);
    assert!(is_taken(&[&start, wrong, head, &second]));
    assert!(!is_taken(&[&start, wrong, head, wrong]));
}
