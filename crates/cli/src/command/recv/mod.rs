//! `dhow recv`: deliveries become files, and are confirmed when they are safe.

pub mod filing;
mod outflow;
mod seen;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::{BundleId, EndpointId};
use dhow_client::{Delivery, Receipt, Registration};
use serde::Serialize;

use self::filing::{CopyError, WrittenFile};
use self::outflow::Outflow;
use self::seen::Seen;
use crate::address::locate;
use crate::application::{Arrival, Subscription};
use crate::arguments::{Common, parse_duration};
use crate::digest::Sha256;
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::progress::Progress;
use crate::{calendar, output, quantity};

/// Receive bundles into files
///
/// A line of JSON for each bundle: source, creation [time, sequence], octets, sha256 (null without --sha256), path, delay_ms. Each becomes one file, named after the bundle: source, creation time, sequence number with 10 digits. So names sort in the order of sending, and `cat DIR/*` joins the pieces of `dhow send --split`. Goes on when the node restarts, and drops what comes twice.
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
    /// Say the SHA-256 of each payload
    #[arg(long)]
    sha256: bool,
    /// End when nothing has come for this long; exit with 1 if the node is away then
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

/// Deliveries written before they are made durable together, and confirmed after that. Each keeps a file
/// open, and 1024 is the usual limit.
const BATCH: usize = 256;

/// Deliveries that the node may send before one is confirmed: while some are made durable, others come. The node lets no
/// connection have more.
const WINDOW: usize = 1024;

/// The time to wait for another delivery before those that came are made durable.
const MOMENT: Duration = Duration::from_millis(1);

/// The line about a bundle that came; the names are a contract.
#[derive(Debug, Serialize)]
struct Line {
    source: String,
    creation: [u64; 2],
    octets: u64,
    sha256: Option<String>,
    path: Option<String>,
    delay_ms: Option<u64>,
}

/// A bundle that came and is not confirmed.
#[derive(Debug)]
struct Came {
    /// The place that it is written to; `None` when it goes to stdout.
    file: Option<WrittenFile>,
    line: Line,
    id: BundleId,
    receipt: Receipt,
}

/// The state of a delivery.
#[derive(Debug)]
enum Taken {
    /// The bundle came before.
    Repeat(Receipt),
    /// The delivery waits to be made durable, or to be written to stdout.
    New(Box<Came>),
}

impl Recv {
    /// Receives until there is a reason to end.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        if !self.stdout {
            std::fs::create_dir_all(&self.out).map_err(|error| {
                Failure::refused(format!("cannot make {}: {error}", self.out.display()))
            })?;
        }
        let most = |bound: usize| {
            let asked = self.count.and_then(|count| usize::try_from(count).ok());
            asked.map_or(bound, |count| count.min(bound))
        };
        let registration = Registration::new(self.endpoint.clone())
            .with_window(u32::try_from(most(WINDOW)).unwrap_or(1));
        let address = locate(common.node.as_ref())?;
        let subscription = Subscription::begin(&address, registration, self.timeout)?;
        let mut reception = Reception {
            recv: self,
            subscription,
            seen: Seen::default(),
            batch: Vec::new(),
            outflow: Outflow::default(),
            batch_most: most(BATCH),
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
    batch: Vec<Came>,
    outflow: Outflow,
    /// Bundles that are made durable together, at most.
    batch_most: usize,
    received: u64,
    octets: u64,
    /// When the last bundle came.
    last: Instant,
    /// Whether it was said that the node is away.
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
            let (recv, seen, outflow) = (self.recv, &self.seen, &mut self.outflow);
            match self
                .subscription
                .poll(wait, |delivery| recv.take(delivery, seen, outflow))?
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
            Ok(Taken::New(came)) => {
                self.last = Instant::now();
                self.batch.push(*came);
                if self.batch.len() >= self.batch_most || self.outflow.is_full() {
                    self.settle()?;
                }
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

    /// Makes durable what is written and gives it its name, or writes it to stdout; says so, and only then confirms it.
    fn settle(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let fail =
            |error: io::Error| Failure::refused(format!("cannot keep what was received: {error}"));
        let files: Vec<&File> = (self.batch.iter())
            .filter_map(|came| came.file.as_ref().map(WrittenFile::file))
            .collect();
        let has_files = !files.is_empty();
        filing::sync_files(&files, File::sync_data).map_err(fail)?;
        let mut lines = String::new();
        let mut kept = Vec::with_capacity(self.batch.len());
        for mut came in self.batch.drain(..) {
            if let Some(file) = came.file {
                let path = file.name().map_err(fail)?;
                came.line.path = Some(path.display().to_string());
            }
            lines.push_str(&output::json_text(&came.line)?);
            lines.push('\n');
            kept.push((came.line.octets, came.id, came.receipt));
        }
        if has_files {
            filing::sync_directory(&self.recv.out).map_err(fail)?;
        }
        if self.recv.stdout {
            let mut stdout = io::stdout().lock();
            self.outflow.flush(&mut stdout).map_err(fail)?;
            self.progress.hide(|| output::talk_lines(&lines));
        } else {
            self.progress.hide(|| output::text(&lines))?;
        }
        for (octets, id, receipt) in kept {
            self.received += 1;
            self.octets += octets;
            self.progress.advance(octets);
            self.seen.insert(&id);
            self.subscription.confirm(receipt);
        }
        Ok(())
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
    fn take(
        &self,
        mut delivery: Delivery<'_>,
        seen: &Seen,
        outflow: &mut Outflow,
    ) -> Result<Taken, CopyError> {
        let id = delivery.head().id.clone();
        let receipt = delivery.receipt();
        if seen.contains(&id) {
            return Ok(Taken::Repeat(receipt));
        }
        let mut digest = self.sha256.then(Sha256::default);
        let (file, octets) = if self.stdout {
            let octets = delivery.unread();
            let mut stdout = io::stdout().lock();
            let octets = outflow.take(&mut delivery, octets, digest.as_mut(), &mut stdout)?;
            (None, octets)
        } else {
            let (file, octets) =
                WrittenFile::write(&self.out, &id, &mut delivery, digest.as_mut())?;
            (Some(file), octets)
        };
        let line = line(&id, octets, digest.map(Sha256::hexadecimal));
        Ok(Taken::New(Box::new(Came {
            file,
            line,
            id,
            receipt,
        })))
    }
}

fn line(id: &BundleId, octets: u64, sha256: Option<String>) -> Line {
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
