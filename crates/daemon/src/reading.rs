//! Reads that a node asks for: from memory at once, from the disk by a thread of their own, so that neither the node nor its sessions
//! wait for a disk.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use dhow_bundle::storage::Extents;
use dhow_node::driver::Ticket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::extents::ExtentReader;

/// Requests that the thread answers together, at most: neighbours in the log come in by one read.
const TOGETHER: usize = 256;

/// A request: its number, and the octets that are wanted.
type Request = (Ticket, Extents);

/// An answer: the octets, or none where the disk refused.
pub type Answer = (Ticket, Option<Bytes>);

/// The requests of a node. Their answers come in the order in which they were made, so that bundles leave in their order.
pub struct Reads {
    reader: ExtentReader,
    asked: VecDeque<Request>,
    thread: Sender<Request>,
    /// Requests that the thread has not answered.
    away: usize,
}

impl Reads {
    /// No requests yet, and the answers of the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(reader: ExtentReader) -> io::Result<(Self, UnboundedReceiver<Vec<Answer>>)> {
        let (thread, requests) = channel();
        let (answers, answered) = unbounded_channel();
        let of_thread = reader.clone();
        std::thread::Builder::new()
            .name("reads".to_owned())
            .spawn(move || answer(&of_thread, &requests, &answers))?;
        let reads = Self {
            reader,
            asked: VecDeque::new(),
            thread,
            away: 0,
        };
        Ok((reads, answered))
    }

    /// Notes a request.
    pub fn ask(&mut self, ticket: Ticket, extents: Extents) {
        self.asked.push_back((ticket, extents));
    }

    /// Requests that can be answered, or given to the thread, now: none while it has others.
    pub fn due(&self) -> usize {
        match self.away {
            0 => self.asked.len(),
            _ => 0,
        }
    }

    /// The answer to the first request, where the octets are in memory. Where they are not, the thread has it from then on, and some
    /// of those behind it, whose octets it brings into memory with them.
    pub fn next(&mut self) -> Option<Answer> {
        if self.away > 0 {
            return None;
        }
        let (_, extents) = self.asked.front()?;
        if let Some(octets) = self.reader.in_memory(extents) {
            let (ticket, _) = self.asked.pop_front()?;
            return Some((ticket, Some(octets)));
        }
        let together = self.asked.len().min(TOGETHER);
        for request in self.asked.drain(..together) {
            // Where the thread is gone the node is, too.
            if self.thread.send(request).is_ok() {
                self.away += 1;
            }
        }
        None
    }

    /// The thread has answered so many requests.
    pub const fn end(&mut self, answers: usize) {
        self.away = self.away.saturating_sub(answers);
    }
}

/// Answers requests until no more can come.
fn answer(
    reader: &ExtentReader,
    requests: &Receiver<Request>,
    answers: &UnboundedSender<Vec<Answer>>,
) {
    while let Ok(first) = requests.recv() {
        let more = requests.try_iter().take(TOGETHER - 1);
        let (tickets, extents): (Vec<_>, Vec<_>) = std::iter::once(first).chain(more).unzip();
        let octets = reader.read_each(&extents);
        if answers
            .send(tickets.into_iter().zip(octets).collect())
            .is_err()
        {
            return;
        }
    }
}
