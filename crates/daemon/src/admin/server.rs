//! The thread that serves operators, and applications over HTTP.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::Router;
use tokio::net::UnixListener;
use tokio::sync::oneshot;

use super::rights::{Gate, limited};
use crate::web::{Callers, Kept, Served, Terms, receive, receive_all};

/// The time for which an operator may take nothing of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The listeners of the operator's interface, bound and not yet served.
#[derive(Debug)]
pub struct Sockets {
    /// The admin socket.
    pub unix: std::os::unix::net::UnixListener,
    /// The rule by which its clients get their rights.
    pub gate: Gate,
    /// TCP, where the configuration has it.
    pub tcp: Vec<std::net::TcpListener>,
    /// HTTP for applications, where the configuration has it.
    pub http: Vec<std::net::TcpListener>,
}

/// The resources of each kind of socket.
#[derive(Debug)]
pub struct Routers {
    /// The routes of the admin socket.
    pub open: Router,
    /// The routes of operators over TCP.
    pub guarded: Router,
    /// The routes of applications.
    pub applications: Router,
}

/// Serves operators, so many at a time, and as many applications, in a thread that ends with the value that comes back.
///
/// # Errors
/// When the system makes no thread or no runtime.
pub fn start(sockets: Sockets, routers: Routers, places: usize) -> io::Result<Served> {
    Served::start("admin", move |stopped| {
        serve(sockets, routers, places, stopped)
    })
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
    let terms = |places| Terms {
        callers: Callers::new(places, Kept::WhoMayAsk),
        read_timeout: READ_TIMEOUT,
    };
    tokio::task::spawn_local(receive(accept, terms(on_socket)));
    receive_all(sockets.tcp, &guarded, &terms(on_tcp))?;
    receive_all(sockets.http, &applications, &terms(places))?;
    // The sender says nothing: it is dropped.
    let _ = stopped.await;
    Ok(())
}
