//! The identities of traces and spans, which every node works out by itself.
//!
//! A trace is of one bundle: its ID is the first 16 octets of the SHA-256 of the bundle's name, `SOURCE/TIME/SEQUENCE`, in UTF-8; fragments are of the
//! trace of their whole. The ID of a span is the first 8 octets of the SHA-256 of a text that says what it is about, so that a receiver knows the
//! span of the sender which is the parent of its own. No header carries anything.

use std::fmt::{self, Write as _};

use aws_lc_rs::digest::{SHA256, digest};
use dhow_bundle::{BundleId, FragmentRange};

/// The ID of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceId(pub [u8; 16]);

/// The ID of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(pub [u8; 8]);

/// The subject of a span whose ID other spans know.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A bundle, or fragment, is at a node: created, received or put together there.
    At(&'a str),
    /// One neighbour sends to another.
    Send(&'a str, &'a str),
    /// Anything else: a word, the node, and a number that is another each time.
    Other(&'static str, &'a str, u64),
}

impl TraceId {
    /// The trace of a bundle; `None` for a bundle without a source, which has no identity (RFC 9171 4.2.3).
    #[must_use]
    pub fn of(id: &BundleId) -> Option<Self> {
        if id.source.is_null() {
            return None;
        }
        let creation = id.creation;
        let name = format!("{}/{}/{}", id.source, creation.time, creation.sequence);
        Some(Self(prefix(&name)))
    }

    /// Whether a part of all traces has this one: so do all larger parts, and at all nodes. The rule is that of OpenTelemetry's sampler of a
    /// ratio of trace IDs.
    #[must_use]
    pub fn is_sampled(&self, part_billionths: u32) -> bool {
        let [.., a, b, c, d, e, f, g, h] = self.0;
        let place = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
        u128::from(place) * 1_000_000_000 < u128::from(part_billionths) << 63
    }

    /// The span of a subject, about the whole bundle or a fragment of it.
    #[must_use]
    pub fn span(&self, subject: Subject<'_>, fragment: Option<FragmentRange>) -> SpanId {
        let mut text = format!("{self}/");
        let written = match subject {
            Subject::At(node) => write!(text, "at/{node}"),
            Subject::Send(from, to) => write!(text, "send/{from}/{to}"),
            Subject::Other(word, node, number) => write!(text, "{word}/{node}/{number}"),
        };
        let written = match fragment {
            Some(range) => {
                written.and_then(|()| write!(text, "@{}+{}", range.offset, range.length))
            }
            None => written,
        };
        debug_assert!(written.is_ok(), "a text takes what is written");
        SpanId(prefix(&text))
    }
}

impl fmt::Display for TraceId {
    /// Hexadecimal, as OpenTelemetry shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// The first octets of the SHA-256 of a text. All zeros would be no ID: their last is a one.
fn prefix<const OCTETS: usize>(text: &str) -> [u8; OCTETS] {
    let digest = digest(&SHA256, text.as_bytes());
    let mut id = [0; OCTETS];
    for (place, octet) in id.iter_mut().zip(digest.as_ref()) {
        *place = *octet;
    }
    if id.iter().all(|octet| *octet == 0)
        && let Some(last) = id.last_mut()
    {
        *last = 1;
    }
    id
}

#[cfg(test)]
mod tests {
    use dhow_bundle::{CreationTimestamp, DtnTime};
    use proptest::prelude::*;

    use super::*;

    fn bundle(source: &str, time: u64, sequence: u64) -> BundleId {
        BundleId {
            source: source.parse().unwrap(),
            creation: CreationTimestamp {
                time: DtnTime::from_millis(time),
                sequence,
            },
            fragment: None,
        }
    }

    /// `printf ipn:1.5/812345678901/3 | sha256sum | cut -c1-32`, and likewise of the texts of spans.
    #[test]
    fn ids_are_those_that_any_other_program_computes() {
        let trace = TraceId::of(&bundle("ipn:1.5", 812_345_678_901, 3)).unwrap();
        assert_eq!(trace.to_string(), TRACE);
        let range = FragmentRange {
            offset: 10,
            length: 20,
        };
        for (span, hex) in [
            (trace.span(Subject::At("ipn:1.0"), None), AT),
            (
                trace.span(Subject::Send("ipn:1.0", "ipn:2.0"), Some(range)),
                SEND,
            ),
        ] {
            let shown: String = span.0.iter().map(|octet| format!("{octet:02x}")).collect();
            assert_eq!(shown, hex);
        }
    }

    const TRACE: &str = "e9903848ded163e4ce88025b733aefc7";
    const AT: &str = "cb6c9518ae153f9f";
    const SEND: &str = "e732be779a0f7677";

    #[test]
    fn a_fragment_is_of_the_trace_of_its_whole_and_an_anonymous_bundle_of_none() {
        let whole = bundle("dtn://a/b", 7, 1);
        let mut fragment = whole.clone();
        fragment.fragment = Some(FragmentRange {
            offset: 1,
            length: 2,
        });
        assert_eq!(TraceId::of(&whole), TraceId::of(&fragment));
        assert_ne!(TraceId::of(&whole), TraceId::of(&bundle("dtn://a/b", 7, 2)));
        assert_eq!(TraceId::of(&bundle("dtn:none", 7, 1)), None);
    }

    #[test]
    fn parts_of_nothing_and_of_all_are_exact() {
        for octet in [0, 0x7f, 0xff] {
            assert!(TraceId([octet; 16]).is_sampled(1_000_000_000));
            assert!(!TraceId([octet; 16]).is_sampled(0));
        }
        assert!(TraceId([0; 16]).is_sampled(1));
    }

    #[test]
    fn a_part_is_about_that_part() {
        let traces = (0..10_000).filter_map(|number| TraceId::of(&bundle("ipn:1.5", 1, number)));
        let sampled = traces.filter(|trace| trace.is_sampled(250_000_000)).count();
        assert!((2_300..2_700).contains(&sampled), "{sampled}");
    }

    proptest! {
        #[test]
        fn a_larger_part_has_all_that_a_smaller_one_has(
            octets: [u8; 16],
            (small, large) in (0..=1_000_000_000_u32).prop_flat_map(|large| (0..=large, Just(large))),
        ) {
            let trace = TraceId(octets);
            prop_assert!(!trace.is_sampled(small) || trace.is_sampled(large));
        }
    }
}
