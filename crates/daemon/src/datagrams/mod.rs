//! Links over UDP: a [`port`] is a socket with all that it takes and gives, many datagrams a system call ([`socket`]). [`peers`] says to whom
//! the address belongs that a datagram came from: the peer of a link or a stranger, each with a task of its own ([`conversation`]), which sends
//! what the node gives ([`outgoing`]). [`way`] is what the system knows of the way to an address.
//!
//! This room never knows what is in a datagram.

pub mod conversation;
pub mod outgoing;
pub mod path;
pub mod peers;
pub mod port;
pub mod socket;
