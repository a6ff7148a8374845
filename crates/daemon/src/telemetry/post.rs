//! One request of OTLP over HTTP (opentelemetry.io/docs/specs/otlp, "OTLP/HTTP") and its outcome.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Endpoint;

/// The time that one request may take, with its connection and its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Octets of an answer that are read, at most.
const ANSWER_OCTETS_MAX: usize = 64 << 10;

/// The time after which a collector may be asked again by its own word, at most.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// A request was not answered with success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The request may succeed later, after this time where the collector says so.
    Later(String, Option<Duration>),
    /// The same request will never succeed.
    Never(String),
}

impl Failure {
    /// The reason, for people.
    pub(super) fn why(&self) -> &str {
        match self {
            Self::Later(why, _) | Self::Never(why) => why,
        }
    }
}

/// Posts a message; its answer's body comes back, as far as it is short.
pub(super) async fn post(
    endpoint: &Endpoint,
    path: &str,
    message: Bytes,
) -> Result<Bytes, Failure> {
    match tokio::time::timeout(PATIENCE, ask(endpoint, path, message)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure::Later(
            format!("it has not answered within {} s", PATIENCE.as_secs()),
            None,
        )),
    }
}

async fn ask(endpoint: &Endpoint, path: &str, message: Bytes) -> Result<Bytes, Failure> {
    let later = |why: String| Failure::Later(why, None);
    let address = (endpoint.host.as_str(), endpoint.port);
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|error| later(error.to_string()))?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| later(error.to_string()))?;
    let request = Request::post(format!("{}{path}", endpoint.path))
        .header(HOST, endpoint.authority())
        .header(CONTENT_TYPE, "application/x-protobuf")
        .header(USER_AGENT, concat!("dhow/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(message))
        .map_err(|error| Failure::Never(error.to_string()))?;
    let answered = async {
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| later(error.to_string()))?;
        let (head, body) = answer.into_parts();
        if head.status.is_success() {
            // An answer that is too long, or breaks off, says nothing: the collector has the request.
            let body = Limited::new(body, ANSWER_OCTETS_MAX).collect().await;
            return Ok(body.map(|body| body.to_bytes()).unwrap_or_default());
        }
        let after = head.headers.get(RETRY_AFTER);
        let after = after.and_then(|value| value.to_str().ok()?.parse().ok());
        Err(refused(head.status, after))
    };
    tokio::select! {
        answer = answered => answer,
        // It ends when the answer is read: until then it carries it.
        Err(error) = connection => Err(later(error.to_string())),
    }
}

/// The statuses after which the same request may be sent again are those of the specification.
fn refused(status: StatusCode, after_s: Option<u64>) -> Failure {
    let why = format!("it answered {status}");
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => {
            let after = after_s.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
            Failure::Later(why, after)
        }
        _ => Failure::Never(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
        let after = |seconds| match refused(StatusCode::SERVICE_UNAVAILABLE, seconds) {
            Failure::Later(_, after) => after,
            Failure::Never(why) => panic!("{why}"),
        };
        assert_eq!(after(None), None);
        assert_eq!(after(Some(3)), Some(Duration::from_secs(3)));
        assert_eq!(after(Some(u64::MAX)), Some(RETRY_AFTER_MAX));
        for code in [301, 400, 404, 413, 500] {
            let status = StatusCode::from_u16(code).unwrap();
            assert!(
                matches!(refused(status, Some(1)), Failure::Never(_)),
                "{code}"
            );
        }
    }
}
