//! Traces of bundles and metrics for an OpenTelemetry collector, by OTLP over HTTP (docs/telemetry.md).
//!
//! Needs the feature `otlp`; without it nothing but the settings is here. [`identity`] gives every bundle one trace at all nodes,
//! [`follower`] makes spans of a bundle's steps on the node's thread, [`exporter`] sends them from a thread of its own, and [`metrics`] gives
//! the metrics of the admin interface the form of OTLP. The node never waits for any of it: what finds no room is counted and dropped.

#[cfg(not(feature = "otlp"))]
mod absent;
#[cfg(feature = "otlp")]
mod beginning;
mod endpoint;
#[cfg(feature = "otlp")]
pub mod exporter;
#[cfg(feature = "otlp")]
pub mod follower;
#[cfg(feature = "otlp")]
pub mod identity;
#[cfg(feature = "otlp")]
mod known;
#[cfg(feature = "otlp")]
pub mod metrics;
#[cfg(feature = "otlp")]
mod post;
#[cfg(feature = "otlp")]
mod span;
#[cfg(feature = "otlp")]
mod waiting;
#[cfg(feature = "otlp")]
mod wall;

use std::time::Duration;

#[cfg(not(feature = "otlp"))]
pub use self::absent::Telemetry;
#[cfg(not(feature = "otlp"))]
pub(crate) use self::absent::begin;
#[cfg(feature = "otlp")]
pub(crate) use self::beginning::begin;
pub use self::endpoint::{Endpoint, EndpointError};
#[cfg(feature = "otlp")]
pub use self::follower::Telemetry;

/// The collector, and what is sent to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetrySettings {
    /// The collector.
    pub endpoint: Endpoint,
    /// The part of all bundles that is traced, billionths: 0 to 1,000,000,000.
    pub sample_billionths: u32,
    /// Whether metrics are told.
    pub metrics: bool,
    /// The time between two tellings of metrics.
    pub interval: Duration,
}

impl TelemetrySettings {
    /// Whether any bundle is traced.
    #[must_use]
    pub const fn is_of_bundles(&self) -> bool {
        self.sample_billionths > 0
    }
}

/// Totals since the start of the node, for its metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TelemetryTotals {
    /// Spans that the collector took.
    pub sent: u64,
    /// Spans that found no room, or that no collector took.
    pub dropped: u64,
    /// Times that the collector was asked to take something, and did not.
    pub failures: u64,
}
