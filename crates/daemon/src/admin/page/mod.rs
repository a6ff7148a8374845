//! The page of a node for people: files that a browser fetches, which ask for all else as any client does.
//!
//! They say nothing of the node, so nobody needs a token for them. A reader that opens the page is asked for one, which stays in that window.

use axum::Router;
use axum::routing::get;

use crate::web::{File, Kind};

/// The paths of the files.
pub(crate) const PATHS: [&str; 4] = ["/", "/page.css", "/page.js", "/parts.js"];

/// The files.
pub(crate) fn page() -> Router {
    let [index, style, script, parts] = PATHS;
    Router::new()
        .route(
            index,
            get(async || File::new(Kind::Page, include_str!("index.html"))),
        )
        .route(
            style,
            get(async || File::new(Kind::Style, include_str!("page.css"))),
        )
        .route(
            script,
            get(async || File::new(Kind::Script, include_str!("page.js"))),
        )
        .route(parts, get(async || File::parts()))
}
