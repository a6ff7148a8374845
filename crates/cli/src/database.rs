//! A database of one command, in a file that it has for itself.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Error, ErrorCode};

use crate::failure::Failure;

/// The time for which the lock of another process is waited for: one that is killed at this moment lets it go.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// Opens or makes a database, which nobody else opens from then on.
///
/// A commit is durable when it returns; what a kill interrupts is not in the file.
pub fn open(path: &Path, layout: &str) -> Result<Connection, Failure> {
    opened(path, layout).map_err(|error| failure("open", path, &error))
}

/// The failure of a command whose database cannot be opened, read or written, as "cannot {what} …".
pub fn failure(what: &str, path: &Path, error: &Error) -> Failure {
    let refused =
        |why: &dyn Display| Failure::refused(format!("cannot {what} {}: {why}", path.display()));
    match (error, error.sqlite_error_code()) {
        (_, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) => {
            refused(&"another process has it")
                .with_hint("one command at a time keeps a folder in step with an endpoint")
        }
        (_, Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
        // A table or a column that is damaged in a way that SQLite does not see.
        | (
            Error::QueryReturnedNoRows
            | Error::InvalidColumnType(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::FromSqlConversionFailure(..),
            _,
        ) => refused(error).with_hint(
            "move the file away to begin anew: an outbox then sends all files once more",
        ),
        _ => refused(error),
    }
}

fn opened(path: &Path, layout: &str) -> Result<Connection, Error> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(LOCK_PATIENCE)?;
    // The lock is taken with the first reading, and held: no index of the log in shared memory is needed.
    connection.execute_batch(
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; BEGIN IMMEDIATE",
    )?;
    connection.execute_batch(layout)?;
    connection.execute_batch("COMMIT")?;
    Ok(connection)
}

/// A number as a database has it, which knows no larger ones.
pub fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number as a database has it; the headers of files have none below zero.
pub fn number(column: i64) -> u64 {
    u64::try_from(column).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_for_one_at_a_time_and_keeps_what_was_committed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        let layout = "CREATE TABLE IF NOT EXISTS numbers (number INTEGER)";
        let first = open(&path, layout).unwrap();
        first.execute("INSERT INTO numbers VALUES (7)", []).unwrap();
        let second = open(&path, layout).unwrap_err();
        assert!(second.to_string().contains("another process has it"));
        drop(first);
        let again = open(&path, layout).unwrap();
        let read = again.query_row("SELECT number FROM numbers", [], |row| row.get(0));
        assert_eq!(read, Ok(7));
    }
}
