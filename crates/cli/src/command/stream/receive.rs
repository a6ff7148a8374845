//! `dhow stream receive`: chunks in order to stdout.

use std::io::{self, Read as _, Write as _};
use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::{EidPattern, EndpointId};
use dhow_client::chunk::{
    CHUNK_HEADER_OCTETS_MAX, CHUNK_OCTETS_MAX, ChunkHeader, ChunkPlace, StreamId,
};
use dhow_client::{Delivery, Receipt, Registration};

use super::order::{Order, Placed};
use super::{parse_stream, shown};
use crate::address::locate;
use crate::application::{Arrival, Subscription};
use crate::arguments::{Common, parse_duration};
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::output;
use crate::progress::Progress;
use crate::quantity;

/// Write a stream of ordered octets to stdout
///
/// Takes the chunks that `dhow stream send` sends to the endpoint, in order, each once, and ends with the stream. Octets are confirmed once stdout has taken them. Goes on when the node restarts. Ctrl-C says how the same stream goes on later.
#[derive(Args, Debug)]
pub struct Receive {
    /// The endpoint of the node to receive at: ipn:4.61
    endpoint: EndpointId,
    /// The stream, by its 32 hexadecimal digits [default: that of the first chunk that comes]
    #[arg(long, value_name = "ID", value_parser = parse_stream)]
    stream: Option<StreamId>,
    /// The number of the first chunk to write
    #[arg(long, value_name = "N", default_value_t = 0)]
    next: u64,
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

/// Notes about bundles that were dropped, in a run.
const NOTES: u64 = 100;

/// A delivery, as far as it says what to do with it.
enum Taken {
    /// A chunk, with its header.
    Chunk(ChunkHeader, Vec<u8>, Receipt),
    /// Something else, and why it is dropped.
    Dropped(String, Receipt),
    /// The delivery broke off.
    Lost,
}

impl Receive {
    /// Receives until the stream ends.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let address = locate(common.node.as_ref())?;
        let registration = Registration::new(self.endpoint.clone()).with_window(WINDOW);
        let mut reception = Reception {
            receive: self,
            subscription: Subscription::begin(&address, registration, self.timeout)?,
            stream: self.stream,
            order: Order::from(self.next),
            others: 0,
            dropped: 0,
            octets: 0,
            last: Instant::now(),
            is_away: false,
            progress: Progress::octets(None, "receiving"),
        };
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
        let id = id.to_string();
        let mut payload = Vec::new();
        let read = delivery.read_to_end(&mut payload).map(u64::try_from);
        if !matches!(read, Ok(Ok(read)) if read == octets) {
            return Taken::Lost;
        }
        match ChunkHeader::decode(&payload) {
            Ok((header, chunk)) => Taken::Chunk(header, chunk.to_vec(), receipt),
            Err(refusal) => Taken::Dropped(format!("bundle {id}: {refusal}"), receipt),
        }
    }
}

/// A stream coming in.
#[derive(Debug)]
struct Reception<'a> {
    receive: &'a Receive,
    subscription: Subscription,
    stream: Option<StreamId>,
    /// Chunks that are early, each with whether it is the last.
    order: Order<(Receipt, ChunkPlace)>,
    /// Chunks of other streams that are not confirmed.
    others: usize,
    dropped: u64,
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
                Arrival::Delivery(Taken::Chunk(header, chunk, receipt)) => {
                    if self.place(header, chunk, receipt)? == ChunkPlace::End {
                        return Ok(Ending::Done);
                    }
                }
                Arrival::Delivery(Taken::Dropped(why, receipt)) => {
                    self.dropped += 1;
                    if self.dropped <= NOTES {
                        self.progress.note(&format!("dropped {why}"));
                    }
                    self.subscription.confirm(receipt);
                }
                Arrival::Delivery(Taken::Lost) => self.subscription.lose(),
                Arrival::Nothing | Arrival::Lost => {}
            }
            self.watch();
        }
    }

    /// Puts a chunk in order, and writes what is next; whether the stream has ended.
    fn place(
        &mut self,
        header: ChunkHeader,
        chunk: Vec<u8>,
        receipt: Receipt,
    ) -> Result<ChunkPlace, Failure> {
        let stream = *self.stream.get_or_insert(header.stream);
        if header.stream != stream {
            self.others += 1;
            if self.others > OTHERS {
                return Err(Failure::refused(format!(
                    "{OTHERS} chunks of other streams are in the way, of stream {} for example",
                    shown(header.stream)
                ))
                .with_hint("--stream names the stream to receive"));
            }
            return Ok(ChunkPlace::Within);
        }
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
        while let Some((chunk, (receipt, place))) = self.order.poll() {
            let mut stdout = io::stdout().lock();
            stdout
                .write_all(&chunk)
                .and_then(|()| stdout.flush())
                .map_err(|error| Failure::output(&error))?;
            let octets = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            self.octets = self.octets.saturating_add(octets);
            self.progress.advance(octets);
            self.subscription.confirm(receipt);
            if place == ChunkPlace::End {
                return Ok(place);
            }
        }
        Ok(ChunkPlace::Within)
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
        let failure = Failure::refused(format!(
            "received {} of the stream: nothing came for {silence}",
            quantity::size(self.octets)
        ));
        match self.again() {
            Some(again) => failure.with_hint(again),
            None => failure,
        }
    }

    /// Words on going on with the stream another time; without the chunks before those that are here, where some are missing.
    fn again(&self) -> Option<String> {
        let stream = shown(self.stream?);
        let next = self.order.first_held().unwrap_or(self.order.next());
        Some(format!("it goes on with --stream {stream} --next {next}"))
    }

    fn end(self, outcome: Result<Ending, Failure>) -> Result<Ending, Failure> {
        self.progress.finish();
        if outcome == Ok(Ending::Interrupted)
            && let Some(again) = self.again()
        {
            output::talk(&format!("the stream has not ended: {again}"));
        }
        self.subscription.finish();
        outcome
    }
}
