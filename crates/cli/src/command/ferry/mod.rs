//! `dhow ferry`: bundles are carried on a directory or stick (docs/ferry.md).

mod clock;
mod file;
mod leaving;
mod lines;
mod list;
mod taking;
mod visit;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use dhow_bundle::{EidPattern, EndpointId, NodeId};
use dhow_client::Address;
use dhow_client::ferry::stick::DIRECTORY;
use dhow_client::ferry::{Absence, Beginning, Place, Writable};
use serde_json::Value;

use self::leaving::Ownership;
use self::lines::Lines;
use self::list::{Check, List};
use self::visit::{End, Visit};
use crate::address::locate;
use crate::admin::Admin;
use crate::arguments::{Common, parse_duration};
use crate::failure::{Ending, Failure};
use crate::interrupt::{self, LOOK};

/// The time for which `--once` waits for a node that is away.
const ONCE_PATIENCE: Duration = Duration::from_secs(60);

/// The time until a node that went away is looked for again.
const AGAIN: Duration = Duration::from_millis(500);

/// The name of the external socket beside the API socket.
const EXTERNAL_SOCKET: &str = "external.sock";

/// The setting without which no ferry runs.
const EXTERNAL_HINT: &str = "the node needs [external] socket = \"external.sock\" in its node file; --external names another socket";

/// Carry bundles on a stick or in a directory
///
/// Writes the node's bundles for the patterns of --for as files into DIR, and takes from DIR the bundles for this node and for destinations to which it has a usable route. The node keeps its bundles until the node that took them has acknowledged them in DIR, or they expire. The ferry waits for a stick that is not plugged in; a stick may be pulled out at any moment. The node needs `[external] socket = "external.sock"`. With --json, a line for each event: written, taken, acknowledged, expired, refused, torn, full, here, away.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Ferry {
    #[command(subcommand)]
    command: Option<FerryCommand>,
    /// The stick: a directory, which may be missing for now
    #[arg(value_name = "DIR", required = true)]
    place: Option<PathBuf>,
    /// Carry bundles for these endpoint IDs, a pattern: ipn:4.*; may be given several times
    #[arg(long = "for", value_name = "PATTERN")]
    destinations: Vec<EidPattern>,
    /// Take bundles for these endpoint IDs from the stick, beside those for this node and those for whom it has a usable route
    #[arg(long, value_name = "PATTERN")]
    take: Vec<EidPattern>,
    /// The priority of the routes that --for makes: of equally specific ones, the highest is used first
    #[arg(long, value_name = "NUMBER", default_value_t = -1, allow_negative_numbers = true)]
    priority: i32,
    /// The node that the stick is carried to: the node file's routes to it then lead over the stick [default: the stick is a node of its own]
    #[arg(long, value_name = "NODE_ID")]
    peer: Option<NodeId>,
    /// Let the stick have the only copy: the node lets go of a bundle once its file is durable. A DIR at which nothing is mounted must have a directory dhow-ferry then: make it where DIR is carried by itself
    #[arg(long)]
    hand_over: bool,
    /// Use DIR only while something is mounted there, from the beginning; else only once something was
    #[arg(long)]
    mounted: bool,
    /// End when all that there is has been exchanged; exit with 1 if something was left behind
    #[arg(long, conflicts_with = "watch")]
    once: bool,
    /// Go on until Ctrl-C, and wait for a stick that is away; this is the default
    #[arg(long)]
    watch: bool,
    /// Time between two looks at the stick
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    interval: Duration,
    /// The node's external socket [default: external.sock beside the API socket]
    #[arg(long, value_name = "SOCKET")]
    external: Option<PathBuf>,
    /// Write no line for each event, and no progress
    #[arg(long)]
    quiet: bool,
    /// The same, once it is clear that it was given.
    #[arg(skip)]
    directory: PathBuf,
    /// The default of the external socket.
    #[arg(skip)]
    beside: PathBuf,
}

/// Commands for a stick that need no node.
#[derive(Debug, Subcommand)]
enum FerryCommand {
    List(List),
    Check(Check),
}

impl Ferry {
    /// Carries bundles until there is a reason to end.
    pub fn run(mut self, common: &Common) -> Result<Ending, Failure> {
        match &self.command {
            Some(FerryCommand::List(list)) => return list.run(common),
            Some(FerryCommand::Check(check)) => return check.run(common),
            None => {}
        }
        self.directory = self.place.clone().unwrap_or_default();
        let address = locate(common.node.as_ref())?;
        if let Address::Unix(path) = &address {
            self.beside = path.with_file_name(EXTERNAL_SOCKET);
        }
        let admin = Admin::of(common.node.as_ref())?;
        let mut lines = Lines::new((!self.quiet).then(|| common.form()));
        let mut place = self.medium();
        let begun = Instant::now();
        let mut told = String::new();
        loop {
            if interrupt::is_requested() {
                return Ok(Ending::Interrupted);
            }
            let end = match self.meet(&mut place, &admin, &mut lines) {
                Ok(end) | Err(end) => end,
            };
            if matches!(end, End::Away | End::Unusable(..)) {
                lines.away(&self.directory.display().to_string())?;
            }
            let why = match end {
                End::Interrupted => return Ok(Ending::Interrupted),
                End::Exchanged(false) => return Ok(Ending::Done),
                End::Exchanged(true) => return Ok(Ending::Incomplete),
                End::Failed(failure) => return Err(failure),
                End::Away if self.once => return Err(self.absent()),
                End::Away => format!("{} is away; waiting", self.directory.display()),
                End::Unusable(why, hint) if self.once => {
                    return Err(Failure::refused(why).with_hint(hint));
                }
                End::Unusable(why, hint) => format!("{why}; waiting: {hint}"),
                End::NodeGone(why) if self.once && begun.elapsed() > ONCE_PATIENCE => {
                    return Err(self.alone(&why));
                }
                End::NodeGone(why) => format!("{why}; waiting"),
            };
            if why != told {
                lines.note(&why);
                told = why;
            }
            let until = Instant::now() + AGAIN.min(self.interval);
            while Instant::now() < until && !interrupt::is_requested() {
                std::thread::sleep(LOOK.min(self.interval));
            }
        }
    }

    /// The place in which the stick is looked for: only copies go to no directory that nobody has begun.
    fn medium(&self) -> Place {
        let beginning = match self.hand_over {
            true => Beginning::MountPoint,
            false => Beginning::Anywhere,
        };
        let place = Place::new(self.directory.clone(), beginning);
        match self.mounted {
            true => place.mounted(),
            false => place,
        }
    }

    /// Waits for neither: carries bundles while the stick and the node are there.
    fn meet(&self, place: &mut Place, admin: &Admin, lines: &mut Lines) -> Result<End, End> {
        if !self.directory.is_dir() {
            return Err(End::Away);
        }
        let gone = |failure: Failure| End::NodeGone(failure.to_string());
        let view = admin.read("/v1/node").map_err(gone)?;
        let node = view.get("node_id").and_then(Value::as_str);
        let node = node.and_then(|it| it.parse::<NodeId>().ok());
        let node = node.ok_or_else(|| End::NodeGone("the node has no ID".into()))?;
        self.check_peer(&view)?;
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| Failure::refused(format!("cannot draw an ID: {error}")))?;
        let stick = place.open(&node, random);
        let stick = stick.map_err(|absence| self.absence(absence))?;
        let is_new = lines.here(&stick.id().to_string())?;
        if is_new && stick.writable() != Writable::Yes {
            lines.note(&self.state_of(stick.writable()));
        }
        let mut visit = Visit::begin(self, lines, admin, (node, stick))?;
        Ok(visit.run())
    }

    /// The node that the stick is carried to is another one.
    fn check_peer(&self, view: &Value) -> Result<(), Failure> {
        let Some(peer) = self.peer.as_ref().map(ToString::to_string) else {
            return Ok(());
        };
        let nodes = view.get("node_ids").and_then(Value::as_array);
        match nodes.is_some_and(|nodes| nodes.iter().any(|it| it.as_str() == Some(&peer))) {
            true => Err(Failure::usage(format!("--peer {peer} is this node itself"))
                .with_hint("name the node that the stick is carried to, or leave --peer out")),
            false => Ok(()),
        }
    }

    /// Whether the stick may be written, for people.
    fn state_of(&self, writable: Writable) -> String {
        let directory = self.directory.display();
        match writable {
            Writable::Yes => format!("{directory} can be written"),
            Writable::Full => {
                format!("{directory} is full: bundles are taken from it, and none written")
            }
            Writable::No => {
                format!("{directory} is read-only: bundles are taken from it, and none written")
            }
        }
    }

    fn absence(&self, absence: Absence) -> End {
        let directory = self.directory.display();
        let mount = "mount the stick";
        match absence {
            Absence::System(error) => self.unopened(&error),
            Absence::NotMounted => End::Unusable(
                format!("nothing is mounted at {directory}"),
                mount.to_owned(),
            ),
            Absence::NotBegun => End::Unusable(
                format!("nothing is mounted at {directory}, and no ferry has been there"),
                format!(
                    "{mount}, or make {directory}/{DIRECTORY} if that directory itself is carried"
                ),
            ),
        }
    }

    fn unopened(&self, error: &io::Error) -> End {
        let directory = self.directory.display();
        let failure = |what: String, hint: &str| {
            End::Failed(Failure::refused(what).with_hint(hint.to_owned()))
        };
        match (error.kind(), Writable::refusing_with(error)) {
            (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, _) => End::Away,
            (io::ErrorKind::WouldBlock, _) => failure(
                format!("another ferry of this node is at {directory}"),
                "end that one first; ferries of other nodes may be there at the same time",
            ),
            (io::ErrorKind::InvalidData, _) => failure(
                format!("cannot use {directory}: {error}"),
                "a later version of dhow may have made it; name another directory, or remove dhow-ferry from it",
            ),
            (_, Some(Writable::Full)) => End::Unusable(
                format!("{directory} is full, and no ferry has been there"),
                "remove something from it".into(),
            ),
            (io::ErrorKind::ReadOnlyFilesystem, _) => End::Unusable(
                format!("{directory} is read-only, and no ferry has been there"),
                "mount it so that it can be written".into(),
            ),
            _ if !self.directory.is_dir() => End::Away,
            _ => failure(
                format!("cannot use {directory}: {error}"),
                "it must be a directory that this user can read",
            ),
        }
    }

    /// The node is there, and its external socket is not.
    fn unconnected(&self, socket: &Path, error: &io::Error) -> End {
        let why = format!(
            "cannot connect to the node's external socket {}: {error}",
            socket.display()
        );
        match self.once {
            true => End::Failed(Failure::refused(why).with_hint(EXTERNAL_HINT)),
            false => End::NodeGone(format!("{why}; {EXTERNAL_HINT}")),
        }
    }

    fn absent(&self) -> Failure {
        Failure::refused(format!("{} is not there", self.directory.display()))
            .with_hint("plug it in and mount it, or leave --once out to wait for it")
    }

    fn alone(&self, why: &str) -> Failure {
        Failure::refused(format!("cannot reach the node: {why}")).with_hint(EXTERNAL_HINT)
    }

    fn ownership(&self) -> Ownership {
        match self.hand_over {
            true => Ownership::HandOver,
            false => Ownership::Keep,
        }
    }

    fn socket(&self) -> Result<PathBuf, Failure> {
        match &self.external {
            Some(path) => Ok(path.clone()),
            None if self.beside.as_os_str().is_empty() => Err(Failure::usage(
                "no external socket is known of a node on TCP",
            )
            .with_hint("name it with --external")),
            None => Ok(self.beside.clone()),
        }
    }

    fn patterns(&self) -> impl Iterator<Item = String> {
        self.destinations.iter().map(ToString::to_string)
    }

    fn takes(&self, destination: &EndpointId) -> bool {
        self.take.iter().any(|pattern| pattern.matches(destination))
    }
}
