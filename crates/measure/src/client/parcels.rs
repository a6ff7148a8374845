//! The way out over a network that is there now and then: parcels leave, each a session of its own.

use std::io;
use std::time::{Duration, Instant};

use super::retry::Retry;

/// Octets of rows in a parcel, about: a row that begins within is whole.
pub const ROWS_OCTETS: usize = 64 << 10;

/// The longest time that the first row of a parcel waits for others.
const GATHER: Duration = Duration::from_secs(10);

/// Takes parcels over, and answers for them from then on.
pub trait Carrier: Send {
    /// Takes a parcel; may block for seconds. A retry after a failure has the same octets.
    ///
    /// # Errors
    /// It is not known to be taken: it will be tried again.
    fn carry(&mut self, parcel: &[u8]) -> io::Result<()>;
}

/// Parcels of one client.
pub struct Parcels {
    carrier: Box<dyn Carrier>,
    /// The number of the next one, from 1.
    next: u64,
    /// The parcel that is to leave, and how many octets of rows are in it.
    packed: Option<(Vec<u8>, usize)>,
    /// When the first row came that waits.
    since: Option<Instant>,
    /// Whether no more rows will come.
    is_last: bool,
    retry: Retry,
    trouble: Option<String>,
}

impl Parcels {
    pub fn new(carrier: Box<dyn Carrier>) -> Self {
        Self {
            carrier,
            next: 1,
            packed: None,
            since: None,
            is_last: false,
            retry: Retry::new(),
            trouble: None,
        }
    }

    /// No more rows will come: waiting ones leave without others.
    pub fn hasten(&mut self) {
        self.is_last = true;
        self.retry.hasten();
    }

    /// Why the last parcel was not taken, where it was not.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Lets a parcel leave, where one is due, and says how many octets of `rows` have left with it; 0 where none did.
    pub fn pump(&mut self, rows: &[u8], header: impl Fn(u64) -> String) -> usize {
        if rows.is_empty() {
            self.since = None;
            return 0;
        }
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let is_due =
            self.is_last || rows.len() >= ROWS_OCTETS || now.duration_since(since) >= GATHER;
        if !is_due || !self.retry.is_due() {
            return 0;
        }
        let next = self.next;
        // A parcel that may have been taken already keeps its number and its octets.
        let (parcel, octets) = self.packed.get_or_insert_with(|| {
            let part = whole_rows(rows);
            ([header(next).as_bytes(), part].concat(), part.len())
        });
        match self.carrier.carry(parcel) {
            Ok(()) => {
                let octets = *octets;
                self.packed = None;
                self.since = None;
                self.next += 1;
                self.retry.succeeded();
                self.trouble = None;
                octets
            }
            Err(error) => {
                self.trouble = Some(error.to_string());
                self.retry.failed();
                0
            }
        }
    }
}

/// The first rows, up to about [`ROWS_OCTETS`]; `rows` are lines.
fn whole_rows(rows: &[u8]) -> &[u8] {
    let head = rows.get(..ROWS_OCTETS).unwrap_or(rows);
    let end = match memchr::memrchr(b'\n', head) {
        Some(end) => end + 1,
        // One row that is longer.
        None => memchr::memchr(b'\n', rows).map_or(rows.len(), |end| end + 1),
    };
    rows.get(..end).unwrap_or(rows)
}
