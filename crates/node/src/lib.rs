//! One DTN node as a value: streams in, streams out, a store beside it, and no I/O.
//!
//! This room never knows a socket, a disk or a clock: a driver (the daemon's, or a simulator's) carries
//! octets, store commands and time to and from one value, [`Node`]. Start reading at
//! [`driver`] (everything that goes in and comes out), then [`config`], then `node`, which says which file
//! holds what. [`view`] is what a node shows of itself, [`api`] what applications speak.
#![no_std]

extern crate alloc;

mod adjacencies;
mod admission;
mod adverts;
mod answers;
pub mod api;
mod attention;
mod before_sync;
mod blocks;
mod breaking_off;
pub mod changes;
mod checksums;
mod collected;
mod collection;
pub mod config;
pub mod contacts;
mod conversations;
mod copies;
mod crossing;
#[doc(hidden)]
pub mod custody;
mod custody_transfer;
mod cut_through;
mod decapsulation;
mod deletion;
mod delivering;
mod delivery;
mod detours;
mod dialling;
pub mod discovery;
mod disk_room;
mod dispatch;
pub mod driver;
mod dropping;
mod echo;
mod encapsulation;
mod exporting;
pub mod external;
mod finding;
mod forwarded;
mod forwarding;
mod fragmentation;
mod handshake;
mod handshaking;
mod held;
mod inspection;
#[cfg(any(test, feature = "testing"))]
mod invariants;
mod limits;
mod link_state;
mod links;
mod local;
mod meeting;
mod memory;
mod nesting;
mod node;
mod operator;
mod originated;
mod outbox;
mod outcomes;
mod paths;
pub mod perf;
mod planned;
mod programs;
mod purging;
mod random;
mod reactive;
mod reception;
pub mod recording;
mod recovery;
mod reporting;
mod reports;
mod reservation;
mod retries;
mod returning;
mod routing;
mod sending;
mod sent;
mod series;
mod services;
pub mod steps;
mod stored;
mod streams;
mod transmission;
mod tunnels;
pub mod view;
pub mod why;

#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub use handshake::oracle as handshake_oracle;
pub use local::ROUTING_SERVICE;
pub use node::Node;
pub use reservation::exchange_octets;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub use routing::oracle as adverts_oracle;
