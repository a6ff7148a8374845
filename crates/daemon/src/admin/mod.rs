//! The operator's interface: HTTP and JSON on a Unix socket, and on TCP for those who know the token.
//!
//! It runs on a thread of its own and asks the node's thread for what it shows ([`ask`]), so that a slow
//! operator never slows a bundle; what it does not read takes little memory ([`list`]). `docs/admin-api.md` describes it. Start reading at [`routes`].

pub mod ask;
pub mod bundle_name;
mod changing;
mod exporting;
pub mod json;
mod list;
pub mod live;
mod loads;
pub mod metrics;
mod neighbours;
pub(crate) mod page;
pub mod refusal;
pub mod rights;
pub mod routes;
pub mod server;
pub(crate) mod serving;
mod telemetry;
mod why;
