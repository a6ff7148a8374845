//! Blocks over several hops: the words about them that commands of LTP share.

use std::net::SocketAddr;

use dhow_daemon::ltp_files::hops::{About, Hop, LEAST_MTU_OCTETS, Told, Watch, What};
use dhow_link::ltp::Status;
use serde_json::json;

use super::send::Receiver;
use super::way::WayOptions;
use crate::failure::Failure;
use crate::file_name::shown;
use crate::interrupt;
use crate::output::{self, Form};
use crate::quantity;
use crate::socket_address::resolve;

/// The address of a neighbour.
pub fn hop_of(receiver: &Receiver) -> Result<Hop, Failure> {
    let Some(engine) = receiver.engine else {
        return Err(Failure::usage(format!(
            "the engine at {} has no ID, and segments over several hops need it",
            receiver.host
        ))
        .with_hint("write it as ENGINE@HOST:PORT"));
    };
    let address = resolve(&receiver.host, receiver.port)?;
    Ok(Hop { engine, address })
}

/// Datagrams must have room for the extensions.
pub fn check_mtu(way: &WayOptions) -> Result<(), Failure> {
    match way.mtu() < LEAST_MTU_OCTETS {
        true => Err(Failure::usage(format!(
            "datagrams of {} octets have no room for the extensions of several hops",
            way.mtu()
        ))
        .with_hint(format!("--mtu {LEAST_MTU_OCTETS} or more"))),
        false => Ok(()),
    }
}

/// The word of a status.
pub const fn status_word(status: Status) -> &'static str {
    match status {
        Status::Complete => "complete",
        Status::Partial => "partial",
        Status::Expired => "expired",
        Status::NoRoute => "no route",
        Status::NoSpace => "no space",
        Status::TooLarge => "too large",
        Status::GivenUp => "given up",
    }
}

/// Writes what a relay or a receiver tells.
pub struct Speaker {
    pub form: Form,
    /// Files that came.
    pub received: u64,
    /// The output cannot be written.
    pub failure: Option<Failure>,
}

impl Speaker {
    pub const fn new(form: Form) -> Self {
        Self {
            form,
            received: 0,
            failure: None,
        }
    }

    fn listens(&self, at: SocketAddr) -> Result<(), Failure> {
        match self.form {
            Form::Json => output::json(&json!({ "listening": at.to_string() })),
            Form::Text => output::line(&format!("listening at {at}")),
        }
    }

    fn say(&self, about: &About, what: &What) -> Result<(), Failure> {
        let (state, reason) = match what {
            What::Coming => ("coming", None),
            What::Stored => ("stored", None),
            What::Resumed => ("resumed", None),
            What::Leaving => ("leaving", None),
            What::Passed => ("passed", None),
            What::Received(_) => ("received", None),
            What::Again => ("duplicate", None),
            What::Lost(why) => ("failed", Some(why.clone())),
            What::Retried(why) => ("again", Some(why.to_string())),
            What::Dropped(status) => ("dropped", Some(status_word(*status).to_owned())),
            What::Reported(report) => ("report", Some(status_word(report.status).to_owned())),
            What::Refused => ("refused", Some("there is no room (SYS_CNCLD)".to_owned())),
        };
        let file = match what {
            What::Received(path) => Some(path),
            _ => None,
        };
        let of = about.end_to_end;
        if self.form == Form::Json {
            return output::json(&json!({
                "file": file.map(|it| it.to_string_lossy()),
                "state": state,
                "reason": reason,
                "octets": about.octets,
                "seconds": about.time.as_secs_f64(),
                "engine": about.neighbour,
                "session": about.session,
                "source": of.map(|of| of.source.engine),
                "destination": of.map(|of| of.destination.engine),
                "transfer": of.map(|of| of.transfer),
                "hops": of.map(|of| of.hops),
                "life_s": of.map(|of| of.life_s),
                "is_report": of.map(|of| of.is_report),
                "is_congested": of.map(|of| of.is_congested),
            }));
        }
        let name = match of {
            Some(of) => format!(
                "transfer {} from engine {} to {}",
                of.transfer, of.source.engine, of.destination.engine
            ),
            None => "block".to_owned(),
        };
        let reason = reason.map(|it| format!(" ({it})")).unwrap_or_default();
        let file = file
            .map(|it| format!(" as {}", shown(it)))
            .unwrap_or_default();
        output::line(&format!(
            "{name}: {state}{reason}{file}, {} in {}, session {} with engine {}",
            quantity::size(about.octets),
            quantity::elapsed(about.time),
            about.session,
            about.neighbour,
        ))
    }
}

impl Watch for Speaker {
    fn is_over(&self) -> bool {
        self.failure.is_some() || interrupt::is_requested()
    }

    fn hear(&mut self, told: Told) {
        let said = match told {
            Told::Listening(at) => self.listens(at),
            Told::Block(about, what) => {
                self.received += u64::from(matches!(what, What::Received(_)));
                self.say(&about, &what)
            }
            Told::Note(what) => {
                output::talk(&format!("note: {what}"));
                Ok(())
            }
            Told::Ended(_) | Told::Progress(..) => Ok(()),
        };
        if let Err(failure) = said {
            self.failure = Some(failure);
        }
    }
}
