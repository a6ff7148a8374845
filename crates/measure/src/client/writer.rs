//! The thread that writes: samples from the ring become rows, which go to the outlet.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::outlet::{Fate, Outlet, OutletError};
use super::record::{Kept, Sample, Samples};
use super::settings::Settings;
use super::{Counters, LINGER, Shared, Summary};
use crate::filter::Pipeline;
use crate::omsp::header::Header;
use crate::omsp::{Encoding, ROW_OCTETS_MAX, VERSION, binary, text};
use crate::point::Point;
use crate::schema::{Field, Schema, Type};
use crate::value::Value;

/// How often the ring is looked at: a row is at most so late.
const LOOK: Duration = Duration::from_millis(20);

/// The stream of each client's own account: what it measured, sent and dropped.
const ACCOUNT_NAME: &str = "_dhow_client";
const ACCOUNT_INDEX: u8 = 1;

/// What is asked of the thread.
#[derive(Debug)]
pub enum Order {
    /// A stream, with the next number.
    Stream {
        /// Its declaration.
        point: Point,
        /// What is made of its samples.
        pipelines: Vec<Pipeline>,
        /// What it counts.
        counters: Arc<Counters>,
    },
    /// Something about the experiment.
    Metadata {
        /// When it was said.
        time_s: f64,
        /// About what.
        subject: String,
        /// What of it.
        key: String,
        /// It.
        value: String,
    },
    /// How long the end may wait for a collector.
    Linger(Duration),
}

/// A point, as the thread knows it.
#[derive(Debug)]
struct Input {
    name: String,
    counters: Arc<Counters>,
    outputs: Vec<Output>,
}

/// A stream that leaves.
#[derive(Debug)]
struct Output {
    index: u8,
    pipeline: Pipeline,
    /// Rows that were made, where they are not samples with numbers of their own.
    made: u64,
    sent: u64,
    dropped: u64,
}

/// The thread's state.
#[derive(Debug)]
pub struct Writer {
    header: Header,
    outlet: Outlet,
    inputs: Vec<Input>,
    metadata_sequence: u64,
    linger: Duration,
    trouble: Option<String>,
    text: String,
    octets: Vec<u8>,
}

impl Writer {
    pub fn new(settings: &Settings, start_s: u64, outlet: Outlet) -> Self {
        Self {
            header: Header {
                protocol: VERSION,
                domain: settings.domain.clone(),
                start_s,
                sender: settings.sender.clone(),
                app: settings.app.clone(),
                content: settings.encoding,
                token: settings.token.clone(),
                reads_answer: true,
                schemas: vec![(0, Schema::metadata()), (ACCOUNT_INDEX, account_schema())],
            },
            outlet,
            inputs: Vec::new(),
            metadata_sequence: 0,
            linger: LINGER,
            trouble: None,
            text: String::new(),
            octets: Vec::new(),
        }
    }

    /// Runs until the ring is closed and empty.
    pub fn run(mut self, shared: &Shared) -> Summary {
        let mut spare = Vec::new();
        loop {
            // What is measured from here on comes with the next look: no window may be closed before it.
            let now_s = shared.now_s();
            let waiting = shared.ring.take(spare, LOOK);
            for order in waiting.orders {
                self.obey(order, shared);
            }
            self.write_samples(&waiting.samples);
            self.close_windows(now_s, Occasion::Look);
            self.pump();
            if waiting.closed {
                return self.end(shared);
            }
            spare = waiting.samples;
            spare.clear();
        }
    }

    fn obey(&mut self, order: Order, shared: &Shared) {
        match order {
            Order::Stream {
                point,
                pipelines,
                counters,
            } => self.open(&point, pipelines, counters, shared.now_s()),
            Order::Metadata {
                time_s,
                subject,
                key,
                value,
            } => self.metadata(time_s, &subject, &key, &value),
            Order::Linger(linger) => self.linger = linger,
        }
    }

    fn open(
        &mut self,
        point: &Point,
        pipelines: Vec<Pipeline>,
        counters: Arc<Counters>,
        now_s: f64,
    ) {
        let mut outputs = Vec::new();
        for mut pipeline in pipelines {
            let index = u8::try_from(self.header.schemas.len()).unwrap_or(u8::MAX);
            let schema = pipeline.schema().clone();
            if self.outlet.has_header() {
                self.metadata(now_s, ".", "schema", &format!("{index} {schema}"));
            }
            for column in point
                .columns
                .iter()
                .filter(|column| !column.unit.is_empty())
            {
                if schema
                    .fields()
                    .iter()
                    .any(|field| field.name == column.name)
                {
                    let subject = format!(".{}.{}", schema.name(), column.name);
                    self.metadata(now_s, &subject, "unit", column.unit);
                }
            }
            self.header.schemas.push((index, schema));
            // The first window of time begins here.
            pipeline.tick(now_s, |_, _| {});
            outputs.push(Output {
                index,
                pipeline,
                made: 0,
                sent: 0,
                dropped: 0,
            });
        }
        self.inputs.push(Input {
            name: point.name.to_owned(),
            counters,
            outputs,
        });
    }

    fn metadata(&mut self, time_s: f64, subject: &str, key: &str, value: &str) {
        self.metadata_sequence += 1;
        let values = [Value::Text(subject), Value::Text(key), Value::Text(value)];
        self.row(time_s, 0, self.metadata_sequence, &values);
    }

    fn write_samples(&mut self, octets: &[u8]) {
        let mut samples = Samples::new(octets);
        let mut kept = Vec::new();
        // Each output needs the writer for its rows, so they are apart from it meanwhile.
        let mut inputs = std::mem::take(&mut self.inputs);
        while let Some(sample) = samples.next_into(&mut kept) {
            let place = usize::try_from(sample.stream).ok();
            let Some(input) = place.and_then(|place| inputs.get_mut(place)) else {
                continue;
            };
            let values: Vec<Value<'_>> = kept.iter().map(Kept::value).collect();
            for output in &mut input.outputs {
                self.sample(output, sample, &values);
            }
        }
        self.inputs = inputs;
    }

    fn sample(&mut self, output: &mut Output, sample: Sample, values: &[Value<'_>]) {
        let Output {
            index,
            pipeline,
            made,
            sent,
            dropped,
        } = output;
        let is_plain = pipeline.is_plain();
        let mut write = |time_s: f64, values: &[Value<'_>]| {
            *made += 1;
            // Samples that go as they are keep their numbers, so that a collector sees which are missing.
            let sequence = if is_plain { sample.sequence } else { *made };
            match self.row(time_s, *index, sequence, values) {
                Fate::Taken => *sent += 1,
                Fate::Dropped => *dropped += 1,
            }
        };
        pipeline.tick(sample.time_s, &mut write);
        pipeline.sample(sample.time_s, values, &mut write);
    }

    /// Closes windows of time that have ended by `now_s`, and all where the client ends.
    fn close_windows(&mut self, now_s: f64, occasion: Occasion) {
        let mut inputs = std::mem::take(&mut self.inputs);
        for output in inputs.iter_mut().flat_map(|input| &mut input.outputs) {
            let write = |time_s: f64, values: &[Value<'_>]| {
                output.made += 1;
                match self.row(time_s, output.index, output.made, values) {
                    Fate::Taken => output.sent += 1,
                    Fate::Dropped => output.dropped += 1,
                }
            };
            match occasion {
                Occasion::Look => output.pipeline.tick(now_s, write),
                Occasion::End => output.pipeline.finish(now_s, write),
            }
        }
        self.inputs = inputs;
    }

    /// Writes a row to the outlet.
    fn row(&mut self, time_s: f64, index: u8, sequence: u64, values: &[Value<'_>]) -> Fate {
        let row = match self.header.content {
            Encoding::Text => {
                self.text.clear();
                text::write_row(&mut self.text, time_s, index, sequence, values);
                self.text.as_bytes()
            }
            Encoding::Binary => {
                self.octets.clear();
                binary::write_row(&mut self.octets, time_s, index, sequence, values);
                &self.octets
            }
        };
        match row.len() {
            0..=ROW_OCTETS_MAX => self.outlet.row(row),
            // A collector would refuse it.
            _ => Fate::Dropped,
        }
    }

    fn pump(&mut self) {
        let outcome = self.outlet.pump(|| self.header.write());
        if let Err(error) = outcome {
            self.complain(&error);
        }
    }

    fn complain(&mut self, error: &OutletError) {
        self.trouble.get_or_insert_with(|| error.to_string());
    }

    fn end(mut self, shared: &Shared) -> Summary {
        let end = Instant::now() + self.linger;
        self.close_windows(shared.now_s(), Occasion::End);
        let account = self.account(shared.now_s());
        while !self.outlet.is_empty() && self.trouble.is_none() && Instant::now() < end {
            self.pump();
            if !self.outlet.has_header() {
                std::thread::sleep(LOOK);
            }
        }
        let left = match self.outlet.is_empty() {
            true => {
                let rest = end.saturating_duration_since(Instant::now());
                if let Err(error) = self.outlet.finish(rest) {
                    let words = format!("the collector may not have taken all: {error}");
                    self.trouble.get_or_insert(words);
                }
                None
            }
            false => {
                if let Some(why) = self.outlet.refusal() {
                    let words = format!("the collector refuses: {why}");
                    self.trouble.get_or_insert(words);
                }
                self.leave()
            }
        };
        Summary {
            left,
            trouble: self.trouble,
            ..account
        }
    }

    /// Tells the collector what each stream measured, sent and dropped, and sums it up.
    fn account(&mut self, now_s: f64) -> Summary {
        let mut summary = Summary::default();
        let inputs = std::mem::take(&mut self.inputs);
        for (input, sequence) in inputs.iter().zip(1..) {
            let injected = input.counters.injected.load(Ordering::Relaxed);
            let lost = input.counters.dropped.load(Ordering::Relaxed);
            let sent: u64 = input.outputs.iter().map(|output| output.sent).sum();
            let unsent: u64 = input.outputs.iter().map(|output| output.dropped).sum();
            summary.injected += injected;
            summary.sent += sent;
            summary.dropped += lost + unsent;
            let values = [
                Value::Text(&input.name),
                Value::Uint64(injected),
                Value::Uint64(sent),
                Value::Uint64(lost + unsent),
            ];
            self.row(now_s, ACCOUNT_INDEX, sequence, &values);
        }
        summary
    }

    /// Leaves what no collector took in a file that is a session.
    fn leave(&mut self) -> Option<PathBuf> {
        let name = format!(
            "{}-{}-{}.omsp",
            self.header.domain,
            self.header.start_s,
            std::process::id()
        );
        let path = self.outlet.spool_directory().join(name);
        let outcome = self.write_leftover(&path);
        match outcome {
            Ok(()) => Some(path),
            Err(error) => {
                let error = format!(
                    "cannot leave what was not delivered in {}: {error}",
                    path.display()
                );
                self.trouble.get_or_insert(error);
                // Half of it is of no use, and may be in the way.
                let _ = fs::remove_file(&path);
                None
            }
        }
    }

    fn write_leftover(&mut self, path: &std::path::Path) -> Result<(), OutletError> {
        let mut file = io::BufWriter::new(File::create_new(path)?);
        // A token is for the collector alone.
        let header = Header {
            token: None,
            reads_answer: false,
            ..self.header.clone()
        };
        file.write_all(header.write().as_bytes())?;
        self.outlet.leftover(|octets| file.write_all(octets))?;
        file.flush()?;
        Ok(())
    }
}

/// Why windows are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// Time passed.
    Look,
    /// The client ends.
    End,
}

fn account_schema() -> Schema {
    let field = |name: &str, kind| Field {
        name: name.to_owned(),
        kind,
    };
    let fields = vec![
        field("point", Type::Text),
        field("injected", Type::Uint64),
        field("sent", Type::Uint64),
        field("dropped", Type::Uint64),
    ];
    // The names above are names.
    Schema::new(ACCOUNT_NAME, fields).unwrap_or_else(|_| Schema::metadata())
}
