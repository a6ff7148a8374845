//! Counts of the bundles that were sent, and the node's answers.

use std::collections::VecDeque;
use std::io::{BufWriter, Stdout, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dhow_client::{Created, Refusal};
use serde::Serialize;

use super::receipts::Receipts;
use crate::failure::Failure;
use crate::output::{self, Form};
use crate::progress::Progress;

/// A bundle that the node has, as `--json` shows it; the names are a contract.
#[derive(Serialize)]
struct Line<'a> {
    source: &'a str,
    destination: &'a str,
    creation: [u64; 2],
    octets: u64,
}

/// Counts of the bundles that were sent, and the node's answers, which come in the order of sending.
#[derive(Debug)]
pub struct Tally {
    form: Form,
    destination: String,
    source: String,
    /// Octets of the bundles that were sent and not answered; the sender bounds their number.
    unanswered: VecDeque<u64>,
    /// Bundles that the node has; shared with what is said when the command is ended.
    accepted: Arc<AtomicU64>,
    octets: u64,
    /// The node's reason to refuse a bundle, if it did.
    refusal: Option<Refusal>,
    progress: Progress,
    receipts: Option<Receipts>,
    out: BufWriter<Stdout>,
}

impl Tally {
    /// Nothing sent so far.
    pub fn new(
        form: Form,
        destination: String,
        progress: Progress,
        receipts: Option<Receipts>,
    ) -> Self {
        Self {
            form,
            destination,
            source: String::new(),
            unanswered: VecDeque::new(),
            accepted: Arc::default(),
            octets: 0,
            refusal: None,
            progress,
            receipts,
            out: BufWriter::new(std::io::stdout()),
        }
    }

    /// A bundle has left for the node.
    pub fn sent(&mut self, octets: u64) {
        self.unanswered.push_back(octets);
    }

    /// The node has answered the oldest unanswered bundle.
    pub fn answered(&mut self, outcome: Result<Created, Refusal>) -> Result<(), Failure> {
        let octets = self.unanswered.pop_front().unwrap_or_default();
        let created = match outcome {
            Ok(created) => created,
            Err(refusal) => {
                self.refusal.get_or_insert(refusal);
                return Ok(());
            }
        };
        let before = self.accepted.fetch_add(1, Ordering::Relaxed);
        self.octets += octets;
        self.progress.advance(octets);
        if before == 0 {
            self.source = created.source.to_string();
        }
        if let Some(receipts) = &mut self.receipts {
            receipts.expect(&created);
        }
        if self.form == Form::Json {
            let line = Line {
                source: &self.source,
                destination: &self.destination,
                creation: [created.creation.time.as_millis(), created.creation.sequence],
                octets,
            };
            writeln!(self.out, "{}", output::json_text(&line)?)
                .map_err(|error| Failure::output(&error))?;
        }
        Ok(())
    }

    /// Writes the outcomes that reports told meanwhile; for people they are kept for the end.
    pub fn tell_outcomes(&mut self) -> Result<(), Failure> {
        if self.form != Form::Json {
            return Ok(());
        }
        while let Some(outcome) = self.receipts.as_ref().and_then(Receipts::poll_outcome) {
            writeln!(self.out, "{}", output::json_text(&outcome)?)
                .map_err(|error| Failure::output(&error))?;
        }
        Ok(())
    }

    /// Words for an interrupted command: the number of bundles that the node has, of so many.
    pub fn interrupted(&self, of: u64) -> impl Fn() -> String + Send + 'static {
        let accepted = Arc::clone(&self.accepted);
        move || {
            let accepted = accepted.load(Ordering::Relaxed);
            format!("interrupted: the node has {accepted} of {of} bundles")
        }
    }

    /// Bundles that the node has.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Octets of their payloads.
    pub const fn octets(&self) -> u64 {
        self.octets
    }

    /// The source that the node gave the bundles.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Writes the lines that were held back.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.progress.finish();
        self.out.flush().map_err(|error| Failure::output(&error))
    }

    /// True once the node has refused a bundle: there is no use in sending more.
    pub const fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// The node's refusal as a failure, if there was one.
    pub fn judge(&self) -> Result<(), Failure> {
        match &self.refusal {
            Some(refusal) => Err(Failure::refused(format!("cannot send: {refusal}"))),
            None => Ok(()),
        }
    }

    /// A failure, with how far it came of so many.
    pub fn explain(&self, failure: Failure, of: u64) -> Failure {
        if of > 1 {
            failure.with_hint(format!("the node has {} of {of} bundles", self.accepted()))
        } else {
            failure
        }
    }

    /// The reader of the reports, if reports were asked for.
    pub fn into_receipts(self) -> Option<Receipts> {
        self.receipts
    }
}
