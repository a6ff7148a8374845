//! The counts of one measurement.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use dhow_bundle::storage::BundleKey;
use dhow_bundle::{CreationTimestamp, EndpointId, Instant};

use super::sequence::{Novelty, Sequence};
use super::wire::{Delays, Probe, RunId, Summary};

/// Streams that are counted in one measurement, at most.
const STREAMS_MAX: usize = 64;

/// Bounds of the time between two summaries: more often they would cost the path, more seldom is as good
/// as never.
const INTERVAL_MS: [u64; 2] = [100, 3_600_000];

/// Bundles that are held until a summary tells of them, at most: one summary for so many costs nothing.
const HELD_BUNDLES_MAX: usize = 4_096;

/// Octets of payload of held bundles, at most: a sender that waits for summaries must not wait long.
const HELD_OCTETS_MAX: u64 = 8 << 20;

/// A bundle that came for the service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub(super) probe: Probe,
    /// Octets of its payload.
    pub(super) octets: u64,
    /// When its first octets came.
    pub(super) began: Instant,
    /// The time at which the bundle was durable.
    pub(super) at: Instant,
    /// The time from its creation, where clocks tell.
    pub(super) delay_ms: Option<i64>,
    /// The time for which it is of use, milliseconds.
    pub(super) lifetime_ms: u64,
}

#[derive(Debug, Default)]
struct Stream {
    sequence: Sequence,
    bundles: u64,
    is_complete: bool,
}

/// One measurement.
#[derive(Debug)]
pub(super) struct Run {
    /// The source of the probes, to which summaries go.
    pub(super) source: EndpointId,
    /// The endpoint that was measured against: where summaries come from.
    pub(super) service: EndpointId,
    pub(super) id: RunId,
    /// Lifetime of summaries: that of the bundles.
    pub(super) lifetime_ms: u64,
    /// Bundles that no summary told of. Until one does they are not delivered: a node that is killed has them
    /// again, and tells of them then.
    pub(super) held: Vec<BundleKey>,
    held_octets: u64,
    streams: BTreeMap<u32, Stream>,
    complete: usize,
    began: Instant,
    /// The newest bundle.
    pub(super) heard: Instant,
    interval: Duration,
    /// When the next summary is due, if there is something to tell.
    pub(super) due: Option<Instant>,
    told: Option<Instant>,
    summary: Summary,
}

impl Run {
    pub(super) fn new(source: EndpointId, service: EndpointId, came: &Came) -> Self {
        Self {
            source,
            service,
            id: came.probe.run,
            lifetime_ms: came.lifetime_ms,
            held: Vec::new(),
            held_octets: 0,
            streams: BTreeMap::new(),
            complete: 0,
            began: came.began,
            heard: came.at,
            interval: Duration::ZERO,
            due: None,
            told: None,
            summary: Summary {
                run: came.probe.run,
                ..Summary::default()
            },
        }
    }

    /// Count a bundle.
    pub(super) fn count(&mut self, key: BundleKey, came: &Came) {
        let probe = &came.probe;
        self.heard = came.at;
        self.lifetime_ms = came.lifetime_ms;
        let [least, most] = INTERVAL_MS;
        let interval_ms = u64::from(probe.interval_ms).clamp(least, most);
        self.interval = Duration::from_millis(interval_ms);
        self.held.push(key);
        self.held_octets = self.held_octets.saturating_add(came.octets);
        let novelty = self.sort(probe);
        if novelty == Novelty::Repeated {
            self.summary.repeated += 1;
        } else {
            self.summary.bundles += 1;
            self.summary.octets = self.summary.octets.saturating_add(came.octets);
            self.summary.uncertain += u64::from(novelty == Novelty::Uncertain);
            if let Some(delay_ms) = came.delay_ms {
                self.summary.delays.add(delay_ms);
            }
            let span = came.at.since(self.began);
            self.summary.span_us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        }
        let all_came = self.complete == usize::from(probe.streams);
        let is_full = self.held.len() >= HELD_BUNDLES_MAX || self.held_octets >= HELD_OCTETS_MAX;
        let next = match self.told {
            // The first answer says at once that there is a service.
            None => came.at,
            Some(_) if all_came || is_full => came.at,
            Some(told) => came.at.max(told + self.interval),
        };
        self.due = Some(self.due.map_or(next, |due| due.min(next)));
    }

    /// Whether this bundle of its stream has come before.
    fn sort(&mut self, probe: &Probe) -> Novelty {
        if self.streams.len() >= STREAMS_MAX && !self.streams.contains_key(&probe.stream) {
            return Novelty::Uncertain;
        }
        let stream = self.streams.entry(probe.stream).or_default();
        let novelty = stream.sequence.insert(probe.sequence);
        if novelty != Novelty::Repeated {
            stream.bundles += 1;
        }
        if !stream.is_complete && probe.total > 0 && stream.bundles >= probe.total {
            stream.is_complete = true;
            self.complete += 1;
        }
        novelty
    }

    /// The content of a summary with this creation timestamp.
    pub(super) fn summary(&self, creation: CreationTimestamp) -> Summary {
        Summary {
            count: if self.summary.number == 0 {
                [creation.time.as_millis(), creation.sequence]
            } else {
                self.summary.count
            },
            ..self.summary
        }
    }

    /// A summary was made.
    pub(super) fn told(&mut self, now: Instant, summary: &Summary) {
        self.summary.count = summary.count;
        self.summary.number = summary.number.saturating_add(1);
        self.told = Some(now);
        self.due = None;
    }

    /// There is no room for a summary now.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.due = Some(now + self.interval);
    }

    /// Hold these bundles no longer.
    pub(super) fn release(&mut self) -> Vec<BundleKey> {
        self.held_octets = 0;
        core::mem::take(&mut self.held)
    }
}

impl Delays {
    /// The delay of a bundle created at `created_ms` that is here at `now_ms`.
    pub(super) fn between(created_ms: u64, now_ms: u64) -> i64 {
        i64::try_from(now_ms.abs_diff(created_ms))
            .map_or(0, |size| if now_ms < created_ms { -size } else { size })
    }
}
