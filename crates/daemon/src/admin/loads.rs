//! Metrics by neighbour and by destination, of which a bounded number has a label of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use dhow_bundle::Now;
use dhow_node::Node;
use dhow_node::view::{LoadView, TrafficView};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Destinations that have values of their own, at most: those with the most octets.
const DESTINATIONS: usize = 32;

/// The label of all that have no values of their own.
const OTHER: &str = "other";

/// The traffic of neighbours and the load of destinations, at one moment.
#[derive(Clone, Debug)]
pub struct Loads {
    traffic: Vec<TrafficView>,
    /// Bundles whose best next hop is a neighbour of which traffic is told, in the order of `traffic`.
    queued: Vec<u64>,
    destinations: Vec<LoadView>,
}

impl Loads {
    /// The loads of the node now.
    pub fn of(node: &Node, now: Now) -> Self {
        let traffic = node.traffic();
        let links = node.links().into_iter();
        let links: BTreeMap<_, _> = links
            .filter_map(|link| Some((link.name, link.peer?.to_string())))
            .collect();
        let mut by_peer: BTreeMap<String, u64> = BTreeMap::new();
        for waiting in node.waiting() {
            if let Some(hop) = waiting.next_hop {
                let peer = links.get(&hop).unwrap_or(&hop);
                *by_peer.entry(peer.clone()).or_default() += waiting.bundles;
            }
        }
        let mut queued: Vec<u64> = Vec::new();
        for it in &traffic {
            queued.push(match &it.peer {
                Some(peer) => by_peer.remove(&peer.to_string()).unwrap_or(0),
                // It is the last.
                None => by_peer.values().sum(),
            });
        }
        Self {
            traffic,
            queued,
            destinations: node.loads(now, DESTINATIONS),
        }
    }

    /// Writes them as metrics.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        type Pick<T> = fn(&T) -> u64;
        let counters: [(&str, &str, Pick<TrafficView>); 4] = [
            (
                "neighbour_sent_bundles",
                "Bundles that a neighbour took",
                |it| it.bundles_sent,
            ),
            (
                "neighbour_sent_octets",
                "Octets of bundles that a neighbour took",
                |it| it.octets_sent,
            ),
            (
                "neighbour_received_bundles",
                "Bundles that a neighbour brought",
                |it| it.bundles_received,
            ),
            (
                "neighbour_received_octets",
                "Octets of bundles that a neighbour brought",
                |it| it.octets_received,
            ),
        ];
        for (name, help, pick) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for it in &self.traffic {
                let peer = named(it.peer.as_ref());
                let labels = [("peer", peer.as_str())];
                ConstCounter::new(pick(it)).encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "Bundles whose best next hop is a neighbour that had a session";
        let mut family =
            encoder.encode_descriptor("neighbour_queued_bundles", help, None, MetricType::Gauge)?;
        for (it, queued) in self.traffic.iter().zip(&self.queued) {
            let peer = named(it.peer.as_ref());
            let labels = [("peer", peer.as_str())];
            gauge(*queued).encode(family.encode_family(&labels)?)?;
        }
        let gauges: [(&str, &str, Pick<LoadView>); 2] = [
            (
                "destination_bundles",
                "Bundles stored for a destination",
                |it| it.bundles,
            ),
            (
                "destination_octets",
                "Octets of bundles stored for a destination",
                |it| it.octets,
            ),
        ];
        for (name, help, pick) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for it in &self.destinations {
                let destination = named(it.destination.as_ref());
                let labels = [("destination", destination.as_str())];
                gauge(pick(it)).encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "Time for which the oldest bundle for a destination has been here";
        let mut family = encoder.encode_descriptor(
            "destination_oldest_seconds",
            help,
            None,
            MetricType::Gauge,
        )?;
        for it in &self.destinations {
            let destination = named(it.destination.as_ref());
            let labels = [("destination", destination.as_str())];
            let age = Duration::from_millis(it.oldest_ms).as_secs_f64();
            ConstGauge::new(age).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn named(it: Option<&impl ToString>) -> String {
    it.map_or_else(|| OTHER.to_owned(), ToString::to_string)
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
