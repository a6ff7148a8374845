//! Changes that an operator made while the node ran, as edits of the text of its node file: they outlast a reload, and can be written into the file.

use dhow_bundle::DtnTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, Value};

use crate::config::address::split_address;
use crate::config::moment_of;

/// Keys and values of a section, as a node file has them.
pub type Settings = Map<String, Json>;

/// One change that an operator made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "edit", rename_all = "snake_case")]
pub enum Edit {
    /// A `[[link]]` more.
    LinkAdd {
        /// Its keys.
        settings: Settings,
    },
    /// No `[[link]]` of this name.
    LinkDelete {
        /// Its name.
        name: String,
    },
    /// A link is up or down.
    LinkTurn {
        /// Its name.
        name: String,
        /// Whether the link is up.
        enabled: bool,
    },
    /// A `[[listen]]` more.
    ListenAdd {
        /// Its keys.
        settings: Settings,
    },
    /// No `[[listen]]` at this address.
    ListenDelete {
        /// The address as the file has it.
        address: String,
    },
    /// A `[[route]]` more.
    RouteAdd {
        /// Its pattern.
        to: String,
        /// Its hop.
        via: String,
        /// Its priority.
        priority: i32,
    },
    /// No such `[[route]]`.
    RouteDelete {
        /// Its pattern.
        to: String,
        /// Its hop.
        via: String,
    },
    /// A `[[contact]]` more.
    ContactAdd {
        /// Its keys.
        settings: Settings,
    },
    /// No such `[[contact]]`.
    ContactDelete {
        /// The node that sends.
        from: String,
        /// The node that receives.
        to: String,
        /// Its beginning: a time as node files have it.
        start: String,
    },
}

/// Whether an edit changed the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The edit changed the text.
    Changed,
    /// The text says so already.
    None,
}

/// The thing that an edit is about: of two edits of one thing the later one counts.
#[derive(Debug, PartialEq, Eq)]
enum Subject {
    Link(String),
    Turn(String),
    Listener(Option<(String, u16)>, String),
    Route(String, String),
    Contact(String, String, Option<DtnTime>),
}

impl Edit {
    /// Changes a node file's text; `start` is the node's start, from which some times count.
    pub fn apply(&self, document: &mut DocumentMut, start: DtnTime) -> Effect {
        match self {
            Self::LinkAdd { settings } => {
                let name = text(settings, "name");
                add(document, "link", settings, |table| is(table, "name", &name))
            }
            Self::LinkDelete { name } => remove(document, "link", |table| is(table, "name", name)),
            Self::LinkTurn { name, enabled } => turn(document, name, *enabled),
            Self::ListenAdd { settings } => {
                let place = (text(settings, "address"), text(settings, "protocol"));
                add(document, "listen", settings, |table| {
                    is_at(table, &place.0) && is_udp(&place.1) == is_udp(&of(table, "protocol"))
                })
            }
            Self::ListenDelete { address } => {
                remove(document, "listen", |table| is_at(table, address))
            }
            Self::RouteAdd { to, via, priority } => {
                let mut settings = Settings::new();
                settings.insert("to".to_owned(), to.as_str().into());
                settings.insert("via".to_owned(), via.as_str().into());
                if *priority != 0 {
                    settings.insert("priority".to_owned(), (*priority).into());
                }
                let is_it = |table: &Table| is(table, "to", to) && is(table, "via", via);
                add(document, "route", &settings, is_it)
            }
            Self::RouteDelete { to, via } => remove(document, "route", |table| {
                is(table, "to", to) && is(table, "via", via)
            }),
            Self::ContactAdd { settings } => {
                let key = |key| text(settings, key);
                let (from, to, at) = (key("from"), key("to"), key("start"));
                add(document, "contact", settings, |table| {
                    is_contact(table, (&from, &to, &at), start)
                })
            }
            Self::ContactDelete {
                from,
                to,
                start: at,
            } => remove(document, "contact", |table| {
                is_contact(table, (from, to, at), start)
            }),
        }
    }

    fn subject(&self, start: DtnTime) -> Subject {
        match self {
            Self::LinkAdd { settings } => Subject::Link(text(settings, "name")),
            Self::LinkDelete { name } => Subject::Link(name.clone()),
            Self::LinkTurn { name, .. } => Subject::Turn(name.clone()),
            Self::ListenAdd { settings } => {
                let address = text(settings, "address");
                Subject::Listener(split_address(&address), text(settings, "protocol"))
            }
            Self::ListenDelete { address } => {
                Subject::Listener(split_address(address), String::new())
            }
            Self::RouteAdd { to, via, .. } | Self::RouteDelete { to, via } => {
                Subject::Route(to.clone(), via.clone())
            }
            Self::ContactAdd { settings } => {
                let at = moment_of(&text(settings, "start"), start);
                Subject::Contact(text(settings, "from"), text(settings, "to"), at)
            }
            Self::ContactDelete {
                from,
                to,
                start: at,
            } => Subject::Contact(from.clone(), to.clone(), moment_of(at, start)),
        }
    }

    /// Whether nothing is left of this edit once the other one is made.
    pub fn is_undone_by(&self, later: &Self, start: DtnTime) -> bool {
        let of_link = |name: &str| matches!(later, Self::LinkDelete { name: gone } if gone == name);
        match self {
            Self::LinkTurn { name, .. } if of_link(name) => true,
            _ => self.subject(start) == later.subject(start),
        }
    }

    /// The thing that was changed, for people: `link gamma`.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::LinkAdd { settings } => format!("link {}", text(settings, "name")),
            Self::LinkDelete { name } | Self::LinkTurn { name, .. } => format!("link {name}"),
            Self::ListenAdd { settings } => format!("listener {}", text(settings, "address")),
            Self::ListenDelete { address } => format!("listener {address}"),
            Self::RouteAdd { to, via, .. } | Self::RouteDelete { to, via } => {
                format!("route to {to} via {via}")
            }
            Self::ContactAdd { settings } => {
                let key = |key| text(settings, key);
                let (from, to, start) = (key("from"), key("to"), key("start"));
                format!("contact from {from} to {to} at {start}")
            }
            Self::ContactDelete { from, to, start } => {
                format!("contact from {from} to {to} at {start}")
            }
        }
    }

    /// `added`, `deleted`, `up` or `down`.
    #[must_use]
    pub const fn change(&self) -> &'static str {
        match self {
            Self::LinkAdd { .. }
            | Self::ListenAdd { .. }
            | Self::RouteAdd { .. }
            | Self::ContactAdd { .. } => "added",
            Self::LinkTurn { enabled: true, .. } => "up",
            Self::LinkTurn { enabled: false, .. } => "down",
            _ => "deleted",
        }
    }
}

/// The tables of a section that a file may have many of; those that are written inline are made tables.
fn tables<'a>(document: &'a mut DocumentMut, section: &str) -> &'a mut ArrayOfTables {
    let item = document.entry(section).or_insert(Item::None);
    if !item.is_array_of_tables() {
        let inline = std::mem::take(item);
        *item = Item::ArrayOfTables(inline.into_array_of_tables().unwrap_or_default());
    }
    match item {
        Item::ArrayOfTables(tables) => tables,
        _ => unreachable!("it has just been made one"),
    }
}

fn add(
    document: &mut DocumentMut,
    section: &str,
    settings: &Settings,
    is_it: impl Fn(&Table) -> bool,
) -> Effect {
    let tables = tables(document, section);
    if tables.iter().any(is_it) {
        return Effect::None;
    }
    let mut table = Table::new();
    for (key, value) in settings {
        if let Some(value) = toml_of(value) {
            table.insert(key, Item::Value(value));
        }
    }
    table.decor_mut().set_prefix("\n");
    tables.push(table);
    Effect::Changed
}

fn remove(document: &mut DocumentMut, section: &str, is_it: impl Fn(&Table) -> bool) -> Effect {
    if document.get(section).is_none() {
        return Effect::None;
    }
    let tables = tables(document, section);
    let before = tables.len();
    tables.retain(|table| !is_it(table));
    let is_changed = tables.len() < before;
    if tables.is_empty() {
        document.remove(section);
    }
    match is_changed {
        true => Effect::Changed,
        false => Effect::None,
    }
}

fn turn(document: &mut DocumentMut, name: &str, enabled: bool) -> Effect {
    if document.get("link").is_none() {
        return Effect::None;
    }
    let mut links = tables(document, "link").iter_mut();
    let Some(link) = links.find(|table| is(table, "name", name)) else {
        return Effect::None;
    };
    let was = link.get("enabled").and_then(Item::as_bool).unwrap_or(true);
    if was == enabled {
        return Effect::None;
    }
    match link.get_mut("enabled").and_then(Item::as_value_mut) {
        Some(value) => {
            let decor = value.decor().clone();
            *value = Value::from(enabled);
            *value.decor_mut() = decor;
        }
        None => drop(link.insert("enabled", toml_edit::value(enabled))),
    }
    Effect::Changed
}

/// The settings of a link of a text.
pub fn link_settings(document: &DocumentMut, name: &str) -> Option<Settings> {
    let named = |table: &&Table| is(table, "name", name);
    let table = match document.get("link")? {
        Item::ArrayOfTables(tables) => tables.iter().find(named)?.clone(),
        other => {
            let tables = other.clone().into_array_of_tables().ok()?;
            tables.iter().find(named)?.clone()
        }
    };
    let settings = table.iter();
    Some(
        settings
            .filter_map(|(key, item)| Some((key.to_owned(), json_of(item.as_value()?)?)))
            .collect(),
    )
}

fn json_of(value: &Value) -> Option<Json> {
    Some(match value {
        Value::String(text) => text.value().as_str().into(),
        Value::Integer(number) => (*number.value()).into(),
        Value::Boolean(value) => (*value.value()).into(),
        Value::Array(values) => values.iter().filter_map(json_of).collect(),
        _ => return None,
    })
}

/// A JSON value as node files have values; no kind of theirs is of an object, a fraction or nothing.
pub fn toml_of(value: &Json) -> Option<Value> {
    Some(match value {
        Json::Bool(value) => (*value).into(),
        Json::Number(number) => number.as_i64()?.into(),
        Json::String(text) => text.as_str().into(),
        Json::Array(values) => {
            let values: Option<Array> = values.iter().map(toml_of).collect();
            values?.into()
        }
        Json::Null | Json::Object(_) => return None,
    })
}

fn text(settings: &Settings, key: &str) -> String {
    let text = settings.get(key).and_then(Json::as_str);
    text.unwrap_or_default().to_owned()
}

fn of(table: &Table, key: &str) -> String {
    let text = table.get(key).and_then(Item::as_str);
    text.unwrap_or_default().to_owned()
}

fn is(table: &Table, key: &str, value: &str) -> bool {
    table.get(key).and_then(Item::as_str) == Some(value)
}

fn is_udp(protocol: &str) -> bool {
    matches!(protocol, "udp" | "ltp")
}

/// Whether a listener is at an address, however that is written.
fn is_at(table: &Table, address: &str) -> bool {
    let own = of(table, "address");
    own == address || split_address(&own) == split_address(address)
}

fn is_contact(table: &Table, (from, to, at): (&str, &str, &str), start: DtnTime) -> bool {
    let begins = |text: &str| moment_of(text, start);
    is(table, "from", from) && is(table, "to", to) && begins(&of(table, "start")) == begins(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FILE: &str = "# a node\n[node]\nid = \"ipn:1.0\" # its ID\n\n[[listen]]\naddress = \"0.0.0.0\"\n\n# to beta\n[[link]]\nname = \"beta\"\naddress = \"192.0.2.2\"\nenabled = true # for now\n\n[[route]]\nto = \"ipn:4.*\"\nvia = \"beta\"\n";

    fn edited(edits: &[Edit]) -> (String, Vec<Effect>) {
        let mut document: DocumentMut = FILE.parse().unwrap();
        let effects = edits.iter();
        let effects = effects.map(|edit| edit.apply(&mut document, DtnTime::from_millis(0)));
        let effects = effects.collect();
        (document.to_string(), effects)
    }

    fn settings(value: Json) -> Settings {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn comments_stay_and_sections_come_behind_their_like() {
        let link = settings(
            json!({"name": "gamma", "address": "192.0.2.3", "accept_sources": ["ipn:3.*"], "sessions": 2}),
        );
        let (text, effects) = edited(&[
            Edit::LinkAdd {
                settings: link.clone(),
            },
            Edit::LinkAdd { settings: link },
            Edit::LinkTurn {
                name: "beta".into(),
                enabled: false,
            },
            Edit::RouteAdd {
                to: "ipn:5.*".into(),
                via: "gamma".into(),
                priority: 3,
            },
        ]);
        assert_eq!(
            effects,
            [
                Effect::Changed,
                Effect::None,
                Effect::Changed,
                Effect::Changed
            ]
        );
        let expected = FILE.replace("enabled = true # for now\n", "enabled = false # for now\n\n[[link]]\nname = \"gamma\"\naddress = \"192.0.2.3\"\naccept_sources = [\"ipn:3.*\"]\nsessions = 2\n")
            + "\n[[route]]\nto = \"ipn:5.*\"\nvia = \"gamma\"\npriority = 3\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_deleted_goes_with_its_comment_and_the_rest_stays() {
        let (text, effects) = edited(&[
            Edit::RouteDelete {
                to: "ipn:4.*".into(),
                via: "beta".into(),
            },
            Edit::LinkDelete {
                name: "beta".into(),
            },
            Edit::ListenDelete {
                address: "0.0.0.0:4556".into(),
            },
            Edit::LinkDelete {
                name: "beta".into(),
            },
        ]);
        assert_eq!(text, "# a node\n[node]\nid = \"ipn:1.0\" # its ID\n");
        let expected = [
            Effect::Changed,
            Effect::Changed,
            Effect::Changed,
            Effect::None,
        ];
        assert_eq!(effects, expected);
    }

    #[test]
    fn a_later_edit_of_the_same_thing_takes_the_place_of_an_earlier_one() {
        let start = DtnTime::from_millis(0);
        let turn = Edit::LinkTurn {
            name: "beta".into(),
            enabled: false,
        };
        let delete = Edit::LinkDelete {
            name: "beta".into(),
        };
        assert!(turn.is_undone_by(&delete, start));
        assert!(!delete.is_undone_by(&turn, start));
        let at =
            |start: &str| settings(json!({"from": "ipn:1.0", "to": "ipn:2.0", "start": start}));
        let add = Edit::ContactAdd {
            settings: at("2026-01-01T00:00:00Z"),
        };
        let delete = |at: &str| Edit::ContactDelete {
            from: "ipn:1.0".into(),
            to: "ipn:2.0".into(),
            start: at.into(),
        };
        assert!(add.is_undone_by(&delete("2026-01-01T00:00:00.0Z"), start));
        assert!(!add.is_undone_by(&delete("2026-01-01T00:00:01Z"), start));
    }
}
