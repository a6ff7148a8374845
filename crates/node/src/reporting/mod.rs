//! Status reports: how many may be made, and those that wait for each other.

use crate::collection::Collections;
use crate::config::Config;
use crate::reports::ReportRate;

/// All that is known of reports.
pub(crate) struct Reporting {
    pub(crate) report_rate: ReportRate,
    /// Reports that wait for each other.
    pub(crate) collections: Collections,
}

impl Reporting {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            report_rate: ReportRate::new(config.reports.per_second),
            collections: Collections::default(),
        }
    }
}
