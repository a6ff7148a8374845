//! Events in a node, for those who listen: server-sent events (HTML, 9.2), each an object of JSON.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use dhow_bundle::v7::admin::ReasonCode;
use dhow_node::driver::{Occurrence, StreamId};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc};

/// Events that may wait for a listener: one that is further behind misses some, and is told how many.
const EVENTS_WAITING: usize = 1024;

/// The time after which a listener to whom nothing was said is told that the node is there.
const SILENCE: Duration = Duration::from_secs(15);

/// The source of events; everybody who listens hears each.
#[derive(Clone, Debug)]
pub struct Events(broadcast::Sender<Arc<str>>);

impl Default for Events {
    fn default() -> Self {
        Self(broadcast::channel(EVENTS_WAITING).0)
    }
}

impl Events {
    /// Something happened; `link_name` names a link by its number.
    pub fn tell(
        &self,
        occurrence: &Occurrence,
        link_name: impl Fn(dhow_node::config::LinkId) -> String,
    ) {
        if self.0.receiver_count() == 0 {
            return;
        }
        if let Some(event) = describe(occurrence, link_name) {
            // Nobody listens any more: nothing is lost.
            let _ = self.0.send(format!("data: {event}\n\n").into());
        }
    }
}

/// The answer that goes on for as long as somebody reads it.
pub fn events(events: &Events) -> Response {
    let mut heard = events.0.subscribe();
    let (give, take) = mpsc::channel::<Bytes>(1);
    tokio::task::spawn_local(async move {
        loop {
            let piece = match tokio::time::timeout(SILENCE, heard.recv()).await {
                Ok(Ok(event)) => Bytes::copy_from_slice(event.as_bytes()),
                Ok(Err(broadcast::error::RecvError::Lagged(missed))) => Bytes::from(format!(
                    "data: {}\n\n",
                    json!({ "event": "missed", "events": missed })
                )),
                Ok(Err(broadcast::error::RecvError::Closed)) => return,
                // A comment.
                Err(_) => Bytes::from_static(b":\n\n"),
            };
            if give.send(piece).await.is_err() {
                return;
            }
        }
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, Body::new(Stream(take))).into_response()
}

/// A body without an end.
struct Stream(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|octets| Ok(Frame::data(octets))))
    }
}

/// An event as an object, where it is one for people outside.
fn describe(
    occurrence: &Occurrence,
    link_name: impl Fn(dhow_node::config::LinkId) -> String,
) -> Option<Value> {
    let session = |stream: &StreamId| (!stream.is_tunnel()).then_some(stream.0);
    Some(match occurrence {
        Occurrence::SessionUp {
            stream,
            link,
            parameters,
        } => json!({
            "event": "session_up", "session": session(stream), "link": link.map(&link_name),
            "peer": parameters.peer.to_string(), "secured": parameters.secured,
        }),
        Occurrence::SessionDown {
            stream,
            link,
            reason,
        } => json!({
            "event": "session_down", "session": session(stream), "link": link.map(&link_name), "reason": reason.to_string(),
        }),
        Occurrence::Received { id, from, octets } => json!({
            "event": "received", "id": id.to_string(), "from": from.to_string(), "octets": octets,
        }),
        Occurrence::Created { id, octets } => json!({
            "event": "created", "id": id.to_string(), "octets": octets,
        }),
        Occurrence::Duplicate { id } => json!({ "event": "duplicate", "id": id.to_string() }),
        Occurrence::Forwarded { id, to, octets } => json!({
            "event": "forwarded", "id": id.to_string(), "to": to.to_string(), "octets": octets,
        }),
        Occurrence::Delivered {
            id,
            endpoint,
            octets,
        } => json!({
            "event": "delivered", "id": id.to_string(), "endpoint": endpoint.to_string(), "payload_octets": octets,
        }),
        Occurrence::Deleted { id, reason } => json!({
            "event": "deleted", "id": id.to_string(), "reason": ReasonCode::from_code(*reason).to_string(),
        }),
        Occurrence::RefusedIncoming { from, why, .. } => json!({
            "event": "refused", "from": from.to_string(), "why": why,
        }),
        Occurrence::RefusedOutgoing { id, to, .. } => json!({
            "event": "refused_by_peer", "id": id.to_string(), "to": to.to_string(),
        }),
        Occurrence::Quarantined { id } => json!({ "event": "quarantined", "id": id.to_string() }),
        Occurrence::ClockJumped { milliseconds } => {
            json!({ "event": "clock_jumped", "ms": milliseconds })
        }
        Occurrence::QuotaChanged {
            effective, quota, ..
        } => json!({
            "event": "quota_changed", "effective_octets": effective, "quota_octets": quota,
        }),
        Occurrence::NeighbourFound {
            node,
            link,
            address,
        } => json!({
            "event": "neighbour_found", "node_id": node.to_string(), "link": link_name(*link), "address": address,
        }),
        Occurrence::NeighbourLost { node } => {
            json!({ "event": "neighbour_lost", "node_id": node.to_string() })
        }
        _ => return None,
    })
}
