//! `dhow store`: the store of a node as a file, and whether it is sound.

mod export;

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dhow_bundle::BundleId;
use dhow_bundle::storage::{BundleKey, StoreCommand, StoreEvent, StoreRefusal, StoredBundle};
use dhow_daemon::config::NodeFile;
use dhow_daemon::export::check::{self, End, Head, Nobody};
use dhow_daemon::export::frame::ExportError;
use dhow_daemon::export::target::Importing;
use dhow_daemon::run::{RunError, open_store, open_store_at};
use dhow_store::{Origin, Recovered, Store as Opened, Verdict};
use hyper::Method;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use crate::admin::Admin;
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::progress::Progress;

/// Bundles that are compared with their checksums at a time.
const VERIFIED_AT_ONCE: usize = 256;

/// Check a store, or copy its bundles out of a node and into another
#[derive(Debug, Subcommand)]
pub enum Store {
    Export(export::Export),
    Import(Import),
    Check(Check),
    Compact(Compact),
}

impl Store {
    /// Runs the command.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let ending = match self {
            Self::Export(command) => command.run(common),
            Self::Import(command) => command.run(common),
            Self::Check(command) => command.run(common),
            Self::Compact(command) => command.run(common),
        };
        match ending {
            Err(_) if interrupt::is_requested() => Ok(Ending::Interrupted),
            ending => ending,
        }
    }
}

/// Ends work under way: nobody reads its output.
fn interrupted() -> Failure {
    Failure::refused("interrupted")
}

/// Put the bundles of an export into the store of a node that does not run
///
/// All of them or none. Bundles that the store has already are left as they are, so a file may be imported twice. Lifetimes go on by the wall clock; priorities, custody and what waits for applications stay as they were.
#[derive(Args, Debug)]
pub struct Import {
    /// The file; - for stdin
    file: PathBuf,
    /// The configuration of the node that gets them
    #[arg(long, value_name = "FILE", default_value = "node.toml")]
    config: PathBuf,
}

impl Import {
    fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let name = self.file.display();
        let unreadable =
            |error: io::Error| Failure::refused(format!("cannot read {name}: {error}"));
        let file = NodeFile::load(&self.config).map_err(super::node::unread)?;
        let mut source = match self.file == Path::new("-") {
            true => {
                // It is read twice: once to know that it is whole.
                let mut spool = tempfile::tempfile().map_err(unreadable)?;
                io::copy(&mut io::stdin().lock(), &mut spool).map_err(unreadable)?;
                spool.rewind().map_err(unreadable)?;
                spool
            }
            false => File::open(&self.file).map_err(unreadable)?,
        };
        let total = source.metadata().map_err(unreadable)?.len();
        let progress = Progress::octets(Some(total), "checking");
        let (_, end) = read(&source, &mut Nobody, &progress)?;
        if end.octets > file.node.quota_octets {
            let quota = file.node.quota_octets;
            let what = format!(
                "the export has {} octets of bundles, and the quota is {quota}",
                end.octets
            );
            return Err(Failure::refused(what).with_hint("let [store] quota be as much"));
        }
        let (store, recovered) = open(&file)?;
        source.rewind().map_err(unreadable)?;
        let progress = Progress::octets(Some(total), "importing");
        let mut importing = Importing::into(store, recovered);
        let outcome = match read(&source, &mut importing, &progress) {
            Ok((_, end)) => importing.finish(Some(&end)),
            Err(failure) => {
                // It is undone, which has nothing to say.
                let _ = importing.finish(None);
                return Err(failure);
            }
        };
        let outcome = outcome.map_err(|refusal| {
            let why = match refusal {
                StoreRefusal::Full => "the disk or the quota has no room for it",
                StoreRefusal::Disk | StoreRefusal::Gaps => "the disk failed",
            };
            Failure::refused(format!("nothing was imported: {why}"))
        })?;
        match common.form() {
            Form::Json => output::json(&json!({
                "file": self.file.display().to_string(),
                "imported": outcome.imported,
                "octets": outcome.octets,
                "known": outcome.known,
                "damaged": outcome.damaged,
            }))?,
            Form::Text => {
                output::talk(&format!(
                    "imported {} bundles of {} octets; {} were there",
                    outcome.imported, outcome.octets, outcome.known
                ));
                if outcome.damaged > 0 {
                    let damaged = outcome.damaged;
                    output::talk(&format!("{damaged} are damaged and were left out"));
                }
            }
        }
        Ok(match outcome.damaged {
            0 => Ending::Done,
            _ => Ending::Incomplete,
        })
    }
}

fn read(
    source: &File,
    taker: &mut impl check::Taker,
    progress: &Progress,
) -> Result<(Head, End), Failure> {
    let mut from = Interruptible(BufReader::with_capacity(1 << 20, source));
    let mut before = 0;
    let mut advance = |at: u64| {
        progress.advance(at - before);
        before = at;
    };
    check::read(&mut from, taker, &mut advance).map_err(|error| match error {
        ExportError::Unreadable(error) if error.kind() == io::ErrorKind::Other => interrupted(),
        error => Failure::refused(format!("the export cannot be imported: {error}"))
            .with_hint("nothing was changed; `dhow store export` makes another"),
    })
}

/// A reader that somebody may interrupt.
struct Interruptible<R>(R);

impl<R: Read> Read for Interruptible<R> {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        match interrupt::is_requested() {
            true => Err(io::Error::other("interrupted")),
            false => self.0.read(octets),
        }
    }
}

fn there_is_a_store(file: &NodeFile) -> Result<(), Failure> {
    let path = &file.store.path;
    match path.join("log").exists() {
        true => Ok(()),
        false => {
            let what = format!("there is no store in {}", path.display());
            Err(Failure::refused(what).with_hint("[store] path of the configuration names it"))
        }
    }
}

fn count(progress: &Progress, octets: &[u8]) -> Result<(), Failure> {
    progress.advance(u64::try_from(octets.len()).unwrap_or(0));
    match interrupt::is_requested() {
        true => Err(interrupted()),
        false => Ok(()),
    }
}

fn open(file: &NodeFile) -> Result<(Opened, Recovered), Failure> {
    open_store(file).map_err(|error| {
        let hint = match &error {
            RunError::StoreDirectory(dhow_store::LockError::InUse { .. }) => {
                Some("stop the node that uses it first")
            }
            error => error.hint(),
        };
        let failure = Failure::refused(error.to_string());
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    })
}

/// Free the disk space that the store of a stopped node does not need
///
/// A log never shrinks by itself. This writes a new log with the stored bundles beside the old one and replaces the old one once the new one is whole; so there must be room for both. A damaged store is refused.
#[derive(Args, Debug)]
pub struct Compact {
    /// The configuration of the node whose store it is
    #[arg(long, value_name = "FILE", default_value = "node.toml")]
    config: PathBuf,
}

impl Compact {
    fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let file = NodeFile::load(&self.config).map_err(super::node::unread)?;
        let path = &file.store.path;
        there_is_a_store(&file)?;
        let system = |error: io::Error| Failure::refused(format!("cannot compact: {error}"));
        let before = disk_octets(path).map_err(system)?;
        let (old, recovered) = open(&file)?;
        let beside = path.with_extension("compacting");
        if beside.exists() {
            // Nobody else makes one: the last attempt was cut off.
            fs::remove_dir_all(&beside).map_err(system)?;
        }
        let copied = copy(&file, (old, recovered), &beside);
        let swapped = copied.and_then(|old| {
            let flags = RenameFlags::EXCHANGE;
            let exchanged = renameat_with(CWD, path, CWD, &beside, flags);
            exchanged.map_err(|error| system(error.into()))?;
            if let Some(parent) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
                File::open(parent)
                    .and_then(|it| it.sync_all())
                    .map_err(system)?;
            }
            drop(old);
            Ok(())
        });
        // The new one where it did not come to that, and else the old one.
        let removed = fs::remove_dir_all(&beside);
        swapped?;
        removed.map_err(system)?;
        let after = disk_octets(path).map_err(system)?;
        match common.form() {
            Form::Json => output::json(&json!({
                "store": path.display().to_string(),
                "disk_octets_before": before,
                "disk_octets": after,
            }))?,
            Form::Text => output::talk(&format!(
                "the store took {before} octets of the disk, and takes {after}"
            )),
        }
        Ok(Ending::Done)
    }
}

/// Octets of the disk that the files of a directory take.
fn disk_octets(directory: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut octets = 0;
    for entry in fs::read_dir(directory)? {
        octets += entry?.metadata()?.blocks() * 512;
    }
    Ok(octets)
}

/// Octets that are copied at a time.
const COPIED_OCTETS: usize = 1 << 20;

/// Copies a store into a new directory; the old one comes back, which nobody else may open meanwhile.
fn copy(
    file: &NodeFile,
    (mut old, recovered): (Opened, Recovered),
    beside: &Path,
) -> Result<Opened, Failure> {
    let damaged = || {
        let failure = Failure::refused("the store is damaged: nothing was changed");
        failure.with_hint("`dhow store check` shows where")
    };
    if !recovered.loss.is_empty() || recovered.loss.early_end.is_some() {
        return Err(damaged());
    }
    let end = End {
        reserved_dtn_ms: recovered.reserved_time.as_millis(),
        reserved_sequence: recovered.reserved_sequence,
        ..End::default()
    };
    let opened = open_store_at(file, beside);
    let (new, nothing) = opened.map_err(|error| Failure::refused(error.to_string()))?;
    let mut importing = Importing::into(new, nothing);
    importing.remember(recovered.removed);
    let bundles: Vec<_> = recovered.bundles.collect();
    let progress = Progress::bundles(u64::try_from(bundles.len()).unwrap_or(0), "compacting");
    let reader = old.reader();
    let mut chunk = vec![0; COPIED_OCTETS];
    for (key, bundle, extents) in bundles {
        if interrupt::is_requested() {
            return Err(interrupted());
        }
        if !matches!(old.verify(key), Ok(Verdict::Intact)) {
            return Err(damaged());
        }
        check::Taker::begin(&mut importing, bundle);
        for extent in extents.as_slice() {
            let mut at = 0;
            while at < extent.length {
                let read = reader.read(*extent, at, &mut chunk);
                let read =
                    read.map_err(|error| Failure::refused(format!("the disk failed: {error}")))?;
                check::Taker::octets(&mut importing, chunk.get(..read).unwrap_or_default());
                at += u64::try_from(read).unwrap_or(u64::MAX).max(1);
            }
        }
        check::Taker::end(&mut importing, check::Verdict::Sound);
        progress.advance(1);
    }
    let finished = importing.finish(Some(&end));
    finished.map_err(|_| {
        Failure::refused("the disk has no room for a second log: nothing was changed")
    })?;
    Ok(old)
}

/// Read all of a store, and compare it with its checksums
///
/// With --config it is that of a node that does not run: damaged bundles are listed with their place in the log and the reason. A record that a crash left torn at the end of the log is no damage: it was never acknowledged. Without it, a running node gives all its bundles: each is compared with the checksums that it carries itself, and damaged ones are listed with the reason. Exit code 1 if any is damaged.
#[derive(Args, Debug)]
pub struct Check {
    /// The configuration of a node that does not run, whose store it is
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The damaged bundles of an export.
#[derive(Default)]
struct Damaged {
    open: Option<BundleId>,
    found: Vec<serde_json::Value>,
}

/// Damaged bundles that are listed one by one, at most.
const LISTED_MAX: usize = 10_000;

impl check::Taker for Damaged {
    fn begin(&mut self, bundle: StoredBundle) {
        self.open = Some(bundle.id);
    }

    fn octets(&mut self, _: &[u8]) {}

    fn end(&mut self, verdict: check::Verdict) {
        if let (Some(id), check::Verdict::Damaged(reason)) = (self.open.take(), verdict)
            && self.found.len() < LISTED_MAX
        {
            let id = id.to_string();
            self.found
                .push(json!({"id": id, "position": null, "reason": reason}));
        }
    }
}

impl Check {
    fn run(&self, common: &Common) -> Result<Ending, Failure> {
        match &self.config {
            Some(config) => Self::check_file(config, common),
            None => Self::check_node(common),
        }
    }

    /// The store of a running node, as it gives it.
    fn check_node(common: &Common) -> Result<Ending, Failure> {
        let admin = Admin::of(common.node.as_ref())?;
        let progress = Progress::octets(None, "checking");
        let system = |error: io::Error| Failure::refused(format!("the system refused: {error}"));
        let (from, mut to) = io::pipe().map_err(system)?;
        let reading = std::thread::spawn(move || {
            let mut damaged = Damaged::default();
            let read = check::read(BufReader::new(from), &mut damaged, &mut |_| {});
            (read, damaged.found)
        });
        let given = admin.stream(&Method::POST, "/v1/store/export", |octets| {
            // A reader that has found the end, or a fault, is told of below.
            let _ = to.write_all(octets);
            count(&progress, octets)
        });
        drop(to);
        let read = reading.join();
        given?;
        let (read, damage) =
            read.map_err(|_| Failure::refused("the node's answer could not be read"))?;
        let (_, end) = read.map_err(|error| {
            Failure::refused(format!("the node's answer cannot be read: {error}"))
        })?;
        let is_sound = damage.is_empty() && end.damaged == 0;
        match common.form() {
            Form::Json => output::json(&json!({
                "bundles": end.bundles,
                "octets": end.octets,
                "gone": end.gone,
                "sound": is_sound,
                "damage": damage,
                "quarantined": end.damaged,
            }))?,
            Form::Text => {
                for one in &damage {
                    output::line(&one_line(one))?;
                }
                if end.damaged > 0 {
                    let damaged = end.damaged;
                    output::talk(&format!(
                        "{damaged} damaged bundles are in quarantine: `dhow bundles --each` shows them"
                    ));
                }
                say(end.bundles, end.octets, is_sound);
            }
        }
        Ok(match is_sound {
            true => Ending::Done,
            false => Ending::Incomplete,
        })
    }

    fn check_file(config: &Path, common: &Common) -> Result<Ending, Failure> {
        let file = NodeFile::load(config).map_err(super::node::unread)?;
        there_is_a_store(&file)?;
        let (mut store, recovered) = open(&file)?;
        let mut damage: Vec<_> = recovered
            .loss
            .places
            .iter()
            .map(|place| {
                let id = place.id.as_ref().map(ToString::to_string);
                json!({"id": id, "position": place.position, "reason": place.cause.text()})
            })
            .collect();
        let (lost, unlisted) = (recovered.loss.bundles, recovered.loss.places_unlisted);
        let (early, origin) = (recovered.loss.early_end.is_some(), recovered.origin);
        let bundles: Vec<_> = recovered.bundles.collect();
        let octets: u64 = bundles.iter().map(|(.., extents)| extents.length()).sum();
        let progress = Progress::bundles(u64::try_from(bundles.len()).unwrap_or(0), "checking");
        let mut unread = bundles.len();
        for some in bundles.chunks(VERIFIED_AT_ONCE) {
            if interrupt::is_requested() {
                return Err(interrupted());
            }
            store.handle(
                some.iter()
                    .map(|(key, ..)| StoreCommand::Verify { key: *key }),
            );
            let mut events = Vec::new();
            store.commit(&mut events);
            for event in events {
                match event {
                    StoreEvent::Verified { .. } => unread -= 1,
                    StoreEvent::Corrupt { key } => {
                        unread -= 1;
                        damage.push(damaged(key, &bundles));
                    }
                    _ => {}
                }
            }
            progress.advance(u64::try_from(some.len()).unwrap_or(0));
        }
        drop(store);
        if unread > 0 {
            damage.push(json!({"id": null, "position": null, "reason": format!("the disk did not give {unread} bundles back")}));
        }
        let is_sound = damage.is_empty() && unlisted == 0 && lost == 0 && !early;
        let is_sound = is_sound && origin == Origin::Existing;
        match common.form() {
            Form::Json => output::json(&json!({
                "store": file.store.path.display().to_string(),
                "bundles": bundles.len(),
                "octets": octets,
                "sound": is_sound,
                "lost": lost,
                "damage": damage,
                "damage_unlisted": unlisted,
                "ends_early": early,
            }))?,
            Form::Text => {
                for one in &damage {
                    output::line(&one_line(one))?;
                }
                let count = u64::try_from(bundles.len()).unwrap_or(u64::MAX);
                say(count, octets, is_sound);
            }
        }
        Ok(match is_sound {
            true => Ending::Done,
            false => Ending::Incomplete,
        })
    }
}

fn say(bundles: u64, octets: u64, is_sound: bool) {
    let sound = match is_sound {
        true => "all of them are sound",
        false => "the store is damaged",
    };
    output::talk(&format!("{bundles} bundles of {octets} octets: {sound}"));
}

type Found = (
    BundleKey,
    dhow_bundle::storage::StoredBundle,
    dhow_bundle::storage::Extents,
);

fn damaged(key: BundleKey, bundles: &[Found]) -> serde_json::Value {
    let found = bundles.iter().find(|(other, ..)| *other == key);
    let id = found.map(|(_, bundle, _)| bundle.id.to_string());
    let position = found.and_then(|(.., extents)| extents.as_slice().first().map(|it| it.offset));
    json!({"id": id, "position": position, "reason": "its octets do not match their checksum"})
}

fn one_line(damage: &serde_json::Value) -> String {
    let id = damage.get("id").and_then(serde_json::Value::as_str);
    let position = damage.get("position").and_then(serde_json::Value::as_u64);
    let reason = damage.get("reason").and_then(serde_json::Value::as_str);
    let place = position.map_or_else(String::new, |at| format!(" at octet {at}"));
    format!(
        "{}{place}: {}",
        id.unwrap_or("-"),
        reason.unwrap_or_default()
    )
}
