//! The operator's side of a node: HTTP and JSON over its Unix socket.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use dhow_client::Address;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

use crate::address::{HINT, admin_socket, hint_of, locate};
use crate::application::SILENT_HINT;
use crate::failure::Failure;

/// Most octets of an answer: a listing of a million bundles fits.
const ANSWER_OCTETS: usize = 1 << 30;

/// Most octets of a refusal.
const REFUSAL_OCTETS: usize = 64 << 10;

/// The time that a node may take to answer: it serves operators between the turns of its work.
const PATIENCE: Duration = Duration::from_secs(30);

/// A node's operator socket.
#[derive(Debug)]
pub struct Admin {
    socket: PathBuf,
    runtime: tokio::runtime::Runtime,
    patience: Duration,
}

impl Admin {
    /// The operator socket that belongs to the named API socket, or to the default one.
    pub fn of(node: Option<&Address>) -> Result<Self, Failure> {
        let socket = admin_socket(&locate(node)?)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::refused(format!("cannot start: {error}")))?;
        Ok(Self {
            socket,
            runtime,
            patience: PATIENCE,
        })
    }

    /// Waits no longer than this for an answer.
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = patience.min(PATIENCE);
        self
    }

    /// Waits as long as it takes: events may be a day apart.
    #[cfg(feature = "top")]
    pub const fn patiently(mut self) -> Self {
        self.patience = Duration::MAX;
        self
    }

    /// Asks for a resource.
    pub fn read(&self, path: &str) -> Result<Value, Failure> {
        self.request(&Method::GET, path, None)
    }

    /// Whether the node has a resource: false only where it says that there is none.
    pub fn has(&self, path: &str) -> Result<bool, Failure> {
        let answer = self.exchange(&Method::GET, path, None);
        let (status, _) = self.runtime.block_on(answer)?;
        Ok(status != StatusCode::NOT_FOUND)
    }

    /// Has something done; `body` is sent as JSON.
    pub fn act(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        self.request(method, path, body)
    }

    /// Gives the octets of a long answer to somebody, as they come.
    pub fn stream(
        &self,
        method: &Method,
        path: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.runtime.block_on(async {
            let (status, mut body) = self.begin(method, path, None).await?;
            if !status.is_success() {
                let octets = Limited::new(body, REFUSAL_OCTETS).collect().await;
                let octets = octets.map(|it| it.to_bytes()).unwrap_or_default();
                let value: Option<Value> = serde_json::from_slice(&octets).ok();
                return Err(refusal(status, value.as_ref()));
            }
            while let Some(frame) = self.in_time(body.frame()).await? {
                let frame = frame.map_err(|error| self.unreachable(&error.to_string()))?;
                take(frame.data_ref().map_or(&[][..], |piece| piece))?;
            }
            Ok(())
        })
    }

    fn request(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let (status, octets) = self.runtime.block_on(self.exchange(method, path, body))?;
        let value = if octets.is_empty() {
            Ok(Value::Null)
        } else {
            serde_json::from_slice(&octets)
        };
        if status.is_success() {
            return value
                .map_err(|error| self.unreachable(&format!("the answer is not JSON: {error}")));
        }
        Err(refusal(status, value.ok().as_ref()))
    }

    /// Sends a request; the answer's status, and its body to be read.
    async fn begin(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Incoming), Failure> {
        let broken = |error: &dyn std::fmt::Display| self.unreachable(&error.to_string());
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| {
            self.unreachable(&error.to_string())
                .with_hint(hint_of(&error))
        })?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))?;
        // It ends with the body, or with the runtime.
        drop(tokio::spawn(connection));
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "dhow");
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let octets = body.map_or_else(Bytes::new, |value| Bytes::from(value.to_string()));
        let request = request
            .body(Full::new(octets))
            .map_err(|error| broken(&error))?;
        let response = self.in_time(sender.send_request(request)).await?;
        let response = response.map_err(|error| broken(&error))?;
        Ok((response.status(), response.into_body()))
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let broken = |error: &dyn std::fmt::Display| self.unreachable(&error.to_string());
        let (status, body) = self.begin(method, path, body).await?;
        let mut body = Limited::new(body, ANSWER_OCTETS);
        let mut octets = Vec::new();
        // A long list comes in pieces, each of which has its time.
        while let Some(frame) = self.in_time(body.frame()).await? {
            let frame = frame.map_err(|error| broken(&error))?;
            octets.extend_from_slice(frame.data_ref().map_or(&[][..], |piece| piece));
        }
        Ok((status, Bytes::from(octets)))
    }

    /// The outcome of a step, unless the node takes too long for it.
    async fn in_time<T>(&self, step: impl Future<Output = T>) -> Result<T, Failure> {
        let outcome = tokio::time::timeout(self.patience, step).await;
        outcome.map_err(|_| self.silent())
    }

    fn silent(&self) -> Failure {
        Failure::refused(format!(
            "the node at {} did not answer within {} s",
            self.socket.display(),
            self.patience.as_secs()
        ))
        .with_hint(SILENT_HINT)
    }

    fn unreachable(&self, why: &str) -> Failure {
        Failure::refused(format!(
            "cannot reach the node at {}: {why}",
            self.socket.display()
        ))
        .with_hint(HINT)
    }
}

/// The failure that a node's refusal says: `{"error": …, "hint": …}`. A request that the node does not understand (400) is one that the user wrote wrong.
fn refusal(status: StatusCode, answer: Option<&Value>) -> Failure {
    let text = |key: &str| {
        answer
            .and_then(|value| value.get(key))
            .and_then(Value::as_str)
    };
    let what = text("error").map_or_else(
        || format!("the node refused: HTTP status {status}"),
        str::to_owned,
    );
    let failure = match status {
        StatusCode::BAD_REQUEST => Failure::usage(what),
        _ => Failure::refused(what),
    };
    match text("hint") {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// A value as one segment of a path: all but letters, digits and `-._~` percent-encoded (RFC 3986 2.3).
pub fn path_segment(text: &str) -> String {
    let mut segment = String::new();
    for octet in text.bytes() {
        if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) {
            segment.push(char::from(octet));
        } else {
            segment.push_str(&format!("%{octet:02X}"));
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundle_identities_fit_into_one_path_segment() {
        assert_eq!(
            path_segment("ipn:1.5/8123/3@0+7"),
            "ipn%3A1.5%2F8123%2F3%400%2B7"
        );
    }

    #[test]
    fn refusals_say_what_the_node_said() {
        let answer = serde_json::json!({"error": "cannot take link x up: there is no such link", "hint": "see `dhow links`"});
        let failure = refusal(StatusCode::NOT_FOUND, Some(&answer));
        assert_eq!(
            failure,
            Failure::refused("cannot take link x up: there is no such link")
                .with_hint("see `dhow links`")
        );
        let failure = refusal(StatusCode::BAD_REQUEST, Some(&answer));
        assert_eq!(
            failure,
            Failure::usage("cannot take link x up: there is no such link")
                .with_hint("see `dhow links`")
        );
        assert!(
            refusal(StatusCode::BAD_GATEWAY, None)
                .to_string()
                .contains("502")
        );
    }
}
