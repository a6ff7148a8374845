//! Metrics of what a collector was told (docs/telemetry.md).

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::metrics::counter;
use crate::telemetry::TelemetryTotals;

/// Encodes the totals.
pub(super) fn encode_telemetry(
    encoder: &mut DescriptorEncoder<'_>,
    totals: &TelemetryTotals,
) -> Result<(), fmt::Error> {
    for (name, help, value) in [
        (
            "telemetry_spans_sent",
            "Spans that the collector of telemetry took",
            totals.sent,
        ),
        (
            "telemetry_spans_dropped",
            "Spans that found no room in the queue of telemetry, or that its collector did not take",
            totals.dropped,
        ),
        (
            "telemetry_failures",
            "Requests that the collector of telemetry did not answer with success",
            totals.failures,
        ),
    ] {
        counter(encoder, name, help, value)?;
    }
    Ok(())
}
