//! `dhow store export`: all bundles of a node as a file.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use dhow_daemon::config::NodeFile;
use dhow_daemon::export::check::{self, End, Head};
use dhow_daemon::export::stopped;
use hyper::Method;
use serde_json::json;

use super::{Damaged, count, one_line, open, there_is_a_store};
use crate::admin::Admin;
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};
use crate::progress::Progress;

/// Copy all bundles of a node into a file
///
/// A running node keeps working. The file has every bundle that the node holds throughout the export; bundles that arrive meanwhile may be in it, those that leave and damaged ones are not. With --config it has the store of a stopped node, as it is: to move a node, stop it first. The file appears when it is whole. It contains the payloads, so only its owner can read it. Exit code 1 if damaged bundles are missing from it, or were found in it.
#[derive(Args, Debug)]
pub struct Export {
    /// The file, which must not exist; - for stdout
    file: PathBuf,
    /// The configuration of a node that does not run, whose store it is
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Export {
    /// Runs the command.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        if self.file == Path::new("-") {
            if io::stdout().is_terminal() {
                return Err(
                    Failure::usage("an export is binary and is not written to a terminal")
                        .with_hint("name a file, or lead stdout to another program"),
                );
            }
            let mut stdout = io::stdout().lock();
            self.give(common, &mut |octets| {
                let written = stdout.write_all(octets);
                written.map_err(|error| Failure::output(&error))
            })?;
            stdout.flush().map_err(|error| Failure::output(&error))?;
            return Ok(Ending::Done);
        }
        let unwritten = |error: io::Error| {
            let what = format!("cannot write {}: {error}", self.file.display());
            Failure::refused(what)
        };
        if self.file.exists() {
            let what = format!("{} exists", self.file.display());
            return Err(
                Failure::refused(what).with_hint("no export is overwritten: name another file")
            );
        }
        let directory = self.file.parent().filter(|it| !it.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(unwritten)?;
        self.give(common, &mut |octets| {
            file.write_all(octets).map_err(unwritten)
        })?;
        file.as_file().sync_all().map_err(unwritten)?;
        // Errors left by a node that ended meanwhile, or by a disk that lies, are found now and not when the export is needed.
        let written = file.reopen().map_err(unwritten)?;
        let mut damaged = Damaged::default();
        let (head, end) = check::read(BufReader::new(written), &mut damaged, &mut |_| {})
            .map_err(|error| Failure::refused(format!("the export is not whole: {error}")))?;
        file.persist_noclobber(&self.file)
            .map_err(|error| unwritten(error.error))?;
        File::open(directory)
            .and_then(|it| it.sync_all())
            .map_err(unwritten)?;
        tell(common, &self.file, (&head, &end), &damaged)
    }

    /// Gives the octets of the export, piece by piece.
    fn give(
        &self,
        common: &Common,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let progress = Progress::octets(None, "exporting");
        let mut take = |octets: &[u8]| {
            take(octets)?;
            count(&progress, octets)
        };
        let Some(config) = &self.config else {
            let admin = Admin::of(common.node.as_ref())?;
            return admin.stream(&Method::POST, "/v1/store/export", take);
        };
        let file = NodeFile::load(config).map_err(crate::command::node::unread)?;
        there_is_a_store(&file)?;
        let opened = open(&file)?;
        let unread = |error: &str| Failure::refused(format!("the disk failed: {error}"));
        stopped::export(&file, opened, crate::calendar::now(), &mut take, unread)
    }
}

fn tell(
    common: &Common,
    file: &Path,
    (head, end): (&Head, &End),
    damaged: &Damaged,
) -> Result<Ending, Failure> {
    match common.form() {
        Form::Json => output::json(&json!({
            "file": file.display().to_string(),
            "node": head.node,
            "bundles": end.bundles,
            "octets": end.octets,
            "gone": end.gone,
            "damaged": end.damaged,
            "damage": damaged.found,
        }))?,
        Form::Text => {
            for one in &damaged.found {
                output::line(&one_line(one))?;
            }
            output::talk(&format!(
                "{} has {} bundles of {} octets",
                file.display(),
                end.bundles,
                end.octets
            ));
            if end.damaged > 0 {
                output::talk(&format!("{} damaged bundles are not in it", end.damaged));
            }
            if !damaged.found.is_empty() {
                let found = damaged.found.len();
                output::talk(&format!(
                    "{found} bundles in it are damaged: an import leaves them out"
                ));
            }
        }
    }
    Ok(match end.damaged == 0 && damaged.found.is_empty() {
        true => Ending::Done,
        false => Ending::Incomplete,
    })
}
