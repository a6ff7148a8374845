//! Failures of TLS, in words that name the certificate.

use std::cell::RefCell;
use std::io;

use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, Error};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Characters of a certificate's name that are shown, at most: its maker chose them.
const NAME_CHARACTERS: usize = 80;

thread_local! {
    /// The last refusal on this thread: the handshake that it ends asks for it in the same turn.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A peer's certificate is refused, and the handshake on this thread ends for it.
pub(super) fn refuse(certificate: &CertificateDer<'_>, error: &webpki::Error) {
    LAST.set(Some(sentence(certificate, error)));
}

/// Why a connection failed, if it was for TLS: this side refused the peer's certificate, or the peer sent an alert.
pub(super) fn why(error: &io::Error) -> Option<String> {
    let refused = LAST.take();
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    match error {
        Error::InvalidCertificate(_) => refused,
        Error::NoCertificatesPresented => Some("the peer shows no certificate".to_owned()),
        Error::AlertReceived(alert) => Some(alerted(*alert)),
        _ => None,
    }
}

/// The peer's objection to this side.
fn alerted(alert: AlertDescription) -> String {
    use AlertDescription as Alert;
    match alert {
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied
        | Alert::CertificateRequired => {
            format!("the peer refuses this node's certificate (alert {alert:?}); its log says why")
        }
        _ => format!("the peer ended TLS with the alert {alert:?}"),
    }
}

fn sentence(certificate: &CertificateDer<'_>, error: &webpki::Error) -> String {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return "the peer's certificate is refused: it is none".to_owned();
    };
    let subject = shown(&parsed.subject().to_string());
    let issuer = shown(&parsed.issuer().to_string());
    let validity = parsed.validity();
    let why = match error {
        // The latter where another authority has the same name.
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            "nobody of 'authorities' in [tls] has signed it".to_owned()
        }
        webpki::Error::CertExpired { .. } => format!("it was valid until {}", validity.not_after),
        webpki::Error::CertNotValidYet { .. } => {
            format!("it is valid from {} on", validity.not_before)
        }
        webpki::Error::RequiredEkuNotFoundContext(_) => {
            "its purposes have neither bundleSecurity nor its role in TLS (RFC 9174 4.4.2)"
                .to_owned()
        }
        other => other.to_string(),
    };
    format!("the peer's certificate of {subject}, issued by {issuer}, is refused: {why}")
}

/// A name as it is shown: short, and without characters that a terminal obeys.
fn shown(name: &str) -> String {
    let characters = name.chars().take(NAME_CHARACTERS);
    let plain = characters.map(|c| if c.is_control() { '?' } else { c });
    format!("\"{}\"", plain.collect::<String>())
}
