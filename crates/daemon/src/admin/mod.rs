//! The operator's interface: HTTP and JSON on a Unix socket, and on TCP for those who know the token.
//!
//! It runs on a thread of its own and asks the node's thread for what it shows ([`ask`]), so that a slow
//! operator never slows a bundle; what it does not read takes little memory ([`list`]). `docs/admin-api.md` describes it. Start reading at [`routes`].

pub mod ask;
pub mod bundle_name;
mod callers;
pub mod json;
mod list;
pub mod metrics;
mod neighbours;
pub mod refusal;
pub mod routes;
pub mod server;
mod unread;
mod why;
