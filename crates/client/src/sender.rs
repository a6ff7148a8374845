//! Sending bundles without waiting for each.

use std::collections::VecDeque;
use std::io::Read;
use std::time::Duration;

use dhow_bundle::{CreationTimestamp, DtnTime, EndpointId};
use dhow_node::api::wire::{AapMessage, AapResponse, Body, Bundle, BundleAdu, STATUS_SUCCESS};

use crate::connection::{Connection, WRITE_OCTETS, Wait};
use crate::error::{Error, Refusal};

/// Most requests that wait for their answer before `send` waits for one: at 300,000 bundles a second
/// they cover a flush of 13 ms.
const REQUESTS_MAX: usize = 4096;

/// Octets of answers that may be under way. A node stops reading requests when 4 MiB of answers wait
/// for their client; keeping to half of it, neither side can wait for the other.
const ANSWER_OCTETS_MAX: usize = 2 << 20;

/// Octets of an answer beside its endpoint IDs, about: numbers, or a sentence of refusal.
const ANSWER_OCTETS: usize = 256;

/// Octets of a streamed payload that are read and written at a time.
const PAYLOAD_CHUNK_OCTETS: usize = 256 * 1024;

/// What goes with a bundle to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendHead {
    destination: EndpointId,
    source: Option<EndpointId>,
    report_to: Option<EndpointId>,
    lifetime: Option<Duration>,
    flags: u64,
    aggregated_reports: bool,
}

impl SendHead {
    /// A bundle for an endpoint, with the node's default lifetime and no reports.
    #[must_use]
    pub const fn to(destination: EndpointId) -> Self {
        Self {
            destination,
            source: None,
            report_to: None,
            lifetime: None,
            flags: 0,
            aggregated_reports: false,
        }
    }

    /// The source, if not the endpoint of the connection (the null endpoint, for an anonymous bundle).
    #[must_use]
    pub fn with_source(mut self, source: EndpointId) -> Self {
        self.source = Some(source);
        self
    }

    /// Where status reports go, if not to the source.
    #[must_use]
    pub fn with_report_to(mut self, report_to: EndpointId) -> Self {
        self.report_to = Some(report_to);
        self
    }

    /// How long the bundle is of use; milliseconds count.
    #[must_use]
    pub const fn with_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Bundle processing control flags to ask for (RFC 9171 4.2.3): 0x4 must not fragment, 0x20
    /// acknowledgment by the application, 0x40 times in reports, reports of reception 0x4000,
    /// forwarding 0x10000, delivery 0x20000 and deletion 0x40000.
    #[must_use]
    pub const fn with_flags(mut self, flags: u64) -> Self {
        self.flags = flags;
        self
    }

    /// Say that whoever is told of the bundle reads aggregated reports (`docs/aggregated-reports.md`): nodes
    /// that can then tell of many bundles in one.
    #[must_use]
    pub const fn with_aggregated_reports(mut self) -> Self {
        self.aggregated_reports = true;
        self
    }

    fn message(&self, ticket: Ticket, length: u64) -> AapMessage {
        let text = |endpoint: &Option<EndpointId>| {
            endpoint
                .as_ref()
                .map(EndpointId::to_string)
                .unwrap_or_default()
        };
        AapMessage::new(Body::Adu(BundleAdu {
            src_eid: text(&self.source),
            dst_eid: self.destination.to_string(),
            report_to_eid: text(&self.report_to),
            payload_length: length,
            lifetime_ms: self
                .lifetime
                .map(|lifetime| u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX)),
            bundle_flags: Some(self.flags),
            request_id: Some(ticket.0),
            aggregated_reports: self.aggregated_reports,
            ..BundleAdu::default()
        }))
    }
}

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
    /// Which request.
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
    /// Streams payloads; made at the first large one.
    chunk: Vec<u8>,
}

impl Sender {
    pub(crate) const fn new(connection: Connection, endpoint_octets: usize) -> Self {
        Self {
            connection,
            endpoint_octets,
            next: Ticket(0),
            outstanding: VecDeque::new(),
            answer_octets: 0,
            answers: VecDeque::new(),
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
            // What has come is taken before more is written: see ANSWER_OCTETS_MAX.
            self.take_answers(Wait::No)?;
            let outcome = self.connection.flush();
            self.explain(outcome)?;
        }
        Ok(())
    }

    /// An answer that has come; does not wait.
    ///
    /// # Errors
    /// When the connection is lost and no answer is left.
    pub fn poll_answer(&mut self) -> Result<Option<Answer>, Error> {
        if self.answers.is_empty() && !self.outstanding.is_empty() {
            let outcome = self.take_answers(Wait::No);
            if self.answers.is_empty() {
                outcome?;
            }
        }
        Ok(self.answers.pop_front())
    }

    /// The next answer, waiting for it at most `timeout`; `None` when the time is over or no request is
    /// unanswered. Writes what was collected first.
    ///
    /// # Errors
    /// When the connection is lost and no answer is left.
    pub fn next_answer(&mut self, timeout: Option<Duration>) -> Result<Option<Answer>, Error> {
        let wait = Wait::for_most(timeout);
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
        let message = head.message(ticket, length);
        let answer_octets = ANSWER_OCTETS + self.endpoint_octets + endpoint_octets(&message);
        self.make_room(answer_octets)?;
        self.connection.put(&message);
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
            self.take_answers(Wait::Forever)?;
        }
        Ok(())
    }

    /// Write payload octets: small ones with what was collected, large ones past it.
    fn write(&mut self, octets: &[u8]) -> Result<(), Error> {
        if self.connection.pending() + octets.len() <= WRITE_OCTETS {
            self.connection.put_octets(octets);
            return Ok(());
        }
        self.flush()?;
        if octets.len() < WRITE_OCTETS / 2 {
            self.connection.put_octets(octets);
            return Ok(());
        }
        let outcome = self.connection.write_through(octets);
        self.explain(outcome)
    }

    /// Take answers: wait for the first, then all that have come with it; false when the time was over.
    fn take_answers(&mut self, wait: Wait) -> Result<bool, Error> {
        let mut wait = wait;
        let mut came = false;
        while !self.outstanding.is_empty() {
            let Some(response) = self.connection.read_message::<AapResponse>(wait)? else {
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

    fn take_answer(&mut self, response: AapResponse) -> Result<(), Error> {
        let Some(outstanding) = self.outstanding.pop_front() else {
            return Err(Error::Protocol("an answer without a question".into()));
        };
        self.answer_octets = self.answer_octets.saturating_sub(outstanding.answer_octets);
        if outstanding.ticket == KEEPALIVE {
            return Ok(());
        }
        let outcome = match response {
            AapResponse {
                response_status: STATUS_SUCCESS,
                bundle_headers: Some(bundle),
                ..
            } => Ok(created(&bundle)?),
            AapResponse {
                response_status: STATUS_SUCCESS,
                ..
            } => {
                return Err(Error::Protocol(
                    "an answer says success and not which bundle".into(),
                ));
            }
            response => Err(Refusal::of(response)),
        };
        self.answers.push_back(Answer {
            ticket: outstanding.ticket,
            outcome,
        });
        Ok(())
    }

    /// A write has failed: perhaps the node said why before it closed.
    fn explain(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        let Err(error) = outcome else { return Ok(()) };
        while let Ok(Some(response)) = self.connection.read_message::<AapResponse>(Wait::No) {
            if self.outstanding.is_empty() {
                return Err(Refusal::of(response).into());
            }
            self.take_answer(response)?;
        }
        Err(error)
    }
}

/// Octets of the endpoint IDs that the answer to a request repeats.
fn endpoint_octets(message: &AapMessage) -> usize {
    match &message.body {
        Some(Body::Adu(adu)) => adu.src_eid.len() + adu.dst_eid.len(),
        _ => 0,
    }
}

/// Stands for a keepalive among the requests.
const KEEPALIVE: Ticket = Ticket(u64::MAX);

fn created(bundle: &Bundle) -> Result<Created, Error> {
    Ok(Created {
        source: bundle
            .src_eid
            .parse()
            .map_err(|error| Error::Protocol(format!("source '{}': {error}", bundle.src_eid)))?,
        creation: CreationTimestamp {
            time: DtnTime::from_millis(bundle.creation_timestamp_ms),
            sequence: bundle.sequence_number,
        },
        lifetime_ms: bundle.lifetime_ms,
    })
}
