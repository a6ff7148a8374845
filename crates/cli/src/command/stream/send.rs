//! `dhow stream send`: stdin, chunk by chunk.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::{BundleFlags, EndpointId};
use dhow_client::chunk::{CHUNK_OCTETS_MAX, ChunkHeader, ChunkPlace, StreamId};
use dhow_client::{Created, Error, Refusal, Registration, SendHead, Sender};
use rustix::event::PollFlags;
use rustix::io::Errno;
use serde::Serialize;

use super::unsent::{Chunk, Told, Unsent};
use super::{ready, shown};
use crate::address::locate;
use crate::application;
use crate::arguments::{Common, parse_size};
use crate::bundle_options::BundleOptions;
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::quantity;
use crate::steady_sender::SteadySender;

/// Send stdin as a stream of ordered octets
///
/// `dhow stream receive` at the endpoint writes the same octets to its stdout, in order. Each chunk leaves as soon as stdin has given it, and the end of stdin is told. With --json, a line at the end: stream, chunks, octets, source. Goes on when the node restarts within a minute, waits while the node has no room, and ends once the node has all chunks.
#[derive(Args, Debug)]
pub struct Send {
    /// Destination endpoint: ipn:4.61
    destination: EndpointId,
    /// Octets of a chunk, at most 16 MiB: each becomes a bundle
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = parse_chunk)]
    chunk: usize,
    /// Options of the bundles.
    #[command(flatten)]
    options: BundleOptions,
}

/// Chunks that the node has not answered, at most: they are kept for a node that restarts.
const WINDOW: usize = 64;

/// The time for which answers are still waited for after Ctrl-C: shorter than the time after which it ends the command.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

fn parse_chunk(text: &str) -> Result<usize, String> {
    match parse_size(text)? {
        octets if octets > CHUNK_OCTETS_MAX => Err("at most 16 MiB are allowed".to_owned()),
        octets => usize::try_from(octets).map_err(|error| error.to_string()),
    }
}

#[derive(Serialize)]
struct Line {
    stream: String,
    chunks: u64,
    octets: u64,
    source: String,
}

impl Send {
    /// Sends until stdin ends.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        self.options.check()?;
        let address = locate(common.node.as_ref())?;
        let client = application::connect(&address, None)?;
        let source = match &self.options.from {
            Some(endpoint) => endpoint.clone(),
            None => application::random_endpoint(client.node_id())?,
        };
        let registration = match &source {
            EndpointId::Null => Registration::anonymous(),
            source => Registration::new(source.clone()),
        };
        let stream = StreamId(application::random::<16>()?);
        let sender = SteadySender::begin(client, &address, registration)?;
        let mut sending = Sending {
            chunk: self.chunk,
            stream,
            head: self.options.head(&self.destination, BundleFlags::NONE),
            number: 0,
            has_ended: false,
            unsent: Unsent::default(),
            lifetime: None,
            tally: Arc::default(),
            progress: Progress::octets(None, "sending"),
        };
        let tally = Arc::clone(&sending.tally);
        interrupt::say_at_end(move || unended(&tally, stream));
        let begun = Instant::now();
        let outcome = sending.send(sender);
        sending.progress.finish();
        let ending = match outcome {
            Ok(ending) => ending,
            // The node was away or stood still as well.
            Err(_) if interrupt::is_requested() => Ending::Interrupted,
            Err(failure) => {
                output::talk(&unended(&sending.tally, stream));
                return Err(failure);
            }
        };
        let Tally { chunks, octets } = count(&sending.tally);
        match (ending, common.form()) {
            (Ending::Done, Form::Json) => output::json(&Line {
                stream: shown(stream),
                chunks,
                octets,
                source: source.to_string(),
            })?,
            (Ending::Done, Form::Text) => output::line(&format!(
                "sent {} in {} chunks as stream {} from {source}: {}",
                quantity::size(octets),
                quantity::thousands(chunks),
                shown(stream),
                quantity::rate(octets, begun.elapsed()),
            ))?,
            _ => output::talk(&unended(&sending.tally, stream)),
        }
        Ok(ending)
    }
}

/// The part of a stream that the node has.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    chunks: u64,
    octets: u64,
}

fn count(tally: &Mutex<Tally>) -> Tally {
    *tally.lock().unwrap_or_else(PoisonError::into_inner)
}

fn in_chunks(number: u64) -> String {
    match number {
        1 => "in 1 chunk".to_owned(),
        _ => format!("in {} chunks", quantity::thousands(number)),
    }
}

/// Words about a stream that ends too early.
fn unended(tally: &Mutex<Tally>, stream: StreamId) -> String {
    let Tally { chunks, octets } = count(tally);
    format!(
        "the node has {} {} of stream {}, which has no end",
        quantity::size(octets),
        in_chunks(chunks),
        shown(stream)
    )
}

/// A stream going out.
#[derive(Debug)]
struct Sending {
    /// Octets of a chunk, at most.
    chunk: usize,
    stream: StreamId,
    head: SendHead,
    /// The number of the next chunk.
    number: u64,
    /// Whether stdin has ended, and the chunk that says so was made.
    has_ended: bool,
    unsent: Unsent,
    /// The lifetime of the stream's bundles, once the node has one.
    lifetime: Option<Duration>,
    tally: Arc<Mutex<Tally>>,
    progress: Progress,
}

/// The next thing to do.
#[derive(Debug)]
enum Step {
    /// A chunk leaves.
    Send(Chunk),
    /// Answers of the node come before anything else.
    Answer,
    /// Nothing, for so long.
    Pause(Duration),
    /// The node has the whole stream.
    Done,
}

impl Sending {
    fn send(&mut self, mut sender: SteadySender<Chunk>) -> Result<Ending, Failure> {
        let head = self.head.clone();
        let mut write = |sender: &mut Sender, chunk: &Chunk| -> Result<(), Error> {
            sender.send_octets(&head, &chunk.payload).map(|_| ())
        };
        while !interrupt::is_requested() {
            while let Some((chunk, answer)) = sender.poll_answer(&mut write)? {
                self.answered(Instant::now(), chunk, answer)?;
            }
            match self.step(Instant::now(), sender.unanswered())? {
                Step::Send(chunk) => {
                    sender.send(chunk, &mut write)?;
                    sender.flush(&mut write)?;
                }
                Step::Answer => {
                    if let Some((chunk, answer)) = sender.next_answer(LOOK, &mut write)? {
                        self.answered(Instant::now(), chunk, answer)?;
                    }
                }
                Step::Pause(time) => thread::sleep(time),
                Step::Done => return Ok(Ending::Done),
            }
        }
        let interrupted = Instant::now();
        while sender.unanswered() > 0 && interrupted.elapsed() < LAST_ANSWERS {
            if let Some((chunk, answer)) = sender.next_answer(LOOK, &mut write)? {
                self.answered(Instant::now(), chunk, answer)?;
            }
        }
        Ok(Ending::Interrupted)
    }

    /// The next thing to do while so many chunks are under way.
    fn step(&mut self, now: Instant, unanswered: usize) -> Result<Step, Failure> {
        if !self.unsent.is_empty() {
            if unanswered > 0 {
                return Ok(Step::Answer);
            }
            self.check_lifetime(now)?;
            return Ok(match self.unsent.poll(now) {
                Ok(Some(chunk)) => Step::Send(chunk),
                Ok(None) => Step::Pause(Duration::ZERO),
                Err(pause) => Step::Pause(pause.min(LOOK)),
            });
        }
        if self.has_ended {
            return Ok(match unanswered {
                0 => Step::Done,
                _ => Step::Answer,
            });
        }
        if unanswered >= WINDOW {
            return Ok(Step::Answer);
        }
        let read = self.read();
        Ok(
            match read.map_err(|error| Failure::refused(format!("cannot read stdin: {error}")))? {
                Some(chunk) => Step::Send(chunk),
                None => Step::Pause(Duration::ZERO),
            },
        )
    }

    /// The chunk that stdin gives within a [`LOOK`], if it does.
    fn read(&mut self) -> io::Result<Option<Chunk>> {
        let stdin = io::stdin();
        if !ready(&stdin, PollFlags::IN)? {
            return Ok(None);
        }
        let mut header = ChunkHeader {
            stream: self.stream,
            number: self.number,
            place: ChunkPlace::Within,
        };
        let mut payload = Vec::new();
        header.encode(&mut payload);
        let header_octets = payload.len();
        payload.resize(header_octets + self.chunk, 0);
        let room = payload.get_mut(header_octets..).unwrap_or_default();
        // Not through a buffer, of which nobody could tell whether it has more.
        let octets = match rustix::io::read(&stdin, room) {
            Ok(octets) => octets,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        payload.truncate(header_octets + octets);
        if octets == 0 {
            self.has_ended = true;
            payload.clear();
            header.place = ChunkPlace::End;
            header.encode(&mut payload);
        }
        self.number += 1;
        Ok(Some(Chunk {
            number: header.number,
            octets: u64::try_from(octets).unwrap_or(u64::MAX),
            payload,
        }))
    }

    fn answered(
        &mut self,
        now: Instant,
        chunk: Chunk,
        answer: Result<Created, Refusal>,
    ) -> Result<(), Failure> {
        match answer {
            Ok(created) => {
                self.lifetime = Some(Duration::from_millis(created.lifetime_ms));
                if self.unsent.taken(now) == Told::Change {
                    self.progress.note("the node has room again");
                }
                {
                    let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
                    tally.chunks += 1;
                    tally.octets = tally.octets.saturating_add(chunk.octets);
                }
                self.progress.advance(chunk.octets);
            }
            Err(refusal) if refusal.is_temporary() => {
                if self.unsent.refused(now, chunk) == Told::Change {
                    let why = format!("the node takes no chunk now, waiting for room: {refusal}");
                    self.progress.note(&why);
                }
            }
            Err(refusal) => return Err(Failure::refused(format!("cannot send: {refusal}"))),
        }
        Ok(())
    }

    /// Chunks that wait for longer than those before them live have nothing to follow.
    fn check_lifetime(&self, now: Instant) -> Result<(), Failure> {
        let waited = self.unsent.waited(now);
        if self.lifetime.is_none_or(|lifetime| waited < lifetime) {
            return Ok(());
        }
        Err(Failure::refused(format!(
            "cannot send: the node has had no room for {}, the lifetime of the chunks that it has",
            quantity::span(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX))
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dhow_bundle::{CreationTimestamp, DtnTime};
    use dhow_node::api::wire::{STATUS_ERROR, STATUS_UNAUTHORIZED};

    use super::*;

    fn sending() -> Sending {
        Sending {
            chunk: 1,
            stream: StreamId([0; 16]),
            head: SendHead::to(EndpointId::Null),
            number: 2,
            has_ended: true,
            unsent: Unsent::default(),
            lifetime: None,
            tally: Arc::default(),
            progress: Progress::hidden(),
        }
    }

    fn chunk(number: u64) -> Chunk {
        Chunk {
            number,
            octets: 10,
            payload: Vec::new(),
        }
    }

    fn taken(lifetime_ms: u64) -> Result<Created, Refusal> {
        Ok(Created {
            source: EndpointId::Null,
            creation: CreationTimestamp {
                time: DtnTime::from_millis(1),
                sequence: 0,
            },
            lifetime_ms,
        })
    }

    fn refused(status: i32) -> Result<Created, Refusal> {
        let message = "no".to_owned();
        Err(Refusal { status, message })
    }

    #[test]
    fn a_full_store_is_waited_for_and_the_chunks_follow() {
        let mut sending = sending();
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        sending.answered(now, chunk(0), taken(60_000)).unwrap();
        sending
            .answered(now, chunk(1), refused(STATUS_ERROR))
            .unwrap();
        assert!(matches!(sending.step(now, 1).unwrap(), Step::Answer));
        assert!(matches!(sending.step(now, 0).unwrap(), Step::Pause(_)));
        assert!(matches!(sending.step(later, 0).unwrap(), Step::Send(it) if it.number == 1));
        sending.answered(later, chunk(1), taken(60_000)).unwrap();
        assert!(matches!(sending.step(later, 0).unwrap(), Step::Done));
        let Tally { chunks, octets } = count(&sending.tally);
        assert_eq!((chunks, octets), (2, 20));
    }

    #[test]
    fn the_lifetime_of_the_chunks_before_ends_the_wait_and_so_does_a_refusal_for_good() {
        let mut sending = sending();
        let now = Instant::now();
        sending.answered(now, chunk(0), taken(1_000)).unwrap();
        sending
            .answered(now, chunk(1), refused(STATUS_ERROR))
            .unwrap();
        let almost = now + Duration::from_millis(999);
        assert!(matches!(sending.step(almost, 0).unwrap(), Step::Send(_)));
        sending
            .answered(almost, chunk(1), refused(STATUS_ERROR))
            .unwrap();
        let end = now + Duration::from_secs(1);
        let failure = sending.step(end, 0).unwrap_err();
        assert!(failure.to_string().contains("lifetime"), "{failure}");
        assert!(
            sending
                .answered(end, chunk(1), refused(STATUS_UNAUTHORIZED))
                .is_err()
        );
    }
}
