//! One database, open or not, and the rows that it has not committed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::account::{Account, Arrival, StreamName, UNKNOWN_STREAM};
use super::budget::Held;
use super::database::{Database, DatabaseError, Insert, Sender};
use super::numbers::{Beginning, Difference, RunName, Width};
use super::session::SessionKey;
use super::spans::Spans;
use super::table::Tables;
use super::{Notice, Tell};
use crate::omsp::header::MADE;
use crate::omsp::header::Parcel;
use crate::omsp::{Batch, Cell, Definition, Encoding, Header, Reason, Row, StreamKey};
use crate::schema::Schema;

/// Senders whose numbers are known without asking the database.
const SENDERS_MAX: usize = 4096;

/// The outcome of a request to a database: the outer error says that it is away, the inner one that it refuses just this
/// request.
pub type Tried<T> = Result<Result<T, DatabaseError>, DatabaseError>;

/// Sessions that are here.
pub type Clients = BTreeMap<SessionKey, Client>;

/// One database, open or not, and the rows that it has not committed.
pub struct OpenDatabase {
    pub open: Option<Open>,
    kept: Vec<Kept>,
    /// Memory that those take.
    kept_octets: usize,
    /// Whether the transaction holds something beside rows.
    is_begun: bool,
    /// The time at which the database was last asked.
    used: Instant,
    /// Whether something was committed since all was written back.
    is_behind: bool,
}

impl OpenDatabase {
    /// The state of a database that was opened just now.
    pub fn new(open: Open) -> Self {
        Self {
            open: Some(open),
            kept: Vec::new(),
            kept_octets: 0,
            is_begun: true,
            used: Instant::now(),
            is_behind: true,
        }
    }

    /// Has what is committed written back, where there is something new.
    pub fn write_back(&mut self) {
        if self.is_behind
            && self.is_settled()
            && let Some(open) = &mut self.open
        {
            open.database.write_back();
            self.is_behind = false;
        }
    }

    /// A client begins.
    pub fn begin(&mut self) {
        self.is_begun = true;
        self.used = Instant::now();
    }

    /// Nothing was asked of it for so long, and all is committed.
    pub fn is_idle_for(&self, patience: Duration) -> bool {
        self.is_settled() && self.used.elapsed() >= patience
    }

    /// Nothing waits any more.
    pub fn committed(&mut self) {
        self.kept = Vec::new();
        self.kept_octets = 0;
        self.is_begun = false;
        self.is_behind = true;
    }

    /// Keeps rows that wait for a commit.
    pub fn keep(&mut self, kept: Kept) {
        self.kept_octets += kept.held.octets();
        self.kept.push(kept);
        self.used = Instant::now();
    }

    /// All that waits for a commit.
    pub fn kept(&mut self) -> &mut [Kept] {
        &mut self.kept
    }

    /// Memory that waits for a commit, octets.
    pub const fn octets(&self) -> usize {
        self.kept_octets
    }

    /// No rows wait for a commit.
    pub const fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Nothing waits for a commit.
    pub const fn is_settled(&self) -> bool {
        self.is_empty() && !self.is_begun
    }
}

/// Rows that wait for their commit.
pub struct Kept {
    batch: Batch,
    came_s: f64,
    standing: Standing,
    /// The memory that they take.
    held: Held,
}

/// The origin of the rows kept, and their state in the account.
struct Standing {
    session: SessionKey,
    /// The whole parcel that it is, if it is one.
    parcel: Option<Parcel>,
    /// Whether the account knows whether the parcel came before.
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
    /// The name of its run, to which the numbers of its rows belong.
    pub run: RunName,
    /// Whether nothing of it can be stored.
    pub is_refused: bool,
    /// Whether the client has ended, and goes with the next commit.
    pub ended: bool,
}

/// A database with its transaction.
pub struct Open {
    database: Box<dyn Database>,
    tables: Tables,
    start_s: Option<u64>,
    /// Numbers of senders, by domain and name.
    senders: BTreeMap<(String, String), i64>,
    streams: BTreeMap<(SessionKey, StreamKey), Option<String>>,
    /// Streams of which it was said that rows are refused.
    told: BTreeSet<(SessionKey, StreamKey)>,
    tell: Tell,
}

impl Client {
    fn stream_name(&self, stream: &str) -> StreamName {
        self.run.stream(stream)
    }

    /// The beginning of its numbers: a client that names its run counts from 1.
    const fn beginning(&self) -> Beginning {
        match self.header.run {
            Some(_) => Beginning::One,
            None => Beginning::Anywhere,
        }
    }

    const fn width(&self) -> Width {
        match self.header.content {
            Encoding::Text => Width::Whole,
            Encoding::Binary => Width::Bits32,
        }
    }

    /// Takes note of the streams that a batch defines, and counts its rows, once, whatever becomes of them later.
    pub fn count(&mut self, batch: &Batch, parcel: Option<Parcel>, account: &mut Account) {
        for definition in &batch.definitions {
            self.indices.insert(definition.index, definition.stream);
            self.streams.insert(definition.stream, definition.clone());
        }
        for (stream, rows) in by_stream(batch) {
            let Some(definition) = self.streams.get(&stream) else {
                continue;
            };
            let name = definition.schema.name();
            if definition.schema == Schema::metadata() {
                account.unnumbered(&self.stream_name(name), count_of(&rows));
                self.take_words(&rows, account);
            } else if parcel.is_some() || self.is_refused {
                // The database tells at the time of storing if the parcel was stored before.
                account.unnumbered(&self.stream_name(name), count_of(&rows));
            } else {
                let numbers = rows.iter().map(|row| row.sequence);
                let (beginning, width) = (self.beginning(), self.width());
                account.rows(&self.run, name, beginning, width, numbers);
            }
        }
        account.refused(&batch.refused, |index| {
            let definition = index
                .and_then(|index| self.indices.get(&index))
                .and_then(|stream| self.streams.get(stream));
            self.stream_name(definition.map_or(UNKNOWN_STREAM, |d| d.schema.name()))
        });
    }

    /// A client that names its run says at its end how many rows it made of each stream, since those that were dropped last are in no gap.
    fn take_words(&self, rows: &[Row<'_>], account: &mut Account) {
        let has_run = self.header.run.is_some() || self.header.parcel.is_some();
        if !has_run || self.is_refused {
            return;
        }
        for row in rows {
            let mut cells = row.cells();
            let cells = (cells.next(), cells.next(), cells.next());
            if let (Some(Cell::Text(subject)), Some(Cell::Text(MADE)), Some(Cell::Text(value))) =
                cells
                && let (Some(stream), Ok(last)) = (subject.strip_prefix('.'), value.parse())
                && self.streams.values().any(|it| it.schema.name() == stream)
            {
                account.made(&self.run, stream, last);
            }
        }
    }
}

impl Kept {
    pub const fn new(
        session: SessionKey,
        batch: Batch,
        came_s: f64,
        parcel: Option<Parcel>,
        held: Held,
    ) -> Self {
        Self {
            batch,
            came_s,
            held,
            standing: Standing {
                session,
                parcel,
                is_judged: false,
                unstored: BTreeSet::new(),
            },
        }
    }

    /// Tells the account that the collector ends with none of it stored, and says how many rows are lost: those of a parcel are still with
    /// its giver.
    pub fn end(&self, clients: &Clients, account: &mut Account) -> u64 {
        if self.standing.parcel.is_none() {
            return self.give_up(Reason::Lost, clients, account);
        }
        if let Some(client) = clients.get(&self.standing.session) {
            for (stream, rows) in by_stream(&self.batch) {
                if let Some(definition) = client.streams.get(&stream)
                    && !self.standing.unstored.contains(&stream)
                {
                    let name = client.stream_name(definition.schema.name());
                    account.withdrawn(&name, count_of(&rows));
                }
            }
        }
        0
    }

    /// Tells the account that none of it is stored, and says how many rows those are.
    pub fn give_up(&self, reason: Reason, clients: &Clients, account: &mut Account) -> u64 {
        let Some(client) = clients.get(&self.standing.session) else {
            return 0;
        };
        let mut all = 0;
        for (stream, rows) in by_stream(&self.batch) {
            if let Some(definition) = client.streams.get(&stream)
                && !self.standing.unstored.contains(&stream)
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
type Streams<'a> = BTreeMap<StreamKey, Vec<Row<'a>>>;

fn by_stream(batch: &Batch) -> Streams<'_> {
    let mut streams = Streams::new();
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
        let Kept {
            batch,
            came_s,
            standing,
            ..
        } = kept;
        let Some(client) = clients.get(&standing.session) else {
            return Ok(());
        };
        let streams = by_stream(batch);
        let (sender, start_s) = match self.begin(client)? {
            Ok(begun) => begun,
            Err(error) => {
                for (stream, rows) in &streams {
                    self.refuse(standing, client, *stream, rows, &error, account);
                }
                return Ok(());
            }
        };
        if self.is_again(standing, client, &streams, account)? {
            return Ok(());
        }
        // A client's streams have tables before they have rows, as those of OML have. Each parcel tells of all streams again.
        if standing.parcel.is_none() {
            for definition in &batch.definitions {
                self.table(standing.session, definition)?;
            }
        }
        for (stream, rows) in &streams {
            // A stream that was refused once, and counted as refused, stays refused when all is stored again after the
            // database was away.
            let known = client.streams.get(stream);
            let Some(definition) = known.filter(|_| !standing.unstored.contains(stream)) else {
                continue;
            };
            let outcome = match self.table(standing.session, definition)? {
                Some(table) => {
                    let insert = Insert {
                        table: &table,
                        schema: &definition.schema,
                        sender,
                        offset_s: difference_s(client.header.start_s, start_s),
                        server_s: *came_s - difference_s(start_s, 0),
                        rows,
                    };
                    self.tried(|open| open.database.insert(&insert))?
                }
                None => Err(DatabaseError::refused("it cannot have a table")),
            };
            if let Err(error) = outcome {
                self.refuse(standing, client, *stream, rows, &error, account);
            }
        }
        Ok(())
    }

    /// True if the rows kept are a parcel that is stored already. The parcel is noted in the same transaction as its rows.
    fn is_again(
        &mut self,
        standing: &mut Standing,
        client: &Client,
        streams: &Streams<'_>,
        account: &mut Account,
    ) -> Result<bool, DatabaseError> {
        let Some(parcel) = standing.parcel else {
            return Ok(false);
        };
        let Ok(arrival) = self.tried(|open| open.database.parcel(parcel))? else {
            return Ok(false);
        };
        // One that was judged and is there was committed just as its database went.
        if !std::mem::replace(&mut standing.is_judged, true) {
            for (stream, rows) in streams {
                let Some(definition) = client.streams.get(stream) else {
                    continue;
                };
                let name = client.stream_name(definition.schema.name());
                if arrival == Arrival::Again {
                    account.again(&name, count_of(rows));
                } else if definition.schema != Schema::metadata() {
                    // Of a run that an earlier collector knew, and did not keep the numbers of, nobody knows what came before.
                    let beginning = match arrival {
                        Arrival::First => Beginning::One,
                        Arrival::New | Arrival::Again => Beginning::Anywhere,
                    };
                    let numbers = rows.iter().map(|row| row.sequence);
                    account.number(&client.run, &name, beginning, client.width(), numbers);
                }
            }
        }
        Ok(arrival == Arrival::Again)
    }

    /// Counts rows of a stream as refused, once.
    fn refuse(
        &mut self,
        standing: &mut Standing,
        client: &Client,
        stream: StreamKey,
        rows: &[Row<'_>],
        error: &DatabaseError,
        account: &mut Account,
    ) {
        let Some(definition) = client.streams.get(&stream) else {
            return;
        };
        if standing.unstored.insert(stream) {
            let name = client.stream_name(definition.schema.name());
            account.unstored(&name, Reason::NoTable, count_of(rows));
            if self.told.insert((standing.session, stream)) {
                (self.tell)(Notice::Unstored {
                    stream: name.stream,
                    sender: name.sender,
                    reason: error.to_string(),
                });
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
    pub fn begin(&mut self, client: &Client) -> Tried<(i64, u64)> {
        let start_s = match self.start_s {
            Some(start_s) => start_s,
            None => match self.tried(|open| open.database.start_time(client.header.start_s))? {
                Ok(start_s) => *self.start_s.insert(start_s),
                Err(error) => return Ok(Err(error)),
            },
        };
        let key = (client.header.domain.clone(), client.header.sender.clone());
        if let Some(sender) = self.senders.get(&key) {
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
                if self.senders.len() >= SENDERS_MAX {
                    self.senders.clear();
                }
                self.senders.insert(key, sender);
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

    /// The numbers that came of a client's run, as far as the database has them.
    pub fn numbers(&mut self, client: &Client) -> Tried<Vec<(String, Spans)>> {
        match self.begin(client)? {
            Ok((sender, _)) => self.tried(|open| open.database.numbers(sender, &client.run.run)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Tells the database what was refused and what is missing, and makes all durable.
    pub fn commit(
        &mut self,
        account: &Account,
        is_of: impl Fn(&str) -> bool,
        clients: &Clients,
    ) -> Result<(), DatabaseError> {
        for (name, report) in account.untold(&is_of) {
            self.tell_loss(name, clients, |database, sender| {
                let mut lines = report.lines().into_iter();
                lines.try_for_each(|(what, rows)| {
                    let rows = i64::try_from(rows).unwrap_or(i64::MAX);
                    database.add_loss(sender, &name.stream, &what, rows)
                })
            })?;
        }
        for change in account.changes(&is_of) {
            self.tell_loss(&change.name(), clients, |database, sender| {
                let Difference { gaps, rows } = change.difference;
                for (what, more) in [("gaps", gaps), ("missing", rows)] {
                    if more != 0 {
                        database.add_loss(sender, change.stream, what, more)?;
                    }
                }
                database.keep_numbers(sender, &change.run.run, change.stream, change.spans)
            })?;
        }
        self.database.execute("COMMIT; BEGIN")
    }

    /// Tells the database the fate of a stream's rows; where it does not take that, it is said.
    fn tell_loss(
        &mut self,
        name: &StreamName,
        clients: &Clients,
        tell: impl FnOnce(&mut dyn Database, i64) -> Result<(), DatabaseError>,
    ) -> Result<(), DatabaseError> {
        let client = clients.values().find(|client| {
            client.header.sender == name.sender && client.header.domain == name.domain
        });
        let sender = match client {
            Some(client) => self.begin(client)?.map(|(sender, _)| Some(sender)),
            // Its parcels are stored, and it was known then.
            None => self.tried(|open| open.database.known_sender(&name.domain, &name.sender))?,
        };
        // A sender that is refused has no number; the collector's own report has what was its.
        let Ok(Some(sender)) = sender else {
            return Ok(());
        };
        if let Err(error) = self.tried(|open| tell(open.database.as_mut(), sender))? {
            (self.tell)(Notice::Unstored {
                stream: "_dhow_loss".to_owned(),
                sender: name.sender.clone(),
                reason: error.to_string(),
            });
        }
        Ok(())
    }

    /// Forgets the sessions that are not here any more.
    pub fn forget(&mut self, is_here: impl Fn(&SessionKey) -> bool) {
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
