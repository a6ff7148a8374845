//! A recording: all events and actions of a node, in order, so that another node can be led through the same life.
//!
//! A node is a value: what it does follows from its configuration (with the seed), what it is told, and when. A
//! [`Recorder`] inside a node writes that down, and after each step a digest of all that the node asked for and wrote, so
//! that whoever leads another node through the recording ([`Entry`] by entry) can tell at which step it went another way.
//! The format stands in `docs/recording.md`; what is left out
//! where payloads are not to be in it, and how the checksums bear that, in `omission`.
//!
//! Start at [`entry`] (what is written), then [`recorder`] (when), [`frame`] (how it lies in a file) and `item` (the CBOR
//! of the values of events and actions). This room never opens a file: a recorder gives octets, and whoever reads one
//! gives octets back.

mod config;
mod digest;
pub mod entry;
mod event;
pub mod frame;
pub mod item;
mod omission;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
pub mod recorder;
mod vocabulary;

pub use digest::Digest;
pub use entry::{Content, Entry, Finish};
pub use frame::{FILE_HEAD_OCTETS, FRAME_HEAD_OCTETS, FrameHead, VERSION};
pub use item::ItemError;
pub(crate) use omission::Stored;
pub use recorder::Recorder;

#[cfg(test)]
mod tests;
