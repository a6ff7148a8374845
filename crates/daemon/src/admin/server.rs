//! The thread that serves operators, and applications over HTTP.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

use super::callers::{Caller, Callers};
use super::rights::{Gate, limited};
use super::unread::ReadInTime;
use crate::pace::Pace;

/// Octets of a request's head, at most.
const HEAD_OCTETS_MAX: usize = 16 << 10;

/// The time that a request's head may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for which an operator may take nothing of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The wait after a connection could not be accepted: the system lacked something.
const SHORTAGE_WAIT: Duration = Duration::from_millis(200);

/// The listeners of the operator's interface, bound and not yet served.
#[derive(Debug)]
pub struct Sockets {
    /// The admin socket.
    pub unix: std::os::unix::net::UnixListener,
    /// Who may do what there.
    pub gate: Gate,
    /// TCP, where the configuration has it.
    pub tcp: Vec<std::net::TcpListener>,
    /// HTTP for applications, where the configuration has it.
    pub http: Vec<std::net::TcpListener>,
}

/// The resources of each kind of socket.
#[derive(Debug)]
pub struct Routers {
    /// Of the admin socket.
    pub open: Router,
    /// Of operators over TCP.
    pub guarded: Router,
    /// Of applications.
    pub applications: Router,
}

/// The thread; it ends when this value is dropped.
#[derive(Debug)]
pub struct AdminThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminThread {
    /// Serve operators, so many at a time, and as many applications.
    ///
    /// # Errors
    /// When the system makes no thread or no runtime.
    pub fn start(sockets: Sockets, routers: Routers, places: usize) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                let served = tokio::task::LocalSet::new()
                    .block_on(&runtime, serve(sockets, routers, places, stopped));
                if let Err(error) = served {
                    tracing::error!("the operator's interface does not work: {error}");
                }
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for AdminThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the operator's thread failed");
        }
    }
}

async fn serve(
    sockets: Sockets,
    routers: Routers,
    places: usize,
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let Routers {
        open,
        guarded,
        applications,
    } = routers;
    // Connections over TCP take no places of the admin socket.
    let (on_socket, on_tcp) = match sockets.tcp.is_empty() {
        true => (places, 0),
        false => (places - places / 2, places / 2),
    };
    let unix = UnixListener::from_std(sockets.unix)?;
    let gate = sockets.gate;
    let accept = async move || {
        let (stream, _) = unix.accept().await?;
        let router = limited(open.clone(), gate.rights(&stream));
        Ok((stream, IpAddr::from(Ipv4Addr::UNSPECIFIED), router))
    };
    tokio::task::spawn_local(receive(accept, Callers::new(on_socket)));
    receive_all(sockets.tcp, &guarded, &Callers::new(on_tcp))?;
    receive_all(sockets.http, &applications, &Callers::new(places))?;
    // The sender says nothing: it is dropped.
    let _ = stopped.await;
    Ok(())
}

/// Accept connections at each of some TCP listeners.
fn receive_all(
    listeners: Vec<std::net::TcpListener>,
    router: &Router,
    callers: &Callers,
) -> io::Result<()> {
    for listener in listeners {
        let listener = TcpListener::from_std(listener)?;
        let router = router.clone();
        let accept = async move || {
            let (stream, address) = listener.accept().await?;
            Ok((stream, address.ip(), router.clone()))
        };
        tokio::task::spawn_local(receive(accept, callers.clone()));
    }
    Ok(())
}

/// Accept connections for as long as the thread runs. If there is no place, one gives way that has not shown that it may ask, or
/// the new one waits for a while.
async fn receive<S>(accept: impl AsyncFn() -> io::Result<(S, IpAddr, Router)>, callers: Callers)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut shortage = Pace::default();
    loop {
        let (stream, address, router) = match accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(more) = shortage.say(callers.now()) {
                    tracing::warn!(more, "cannot accept an operator's connection: {error}");
                }
                tokio::time::sleep(SHORTAGE_WAIT).await;
                continue;
            }
        };
        let Some(caller) = callers.admit(address).await else {
            continue;
        };
        tokio::task::spawn_local(async move {
            tokio::select! {
                () = converse(stream, router, &caller) => {}
                () = caller.cut.notified() => {}
            }
        });
    }
}

/// Answer what one connection asks.
async fn converse<S>(stream: S, router: Router, caller: &Caller)
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
        .serve_connection(TokioIo::new(ReadInTime::new(stream, READ_TIMEOUT)), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("operator's connection ended: {error}");
    }
}
