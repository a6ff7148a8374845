//! Connecting to neighbours.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use dhow_node::config::LinkId;
use dhow_node::door::{Event, Purpose};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;

use super::connection::{Side, serve};
use super::listener::set_stall_timeout;
use super::socket::Socket;
use super::tls::Tls;
use crate::config::file::DialSettings;
use crate::core::Core;

/// Addresses of one host that are tried, at most.
const ADDRESSES_MAX: usize = 8;

/// What the last attempt of each link said, so that an operator reads of a failure once and not with
/// every attempt.
type LastFailures = Rc<RefCell<BTreeMap<LinkId, String>>>;

/// Dials whenever the node asks; runs for as long as the node does.
pub async fn dial_on_demand(core: Core, links: Vec<DialSettings>, tls: Option<Tls>) {
    let failures = LastFailures::default();
    let mut dials = Vec::new();
    loop {
        core.next_dials(&mut dials).await;
        for link in dials.drain(..) {
            let settings = usize::try_from(link.0)
                .ok()
                .and_then(|at| links.get(at))
                .cloned();
            match settings {
                Some(settings) => {
                    let dialled = dial(
                        core.clone(),
                        link,
                        settings,
                        tls.clone(),
                        Rc::clone(&failures),
                    );
                    drop(tokio::task::spawn_local(dialled));
                }
                None => core.handle(Event::DialFailed {
                    link,
                    reason: "the link has no address".to_owned(),
                }),
            }
        }
    }
}

async fn dial(
    core: Core,
    link: LinkId,
    settings: DialSettings,
    tls: Option<Tls>,
    failures: LastFailures,
) {
    match connect(&settings).await {
        Ok(stream) => {
            failures.borrow_mut().remove(&link);
            set_stall_timeout(&stream, settings.stall_timeout);
            let side = Side::Dialled(server_name(&settings.host, &stream));
            serve(
                core,
                Socket::tcp(stream),
                Purpose::Dialled { link },
                side,
                tls,
            )
            .await;
        }
        Err(error) => {
            let (said, name) = (error.to_string(), core.link_name(link));
            let known = failures.borrow_mut().insert(link, said.clone());
            if known.as_deref() == Some(said.as_str()) {
                tracing::debug!(
                    link = name,
                    "cannot connect to {}:{}: {said}",
                    settings.host,
                    settings.port
                );
            } else {
                tracing::info!(
                    link = name,
                    "cannot connect to {}:{}: {said}",
                    settings.host,
                    settings.port
                );
            }
            core.count(|counts| counts.dial_failures += 1);
            core.handle(Event::DialFailed { link, reason: said });
        }
    }
}

/// Connects to the first address of the host that answers; names are resolved each time, since they
/// may lead elsewhere by now.
async fn connect(settings: &DialSettings) -> io::Result<TcpStream> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
    let resolve = tokio::net::lookup_host((settings.host.as_str(), settings.port));
    let addresses: Vec<_> = tokio::time::timeout(settings.timeout, resolve)
        .await
        .map_err(|_| late())??
        .take(ADDRESSES_MAX)
        .collect();
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let share = (settings.timeout / count).max(Duration::from_millis(1));
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in addresses {
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = late(),
        }
    }
    Err(last)
}

/// The name for TLS: the DNS name that was resolved (RFC 9174 4.4.3), or else the peer's address.
fn server_name(host: &str, stream: &TcpStream) -> ServerName<'static> {
    let name = ServerName::try_from(host.to_owned()).ok();
    name.unwrap_or_else(|| {
        let address = stream
            .peer_addr()
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
        ServerName::from(address)
    })
}
