//! The testbed's drivers: what gives nodes on one machine the links that an experiment asks for.
//!
//! [`emulate`] joins two network namespaces by a link whose physics are a
//! [`Channel`](dhow_channel::Channel)'s; [`traffic`] sends and receives packets of a chosen pattern, [`iperf`] as iperf 2. [`results`] keeps what
//! came of runs, and [`report`] shows it; [`simulated`] runs scenarios in virtual time.
//! [`printed`] takes figures from what programs print; [`yardstick`] is TCP and a disk with no node between.

pub mod emulate;
pub mod iperf;
mod number;
pub mod printed;
pub mod report;
pub mod results;
pub mod simulated;
pub mod traffic;
pub mod yardstick;
