//! Occurrences in a node as measurements, where its file asks for them: [`points`] has all that can be told.
//!
//! A sample costs the node's thread a copy into a buffer; all else is the client's own thread (docs/measurement.md).

mod carrier;
pub(crate) mod points;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dhow_bundle::EndpointId;
use dhow_client::Address;
use dhow_link::stream::SessionParameters;
use dhow_measure::{Client, Point, Settings, Stream, Target, Value};
use dhow_node::Node;
use dhow_node::driver::Occurrence;

pub use self::carrier::BundleCarrier;
use crate::contact::Contact;
use crate::counts::DriverCounts;
use crate::storing::StoreCounts;

/// The application that a node is, among those that measure: its streams are `dhow_received` and so on.
const APP: &str = "dhow";

/// The time for which a node that ends waits for a collector.
const LINGER: Duration = Duration::from_secs(2);

/// The measurements of a node, and their destination.
#[derive(Clone, Debug)]
pub struct MeasureSettings {
    /// The destination.
    pub target: Target,
    /// The database that it is for.
    pub domain: String,
    /// The name under which the node measures.
    pub sender: String,
    /// The collector's token, if it asks for one.
    pub token: Option<String>,
    /// Names of points.
    pub points: Vec<String>,
    /// The interval at which counters are told.
    pub interval: Duration,
    /// Octets that may wait on disk while the collector is away.
    pub spool_octets: u64,
    /// The endpoints and lifetime of measurements that go as bundles.
    pub reports: Option<Reports>,
}

/// Measurements that go as bundles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reports {
    /// The endpoint of this node that they are from.
    pub source: EndpointId,
    /// The collector's endpoint.
    pub destination: EndpointId,
    /// The lifetime of reports.
    pub lifetime: Duration,
}

impl MeasureSettings {
    /// True where the node is to tell of every bundle.
    #[must_use]
    pub fn is_of_every_bundle(&self) -> bool {
        let mut all = points::OF_EVERY_BUNDLE.iter();
        all.any(|name| self.points.iter().any(|point| point == name))
    }
}

/// A node's measurements.
#[derive(Debug)]
pub struct Measuring {
    client: Client,
    /// The endpoint of this node's own reports: told of, each would cause the next one.
    own: Option<EndpointId>,
    received: Option<Stream>,
    created: Option<Stream>,
    forwarded: Option<Stream>,
    transfer: Option<Stream>,
    delivered: Option<Stream>,
    deleted: Option<Stream>,
    refused: Option<Stream>,
    session: Option<Stream>,
    contact: Option<Stream>,
    state: Option<Stream>,
    neighbour: Option<Stream>,
    queue: Option<Stream>,
    store: Option<Stream>,
    commit: Option<Stream>,
}

impl Measuring {
    /// Begins to measure. A collector need not be there; bundles are made at the node's socket `api`.
    ///
    /// # Errors
    /// A file that cannot be written, or a name that no collector takes.
    pub fn begin(
        settings: &MeasureSettings,
        api: &Path,
    ) -> Result<Self, dhow_measure::client::ClientError> {
        let mut client = Settings::new(
            settings.target.clone(),
            &settings.domain,
            &settings.sender,
            APP,
        );
        client.token.clone_from(&settings.token);
        client.spool_octets = settings.spool_octets;
        let client = match &settings.reports {
            None => Client::connect(client)?,
            Some(reports) => {
                let address = Address::Unix(api.to_path_buf());
                let Reports {
                    source,
                    destination,
                    lifetime,
                } = reports.clone();
                let carrier = BundleCarrier::new(address, source, destination, lifetime);
                Client::connect_over(Box::new(carrier), client)?
            }
        };
        let stream = |point: &Point| match settings.points.iter().any(|name| name == point.name) {
            true => client.stream(point).map(Some),
            false => Ok(None),
        };
        Ok(Self {
            received: stream(&points::RECEIVED)?,
            created: stream(&points::CREATED)?,
            forwarded: stream(&points::FORWARDED)?,
            transfer: stream(&points::TRANSFER)?,
            delivered: stream(&points::DELIVERED)?,
            deleted: stream(&points::DELETED)?,
            refused: stream(&points::REFUSED)?,
            session: stream(&points::SESSION)?,
            contact: stream(&points::CONTACT)?,
            state: stream(&points::STATE)?,
            neighbour: stream(&points::NEIGHBOUR)?,
            queue: stream(&points::QUEUE)?,
            store: stream(&points::STORE)?,
            commit: stream(&points::COMMIT)?,
            own: settings.reports.as_ref().map(|it| it.source.clone()),
            client,
        })
    }

    /// Whether something happened to one of this node's own reports.
    fn is_own(&self, occurrence: &Occurrence) -> bool {
        let id = match occurrence {
            Occurrence::Received { id, .. }
            | Occurrence::Created { id, .. }
            | Occurrence::Forwarded { id, .. }
            | Occurrence::Transferred { id, .. }
            | Occurrence::Delivered { id, .. }
            | Occurrence::Deleted { id, .. }
            | Occurrence::RefusedOutgoing { id, .. } => id,
            _ => return false,
        };
        self.own.as_ref() == Some(&id.source)
    }

    /// Something happened.
    pub fn occurred(
        &self,
        occurrence: &Occurrence,
        link_name: impl Fn(dhow_node::config::LinkId) -> String,
    ) {
        if self.is_own(occurrence) {
            return;
        }
        match occurrence {
            Occurrence::Received { id, from, octets } => tell(&self.received, |stream| {
                stream.inject(&[
                    id.to_string().as_str().into(),
                    from.to_string().as_str().into(),
                    Value::Uint64(*octets),
                ]);
            }),
            Occurrence::Created { id, octets } => tell(&self.created, |stream| {
                stream.inject(&[id.to_string().as_str().into(), Value::Uint64(*octets)]);
            }),
            Occurrence::Forwarded { id, to, octets } => tell(&self.forwarded, |stream| {
                stream.inject(&[
                    id.to_string().as_str().into(),
                    to.to_string().as_str().into(),
                    Value::Uint64(*octets),
                ]);
            }),
            Occurrence::Transferred {
                id,
                to,
                octets,
                took_ns,
            } => tell(&self.transfer, |stream| {
                stream.inject(&[
                    id.to_string().as_str().into(),
                    to.to_string().as_str().into(),
                    Value::Uint64(*octets),
                    Value::Double(Duration::from_nanos(*took_ns).as_secs_f64()),
                ]);
            }),
            Occurrence::Delivered {
                id,
                endpoint,
                octets,
            } => tell(&self.delivered, |stream| {
                let (id, endpoint) = (id.to_string(), endpoint.to_string());
                stream.inject(&[
                    id.as_str().into(),
                    endpoint.as_str().into(),
                    Value::Uint64(*octets),
                ]);
            }),
            Occurrence::Deleted { id, reason } => tell(&self.deleted, |stream| {
                stream.inject(&[id.to_string().as_str().into(), Value::Uint64(*reason)]);
            }),
            Occurrence::RefusedIncoming { from, why, .. } => tell(&self.refused, |stream| {
                stream.inject(&[
                    "here".into(),
                    from.to_string().as_str().into(),
                    why.as_str().into(),
                ]);
            }),
            Occurrence::RefusedOutgoing { to, reason, .. } => tell(&self.refused, |stream| {
                let why = format!("{reason:?}");
                stream.inject(&[
                    "neighbour".into(),
                    to.to_string().as_str().into(),
                    why.as_str().into(),
                ]);
            }),
            Occurrence::SessionUp {
                stream: number,
                link,
                parameters: SessionParameters { peer, .. },
            } => {
                tell(&self.session, |stream| {
                    let link = link.map(&link_name).unwrap_or_default();
                    let peer = peer.to_string();
                    let number = Value::Uint64(number.0);
                    stream.inject(&[
                        "up".into(),
                        number,
                        link.as_str().into(),
                        peer.as_str().into(),
                        "".into(),
                    ]);
                });
            }
            Occurrence::SessionDown {
                stream: number,
                link,
                reason,
            } => tell(&self.session, |stream| {
                let link = link.map(&link_name).unwrap_or_default();
                let why = reason.to_string();
                let number = Value::Uint64(number.0);
                stream.inject(&[
                    "down".into(),
                    number,
                    link.as_str().into(),
                    "".into(),
                    why.as_str().into(),
                ]);
            }),
            _ => {}
        }
    }

    /// A contact begins or ends.
    pub fn contact(&self, contact: Contact) {
        tell(&self.contact, |stream| {
            stream.inject(&[match contact {
                Contact::On => "on".into(),
                Contact::Over => "over".into(),
            }]);
        });
    }

    /// Tells what the node holds and has done.
    pub fn state(&self, node: &Node, drivers: DriverCounts) {
        tell(&self.state, |stream| {
            let (bundles, octets) = node.stored();
            let counters = node.counters();
            let sessions = u64::try_from(node.sessions().len()).unwrap_or(u64::MAX);
            stream.inject(&[
                Value::Uint64(bundles),
                Value::Uint64(octets),
                Value::Uint64(sessions),
                Value::Uint64(counters.received),
                Value::Uint64(counters.received_octets),
                Value::Uint64(counters.created),
                Value::Uint64(counters.forwarded),
                Value::Uint64(counters.forwarded_octets),
                Value::Uint64(counters.delivered),
                Value::Uint64(counters.expired),
                Value::Uint64(counters.deleted),
                Value::Uint64(counters.refused),
                Value::Uint64(counters.duplicates),
                Value::Uint64(drivers.octets_in),
                Value::Uint64(drivers.octets_out),
            ]);
        });
    }

    /// Tells of each session, and of what waits for each next hop.
    pub fn neighbours(&self, node: &Node) {
        tell(&self.neighbour, |stream| {
            for session in node.sessions() {
                let neighbour = session.peer.to_string();
                stream.inject(&[
                    Value::Uint64(session.stream.0),
                    neighbour.as_str().into(),
                    Value::Uint64(u64::try_from(session.in_flight).unwrap_or(u64::MAX)),
                    Value::Uint64(session.bundles_sent),
                    Value::Uint64(session.octets_sent),
                    Value::Uint64(session.bundles_received),
                    Value::Uint64(session.octets_received),
                ]);
            }
        });
        tell(&self.queue, |stream| {
            for waiting in node.waiting() {
                let next_hop = waiting.next_hop.unwrap_or_default();
                stream.inject(&[next_hop.as_str().into(), Value::Uint64(waiting.bundles)]);
            }
        });
    }

    /// The meter for the store's commits, where they are measured.
    #[must_use]
    pub fn commits(&self) -> Option<CommitMeter> {
        self.commit.clone().map(|stream| CommitMeter {
            stream,
            own: self.own.clone(),
        })
    }

    /// Tells what the store has done.
    pub fn store(&self, counts: &StoreCounts) {
        tell(&self.store, |stream| {
            let each = |count: &AtomicU64| Value::Uint64(count.load(Ordering::Relaxed));
            stream.inject(&[
                each(&counts.batches),
                each(&counts.commands),
                each(&counts.syncs),
                each(&counts.busy_nanos),
                each(&counts.longest_nanos),
                each(&counts.log_octets),
                each(&counts.free_octets),
                each(&counts.failures),
            ]);
        });
    }

    /// Ends: what no collector takes within two seconds is left in a file, and said.
    pub fn finish(self) {
        self.end(LINGER);
    }

    /// Ends without a collector: rows that have not left stay in a file, which the log names.
    pub fn leave(self) {
        self.end(Duration::ZERO);
    }

    fn end(self, linger: Duration) {
        let summary = self.client.close_within(linger);
        if let Some(path) = &summary.left {
            tracing::warn!(path = %path.display(), "no collector took all measurements; the rest is a session in a file");
        }
        if summary.dropped > 0 {
            tracing::warn!(
                dropped = summary.dropped,
                of = summary.injected,
                "measurements found no room"
            );
        }
        if let Some(trouble) = &summary.trouble {
            tracing::warn!("measuring: {trouble}");
        }
    }
}

/// A meter of the store's commits, for its thread.
#[derive(Clone, Debug)]
pub struct CommitMeter {
    stream: Stream,
    /// The endpoint of this node's own reports, where they are bundles.
    own: Option<EndpointId>,
}

/// The bundles and octets that one flush of the disk has made durable.
#[derive(Clone, Copy, Debug, Default)]
pub struct Commit {
    /// Bundles.
    pub bundles: u64,
    /// Bundles of those that are no reports of this node; both are counted where there is a meter.
    pub of_others: u64,
    /// Octets of bundles that were written.
    pub octets: u64,
    /// Time spent writing and flushing.
    pub busy: Duration,
    /// Time spent flushing.
    pub flush: Duration,
}

impl CommitMeter {
    /// Whether a bundle from that endpoint is no report of this node.
    pub fn is_of_others(&self, source: &EndpointId) -> bool {
        self.own.as_ref() != Some(source)
    }

    /// Tells of a flush. If reports are bundles, each has flushes of its own, and one that told of those alone would cause the next.
    pub fn tell(&self, commit: &Commit) {
        if self.own.is_some() && commit.of_others == 0 {
            return;
        }
        self.stream.inject(&[
            Value::Uint64(commit.bundles),
            Value::Uint64(commit.octets),
            Value::Double(commit.busy.as_secs_f64()),
            Value::Double(commit.flush.as_secs_f64()),
        ]);
    }
}

fn tell(stream: &Option<Stream>, tell: impl FnOnce(&Stream)) {
    if let Some(stream) = stream {
        tell(stream);
    }
}
