//! `dhow inbox`: files of an outbox become files of a folder, and are confirmed when they are safe (docs/folders.md).

mod arrival;
mod folder;
mod incoming;
mod ledger;
mod lines;
mod refused;
mod trouble;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::{EidPattern, EndpointId};
use dhow_client::Registration;
use dhow_client::folder::{Change, Header, RelativePath};

use self::arrival::{Arrival as Came, Fate, Taken};
use self::folder::waiting::{self, WAITING_MAX, Waiter, Waiting};
use self::folder::{Folder, Made, Unmade};
use self::incoming::{CopyError, Incoming};
use self::ledger::Ledger;
use self::lines::Lines;
use self::refused::{KEPT_OCTETS, Refused};
use self::trouble::Trouble;
use crate::address::locate;
use crate::application::{Arrival, Subscription};
use crate::arguments::{Common, parse_duration};
use crate::command::recv::filing;
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};
use crate::progress::Progress;
use crate::tree::{Obstacle, Tree};
use crate::{output, quantity};

/// Write the files of an outbox into a folder
///
/// Writes, replaces and removes the files that `dhow outbox` sends, each in one step once all its octets are here and match its SHA-256; times and permissions are those of the original. A bundle is confirmed when its file is durable; an older state of a file never replaces a newer one. With --json, a line for each change: event (received, removed or refused), path, octets, sha256, sequence, source, creation [time, sequence], delay_ms; of a refused one also reason, detail and kept. Goes on when the node restarts. Runs until Ctrl-C, --count or --timeout; what is on its way is delivered again the next time.
#[derive(Args, Debug)]
pub struct Inbox {
    /// The endpoint of the node to receive at: ipn:4.60
    endpoint: EndpointId,
    /// The folder; it is made. The inbox keeps its own files in DIR/.dhow-inbox
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Sources that may write, as a pattern of endpoint IDs; several may be given [default: all]
    #[arg(long = "from", value_name = "PATTERN")]
    sources: Vec<EidPattern>,
    /// End after this many changes; exit with 1 if fewer come
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End when no change has come for this long; exit with 1 if the node is away then
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Write no line for each change, and no progress
    #[arg(long)]
    quiet: bool,
}

/// The directory of the inbox's own files.
const OWN: &str = ".dhow-inbox";

/// Files written before they are made durable together. Each is open, and 1024 is the usual limit.
const BATCH: usize = 256;

/// Deliveries that the node may send before one is confirmed. The node lets no connection have more.
const WINDOW: usize = 1024;

/// The time to wait for another delivery before those that came are made durable.
const MOMENT: Duration = Duration::from_millis(1);

impl Inbox {
    /// Receives until there is a reason to end.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let most = |bound: usize| {
            let asked = self.count.and_then(|count| usize::try_from(count).ok());
            asked.map_or(bound, |count| count.min(bound))
        };
        let registration = Registration::new(self.endpoint.clone())
            .with_window(u32::try_from(most(WINDOW)).unwrap_or(1));
        let address = locate(common.node.as_ref())?;
        std::fs::create_dir_all(&self.folder).map_err(|error| {
            Failure::refused(format!("cannot make {}: {error}", self.folder.display()))
        })?;
        let place = Place::open(&self.folder)?;
        let subscription = Subscription::begin(&address, registration, self.timeout)?;
        let mut reception = Reception {
            inbox: self,
            subscription,
            place,
            batch: Vec::new(),
            batch_most: most(BATCH),
            lines: Lines::new((!self.quiet).then(|| common.form())),
            trouble: Trouble::default(),
            late: Trouble::default(),
            received: 0,
            octets: 0,
            last: Instant::now(),
            is_away: false,
            progress: match self.quiet {
                true => Progress::hidden(),
                false => Progress::octets(None, "receiving"),
            },
        };
        let outcome = reception.receive();
        reception.end(outcome)
    }

    /// True when a source may write.
    fn allows(&self, source: &EndpointId) -> bool {
        self.sources.is_empty() || self.sources.iter().any(|pattern| pattern.matches(source))
    }
}

/// The folder, and the inbox's own files in it.
#[derive(Debug)]
struct Place {
    folder: Folder,
    incoming: Incoming,
    refused: Refused,
    /// The path of what is refused, as the user would name it.
    refused_path: PathBuf,
    /// The directory of changes that wait, likewise.
    waiting_path: PathBuf,
}

impl Place {
    fn open(path: &Path) -> Result<Self, Failure> {
        let fail = |obstacle: Obstacle| match obstacle {
            Obstacle::At(at, entry) => {
                Failure::refused(format!("cannot open {at}: it is {}", entry.words()))
            }
            Obstacle::Named(at, _) => {
                Failure::refused(format!("cannot open {at}: it has another name"))
            }
            Obstacle::System(error) => {
                Failure::refused(format!("cannot open {}: {error}", path.join(OWN).display()))
            }
        };
        let tree = Tree::open(path).map_err(|error| {
            Failure::refused(format!("cannot open {}: {error}", path.display()))
        })?;
        let own = tree.within(OWN).map_err(fail)?;
        // The lock of the database stands for the other files too.
        let ledger = Ledger::open(&path.join(OWN).join("state.db"))?;
        let directory = |name: &str| {
            let directory = own.within(name).map_err(fail)?;
            let owned = directory.root().try_clone_to_owned();
            owned.map_err(|error| fail(error.into()))
        };
        let incoming = Incoming::new(directory("incoming")?).map_err(|error| fail(error.into()))?;
        let refused = directory("refused")?;
        let waiting = Waiting::new(directory("waiting")?, &ledger, &refused)
            .map_err(|error| fail(error.into()))?;
        Ok(Self {
            folder: Folder::new(tree, ledger, waiting),
            incoming,
            refused: Refused::new(refused),
            refused_path: path.join(OWN).join("refused"),
            waiting_path: path.join(waiting::DIRECTORY),
        })
    }

    /// Keeps the payload of a change that is refused, if it is not too large.
    fn keep(&self, came: &mut Came, file: Option<&mut incoming::Arrived>) -> io::Result<()> {
        if let (Fate::Refuse(..), Some(file)) = (&came.fate, file)
            && came.octets <= KEPT_OCTETS
        {
            let name = self.refused.keep(file, &came.id)?;
            came.kept = Some(self.refused_path.join(name));
        }
        Ok(())
    }
}

/// Files coming in.
#[derive(Debug)]
struct Reception<'a> {
    inbox: &'a Inbox,
    subscription: Subscription,
    place: Place,
    batch: Vec<Came>,
    /// Changes that are made durable together, at most.
    batch_most: usize,
    lines: Lines,
    /// The reason for which bundles wait at the node.
    trouble: Trouble,
    /// The reason for which changes wait in the folder.
    late: Trouble,
    received: u64,
    octets: u64,
    /// When the last change came.
    last: Instant,
    /// Whether it was said that the node is away.
    is_away: bool,
    progress: Progress,
}

impl Reception<'_> {
    fn receive(&mut self) -> Result<Ending, Failure> {
        self.retry()?;
        loop {
            self.check_place()?;
            if self.missing() == Some(0) {
                self.settle()?;
                if self.missing() == Some(0) {
                    return Ok(Ending::Done);
                }
            }
            if interrupt::is_requested() {
                self.settle()?;
                return Ok(Ending::Interrupted);
            }
            let left = (self.inbox.timeout)
                .map_or(LOOK, |timeout| timeout.saturating_sub(self.last.elapsed()));
            if left.is_zero() && self.batch.is_empty() {
                return self.silence();
            }
            if self.trouble.is_over() {
                self.settle()?;
                self.subscription.restart();
            }
            if self.late.is_over() {
                self.settle()?;
                self.retry()?;
            }
            let wait = match self.batch.is_empty() {
                true => left.clamp(MOMENT, LOOK),
                false => MOMENT,
            };
            let (inbox, place) = (self.inbox, &mut self.place);
            let arrival = self.subscription.poll(wait, |delivery| {
                arrival::take(delivery, &place.folder, &mut place.incoming, |source| {
                    inbox.allows(source)
                })
            })?;
            match arrival {
                Arrival::Delivery(taken) => self.take(taken)?,
                Arrival::Nothing | Arrival::Lost => self.settle()?,
            }
            self.watch();
        }
    }

    /// Nothing has come for as long as the user wants to wait.
    fn silence(&self) -> Result<Ending, Failure> {
        let received = self.standing();
        if let Some(words) = self.trouble.words() {
            return Err(Failure::refused(format!("{received}: {words}"))
                .with_hint("the bundle stays at the node and is delivered again"));
        }
        if let Some(words) = self.late.words() {
            return Err(Failure::refused(format!("{received}: {words}")).with_hint(
                "the change waits in the folder, and an inbox that runs makes it when it can",
            ));
        }
        if self.subscription.is_away() {
            return Err(Failure::refused(format!("{received}: the node is away"))
                .with_hint("start the node again; it delivers what it has stored"));
        }
        match self.inbox.count {
            None => Ok(Ending::Done),
            Some(_) => {
                let silence = self.inbox.timeout.unwrap_or_default();
                let silence =
                    quantity::span(u64::try_from(silence.as_millis()).unwrap_or(u64::MAX));
                Err(Failure::refused(format!(
                    "{received}: nothing came for {silence}"
                )))
            }
        }
    }

    fn standing(&self) -> String {
        let of = (self.inbox.count).map_or_else(String::new, |count| format!(" of {count}"));
        format!("received {}{of} changes", self.received)
    }

    /// Says when the node goes away and when it is back.
    fn watch(&mut self) {
        let is_away = self.subscription.is_away() && !self.trouble.is_restarting();
        if is_away != self.is_away {
            self.is_away = is_away;
            self.progress.note(if is_away {
                "the node is away, trying again"
            } else {
                "the node is back"
            });
        }
        if !self.subscription.is_away() {
            self.trouble.restarted();
        }
    }

    /// Changes still to come, where a number was asked for.
    fn missing(&self) -> Option<u64> {
        let waiting = u64::try_from(self.batch.len()).unwrap_or(u64::MAX);
        (self.inbox.count).map(|count| count.saturating_sub(self.received.saturating_add(waiting)))
    }

    fn take(&mut self, taken: Result<Taken, CopyError>) -> Result<(), Failure> {
        match taken {
            Ok(Taken::Repeat(receipt)) => {
                self.check_place()?;
                self.subscription.confirm(receipt);
            }
            Ok(Taken::New(came)) => {
                self.batch.push(*came);
                if self.batch.len() >= self.batch_most {
                    self.settle()?;
                }
            }
            // The connection broke: the delivery comes again.
            Err(CopyError::Incoming) => {
                self.settle()?;
                self.subscription.lose();
            }
            // The rest of the payload is skipped, and others go on.
            Ok(Taken::Failed(path, error)) => self.fail(path.as_ref(), &error),
            Err(CopyError::Outgoing(error)) => self.fail(None, &error),
        }
        Ok(())
    }

    /// Fails where DIR is not the folder any more: what would be confirmed is not where it is looked for.
    fn check_place(&self) -> Result<(), Failure> {
        let path = &self.inbox.folder;
        let fail = |why| Failure::refused(format!("{} {why}", path.display()));
        match self.place.folder.is_at(path) {
            Ok(true) => Ok(()),
            Ok(false) => Err(fail("is another directory than at the start".to_owned())),
            Err(error) => Err(fail(format!("cannot be opened any more: {error}"))),
        }
        .map_err(|failure| {
            failure.with_hint("begin again once the right file system is mounted there")
        })
    }

    /// Something was not done that may be done later: its bundle is not confirmed.
    fn fail(&mut self, path: Option<&RelativePath>, error: &io::Error) {
        let what = path.map_or("what was received", RelativePath::as_str);
        let words = format!("cannot write {what}: {error}");
        if self.trouble.begin(error.to_string(), &words) {
            self.progress.note(&format!(
                "{words}; the bundle stays at the node and is tried again"
            ));
        }
    }

    /// A change waits for its place.
    fn delay(&mut self, header: &Header, error: &io::Error) {
        let verb = match header.change {
            Change::File(_) => "write",
            Change::Removed => "remove",
        };
        let words = format!("cannot {verb} {}: {error}", header.path);
        let directory = header.path.directories().next_back();
        let directory = directory.as_ref().map_or("", RelativePath::as_str);
        if self.late.begin(format!("{directory}: {error}"), &words) {
            self.progress.note(&format!(
                "{words}; it waits in {} and is tried again, as are others of its directory",
                self.place.waiting_path.display()
            ));
        }
    }

    /// Tries to make the changes that wait for their places.
    fn retry(&mut self) -> Result<(), Failure> {
        let mut after = 0;
        loop {
            let waiters = match self.place.folder.waiting_after(after) {
                Ok(waiters) => waiters,
                Err(error) => {
                    self.fail(None, &error);
                    self.late.postpone();
                    return Ok(());
                }
            };
            let Some(last) = waiters.last() else {
                self.postpone_released();
                self.late.end();
                return Ok(());
            };
            after = last.number;
            if interrupt::is_requested() || self.missing() == Some(0) {
                self.late.postpone();
                return Ok(());
            }
            self.check_place()?;
            match self.make_waiting(&waiters) {
                Ok(made) => self.confirm(made)?,
                Err(error) => {
                    self.place.folder.roll_back();
                    self.fail(None, &error);
                    self.late.postpone();
                    return Ok(());
                }
            }
        }
    }

    /// Changes that were behind another path are tried a little later: the system may know for a second more that the path was there.
    fn postpone_released(&mut self) {
        if self.place.folder.take_released() {
            self.late.postpone();
        }
    }

    /// Makes changes that wait, durably: those that were made or refused, and wait no more.
    fn make_waiting(&mut self, waiters: &[Waiter]) -> io::Result<Vec<Came>> {
        self.place.folder.begin()?;
        let mut made = Vec::with_capacity(waiters.len());
        for waiter in waiters {
            let mut came = Came::of_waiter(waiter);
            let (outcome, mut file) = self.place.folder.make_waiting(waiter);
            match outcome {
                Ok(Made::New) => {}
                Ok(Made::Stale) => came.fate = Fate::Stale,
                Err(Unmade::Place(detail)) => came.refuse(&waiter.header, detail),
                Err(Unmade::Later(error)) => {
                    self.delay(&waiter.header, &error);
                    continue;
                }
                // It was told that it is refused.
                Err(Unmade::Behind(..)) => continue,
                Err(Unmade::System(error)) => return Err(error),
            }
            self.place.keep(&mut came, file.as_mut())?;
            made.push(came);
        }
        self.place.folder.settle()?;
        Ok(made)
    }

    /// Makes the changes that came, durably; says so, and only then confirms them.
    fn settle(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.check_place()?;
        let batch = std::mem::take(&mut self.batch);
        match self.make(batch) {
            Ok(made) => {
                self.check_place()?;
                self.confirm(made)?;
                self.postpone_released();
                Ok(())
            }
            Err(error) => {
                self.place.folder.roll_back();
                self.fail(None, &error);
                Ok(())
            }
        }
    }

    /// Makes changes, durably: those that were made or refused, and will not come again.
    fn make(&mut self, batch: Vec<Came>) -> io::Result<Vec<Came>> {
        let files: Vec<&File> = (batch.iter())
            .filter_map(|came| came.file.as_ref().map(incoming::Arrived::file))
            .collect();
        filing::sync_files(&files, File::sync_all)?;
        self.place.folder.begin()?;
        let mut made = Vec::with_capacity(batch.len());
        let mut failed = None;
        for mut came in batch {
            let mut file = came.file.take();
            if let Fate::Make(header) = &came.fate {
                let header = Header::clone(header);
                match self.place.folder.make(&header, file.as_mut()) {
                    Ok(Made::New) => {}
                    Ok(Made::Stale) => came.fate = Fate::Stale,
                    Err(Unmade::Place(detail)) => came.refuse(&header, detail),
                    Err(Unmade::Behind(other, detail)) => {
                        came.refuse(&header, detail);
                        let folder = &mut self.place.folder;
                        let name = folder.wait(&came.id, &header, file.as_mut(), Some(&other))?;
                        if let Some(name) = name {
                            came.kept = Some(self.place.waiting_path.join(name));
                            file = None;
                        }
                    }
                    Err(Unmade::Later(error)) => {
                        let folder = &mut self.place.folder;
                        if folder
                            .wait(&came.id, &header, file.as_mut(), None)?
                            .is_some()
                        {
                            came.fate = Fate::Wait;
                            self.delay(&header, &error);
                        } else {
                            let most = quantity::thousands(WAITING_MAX);
                            came.refuse(&header, format!("{error}, and {most} changes wait"));
                        }
                    }
                    Err(Unmade::System(error)) => {
                        failed = Some((header.path, error));
                        continue;
                    }
                }
            }
            self.place.keep(&mut came, file.as_mut())?;
            made.push(came);
        }
        self.place.folder.settle()?;
        match failed {
            Some((path, error)) => self.fail(Some(&path), &error),
            None => self.trouble.end(),
        }
        Ok(made)
    }

    /// Says what was made, and confirms it.
    fn confirm(&mut self, made: Vec<Came>) -> Result<(), Failure> {
        for came in &made {
            self.lines.add(came)?;
        }
        self.lines.write(&self.progress)?;
        for came in made {
            if let Fate::Make(_) = came.fate {
                self.last = Instant::now();
                self.received += 1;
                self.octets += came.octets;
                self.progress.advance(came.octets);
            }
            if let Some(receipt) = came.receipt {
                self.subscription.confirm(receipt);
            }
        }
        Ok(())
    }

    fn end(self, outcome: Result<Ending, Failure>) -> Result<Ending, Failure> {
        self.progress.finish();
        let standing = self.standing();
        self.subscription.finish();
        let ending = outcome?;
        if output::stderr_is_watched() {
            output::talk(&format!("{standing}, {}", quantity::size(self.octets)));
        }
        Ok(ending)
    }
}
