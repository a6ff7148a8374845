//! `dhow ltp send --to`: files to an engine that is several hops away.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use dhow_daemon::ltp_files::MAX_FILE_OCTETS;
use dhow_daemon::ltp_files::hops::{
    self, End, Hop, Order, Outcome, Settings, Told, Watch, What, Work,
};
use dhow_link::ltp::{EndToEnd, Red, Service};
use serde_json::json;

use super::hints::hint;
use super::hops::{check_mtu, hop_of, status_word};
use super::pace::Pace;
use super::send::Receiver;
use super::way::{WayOptions, seed};
use crate::arguments::{parse_lifetime, parse_number};
use crate::failure::{Ending, Failure};
use crate::file_name::shown;
use crate::interrupt;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::quantity;
use crate::socket_address::hint_of_bind;

/// Files of one command: all of them are open.
const MAX_FILES: usize = 256;

/// The options of files that cross several hops.
#[derive(Args, Clone, Debug)]
pub struct FarOptions {
    /// The engine that the files are for, by way of the receiver, which is `dhow ltp relay` or `dhow ltp recv --engine`: a profile of Dhow's own
    #[arg(id = "far", long = "to", value_name = "ENGINE[/SERVICE]", value_parser = parse_service)]
    pub far: Option<Far>,
    /// Time for which the files are of use on their way, with --to
    #[arg(long, value_name = "DURATION", value_parser = parse_lifetime, default_value = "1d", requires = "far")]
    lifetime: Duration,
    /// Hops that the files may make, with --to
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..), requires = "far")]
    hops: u8,
    /// Ask the far engine for a report of each file, and wait for it, with --to
    #[arg(long, requires = "far")]
    report: bool,
}

/// A far engine and its client service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far {
    engine: u64,
    service: Option<u64>,
}

fn parse_service(text: &str) -> Result<Far, String> {
    let (engine, service) = match text.split_once('/') {
        Some((engine, service)) => (engine, Some(parse_number(service)?)),
        None => (text, None),
    };
    let engine = parse_number(engine)?;
    Ok(Far { engine, service })
}

/// The part of the command that is the same for near engines.
pub struct Near<'a> {
    pub files: &'a [PathBuf],
    pub receiver: &'a Receiver,
    pub engine: u64,
    pub red: Red,
    pub from: SocketAddr,
    pub way: &'a WayOptions,
    pub silence: Duration,
    pub form: Form,
    /// Octets of all files.
    pub total: u64,
}

/// Sends all files to a far engine.
pub fn send(near: &Near<'_>, far: Far, options: &FarOptions) -> Result<Ending, Failure> {
    check_mtu(near.way)?;
    if near.files.len() > MAX_FILES {
        let what =
            format!("there are more than {MAX_FILES} files, and --to sends no more at a time");
        return Err(Failure::usage(what).with_hint("send them in several commands"));
    }
    let hop = hop_of(near.receiver)?;
    let way = near.way.way(near.silence);
    let first = seed()? >> 16;
    let orders = near
        .files
        .iter()
        .zip(first..)
        .map(|(path, transfer)| Order {
            path: path.clone(),
            red: near.red,
            end_to_end: EndToEnd {
                source: Service {
                    engine: near.engine,
                    service: way.service,
                },
                destination: Service {
                    engine: far.engine,
                    service: far.service.unwrap_or(way.service),
                },
                transfer,
                length: None,
                life_s: options.lifetime.as_secs().max(1),
                hops: options.hops,
                wants_report: options.report,
                is_report: false,
                is_congested: false,
            },
        });
    let orders: Vec<_> = orders.collect();
    let mut sending = Sending {
        near,
        far,
        hop,
        orders: orders.clone(),
        pace: Pace::new(near.total, near.way),
        progress: Progress::stretch(near.total, "sending".to_owned()),
        failure: None,
    };
    let settings = Settings {
        listen: near.from,
        engine: near.engine,
        work: Work::Send(orders),
        routes: BTreeMap::new(),
        default: Some(hop),
        // Reports are all that comes.
        directory: std::env::temp_dir(),
        blocks: 2 * MAX_FILES,
        disk_octets: 64 << 20,
        largest: MAX_FILE_OCTETS,
        way,
        key: near.way.key()?,
        seed: seed()?,
    };
    let end = hops::run(settings, &mut sending);
    sending.progress.finish();
    if let Some(failure) = sending.failure {
        return Err(failure);
    }
    let end = end.map_err(|error| {
        let (from, to) = (near.from, hop.address);
        Failure::refused(format!("cannot send from {from} to {to}: {error}"))
            .with_hint(hint_of_bind(&error, "--bind"))
    })?;
    match end {
        End::Done => Ok(Ending::Done),
        End::Failed | End::Silence => Ok(Ending::Incomplete),
        End::Stopped => Ok(Ending::Interrupted),
    }
}

struct Sending<'a> {
    near: &'a Near<'a>,
    far: Far,
    hop: Hop,
    orders: Vec<Order>,
    pace: Pace,
    progress: Progress,
    /// The output cannot be written.
    failure: Option<Failure>,
}

impl Watch for Sending<'_> {
    fn is_over(&self) -> bool {
        self.failure.is_some() || interrupt::is_requested()
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Block(about, What::Retried(why)) => {
                let transfer = about.end_to_end.map_or(0, |of| of.transfer);
                let path = self.path_of(transfer);
                self.progress.note(&format!("{path} leaves again: {why}"));
            }
            Told::Listening(_) | Told::Block(..) => {}
            Told::Note(what) => self.progress.note(&what),
            Told::Progress(sent, claimed) => self.pace.show(&self.progress, sent, claimed),
            Told::Ended(outcome) => {
                if let Err(failure) = self.progress.hide(|| self.say(&outcome)) {
                    self.failure = Some(failure);
                }
            }
        }
    }
}

impl Sending<'_> {
    /// The path of the file that is a transfer.
    fn path_of(&self, transfer: u64) -> String {
        let mut orders = self.orders.iter();
        let order = orders.find(|order| order.end_to_end.transfer == transfer);
        order.map(|order| shown(&order.path)).unwrap_or_default()
    }

    fn say(&self, outcome: &Outcome) -> Result<(), Failure> {
        let Some(order) = self.orders.get(outcome.number) else {
            return Ok(());
        };
        let is_red = order.red.of(outcome.octets) == outcome.octets;
        let state = match (&outcome.failure, &outcome.end) {
            (Some(_), _) => "failed",
            (None, Some(_)) => "complete",
            (None, None) if is_red => "acknowledged",
            (None, None) => "sent",
        };
        let end = outcome.end.as_ref();
        let why = outcome.failure.as_ref();
        let hint = why.and_then(|why| hint(why, self.near.way.key_file()));
        let why = why.map(ToString::to_string);
        if self.near.form == Form::Json {
            return output::json(&json!({
                "file": order.path.to_string_lossy(),
                "state": state,
                "reason": why,
                "hint": hint,
                "octets": outcome.octets,
                "seconds": outcome.hop.map(|it| it.as_secs_f64()),
                "engine": self.near.engine,
                "session": outcome.session,
                "to": self.hop.address.to_string(),
                "to_engine": self.hop.engine,
                "destination": self.far.engine,
                "transfer": order.end_to_end.transfer,
                "report": end.map(|(report, time)| json!({
                    "status": status_word(report.status),
                    "seconds": time.as_secs_f64(),
                    "octets": report.claims.iter().map(|(_, length)| length).sum::<u64>(),
                })),
            }));
        }
        let path = shown(&order.path);
        if let Some(why) = why {
            output::talk(&format!("{path}: {why}"));
            if let Some(hint) = hint {
                output::hint(hint);
            }
            return Ok(());
        }
        let time = end.map(|(_, time)| *time).or(outcome.hop);
        output::line(&format!(
            "{path}: {state}, {} in {}, transfer {} to engine {}",
            quantity::size(outcome.octets),
            quantity::elapsed(time.unwrap_or_default()),
            order.end_to_end.transfer,
            self.far.engine,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_engine_may_have_a_service() {
        let far = |engine, service| Ok(Far { engine, service });
        assert_eq!(parse_service("3"), far(3, None));
        assert_eq!(parse_service("3/7"), far(3, Some(7)));
        assert!(parse_service("3/").is_err() && parse_service("/3").is_err());
    }
}
