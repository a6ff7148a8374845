//! Bundles that have left over links that promise nothing, and are kept all the same until they expire ([`OnSent::Keep`]).
//!
//! A bundle does not go over such a link twice while this node runs. A session over another link that comes up takes it, and a report that it
//! was delivered, to this node, ends its keeping.
//!
//! [`OnSent::Keep`]: crate::config::OnSent::Keep

use bytes::Bytes;
use dhow_bundle::gateway::identity;
use dhow_bundle::v7::admin::AdministrativeRecord;
use dhow_bundle::{BundleFlags, BundleId, EndpointId, Header, Now, Reading, Version, v6};

use crate::held::bundles::Removal;

use crate::held::retention::State;
use crate::local::Locality;
use crate::node::Node;

/// Longer bundles are no status reports.
const REPORT_OCTETS: usize = 4 * 1024;

impl Node {
    /// A whole bundle came in one piece, as reports do: one that says that a bundle which is kept was delivered ends its keeping, where
    /// the bundle's reports go to this node, and the report comes from the node that the bundle is for.
    pub(crate) fn hear_of_sent(&mut self, now: Now, octets: &Bytes) {
        if self.forwarding.sent().is_empty() || octets.len() > REPORT_OCTETS {
            return;
        }
        let Some((source, destination, id)) = delivered_by(octets) else {
            return;
        };
        let Some(key) = self.held.find_bundle(&id) else {
            return;
        };
        let is_told = self.held.entry(key).is_some_and(|entry| {
            let is_here = self.held.endpoints().locality(entry.report_to()) != Locality::Remote;
            let from = self.held.endpoints().id(entry.destination()).node_id();
            let is_for_us = *self.held.endpoints().id(entry.report_to()) == destination && is_here;
            entry.state() == State::Sent && is_for_us && from == source.node_id()
        });
        if is_told {
            self.delete(now, key, Removal::Forwarded, None);
        }
    }
}

/// The sender, the receiver and the subject of a status report of delivery, where a bundle is one.
fn delivered_by(octets: &Bytes) -> Option<(EndpointId, EndpointId, BundleId)> {
    let header = Header::decode(octets, Reading::Lenient).ok()??;
    let is_record = header
        .primary
        .flags
        .contains(BundleFlags::ADMINISTRATIVE_RECORD);
    if !is_record || header.check_body(octets).is_err() {
        return None;
    }
    let start = usize::try_from(header.header_octets()).ok()?;
    let end = start.checked_add(usize::try_from(header.payload_octets()).ok()?)?;
    let payload = (end <= octets.len()).then(|| octets.slice(start..end))?;
    if header.version() == Version::V6 {
        let subject = delivered_by_v6(&payload)?;
        return Some((header.primary.source, header.primary.destination, subject));
    }
    match AdministrativeRecord::decode(&payload, Reading::Lenient).ok()? {
        AdministrativeRecord::StatusReport(report) if report.delivered.is_some() => {
            let ends = (header.primary.source, header.primary.destination);
            Some((ends.0, ends.1, report.bundle))
        }
        _ => None,
    }
}

/// The subject of a status report of delivery of version 6.
fn delivered_by_v6(payload: &[u8]) -> Option<BundleId> {
    use v6::admin::AdministrativeRecord::StatusReport;
    let StatusReport(report) = v6::admin::AdministrativeRecord::decode(payload).ok()? else {
        return None;
    };
    let [_, _, _, delivered, _] = report.times;
    delivered?;
    Some(BundleId {
        source: report.subject.source,
        creation: identity::to_v7(report.subject.creation).ok()?,
        fragment: report.subject.fragment,
    })
}
