//! Measurements: from a point in a running program, over filters and a socket, into a database.
//!
//! A program declares a [`Point`] and measures by a [`Client`]; a [`filter::Plan`] may make
//! one row of many samples. [`omsp`] is the protocol on the way (OML's, so that its programs and ours
//! can be mixed), and a [`collector`](mod@collector) stores what arrives. No part of a node is known here. docs/measurement.md has the formats and what differs from OML.

pub mod client;
#[cfg(feature = "collector")]
pub mod collector;
pub mod config;
pub mod filter;
pub mod omsp;
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod point;
pub mod schema;
mod value;

pub use client::{Client, Settings, Stream, Summary, Target};
pub use point::{Column, Point};
pub use schema::Type;
pub use value::{Value, Vector};
