//! Convergence-layer machines: octets and datagrams on one side, bundle transfers on the other, no I/O.
//!
//! This room never knows a socket, a clock, a route or a store. Start reading at [`stream`], the seam
//! that every convergence layer over octet streams has, then at [`tcpcl`] and [`stcp`]; and at [`datagram`], the seam of
//! those over datagrams, then at [`udpcl`] and [`ltp`]. [`discovery`] reads and writes beacons, by which nodes find each other, and
//! [`encapsulation`] the packets of CCSDS around bundles and LTP.
#![no_std]

extern crate alloc;

pub mod datagram;
pub mod discovery;
pub mod encapsulation;
pub mod external;
pub mod ltp;
pub mod stcp;
pub mod stream;
pub mod tcpcl;
pub mod udpcl;

pub use datagram::{Batch, DatagramEvent, DatagramLink};
pub use stream::{Gather, LinkCommand, LinkEvent, StreamSession};
