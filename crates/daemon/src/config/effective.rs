//! All settings of a node: those that its file has, and those that follow where it says nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use dhow_document::schema::{Absent, Occurs, Section};
use dhow_document::{Document, FileError};
use dhow_node::config::SessionPolicy;
use serde_json::{Map, Value, json};

use super::external::POLICY_KEYS;
use super::file::{NodeFile, default_segment_octets};
use super::protocol::{meaningless, written_rate};
use super::schema::SECTIONS;
use crate::machine;
use dhow_bundle::NodeId;
use dhow_bundle::protocol::{Aggregation, Protocol, RedPart};

/// Keys whose values are for readers of the file alone.
const SECRETS: [(&str, &str); 3] = [
    ("admin", "token"),
    ("measure", "token"),
    ("token", "secret"),
];

/// Stands for a secret.
const NOT_SHOWN: &str = "(not shown)";

/// Every setting of a node, by section and key. A value that follows from the machine or from other keys is worked out; one that is not set and has no
/// value is null, as is a section that is not there and could not be. Secrets are not shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    values: Map<String, Value>,
    notes: Notes,
}

/// The origins of values that no file sets, by section and key.
type Notes = BTreeMap<(&'static str, &'static str), String>;

impl Effective {
    /// The settings of a node file's text; `path` is for messages and relative paths.
    ///
    /// # Errors
    /// When it is not a correct node file.
    pub fn read(text: &str, path: &Path) -> Result<Self, FileError> {
        Self::of(text, &NodeFile::parse(text, path)?)
    }

    /// The settings of a file that was read from a text.
    ///
    /// # Errors
    /// When it was read from another one.
    pub fn of(text: &str, file: &NodeFile) -> Result<Self, FileError> {
        let document = Document::read(&file.path, text, SECTIONS)?;
        let mut settled = Self {
            values: document.settled(),
            notes: notes(&document)?,
        };
        settled.work_out(file);
        for (section, key) in SECRETS {
            if let Some(secret) = settled.key(section, 0, key).filter(|it| !it.is_null()) {
                *secret = json!(NOT_SHOWN);
            }
        }
        Ok(settled)
    }

    /// The settings as JSON: an object with an object for each section, or a list of them.
    #[must_use]
    pub fn json(self) -> Value {
        Value::Object(self.values)
    }

    /// Fills in what follows from the machine and from other keys.
    fn work_out(&mut self, file: &NodeFile) {
        let store = &file.store;
        let segment = store.segment_octets;
        let segment = segment.unwrap_or_else(|| default_segment_octets(file.log_octets()).into());
        self.put("node", 0, "memory", file.memory.octets);
        self.put("store", 0, "quota_bundles", file.node.quota_bundles);
        self.put("store", 0, "segment", segment);
        self.put("store", 0, "prepare", store.prepared_octets);
        self.put("store", 0, "queue", file.node.store_queue_octets);
        self.put("store", 0, "memory", store.memory_octets);
        for key in POLICY_KEYS
            .iter()
            .filter(|_| file.external_socket.is_none())
        {
            self.put("external", 0, key, Value::Null);
        }
        for (number, listener) in file.node.listeners.iter().enumerate() {
            self.put_policy("listen", number, &listener.policy);
            self.clear("listen", number, listener.protocol);
        }
        for (number, link) in file.node.links.iter().enumerate() {
            self.put_policy("link", number, &link.policy);
            if let Protocol::Udp(policy) = link.protocol {
                self.put("link", number, "mtu", policy.mtu_octets);
                self.put("link", number, "rate", written_rate(policy.octets_per_s));
            }
            if let Protocol::Ltp(policy) = link.protocol {
                self.put("link", number, "mtu", policy.mtu_octets);
                self.put("link", number, "rate", written_rate(policy.octets_per_s));
                self.put("link", number, "largest_block", policy.block_octets);
                self.put("link", number, "blocks", policy.blocks);
                let aggregate = policy.aggregation == Aggregation::Shared;
                self.put("link", number, "aggregate", aggregate);
                let light_time = format!("{}ms", policy.light_time_ms);
                self.put("link", number, "light_time", light_time);
                let red = match policy.red {
                    RedPart::All => "all".to_owned(),
                    RedPart::None => "none".to_owned(),
                    RedPart::Octets(octets) => octets.to_string(),
                };
                self.put("link", number, "red", red);
                let own = || file.node.node_ids.iter().find_map(NodeId::number);
                self.put("link", number, "engine", policy.engine.or_else(own));
                let peer = || link.policy.peer.as_ref().and_then(NodeId::number);
                let remote = policy.remote_engine.or_else(peer);
                self.put("link", number, "remote_engine", remote);
            }
            if let Protocol::Stcp(_) = link.protocol {
                let keepalive = format!("{}s", link.policy.keepalive_s);
                self.put("link", number, "keepalive", keepalive);
            }
            if let Protocol::Bibe(policy) = link.protocol {
                self.put("link", number, "dialect", policy.dialect.name());
                self.put("link", number, "custody", policy.custody);
                for (key, ms) in [
                    ("latency", policy.latency_ms),
                    ("signal_delay", policy.delay_ms),
                ] {
                    self.put("link", number, key, format!("{ms}ms"));
                }
            }
            if let Some(on_sent) = link.protocol.on_sent() {
                self.put("link", number, "on_sent", on_sent.name());
            }
            self.clear("link", number, link.protocol);
        }
        if let Some(measure) = &file.measure {
            self.put("measure", 0, "sender", measure.sender.as_str());
            self.put("measure", 0, "points", measure.points.as_slice());
        }
    }

    fn put_policy(&mut self, section: &str, number: usize, policy: &SessionPolicy) {
        self.put(section, number, "transfer_mru", policy.transfer_mru);
        self.put(section, number, "window", policy.window_octets);
    }

    /// A key that means nothing has no value.
    fn clear(&mut self, section: &str, number: usize, protocol: Protocol) {
        for key in meaningless(section, protocol) {
            self.put(section, number, key, Value::Null);
        }
    }

    fn put(&mut self, section: &str, number: usize, key: &str, value: impl Into<Value>) {
        if let Some(place) = self.key(section, number, key) {
            *place = value.into();
        }
    }

    /// The place of a key; of a list of sections, in the one of a number.
    fn key(&mut self, section: &str, number: usize, key: &str) -> Option<&mut Value> {
        let section = match self.values.get_mut(section)? {
            Value::Array(list) => list.get_mut(number)?,
            one => one,
        };
        section.get_mut(key)
    }
}

/// The origin of the memory quota, and its parts.
fn notes(document: &Document<'_>) -> Result<Notes, FileError> {
    let mut notes = Notes::new();
    let (node, store) = (document.one("node")?, document.one("store")?);
    if node.size("memory").is_none() {
        let memory = machine::memory();
        let whose = memory.group.map_or_else(
            || "the machine".to_owned(),
            |file| format!("the control group ({})", file.display()),
        );
        let note = format!("a quarter of the {} octets that {whose} has", memory.octets);
        notes.insert(("node", "memory"), note);
    }
    for key in ["queue", "memory"] {
        if store.size(key).is_none() {
            notes.insert(("store", key), "a part of [node] memory".to_owned());
        }
    }
    if store.integer("quota_bundles").is_none() {
        let note = "as many as what is left of [node] memory indexes".to_owned();
        notes.insert(("store", "quota_bundles"), note);
    }
    Ok(notes)
}

/// A node file that sets all of it; keys without a value are comments.
impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for section in SECTIONS {
            let several;
            let tables = match (section.occurs, self.values.get(section.name)) {
                (Occurs::Top, _) => {
                    write_keys(f, section, &self.values, &self.notes)?;
                    continue;
                }
                (_, Some(Value::Array(list))) => list.as_slice(),
                (_, Some(one)) => {
                    several = [one.clone()];
                    several.as_slice()
                }
                (_, None) => continue,
            };
            for table in tables.iter().filter_map(Value::as_object) {
                write!(f, "\n{}\n", section.title())?;
                write_keys(f, section, table, &self.notes)?;
            }
        }
        Ok(())
    }
}

/// Lines of a section's keys. JSON of a text, a number or a list of texts is TOML too.
fn write_keys(
    f: &mut fmt::Formatter<'_>,
    section: &Section,
    values: &Map<String, Value>,
    notes: &Notes,
) -> fmt::Result {
    for key in section.keys() {
        let name = key.name;
        let note = notes.get(&(section.name, name));
        match (values.get(name), key.absent) {
            (Some(Value::Null) | None, Absent::Means(what)) => writeln!(f, "# {name}: {what}")?,
            (Some(Value::Null) | None, _) => {}
            (Some(value), _) if value == NOT_SHOWN => writeln!(f, "# {name}: {value}")?,
            (Some(value), _) => match note {
                Some(note) => writeln!(f, "{name} = {value} # {note}")?,
                None => writeln!(f, "{name} = {value}")?,
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = "[node]\nid = [\"ipn:2.0\", \"dtn://beta/\"]\n[store]\nquota = \"1GiB\"\n\
         [external]\nsocket = \"external.sock\"\n[admin]\ntcp = \"127.0.0.1:1\"\ntoken = \"hush-hush\"\n[http]\nlisten = \"127.0.0.1:2\"\n[[token]]\nsecret = \"hush-hush-hush-hush\"\nscopes = [\"read\"]\n[[listen]]\naddress = \"127.0.0.1:4556\"\n\
         [[link]]\nname = \"gamma\"\naddress = \"192.0.2.3\"\nidle_timeout = \"90s\"\n\
         [[route]]\nto = \"ipn:4.*\"\nvia = \"gamma\"\n[[routing]]\nto = \"ipn:9.*\"\nrouter = \"flood\"\n\
         [[contact]]\nfrom = \"ipn:2.0\"\nto = \"ipn:3.0\"\nstart = \"+1s\"\nend = \"+2s\"\nrate = \"1Mbit\"\n\
         [[contact_plan]]\nfile = \"plan\"\n[[discover]]\nperiod = \"2s\"\n";

    fn of(text: &str) -> Effective {
        Effective::read(text, Path::new("beta/node.toml")).unwrap()
    }

    #[test]
    fn what_nobody_set_is_there_with_its_default() {
        let settled = of(FULL).json();
        let link = &settled["link"][0];
        assert_eq!(link["idle_timeout"], "90s");
        assert_eq!(link["answer_timeout"], "10s");
        assert_eq!(link["cut_through"], true);
        assert_eq!(settled["reports"]["collect_most"], 4096);
        assert_eq!(
            (&settled["tls"], &link["peer"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(link["transfer_mru"], 1 << 30, "the quota");
        // 1 GiB has sixteen segments of 64 MiB.
        assert_eq!(settled["store"]["segment"], 64 << 20);
    }

    #[test]
    fn every_key_that_has_no_default_is_worked_out_or_has_no_value() {
        const WITHOUT: [&str; 41] = [
            "endpoint",
            "acknowledgments",
            "copies",
            "interfaces",
            "accept",
            "like",
            "on_sent",
            "dialect",
            "custody",
            "latency",
            "signal_delay",
            "mtu",
            "rate",
            "engine",
            "remote_engine",
            "red",
            "light_time",
            "largest_block",
            "blocks",
            "aggregate",
            "key",
            "peer",
            "format",
            "start",
            "fragment",
            "accept_sources",
            "highest_priority",
            "tcp",
            "token",
            "collect",
            "sender",
            "points",
            "program",
            "group",
            "read_group",
            "source_held",
            "source_held_bundles",
            "accept_rate",
            "accept_bundles",
            "held",
            "held_bundles",
        ];
        let settled = of(FULL).json();
        for section in SECTIONS.iter().filter(|it| it.occurs != Occurs::Top) {
            let table = match &settled[section.name] {
                Value::Array(list) => &list[0],
                one => one,
            };
            for key in section.keys().filter(|_| !table.is_null()) {
                let value = &table[key.name];
                let name = (section.name, key.name);
                assert!(!value.is_null() || WITHOUT.contains(&key.name), "{name:?}");
            }
        }
    }

    /// The part of it that is of no use without its secret, which is not shown.
    const OPEN: &str = "[http]\nlisten = \"127.0.0.1:2\"\n[[token]]\nsecret = \"hush-hush-hush-hush\"\nscopes = [\"read\"]\n";

    #[test]
    fn the_text_is_a_node_file_that_means_the_same() {
        let path = Path::new("beta/node.toml");
        let text = FULL
            .replace("tcp =", "# tcp =")
            .replace("token =", "# token =")
            .replace(OPEN, "");
        let parsed = |text: &str| format!("{:?}", NodeFile::parse(text, path).unwrap());
        let written = of(&text).to_string();
        // A store's segments that follow from its quota are then said.
        let without = |text: &str| {
            parsed(text).replace("segment_octets: None", "segment_octets: Some(67108864)")
        };
        assert_eq!(without(&text), without(&written));
    }

    #[test]
    fn a_link_over_udp_has_no_settings_of_sessions() {
        let path = Path::new("beta/node.toml");
        let text = "[node]\nid = \"ipn:2.0\"\n[[listen]]\naddress = \"127.0.0.1\"\nprotocol = \"udp\"\n\
             [[link]]\nname = \"a\"\naddress = \"192.0.2.3\"\nprotocol = \"udp\"\npeer = \"ipn:3.0\"\n";
        let settled = of(text).json();
        let (link, listener) = (&settled["link"][0], &settled["listen"][0]);
        assert_eq!(
            (&link["mtu"], &link["rate"]),
            (&json!(1_232), &json!("10Mbit"))
        );
        assert!(link["keepalive"].is_null() && listener["tls"].is_null());
        let parsed = |text: &str| NodeFile::parse(text, path).unwrap().node.links;
        let written = of(text).to_string();
        assert_eq!(
            format!("{:?}", parsed(text)),
            format!("{:?}", parsed(&written))
        );
        assert_eq!(written_rate(1), "8bit");
        assert_eq!(written_rate(125_000_000), "1Gbit");
    }

    #[test]
    fn memory_says_where_it_comes_from() {
        let shown = of(FULL).to_string();
        let line = |start: &str| shown.lines().find(|line| line.starts_with(start));
        assert!(line("memory = ").is_some_and(|line| line.contains("# a quarter of the ")));
        assert!(line("queue = ").is_some_and(|line| line.ends_with("# a part of [node] memory")));
        let said = of(&FULL.replace("[store]", "memory = \"64MiB\"\n[store]"));
        assert_eq!(said.values["node"]["memory"], 64 << 20);
        assert!(said.to_string().contains("memory = 67108864\n"));
        assert_eq!(said.values["store"]["queue"], 4 << 20);
        assert_eq!(said.values["store"]["memory"], 15 << 20);
    }

    #[test]
    fn secrets_are_not_shown() {
        let settled = of(FULL);
        assert_eq!(settled.values["admin"]["token"], NOT_SHOWN);
        let text = settled.to_string();
        assert!(
            text.contains("# token: ") && !text.contains("hush"),
            "{text}"
        );
    }
}
