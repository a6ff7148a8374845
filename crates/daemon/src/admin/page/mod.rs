//! The page of a node for people: three files that a browser fetches, which ask for all else as any client does.
//!
//! They say nothing of the node, so nobody needs a token for them. Whoever opens the page is asked for one, which stays in that window.

use axum::Router;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// The paths of the files.
pub(crate) const PATHS: [&str; 3] = ["/", "/page.css", "/page.js"];

/// Nothing but these files runs or is loaded, nobody else's page holds this one, and no form leads elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The files.
pub(crate) fn page() -> Router {
    let [index, style, script] = PATHS;
    Router::new()
        .route(
            index,
            get(async || file("text/html; charset=utf-8", include_str!("index.html"))),
        )
        .route(
            style,
            get(async || file("text/css; charset=utf-8", include_str!("page.css"))),
        )
        .route(
            script,
            get(async || file("text/javascript; charset=utf-8", include_str!("page.js"))),
        )
}

fn file(kind: &'static str, content: &'static str) -> Response {
    let headers: [(HeaderName, &str); 5] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, content).into_response()
}
