//! The node file: TOML in, a checked [`NodeFile`] out.
//!
//! [`schema`] is the one list of every key, with its kind, unit, default and meaning; reading (`dhow_document`), the
//! commented file that `dhow node init` writes ([`commented`]) and the JSON Schema for editors ([`json_schema()`]) all follow it.
//! Start reading there, then [`file`] for what a file becomes, and [`effective`] for all that holds then.
//!
//! This room never opens a socket; [`NodeFile::parse`] reads no file, and [`NodeFile::check_named_files`] those that the node file names.

pub mod access;
pub mod address;
pub mod bibe;
mod commented;
mod contacts;
mod custody;
pub mod discover;
pub mod effective;
mod external;
pub mod file;
mod gateway;
pub mod http;
mod limits;
mod ltp;
mod measure;
pub mod memory;
mod moment;
mod named_files;
mod policy;
pub mod protocol;
mod routing;
pub mod schema;
mod sense;
pub(crate) mod socket;
mod telemetry;

pub use commented::{Layout, write_commented};
pub use dhow_document::FileError;
pub use dhow_document::quantity::{QuantityError, parse_duration, parse_rate, parse_size};
pub use effective::Effective;
pub use file::NodeFile;
pub use moment::moment_of;
pub use schema::json_schema;
