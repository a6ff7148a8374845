//! One emulated link: a TUN device at either end, a channel in each direction, one thread.
//!
//! Start at [`Emulator`]; a [`Place`] says where an end is, a [`Port`](port::Port) is that end while it is open, and a spool holds what is under
//! way for long on disk.

mod control;
mod emulator;
mod place;
pub mod port;
mod spool;

pub use emulator::{EmulateError, Emulator, Tally, TraceStart};
pub use place::{Place, PlaceError};
pub use port::PortError;
