//! Metrics in the OpenMetrics text format that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dhow_bundle::{Instant, Now};
use dhow_node::Node;
use dhow_node::discovery::refused::BeaconCounts;
use dhow_node::view::{Counters, LinkState};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::loads::Loads;
use super::neighbours::encode_beacons;
use super::telemetry::encode_telemetry;
use crate::counts::DriverCounts;
use crate::storing::Answers;

/// Next hops that have a value of their own, at most.
const NEXT_HOPS: usize = 64;

/// The values of the metrics, at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    counters: Counters,
    drivers: DriverCounts,
    stored: (u64, u64),
    quota_octets: u64,
    /// Octets of memory that the index takes.
    index_octets: u64,
    damaged: u64,
    sessions: usize,
    registrations: usize,
    uptime_s: u64,
    since_received: Option<Duration>,
    links: Vec<(String, bool, Option<Duration>)>,
    /// The time for which nothing was heard of each neighbour that has a session.
    silences: BTreeMap<String, Duration>,
    /// Bundles that wait for each next hop.
    waiting: Vec<(String, u64)>,
    beacons: BeaconCounts,
    loads: Loads,
}

impl Snapshot {
    /// The metrics of the node now.
    #[must_use]
    pub fn of(node: &Node, now: Now, drivers: DriverCounts) -> Self {
        Self {
            counters: node.counters(),
            beacons: node.beacon_counts(),
            drivers,
            stored: node.stored(),
            quota_octets: node.quota_octets(),
            index_octets: node.memory_octets(),
            damaged: node.damaged(),
            sessions: node.sessions().len(),
            registrations: node.registrations().len(),
            uptime_s: now.monotonic.since(Instant::START).as_secs(),
            since_received: node
                .counters()
                .last_received
                .map(|last| now.monotonic.since(last)),
            links: node
                .links()
                .into_iter()
                .map(|link| {
                    let silence = link.heard.map(|at| now.monotonic.since(at));
                    (link.name, link.state == LinkState::Up, silence)
                })
                .collect(),
            silences: silences(node, now),
            waiting: waiting(node),
            loads: Loads::of(node, now),
        }
    }

    /// As text.
    ///
    /// # Errors
    /// Never in practice: writing to a string does not fail.
    pub fn text(
        self,
        store: Option<Answers>,
        certificate_left: Option<i64>,
    ) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("dhow");
        registry.register_collector(Box::new(Metrics {
            snapshot: self,
            store,
            certificate_left,
        }));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// The time for which nothing was heard of each neighbour that has a session.
fn silences(node: &Node, now: Now) -> BTreeMap<String, Duration> {
    let mut silences = BTreeMap::new();
    for session in node.sessions() {
        let Some(heard) = session.heard else {
            continue;
        };
        let silence = now.monotonic.since(heard);
        let least = silences.entry(session.peer.to_string()).or_insert(silence);
        *least = silence.min(*least);
    }
    silences
}

/// Bundles that wait for each next hop, most first; beyond [`NEXT_HOPS`] they are one.
fn waiting(node: &Node) -> Vec<(String, u64)> {
    let all = node.waiting().into_iter();
    let mut waiting: Vec<_> = all
        .map(|it| (it.next_hop.unwrap_or_default(), it.bundles))
        .collect();
    waiting.sort_by_key(|(_, bundles)| std::cmp::Reverse(*bundles));
    let others = waiting.split_off(waiting.len().min(NEXT_HOPS));
    if !others.is_empty() {
        let bundles = others.iter().map(|(_, bundles)| bundles).sum();
        waiting.push(("others".to_owned(), bundles));
    }
    waiting
}

#[derive(Debug)]
struct Metrics {
    snapshot: Snapshot,
    store: Option<Answers>,
    certificate_left: Option<i64>,
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Snapshot {
            counters,
            drivers,
            stored,
            quota_octets,
            index_octets,
            damaged,
            sessions,
            registrations,
            uptime_s,
            since_received,
            links,
            silences,
            waiting,
            beacons,
            loads,
        } = &self.snapshot;
        for (name, help, value) in bundle_counters(counters)
            .into_iter()
            .chain(connection_counters(drivers))
            .chain(datagram_counters(counters, drivers))
        {
            counter(&mut encoder, name, help, value)?;
        }
        for (name, help, value) in [
            ("bundles_stored", "Bundles in the store", stored.0),
            // Not `bundles_quarantined`: that family is the counter of those found.
            (
                "bundles_damaged",
                "Bundles in the store whose octets are damaged on disk",
                *damaged,
            ),
            ("store_octets", "Octets of bundles in the store", stored.1),
            (
                "store_quota_octets",
                "Octets of bundles that the store takes: the quota, or less where the disk has no room for it",
                *quota_octets,
            ),
            (
                "index_octets",
                "Octets of memory that the index of bundles takes",
                *index_octets,
            ),
            ("sessions", "Established sessions", count(*sessions)),
            (
                "registrations",
                "Registered endpoints",
                count(*registrations),
            ),
            ("uptime_seconds", "Time since the node started", *uptime_s),
        ] {
            gauge(&mut encoder, name, help, value)?;
        }
        if let Some(since) = since_received {
            let metric = encoder.encode_descriptor(
                "bundles_received_age_seconds",
                "Time since the last bundle from a neighbour was stored",
                None,
                MetricType::Gauge,
            )?;
            ConstGauge::new(since.as_secs_f64()).encode(metric)?;
        }
        let mut family = encoder.encode_descriptor(
            "link_up",
            "Whether a link has a session",
            None,
            MetricType::Gauge,
        )?;
        for (name, up, _) in links {
            let labels = [("link", name.as_str())];
            ConstGauge::new(i64::from(*up)).encode(family.encode_family(&labels)?)?;
        }
        let mut family = encoder.encode_descriptor(
            "link_silence_seconds",
            "Time since octets last came over a link, also while it is down; nothing before any did",
            None,
            MetricType::Gauge,
        )?;
        for (name, _, silence) in links {
            let labels = [("link", name.as_str())];
            if let Some(silence) = silence {
                let silence = ConstGauge::new(silence.as_secs_f64());
                silence.encode(family.encode_family(&labels)?)?;
            }
        }
        if let Some(left) = self.certificate_left {
            let left = ConstGauge::new(left);
            left.encode(encoder.encode_descriptor(
                "certificate_left_seconds",
                "Time until this node's certificate ends; negative once it has",
                None,
                MetricType::Gauge,
            )?)?;
        }
        let mut family = encoder.encode_descriptor(
            "neighbour_silence_seconds",
            "Time since octets last came from a neighbour, over any of its sessions",
            None,
            MetricType::Gauge,
        )?;
        for (peer, silence) in silences {
            let labels = [("peer", peer.as_str())];
            ConstGauge::new(silence.as_secs_f64()).encode(family.encode_family(&labels)?)?;
        }
        let mut family = encoder.encode_descriptor(
            "bundles_waiting",
            "Bundles that wait, by their best next hop: a link, a node, or nothing for those that wait for applications",
            None,
            MetricType::Gauge,
        )?;
        for (next_hop, bundles) in waiting {
            let labels = [("next_hop", next_hop.as_str())];
            let bundles = i64::try_from(*bundles).unwrap_or(i64::MAX);
            ConstGauge::new(bundles).encode(family.encode_family(&labels)?)?;
        }
        if let Some(totals) = &drivers.telemetry {
            encode_telemetry(&mut encoder, totals)?;
        }
        loads.encode(&mut encoder)?;
        let sent = (drivers.beacons_sent, drivers.beacons_unsent);
        encode_beacons(&mut encoder, beacons, sent)?;
        self.store
            .as_ref()
            .map_or(Ok(()), |store| encode_store(&mut encoder, store))
    }
}

type Row = (&'static str, &'static str, u64);

fn bundle_counters(counters: &Counters) -> [Row; 36] {
    [
        (
            "bundles_created",
            "Bundles created by applications and the node itself",
            counters.created,
        ),
        (
            "bundles_received",
            "Bundles received from neighbours and stored",
            counters.received,
        ),
        (
            "bundles_received_octets",
            "Octets of bundles received",
            counters.received_octets,
        ),
        (
            "bundles_duplicate",
            "Bundles that came again",
            counters.duplicates,
        ),
        (
            "bundles_forwarded",
            "Bundles that neighbours took",
            counters.forwarded,
        ),
        (
            "bundles_forwarded_octets",
            "Octets of bundles forwarded",
            counters.forwarded_octets,
        ),
        (
            "bundles_delivered",
            "Bundles delivered to applications",
            counters.delivered,
        ),
        ("bundles_expired", "Bundles that expired", counters.expired),
        (
            "bundles_deleted",
            "Bundles deleted for another reason",
            counters.deleted,
        ),
        (
            "bundles_refused",
            "Incoming bundles refused",
            counters.refused,
        ),
        (
            "bundles_limited_rate",
            "Incoming bundles refused since their neighbour brought more than its rate",
            counters.limited_rate,
        ),
        (
            "bundles_limited_share",
            "Incoming bundles refused since their neighbour had used up its share of the store",
            counters.limited_share,
        ),
        (
            "bundles_limited_source",
            "Incoming bundles refused since their source had used up its share of the store",
            counters.limited_source,
        ),
        (
            "bundles_refused_by_peers",
            "Outgoing bundles that neighbours refused",
            counters.refused_by_peers,
        ),
        (
            "bundles_untranslatable",
            "Bundles that had no form in the version of the Bundle Protocol that a neighbour speaks",
            counters.untranslatable,
        ),
        (
            "bundles_quarantined",
            "Stored bundles found corrupt",
            counters.quarantined,
        ),
        (
            "transitions_refused",
            "Events that the state of a bundle does not allow: mistakes in the program",
            counters.transitions_refused,
        ),
        (
            "reports_generated",
            "Status reports generated",
            counters.reports,
        ),
        (
            "reports_collected",
            "Status reports of them sent in bundles that can carry many",
            counters.reports_collected,
        ),
        (
            "reports_suppressed",
            "Status reports not generated because there were too many",
            counters.reports_suppressed,
        ),
        (
            "answers_withheld",
            "Bundles that the echo and perf services did not answer, since their source answers itself or was answered often enough",
            counters.answers_withheld,
        ),
        (
            "adverts_sent",
            "Adverts of routers sent to neighbours",
            counters.adverts_sent,
        ),
        (
            "adverts_taken",
            "Adverts of neighbours that a router took",
            counters.adverts_taken,
        ),
        (
            "adverts_refused",
            "Adverts that no router took",
            counters.adverts_refused,
        ),
        (
            "bundles_purged",
            "Copies deleted since their bundle is known to be where it was to go",
            counters.purged,
        ),
        (
            "bundles_dropped",
            "Copies deleted so that other bundles find room",
            counters.dropped,
        ),
        (
            "records_unread",
            "Administrative records for this node that nothing here reads",
            counters.records_unread,
        ),
        (
            "programs_ended",
            "Connections of programs that the node ended, for what they said or did not say",
            counters.programs_ended,
        ),
        (
            "fallbacks",
            "Bundles that went by routes since no program decided about them in time",
            counters.fallbacks,
        ),
        (
            "custody_signals_sent",
            "Custody signals sent",
            counters.signals_sent,
        ),
        (
            "custody_signals_ignored",
            "Custody signals about bundles that are not in custody here",
            counters.signals_ignored,
        ),
        (
            "bundles_passed",
            "Bundles sent on while they came in",
            counters.passed,
        ),
        (
            "fragments_kept",
            "Fragments kept of bundles whose transfer failed",
            counters.kept,
        ),
        (
            "bundles_resumed",
            "Times that a bundle went on behind what next hops had of it",
            counters.resumed,
        ),
        ("fragments_created", "Fragments made", counters.fragments),
        (
            "bundles_reassembled",
            "Bundles put together from fragments",
            counters.reassembled,
        ),
    ]
}

fn connection_counters(drivers: &DriverCounts) -> [Row; 12] {
    [
        (
            "connections_accepted",
            "Neighbours' connections accepted",
            drivers.accepted,
        ),
        (
            "clients_accepted",
            "Applications' connections accepted",
            drivers.clients,
        ),
        (
            "clients_cut",
            "Applications' connections cut, silent since they were made, to make place for others",
            drivers.clients_cut,
        ),
        (
            "clients_refused",
            "Applications' connections closed at once because there was no place",
            drivers.clients_refused,
        ),
        (
            "connections_held_back",
            "Connections of neighbours that came when there were too many",
            drivers.held_back,
        ),
        (
            "connections_held_back_by_address",
            "Connections of neighbours that came when their address had as many as it may",
            drivers.held_back_by_address,
        ),
        (
            "connections_dialled",
            "Connections dialled",
            drivers.dialled,
        ),
        (
            "dial_failures",
            "Attempts to connect that failed",
            drivers.dial_failures,
        ),
        (
            "tls_failures",
            "TLS handshakes that failed",
            drivers.insecure,
        ),
        (
            "socket_received_octets",
            "Octets read from sockets",
            drivers.octets_in,
        ),
        (
            "socket_sent_octets",
            "Octets written to sockets",
            drivers.octets_out,
        ),
        (
            "store_read_failures",
            "Reads of stored octets that the disk refused",
            drivers.read_failures,
        ),
    ]
}

fn datagram_counters(counters: &Counters, drivers: &DriverCounts) -> [Row; 8] {
    [
        (
            "datagrams_received",
            "Datagrams that came",
            drivers.datagrams_in,
        ),
        (
            "datagrams_sent",
            "Datagrams that left",
            drivers.datagrams_out,
        ),
        (
            "datagram_faults",
            "Times that a datagram broke a rule, and was dropped in whole or in part",
            counters.datagram_faults,
        ),
        (
            "datagrams_ignored",
            "Datagrams that came and were not taken: from an unknown address at a port without a listener, or while the node took none",
            drivers.datagrams_ignored,
        ),
        (
            "datagrams_overflowed",
            "Datagrams that the system dropped before they were read",
            drivers.datagrams_overflowed,
        ),
        (
            "datagrams_refused",
            "Datagrams that the system refused to send",
            drivers.datagrams_refused,
        ),
        (
            "strangers",
            "Addresses that sent datagrams and belong to no link",
            drivers.strangers,
        ),
        (
            "strangers_cut",
            "Addresses of them that gave way to others",
            drivers.strangers_cut,
        ),
    ]
}

fn encode_store(encoder: &mut DescriptorEncoder<'_>, store: &Answers) -> Result<(), fmt::Error> {
    let counts = store.counts();
    let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    counter(
        encoder,
        "store_batches",
        "Batches written by the store",
        value(&counts.batches),
    )?;
    counter(
        encoder,
        "store_commands",
        "Commands carried out by the store",
        value(&counts.commands),
    )?;
    counter(
        encoder,
        "store_flushes",
        "Flushes of the disk",
        value(&counts.syncs),
    )?;
    counter(
        encoder,
        "store_failures",
        "Times that the disk refused",
        value(&counts.failures),
    )?;
    counter(
        encoder,
        "store_bundles_moved",
        "Bundles moved to free their segment",
        value(&counts.moved),
    )?;
    counter(
        encoder,
        "store_busy_microseconds",
        "Time spent writing and flushing",
        value(&counts.busy_nanos) / 1_000,
    )?;
    gauge(
        encoder,
        "store_longest_batch_microseconds",
        "Longest time that one batch took",
        value(&counts.longest_nanos) / 1_000,
    )?;
    gauge(
        encoder,
        "store_log_octets",
        "Octets of the log",
        value(&counts.log_octets),
    )?;
    gauge(
        encoder,
        "store_free_octets",
        "Octets of the log that are free",
        value(&counts.free_octets),
    )
}

pub(super) fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    let no_unit: Option<&Unit> = None;
    let metric = encoder.encode_descriptor(name, help, no_unit, MetricType::Counter)?;
    ConstCounter::new(value).encode(metric)
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
