//! `dhow recv`: deliveries become files, and are confirmed when they are safe.

mod filing;
mod seen;

use std::io::{self, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::{BundleId, EndpointId};
use dhow_client::{Delivery, Receipt, Registration};
use serde::Serialize;

use self::filing::{CopyError, WrittenFile};
use self::seen::Seen;
use crate::address::locate;
use crate::application::{Arrival, Subscription};
use crate::arguments::{Common, parse_duration};
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::progress::Progress;
use crate::{calendar, output, quantity};

/// Receive bundles into files
///
/// A line of JSON for each bundle: source, creation [time, sequence], octets, sha256, path, delay_ms. Each becomes one file, named after the bundle: source, creation time, sequence number with 10 digits. So names sort in the order of sending, and `cat DIR/*` joins the pieces of `dhow send --split`. Goes on when the node restarts, and drops what comes twice.
#[derive(Args, Debug)]
pub struct Recv {
    /// The endpoint of the node to receive at: ipn:4.42
    endpoint: EndpointId,
    /// End after this many bundles; exit with 1 if fewer come
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The directory for the files; it is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Write payloads to stdout, and the lines to stderr
    #[arg(long, conflicts_with = "out")]
    stdout: bool,
    /// End when nothing has come for this long; exit with 1 if the node is away then
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

/// Deliveries written before they are made durable together, and confirmed after that. Each keeps a file
/// open, and 1024 is the usual limit.
const BATCH: usize = 256;

/// How long to wait for another delivery before those that came are made durable.
const MOMENT: Duration = Duration::from_millis(1);

/// Payloads up to this size wait in memory, larger ones in a file, until they may go to stdout.
const SPOOL_OCTETS: usize = 1 << 20;

/// What is said of a bundle that came; the names are a contract.
#[derive(Debug, Serialize)]
struct Line {
    source: String,
    creation: [u64; 2],
    octets: u64,
    sha256: String,
    path: Option<String>,
    delay_ms: Option<u64>,
}

/// A bundle that is written and not yet durable.
#[derive(Debug)]
struct Written {
    file: WrittenFile,
    line: Line,
    id: BundleId,
    receipt: Receipt,
}

/// What became of a delivery.
#[derive(Debug)]
enum Taken {
    /// It came before.
    Repeat(Receipt),
    /// It waits to be made durable.
    Written(Box<Written>),
    /// It went to stdout.
    Passed(Line, BundleId, Receipt),
}

impl Recv {
    /// Receives until there is a reason to end.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        if !self.stdout {
            std::fs::create_dir_all(&self.out).map_err(|error| {
                Failure::refused(format!("cannot make {}: {error}", self.out.display()))
            })?;
        }
        let window = self.count.map_or(BATCH, |count| {
            usize::try_from(count).unwrap_or(BATCH).min(BATCH)
        });
        let registration = Registration::new(self.endpoint.clone())
            .with_window(u32::try_from(window).unwrap_or(1));
        let subscription = Subscription::begin(&locate(common.node.as_ref())?, registration)?;
        let mut reception = Reception {
            recv: self,
            subscription,
            seen: Seen::default(),
            batch: Vec::new(),
            window,
            received: 0,
            octets: 0,
            last: Instant::now(),
            is_away: false,
            progress: Progress::octets(None, "receiving"),
        };
        let outcome = reception.receive();
        reception.end(outcome)
    }
}

/// Bundles coming in.
#[derive(Debug)]
struct Reception<'a> {
    recv: &'a Recv,
    subscription: Subscription,
    seen: Seen,
    batch: Vec<Written>,
    window: usize,
    received: u64,
    octets: u64,
    /// When the last bundle came.
    last: Instant,
    /// It was said that the node is away.
    is_away: bool,
    progress: Progress,
}

impl Reception<'_> {
    fn receive(&mut self) -> Result<Ending, Failure> {
        loop {
            if self.missing() == Some(0) {
                self.settle()?;
                return Ok(Ending::Done);
            }
            if interrupt::is_requested() {
                self.settle()?;
                return Ok(Ending::Interrupted);
            }
            let left = self
                .recv
                .timeout
                .map_or(LOOK, |timeout| timeout.saturating_sub(self.last.elapsed()));
            if left.is_zero() && self.batch.is_empty() {
                if self.is_away {
                    return Err(self.away());
                }
                return Ok(if self.missing().is_some() {
                    Ending::Incomplete
                } else {
                    Ending::Done
                });
            }
            let wait = if self.batch.is_empty() {
                left.clamp(MOMENT, LOOK)
            } else {
                MOMENT
            };
            let (recv, seen) = (self.recv, &self.seen);
            match self
                .subscription
                .poll(wait, |delivery| recv.take(delivery, seen))?
            {
                Arrival::Delivery(taken) => self.take(taken)?,
                Arrival::Nothing | Arrival::Lost => self.settle()?,
            }
            self.watch();
        }
    }

    /// Says when the node goes away and when it is back.
    fn watch(&mut self) {
        let is_away = self.subscription.is_away();
        if is_away != self.is_away {
            self.is_away = is_away;
            self.progress.note(if is_away {
                "the node is away, trying again"
            } else {
                "the node is back"
            });
        }
    }

    fn away(&self) -> Failure {
        let of = self
            .recv
            .count
            .map_or_else(String::new, |count| format!(" of {count}"));
        Failure::refused(format!(
            "received {}{of} bundles: the node is away",
            self.received
        ))
        .with_hint("start the node again; it delivers what it has stored")
    }

    /// Bundles still to come, where a number was asked for.
    fn missing(&self) -> Option<u64> {
        let waiting = u64::try_from(self.batch.len()).unwrap_or(u64::MAX);
        self.recv
            .count
            .map(|count| count.saturating_sub(self.received.saturating_add(waiting)))
    }

    fn take(&mut self, taken: Result<Taken, CopyError>) -> Result<(), Failure> {
        match taken {
            Ok(Taken::Repeat(receipt)) => self.subscription.confirm(receipt),
            Ok(Taken::Written(written)) => {
                self.last = Instant::now();
                self.batch.push(*written);
                if self.batch.len() >= self.window {
                    self.settle()?;
                }
            }
            Ok(Taken::Passed(line, id, receipt)) => {
                self.last = Instant::now();
                output::talk(&output::json_text(&line)?);
                self.came(&line, &id, receipt);
            }
            // The connection broke: the delivery comes again.
            Err(CopyError::Incoming) => {
                self.settle()?;
                self.subscription.lose();
            }
            Err(CopyError::Outgoing(error)) => {
                self.settle()?;
                let failure = Failure::refused(format!("cannot write what was received: {error}"));
                return Err(
                    failure.with_hint("the bundle stays at the node and is delivered again")
                );
            }
        }
        Ok(())
    }

    /// Makes durable what is written, gives it its name, says so, and only then confirms it.
    fn settle(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let fail =
            |error: io::Error| Failure::refused(format!("cannot keep what was received: {error}"));
        let files: Vec<&WrittenFile> = self.batch.iter().map(|written| &written.file).collect();
        filing::sync_files(&files).map_err(fail)?;
        let mut named = Vec::with_capacity(self.batch.len());
        for written in self.batch.drain(..) {
            let path = written.file.name().map_err(fail)?;
            named.push((
                Line {
                    path: Some(path.display().to_string()),
                    ..written.line
                },
                written.id,
                written.receipt,
            ));
        }
        filing::sync_directory(&self.recv.out).map_err(fail)?;
        for (line, id, receipt) in named {
            output::json(&line)?;
            self.came(&line, &id, receipt);
        }
        Ok(())
    }

    fn came(&mut self, line: &Line, id: &BundleId, receipt: Receipt) {
        self.received += 1;
        self.octets += line.octets;
        self.progress.advance(line.octets);
        self.seen.insert(id);
        self.subscription.confirm(receipt);
    }

    fn end(self, outcome: Result<Ending, Failure>) -> Result<Ending, Failure> {
        self.progress.finish();
        self.subscription.finish();
        let of = self
            .recv
            .count
            .map_or_else(String::new, |count| format!(" of {count}"));
        match outcome? {
            Ending::Incomplete => {
                let silence = self.recv.timeout.unwrap_or_default();
                let silence =
                    quantity::span(u64::try_from(silence.as_millis()).unwrap_or(u64::MAX));
                Err(Failure::refused(format!(
                    "received {}{of} bundles: nothing came for {silence}",
                    self.received
                )))
            }
            ending => {
                if output::stderr_is_watched() {
                    output::talk(&format!(
                        "received {}{of} bundles, {}",
                        self.received,
                        quantity::size(self.octets)
                    ));
                }
                Ok(ending)
            }
        }
    }
}

impl Recv {
    fn take(&self, mut delivery: Delivery<'_>, seen: &Seen) -> Result<Taken, CopyError> {
        let id = delivery.head().id.clone();
        let receipt = delivery.receipt();
        if seen.contains(&id) {
            return Ok(Taken::Repeat(receipt));
        }
        if !self.stdout {
            let (file, octets, sha256) = WrittenFile::write(&self.out, &id, &mut delivery)?;
            let line = line(&id, octets, sha256);
            return Ok(Taken::Written(Box::new(Written {
                file,
                line,
                id,
                receipt,
            })));
        }
        // A payload that breaks off must not be half on stdout.
        let mut spool = tempfile::SpooledTempFile::new(SPOOL_OCTETS);
        let (octets, sha256) = filing::copy(&mut delivery, &mut spool)?;
        spool
            .seek(SeekFrom::Start(0))
            .map_err(CopyError::Outgoing)?;
        filing::copy(&mut spool, &mut io::stdout().lock())?;
        let line = line(&id, octets, sha256);
        Ok(Taken::Passed(line, id, receipt))
    }
}

fn line(id: &BundleId, octets: u64, sha256: String) -> Line {
    let created = id.creation.time;
    Line {
        source: id.source.to_string(),
        creation: [created.as_millis(), id.creation.sequence],
        octets,
        sha256,
        path: None,
        delay_ms: created.is_known().then(|| {
            calendar::now()
                .as_millis()
                .saturating_sub(created.as_millis())
        }),
    }
}
