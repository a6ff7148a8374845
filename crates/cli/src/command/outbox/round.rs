//! The rounds of an outbox: looks at its folder, and the changes sent after each.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use dhow_client::folder::{Change, FileHead, Header, RelativePath};

use super::Outbox;
use super::ledger::{Ledger, Sent};
use super::lines::Lines;
use super::reading::{Content, Reading, Unread};
use super::scan::{SKIPPED_MAX, Scan};
use super::sending::{Outcome, Sending, Told};
use super::settling::{Due, Removals, Settling};
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::progress::Progress;
use crate::tree::{Stamp, Tree};
use crate::{output, quantity};

/// Changes that the node has not answered, at most.
const WINDOW: usize = 256;

/// Answers that are written down together, at most, and the longest time that one waits for others.
const RECORDED: usize = 256;
const RECORD_AFTER: Duration = Duration::from_millis(200);

/// Changes that a node refuses before others are left for the next look.
const REFUSALS: usize = 8;

/// With --once: the time for which the node may be away, or files may change without one that is sent.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time for which answers are still waited for after Ctrl-C: shorter than the time after which it ends the command.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Least time between two looks at a folder.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// When changes that the node has are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    /// At once.
    Now,
    /// Once they are many, or the first has waited.
    WhenDue,
}

/// A folder that is being sent.
#[derive(Debug)]
pub struct Round<'a> {
    outbox: &'a Outbox,
    tree: Tree,
    ledger: Ledger,
    settling: Settling,
    sending: Sending,
    /// Largest payload that the node takes, octets.
    octets_max: Option<u64>,
    /// Changes that the node has and that are not written down, and since when the first of them.
    answered: Vec<(RelativePath, Option<Sent>)>,
    oldest: Instant,
    lines: Lines,
    /// Names of which it was told that they are skipped; bounded as those of a look are.
    told: BTreeSet<String>,
    /// Whether it was said that the node is away.
    is_away: bool,
    /// Changes that the node refused since one that it took.
    refusals: usize,
    sent: u64,
    octets: u64,
    /// When the last change was sent.
    moved: Instant,
    progress: Progress,
}

impl<'a> Round<'a> {
    /// Nothing looked at so far.
    pub fn new(
        outbox: &'a Outbox,
        tree: Tree,
        ledger: Ledger,
        sending: Sending,
        lines: Lines,
    ) -> Self {
        Self {
            outbox,
            tree,
            ledger,
            settling: Settling::new(
                outbox.settle,
                match outbox.delete {
                    true => Removals::Told,
                    false => Removals::Left,
                },
            ),
            sending,
            octets_max: None,
            answered: Vec::new(),
            oldest: Instant::now(),
            lines,
            told: BTreeSet::new(),
            is_away: false,
            refusals: 0,
            sent: 0,
            octets: 0,
            moved: Instant::now(),
            progress: match outbox.quiet {
                true => Progress::hidden(),
                false => Progress::octets(None, "sending"),
            },
        }
    }

    /// The node takes no larger payload than this, octets.
    pub const fn within(mut self, octets_max: Option<u64>) -> Self {
        self.octets_max = octets_max;
        self
    }

    /// Sends until there is a reason to end.
    pub fn run(&mut self) -> Result<Ending, Failure> {
        loop {
            let looked = Instant::now();
            let due = self.look()?;
            // Of a processor's time looks take no more than half.
            let interval = (self.outbox.interval)
                .max(INTERVAL_MIN)
                .max(looked.elapsed() * 2);
            let is_all = due.files.is_empty() && due.removed.is_empty() && due.waiting == 0;
            if self.outbox.once {
                if is_all {
                    return Ok(Ending::Done);
                }
                self.judge(due.waiting)?;
            }
            self.send(due)?;
            while looked.elapsed() < interval && !interrupt::is_requested() {
                thread::sleep(LOOK.min(interval.saturating_sub(looked.elapsed())));
            }
            if interrupt::is_requested() {
                return Ok(Ending::Interrupted);
            }
        }
    }

    /// With --once: gives up where waiting seems to be of no use.
    fn judge(&self, waiting: usize) -> Result<(), Failure> {
        if self.moved.elapsed() < PATIENCE {
            return Ok(());
        }
        let files = quantity::thousands(u64::try_from(waiting).unwrap_or(u64::MAX));
        Err(Failure::refused(format!(
            "{files} changes were not sent: the files change all the time, or cannot be sent"
        )))
    }

    /// Looks at the folder.
    fn look(&mut self) -> Result<Due, Failure> {
        let outbox = self.outbox;
        let is_there = self.tree.is_at(&outbox.folder);
        if !is_there.map_err(|error| outbox.unreadable(&error))? {
            return Err(Failure::refused(format!(
                "{} is another directory than at the start",
                outbox.folder.display()
            ))
            .with_hint("begin again once the right file system is mounted there"));
        }
        let scan = Scan::of(&self.tree).map_err(|error| outbox.unreadable(&error))?;
        for (name, why) in &scan.skipped {
            if self.told.len() < SKIPPED_MAX && self.told.insert(name.clone()) {
                self.progress.note(&format!("{name} is not sent: {why}"));
            }
        }
        if scan.is_cut() && self.told.insert(String::new()) {
            self.progress
                .note("the folder has more files than are looked at; the others are not sent");
        }
        Ok(self.settling.look(&scan, &self.ledger, Instant::now()))
    }

    /// Sends changes, and writes down what the node has of them.
    fn send(&mut self, mut due: Due) -> Result<(), Failure> {
        self.refusals = 0;
        self.ledger.begin(due.files.iter().map(|(path, _)| path))?;
        for path in due.take_renamed() {
            if self.is_over()? {
                break;
            }
            self.tell(path, None, None)?;
        }
        for (path, stamp) in due.files {
            if self.is_over()? {
                break;
            }
            self.send_file(path, stamp)?;
        }
        // Any other renamed file has its new name before it loses the old one.
        for path in due.removed {
            if self.is_over()? {
                break;
            }
            self.tell(path, None, None)?;
        }
        self.drain(Writing::Now)
    }

    /// True when no more changes are to be sent now; waits for the node where it is away, and for room in the window.
    fn is_over(&mut self) -> Result<bool, Failure> {
        self.take(None)?;
        loop {
            if interrupt::is_requested() || self.refusals >= REFUSALS {
                return Ok(true);
            }
            if self.connect()? {
                if self.sending.unanswered() < WINDOW {
                    return Ok(false);
                }
                self.take(Some(LOOK))?;
            } else {
                thread::sleep(LOOK);
            }
        }
    }

    /// Connects again where that is needed; true when there is a connection.
    fn connect(&mut self) -> Result<bool, Failure> {
        let is_there = self.sending.connect()?;
        if is_there == self.is_away {
            self.is_away = !is_there;
            self.progress.note(match is_there {
                true => "the node is back",
                false => "the node is away, trying again",
            });
        }
        let away = self.sending.away_since();
        if self.outbox.once && away.is_some_and(|since| since.elapsed() >= PATIENCE) {
            return Err(Failure::refused("cannot send: the node is away").with_hint(
                "what was sent is written down; the same command goes on where it stopped",
            ));
        }
        Ok(is_there)
    }

    fn send_file(&mut self, path: RelativePath, stamp: Stamp) -> Result<(), Failure> {
        let reading = match Reading::of(&self.tree, &path, stamp) {
            Ok(reading) => reading,
            Err(Unread::Changed) => {
                self.settling.forget(&path);
                return Ok(());
            }
            Err(Unread::Interrupted) => return Ok(()),
            Err(Unread::System(error)) => {
                self.hold(&path, &format!("it cannot be read: {error}"));
                return Ok(());
            }
        };
        if let Some(known) = self.ledger.sent(&path)
            && is_same(known, &reading.sent)
        {
            self.record(path, Some(reading.sent));
            return self.write_down(Writing::WhenDue);
        }
        if let Content::File(_) = reading.content {
            // If the file changes meanwhile, the connection is given up, with all changes that are not answered.
            self.drain(Writing::WhenDue)?;
        }
        self.tell(path, Some(reading.sent), Some(reading.content))
    }

    /// Tells the node of a change.
    fn tell(
        &mut self,
        path: RelativePath,
        file: Option<Sent>,
        content: Option<Content>,
    ) -> Result<(), Failure> {
        let sequence = self.ledger.next_sequence()?;
        let header = Header {
            folder: self.ledger.folder(),
            sequence,
            path: path.clone(),
            change: file.map_or(Change::Removed, |sent| Change::File(head(&sent))),
        };
        let header = header.encode();
        let header_octets = u64::try_from(header.len()).unwrap_or(u64::MAX);
        let octets = file
            .map_or(0, |it| it.stamp.octets)
            .saturating_add(header_octets);
        if let Some(most) = self.octets_max
            && octets > most
        {
            let most = quantity::size(most);
            self.hold(
                &path,
                &format!("the node takes no more than {most} in a bundle"),
            );
            return Ok(());
        }
        let told = Told {
            path: path.clone(),
            file,
            sequence,
        };
        match self.sending.send(told, &header, content)? {
            Outcome::Sent | Outcome::Lost => {}
            Outcome::Changed => self.settling.forget(&path),
        }
        Ok(())
    }

    /// Leaves a change for a while that cannot be told.
    fn hold(&mut self, path: &RelativePath, why: &str) {
        if self.settling.hold(path, Instant::now()) {
            self.progress.note(&format!("{path} is not sent: {why}"));
        }
    }

    /// Takes all answers that have come, after the first of which it waits, where there is a time for it.
    fn take(&mut self, wait: Option<Duration>) -> Result<(), Failure> {
        let mut wait = wait;
        while let Some((told, outcome)) = self.sending.answer(wait)? {
            wait = None;
            match outcome {
                Ok(created) => {
                    self.refusals = 0;
                    self.sent += 1;
                    self.moved = Instant::now();
                    let octets = told.file.map_or(0, |it| it.stamp.octets);
                    self.octets += octets;
                    self.progress.advance(octets);
                    self.lines.add(&told, &created)?;
                    self.record(told.path, told.file);
                }
                Err(refusal) if self.outbox.once && !refusal.is_temporary() => {
                    self.write_down(Writing::Now)?;
                    return Err(Failure::refused(format!(
                        "cannot send {}: {refusal}",
                        told.path
                    )));
                }
                Err(refusal) => {
                    self.refusals += 1;
                    self.hold(&told.path, &format!("{refusal}; it is tried again"));
                }
            }
        }
        self.write_down(Writing::WhenDue)
    }

    fn record(&mut self, path: RelativePath, file: Option<Sent>) {
        if self.answered.is_empty() {
            self.oldest = Instant::now();
        }
        self.answered.push((path, file));
    }

    /// Writes down what the node has, and says so then.
    fn write_down(&mut self, writing: Writing) -> Result<(), Failure> {
        let is_due = self.answered.len() >= RECORDED || self.oldest.elapsed() >= RECORD_AFTER;
        if self.answered.is_empty() || (writing == Writing::WhenDue && !is_due) {
            return Ok(());
        }
        self.ledger.record(&self.answered)?;
        self.answered.clear();
        self.lines.write(&self.progress)
    }

    /// Waits for all answers, and writes down what the node has.
    fn drain(&mut self, writing: Writing) -> Result<(), Failure> {
        let mut interrupted: Option<Instant> = None;
        while self.sending.unanswered() > 0 {
            self.take(Some(LOOK))?;
            if interrupt::is_requested()
                && interrupted.get_or_insert_with(Instant::now).elapsed() >= LAST_ANSWERS
            {
                break;
            }
        }
        self.write_down(writing)
    }

    /// Writes down what the node has, and says how much it is where somebody may want to know.
    pub fn end(mut self, outcome: Result<Ending, Failure>) -> Result<Ending, Failure> {
        self.progress.finish();
        // After a failure the first one counts.
        let written = self.write_down(Writing::Now);
        let ending = outcome?;
        written?;
        if ending == Ending::Interrupted || output::stderr_is_watched() {
            let changes = if self.sent == 1 { "change" } else { "changes" };
            output::talk(&format!(
                "sent {} {changes}, {}",
                quantity::thousands(self.sent),
                quantity::size(self.octets)
            ));
        }
        Ok(ending)
    }
}

fn head(sent: &Sent) -> FileHead {
    FileHead {
        octets: sent.stamp.octets,
        modified: sent.stamp.modified,
        mode: sent.stamp.mode,
        sha256: sent.sha256,
    }
}

/// True when nothing changed that an inbox would be told.
fn is_same(known: &Sent, now: &Sent) -> bool {
    head(known) == head(now)
}
