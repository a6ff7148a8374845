//! One DTN node as a value: streams in, streams out, a store beside it, and no I/O.
//!
//! This room never knows a socket, a disk or a clock: a driver (the daemon's, or a simulator's) carries
//! octets, store commands and time to and from the one door, [`Node`](crate::door). Start reading at
//! [`door`] (everything that goes in and comes out), then [`config`], then `forwarder`.
#![no_std]

extern crate alloc;

pub mod api;
pub mod config;
pub mod door;
mod node;
pub mod view;

pub use node::Node;
