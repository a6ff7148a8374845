//! Refusals, as JSON with a status.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dhow_node::driver::OperatorRefusal;
use serde_json::json;

use super::ask::Gone;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    status: StatusCode,
    error: String,
    hint: Option<String>,
}

impl Refusal {
    /// A refusal with a status and what was wrong.
    #[must_use]
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
            hint: None,
        }
    }

    /// A step failed that should not fail.
    #[must_use]
    pub fn of_node(what: &str) -> Self {
        let what = format!("{what} could not be read: the node has failed at it");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, what)
    }

    /// The same refusal with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.hint {
            Some(hint) => write!(f, "{} (hint: {hint})", self.error),
            None => f.write_str(&self.error),
        }
    }
}

impl From<Gone> for Refusal {
    fn from(gone: Gone) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, gone.to_string())
    }
}

impl From<OperatorRefusal> for Refusal {
    fn from(refusal: OperatorRefusal) -> Self {
        let (status, hint) = match refusal {
            OperatorRefusal::UnknownLink(_) => {
                (StatusCode::NOT_FOUND, "`dhow links` shows the links")
            }
            OperatorRefusal::UnknownRoute(..) => {
                (StatusCode::NOT_FOUND, "`dhow routes` shows the routes")
            }
            OperatorRefusal::UnknownBundle(_) => (
                StatusCode::NOT_FOUND,
                "`dhow bundles --each` shows the bundles",
            ),
            OperatorRefusal::LinkExists(_) => (
                StatusCode::CONFLICT,
                "`dhow links` shows the links; take another name",
            ),
            OperatorRefusal::TooManyLinks(_) => (
                StatusCode::CONFLICT,
                "restart the node: links that were deleted count, too",
            ),
            OperatorRefusal::TooManyListeners(_) => {
                (StatusCode::CONFLICT, "`dhow listen del` closes one")
            }
            OperatorRefusal::NoPeer(_) => (
                StatusCode::BAD_REQUEST,
                "say its node ID, with --peer or as \"peer\"",
            ),
            OperatorRefusal::NoAddress(_) => {
                (StatusCode::BAD_REQUEST, "say where it leads, as host:4556")
            }
            OperatorRefusal::LinkConfigured(_) => (
                StatusCode::CONFLICT,
                "take it out of the node file; `dhow link down` takes it down",
            ),
            OperatorRefusal::TunnelExists(_) => (
                StatusCode::CONFLICT,
                "one tunnel leads to a peer: delete the other first",
            ),
            OperatorRefusal::LinkFound(_) => {
                (StatusCode::CONFLICT, "`dhow link down` takes it down")
            }
            OperatorRefusal::LinkRouted(..) => (
                StatusCode::CONFLICT,
                "delete the route first (`dhow route del`)",
            ),
            OperatorRefusal::OwnNode(_) => (
                StatusCode::BAD_REQUEST,
                "say the node ID of a neighbour; bundles to this node need no route",
            ),
            OperatorRefusal::BadPattern(..) => (
                StatusCode::BAD_REQUEST,
                "patterns look like ipn:4.* or dtn://delta/** (docs/patterns.md)",
            ),
            OperatorRefusal::RouteExists(..) => (
                StatusCode::CONFLICT,
                "delete it first to change its priority",
            ),
        };
        Self::new(status, refusal.to_string()).with_hint(hint)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = match self.hint {
            Some(hint) => json!({ "error": self.error, "hint": hint }),
            None => json!({ "error": self.error }),
        };
        (self.status, Json(body)).into_response()
    }
}
