//! A database in a file: SQLite, in OML's layout.
//!
//! SQLite has no integers without a sign: a value of 2^63 and more is kept as the same 64 bits with one, as OML does
//! (`printf('%u', column)` shows it whole). 32 bits are kept as they are.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, ToSql, params};

use super::account::Arrival;
use super::database::{Database, DatabaseError, Found, Insert, Sender};
use super::spans::Spans;
use crate::omsp::header::Parcel;
use crate::omsp::{Cell, Row};
use crate::schema::{Schema, Type};

/// Rows of one statement: beyond some ten it is the binding of values that takes the time.
const STATEMENT_ROWS: usize = 32;

/// Values that SQLite takes in one statement.
const VARIABLES_MAX: usize = 32_766;

/// Statements that stay prepared: two a table.
const STATEMENTS_MAX: usize = 512;

/// The time that one statement waits for another process's lock; the store tries again.
const BUSY_PATIENCE: Duration = Duration::from_secs(1);

const LAYOUT: &str = "\
CREATE TABLE IF NOT EXISTS _senders (name TEXT PRIMARY KEY, id INTEGER UNIQUE);
CREATE TABLE IF NOT EXISTS _experiment_metadata (oml_tuple_id INTEGER PRIMARY KEY, oml_sender_id INTEGER, oml_seq INTEGER,
    oml_ts_client REAL, oml_ts_server REAL, \"subject\" TEXT, \"key\" TEXT, \"value\" TEXT);
CREATE TABLE IF NOT EXISTS _dhow_senders (id INTEGER PRIMARY KEY, domain TEXT, name TEXT, app TEXT, start_time INTEGER);
CREATE TABLE IF NOT EXISTS _dhow_loss (oml_sender_id INTEGER, stream TEXT, what TEXT, rows INTEGER,
    PRIMARY KEY (oml_sender_id, stream, what));
CREATE TABLE IF NOT EXISTS _dhow_numbers (oml_sender_id INTEGER, run TEXT, stream TEXT, numbers TEXT,
    PRIMARY KEY (oml_sender_id, run, stream));
CREATE TABLE IF NOT EXISTS _dhow_parcels (run INTEGER, number INTEGER, PRIMARY KEY (run, number)) WITHOUT ROWID;";

/// One file.
#[derive(Debug)]
pub struct Sqlite {
    connection: Connection,
}

/// Memory that a file's pages take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// The usual memory of SQLite: 2 MiB.
    Alone,
    /// 256 KiB: rows are appended, and some ten files may be open.
    OneOfMany,
}

impl Sqlite {
    /// Opens or makes it, beside others or alone.
    pub fn open(path: &Path, cache: Cache) -> Result<Self, DatabaseError> {
        let connection = Connection::open(path)
            .map_err(|error| DatabaseError::away(format!("{}: {error}", path.display())))?;
        connection.busy_timeout(BUSY_PATIENCE)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        if cache == Cache::OneOfMany {
            connection.execute_batch("PRAGMA cache_size=-256")?;
        }
        // A reader may look at any time, and what was committed stays so when the power is cut: one flush a commit, about one a second.
        connection.execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; BEGIN")?;
        connection.execute_batch(LAYOUT)?;
        Ok(Self { connection })
    }

    fn metadata(&self, key: &str) -> Result<Option<String>, DatabaseError> {
        let select =
            "SELECT value FROM _experiment_metadata WHERE oml_sender_id IS NULL AND key = ?";
        let value = self.connection.query_row(select, [key], |row| row.get(0));
        Ok(value.optional()?)
    }

    fn add_metadata(&self, key: &str, value: &str) -> Result<(), DatabaseError> {
        let insert = "INSERT INTO _experiment_metadata (key, value) VALUES (?, ?)";
        self.connection.execute(insert, [key, value])?;
        Ok(())
    }
}

impl Database for Sqlite {
    fn tables(&mut self) -> Result<Vec<Found>, DatabaseError> {
        let names: Vec<String> = self
            .connection
            .prepare("SELECT name FROM sqlite_master")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        names
            .into_iter()
            .map(|name| {
                let schema = self.metadata(&format!("table_{name}"))?;
                let schema = schema.and_then(|text| described(&text));
                Ok((name, schema))
            })
            .collect()
    }

    fn start_time(&mut self, start_s: u64) -> Result<u64, DatabaseError> {
        if let Some(start) = self.metadata("start_time")?.and_then(|s| s.parse().ok()) {
            return Ok(start);
        }
        self.add_metadata("start_time", &start_s.to_string())?;
        Ok(start_s)
    }

    fn sender(&mut self, sender: &Sender<'_>) -> Result<i64, DatabaseError> {
        if let Some(id) = self.known_sender(sender.domain, sender.name)? {
            return Ok(id);
        }
        // The same name in another domain of this file is another sender.
        let whole = format!("{}@{}", sender.name, sender.domain);
        let mut id: Option<i64> = None;
        for name in [sender.name, whole.as_str()] {
            let insert = "INSERT INTO _senders (name, id) SELECT ?1, 1 + coalesce(max(id), 0) FROM _senders \
                WHERE true ON CONFLICT (name) DO NOTHING RETURNING id";
            let new = self.connection.query_row(insert, [name], |row| row.get(0));
            id = new.optional()?;
            if id.is_some() {
                break;
            }
            // A file of OML's has senders that only it knows: they are of this domain.
            let orphan = "SELECT id FROM _senders WHERE name = ? AND id NOT IN (SELECT id FROM _dhow_senders)";
            let orphan = self.connection.query_row(orphan, [name], |row| row.get(0));
            id = orphan.optional()?;
            if id.is_some() {
                break;
            }
        }
        let id = id.ok_or_else(|| sender.taken())?;
        let insert =
            "INSERT INTO _dhow_senders (id, domain, name, app, start_time) VALUES (?, ?, ?, ?, ?)";
        let start_s = i64::try_from(sender.start_s).unwrap_or(i64::MAX);
        self.connection.execute(
            insert,
            params![id, sender.domain, sender.name, sender.app, start_s],
        )?;
        Ok(id)
    }

    fn known_sender(&mut self, domain: &str, name: &str) -> Result<Option<i64>, DatabaseError> {
        let known = "SELECT id FROM _dhow_senders WHERE domain = ? AND name = ?";
        let mut known = self.connection.prepare_cached(known)?;
        let known = known.query_row([domain, name], |row| row.get(0));
        Ok(known.optional()?)
    }

    fn create(&mut self, name: &str, index: u8, schema: &Schema) -> Result<(), DatabaseError> {
        let mut create = format!(
            "CREATE TABLE \"{name}\" (oml_tuple_id INTEGER PRIMARY KEY, oml_sender_id INTEGER, oml_seq INTEGER, oml_ts_client REAL, oml_ts_server REAL"
        );
        for field in schema.fields() {
            create.push_str(&format!(", \"{}\" {}", field.name, column_type(field.kind)));
        }
        create.push(')');
        self.connection.execute(&create, [])?;
        self.add_metadata(&format!("table_{name}"), &format!("{index} {schema}"))
    }

    fn insert(&mut self, insert: &Insert<'_>) -> Result<(), DatabaseError> {
        let columns = COLUMNS + insert.schema.fields().len();
        let at_once = STATEMENT_ROWS.min(VARIABLES_MAX / columns).max(1);
        let (many, rest) = insert.rows.split_at(insert.rows.len() / at_once * at_once);
        if !many.is_empty() {
            let mut statement = self
                .connection
                .prepare_cached(&insert_sql(insert, at_once))?;
            for rows in many.chunks(at_once) {
                execute(&mut statement, insert, rows)?;
            }
        }
        if !rest.is_empty() {
            let mut statement = self.connection.prepare_cached(&insert_sql(insert, 1))?;
            for row in rest.chunks(1) {
                execute(&mut statement, insert, row)?;
            }
        }
        Ok(())
    }

    fn add_loss(
        &mut self,
        sender: i64,
        stream: &str,
        what: &str,
        rows: i64,
    ) -> Result<(), DatabaseError> {
        let add = "INSERT INTO _dhow_loss (oml_sender_id, stream, what, rows) VALUES (?, ?, ?, max(0, ?4)) \
            ON CONFLICT DO UPDATE SET rows = max(0, min(rows + ?4, 9223372036854775807))";
        let mut statement = self.connection.prepare_cached(add)?;
        statement.execute(params![sender, stream, what, rows])?;
        Ok(())
    }

    fn numbers(&mut self, sender: i64, run: &str) -> Result<Vec<(String, Spans)>, DatabaseError> {
        let select =
            "SELECT stream, numbers FROM _dhow_numbers WHERE oml_sender_id = ? AND run = ?";
        let mut select = self.connection.prepare_cached(select)?;
        let rows = select.query_map(params![sender, run], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let rows: Vec<(String, String)> = rows.collect::<Result<_, _>>()?;
        Ok(with_spans(rows.into_iter()))
    }

    fn keep_numbers(
        &mut self,
        sender: i64,
        run: &str,
        stream: &str,
        spans: &Spans,
    ) -> Result<(), DatabaseError> {
        let keep = "INSERT OR REPLACE INTO _dhow_numbers (oml_sender_id, run, stream, numbers) VALUES (?, ?, ?, ?)";
        let mut keep = self.connection.prepare_cached(keep)?;
        keep.execute(params![sender, run, stream, spans.to_string()])?;
        Ok(())
    }

    fn parcel(&mut self, parcel: Parcel) -> Result<Arrival, DatabaseError> {
        let [run, number] = [parcel.run, parcel.number].map(u64::cast_signed);
        let others = "SELECT EXISTS (SELECT 1 FROM _dhow_parcels WHERE run = ?)";
        let mut others = self.connection.prepare_cached(others)?;
        let has_others: bool = others.query_row([run], |row| row.get(0))?;
        let note = "INSERT INTO _dhow_parcels (run, number) VALUES (?, ?) ON CONFLICT DO NOTHING";
        let noted = self
            .connection
            .prepare_cached(note)?
            .execute([run, number])?;
        Ok(Arrival::of(noted == 1, has_others))
    }

    fn write_back(&mut self) {
        // Pages that cannot be written now are written the next time, or when the file is closed.
        let _ = self
            .connection
            .execute_batch("PRAGMA wal_checkpoint(PASSIVE)");
    }

    fn execute(&mut self, sql: &'static str) -> Result<(), DatabaseError> {
        Ok(self.connection.execute_batch(sql)?)
    }
}

/// Columns that every row has beside its values, the tuple's number left to SQLite.
const COLUMNS: usize = 4;

fn insert_sql(insert: &Insert<'_>, rows: usize) -> String {
    let mut sql = format!(
        "INSERT INTO \"{}\" (oml_sender_id, oml_seq, oml_ts_client, oml_ts_server",
        insert.table
    );
    for field in insert.schema.fields() {
        sql.push_str(", \"");
        sql.push_str(&field.name);
        sql.push('"');
    }
    let marks = vec!["?"; COLUMNS + insert.schema.fields().len()].join(",");
    let all = vec![format!("({marks})"); rows].join(",");
    sql.push_str(") VALUES ");
    sql.push_str(&all);
    sql
}

fn execute(
    statement: &mut CachedStatement<'_>,
    insert: &Insert<'_>,
    rows: &[Row<'_>],
) -> Result<(), DatabaseError> {
    let mut place = 0;
    let mut bind = |value: &dyn ToSql| {
        place += 1;
        statement.raw_bind_parameter(place, value)
    };
    for row in rows {
        bind(&insert.sender)?;
        bind(&row.sequence)?;
        bind(&(row.time_s + insert.offset_s))?;
        bind(&insert.server_s)?;
        for cell in row.cells() {
            bind(&Bound(cell))?;
        }
    }
    statement.raw_execute()?;
    Ok(())
}

struct Bound<'a>(Cell<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Cell::Null => ValueRef::Null,
            Cell::Int(number) => ValueRef::Integer(number),
            Cell::Uint(number) => ValueRef::Integer(i64::from_ne_bytes(number.to_ne_bytes())),
            Cell::Double(number) => ValueRef::Real(number),
            Cell::Bool(truth) => ValueRef::Integer(truth.into()),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            Cell::Blob(octets) => ValueRef::Blob(octets),
        }))
    }
}

const fn column_type(kind: Type) -> &'static str {
    match kind {
        Type::Int32 | Type::Bool => "INTEGER",
        Type::Uint32 => "UNSIGNED INTEGER",
        Type::Int64 => "BIGINT",
        Type::Uint64 | Type::Guid => "UNSIGNED BIGINT",
        Type::Double => "REAL",
        Type::Text | Type::Vector(_) => "TEXT",
        Type::Blob => "BLOB",
    }
}

/// Streams with their numbers; those that somebody else has changed to something else are not known.
pub(super) fn with_spans(rows: impl Iterator<Item = (String, String)>) -> Vec<(String, Spans)> {
    rows.filter_map(|(stream, numbers)| Some((stream, numbers.parse().ok()?)))
        .collect()
}

/// Reads `INDEX NAME FIELD:TYPE …`, as the row `table_NAME` of the metadata has it.
pub(super) fn described(text: &str) -> Option<Schema> {
    Schema::parse(text.split_once(' ')?.1).ok()
}
