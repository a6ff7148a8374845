//! Reads that a node asks for. A disk that answers quickly is read in the node's turn, since a turn more would take longer; a slow one by a
//! thread of its own, so that neither the node nor its sessions wait for it.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dhow_bundle::storage::Extents;
use dhow_node::driver::Ticket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::extents::ExtentReader;

/// Requests that are answered together, at most: neighbours in the log come in by one read.
const TOGETHER: usize = 256;

/// A disk that takes longer for requests which are answered together is slow.
const SLOW: Duration = Duration::from_millis(1);

/// A slow disk that takes less is quick again.
const QUICK: Duration = Duration::from_micros(250);

/// A request: its number, and the octets that are wanted.
type Request = (Ticket, Extents);

/// An answer: the octets, or none if the disk refused.
pub type Answer = (Ticket, Option<Bytes>);

/// The answers of the thread to requests that it took together, and the time that the disk took.
pub struct Answered {
    /// The answers in the order of the requests.
    pub answers: Vec<Answer>,
    took: Duration,
}

/// The requests of a node. Their answers come in the order in which they were made, so that bundles leave in their order.
pub struct Reads {
    reader: ExtentReader,
    tickets: Vec<Ticket>,
    extents: Vec<Extents>,
    thread: Sender<Request>,
    /// Requests that the thread has not answered.
    away: usize,
    is_slow: bool,
}

impl Reads {
    /// No requests yet, and the answers of the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(reader: ExtentReader) -> io::Result<(Self, UnboundedReceiver<Answered>)> {
        let (thread, requests) = channel();
        let (answers, answered) = unbounded_channel();
        let of_thread = reader.clone();
        std::thread::Builder::new()
            .name("reads".to_owned())
            .spawn(move || answer(&of_thread, &requests, &answers))?;
        let reads = Self {
            reader,
            tickets: Vec::new(),
            extents: Vec::new(),
            thread,
            away: 0,
            is_slow: false,
        };
        Ok((reads, answered))
    }

    /// Notes a request.
    pub fn ask(&mut self, ticket: Ticket, extents: Extents) {
        self.tickets.push(ticket);
        self.extents.push(extents);
    }

    /// Requests that can be answered, or given to the thread, now: none while it has others.
    pub fn due(&self) -> usize {
        match self.away {
            0 => self.tickets.len(),
            _ => 0,
        }
    }

    /// Answers to all requests that are due. Of a slow disk only to the first, as many as have their octets in memory: the thread gets the
    /// next ones, and those behind wait for it.
    pub fn answer(&mut self) -> Vec<Answer> {
        if self.away > 0 {
            return Vec::new();
        }
        if !self.is_slow {
            let began = Instant::now();
            let octets = self.reader.read_each(&self.extents);
            self.is_slow = began.elapsed() > SLOW;
            self.extents.clear();
            return self.tickets.drain(..).zip(octets).collect();
        }
        let octets = self.reader.in_memory(&self.extents);
        let tickets = self.tickets.drain(..octets.len());
        self.extents.drain(..octets.len());
        let answers = tickets.zip(octets.into_iter().map(Some)).collect();
        let together = self.extents.len().min(TOGETHER);
        let extents = self.extents.drain(..together);
        for request in self.tickets.drain(..together).zip(extents) {
            // If the thread is gone the node is, too.
            if self.thread.send(request).is_ok() {
                self.away += 1;
            }
        }
        answers
    }

    /// The thread has answered.
    pub fn end(&mut self, answered: &Answered) {
        self.away = self.away.saturating_sub(answered.answers.len());
        self.is_slow = answered.took > QUICK;
    }
}

/// Answers requests until no more can come.
fn answer(
    reader: &ExtentReader,
    requests: &Receiver<Request>,
    answers: &UnboundedSender<Answered>,
) {
    while let Ok(first) = requests.recv() {
        let more = requests.try_iter().take(TOGETHER - 1);
        let (tickets, extents): (Vec<_>, Vec<_>) = std::iter::once(first).chain(more).unzip();
        let began = Instant::now();
        let octets = reader.read_each(&extents);
        let answered = Answered {
            answers: tickets.into_iter().zip(octets).collect(),
            took: began.elapsed(),
        };
        if answers.send(answered).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::sync::Arc;

    use dhow_bundle::storage::Extent;
    use dhow_store::{Disk, DiskError, MemoryDisk, Options, Store};

    use super::*;

    /// A disk that takes its time, once it is told to.
    #[derive(Debug)]
    struct Slow(MemoryDisk, std::sync::atomic::AtomicU64);

    impl Disk for Slow {
        fn size(&self) -> Result<u64, DiskError> {
            self.0.size()
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
            let millis = self.1.load(std::sync::atomic::Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(millis));
            self.0.read_at(offset, out)
        }

        fn write_at(&self, offset: u64, octets: &[IoSlice<'_>]) -> Result<(), DiskError> {
            self.0.write_at(offset, octets)
        }

        fn resize(&self, octets: u64) -> Result<(), DiskError> {
            self.0.resize(octets)
        }

        fn reserve(&self, offset: u64, octets: u64) -> Result<(), DiskError> {
            self.0.reserve(offset, octets)
        }

        fn sync(&self) -> Result<(), DiskError> {
            self.0.sync()
        }
    }

    fn ask(reads: &mut Reads, tickets: std::ops::Range<u64>) {
        for ticket in tickets {
            // Far apart, so that each is a read of its own.
            let offset = ticket % 2 * 100_000;
            reads.ask(Ticket(ticket), Extents::One(Extent { offset, length: 8 }));
        }
    }

    #[test]
    fn answers_keep_their_order_whether_the_disk_is_quick_or_slow() {
        let disk = Arc::new(Slow(MemoryDisk::new(), 0.into()));
        let in_store: Arc<dyn Disk> = disk.clone();
        let (store, _) =
            Store::open(in_store, Options::default()).expect("a store can be made in memory");
        let reader = ExtentReader::new(store.reader());
        let (mut reads, mut answered) = Reads::start(reader).expect("there is a thread");
        let mut heard = Vec::new();
        let mut by_thread = 0;
        for (round, millis) in [0, 0, 3, 3, 3, 0, 0, 0].into_iter().enumerate() {
            disk.1.store(millis, std::sync::atomic::Ordering::Relaxed);
            let first = u64::try_from(round).unwrap_or(0) * 4;
            ask(&mut reads, first..first + 3);
            heard.extend(reads.answer());
            // One more is asked for while the thread reads.
            ask(&mut reads, first + 3..first + 4);
            heard.extend(reads.answer());
            while reads.due() == 0 && heard.len() < (round + 1) * 4 {
                let batch = answered.blocking_recv().expect("the thread answers");
                reads.end(&batch);
                by_thread += batch.answers.len();
                heard.extend(batch.answers);
                heard.extend(reads.answer());
            }
        }
        let tickets: Vec<u64> = heard.iter().map(|(ticket, _)| ticket.0).collect();
        assert_eq!(tickets, (0..32).collect::<Vec<_>>());
        assert!(heard.iter().all(|(_, octets)| octets.is_some()));
        assert!((1..32).contains(&by_thread), "{by_thread}");
    }
}
