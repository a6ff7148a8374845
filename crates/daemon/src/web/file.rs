//! Files that a browser fetches for a page.

use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

/// Nothing but files of the page's own runs or is loaded, nobody else's page holds it, and no form leads elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The same, and a style that a document has in itself.
const POLICY_OF_DOCUMENTS: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A page.
    Page,
    /// A page that shows documents which have their style in themselves, or such a document.
    Document,
    /// The style of a page.
    Style,
    /// A script of a page.
    Script,
}

/// A file, which a browser never keeps without asking again.
#[derive(Clone, Debug)]
pub struct File {
    kind: Kind,
    content: Bytes,
}

impl File {
    /// The script of what all pages have in common.
    #[must_use]
    pub const fn parts() -> Self {
        Self {
            kind: Kind::Script,
            content: Bytes::from_static(include_bytes!("parts.js")),
        }
    }

    /// A file with this content.
    pub fn new(kind: Kind, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        Self { kind, content }
    }
}

impl IntoResponse for File {
    fn into_response(self) -> Response {
        let (kind, policy) = match self.kind {
            Kind::Page => ("text/html; charset=utf-8", POLICY),
            Kind::Document => ("text/html; charset=utf-8", POLICY_OF_DOCUMENTS),
            Kind::Style => ("text/css; charset=utf-8", POLICY),
            Kind::Script => ("text/javascript; charset=utf-8", POLICY),
        };
        let headers: [(HeaderName, &str); 5] = [
            (header::CONTENT_TYPE, kind),
            (header::CONTENT_SECURITY_POLICY, policy),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        (headers, self.content).into_response()
    }
}
