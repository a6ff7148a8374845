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
use super::database::{Database, DatabaseError};
use super::postgres::Postgres;
use super::session::{self, Arrived, Beginning, Call, Said, SessionKey};
use super::shelf::{Client, Clients, Kept, Open, Shelf};
use super::sqlite::Sqlite;
use super::{Notice, Outcome, Place, Tell};
use crate::omsp::header::Parcel;
use crate::omsp::{Batch, Header, Reason};

/// How long rows wait for their commit.
const COMMIT_EVERY: Duration = Duration::from_secs(1);

/// Octets that are kept until a commit.
const KEPT_OCTETS_MAX: usize = 64 << 20;

/// Waits between attempts to reach a database that fails.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Databases that are open at once; the next domain is refused.
const DATABASES_MAX: usize = 64;

/// Clients that have ended and are known again when they come back, so that rows lost between are seen.
const ENDED_MAX: usize = 256;

/// Streams of such a client; one with more is forgotten.
const ENDED_STREAMS_MAX: usize = 256;

/// The name of the one database that all domains share.
const SHARED: &str = "";

pub struct Store {
    place: Place,
    stop: Arc<AtomicBool>,
    tell: Tell,
    databases: BTreeMap<String, Shelf>,
    sessions: Clients,
    ended: BTreeMap<Identity, BTreeMap<String, Option<i64>>>,
    account: Account,
    committed: Instant,
    /// Who waits for the next commit: the database that a parcel is in, and who gave it.
    pledges: Vec<(String, SyncSender<session::Kept>)>,
    /// How long a database that fails is waited for when the collector ends.
    end_patience: Duration,
    lost: Option<(u64, DatabaseError)>,
}

/// What a client is known by that comes again: domain, sender, program and start time.
type Identity = (String, String, String, u64);

fn identity(header: &Header) -> Identity {
    let (domain, sender) = (header.domain.clone(), header.sender.clone());
    (domain, sender, header.app.clone(), header.start_s)
}

impl Store {
    /// Opens the one database, or looks at the directory.
    pub fn open(
        place: Place,
        end_patience: Duration,
        stop: Arc<AtomicBool>,
        tell: Tell,
    ) -> Result<Self, DatabaseError> {
        let mut store = Self {
            place,
            stop,
            tell,
            databases: BTreeMap::new(),
            sessions: BTreeMap::new(),
            ended: BTreeMap::new(),
            account: Account::default(),
            committed: Instant::now(),
            pledges: Vec::new(),
            end_patience,
            lost: None,
        };
        match &store.place {
            Place::Directory(directory) => std::fs::create_dir_all(directory)?,
            Place::File(_) | Place::Postgres(_) => {
                let shelf = store.open_shelf(SHARED)?;
                store.databases.insert(SHARED.to_owned(), shelf);
            }
        }
        Ok(store)
    }

    /// Runs until no session is left.
    pub fn run(mut self, calls: &Receiver<Call>) -> Outcome {
        loop {
            // Parcels that came together share a commit, which waits for no others.
            let due = match self.pledges.is_empty() {
                true => COMMIT_EVERY.saturating_sub(self.committed.elapsed()),
                false => Duration::ZERO,
            };
            match calls.recv_timeout(due) {
                Ok(call) => self.take(call),
                Err(RecvTimeoutError::Timeout) => self.commit_all(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.committed.elapsed() >= COMMIT_EVERY {
                self.commit_all();
            }
        }
        self.account.settle();
        self.commit_all();
        Outcome {
            report: self.account.report(),
            lost: self.lost,
        }
    }

    fn take(&mut self, call: Call) {
        let session = call.session;
        match call.said {
            Said::Begins(beginning) => self.begin(session, beginning),
            Said::Ended => self.end(session),
            Said::Came(batch, came_s) => self.came(session, batch, came_s, None),
            Said::Parcel(arrived) => self.parcel(session, arrived),
        }
    }

    /// A session as a whole, whose giver waits for its commit.
    fn parcel(&mut self, session: SessionKey, arrived: Arrived) {
        let name = self.shelf_name(&arrived.header.domain);
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
        self.came(session, arrived.batch, arrived.came_s, Some(arrived.parcel));
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
            let is_durable = self
                .databases
                .get(&name)
                .is_some_and(|it| it.kept.is_empty());
            let kept = match is_durable {
                true => session::Kept::Stored,
                false => session::Kept::Not("its database is away".to_owned()),
            };
            answer_to(&verdict, kept);
        }
    }

    fn end(&mut self, session: SessionKey) {
        let Some(client) = self.sessions.get_mut(&session) else {
            return;
        };
        client.ended = true;
        let last = std::mem::take(&mut client.last);
        if last.len() <= ENDED_STREAMS_MAX {
            if self.ended.len() >= ENDED_MAX {
                self.ended.pop_first();
            }
            self.ended.insert(identity(&client.header), last);
        }
    }

    fn shelf_name(&self, domain: &str) -> String {
        match self.place {
            // File systems may make no difference between capitals and small letters, but those that people use here do.
            Place::Directory(_) => domain.to_owned(),
            Place::File(_) | Place::Postgres(_) => SHARED.to_owned(),
        }
    }

    /// Says whether anything of a session can be stored.
    fn begin(&mut self, session: SessionKey, beginning: Beginning) {
        let header = beginning.header;
        let name = self.shelf_name(&header.domain);
        let client = Client {
            // Two programs that share a sender's name count apart; one that comes back goes on with its numbers.
            last: self.ended.remove(&identity(&header)).unwrap_or_default(),
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

    /// Opens a session's database and finds its sender's number.
    fn admit(&mut self, session: SessionKey, name: &str) -> Result<(), DatabaseError> {
        if !self.databases.contains_key(name) {
            self.make_room();
            if self.databases.len() >= DATABASES_MAX {
                return Err(DatabaseError::away("too many domains are in use"));
            }
            // A domain that cannot be stored at all must not hold up the others.
            let shelf = self.open_shelf(name)?;
            self.databases.insert(name.to_owned(), shelf);
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
        let shelf = self.databases.get_mut(name);
        let (Some(client), Some(shelf)) = (client, shelf) else {
            return Ok(Err(DatabaseError::away("its database is given up")));
        };
        shelf.is_begun = true;
        let open = shelf.open.as_mut();
        let open = open.ok_or_else(|| DatabaseError::away("it is closed"))?;
        Ok(open.begin(client)?.map(drop))
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

    fn came(&mut self, session: SessionKey, batch: Batch, came_s: f64, parcel: Option<Parcel>) {
        let name = self.shelf_name(&self.domain(session));
        let Some(client) = self.sessions.get_mut(&session) else {
            return;
        };
        client.count(&batch, parcel, &mut self.account);
        let is_refused = client.is_refused;
        let mut kept = Kept::new(session, batch, came_s, parcel);
        if is_refused {
            kept.give_up(Reason::NoTable, &self.sessions, &mut self.account);
            return;
        }
        let Some(shelf) = self.databases.get_mut(&name) else {
            // The database was given up as the collector ends.
            let rows = kept.end(&self.sessions, &mut self.account);
            if rows > 0 {
                self.lose(rows, DatabaseError::away("it is closed"));
            }
            return;
        };
        let octets = kept.octets();
        let stored = shelf
            .open
            .as_mut()
            .map(|open| open.store(&mut kept, &self.sessions, &mut self.account));
        shelf.kept.push(kept);
        shelf.kept_octets += octets;
        let is_full = shelf.kept_octets >= KEPT_OCTETS_MAX;
        match stored {
            Some(Ok(())) if is_full => self.commit(&name),
            Some(Ok(())) => {}
            Some(Err(error)) => self.recover(&name, error),
            None => self.recover(&name, DatabaseError::away("it is closed")),
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
        self.committed = Instant::now();
    }

    fn commit(&mut self, name: &str) {
        let is_shared = !matches!(self.place, Place::Directory(_));
        let is_of = |domain: &str| is_shared || domain == name;
        let Some(shelf) = self.databases.get_mut(name) else {
            return;
        };
        let is_idle = shelf.kept.is_empty() && !shelf.is_begun;
        if is_idle && self.account.untold(is_of).next().is_none() {
            return;
        }
        let outcome = match &mut shelf.open {
            Some(open) => open.commit(&self.account, is_of, &self.sessions),
            None => Err(DatabaseError::away("it is closed")),
        };
        match outcome {
            Ok(()) => {
                shelf.committed();
                if let Some(open) = &mut shelf.open {
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
        let mut open = self.open_database(name)?;
        let is_shared = !matches!(self.place, Place::Directory(_));
        let is_of = |domain: &str| is_shared || domain == name;
        let Some(shelf) = self.databases.get_mut(name) else {
            return Ok(());
        };
        for kept in &mut shelf.kept {
            open.store(kept, &self.sessions, &mut self.account)?;
        }
        open.commit(&self.account, is_of, &self.sessions)?;
        self.account.told(is_of);
        shelf.committed();
        shelf.open = Some(open);
        Ok(())
    }

    /// The collector ends without its database.
    fn give_up(&mut self, name: &str, error: DatabaseError) {
        let Some(shelf) = self.databases.remove(name) else {
            return;
        };
        let mut rows = 0;
        for kept in &shelf.kept {
            rows += kept.end(&self.sessions, &mut self.account);
        }
        // Where no rows are kept, what it does not know is the account.
        if rows > 0 || shelf.kept.is_empty() {
            self.lose(rows, error);
        }
    }

    fn lose(&mut self, rows: u64, error: DatabaseError) {
        let before = self.lost.as_ref().map_or(0, |(rows, _)| *rows);
        self.lost = Some((before + rows, error));
    }

    fn open_shelf(&self, name: &str) -> Result<Shelf, DatabaseError> {
        Ok(Shelf {
            open: Some(self.open_database(name)?),
            is_begun: true,
            ..Shelf::default()
        })
    }

    fn open_database(&self, name: &str) -> Result<Open, DatabaseError> {
        let database: Box<dyn Database> = match &self.place {
            Place::File(path) => Box::new(Sqlite::open(path)?),
            Place::Directory(directory) => {
                let path: PathBuf = directory.join(format!("{name}.sq3"));
                Box::new(Sqlite::open(&path)?)
            }
            Place::Postgres(url) => Box::new(Postgres::open(url)?),
        };
        Open::new(database, Arc::clone(&self.tell))
    }
}

/// Tells the giver of a parcel what became of it, unless it has gone.
fn answer_to(giver: &SyncSender<session::Kept>, kept: session::Kept) {
    let _ = giver.send(kept);
}
