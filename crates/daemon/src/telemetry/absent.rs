//! In place of telemetry in a program without the feature `otlp`: there is none, and no code for it.

use dhow_bundle::Now;
use dhow_node::Node;
use dhow_node::driver::Occurrence;
use tokio::task::JoinSet;

use super::TelemetryTotals;
use crate::admin::live::Live;
use crate::config::NodeFile;
use crate::core::Core;
use crate::storing::Answers;

/// Nothing: no node file asks for it.
#[derive(Debug)]
pub enum Telemetry {}

impl Telemetry {
    /// Something happened.
    pub fn occurred(&mut self, _: &Occurrence, _: Now, _: &Node) {
        match *self {}
    }

    /// Totals so far.
    pub fn totals(&self) -> TelemetryTotals {
        match *self {}
    }

    /// Ends the telemetry.
    pub fn finish(self) {
        match self {}
    }
}

/// Begins nothing: a node file that asks for telemetry was refused.
#[expect(
    clippy::unnecessary_wraps,
    reason = "with the feature, the system may refuse a thread"
)]
pub(crate) fn begin(
    _: &NodeFile,
    _: &Core,
    _: (Answers, Live),
    _: &mut JoinSet<()>,
) -> std::io::Result<()> {
    Ok(())
}
