//! Tokens, and the scopes of each.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::admin::live::Live;
use crate::admin::page::PATHS;
use crate::admin::refusal::Refusal;

/// The scope of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything that the node tells of itself.
    Read,
    /// Bundles into the network.
    Send,
    /// Bundles for an endpoint of the node.
    Receive,
    /// Changes to the node.
    Operate,
}

impl Scope {
    /// All, by their names in node files.
    pub const NAMES: &[&str] = &["read", "send", "receive", "operate"];

    const ALL: [Self; 4] = [Self::Read, Self::Send, Self::Receive, Self::Operate];

    /// The scope of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter().zip(Self::NAMES);
        all.find_map(|(scope, known)| (*known == name).then_some(scope))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Operate => "operate",
        }
    }

    /// The scope that a request needs, if any.
    fn needed(method: &Method, path: &str) -> Option<Self> {
        if path == super::applications::DOCUMENT_PATH || PATHS.contains(&path) {
            return None;
        }
        let reads = [Method::GET, Method::HEAD].contains(method);
        Some(match path {
            _ if path.starts_with("/v1/endpoints/") => Self::Receive,
            "/v1/bundles" if *method == Method::POST => Self::Send,
            _ if reads => Self::Read,
            _ => Self::Operate,
        })
    }
}

/// A user of the HTTP interface: its token, with the scopes.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The octets that are shown.
    pub secret: String,
    /// The scopes of the token.
    pub scopes: Vec<Scope>,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token")
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// Lets a request pass whose token is for it.
pub(super) async fn check_scope(
    State(live): State<Live>,
    request: Request,
    next: Next,
) -> Response {
    let Some(needed) = Scope::needed(request.method(), request.uri().path()) else {
        return next.run(request).await;
    };
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let tokens = live.read(|facts| Arc::clone(&facts.tokens));
    // All are compared, so that the time tells nothing.
    let found = given.and_then(|given| {
        let is_given = |token: &&Token| is_same(given, token.secret.as_bytes());
        tokens.iter().filter(is_given).fold(None, |_, it| Some(it))
    });
    match found {
        Some(token) if token.scopes.contains(&needed) => next.run(request).await,
        Some(_) => Refusal::new(
            StatusCode::FORBIDDEN,
            format!(
                "the token is not for this: it lacks the scope \"{}\"",
                needed.name()
            ),
        )
        .with_hint("'scopes' of its [[token]] in the node file say what it is for")
        .into_response(),
        None => Refusal::new(
            StatusCode::UNAUTHORIZED,
            "the request carries no valid token",
        )
        .with_hint(
            "send \"Authorization: Bearer SECRET\" with the secret of a [[token]] of the node file",
        )
        .into_response(),
    }
}

/// Compares in a time that does not depend on where the first difference is.
pub fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differences = given.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_needs_the_scope_of_what_it_does() {
        let needed = |method: Method, path: &str| Scope::needed(&method, path).map(Scope::name);
        assert_eq!(needed(Method::GET, "/v1/openapi.json"), None);
        assert_eq!(needed(Method::GET, "/v1/bundles"), Some("read"));
        assert_eq!(needed(Method::GET, "/v1/events"), Some("read"));
        assert_eq!(needed(Method::POST, "/v1/bundles"), Some("send"));
        let deliveries = "/v1/endpoints/42/deliveries";
        assert_eq!(needed(Method::GET, deliveries), Some("receive"));
        assert_eq!(needed(Method::DELETE, deliveries), Some("receive"));
        assert_eq!(needed(Method::DELETE, "/v1/bundles/x"), Some("operate"));
        assert_eq!(needed(Method::POST, "/v1/routes"), Some("operate"));
        for name in Scope::NAMES {
            assert_eq!(Scope::of_name(name).map(Scope::name), Some(*name));
        }
    }
}
