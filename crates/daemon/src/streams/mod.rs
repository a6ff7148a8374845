//! Connections: where they come from ([`bound`], [`listener`], [`dial`]) and the task that each has
//! ([`connection`]), over TCP, Unix sockets and TLS ([`flow`], [`backlog`], [`socket`], [`tls`], [`identity`]). If a node
//! has more than one thread, the sockets are on the others ([`worker`]), and a [`pipe`] leads to the node's own
//! ([`relay`]). [`path`] and [`route`] are what the system knows of the path that a connection takes,
//! [`wishes`] are what the node wants of each stream's task.
//!
//! This room never knows what is spoken on a connection.

pub mod accept;
pub mod backlog;
pub mod bound;
pub mod carrier;
pub mod connection;
pub mod dial;
pub mod flow;
pub mod identity;
pub mod listener;
pub mod listeners;
pub mod origins;
pub mod outgoing;
pub mod path;
pub mod pipe;
mod refusals;
pub mod relay;
pub mod rest;
pub mod route;
pub mod socket;
pub mod tls;
pub mod wishes;
pub mod worker;
