//! `dhow stream send`: stdin, chunk by chunk.

use std::io::{self, Read as _};
use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::{BundleFlags, EndpointId};
use dhow_client::chunk::{CHUNK_OCTETS_MAX, ChunkHeader, ChunkPlace, StreamId};
use dhow_client::{Error, Registration, SendHead, Sender};
use serde::Serialize;

use super::shown;
use crate::address::locate;
use crate::application;
use crate::arguments::{Common, parse_size};
use crate::bundle_options::BundleOptions;
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::quantity;
use crate::steady_sender::{SteadySender, Write};

/// Send stdin as a stream of ordered octets
///
/// `dhow stream receive` at the endpoint writes the same octets to its stdout, in order. Each chunk leaves as soon as stdin has given it, and the end of stdin is told. With --json, a line at the end: stream, chunks, octets, source. Goes on when the node restarts within a minute, and ends once the node has all chunks.
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
        let mut sender = SteadySender::begin(client, &address, registration)?;
        let head = self.options.head(&self.destination, BundleFlags::NONE);
        let mut tally = Tally {
            begun: Instant::now(),
            chunks: 0,
            octets: 0,
            progress: Progress::octets(None, "sending"),
        };
        let ending = self.send(stream, &head, &mut sender, &mut tally)?;
        tally.progress.finish();
        let Tally { chunks, octets, .. } = tally;
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
                quantity::rate(octets, tally.begun.elapsed()),
            ))?,
            _ => output::talk(&format!(
                "interrupted: the node has {chunks} chunks of stream {}, which has no end",
                shown(stream)
            )),
        }
        Ok(ending)
    }

    fn send(
        &self,
        stream: StreamId,
        head: &SendHead,
        sender: &mut SteadySender<Vec<u8>>,
        tally: &mut Tally,
    ) -> Result<Ending, Failure> {
        let mut write = |sender: &mut Sender, payload: &Vec<u8>| write(sender, head, payload);
        let mut number = 0;
        loop {
            if interrupt::is_requested() {
                return finish(sender, &mut write, tally);
            }
            let mut header = ChunkHeader {
                stream,
                number,
                place: ChunkPlace::Within,
            };
            let mut payload = Vec::new();
            header.encode(&mut payload);
            let header_octets = payload.len();
            payload.resize(header_octets + self.chunk, 0);
            let room = payload.get_mut(header_octets..).unwrap_or_default();
            let octets = match io::stdin().lock().read(room) {
                Ok(octets) => octets,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Failure::refused(format!("cannot read stdin: {error}")));
                }
            };
            payload.truncate(header_octets + octets);
            if octets == 0 {
                payload.clear();
                header.place = ChunkPlace::End;
                header.encode(&mut payload);
            }
            number += 1;
            sender.send(payload, &mut write)?;
            sender.flush(&mut write)?;
            while let Some((payload, answer)) = sender.poll_answer(&mut write)? {
                tally.answered(&payload, answer)?;
            }
            if octets == 0 {
                return finish(sender, &mut write, tally);
            }
            while sender.unanswered() >= WINDOW && !interrupt::is_requested() {
                if let Some((payload, answer)) = sender.next_answer(LOOK, &mut write)? {
                    tally.answered(&payload, answer)?;
                }
            }
        }
    }
}

fn write(sender: &mut Sender, head: &SendHead, payload: &[u8]) -> Result<(), Error> {
    sender.send_octets(head, payload).map(|_| ())
}

/// Waits for all answers.
fn finish(
    sender: &mut SteadySender<Vec<u8>>,
    write: &mut impl Write<Vec<u8>>,
    tally: &mut Tally,
) -> Result<Ending, Failure> {
    let mut interrupted: Option<Instant> = None;
    while sender.unanswered() > 0 {
        if interrupt::is_requested()
            && interrupted.get_or_insert_with(Instant::now).elapsed() >= LAST_ANSWERS
        {
            return Ok(Ending::Interrupted);
        }
        if let Some((payload, answer)) = sender.next_answer(LOOK, write)? {
            tally.answered(&payload, answer)?;
        }
    }
    Ok(match interrupt::is_requested() {
        true => Ending::Interrupted,
        false => Ending::Done,
    })
}

/// The part of a stream that the node has.
#[derive(Debug)]
struct Tally {
    begun: Instant,
    chunks: u64,
    octets: u64,
    progress: Progress,
}

impl Tally {
    fn answered(
        &mut self,
        payload: &[u8],
        answer: Result<dhow_client::Created, dhow_client::Refusal>,
    ) -> Result<(), Failure> {
        if let Err(refusal) = answer {
            return Err(
                Failure::refused(format!("cannot send: {refusal}")).with_hint(format!(
                    "the node has the first {} of the stream",
                    quantity::size(self.octets)
                )),
            );
        }
        let octets = ChunkHeader::decode(payload).map_or(0, |(_, octets)| octets.len());
        let octets = u64::try_from(octets).unwrap_or(u64::MAX);
        self.chunks += 1;
        self.octets = self.octets.saturating_add(octets);
        self.progress.advance(octets);
        Ok(())
    }
}
