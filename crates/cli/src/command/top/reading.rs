//! One reading of a node: its answers as rows.

use std::cmp::Reverse;

use serde_json::Value;

/// Destinations that a reading keeps, at most: those with the most bundles. With names of 100 octets that is some 4 MB.
pub const DESTINATIONS: usize = 20_000;

/// Links that a reading keeps, at most: as many as a node has.
const LINKS: usize = 4_096;

/// Contacts that a reading keeps, at most: those that are on or come first.
const CONTACTS: usize = 1_000;

/// The answers of a node about itself at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub node_id: String,
    pub version: String,
    pub uptime_ms: u64,
    pub dtn_time_ms: Option<u64>,
    pub bundles: u64,
    pub octets: u64,
    pub quota_octets: u64,
    /// Octets of memory that the index of bundles takes; `None` of a node that does not tell.
    pub index_octets: Option<u64>,
    pub links: Vec<Link>,
    pub destinations: Vec<Destination>,
    /// Destinations beyond those that are kept.
    pub destinations_left_out: usize,
    pub contacts: Vec<Contact>,
}

/// A link, with what its sessions carried since they began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    pub name: String,
    pub peer: String,
    pub state: String,
    pub retry_in_ms: Option<u64>,
    pub octets_in: u64,
    pub octets_out: u64,
    pub queued: Option<u64>,
    pub heard_ago_ms: Option<u64>,
    pub last_error: String,
    /// False for sessions that a neighbour made: no link can be taken up or down.
    pub is_link: bool,
}

/// The bundles for a destination.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Destination {
    pub name: String,
    pub bundles: u64,
    pub octets: u64,
    pub oldest_ms: Option<u64>,
    pub next_expiry_ms: Option<u64>,
    /// The next hop, or why they wait, in a word or two.
    pub next_hop: String,
}

/// A planned contact.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contact {
    pub from: String,
    pub to: String,
    pub state: String,
    pub start_dtn_ms: u64,
    pub end_dtn_ms: u64,
    pub octets_per_s: u64,
}

/// The answers that make a reading.
#[derive(Clone, Debug)]
pub struct Answers {
    pub node: Value,
    pub links: Value,
    pub sessions: Value,
    pub destinations: Value,
    pub contacts: Value,
}

impl Reading {
    /// A reading of a node's answers; fields that they lack are empty.
    pub fn of(answers: &Answers) -> Self {
        let node = &answers.node;
        let store = node.get("store").unwrap_or(&Value::Null);
        let mut destinations: Vec<_> = entries(&answers.destinations).map(destination).collect();
        destinations.sort_by(|one, other| {
            (Reverse(one.bundles), &one.name).cmp(&(Reverse(other.bundles), &other.name))
        });
        let destinations_left_out = destinations.len().saturating_sub(DESTINATIONS);
        destinations.truncate(DESTINATIONS);
        destinations.shrink_to_fit();
        Self {
            node_id: text(node, "node_id"),
            version: text(node, "version"),
            uptime_ms: number(node, "uptime_ms").unwrap_or(0),
            dtn_time_ms: number(node, "dtn_time_ms"),
            bundles: number(store, "bundles").unwrap_or(0),
            octets: number(store, "octets").unwrap_or(0),
            quota_octets: number(store, "effective_quota_octets").unwrap_or(0),
            index_octets: number(store, "index_octets"),
            links: links(&answers.links, &answers.sessions),
            destinations,
            destinations_left_out,
            contacts: contacts(&answers.contacts),
        }
    }

    /// The share of the store that is full, 0 to 1.
    pub fn fill(&self) -> f64 {
        if self.quota_octets == 0 {
            return 0.0;
        }
        let thousandths = u128::from(self.octets) * 1000 / u128::from(self.quota_octets);
        f64::from(u16::try_from(thousandths.min(1000)).unwrap_or(1000)) / 1000.0
    }
}

/// The links, then neighbours that have a session of their own making.
fn links(links: &Value, sessions: &Value) -> Vec<Link> {
    let mut rows: Vec<Link> = entries(links).take(LINKS).map(link).collect();
    for session in entries(sessions) {
        let name = session.get("link").and_then(Value::as_str);
        let peer = text(session, "peer");
        let found = rows.iter().position(|row| match name {
            Some(name) => row.is_link && row.name == name,
            None => !row.is_link && row.peer == peer,
        });
        let heard = number(session, "heard_ago_ms");
        let place = match found {
            Some(place) => place,
            None if rows.len() >= LINKS => continue,
            None => {
                rows.push(Link {
                    name: name.map_or_else(|| format!("from {peer}"), str::to_owned),
                    peer,
                    state: "up".to_owned(),
                    heard_ago_ms: heard,
                    ..Link::default()
                });
                rows.len() - 1
            }
        };
        let Some(row) = rows.get_mut(place) else {
            continue;
        };
        let add = |sum: &mut u64, key| *sum = sum.saturating_add(number(session, key).unwrap_or(0));
        add(&mut row.octets_in, "octets_received");
        add(&mut row.octets_out, "octets_sent");
        row.heard_ago_ms = match (row.heard_ago_ms, heard) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    rows
}

fn link(entry: &Value) -> Link {
    Link {
        name: text(entry, "name"),
        peer: text(entry, "peer"),
        state: text(entry, "state"),
        retry_in_ms: number(entry, "retry_in_ms"),
        queued: number(entry, "queued"),
        heard_ago_ms: number(entry, "heard_ago_ms"),
        last_error: text(entry, "last_error"),
        is_link: true,
        ..Link::default()
    }
}

fn destination(entry: &Value) -> Destination {
    let is = |key: &str| entry.get(key) == Some(&Value::Bool(true));
    let next_hop = match text(entry, "next_hop") {
        hop if !hop.is_empty() => hop,
        _ if is("local") => "here".to_owned(),
        _ if is("routed") => "waits".to_owned(),
        _ => "no route".to_owned(),
    };
    Destination {
        name: text(entry, "destination"),
        bundles: number(entry, "bundles").unwrap_or(0),
        octets: number(entry, "octets").unwrap_or(0),
        oldest_ms: number(entry, "oldest_ms"),
        next_expiry_ms: number(entry, "next_expiry_ms"),
        next_hop,
    }
}

/// Contacts that are not over: those that are on, then by their beginning.
fn contacts(list: &Value) -> Vec<Contact> {
    let mut contacts: Vec<_> = entries(list)
        .filter(|entry| text(entry, "state") != "over")
        .map(|entry| Contact {
            from: text(entry, "from"),
            to: text(entry, "to"),
            state: text(entry, "state"),
            start_dtn_ms: number(entry, "start_dtn_ms").unwrap_or(0),
            end_dtn_ms: number(entry, "end_dtn_ms").unwrap_or(0),
            octets_per_s: number(entry, "octets_per_s").unwrap_or(0),
        })
        .collect();
    contacts.sort_by_key(|contact| (contact.state != "now", contact.start_dtn_ms));
    contacts.truncate(CONTACTS);
    contacts
}

fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// A text as it may be drawn: no control characters, which a terminal would obey.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|it| if it.is_control() { '?' } else { it })
        .collect()
}

fn text(value: &Value, key: &str) -> String {
    plain(value.get(key).and_then(Value::as_str).unwrap_or_default())
}

fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key).and_then(Value::as_u64)
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::*;

    /// Answers of a node with so many links and destinations.
    pub fn answers(links: u64, destinations: u64, seconds: u64) -> Answers {
        let link = |place: u64| {
            let state = if place % 3 == 2 { "waiting" } else { "up" };
            let error = (state == "waiting").then_some("Connection refused (os error 111)");
            json!({"name": format!("link{place}"), "enabled": true, "state": state, "peer": format!("ipn:{place}.0"),
                "retry_in_ms": null, "queued": place * 3, "heard_ago_ms": 1_200 * place, "last_error": error})
        };
        let session = |place: u64| {
            json!({"session": place, "link": format!("link{place}"), "peer": format!("ipn:{place}.0"), "heard_ago_ms": 400,
                "octets_sent": seconds * 125_000 * place, "octets_received": seconds * 1_000})
        };
        let destination = |place: u64| {
            json!({"destination": format!("ipn:{}.1", place + 100), "bundles": place + 1, "octets": (place + 1) * 1_500,
                "oldest_ms": 60_000 + place, "next_expiry_ms": 3_600_000 - place, "next_hop": null, "routed": place.is_multiple_of(2), "local": false})
        };
        Answers {
            node: json!({"node_id": "ipn:1.0", "version": "0.1.0", "uptime_ms": seconds * 1_000, "dtn_time_ms": 800_000_000_000_u64 + seconds * 1_000,
                "sessions": 2, "store": {"bundles": 17, "octets": 250_000_000, "effective_quota_octets": 1_000_000_000, "index_octets": 3_200_000}}),
            links: (1..=links).map(link).collect(),
            sessions: (1..=links).filter(|it| it % 3 != 2).map(session).collect(),
            destinations: (0..destinations).map(destination).collect(),
            contacts: json!([
                {"from": "ipn:1.0", "to": "ipn:8.0", "state": "next", "start_dtn_ms": 800_000_600_000_u64, "end_dtn_ms": 800_000_900_000_u64, "octets_per_s": 125_000},
                {"from": "ipn:1.0", "to": "ipn:7.0", "state": "now", "start_dtn_ms": 800_000_000_000_u64, "end_dtn_ms": 800_000_300_000_u64, "octets_per_s": 125_000},
                {"from": "ipn:1.0", "to": "ipn:6.0", "state": "over", "start_dtn_ms": 1, "end_dtn_ms": 2, "octets_per_s": 1},
            ]),
        }
    }

    #[test]
    fn a_reading_joins_links_with_their_sessions_and_keeps_the_largest_destinations() {
        let reading = Reading::of(&answers(3, 20_003, 10));
        assert_eq!(reading.links.len(), 3);
        assert_eq!(
            (reading.links[0].octets_out, reading.links[0].octets_in),
            (1_250_000, 10_000)
        );
        assert_eq!(
            reading.links[1].last_error,
            "Connection refused (os error 111)"
        );
        assert_eq!(reading.destinations.len(), DESTINATIONS);
        assert_eq!(reading.destinations_left_out, 3);
        assert_eq!(reading.destinations[0].bundles, 20_003);
        assert_eq!(
            reading
                .contacts
                .iter()
                .map(|it| it.to.as_str())
                .collect::<Vec<_>>(),
            ["ipn:7.0", "ipn:8.0"]
        );
        assert!((reading.fill() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn a_session_that_the_neighbour_made_has_a_row_of_its_own() {
        let mut answers = answers(1, 0, 1);
        answers.sessions = json!([{"link": null, "peer": "ipn:9.0", "octets_sent": 5, "heard_ago_ms": 7}, {"link": null, "peer": "ipn:9.0", "octets_sent": 6, "heard_ago_ms": 3}]);
        let reading = Reading::of(&answers);
        let row = &reading.links[1];
        assert_eq!(
            (
                row.name.as_str(),
                row.octets_out,
                row.heard_ago_ms,
                row.is_link
            ),
            ("from ipn:9.0", 11, Some(3), false)
        );
    }

    #[test]
    fn answers_that_are_no_objects_are_an_empty_reading_and_control_characters_are_not_drawn() {
        let nothing = || Value::Null;
        let answers = Answers {
            node: nothing(),
            links: json!({}),
            sessions: json!(["x"]),
            destinations: json!(7),
            contacts: nothing(),
        };
        let reading = Reading::of(&answers);
        assert!(reading.destinations.is_empty() && reading.node_id.is_empty());
        assert_eq!(plain("a\u{1b}[2Jb\n"), "a?[2Jb?");
    }
}
