//! One client: octets from its socket, decoded, to the thread that has the databases.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, SyncSender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::budget::Held;
use super::database::DatabaseError;
use super::{Notice, Shared};
use crate::omsp::header::{ACCEPTED, Parcel, REFUSED};
use crate::omsp::{Batch, Decoder, Header, ROW_COST_MAX, ROW_OCTETS_MAX};

/// Octets of a row that is not whole, which a client has for itself; those of longer ones share a room.
const SHORT_ROW_OCTETS: usize = 64 << 10;

/// The time for which a long row waits for room.
const LONG_ROW_PATIENCE: Duration = Duration::from_secs(5);

/// The silence after which, as the collector ends, nothing more is on its way.
const END_SILENCE: Duration = Duration::from_millis(100);

/// The longest time to wait for a header.
const HEADER_PATIENCE: Duration = Duration::from_secs(30);

/// The longest time for which octets on their way are still read when the collector ends.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// A client, for as long as it is connected.
pub type SessionKey = u64;

/// A message of a session to the thread that has the databases.
#[derive(Debug)]
pub struct Call {
    /// The session that sends the call.
    pub session: SessionKey,
    /// The content of the message.
    pub said: Said,
}

/// The events of a session.
#[derive(Debug)]
pub enum Said {
    /// Its header came.
    Begins(Beginning),
    /// Rows came at a time, seconds of Unix time, in memory that they hold.
    Came(Batch, f64, Held),
    /// A whole parcel came.
    Parcel(Arrived),
    /// The session has ended.
    Ended,
}

/// A parcel, which is a session from its beginning to its end.
#[derive(Debug)]
pub struct Arrived {
    /// The header of its session.
    pub header: Box<Header>,
    /// The run and number of the parcel.
    pub parcel: Parcel,
    /// All of its rows.
    pub batch: Batch,
    /// The time at which it came, seconds of Unix time.
    pub came_s: f64,
    /// The memory that it takes.
    pub held: Held,
    /// Takes the outcome, once it is known.
    pub verdict: SyncSender<Kept>,
}

/// The outcome of a parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The parcel is durable, or was before.
    Stored,
    /// The parcel will never be stored.
    Refused(String),
    /// The parcel is not stored now, and why; given again, it may be.
    Not(String),
}

/// A session that asks to be stored.
#[derive(Debug)]
pub struct Beginning {
    /// The header of the session.
    pub header: Box<Header>,
    /// Takes the answer: the session can be stored, or the reason why not.
    pub verdict: SyncSender<Result<(), DatabaseError>>,
}

/// The result of a look at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Something,
    Nothing,
}

/// One client's session, which is looked at again and again.
pub struct Session {
    key: SessionKey,
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    decoder: Decoder,
    has_begun: bool,
    began: Instant,
    /// When octets came last.
    heard: Instant,
    /// The time since which it is known that the collector ends.
    stopped: Option<Instant>,
    /// Memory for a row that is long, and not whole yet.
    long_row: Option<Held>,
    /// The time since which such a row waits for memory; nothing is read meanwhile.
    without_room: Option<Instant>,
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
        stream.set_nonblocking(true)?;
        let now = Instant::now();
        shared.figures.clients.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            key,
            stream,
            peer,
            shared,
            decoder: Decoder::default(),
            has_begun: false,
            began: now,
            heard: now,
            stopped: None,
            long_row: None,
            without_room: None,
        })
    }

    /// Its socket, where it is to be read as soon as something comes.
    pub const fn awaits(&self) -> Option<&TcpStream> {
        match self.without_room {
            None => Some(&self.stream),
            Some(_) => None,
        }
    }

    /// A row of it waits for room.
    pub const fn waits_for_room(&self) -> bool {
        self.without_room.is_some()
    }

    /// Takes what has come, as much as `buffer` holds; false where the session has come to its end: the client went, said what cannot be, or
    /// the collector ends.
    pub fn look(&mut self, heard: Heard, buffer: &mut [u8]) -> bool {
        match self.read(heard, buffer) {
            Ok(()) => true,
            Err(end) => {
                self.end(end);
                false
            }
        }
    }

    fn end(&mut self, end: End) {
        self.decoder.finish();
        self.pass_on(None);
        if self.has_begun {
            self.call(Said::Ended);
        }
        if let End::Refused(reason) = end {
            // The collector's side is told of the refusal before the client is.
            (self.shared.tell)(Notice::Refused {
                peer: self.peer,
                reason: reason.clone(),
            });
            self.answer(&format!("{REFUSED}{reason}"));
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        self.shared.figures.clients.fetch_sub(1, Ordering::Relaxed);
    }

    fn read(&mut self, heard: Heard, buffer: &mut [u8]) -> Result<(), End> {
        if self.shared.stop.load(Ordering::Relaxed) {
            let since = *self.stopped.get_or_insert_with(Instant::now);
            if since.elapsed() > END_PATIENCE {
                return Err(End::Plain);
            }
        }
        self.hold_long_row();
        if self.waits_for_room() {
            return Ok(());
        }
        if heard == Heard::Nothing {
            return self.wait();
        }
        match self.stream.read(buffer) {
            Ok(0) => Err(End::Plain),
            Ok(count) => {
                self.heard = Instant::now();
                self.take(buffer.get(..count).unwrap_or_default())
            }
            Err(error) if is_patience(&error) => self.wait(),
            Err(_) => Err(End::Plain),
        }
    }

    /// Nothing has come.
    fn wait(&mut self) -> Result<(), End> {
        let silence = self.heard.elapsed();
        let since_stop = self.stopped.map(|stopped| stopped.elapsed());
        // All that had been on its way is here.
        if since_stop.is_some_and(|since| since.min(silence) > END_SILENCE) {
            return Err(End::Plain);
        }
        let idle = self.shared.terms.idle;
        if silence > idle {
            return Err(End::Refused(format!("silent for {} s", idle.as_secs())));
        }
        if !self.has_begun && self.began.elapsed() > HEADER_PATIENCE {
            let patience = HEADER_PATIENCE.as_secs();
            return Err(End::Refused(format!("no header within {patience} s")));
        }
        Ok(())
    }

    /// Takes what was read, in memory that all clients share.
    fn take(&mut self, octets: &[u8]) -> Result<(), End> {
        let most = octets.len().saturating_mul(ROW_COST_MAX);
        let held = self.shared.budgets.rows.take(most);
        let fed = self.decoder.feed(octets);
        fed.map_err(|error| End::Refused(error.to_string()))?;
        self.begin()?;
        self.pass_on(Some(held));
        self.hold_long_row();
        Ok(())
    }

    /// A row that is long, and not whole yet, waits in memory that all long rows share; where that is not to be had in time, the row is not
    /// taken.
    fn hold_long_row(&mut self) {
        const UNKNOWN_GROWTH: usize = 4;
        let pending = self.decoder.pending_octets();
        let has = self.long_row.as_ref().map_or(0, Held::octets);
        if pending <= SHORT_ROW_OCTETS {
            self.long_row = None;
        }
        if pending <= has.max(SHORT_ROW_OCTETS) {
            self.without_room = None;
            return;
        }
        // A text does not say how long it is.
        let all = self.decoder.awaited_octets();
        let all = all.unwrap_or_else(|| (pending * UNKNOWN_GROWTH).min(ROW_OCTETS_MAX));
        let more = all.max(pending).saturating_sub(has);
        let since = *self.without_room.get_or_insert_with(Instant::now);
        match (self.shared.budgets.long.try_take(more), &mut self.long_row) {
            (Some(held), Some(long_row)) => long_row.join(held),
            (Some(held), none) => *none = Some(held),
            (None, _) if since.elapsed() < LONG_ROW_PATIENCE => return,
            (None, _) => {
                self.decoder.skip_row();
                self.long_row = None;
            }
        }
        self.without_room = None;
    }

    /// Once the header is there: looks at its token, asks whether the session can be stored, and answers.
    fn begin(&mut self) -> Result<(), End> {
        if self.has_begun {
            return Ok(());
        }
        let Some(header) = self.decoder.header() else {
            return self.wait();
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

    /// Gives what was understood to the thread that has the databases, in the room that it has already or takes now.
    fn pass_on(&mut self, held: Option<Held>) {
        if !self.has_begun || self.decoder.batch().is_empty() {
            return;
        }
        let batch = self.decoder.take();
        let octets = batch.octets();
        // A row that was long until now needs more, and nobody asks for room who has some.
        let held = held.filter(|held| octets <= held.octets());
        let mut held = held.unwrap_or_else(|| self.shared.budgets.rows.take(octets));
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
