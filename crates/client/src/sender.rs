//! Sending bundles without waiting for each.

use std::collections::VecDeque;
use std::io::Read;
use std::time::{Duration, Instant};

use dhow_bundle::{CreationTimestamp, EndpointId};
use dhow_node::api::wire::{AapMessage, Body};

use crate::connection::{Connection, WRITE_OCTETS, Wait};
use crate::error::{Error, Refusal};
use crate::request::{Answers, Request, Response, SendHead};

/// Most requests that wait for their answer before `send` waits for one: at 300,000 bundles a second
/// they cover a flush of 13 ms.
const REQUESTS_MAX: usize = 4096;

/// Octets of answers that may be under way. A node stops reading requests when 1 MiB of answers wait
/// for their client; keeping to half of it, neither side can wait for the other.
const ANSWER_OCTETS_MAX: usize = 512 << 10;

/// Octets of an answer beside its endpoint IDs, about: numbers, or a sentence of refusal, which is twice as long.
const ANSWER_OCTETS: usize = 96;

/// After a look for answers that found none, the next one costs a system call only this much later.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Octets of a streamed payload that are read and written at a time.
const PAYLOAD_CHUNK_OCTETS: usize = 256 * 1024;

/// A request of one sender: numbered from 0 in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A bundle that the node has created and will not lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Source endpoint.
    pub source: EndpointId,
    /// Creation timestamp.
    pub creation: CreationTimestamp,
    /// Lifetime in milliseconds.
    pub lifetime_ms: u64,
}

/// A node's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The ticket of the request.
    pub ticket: Ticket,
    /// The bundle, or why there is none.
    pub outcome: Result<Created, Refusal>,
}

/// A request under way.
#[derive(Debug)]
struct Outstanding {
    ticket: Ticket,
    answer_octets: usize,
}

/// A connection that sends. Requests are written ahead of their answers, which come in the same order.
///
/// Small bundles are collected and written together: [`flush`](Self::flush), or ask for an answer, when
/// no more follow at once.
#[derive(Debug)]
pub struct Sender {
    connection: Connection,
    /// Octets of the connection's endpoint ID as text, which answers repeat.
    endpoint_octets: usize,
    next: Ticket,
    outstanding: VecDeque<Outstanding>,
    /// Octets that the outstanding answers may have.
    answer_octets: usize,
    /// Answers not yet taken: as many as were sent for, until the caller asks.
    answers: VecDeque<Answer>,
    /// The newest request: mostly the next one is like it.
    request: Option<Request>,
    reader: Answers,
    /// When answers were last looked for in vain, if nothing was written since.
    looked: Option<Instant>,
    /// Streams payloads; made at the first large one.
    chunk: Vec<u8>,
}

impl Sender {
    pub(crate) fn new(mut connection: Connection, endpoint_octets: usize) -> Self {
        connection.read_while_writing();
        Self {
            connection,
            endpoint_octets,
            next: Ticket(0),
            outstanding: VecDeque::new(),
            answer_octets: 0,
            answers: VecDeque::new(),
            request: None,
            reader: Answers::default(),
            looked: None,
            chunk: Vec::new(),
        }
    }

    /// Send a bundle with `length` octets from `payload`, which are read as they leave. Waits when too
    /// many requests are unanswered, or the node takes no more octets.
    ///
    /// # Errors
    /// [`Error::Payload`] and [`Error::PayloadShort`] when `payload` does not give its octets, others
    /// when the connection is lost. After any of them this sender is of no more use; answers that came
    /// before can still be taken.
    pub fn send(
        &mut self,
        head: &SendHead,
        mut payload: impl Read,
        length: u64,
    ) -> Result<Ticket, Error> {
        let ticket = self.begin(head, length)?;
        let mut left = length;
        self.chunk.resize(PAYLOAD_CHUNK_OCTETS, 0);
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let read = match self.chunk.get_mut(..most.min(PAYLOAD_CHUNK_OCTETS)) {
                Some(room) => payload.read(room),
                None => Ok(0),
            };
            let octets = match read {
                Ok(0) => {
                    return Err(Error::PayloadShort {
                        length,
                        missing: left,
                    });
                }
                Ok(octets) => octets,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::Payload(error)),
            };
            let chunk = std::mem::take(&mut self.chunk);
            let outcome = self.write(chunk.get(..octets).unwrap_or_default());
            self.chunk = chunk;
            outcome?;
            left = left.saturating_sub(u64::try_from(octets).unwrap_or(u64::MAX));
        }
        Ok(ticket)
    }

    /// Send a bundle from memory.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_octets(&mut self, head: &SendHead, payload: &[u8]) -> Result<Ticket, Error> {
        let ticket = self.begin(head, u64::try_from(payload.len()).unwrap_or(u64::MAX))?;
        self.write(payload)?;
        Ok(ticket)
    }

    /// Write what was collected.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.connection.pending() > 0 {
            // Answers that have come are taken before more is written: see ANSWER_OCTETS_MAX.
            self.take_answers(Wait::No)?;
            let outcome = self.connection.flush();
            self.written(outcome)?;
        }
        Ok(())
    }

    /// An answer that has come; does not wait. Asking after each bundle is cheap: the system is asked
    /// once for what was written together, and then once a millisecond.
    ///
    /// # Errors
    /// When the connection is lost and no answer is left.
    pub fn poll_answer(&mut self) -> Result<Option<Answer>, Error> {
        let is_known_empty = self
            .looked
            .is_some_and(|looked| looked.elapsed() < LOOK_AGAIN);
        if self.answers.is_empty() && !self.outstanding.is_empty() && !is_known_empty {
            let outcome = self.take_answers(Wait::No);
            self.looked = Some(Instant::now());
            if self.answers.is_empty() {
                outcome?;
            }
        }
        Ok(self.answers.pop_front())
    }

    /// The next answer, waiting for it at most `timeout`; `None` when the time is over or no request is
    /// unanswered. Writes what was collected first. Without a timeout it waits for as long as the node takes or gives
    /// octets ([`Client::with_patience`](crate::Client::with_patience)).
    ///
    /// # Errors
    /// When the connection is lost and no answer is left, or the node is silent.
    pub fn next_answer(&mut self, timeout: Option<Duration>) -> Result<Option<Answer>, Error> {
        let wait = timeout.map_or(self.connection.patient(), |it| Wait::for_most(Some(it)));
        while self.answers.is_empty() && !self.outstanding.is_empty() {
            let outcome = self.flush().and_then(|()| {
                if self.answers.is_empty() {
                    self.take_answers(wait)
                } else {
                    Ok(true)
                }
            });
            match outcome {
                // Answers that came before the loss are the caller's; it shows with the next call.
                Err(error) if self.answers.is_empty() => return Err(error),
                Ok(false) if self.connection.is_silent() => return Err(self.connection.silent()),
                Ok(false) => break,
                _ => {}
            }
        }
        Ok(self.answers.pop_front())
    }

    /// Requests that the node has not answered.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.outstanding.len()
    }

    /// Tell the node that this client is still there, where keepalives were asked for.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn keep_alive(&mut self) -> Result<(), Error> {
        // Its answer takes a place among the others; it is known by having no ticket in it.
        self.make_room(ANSWER_OCTETS)?;
        let ask = AapMessage::new(Body::Keepalive(dhow_node::api::wire::Keepalive {}));
        self.connection.put(&ask);
        self.outstanding.push_back(Outstanding {
            ticket: KEEPALIVE,
            answer_octets: ANSWER_OCTETS,
        });
        self.answer_octets += ANSWER_OCTETS;
        self.flush()
    }

    /// Collect a request's head.
    fn begin(&mut self, head: &SendHead, length: u64) -> Result<Ticket, Error> {
        let ticket = self.next;
        let request = match self.request.take() {
            Some(request) if request.is_for(head, length) => request,
            _ => Request::new(head, length),
        };
        let answer_octets = ANSWER_OCTETS + self.endpoint_octets + request.endpoint_octets;
        self.make_room(answer_octets)?;
        request.put(ticket, self.connection.collected());
        self.request = Some(request);
        self.next = Ticket(ticket.0.saturating_add(1));
        self.outstanding.push_back(Outstanding {
            ticket,
            answer_octets,
        });
        self.answer_octets += answer_octets;
        Ok(ticket)
    }

    /// Wait until another request may go: when there is no room, until there is room for many.
    fn make_room(&mut self, answer_octets: usize) -> Result<(), Error> {
        if self.outstanding.len() < REQUESTS_MAX
            && self.answer_octets + answer_octets <= ANSWER_OCTETS_MAX
        {
            return Ok(());
        }
        self.flush()?;
        while self.outstanding.len() > REQUESTS_MAX / 2
            || self.answer_octets > ANSWER_OCTETS_MAX / 2
        {
            let wait = self.connection.patient();
            if !self.take_answers(wait)? {
                return Err(self.connection.silent());
            }
        }
        Ok(())
    }

    /// Write payload octets: small ones with what was collected, large ones behind it.
    fn write(&mut self, octets: &[u8]) -> Result<(), Error> {
        if self.connection.pending() + octets.len() <= WRITE_OCTETS {
            self.connection.put_octets(octets);
            return Ok(());
        }
        if octets.len() < WRITE_OCTETS / 2 {
            self.flush()?;
            self.connection.put_octets(octets);
            return Ok(());
        }
        self.take_answers(Wait::No)?;
        let outcome = self.connection.write_through(octets);
        self.written(outcome)
    }

    /// Take answers: wait for the first, then all that have come with it; false when the time was over.
    fn take_answers(&mut self, wait: Wait) -> Result<bool, Error> {
        let mut wait = wait;
        let mut came = false;
        while !self.outstanding.is_empty() {
            let Some(response) = self.connection.read_message::<Response>(wait)? else {
                break;
            };
            self.take_answer(response)?;
            came = true;
            if self.connection.is_drained() {
                break;
            }
            wait = Wait::No;
        }
        Ok(came)
    }

    fn take_answer(&mut self, response: Response) -> Result<(), Error> {
        let Some(outstanding) = self.outstanding.pop_front() else {
            return Err(Error::Protocol("an answer without a question".into()));
        };
        self.answer_octets = self.answer_octets.saturating_sub(outstanding.answer_octets);
        if outstanding.ticket == KEEPALIVE {
            return Ok(());
        }
        let outcome = self.reader.read(response)?;
        self.answers.push_back(Answer {
            ticket: outstanding.ticket,
            outcome,
        });
        Ok(())
    }

    /// A write has ended. If it failed, the node may have said why before it closed: its refusal, if
    /// there is one, is the error.
    fn written(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        self.looked = None;
        let Err(error) = outcome else { return Ok(()) };
        while let Ok(Some(response)) = self.connection.read_message::<Response>(Wait::No) {
            if self.outstanding.is_empty() {
                return Err(Refusal::from(response).into());
            }
            self.take_answer(response)?;
        }
        Err(error)
    }
}

/// Stands for a keepalive among the requests.
const KEEPALIVE: Ticket = Ticket(u64::MAX);
