//! The routing handshake of IBR-DTN: the messages that its routers exchange in bundles between `routing` endpoints (docs/ibr-dtn.md).
//!
//! Octets and types only: this room knows no node, no router and no time. Start reading at [`Handshake`] (`wire.rs`), then at
//! [`Filter`] (a Bloom filter over identities of bundles); `table.rs` has the tables of PRoPHET, `acknowledgment.rs` the identities that
//! were delivered, `inflate.rs` reads messages that came compressed. `handshaking.rs` beside this directory answers and asks.

mod acknowledgment;
mod filter;
mod inflate;
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod refusal;
mod table;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use acknowledgment::{Acknowledgment, MAX_ACKNOWLEDGMENTS};
pub(crate) use filter::{FILTER_BUNDLES, Filter, key_of};
pub(crate) use table::Table;
pub(crate) use wire::{
    ACKNOWLEDGMENTS, Handshake, Items, LIMITATIONS, PREDICTABILITIES, PURGE_VECTOR, Response,
    SUMMARY_VECTOR,
};
