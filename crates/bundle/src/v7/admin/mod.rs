//! Administrative records (RFC 9171 6.1, RFC 9713): messages of nodes about bundles.

mod aggregated_report;
pub mod bibe;
mod reason;
mod record;
mod status_report;

pub use aggregated_report::{
    AggregatedReport, GroupHead, MAX_REPORTS, ReportGroup, Run, Status, Timing,
};
pub use reason::ReasonCode;
pub use record::{AdministrativeRecord, RecordRefusal};
pub use status_report::{Assertion, StatusReport};
