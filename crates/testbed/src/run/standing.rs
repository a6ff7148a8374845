//! The progress of a run, for its display.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dhow_client::Address;

use super::lab::Parts;
use super::sampling::Latest;
use crate::application::Ledger;
use crate::node::Daemon;
use crate::results;

/// The progress of a run.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Time since its beginning.
    pub time: Duration,
    /// True for each node that runs, in the order of the scenario; hosts without a node run as long as the lab.
    pub nodes: Vec<bool>,
    /// True for each link that is there, in the order of the scenario.
    pub links: Vec<bool>,
    /// The time of the last sample, from which the next two are.
    pub sampled: Duration,
    /// Processor time that each host has used.
    pub busy: Vec<Duration>,
    /// Octets that each link has carried, from the end that dials and to it.
    pub octets: Vec<[u64; 2]>,
    /// Payloads that were delivered.
    pub delivered: u64,
    /// Octets of the delivered payloads.
    pub delivered_octets: u64,
    /// Payloads that are to be sent in all, where that has an end.
    pub total: Option<u64>,
    /// The address at which each node serves applications; nothing for hosts without a node.
    pub apis: Vec<Option<Address>>,
}

impl Parts<'_> {
    /// The progress of its run.
    pub(super) fn standing(
        &self,
        now: Duration,
        contacts: &Mutex<Vec<results::Contact>>,
        ledger: &Ledger,
        sample: Latest,
    ) -> Standing {
        let contacts = contacts.lock().unwrap_or_else(PoisonError::into_inner);
        let open = contacts.iter().filter(|contact| contact.end_s.is_nan());
        let open: BTreeSet<&str> = open.map(|contact| contact.link.as_str()).collect();
        let links = self.network.layout().links.iter();
        let links = links.map(|link| !link.planned || open.contains(link.name.as_str()));
        let runs = |daemon: &Option<Daemon>| {
            let process = daemon.as_ref().map(Daemon::process);
            process.is_none_or(|process| process.is_some())
        };
        let tally = ledger.tally();
        Standing {
            time: now,
            nodes: self.daemons.iter().map(runs).collect(),
            links: links.collect(),
            sampled: sample.time,
            busy: sample.busy,
            octets: sample.octets,
            delivered: tally.delivered,
            delivered_octets: tally.delivered_octets,
            total: ledger.total(),
            apis: (self.daemons.iter())
                .map(|daemon| daemon.as_ref().map(Daemon::api))
                .collect(),
        }
    }
}
