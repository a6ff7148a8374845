//! `dhow links` and `dhow link`: the neighbours that the node dials, and the sessions that are up.

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use super::listing::{Column, Listing, Show};
use super::reload::settings;
use crate::admin::{Admin, path_segment};
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};

/// List links and sessions
#[derive(Args, Debug)]
pub struct Links {}

const LINKS: Listing = Listing {
    path: "/v1/links",
    columns: &[
        Column("LINK", "name", Show::Plain),
        Column("STATE", "state", Show::Plain),
        Column("ENABLED", "enabled", Show::Either("yes", "no")),
        Column("PEER", "peer", Show::Plain),
        Column("VERSIONS", "bundle_versions", Show::Plain),
        Column("SESSIONS", "sessions", Show::Count),
        Column("HEARD", "heard_ago_ms", Show::Ago),
        Column("FAILURES", "failures", Show::Count),
        Column("LAST ERROR", "last_error", Show::IfAny),
    ],
    none: "no link is configured",
};

const SESSIONS: Listing = Listing {
    path: "/v1/sessions",
    columns: &[
        Column("SESSION WITH", "peer", Show::Plain),
        Column("LINK", "link", Show::Plain),
        Column("TLS", "secured", Show::Either("yes", "no")),
        Column("PROTOCOL", "protocol", Show::Plain),
        Column("VERSIONS", "bundle_versions", Show::Plain),
        Column("SENT", "bundles_sent", Show::Count),
        Column("", "octets_sent", Show::Size),
        Column("RECEIVED", "bundles_received", Show::Count),
        Column("", "octets_received", Show::Size),
        Column("LIMITED", "limited", Show::Count),
        Column("IN FLIGHT", "in_flight", Show::Count),
        Column("HEARD", "heard_ago_ms", Show::Ago),
    ],
    none: "no session is established",
};

/// The listing of sessions over UDP.
const DATAGRAMS: Listing = Listing {
    path: SESSIONS.path,
    columns: &[
        Column("DATAGRAMS WITH", "peer", Show::Plain),
        Column("LINK", "link", Show::Plain),
        Column("SENT", "sent", Show::Count),
        Column("", "sent_octets", Show::Size),
        Column("RECEIVED", "received", Show::Count),
        Column("", "received_octets", Show::Size),
        Column("FAULTS", "faults", Show::Count),
    ],
    none: "no session is over UDP",
};

/// The datagram counts of each session that has some.
fn datagrams(sessions: &Value) -> Value {
    let sessions = sessions.as_array().into_iter().flatten();
    let rows = sessions.filter_map(|session| {
        let mut row = session.get("datagrams")?.as_object()?.clone();
        for key in ["peer", "link"] {
            row.insert(key.to_owned(), session.get(key)?.clone());
        }
        Some(Value::Object(row))
    });
    Value::Array(rows.collect())
}

impl Links {
    /// Prints both, and datagrams where there are some.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let admin = Admin::of(common.node.as_ref())?;
        let links = admin.read(LINKS.path)?;
        let sessions = admin.read(SESSIONS.path)?;
        match common.form() {
            Form::Json => output::json(&json!({"links": links, "sessions": sessions}))?,
            Form::Text => {
                LINKS.print(&links)?;
                let is_shown = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
                if is_shown(&links) && is_shown(&sessions) {
                    output::line("")?;
                }
                SESSIONS.print(&sessions)?;
                let datagrams = datagrams(&sessions);
                if is_shown(&datagrams) {
                    output::line("")?;
                    DATAGRAMS.print(&datagrams)?;
                }
            }
        }
        Ok(Ending::Done)
    }
}

/// Bring a link up or take it down, add one to a running node or delete it
#[derive(Debug, Subcommand)]
pub enum Link {
    /// Dial the neighbour and keep the link up
    Up {
        /// The link, as `dhow links` shows it
        name: String,
    },
    /// End the link's sessions and leave it down; its bundles wait
    Down {
        /// The link, as `dhow links` shows it
        name: String,
    },
    /// Add a link; routes may lead over it at once. It lasts until the node ends, or longer with `dhow reload --save`
    Add {
        /// Its name
        name: String,
        /// The neighbour's address: host, or host:port; a link of protocol "bibe" has none
        address: Option<String>,
        /// The link from which it takes the protocol and all settings not given here; that link may have enabled = false
        #[arg(long, value_name = "LINK")]
        like: Option<String>,
        /// The only neighbour allowed there; UDP, LTP, STCP, MTCP and BIBE need it
        #[arg(long, value_name = "NODE")]
        peer: Option<String>,
        /// The protocol: auto, tcpcl, tcpcl3, udp, ltp, stcp, stcp-draft, mtcp, encapsulation or bibe [default: that of the link that it is like, or else tcpcl]
        #[arg(long)]
        protocol: Option<String>,
        /// Any other key of [[link]] in the configuration; may be repeated
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Delete a link: its sessions end cleanly, and its bundles wait for another way
    Del {
        /// The link, as `dhow links` shows it
        name: String,
    },
}

impl Link {
    /// Takes the link up or down, adds or deletes it.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let admin = Admin::of(common.node.as_ref())?;
        let turn = |name: &str, direction: &str, doing: &str| {
            let path = format!("/v1/links/{}/{direction}", path_segment(name));
            let answer = admin.act(&Method::POST, &path, None)?;
            let done = format!("{doing} link {name} {direction}");
            Ok::<_, Failure>((answer, done))
        };
        let (answer, done) = match self {
            Self::Up { name } => turn(name, "up", "bringing")?,
            Self::Down { name } => turn(name, "down", "taking")?,
            Self::Add {
                name,
                address,
                like,
                peer,
                protocol,
                set,
            } => {
                let mut body = settings(set)?;
                body.insert("name".to_owned(), json!(name));
                let said = [
                    ("address", address),
                    ("like", like),
                    ("peer", peer),
                    ("protocol", protocol),
                ];
                for (key, value) in said {
                    body.extend(value.as_ref().map(|it| (key.to_owned(), json!(it))));
                }
                let body = Value::Object(body);
                let answer = admin.act(&Method::POST, "/v1/links", Some(&body))?;
                let to = address.as_ref().or(peer.as_ref());
                let to = to.map_or("its peer", String::as_str);
                (answer, format!("link {name} leads to {to}"))
            }
            Self::Del { name } => {
                let path = format!("/v1/links/{}", path_segment(name));
                let answer = admin.act(&Method::DELETE, &path, None)?;
                (answer, format!("link {name} is deleted"))
            }
        };
        match common.form() {
            Form::Json => output::json(&answer)?,
            Form::Text => output::talk(&done),
        }
        Ok(Ending::Done)
    }
}
