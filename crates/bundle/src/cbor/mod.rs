//! CBOR as bundles use it (RFC 8949 with the rules of RFC 9171 4.1): every head in its shortest form,
//! arrays and text strings of definite or indefinite length, byte strings of definite length.
//!
//! [`Reader`] reads a slice and tells octets that are missing from octets that are wrong; the `write_*`
//! functions append to a `Vec<u8>`. Nothing here knows what a bundle is.

mod array;
mod error;
mod reader;
mod writer;

pub use array::Array;
pub use error::{CborError, Kind, MAX_DEPTH};
pub use reader::Reader;
pub use writer::{
    BREAK, write_array, write_boolean, write_byte_string, write_byte_string_head,
    write_indefinite_array, write_text, write_unsigned,
};

#[cfg(test)]
mod tests;
