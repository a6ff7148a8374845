//! The thread that tells a collector of spans and metrics. Nobody waits for it: spans that find no room in its queue are counted and dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::post::{Failure, post};
use super::span::{self, Span};
use super::{Endpoint, TelemetryTotals, metrics};
use crate::admin::live::{Live, LiveFacts};
use crate::admin::metrics::Snapshot;
use crate::storing::Answers;

/// Spans that wait for the collector, at most: some megabytes.
const SPANS_WAITING: usize = 8_192;

/// Spans in one request, at most.
const SPANS_AT_ONCE: usize = 512;

/// The time for which a span waits for others to go with it.
const GATHERING: Duration = Duration::from_secs(1);

/// The time for which a request is tried again.
const PERSISTENCE: Duration = Duration::from_secs(60);

/// The rest after a first failure; it doubles with each.
const REST_MIN: Duration = Duration::from_millis(500);

/// The longest rest between two attempts.
const REST_MAX: Duration = Duration::from_secs(10);

/// The time that a node which ends gives its collector.
const LINGER: Duration = Duration::from_secs(2);

/// Characters of a collector's own words in a line of the log, at most.
const WORDS_MAX: usize = 200;

/// The node's end of the thread.
#[derive(Debug)]
pub struct Exporter {
    spans: mpsc::Sender<Span>,
    snapshots: mpsc::Sender<Snapshot>,
    closing: watch::Sender<bool>,
    counts: Arc<Counts>,
    thread: JoinHandle<()>,
}

/// The counts of both threads.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
    failures: AtomicU64,
}

/// The sources of metrics beside the node.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The store.
    pub store: Answers,
    /// The facts of the moment.
    pub live: Live,
}

impl Exporter {
    /// Starts the thread that tells the collector of a node with this ID. The collector need not be there.
    ///
    /// # Errors
    /// When the system makes no thread.
    pub fn start(endpoint: Endpoint, node: &str, sources: Sources) -> std::io::Result<Self> {
        let (spans, take_spans) = mpsc::channel(SPANS_WAITING);
        let (snapshots, take_snapshots) = mpsc::channel(1);
        let (closing, closed) = watch::channel(false);
        let counts = Arc::new(Counts::default());
        let line = Line {
            endpoint,
            counts: Arc::clone(&counts),
            closed: closed.clone(),
            is_away: false,
        };
        let resource = span::resource(node);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let work = async move {
            tokio::join!(
                tell_spans(take_spans, line.clone(), &resource),
                tell_metrics(take_snapshots, line.clone(), &resource, &sources),
            );
        };
        let thread = std::thread::Builder::new().name("telemetry".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = work => {}
                    () = end_of_patience(closed) => {}
                }
            });
            // A name that is being looked up is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            spans,
            snapshots,
            closing,
            counts,
            thread,
        })
    }

    /// A span is over.
    pub(super) fn send(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Metrics are told, unless earlier ones still wait.
    pub(super) fn tell(&self, snapshot: Snapshot) {
        let _ = self.snapshots.try_send(snapshot);
    }

    /// Totals so far.
    pub(super) fn totals(&self) -> TelemetryTotals {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TelemetryTotals {
            sent: count(&self.counts.sent),
            dropped: count(&self.counts.dropped),
            failures: count(&self.counts.failures),
        }
    }

    /// Ends: what waits is told within [`LINGER`], or dropped.
    pub(super) fn finish(self) {
        let Self {
            spans,
            snapshots,
            closing,
            counts,
            thread,
        } = self;
        drop((spans, snapshots));
        closing.send_replace(true);
        if thread.join().is_err() {
            tracing::error!("the thread of telemetry failed");
        }
        let dropped = counts.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            let sent = counts.sent.load(Ordering::Relaxed);
            tracing::warn!(dropped, sent, "not all spans reached the collector");
        }
    }
}

/// The node ends, and has waited for long enough.
async fn end_of_patience(mut closed: watch::Receiver<bool>) {
    let _ = closed.wait_for(|closed| *closed).await;
    tokio::time::sleep(LINGER).await;
}

/// The way to the collector.
#[derive(Clone)]
struct Line {
    endpoint: Endpoint,
    counts: Arc<Counts>,
    closed: watch::Receiver<bool>,
    /// Whether the last request failed, and the log says so.
    is_away: bool,
}

impl Line {
    /// Posts a message, again and again while that may help; the answer comes back.
    async fn tell(&mut self, path: &str, message: Vec<u8>) -> Option<Bytes> {
        let message = Bytes::from(message);
        let end = Instant::now() + PERSISTENCE;
        let mut rest = REST_MIN;
        loop {
            let failure = match post(&self.endpoint, path, message.clone()).await {
                Ok(answer) => {
                    self.is_there();
                    return Some(answer);
                }
                Err(failure) => failure,
            };
            self.counts.failures.fetch_add(1, Ordering::Relaxed);
            self.failed(path, failure.why());
            let Failure::Later(_, after) = failure else {
                return None;
            };
            let pause = after.unwrap_or(rest).max(rest);
            if *self.closed.borrow() || Instant::now() + pause >= end {
                return None;
            }
            rest = (2 * rest).min(REST_MAX);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = self.closed.wait_for(|closed| *closed) => {}
            }
        }
    }

    fn is_there(&mut self) {
        if self.is_away {
            self.is_away = false;
            tracing::info!(
                collector = self.endpoint.authority(),
                "the collector takes telemetry again"
            );
        }
    }

    /// One line for each time that the collector goes away.
    fn failed(&mut self, path: &str, why: &str) {
        if !self.is_away {
            self.is_away = true;
            tracing::warn!(
                collector = self.endpoint.authority(),
                path,
                "the collector does not take telemetry, the node goes on: {why}"
            );
        }
    }

    /// The collector took a part and says why not all.
    fn complained(&self, rejected: i64, words: &str) {
        if rejected > 0 || !words.is_empty() {
            let words: String = words.chars().take(WORDS_MAX).collect();
            tracing::debug!(rejected, "the collector says: {words:?}");
        }
    }
}

/// Tells of spans, in requests of many, until there will be no more.
async fn tell_spans(mut spans: mpsc::Receiver<Span>, mut line: Line, resource: &Resource) {
    let mut batch = Vec::with_capacity(SPANS_AT_ONCE);
    while spans.recv_many(&mut batch, SPANS_AT_ONCE).await > 0 {
        let due = Instant::now() + GATHERING;
        while batch.len() < SPANS_AT_ONCE {
            let room = SPANS_AT_ONCE - batch.len();
            let more = tokio::time::timeout_at(due, spans.recv_many(&mut batch, room)).await;
            if !more.is_ok_and(|more| more > 0) {
                break;
            }
        }
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let request = span::request(resource, std::mem::take(&mut batch));
        let answer = line.tell("/v1/traces", request.encode_to_vec()).await;
        let rejected = match &answer {
            None => count,
            Some(answer) => line.rejected_spans(answer).min(count),
        };
        line.counts.dropped.fetch_add(rejected, Ordering::Relaxed);
        line.counts
            .sent
            .fetch_add(count - rejected, Ordering::Relaxed);
    }
}

/// Tells of metrics until there will be no more.
async fn tell_metrics(
    mut snapshots: mpsc::Receiver<Snapshot>,
    mut line: Line,
    resource: &Resource,
    sources: &Sources,
) {
    let begun_ns = unix_ns();
    while let Some(snapshot) = snapshots.recv().await {
        let taken_ns = unix_ns();
        let left = sources.live.read(LiveFacts::certificate_left);
        let Ok(text) = snapshot.text(Some(sources.store.clone()), left) else {
            continue;
        };
        let request = metrics::request(resource, &text, (begun_ns, taken_ns));
        if let Some(answer) = line.tell("/v1/metrics", request.encode_to_vec()).await
            && let Ok(answer) = ExportMetricsServiceResponse::decode(answer)
            && let Some(partial) = answer.partial_success
        {
            line.complained(partial.rejected_data_points, &partial.error_message);
        }
    }
}

impl Line {
    /// The spans that a collector rejected, by its answer. An answer that is none rejects nothing.
    fn rejected_spans(&self, answer: &[u8]) -> u64 {
        let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
        let partial = answer.partial_success.unwrap_or_default();
        self.complained(partial.rejected_spans, &partial.error_message);
        u64::try_from(partial.rejected_spans).unwrap_or(0)
    }
}

/// Nanoseconds since the beginning of 1970.
fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}
