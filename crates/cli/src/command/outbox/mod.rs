//! `dhow outbox`: the files of a folder become bundles, each when it has stayed the same for a while (docs/folders.md).

mod ledger;
mod lines;
mod place;
mod reading;
mod round;
mod scan;
mod sending;
mod settling;

use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use clap::Args;
use dhow_bundle::{BundleFlags, EndpointId};
use dhow_client::{Client, Registration};

use self::ledger::Ledger;
use self::lines::Lines;
use self::place::{Place, Verdict};
use self::round::Round;
use self::sending::Sending;
use crate::address::locate;
use crate::application;
use crate::arguments::{Common, parse_duration};
use crate::bundle_options::BundleOptions;
use crate::digest::Sha256;
use crate::failure::{Ending, Failure};
use crate::tree::Tree;

/// Send the files of a folder as they change
///
/// Each new or changed file below the folder is sent as one bundle to an endpoint where `dhow inbox` writes it into another folder: names, octets, times of modification and permissions. Keeps a record of the files that the node has accepted, so that after a restart no file is sent twice or forgotten. With --json, a line for each change that the node has: event (sent or removed), path, octets, sha256, sequence, source, creation [time, sequence]. Goes on when the node restarts. Runs until Ctrl-C, or with --once until all is sent.
#[derive(Args, Debug)]
pub struct Outbox {
    /// The folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The endpoint where an inbox receives: ipn:4.60
    #[arg(value_name = "ENDPOINT")]
    destination: EndpointId,
    /// Time between two looks at the folder
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    interval: Duration,
    /// Time for which a file must have stayed the same before it is sent
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    settle: Duration,
    /// Send deletions too: the inbox removes those files
    #[arg(long)]
    delete: bool,
    /// End when all that there is has been sent; exit with 1 if the node is away for a minute or refuses a file
    #[arg(long)]
    once: bool,
    /// The directory for the record of sent files [default: DIR/.dhow-outbox]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Take DIR for the folder of the record, which is of another one or had files of which DIR has none
    #[arg(long)]
    new_folder: bool,
    /// Write no line for each change, and no progress
    #[arg(long)]
    quiet: bool,
    /// Options of the bundles.
    #[command(flatten)]
    options: BundleOptions,
}

/// The directory of the outbox's own files.
const OWN: &str = ".dhow-outbox";

impl Outbox {
    /// Sends until there is a reason to end.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        self.options.check()?;
        let address = locate(common.node.as_ref())?;
        let client = application::connect(&address, None)?;
        let tree = Tree::open(&self.folder).map_err(|error| self.unreadable(&error))?;
        let state = self.state_path()?;
        let mut ledger = Ledger::open(&state)?;
        self.settle_place(&tree, &mut ledger, &state)?;
        let source = self.source(&client, &mut ledger)?;
        let registration = match source {
            EndpointId::Null => Registration::anonymous(),
            source => Registration::new(source),
        };
        let octets_max = client.payload_octets_max();
        let head = self.options.head(&self.destination, BundleFlags::NONE);
        let sending = Sending::begin(client, &address, registration, head)?;
        let lines = Lines::new((!self.quiet).then(|| common.form()));
        let mut round = Round::new(self, tree, ledger, sending, lines).within(octets_max);
        let outcome = round.run();
        round.end(outcome)
    }

    fn unreadable(&self, error: &std::io::Error) -> Failure {
        Failure::refused(format!("cannot read {}: {error}", self.folder.display()))
    }

    /// Sees to it that the record is of this folder, and is known to be.
    fn settle_place(&self, tree: &Tree, ledger: &mut Ledger, state: &Path) -> Result<(), Failure> {
        let unreadable = |error| self.unreadable(&error);
        let place = Place::of(tree).map_err(unreadable)?;
        let verdict = match self.new_folder {
            true => Verdict::Same,
            false => place.judge(tree, ledger).map_err(unreadable)?,
        };
        let folder = self.folder.display();
        let why = match verdict {
            Verdict::Same => {
                let place = place.marked(tree, application::random()?);
                return match ledger.place() == Some(&place) {
                    true => Ok(()),
                    false => ledger.set_place(&place),
                };
            }
            Verdict::Other => format!("the record {} is of another folder", state.display()),
            Verdict::Empty => format!("it is empty, and the record {} has files", state.display()),
        };
        Err(Failure::refused(format!("cannot send {folder}: {why}")).with_hint(
            "begin again once the right file system is mounted there; if the folder is meant, --new-folder says so once: with --delete, files of the record that are not in it are removed at the inbox",
        ))
    }

    /// The endpoint to send from: the same in each run, so that an inbox can allow it.
    fn source(&self, client: &Client, ledger: &mut Ledger) -> Result<EndpointId, Failure> {
        if let Some(source) = &self.options.from {
            if *source == EndpointId::Null && !self.options.report.is_empty() {
                // RFC 9171 4.2.3: no reports about anonymous bundles.
                return Err(Failure::usage("an anonymous bundle cannot be reported on")
                    .with_hint("name a source with --from"));
            }
            return Ok(source.clone());
        }
        let node = client.node_id();
        if let Some(source) = ledger.source()
            && node.has(source)
        {
            return Ok(source.clone());
        }
        let source = application::random_endpoint(node)?;
        ledger.set_source(&source)?;
        Ok(source)
    }

    /// The database of this folder and destination; its directory is made.
    fn state_path(&self) -> Result<PathBuf, Failure> {
        let own = self.folder.join(OWN);
        let directory = self.state.as_ref().unwrap_or(&own);
        let fail = |error: std::io::Error| {
            Failure::refused(format!("cannot make {}: {error}", directory.display()))
                .with_hint("--state names a directory for the record of sent files")
        };
        let folder = self.folder.canonicalize().map_err(fail)?;
        let would_be_sent = |directory: &Path| {
            directory.starts_with(&folder) && directory != folder.join(OWN).as_path()
        };
        let refusal = || {
            Failure::usage(format!(
                "the directory of --state is in {}, and would be sent",
                self.folder.display()
            ))
            .with_hint("name one outside the folder, or leave it out")
        };
        // Before it is made, as far as its name tells.
        if self.state.is_some() && absolute(directory).is_ok_and(|it| would_be_sent(&it)) {
            return Err(refusal());
        }
        std::fs::create_dir_all(directory).map_err(fail)?;
        let directory = directory.canonicalize().map_err(fail)?;
        if would_be_sent(&directory) {
            return Err(refusal());
        }
        let destination = self.destination.to_string();
        let safe = |it: char| it.is_ascii_alphanumeric() || it == '.';
        let readable: String = (destination.chars())
            .map(|it| if safe(it) { it } else { '-' })
            .take(100)
            .collect();
        let digest = Sha256::of(destination.as_bytes());
        let digest = digest.get(..16).unwrap_or_default();
        Ok(directory.join(format!("{readable}-{digest}.db")))
    }
}
