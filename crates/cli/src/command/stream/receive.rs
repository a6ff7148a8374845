//! `dhow stream receive`: chunks in order to stdout.

use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::{EidPattern, EndpointId};
use dhow_client::chunk::{
    CHUNK_HEADER_OCTETS_MAX, CHUNK_NUMBER_MAX, CHUNK_OCTETS_MAX, ChunkHeader, ChunkPlace, StreamId,
};
use dhow_client::{Delivery, Receipt, Registration};

use super::order::{Order, Placed, Position, TooShort};
use super::outlet::Outlet;
use super::{parse_stream, shown};
use crate::address::locate;
use crate::application::{Arrival, Subscription};
use crate::arguments::{Common, parse_duration};
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::notes::Notes;
use crate::output;
use crate::progress::Progress;
use crate::quantity;

/// Write a stream of ordered octets to stdout
///
/// Takes the chunks that `dhow stream send` sends to the endpoint, in order, each once, and ends with the stream. Chunks are confirmed once stdout has taken them. Goes on when the node restarts. It says how the same stream goes on later where it ends before the stream does. One command receives at an endpoint at a time.
#[derive(Args, Debug)]
pub struct Receive {
    /// The endpoint of the node to receive at: ipn:4.61
    endpoint: EndpointId,
    /// The stream, by its 32 hexadecimal digits [default: that of the first chunk that comes]
    #[arg(long, value_name = "ID", value_parser = parse_stream)]
    stream: Option<StreamId>,
    /// The number of the first chunk to write, of the stream that --stream names; those before it are confirmed and dropped
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=CHUNK_NUMBER_MAX))]
    next: u64,
    /// Octets of that chunk that are not written again
    #[arg(long, value_name = "OCTETS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=CHUNK_OCTETS_MAX))]
    skip: u64,
    /// Sources that may send, as a pattern of endpoint IDs; several may be given [default: all]
    #[arg(long = "from", value_name = "PATTERN")]
    sources: Vec<EidPattern>,
    /// End with exit code 1 when nothing has come for this long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

/// Deliveries that may be unconfirmed: those that are held, those of other streams, and room for others.
const WINDOW: u32 = 1024;

/// Chunks of other streams that may be in the way.
const OTHERS: usize = 256;

/// Told with a failure to be the only receiver.
const ALONE: &str =
    "one command receives streams at an endpoint: another stream has an endpoint of its own";

/// Said where the command is ended before a chunk came.
const NOT_BEGUN: &str = "no chunk of a stream has come";

/// A delivery, as far as it says what to do with it.
enum Taken {
    /// A chunk, with its header and source.
    Chunk(ChunkHeader, EndpointId, Vec<u8>, Receipt),
    /// Something else, and why it is dropped.
    Dropped(String, Receipt),
    /// The delivery broke off.
    Lost,
}

impl Receive {
    /// Receives until the stream ends.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let position = Position {
            next: self.next,
            skip: self.skip,
        };
        if self.stream.is_none() && position != (Position { next: 0, skip: 0 }) {
            let what = "--next and --skip go on with a stream, and --stream does not name it";
            return Err(
                Failure::usage(what).with_hint("the command that was interrupted said all of them")
            );
        }
        let address = locate(common.node.as_ref())?;
        let registration = Registration::new(self.endpoint.clone()).with_window(WINDOW);
        let subscription = Subscription::begin_alone(&address, registration, self.timeout, ALONE)?;
        let mut reception = Reception {
            receive: self,
            subscription,
            outlet: Outlet::stdout().map_err(|error| Failure::output(&error))?,
            source: None,
            order: Order::from(position),
            standing: Arc::new(Mutex::new(Standing {
                stream: self.stream,
                position,
            })),
            others: 0,
            notes: Notes::default(),
            octets: 0,
            last: Instant::now(),
            is_away: false,
            progress: Progress::octets(None, "receiving"),
        };
        let standing = Arc::clone(&reception.standing);
        interrupt::say_at_end(move || {
            let standing = *standing.lock().unwrap_or_else(PoisonError::into_inner);
            standing.text().unwrap_or_else(|| NOT_BEGUN.to_owned())
        });
        let outcome = reception.receive();
        reception.end(outcome)
    }

    fn take(&self, mut delivery: Delivery<'_>) -> Taken {
        let receipt = delivery.receipt();
        let id = &delivery.head().id;
        let octets = delivery.head().payload_octets;
        if !self.sources.is_empty() && !self.sources.iter().any(|it| it.matches(&id.source)) {
            let why = format!("bundle {id}: --from does not name {}", id.source);
            return Taken::Dropped(why, receipt);
        }
        let most = u64::try_from(CHUNK_HEADER_OCTETS_MAX).unwrap_or(u64::MAX);
        if octets > CHUNK_OCTETS_MAX.saturating_add(most) {
            let why = format!("bundle {id}: it is too large for a chunk");
            return Taken::Dropped(why, receipt);
        }
        let (id, source) = (id.to_string(), id.source.clone());
        let mut payload = Vec::new();
        let read = delivery.read_to_end(&mut payload).map(u64::try_from);
        if !matches!(read, Ok(Ok(read)) if read == octets) {
            return Taken::Lost;
        }
        match ChunkHeader::decode(&payload) {
            Ok((header, chunk)) => Taken::Chunk(header, source, chunk.to_vec(), receipt),
            Err(refusal) => Taken::Dropped(format!("bundle {id}: {refusal}"), receipt),
        }
    }
}

/// The way in which a stream has come.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// The stream, once it is known.
    stream: Option<StreamId>,
    position: Position,
}

impl Standing {
    /// Words on going on with the stream another time, where one is known.
    fn text(&self) -> Option<String> {
        let stream = shown(self.stream?);
        let Position { next, skip } = self.position;
        Some(match skip {
            0 => {
                format!("the stream has not ended: it goes on with --stream {stream} --next {next}")
            }
            _ => format!(
                "the stream has not ended, and {skip} octets of its chunk {next} are written: it goes on with --stream {stream} --next {next} --skip {skip}"
            ),
        })
    }
}

/// A stream coming in.
#[derive(Debug)]
struct Reception<'a> {
    receive: &'a Receive,
    subscription: Subscription,
    outlet: Outlet,
    /// The source of the stream, once a chunk of it came: chunks of others with its identity are of other streams.
    source: Option<EndpointId>,
    /// Chunks that are early, each with whether it is the last.
    order: Order<(Receipt, ChunkPlace)>,
    /// The words at an end by force are of this.
    standing: Arc<Mutex<Standing>>,
    /// Chunks of other streams that are not confirmed.
    others: usize,
    /// Notes about bundles that are dropped.
    notes: Notes<()>,
    octets: u64,
    /// When a chunk of the stream came last.
    last: Instant,
    /// Whether it was said that the node is away.
    is_away: bool,
    progress: Progress,
}

impl Reception<'_> {
    fn receive(&mut self) -> Result<Ending, Failure> {
        loop {
            if interrupt::is_requested() {
                return Ok(Ending::Interrupted);
            }
            if let Some(timeout) = self.receive.timeout
                && self.last.elapsed() >= timeout
            {
                return Err(self.silence(timeout));
            }
            let receive = self.receive;
            let arrival = self
                .subscription
                .poll(LOOK, |delivery| receive.take(delivery))?;
            match arrival {
                Arrival::Delivery(Taken::Chunk(header, source, chunk, receipt)) => {
                    self.place(header, source, chunk, receipt)?;
                    if let Some(ending) = self.write()? {
                        return Ok(ending);
                    }
                }
                Arrival::Delivery(Taken::Dropped(why, receipt)) => {
                    let why = format!("dropped {why}");
                    if let Some(note) = self.notes.note(Instant::now(), (), &why) {
                        self.progress.note(&note);
                    }
                    self.subscription.confirm(receipt);
                }
                Arrival::Delivery(Taken::Lost) => self.subscription.lose(),
                Arrival::Nothing | Arrival::Lost => {}
            }
            self.watch();
        }
    }

    /// Puts a chunk in order.
    fn place(
        &mut self,
        header: ChunkHeader,
        source: EndpointId,
        chunk: Vec<u8>,
        receipt: Receipt,
    ) -> Result<(), Failure> {
        let stream = self.standing().stream.unwrap_or(header.stream);
        if header.stream != stream || self.source.as_ref().is_some_and(|it| *it != source) {
            self.others += 1;
            if self.others > OTHERS {
                let other = shown(header.stream);
                return Err(Failure::refused(format!(
                    "{OTHERS} chunks of other streams are in the way, of stream {other} from {source} for example"
                ))
                .with_hint(format!("--stream {other} receives that stream; streams that come at the same time have endpoints of their own")));
            }
            return Ok(());
        }
        self.source = Some(source);
        self.stand(|standing| standing.stream = Some(stream));
        self.last = Instant::now();
        let placed = self
            .order
            .place(header.number, chunk, (receipt, header.place));
        match placed {
            Placed::Repeat((receipt, _)) => self.subscription.confirm(receipt),
            Placed::Declined((receipt, _)) => self.subscription.decline(receipt),
            Placed::Held(declined) => {
                for (receipt, _) in declined {
                    self.subscription.decline(receipt);
                }
            }
        }
        Ok(())
    }

    /// Writes what is next, and confirms chunks that are written whole; how the command ends, where it does.
    fn write(&mut self) -> Result<Option<Ending>, Failure> {
        while let Some(rest) = self.order.unwritten() {
            let rest = rest.map_err(|TooShort { octets }| {
                let Position { next, skip } = self.order.position();
                Failure::refused(format!(
                    "chunk {next} has {octets} octets, of which {skip} are not to be written again"
                ))
                .with_hint("--skip is for the --next with which it was said")
            })?;
            let written = (self.outlet.write(rest)).map_err(|error| Failure::output(&error))?;
            self.order.wrote(written);
            let octets = u64::try_from(written).unwrap_or(u64::MAX);
            self.octets = self.octets.saturating_add(octets);
            self.progress.advance(octets);
            let complete = self.order.complete();
            let position = self.order.position();
            self.stand(|standing| standing.position = position);
            if let Some((receipt, place)) = complete {
                self.subscription.confirm(receipt);
                if place == ChunkPlace::End {
                    return Ok(Some(Ending::Done));
                }
            }
            if interrupt::is_requested() {
                return Ok(Some(Ending::Interrupted));
            }
            // A reader that lets others wait is no silence of the stream.
            self.last = Instant::now();
        }
        Ok(None)
    }

    fn standing(&self) -> Standing {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stand(&self, change: impl FnOnce(&mut Standing)) {
        change(&mut self.standing.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Says when the node goes away and when it is back. Chunks that were held come again then.
    fn watch(&mut self) {
        let is_away = self.subscription.is_away();
        if is_away {
            self.order.forget();
            self.others = 0;
        }
        if is_away != self.is_away {
            self.is_away = is_away;
            self.progress.note(if is_away {
                "the node is away, trying again"
            } else {
                "the node is back"
            });
        }
    }

    fn silence(&self, timeout: Duration) -> Failure {
        let silence = quantity::span(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        Failure::refused(format!(
            "received {} of the stream: nothing came for {silence}",
            quantity::size(self.octets)
        ))
    }

    fn end(self, outcome: Result<Ending, Failure>) -> Result<Ending, Failure> {
        self.progress.finish();
        if outcome != Ok(Ending::Done)
            && let Some(words) = self.standing().text()
        {
            output::talk(&words);
        }
        self.subscription.finish();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_on_going_on_are_options_of_the_command() {
        let stream = Some(StreamId([7; 16]));
        let id = "07".repeat(16);
        let said = |next, skip| {
            let position = Position { next, skip };
            Standing { stream, position }.text().unwrap()
        };
        assert!(said(5, 0).ends_with(&format!("goes on with --stream {id} --next 5")));
        assert!(said(5, 12).ends_with(&format!(
            "12 octets of its chunk 5 are written: it goes on with --stream {id} --next 5 --skip 12"
        )));
    }
}
