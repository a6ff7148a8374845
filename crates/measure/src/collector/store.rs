//! The thread that has the databases: what sessions say becomes rows, committed about once a second.
//!
//! Until a commit has succeeded what it was of is kept here, so that a database that fails (a full disk, a server that
//! restarts) loses nothing: it is opened again, and gets all of it again. Meanwhile nothing is taken from sessions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use super::account::Account;
use super::budget::{Budget, Held};
use super::database::{Database, DatabaseError};
use super::numbers::RunName;
use super::open_database::{Client, Clients, Kept, Open, OpenDatabase};
#[cfg(feature = "postgres")]
use super::postgres::Postgres;
use super::session::{self, Arrived, Beginning, Call, Said, SessionKey};
use super::sqlite::{Cache, Sqlite};
use super::{Notice, Outcome, Place, ROWS_OCTETS_MAX, Tell};
use crate::omsp::header::Parcel;
use crate::omsp::{Batch, Header, Reason};

/// The longest time that rows wait for their commit.
const COMMIT_EVERY: Duration = Duration::from_secs(1);

/// The time between two looks whether somebody needs the room of rows that wait for their commit.
const LOOK: Duration = Duration::from_millis(50);

/// Octets that are kept until a commit, of all databases: half of what rows may take, so that others come meanwhile.
const KEPT_OCTETS_MAX: usize = ROWS_OCTETS_MAX / 2;

/// The time after which committed rows are written back from a database's log into its file: with each commit that time makes due.
const WRITE_BACK_EVERY: Duration = Duration::from_millis(900);

/// Waits between attempts to reach a database that fails.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Databases that are open at once; the next domain is refused.
const DATABASES_MAX: usize = 64;

/// The time for which a database without clients stays open: they may come one after the other.
const CLOSE_AFTER: Duration = Duration::from_secs(1);

/// The name of the one database that all domains share.
const SHARED: &str = "";

pub struct Store {
    place: Place,
    stop: Arc<AtomicBool>,
    tell: Tell,
    rows: Arc<Budget>,
    databases: BTreeMap<String, OpenDatabase>,
    sessions: Clients,
    account: Account,
    committed: Instant,
    written_back: Instant,
    /// Parcels that wait for the next commit: the database of each, and the sender of its outcome.
    pledges: Vec<(String, SyncSender<session::Kept>)>,
    /// The time that the store waits at its end for a database that fails.
    end_patience: Duration,
    lost: Option<(u64, DatabaseError)>,
}

impl Store {
    /// Opens the one database, or looks at the directory; `rows` is the room of the rows that come.
    pub fn open(
        place: Place,
        end_patience: Duration,
        stop: Arc<AtomicBool>,
        tell: Tell,
        rows: Arc<Budget>,
    ) -> Result<Self, DatabaseError> {
        let mut store = Self {
            place,
            stop,
            tell,
            rows,
            databases: BTreeMap::new(),
            sessions: BTreeMap::new(),
            account: Account::default(),
            committed: Instant::now(),
            written_back: Instant::now(),
            pledges: Vec::new(),
            end_patience,
            lost: None,
        };
        match &store.place {
            Place::Directory(directory) => std::fs::create_dir_all(directory)?,
            Place::File(_) | Place::Postgres(_) => {
                let database = store.open_database(SHARED)?;
                store.databases.insert(SHARED.to_owned(), database);
            }
        }
        Ok(store)
    }

    /// Runs until no session is left.
    pub fn run(mut self, calls: &Receiver<Call>) -> Outcome {
        loop {
            let due = self.commit_due();
            match calls.recv_timeout(due) {
                Ok(call) => self.take(call),
                Err(RecvTimeoutError::Timeout) if self.commit_due().is_zero() => self.commit_all(),
                Err(RecvTimeoutError::Timeout) => {}
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

    /// The time for which more rows are waited for before a commit.
    fn commit_due(&self) -> Duration {
        let has_rows = !self.databases.values().all(OpenDatabase::is_empty);
        // Parcels that came together share a commit, which waits for no others, and neither do those who need the room.
        if !self.pledges.is_empty() || (has_rows && self.rows.is_wanted()) {
            return Duration::ZERO;
        }
        let due = COMMIT_EVERY.saturating_sub(self.committed.elapsed());
        match has_rows {
            true => due.min(LOOK),
            false => due,
        }
    }

    fn take(&mut self, call: Call) {
        let session = call.session;
        match call.said {
            Said::Begins(beginning) => self.begin(session, beginning),
            Said::Ended => self.end(session),
            Said::Came(batch, came_s, held) => self.came(session, batch, came_s, None, held),
            Said::Parcel(arrived) => self.parcel(session, arrived),
        }
    }

    /// A session as a whole, whose giver waits for its commit.
    fn parcel(&mut self, session: SessionKey, arrived: Arrived) {
        let name = self.database_name(&arrived.header.domain);
        let (verdict, answer) = mpsc::sync_channel(1);
        let beginning = Beginning {
            header: arrived.header,
            verdict,
        };
        self.begin(session, beginning);
        let refusal = match answer.try_recv() {
            Ok(Err(error)) if error.is_away() => {
                // It comes again, and is counted then.
                self.sessions.remove(&session);
                answer_to(&arrived.verdict, session::Kept::Not(error.to_string()));
                return;
            }
            Ok(Err(error)) => Some(error),
            Ok(Ok(())) | Err(_) => None,
        };
        let (came_s, parcel) = (arrived.came_s, Some(arrived.parcel));
        self.came(session, arrived.batch, came_s, parcel, arrived.held);
        if let Some(client) = self.sessions.get_mut(&session) {
            client.ended = true;
        }
        match refusal {
            Some(error) => answer_to(&arrived.verdict, session::Kept::Refused(error.to_string())),
            None => self.pledges.push((name, arrived.verdict)),
        }
    }

    /// Tells who waits for a commit what it came to.
    fn redeem(&mut self) {
        for (name, verdict) in std::mem::take(&mut self.pledges) {
            let database = self.databases.get(&name);
            let is_durable = database.is_some_and(OpenDatabase::is_empty);
            let kept = match is_durable {
                true => session::Kept::Stored,
                false => session::Kept::Not("its database is away".to_owned()),
            };
            answer_to(&verdict, kept);
        }
    }

    fn end(&mut self, session: SessionKey) {
        if let Some(client) = self.sessions.get_mut(&session) {
            client.ended = true;
        }
    }

    fn database_name(&self, domain: &str) -> String {
        match self.place {
            // File systems may make no difference between capitals and small letters, but those that people use here do.
            Place::Directory(_) => domain.to_owned(),
            Place::File(_) | Place::Postgres(_) => SHARED.to_owned(),
        }
    }

    /// Says whether anything of a session can be stored.
    fn begin(&mut self, session: SessionKey, beginning: Beginning) {
        let header = beginning.header;
        let name = self.database_name(&header.domain);
        let client = Client {
            run: self.run_of(&header),
            header,
            streams: BTreeMap::new(),
            indices: BTreeMap::new(),
            is_refused: false,
            ended: false,
        };
        self.sessions.insert(session, client);
        let outcome = self.admit(session, &name);
        if outcome.is_err()
            && let Some(client) = self.sessions.get_mut(&session)
        {
            client.is_refused = true;
        }
        // A session that is gone needs no word.
        let _ = beginning.verdict.send(outcome);
    }

    /// The run that a session is of. A run that its client does not name is known by its program and start time: two that are here at once
    /// count apart, and one that comes back goes on with the numbers of the one that rows came of last.
    fn run_of(&self, header: &Header) -> RunName {
        let name = |run: String| RunName {
            domain: header.domain.clone(),
            sender: header.sender.clone(),
            run,
        };
        if let Some(run) = header.parcel.map(|parcel| parcel.run).or(header.run) {
            return name(format!("{run:x}"));
        }
        let base = format!("{} {}", header.start_s, header.app);
        let mut latest = None;
        let mut run = name(base.clone());
        let mut number = 1_u64;
        loop {
            if !self.is_here(&run) {
                match self.account.numbers().last_came(&run) {
                    Some(came) => latest = latest.max(Some((came, run))),
                    None => return latest.map_or(run, |(_, run)| run),
                }
            }
            number += 1;
            run = name(format!("{base} {number}"));
        }
    }

    /// True if a session of that run is connected.
    fn is_here(&self, run: &RunName) -> bool {
        self.sessions
            .values()
            .any(|client| !client.ended && client.run == *run)
    }

    /// Opens a session's database and finds its sender's number.
    fn admit(&mut self, session: SessionKey, name: &str) -> Result<(), DatabaseError> {
        if !self.databases.contains_key(name) {
            self.make_room();
            if self.databases.len() >= DATABASES_MAX {
                return Err(DatabaseError::away("too many domains are in use"));
            }
            // A domain that cannot be stored at all must not hold up the others.
            let database = self.open_database(name)?;
            self.databases.insert(name.to_owned(), database);
        }
        let mut outcome = self.try_to_admit(session, name);
        if let Err(error) = outcome {
            self.recover(name, error);
            outcome = self.try_to_admit(session, name);
        }
        outcome?
    }

    fn try_to_admit(
        &mut self,
        session: SessionKey,
        name: &str,
    ) -> Result<Result<(), DatabaseError>, DatabaseError> {
        let client = self.sessions.get(&session);
        let database = self.databases.get_mut(name);
        let (Some(client), Some(database)) = (client, database) else {
            return Ok(Err(DatabaseError::away("its database is given up")));
        };
        database.begin();
        let open = database.open.as_mut();
        let open = open.ok_or_else(|| DatabaseError::away("it is closed"))?;
        if self.account.numbers().knows(&client.run) {
            return Ok(open.begin(client)?.map(drop));
        }
        Ok(open.numbers(client)?.map(|streams| {
            let clients = &self.sessions;
            let is_here = |run: &RunName| clients.values().any(|client| client.run == *run);
            self.account.load(client.run.clone(), streams, is_here);
        }))
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
            .map(|client| self.database_name(&client.header.domain))
            .collect();
        self.databases
            .retain(|name, database| !database.is_settled() || used.contains(name));
    }

    fn came(
        &mut self,
        session: SessionKey,
        batch: Batch,
        came_s: f64,
        parcel: Option<Parcel>,
        held: Held,
    ) {
        let name = self.database_name(&self.domain(session));
        let Some(client) = self.sessions.get_mut(&session) else {
            return;
        };
        client.count(&batch, parcel, &mut self.account);
        let is_refused = client.is_refused;
        let mut kept = Kept::new(session, batch, came_s, parcel, held);
        if is_refused {
            kept.give_up(Reason::NoTable, &self.sessions, &mut self.account);
            return;
        }
        let Some(database) = self.databases.get_mut(&name) else {
            // The database was given up as the collector ends.
            let rows = kept.end(&self.sessions, &mut self.account);
            if rows > 0 {
                self.lose(rows, DatabaseError::away("it is closed"));
            }
            return;
        };
        let stored = database
            .open
            .as_mut()
            .map(|open| open.store(&mut kept, &self.sessions, &mut self.account));
        database.keep(kept);
        match stored {
            Some(Ok(())) => {}
            Some(Err(error)) => self.recover(&name, error),
            None => self.recover(&name, DatabaseError::away("it is closed")),
        }
        self.commit_the_fullest();
    }

    /// Commits databases, the one that most is kept for first, until not too much is kept for all of them.
    fn commit_the_fullest(&mut self) {
        while self
            .databases
            .values()
            .map(OpenDatabase::octets)
            .sum::<usize>()
            >= KEPT_OCTETS_MAX
        {
            let most = self.databases.iter().max_by_key(|(_, it)| it.octets());
            let Some(name) = most.map(|(name, _)| name.clone()) else {
                return;
            };
            self.commit(&name);
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
        self.redeem();
        self.sessions.retain(|_, client| !client.ended);
        self.close_the_idle();
        self.committed = Instant::now();
        if self.written_back.elapsed() >= WRITE_BACK_EVERY {
            self.databases
                .values_mut()
                .for_each(OpenDatabase::write_back);
            self.written_back = self.committed;
        }
    }

    /// Closes databases of domains whose last client has gone, a while after: then all there is lies in the one file.
    fn close_the_idle(&mut self) {
        if !matches!(self.place, Place::Directory(_)) {
            return;
        }
        let clients = &self.sessions;
        self.databases.retain(|name, database| {
            let mut domains = clients.values().map(|client| &client.header.domain);
            domains.any(|domain| domain == name) || !database.is_idle_for(CLOSE_AFTER)
        });
    }

    fn commit(&mut self, name: &str) {
        let is_shared = !matches!(self.place, Place::Directory(_));
        let is_of = |domain: &str| is_shared || domain == name;
        let Some(database) = self.databases.get_mut(name) else {
            return;
        };
        let is_told = self.account.untold(is_of).next().is_none()
            && self.account.changes(is_of).next().is_none();
        if database.is_settled() && is_told {
            return;
        }
        let outcome = match &mut database.open {
            Some(open) => open.commit(&self.account, is_of, &self.sessions),
            None => Err(DatabaseError::away("it is closed")),
        };
        match outcome {
            Ok(()) => {
                database.committed();
                if let Some(open) = &mut database.open {
                    let sessions = &self.sessions;
                    open.forget(|key| sessions.get(key).is_some_and(|c| !c.ended));
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
            if let Some(database) = self.databases.get_mut(name) {
                database.open = None;
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
                if since.elapsed() >= self.end_patience {
                    break;
                }
                wait = RETRY_MIN;
            }
        }
        self.give_up(name, error);
    }

    /// Everything that is kept, once more, and its commit.
    fn again(&mut self, name: &str) -> Result<(), DatabaseError> {
        let mut open = self.connect(name)?;
        let is_shared = !matches!(self.place, Place::Directory(_));
        let is_of = |domain: &str| is_shared || domain == name;
        let Some(database) = self.databases.get_mut(name) else {
            return Ok(());
        };
        for kept in database.kept() {
            open.store(kept, &self.sessions, &mut self.account)?;
        }
        open.commit(&self.account, is_of, &self.sessions)?;
        self.account.told(is_of);
        database.committed();
        database.open = Some(open);
        Ok(())
    }

    /// The collector ends without its database.
    fn give_up(&mut self, name: &str, error: DatabaseError) {
        let Some(mut database) = self.databases.remove(name) else {
            return;
        };
        let mut rows = 0;
        for kept in database.kept() {
            rows += kept.end(&self.sessions, &mut self.account);
        }
        // If no rows are kept, the database lacks only the account.
        if rows > 0 || database.is_empty() {
            self.lose(rows, error);
        }
    }

    fn lose(&mut self, rows: u64, error: DatabaseError) {
        let before = self.lost.as_ref().map_or(0, |(rows, _)| *rows);
        self.lost = Some((before + rows, error));
    }

    fn open_database(&self, name: &str) -> Result<OpenDatabase, DatabaseError> {
        Ok(OpenDatabase::new(self.connect(name)?))
    }

    fn connect(&self, name: &str) -> Result<Open, DatabaseError> {
        let database: Box<dyn Database> = match &self.place {
            Place::File(path) => Box::new(Sqlite::open(path, Cache::Alone)?),
            Place::Directory(directory) => {
                let path: PathBuf = directory.join(format!("{name}.sq3"));
                Box::new(Sqlite::open(&path, Cache::OneOfMany)?)
            }
            #[cfg(feature = "postgres")]
            Place::Postgres(url) => Box::new(Postgres::open(url)?),
            #[cfg(not(feature = "postgres"))]
            Place::Postgres(_) => {
                return Err(DatabaseError::refused(
                    "this program was built without the feature 'postgres'",
                ));
            }
        };
        Open::new(database, Arc::clone(&self.tell))
    }
}

/// Tells the giver of a parcel its fate, unless the giver has gone.
fn answer_to(giver: &SyncSender<session::Kept>, kept: session::Kept) {
    let _ = giver.send(kept);
}
