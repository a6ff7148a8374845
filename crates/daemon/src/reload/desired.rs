//! The configuration that a running node is to have: its node file as it is now, what needs a restart as it was at the start, and what an
//! operator changed at run time.

use std::path::Path;

use dhow_bundle::DtnTime;
use dhow_document::schema::{Occurs, Section};
use dhow_document::{Document, FileError};
use dhow_node::contacts::ContactTable;
use serde_json::{Map, Value as Json};
use toml_edit::{DocumentMut, Item, Table};

use super::edit::{Edit, Effect};
use crate::config::NodeFile;
use crate::config::schema::SECTIONS;
use crate::datagrams::seal::Keys;

/// Sections that a running node takes up as a whole.
const LIVE_SECTIONS: [&str; 8] = [
    "link",
    "listen",
    "route",
    "contact",
    "contact_plan",
    "token",
    "tls",
    "reports",
];

/// Keys of other sections that it takes up.
const LIVE_KEYS: [(&str, &str); 5] = [
    ("node", "payload_checksum"),
    ("node", "log"),
    ("api", "default_lifetime"),
    ("api", "highest_priority"),
    ("admin", "token"),
];

/// The origin of contacts.
#[derive(Clone, Debug)]
pub enum Contacts {
    /// The file and the plans that it names.
    Read,
    /// The contacts are as they were.
    Known(ContactTable),
}

/// The texts of which a configuration is made.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    /// The node file's place.
    pub path: &'a Path,
    /// Its text when the node started.
    pub started: &'a str,
    /// The text of the file now.
    pub loaded: &'a str,
    /// The node's start.
    pub start: DtnTime,
    /// Keys of links that stay as they were read before; all others are read.
    pub keys: &'a Keys,
}

/// The configuration that a running node is to have.
#[derive(Clone, Debug)]
pub struct Desired {
    /// The configuration as a value.
    pub file: NodeFile,
    /// The configuration as a text.
    pub text: String,
    /// Sections and keys of which the file says something else than the node has: they need a restart.
    pub needs_restart: Vec<String>,
    /// The edits that are not in the file.
    pub edits: Vec<Edit>,
}

impl Desired {
    /// Puts it together. The file by itself must be correct, too.
    ///
    /// # Errors
    /// When the file is not correct, or does not go together with what was changed at run time or with what needs a restart.
    pub fn compose(
        texts: Texts<'_>,
        edits: &[Edit],
        contacts: Contacts,
    ) -> Result<Self, FileError> {
        let Texts {
            path,
            loaded,
            start,
            ..
        } = texts;
        let mut own = None;
        if let Contacts::Read = contacts {
            let file = NodeFile::parse(loaded, path)?;
            file.check_named_files(loaded, path)?;
            own = Some(NodeFile::contacts(loaded, path, start)?);
        }
        let mut document = document(loaded, path)?;
        let needs_restart = hold_back(&mut document, texts)?;
        let mut kept = Vec::new();
        for edit in edits {
            if edit.apply(&mut document, start) == Effect::Changed {
                kept.push(edit.clone());
            }
        }
        let text = document.to_string();
        let apart = |error: FileError| {
            // A place in another file is a true one.
            let what = match error.line {
                Some(line) if error.file != path => {
                    format!("{}:{line}: {}", error.file.display(), error.what)
                }
                _ => error.what,
            };
            let of_file = FileError::of_file(path, what);
            if kept.is_empty() && needs_restart.is_empty() {
                return of_file;
            }
            let held = match needs_restart.is_empty() {
                true => String::new(),
                false => format!(" while {} need a restart", needs_restart.join(", ")),
            };
            let edited: Vec<String> = kept.iter().map(Edit::what).collect();
            let hint = match edited.is_empty() {
                true => format!("it cannot be taken up{held}: restart the node"),
                false => format!(
                    "with what was changed at run time ({}){held}; `dhow node config --diff` shows it",
                    edited.join(", ")
                ),
            };
            of_file.with_hint(
                error
                    .hint
                    .map_or_else(|| hint.clone(), |it| format!("{it}; {hint}")),
            )
        };
        let mut file = NodeFile::parse(&text, path).map_err(apart)?;
        let is_planned = kept
            .iter()
            .any(|edit| matches!(edit, Edit::ContactAdd { .. } | Edit::ContactDelete { .. }));
        file.node.contacts = match (own, contacts) {
            (Some(own), _) if !is_planned => own,
            (None, Contacts::Known(known)) => known,
            _ => NodeFile::contacts_with_edits(&text, path, start).map_err(apart)?,
        };
        file.source.start = start;
        file.settle_keys(texts.keys);
        Ok(Self {
            file,
            text,
            needs_restart,
            edits: kept,
        })
    }
}

/// A node file's text, to be edited.
///
/// # Errors
/// When it is no TOML.
pub fn document(text: &str, path: &Path) -> Result<DocumentMut, FileError> {
    text.parse()
        .map_err(|error: toml_edit::TomlError| FileError::of_file(path, error.message().to_owned()))
}

/// A node file's text with edits made, and those that changed anything.
///
/// # Errors
/// When the text is no TOML.
pub fn edited(
    text: &str,
    path: &Path,
    edits: &[Edit],
    start: DtnTime,
) -> Result<(String, Vec<Edit>), FileError> {
    let mut document = document(text, path)?;
    let made = edits.iter();
    let made = made.filter(|edit| edit.apply(&mut document, start) == Effect::Changed);
    let made = made.cloned().collect();
    Ok((document.to_string(), made))
}

/// Puts what needs a restart back to what it was when the node started.
fn hold_back(document: &mut DocumentMut, texts: Texts<'_>) -> Result<Vec<String>, FileError> {
    if texts.started == texts.loaded {
        return Ok(Vec::new());
    }
    let settled = |text| Ok(Document::read(texts.path, text, SECTIONS)?.settled());
    let (was, is): (Map<_, _>, Map<_, _>) = (settled(texts.started)?, settled(texts.loaded)?);
    let started = self::document(texts.started, texts.path)?;
    let mut held = Vec::new();
    for section in SECTIONS {
        if !LIVE_SECTIONS.contains(&section.name) {
            hold_section(document, &started, section, (&was, &is), &mut held);
        }
    }
    Ok(held)
}

fn hold_section(
    document: &mut DocumentMut,
    started: &DocumentMut,
    section: &Section,
    (was, is): (&Map<String, Json>, &Map<String, Json>),
    held: &mut Vec<String>,
) {
    let name = section.name;
    let (before, now) = (was.get(name), is.get(name));
    if before == now {
        return;
    }
    let (Some(Json::Object(before)), Some(Json::Object(now))) = (before, now) else {
        held.push(match section.occurs {
            Occurs::Many => format!("[[{name}]]"),
            _ => format!("[{name}]"),
        });
        match started.get(name) {
            Some(item) => drop(document.insert(name, item.clone())),
            None => drop(document.remove(name)),
        }
        return;
    };
    for key in section.keys().map(|key| key.name) {
        if before.get(key) == now.get(key) || LIVE_KEYS.contains(&(name, key)) {
            continue;
        }
        held.push(format!("{name}.{key}"));
        let value = started.get(name).and_then(|it| it.get(key)).cloned();
        let table = document.entry(name).or_insert(Item::Table(Table::new()));
        if let Some(table) = table.as_table_like_mut() {
            match value {
                Some(value) => drop(table.insert(key, value)),
                None => drop(table.remove(key)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: &str = "[node]\nid = \"ipn:1.0\"\n[store]\nquota = \"1GiB\"\n[[link]]\nname = \"beta\"\naddress = \"192.0.2.2\"\n";

    fn desired(loaded: &str, edits: &[Edit]) -> Result<Desired, FileError> {
        let texts = Texts {
            path: Path::new("node.toml"),
            started: STARTED,
            loaded,
            start: DtnTime::from_millis(0),
            keys: &Keys::new(),
        };
        Desired::compose(texts, edits, Contacts::Read)
    }

    #[test]
    fn what_needs_a_restart_is_named_and_stays_as_it_was() {
        let loaded = STARTED.replace(
            "ipn:1.0\"\n[store]\nquota = \"1GiB\"",
            "ipn:7.0\"\nthreads = 2\n[store]\nquota = \"2GiB\"\npath = \"x\"",
        ) + "[[routing]]\nto = \"ipn:9.*\"\nrouter = \"flood\"\n[reports]\ngenerate = [\"delivery\"]\n";
        let desired = desired(&loaded, &[]).unwrap();
        assert_eq!(
            desired.needs_restart,
            [
                "node.id",
                "node.threads",
                "store.path",
                "store.quota",
                "[[routing]]"
            ]
        );
        let node = &desired.file.node;
        assert_eq!(
            (node.node_ids[0].to_string().as_str(), node.quota_octets),
            ("ipn:1.0", 1 << 30)
        );
        assert_eq!(node.reports.generate, 0x2_0000);
        assert!(node.routing.is_empty());
        // No link has another window because the quota will.
        assert_eq!(node.links[0].policy.transfer_mru, 1 << 30);
    }

    #[test]
    fn edits_that_the_file_has_by_now_are_over() {
        let turn = Edit::LinkTurn {
            name: "beta".into(),
            enabled: false,
        };
        let is_kept = |loaded: &str| {
            !desired(loaded, std::slice::from_ref(&turn))
                .unwrap()
                .edits
                .is_empty()
        };
        assert!(is_kept(STARTED));
        assert!(!is_kept(&format!("{STARTED}enabled = false\n")));
        assert!(
            !is_kept("[node]\nid = \"ipn:1.0\"\n"),
            "nobody is left to be down"
        );
    }

    #[test]
    fn a_file_that_is_wrong_or_does_not_go_with_an_edit_is_refused() {
        let error = desired("", &[]).unwrap_err();
        assert!(error.to_string().contains("node"), "{error}");
        let delete = Edit::LinkDelete {
            name: "beta".into(),
        };
        let with_route = format!("{STARTED}[[route]]\nto = \"ipn:4.*\"\nvia = \"beta\"\n");
        let error = desired(&with_route, &[delete]).unwrap_err();
        assert!(error.hint.unwrap().contains("link beta"));
    }

    #[test]
    fn a_contact_over_one_of_a_plan_names_the_line_of_the_plan_and_none_of_the_file() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(
            place.path().join("plan"),
            "# a day\na contact +10 +90 1 2 500\n",
        )
        .unwrap();
        let path = place.path().join("node.toml");
        let text = format!("{STARTED}[[contact_plan]]\nfile = \"plan\"\n");
        let texts = Texts {
            path: &path,
            started: &text,
            loaded: &text,
            start: DtnTime::from_millis(0),
            keys: &Keys::new(),
        };
        let add = |to: &str, start: &str| {
            let contact = serde_json::json!({"from": "ipn:1.0", "to": to, "start": start, "end": "+5min", "rate": "1Mbit"});
            let settings = contact.as_object().unwrap().clone();
            Edit::ContactAdd { settings }
        };
        let compose = |edits: &[Edit]| Desired::compose(texts, edits, Contacts::Read).unwrap_err();
        let error = compose(&[add("ipn:2.0", "+1min")]);
        let plan = place.path().join("plan");
        assert_eq!(
            error.what,
            format!(
                "{}:2: the contact from ipn:1.0 to ipn:2.0 overlaps another of these nodes: `dhow contacts` shows it",
                plan.display()
            )
        );
        let error = compose(&[add("ipn:3.0", "+1min"), add("ipn:3.0", "+2min")]);
        assert_eq!(
            error.what,
            "the contact from ipn:1.0 to ipn:3.0 overlaps another of these nodes: `dhow contacts` shows it"
        );
    }
}
