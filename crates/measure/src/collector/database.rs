//! What a collector asks of a database, whichever it is.

use std::fmt;

use crate::omsp::Row;
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
    /// What the client's times are later than the database's, seconds.
    pub offset_s: f64,
    /// When the rows came, seconds since the database's start time.
    pub server_s: f64,
    /// The rows.
    pub rows: &'a [Row<'a>],
}

/// A table that is there, and the schema that it was made for where that is known.
pub type Found = (String, Option<Schema>);

/// A database with an open transaction, in OML's layout. Everything may fail; then the connection is given up.
pub trait Database: Send {
    /// The tables that are there, those of the layout among them.
    fn tables(&mut self) -> Result<Vec<Found>, DatabaseError>;

    /// The start time that times in it count from; where it has none, it is `start_s` from now on.
    fn start_time(&mut self, start_s: u64) -> Result<u64, DatabaseError>;

    /// The number of a sender.
    fn sender(&mut self, sender: &Sender<'_>) -> Result<i64, DatabaseError>;

    /// Makes the table `name` for a stream with that index.
    fn create(&mut self, name: &str, index: u8, schema: &Schema) -> Result<(), DatabaseError>;

    /// Stores rows.
    fn insert(&mut self, insert: &Insert<'_>) -> Result<(), DatabaseError>;

    /// Adds to what is known of a sender's stream in `_dhow_loss`.
    fn add_loss(
        &mut self,
        sender: i64,
        stream: &str,
        what: &str,
        rows: u64,
    ) -> Result<(), DatabaseError>;

    /// Makes all of it durable, and begins the next transaction.
    fn commit(&mut self) -> Result<(), DatabaseError>;
}

/// Who measures, and where.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// The domain.
    pub domain: &'a str,
    /// The name.
    pub name: &'a str,
    /// The program.
    pub app: &'a str,
    /// What its times count from, seconds of Unix time.
    pub start_s: u64,
}

/// What a database says.
#[derive(Debug)]
pub struct DatabaseError(String);

impl DatabaseError {
    /// Something else than the database's own words.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DatabaseError {}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<::postgres::Error> for DatabaseError {
    fn from(error: ::postgres::Error) -> Self {
        // "db error" alone says nothing.
        let text = match error.as_db_error() {
            Some(said) => said.message().to_owned(),
            None => match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        };
        Self(text)
    }
}

impl From<std::io::Error> for DatabaseError {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}
