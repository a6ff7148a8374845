//! The perf service: counts the bundles of a measurement and tells their sender how many came, how fast.
//!
//! This room never knows what is measured or why: it counts what [`wire::Probe`]s name and answers with
//! [`wire::Summary`]s, one for many bundles (`docs/perf-service.md`). Start reading at [`wire`] (payloads
//! to the octet), then `run` (what is counted of one measurement), then `service` (the node's part).

mod run;
mod sequence;
mod service;
pub mod wire;

pub(crate) use service::Perf;
