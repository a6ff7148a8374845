//! Connections: where they come from ([`bound`], [`listener`], [`dial`]) and the task that each has
//! ([`connection`]), over TCP, Unix sockets and TLS ([`socket`], [`tls`], [`identity`]).
//!
//! This room never knows what is spoken on a connection.

pub mod accept;
pub mod bound;
pub mod connection;
pub mod dial;
pub mod identity;
pub mod listener;
pub mod outgoing;
pub mod socket;
pub mod tls;
