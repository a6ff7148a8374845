//! One database, open or not, and what it has not committed.

use std::collections::{BTreeMap, BTreeSet};

use super::account::{Account, Arrival, StreamName, UNKNOWN_STREAM};
use super::database::{Database, DatabaseError, Insert, Sender};
use super::session::SessionKey;
use super::table::Tables;
use super::{Notice, Tell};
use crate::omsp::header::Parcel;
use crate::omsp::{Batch, Definition, Header, Reason, Row, StreamKey};
use crate::schema::Schema;

/// What a database said to something: outside that it is away, inside that it does not take just this.
pub type Tried<T> = Result<Result<T, DatabaseError>, DatabaseError>;

/// Sessions that are here.
pub type Clients = BTreeMap<SessionKey, Client>;

/// One database, open or not, and what it has not committed.
#[derive(Default)]
pub struct Shelf {
    pub open: Option<Open>,
    pub kept: Vec<Kept>,
    pub kept_octets: usize,
    /// The transaction holds something beside rows.
    pub is_begun: bool,
}

impl Shelf {
    /// Nothing waits any more.
    pub fn committed(&mut self) {
        self.kept.clear();
        self.kept_octets = 0;
        self.is_begun = false;
    }
}

/// Rows that wait for their commit.
pub struct Kept {
    session: SessionKey,
    batch: Batch,
    came_s: f64,
    /// The whole parcel that it is, if it is one.
    parcel: Option<Parcel>,
    /// The account knows whether the parcel came before.
    is_judged: bool,
    /// Streams of it that the database does not take, which the account knows.
    unstored: BTreeSet<StreamKey>,
}

/// A client, as the databases need it.
pub struct Client {
    pub header: Box<Header>,
    pub streams: BTreeMap<StreamKey, Definition>,
    /// The newest definition of an index.
    pub indices: BTreeMap<u8, StreamKey>,
    /// The number of the last row of each stream.
    pub last: BTreeMap<String, Option<i64>>,
    /// Nothing of it can be stored.
    pub is_refused: bool,
    /// It has ended, and goes with the next commit.
    pub ended: bool,
}

/// A database with its transaction.
pub struct Open {
    database: Box<dyn Database>,
    tables: Tables,
    start_s: Option<u64>,
    senders: BTreeMap<SessionKey, i64>,
    streams: BTreeMap<(SessionKey, StreamKey), Option<String>>,
    /// Streams of which it was said that rows are refused.
    told: BTreeSet<(SessionKey, StreamKey)>,
    tell: Tell,
}

impl Client {
    fn stream_name(&self, stream: &str) -> StreamName {
        StreamName {
            domain: self.header.domain.clone(),
            sender: self.header.sender.clone(),
            stream: stream.to_owned(),
        }
    }

    /// Takes note of the streams that a batch defines, and counts its rows, once, whatever becomes of them later.
    pub fn count(&mut self, batch: &Batch, parcel: Option<Parcel>, account: &mut Account) {
        for definition in &batch.definitions {
            self.indices.insert(definition.index, definition.stream);
            self.streams.insert(definition.stream, definition.clone());
        }
        for (stream, rows) in by_stream(batch) {
            if let Some(definition) = self.streams.get(&stream) {
                let name = self.stream_name(definition.schema.name());
                // What parcels leave out may come with the next.
                if definition.schema == Schema::metadata() || parcel.is_some() {
                    account.unnumbered(&name, count_of(&rows));
                } else {
                    let last = self.last.entry(name.stream.clone()).or_default();
                    account.rows(&name, last, rows.iter().map(|row| row.sequence));
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

impl Kept {
    pub const fn new(
        session: SessionKey,
        batch: Batch,
        came_s: f64,
        parcel: Option<Parcel>,
    ) -> Self {
        Self {
            session,
            batch,
            came_s,
            parcel,
            is_judged: false,
            unstored: BTreeSet::new(),
        }
    }

    /// Memory that it takes, octets.
    pub fn octets(&self) -> usize {
        let definitions = self.batch.definitions.iter();
        let definitions: usize = definitions.map(|d| d.schema.octets()).sum();
        self.batch.rows.octets() + definitions
    }

    /// Tells the account that none of it is stored, and says how many rows those are.
    pub fn give_up(&self, reason: Reason, clients: &Clients, account: &mut Account) -> u64 {
        let Some(client) = clients.get(&self.session) else {
            return 0;
        };
        let mut all = 0;
        for (stream, rows) in by_stream(&self.batch) {
            if let Some(definition) = client.streams.get(&stream)
                && !self.unstored.contains(&stream)
            {
                let name = client.stream_name(definition.schema.name());
                account.unstored(&name, reason, count_of(&rows));
                all += count_of(&rows);
            }
        }
        all
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

fn count_of(rows: &[Row<'_>]) -> u64 {
    u64::try_from(rows.len()).unwrap_or(u64::MAX)
}

impl Open {
    pub fn new(mut database: Box<dyn Database>, tell: Tell) -> Result<Self, DatabaseError> {
        Ok(Self {
            tables: Tables::of(database.as_mut())?,
            database,
            start_s: None,
            senders: BTreeMap::new(),
            streams: BTreeMap::new(),
            told: BTreeSet::new(),
            tell,
        })
    }

    /// Stores what is kept; what the database does not take is counted.
    ///
    /// # Errors
    /// It is away.
    pub fn store(
        &mut self,
        kept: &mut Kept,
        clients: &Clients,
        account: &mut Account,
    ) -> Result<(), DatabaseError> {
        let Some(client) = clients.get(&kept.session) else {
            return Ok(());
        };
        let (sender, start_s) = match self.begin(kept.session, client)? {
            Ok(begun) => begun,
            Err(error) => {
                self.refuse(kept, client, None, &error, account);
                return Ok(());
            }
        };
        if self.is_again(kept, client, account)? {
            return Ok(());
        }
        for definition in &kept.batch.definitions {
            self.table(kept.session, definition)?;
        }
        let mut refused = Vec::new();
        for (stream, rows) in by_stream(&kept.batch) {
            // What was refused and counted so once stays refused, when all is stored again after the database was away.
            let known = client.streams.get(&stream);
            let Some(definition) = known.filter(|_| !kept.unstored.contains(&stream)) else {
                continue;
            };
            let Some(table) = self.table(kept.session, definition)? else {
                let error = DatabaseError::refused("it cannot have a table");
                refused.push((stream, error));
                continue;
            };
            let insert = Insert {
                table: &table,
                schema: &definition.schema,
                sender,
                offset_s: difference_s(client.header.start_s, start_s),
                server_s: kept.came_s - difference_s(start_s, 0),
                rows: &rows,
            };
            if let Err(error) = self.tried(|open| open.database.insert(&insert))? {
                refused.push((stream, error));
            }
        }
        for (stream, error) in refused {
            self.refuse(kept, client, Some(stream), &error, account);
        }
        Ok(())
    }

    /// Whether what is kept is a parcel that is stored already. It is noted in the same transaction as its rows.
    fn is_again(
        &mut self,
        kept: &mut Kept,
        client: &Client,
        account: &mut Account,
    ) -> Result<bool, DatabaseError> {
        let Some(parcel) = kept.parcel else {
            return Ok(false);
        };
        let Ok(arrival) = self.tried(|open| open.database.parcel(parcel))? else {
            return Ok(false);
        };
        // One that was judged and is there was committed just as its database went.
        if !std::mem::replace(&mut kept.is_judged, true) {
            for (stream, rows) in by_stream(&kept.batch) {
                let Some(definition) = client.streams.get(&stream) else {
                    continue;
                };
                let name = client.stream_name(definition.schema.name());
                if arrival == Arrival::Again {
                    account.again(&name, count_of(&rows));
                } else if definition.schema != Schema::metadata() {
                    account.parcel(parcel, arrival, &name, rows.iter().map(|row| row.sequence));
                }
            }
        }
        Ok(arrival == Arrival::Again)
    }

    /// Counts what is kept of one stream, or of all, as refused, once.
    fn refuse(
        &mut self,
        kept: &mut Kept,
        client: &Client,
        only: Option<StreamKey>,
        error: &DatabaseError,
        account: &mut Account,
    ) {
        for (stream, rows) in by_stream(&kept.batch) {
            let is_meant = only.is_none_or(|only| only == stream);
            let Some(definition) = client.streams.get(&stream).filter(|_| is_meant) else {
                continue;
            };
            if kept.unstored.insert(stream) {
                let name = client.stream_name(definition.schema.name());
                account.unstored(&name, Reason::NoTable, count_of(&rows));
                if self.told.insert((kept.session, stream)) {
                    (self.tell)(Notice::Unstored {
                        stream: name.stream,
                        sender: name.sender,
                        reason: error.to_string(),
                    });
                }
            }
        }
    }

    /// Does something as a whole or not at all.
    fn tried<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, DatabaseError>) -> Tried<T> {
        self.database.execute("SAVEPOINT whole")?;
        match work(self) {
            Ok(done) => {
                self.database.execute("RELEASE SAVEPOINT whole")?;
                Ok(Ok(done))
            }
            Err(error) if error.is_away() => Err(error),
            Err(error) => {
                let undo = "ROLLBACK TO SAVEPOINT whole; RELEASE SAVEPOINT whole";
                self.database.execute(undo)?;
                Ok(Err(error))
            }
        }
    }

    /// The number of a session's sender, and the start time that the database counts from.
    pub fn begin(&mut self, session: SessionKey, client: &Client) -> Tried<(i64, u64)> {
        let start_s = match self.start_s {
            Some(start_s) => start_s,
            None => match self.tried(|open| open.database.start_time(client.header.start_s))? {
                Ok(start_s) => *self.start_s.insert(start_s),
                Err(error) => return Ok(Err(error)),
            },
        };
        if let Some(sender) = self.senders.get(&session) {
            return Ok(Ok((*sender, start_s)));
        }
        let sender = Sender {
            domain: &client.header.domain,
            name: &client.header.sender,
            app: &client.header.app,
            start_s: client.header.start_s,
        };
        Ok(match self.tried(|open| open.database.sender(&sender))? {
            Ok(sender) => {
                self.senders.insert(session, sender);
                Ok((sender, start_s))
            }
            Err(error) => Err(error),
        })
    }

    /// The table of a stream; `None` where it can have none.
    fn table(
        &mut self,
        session: SessionKey,
        definition: &Definition,
    ) -> Result<Option<String>, DatabaseError> {
        let key = (session, definition.stream);
        if let Some(table) = self.streams.get(&key) {
            return Ok(table.clone());
        }
        let (index, schema) = (definition.index, &definition.schema);
        let made = self.tried(|open| {
            open.tables
                .for_stream(open.database.as_mut(), index, schema)
        })?;
        let table = made.unwrap_or_default();
        self.streams.insert(key, table.clone());
        Ok(table)
    }

    /// Tells the database what was refused and what is missing, and makes all durable.
    pub fn commit(
        &mut self,
        account: &Account,
        is_of: impl Fn(&str) -> bool,
        clients: &Clients,
    ) -> Result<(), DatabaseError> {
        for (name, report) in account.untold(is_of) {
            let client = clients.iter().find(|(_, client)| {
                client.header.sender == name.sender && client.header.domain == name.domain
            });
            let sender = match client {
                Some((session, client)) => self.begin(*session, client)?.map(|(sender, _)| sender),
                // Its parcels are stored, and it was known then.
                None => {
                    self.tried(|open| open.database.known_sender(&name.domain, &name.sender))?
                }
            };
            // A sender that is refused has no number; the collector's own report has what was its.
            let Ok(sender) = sender else { continue };
            let told = self.tried(|open| {
                let mut lines = report.lines().into_iter();
                lines.try_for_each(|(what, rows)| {
                    open.database.add_loss(sender, &name.stream, &what, rows)
                })
            })?;
            if let Err(error) = told {
                (self.tell)(Notice::Unstored {
                    stream: "_dhow_loss".to_owned(),
                    sender: name.sender.clone(),
                    reason: error.to_string(),
                });
            }
        }
        self.database.execute("COMMIT; BEGIN")
    }

    /// Forgets the sessions that are not here any more.
    pub fn forget(&mut self, is_here: impl Fn(&SessionKey) -> bool) {
        self.senders.retain(|key, _| is_here(key));
        self.streams.retain(|(key, _), _| is_here(key));
        self.told.retain(|(key, _)| is_here(key));
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
