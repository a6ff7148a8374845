//! The rights of a client that connects to the admin socket.
//!
//! If the node file names no group that may only look, the permissions of the socket's file say it all: who may open it may do everything. If
//! the node file names one, everybody may open the socket, and the system's record of the process at its other end decides.

use std::os::fd::AsFd;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use rustix::net::sockopt::socket_peercred;

use super::refusal::Refusal;
use crate::groups::is_member;

/// The rights of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything.
    Operate,
    /// Read.
    Look,
    /// Nothing.
    Nothing,
}

/// The rule by which clients of the admin socket get their rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The permissions of its file decide.
    OfFile,
    /// The groups of the client's user decide.
    OfGroups {
        /// The user who may do everything, as root may.
        owner: u32,
        /// The group whose members may do everything, if any.
        operators: Option<u32>,
        /// The group whose members may look.
        readers: u32,
    },
}

impl Gate {
    /// The rights of the process at the other end of `socket`.
    #[must_use]
    pub fn rights(self, socket: &impl AsFd) -> Rights {
        let Self::OfGroups { .. } = self else {
            return Rights::Operate;
        };
        match socket_peercred(socket) {
            Ok(peer) => self.rights_of(peer.uid.as_raw(), peer.gid.as_raw()),
            Err(error) => {
                tracing::warn!("cannot tell who connected to the admin socket: {error}");
                Rights::Nothing
            }
        }
    }

    fn rights_of(self, uid: u32, gid: u32) -> Rights {
        match self {
            Self::OfFile => Rights::Operate,
            Self::OfGroups { owner, .. } if uid == 0 || uid == owner => Rights::Operate,
            Self::OfGroups {
                operators: Some(group),
                ..
            } if is_member(uid, gid, group) => Rights::Operate,
            Self::OfGroups { readers, .. } if is_member(uid, gid, readers) => Rights::Look,
            Self::OfGroups { .. } => Rights::Nothing,
        }
    }
}

/// The resources for somebody with these rights.
pub fn limited(router: Router, rights: Rights) -> Router {
    match rights {
        Rights::Operate => router,
        Rights::Look => router.layer(middleware::from_fn(only_read)),
        Rights::Nothing => router.layer(middleware::from_fn(refuse)),
    }
}

async fn only_read(request: Request, next: Next) -> Response {
    if [Method::GET, Method::HEAD].contains(request.method()) {
        return next.run(request).await;
    }
    Refusal::new(
        StatusCode::FORBIDDEN,
        "your user may look at this node, and change nothing",
    )
    .with_hint(HINT)
    .into_response()
}

async fn refuse(_: Request, _: Next) -> Response {
    Refusal::new(
        StatusCode::FORBIDDEN,
        "your user may neither operate this node nor look at it",
    )
    .with_hint(HINT)
    .into_response()
}

const HINT: &str = "'group' and 'read_group' of [admin] in the node file say whose members may; `id` shows your groups";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_and_root_operate_members_look_and_others_do_nothing() {
        let (owner, operators, readers) = (1_000_001, 2_000_001, 2_000_002);
        let gate = Gate::OfGroups {
            owner,
            operators: Some(operators),
            readers,
        };
        let stranger = 1_000_002;
        assert_eq!(gate.rights_of(owner, stranger), Rights::Operate);
        assert_eq!(gate.rights_of(0, stranger), Rights::Operate);
        assert_eq!(gate.rights_of(stranger, operators), Rights::Operate);
        assert_eq!(gate.rights_of(stranger, readers), Rights::Look);
        assert_eq!(gate.rights_of(stranger, stranger), Rights::Nothing);
        assert_eq!(Gate::OfFile.rights_of(stranger, stranger), Rights::Operate);
    }
}
