//! `dhow send`: files become bundles, and are durable at the node before they count as sent.

mod fate;
mod receipts;
mod split;
mod tally;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::{BundleFlags, EndpointId};
use dhow_client::{Address, Error, Registration, SendHead, Sender};
use serde_json::Value;

use self::receipts::Receipts;
use self::split::Split;
use self::tally::Tally;
use crate::address::locate;
use crate::admin::{Admin, path_segment};
use crate::application;
use crate::arguments::Common;
use crate::bundle_options::BundleOptions;
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::output::{self, Form};
use crate::portion::{Portion, PortionOctets, Source};
use crate::progress::Progress;
use crate::quantity;
use crate::steady_sender::{SteadySender, Write};

/// Send files as bundles
///
/// A bundle counts as sent when the node has it durably. With --json, a line for each: source, destination, creation [time, sequence], octets. With --json --wait, a further line for each, as reports come: event (delivered, deleted, or unreported when it expired without a report), source, creation, at (the node that reported), time_dtn_ms, reason, reason_text. With --json --split auto, a line before all: event (split), size_octets, trials. Goes on when the node restarts within a minute: bundles that it had not accepted are sent again. Ctrl-C prints how many were sent and exits with 130.
#[derive(Args, Debug)]
pub struct Send {
    /// Destination endpoint: ipn:4.42 or dtn://delta/inbox
    destination: EndpointId,
    /// Files; - for stdin, which is copied first (without --split no more than the node has room for)
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Options of the bundles.
    #[command(flatten)]
    options: BundleOptions,
    /// Cut files into independent bundles of at most this many octets, or auto: the smallest size that the path carries nearly as fast as any, tried within 10 s against the perf service of the destination's node (100 kB if nobody answers); `dhow recv --out DIR` names the pieces so that `cat DIR/*` joins one file again
    #[arg(long, value_name = "SIZE")]
    split: Option<Split>,
    /// Send everything N times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Wait until each bundle is reported delivered; exit with 1 if one is reported deleted, or not delivered when it expires. Asks for reports of delivery and deletion
    #[arg(long)]
    wait: bool,
}

/// Bundles sent between two looks at the answers: looking costs system calls, and each waits in memory.
const LOOK_BUNDLES: usize = 1024;

impl Send {
    /// Sends, and waits where asked to.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        self.options.check()?;
        let address = locate(common.node.as_ref())?;
        let room = self.room(&address);
        let sources: Vec<Source> = self
            .files
            .iter()
            .map(|path| Source::open_within(path, room))
            .collect::<Result<_, _>>()?;
        let client = application::connect(&address, None)?;
        let source = match &self.options.from {
            Some(endpoint) => endpoint.clone(),
            None => application::random_endpoint(client.node_id())?,
        };
        let registration = self.registration(&source)?;
        let limit = self.limit(&address, &sources, common.form())?;
        // Reports may come as soon as the first bundle has left.
        let receipts = self
            .wait
            .then(|| Receipts::begin(&address, registration.clone()))
            .transpose()?;
        let mut sender = SteadySender::begin(client, &address, registration)?;
        let total = sources
            .iter()
            .fold(0_u64, |sum, source| sum.saturating_add(source.octets()))
            .saturating_mul(self.count);
        let mut tally = Tally::new(
            common.form(),
            self.destination.to_string(),
            Progress::octets(Some(total), "sending"),
            receipts,
        );
        let bundles = self.bundles(&sources, limit);
        let interrupted = tally.interrupted(bundles);
        interrupt::say_at_end(tally.interrupted(bundles));
        let begun = Instant::now();
        let head = self.head();
        let mut write = |sender: &mut Sender, item: &Item| write(sender, &head, &sources, *item);
        let outcome = self
            .send_all(&mut sender, &sources, limit, &mut write, &mut tally)
            .and_then(|ending| {
                let drained = drain(&mut sender, &mut write, &mut tally)?;
                tally.judge()?;
                Ok(if drained == Ending::Done {
                    ending
                } else {
                    drained
                })
            });
        let elapsed = begun.elapsed();
        tally.flush()?;
        if outcome == Ok(Ending::Done) && common.form() == Form::Text {
            output::line(&self.summary(&tally, elapsed))?;
        }
        let ending = outcome.map_err(|failure| tally.explain(failure, bundles))?;
        if ending == Ending::Interrupted {
            output::talk(&interrupted());
        }
        if sender.repeated() > 0 {
            output::note(&format!(
                "the node was away; what it had not answered was sent again: up to {} bundles may arrive twice",
                sender.repeated()
            ));
        }
        self.note_reports(&address);
        if ending == Ending::Done {
            self.note_route(&address);
        }
        match tally.into_receipts() {
            Some(receipts) if ending == Ending::Done => receipts.wait(common.form()),
            _ => Ok(ending),
        }
    }

    /// Octets that the node has room for, where something must be copied whole that may never end. Pieces
    /// may leave while others come.
    fn room(&self, node: &Address) -> Option<u64> {
        if self.split.is_some() || !self.files.iter().any(|path| Source::is_copied(path)) {
            return None;
        }
        let told = Admin::of(Some(node)).ok()?.read("/v1/node").ok()?;
        let store = |name: &str| told.pointer(&format!("/store/{name}"))?.as_u64();
        store("effective_quota_octets")?.checked_sub(store("octets")?)
    }

    fn registration(&self, source: &EndpointId) -> Result<Registration, Failure> {
        if *source != EndpointId::Null {
            return Ok(Registration::new(source.clone()).with_window(receipts::WINDOW));
        }
        // RFC 9171 4.2.3: no reports about anonymous bundles.
        if self.wait || !self.options.report.is_empty() {
            return Err(Failure::usage("an anonymous bundle cannot be reported on")
                .with_hint("name a source with --from"));
        }
        Ok(Registration::anonymous())
    }

    fn head(&self) -> SendHead {
        let mut more = BundleFlags::NONE;
        if self.wait {
            more = BundleFlags::REPORT_DELIVERY
                | BundleFlags::REPORT_DELETION
                | BundleFlags::STATUS_TIME_REQUESTED;
        }
        let head = self.options.head(&self.destination, more);
        match self.wait {
            true => head.with_aggregated_reports(),
            false => head,
        }
    }

    /// Octets of a piece, where files are cut.
    fn limit(
        &self,
        node: &Address,
        sources: &[Source],
        form: Form,
    ) -> Result<Option<u64>, Failure> {
        let largest = sources.iter().map(Source::octets).max().unwrap_or_default();
        match self.split {
            Some(split) => split.octets(node, &self.destination, largest, form),
            None => Ok(None),
        }
    }

    fn send_all(
        &self,
        sender: &mut SteadySender<Item>,
        sources: &[Source],
        limit: Option<u64>,
        write: &mut impl Write<Item>,
        tally: &mut Tally,
    ) -> Result<Ending, Failure> {
        let mut unlooked = 0;
        for _ in 0..self.count {
            for (number, source) in sources.iter().enumerate() {
                for portion in source.portions(limit) {
                    if interrupt::is_requested() {
                        return Ok(Ending::Interrupted);
                    }
                    if tally.is_refused() {
                        return Ok(Ending::Done);
                    }
                    tally.sent(portion.octets);
                    sender.send((number, portion), write)?;
                    unlooked += 1;
                    if unlooked == LOOK_BUNDLES || portion.octets > LARGE_OCTETS {
                        unlooked = 0;
                        take_answers(sender, write, tally)?;
                    }
                }
            }
        }
        Ok(Ending::Done)
    }

    fn bundles(&self, sources: &[Source], limit: Option<u64>) -> u64 {
        let once = sources.iter().fold(0_u64, |sum, source| {
            sum + source.octets().div_ceil(limit.unwrap_or(u64::MAX)).max(1)
        });
        once.saturating_mul(self.count)
    }

    fn summary(&self, tally: &Tally, elapsed: Duration) -> String {
        let (bundles, octets) = (tally.accepted(), tally.octets());
        let noun = if bundles == 1 { "bundle" } else { "bundles" };
        format!(
            "sent {} {noun}, {}, from {} to {} in {}: {} bundles/s, {}",
            quantity::thousands(bundles),
            quantity::size(octets),
            tally.source(),
            self.destination,
            quantity::elapsed(elapsed),
            quantity::per_second(bundles, elapsed),
            quantity::rate(octets, elapsed),
        )
    }

    /// Says where nothing leads to the destination: the bundles wait, which is no failure.
    fn note_route(&self, node: &Address) {
        let path = format!("/v1/why/{}", path_segment(&self.destination.to_string()));
        let answer =
            Admin::of(Some(node)).and_then(|admin| admin.within(NOTE_PATIENCE).read(&path));
        let cause = |answer: &Value| answer.pointer("/causes/0/cause").cloned();
        if answer.ok().as_ref().and_then(cause) == Some(Value::from("no_route")) {
            output::note(&format!(
                "no route leads to {0} yet, so it waits here; `dhow why {0}` says what would change that",
                self.destination
            ));
        }
    }

    /// Reports that nobody will read are worth a word.
    fn note_reports(&self, node: &Address) {
        if !self.options.report.is_empty() && !self.wait && self.options.from.is_none() {
            output::note(&format!(
                "the reports go to a random endpoint of the node at {node}; --wait reads them, and --from names an endpoint for `dhow recv`"
            ));
        }
    }
}

/// The time that a node may take for what is only worth a note.
const NOTE_PATIENCE: Duration = Duration::from_secs(1);

/// Payloads larger than this are worth a look at the answers after each: the look costs little beside them.
const LARGE_OCTETS: u64 = 256 * 1024;

/// The payload of a bundle: the number of its source, and the portion of that.
type Item = (usize, Portion);

fn write(
    sender: &mut Sender,
    head: &SendHead,
    sources: &[Source],
    (number, portion): Item,
) -> Result<(), Error> {
    let Some(source) = sources.get(number) else {
        return Ok(());
    };
    let sent = match source.read(portion).map_err(Error::Payload)? {
        PortionOctets::Memory(octets) => sender.send_octets(head, octets),
        octets => sender.send(head, octets, portion.octets),
    };
    sent.map(|_| ())
}

fn take_answers(
    sender: &mut SteadySender<Item>,
    write: &mut impl Write<Item>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    while let Some((_, outcome)) = sender.poll_answer(write)? {
        tally.answered(outcome)?;
    }
    tally.tell_outcomes()
}

/// The time for which answers are still waited for after Ctrl-C: shorter than the time after which it ends the command.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Waits for all answers.
fn drain(
    sender: &mut SteadySender<Item>,
    write: &mut impl Write<Item>,
    tally: &mut Tally,
) -> Result<Ending, Failure> {
    let mut interrupted: Option<Instant> = None;
    loop {
        tally.tell_outcomes()?;
        if interrupt::is_requested()
            && interrupted.get_or_insert_with(Instant::now).elapsed() >= LAST_ANSWERS
        {
            return Ok(Ending::Interrupted);
        }
        if let Some((_, outcome)) = sender.next_answer(LOOK, write)? {
            tally.answered(outcome)?;
        } else if sender.unanswered() == 0 {
            return Ok(Ending::Done);
        }
    }
}
