//! The differences between the present and the desired configuration of a node: changes for its core and its drivers, and words for an operator.

use std::collections::{BTreeMap, BTreeSet};

use dhow_document::Document;
use dhow_node::changes::{ChangedLink, ChangedListener, Changes, LiveSettings};
use dhow_node::config::{Config, LinkConfig, ListenerConfig, ListenerId, Route};
use dhow_node::contacts::PlannedContact;
use dhow_node::view::LinkOrigin;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::desired::Desired;
use super::edit::Edit;
use crate::config::NodeFile;
use crate::config::file::{DialSettings, ListenSettings};
use crate::config::schema::SECTIONS;
use dhow_bundle::protocol::Transport;

/// Contacts that are named one by one; of more only the number is told.
const CONTACTS_NAMED: usize = 100;

/// One thing that is added, removed or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// `link`, `listener`, `route`, `contact`, `setting`, `token` or `tls`.
    pub what: &'static str,
    /// Its name: of a route `ipn:4.* via gamma`.
    pub name: String,
    /// The keys that differ, where it is changed and they are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}

/// All differences, as an operator reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// New ones.
    pub added: Vec<Difference>,
    /// Parts of the configuration that go.
    pub removed: Vec<Difference>,
    /// Parts that stay and have other settings.
    pub changed: Vec<Difference>,
}

impl Summary {
    /// Whether nothing differs.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// A listener that runs.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Its number.
    pub id: ListenerId,
    /// Its address and what its driver needs.
    pub settings: ListenSettings,
    /// Its policy.
    pub config: ListenerConfig,
}

/// The differences, for the node and for its drivers.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The changes for the node.
    pub changes: Changes,
    /// The addresses of links that come, lead elsewhere or have other settings, by their names.
    pub dials: Vec<(String, DialSettings)>,
    /// Links whose key has other content: their sessions under the one before end at once.
    pub rekeyed: Vec<String>,
    /// Listeners that are opened.
    pub opened: Vec<(ListenerId, ListenSettings)>,
    /// Listeners that have other settings of their connections.
    pub adapted: Vec<(ListenerId, ListenSettings)>,
    /// The listeners that run from then on.
    pub listeners: Vec<Listener>,
    /// The summary for the operator.
    pub summary: Summary,
}

impl Comparison {
    /// Compares what runs, by a file and its text, with what is desired.
    #[must_use]
    pub fn of(
        (running, text, edits): (&NodeFile, &str, &[Edit]),
        listeners: &[Listener],
        desired: &Desired,
    ) -> Self {
        let mut comparison = Self::default();
        let keys = Keys::of(running, text, desired);
        comparison.compare_links((running, edits), desired, &keys);
        comparison.compare_listeners(listeners, &desired.file, &keys);
        comparison.compare_routes(&running.node.routes, &desired.file.node.routes);
        comparison.compare_contacts(&running.node, &desired.file.node);
        comparison.compare_settings(running, &desired.file, &keys);
        comparison
    }

    fn compare_links(
        &mut self,
        (running, edits): (&NodeFile, &[Edit]),
        desired: &Desired,
        keys: &Keys,
    ) {
        let (was, is) = (links(running, edits), links(&desired.file, &desired.edits));
        for name in was.keys().filter(|name| !is.contains_key(*name)) {
            self.changes.links_deleted.push((*name).to_owned());
            self.summary.removed.push(one("link", *name));
        }
        for (name, (origin, config, dial)) in &is {
            let changed = || ChangedLink {
                origin: *origin,
                config: (*config).clone(),
            };
            let Some((known_origin, known, known_dial)) = was.get(name) else {
                self.change_link(name, changed(), dial);
                self.summary.added.push(one("link", *name));
                continue;
            };
            let leads_elsewhere = place(dial) != place(known_dial);
            if (known, known_origin) == (config, origin) && known_dial == dial {
                continue;
            }
            let has_other_key = dial.segment_key != known_dial.segment_key;
            if has_other_key {
                self.rekeyed.push((*name).to_owned());
            }
            // The node knows no keys: one with another key is another link.
            if leads_elsewhere || has_other_key {
                self.changes.links_deleted.push((*name).to_owned());
                let routes = desired.file.node.routes.iter();
                let over = routes.filter(|route| route.via == *name);
                self.changes.routes.extend(over.cloned());
            }
            self.change_link(name, changed(), dial);
            if known != config || known_dial != dial {
                let mut keys = keys.of_name("link", "name", name);
                if has_other_key && !keys.iter().any(|it| it == "key") {
                    keys.push("key".to_owned());
                }
                self.summary.changed.push(changed_one("link", *name, keys));
            }
        }
    }

    /// A link with another policy is another link, which is dialled as well.
    fn change_link(&mut self, name: &str, changed: ChangedLink, dial: &DialSettings) {
        self.changes.links.push(changed);
        self.dials.push((name.to_owned(), dial.clone()));
    }

    fn compare_listeners(&mut self, known: &[Listener], desired: &NodeFile, keys: &Keys) {
        let mut known: Vec<&Listener> = known.iter().collect();
        let mut taken: BTreeSet<u32> = known.iter().map(|it| it.id.0).collect();
        let mut fresh = Vec::new();
        let wanted = desired.listen.iter().zip(&desired.node.listeners);
        for (settings, config) in wanted {
            let same = known
                .iter()
                .position(|it| address(&it.settings) == address(settings));
            let Some(listener) = same.map(|at| known.remove(at)) else {
                fresh.push((settings, config));
                continue;
            };
            let id = listener.id;
            let before = &listener.config;
            let is_other = before.policy != config.policy || before.protocol != config.protocol;
            if is_other {
                let config = config.clone();
                self.changes.listeners.push(ChangedListener { id, config });
            }
            if listener.settings != *settings {
                self.adapted.push((id, settings.clone()));
            }
            if is_other || listener.settings != *settings {
                let name = shown(settings);
                let keys = keys.of_listener(settings);
                self.summary
                    .changed
                    .push(changed_one("listener", name, keys));
            }
            self.keep(id, settings, config);
        }
        for listener in known {
            self.changes.listeners_closed.push(listener.id);
            let name = shown(&listener.settings);
            self.summary.removed.push(one("listener", name));
        }
        // The numbers of those that are closed in this very change are not used again: their sessions are ending.
        for (settings, config) in fresh {
            let Some(free) = (0..=u32::MAX).find(|id| !taken.contains(id)) else {
                return;
            };
            taken.insert(free);
            let id = ListenerId(free);
            let changed = ChangedListener {
                id,
                config: config.clone(),
            };
            self.changes.listeners.push(changed);
            self.opened.push((id, settings.clone()));
            self.summary.added.push(one("listener", shown(settings)));
            self.keep(id, settings, config);
        }
    }

    fn keep(&mut self, id: ListenerId, settings: &ListenSettings, config: &ListenerConfig) {
        let (settings, config) = (settings.clone(), config.clone());
        self.listeners.push(Listener {
            id,
            settings,
            config,
        });
    }

    fn compare_routes(&mut self, was: &[Route], is: &[Route]) {
        let hop = |route: &Route| (route.to.clone(), route.via.clone());
        let name = |route: &Route| format!("{} via {}", route.to, route.via);
        for route in was.iter().filter(|route| !is.contains(route)) {
            self.changes.routes_deleted.push(route.clone());
            match is.iter().any(|other| hop(other) == hop(route)) {
                true => {
                    let keys = vec!["priority".to_owned()];
                    let changed = changed_one("route", name(route), keys);
                    self.summary.changed.push(changed);
                }
                false => self.summary.removed.push(one("route", name(route))),
            }
        }
        for route in is.iter().filter(|route| !was.contains(route)) {
            self.changes.routes.push(route.clone());
            if !was.iter().any(|other| hop(other) == hop(route)) {
                self.summary.added.push(one("route", name(route)));
            }
        }
    }

    fn compare_contacts(&mut self, was: &Config, is: &Config) {
        if was.contacts == is.contacts {
            return;
        }
        let set = |config: &Config| config.contacts.iter().collect::<BTreeSet<_>>();
        let (was, is) = (set(was), set(is));
        self.changes.contacts_deleted = was.difference(&is).cloned().collect();
        self.changes.contacts = is.difference(&was).cloned().collect();
        let named = |contacts: &[PlannedContact]| match contacts.len() {
            0..=CONTACTS_NAMED => contacts
                .iter()
                .map(|it| {
                    let start = it.start.as_millis();
                    let name = format!("from {} to {} at DTN time {start} ms", it.from, it.to);
                    one("contact", name)
                })
                .collect(),
            more => vec![one("contact", format!("{more} contacts"))],
        };
        let (deleted, added) = (&self.changes.contacts_deleted, &self.changes.contacts);
        self.summary.removed.extend(named(deleted));
        self.summary.added.extend(named(added));
    }

    fn compare_settings(&mut self, was: &NodeFile, is: &NodeFile, keys: &Keys) {
        let live = |config: &Config| LiveSettings {
            reports: config.reports,
            payload_checksum: config.payload_checksum,
            default_lifetime_ms: config.default_lifetime_ms,
            highest_priority: config.highest_priority,
        };
        let settings = live(&is.node);
        if live(&was.node) != settings {
            self.changes.settings = Some(settings);
        }
        for (section, of) in [
            ("node", "setting"),
            ("api", "setting"),
            ("reports", "setting"),
        ] {
            for key in keys.of_section(section) {
                self.summary
                    .changed
                    .push(one(of, format!("{section}.{key}")));
            }
        }
        let tokens = |file: &NodeFile| file.http.as_ref().map(|it| it.tokens.clone());
        if tokens(was) != tokens(is) {
            self.summary.changed.push(one("token", "[[token]]"));
        }
        let token = |file: &NodeFile| file.admin.as_ref().map(|it| it.token.clone());
        if token(was) != token(is) {
            self.summary.changed.push(one("token", "admin.token"));
        }
    }
}

/// Links by name: their origin, settings and addresses.
fn links<'a>(
    file: &'a NodeFile,
    edits: &[Edit],
) -> BTreeMap<&'a str, (LinkOrigin, &'a LinkConfig, &'a DialSettings)> {
    let added: BTreeSet<&str> = edits
        .iter()
        .filter_map(|edit| match edit {
            Edit::LinkAdd { settings } => settings.get("name").and_then(Json::as_str),
            _ => None,
        })
        .collect();
    let links = file.node.links.iter().zip(&file.dial);
    let named = links.map(|(config, dial)| {
        let name = config.name.as_str();
        let origin = match added.contains(name) {
            true => LinkOrigin::Added,
            false => LinkOrigin::Configured,
        };
        (name, (origin, config, dial))
    });
    named.collect()
}

/// The place to which a link leads.
fn place(dial: &DialSettings) -> (Transport, &str, u16) {
    (dial.transport, &dial.host, dial.port)
}

/// The socket of a listener: one that speaks something else over UDP is another.
fn address(settings: &ListenSettings) -> (Transport, &str, u16, Option<&'static str>) {
    let is_udp = settings.transport == Transport::Udp;
    let carried = is_udp.then(|| settings.protocol.name());
    (settings.transport, &settings.host, settings.port, carried)
}

/// A listener's address, as people write it.
fn shown(settings: &ListenSettings) -> String {
    let (host, port) = (&settings.host, settings.port);
    let address = match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    match settings.transport {
        Transport::Udp => format!("{address}/udp"),
        _ => address,
    }
}

fn one(what: &'static str, name: impl Into<String>) -> Difference {
    changed_one(what, name, Vec::new())
}

fn changed_one(what: &'static str, name: impl Into<String>, keys: Vec<String>) -> Difference {
    Difference {
        what,
        name: name.into(),
        keys,
    }
}

/// All settings of both, to name the keys that differ.
#[derive(Default)]
struct Keys {
    was: Map<String, Json>,
    is: Map<String, Json>,
}

impl Keys {
    fn of(running: &NodeFile, text: &str, desired: &Desired) -> Self {
        // Both have been read before.
        let settled = |text| Document::read(&running.path, text, SECTIONS).map(|it| it.settled());
        match (settled(text), settled(&desired.text)) {
            (Ok(was), Ok(is)) => Self { was, is },
            _ => Self::default(),
        }
    }

    fn of_section(&self, section: &str) -> Vec<String> {
        differing(self.was.get(section), self.is.get(section))
    }

    /// The sections of a kind in which a key has a value.
    fn of_name(&self, section: &str, key: &str, value: &str) -> Vec<String> {
        let named = |settings: &Json| settings.get(key).and_then(Json::as_str) == Some(value);
        differing(
            find(&self.was, section, named),
            find(&self.is, section, named),
        )
    }

    fn of_listener(&self, settings: &ListenSettings) -> Vec<String> {
        let (host, port) = (settings.host.clone(), settings.port);
        let is_at = move |section: &Json| {
            let address = section.get("address").and_then(Json::as_str);
            address
                .and_then(crate::config::address::split_address)
                .is_some_and(|(other, at)| other == host && (at == port || port == 1113))
        };
        differing(
            find(&self.was, "listen", &is_at),
            find(&self.is, "listen", &is_at),
        )
    }
}

fn find<'a>(
    settled: &'a Map<String, Json>,
    section: &str,
    is_it: impl Fn(&Json) -> bool,
) -> Option<&'a Json> {
    let mut sections = settled.get(section)?.as_array()?.iter();
    sections.find(|section| is_it(section))
}

fn differing(was: Option<&Json>, is: Option<&Json>) -> Vec<String> {
    let (Some(Json::Object(was)), Some(Json::Object(is))) = (was, is) else {
        return Vec::new();
    };
    let keys = is
        .iter()
        .filter(|(key, value)| was.get(*key) != Some(value));
    keys.map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::desired::{Contacts, Texts};
    use super::*;
    use crate::datagrams::seal::Keys;
    use dhow_bundle::DtnTime;
    use std::path::Path;

    const FILE: &str = "[node]\nid = \"ipn:1.0\"\n[[listen]]\naddress = \"0.0.0.0\"\n\
         [[link]]\nname = \"beta\"\naddress = \"192.0.2.2\"\n\
         [[link]]\nname = \"gamma\"\naddress = \"192.0.2.3\"\n\
         [[route]]\nto = \"ipn:4.*\"\nvia = \"beta\"\n";

    fn compare(loaded: &str) -> Comparison {
        let keys = Keys::new();
        let texts = |loaded| Texts {
            path: Path::new("node.toml"),
            started: FILE,
            loaded,
            start: DtnTime::from_millis(0),
            keys: &keys,
        };
        let running = Desired::compose(texts(FILE), &[], Contacts::Read).unwrap();
        let desired = Desired::compose(texts(loaded), &[], Contacts::Read).unwrap();
        let file = &running.file;
        let listeners = file.listen.iter().zip(&file.node.listeners);
        let listeners: Vec<Listener> = (0..)
            .zip(listeners)
            .map(|(id, (settings, config))| Listener {
                id: ListenerId(id),
                settings: settings.clone(),
                config: config.clone(),
            })
            .collect();
        Comparison::of((file, FILE, &[]), &listeners, &desired)
    }

    fn names(differences: &[Difference]) -> Vec<String> {
        let names = differences.iter();
        names
            .map(|it| format!("{} {} {}", it.what, it.name, it.keys.join(",")))
            .collect()
    }

    #[test]
    fn the_same_file_and_one_with_other_comments_change_nothing() {
        for text in [FILE.to_owned(), format!("# more\n{FILE}\n# end\n")] {
            let comparison = compare(&text);
            assert!(comparison.changes.is_empty() && comparison.summary.is_empty());
        }
    }

    #[test]
    fn each_difference_is_named() {
        let text = FILE
            .replace("\"beta\"\naddress = \"192.0.2.2\"", "\"beta\"\naddress = \"192.0.2.2\"\nkeepalive = \"9s\"")
            .replace("[[link]]\nname = \"gamma\"\naddress = \"192.0.2.3\"", "[[link]]\nname = \"delta\"\naddress = \"192.0.2.4\"\n[[link]]\nname = \"gamma\"\naddress = \"192.0.2.9\"")
            .replace("ipn:4.*", "ipn:5.*")
            .replace("address = \"0.0.0.0\"\n", "address = \"0.0.0.0\"\nrelay = false\n[[listen]]\naddress = \"[::1]:7\"\n")
            + "[reports]\ngenerate = [\"delivery\"]\n";
        let Comparison {
            changes,
            dials,
            opened,
            summary,
            listeners,
            ..
        } = compare(&text);
        assert_eq!(
            names(&summary.changed),
            [
                "link beta keepalive",
                "link gamma address",
                "listener 0.0.0.0:4556 relay",
                "setting reports.generate "
            ]
        );
        assert_eq!(
            names(&summary.added),
            [
                "link delta ",
                "listener [::1]:7 ",
                "route ipn:5.* via beta "
            ]
        );
        assert_eq!(names(&summary.removed), ["route ipn:4.* via beta "]);
        assert_eq!(changes.links_deleted, ["gamma"], "it leads elsewhere");
        let dialled: Vec<&str> = dials.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            dialled,
            ["beta", "delta", "gamma"],
            "one with another policy is another link"
        );
        assert_eq!(opened.len(), 1);
        assert_eq!((opened[0].0, listeners.len()), (ListenerId(1), 2));
        assert!(changes.settings.is_some());
    }

    #[test]
    fn a_key_with_other_content_ends_the_sessions_of_its_link_once_it_is_read_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("node.toml");
        let text = "[node]\nid = \"ipn:1.0\"\n[[link]]\nname = \"delta\"\naddress = \"192.0.2.2\"\n\
             protocol = \"ltp\"\npeer = \"ipn:2.0\"\nkey = \"k\"\n";
        let write = |key: &str| std::fs::write(place.path().join("k"), key).unwrap();
        let compose = |text: &str, keys: &Keys| {
            let texts = Texts {
                path: &path,
                started: text,
                loaded: text,
                start: DtnTime::from_millis(0),
                keys,
            };
            Desired::compose(texts, &[], Contacts::Read).unwrap()
        };
        write("00112233445566778899");
        let running = compose(text, &Keys::new());
        let against = |desired: &Desired| Comparison::of((&running.file, text, &[]), &[], desired);
        let same = compose(text, &Keys::new());
        assert!(against(&same).summary.is_empty());
        write("99887766554433221100");
        // A change at run time is no reason to read the file.
        let edited = compose(text, &running.file.keys());
        assert!(against(&edited).summary.is_empty());
        let desired = compose(text, &Keys::new());
        let comparison = against(&desired);
        assert_eq!(names(&comparison.summary.changed), ["link delta key"]);
        assert_eq!(comparison.changes.links_deleted, ["delta"]);
        assert_eq!(comparison.rekeyed, ["delta"]);
        let without = compose(&text.replace("key = \"k\"\n", ""), &Keys::new());
        assert_eq!(against(&without).rekeyed, ["delta"]);
    }

    #[test]
    fn a_listener_that_moves_has_another_number() {
        let comparison = compare(&FILE.replace("0.0.0.0", "127.0.0.1"));
        assert_eq!(comparison.changes.listeners_closed, [ListenerId(0)]);
        assert_eq!(comparison.opened[0].0, ListenerId(1));
        let text = FILE.replace("[[listen]]\naddress = \"0.0.0.0\"\n", "");
        let comparison = compare(&text);
        assert_eq!(comparison.changes.listeners_closed, [ListenerId(0)]);
        assert!(comparison.listeners.is_empty());
    }
}
