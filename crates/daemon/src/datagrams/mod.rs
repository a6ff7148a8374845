//! Links over UDP: a [`port`] is a socket with all that it takes and gives ([`socket`]), many datagrams a system call ([`calls`]). [`peers`] says to whom
//! the address belongs that a datagram came from: the peer of a link or a stranger, each with a task of its own ([`conversation`]), which sends
//! what the node gives ([`outgoing`]). [`path`] is what the system knows of the way to an address.
//! Over LTP the peer is not where a datagram came from: [`engines`] finds it.
//!
//! Of what is in a datagram this room knows no more than the session that LTP names.

pub mod calls;
pub mod conversation;
pub mod engines;
pub mod outgoing;
pub mod path;
pub mod peers;
pub mod port;
pub mod refusal;
pub mod seal;
pub mod socket;
