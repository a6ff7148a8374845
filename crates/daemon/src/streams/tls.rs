//! TLS 1.3 for sessions: certificates on both sides, verified up to the configured authorities.
//!
//! Names are not looked at here: which of a peer's identities must hold is the session's policy
//! (RFC 9174 4.4.4), so the handshake verifies the path and the purpose only.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    ServerConfig, SignatureScheme,
};
use std::time::{Duration, SystemTime};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use webpki::{
    EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage,
    RequiredEkuNotFoundContext,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::connection::Side;
use super::refusals;
use crate::config::file::TlsSettings;

/// id-kp-bundleSecurity, 1.3.6.1.5.5.7.3.35 (RFC 9174 4.4.2.1).
const BUNDLE_SECURITY: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x23];
/// id-kp-serverAuth, 1.3.6.1.5.5.7.3.1.
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
/// id-kp-clientAuth, 1.3.6.1.5.5.7.3.2.
const CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

/// Why this node's TLS identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM file is missing or malformed.
    #[error("{} has no usable {what}: {why}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The item that it should have.
        what: &'static str,
        /// The fault.
        why: String,
    },
    /// Certificate and key do not fit, or an authority is not one.
    #[error("the TLS identity cannot be used: {0}")]
    Identity(#[from] Error),
}

/// Both roles of TLS with this node's identity.
#[derive(Clone)]
pub struct Tls {
    client: TlsConnector,
    server: TlsAcceptor,
    ends: Option<SystemTime>,
}

impl Tls {
    /// Read certificate, key and authorities.
    ///
    /// # Errors
    /// When a file cannot be read or its content not be used.
    pub fn load(settings: &TlsSettings) -> Result<Self, TlsError> {
        let chain = certificates(&settings.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&settings.key).map_err(|error| TlsError::Pem {
            path: settings.key.clone(),
            what: "private key",
            why: error.to_string(),
        })?;
        let mut roots = RootCertStore::empty();
        for path in &settings.authorities {
            for certificate in certificates(path)? {
                roots.add(certificate)?;
            }
        }
        Ok(Self::new(roots, chain, key)?)
    }

    fn new(
        roots: RootCertStore,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = Arc::new(PathVerifier {
            subjects: roots.subjects(),
            roots,
            algorithms: provider.signature_verification_algorithms,
        });
        let ends = chain.first().and_then(end_of);
        let versions = &[&rustls::version::TLS13];
        let client = ClientConfig::builder_with_provider(Arc::<CryptoProvider>::clone(&provider))
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::<PathVerifier>::clone(&verifier))
            .with_client_auth_cert(chain.clone(), key.clone_key())?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)?;
        Ok(Self {
            client: Arc::new(client).into(),
            server: Arc::new(server).into(),
            ends,
        })
    }

    /// When this node's certificate ends; `None` where it does not say so in a way that is understood.
    #[must_use]
    pub const fn ends(&self) -> Option<SystemTime> {
        self.ends
    }

    /// The handshake on a connection: the side that dialled is the client (RFC 9174 4.4.3).
    ///
    /// # Errors
    /// When the handshake fails.
    pub async fn handshake(
        &self,
        stream: TcpStream,
        side: &Side,
    ) -> io::Result<TlsStream<TcpStream>> {
        match side {
            Side::Dialled(name) => self
                .client
                .connect(name.clone(), stream)
                .await
                .map(TlsStream::from),
            Side::Accepted => self.server.accept(stream).await.map(TlsStream::from),
        }
    }
}

/// When a certificate's validity ends.
fn end_of(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let end = u64::try_from(parsed.validity().not_after.timestamp()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(end))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fault = |why: String| TlsError::Pem {
        path: path.to_path_buf(),
        what: "certificate",
        why,
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| fault(error.to_string()))?;
    if certificates.is_empty() {
        return Err(fault("it holds none".to_owned()));
    }
    Ok(certificates)
}

/// Verifies the path and the purpose of a peer's certificate, not its names (RFC 9174 4.4.4.1).
#[derive(Debug)]
struct PathVerifier {
    roots: RootCertStore,
    subjects: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PathVerifier {
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        role: &'static [u8],
    ) -> Result<(), Error> {
        let verified = EndEntityCert::try_from(end_entity).and_then(|certificate| {
            certificate
                .verify_for_usage(
                    self.algorithms.all,
                    &self.roots.roots,
                    intermediates,
                    now,
                    Purpose(role),
                    None,
                    None,
                )
                .map(|_| ())
        });
        verified.map_err(|error| {
            refusals::refuse(end_entity, &error);
            // RFC 9174 4.4.4.1: the alert is bad_certificate whatever was wrong.
            Error::InvalidCertificate(CertificateError::BadEncoding)
        })
    }

    fn verify_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }
}

/// TLS 1.2 is never negotiated.
fn no_tls12() -> Error {
    Error::General("TLS 1.2 is not offered".to_owned())
}

impl ServerCertVerifier for PathVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(end_entity, intermediates, now, SERVER_AUTH)
            .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for PathVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(end_entity, intermediates, now, CLIENT_AUTH)
            .map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// RFC 9174 4.4.2: a certificate without extended key usage, or with bundleSecurity, or with the usage
/// of its TLS role.
struct Purpose(&'static [u8]);

impl ExtendedKeyUsageValidator for Purpose {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let mut present = Vec::new();
        for purpose in purposes {
            let purpose = purpose?;
            if purpose == KeyPurposeId::new(BUNDLE_SECURITY) || purpose == KeyPurposeId::new(self.0)
            {
                return Ok(());
            }
            present.push(purpose.to_decoded_oid());
        }
        if present.is_empty() {
            return Ok(());
        }
        let required = KeyUsage::required_if_present(BUNDLE_SECURITY);
        Err(webpki::Error::RequiredEkuNotFoundContext(
            RequiredEkuNotFoundContext { required, present },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa,
        KeyPair,
    };
    use tokio::net::TcpListener;

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn authority() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A node whose certificate `issuer` signed for `purposes`, and which believes `believed`.
    fn node(issuer: &Authority, believed: &Authority, purposes: &[ExtendedKeyUsagePurpose]) -> Tls {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.extended_key_usages = purposes.to_vec();
        let certificate = params.signed_by(&key, issuer).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(believed.der().clone()).unwrap();
        Tls::new(
            roots,
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )
        .unwrap()
    }

    /// The outcome for the side that dialled and for the one that accepted; under TLS 1.3 the one that dialled learns of a
    /// refusal by reading.
    fn shake(dialling: &Tls, accepting: &Tls) -> (io::Result<()>, io::Result<()>) {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let side = Side::Dialled(ServerName::from(address.ip()));
            let dial = async {
                let stream = TcpStream::connect(address).await?;
                dialling
                    .handshake(stream, &side)
                    .await?
                    .read_u8()
                    .await
                    .map(|_| ())
            };
            let accept = async {
                let (stream, _) = listener.accept().await?;
                accepting
                    .handshake(stream, &Side::Accepted)
                    .await?
                    .write_u8(7)
                    .await
            };
            tokio::join!(dial, accept)
        })
    }

    fn bundle_security() -> ExtendedKeyUsagePurpose {
        ExtendedKeyUsagePurpose::Other(vec![1, 3, 6, 1, 5, 5, 7, 3, 35])
    }

    #[test]
    fn rfc9174_4_4_2_a_certificate_for_bundles_for_its_role_or_for_anything_is_taken() {
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        let authority = authority();
        for purposes in [
            vec![],
            vec![bundle_security()],
            vec![ClientAuth, ServerAuth],
            vec![ClientAuth, bundle_security()],
        ] {
            let (one, other) = (
                node(&authority, &authority, &purposes),
                node(&authority, &authority, &purposes),
            );
            let (dialled, accepted) = shake(&one, &other);
            dialled.unwrap();
            accepted.unwrap();
        }
    }

    #[test]
    fn rfc9174_4_4_4_1_a_certificate_for_another_purpose_is_refused_by_either_side() {
        let authority = authority();
        let good = node(&authority, &authority, &[]);
        let bad = node(
            &authority,
            &authority,
            &[ExtendedKeyUsagePurpose::CodeSigning],
        );
        let (dialled, _) = shake(&good, &bad);
        assert!(
            dialled
                .unwrap_err()
                .to_string()
                .contains("invalid peer certificate")
        );
        let (dialled, accepted) = shake(&bad, &good);
        assert!(
            accepted
                .unwrap_err()
                .to_string()
                .contains("invalid peer certificate")
        );
        // RFC 9174 4.4.4.1: the alert is bad_certificate.
        assert!(dialled.unwrap_err().to_string().contains("BadCertificate"));
    }

    #[test]
    fn rfc9174_4_4_4_1_a_certificate_of_an_unknown_authority_is_refused() {
        let (ours, theirs) = (authority(), authority());
        let said = |outcome: io::Result<()>| refusals::why(&outcome.unwrap_err()).unwrap();
        let refused = |why: String| {
            why.starts_with("the peer's certificate of \"CN=rcgen self signed cert\", issued by ")
                && why.ends_with("is refused: nobody of 'authorities' in [tls] has signed it")
        };
        let (dialled, _) = shake(&node(&ours, &ours, &[]), &node(&theirs, &ours, &[]));
        assert!(refused(said(dialled)));
        let (dialled, accepted) = shake(&node(&theirs, &ours, &[]), &node(&ours, &ours, &[]));
        assert!(refused(said(accepted)));
        assert!(said(dialled).starts_with("the peer refuses this node's certificate"));
    }
}
