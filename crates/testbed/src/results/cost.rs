//! The cost of a megabyte delivered: time of processors and links, and energy.

use std::collections::BTreeSet;

use dhow_scenario::scenario::Energy;
use serde::{Deserialize, Serialize};

use super::rows::{Contact, LinkSample, Resource};
use crate::number::float;

/// Costs of a megabyte (10^6 octets) that was delivered; unknown ones are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Time of processors of all hosts, seconds.
    pub processor_s: Option<f64>,
    /// Time in which links were there, one beside the other: of those that come and go, or of all where none does; seconds.
    pub link_s: Option<f64>,
    /// Energy, joules.
    pub joules: Option<f64>,
}

/// The use of resources by a run, by its tables.
#[derive(Clone, Copy, Debug)]
pub struct Used<'a> {
    /// Octets of payload that were delivered.
    pub delivered_octets: u64,
    /// The time for which the network was there, seconds.
    pub duration_s: f64,
    /// The number of its hosts.
    pub hosts: usize,
    /// The number of its links.
    pub links: usize,
    /// When links that come and go were there.
    pub contacts: &'a [Contact],
    /// The counters of each link at the end; only energy needs them.
    pub passed: &'a [LinkSample],
    /// The resources that each host had used at the end; nothing in virtual time.
    pub resources: &'a [Resource],
}

impl Cost {
    /// The cost of a megabyte of a run; of nothing where nothing was delivered.
    #[must_use]
    pub fn of(used: &Used<'_>, energy: Option<&Energy>) -> Self {
        let megabytes = float(used.delivered_octets) / 1e6;
        if megabytes <= 0.0 {
            return Self::default();
        }
        let processor_s = (!used.resources.is_empty()).then(|| processor_s(used.resources));
        let link_s = used.link_s();
        let joules = energy.map(|energy| {
            let watts = |microwatts: u64| float(microwatts) / 1e6;
            let hosts = float(u64::try_from(used.hosts).unwrap_or(u64::MAX));
            watts(energy.processor_uw) * processor_s.unwrap_or(0.0)
                + watts(energy.host_uw) * hosts * used.duration_s
                + watts(energy.link_uw) * 2.0 * link_s
                + float(energy.octet_pj) / 1e12 * used.octets()
        });
        let of_one = |whole: f64| whole / megabytes;
        Self {
            processor_s: processor_s.map(of_one),
            link_s: Some(of_one(link_s)),
            joules: joules.map(of_one),
        }
    }
}

impl Used<'_> {
    fn link_s(&self) -> f64 {
        match self.contacts {
            [] => float(u64::try_from(self.links).unwrap_or(u64::MAX)) * self.duration_s,
            contacts => contacts.iter().map(|it| it.end_s - it.start_s).sum(),
        }
    }

    /// Octets that passed over links that come and go, or over all where none does, both ways.
    fn octets(&self) -> f64 {
        let planned: BTreeSet<&str> = self.contacts.iter().map(|it| it.link.as_str()).collect();
        let counted = self
            .passed
            .iter()
            .filter(|it| planned.is_empty() || planned.contains(it.link.as_str()));
        float(counted.map(|it| it.octets_forward + it.octets_back).sum())
    }
}

/// Time of processors that all hosts used, seconds.
fn processor_s(resources: &[Resource]) -> f64 {
    let each = resources.iter();
    each.map(|it| it.user_s + it.system_s).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(contacts: &[Contact]) -> (Cost, Cost) {
        let resource = |node: &str, user_s| Resource {
            node: node.to_owned(),
            user_s,
            system_s: 0.25,
            ..Resource::default()
        };
        let sample = |link: &str, octets_forward| LinkSample {
            link: link.to_owned(),
            octets_forward,
            octets_back: 1_000_000,
            ..LinkSample::default()
        };
        let used = Used {
            delivered_octets: 2_000_000,
            duration_s: 10.0,
            hosts: 2,
            links: 2,
            contacts,
            passed: &[sample("radio", 3_000_000), sample("wire", 5_000_000)],
            resources: &[resource("a", 1.0), resource("b", 0.5)],
        };
        let energy = Energy {
            processor_uw: 2_000_000,
            host_uw: 500_000,
            link_uw: 1_000_000,
            octet_pj: 1_000_000,
        };
        (Cost::of(&used, Some(&energy)), Cost::of(&used, None))
    }

    #[test]
    fn a_megabyte_costs_processors_links_hosts_and_octets() {
        let contact = |start_s, end_s| Contact {
            link: "radio".to_owned(),
            start_s,
            end_s,
        };
        let (cost, without) = used(&[contact(1.0, 2.0), contact(4.0, 7.0)]);
        // 2 W * 2 s + 0.5 W * 2 * 10 s + 1 W * 2 * 4 s + 1 µJ * 4,000,000, of 2 MB
        let expected = Cost {
            processor_s: Some(1.0),
            link_s: Some(2.0),
            joules: Some(13.0),
        };
        assert_eq!(cost, expected);
        assert_eq!((without.link_s, without.joules), (Some(2.0), None));
    }

    #[test]
    fn where_no_link_comes_and_goes_all_count() {
        // 4 J + 10 J + 1 W * 2 * 20 s + 1 µJ * 10,000,000
        let (cost, _) = used(&[]);
        assert_eq!((cost.link_s, cost.joules), (Some(10.0), Some(32.0)));
    }

    #[test]
    fn of_nothing_delivered_nothing_has_a_cost() {
        let nothing = Used {
            delivered_octets: 0,
            duration_s: 1.0,
            hosts: 1,
            links: 0,
            contacts: &[],
            passed: &[],
            resources: &[],
        };
        assert_eq!(
            Cost::of(&nothing, Some(&Energy::default())),
            Cost::default()
        );
    }
}
