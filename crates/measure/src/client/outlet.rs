//! The outlet of a client: a collector that may be away, a file, or a carrier of parcels. Rows that cannot leave wait, first
//! in memory, then on disk.

use std::fs::File;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::link::{Link, Look, WRITE_PATIENCE};
use super::parcels::{Carrier, Parcels, ROWS_OCTETS};
use super::spool::{Lost, Spool};
use super::target::Target;
use crate::omsp::Encoding;
use crate::omsp::binary::row_start_before;

/// Octets of rows that wait in memory; later rows wait on disk.
const PENDING_OCTETS_MAX: usize = 1 << 20;

/// Octets beside those for what a client says of itself, its streams and the experiment: samples cannot take their place.
const WORDS_OCTETS_MAX: usize = 256 << 10;

/// Octets that are read from the disk at once.
const REFILL_OCTETS: usize = 256 << 10;

/// The way out of one client.
#[derive(Debug)]
pub struct Outlet {
    way: Transport,
    encoding: Encoding,
    /// Octets of the header that have not left; they go before all rows.
    header: Vec<u8>,
    pending: Vec<u8>,
    /// Octets of `pending` that have left.
    sent: usize,
    /// Octets that have left in all.
    written: u64,
    spool: Spool,
}

/// The transport of rows.
pub enum Transport {
    Tcp(Link),
    File(Box<dyn Write + Send>, HeaderState),
    Parcels(Parcels),
}

/// The state of a file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderState {
    Due,
    Written,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(link) => link.fmt(f),
            Self::File(_, state) => f.debug_tuple("File").field(state).finish(),
            Self::Parcels(_) => f.write_str("Parcels"),
        }
    }
}

/// The priority of a row if room is scarce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// A sample, one of many.
    Sample,
    /// Others cannot be understood without it: a schema, metadata, the account.
    Word,
}

/// The result of adding a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The row has left or waits to.
    Taken,
    /// There was no room for the row.
    Dropped,
}

impl Transport {
    /// Opens the way to a target; a collector need not be there.
    ///
    /// # Errors
    /// A file that cannot be written, or bundles, which need a [carrier](Self::over).
    pub fn open(target: &Target) -> io::Result<Self> {
        Ok(match target {
            Target::Tcp(address) => Self::Tcp(Link::to(address)),
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
    pub const fn new(way: Transport, encoding: Encoding, spool: Spool) -> Self {
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
            Transport::Tcp(link) => link.is_up(),
            Transport::File(_, state) => matches!(state, HeaderState::Written),
            // Each parcel has one of its own, with all streams.
            Transport::Parcels(_) => false,
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
            // One row that is longer goes alone.
            Worth::Sample => {
                self.spool.is_empty() && (after <= PENDING_OCTETS_MAX || self.waiting() == 0)
            }
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
        if let Transport::Parcels(parcels) = &mut self.way {
            parcels.hasten();
        }
    }

    /// Lets leave what can, for about as long as a write may wait; `header` is asked for where one is due, for the parcel of a number or for all.
    ///
    /// # Errors
    /// A file that takes no more, or a spool that does not give back what it took. A collector that is away is no error.
    pub fn pump(&mut self, header: impl Fn(Option<u64>) -> String) -> Result<(), OutletError> {
        match &mut self.way {
            Transport::File(_, state) => {
                if *state == HeaderState::Due {
                    *state = HeaderState::Written;
                    self.header = header(None).into_bytes();
                }
                return self.pump_file();
            }
            Transport::Parcels(_) => return self.pump_parcels(|number| header(Some(number))),
            Transport::Tcp(link) => match link.look() {
                Look::Away => {
                    // Rows that left over the last connection may not have arrived, and are not sent again; a row that was cut has
                    // not, and is.
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

    fn pump_parcels(&mut self, header: impl Fn(u64) -> String) -> Result<(), OutletError> {
        let end = Instant::now() + WRITE_PATIENCE;
        loop {
            // A parcel is full where more rows wait behind.
            if self.waiting() < ROWS_OCTETS {
                self.refill()?;
            }
            let Transport::Parcels(parcels) = &mut self.way else {
                return Ok(());
            };
            match parcels.pump(self.pending.get(self.sent..).unwrap_or_default(), &header) {
                0 => return Ok(()),
                octets => {
                    self.left(octets);
                    self.release();
                }
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
            let Transport::File(file, _) = &mut self.way else {
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

    /// Frees the memory of rows that have left.
    fn release(&mut self) {
        self.pending.drain(..self.sent);
        self.sent = 0;
    }

    /// Little or nothing is left in memory: takes from the disk.
    fn refill(&mut self) -> Result<(), OutletError> {
        self.release();
        let spool = self.spool.read(&mut self.pending, REFILL_OCTETS);
        Ok(spool?)
    }

    fn write_on(&mut self) -> Result<(), OutletError> {
        let end = Instant::now() + WRITE_PATIENCE;
        loop {
            if self.sent == self.pending.len() {
                self.refill()?;
            }
            let Transport::Tcp(link) = &mut self.way else {
                return Ok(());
            };
            let octets = match self.header.is_empty() {
                true if link.holds_rows() => return Ok(()),
                true => self.pending.get(self.sent..).unwrap_or_default(),
                false => self.header.as_slice(),
            };
            if octets.is_empty() {
                return Ok(());
            }
            match link.write(octets) {
                Ok(0) => return Ok(()),
                Ok(written) => {
                    self.left(written);
                    if self.sent > PENDING_OCTETS_MAX {
                        // Something may always wait behind it.
                        self.release_rows();
                    }
                }
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
        if let Transport::Tcp(link) = &mut self.way {
            link.fail();
        }
        self.rewind();
    }

    /// The connection is gone: the row that was on its way goes again, whole.
    fn rewind(&mut self) {
        self.header.clear();
        self.release_rows();
        self.sent = 0;
    }

    /// Rows that have left take no more memory; one that has left in part stays whole.
    fn release_rows(&mut self) {
        let start = match self.encoding {
            Encoding::Text => self
                .pending
                .get(..self.sent)
                .and_then(|left| memchr::memrchr(b'\n', left))
                .map_or(0, |end| end + 1),
            Encoding::Binary => row_start_before(&self.pending, self.sent),
        };
        self.pending.drain(..start);
        self.sent -= start;
    }

    /// The reason for which nothing is taken, where it is known.
    pub fn refusal(&self) -> Option<&str> {
        match &self.way {
            Transport::Tcp(link) => link.refusal(),
            Transport::File(..) => None,
            Transport::Parcels(parcels) => parcels.trouble(),
        }
    }

    /// Everything has left: ends the session, and waits until the collector has ended it too, which it does when it has read all.
    ///
    /// # Errors
    /// It did not within `patience`, or cut the session: the last rows may not have arrived.
    pub fn finish(&mut self, patience: Duration) -> io::Result<()> {
        match &mut self.way {
            Transport::Tcp(link) => link.finish(patience),
            Transport::File(..) | Transport::Parcels(_) => Ok(()),
        }
    }

    /// All that waits, for a file to keep; the spool is read to its end. After a loss it goes on where it was.
    ///
    /// # Errors
    /// The error of `write`, or a loss in the spool.
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

    /// The directory in which the spool makes its files.
    pub fn spool_directory(&self) -> &std::path::Path {
        self.spool.directory()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Read as _;
    use std::net::TcpListener;

    use crate::omsp::header::ACCEPTED;

    const ROW_OCTETS: usize = 1000;

    /// Takes all.
    struct Taker;

    impl Carrier for Taker {
        fn carry(&mut self, _parcel: &[u8]) -> io::Result<()> {
            Ok(())
        }
    }

    fn outlet(spool_octets: u64) -> Outlet {
        let spool = Spool::new(std::env::temp_dir(), spool_octets);
        Outlet::new(Transport::over(Box::new(Taker)), Encoding::Text, spool)
    }

    fn add(outlet: &mut Outlet, rows: usize) {
        let row = format!("{:>1$}\n", "", ROW_OCTETS - 1);
        for _ in 0..rows {
            let fate = outlet.row(2, row.as_bytes(), Worth::Sample);
            assert_eq!(fate, Fate::Taken);
        }
    }

    #[test]
    fn rows_that_left_in_parcels_take_no_memory() {
        let mut outlet = outlet(0);
        for _ in 0..40 {
            // A part of them always waits for the next parcel.
            add(&mut outlet, 70);
            outlet.pump(|_| String::new()).unwrap();
            assert!(outlet.pending.len() < 3 * ROWS_OCTETS);
        }
        assert!(outlet.written() > 2 << 20);
    }

    #[test]
    fn rows_that_left_over_a_connection_take_no_memory_though_others_always_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let spool = Spool::new(std::env::temp_dir(), 0);
        let way = Transport::open(&Target::Tcp(address)).unwrap();
        let mut outlet = Outlet::new(way, Encoding::Text, spool);
        let pump = |outlet: &mut Outlet| outlet.pump(|_| "header\n".to_owned()).unwrap();
        while !outlet.has_header() {
            pump(&mut outlet);
        }
        let (mut collector, _) = listener.accept().unwrap();
        collector.write_all(ACCEPTED.as_bytes()).unwrap();
        collector.write_all(b"\n").unwrap();
        // The connection's own buffers are filled first; then as much is read as is added.
        let mut read = 0;
        let mut octets = vec![0; 256 << 10];
        while read < 6 << 20 {
            while outlet.waiting() < 700 << 10 {
                add(&mut outlet, 100);
            }
            pump(&mut outlet);
            if outlet.waiting() > 500 << 10 {
                read += collector.read(&mut octets).unwrap();
            }
            assert!(outlet.pending.len() < 3 << 20, "{}", outlet.pending.len());
        }
        let text = String::from_utf8(octets).unwrap();
        assert!(text.lines().any(|line| line.len() == ROW_OCTETS - 1));
    }

    #[test]
    fn parcels_are_full_while_rows_wait_on_disk() {
        let mut outlet = outlet(8 << 20);
        let rows = 3000;
        add(&mut outlet, rows);
        assert!(!outlet.spool.is_empty());
        for _ in 0..100 {
            outlet.pump(|_| String::new()).unwrap();
        }
        assert!(outlet.spool.is_empty() && outlet.waiting() < ROWS_OCTETS);
        let left = usize::try_from(outlet.written()).unwrap();
        assert_eq!(left + outlet.waiting(), rows * ROW_OCTETS);
    }
}
