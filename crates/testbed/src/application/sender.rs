//! An application that sends: payloads at their times, or as soon as the node is there.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::time::Duration;

use dhow_bundle::EndpointId;
use dhow_client::{Address, Answer, Client, Error, Registration, SendHead, Sender};
use dhow_scenario::Schedule;
use dhow_scenario::scenario::Traffic;

use super::ledger::Ledger;
use super::payload::{Name, Payload, Pool};
use super::{RECEIVER_SERVICE, SENDER_SERVICE};
use crate::failure::LabError;
use crate::run::Clock;

/// The longest time between two looks at whether the application is to end.
const LOOK: Duration = Duration::from_millis(50);

/// The time before it connects again.
const AGAIN: Duration = Duration::from_millis(50);

/// Payloads that are written together before answers are looked for.
const TOGETHER: u64 = 64;

/// The task of one sender.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its position among all traffic.
    pub position: usize,
    /// The traffic.
    pub traffic: Traffic,
    /// The numbers of the nodes that send and receive.
    pub numbers: (u32, u32),
    /// Octets of the largest payload that the node could ever store.
    pub largest_octets: u64,
    /// The address at which the node serves applications.
    pub api: Address,
    /// The run's seed.
    pub seed: u64,
}

/// Sends a traffic until it is over or the run is.
///
/// # Errors
/// When the node refuses the application, or says what it should not.
pub fn send(task: &Task, clock: &Clock, pool: &Pool, ledger: &Ledger) -> Result<(), LabError> {
    let work = Work::new(task, pool)?;
    let mut schedule = Schedule::new(&task.traffic, task.position, task.seed).peekable();
    let mut questions = Questions::new(clock, ledger);
    let mut connection: Option<Sender> = None;
    let mut written = 0;
    while !clock.is_over() && (schedule.peek().is_some() || !questions.unanswered.is_empty()) {
        let Some(sender) = &mut connection else {
            // Payloads without an answer may or may not be in the node: as in a simulation they are not sent again.
            questions.unanswered.clear();
            connection = work.connect(clock)?;
            continue;
        };
        let now = clock.now();
        let stepped = match schedule.peek().copied() {
            Some(due) if due.at <= now => {
                let Some(number) = ledger.send(task.position, due.octets, now) else {
                    return Err(LabError::new(
                        "more payloads are sent than a run keeps account of",
                    ));
                };
                schedule.next();
                let name = Name {
                    traffic: u32::try_from(task.position).unwrap_or(u32::MAX),
                    number,
                };
                if due.octets > task.largest_octets {
                    // The node would refuse it, but only behind all of its octets.
                    ledger.answer(name, None);
                    continue;
                }
                questions.unanswered.push_back(name);
                written += 1;
                work.write(sender, clock, name, due.octets).and_then(|()| {
                    // Payloads that are due together leave together.
                    match written % TOGETHER {
                        0 => questions.take_answers(sender),
                        _ => Ok(()),
                    }
                })
            }
            next => {
                let wait = next.map_or(LOOK, |due| due.at.saturating_sub(now).min(LOOK));
                match questions.unanswered.is_empty() {
                    true => sender.flush().map(|()| clock.sleep(wait)),
                    false => questions.await_answer(sender, wait),
                }
            }
        };
        match stepped {
            Ok(()) => {}
            Err(Error::Payload(_)) if clock.is_over() => break,
            Err(error) if error.is_lost() => {
                // Answers that came before the loss still count.
                let _ = questions.take_answers(sender);
                connection = None;
            }
            Err(error) => return Err(work.failed(&error)),
        }
    }
    match connection.map(|mut sender| questions.take_answers(&mut sender)) {
        Some(Err(error)) if !error.is_lost() => Err(work.failed(&error)),
        _ => Ok(()),
    }
}

/// Payloads that were written and not yet answered, in the order in which answers come.
struct Questions<'a> {
    unanswered: VecDeque<Name>,
    clock: &'a Clock,
    ledger: &'a Ledger,
}

impl<'a> Questions<'a> {
    const fn new(clock: &'a Clock, ledger: &'a Ledger) -> Self {
        Self {
            unanswered: VecDeque::new(),
            clock,
            ledger,
        }
    }

    /// Takes all answers that have come.
    fn take_answers(&mut self, sender: &mut Sender) -> Result<(), Error> {
        while let Some(answer) = sender.poll_answer()? {
            self.note(&answer);
        }
        Ok(())
    }

    /// Waits for an answer, and takes all that have come with it.
    fn await_answer(&mut self, sender: &mut Sender, wait: Duration) -> Result<(), Error> {
        match sender.next_answer(Some(wait))? {
            Some(answer) => {
                self.note(&answer);
                self.take_answers(sender)
            }
            None => Ok(()),
        }
    }

    fn note(&mut self, answer: &Answer) {
        if let Some(name) = self.unanswered.pop_front() {
            let at = self.clock.now();
            self.ledger
                .answer(name, answer.outcome.is_ok().then_some(at));
        }
    }
}

/// The part of a sender's work that is the same for all payloads.
struct Work<'a> {
    task: &'a Task,
    pool: &'a Pool,
    endpoint: EndpointId,
    head: SendHead,
}

impl<'a> Work<'a> {
    fn new(task: &'a Task, pool: &'a Pool) -> Result<Self, LabError> {
        let (from, to) = task.numbers;
        let endpoint = |number: u32, service: usize| {
            let text = format!("ipn:{number}.{service}");
            let parsed: Result<EndpointId, _> = text.parse();
            parsed.map_err(|error| LabError::new(format!("'{text}' is not an endpoint: {error}")))
        };
        let receiver = usize::try_from(RECEIVER_SERVICE).unwrap_or(1);
        let mut head = SendHead::to(endpoint(to, receiver)?)
            .with_lifetime(task.traffic.lifetime)
            .with_version(task.traffic.version())
            .with_priority(task.traffic.class().into());
        if task.traffic.flags() > 0 {
            head = head.with_flags(task.traffic.flags());
        }
        if task.traffic.reports > 0 {
            // Reports come to the receiver beside the sender.
            head = head.with_report_to(endpoint(from, receiver)?);
        }
        if task.traffic.aggregates {
            head = head.with_aggregated_reports();
        }
        Ok(Self {
            task,
            pool,
            endpoint: endpoint(from, SENDER_SERVICE + task.position)?,
            head,
        })
    }

    /// Connects; none where the node is away.
    fn connect(&self, clock: &Clock) -> Result<Option<Sender>, LabError> {
        let registration = Registration::new(self.endpoint.clone()).with_secret("lab");
        let client = Client::connect(&self.task.api);
        match client.and_then(|client| client.sender(&registration)) {
            Ok(sender) => Ok(Some(sender)),
            Err(error) if error.is_lost() => {
                clock.sleep(AGAIN);
                Ok(None)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn write(
        &self,
        sender: &mut Sender,
        clock: &Clock,
        name: Name,
        octets: u64,
    ) -> Result<(), Error> {
        let payload = UntilOver {
            payload: self.pool.payload(name, octets),
            clock,
        };
        sender.send(&self.head, payload, octets).map(|_| ())
    }

    fn failed(&self, error: &Error) -> LabError {
        LabError::new(format!("cannot send from {}: {error}", self.endpoint))
    }
}

/// A payload that fails as soon as the run is over, however much of it is left.
struct UntilOver<'a> {
    payload: Payload,
    clock: &'a Clock,
}

impl Read for UntilOver<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.clock.is_over() {
            true => Err(io::Error::other("the run is over")),
            false => self.payload.read(out),
        }
    }
}
