//! `dhow lab yardstick`: the rates of TCP and of a disk with no node between.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use dhow_document::quantity::{parse_duration, parse_size};
use dhow_testbed::yardstick::Figure;
use dhow_testbed::yardstick::disk::{Amount, Disk, WritePath};
use dhow_testbed::yardstick::tcp::{BLOCK_MAX, Receive, Send};

use crate::failure::{Ending, Failure};
use crate::output;

const AFTER_HELP: &str = "\
Each figure is a line of JSON, as [[program]]s with output = \"figures\" print them:
  dhow lab yardstick receive 0.0.0.0:5001 --into received
  dhow lab yardstick send 198.18.0.2:5001 --octets 30MB --block 1kB
  dhow lab yardstick disk --file 2kB --octets 15MB .";

/// Measure TCP or a disk with no node between
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Yardstick {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Send octets over one TCP connection, and wait until the other side has them
    Send(Sending),
    /// Take one TCP connection and keep what comes
    Receive(Receiving),
    /// Write and read files of one size, of random octets
    Disk(Files),
}

#[derive(Args, Debug)]
struct Sending {
    /// The side that receives
    #[arg(value_name = "ADDRESS:PORT")]
    to: SocketAddr,
    /// Octets to send
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "30MB")]
    octets: u64,
    /// Octets that are written at once, up to 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_block, default_value = "1MB")]
    block: usize,
    /// Read them from this file, which is made, instead of from memory
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Send no longer than this
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, default_value = "1h")]
    time: Duration,
    /// Time to wait until the other side is there
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    wait: Duration,
}

#[derive(Args, Debug)]
struct Receiving {
    /// Address and port to listen at
    #[arg(value_name = "ADDRESS:PORT", default_value = "0.0.0.0:5001")]
    at: SocketAddr,
    /// Octets that are read at once, up to 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_block, default_value = "1MB")]
    block: usize,
    /// Write them to this file, which is on the disk before the last counts
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct Files {
    /// Directory in which files are made; they are removed
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Octets of each file; several times for several
    #[arg(long = "file", value_name = "SIZE", value_parser = parse_size, default_value = "50kB")]
    files: Vec<u64>,
    /// Octets of all files of one size
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "15MB")]
    octets: u64,
    /// Make so many files of each size instead
    #[arg(long, value_name = "N", conflicts_with = "octets")]
    count: Option<u64>,
    /// Go past the page cache, in blocks of 4096 octets, as dd does with iflag=direct and oflag=direct
    #[arg(long)]
    direct: bool,
}

impl Yardstick {
    /// Measures, and prints figures.
    pub fn run(&self) -> Result<Ending, Failure> {
        match &self.what {
            What::Send(words) => told("send", {
                Send {
                    to: words.to,
                    octets: words.octets,
                    block: words.block,
                    file: words.from.clone(),
                    time: words.time,
                    wait: words.wait,
                }
                .run()
            })?,
            What::Receive(words) => told("receive", {
                Receive {
                    at: words.at,
                    block: words.block,
                    file: words.into.clone(),
                }
                .run()
            })?,
            What::Disk(words) => {
                for file in &words.files {
                    let disk = Disk {
                        directory: words.directory.clone(),
                        file: *file,
                        amount: match words.count {
                            Some(count) => Amount::Files(count),
                            None => Amount::Octets(words.octets),
                        },
                        way: match words.direct {
                            true => WritePath::Direct,
                            false => WritePath::Cached,
                        },
                        named: words.files.len() > 1,
                    };
                    told("measure the disk", disk.run())?;
                }
            }
        }
        Ok(Ending::Done)
    }
}

/// A size that fits a block.
fn parse_block(text: &str) -> Result<usize, String> {
    let octets = parse_size(text).map_err(|error| error.to_string())?;
    let octets = usize::try_from(octets).unwrap_or(usize::MAX);
    match octets {
        1..=BLOCK_MAX => Ok(octets),
        _ => Err("a block has 1 octet to 64MiB".to_owned()),
    }
}

fn told(what: &str, figures: io::Result<Vec<Figure>>) -> Result<(), Failure> {
    let figures = figures.map_err(|error| Failure::refused(format!("cannot {what}: {error}")))?;
    output::figures(&figures)
}
