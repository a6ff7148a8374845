//! The measuring end: points become streams, samples leave over a thread that never makes the program wait.
//!
//! [`Client`] is what a program has, a [`Stream`] what it measures with. [`ring`] is between it and the [`writer`], which
//! knows filters; the [`outlet`] knows where rows go (over a [`link`], in [`parcels`] or into a file), and the [`spool`] keeps them while a
//! collector is away.

mod leftover;
mod link;
mod outlet;
mod parcels;
pub(crate) mod record;
mod retry;
mod ring;
mod settings;
mod spool;
mod target;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use outlet::OutletError;
pub use parcels::Carrier;
pub use settings::{SPOOL_OCTETS, Settings};
pub use target::{PORT, Target, TargetError};

use self::outlet::{Outlet, Transport};
use self::record::Sample;
use self::ring::Ring;
use self::spool::Spool;
use self::writer::{Order, Writer};
use crate::filter::{FilterError, Plan};
use crate::omsp::Encoding;
use crate::omsp::header::{HeaderError, check_domain, check_sender};
use crate::point::Point;
use crate::schema::{Schema, SchemaError, Type};
use crate::value::Value;

/// Streams of a client: a packet names one in an octet, 0 is metadata, 1 the client's own account.
const STREAMS_MAX: usize = 254;

/// The time that [`Client::close`] waits for a collector, unless [`Client::close_within`] names another.
const LINGER: Duration = Duration::from_secs(5);

/// A program's connection to where its measurements go.
///
/// ```
/// use dhow_measure::{Client, Column, Point, Settings, Type};
///
/// static SENT: Point = Point {
///     name: "sent",
///     about: "a datagram was sent",
///     columns: &[Column::new("size", Type::Uint32, "B", "octets of it")],
/// };
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("sent.oml");
/// let target = format!("file:{}", path.display()).parse()?;
/// let client = Client::connect(Settings::new(target, "run-1", "alpha", "otg"))?;
/// let sent = client.stream(&SENT)?;
/// sent.inject(&[1470_u32.into()]);
/// assert_eq!(client.close().injected, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Summary>>,
}

#[derive(Debug)]
struct Shared {
    ring: Ring<Order>,
    app: String,
    began: Instant,
    /// The fraction of a second at which `began` was, within the whole one that the header names.
    offset_s: f64,
    plan: Plan,
    streams: Mutex<Count>,
}

/// The points and streams opened so far.
#[derive(Debug, Default)]
struct Count {
    /// Points.
    points: u32,
    /// Streams of them, of which a session numbers at most [`STREAMS_MAX`].
    streams: usize,
}

/// The counters of one stream.
#[derive(Debug, Default)]
struct Counters {
    injected: AtomicU64,
    /// Samples and rows that found no room.
    dropped: AtomicU64,
}

/// One point of a client. Copies of it measure into the same stream.
#[derive(Clone, Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    number: u32,
    /// False where the plan has no rule for the point: then a sample costs nothing.
    is_sent: bool,
    counters: Arc<Counters>,
    kinds: Arc<[Type]>,
}

/// The totals of a client at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Samples that were measured.
    pub injected: u64,
    /// Rows that left, or are in the file that was [left](Self::left); with filters fewer than samples.
    pub sent: u64,
    /// Samples and rows that found no room.
    pub dropped: u64,
    /// The file with the rows that no collector took in time: an OMSP session; `None` if all were taken.
    pub left: Option<PathBuf>,
    /// The first error on the way, if there was one.
    pub trouble: Option<String>,
}

impl Client {
    /// Starts to measure. A collector need not be there: samples before it comes wait.
    ///
    /// # Errors
    /// Names that no collector takes, or a file that cannot be written.
    pub fn connect(settings: Settings) -> Result<Self, ClientError> {
        let way = Transport::open(&settings.target).map_err(|error| ClientError::Target {
            target: settings.target.clone(),
            error,
        })?;
        Self::begin(&settings, way)
    }

    /// Starts to measure over a network that is there now and then: rows leave in parcels, each a session of its own, about every ten
    /// seconds or 64 KiB, as text whatever the settings say. Their target is only a name here.
    ///
    /// # Errors
    /// Names that no collector takes.
    pub fn connect_over(
        carrier: Box<dyn Carrier>,
        settings: Settings,
    ) -> Result<Self, ClientError> {
        Self::begin(
            &settings.with_encoding(Encoding::Text),
            Transport::over(carrier),
        )
    }

    fn begin(settings: &Settings, way: Transport) -> Result<Self, ClientError> {
        check_domain(&settings.domain)?;
        check_sender(&settings.sender)?;
        Schema::new(&settings.app, Vec::new())?;
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let spool = Spool::new(settings.spool_directory.clone(), settings.spool_octets);
        let outlet = Outlet::new(way, settings.encoding, spool);
        let offset_s = f64::from(since_epoch.subsec_nanos()) / 1e9;
        let shared = Shared::new(&settings.app, offset_s, settings.plan.clone());
        let shared = Arc::new(shared);
        let writer = Writer::new(settings, since_epoch.as_secs(), outlet);
        let thread = std::thread::Builder::new()
            .name("measure".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || writer.run(&shared)
            })
            .map_err(ClientError::Thread)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Opens the streams of a point, as the plan has them.
    ///
    /// # Errors
    /// A declaration with names that no database takes, a rule that does not fit it, or more streams than a session has numbers for.
    pub fn stream(&self, point: &Point) -> Result<Stream, ClientError> {
        let schema = point.schema(&self.shared.app)?;
        let kinds = schema.fields().iter().map(|field| field.kind).collect();
        let pipelines = self.shared.plan.pipelines(point, &self.shared.app)?;
        let counters = Arc::new(Counters::default());
        let mut count = self
            .shared
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if count.streams + pipelines.len() > STREAMS_MAX {
            return Err(ClientError::TooManyStreams);
        }
        let number = count.points;
        let is_sent = !pipelines.is_empty();
        count.points += 1;
        count.streams += pipelines.len();
        // Under the lock, so that streams come in the order of their numbers.
        self.shared.ring.order(Order::Stream {
            point: *point,
            pipelines,
            counters: Arc::clone(&counters),
        });
        drop(count);
        Ok(Stream {
            shared: Arc::clone(&self.shared),
            number,
            is_sent,
            counters,
            kinds,
        })
    }

    /// Says something about the experiment (`.`), a stream (`.STREAM`) or a field (`.STREAM.FIELD`).
    pub fn metadata(&self, subject: &str, key: &str, value: &str) {
        self.shared.ring.order(Order::Metadata {
            time_s: self.shared.now_s(),
            subject: subject.to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
        });
    }

    /// Ends: filters write their last rows, the account of each stream goes to the collector, and what it does not take within 5 s is
    /// left in a file.
    pub fn close(self) -> Summary {
        self.close_within(LINGER)
    }

    /// Closes the client with another patience.
    pub fn close_within(mut self, linger: Duration) -> Summary {
        self.end(linger)
    }

    fn end(&mut self, linger: Duration) -> Summary {
        self.shared.ring.order(Order::Linger(linger));
        self.shared.ring.close();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(summary)) => summary,
            // The thread has no way to fail, and a client that measures must not fail for it.
            Some(Err(_)) | None => Summary::default(),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end(LINGER);
        }
    }
}

impl Shared {
    fn new(app: &str, offset_s: f64, plan: Plan) -> Self {
        Self {
            ring: Ring::default(),
            app: app.to_owned(),
            began: Instant::now(),
            offset_s,
            plan,
            streams: Mutex::default(),
        }
    }

    fn now_s(&self) -> f64 {
        self.offset_s + self.began.elapsed().as_secs_f64()
    }
}

impl Stream {
    /// Measures: the values of the point's fields, in their order. It copies them into a buffer and returns; where that is full, or
    /// the values are not of the declared types, the sample is dropped and counted.
    pub fn inject(&self, values: &[Value<'_>]) {
        if !self.is_sent {
            return;
        }
        let is_declared = values.len() == self.kinds.len()
            && values
                .iter()
                .zip(self.kinds.iter())
                .all(|(value, kind)| value.kind() == *kind);
        debug_assert!(is_declared, "values are those of the point's declaration");
        let sample = || Sample {
            stream: self.number,
            // Numbers are given to what is dropped too, so that a collector sees that something is missing.
            sequence: self.counters.injected.fetch_add(1, Ordering::Relaxed) + 1,
            time_s: self.shared.now_s(),
        };
        let is_kept = match is_declared {
            true => self.shared.ring.add(sample, values),
            false => {
                sample();
                false
            }
        };
        if !is_kept {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Why a client cannot measure.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A domain or sender that no collector takes.
    #[error(transparent)]
    Name(#[from] HeaderError),
    /// A point or application with names that no database takes.
    #[error("the stream cannot be declared: {0}")]
    Schema(#[from] SchemaError),
    /// A rule of the plan does not fit the point.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The file cannot be written.
    #[error("cannot write to {target}: {error}")]
    Target {
        /// The file.
        target: Target,
        /// The system's error.
        error: io::Error,
    },
    /// No thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// Too many streams.
    #[error("there are {STREAMS_MAX} streams already")]
    TooManyStreams,
}

impl ClientError {
    /// The advice for a person, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Name(error) => error.hint(),
            _ => None,
        }
    }
}
