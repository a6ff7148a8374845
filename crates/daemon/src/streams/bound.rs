//! Everything that a node listens on, bound before it is ready.

use std::path::Path;

use dhow_node::config::ListenerId;
use tokio::net::{TcpListener, UnixListener};

use super::listener::{Family, ListenError, SocketFile, bind_tcp, bind_unix};
use super::listeners::BoundListener;
use crate::admin::rights::Gate;
use crate::admin::server::Sockets;
use crate::config::NodeFile;
use crate::config::access::Access;
use crate::groups::gid_of;
use crate::run::RunError;

/// Everything that a node listens on.
pub struct Bound {
    /// The listeners for neighbours.
    pub neighbours: Vec<BoundListener>,
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
        let listeners = (0..).map(ListenerId).zip(&file.listen);
        let neighbours = listeners
            .map(|(id, settings)| BoundListener::bind(id, settings, &file.listen))
            .collect::<Result<Vec<_>, _>>()?;
        let access = &file.access;
        let (unix, api_file) = bind_unix(&file.api_socket, access.api.as_deref(), 0o660)?;
        let gate = gate(access, &file.admin_socket())?;
        let (admin, admin_file) = bind_unix(
            &file.admin_socket(),
            access.admin.as_deref(),
            match (gate, &access.admin) {
                // Everybody may connect, and is told what they may.
                (Gate::OfGroups { .. }, _) => 0o666,
                (Gate::OfFile, Some(_)) => 0o660,
                (Gate::OfFile, None) => 0o600,
            },
        )?;
        let mut files = vec![api_file, admin_file];
        let mut programs = None;
        if let Some(path) = &file.external_socket {
            let (listener, external_file) = bind_unix(path, None, 0o600)?;
            programs = Some(listener);
            files.push(external_file);
        }
        let mut tcp = Vec::new();
        if let Some(settings) = &file.admin {
            for listener in bind_text(&settings.tcp)? {
                tcp.push(listener.into_std()?);
            }
        }
        let mut http = Vec::new();
        if let Some(settings) = &file.http {
            for listener in bind_text(&settings.listen)? {
                http.push(listener.into_std()?);
            }
        }
        let clients = match &file.api_tcp {
            Some(address) => bind_text(address)?,
            None => Vec::new(),
        };
        Ok(Self {
            neighbours,
            clients: (unix, clients),
            programs,
            admin: Sockets {
                unix: admin.into_std()?,
                gate,
                tcp,
                http,
            },
            files,
        })
    }
}

/// The rule for the rights of clients at the admin socket `path`.
fn gate(access: &Access, path: &Path) -> Result<Gate, ListenError> {
    let number = |group: &String| {
        gid_of(group).map_err(|error| ListenError::Group {
            path: path.to_path_buf(),
            group: group.clone(),
            error,
        })
    };
    Ok(match &access.readers {
        None => Gate::OfFile,
        Some(readers) => Gate::OfGroups {
            owner: rustix::process::geteuid().as_raw(),
            operators: access.admin.as_ref().map(number).transpose()?,
            readers: number(readers)?,
        },
    })
}

/// Listen on `host:port`.
fn bind_text(address: &str) -> Result<Vec<TcpListener>, ListenError> {
    let parts = address
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let Some((host, port)) = parts else {
        let error = std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "it is not an address with a port",
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
