//! A sending connection that outlives a restart of the node.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use dhow_client::{Address, Client, Created, Error, Refusal, Registration, Sender};

use crate::application;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;

/// The time for which the node may be away: a restart takes seconds, and the program that reads the payload should not hang.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// First and largest delay before connecting again.
const BACKOFF: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// A call that hands a bundle to the sender.
pub trait Write<T>: FnMut(&mut Sender, &T) -> Result<(), Error> {}
impl<T, W: FnMut(&mut Sender, &T) -> Result<(), Error>> Write<T> for W {}

/// An item that was sent, and the node's answer to it.
pub type Answered<T> = (T, Result<Created, Refusal>);

/// A sending connection that outlives a restart of the node: what the node had not answered is sent again.
/// It may have been stored before, and then arrives twice.
#[derive(Debug)]
pub struct SteadySender<T> {
    address: Address,
    registration: Registration,
    sender: Sender,
    /// Items that were sent and not answered, oldest first.
    unanswered: VecDeque<T>,
    /// Answers of connections that were lost after them.
    ready: VecDeque<Answered<T>>,
    repeated: u64,
}

impl<T> SteadySender<T> {
    /// Connects; the node must be there now.
    pub fn begin(
        client: Client,
        address: &Address,
        registration: Registration,
    ) -> Result<Self, Failure> {
        let sender = client
            .sender(&registration)
            .map_err(|error| application::failure("send from the endpoint", &error))?;
        Ok(Self {
            address: address.clone(),
            registration,
            sender,
            unanswered: VecDeque::new(),
            ready: VecDeque::new(),
            repeated: 0,
        })
    }

    /// Bundles that the node has not answered.
    pub fn unanswered(&self) -> usize {
        self.unanswered.len() + self.ready.len()
    }

    /// Bundles that were sent again after a loss.
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Sends a bundle, as [`Sender::send`] does.
    pub fn send(&mut self, item: T, write: &mut impl Write<T>) -> Result<(), Failure> {
        self.unanswered.push_back(item);
        let Some(item) = self.unanswered.back() else {
            return Ok(());
        };
        let written = write(&mut self.sender, item);
        self.heed(written, write)
    }

    /// Writes what was collected.
    pub fn flush(&mut self, write: &mut impl Write<T>) -> Result<(), Failure> {
        let flushed = self.sender.flush();
        self.heed(flushed, write)
    }

    /// An answer that has come; does not wait.
    pub fn poll_answer(
        &mut self,
        write: &mut impl Write<T>,
    ) -> Result<Option<Answered<T>>, Failure> {
        if let Some(ready) = self.ready.pop_front() {
            return Ok(Some(ready));
        }
        match self.sender.poll_answer() {
            Ok(answer) => {
                Ok(answer.and_then(|answer| Some((self.unanswered.pop_front()?, answer.outcome))))
            }
            Err(error) => {
                self.heed(Err(error), write)?;
                Ok(self.ready.pop_front())
            }
        }
    }

    /// The next answer, waiting for it at most `timeout`; `None` when the time is over or nothing is
    /// unanswered.
    pub fn next_answer(
        &mut self,
        timeout: Duration,
        write: &mut impl Write<T>,
    ) -> Result<Option<Answered<T>>, Failure> {
        if let Some(ready) = self.ready.pop_front() {
            return Ok(Some(ready));
        }
        match self.sender.next_answer(Some(timeout)) {
            Ok(answer) => {
                Ok(answer.and_then(|answer| Some((self.unanswered.pop_front()?, answer.outcome))))
            }
            Err(error) => {
                self.heed(Err(error), write)?;
                Ok(self.ready.pop_front())
            }
        }
    }

    /// If the connection was lost, connects again and sends again what was not answered.
    fn heed(
        &mut self,
        outcome: Result<(), Error>,
        write: &mut impl Write<T>,
    ) -> Result<(), Failure> {
        let Err(mut error) = outcome else {
            return Ok(());
        };
        let begun = Instant::now();
        let [mut backoff, largest] = BACKOFF;
        if matches!(error, Error::Silent(_)) {
            // It is there, and has been waited for.
            return Err(application::failure("send", &error));
        }
        if error.is_lost() && !interrupt::is_requested() {
            output::note("the node is away, trying again");
        }
        loop {
            if !error.is_lost() || interrupt::is_requested() || begun.elapsed() >= PATIENCE {
                return Err(application::failure("send", &error));
            }
            while let Ok(Some(answer)) = self.sender.poll_answer() {
                if let Some(item) = self.unanswered.pop_front() {
                    self.ready.push_back((item, answer.outcome));
                }
            }
            thread::sleep(backoff);
            backoff = (backoff * 2).min(largest);
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match self.connect_again(left, write) {
                Ok(()) => {
                    output::note("the node is back");
                    return Ok(());
                }
                Err(again) => error = again,
            }
        }
    }

    fn connect_again(&mut self, left: Duration, write: &mut impl Write<T>) -> Result<(), Error> {
        let client = Client::connect_within(&self.address, left.max(BACKOFF[1]))?;
        self.sender = client.sender(&self.registration)?;
        for item in &self.unanswered {
            write(&mut self.sender, item)?;
            self.repeated += 1;
        }
        self.sender.flush()
    }
}
