//! Bundle Protocol version 7 (RFC 9171): blocks, their order in a bundle, and how they are read, written and changed at a hop.
//!
//! Identifiers, times, checksums and the vocabulary of stores belong to no version and stand one directory above. Start
//! reading at [`block`], then at [`header`] (the blocks before the payload).

pub mod admin;
pub mod block;
pub mod forward;
pub mod framing;
pub mod header;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
pub mod refusal;
pub(crate) mod usual_form;
