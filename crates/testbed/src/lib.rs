//! The testbed's drivers: they give nodes on one machine the links that an experiment asks for.
//!
//! [`emulate`] joins two network namespaces by a link whose physics are a
//! [`Channel`](dhow_channel::Channel)'s; [`place`] makes the network of a scenario of them and of what the kernel has,
//! [`node`] starts nodes there, [`application`] gives them their traffic, and [`run`] has all of it happen in time;
//! [`simulated`] runs scenarios in virtual time. [`traffic`] sends and receives packets of a chosen pattern, [`iperf`] as
//! iperf 2; [`oedl`] makes scenarios of OMF's experiments. [`results`] keeps the results of runs, [`report`] shows them, and [`comparison`] compares two.
//! [`printed`] takes figures from what programs print; [`graph`] draws a scenario's network; [`selftest`] measures the
//! emulator; [`yardstick`] is TCP and a disk with no node between.

pub mod application;
pub mod comparison;
pub mod emulate;
mod failure;
pub mod graph;
pub mod iperf;
mod message_stats;
pub mod namespace;
pub mod node;
mod number;
pub mod oedl;
pub mod place;
pub mod printed;
pub mod report;
pub mod results;
pub mod run;
pub mod selftest;
pub mod simulated;
mod toml_text;
pub mod traffic;
pub mod yardstick;

pub use failure::LabError;
