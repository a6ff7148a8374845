//! OML's measurement stream protocol (OMSP), versions 1 to 5: header, schemas, and rows as text or packets.
//!
//! Start at [`Decoder`], what a collector reads with; [`header`] has what both ends say first, [`text`] and [`binary`] have
//! one row each way. Nothing here does I/O. The format is described in docs/measurement.md.

pub mod binary;
mod decoder;
pub mod header;
mod reason;
mod rows;
pub mod text;

pub use decoder::{Batch, Decoder, Definition, SessionError};
pub use header::{Encoding, Header, HeaderError};
pub use reason::{Reason, Tally};
pub use rows::{Cell, Row, Rows, StreamKey};

/// Octets of a row: a longer one is refused and counted, so that a client cannot fill a collector's memory.
pub const ROW_OCTETS_MAX: usize = 16 << 20;

/// Octets of memory that an octet of a session becomes, at most, where it is decoded: a boolean of one octet is a cell of 16, in a vector that
/// has grown by doubling.
pub const ROW_COST_MAX: usize = 32;

/// Versions that are read.
pub const VERSIONS: std::ops::RangeInclusive<u8> = 1..=5;

/// The version that is written: late schemas, metadata and vectors.
pub const VERSION: u8 = 5;
