//! `dhow node`: set up and run a node, and show its settings.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dhow_bundle::NodeId;
use dhow_client::Address;
use dhow_daemon::config::{self, Effective, FileError, Layout, NodeFile};
use dhow_daemon::datagrams::seal::Keys;
use dhow_daemon::logging::{self, Filtering};
use dhow_daemon::recording::RecordingOrder;
use dhow_node::recording::Content;

use super::reload::print_differences;
use crate::admin::Admin;
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
    /// Runs the command.
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
///
/// With --system it is that of the service of this machine, as packages install it: /etc/dhow/node.toml, with the store in /var/lib/dhow and the sockets in /run/dhow.
#[derive(Args, Debug)]
pub struct Init {
    /// The node's ID: ipn:2.0 or dtn://beta/
    id: NodeId,
    /// The directory for the configuration; it is made
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Write the configuration of the service of this machine
    #[arg(long, conflicts_with = "dir")]
    system: bool,
    /// Overwrite a configuration that is there
    #[arg(long)]
    force: bool,
}

const FILE_NAME: &str = "node.toml";

/// The directory of the service's configuration.
const SYSTEM_DIRECTORY: &str = "/etc/dhow";

impl Init {
    fn run(&self, common: &Common) -> Result<Ending, Failure> {
        // The file may hold the administration's token. The file of the service is read by its user, whose group the directory has.
        let (directory, layout, mode) = match self.system {
            true => (Path::new(SYSTEM_DIRECTORY), Layout::System, 0o640),
            false => (self.dir.as_path(), Layout::Beside, 0o600),
        };
        let path = directory.join(FILE_NAME);
        let text = config::write_commented(&self.id.to_string(), directory, layout);
        write_new(&path, &text, self.force, mode).map_err(|error| {
            let failure = Failure::refused(format!("cannot write {}: {error}", path.display()));
            match error.kind() {
                io::ErrorKind::AlreadyExists => failure.with_hint("--force overwrites it"),
                io::ErrorKind::PermissionDenied if self.system => {
                    failure.with_hint("use sudo, or without --system a directory of your own")
                }
                io::ErrorKind::PermissionDenied => {
                    failure.with_hint("choose another directory with --dir, or use sudo")
                }
                _ => failure,
            }
        })?;
        let is_of_service = self.system && has_group_of_service(directory);
        let start = match is_of_service {
            true => "sudo systemctl enable --now dhow".to_owned(),
            false => format!("dhow node run --config {}", path.display()),
        };
        if self.system && !is_of_service {
            output::note(
                "this machine has no service for it: the package dhow installs that, and `chgrp dhow` lets it read the file",
            );
        }
        match common.form() {
            Form::Json => output::json(
                &serde_json::json!({"config": path.display().to_string(), "node": self.id.to_string()}),
            )?,
            Form::Text => {
                output::talk(&format!("wrote {}\nedit it, then: {start}", path.display()))
            }
        }
        Ok(Ending::Done)
    }
}

/// Whether a package has made the directory for a group of its own.
fn has_group_of_service(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|it| it.gid() != 0)
}

fn write_new(path: &Path, text: &str, force: bool, mode: u32) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).mode(mode);
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
    /// The configuration; node.toml if none is named
    #[arg(value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show instead how a running node differs from its configuration file: changes in the file that it has not taken up, and changes made at run time. The node is the one whose socket FILE names; without FILE, that of --node
    #[arg(long)]
    diff: bool,
    /// Print nothing if the configuration is right
    #[arg(long, conflicts_with = "diff")]
    check: bool,
}

impl Config {
    fn run(&self, common: &Common) -> Result<Ending, Failure> {
        if self.diff {
            let answer = self.node(common)?.read("/v1/config/difference")?;
            match common.form() {
                Form::Json => output::json(&answer)?,
                Form::Text => print_differences(&answer)?,
            }
            return Ok(Ending::Done);
        }
        let path = self.config.as_deref().unwrap_or(Path::new(FILE_NAME));
        let text = NodeFile::text(path).map_err(unread)?;
        let file = NodeFile::parse(&text, path).map_err(unread)?;
        file.check_named_files(&text, path).map_err(unread)?;
        if self.check {
            return Ok(Ending::Done);
        }
        NodeFile::contacts(&text, path, calendar::now()).map_err(unread)?;
        let settings = Effective::of(&text, &file).map_err(unread)?;
        match common.form() {
            Form::Json => output::json(&settings.json())?,
            Form::Text => output::line(settings.to_string().trim_end())?,
        }
        Ok(Ending::Done)
    }

    /// The node that runs by the configuration.
    fn node(&self, common: &Common) -> Result<Admin, Failure> {
        let Some(path) = &self.config else {
            return Admin::of(common.node.as_ref());
        };
        let text = NodeFile::text(path).map_err(unread)?;
        let file = NodeFile::parse(&text, path).map_err(unread)?;
        Admin::of(Some(&Address::Unix(file.api_socket)))
    }
}

/// A configuration that is none.
pub fn unread(error: FileError) -> Failure {
    let failure = Failure::usage(format!("cannot read the configuration: {error}"));
    match error.hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Run a node in the foreground
///
/// The first line on stdout says that the node is ready, as JSON; nothing follows it. SIGTERM, Ctrl-C and the loss of its terminal end the node cleanly: transfers in progress have up to 5 s to finish. SIGHUP has it read its configuration again, as `dhow reload` does.
#[derive(Args, Debug)]
pub struct Run {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = FILE_NAME)]
    config: PathBuf,
    /// Write every setting, defaults included, to a file as JSON, as `dhow node config --json` prints them
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Level of the log on stderr, in place of that of the configuration: error, warn, info, debug or trace, also by part
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", hide_env_values = true)]
    log: Option<String>,
    /// Record all that the node is told and does, for `dhow sim replay`; the file must not exist
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Octets of the recording, at most: then it ends, and the node goes on
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size, requires = "record")]
    record_limit: u64,
    /// Record payloads too; without it, zeros stand in their place
    #[arg(long, requires = "record")]
    record_payloads: bool,
}

impl Run {
    fn run(&self) -> Result<Ending, Failure> {
        let text = NodeFile::text(&self.config).map_err(unread)?;
        let mut file = NodeFile::parse(&text, &self.config).map_err(unread)?;
        file.check_named_files(&text, &self.config)
            .map_err(unread)?;
        file.settle_keys(&Keys::new());
        file.source.start = calendar::now();
        file.node.contacts =
            NodeFile::contacts(&text, &self.config, file.source.start).map_err(unread)?;
        if let Some(path) = &self.settings {
            let settings = Effective::of(&text, &file).map_err(unread)?;
            fs::write(path, settings.json().to_string()).map_err(|error| {
                Failure::refused(format!("cannot write {}: {error}", path.display()))
            })?;
        }
        dhow_daemon::machine::spare_memory(file.memory.octets);
        let (filter, filtering) = match &self.log {
            Some(filter) => (filter, Filtering::Fixed),
            None => (&file.log, Filtering::ByFile),
        };
        logging::init(filter, filtering)
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
