//! What other programs speak with a node over its external socket (docs/external.md): frames of a length and a CBOR array.
//!
//! Start reading at [`frame`]. Routers are the node's own; nothing here knows of them.

pub mod frame;
