//! Segments and engines: against recordings, against each other, and against a judge.
#![allow(
    clippy::as_conversions,
    reason = "test lengths are small, and truncation is meant"
)]

mod capsules;
mod capture;
mod channel;
mod cookies;
mod corpus;
mod end_to_end;
mod goodput;
mod incoming;
mod outgoing;
mod referee;
mod script;
mod seal;
mod wire;
mod world;
