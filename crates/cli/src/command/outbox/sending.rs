//! A connection that sends changes, made anew when the node has been away. A change without an answer counts as not sent.

use std::collections::VecDeque;
use std::io::Read as _;
use std::time::{Duration, Instant};

use dhow_client::folder::RelativePath;
use dhow_client::{Address, Client, Created, Error, Refusal, Registration, SendHead, Sender};

use super::ledger::Sent;
use super::reading::Content;
use crate::application;
use crate::failure::Failure;

/// First and largest delay before connecting again.
const BACKOFF: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// The time that a node may take to greet.
const GREETING: Duration = Duration::from_secs(5);

/// A change that the node is told, and the file as it was before.
#[derive(Debug)]
pub struct Told {
    /// Its path.
    pub path: RelativePath,
    /// The file; `None` where it is gone.
    pub file: Option<Sent>,
    /// Its number.
    pub sequence: u64,
}

/// A change, and the node's answer to it.
pub type Answered = (Told, Result<Created, Refusal>);

/// The outcome of sending a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node will answer.
    Sent,
    /// The file changed while it was read; the connection is given up with what was not answered.
    Changed,
    /// The node is away.
    Lost,
}

/// A connection that sends changes.
#[derive(Debug)]
pub struct Sending {
    address: Address,
    registration: Registration,
    head: SendHead,
    sender: Option<Sender>,
    /// Changes that were sent and are not answered, in order; the caller bounds their number.
    unanswered: VecDeque<Told>,
    backoff: Duration,
    next_try: Instant,
    /// The time since which the node is away.
    away_since: Option<Instant>,
}

impl Sending {
    /// Uses a connection, and others to the same address after it.
    pub fn begin(
        client: Client,
        address: &Address,
        registration: Registration,
        head: SendHead,
    ) -> Result<Self, Failure> {
        let sender = client
            .sender(&registration)
            .map_err(|error| application::failure("send from the endpoint", &error))?;
        let [backoff, _] = BACKOFF;
        Ok(Self {
            address: address.clone(),
            registration,
            head,
            sender: Some(sender),
            unanswered: VecDeque::new(),
            backoff,
            next_try: Instant::now(),
            away_since: None,
        })
    }

    /// The time since which the node is away, if it is.
    pub const fn away_since(&self) -> Option<Instant> {
        self.away_since
    }

    /// Changes that are not answered.
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Connects again if that is needed and it is time to; true when there is a connection.
    pub fn connect(&mut self) -> Result<bool, Failure> {
        if self.sender.is_some() {
            return Ok(true);
        }
        if Instant::now() < self.next_try {
            return Ok(false);
        }
        let client = Client::connect_within(&self.address, GREETING);
        match client.and_then(|client| client.sender(&self.registration)) {
            Ok(sender) => {
                [self.backoff, _] = BACKOFF;
                self.sender = Some(sender);
                self.away_since = None;
                Ok(true)
            }
            Err(error) if error.is_lost() => {
                let [_, largest] = BACKOFF;
                self.away_since.get_or_insert_with(Instant::now);
                self.next_try = Instant::now() + self.backoff;
                self.backoff = (self.backoff * 2).min(largest);
                Ok(false)
            }
            Err(error) => Err(application::failure("send from the endpoint again", &error)),
        }
    }

    /// Sends a change: a header, and the octets of a file behind it.
    pub fn send(
        &mut self,
        told: Told,
        header: &[u8],
        content: Option<Content>,
    ) -> Result<Outcome, Failure> {
        let Some(sender) = &mut self.sender else {
            return Ok(Outcome::Lost);
        };
        let sent = match content {
            None => sender.send_octets(&self.head, header),
            Some(Content::Memory(octets)) => {
                let payload = [header, &octets].concat();
                sender.send_octets(&self.head, &payload)
            }
            Some(Content::File(file)) => {
                let octets = told.file.map_or(0, |it| it.stamp.octets);
                let header_octets = u64::try_from(header.len()).unwrap_or(u64::MAX);
                let length = octets.saturating_add(header_octets);
                sender.send(&self.head, header.chain(file), length)
            }
        };
        self.unanswered.push_back(told);
        match sent {
            Ok(_) => Ok(Outcome::Sent),
            Err(Error::Payload(_) | Error::PayloadShort { .. }) => {
                self.sender = None;
                self.unanswered.clear();
                self.next_try = Instant::now();
                Ok(Outcome::Changed)
            }
            Err(error) => self.lose(&error).map(|()| Outcome::Lost),
        }
    }

    /// The next answer; waits for it at most for `wait`, where there is one to wait for.
    pub fn answer(&mut self, wait: Option<Duration>) -> Result<Option<Answered>, Failure> {
        let Some(sender) = &mut self.sender else {
            return Ok(None);
        };
        let answer = match wait {
            None => sender.poll_answer(),
            wait => sender.next_answer(wait),
        };
        match answer {
            Ok(None) => Ok(None),
            Ok(Some(answer)) => {
                let told = self.unanswered.pop_front();
                Ok(told.map(|told| (told, answer.outcome)))
            }
            Err(error) => self.lose(&error).map(|()| None),
        }
    }

    /// The connection is lost: changes without an answer may be at the node, and count as not sent.
    fn lose(&mut self, error: &Error) -> Result<(), Failure> {
        if !error.is_lost() {
            return Err(application::failure("send", error));
        }
        self.sender = None;
        self.unanswered.clear();
        self.next_try = Instant::now() + self.backoff;
        self.away_since.get_or_insert_with(Instant::now);
        Ok(())
    }
}
