//! Endpoint IDs of a bundle: references to a dictionary of strings (RFC 5050 4.5.1), or numbers in their place where all are of the `ipn` scheme
//! (CBHE, RFC 6260).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::refusal::Refusal;
use super::sdnv::{self, Reader};
use crate::eid::EndpointId;
use crate::reading::Reading;

/// The two numbers that stand for an endpoint ID.
pub type Reference = [u64; 2];

/// The strings that references mean, each with a zero behind it; empty where references are numbers of nodes and services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    octets: Vec<u8>,
}

impl Dictionary {
    /// A dictionary as it came.
    pub(super) fn new(octets: &[u8]) -> Self {
        Self {
            octets: octets.to_vec(),
        }
    }

    /// Its octets.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// The string at an offset, which begins there and not within another one.
    fn text(&self, field: &'static str, offset: u64) -> Result<&str, Refusal> {
        let place = usize::try_from(offset).ok();
        let begins = place.filter(|place| *place == 0 || self.octets.get(place - 1) == Some(&0));
        let rest = begins.and_then(|place| self.octets.get(place..));
        let text = rest.and_then(|rest| rest.split(|octet| *octet == 0).next());
        let has_end = text
            .zip(rest)
            .is_some_and(|(text, rest)| text.len() < rest.len());
        let text = text.filter(|_| has_end);
        text.and_then(|text| core::str::from_utf8(text).ok())
            .ok_or(Refusal::Reference {
                field,
                offset,
                octets: self.octets.len(),
            })
    }

    /// The endpoint ID that a reference means. Names of nodes may have no slash behind them, as is usual in programs of this version.
    ///
    /// # Errors
    /// There is no string at its offsets, or they are no endpoint ID.
    pub fn endpoint(
        &self,
        field: &'static str,
        [scheme, part]: Reference,
    ) -> Result<EndpointId, Refusal> {
        if self.octets.is_empty()
            && let (Ok(node), Ok(service)) = (u32::try_from(scheme), u32::try_from(part))
            && let Ok(endpoint) = EndpointId::from_ipn_numbers(0, node, service)
        {
            return Ok(endpoint);
        }
        let text = match self.octets.is_empty() {
            // RFC 6260 2.2: the numbers of node and service; the null endpoint is 0.0.
            true => format!("ipn:{scheme}.{part}"),
            false => format!("{}:{}", self.text(field, scheme)?, self.text(field, part)?),
        };
        EndpointId::parse(&text, Reading::Lenient).map_err(|refusal| Refusal::EndpointId {
            field,
            text,
            refusal,
        })
    }

    /// A reference to an endpoint ID, for which its strings are added.
    pub(super) fn refer(&mut self, endpoint: &EndpointId) -> Reference {
        let text = endpoint.to_string();
        let (scheme, part) = text.split_once(':').unwrap_or_default();
        [self.offset(scheme), self.offset(part)]
    }

    fn offset(&mut self, text: &str) -> u64 {
        let mut offset = 0;
        for known in self.octets.split(|octet| *octet == 0) {
            if known == text.as_bytes() && offset < self.octets.len() {
                return u64::try_from(offset).unwrap_or(u64::MAX);
            }
            offset += known.len() + 1;
        }
        let offset = self.octets.len();
        self.octets.extend_from_slice(text.as_bytes());
        self.octets.push(0);
        u64::try_from(offset).unwrap_or(u64::MAX)
    }
}

/// The numbers of node and service of an endpoint ID; none where a dictionary is needed (RFC 6260 2.1).
#[must_use]
pub const fn compressed(endpoint: &EndpointId) -> Option<Reference> {
    match endpoint {
        EndpointId::Null => Some([0, 0]),
        EndpointId::Ipn {
            allocator: 0,
            node,
            service,
        } => Some([widened(*node), widened(*service)]),
        EndpointId::Ipn { .. } | EndpointId::Dtn(_) => None,
    }
}

#[expect(clippy::as_conversions, reason = "lossless, in a const function")]
const fn widened(number: u32) -> u64 {
    number as u64
}

/// Read a reference.
pub(super) fn read_reference(reader: &mut Reader<'_>) -> Result<Reference, Refusal> {
    Ok([reader.number()?, reader.number()?])
}

/// Write a reference.
pub(super) fn write_reference(out: &mut Vec<u8>, reference: Reference) {
    for number in reference {
        sdnv::write(out, number);
    }
}

/// A text of an endpoint ID in an administrative record, which has no dictionary.
///
/// # Errors
/// It is no endpoint ID.
pub fn endpoint_of_text(field: &'static str, octets: &[u8]) -> Result<EndpointId, Refusal> {
    let text = String::from_utf8_lossy(octets).into_owned();
    EndpointId::parse(&text, Reading::Lenient).map_err(|refusal| Refusal::EndpointId {
        field,
        text,
        refusal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> EndpointId {
        text.parse().unwrap()
    }

    #[test]
    fn each_string_stands_once_and_is_found_again() {
        let all = ["dtn://a/x", "dtn:none", "dtn://a/", "dtn://a/x", "ipn:4.2"].map(endpoint);
        let mut dictionary = Dictionary::default();
        let references = all.clone().map(|it| dictionary.refer(&it));
        assert_eq!(dictionary.octets(), b"dtn\0//a/x\0none\0//a/\0ipn\x004.2\0");
        assert_eq!(references[0], references[3]);
        for (reference, id) in references.into_iter().zip(all) {
            assert_eq!(dictionary.endpoint("source", reference), Ok(id));
        }
    }

    #[test]
    fn a_reference_into_the_middle_or_beyond_the_end_is_refused() {
        let dictionary = Dictionary::new(b"dtn\0none\0//a");
        assert_eq!(dictionary.endpoint("source", [0, 4]), Ok(EndpointId::Null));
        for reference in [[1, 4], [0, 5], [0, 9], [0, 12], [0, 13], [u64::MAX, 4]] {
            let refused = dictionary.endpoint("source", reference);
            assert!(
                matches!(refused, Err(Refusal::Reference { .. })),
                "{reference:?}: {refused:?}"
            );
        }
    }

    #[test]
    fn without_a_dictionary_numbers_are_an_ipn_endpoint() {
        let none = Dictionary::default();
        assert_eq!(none.endpoint("source", [4, 2]), Ok(endpoint("ipn:4.2")));
        assert_eq!(none.endpoint("source", [0, 0]), Ok(EndpointId::Null));
        assert!(none.endpoint("source", [u64::MAX, 1]).is_err());
        assert_eq!(compressed(&endpoint("ipn:4.2")), Some([4, 2]));
        assert_eq!(compressed(&endpoint("dtn://a/")), None);
    }
}
