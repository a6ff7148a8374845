//! The testbed's drivers: what gives nodes on one machine the links that an experiment asks for.
//!
//! [`emulate`] joins two network namespaces by a link whose physics are a
//! [`Channel`](dhow_channel::Channel)'s; [`results`] keeps what came of runs.
//! [`traffic`] sends and receives packets of a chosen pattern.

pub mod emulate;
pub mod results;
pub mod traffic;
