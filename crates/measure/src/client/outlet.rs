//! The way out: a collector that may be away, or a file. What cannot leave waits, first in memory, then on disk.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::parcels::{Carrier, Parcels};
use super::spool::{Lost, Spool};
use super::target::Target;
use crate::omsp::Encoding;
use crate::omsp::binary::row_start_before;
use crate::omsp::header::{ACCEPTED, Parcel, REFUSED};

/// Octets of rows that wait in memory; what comes after waits on disk.
const PENDING_OCTETS_MAX: usize = 1 << 20;

/// Octets beside those for what a client says of itself, its streams and the experiment: samples cannot take their place.
const WORDS_OCTETS_MAX: usize = 256 << 10;

/// Octets that are read from the disk at once.
const REFILL_OCTETS: usize = 256 << 10;

/// How long a write may wait for a collector that is slow: samples must be taken meanwhile.
const WRITE_PATIENCE: Duration = Duration::from_millis(20);

/// How long a connection may take to be made.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long rows are held after the header for the collector's answer, so that nothing is lost to one that refuses. Collectors of ours
/// answer at once, and those of OML never.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

/// The first wait after a connection failed; each next is twice as long.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// The way out of one client.
#[derive(Debug)]
pub struct Outlet {
    way: Way,
    encoding: Encoding,
    /// What goes before everything else over the connection that is there.
    header: Vec<u8>,
    pending: Vec<u8>,
    /// Octets of `pending` that have left.
    sent: usize,
    /// Octets that have left in all.
    written: u64,
    spool: Spool,
}

/// Where rows leave.
pub enum Way {
    Tcp(Link),
    File(Box<dyn Write + Send>, HeaderState),
    Parcels(Parcels),
}

/// Whether a file has its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderState {
    Due,
    Written,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(link) => link.fmt(f),
            Self::File(_, state) => f.debug_tuple("File").field(state).finish(),
            Self::Parcels(_) => f.write_str("Parcels"),
        }
    }
}

/// A connection to a collector, or the next attempt at one.
#[derive(Debug)]
pub struct Link {
    address: String,
    state: LinkState,
    wait: Duration,
    /// Rows are held until then.
    held_until: Instant,
    /// Why the collector refused the last session, if it said so.
    refusal: Option<String>,
}

#[derive(Debug)]
enum LinkState {
    Waiting(Instant),
    Connecting(Receiver<io::Result<TcpStream>>),
    Up(TcpStream),
}

/// What a row is worth where room is scarce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// One of many.
    Sample,
    /// Others cannot be understood without it: a schema, metadata, the account.
    Word,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has left or waits to.
    Taken,
    /// There was no room for it.
    Dropped,
}

impl Way {
    /// Opens the way to a target; a collector need not be there.
    ///
    /// # Errors
    /// A file that cannot be written, or bundles, which need a [carrier](Self::over).
    pub fn open(target: &Target) -> io::Result<Self> {
        Ok(match target {
            Target::Tcp(address) => Self::Tcp(Link {
                address: address.clone(),
                state: LinkState::Waiting(Instant::now()),
                wait: RETRY_MIN,
                held_until: Instant::now(),
                refusal: None,
            }),
            Target::File(path) => Self::File(Box::new(File::create(path)?), HeaderState::Due),
            Target::Stdout => Self::File(Box::new(io::stdout()), HeaderState::Due),
            Target::Bundles(_) => {
                return Err(io::Error::other(
                    "this program has no node to make bundles with",
                ));
            }
        })
    }

    /// The way with a carrier.
    pub fn over(carrier: Box<dyn Carrier>) -> Self {
        Self::Parcels(Parcels::new(carrier))
    }
}

impl Outlet {
    /// The way out, and where rows wait that cannot leave.
    pub const fn new(way: Way, encoding: Encoding, spool: Spool) -> Self {
        Self {
            way,
            encoding,
            header: Vec::new(),
            pending: Vec::new(),
            sent: 0,
            written: 0,
            spool,
        }
    }

    /// True once a header was written: streams that are new after it are told of in rows.
    pub const fn has_header(&self) -> bool {
        match &self.way {
            Way::Tcp(link) => matches!(link.state, LinkState::Up(_)),
            Way::File(_, state) => matches!(state, HeaderState::Written),
            // Each parcel has one of its own, with all streams.
            Way::Parcels(_) => false,
        }
    }

    /// Takes a row of the stream with that index.
    pub fn row(&mut self, index: u8, row: &[u8], worth: Worth) -> Fate {
        if self.waiting() + row.len() > PENDING_OCTETS_MAX && self.has_header() {
            // A file takes them at once; what it says where it does not, it says again at the next look.
            let _ = self.write_file();
        }
        let after = self.waiting() + row.len();
        let has_room = match worth {
            Worth::Sample => self.spool.is_empty() && after <= PENDING_OCTETS_MAX,
            // It may overtake samples, never the other way round.
            Worth::Word => after <= PENDING_OCTETS_MAX + WORDS_OCTETS_MAX,
        };
        if has_room {
            self.pending.extend_from_slice(row);
            return Fate::Taken;
        }
        match self.spool.add(index, row) {
            true => Fate::Taken,
            false => Fate::Dropped,
        }
    }

    const fn waiting(&self) -> usize {
        self.pending.len() - self.sent
    }

    /// Octets that have left in all.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// True where nothing waits.
    pub fn is_empty(&self) -> bool {
        self.header.is_empty() && self.sent == self.pending.len() && self.spool.is_empty()
    }

    /// No more rows will come.
    pub fn hasten(&mut self) {
        if let Way::Parcels(parcels) = &mut self.way {
            parcels.hasten();
        }
    }

    /// Lets leave what can, for about as long as a write may wait; `header` is asked for where one is due, for a parcel or for all.
    ///
    /// # Errors
    /// A file that takes no more, or a spool that does not give back what it took. A collector that is away is no error.
    pub fn pump(&mut self, header: impl Fn(Option<Parcel>) -> String) -> Result<(), OutletError> {
        match &mut self.way {
            Way::File(_, state) => {
                if *state == HeaderState::Due {
                    *state = HeaderState::Written;
                    self.header = header(None).into_bytes();
                }
                return self.pump_file();
            }
            Way::Parcels(_) => return self.pump_parcels(|parcel| header(Some(parcel))),
            Way::Tcp(link) => match link.look() {
                Look::Away => {
                    // What left over the connection before is not known to have arrived; the row that was cut is known not to have.
                    self.rewind();
                    return Ok(());
                }
                Look::New => {
                    self.rewind();
                    self.header = header(None).into_bytes();
                }
                Look::Up => {}
            },
        }
        self.write_on()
    }

    fn pump_parcels(&mut self, header: impl Fn(Parcel) -> String) -> Result<(), OutletError> {
        let end = Instant::now() + WRITE_PATIENCE;
        loop {
            if self.waiting() == 0 {
                self.refill()?;
            }
            let Way::Parcels(parcels) = &mut self.way else {
                return Ok(());
            };
            match parcels.pump(self.pending.get(self.sent..).unwrap_or_default(), &header) {
                0 => return Ok(()),
                octets => self.left(octets),
            }
            if Instant::now() > end {
                return Ok(());
            }
        }
    }

    fn pump_file(&mut self) -> Result<(), OutletError> {
        let end = Instant::now() + WRITE_PATIENCE;
        self.write_file()?;
        while !self.spool.is_empty() && Instant::now() < end {
            self.refill()?;
            self.write_file()?;
        }
        Ok(())
    }

    /// Writes what is in memory into the file, where the way out is one.
    fn write_file(&mut self) -> io::Result<()> {
        loop {
            let Way::File(file, _) = &mut self.way else {
                return Ok(());
            };
            let octets = match self.header.is_empty() {
                true => self.pending.get(self.sent..).unwrap_or_default(),
                false => self.header.as_slice(),
            };
            if octets.is_empty() {
                self.pending.clear();
                self.sent = 0;
                return file.flush();
            }
            match file.write(octets) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.left(written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// So many octets of the header, or else of what waits, have left.
    fn left(&mut self, octets: usize) {
        match self.header.is_empty() {
            true => self.sent += octets,
            false => drop(self.header.drain(..octets)),
        }
        self.written += u64::try_from(octets).unwrap_or_default();
    }

    /// Everything in memory has left: takes from the disk.
    fn refill(&mut self) -> Result<(), OutletError> {
        self.pending.clear();
        self.sent = 0;
        let spool = self.spool.read(&mut self.pending, REFILL_OCTETS);
        Ok(spool?)
    }

    fn write_on(&mut self) -> Result<(), OutletError> {
        let end = Instant::now() + WRITE_PATIENCE;
        loop {
            if self.sent == self.pending.len() {
                self.refill()?;
            }
            let Way::Tcp(Link {
                state: LinkState::Up(stream),
                held_until,
                ..
            }) = &mut self.way
            else {
                return Ok(());
            };
            let octets = match self.header.is_empty() {
                true if Instant::now() < *held_until => return Ok(()),
                true => self.pending.get(self.sent..).unwrap_or_default(),
                false => self.header.as_slice(),
            };
            if octets.is_empty() {
                return Ok(());
            }
            match stream.write(octets) {
                Ok(written) => self.left(written),
                Err(error) if is_patience(&error) => return Ok(()),
                Err(_) => {
                    self.break_off();
                    return Ok(());
                }
            }
            if Instant::now() > end {
                return Ok(());
            }
        }
    }

    fn break_off(&mut self) {
        if let Way::Tcp(link) = &mut self.way {
            link.fail();
        }
        self.rewind();
    }

    /// The connection is gone: the row that was on its way goes again, whole.
    fn rewind(&mut self) {
        self.header.clear();
        let start = match self.encoding {
            Encoding::Text => self
                .pending
                .get(..self.sent)
                .and_then(|left| memchr::memrchr(b'\n', left))
                .map_or(0, |end| end + 1),
            Encoding::Binary => row_start_before(&self.pending, self.sent),
        };
        self.pending.drain(..start);
        self.sent = 0;
    }

    /// Why nothing is taken, where it is known.
    pub fn refusal(&self) -> Option<&str> {
        match &self.way {
            Way::Tcp(link) => link.refusal.as_deref(),
            Way::File(..) => None,
            Way::Parcels(parcels) => parcels.trouble(),
        }
    }

    /// Everything has left: ends the session, and waits until the collector has ended it too, which it does when it has read all.
    ///
    /// # Errors
    /// It did not within `patience`, or cut the session: what left last may not have arrived.
    pub fn finish(&mut self, patience: Duration) -> io::Result<()> {
        let Way::Tcp(Link {
            state: LinkState::Up(stream),
            ..
        }) = &mut self.way
        else {
            return Ok(());
        };
        stream.shutdown(Shutdown::Write)?;
        let end = Instant::now() + patience;
        let mut said = [0; 256];
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            stream.set_read_timeout(Some(rest.max(WRITE_PATIENCE)))?;
            match stream.read(&mut said)? {
                0 => return Ok(()),
                count => {
                    if let Answer::Refused(why) = Answer::of(said.get(..count).unwrap_or_default())
                    {
                        return Err(io::Error::other(why));
                    }
                    if rest.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
            }
        }
    }

    /// All that waits, for a file to keep; the spool is read to its end. After a loss it goes on where it was.
    ///
    /// # Errors
    /// What `write` says, or what the spool lost.
    pub fn leftover(
        &mut self,
        mut write: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), OutletError> {
        self.rewind();
        loop {
            write(&self.pending)?;
            self.pending.clear();
            if self.spool.is_empty() {
                return Ok(());
            }
            self.refill()?;
        }
    }

    /// The rows that wait on disk.
    #[cfg(test)]
    pub const fn spool(&self) -> &Spool {
        &self.spool
    }

    /// Where files of the spool are.
    pub fn spool_directory(&self) -> &std::path::Path {
        self.spool.directory()
    }
}

fn is_patience(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// How a link is found.
enum Look {
    Away,
    New,
    Up,
}

impl Link {
    fn look(&mut self) -> Look {
        match &mut self.state {
            LinkState::Up(stream) => {
                // A collector says nothing; but it may have ended the session, and the first write after that would be lost.
                let mut said = [0; 256];
                let read = stream
                    .set_nonblocking(true)
                    .and_then(|()| stream.read(&mut said));
                let is_open = match read {
                    Ok(0) => false,
                    Ok(count) => match Answer::of(said.get(..count).unwrap_or_default()) {
                        Answer::Accepted => {
                            self.held_until = Instant::now();
                            true
                        }
                        Answer::Refused(why) => {
                            self.refusal = Some(why);
                            false
                        }
                        Answer::Other => true,
                    },
                    Err(error) => is_patience(&error),
                };
                if is_open && stream.set_nonblocking(false).is_ok() {
                    if Instant::now() >= self.held_until {
                        self.refusal = None;
                    }
                    return Look::Up;
                }
                self.fail();
                Look::Away
            }
            LinkState::Waiting(until) if Instant::now() < *until => Look::Away,
            LinkState::Waiting(_) => {
                self.state = LinkState::Connecting(connect(self.address.clone()));
                Look::Away
            }
            LinkState::Connecting(outcome) => match outcome.try_recv() {
                Err(TryRecvError::Empty) => Look::Away,
                Ok(Ok(stream)) => {
                    self.held_until = Instant::now() + ANSWER_PATIENCE;
                    self.state = LinkState::Up(stream);
                    Look::New
                }
                Ok(Err(_)) | Err(TryRecvError::Disconnected) => {
                    self.fail();
                    Look::Away
                }
            },
        }
    }

    fn fail(&mut self) {
        // A session that lasted was one: only what fails again and again is tried less and less often.
        let lasted = matches!(self.state, LinkState::Up(_)) && Instant::now() > self.held_until;
        if lasted {
            self.wait = RETRY_MIN;
        }
        self.state = LinkState::Waiting(Instant::now() + self.wait);
        self.wait = (self.wait * 2).min(RETRY_MAX);
    }
}

/// What a collector says of a session.
enum Answer {
    Accepted,
    Refused(String),
    Other,
}

impl Answer {
    fn of(said: &[u8]) -> Self {
        let text = String::from_utf8_lossy(said);
        let refusal = text.lines().find_map(|line| line.strip_prefix(REFUSED));
        match refusal {
            Some(why) => Self::Refused(why.to_owned()),
            None if text.lines().any(|line| line == ACCEPTED) => Self::Accepted,
            None => Self::Other,
        }
    }
}

/// Connects beside, since a network that answers nothing takes seconds to say so.
fn connect(address: String) -> Receiver<io::Result<TcpStream>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let outcome = connect_now(&address);
        // Nobody waits any more: the client ended.
        let _ = sender.send(outcome);
    });
    receiver
}

fn connect_now(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for place in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, CONNECT_PATIENCE) {
            Ok(stream) => {
                stream.set_write_timeout(Some(WRITE_PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Why measurements cannot leave.
#[derive(Debug, thiserror::Error)]
pub enum OutletError {
    /// The file takes no more.
    #[error("cannot write measurements: {0}")]
    File(#[from] io::Error),
    /// The spool's disk does not give back what it took.
    #[error("{} rows that waited on disk are lost: {}", .0.rows.values().sum::<u64>(), .0.error)]
    SpoolLost(Lost),
}

impl From<Lost> for OutletError {
    fn from(lost: Lost) -> Self {
        Self::SpoolLost(lost)
    }
}
