//! The node's part of the perf service: reads the head of each bundle's payload, and makes summaries.

use alloc::vec::Vec;

use bytes::Bytes;
use dhow_bundle::storage::{BundleKey, Extents};
use dhow_bundle::{BundleBuilder, EidPattern, EndpointId, Instant, Now};

use super::run::{Came, Run};
use super::wire::{Delays, PROBE_OCTETS, Probe, is_summary};
use crate::config::Config;
use crate::held::retention::Trigger;
use crate::node::Node;
use crate::sending::PendingRead;
use crate::transmission::HOP_LIMIT;

/// Measurements that are counted at a time, at most; each has up to 140 KiB. Another one ends the one
/// that was silent longest.
const RUNS_MAX: usize = 32;

/// All measurements.
pub(crate) struct Perf {
    runs: Vec<Run>,
    /// The sources of bundles that are counted; all, where there are none.
    sources: Vec<EidPattern>,
    due: Option<Instant>,
}

impl Perf {
    pub(crate) fn new(config: &Config) -> Self {
        let patterns = config.perf_sources.iter();
        Self {
            runs: Vec::new(),
            sources: patterns.filter_map(|text| text.parse().ok()).collect(),
            due: None,
        }
    }

    fn counts(&self, source: &EndpointId) -> bool {
        self.sources.is_empty() || self.sources.iter().any(|it| it.matches(source))
    }

    /// When a summary is due.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Bundles that no summary told of.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn held(&self) -> impl Iterator<Item = BundleKey> {
        self.runs.iter().flat_map(|run| run.held.iter().copied())
    }

    fn find_due(&mut self) {
        self.due = self.runs.iter().filter_map(|run| run.due).min();
    }

    fn place(&self, source: &EndpointId, probe: &Probe) -> Option<usize> {
        self.runs
            .iter()
            .position(|run| run.id == probe.run && run.source == *source)
    }
}

impl Node {
    /// A bundle for the perf service is whole: read the head of its payload.
    pub(crate) fn measure(&mut self, now: Now, key: BundleKey) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        if !self
            .services
            .perf
            .counts(self.held.endpoints().id(entry.source()))
        {
            self.delivered(now, key);
            return;
        }
        // Nobody is told of bundles from nowhere, and two services must not measure each other for ever.
        if !self.held.wants_answer(entry) {
            self.outbox.counters.answers_withheld += 1;
            self.delivered(now, key);
            return;
        }
        if self.held.is_stale(now, key) {
            self.verify(now, key);
            return;
        }
        let extents = self.held.payload_start(key, PROBE_OCTETS);
        if extents.is_empty() {
            self.delivered(now, key);
            return;
        }
        self.held.advance(&mut self.outbox, key, Trigger::Taken);
        let at = now.monotonic;
        self.held.read(
            &mut self.outbox,
            PendingRead::Perf { key, at },
            Extents::Many(extents.into()),
        );
    }

    /// The head of a payload is here: count its bundle.
    pub(crate) fn measured(&mut self, now: Now, key: BundleKey, at: Instant, octets: &Bytes) {
        let Some(entry) = self.held.entry(key) else {
            return;
        };
        let Some(probe) = Probe::decode(octets) else {
            if is_summary(octets) {
                // It is what this service sends, and came back.
                let source = self.held.endpoints().id(entry.source());
                self.services.answers.has_answered(now.monotonic, source);
            }
            self.delivered(now, key);
            return;
        };
        let created = entry.creation().time;
        let clocks = created.is_known() && now.dtn.is_known();
        let came = Came {
            probe,
            octets: self
                .held
                .payload_pieces(key)
                .iter()
                .fold(0, |sum, piece| piece.length().saturating_add(sum)),
            began: entry.received().min(at),
            at,
            delay_ms: clocks.then(|| Delays::between(created.as_millis(), now.dtn.as_millis())),
            lifetime_ms: entry.lifetime_ms(),
        };
        let source = self.held.endpoints().id(entry.source());
        let place = match self.services.perf.place(source, &came.probe) {
            Some(place) => place,
            None => {
                let service = self.held.endpoints().id(entry.destination()).clone();
                let run = Run::new(source.clone(), service, &came);
                self.admit_run(now, run)
            }
        };
        let Some(run) = self.services.perf.runs.get_mut(place) else {
            return;
        };
        run.count(key, &came);
        match run.due {
            Some(due) if due <= now.monotonic => self.summarize(now, place),
            due => {
                self.services.perf.due = [self.services.perf.due, due].into_iter().flatten().min()
            }
        }
    }

    /// Make a place for a new measurement.
    fn admit_run(&mut self, now: Now, run: Run) -> usize {
        if self.services.perf.runs.len() < RUNS_MAX {
            self.services.perf.runs.push(run);
            return self.services.perf.runs.len() - 1;
        }
        let silent = self.services.perf.runs.iter().enumerate();
        let oldest = silent
            .min_by_key(|(_, run)| run.heard)
            .map(|(place, _)| place);
        let place = oldest.unwrap_or(0);
        self.summarize(now, place);
        if let Some(slot) = self.services.perf.runs.get_mut(place) {
            *slot = run;
        }
        place
    }

    /// Send the summaries that are due.
    pub(crate) fn summarize_due(&mut self, now: Now) {
        for place in 0..self.services.perf.runs.len() {
            let due = self.services.perf.runs.get(place).and_then(|run| run.due);
            if due.is_some_and(|due| due <= now.monotonic) {
                self.summarize(now, place);
            }
        }
    }

    /// Tell of what is held of a measurement, and let go of it: the store keeps the summary before it
    /// forgets the bundles.
    fn summarize(&mut self, now: Now, place: usize) {
        let Some(run) = self
            .services
            .perf
            .runs
            .get_mut(place)
            .filter(|run| run.due.is_some())
        else {
            return;
        };
        if self
            .services
            .answers
            .allow(now.monotonic, &run.source)
            .is_err()
        {
            // The next summary tells of these bundles, too, if the source may have one.
            run.postpone(now.monotonic);
            let held = run.release();
            self.outbox.counters.answers_withheld += u64::from(!held.is_empty());
            for key in held {
                self.delivered(now, key);
            }
            return self.services.perf.find_due();
        }
        let (service, source) = (run.service.clone(), run.source.clone());
        let lifetime_ms = run.lifetime_ms;
        let creation = self.held.next_creation(&mut self.outbox, now, &service);
        let builder = BundleBuilder::new(service, source, creation, lifetime_ms)
            .with_report_to(EndpointId::Null)
            .with_payload_crc_type(self.payload_checksum())
            .with_hop_limit(HOP_LIMIT);
        let Some(run) = self.services.perf.runs.get(place) else {
            return;
        };
        let summary = run.summary(creation);
        let is_sent = self.originate(now, &builder, &summary.encode()).is_some();
        let Some(run) = self.services.perf.runs.get_mut(place) else {
            return;
        };
        if is_sent {
            run.told(now.monotonic, &summary);
        } else {
            // Perhaps it is they that take the room: their counts are told later.
            run.postpone(now.monotonic);
        }
        for key in run.release() {
            self.delivered(now, key);
        }
        self.services.perf.find_due();
    }
}
