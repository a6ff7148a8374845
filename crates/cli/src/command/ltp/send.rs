//! `dhow ltp send`: files as blocks.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use dhow_daemon::ltp_files::sender::{self, About, Fate, MAX_FILES_SENT, Settings, Told, Watch};
use dhow_link::ltp::Red;
use serde_json::json;

use super::far::{self, FarOptions, Near};
use super::hints::hint;
use super::pace::Pace;
use super::way::{PORT, WayOptions, seed};
use crate::arguments::{Common, parse_number, parse_size};
use crate::failure::{Ending, Failure};
use crate::file_name::shown;
use crate::interrupt;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::quantity;
use crate::socket_address::{hint_of_bind, local_for, resolve};

/// Time after which a session is given up in which the receiver says nothing and nothing else is waited for.
const SILENCE: Duration = Duration::from_secs(600);

const USAGE: &str = "dhow ltp send [OPTIONS] <FILE>... <ENGINE@HOST:PORT>";

const AFTER_HELP: &str = "\
Example:
  dhow ltp send scan.img 3@192.0.2.3 --rate 8Mbit --light-time 4min";

/// Send files to an engine of LTP, each as a block
///
/// Needs no node, and no bundles are made. A file that is all red is done when the receiver has reported all of it; `dhow ltp recv` reports it once it is durable. LTP has no congestion control: the path must take --rate. Ctrl-C cancels what is under way.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, override_usage = USAGE)]
pub struct Send {
    /// Files, none of them empty, and behind them the receiver: [ENGINE@]HOST[:PORT]. The engine ID is only shown in the output, since segments carry only the sender's
    // One list, since options may stand between the last file and the receiver.
    #[arg(value_name = "FILE>... <ENGINE@HOST:PORT", required = true)]
    words: Vec<OsString>,
    /// The engine ID here, by which the receiver knows the sender
    #[arg(long, value_name = "N", value_parser = parse_number, default_value_t = 1)]
    engine: u64,
    /// The part of each file that is acknowledged, and sent again where it is lost: all, none, or octets from its start
    #[arg(long, value_name = "PART", value_parser = parse_red, default_value = "all")]
    red: RedPart,
    /// The address to send from: HOST or HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    #[command(flatten)]
    far: FarOptions,
    #[command(flatten)]
    way: WayOptions,
}

/// An engine and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    pub engine: Option<u64>,
    pub host: String,
    pub port: u16,
}

/// The part of a file that is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RedPart(Red);

/// An engine and its address, as they are written.
pub fn parse_receiver(text: &str) -> Result<Receiver, String> {
    let (engine, address) = match text.split_once('@') {
        Some((engine, address)) => (Some(parse_number(engine)?), address),
        None => (None, text),
    };
    match parse_address(address, PORT)? {
        (_, 0) => Err("nobody listens at port 0".to_owned()),
        (host, port) => Ok(Receiver { engine, host, port }),
    }
}

/// A host and a port, or the usual one where there is none.
pub fn parse_address(text: &str, usual: u16) -> Result<(String, u16), String> {
    let is_bare_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !is_bare_v6 && !port.ends_with(']') => {
            let port = port.parse().map_err(|_| format!("'{port}' is no port"))?;
            (host, port)
        }
        _ => (text, usual),
    };
    match host {
        "" => Err("there is no host".to_owned()),
        host => Ok((host.to_owned(), port)),
    }
}

fn parse_red(text: &str) -> Result<RedPart, String> {
    Ok(RedPart(match text {
        "all" => Red::All,
        "none" => Red::None,
        text => Red::Octets(parse_size(text)?),
    }))
}

impl Send {
    /// Sends all files.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let key = self.way.key()?;
        let (files, receiver) = self.files_and_receiver()?;
        let to = resolve(&receiver.host, receiver.port)?;
        let from = match &self.bind {
            None => local_for(None, 0, to)?,
            Some(text) => {
                let (host, port) = parse_address(text, 0)
                    .map_err(|why| Failure::usage(format!("cannot send from {text}: {why}")))?;
                local_for(Some(&host), port, to)?
            }
        };
        let total = total_of(&files)?;
        if let Some(engine) = self.far.far {
            let near = Near {
                files: &files,
                receiver: &receiver,
                engine: self.engine,
                red: self.red.0,
                from,
                way: &self.way,
                silence: SILENCE,
                form: common.form(),
                total,
            };
            return far::send(&near, engine, &self.far);
        }
        let settings = Settings {
            from,
            to,
            engine: self.engine,
            red: self.red.0,
            way: self.way.way(SILENCE),
            key,
            seed: seed()?,
        };
        let mut sending = Sending {
            command: self,
            files: &files,
            to_engine: receiver.engine,
            form: common.form(),
            to,
            pace: Pace::new(total, &self.way),
            progress: Progress::stretch(total, "sending".to_owned()),
            failure: None,
        };
        let sent = sender::send(settings, &files, &mut sending);
        sending.progress.finish();
        if let Some(failure) = sending.failure {
            return Err(failure);
        }
        let is_whole = sent.map_err(|error| {
            Failure::refused(format!("cannot send from {from} to {to}: {error}"))
                .with_hint(hint_of_bind(&error, "--bind"))
        })?;
        match is_whole {
            true => Ok(Ending::Done),
            false if interrupt::is_requested() => Ok(Ending::Interrupted),
            false => Ok(Ending::Incomplete),
        }
    }

    /// The files, and the receiver behind them.
    fn files_and_receiver(&self) -> Result<(Vec<PathBuf>, Receiver), Failure> {
        let (last, files) = match self.words.split_last() {
            Some((last, files)) if !files.is_empty() => (last.to_string_lossy(), files),
            _ => {
                let what = "files and a receiver are needed, and there is one word";
                return Err(Failure::usage(what).with_hint(USAGE));
            }
        };
        let receiver = parse_receiver(&last).map_err(|why| {
            Failure::usage(format!("'{last}' is no receiver: {why}"))
                .with_hint(format!("the receiver is the last word: {USAGE}"))
        })?;
        Ok((files.iter().map(PathBuf::from).collect(), receiver))
    }
}

/// Octets of all files, each of which can be sent.
fn total_of(files: &[PathBuf]) -> Result<u64, Failure> {
    if files.len() > MAX_FILES_SENT {
        let what = format!("there are more than {MAX_FILES_SENT} files");
        return Err(Failure::usage(what).with_hint("send them in several commands"));
    }
    let mut total = 0_u64;
    for path in files {
        let (_, octets) = sender::open(path).map_err(|why| {
            let text = path.to_string_lossy();
            let is_receiver = text.contains('@') && parse_receiver(&text).is_ok();
            Failure::refused(format!("cannot send {}: {why}", shown(path))).with_hint(
                match is_receiver && !path.exists() {
                    true => "the receiver is the last word, behind all files",
                    false => why.hint(),
                },
            )
        })?;
        total = total.saturating_add(octets);
    }
    Ok(total)
}

struct Sending<'a> {
    command: &'a Send,
    files: &'a [PathBuf],
    to_engine: Option<u64>,
    form: Form,
    to: SocketAddr,
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
            Told::From(_) => {}
            Told::Note(what) => self.progress.note(&what),
            Told::Ended(about, fate) => {
                if let Err(failure) = self.progress.hide(|| self.say(&about, &fate)) {
                    self.failure = Some(failure);
                }
            }
            Told::Progress(sent, claimed) => {
                self.pace.show(&self.progress, sent, claimed);
            }
        }
    }
}

impl Sending<'_> {
    fn say(&self, about: &About, fate: &Fate) -> Result<(), Failure> {
        let Some(path) = self.files.get(about.number) else {
            return Ok(());
        };
        let (state, why) = match fate {
            Fate::Acknowledged => ("acknowledged", None),
            Fate::Sent => ("sent", None),
            Fate::Failed(why) => ("failed", Some(why)),
        };
        let hint = why.and_then(|why| hint(why, self.command.way.key_file()));
        let why = why.map(ToString::to_string);
        if self.form == Form::Json {
            return output::json(&json!({
                "file": path.to_string_lossy(),
                "state": state,
                "reason": why,
                "hint": hint,
                "octets": about.octets,
                "seconds": about.time.as_secs_f64(),
                "engine": self.command.engine,
                "session": about.session,
                "to": self.to.to_string(),
                "to_engine": self.to_engine,
            }));
        }
        let path = shown(path);
        match why {
            Some(why) => {
                output::talk(&format!("{path}: {why}"));
                if let Some(hint) = hint {
                    output::hint(hint);
                }
                Ok(())
            }
            None => output::line(&format!(
                "{path}: {state}, {} in {}, {}, session {}",
                quantity::size(about.octets),
                quantity::elapsed(about.time),
                quantity::bit_rate(about.octets, about.time),
                about.session.unwrap_or(0)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_an_address_with_or_without_engine_and_port() {
        for (text, engine, host, port) in [
            ("3@192.0.2.3:1114", Some(3), "192.0.2.3", 1114),
            ("3@192.0.2.3", Some(3), "192.0.2.3", 1113),
            ("host", None, "host", 1113),
            ("[::1]:5", None, "[::1]", 5),
            ("7@::1", Some(7), "::1", 1113),
            ("[::1]", None, "[::1]", 1113),
        ] {
            let host = host.to_owned();
            assert_eq!(
                parse_receiver(text),
                Ok(Receiver { engine, host, port }),
                "{text}"
            );
        }
        for text in ["x@host", "host:x", ":5", "3@", "host:70000", "3@host:0"] {
            assert!(parse_receiver(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_red_part_is_all_none_or_octets() {
        assert_eq!(parse_red("10kB"), Ok(RedPart(Red::Octets(10_000))));
        assert_eq!(parse_red("all"), Ok(RedPart(Red::All)));
        assert!(parse_red("some").is_err());
    }
}
