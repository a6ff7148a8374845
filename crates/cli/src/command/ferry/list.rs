//! `dhow ferry list` and `dhow ferry check`: the bundles on a stick, without a node.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use dhow_client::ferry::{FileKind, Found, Stick};
use serde::Serialize;

use super::clock::Clock;
use super::file::{BundleFile, Fault};
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::quantity;

/// List the bundles on a stick
///
/// With --json, a line for each bundle: bundle, source, destination, octets, left_ms (until it expires by this machine's clock), writer, file.
#[derive(Args, Debug)]
pub struct List {
    /// The stick
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Read all bundles on a stick, and compare them with their digests
///
/// Exits with 1 if a file is torn. With --json, a line for each torn file (file, detail), then one with counts: bundles, octets, torn, acknowledgments, foreign.
#[derive(Args, Debug)]
pub struct Check {
    /// The stick
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

#[derive(Serialize)]
struct Line {
    bundle: String,
    source: String,
    destination: String,
    octets: u64,
    left_ms: Option<i64>,
    writer: Option<String>,
    file: String,
}

#[derive(Serialize)]
struct Torn<'a> {
    file: &'a str,
    detail: String,
}

#[derive(Default, Serialize)]
struct Counts {
    bundles: u64,
    octets: u64,
    torn: u64,
    acknowledgments: u64,
    foreign: u64,
}

fn open(directory: &Path) -> Result<Stick, Failure> {
    Stick::look_at(directory).map_err(|error| {
        Failure::refused(format!("cannot read {}: {error}", directory.display()))
            .with_hint("name the directory or stick that `dhow ferry` was given")
    })
}

/// Does something with each file of a stick; files that no ferry made are counted.
fn each(
    stick: &Stick,
    mut act: impl FnMut(Found) -> Result<(), Failure>,
) -> Result<(Ending, u64), Failure> {
    let fail = |error: io::Error| Failure::refused(format!("cannot read the stick: {error}"));
    let mut look = stick.look().map_err(fail)?;
    while let Some(found) = look.next(stick).map_err(fail)? {
        if interrupt::is_requested() {
            return Ok((Ending::Interrupted, look.foreign));
        }
        act(found)?;
    }
    Ok((Ending::Done, look.foreign))
}

impl List {
    /// Prints the bundles of the stick.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let stick = open(&self.directory)?;
        let (ending, _) = each(&stick, |found| {
            if !matches!(found.name.kind, FileKind::Bundle(_)) {
                return Ok(());
            }
            let Ok(bundle) = BundleFile::open(&stick, &found) else {
                return Ok(());
            };
            let header = &bundle.header;
            let line = Line {
                bundle: header.id().to_string(),
                source: header.primary.source.to_string(),
                destination: header.primary.destination.to_string(),
                octets: bundle.octets,
                left_ms: Clock::alone().left_ms(header, bundle.modified),
                writer: stick.writer(found.writer).map(|it| it.to_string()),
                file: format!("{}/{}", found.writer, found.text),
            };
            match common.form() {
                Form::Json => output::json(&line),
                Form::Text => output::line(&line.text()),
            }
        })?;
        Ok(ending)
    }
}

impl Line {
    fn text(&self) -> String {
        let left = match self.left_ms {
            Some(left) if left < 0 => "expired".to_owned(),
            Some(left) => format!("{} s left", left / 1_000),
            None => "no time known".to_owned(),
        };
        format!(
            "{} to {}, {}, {left}, written by {}",
            self.bundle,
            self.destination,
            quantity::size(self.octets),
            self.writer.as_deref().unwrap_or("an unknown node")
        )
    }
}

impl Check {
    /// Reads the bundles of the stick.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let stick = open(&self.directory)?;
        let mut counts = Counts::default();
        let (ending, foreign) = each(&stick, |found| {
            match found.name.kind {
                FileKind::Acknowledgment => counts.acknowledgments += 1,
                FileKind::Part => {}
                FileKind::Bundle(_) => match fault(&stick, &found) {
                    Ok(octets) => {
                        counts.bundles += 1;
                        counts.octets = counts.octets.saturating_add(octets);
                    }
                    Err(detail) => {
                        counts.torn += 1;
                        let file = &found.text;
                        match common.form() {
                            Form::Json => output::json(&Torn { file, detail })?,
                            Form::Text => output::line(&format!("torn {file}: {detail}"))?,
                        }
                    }
                },
            }
            Ok(())
        })?;
        counts.foreign = foreign;
        match common.form() {
            Form::Json => output::json(&counts)?,
            Form::Text => output::line(&format!(
                "{} bundles, {}, {} torn, {} acknowledgments, {} other files",
                counts.bundles,
                quantity::size(counts.octets),
                counts.torn,
                counts.acknowledgments,
                counts.foreign
            ))?,
        }
        Ok(match ending {
            Ending::Done if counts.torn > 0 => Ending::Incomplete,
            ending => ending,
        })
    }
}

/// The octets of a file that is whole, or the fault of one that is not.
fn fault(stick: &Stick, found: &Found) -> Result<u64, String> {
    let bundle = BundleFile::open(stick, found).map_err(|fault| match fault {
        Fault::System(error) => error.to_string(),
        Fault::Torn(why) => why,
    })?;
    let octets = bundle.octets;
    match bundle.matches_name(found, || !interrupt::is_requested()) {
        Ok(true) => Ok(octets),
        Ok(false) => Err("its octets are not those of its name".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
