//! HTTP for the page: a few files and a stream of events, to few readers. It takes nothing but GET and HEAD.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use bytes::Bytes;
use dhow_daemon::web::{
    Callers, File, Hosts, Kept, Kind, Pieces, Rest, Served, Terms, reach, receive_all,
};
use rustix::net::sockopt::{set_socket_send_buffer_size, set_tcp_user_timeout};

use super::board::{Board, Given, Reader};

/// Connections at once, at most: one more takes the place of another.
const CONNECTIONS_MAX: usize = 32;

/// The longest time for which a reader may take no octets.
const PATIENCE_MS: u32 = 5_000;

/// Octets that wait in a socket for its reader, about (the system takes twice as many, for its own needs): with more,
/// it would be long before one that does not read is found.
const SOCKET_OCTETS: usize = 64 << 10;

/// The time from one message to a reader to the next where nothing is new.
const ALIVE: Duration = Duration::from_secs(2);

/// The longest time for which answers that are under way go on at the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// A server that ends with its value.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    _served: Served,
}

impl Server {
    /// Serves the page at an address; the port may be 0.
    ///
    /// # Errors
    /// When it cannot listen there.
    pub fn start(address: SocketAddr, board: &Arc<Board>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        // Connections have what their listener has.
        set_socket_send_buffer_size(&listener, SOCKET_OCTETS)?;
        // The system forgets what a reader that was let go has not taken.
        set_tcp_user_timeout(&listener, PATIENCE_MS)?;
        let address = listener.local_addr()?;
        let router = Hosts::own().guard(router(board));
        let served = Served::start("page", move |stopped| async move {
            let terms = Terms {
                callers: Callers::new(CONNECTIONS_MAX, Kept::Nobody),
                read_timeout: Duration::from_millis(u64::from(PATIENCE_MS)),
            };
            receive_all(vec![listener], &router, &terms)?;
            // The other end says nothing: it is dropped.
            let _ = stopped.await;
            terms.callers.finish(FAREWELL).await;
            Ok(())
        })?;
        Ok(Self {
            address,
            _served: served,
        })
    }

    /// The addresses at which it can be reached.
    pub fn reach(&self) -> Vec<SocketAddr> {
        reach(self.address)
    }
}

fn router(board: &Arc<Board>) -> Router {
    let index = async || File::new(Kind::Document, include_str!("index.html"));
    let style = async || File::new(Kind::Style, include_str!("page.css"));
    let script = async || File::new(Kind::Script, include_str!("page.js"));
    Router::new()
        .route("/", get(index))
        .route("/page.css", get(style))
        .route("/page.js", get(script))
        .route("/parts.js", get(async || File::parts()))
        .route("/events", get(events))
        .route("/report.html", get(report))
        .fallback(async || (StatusCode::NOT_FOUND, "there is no such page\n"))
        .method_not_allowed_fallback(async || {
            (StatusCode::METHOD_NOT_ALLOWED, "the page is only read\n")
        })
        .with_state(Arc::clone(board))
}

/// The answer that goes on until the page is closed or its reader goes.
async fn events(State(board): State<Arc<Board>>, method: Method, headers: HeaderMap) -> Response {
    let kind = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    if method == Method::HEAD {
        return kind.into_response();
    }
    let last = headers.get("last-event-id").and_then(|it| it.to_str().ok());
    let last = last.and_then(|it| it.parse().ok()).unwrap_or(0);
    let reader = Reader::new(&board, last);
    (kind, Body::new(Pieces::of(reader))).into_response()
}

impl Rest for Reader {
    type Error = Infallible;

    async fn next(mut self) -> Result<(Bytes, Option<Self>), Infallible> {
        Ok(match self.read(ALIVE).await {
            Some(news) => (Bytes::from(news), Some(self)),
            None => (Bytes::new(), None),
        })
    }
}

async fn report(State(board): State<Arc<Board>>, method: Method) -> Response {
    match board.report() {
        None => (StatusCode::NOT_FOUND, "there is no report yet\n").into_response(),
        // A request for the head alone is not given the report.
        Some(text) if method == Method::HEAD => File::new(Kind::Document, text).into_response(),
        Some(text) => {
            let text = Bytes::from_owner(Given::new(&board, text));
            File::new(Kind::Document, text).into_response()
        }
    }
}
