//! Addresses of a node: its API socket, and from it the operator's socket.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use dhow_client::Address;

use crate::failure::Failure;

/// The suffix by which the name of the operator's socket is longer than that of the API socket.
const ADMIN_SUFFIX: &str = ".admin";

const SOCKET_NAME: &str = "dhow.sock";

/// Told with every failure to reach a node.
pub const HINT: &str = "start a node with `dhow node run --config node.toml`, or name the socket of a running one with --node SOCKET or DHOW_NODE";

/// Told where a node is there and the user may not open its socket.
pub const DENIED_HINT: &str = "your user may not open the node's socket: `ls -l` shows its group; join that group (`sudo usermod -aG GROUP USER`, then log in again), or use sudo; [admin] group and read_group of the node file admit operators";

/// The hint for a failure to open a node's socket.
pub fn hint_of(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => DENIED_HINT,
        _ => HINT,
    }
}

/// The API address that was named, or the first default socket that exists.
pub fn locate(named: Option<&Address>) -> Result<Address, Failure> {
    if let Some(address) = named {
        if let Address::Unix(path) = address {
            refuse_admin_socket(path)?;
        }
        return Ok(address.clone());
    }
    let candidates = candidates(std::env::var_os("XDG_RUNTIME_DIR"));
    if let Some(found) = candidates.iter().find(|path| path.exists()) {
        return Ok(Address::Unix(found.clone()));
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
pub fn admin_socket(api: &Address) -> Result<PathBuf, Failure> {
    match api {
        Address::Unix(path) => {
            let mut name = path.clone().into_os_string();
            name.push(ADMIN_SUFFIX);
            Ok(PathBuf::from(name))
        }
        Address::Tcp(_) => Err(Failure::usage(format!(
            "cannot administer a node over its API address {api}"
        ))
        .with_hint("name the node's API socket; the operator's socket lies beside it")),
    }
}

/// The operator's socket named in place of the API socket would leave both sides waiting for each other.
fn refuse_admin_socket(path: &Path) -> Result<(), Failure> {
    let api = path
        .to_str()
        .and_then(|text| text.strip_suffix(ADMIN_SUFFIX));
    let own_admin = admin_socket(&Address::Unix(path.to_owned()))?;
    match api {
        Some(api) if path.exists() && !own_admin.exists() => Err(Failure::usage(format!(
            "{} is the operator's socket of a node",
            path.display()
        ))
        .with_hint(format!(
            "name the API socket beside it: --node {api}; the operator's is found from it"
        ))),
        _ => Ok(()),
    }
}

fn candidates(runtime_directory: Option<OsString>) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from(SOCKET_NAME)];
    let runtime_directory = runtime_directory.filter(|directory| !directory.is_empty());
    paths.extend(runtime_directory.map(|directory| PathBuf::from(directory).join(SOCKET_NAME)));
    paths.push(PathBuf::from("/run/dhow").join(SOCKET_NAME));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_socket_lies_beside_the_api_socket() {
        let admin = admin_socket(&Address::Unix("beta/dhow.sock".into()));
        assert_eq!(admin, Ok(PathBuf::from("beta/dhow.sock.admin")));
        assert!(admin_socket(&Address::Tcp("127.0.0.1:4242".into())).is_err());
    }

    #[test]
    fn the_operators_socket_named_for_the_api_socket_is_refused_with_the_right_name() {
        let directory = tempfile::tempdir().unwrap();
        let admin = directory.path().join("dhow.sock.admin");
        let named = Address::Unix(admin.clone());
        assert_eq!(locate(Some(&named)), Ok(named.clone()), "nothing is there");
        std::fs::write(&admin, "").unwrap();
        assert!(locate(Some(&named)).is_err());
        // A node whose API socket has such a name is found all the same.
        std::fs::write(directory.path().join("dhow.sock.admin.admin"), "").unwrap();
        assert_eq!(locate(Some(&named)), Ok(named));
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
