//! Files as payloads, each told by the outbox of a folder and written by an inbox: `docs/folders.md`.
//!
//! This room knows octets and rules about names; it never knows a file system. Start reading at [`Header`], then [`RelativePath`].

mod header;
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod path;

pub use header::{
    Change, FileHead, FileTime, FolderId, HEADER_OCTETS_MAX, Header, HeaderRefusal, MODE_BITS,
    NUMBER_MAX, SECONDS_MAX, VERSION,
};
pub use path::{DEPTH_MAX, NAME_OCTETS_MAX, PATH_OCTETS_MAX, PathRefusal, RESERVED, RelativePath};
