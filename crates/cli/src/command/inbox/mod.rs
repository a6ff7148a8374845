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

use self::arrival::{Arrival as Came, Fate, Taken};
use self::folder::{Folder, Made, Unmade};
use self::incoming::{CopyError, Incoming};
use self::ledger::Ledger;
use self::lines::Lines;
use self::refused::{KEPT_OCTETS, Reason, Refused};
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
}

impl Place {
    fn open(path: &Path) -> Result<Self, Failure> {
        let fail = |obstacle: Obstacle| match obstacle {
            Obstacle::At(at, entry) => {
                Failure::refused(format!("cannot open {at}: it is {}", entry.words()))
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
        Ok(Self {
            folder: Folder::new(tree, ledger),
            incoming,
            refused: Refused::new(directory("refused")?),
            refused_path: path.join(OWN).join("refused"),
        })
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
    trouble: Trouble,
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
        loop {
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
            Ok(Taken::Repeat(receipt)) => self.subscription.confirm(receipt),
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
            Err(CopyError::Outgoing(error)) => self.fail(&error),
        }
        Ok(())
    }

    /// Something was not done that may be done later: its bundle is not confirmed.
    fn fail(&mut self, error: &io::Error) {
        if let Some(words) = self.trouble.begin(error) {
            self.progress.note(&format!(
                "{words}; the bundle stays at the node and is tried again"
            ));
        }
    }

    /// Makes the changes that came, durably; says so, and only then confirms them.
    fn settle(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        match self.make(batch) {
            Ok(made) => self.confirm(made),
            Err(error) => {
                self.place.folder.roll_back();
                self.fail(&error);
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
                match self.place.folder.make(header, file.as_mut()) {
                    Ok(Made::New) => {}
                    Ok(Made::Stale) => came.fate = Fate::Stale,
                    Err(Unmade::Place(detail)) => {
                        came.fate = Fate::Refuse(Reason::Place, detail, Some(header.path.clone()));
                    }
                    Err(Unmade::System(error)) => {
                        failed = Some(error);
                        continue;
                    }
                }
            }
            if let (Fate::Refuse(..), Some(file)) = (&came.fate, &mut file)
                && came.octets <= KEPT_OCTETS
            {
                let name = self.place.refused.keep(file, &came.id)?;
                came.kept = Some(self.place.refused_path.join(name));
            }
            made.push(came);
        }
        self.place.folder.settle()?;
        match failed {
            Some(error) => self.fail(&error),
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
            self.subscription.confirm(came.receipt);
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
