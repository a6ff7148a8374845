//! One client: octets from its socket, decoded, to the thread that has the databases.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, SyncSender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::database::DatabaseError;
use super::room::Held;
use super::{Notice, Shared};
use crate::omsp::header::{ACCEPTED, Parcel, REFUSED};
use crate::omsp::{Batch, Decoder, Header, ROW_COST_MAX, ROW_OCTETS_MAX};

/// Octets that one read takes, of a client that says little and of one that says much.
const READ_OCTETS_MIN: usize = 4 << 10;
const READ_OCTETS_MAX: usize = 32 << 10;

/// Octets of a row that is not whole, which a client has for itself; those of longer ones share a room.
const SHORT_ROW_OCTETS: usize = 64 << 10;

/// How long a long row waits for room.
const LONG_ROW_PATIENCE: Duration = Duration::from_secs(5);

/// How long a read waits before it is asked whether the collector ends.
const LOOK: Duration = Duration::from_millis(100);

/// How long a header may take to come.
const HEADER_PATIENCE: Duration = Duration::from_secs(30);

/// How long what is still on its way is read when the collector ends.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// A client, for as long as it is connected.
pub type SessionKey = u64;

/// What a session says to the thread that has the databases.
#[derive(Debug)]
pub struct Call {
    /// Which session.
    pub session: SessionKey,
    /// What.
    pub said: Said,
}

/// What a session says.
#[derive(Debug)]
pub enum Said {
    /// Its header came.
    Begins(Beginning),
    /// Rows came at a time, seconds of Unix time, in memory that they hold.
    Came(Batch, f64, Held),
    /// A whole parcel came.
    Parcel(Arrived),
    /// It has ended.
    Ended,
}

/// A parcel, which is a session from its beginning to its end.
#[derive(Debug)]
pub struct Arrived {
    /// What it said first.
    pub header: Box<Header>,
    /// Which it is.
    pub parcel: Parcel,
    /// All of it.
    pub batch: Batch,
    /// When it came, seconds of Unix time.
    pub came_s: f64,
    /// The memory that it takes.
    pub held: Held,
    /// Takes the word once it is known what became of it.
    pub verdict: SyncSender<Kept>,
}

/// What became of a parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is durable, or was before.
    Stored,
    /// It will never be stored.
    Refused(String),
    /// It is not stored now, and why; given again, it may be.
    Not(String),
}

/// A session that asks to be stored.
#[derive(Debug)]
pub struct Beginning {
    /// What it said first.
    pub header: Box<Header>,
    /// Takes the answer: whether it can be stored, and why not.
    pub verdict: SyncSender<Result<(), DatabaseError>>,
}

pub struct Session {
    key: SessionKey,
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    decoder: Decoder,
    has_begun: bool,
    /// Memory for a row that is long, and not whole yet.
    long_row: Option<Held>,
}

/// Why a session ends from here.
enum End {
    Refused(String),
    /// The client went, or the collector ends.
    Plain,
}

impl Session {
    pub fn new(
        key: SessionKey,
        stream: TcpStream,
        peer: SocketAddr,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(LOOK))?;
        Ok(Self {
            key,
            stream,
            peer,
            shared,
            decoder: Decoder::default(),
            has_begun: false,
            long_row: None,
        })
    }

    /// Reads until the client goes, says what cannot be, or the collector ends.
    pub fn run(mut self) {
        self.shared.figures.clients.fetch_add(1, Ordering::Relaxed);
        let end = self.read_all();
        if let Some(held) = self.room_for(0) {
            self.decoder.finish();
            self.pass_on(held);
        }
        if self.has_begun {
            self.call(Said::Ended);
        }
        if let End::Refused(reason) = end {
            // Who is here hears of it before the client does.
            (self.shared.tell)(Notice::Refused {
                peer: self.peer,
                reason: reason.clone(),
            });
            self.answer(&format!("{REFUSED}{reason}"));
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        self.shared.figures.clients.fetch_sub(1, Ordering::Relaxed);
    }

    fn read_all(&mut self) -> End {
        let mut octets = vec![0; READ_OCTETS_MIN];
        let began = Instant::now();
        let mut heard = began;
        let mut stopped: Option<Instant> = None;
        loop {
            if self.shared.stop.load(Ordering::Relaxed) {
                let since = stopped.get_or_insert_with(Instant::now);
                if since.elapsed() > END_PATIENCE {
                    return End::Plain;
                }
            }
            let count = match self.stream.read(&mut octets) {
                Ok(0) => return End::Plain,
                Ok(count) => count,
                Err(error) if is_patience(&error) => {
                    // What had been on its way is here.
                    if stopped.is_some() {
                        return End::Plain;
                    }
                    let idle = self.shared.terms.idle;
                    if heard.elapsed() > idle {
                        return End::Refused(format!("silent for {} s", idle.as_secs()));
                    }
                    if octets.len() > READ_OCTETS_MIN {
                        octets = vec![0; READ_OCTETS_MIN];
                    }
                    0
                }
                Err(_) => return End::Plain,
            };
            if count > 0 {
                heard = Instant::now();
            }
            if let Err(end) = self.take(octets.get(..count).unwrap_or_default(), began) {
                return end;
            }
            if count == octets.len() && count < READ_OCTETS_MAX {
                octets.resize(count * 2, 0);
            }
        }
    }

    /// Takes what was read, which may be nothing, in memory that all clients share.
    fn take(&mut self, octets: &[u8], began: Instant) -> Result<(), End> {
        if octets.is_empty() {
            return self.begin(began);
        }
        let Some(held) = self.room_for(octets.len()) else {
            return Err(End::Plain);
        };
        let fed = self.decoder.feed(octets);
        fed.map_err(|error| End::Refused(error.to_string()))?;
        self.begin(began)?;
        self.pass_on(held);
        self.hold_long_row();
        Ok(())
    }

    /// Room for the rows that may come of so many octets.
    fn room_for(&self, octets: usize) -> Option<Held> {
        let most = octets.saturating_mul(ROW_COST_MAX);
        self.shared.rooms.rows.take(most, None)
    }

    /// A row that is long, and not whole yet, waits in memory that all long rows share; where that is not to be had, the row is not taken.
    fn hold_long_row(&mut self) {
        const UNKNOWN_GROWTH: usize = 4;
        let pending = self.decoder.pending_octets();
        if pending <= SHORT_ROW_OCTETS {
            self.long_row = None;
            return;
        }
        let has = self.long_row.as_ref().map_or(0, Held::octets);
        if pending <= has {
            return;
        }
        // A text does not say how long it is.
        let all = self.decoder.awaited_octets();
        let all = all.unwrap_or_else(|| (pending * UNKNOWN_GROWTH).min(ROW_OCTETS_MAX));
        let more = all.max(pending).saturating_sub(has);
        let held = self.shared.rooms.long.take(more, Some(LONG_ROW_PATIENCE));
        match (held, &mut self.long_row) {
            (Some(held), Some(long_row)) => long_row.join(held),
            (Some(held), none) => *none = Some(held),
            (None, _) => {
                self.decoder.skip_row();
                self.long_row = None;
            }
        }
    }

    /// Once the header is there: looks at its token, asks whether the session can be stored, and answers.
    fn begin(&mut self, began: Instant) -> Result<(), End> {
        if self.has_begun {
            return Ok(());
        }
        let Some(header) = self.decoder.header() else {
            if began.elapsed() > HEADER_PATIENCE {
                let patience = HEADER_PATIENCE.as_secs();
                return Err(End::Refused(format!("no header within {patience} s")));
            }
            return Ok(());
        };
        if let Some(token) = &self.shared.terms.token {
            let said = header.token.as_deref().unwrap_or_default();
            if !is_same(token.as_bytes(), said.as_bytes()) {
                return Err(End::Refused("its token is not the collector's".to_owned()));
            }
        }
        let (sender, verdict) = mpsc::sync_channel(1);
        let beginning = Beginning {
            header: Box::new(header.clone()),
            verdict: sender,
        };
        self.has_begun = true;
        self.call(Said::Begins(beginning));
        match verdict.recv() {
            Ok(Ok(())) => {
                self.answer(ACCEPTED);
                Ok(())
            }
            Ok(Err(why)) => Err(End::Refused(format!("it cannot be stored: {why}"))),
            Err(_) => Err(End::Refused("the collector ends".to_owned())),
        }
    }

    /// Says a line to a client that reads it. Others would leave it unread, and their last rows would be lost with the reset that follows from that.
    fn answer(&mut self, line: &str) {
        if self
            .decoder
            .header()
            .is_some_and(|header| header.reads_answer)
        {
            // A client that is gone needs no answer.
            let _ = writeln!(self.stream, "{line}");
        }
    }

    fn pass_on(&mut self, mut held: Held) {
        if !self.has_begun || self.decoder.batch().is_empty() {
            return;
        }
        let batch = self.decoder.take();
        let octets = batch.octets();
        if octets > held.octets() {
            // A row that was long until now: nobody asks for more room while he holds some.
            drop(held);
            match self.shared.rooms.rows.take(octets, None) {
                Some(room) => held = room,
                None => return,
            }
        }
        held.shrink(octets);
        let figures = &self.shared.figures;
        let rows = u64::try_from(batch.rows.len()).unwrap_or_default();
        figures.rows.fetch_add(rows, Ordering::Relaxed);
        let refused = batch.refused.total();
        figures.rejected.fetch_add(refused, Ordering::Relaxed);
        self.call(Said::Came(batch, now_s(), held));
    }

    /// Waits while the databases are behind.
    fn call(&self, said: Said) {
        let call = Call {
            session: self.key,
            said,
        };
        // The store ends last, unless it lost its database for good; then it has said so.
        let _ = self.shared.calls.send(call);
    }
}

/// Seconds of Unix time.
pub fn now_s() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

fn is_patience(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Compares without telling by its time how much is right.
fn is_same(expected: &[u8], said: &[u8]) -> bool {
    let differences = expected
        .iter()
        .zip(said)
        .fold(0, |all, (a, b)| all | (a ^ b));
    expected.len() == said.len() && differences == 0
}
