//! Status reports are true, are about the right bundle, and go to the endpoint that asked for them.

use std::time::Duration;

use dhow_bundle::{EndpointId, FragmentRange};

use super::{Moment, Parcel, ReportContent, Voyages, Wrong};
use crate::ledger::Ledger;

/// Names and flags of the statuses, in the order in which they stand (RFC 9171 4.2.3, 6.1.1).
const STATUSES: [(&str, u64); 4] = [
    ("received", 0x4000),
    ("forwarded", 0x1_0000),
    ("delivered", 0x2_0000),
    ("deleted", 0x4_0000),
];

/// Bundles that live so long are told of before their reports expire.
const LASTING: Duration = Duration::from_secs(3_600);

/// "Lifetime expired" (RFC 9171 9.5).
const EXPIRED: u64 = 1;

/// "Depleted storage".
const DEPLETED: u64 = 4;

impl Voyages {
    /// A report in a bundle that is on its way.
    pub(super) fn check_report(
        &self,
        parcel: &Parcel,
        told: &ReportContent,
        ledger: &Ledger,
        moment: Moment,
    ) -> Result<(), Wrong> {
        if let Some(original) = self.originals.get(&told.name)
            && original.report_to != parcel.destination
        {
            return wrong("sends a report to another than the bundle asks for (RFC 9171 6.2)");
        }
        let EndpointId::Ipn { node, .. } = parcel.source else {
            return wrong("sends a report that nobody makes (RFC 9171 6.2)");
        };
        self.check_told(node, told, ledger, moment)
    }

    /// Whether a report of a node tells what was.
    pub(super) fn check_told(
        &self,
        from: u32,
        told: &ReportContent,
        ledger: &Ledger,
        moment: Moment,
    ) -> Result<(), Wrong> {
        let station = self.stations.iter().find(|it| it.number == from);
        let Some((station, unit)) = station.zip(ledger.carried(told.name)) else {
            return match ledger.is_known(told.name) || self.originals.contains_key(&told.name) {
                true => Ok(()),
                false => wrong(&format!(
                    "has a report of {from} on a bundle that there is not (RFC 9171 6.1.1)"
                )),
            };
        };
        let Some(unit) = ledger.unit(unit) else {
            return Ok(());
        };
        let whole = FragmentRange {
            offset: 0,
            length: unit.octets,
        };
        let range = told.range.unwrap_or(whole);
        for ((name, flag), _) in STATUSES
            .iter()
            .zip(&told.statuses)
            .filter(|(_, said)| said.is_some())
        {
            if unit.reports & flag == 0 {
                return wrong(&format!(
                    "has a report of {from} that a bundle was {name}, for which it does not ask (RFC 9171 6.1.1)"
                ));
            }
            let was = match *name {
                "received" => station.had(told.name, range),
                "forwarded" => station.has_given(told.name, range),
                "delivered" => unit.delivered.is_some() && unit.to == from,
                _ => match told.reason {
                    EXPIRED => {
                        moment.now + moment.tolerance >= unit.expires()
                            && station.had(told.name, range)
                    }
                    DEPLETED => station.had(told.name, range),
                    _ => false,
                },
            };
            if !was {
                return wrong(&format!(
                    "has a report of {from} that a bundle was {name} (reason {}), which was not (RFC 9171 6.1.1)",
                    told.reason
                ));
            }
        }
        Ok(())
    }

    /// Status reports that were asked for and did not come, of nodes that were always up: the payload of the bundle, the number of the reporting
    /// node, and the status.
    pub fn unreported<'a>(
        &'a self,
        ledger: &'a Ledger,
        reporters: &'a [u32],
    ) -> impl Iterator<Item = (crate::ledger::UnitName, u32, &'static str)> + 'a {
        ledger.units().flat_map(move |(name, unit)| {
            // A report lives no longer than its bundle.
            let is_asked = unit.delivered.is_some() && unit.lifetime >= LASTING;
            let bundle = unit.bundle.filter(|_| is_asked);
            let stations = self
                .stations
                .iter()
                .filter(move |it| reporters.contains(&it.number));
            let all = bundle.into_iter().flat_map(move |bundle| {
                stations.clone().flat_map(move |station| {
                    let number = station.number;
                    let whole = FragmentRange {
                        offset: 0,
                        length: unit.octets,
                    };
                    let due = [
                        station.received_whole(bundle),
                        station.has_given(bundle, whole),
                        unit.to == number,
                        false,
                    ];
                    let asked = (0..).zip(STATUSES).zip(due);
                    asked.filter_map(move |((status, (said, flag)), due)| {
                        let missing = due
                            && unit.reports & flag != 0
                            && !self.reported.contains(&(bundle, number, status));
                        missing.then_some((name, number, said))
                    })
                })
            });
            all.collect::<Vec<_>>()
        })
    }
}

fn wrong(what: &str) -> Result<(), Wrong> {
    Err(("reports", what.to_owned()))
}
