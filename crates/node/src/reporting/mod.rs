//! Status reports: the bound of their number, and those that wait for each other.

use crate::collection::Collections;
use crate::config::Config;
use crate::outbox::Outbox;
use crate::reports::ReportRate;
use dhow_bundle::storage::StoreCommand;

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

impl Reporting {
    /// Delete a bundle in the store, after the reports on it are there.
    pub(crate) fn store_behind_reports(&mut self, out: &mut Outbox, command: StoreCommand) {
        if self.collections.is_unwritten() {
            self.collections.put_behind(command);
        } else {
            out.store(command);
        }
    }
}
