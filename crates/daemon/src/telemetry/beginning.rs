//! The beginning of telemetry, where a node file asks for it.

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::exporter::{Exporter, Sources};
use super::follower::Telemetry;
use crate::admin::live::Live;
use crate::admin::metrics::Snapshot;
use crate::config::NodeFile;
use crate::core::Core;
use crate::storing::Answers;

/// Tells the collector of the node's bundles and metrics from now on, where there is one; `standing` has the task that looks at the metrics.
///
/// # Errors
/// When the system makes no thread.
pub(crate) fn begin(
    file: &NodeFile,
    core: &Core,
    (store, live): (Answers, Live),
    standing: &mut JoinSet<()>,
) -> std::io::Result<()> {
    let Some(settings) = &file.telemetry else {
        return Ok(());
    };
    let ids = &file.node.node_ids;
    let name = ids.first().map(ToString::to_string).unwrap_or_default();
    let sources = Sources { store, live };
    let exporter = Exporter::start(settings.endpoint.clone(), &name, sources)?;
    let telemetry = Telemetry::new(settings, ids, core.clock(), exporter);
    core.audience(|audience| audience.telemetry = Some(telemetry));
    if settings.metrics {
        let (core, mut ticks) = (core.clone(), tokio::time::interval(settings.interval));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        standing.spawn_local(async move {
            loop {
                ticks.tick().await;
                let snapshot = core.look(Snapshot::of);
                core.audience(|audience| {
                    if let Some(telemetry) = &audience.telemetry {
                        telemetry.tell(snapshot);
                    }
                });
            }
        });
    }
    Ok(())
}
