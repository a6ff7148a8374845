//! `dhow ltp encapsulate`: LTP in encapsulation packets, for peers that have it in a stream.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;
use dhow_daemon::encapsulating::{EncapsulateError, End, Joint, Told};
use dhow_daemon::streams::listener::ListenError;
use serde_json::json;

use super::recv::address;
use super::way::PORT;
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::interrupt;
use crate::output::{self, Form};
use crate::quantity;
use crate::socket_address::hint_of_bind;

const AFTER_HELP: &str = "\
A STREAM is tcp:HOST:PORT, tcp-listen:HOST:PORT, unix:PATH or unix-listen:PATH.

Examples:
  dhow ltp encapsulate --listen 127.0.0.1:2113 tcp:192.0.2.3:4700
  dhow ltp encapsulate --listen 127.0.0.1:2113 unix:/run/hdtn/in.sock --to-senders unix-listen:/run/hdtn/out.sock";

/// Join datagrams of LTP with streams of encapsulation packets (CCSDS 133.1)
///
/// For peers that have LTP in a stream: HDTN over Unix sockets, ground stations over TCP. The link of a node, or `dhow ltp send`, has the address of --listen in the place of its peer's. Each datagram is a packet; what a stream does not take is lost as it might be over UDP, and LTP sends it again. A stream that ends is connected again. Ctrl-C ends it, and prints what passed.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Encapsulate {
    /// The stream to the peer
    #[arg(value_name = "STREAM")]
    stream: String,
    /// Another stream for segments to senders of blocks: reports, mostly. HDTN has an engine for each direction, each with a stream of its own
    #[arg(long, value_name = "STREAM")]
    to_senders: Option<String>,
    /// The address at which datagrams of the node are taken: HOST or HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    listen: String,
    /// The address of the node, or of `dhow ltp`, for what comes from the peer; datagrams of other hosts are dropped
    #[arg(long, value_name = "ADDRESS", default_value_t = format!("127.0.0.1:{PORT}"))]
    to: String,
}

impl Encapsulate {
    /// Carries packets until Ctrl-C.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let ends = std::iter::once(&self.stream).chain(&self.to_senders);
        let ends: Vec<End> = ends.map(|it| end_of(it)).collect::<Result<_, _>>()?;
        let (listen, node) = (address(&self.listen)?, address(&self.to)?);
        let joint = Joint::open(listen, node, ends).map_err(|error| failed(&error))?;
        let local = joint.local().unwrap_or(listen);
        match common.form() {
            Form::Json => output::json(&json!({"listening": local.to_string()}))?,
            Form::Text => output::line(&format!("listening at {local}"))?,
        }
        let form = common.form();
        joint.run(&|| !interrupt::is_requested(), &|told| {
            // A reader that is gone does not matter to the streams.
            let _ = tell(form, &told);
        });
        let tally = joint.tally();
        let [out, arrived, lost, ignored] =
            [&tally.out, &tally.arrived, &tally.lost, &tally.ignored]
                .map(|it| it.load(Ordering::Relaxed));
        match form {
            Form::Json => output::json(&json!({
                "packets_out": out, "packets_in": arrived, "lost": lost, "ignored": ignored,
            }))?,
            Form::Text => output::line(&format!(
                "{} packets out, {} in, {} lost for want of a stream or its room, {} datagrams ignored",
                quantity::thousands(out),
                quantity::thousands(arrived),
                quantity::thousands(lost),
                quantity::thousands(ignored)
            ))?,
        }
        Ok(Ending::Interrupted)
    }
}

/// A stream that comes or goes, in a line.
fn tell(form: Form, told: &Told<'_>) -> Result<(), Failure> {
    let (end, state, reason) = match told {
        Told::Up(end) => (end, "up", None),
        Told::Down(end, why) => (end, "down", Some(*why)),
    };
    match form {
        Form::Json => output::json(&json!({
            "stream": end.to_string(), "state": state, "reason": reason,
        })),
        Form::Text => output::line(&match reason {
            None => format!("{end} is up"),
            Some(why) => format!("{end} is down: {why}"),
        }),
    }
}

/// A stream's end, as it is written.
fn end_of(text: &str) -> Result<End, Failure> {
    let wrong = || {
        let what = format!("'{text}' is no stream");
        let hint = "tcp:HOST:PORT, tcp-listen:HOST:PORT, unix:PATH and unix-listen:PATH are";
        Failure::usage(what).with_hint(hint)
    };
    match text.split_once(':').filter(|(_, rest)| !rest.is_empty()) {
        Some(("tcp", rest)) if rest.contains(':') => address(rest).map(End::Tcp),
        Some(("tcp-listen", rest)) if rest.contains(':') => address(rest).map(End::TcpListen),
        Some(("unix", path)) => Ok(End::Unix(PathBuf::from(path))),
        Some(("unix-listen", path)) => Ok(End::UnixListen(PathBuf::from(path))),
        _ => Err(wrong()),
    }
}

fn failed(error: &EncapsulateError) -> Failure {
    let hint = match error {
        EncapsulateError::Datagrams(_, cause) => hint_of_bind(cause, "--listen"),
        EncapsulateError::Listen(End::UnixListen(_), _) => {
            "look whether its directory is there and writable".to_owned()
        }
        EncapsulateError::Socket(cause) => match cause {
            ListenError::InUse { .. } => "end that program, or name another path".to_owned(),
            ListenError::InTheWay { .. } => "remove the file, or name another path".to_owned(),
            _ => "look whether its directory is there and writable".to_owned(),
        },
        EncapsulateError::Listen(_, cause) => hint_of_bind(cause, "the stream"),
    };
    Failure::refused(error.to_string()).with_hint(hint)
}
