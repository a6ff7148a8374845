//! Where a node listens: its API socket, and from it the operator's socket.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::failure::Failure;

/// The API address of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAddress {
    /// A Unix socket.
    Socket(PathBuf),
    /// `tcp:HOST:PORT`.
    Tcp(String),
}

impl FromStr for NodeAddress {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.strip_prefix("tcp:") {
            Some(address) => Self::Tcp(address.trim_start_matches("//").to_owned()),
            None => Self::Socket(PathBuf::from(text)),
        })
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

const SOCKET_NAME: &str = "dhow.sock";

/// Told with every failure to reach a node.
pub const HINT: &str = "start a node with `dhow node run --config NODE.toml`, or name the socket of a running one with --node SOCKET or DHOW_NODE";

impl NodeAddress {
    /// The address that was named, or the first default socket that exists.
    pub fn or_default(named: Option<&Self>) -> Result<Self, Failure> {
        if let Some(address) = named {
            return Ok(address.clone());
        }
        let candidates = candidates(std::env::var_os("XDG_RUNTIME_DIR"));
        if let Some(found) = candidates.iter().find(|path| path.exists()) {
            return Ok(Self::Socket(found.clone()));
        }
        let tried: Vec<String> = candidates
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        Err(Failure::refused(format!(
            "cannot find a node: no socket at {}",
            tried.join(", ")
        ))
        .with_hint(HINT))
    }

    /// The operator's socket: the API socket's path with `.admin` appended.
    pub fn admin(&self) -> Result<PathBuf, Failure> {
        match self {
            Self::Socket(path) => {
                let mut name = path.clone().into_os_string();
                name.push(".admin");
                Ok(PathBuf::from(name))
            }
            Self::Tcp(address) => Err(Failure::usage(format!(
                "cannot administer a node over its API address tcp:{address}"
            ))
            .with_hint("name the node's API socket; the operator's socket lies beside it")),
        }
    }
}

fn candidates(runtime_directory: Option<OsString>) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from(SOCKET_NAME)];
    paths.extend(
        runtime_directory
            .filter(|directory| !directory.is_empty())
            .map(|directory| PathBuf::from(directory).join(SOCKET_NAME)),
    );
    paths.push(PathBuf::from("/run/dhow").join(SOCKET_NAME));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_socket_lies_beside_the_api_socket() {
        let address: NodeAddress = "beta/dhow.sock".parse().unwrap();
        assert_eq!(
            address.admin().unwrap(),
            PathBuf::from("beta/dhow.sock.admin")
        );
        assert!(
            "tcp:127.0.0.1:4242"
                .parse::<NodeAddress>()
                .unwrap()
                .admin()
                .is_err()
        );
    }

    #[test]
    fn the_working_directory_comes_before_the_runtime_directory() {
        let paths = candidates(Some("/run/user/7".into()));
        assert_eq!(
            paths,
            ["dhow.sock", "/run/user/7/dhow.sock", "/run/dhow/dhow.sock"].map(PathBuf::from)
        );
        assert_eq!(candidates(Some("".into())).len(), 2);
    }
}
