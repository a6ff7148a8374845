//! `dhow collect`: measurements of many programs into a database.

mod bundles;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;
use dhow_bundle::EndpointId;
use dhow_measure::collector::{
    Collector, CollectorError, Notice, Outcome, Place, Report, StreamReport, Terms,
};
use serde_json::{Map, Value, json};

use self::bundles::Parcels;
use crate::arguments::{Common, parse_duration};
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::quantity;
use crate::table::{Align, Table};
use crate::token::read_token;

const AFTER_HELP: &str = "\
Example:
  dhow collect --db run.sq3
  OML_COLLECT=tcp:127.0.0.1:3003 OML_DOMAIN=run otg2 …
  dhow collect --db far.sq3 --endpoint ipn:9.3003      # what nodes send there with collect = bundles:ipn:9.3003
Programs speak OMSP (OML's protocol, versions 1 to 5); docs/measurement.md has it, and the tables.";

/// Store the measurements of other programs in a database
///
/// Takes clients until Ctrl-C, then stores what has come and ends with 0. The first line on stdout says where it listens, the last what was stored, refused and missing.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Collect {
    /// Address and port to listen at
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:3003")]
    listen: String,
    /// Also take measurements in bundles, at this endpoint of the node (--node); every sender is accepted, without a token
    #[arg(long, value_name = "EID")]
    endpoint: Option<EndpointId>,
    /// Store all domains in one database: a SQLite file or postgresql://USER@HOST/NAME
    #[arg(long, value_name = "DATABASE", conflicts_with = "dir")]
    db: Option<String>,
    /// Store each domain in a SQLite file of its own, DIR/DOMAIN.sq3
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// A file with a token that clients must say in a header line `token: …`
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Accept clients of other machines without a token
    #[arg(long, conflicts_with = "token")]
    open: bool,
    /// Time after which a silent client is disconnected
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    idle: Duration,
    /// Clients at a time, at most
    #[arg(long, value_name = "NUMBER", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    clients: u32,
}

impl Collect {
    /// Collects until it is interrupted.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let listener = self.listener()?;
        let terms = Terms {
            token: self.token.as_deref().map(read_token).transpose()?,
            idle: self.idle,
            clients_max: usize::try_from(self.clients).unwrap_or(usize::MAX),
            ..Terms::default()
        };
        // Rows that come last are committed, however long that takes.
        interrupt::allow_longer();
        let progress = Arc::new(Progress::words("collecting"));
        let tell = {
            let progress = Arc::clone(&progress);
            Arc::new(move |notice| progress.note(&words_of(&notice)))
        };
        let collector = Collector::start(listener, self.place()?, terms, tell).map_err(failed)?;
        let parcels = match &self.endpoint {
            None => None,
            Some(endpoint) => {
                let intake = collector.intake();
                let progress = Arc::clone(&progress);
                let parcels = Parcels::begin(endpoint.clone(), common, intake, progress)?;
                Some(std::thread::spawn(move || parcels.run()))
            }
        };
        self.say_ready(common, collector.address())?;
        let began = Instant::now();
        let has_ended = || parcels.as_ref().is_some_and(JoinHandle::is_finished);
        while !interrupt::is_requested() && !has_ended() {
            std::thread::sleep(interrupt::LOOK);
            let figures = collector.figures();
            progress.words_now(format!(
                "{} clients, {} rows, {} rejected, {} rows/s",
                figures.clients(),
                quantity::thousands(figures.rows()),
                quantity::thousands(figures.rejected()),
                quantity::per_second(figures.rows(), began.elapsed()),
            ));
        }
        // Parcels that were taken are stored, and confirmed, before the collector ends; those that wait for a database that is away stay at the node.
        collector.begin_stop();
        let received = match parcels.map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(received)) => received,
            Some(Err(_)) => Err(Failure::refused("the receiving thread failed")),
        };
        let outcome = collector.stop().map_err(failed)?;
        progress.finish();
        tell_outcome(common, &outcome)?;
        match outcome.lost {
            None => received.map(|()| Ending::Done),
            Some((rows, error)) => Err(Failure::refused(format!(
                "cannot store the last {rows} rows: {error}"
            ))),
        }
    }

    fn listener(&self) -> Result<TcpListener, Failure> {
        let wrong = |error: std::io::Error| {
            Failure::refused(format!("cannot listen on {}: {error}", self.listen))
        };
        let places: Vec<SocketAddr> = self.listen.to_socket_addrs().map_err(wrong)?.collect();
        let is_here = places.iter().all(|place| place.ip().is_loopback());
        if !is_here && self.token.is_none() && !self.open {
            return Err(Failure::usage(format!(
                "{} can be reached from other machines, and anybody there could store",
                self.listen
            ))
            .with_hint("--token FILE asks clients for a token, --open takes them all"));
        }
        TcpListener::bind(places.as_slice()).map_err(wrong)
    }

    fn say_ready(&self, common: &Common, address: SocketAddr) -> Result<(), Failure> {
        let endpoint = self.endpoint.as_ref().map(ToString::to_string);
        match (common.form(), endpoint) {
            (Form::Json, None) => {
                output::json(&json!({"ready": true, "listen": address.to_string()}))
            }
            (Form::Json, Some(endpoint)) => output::json(
                &json!({"ready": true, "listen": address.to_string(), "endpoint": endpoint}),
            ),
            (Form::Text, None) => output::line(&format!("ready: collecting on tcp:{address}")),
            (Form::Text, Some(endpoint)) => output::line(&format!(
                "ready: collecting on tcp:{address} and at {endpoint}"
            )),
        }
    }

    fn place(&self) -> Result<Place, Failure> {
        Ok(match &self.db {
            None => Place::Directory(self.dir.clone()),
            Some(url) if url.starts_with("postgresql:") || url.starts_with("postgres:") => {
                if !cfg!(feature = "postgres") {
                    let what = "cannot collect into PostgreSQL: this program was built without the feature 'postgres'";
                    return Err(Failure::usage(what).with_hint(
                        "build it with `cargo build --features postgres`, or name a file",
                    ));
                }
                Place::Postgres(url.clone())
            }
            Some(path) => Place::File(path.into()),
        })
    }
}

fn failed(error: CollectorError) -> Failure {
    Failure::refused(format!("cannot collect: {error}"))
}

fn words_of(notice: &Notice) -> String {
    match notice {
        Notice::Refused { peer, reason } => format!("{peer} was refused: {reason}"),
        Notice::Away { reason } => {
            format!("the database takes nothing, so clients wait: {reason}")
        }
        Notice::Unstored {
            stream,
            sender,
            reason,
        } => {
            format!("the database does not take rows of {stream} from {sender}: {reason}")
        }
        Notice::Back => "the database takes rows again; none was lost".to_owned(),
    }
}

fn tell_outcome(common: &Common, outcome: &Outcome) -> Result<(), Failure> {
    match common.form() {
        Form::Json => output::json(&json!({"streams": report_json(&outcome.report)})),
        Form::Text => output::text(&report_text(&outcome.report)),
    }
}

fn report_json(report: &Report) -> Vec<Value> {
    let rejected = |stream: &StreamReport| -> Map<String, Value> {
        let each = stream.rejected.iter();
        each.map(|(reason, count)| (reason.word().to_owned(), json!(count)))
            .collect()
    };
    report
        .iter()
        .map(|(name, stream)| {
            json!({
                "domain": name.domain,
                "sender": name.sender,
                "stream": name.stream,
                "rows": stream.received,
                "rejected": stream.rejected_total(),
                "reasons": rejected(stream),
                "gaps": stream.gaps,
                "missing": stream.missing,
                "repeated": stream.repeated,
            })
        })
        .collect()
}

fn report_text(report: &Report) -> String {
    let mut table = Table::new(&[
        ("DOMAIN", Align::Left),
        ("SENDER", Align::Left),
        ("STREAM", Align::Left),
        ("ROWS", Align::Right),
        ("REJECTED", Align::Right),
        ("MISSING", Align::Right),
        ("REPEATED", Align::Right),
        ("REASONS", Align::Left),
    ]);
    for (name, stream) in report {
        let reasons = stream.rejected.iter();
        let reasons: Vec<String> = reasons
            .map(|(reason, count)| format!("{} {count}", reason.word()))
            .collect();
        table.push(vec![
            name.domain.clone(),
            name.sender.clone(),
            name.stream.clone(),
            quantity::thousands(stream.received),
            quantity::thousands(stream.rejected_total()),
            quantity::thousands(stream.missing),
            quantity::thousands(stream.repeated),
            reasons.join(", "),
        ]);
    }
    match table.is_empty() {
        true => "nothing was collected\n".to_owned(),
        false => table.render(0),
    }
}
