//! Everything that a node listens on, bound before it is ready.

use std::time::Duration;

use dhow_node::config::{Config, ListenerId};
use dhow_node::discovery::config::service_of;
use tokio::net::{TcpListener, UnixListener};

use super::listener::{Family, ListenError, SocketFile, bind_tcp, bind_udp, bind_unix};
use crate::admin::server::Sockets;
use crate::config::NodeFile;
use crate::datagrams::socket::DatagramSocket;
use crate::discovering::Advertised;
use crate::run::RunError;
use dhow_bundle::protocol::Transport;

/// A listener for neighbours.
pub struct NeighbourSocket {
    /// Its number.
    pub id: ListenerId,
    /// The time for which sent octets may stay unacknowledged.
    pub stall_timeout: Duration,
    /// Connections of one origin, at most.
    pub connections_per_address: usize,
    /// The socket.
    pub listener: TcpListener,
}

/// Everything that a node listens on.
pub struct Bound {
    /// The listeners for neighbours.
    pub neighbours: Vec<NeighbourSocket>,
    /// The listeners for datagrams.
    pub datagrams: Vec<(ListenerId, DatagramSocket)>,
    /// The listeners for applications.
    pub clients: (UnixListener, Vec<TcpListener>),
    /// The listener for programs that are a part of the node, if any.
    pub programs: Option<UnixListener>,
    /// The listeners for operators.
    pub admin: Sockets,
    /// The Unix sockets' files, removed with this value.
    pub files: Vec<SocketFile>,
}

impl Bound {
    /// Listen on everything that the node file names.
    ///
    /// # Errors
    /// When one address or socket cannot be had.
    pub fn bind(file: &NodeFile) -> Result<Self, RunError> {
        let (mut neighbours, mut datagrams) = (Vec::new(), Vec::new());
        for (settings, id) in file.listen.iter().zip(0..) {
            let own = file.listen.iter().any(|other| {
                (other.transport, other.port) == (settings.transport, settings.port)
                    && other.host.parse::<std::net::Ipv4Addr>().is_ok()
            });
            let family = if own && settings.port != 0 {
                Family::Own
            } else {
                Family::Dual
            };
            if settings.transport == Transport::Udp {
                for socket in bind_udp(&settings.host, settings.port, family)? {
                    datagrams.push((ListenerId(id), socket));
                }
                continue;
            }
            for listener in bind_tcp(&settings.host, settings.port, family)? {
                neighbours.push(NeighbourSocket {
                    id: ListenerId(id),
                    stall_timeout: settings.stall_timeout,
                    connections_per_address: settings.connections_per_address,
                    listener,
                });
            }
        }
        // Applications may be other users of a group; operators are who runs the node.
        let (unix, api_file) = bind_unix(&file.api_socket, 0o660)?;
        let (admin, admin_file) = bind_unix(&file.admin_socket(), 0o600)?;
        let mut files = vec![api_file, admin_file];
        let mut programs = None;
        if let Some(path) = &file.external_socket {
            let (listener, external_file) = bind_unix(path, 0o600)?;
            programs = Some(listener);
            files.push(external_file);
        }
        let mut tcp = Vec::new();
        if let Some(settings) = &file.admin {
            for listener in bind_text(&settings.tcp)? {
                tcp.push(listener.into_std()?);
            }
        }
        let clients = match &file.api_tcp {
            Some(address) => bind_text(address)?,
            None => Vec::new(),
        };
        Ok(Self {
            neighbours,
            datagrams,
            clients: (unix, clients),
            programs,
            admin: Sockets {
                unix: admin.into_std()?,
                tcp,
            },
            files,
        })
    }

    /// The actual addresses for neighbours; those of datagrams with `/udp` behind them.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let neighbours = self.neighbours.iter();
        let of_streams = neighbours.filter_map(|listening| listening.listener.local_addr().ok());
        let sockets = self.datagrams.iter();
        let of_datagrams = sockets.map(|(_, socket)| format!("{}/udp", socket.local()));
        of_streams
            .map(|address| address.to_string())
            .chain(of_datagrams)
            .collect()
    }
}

impl Bound {
    /// The listeners of which beacons tell.
    #[must_use]
    pub fn advertised(&self, node: &Config) -> Advertised {
        let service = |ListenerId(id): ListenerId| {
            let listener = node.listeners.get(usize::try_from(id).ok()?)?;
            service_of(listener.protocol)
        };
        let streams = self.neighbours.iter().filter_map(|listening| {
            Some((
                service(listening.id)?,
                listening.listener.local_addr().ok()?,
            ))
        });
        let datagrams = self.datagrams.iter();
        let datagrams = datagrams.filter_map(|(id, socket)| Some((service(*id)?, socket.local())));
        Advertised::new(streams.chain(datagrams).collect())
    }
}

/// Listen on `host:port`.
fn bind_text(address: &str) -> Result<Vec<TcpListener>, ListenError> {
    let parts = address
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let Some((host, port)) = parts else {
        let error = std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "it is no address with a port",
        );
        return Err(ListenError::Address {
            address: address.to_owned(),
            error,
        });
    };
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    bind_tcp(host, port, Family::Dual)
}
