//! A store's content as a file (docs/store-export.md): frames with checksums, written while the node runs and read before anything of it counts.
//!
//! [`frame`] is the form, [`source`] what a running node gives, [`stopped`] what the store of one has that does not run, [`check`] the reading of a whole file, and [`target`] the store that gets it.

pub mod check;
pub mod frame;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
#[allow(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a broken invariant ends the test"
)]
pub mod oracle;
pub mod source;
pub mod stopped;
pub mod target;
