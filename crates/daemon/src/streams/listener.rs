//! The addresses and sockets where neighbours and applications connect.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use tokio::net::{TcpListener, UnixListener};

use super::path::PROBE_INTERVAL_MS;
use crate::datagrams::socket::DatagramSocket;
use crate::groups::gid_of;

/// Connections that the system keeps waiting for one listener.
const BACKLOG: i32 = 128;

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The system refused an address.
    #[error("cannot listen on {address}: {error}")]
    Address {
        /// The address.
        address: String,
        /// The error of the system.
        error: io::Error,
    },
    /// A host is none.
    #[error("cannot listen on {address}: the host has no address: {error}")]
    NoHost {
        /// The address.
        address: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The system refused a Unix socket.
    #[error("cannot listen on {}: {error}", path.display())]
    Path {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Another program listens on a Unix socket.
    #[error("cannot listen on {}: another program listens there", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// A Unix socket cannot be given to a group.
    #[error("cannot give {} to the group '{group}': {error}", path.display())]
    Group {
        /// The socket.
        path: PathBuf,
        /// The group.
        group: String,
        /// The error of the system.
        error: io::Error,
    },
    /// A file that is no socket is in the way.
    #[error("cannot listen on {}: a file is there that is not a socket", path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
    },
}

impl ListenError {
    /// A way to mend the fault.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Address { error, .. } => match error.kind() {
                io::ErrorKind::AddrInUse => Some(
                    "another program has the port: `ss -lntup` shows which; port 0 takes any free one",
                ),
                io::ErrorKind::AddrNotAvailable => {
                    Some("the address is not one of this machine's: `ip address` shows them")
                }
                io::ErrorKind::PermissionDenied => Some("ports below 1024 need a privilege"),
                _ => None,
            },
            Self::InUse { .. } => {
                Some("is the node running already? Each node needs an API socket of its own")
            }
            Self::Path { error, .. } if error.kind() == io::ErrorKind::InvalidInput => {
                Some("a socket's path may have 107 octets: choose a shorter one")
            }
            Self::Path { .. } => Some("the socket's directory must exist and be writable"),
            Self::NoHost { .. } => Some(
                "write the address of an interface (`ip address` shows them), or [::] for every one",
            ),
            Self::Group { .. } => Some(
                "the group must exist, and the user that runs the node be root or one of its members",
            ),
            Self::InTheWay { .. } => None,
        }
    }

    /// True where the node file is wrong, whatever else runs on the machine.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::NoHost { .. } => true,
            // A path too long for a socket, or one whose directory is missing or a file.
            Self::Path { error, .. } => matches!(
                error.kind(),
                io::ErrorKind::InvalidInput
                    | io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
            ),
            Self::Group { error, .. } => error.kind() == io::ErrorKind::NotFound,
            Self::Address { .. } | Self::InUse { .. } | Self::InTheWay { .. } => false,
        }
    }
}

/// Listen on every address of a host; an IPv6 wildcard takes IPv4 too, unless the family is its own.
///
/// # Errors
/// When one of the addresses cannot be had.
pub fn bind_tcp(host: &str, port: u16, family: Family) -> Result<Vec<TcpListener>, ListenError> {
    bind(host, port, |address| bind_address(address, family))
}

/// Take datagrams at every address of a host; an IPv6 wildcard takes IPv4 too, unless the family is its own.
///
/// # Errors
/// When one of the addresses cannot be had.
pub fn bind_udp(host: &str, port: u16, family: Family) -> Result<Vec<DatagramSocket>, ListenError> {
    bind(host, port, |address| DatagramSocket::bind(address, family))
}

fn bind<T>(
    host: &str,
    port: u16,
    bind_one: impl Fn(SocketAddr) -> io::Result<T>,
) -> Result<Vec<T>, ListenError> {
    let shown = if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    let fault = |error| ListenError::Address {
        address: shown.clone(),
        error,
    };
    let no_host = |error| ListenError::NoHost {
        address: shown.clone(),
        error,
    };
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(no_host)?.collect();
    if addresses.is_empty() {
        return Err(no_host(io::ErrorKind::NotFound.into()));
    }
    addresses
        .into_iter()
        .map(|address| bind_one(address).map_err(fault))
        .collect()
}

/// Whether an IPv6 wildcard listens for IPv4 too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The socket takes both families.
    Dual,
    /// The socket leaves IPv4 to another listener.
    Own,
}

fn bind_address(address: SocketAddr, family: Family) -> io::Result<TcpListener> {
    let domain = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(domain, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, family == Family::Own)?;
    }
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    TcpListener::from_std(std::net::TcpListener::from(socket))
}

/// A Unix socket that this node listens on; its file goes with it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    /// The file of a socket that this process has just bound.
    ///
    /// # Errors
    /// When it has gone.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_path_buf(),
            identity: identity(path)?,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody else may have put a socket of their own there.
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Listen on a Unix socket with the permissions `mode`, for the group `group` where there is one; one that a dead process left is removed.
///
/// # Errors
/// When another program listens there, something else is in the way, there is no such group, or the system refuses.
pub fn bind_unix(
    path: &Path,
    group: Option<&str>,
    mode: u32,
) -> Result<(UnixListener, SocketFile), ListenError> {
    use std::os::unix::fs::PermissionsExt as _;
    let fault = |error| ListenError::Path {
        path: path.to_path_buf(),
        error,
    };
    make_room_for_socket(path)?;
    let listener = UnixListener::bind(path).map_err(fault)?;
    let file = SocketFile::of(path).map_err(fault)?;
    if let Some(group) = group {
        give_to_group(path, group).map_err(|error| ListenError::Group {
            path: path.to_path_buf(),
            group: group.to_owned(),
            error,
        })?;
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(fault)?;
    Ok((listener, file))
}

/// Remove a Unix socket that a dead process left.
///
/// # Errors
/// When another program listens there, something else is in the way, or the system refuses.
pub fn make_room_for_socket(path: &Path) -> Result<(), ListenError> {
    let fault = |error| ListenError::Path {
        path: path.to_path_buf(),
        error,
    };
    let in_use = || ListenError::InUse {
        path: path.to_path_buf(),
    };
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(ListenError::InTheWay {
            path: path.to_path_buf(),
        }),
        Ok(_) => match connect_at_once(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(fault)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(in_use()),
            Ok(_) => Err(in_use()),
            Err(error) => Err(fault(error)),
        },
        Err(_) => Ok(()),
    }
}

/// Connect to a Unix socket, without a wait for its listener.
///
/// # Errors
/// `WouldBlock` when as many connections wait there as may; else when nobody listens there, or the system refuses.
pub fn connect_at_once(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

fn give_to_group(path: &Path, group: &str) -> io::Result<()> {
    let group = rustix::fs::Gid::from_raw(gid_of(group)?);
    Ok(rustix::fs::chown(path, None, Some(group))?)
}

/// Give a connection up when its peer's TCP acknowledges nothing for this long; zero changes nothing.
pub fn set_stall_timeout(stream: &impl AsFd, timeout: Duration) {
    let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    if timeout_ms > 0
        && let Err(error) = sockopt::set_tcp_user_timeout(stream, timeout_ms)
    {
        tracing::debug!("TCP_USER_TIMEOUT cannot be set: {error}");
    }
}

/// Have the system probe a connection over which nothing has come for this long, and then every second; zero
/// for never.
pub fn set_path_check(stream: &impl AsFd, idle: Duration) {
    if idle.is_zero() {
        return;
    }
    let interval = Duration::from_millis(u64::from(PROBE_INTERVAL_MS));
    let set = sockopt::set_tcp_keepidle(stream, idle.max(Duration::from_secs(1)))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, interval))
        .and_then(|()| sockopt::set_socket_keepalive(stream, true));
    if let Err(error) = set {
        tracing::debug!("SO_KEEPALIVE cannot be set: {error}");
    }
}
