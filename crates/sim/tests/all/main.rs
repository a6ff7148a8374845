//! Simulations of whole networks, one file a subject: in one program, so that it is built once and its tests run side by side.
#![allow(
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    reason = "a test says what is wrong by failing"
)]

mod batteries;
mod beside;
mod congestion;
mod crowds;
mod datagrams;
mod delays;
mod disks;
mod edge;
mod fidelity;
mod line;
mod links;
mod ltp;
mod one_way;
mod radios;
mod regressions;
mod replay;
mod report;
mod room;
mod udp;
mod world;
mod worlds;
