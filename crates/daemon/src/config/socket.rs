//! Unix sockets that a node file names.

use std::path::{Component, Path, PathBuf};

use dhow_document::{Document, FileError};

/// Octets of a Unix socket's path, at most (`sun_path` of Linux, without the octet that ends it).
pub(crate) const PATH_OCTETS_MAX: usize = 107;

/// The path of the administration's socket, beside that of the application interface.
pub(super) fn admin_socket(api_socket: &Path) -> PathBuf {
    let mut path = api_socket.to_path_buf().into_os_string();
    path.push(".admin");
    path.into()
}

/// Each socket has a path, and none that of another.
///
/// # Errors
/// One has none, or another's.
pub(super) fn check_sockets(document: &Document<'_>) -> Result<(), FileError> {
    let (api, external) = (document.one("api")?, document.one("external")?);
    for entries in [&api, &external] {
        if entries.text("socket") == Some("") {
            return Err(document.fault_of(entries, "socket", "'socket' is empty"));
        }
    }
    let (Some(api_socket), Some(socket)) = (api.text("socket"), external.text("socket")) else {
        return Ok(());
    };
    let api_socket = document.resolve(api_socket);
    let whose = match plain(&document.resolve(socket)) {
        path if path == plain(&api_socket) => "the application interface ([api] socket)",
        path if path == plain(&admin_socket(&api_socket)) => {
            "the administration ([api] socket, with \".admin\" behind it)"
        }
        _ => return Ok(()),
    };
    let what = format!("'socket' is that of {whose}");
    Err(document.fault_of(&external, "socket", what))
}

/// A path without the parts that lead nowhere.
fn plain(path: &Path) -> PathBuf {
    let parts = path.components();
    parts.filter(|part| *part != Component::CurDir).collect()
}
