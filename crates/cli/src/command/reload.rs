//! `dhow reload`, `dhow listen` and `dhow contact`: another configuration for a running node.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dhow_bundle::DtnTime;
use dhow_daemon::config::{NodeFile, moment_of};
use dhow_daemon::reload::desired::edited;
use dhow_daemon::reload::edit::Edit;
use dhow_document::FileError;
use hyper::Method;
use serde_json::{Map, Value, json};

use crate::admin::{Admin, path_segment};
use crate::arguments::Common;
use crate::calendar;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};

/// Have a running node read its configuration again
///
/// Links, listeners, routes, contacts, tokens, the TLS identity, status reports, the level of the log and a few keys more are taken up; sessions that the differences do not concern go on. A configuration that is wrong is refused as a whole, and the node goes on as before (exit code 1). Keys that need a restart are listed and are no failure. Changes at run time stay as they are. SIGHUP and `systemctl reload dhow` do the same.
#[derive(Args, Debug)]
pub struct Reload {
    /// First write what was changed at run time (links, listeners, routes, contacts) into the configuration; comments stay
    #[arg(long)]
    save: bool,
}

impl Reload {
    /// Reloads the node, and prints the outcome.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let admin = Admin::of(common.node.as_ref())?;
        let saved = match self.save {
            true => save(&admin)?,
            false => Vec::new(),
        };
        let mut answer = admin.act(&Method::POST, "/v1/reload", None)?;
        if let Some(object) = answer.as_object_mut().filter(|_| self.save) {
            object.insert("saved".to_owned(), json!(saved));
        }
        match common.form() {
            Form::Json => output::json(&answer)?,
            Form::Text => {
                print_differences(&answer)?;
                for what in &saved {
                    output::line(&format!("saved    {what}"))?;
                }
                if has_any(&answer, "needs_restart") {
                    output::talk("restart the node to take up the rest");
                }
            }
        }
        Ok(Ending::Done)
    }
}

fn has_any(answer: &Value, key: &str) -> bool {
    let list = answer.get(key).and_then(Value::as_array);
    list.is_some_and(|list| !list.is_empty())
}

/// Prints what a node answers about its configuration, a line for each difference.
pub fn print_differences(answer: &Value) -> Result<(), Failure> {
    let list = |key: &str| {
        answer
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let text = |value: &Value, key: &str| {
        let text = value.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let mut lines = Vec::new();
    for kind in ["added", "removed", "changed"] {
        for it in list(kind) {
            let keys = it.get("keys").and_then(Value::as_array);
            let keys: Vec<&str> = keys
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let keys = match keys.is_empty() {
                true => String::new(),
                false => format!(": {}", keys.join(", ")),
            };
            let (what, name) = (text(it, "what"), text(it, "name"));
            lines.push(format!("{kind:<8} {what} {name}{keys}"));
        }
    }
    for key in list("needs_restart").filter_map(Value::as_str) {
        lines.push(format!("restart  {key}"));
    }
    if lines.is_empty() {
        output::talk("nothing to change: the node has taken up all that its file says");
    }
    for it in list("run_time") {
        let (what, change) = (text(it, "what"), text(it, "change"));
        lines.push(format!("run time {what}: {change}"));
    }
    lines.iter().try_for_each(|line| output::line(line))
}

/// Writes changes at run time into the node file; the written ones come back.
fn save(admin: &Admin) -> Result<Vec<String>, Failure> {
    let answer = admin.read("/v1/config/edits")?;
    let config = answer.get("config").and_then(Value::as_str);
    let path = PathBuf::from(config.unwrap_or_default());
    let edits = answer.get("edits").cloned().unwrap_or_default();
    let edits: Vec<Edit> = serde_json::from_value(edits)
        .map_err(|error| Failure::refused(format!("the node's answer is no list: {error}")))?;
    let start = answer.get("start_dtn_ms").and_then(Value::as_u64);
    let start = DtnTime::from_millis(start.unwrap_or(0));
    if edits.is_empty() {
        return Ok(Vec::new());
    }
    let text = NodeFile::text(&path).map_err(super::node::unread)?;
    let (text, made) = edited(&text, &path, &edits, start).map_err(super::node::unread)?;
    check(&text, &path, start).map_err(super::node::unread)?;
    replace(&path, &text).map_err(|error| {
        let failure = Failure::refused(format!("cannot write {}: {error}", path.display()));
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                failure.with_hint("run it as the user to whom the configuration belongs")
            }
            _ => failure,
        }
    })?;
    Ok(made.iter().map(Edit::what).collect())
}

/// Whether a node can read a text as its file, with all files that the text names.
fn check(text: &str, path: &Path, start: DtnTime) -> Result<(), FileError> {
    NodeFile::parse(text, path)?.check_named_files(text, path)?;
    NodeFile::contacts(text, path, start).map(drop)
}

/// Puts a text into the place of a file's, whole or not at all; whose it is and who may read it stays.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let before = fs::metadata(&path)?;
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    new.write_all(text.as_bytes())?;
    let own = new.as_file().metadata()?;
    if (own.uid(), own.gid()) != (before.uid(), before.gid()) {
        std::os::unix::fs::fchown(new.as_file(), Some(before.uid()), Some(before.gid()))?;
    }
    let mode = before.permissions().mode() & 0o7777;
    new.as_file()
        .set_permissions(fs::Permissions::from_mode(mode))?;
    new.as_file().sync_all()?;
    new.persist(&path)?;
    File::open(directory)?.sync_all()
}

/// Keys and values as `--set` has them: a value is TOML, or the text itself where that is none.
pub fn settings(set: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut settings = Map::new();
    for one in set {
        let (key, value) = one.split_once('=').ok_or_else(|| {
            Failure::usage(format!("'{one}' sets nothing"))
                .with_hint("for example: --set keepalive=60s")
        })?;
        let (key, value) = (key.trim(), value.trim());
        let value = match value {
            "true" => json!(true),
            "false" => json!(false),
            _ => match (value.parse::<i64>(), value.strip_prefix('[')) {
                (Ok(number), _) => json!(number),
                (_, Some(_)) => serde_json::from_str(value).map_err(|error| {
                    Failure::usage(format!("'{value}' is no list: {error}"))
                        .with_hint("for example: --set 'accept_sources=[\"ipn:3.*\"]'")
                })?,
                _ => json!(value.trim_matches('"')),
            },
        };
        settings.insert(key.to_owned(), value);
    }
    let keys: BTreeSet<_> = settings.keys().collect();
    match keys.len() == set.len() {
        true => Ok(settings),
        false => Err(Failure::usage("a key is set twice")),
    }
}

/// Open or close a listener of a running node
#[derive(Debug, Subcommand)]
pub enum Listen {
    /// Accept neighbours at one more address
    Add {
        /// The address: host, or host:port; [::] for every one
        address: String,
        /// The protocol: auto, tcpcl, tcpcl3, udp, ltp, stcp, stcp-draft, mtcp or encapsulation
        #[arg(long)]
        protocol: Option<String>,
        /// Any other key of [[listen]] in the configuration; may be repeated
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Stop accepting neighbours at an address; sessions that began there end cleanly
    Del {
        /// The address, as the configuration has it or as it was added
        address: String,
    },
}

impl Listen {
    /// Opens or closes the listener.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let admin = Admin::of(common.node.as_ref())?;
        let (answer, done) = match self {
            Self::Add {
                address,
                protocol,
                set,
            } => {
                let mut body = settings(set)?;
                body.insert("address".to_owned(), json!(address));
                if let Some(protocol) = protocol {
                    body.insert("protocol".to_owned(), json!(protocol));
                }
                let body = Value::Object(body);
                let answer = admin.act(&Method::POST, "/v1/listeners", Some(&body))?;
                (answer, format!("neighbours are accepted at {address}"))
            }
            Self::Del { address } => {
                let path = format!("/v1/listeners/{}", path_segment(address));
                let answer = admin.act(&Method::DELETE, &path, None)?;
                (
                    answer,
                    format!("neighbours are accepted at {address} no more"),
                )
            }
        };
        match common.form() {
            Form::Json => output::json(&answer)?,
            Form::Text => output::talk(&done),
        }
        Ok(Ending::Done)
    }
}

/// Plan or cancel a contact of a running node
#[derive(Debug, Subcommand)]
pub enum Contact {
    /// Plan a contact: one node can send to another for some time
    Add {
        /// The node that sends
        from: String,
        /// The node that receives
        to: String,
        /// Its beginning, UTC: 2026-11-24T06:00:00Z; or +10min from now
        #[arg(long)]
        start: String,
        /// Its end, UTC; or +22min from now
        #[arg(long)]
        end: String,
        /// Its rate, written in bits: 1Mbit
        #[arg(long)]
        rate: String,
        /// The one-way light time between them [default: 0s]
        #[arg(long)]
        light_time: Option<String>,
    },
    /// Cancel a contact
    Del {
        /// The node that sends
        from: String,
        /// The node that receives
        to: String,
        /// Its beginning, UTC
        #[arg(long)]
        start: String,
    },
}

impl Contact {
    /// Plans or cancels the contact.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let admin = Admin::of(common.node.as_ref())?;
        let (method, body, done) = match self {
            Self::Add {
                from,
                to,
                start,
                end,
                rate,
                light_time,
            } => {
                let (start, end) = (time(start)?, time(end)?);
                let body = json!({"from": from, "to": to, "start": start, "end": end, "rate": rate, "light_time": light_time});
                let done = format!("{from} can send to {to} from {start} to {end}");
                (Method::POST, body, done)
            }
            Self::Del { from, to, start } => {
                let start = time(start)?;
                let done = format!("the contact from {from} to {to} at {start} is cancelled");
                let body = json!({"from": from, "to": to, "start": start});
                (Method::DELETE, body, done)
            }
        };
        let answer = admin.act(&method, "/v1/contacts", Some(&body))?;
        match common.form() {
            Form::Json => output::json(&answer)?,
            Form::Text => output::talk(&done),
        }
        Ok(Ending::Done)
    }
}

/// A time as node files have it, of the calendar.
fn time(text: &str) -> Result<String, Failure> {
    if !text.starts_with('+') {
        return Ok(text.to_owned());
    }
    let at = moment_of(text, calendar::now()).ok_or_else(|| {
        Failure::usage(format!("'{text}' is no time"))
            .with_hint("for example: 2026-11-24T06:00:00Z, or +10min from now")
    })?;
    Ok(calendar::utc(at).replacen(' ', "T", 1).replace(" UTC", "Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_values_as_node_files_have_them() {
        let set = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|&it| it.to_owned()).collect();
            settings(&texts)
        };
        let all = set(&["a=1", "b=60s", "c=true", "d=[\"x\", \"y\"]", "e=\"7\""]).unwrap();
        let expected = json!({"a": 1, "b": "60s", "c": true, "d": ["x", "y"], "e": "7"});
        assert_eq!(Value::Object(all), expected);
        for wrong in [&["a"][..], &["a=1", "a=2"], &["a=[x"]] {
            assert!(set(wrong).is_err());
        }
    }

    #[test]
    fn a_file_is_replaced_with_its_permissions_through_a_symbolic_link() {
        let place = tempfile::tempdir().unwrap();
        let (real, link) = (place.path().join("real"), place.path().join("link"));
        fs::write(&real, "before").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace(&link, "after").unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "after");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            fs::metadata(&real).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    }
}
