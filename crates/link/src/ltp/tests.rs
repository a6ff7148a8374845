//! Segments and engines: against recordings, against each other, and against a judge.
#![allow(
    clippy::as_conversions,
    reason = "test lengths are small, and truncation is meant"
)]

mod channel;
mod corpus;
mod goodput;
mod referee;
mod wire;
mod world;
