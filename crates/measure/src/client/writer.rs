//! The thread that writes: samples from the ring become rows, which go to the outlet.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::leftover;
use super::outlet::{Fate, Outlet, OutletError, Worth};
use super::record::{Kept, Sample, Samples};
use super::settings::Settings;
use super::{Counters, LINGER, Shared, Summary};
use crate::filter::Pipeline;
use crate::omsp::header::{Header, MADE, Parcel};
use crate::omsp::{Encoding, ROW_OCTETS_MAX, VERSION, binary, text};
use crate::point::Point;
use crate::schema::{Field, Schema, Type};
use crate::value::Value;

/// The interval between looks at the ring, the longest delay of a row in it.
const LOOK: Duration = Duration::from_millis(20);

/// The stream of each client's own account: what it measured, sent and dropped.
const ACCOUNT_NAME: &str = "_dhow_client";
const ACCOUNT_INDEX: u8 = 1;

/// An order to the thread that writes.
#[derive(Debug)]
pub enum Order {
    /// A stream, with the next number.
    Stream {
        /// Its declaration.
        point: Point,
        /// The filters of its streams.
        pipelines: Vec<Pipeline>,
        /// The counters that its client reads.
        counters: Arc<Counters>,
    },
    /// A statement about the experiment, a stream or a field.
    Metadata {
        /// The time of the statement, seconds since the header's start time.
        time_s: f64,
        /// The subject: `.`, `.STREAM` or `.STREAM.FIELD`.
        subject: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// The longest time that the end waits for a collector.
    Linger(Duration),
}

/// A point, as the thread knows it.
#[derive(Debug)]
struct Input {
    name: String,
    counters: Arc<Counters>,
    outputs: Vec<Output>,
}

impl Input {
    /// Samples that were measured, rows that left or wait to, and samples and rows that found no room.
    fn counts(&self) -> (u64, u64, u64) {
        let injected = self.counters.injected.load(Ordering::Relaxed);
        let lost = self.counters.dropped.load(Ordering::Relaxed);
        let sent: u64 = self.outputs.iter().map(|output| output.sent).sum();
        let unsent: u64 = self.outputs.iter().map(|output| output.dropped).sum();
        (injected, sent, lost + unsent)
    }
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
                // Keys of the standard library's maps are drawn from the system's entropy.
                run: Some(RandomState::new().build_hasher().finish()),
                parcel: None,
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
            // The time is read before the samples are taken: a sample that is measured later belongs to a window that this
            // look does not close.
            let now_s = shared.now_s();
            let waiting = shared.ring.take(spare, LOOK);
            for order in waiting.orders {
                self.obey(order, shared);
            }
            self.write_samples(&waiting.samples);
            self.close_windows(now_s, Occasion::Look);
            if waiting.closed {
                return self.end(shared);
            }
            self.pump();
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
        let worth = match index {
            0 | ACCOUNT_INDEX => Worth::Word,
            _ => Worth::Sample,
        };
        match row.len() {
            0..=ROW_OCTETS_MAX => self.outlet.row(index, row, worth),
            // A collector would refuse it.
            _ => Fate::Dropped,
        }
    }

    /// Lets leave what can; false where the way out takes nothing at all.
    fn pump(&mut self) -> bool {
        let header = |number| match (number, self.header.run) {
            // A token is for a collector that anybody can reach, and nobody answers.
            (Some(number), Some(run)) => Header {
                parcel: Some(Parcel { run, number }),
                run: None,
                token: None,
                reads_answer: false,
                ..self.header.clone()
            }
            .write(),
            _ => self.header.write(),
        };
        match self.outlet.pump(header) {
            Ok(()) => true,
            Err(error) => {
                self.complain(&error);
                matches!(error, OutletError::SpoolLost(_))
            }
        }
    }

    fn complain(&mut self, error: &OutletError) {
        if let OutletError::SpoolLost(lost) = error {
            let outputs = self.inputs.iter_mut().flat_map(|input| &mut input.outputs);
            for output in outputs {
                let rows = lost.rows.get(&output.index).copied().unwrap_or_default();
                output.sent = output.sent.saturating_sub(rows);
                output.dropped += rows;
            }
        }
        self.trouble.get_or_insert_with(|| error.to_string());
    }

    fn end(mut self, shared: &Shared) -> Summary {
        let end = Instant::now() + self.linger;
        self.close_windows(shared.now_s(), Occasion::End);
        self.account(shared.now_s());
        self.outlet.hasten();
        while !self.outlet.is_empty() && Instant::now() < end {
            let before = self.outlet.written();
            if !self.pump() {
                break;
            }
            if self.outlet.written() == before {
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
                    let words = format!("not all was taken: {why}");
                    self.trouble.get_or_insert(words);
                }
                self.leave()
            }
        };
        let mut summary = Summary {
            left,
            trouble: self.trouble,
            ..Summary::default()
        };
        for input in &self.inputs {
            let (injected, sent, dropped) = input.counts();
            summary.injected += injected;
            summary.sent += sent;
            summary.dropped += dropped;
        }
        summary
    }

    /// Tells the collector what each point measured, sent and dropped, and how many rows were made of each stream: what is dropped last is seen
    /// by nothing else.
    fn account(&mut self, now_s: f64) {
        let inputs = std::mem::take(&mut self.inputs);
        for (input, sequence) in inputs.iter().zip(1..) {
            let (injected, sent, dropped) = input.counts();
            let values = [
                Value::Text(&input.name),
                Value::Uint64(injected),
                Value::Uint64(sent),
                Value::Uint64(dropped),
            ];
            self.row(now_s, ACCOUNT_INDEX, sequence, &values);
            for output in &input.outputs {
                let made = match output.pipeline.is_plain() {
                    true => injected,
                    false => output.made,
                };
                let subject = format!(".{}", output.pipeline.schema().name());
                self.metadata(now_s, &subject, MADE, &made.to_string());
            }
        }
        self.inputs = inputs;
    }

    /// Leaves what no collector took in a file that is a session.
    fn leave(&mut self) -> Option<PathBuf> {
        let left = leftover::write(&self.header, &mut self.outlet);
        for loss in &left.losses {
            self.complain(loss);
        }
        left.path
            .map_err(|words| self.trouble.get_or_insert(words))
            .ok()
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

#[cfg(test)]
mod tests {
    use super::super::outlet::Transport;
    use super::super::record;
    use super::super::spool::Spool;
    use super::super::target::Target;
    use super::*;
    use crate::filter::Plan;
    use crate::point::Column;

    static SENT: Point = Point {
        name: "sent",
        about: "a datagram was sent",
        columns: &[Column::new("text", Type::Text, "", "of it")],
    };

    #[test]
    fn rows_that_the_disk_lost_were_not_sent_and_the_rest_leaves_all_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("out.oml");
        let settings = Settings::new(Target::File(path.clone()), "d", "s", "a");
        let spool = Spool::new(directory.path().to_path_buf(), 8 << 20);
        let way = Transport::open(&settings.target).expect("a file");
        let outlet = Outlet::new(way, settings.encoding, spool);
        let mut writer = Writer::new(&settings, 1, outlet);
        let counters = Arc::new(Counters::default());
        let pipelines = Plan::default().pipelines(&SENT, "a").expect("a plan");
        writer.open(&SENT, pipelines, Arc::clone(&counters), 0.0);
        // More than memory has room for, with no look between them.
        let mut samples = Vec::new();
        let text = "y".repeat(1000);
        let count = 3000;
        for sequence in 1..=count {
            counters.injected.fetch_add(1, Ordering::Relaxed);
            let sample = Sample {
                stream: 0,
                sequence,
                time_s: 0.5,
            };
            record::write(&mut samples, sample, &[text.as_str().into()]).expect("room");
        }
        writer.write_samples(&samples);
        writer.outlet.spool().lose();
        let shared = Shared::new("a", 0.0, Plan::default());
        let summary = writer.end(&shared);
        let file = std::fs::read_to_string(&path).expect("the file");
        let rows = file.lines().filter(|line| line.contains("yyy")).count();
        let rows = u64::try_from(rows).expect("few");
        assert!((500..count).contains(&rows), "{rows}");
        assert_eq!((summary.sent, summary.dropped), (rows, count - rows));
        assert_eq!((summary.injected, summary.left), (count, None));
        assert!(file.contains("\t1\t1\tsent\t3000\t"), "the account");
        assert!(
            summary
                .trouble
                .expect("a trouble")
                .contains("waited on disk")
        );
    }
}
