//! HTTP for applications (docs/http.md), in a node file.

use dhow_document::schema::{Absent, Key, Kind, Occurs, Section, key, required};
use dhow_document::{Document, FileError};

use crate::http::scope::{Scope, Token};

/// The section `[http]`.
pub(super) const HTTP: Section = Section {
    name: "http",
    occurs: Occurs::Once,
    meaning: "HTTP for applications (docs/http.md), for clients that send the secret of a [[token]].",
    groups: &[&[LISTEN]],
};

const LISTEN: Key = key(
    "listen",
    Kind::Text,
    Absent::Means("no HTTP"),
    "\"127.0.0.1:8080\"",
    "Address and port. Nothing there is encrypted: reach it from elsewhere through a proxy with TLS.",
);

/// The section `[[token]]`.
pub(super) const TOKEN: Section = Section {
    name: "token",
    occurs: Occurs::Many,
    meaning: "A client that may use [http].",
    groups: &[&[
        required(
            "secret",
            Kind::Text,
            "\"choose-a-long-secret\"",
            "Every request carries \"Authorization: Bearer SECRET\"; at least 16 characters. `openssl rand -hex 16` makes one.",
        ),
        required(
            "scopes",
            Kind::ChoiceList(Scope::NAMES),
            "[\"send\", \"receive\"]",
            "Its rights: \"send\" bundles, \"receive\" those for endpoints of this node, \"read\" what the node tells of itself, \"operate\" it.",
        ),
    ]],
};

/// Characters of a secret, at least.
const SECRET_MIN: usize = 16;

/// HTTP for applications.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// The address.
    pub listen: String,
    /// The tokens of its users.
    pub tokens: Vec<Token>,
}

/// Reads it; nothing where no address is written.
///
/// # Errors
/// When there is an address and nobody who may use it, or a secret that can be guessed.
pub(super) fn read_http(document: &Document<'_>) -> Result<Option<HttpSettings>, FileError> {
    let mut tokens = Vec::new();
    for entries in document.all("token") {
        let secret = entries.text("secret").unwrap_or_default();
        let is_plain = secret.chars().all(|c| c.is_ascii_graphic());
        if secret.len() < SECRET_MIN || !is_plain {
            let what = format!(
                "'secret' must have {SECRET_MIN} characters at least, of ASCII and without spaces"
            );
            return Err(document
                .fault_of(entries, "secret", what)
                .with_hint("`openssl rand -hex 16` makes one"));
        }
        let scopes = entries.list("scopes");
        tokens.push(Token {
            secret: secret.to_owned(),
            scopes: scopes.iter().filter_map(|it| Scope::of_name(it)).collect(),
        });
    }
    let http = document.one("http")?;
    match http.text("listen") {
        None => Ok(None),
        Some(_) if tokens.is_empty() => Err(document
            .fault_of(&http, "listen", "nobody may use it: there is no [[token]]")
            .with_hint("write a [[token]] with its 'secret' and 'scopes'")),
        Some(listen) => Ok(Some(HttpSettings {
            listen: listen.to_owned(),
            tokens,
        })),
    }
}
