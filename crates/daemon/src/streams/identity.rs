//! The identities that a peer's certificate proves (RFC 9174 4.4.1 and 4.4.4).

use std::net::IpAddr;

use dhow_bundle::NodeId;
use dhow_link::stream::PeerIdentities;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// id-on-bundleEID (RFC 9174 4.4.2.1).
const BUNDLE_EID: &str = "1.3.6.1.5.5.7.8.11";

/// BundleEID names read from one certificate, at most: a node has a handful of node IDs.
const NODE_IDS_MAX: usize = 32;

/// The identities in the peer's certificate; none when it showed none.
#[must_use]
pub fn peer_identities(
    stream: &TlsStream<TcpStream>,
    dialled: Option<&ServerName<'_>>,
    address: Option<IpAddr>,
) -> PeerIdentities {
    let (_, session) = stream.get_ref();
    match session.peer_certificates().and_then(<[_]>::first) {
        Some(certificate) => identities(certificate, dialled, address),
        None => PeerIdentities::default(),
    }
}

/// The identities in a certificate whose path has been verified, held against the name that was dialled
/// and the peer's address. `None` where the certificate claims no name of the kind, or there is nothing
/// to hold it against (RFC 9174 4.4.4: Absent).
#[must_use]
pub fn identities(
    certificate: &CertificateDer<'_>,
    dialled: Option<&ServerName<'_>>,
    address: Option<IpAddr>,
) -> PeerIdentities {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return PeerIdentities::default();
    };
    let names = match parsed.subject_alternative_name() {
        Ok(Some(names)) => names.value.general_names.as_slice(),
        Ok(None) | Err(_) => &[],
    };
    let node_ids = names
        .iter()
        .filter_map(|name| match name {
            GeneralName::OtherName(form, value) if form.to_id_string() == BUNDLE_EID => {
                bundle_eid(value)
            }
            _ => None,
        })
        .take(NODE_IDS_MAX)
        .collect();
    let claims_dns = names
        .iter()
        .any(|name| matches!(name, GeneralName::DNSName(_)));
    let claims_address = names
        .iter()
        .any(|name| matches!(name, GeneralName::IPAddress(_)));
    // RFC 9174 4.4.4.2: the name that was resolved is the DNS-ID reference identifier.
    let dns_matches = match dialled {
        Some(name @ ServerName::DnsName(_)) if claims_dns => Some(is_valid_for(certificate, name)),
        _ => None,
    };
    // RFC 9174 4.4.4.2: the address of the other side is the IPADDR-ID reference identifier.
    let address_matches = address.filter(|_| claims_address).map(|address| {
        let octets = address_octets(address);
        names.iter().any(
            |name| matches!(name, GeneralName::IPAddress(claimed) if *claimed == octets.as_slice()),
        )
    });
    PeerIdentities {
        node_ids,
        dns_matches,
        address_matches,
    }
}

/// DNS names match as RFC 6125 says, wildcards included.
fn is_valid_for(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    webpki::EndEntityCert::try_from(certificate)
        .is_ok_and(|certificate| certificate.verify_is_valid_for_subject_name(name).is_ok())
}

fn address_octets(address: IpAddr) -> Vec<u8> {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The node ID in the value of a BundleEID name: an explicitly tagged IA5String with a URI.
///
/// RFC 9174 4.4.1: a URI that is no node ID is ignored.
fn bundle_eid(value: &[u8]) -> Option<NodeId> {
    const EXPLICIT_0: u8 = 0xa0;
    const IA5_STRING: u8 = 0x16;
    let inner = der_content(value, EXPLICIT_0)?;
    let text = der_content(inner, IA5_STRING)?;
    let text = str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
    text.parse().ok()
}

/// The content of the one DER value in `octets` when it has this tag and nothing follows it.
fn der_content(octets: &[u8], tag: u8) -> Option<&[u8]> {
    let (first, rest) = octets.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, content) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81 => rest
            .split_first()
            .map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => rest
            .split_first_chunk::<2>()
            .map(|(length, rest)| (usize::from(u16::from_be_bytes(*length)), rest))?,
        _ => return None,
    };
    (*first == tag && content.len() == length).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, CustomExtension, KeyPair, SanType};

    /// RFC 9174 Appendix C: the otherName of the node ID "dtn://example/".
    const APPENDIX_C: [u8; 30] = [
        0xa0, 0x1c, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x08, 0x0b, 0xa0, 0x10, 0x16,
        0x0e, 0x64, 0x74, 0x6e, 0x3a, 0x2f, 0x2f, 0x65, 0x78, 0x61, 0x6d, 0x70, 0x6c, 0x65, 0x2f,
    ];

    fn certificate(params: CertificateParams) -> CertificateDer<'static> {
        params
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap()
            .der()
            .clone()
    }

    /// A certificate whose subjectAltName is these general names.
    fn with_names(names: &[u8]) -> CertificateDer<'static> {
        let mut content = vec![0x30, u8::try_from(names.len()).unwrap()];
        content.extend_from_slice(names);
        let mut params = CertificateParams::default();
        params
            .custom_extensions
            .push(CustomExtension::from_oid_content(&[2, 5, 29, 17], content));
        certificate(params)
    }

    fn name(text: &str) -> ServerName<'static> {
        ServerName::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn rfc9174_appendix_c_names_its_node() {
        let identities = identities(&with_names(&APPENDIX_C), None, None);
        assert_eq!(identities.node_ids, ["dtn://example/".parse().unwrap()]);
        assert_eq!(
            (identities.dns_matches, identities.address_matches),
            (None, None)
        );
    }

    #[test]
    fn rfc9174_4_4_1_a_bundle_eid_that_is_no_node_id_is_ignored() {
        let mut endpoint = APPENDIX_C;
        // "dtn://example/" becomes "dtn://exampl/e": an endpoint of a node.
        endpoint[28..].copy_from_slice(b"/e");
        assert!(
            identities(&with_names(&endpoint), None, None)
                .node_ids
                .is_empty()
        );
        // A UTF8String is no IA5String.
        let mut other_type = APPENDIX_C;
        other_type[14] = 0x0c;
        assert!(
            identities(&with_names(&other_type), None, None)
                .node_ids
                .is_empty()
        );
        for length in 0..APPENDIX_C.len() - 12 {
            assert_eq!(
                bundle_eid(&APPENDIX_C[12..12 + length]),
                None,
                "cut at {length}"
            );
        }
    }

    #[test]
    fn rfc9174_4_4_4_2_dns_names_are_held_against_the_dialled_one() {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::DnsName("*.example.org".try_into().unwrap())];
        let certificate = certificate(params);
        let matches = |name: Option<ServerName<'_>>| {
            identities(&certificate, name.as_ref(), None).dns_matches
        };
        assert_eq!(matches(Some(name("beta.example.org"))), Some(true));
        assert_eq!(matches(Some(name("beta.example.com"))), Some(false));
        assert_eq!(matches(Some(name("192.0.2.1"))), None);
        assert_eq!(matches(None), None);
    }

    #[test]
    fn rfc9174_4_4_4_2_addresses_are_held_against_the_peers() {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::IpAddress("192.0.2.7".parse().unwrap())];
        let certificate = certificate(params);
        let matches = |text: &str| {
            identities(&certificate, None, Some(text.parse().unwrap())).address_matches
        };
        assert_eq!(matches("192.0.2.7"), Some(true));
        assert_eq!(matches("::ffff:192.0.2.7"), Some(true));
        assert_eq!(matches("192.0.2.8"), Some(false));
        assert_eq!(
            identities(
                &with_names(&APPENDIX_C),
                None,
                Some("192.0.2.7".parse().unwrap())
            )
            .address_matches,
            None
        );
    }

    #[test]
    fn octets_that_are_no_certificate_prove_nothing() {
        let nonsense = CertificateDer::from(vec![0x30, 0x82, 0xff, 0xff, 1, 2, 3]);
        assert_eq!(identities(&nonsense, None, None), PeerIdentities::default());
    }
}
