//! Connections over HTTP/1.1, from the one that is accepted to its last answer.

use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use super::callers::{Caller, Callers};
use super::unread::ReadInTime;
use crate::pace::Pace;

/// Octets of a request's head, at most; so many of an answer wait in this process for the socket, about.
const HEAD_OCTETS_MAX: usize = 16 << 10;

/// The time that a request's head may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The wait after a connection could not be accepted: the system lacked something.
const SHORTAGE_WAIT: Duration = Duration::from_millis(200);

/// The rules for connections.
#[derive(Clone)]
pub struct Terms {
    /// The places of connections.
    pub callers: Callers,
    /// The time for which a peer may take nothing of an answer.
    pub read_timeout: Duration,
}

/// Accept connections at each of some TCP listeners.
///
/// # Errors
/// When a listener is none that can be waited for.
pub fn receive_all(
    listeners: Vec<std::net::TcpListener>,
    router: &Router,
    terms: &Terms,
) -> io::Result<()> {
    for listener in listeners {
        let listener = TcpListener::from_std(listener)?;
        let router = router.clone();
        let accept = async move || {
            let (stream, address) = listener.accept().await?;
            Ok((stream, address.ip(), router.clone()))
        };
        tokio::task::spawn_local(receive(accept, terms.clone()));
    }
    Ok(())
}

/// Accept connections for as long as the thread runs. If there is no place, one gives way, or the new one waits for a while.
pub async fn receive<S>(accept: impl AsyncFn() -> io::Result<(S, IpAddr, Router)>, terms: Terms)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut shortage = Pace::default();
    loop {
        let (stream, address, router) = match accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(more) = shortage.say(terms.callers.now()) {
                    tracing::warn!(more, "cannot accept a connection over HTTP: {error}");
                }
                tokio::time::sleep(SHORTAGE_WAIT).await;
                continue;
            }
        };
        let Some(caller) = terms.callers.admit(address).await else {
            continue;
        };
        let read_timeout = terms.read_timeout;
        tokio::task::spawn_local(async move {
            tokio::select! {
                () = converse(stream, router, &caller, read_timeout) => {}
                () = caller.cut.notified() => {}
            }
        });
    }
}

/// Answer what one connection asks.
async fn converse<S>(stream: S, router: Router, caller: &Caller, read_timeout: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(async |request| {
        caller.may_ask(true);
        let answer = router.call(request).await;
        if let Ok(answer) = &answer {
            let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
            caller.may_ask(!refused.contains(&answer.status()));
        }
        answer
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_OCTETS_MAX)
        .serve_connection(TokioIo::new(ReadInTime::new(stream, read_timeout)), service);
    let mut served = pin!(served);
    let done = tokio::select! {
        done = served.as_mut() => done,
        () = caller.over() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = done {
        tracing::debug!("a connection over HTTP ended: {error}");
    }
}
