//! Bundle Protocol version 6 (RFC 5050): blocks with self-delimiting numbers, a dictionary of endpoint IDs, and what the RFCs beside it add
//! (CBHE, RFC 6260; previous hop, RFC 6259).
//!
//! Start reading at [`primary`], then at [`header`] (the blocks before the payload) and [`trailer`] (those behind it).

pub mod admin;
pub mod block;
mod carried;
pub mod dictionary;
mod extension;
pub mod flags;
pub(crate) mod forward;
pub mod header;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
pub mod primary;
pub mod refusal;
pub mod sdnv;
pub mod trailer;

#[cfg(test)]
mod tests;

pub use block::{Block, BlockType};
pub use dictionary::Dictionary;
pub use flags::{BlockFlags, BundleFlags, Priority};
pub use header::Header;
pub use primary::{CreationTime, FragmentPlace, PrimaryBlock};
pub use refusal::Refusal;
pub use trailer::Trailer;
