//! A database on a server: PostgreSQL, in OML's layout. Rows go by COPY. Integers without a sign are whole: NUMERIC(20).

use std::fmt::Write as _;
use std::io::Write as _;

use postgres::{Client, NoTls};

use super::account::Arrival;
use super::database::{Database, DatabaseError, Found, Insert, Sender};
use super::spans::Spans;
use super::sqlite::{described, with_spans};
use crate::omsp::Cell;
use crate::omsp::header::Parcel;
use crate::schema::{Schema, Type};

const LAYOUT: &str = "\
SET client_min_messages TO warning;
CREATE TABLE IF NOT EXISTS _senders (name TEXT PRIMARY KEY, id INTEGER UNIQUE);
CREATE TABLE IF NOT EXISTS _experiment_metadata (oml_tuple_id BIGSERIAL PRIMARY KEY, oml_sender_id INTEGER, oml_seq BIGINT,
    oml_ts_client DOUBLE PRECISION, oml_ts_server DOUBLE PRECISION, \"subject\" TEXT, \"key\" TEXT, \"value\" TEXT);
CREATE TABLE IF NOT EXISTS _dhow_senders (id INTEGER PRIMARY KEY, domain TEXT, name TEXT, app TEXT, start_time BIGINT);
CREATE TABLE IF NOT EXISTS _dhow_loss (oml_sender_id INTEGER, stream TEXT, what TEXT, rows BIGINT,
    PRIMARY KEY (oml_sender_id, stream, what));
CREATE TABLE IF NOT EXISTS _dhow_numbers (oml_sender_id INTEGER, run TEXT, stream TEXT, numbers TEXT,
    PRIMARY KEY (oml_sender_id, run, stream));
CREATE TABLE IF NOT EXISTS _dhow_parcels (run BIGINT, number BIGINT, PRIMARY KEY (run, number));";

/// One connection.
pub struct Postgres {
    client: Client,
    /// The lines of a COPY; the memory is used again for the next one.
    lines: String,
}

impl Postgres {
    /// Connects; the database must be there.
    pub fn open(url: &str) -> Result<Self, DatabaseError> {
        let mut client = Client::connect(url, NoTls)?;
        client.batch_execute("BEGIN")?;
        client.batch_execute(LAYOUT)?;
        Ok(Self {
            client,
            lines: String::new(),
        })
    }

    fn metadata(&mut self, key: &str) -> Result<Option<String>, DatabaseError> {
        let select =
            "SELECT value FROM _experiment_metadata WHERE oml_sender_id IS NULL AND key = $1";
        let row = self.client.query_opt(select, &[&key])?;
        Ok(row.map(|row| row.get(0)))
    }

    fn add_metadata(&mut self, key: &str, value: &str) -> Result<(), DatabaseError> {
        let insert = "INSERT INTO _experiment_metadata (key, value) VALUES ($1, $2)";
        self.client.execute(insert, &[&key, &value])?;
        Ok(())
    }
}

impl Database for Postgres {
    fn tables(&mut self) -> Result<Vec<Found>, DatabaseError> {
        let select =
            "SELECT tablename::text FROM pg_tables WHERE schemaname = ANY (current_schemas(false))";
        let names: Vec<String> = self
            .client
            .query(select, &[])?
            .iter()
            .map(|row| row.get(0))
            .collect();
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
        // The same name in another domain of this database is another sender.
        let whole = format!("{}@{}", sender.name, sender.domain);
        let mut id: Option<i32> = None;
        for name in [sender.name, whole.as_str()] {
            let insert = "INSERT INTO _senders (name, id) SELECT $1, 1 + coalesce(max(id), 0) FROM _senders \
                ON CONFLICT (name) DO NOTHING RETURNING id";
            // A database of OML's has senders that only it knows: they are of this domain.
            let orphan = "SELECT id FROM _senders WHERE name = $1 AND id NOT IN (SELECT id FROM _dhow_senders)";
            let row = match self.client.query_opt(insert, &[&name])? {
                Some(row) => Some(row),
                None => self.client.query_opt(orphan, &[&name])?,
            };
            id = row.map(|row| row.get(0));
            if id.is_some() {
                break;
            }
        }
        let id = id.ok_or_else(|| sender.taken())?;
        let insert = "INSERT INTO _dhow_senders (id, domain, name, app, start_time) VALUES ($1, $2, $3, $4, $5)";
        let start_s = i64::try_from(sender.start_s).unwrap_or(i64::MAX);
        self.client.execute(
            insert,
            &[&id, &sender.domain, &sender.name, &sender.app, &start_s],
        )?;
        Ok(id.into())
    }

    fn known_sender(&mut self, domain: &str, name: &str) -> Result<Option<i64>, DatabaseError> {
        let known = "SELECT id FROM _dhow_senders WHERE domain = $1 AND name = $2";
        let row = self.client.query_opt(known, &[&domain, &name])?;
        Ok(row.map(|row| row.get::<_, i32>(0).into()))
    }

    fn create(&mut self, name: &str, index: u8, schema: &Schema) -> Result<(), DatabaseError> {
        let mut create = format!(
            "CREATE TABLE \"{name}\" (oml_tuple_id BIGSERIAL PRIMARY KEY, oml_sender_id INTEGER, oml_seq BIGINT, \
            oml_ts_client DOUBLE PRECISION, oml_ts_server DOUBLE PRECISION"
        );
        for field in schema.fields() {
            let _ = write!(create, ", \"{}\" {}", field.name, column_type(field.kind));
        }
        create.push(')');
        self.client.batch_execute(&create)?;
        self.add_metadata(&format!("table_{name}"), &format!("{index} {schema}"))
    }

    fn insert(&mut self, insert: &Insert<'_>) -> Result<(), DatabaseError> {
        let mut copy = format!(
            "COPY \"{}\" (oml_sender_id, oml_seq, oml_ts_client, oml_ts_server",
            insert.table
        );
        for field in insert.schema.fields() {
            let _ = write!(copy, ", \"{}\"", field.name);
        }
        copy.push_str(") FROM STDIN");
        self.lines.clear();
        for row in insert.rows {
            let _ = write!(
                self.lines,
                "{}\t{}\t{}\t{}",
                insert.sender,
                row.sequence,
                row.time_s + insert.offset_s,
                insert.server_s
            );
            for cell in row.cells() {
                self.lines.push('\t');
                write_cell(&mut self.lines, cell);
            }
            self.lines.push('\n');
        }
        let mut writer = self.client.copy_in(&copy)?;
        writer.write_all(self.lines.as_bytes())?;
        writer.finish()?;
        Ok(())
    }

    fn add_loss(
        &mut self,
        sender: i64,
        stream: &str,
        what: &str,
        rows: i64,
    ) -> Result<(), DatabaseError> {
        let add = "INSERT INTO _dhow_loss (oml_sender_id, stream, what, rows) VALUES ($1, $2, $3, greatest($4::bigint, 0)) \
            ON CONFLICT (oml_sender_id, stream, what) DO UPDATE \
            SET rows = greatest(least(_dhow_loss.rows::numeric + $4::bigint, 9223372036854775807), 0)::bigint";
        let sender = narrow(sender);
        self.client
            .execute(add, &[&sender, &stream, &what, &rows])?;
        Ok(())
    }

    fn numbers(&mut self, sender: i64, run: &str) -> Result<Vec<(String, Spans)>, DatabaseError> {
        let select =
            "SELECT stream, numbers FROM _dhow_numbers WHERE oml_sender_id = $1 AND run = $2";
        let rows = self.client.query(select, &[&narrow(sender), &run])?;
        let rows = rows.iter().map(|row| (row.get(0), row.get(1)));
        Ok(with_spans(rows))
    }

    fn keep_numbers(
        &mut self,
        sender: i64,
        run: &str,
        stream: &str,
        spans: &Spans,
    ) -> Result<(), DatabaseError> {
        let keep = "INSERT INTO _dhow_numbers (oml_sender_id, run, stream, numbers) VALUES ($1, $2, $3, $4) \
            ON CONFLICT (oml_sender_id, run, stream) DO UPDATE SET numbers = excluded.numbers";
        let numbers = spans.to_string();
        self.client
            .execute(keep, &[&narrow(sender), &run, &stream, &numbers])?;
        Ok(())
    }

    fn parcel(&mut self, parcel: Parcel) -> Result<Arrival, DatabaseError> {
        let [run, number] = [parcel.run, parcel.number].map(u64::cast_signed);
        let others = "SELECT EXISTS (SELECT 1 FROM _dhow_parcels WHERE run = $1)";
        let has_others = self.client.query_one(others, &[&run])?.get(0);
        let note = "INSERT INTO _dhow_parcels (run, number) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let noted = self.client.execute(note, &[&run, &number])?;
        Ok(Arrival::of(noted == 1, has_others))
    }

    fn execute(&mut self, sql: &'static str) -> Result<(), DatabaseError> {
        Ok(self.client.batch_execute(sql)?)
    }
}

/// The number of a sender, as tables of OML have it.
fn narrow(sender: i64) -> i32 {
    i32::try_from(sender).unwrap_or(i32::MAX)
}

/// A cell as COPY's text format has it.
fn write_cell(line: &mut String, cell: Cell<'_>) {
    let _ = match cell {
        Cell::Null => line.write_str("\\N"),
        Cell::Int(number) => write!(line, "{number}"),
        Cell::Uint(number) => write!(line, "{number}"),
        Cell::Double(number) if number.is_infinite() => line.write_str(if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }),
        Cell::Double(number) => write!(line, "{number:?}"),
        Cell::Bool(truth) => line.write_str(if truth { "t" } else { "f" }),
        Cell::Text(text) => {
            for character in text.chars() {
                match character {
                    '\\' => line.push_str("\\\\"),
                    '\t' => line.push_str("\\t"),
                    '\n' => line.push_str("\\n"),
                    '\r' => line.push_str("\\r"),
                    other => line.push(other),
                }
            }
            Ok(())
        }
        Cell::Blob(octets) => {
            line.push_str("\\\\x");
            octets
                .iter()
                .try_for_each(|octet| write!(line, "{octet:02x}"))
        }
    };
}

const fn column_type(kind: Type) -> &'static str {
    match kind {
        Type::Int32 => "INTEGER",
        Type::Uint32 | Type::Int64 => "BIGINT",
        Type::Uint64 | Type::Guid => "NUMERIC(20)",
        Type::Double => "DOUBLE PRECISION",
        Type::Text | Type::Vector(_) => "TEXT",
        Type::Blob => "BYTEA",
        Type::Bool => "BOOLEAN",
    }
}
