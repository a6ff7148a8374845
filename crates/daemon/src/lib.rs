//! The drivers of a Dhow node: sockets, TLS, the store thread, the operator's interface, logs.
//!
//! Everything that knows a protocol lives in `dhow_node` and below and does no I/O; this room carries
//! octets and time to it and knows as little as it can. Start reading at [`config`] (what an operator
//! writes).

pub mod config;
