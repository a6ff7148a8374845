//! Bloom filters over identities of bundles, with the hash function and the key octets of IBR-DTN.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use dhow_bundle::eid::EidError;
use dhow_bundle::gateway::identity;
use dhow_bundle::v6::sdnv::{self, Reader};
use dhow_bundle::{CreationTimestamp, EndpointId, FragmentRange, Reading};

use super::refusal::Refusal;

/// One of so many bits is set, at most, in a filter that tells bundles apart: IBR-DTN takes a larger one from one in a hundred on.
const TELLING_PART: usize = 64;

/// Octets of the filters that IBR-DTN begins with, and of those that are made here for few bundles.
const FILTER_OCTETS: usize = 1_024;

/// Octets of a filter that is read, at most: IBR-DTN lets none grow further.
const MAX_FILTER_OCTETS: u64 = 512 << 10;

/// Bits of a filter for each bundle in it: with two hash functions one of 10,000 bundles is taken for one that it has, the limit at
/// which IBR-DTN lets a filter grow.
const BITS_FOR_BUNDLE: usize = 200;

/// Bundles that a filter made here has, at most; such a filter has 128 KiB.
pub(crate) const FILTER_BUNDLES: usize = 4_096;

/// The initial values of the two hash functions.
const SALTS: [u32; 2] = [0xaaaa_aaaa, 0x5555_5555];

/// A Bloom filter. It says for certain which bundles it has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// 1 to 524,288 octets, the lowest bit of each first.
    octets: Vec<u8>,
}

impl Filter {
    /// A filter with the bundles of these keys ([`key_of`]), at most [`FILTER_BUNDLES`]; it has the size that IBR-DTN would give it.
    pub(crate) fn of(keys: &[Vec<u8>]) -> Self {
        let keys = keys.get(..FILTER_BUNDLES).unwrap_or(keys);
        let mut octets = FILTER_OCTETS;
        while octets * 8 < keys.len() * BITS_FOR_BUNDLE {
            octets *= 2;
        }
        let mut filter = Self {
            octets: vec![0; octets],
        };
        for key in keys {
            filter.insert(key);
        }
        filter
    }

    fn insert(&mut self, key: &[u8]) {
        for salt in SALTS {
            let (place, mask) = self.place(hash(key, salt));
            if let Some(octet) = self.octets.get_mut(place) {
                *octet |= mask;
            }
        }
    }

    /// Whether it has the bundle of this key ([`key_of`]), or says so.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        SALTS.iter().all(|&salt| {
            let (place, mask) = self.place(hash(key, salt));
            self.octets
                .get(place)
                .is_some_and(|octet| octet & mask != 0)
        })
    }

    /// Whether it is as empty as IBR-DTN keeps its own: fewer than one in 4,096 bundles are taken for one that it has.
    pub(crate) fn is_telling(&self) -> bool {
        let ones: usize = (self.octets.iter())
            .map(|octet| usize::try_from(octet.count_ones()).unwrap_or(0))
            .sum();
        ones.saturating_mul(TELLING_PART) <= self.octets.len().saturating_mul(8)
    }

    /// The octet and the bit of a hash.
    fn place(&self, hash: u32) -> (usize, u8) {
        let bits = u64::try_from(self.octets.len()).unwrap_or(1).max(1) * 8;
        let bit = u64::from(hash) % bits;
        let place = usize::try_from(bit / 8).unwrap_or(0);
        (place, 1 << (bit % 8))
    }

    /// Reads the item that a filter is: its length, and its octets.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let length = reader.number()?;
        if !(1..=MAX_FILTER_OCTETS).contains(&length) {
            return Err(Refusal::FilterOctets(length));
        }
        let octets = reader.octets(length)?.to_vec();
        Ok(Self { octets })
    }

    /// Writes that item.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        sdnv::write(out, u64::try_from(self.octets.len()).unwrap_or(0));
        out.extend_from_slice(&self.octets);
    }
}

/// Arash Partow's hash function over octets in turns, in 32 bits.
fn hash(octets: &[u8], salt: u32) -> u32 {
    let mut hash = salt;
    let mut is_even = true;
    for &octet in octets {
        let octet = u32::from(octet);
        hash ^= match is_even {
            true => hash << 7 ^ octet.wrapping_mul(hash >> 3),
            false => !(hash << 11).wrapping_add(octet ^ hash >> 5),
        };
        is_even = !is_even;
    }
    hash
}

/// The octets of a bundle's identity that are hashed; none where its creation timestamp has no form in version 6.
pub(crate) fn key_of(
    source: &EndpointId,
    creation: CreationTimestamp,
    fragment: Option<FragmentRange>,
) -> Option<Vec<u8>> {
    let creation = identity::to_v6(creation).ok()?;
    let text = text_of(source);
    let mut key = Vec::with_capacity(33 + text.len());
    key.extend_from_slice(&creation.seconds.to_be_bytes());
    key.extend_from_slice(&creation.sequence.to_be_bytes());
    let place = fragment.map_or([0, 0], |range| [range.offset, range.length]);
    key.push(u8::from(fragment.is_some()));
    key.extend(place.into_iter().flat_map(u64::to_be_bytes));
    key.extend_from_slice(text.as_bytes());
    Some(key)
}

/// An endpoint ID as IBR-DTN writes it: an administrative endpoint of the `dtn` scheme has no slash at its end, and a node of the `ipn` scheme
/// one number.
pub(super) fn text_of(endpoint: &EndpointId) -> String {
    match endpoint {
        EndpointId::Ipn {
            allocator,
            node,
            service,
        } => {
            let node = u64::from(*allocator) << 32 | u64::from(*node);
            alloc::format!("ipn:{node}.{service}")
        }
        EndpointId::Dtn(_) if endpoint.demux() == Some("") => {
            let text = endpoint.to_string();
            text.trim_end_matches('/').to_string()
        }
        EndpointId::Null | EndpointId::Dtn(_) => endpoint.to_string(),
    }
}

/// The endpoint ID of a text as IBR-DTN writes it.
pub(super) fn endpoint_of(text: &str) -> Result<EndpointId, EidError> {
    let Some((node, service)) = text.strip_prefix("ipn:").and_then(|it| it.split_once('.')) else {
        return EndpointId::parse(text, Reading::Lenient);
    };
    match (node.parse::<u64>(), service.parse()) {
        (Ok(number), Ok(service)) if number > u64::from(u32::MAX) => {
            let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
            let allocator = u32::from_be_bytes([a, b, c, d]);
            EndpointId::from_ipn_numbers(allocator, u32::from_be_bytes([e, f, g, h]), service)
        }
        _ => EndpointId::parse(text, Reading::Lenient),
    }
}

#[cfg(test)]
mod tests {
    use dhow_bundle::DtnTime;
    use proptest::prelude::*;

    use super::*;

    fn key(sequence: u64) -> Vec<u8> {
        let creation = CreationTimestamp {
            time: DtnTime::from_millis(848_496_734_000),
            sequence,
        };
        key_of(&"dtn://disc-a/app".parse().unwrap(), creation, None).unwrap()
    }

    #[test]
    fn a_filter_has_its_bundles_and_few_others() {
        for (bundles, octets) in [(0, 1_024), (40, 1_024), (41, 2_048), (5_000, 131_072)] {
            let keys: Vec<Vec<u8>> = (0..bundles).map(key).collect();
            let filter = Filter::of(&keys);
            assert_eq!(filter.octets.len(), octets, "{bundles}");
            let counted = keys.len().min(FILTER_BUNDLES);
            assert!(keys[..counted].iter().all(|key| filter.has(key)));
            let others = (10_000..20_000).filter(|it| filter.has(&key(*it))).count();
            assert!(filter.is_telling());
            assert!(others < 20, "{others} of 10,000 with {bundles}");
        }
    }

    #[test]
    fn endpoint_ids_are_written_as_ibr_dtn_writes_them() {
        let text = |it: &str| {
            let endpoint = it.parse().unwrap();
            let text = text_of(&endpoint);
            assert_eq!(endpoint_of(&text), Ok(endpoint));
            text
        };
        assert_eq!(text("dtn://alpha/"), "dtn://alpha");
        assert_eq!(text("dtn://alpha/routing"), "dtn://alpha/routing");
        assert_eq!(text("ipn:4.7"), "ipn:4.7");
        assert_eq!(text("ipn:1.4.7"), "ipn:4294967300.7");
        assert_eq!(text("dtn:none"), "dtn:none");
    }

    #[test]
    fn a_fragment_is_another_bundle() {
        let source = "dtn://a/b".parse().unwrap();
        let creation = CreationTimestamp {
            time: DtnTime::from_millis(7_000),
            sequence: 1,
        };
        let range = FragmentRange {
            offset: 256,
            length: 3,
        };
        let key = key_of(&source, creation, Some(range)).unwrap();
        let mut expected = alloc::vec![0; 33];
        (expected[7], expected[14], expected[15], expected[16]) = (7, 3, 232, 1);
        (expected[23], expected[32]) = (1, 3);
        expected.extend_from_slice(b"dtn://a/b");
        assert_eq!(key, expected);
        let early = CreationTimestamp {
            time: DtnTime::from_millis(999),
            sequence: 0,
        };
        assert_eq!(key_of(&source, early, None), None);
    }

    proptest! {
        #[test]
        fn a_filter_of_any_size_is_read_and_asked(octets in proptest::collection::vec(any::<u8>(), 1..2_000), sequence: u64) {
            let filter = Filter { octets };
            let mut out = Vec::new();
            filter.write(&mut out);
            prop_assert_eq!(Filter::read(&mut Reader::new(&out)), Ok(filter.clone()));
            let mut with = filter;
            let key = key(sequence / 1_000);
            with.insert(&key);
            prop_assert!(with.has(&key));
        }
    }

    #[test]
    fn a_filter_of_no_octets_or_too_many_is_refused() {
        for length in [0, MAX_FILTER_OCTETS + 1, u64::MAX] {
            let mut out = Vec::new();
            sdnv::write(&mut out, length);
            let read = Filter::read(&mut Reader::new(&out));
            assert_eq!(read, Err(Refusal::FilterOctets(length)));
        }
        let mut out = Vec::new();
        sdnv::write(&mut out, MAX_FILTER_OCTETS);
        let read = Filter::read(&mut Reader::new(&out));
        assert_eq!(read, Err(Refusal::Truncated));
    }
}
