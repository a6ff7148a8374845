//! The thread that has the databases: what sessions say becomes rows, committed about once a second.
//!
//! Until a commit has succeeded what it was of is kept here, so that a database that fails (a full disk, a server that
//! restarts) loses nothing: it is opened again, and gets all of it again. Meanwhile nothing is taken from sessions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::account::{Account, StreamName, UNKNOWN_STREAM};
use super::database::{Database, DatabaseError, Insert, Sender};
use super::postgres::Postgres;
use super::session::{Call, Said, SessionKey};
use super::sqlite::Sqlite;
use super::table::Tables;
use super::{Notice, Outcome, Place, Tell};
use crate::omsp::{Batch, Definition, Header, Row, StreamKey};
use crate::schema::Schema;

/// How long rows wait for their commit.
const COMMIT_EVERY: Duration = Duration::from_secs(1);

/// Octets that are kept until a commit.
const KEPT_OCTETS_MAX: usize = 64 << 20;

/// Waits between attempts to reach a database that fails.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// How long a database that fails is waited for when the collector ends.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Databases that are open at once; the next domain is refused.
const DATABASES_MAX: usize = 64;

/// The name of the one database that all domains share.
const SHARED: &str = "";

pub struct Store {
    place: Place,
    stop: Arc<AtomicBool>,
    tell: Tell,
    databases: BTreeMap<String, Shelf>,
    sessions: BTreeMap<SessionKey, Client>,
    account: Account,
    committed: Instant,
    lost: Option<(u64, DatabaseError)>,
}

/// One database, open or not, and what it has not committed.
#[derive(Default)]
struct Shelf {
    open: Option<Open>,
    kept: Vec<Kept>,
    kept_octets: usize,
}

struct Kept {
    session: SessionKey,
    batch: Batch,
    came_s: f64,
}

struct Open {
    database: Box<dyn Database>,
    tables: Tables,
    start_s: Option<u64>,
    senders: BTreeMap<SessionKey, i64>,
    streams: BTreeMap<(SessionKey, StreamKey), Option<String>>,
}

struct Client {
    header: Box<Header>,
    streams: BTreeMap<StreamKey, Definition>,
    /// The newest definition of an index.
    indices: BTreeMap<u8, StreamKey>,
    refused: Arc<AtomicBool>,
    /// It has ended, and goes with the next commit.
    ended: bool,
}

impl Store {
    /// Opens the one database, or looks at the directory.
    pub fn open(place: Place, stop: Arc<AtomicBool>, tell: Tell) -> Result<Self, DatabaseError> {
        let mut store = Self {
            place,
            stop,
            tell,
            databases: BTreeMap::new(),
            sessions: BTreeMap::new(),
            account: Account::default(),
            committed: Instant::now(),
            lost: None,
        };
        match &store.place {
            Place::Directory(directory) => std::fs::create_dir_all(directory)?,
            Place::File(_) | Place::Postgres(_) => {
                let open = store.open_database(SHARED)?;
                store.databases.entry(SHARED.to_owned()).or_default().open = Some(open);
            }
        }
        Ok(store)
    }

    /// Runs until no session is left.
    pub fn run(mut self, calls: &Receiver<Call>) -> Outcome {
        loop {
            let due = COMMIT_EVERY.saturating_sub(self.committed.elapsed());
            match calls.recv_timeout(due) {
                Ok(call) => self.take(call),
                Err(RecvTimeoutError::Timeout) => self.commit_all(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.committed.elapsed() >= COMMIT_EVERY {
                self.commit_all();
            }
        }
        self.commit_all();
        Outcome {
            report: self.account.report(),
            lost: self.lost,
        }
    }

    fn take(&mut self, call: Call) {
        let session = call.session;
        match call.said {
            Said::Begins(header, refused) => self.begin(session, header, refused),
            Said::Ended => {
                if let Some(client) = self.sessions.get_mut(&session) {
                    client.ended = true;
                }
            }
            Said::Came(batch, came_s) => self.came(session, batch, came_s),
        }
    }

    fn shelf_name(&self, domain: &str) -> String {
        match self.place {
            // File systems may make no difference between capitals and small letters, but those that people use here do.
            Place::Directory(_) => domain.to_owned(),
            Place::File(_) | Place::Postgres(_) => SHARED.to_owned(),
        }
    }

    fn begin(&mut self, session: SessionKey, header: Box<Header>, refused: Arc<AtomicBool>) {
        let name = self.shelf_name(&header.domain);
        if !self.databases.contains_key(&name) {
            self.make_room();
            let opened = match self.databases.len() {
                0..DATABASES_MAX => self.open_database(&name),
                _ => Err(DatabaseError::new("too many domains are in use")),
            };
            match opened {
                Ok(open) => {
                    let shelf = Shelf {
                        open: Some(open),
                        ..Shelf::default()
                    };
                    self.databases.insert(name, shelf);
                }
                // A domain that cannot be stored at all must not hold up the others.
                Err(error) => {
                    refused.store(true, Ordering::Relaxed);
                    (self.tell)(Notice::Away {
                        reason: format!("the domain '{}' cannot be stored: {error}", header.domain),
                    });
                    return;
                }
            }
        }
        let client = Client {
            header,
            streams: BTreeMap::new(),
            indices: BTreeMap::new(),
            refused,
            ended: false,
        };
        self.sessions.insert(session, client);
    }

    /// Closes databases whose clients are gone, where there are many.
    fn make_room(&mut self) {
        if self.databases.len() < DATABASES_MAX {
            return;
        }
        self.commit_all();
        let used: Vec<String> = self
            .sessions
            .values()
            .map(|client| self.shelf_name(&client.header.domain))
            .collect();
        self.databases
            .retain(|name, shelf| !shelf.kept.is_empty() || used.contains(name));
    }

    fn came(&mut self, session: SessionKey, batch: Batch, came_s: f64) {
        let Some(client) = self.sessions.get_mut(&session) else {
            return;
        };
        for definition in &batch.definitions {
            client.indices.insert(definition.index, definition.stream);
            client.streams.insert(definition.stream, definition.clone());
        }
        client.count(&batch, &mut self.account);
        let name = self.shelf_name(&self.domain(session));
        let kept = Kept {
            session,
            batch,
            came_s,
        };
        let Some(shelf) = self.databases.get_mut(&name) else {
            return;
        };
        let octets = kept.batch.rows.octets();
        let stored = shelf
            .open
            .as_mut()
            .map(|open| open.store(&kept, &self.sessions, &mut self.account));
        shelf.kept.push(kept);
        shelf.kept_octets += octets;
        let is_full = shelf.kept_octets >= KEPT_OCTETS_MAX;
        match stored {
            Some(Ok(())) if is_full => self.commit(&name),
            Some(Ok(())) => {}
            Some(Err(error)) => self.recover(&name, error),
            None => self.recover(&name, DatabaseError::new("it is closed")),
        }
    }

    fn domain(&self, session: SessionKey) -> String {
        let client = self.sessions.get(&session);
        client.map_or_else(String::new, |client| client.header.domain.clone())
    }

    fn commit_all(&mut self) {
        let names: Vec<String> = self.databases.keys().cloned().collect();
        for name in names {
            self.commit(&name);
        }
        self.sessions.retain(|_, client| !client.ended);
        self.committed = Instant::now();
    }

    fn commit(&mut self, name: &str) {
        let is_shared = !matches!(self.place, Place::Directory(_));
        let is_of = |domain: &str| is_shared || domain == name;
        let Some(shelf) = self.databases.get_mut(name) else {
            return;
        };
        if shelf.kept.is_empty() && self.account.untold(is_of).next().is_none() {
            return;
        }
        let outcome = match &mut shelf.open {
            Some(open) => open.commit(&self.account, is_of, &self.sessions),
            None => Err(DatabaseError::new("it is closed")),
        };
        match outcome {
            Ok(()) => {
                shelf.kept.clear();
                shelf.kept_octets = 0;
                if let Some(open) = &mut shelf.open {
                    let sessions = &self.sessions;
                    let is_here = |key: &SessionKey| sessions.get(key).is_some_and(|c| !c.ended);
                    open.senders.retain(|key, _| is_here(key));
                    open.streams.retain(|(key, _), _| is_here(key));
                }
                self.account.told(is_of);
            }
            Err(error) => self.recover(name, error),
        }
    }

    /// Opens a database again until it has taken what is kept for it. Nothing is taken from sessions meanwhile.
    fn recover(&mut self, name: &str, mut error: DatabaseError) {
        let mut wait = RETRY_MIN;
        let mut stopped: Option<Instant> = None;
        (self.tell)(Notice::Away {
            reason: error.to_string(),
        });
        loop {
            // The connection and whatever it had begun.
            if let Some(shelf) = self.databases.get_mut(name) {
                shelf.open = None;
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(RETRY_MAX);
            match self.again(name) {
                Ok(()) => {
                    (self.tell)(Notice::Back);
                    return;
                }
                Err(new) => error = new,
            }
            if self.stop.load(Ordering::Relaxed) {
                let since = stopped.get_or_insert_with(Instant::now);
                if since.elapsed() >= END_PATIENCE {
                    break;
                }
                wait = RETRY_MIN;
            }
        }
        self.give_up(name, error);
    }

    /// Everything that is kept, once more, and its commit.
    fn again(&mut self, name: &str) -> Result<(), DatabaseError> {
        let mut open = self.open_database(name)?;
        let is_shared = !matches!(self.place, Place::Directory(_));
        let is_of = |domain: &str| is_shared || domain == name;
        let Some(shelf) = self.databases.get_mut(name) else {
            return Ok(());
        };
        // What cannot have a table was counted the first time.
        let mut counted = Account::default();
        for kept in &shelf.kept {
            open.store(kept, &self.sessions, &mut counted)?;
        }
        open.commit(&self.account, is_of, &self.sessions)?;
        self.account.told(is_of);
        shelf.kept.clear();
        shelf.kept_octets = 0;
        shelf.open = Some(open);
        Ok(())
    }

    /// The collector ends without its database.
    fn give_up(&mut self, name: &str, error: DatabaseError) {
        let Some(shelf) = self.databases.remove(name) else {
            return;
        };
        let rows: usize = shelf.kept.iter().map(|kept| kept.batch.rows.len()).sum();
        let rows = u64::try_from(rows).unwrap_or_default();
        let before = self.lost.as_ref().map_or(0, |(rows, _)| *rows);
        self.lost = Some((before + rows, error));
        for client in self.sessions.values() {
            client.refused.store(true, Ordering::Relaxed);
        }
    }

    fn open_database(&self, name: &str) -> Result<Open, DatabaseError> {
        let mut database: Box<dyn Database> = match &self.place {
            Place::File(path) => Box::new(Sqlite::open(path)?),
            Place::Directory(directory) => {
                let path: PathBuf = directory.join(format!("{name}.sq3"));
                Box::new(Sqlite::open(&path)?)
            }
            Place::Postgres(url) => Box::new(Postgres::open(url)?),
        };
        Ok(Open {
            tables: Tables::of(database.as_mut())?,
            database,
            start_s: None,
            senders: BTreeMap::new(),
            streams: BTreeMap::new(),
        })
    }
}

impl Client {
    fn stream_name(&self, stream: &str) -> StreamName {
        StreamName {
            domain: self.header.domain.clone(),
            sender: self.header.sender.clone(),
            stream: stream.to_owned(),
        }
    }

    /// Counts what came, once, whatever becomes of it later.
    fn count(&self, batch: &Batch, account: &mut Account) {
        for (stream, rows) in by_stream(batch) {
            if let Some(definition) = self.streams.get(&stream) {
                let name = self.stream_name(definition.schema.name());
                if definition.schema == Schema::metadata() {
                    account.unnumbered(&name, u64::try_from(rows.len()).unwrap_or_default());
                } else {
                    account.rows(&name, rows.iter().map(|row| row.sequence));
                }
            }
        }
        account.refused(&batch.refused, |index| {
            let definition = index
                .and_then(|index| self.indices.get(&index))
                .and_then(|stream| self.streams.get(stream));
            self.stream_name(definition.map_or(UNKNOWN_STREAM, |d| d.schema.name()))
        });
    }
}

/// Rows by stream: a statement stores many of one table.
fn by_stream(batch: &Batch) -> BTreeMap<StreamKey, Vec<Row<'_>>> {
    let mut streams: BTreeMap<StreamKey, Vec<Row<'_>>> = BTreeMap::new();
    for row in batch.rows.iter() {
        streams.entry(row.stream).or_default().push(row);
    }
    streams
}

impl Open {
    fn store(
        &mut self,
        kept: &Kept,
        sessions: &BTreeMap<SessionKey, Client>,
        account: &mut Account,
    ) -> Result<(), DatabaseError> {
        let Some(client) = sessions.get(&kept.session) else {
            return Ok(());
        };
        let sender = self.sender(kept.session, client)?;
        let start_s = match self.start_s {
            Some(start_s) => start_s,
            None => {
                let start_s = self.database.start_time(client.header.start_s)?;
                *self.start_s.insert(start_s)
            }
        };
        for definition in &kept.batch.definitions {
            self.table(kept.session, definition)?;
        }
        for (stream, rows) in by_stream(&kept.batch) {
            let Some(definition) = client.streams.get(&stream) else {
                continue;
            };
            let Some(table) = self.table(kept.session, definition)? else {
                let name = client.stream_name(definition.schema.name());
                account.unstored(&name, u64::try_from(rows.len()).unwrap_or_default());
                continue;
            };
            self.database.insert(&Insert {
                table: &table,
                schema: &definition.schema,
                sender,
                offset_s: difference_s(client.header.start_s, start_s),
                server_s: kept.came_s - difference_s(start_s, 0),
                rows: &rows,
            })?;
        }
        Ok(())
    }

    fn sender(&mut self, session: SessionKey, client: &Client) -> Result<i64, DatabaseError> {
        if let Some(sender) = self.senders.get(&session) {
            return Ok(*sender);
        }
        let sender = self.database.sender(&Sender {
            domain: &client.header.domain,
            name: &client.header.sender,
            app: &client.header.app,
            start_s: client.header.start_s,
        })?;
        self.senders.insert(session, sender);
        Ok(sender)
    }

    fn table(
        &mut self,
        session: SessionKey,
        definition: &Definition,
    ) -> Result<Option<String>, DatabaseError> {
        let key = (session, definition.stream);
        if let Some(table) = self.streams.get(&key) {
            return Ok(table.clone());
        }
        let database = self.database.as_mut();
        let table = self
            .tables
            .for_stream(database, definition.index, &definition.schema)?;
        self.streams.insert(key, table.clone());
        Ok(table)
    }

    /// Tells the database what was refused and what is missing, and makes all durable.
    fn commit(
        &mut self,
        account: &Account,
        is_of: impl Fn(&str) -> bool,
        sessions: &BTreeMap<SessionKey, Client>,
    ) -> Result<(), DatabaseError> {
        for (name, report) in account.untold(is_of) {
            let session = sessions.iter().find(|(_, client)| {
                client.header.sender == name.sender && client.header.domain == name.domain
            });
            let Some((session, client)) = session else {
                continue;
            };
            let sender = self.sender(*session, client)?;
            for (what, rows) in report.lines() {
                self.database.add_loss(sender, &name.stream, &what, rows)?;
            }
        }
        self.database.commit()
    }
}

/// Seconds from one time to the other.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "start times are below 2^53"
)]
fn difference_s(later_s: u64, earlier_s: u64) -> f64 {
    later_s as f64 - earlier_s as f64
}
