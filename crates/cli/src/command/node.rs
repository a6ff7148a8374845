//! `dhow node`: set up and run a node, and show its settings.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dhow_bundle::NodeId;
use dhow_daemon::config::{self, Effective, FileError, NodeFile};
use dhow_daemon::logging;
use dhow_daemon::recording::RecordingOrder;
use dhow_node::recording::Content;

use crate::arguments::{Common, parse_size};
use crate::calendar;
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};

/// Set up and run a node
#[derive(Debug, Subcommand)]
pub enum Node {
    Init(Init),
    Config(Config),
    Run(Run),
}

impl Node {
    /// Does it.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        match self {
            Self::Init(command) => {
                interrupt::watch()?;
                command.run(common)
            }
            Self::Config(command) => command.run(common),
            // A running node drains on a signal by itself.
            Self::Run(command) => command.run(),
        }
    }
}

/// Write a commented configuration for a new node
#[derive(Args, Debug)]
pub struct Init {
    /// The node's ID: ipn:2.0 or dtn://beta/
    id: NodeId,
    /// The directory for the configuration; it is made
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Overwrite a configuration that is there
    #[arg(long)]
    force: bool,
}

const FILE_NAME: &str = "node.toml";

impl Init {
    fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let path = self.dir.join(FILE_NAME);
        let text = config::write_commented(&self.id.to_string(), &self.dir);
        write_new(&path, &text, self.force).map_err(|error| {
            let failure = Failure::refused(format!("cannot write {}: {error}", path.display()));
            if error.kind() == io::ErrorKind::AlreadyExists {
                failure.with_hint("--force overwrites it")
            } else {
                failure
            }
        })?;
        match common.form() {
            Form::Json => output::json(
                &serde_json::json!({"config": path.display().to_string(), "node": self.id.to_string()}),
            )?,
            Form::Text => output::talk(&format!(
                "wrote {0}\nedit it, then: dhow node run --config {0}",
                path.display()
            )),
        }
        Ok(Ending::Done)
    }
}

fn write_new(path: &Path, text: &str, force: bool) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut options = OpenOptions::new();
    // The file may hold the administration's token.
    options.write(true).mode(0o600);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    options.open(path)?.write_all(text.as_bytes())
}

/// Read and check a configuration, and print every setting, defaults included
///
/// A configuration that is wrong, or names files that are not there, is refused with the line, the reason and a hint (exit code 2); nothing else is done. All settings are printed as a configuration that sets all of it, with a comment for each key that has no value; --json prints objects. Values that follow from this machine's memory and disk are those of this moment. Secrets are not shown.
#[derive(Args, Debug)]
pub struct Config {
    /// The configuration
    #[arg(value_name = "FILE", default_value = FILE_NAME)]
    config: PathBuf,
}

impl Config {
    fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let text = NodeFile::text(&self.config).map_err(unread)?;
        let file = NodeFile::parse(&text, &self.config).map_err(unread)?;
        file.check_named_files(&text, &self.config)
            .map_err(unread)?;
        NodeFile::contacts(&text, &self.config, calendar::now()).map_err(unread)?;
        let settings = Effective::of(&text, &file).map_err(unread)?;
        match common.form() {
            Form::Json => output::json(&settings.json())?,
            Form::Text => output::line(settings.to_string().trim_end())?,
        }
        Ok(Ending::Done)
    }
}

/// A configuration that is none.
fn unread(error: FileError) -> Failure {
    let failure = Failure::usage(format!("cannot read the configuration: {error}"));
    match error.hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Run a node in the foreground
///
/// The first line on stdout says that the node is ready, as JSON; nothing follows it. SIGTERM, SIGHUP and Ctrl-C end the node in order: they finish transfers in progress for at most 5 s.
#[derive(Args, Debug)]
pub struct Run {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = FILE_NAME)]
    config: PathBuf,
    /// Write every setting, defaults included, to a file as JSON, as `dhow node config --json` prints them
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Level of the log on stderr: error, warn, info, debug or trace, also by part
    #[arg(
        long,
        value_name = "FILTER",
        env = "RUST_LOG",
        hide_env_values = true,
        default_value = "info"
    )]
    log: String,
    /// Record all that the node is told and does, for `dhow sim replay`; the file must not exist
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Octets of the recording, at most: then it ends, and the node goes on
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size, requires = "record")]
    record_limit: u64,
    /// Have payloads in the recording too: without, zeros stand for them
    #[arg(long, requires = "record")]
    record_payloads: bool,
}

impl Run {
    fn run(&self) -> Result<Ending, Failure> {
        let text = NodeFile::text(&self.config).map_err(unread)?;
        let mut file = NodeFile::parse(&text, &self.config).map_err(unread)?;
        file.check_named_files(&text, &self.config)
            .map_err(unread)?;
        file.node.contacts =
            NodeFile::contacts(&text, &self.config, calendar::now()).map_err(unread)?;
        if let Some(path) = &self.settings {
            let settings = Effective::of(&text, &file).map_err(unread)?;
            fs::write(path, settings.json().to_string()).map_err(|error| {
                Failure::refused(format!("cannot write {}: {error}", path.display()))
            })?;
        }
        dhow_daemon::machine::spare_memory(file.memory.octets);
        logging::init(&self.log)
            .map_err(|error| Failure::usage(format!("cannot start logging: {error}")))?;
        // The program that started the node may not care to read that it is ready.
        let ready = |ready: dhow_daemon::Ready| drop(output::line(&ready.json()));
        let record = self.record.clone().map(|path| RecordingOrder {
            path,
            limit_octets: self.record_limit,
            content: match self.record_payloads {
                true => Content::Whole,
                false => Content::Without,
            },
        });
        dhow_daemon::run(file, record, ready).map_err(|error| {
            let what = format!("cannot run the node: {error}");
            let failure = if error.is_configuration() {
                Failure::usage(what)
            } else {
                Failure::refused(what)
            };
            match error.hint() {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            }
        })?;
        Ok(Ending::Done)
    }
}
