//! The TCP convergence layer: bundles over an octet stream with acknowledgments.
//!
//! Each version of the protocol is a room of its own and implements [`crate::StreamSession`]:
//! [`v4`] is TCPCLv4 (RFC 9174).

pub mod v4;
