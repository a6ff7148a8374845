//! `dhow ltp recv`: blocks into files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use dhow_daemon::ltp_files::receiver::{self, About, End, Settings, Told, Watch};
use dhow_daemon::ltp_files::{MAX_FILE_OCTETS, hops};
use serde_json::json;

use super::hops::{Speaker, check_mtu, hop_of};
use super::send::{Receiver, parse_address, parse_receiver};
use super::way::{PORT, WayOptions, seed};
use crate::arguments::{Common, parse_duration, parse_number, parse_size};
use crate::failure::{Ending, Failure};
use crate::file_name::shown;
use crate::interrupt;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::quantity;
use crate::socket_address::{hint_of_bind, resolve};

/// Sessions of an engine that are open at a time, at most.
const SESSIONS_MAX: u64 = 65_536;

const AFTER_HELP: &str = "\
Example:
  dhow ltp recv --listen 0.0.0.0:1113 --out inbox --light-time 4min --count 1";

/// Receive blocks of LTP as files
///
/// Needs no node. A file is named ltp-ENGINE-SESSION by the sender's engine and session number, and gets its name once it is whole and durable: only then does its sender hear that all of it is there. The first line on stdout says where it listens. Ctrl-C cancels what is under way, of which nothing is kept.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Recv {
    /// The address to listen at: HOST or HOST:PORT
    #[arg(long, value_name = "ADDRESS", default_value_t = format!("0.0.0.0:{PORT}"))]
    listen: String,
    /// The address to send answers to, if it is not the one that segments come from: HOST or HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    reply: Option<String>,
    /// Engines that may send, by their IDs; several may be given [default: all]
    #[arg(long, value_name = "N", value_parser = parse_number)]
    from: Vec<u64>,
    /// The engine ID here: also take files of `dhow ltp send --to` that are for it, from any engine and over any hops
    #[arg(long, value_name = "N", value_parser = parse_number, conflicts_with_all = ["reply", "from"])]
    engine: Option<u64>,
    /// The next hop of reports [default: the hop that the file came from]
    #[arg(long, value_name = "ENGINE@HOST:PORT", value_parser = parse_receiver, requires = "engine")]
    via: Option<Receiver>,
    /// The directory of files
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// End after this many files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End with exit code 1 when nothing of a file has come for this long
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    timeout: Option<Duration>,
    /// Give up a file of which nothing has come for this long; at least four round trips
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10min")]
    silence: Duration,
    /// Octets of the largest file that is taken
    #[arg(long, value_name = "SIZE", value_parser = parse_largest, default_value = "1TiB")]
    largest: u64,
    /// Sessions of an engine that may be open at a time
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=SESSIONS_MAX))]
    sessions: u64,
    #[command(flatten)]
    way: WayOptions,
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => {
            Err("it would end at once: without --timeout it waits for ever".to_owned())
        }
        timeout => Ok(timeout),
    }
}

fn parse_largest(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        octets if octets > MAX_FILE_OCTETS => Err("a block has at most 1 TiB".to_owned()),
        octets => Ok(octets),
    }
}

impl Recv {
    /// Receives until all files came.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let listen = address(&self.listen)?;
        fs::create_dir_all(&self.out).map_err(|error| {
            Failure::refused(format!(
                "cannot use directory {}: {error}",
                shown(&self.out)
            ))
            .with_hint("--out names a directory that is there, or can be made")
        })?;
        receiver::probe(&self.out).map_err(|error| {
            Failure::refused(format!(
                "cannot write into directory {}: {error}",
                shown(&self.out)
            ))
            .with_hint("--out names a directory that this user may write into")
        })?;
        if let Some(engine) = self.engine {
            return self.run_as(engine, listen, common.form());
        }
        let settings = Settings {
            listen,
            reply: self.reply.as_deref().map(address).transpose()?,
            from: self.from.clone(),
            way: self.way.way(self.silence),
            directory: self.out.clone(),
            largest: self.largest,
            sessions: usize::try_from(self.sessions).unwrap_or(usize::MAX),
            count: self.count,
            timeout: self.timeout,
            key: self.way.key()?,
            seed: seed()?,
        };
        let mut reception = Reception {
            form: common.form(),
            received: 0,
            progress: Progress::words("receiving"),
            told: (0, Duration::ZERO),
            began: std::time::Instant::now(),
            failure: None,
        };
        let end = receiver::receive(settings, &mut reception);
        reception.progress.finish();
        if let Some(failure) = reception.failure {
            return Err(failure);
        }
        let end = end.map_err(|error| cannot_receive(listen, &error))?;
        match end {
            End::Count => Ok(Ending::Done),
            End::Stopped => Ok(Ending::Interrupted),
            End::Silence => Err(self.silent(reception.received)),
        }
    }
}

impl Recv {
    /// Receives as an engine that is a hop among others.
    fn run_as(&self, engine: u64, listen: SocketAddr, form: Form) -> Result<Ending, Failure> {
        check_mtu(&self.way)?;
        let settings = hops::Settings {
            listen,
            engine,
            work: hops::Work::Receive {
                count: self.count,
                timeout: self.timeout,
            },
            routes: BTreeMap::new(),
            default: self.via.as_ref().map(hop_of).transpose()?,
            directory: self.out.clone(),
            blocks: usize::try_from(self.sessions).unwrap_or(usize::MAX),
            disk_octets: u64::MAX,
            largest: self.largest,
            way: self.way.way(self.silence),
            key: self.way.key()?,
            seed: seed()?,
        };
        let mut speaker = Speaker::new(form);
        let end = hops::run(settings, &mut speaker);
        if let Some(failure) = speaker.failure {
            return Err(failure);
        }
        let end = end.map_err(|error| cannot_receive(listen, &error))?;
        match end {
            hops::End::Done | hops::End::Failed => Ok(Ending::Done),
            hops::End::Stopped => Ok(Ending::Interrupted),
            hops::End::Silence => Err(self.silent(speaker.received)),
        }
    }

    fn silent(&self, files: u64) -> Failure {
        let silence = self.timeout.map(quantity::elapsed).unwrap_or_default();
        Failure::refused(format!(
            "received {files} files: nothing came for {silence}"
        ))
        .with_hint("--timeout says how long is waited; notes say what came and was not taken")
    }
}

fn cannot_receive(listen: SocketAddr, error: &io::Error) -> Failure {
    Failure::refused(format!("cannot receive at {listen}: {error}"))
        .with_hint(hint_of_bind(error, "--listen"))
}

/// An address to listen at.
pub fn address(text: &str) -> Result<SocketAddr, Failure> {
    let (host, port) = parse_address(text, PORT).map_err(|why| {
        Failure::usage(format!("'{text}' is no address: {why}"))
            .with_hint("an address is HOST or HOST:PORT: 192.0.2.3:1113, [2001:db8::3]:1113")
    })?;
    resolve(&host, port)
}

struct Reception {
    form: Form,
    received: u64,
    progress: Progress,
    /// Octets that had come, and when.
    told: (u64, Duration),
    began: std::time::Instant,
    /// The output cannot be written.
    failure: Option<Failure>,
}

impl Watch for Reception {
    fn is_over(&self) -> bool {
        self.failure.is_some() || interrupt::is_requested()
    }

    fn hear(&mut self, told: Told) {
        let said = match told {
            Told::Listening(at) => self.listens(at),
            Told::Note(what) => {
                self.progress.note(&what);
                Ok(())
            }
            Told::Received(about, path) => {
                self.received = self.received.saturating_add(1);
                self.progress.hide(|| self.say(&about, Ok(&path)))
            }
            Told::Lost(about, why) => {
                let why = why.to_string();
                self.progress.hide(|| self.say(&about, Err(&why)))
            }
            Told::Progress(octets, known, files) => {
                self.show(octets, known, files);
                Ok(())
            }
        };
        if let Err(failure) = said {
            self.failure = Some(failure);
        }
    }
}

impl Reception {
    fn listens(&self, at: SocketAddr) -> Result<(), Failure> {
        match self.form {
            Form::Json => output::json(&json!({ "listening": at.to_string() })),
            Form::Text => output::line(&format!("listening at {at}")),
        }
    }

    /// The rate since a while ago, and the time in which the rest of what is known to come is here at that rate.
    fn show(&mut self, octets: u64, known: u64, files: usize) {
        let now = self.began.elapsed();
        let (before, then) = self.told;
        let (more, time) = (octets.saturating_sub(before), now.saturating_sub(then));
        if time < Duration::from_secs(1) {
            return;
        }
        self.told = (octets, now);
        let rest = known.saturating_sub(octets);
        let left = match more {
            0 => "-".to_owned(),
            more => {
                let nanos = time.as_nanos().saturating_mul(rest.into()) / u128::from(more);
                let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
                quantity::elapsed(Duration::from_nanos(nanos))
            }
        };
        self.progress.words_now(format!(
            "{files} files under way, {} of {}, {}, {left} left",
            quantity::size(octets),
            quantity::size(known),
            quantity::rate(more, time),
        ));
    }

    fn say(&self, about: &About, file: Result<&Path, &str>) -> Result<(), Failure> {
        if self.form == Form::Json {
            return output::json(&json!({
                "file": file.ok().map(|it| it.to_string_lossy()),
                "state": if file.is_ok() { "received" } else { "failed" },
                "reason": file.err(),
                "octets": about.octets,
                "seconds": about.time.as_secs_f64(),
                "engine": about.engine,
                "session": about.session,
                "from": about.from.to_string(),
            }));
        }
        match file {
            Ok(path) => output::line(&format!(
                "{}: {} in {}, {}, from engine {} at {}",
                shown(path),
                quantity::size(about.octets),
                quantity::elapsed(about.time),
                quantity::bit_rate(about.octets, about.time),
                about.engine,
                about.from
            )),
            Err(why) => {
                output::talk(&format!(
                    "session {} of engine {} at {}: {why}",
                    about.session, about.engine, about.from
                ));
                Ok(())
            }
        }
    }
}
