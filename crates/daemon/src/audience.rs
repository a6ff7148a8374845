//! The parts to which a node tells its occurrences, beside its log: measurements and telemetry.

use dhow_bundle::Now;
use dhow_node::Node;
use dhow_node::config::LinkId;
use dhow_node::driver::Occurrence;

use crate::contact::Contact;
use crate::counts::DriverCounts;
use crate::measuring::Measuring;
use crate::storing::StoreCounts;
use crate::telemetry::Telemetry;

/// The parts that are told, as far as the node file asks for any.
#[derive(Debug, Default)]
pub(crate) struct Audience {
    pub(crate) measuring: Option<Measuring>,
    pub(crate) telemetry: Option<Telemetry>,
}

impl Audience {
    /// Something happened in the node.
    pub(crate) fn occurred(
        &mut self,
        occurrence: &Occurrence,
        now: Now,
        node: &Node,
        link_name: impl Fn(LinkId) -> String,
    ) {
        if let Some(measuring) = &self.measuring {
            measuring.occurred(occurrence, link_name);
        }
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.occurred(occurrence, now, node);
        }
    }

    /// A contact begins or ends.
    pub(crate) fn contact(&self, contact: Contact) {
        if let Some(measuring) = &self.measuring {
            measuring.contact(contact);
        }
    }

    /// Measures what the node holds and has done so far.
    pub(crate) fn measure_counters(&self, node: &Node, counts: DriverCounts, store: &StoreCounts) {
        if let Some(measuring) = &self.measuring {
            measuring.state(node, counts);
            measuring.neighbours(node);
            measuring.store(store);
        }
    }

    /// The counts of the drivers, with those of telemetry.
    pub(crate) fn counted(&self, counts: DriverCounts) -> DriverCounts {
        DriverCounts {
            telemetry: self.telemetry.as_ref().map(Telemetry::totals),
            ..counts
        }
    }
}
