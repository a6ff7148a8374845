//! The application API's session machine from outside.
#![allow(clippy::as_conversions, reason = "numbers here are the tests' own")]
#![allow(missing_docs, reason = "tests")]

#[path = "api/captures.rs"]
mod captures;
#[path = "api/client.rs"]
mod client;
