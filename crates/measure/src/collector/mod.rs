//! The receiving end: clients' sessions into databases.
//!
//! [`Collector`] listens; one thread (`listener`) reads all clients (`session`), and one (`store`) has the databases. Between them is
//! one bounded queue: when a database is behind or away, sockets are not read, and TCP slows the clients. Parcels, which came as bundles,
//! take the same way from an [`Intake`].

mod account;
mod budget;
mod database;
mod intake;
mod listener;
mod numbers;
mod open_database;
#[cfg(feature = "postgres")]
mod postgres;
mod session;
mod spans;
mod sqlite;
mod store;
mod table;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

pub use account::{Report, StreamReport};
pub use database::DatabaseError;
pub use intake::{Intake, IntakeError, PARCEL_OCTETS_MAX, Pledge};
pub use session::Kept;

use self::budget::Budget;
use self::listener::Listener;
use self::session::Call;
use self::store::Store;

/// Batches of rows between the sessions and the databases; one is what a read of a socket brought.
const QUEUE_BATCHES: usize = 64;

/// Octets of memory that rows of all clients take between being read and being committed.
const ROWS_OCTETS_MAX: usize = 16 << 20;

/// Octets of memory that rows of all clients take which are long, and not whole yet.
const LONG_ROWS_OCTETS_MAX: usize = 64 << 20;

/// The place in which rows are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// One SQLite file for all domains.
    File(PathBuf),
    /// One SQLite file a domain: `DIRECTORY/DOMAIN.sq3`.
    Directory(PathBuf),
    /// A PostgreSQL database: `postgresql://USER@HOST/NAME`. Without the feature `postgres` it is refused.
    Postgres(String),
}

/// The terms of a collector for its clients.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The token that clients must have in their header's line `token`; `None` if none is asked for.
    pub token: Option<String>,
    /// The longest silence of a client before its session ends.
    pub idle: Duration,
    /// Clients at a time, at most; the next one is let go.
    pub clients_max: usize,
    /// The time that the collector waits at its end for a database that fails.
    pub end_patience: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            token: None,
            idle: Duration::from_secs(3600),
            clients_max: 256,
            end_patience: Duration::from_secs(5),
        }
    }
}

/// Something that a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A client's session was ended from here.
    Refused {
        /// The address of the client.
        peer: SocketAddr,
        /// The reason, as the client is told it.
        reason: String,
    },
    /// A database does not take rows; clients wait.
    Away {
        /// The words of the database.
        reason: String,
    },
    /// The database takes rows again.
    Back,
    /// The database does not take a stream, or rows of it; they are counted as refused.
    Unstored {
        /// The name of the stream.
        stream: String,
        /// The name of its sender.
        sender: String,
        /// The words of the database.
        reason: String,
    },
}

/// The function that is given each [`Notice`].
pub type Tell = Arc<dyn Fn(Notice) + Send + Sync>;

/// Counters of a running collector.
#[derive(Debug, Default)]
pub struct Figures {
    clients: AtomicU64,
    rows: AtomicU64,
    rejected: AtomicU64,
}

impl Figures {
    /// Clients that are connected.
    pub fn clients(&self) -> u64 {
        self.clients.load(Ordering::Relaxed)
    }

    /// Rows that were taken.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Rows that were refused.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }
}

/// A collector that runs until it is [stopped](Collector::stop).
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    figures: Arc<Figures>,
    listener: JoinHandle<()>,
    store: JoinHandle<Outcome>,
    calls: SyncSender<Call>,
    budgets: Budgets,
}

/// The memory that all clients share.
#[derive(Clone, Debug)]
struct Budgets {
    /// The budget for rows between being read and being committed.
    rows: Arc<Budget>,
    /// The budget for rows that are long, and not whole yet.
    long: Arc<Budget>,
}

/// The values that a collector's parts share.
struct Shared {
    terms: Terms,
    stop: Arc<AtomicBool>,
    figures: Arc<Figures>,
    tell: Tell,
    calls: SyncSender<Call>,
    budgets: Budgets,
}

/// The result of a collector at its end.
#[derive(Debug)]
pub struct Outcome {
    /// Rows that were stored and rows that were not, by domain, sender and stream.
    pub report: Report,
    /// The number of the last rows, if they are not stored, and the error that kept them from it.
    pub lost: Option<(u64, DatabaseError)>,
}

impl Collector {
    /// Opens the place for rows and begins to take clients.
    ///
    /// # Errors
    /// The place cannot be opened, or no thread can be had.
    pub fn start(
        listener: TcpListener,
        place: Place,
        terms: Terms,
        tell: Tell,
    ) -> Result<Self, CollectorError> {
        let address = listener.local_addr().map_err(CollectorError::Listen)?;
        let stop = Arc::new(AtomicBool::new(false));
        let figures = Arc::new(Figures::default());
        let (sender, receiver) = mpsc::sync_channel(QUEUE_BATCHES);
        let budgets = Budgets {
            rows: Budget::new(ROWS_OCTETS_MAX),
            long: Budget::new(LONG_ROWS_OCTETS_MAX),
        };
        let store = Store::open(
            place,
            terms.end_patience,
            Arc::clone(&stop),
            Arc::clone(&tell),
            Arc::clone(&budgets.rows),
        )?;
        let store = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || store.run(&receiver))
            .map_err(CollectorError::Thread)?;
        let shared = Shared {
            terms,
            stop: Arc::clone(&stop),
            figures: Arc::clone(&figures),
            tell,
            calls: sender.clone(),
            budgets: budgets.clone(),
        };
        let listener = Listener::new(listener, shared).map_err(CollectorError::Listen)?;
        let listener = std::thread::Builder::new()
            .name("listener".to_owned())
            .spawn(move || listener.run())
            .map_err(CollectorError::Thread)?;
        Ok(Self {
            address,
            stop,
            figures,
            listener,
            store,
            calls: sender,
            budgets,
        })
    }

    /// The address at which it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The counters so far.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// A way in for parcels that came otherwise.
    pub fn intake(&self) -> Intake {
        let rows = Arc::clone(&self.budgets.rows);
        Intake::new(self.calls.clone(), Arc::clone(&self.figures), rows)
    }

    /// Begins to end: a database that is away is waited for only as long as its terms say, so a thread that waits for a pledge hears of it soon.
    pub fn begin_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Takes what has come, commits it and ends.
    ///
    /// # Errors
    /// A thread ended before its time, which no input may bring about.
    pub fn stop(self) -> Result<Outcome, CollectorError> {
        self.begin_stop();
        self.listener.join().map_err(|_| CollectorError::Ended)?;
        drop(self.calls);
        self.store.join().map_err(|_| CollectorError::Ended)
    }
}

/// Why a collector cannot run.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// The address cannot be listened on.
    #[error("cannot listen: {0}")]
    Listen(std::io::Error),
    /// No thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The database cannot be used.
    #[error("cannot open the database: {0}")]
    Database(#[from] DatabaseError),
    /// A thread is gone.
    #[error("a thread of the collector ended before its time")]
    Ended,
}
