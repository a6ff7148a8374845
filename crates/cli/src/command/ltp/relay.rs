//! `dhow ltp relay`: blocks that are passed on.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use dhow_daemon::ltp_files::MAX_FILE_OCTETS;
use dhow_daemon::ltp_files::hops::{self, End, Hop, Passing, Settings, Work};

use super::hops::{Speaker, check_mtu, hop_of};
use super::recv::address;
use super::send::{Receiver, parse_receiver};
use super::way::{PORT, WayOptions, seed};
use crate::arguments::{Common, parse_duration, parse_number, parse_size};
use crate::failure::{Ending, Failure};
use crate::file_name::shown;
use crate::socket_address::hint_of_bind;

/// Blocks that may be here at a time, at most.
const BLOCKS_MAX: u64 = 4_096;

const AFTER_HELP: &str = "\
Example:
  dhow ltp relay --engine 2 --listen 0.0.0.0:1113 --route 3=3@192.0.2.3 --route 1=1@192.0.2.1 --dir spool";

/// Pass blocks of LTP on to the engines that they are for
///
/// Needs no node, and no bundles are made: the blocks are those of `dhow ltp send --to`, whose extensions are a profile of Dhow's own. A block leaves for its next hop while it still comes. It is acknowledged once all of it is durable in --dir, and leaves again from there after a restart. Ctrl-C ends it.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Relay {
    /// The engine ID here
    #[arg(long, value_name = "N", value_parser = parse_number)]
    engine: u64,
    /// The address to listen at: HOST or HOST:PORT
    #[arg(long, value_name = "ADDRESS", default_value_t = format!("0.0.0.0:{PORT}"))]
    listen: String,
    /// The next hop to an engine; several may be given
    #[arg(long, value_name = "ENGINE=ENGINE@HOST:PORT", value_parser = parse_route)]
    route: Vec<Route>,
    /// The next hop to all other engines
    #[arg(long, value_name = "ENGINE@HOST:PORT", value_parser = parse_receiver)]
    default: Option<Receiver>,
    /// The directory of blocks
    #[arg(long, value_name = "DIR", default_value = "ltp-relay")]
    dir: PathBuf,
    /// Pass a block on when all of it is durable here, not while it still comes
    #[arg(long)]
    store_and_forward: bool,
    /// Octets of all blocks that may be here; others are refused (SYS_CNCLD)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "10GiB")]
    disk: u64,
    /// Blocks that may be here at a time
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=BLOCKS_MAX))]
    blocks: u64,
    /// Give up a block of which nothing has come for this long; at least four round trips
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10min")]
    silence: Duration,
    #[command(flatten)]
    way: WayOptions,
}

/// The next hop to an engine.
#[derive(Clone, Debug)]
struct Route {
    to: u64,
    hop: Receiver,
}

fn parse_route(text: &str) -> Result<Route, String> {
    let Some((to, hop)) = text.split_once('=') else {
        return Err("a route is ENGINE=ENGINE@HOST:PORT".to_owned());
    };
    let (to, hop) = (parse_number(to)?, parse_receiver(hop)?);
    match hop.engine {
        Some(_) => Ok(Route { to, hop }),
        None => Err("the next hop has no engine ID: ENGINE=ENGINE@HOST:PORT".to_owned()),
    }
}

impl Relay {
    /// Passes blocks on until it is interrupted.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        check_mtu(&self.way)?;
        let listen = address(&self.listen)?;
        fs::create_dir_all(&self.dir).map_err(|error| {
            Failure::refused(format!(
                "cannot use directory {}: {error}",
                shown(&self.dir)
            ))
            .with_hint("--dir names a directory that is there, or can be made")
        })?;
        let routes = self.routes()?;
        let settings = Settings {
            listen,
            engine: self.engine,
            work: Work::Relay(match self.store_and_forward {
                true => Passing::StoreAndForward,
                false => Passing::CutThrough,
            }),
            routes,
            default: self.default()?,
            directory: self.dir.clone(),
            blocks: usize::try_from(self.blocks).unwrap_or(usize::MAX),
            disk_octets: self.disk,
            largest: MAX_FILE_OCTETS,
            way: self.way.way(self.silence),
            key: self.way.key()?,
            seed: seed()?,
        };
        let mut speaker = Speaker::new(common.form());
        let end = hops::run(settings, &mut speaker);
        if let Some(failure) = speaker.failure {
            return Err(failure);
        }
        let end = end.map_err(|error| {
            let hint = match error.kind() {
                ErrorKind::ResourceBusy => {
                    "each relay has a directory of its own: --dir".to_owned()
                }
                ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable => {
                    hint_of_bind(&error, "--listen")
                }
                _ => "look at the address of --listen and at the directory of --dir".to_owned(),
            };
            Failure::refused(format!("cannot relay at {listen}: {error}")).with_hint(hint)
        })?;
        match end {
            End::Stopped => Ok(Ending::Interrupted),
            End::Done | End::Failed | End::Silence => Ok(Ending::Done),
        }
    }
}

impl Relay {
    /// The next hops, one to each engine, of which none is this one.
    fn routes(&self) -> Result<BTreeMap<u64, Hop>, Failure> {
        let mut routes = BTreeMap::new();
        for route in &self.route {
            if route.to == self.engine {
                let what = format!("engine {} is this one, and needs no route", route.to);
                return Err(Failure::usage(what).with_hint("`dhow ltp recv` takes what is for it"));
            }
            if routes.insert(route.to, self.next(&route.hop)?).is_some() {
                let what = format!("engine {} has two routes", route.to);
                return Err(Failure::usage(what).with_hint("each engine has one next hop"));
            }
        }
        Ok(routes)
    }

    fn default(&self) -> Result<Option<Hop>, Failure> {
        self.default.as_ref().map(|hop| self.next(hop)).transpose()
    }

    fn next(&self, receiver: &Receiver) -> Result<Hop, Failure> {
        let hop = hop_of(receiver)?;
        match hop.engine == self.engine || hop.address.port() == 0 {
            true => Err(Failure::usage(format!(
                "{}@{} can be no next hop",
                hop.engine, hop.address
            ))
            .with_hint("a next hop is another engine, with the port at which it listens")),
            false => Ok(hop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_names_both_engines() {
        let route = parse_route("3=2@192.0.2.1:5").unwrap();
        assert_eq!(
            (route.to, route.hop.engine, route.hop.port),
            (3, Some(2), 5)
        );
        for text in ["3", "3=192.0.2.1", "x=2@192.0.2.1", "=2@h", "3=2@"] {
            assert!(parse_route(text).is_err(), "{text}");
        }
    }
}
