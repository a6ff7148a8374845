//! The interface of a collector to a database, whichever it is.

use std::fmt;

use super::account::Arrival;
use super::spans::Spans;
use crate::omsp::Row;
use crate::omsp::header::Parcel;
use crate::schema::Schema;

/// Rows of one table that are to be stored, with what a collector adds.
#[derive(Debug)]
pub struct Insert<'a> {
    /// The table.
    pub table: &'a str,
    /// Its fields beside those that every table has.
    pub schema: &'a Schema,
    /// The sender's number.
    pub sender: i64,
    /// The seconds by which the client's start time is later than the database's.
    pub offset_s: f64,
    /// The time at which the rows came, seconds since the database's start time.
    pub server_s: f64,
    /// The rows.
    pub rows: &'a [Row<'a>],
}

/// A table that is there, and the schema that it was made for where that is known.
pub type Found = (String, Option<Schema>);

/// A database with an open transaction, in OML's layout. Everything may fail: where the [database is away](DatabaseError::is_away) the connection
/// is given up, otherwise what was tried is undone.
pub trait Database: Send {
    /// The tables that are there, those of the layout among them.
    fn tables(&mut self) -> Result<Vec<Found>, DatabaseError>;

    /// The start time that times in it count from; where it has none, it is `start_s` from now on.
    fn start_time(&mut self, start_s: u64) -> Result<u64, DatabaseError>;

    /// The number of a sender, which it gets where it has none.
    fn sender(&mut self, sender: &Sender<'_>) -> Result<i64, DatabaseError>;

    /// The number of a sender, if it is there.
    fn known_sender(&mut self, domain: &str, name: &str) -> Result<Option<i64>, DatabaseError>;

    /// Makes the table `name` for a stream with that index.
    fn create(&mut self, name: &str, index: u8, schema: &Schema) -> Result<(), DatabaseError>;

    /// Stores rows.
    fn insert(&mut self, insert: &Insert<'_>) -> Result<(), DatabaseError>;

    /// Changes the numbers of a sender's stream in `_dhow_loss`.
    fn add_loss(
        &mut self,
        sender: i64,
        stream: &str,
        what: &str,
        rows: i64,
    ) -> Result<(), DatabaseError>;

    /// The numbers that came of each stream of a sender's run.
    fn numbers(&mut self, sender: i64, run: &str) -> Result<Vec<(String, Spans)>, DatabaseError>;

    /// Keeps all numbers that came of a stream of a sender's run.
    fn keep_numbers(
        &mut self,
        sender: i64,
        run: &str,
        stream: &str,
        spans: &Spans,
    ) -> Result<(), DatabaseError>;

    /// Notes that a parcel is stored, and says whether it was before.
    fn parcel(&mut self, parcel: Parcel) -> Result<Arrival, DatabaseError>;

    /// Puts what is committed where somebody finds it who reads files and knows nothing of logs, as far as readers let it.
    fn write_back(&mut self) {}

    /// Runs statements of ours that have no values.
    fn execute(&mut self, sql: &'static str) -> Result<(), DatabaseError>;
}

/// A sender and its domain.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// The domain.
    pub domain: &'a str,
    /// The name.
    pub name: &'a str,
    /// The program.
    pub app: &'a str,
    /// The start time of its timestamps, seconds of Unix time.
    pub start_s: u64,
}

impl Sender<'_> {
    /// The error that the sender cannot be told from another one.
    pub fn taken(&self) -> DatabaseError {
        DatabaseError::refused(format!(
            "the sender's name '{}', also as '{0}@{}', is that of another sender",
            self.name, self.domain
        ))
    }
}

/// An error of a database: it is away, or it refuses one thing.
#[derive(Debug)]
pub struct DatabaseError {
    fault: Fault,
    words: String,
}

/// The cause of a database's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The database: it is away, full, locked, or has lost its transaction. It may take the same later.
    Away,
    /// The request: the database will not take it, now or later.
    Refused,
}

impl DatabaseError {
    /// The database takes nothing.
    pub fn away(words: impl Into<String>) -> Self {
        Self {
            fault: Fault::Away,
            words: words.into(),
        }
    }

    /// The database does not take this.
    pub fn refused(words: impl Into<String>) -> Self {
        Self {
            fault: Fault::Refused,
            words: words.into(),
        }
    }

    /// True where the same may be taken later; false where it never will.
    pub fn is_away(&self) -> bool {
        self.fault == Fault::Away
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for DatabaseError {}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        let away = [
            Code::PermissionDenied,
            Code::OperationAborted,
            Code::DatabaseBusy,
            Code::DatabaseLocked,
            Code::OutOfMemory,
            Code::ReadOnly,
            Code::OperationInterrupted,
            Code::SystemIoFailure,
            Code::DatabaseCorrupt,
            Code::DiskFull,
            Code::CannotOpen,
            Code::FileLockingProtocolFailed,
            Code::NotADatabase,
        ];
        match error.sqlite_error_code() {
            Some(code) if away.contains(&code) => Self::away(error.to_string()),
            _ => Self::refused(error.to_string()),
        }
    }
}

#[cfg(feature = "postgres")]
impl From<::postgres::Error> for DatabaseError {
    fn from(error: ::postgres::Error) -> Self {
        // "db error" alone says nothing.
        let words = match error.as_db_error() {
            Some(said) => said.message().to_owned(),
            None => match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        };
        // An error without a code of the server is the connection's; PostgreSQL's appendix A has the classes of codes.
        let is_away = error.code().is_none_or(|state| {
            AWAY_STATES
                .iter()
                .any(|class| state.code().starts_with(class))
        });
        match is_away {
            true => Self::away(words),
            false => Self::refused(words),
        }
    }
}

/// Codes of PostgreSQL, or beginnings of them, that say nothing of what was to be stored: connection, state of the transaction, authorization,
/// rollback, resources, lock, operator, system.
#[cfg(feature = "postgres")]
const AWAY_STATES: [&str; 8] = ["08", "25", "28", "40", "53", "55P03", "57", "58"];

impl From<std::io::Error> for DatabaseError {
    fn from(error: std::io::Error) -> Self {
        Self::away(error.to_string())
    }
}
